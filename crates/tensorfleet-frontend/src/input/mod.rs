//! Input: batches that this process makes ahead of time, and the queues and accumulators of graphs that make their own.

mod accumulator;
mod batch;
pub mod data;
mod input_producer;
mod queue;
mod queue_runner;

pub use accumulator::ConditionalAccumulator;
pub use batch::Batch;
pub use input_producer::InputProducer;
pub use queue::{Queue, QueueBuilder};
pub use queue_runner::{QueueRunner, QueueRunnerBuilder, RunnerThread};
