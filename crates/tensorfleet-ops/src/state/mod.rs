//! Variables, queues, accumulators and other resources as ops.

use crate::op::Op;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[];
