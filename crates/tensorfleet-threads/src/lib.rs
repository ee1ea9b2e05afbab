//! The threads of a process: loops that several of them share, and the state of a thread that computes.

pub mod denormals;
pub mod parallel;
