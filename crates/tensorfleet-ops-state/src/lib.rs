//! Ops with state: variables, queues, accumulators, stages, stacks, tensor arrays, tables.

pub mod state;

#[cfg(test)]
mod testing;

use tensorfleet_kernel::catalogue::Group;

/// The tables of this crate.
pub static GROUPS: &[Group] = &[state::FAMILIES];
