//! Conditionals, loops and transfers between devices.

use crate::op::Op;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[];
