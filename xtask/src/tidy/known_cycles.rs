//! Cycles of modules that are still there. The list may only shrink.

/// By crate and folder, with all members.
pub(super) const KNOWN_CYCLES: &[(&str, &str, &[&str])] = &[
    // A tensor may hold variants, and a variant tensors.
    ("tensorfleet-core", "", &["tensor", "variant"]),
    // An op has a gradient and a shape rule, which are given nodes, which have ops.
    (
        "tensorfleet-kernel",
        "",
        &[
            "builder",
            "catalogue",
            "constant_evaluation",
            "gradients",
            "known_value",
            "node_spec",
            "op",
            "shape_context",
        ],
    ),
    ("tensorfleet-kernel", "", &["functions", "kernel"]),
    ("tensorfleet-kernel", "builder", &["backward", "control_flow", "scope"]),
    ("tensorfleet-kernel", "gradients", &["branches", "engine", "loops", "paths"]),
    ("tensorfleet-ops-input", "io", &["checkpoints", "files"]),
    ("tensorfleet-ops-nn", "nn", &["pool", "pool_twice"]),
    ("tensorfleet-ops-tensor", "variants", &["list", "list_wire"]),
    ("tensorfleet-tests", "", &["random_functions", "random_node"]),
];
