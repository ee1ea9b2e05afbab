//! Cycles of modules that are still there. The list may only shrink.

/// By crate and folder, with all members.
pub(super) const KNOWN_CYCLES: &[(&str, &str, &[&str])] = &[
    ("tensorfleet-cluster", "", &["master", "peers", "remote_worker", "server", "service", "worker"]),
    ("tensorfleet-cluster", "master", &["partial_run", "session", "step"]),
    ("tensorfleet-cluster", "worker", &["rendezvous", "step_table"]),
    // A tensor may hold variants, and a variant tensors.
    ("tensorfleet-core", "", &["tensor", "variant"]),
    ("tensorfleet-kernel", "", &["builder", "catalogue", "gradients", "node_spec", "op", "shape_context"]),
    ("tensorfleet-kernel", "", &["functions", "kernel"]),
    ("tensorfleet-kernel", "builder", &["backward", "control_flow", "scope"]),
    ("tensorfleet-kernel", "gradients", &["branches", "engine", "loops", "paths"]),
    ("tensorfleet-numeric", "", &["gemm", "implicit_gemm", "sparse_lhs_gemm"]),
    ("tensorfleet-ops-input", "io", &["checkpoints", "files"]),
    ("tensorfleet-ops-nn", "nn", &["pool", "pool_depth", "pool_twice"]),
    ("tensorfleet-ops-tensor", "variants", &["list", "list_wire"]),
    ("tensorfleet-rpc", "channel", &["call", "connection"]),
    ("tensorfleet-runtime", "executor", &["errands", "loops", "step", "trace"]),
    ("tensorfleet-tests", "", &["random_functions", "random_node"]),
];
