//! The threads of a process, with an owner: [`Threads`] is made once, or where other counts are wanted, and handed down.
//!
//! | kind | threads | who uses them |
//! | --- | --- | --- |
//! | [`NodePool`] | `inter_op_parallelism_threads`, more while all are busy for long | the executor: nodes, continuations of waits |
//! | [`Loops`] | `intra_op_parallelism_threads`, the caller's among them | kernels: one loop, one matrix product, one file |
//! | [`InputPool`] | as many as jobs | datasets: they may wait |
//! | [`Timer`] | one | deadlines of steps that a thread waits for |
//!
//! All are started when they are first needed.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests wait in real time and start threads"))]

mod completion;
mod counts;
pub mod denormals;
mod input_pool;
mod loops;
mod node_pool;
mod start;
mod sync;
mod threads;
mod timer;

pub use completion::Completion;
pub use counts::{ThreadCounts, cores};
pub use input_pool::InputPool;
pub use loops::{AtWork, GivenUp, LoopPool, Loops, first_error};
pub use node_pool::{NodePool, RunJob};
pub use threads::Threads;
pub use timer::{Alarm, Timer};
