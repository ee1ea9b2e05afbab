//! Conditionals, loops, function boundaries and transfers between devices.

mod boundary;
mod calls;
mod flow;
mod transfer;

use tensorfleet_kernel::op::Op;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[boundary::OPS, calls::OPS, flow::OPS, transfer::OPS];
