//! Saving, restoring, summaries, files and debugging output.

mod checkpoints;

use crate::op::Op;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[checkpoints::OPS];
