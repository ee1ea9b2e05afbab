//! Ops on values: arrays, arithmetic, random numbers, strings, lists, control flow.
//!
//! A family of ops is a module with a table of [`Op`](tensorfleet_kernel::Op)s and the functions the table points to. What other
//! families share of these is public; the rest is reached through [`GROUPS`].

pub mod array;
mod control_flow;
pub mod graph_ops;
mod lists;
mod math;
pub mod random;
pub mod strings;
pub mod variants;

#[cfg(test)]
mod testing;

use tensorfleet_kernel::catalogue::Group;

/// The tables of this crate.
pub static GROUPS: &[Group] = &[
    &[graph_ops::OPS],
    math::FAMILIES,
    array::FAMILIES,
    lists::FAMILIES,
    strings::FAMILIES,
    random::FAMILIES,
    control_flow::FAMILIES,
];
