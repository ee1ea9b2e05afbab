//! Element-wise arithmetic, comparisons, selections, casts and reductions.

use crate::op::Op;

pub(crate) mod vector_math;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[];
