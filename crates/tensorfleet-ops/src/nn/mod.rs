//! Linear algebra and neural-network ops: matrix products, biases, activations, softmax, convolutions.

mod activations;
mod bias;
mod elementwise;
mod matmul;
mod product;
mod real;
mod softmax;

use crate::op::Op;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[matmul::OPS, bias::OPS, activations::OPS, softmax::OPS];
