//! Ops about shapes and about moving elements: reshape, slice, gather, concatenate, tile.
//!
//! Most of them never look at an element. They say where elements go, as a [`elements::Movement`], often a
//! [`window::Window`], and one engine moves the elements of every dtype.

pub(crate) mod accumulate;
pub(crate) mod axes;
pub(crate) mod concat;
mod cross;
mod diagonal;
pub(crate) mod elements;
mod fill;
pub(crate) mod gather;
mod histogram;
pub(crate) mod indices;
mod matrix_diag;
mod one_hot;
mod pad;
mod reverse;
pub(crate) mod scatter_nd;
mod sets;
mod shape_ops;
pub(crate) mod slice;
pub(crate) mod slice_spec;
mod space;
mod sparse_dense_add;
mod sparse_matmul;
mod sparse_rows;
mod sparse_segment;
mod sparse_tensor;
mod split;
mod stitch;
mod tile;
pub(crate) mod tiles;
mod top_k;
pub(crate) mod transpose;
mod unique;
pub(crate) mod window;

use crate::op::Op;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[
    concat::OPS,
    cross::OPS,
    diagonal::OPS,
    fill::OPS,
    gather::OPS,
    histogram::OPS,
    matrix_diag::OPS,
    one_hot::OPS,
    pad::OPS,
    reverse::OPS,
    scatter_nd::OPS,
    sets::OPS,
    shape_ops::OPS,
    slice::OPS,
    space::OPS,
    sparse_dense_add::OPS,
    sparse_matmul::OPS,
    sparse_rows::OPS,
    sparse_segment::OPS,
    sparse_tensor::OPS,
    split::OPS,
    stitch::OPS,
    tile::OPS,
    top_k::OPS,
    transpose::OPS,
    unique::OPS,
];
