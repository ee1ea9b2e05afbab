//! Planning: pure functions from graph to graph, without I/O and without running anything.
//!
//! A session's graph is placed as a whole ([`place`]). For a step of one process [`prune`] cuts out what the step needs.
//! For a step of a cluster [`plan_step`] does that, simplifies the rest and cuts it at the borders of tasks.

mod colocation;
mod device;
mod place;
#[cfg(test)]
mod place_tests;
mod prune;
mod required_tasks;
#[cfg(test)]
pub(crate) mod testing;

pub use device::{Device, DeviceIndex};
pub use place::{PlaceOptions, describe, place};
pub use prune::{Signature, prune};
pub use required_tasks::required_tasks;
