//! Element-wise arithmetic, comparisons, selections, casts and reductions.

use crate::op::Op;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[];
