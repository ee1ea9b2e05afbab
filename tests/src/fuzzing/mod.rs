//! What the fuzzers run: for every kind of bytes that comes from outside, a function that takes them and must come back.
//!
//! A target is a function from bytes to nothing. Whatever the bytes are, it ends within seconds, takes no more than its share
//! of memory and does not panic; where a thing can be written as well as read, it also checks that both agree. The programs
//! in `fuzz/` call these functions under libFuzzer, which finds bytes that reach new code; `tests/tests/corpora.rs` calls
//! them with everything that was found before (`corpora`), as an ordinary test. Adding a target is told in `fuzz/README.md`.
//!
//! Programs name the function they need and not [`TARGETS`]: what a program does not reach is not linked, and the fuzzer's
//! cost per input grows with what is.

// A fuzzer's failure is a panic.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

pub mod cluster;
pub mod corpora;
pub mod files;
pub mod forged;
pub mod graphs;
pub mod http;
pub mod kernels;
pub mod names;
mod pieces;
pub mod recording;
mod sandbox;
pub mod seeds;
pub mod services;
pub mod tensors;

/// A kind of input, and what is done with it.
pub struct Target {
    /// Also the name of the program in `fuzz/`, and of the corpus.
    pub name: &'static str,
    /// Must come back, whatever the bytes.
    pub run: fn(&[u8]),
}

/// All targets, the cheap ones first.
pub static TARGETS: &[Target] = &[
    Target { name: "device_name", run: names::device_name },
    Target { name: "rendezvous_key", run: names::rendezvous_key },
    Target { name: "slice_spec", run: names::slice_spec },
    Target { name: "cluster_spec", run: cluster::cluster_spec },
    Target { name: "tensor_proto", run: tensors::tensor_proto },
    Target { name: "recv_tensor", run: tensors::recv_tensor },
    Target { name: "record", run: files::record },
    Target { name: "table", run: files::table },
    Target { name: "checkpoint", run: files::checkpoint },
    Target { name: "old_checkpoint", run: files::old_checkpoint },
    Target { name: "checkpoint_state", run: files::checkpoint_state },
    Target { name: "meta_graph", run: files::meta_graph },
    Target { name: "image", run: kernels::image },
    Target { name: "example", run: kernels::example },
    Target { name: "text", run: kernels::text },
    Target { name: "graph_def", run: graphs::graph_def },
    Target { name: "graph", run: graphs::graph },
    Target { name: "master_service", run: services::master_service },
    Target { name: "worker_service", run: services::worker_service },
    Target { name: "http", run: http::http },
];
