//! The executor: runs a compiled graph, on as many threads as pay, without blocking any.
//!
//! [`Executable`] is a graph compiled once into flat arrays: per node its kernel, input slots and consumers.
//! [`Step`] is one run of it: a vector of counters and a vector of value slots. A node runs when its counter reaches
//! zero; its outputs go into the slots of its consumers; cheap consumers run next on the same thread, expensive ones
//! on another if there is other work. Kernels that wait leave a continuation behind.
//!
//! Loops (frames, iterations) and dead tensors are part of the model: a loop's body has its own counters and slots
//! per iteration (`loops`). A graph without loops uses the root's and nothing else.

mod async_call;
mod counts;
mod executable;
mod expense;
mod handed_over;
mod io_thread;
mod iteration;
mod kernel_stats;
mod loops;
mod node;
mod panics;
#[cfg(test)]
mod panics_tests;
mod propagate;
mod ready;
mod slots;
mod step;
mod trace;
mod wait;
mod worker;

pub use executable::{Executable, KernelSource};
pub use io_thread::on_io_thread;
pub use step::{Caller, OnStepDone, Step};
pub use trace::Trace;
