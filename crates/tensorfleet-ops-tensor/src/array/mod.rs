//! Ops about shapes and about moving elements: reshape, slice, gather, concatenate, tile.
//!
//! Most of them never look at an element. They say where elements go, as a [`Movement`](tensorfleet_numeric::rearrange::Movement), often a
//! [`Window`](tensorfleet_numeric::strided::Window), and one engine moves the elements of every dtype.

pub mod axes;
pub mod concat;
mod cross;
mod diagonal;
mod fill;
pub mod gather;
mod histogram;
pub mod indices;
mod matrix_diag;
mod one_hot;
mod pad;
mod reverse;
pub(crate) mod scatter_nd;
mod sets;
mod shape_ops;
pub mod slice;
pub mod slice_spec;
mod space;
mod sparse_dense_add;
mod sparse_matmul;
mod sparse_rows;
mod sparse_segment;
mod sparse_tensor;
mod split;
mod stitch;
mod tile;
mod top_k;
pub(crate) mod transpose;
mod unique;
mod unravel_index;

use tensorfleet_kernel::op::Op;

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
    unravel_index::OPS,
];
