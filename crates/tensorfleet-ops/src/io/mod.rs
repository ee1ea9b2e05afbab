//! Saving, restoring, summaries, files and debugging output.

use crate::op::Op;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[];
