//! Ops about shapes and about moving elements: reshape, slice, gather, concatenate, tile.

use crate::op::Op;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[];
