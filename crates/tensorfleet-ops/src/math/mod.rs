//! Element-wise arithmetic, comparisons, selections, casts and reductions.
//!
//! [`broadcast`] and [`elementwise`] run any element-wise op over any shapes; [`number`] and [`stored`] say how each
//! dtype computes. The other files are families of ops on top of them.

use crate::op::Op;

mod add_n;
mod arg_reduce;
mod binary;
pub(crate) mod broadcast;
mod broadcast_ops;
mod cast;
mod compare;
mod complex;
pub(crate) mod elementwise;
pub(crate) mod number;
pub(crate) mod reduce;
mod reduce_gradients;
mod reduce_ops;
mod scan;
mod segment;
mod segment_gradients;
mod select;
pub(crate) mod special;
pub(crate) mod stored;
mod unary;
pub(crate) mod vector_math;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[
    unary::OPS,
    binary::OPS,
    compare::OPS,
    select::OPS,
    cast::OPS,
    complex::OPS,
    add_n::OPS,
    broadcast_ops::OPS,
    reduce_ops::OPS,
    arg_reduce::OPS,
    scan::OPS,
    segment::OPS,
];
