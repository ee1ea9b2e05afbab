//! Updates of variables by optimizers, dense and sparse.

use crate::op::Op;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[];
