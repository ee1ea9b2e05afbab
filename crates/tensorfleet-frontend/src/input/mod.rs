//! Input: batches that this process makes ahead of time, and the queues and accumulators of graphs that make their own.

mod accumulator;
pub mod data;
mod input_producer;
mod queue;

pub use accumulator::ConditionalAccumulator;
pub use input_producer::{Batch, InputProducer};
pub use queue::{Queue, QueueBuilder};
