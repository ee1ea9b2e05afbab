//! Tests of planning that run what was planned: on a fleet of tasks in one process, and whole.

mod fleet;
mod loops;
mod partitions;
mod random_graphs;
mod simplified;
