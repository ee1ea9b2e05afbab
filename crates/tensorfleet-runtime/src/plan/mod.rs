//! Planning: pure functions from graph to graph, without I/O, and without running more than a few constant expressions.
//!
//! A session's graph is placed as a whole ([`place`]). For a step of one process [`prune`] cuts out what the step needs.
//! For a step of a cluster [`plan_step`] does that, simplifies the rest and cuts it at the borders of tasks.

mod colocation;
mod cut;
mod device;
#[cfg(test)]
mod fleet;
mod fold;
mod loops;
#[cfg(test)]
mod loops_tests;
mod names;
mod partition;
#[cfg(test)]
mod partition_tests;
mod place;
#[cfg(test)]
mod place_tests;
mod prune;
#[cfg(test)]
mod random_graph_tests;
mod required_tasks;
mod simplify;
#[cfg(test)]
mod simplify_tests;
mod spread;
mod step_graph;
#[cfg(test)]
pub(crate) mod testing;

pub use device::{Device, DeviceIndex};
pub use partition::{Partition, PlanOptions, StepPlan, plan_step};
pub use place::{PlaceOptions, describe, place};
pub use prune::{Signature, prune};
pub use required_tasks::required_tasks;
