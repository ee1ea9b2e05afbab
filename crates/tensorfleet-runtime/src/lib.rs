//! Runs graphs: planning, executor, rendezvous, tasks and sessions of this process.
//!
//! A [`Task`] is what a process contributes: a device with its resources. There is one road from a session's graph to a
//! step, whoever drives it:
//!
//! 1. [`plan`] cuts what a signature (feeds, fetches, targets) needs out of the graph, simplifies it and cuts it at the
//!    borders of tasks. A [`PlanCache`] keeps the result.
//! 2. [`compile_partition`] compiles the share of one task into a [`CompiledPartition`]: flat arrays, with the kernels of
//!    the session ([`Kernels`]) and the functions of the graph.
//! 3. [`CompiledPartition::step`] makes a step of it, with what is the step's own ([`StepServices`]); the [`executor`] runs
//!    it.
//!
//! A [`DirectSession`] does all three in one process, for its one device, with feeds as arguments and fetches as results. In
//! a cluster the master does the first, and the worker of each task the others, with feeds and fetches in the rendezvous.
//! What both must say alike is said here: [`step_errors`], and [`partial_run`] for steps that are fed in parts. Nothing
//! here knows sockets or messages.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests wait in real time and start threads"))]

pub mod catalogue;
pub mod checked_graph;
pub mod executor;
mod function_library;
#[cfg(test)]
mod function_tests;
mod functions;
mod kernels;
pub mod partial_run;
mod partition;
pub mod plan;
mod plan_cache;
#[cfg(test)]
mod plan_tests;
mod rendezvous;
mod session;
mod shared_constants;
pub mod step_errors;
mod sync;
mod task;

pub use function_library::compile_partition;
pub use kernels::Kernels;
pub use partition::{CompiledPartition, StepServices};
pub use plan_cache::{PlanBounds, PlanCache, plan_bytes};
pub use rendezvous::{LocalRendezvous, ReceiverId};
pub use session::{Callable, DirectSession, PartialRun, RunOptions, SessionOptions};
pub use shared_constants::{SharedConstants, constant_places};
pub use task::Task;

// The catalogue that tests link.
#[cfg(test)]
use tensorfleet_ops as _;
