//! Random numbers with TensorFlow's exact streams, shuffles and samplers.

pub(crate) mod entropy;
pub(crate) mod philox;
pub(crate) mod stream;

mod distributions;
mod fills;

use crate::op::Op;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[fills::OPS];
