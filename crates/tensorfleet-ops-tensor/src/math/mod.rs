//! Element-wise arithmetic, comparisons, selections, casts and reductions.
//!
//! How each dtype computes, and how a loop runs over any shapes, is said in `tensorfleet-numeric`; the files here are families of ops
//! on top of it.

use tensorfleet_kernel::op::Op;

mod add_n;
mod arg_reduce;
mod binary;
mod broadcast_ops;
mod cast;
mod compare;
mod complex;
mod elementwise_kernels;
pub(crate) mod reduce;
mod reduce_gradients;
mod reduce_ops;
mod scan;
mod segment;
mod segment_gradients;
mod select;
mod unary;

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
