//! Runs graphs: planning, executor, rendezvous, tasks and sessions of this process.
//!
//! A [`Task`] is what a process contributes: a device with its resources. A [`DirectSession`] holds a graph on a
//! task and runs parts of it. The first run of a signature (feeds, fetches, targets) plans it: [`plan`] cuts the
//! graph down to what is needed, [`executor`] compiles that into flat arrays; both are kept, so later runs only
//! execute. Nothing here knows sockets: a remote partition will use the same executor, rendezvous and resources.

pub mod catalogue;
pub mod checked_graph;
mod completion;
pub mod executor;
mod functions;
mod kernels;
pub mod plan;
mod rendezvous;
mod session;
mod sync;
mod task;

pub use kernels::Kernels;
pub use rendezvous::{LocalRendezvous, ReceiverId};
pub use session::{Callable, DirectSession, RunOptions, SessionOptions};
pub use task::Task;

// The catalogue that tests link.
#[cfg(test)]
use tensorfleet_ops as _;
