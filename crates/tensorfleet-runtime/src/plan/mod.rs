//! Planning: pure functions from graph to graph, without I/O, and without running more than a few constant expressions.
//!
//! A session's graph is placed as a whole ([`place`]). Each step is planned by [`plan_step`]: what it needs is cut out,
//! simplified, and cut at the borders of tasks. A session of one process plans for its one device ([`plan_on`]).

mod colocation;
mod constants;
mod cut;
mod device;
mod fold;
mod frames;
mod loops;
mod names;
mod partition;
mod place;
#[cfg(test)]
mod place_tests;
mod plan_step;
mod required_tasks;
mod signature;
mod simplify;
mod spread;
mod step_graph;
mod tasks;
#[cfg(test)]
pub(crate) mod testing;

pub use device::{Device, DeviceIndex};
pub(crate) use frames::{EnterAttrs, FrameIndex, FrameInfo, Frames};
pub use partition::{Partition, Terminals};
pub use place::{PlaceOptions, place, print_placement};
pub use plan_step::{PlanOptions, StepPlan, plan_on, plan_step};
pub use required_tasks::required_tasks;
pub use signature::Signature;
