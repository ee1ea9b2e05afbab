//! Random numbers: TensorFlow's distributions from TensorFlow's generator.

use crate::op::Op;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[];
