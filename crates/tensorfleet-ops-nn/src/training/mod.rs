//! Updates of variables by optimizers, dense and sparse.

mod optimizers;
mod slots;
#[cfg(test)]
mod tests;
mod update;

use tensorfleet_kernel::op::Op;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[optimizers::OPS];
