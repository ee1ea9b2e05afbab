//! Linear algebra and neural-network ops: matrix products, biases, activations, softmax, convolutions.

use crate::op::Op;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[];
