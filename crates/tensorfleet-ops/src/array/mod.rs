//! Ops about shapes and about moving elements: reshape, slice, gather, concatenate, tile.
//!
//! Most of them never look at an element. They say where elements go, as a [`elements::Movement`], often a
//! [`window::Window`], and one engine moves the elements of every dtype.

pub(crate) mod axes;
pub(crate) mod concat;
pub(crate) mod elements;
mod fill;
pub(crate) mod gather;
pub(crate) mod indices;
mod shape_ops;
pub(crate) mod slice;
pub(crate) mod slice_spec;
mod split;
mod stitch;
mod tile;
pub(crate) mod transpose;
pub(crate) mod window;

use crate::op::Op;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[
    concat::OPS,
    fill::OPS,
    gather::OPS,
    shape_ops::OPS,
    slice::OPS,
    split::OPS,
    stitch::OPS,
    tile::OPS,
    transpose::OPS,
];
