//! The conformance suite: cases that real TensorFlow answered, and the machinery that asks us the same.
//!
//! A case is a graph, feeds, steps and expected answers ([`case`]). The [`runner`] executes its steps on any
//! [`backend`] and [`check`]s every answer; a [`suite`] runs many cases side by side and tabulates them. The cases
//! that belong to the repository are packed in `tests/data` ([`packed`]). The runner knows backends only by their
//! trait, so the same cases run in one process, and over the network, alike.
//!
//! Besides the cases there are [`cluster`]s of real processes, and programs in [`python`] that are clients of them; and
//! [`fuzzing`], the functions that hostile bytes are thrown at.

pub mod backend;
pub mod case;
pub mod check;
pub mod checked_program;
pub mod checkpoint;
pub mod client;
pub mod cluster;
pub mod direct;
pub mod fleet;
pub mod fuzzing;
pub mod gradient_check;
pub mod graph_builder;
pub mod lossy_proxy;
pub mod matrix;
pub mod mutation;
pub mod network;
pub mod packed;
pub mod png_pixels;
pub mod program;
pub mod python;
mod random_functions;
pub mod random_node;
mod random_variants;
pub mod raw_http2;
pub mod records;
pub mod runner;
pub mod seed_models;
pub mod skipping;
pub mod stuck;
pub mod suite;
pub mod summary_check;
pub mod trainer;
