//! Every gradient against numeric differentiation, and every op with a gradient among the cases.

#![allow(clippy::unwrap_used)]

#[path = "gradients/arrays.rs"]
mod arrays;
#[path = "gradients/control_flow.rs"]
mod control_flow;
#[path = "gradients/edge_values.rs"]
mod edge_values;
#[path = "gradients/lists.rs"]
mod lists;
#[path = "gradients/math.rs"]
mod math;
#[path = "gradients/neural_network.rs"]
mod neural_network;
#[path = "gradients/state.rs"]
mod state;

use std::collections::BTreeSet;

use tensorfleet_kernel::op::Gradient;
use tensorfleet_ops::catalogue;
use tensorfleet_tests::gradient_check::GradientCase;

/// Ops that are differentiated through in tests of their own, because they need more than a function of tensors.
const SHOWN_ELSEWHERE: &[&str] = &[
    // In `state`.
    "PreventGradient",
    "RandomGamma",
    "ReadVariableOp",
    "ResourceGather",
    "ResourceGatherNd",
    // In `control_flow`.
    "NextIteration",
    "RefEnter",
    "RefExit",
    "RefIdentity",
    "RefMerge",
    "RefNextIteration",
    "RefSwitch",
    "TensorArrayConcatV3",
    "TensorArrayGatherV3",
    "TensorArrayReadV3",
    "TensorArrayScatterV3",
    "TensorArraySplitV3",
    "TensorArrayWriteV3",
];

fn cases() -> Vec<GradientCase> {
    [math::cases(), neural_network::cases(), arrays::cases(), control_flow::cases(), lists::cases()]
        .into_iter()
        .flatten()
        .collect()
}

#[test]
fn every_gradient_agrees_with_numeric_differentiation() {
    // All that differ are worth knowing, not only the first.
    let differs = |case: &GradientCase| {
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case.check())).err()?;
        Some(panic.downcast_ref::<String>().cloned().unwrap_or_else(|| case.op.to_string()))
    };
    let failed: Vec<String> = cases().iter().filter_map(differs).collect();
    assert!(failed.is_empty(), "{} cases differ:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn every_op_with_a_gradient_has_a_case() {
    let cases = cases();
    let covered: BTreeSet<&str> =
        cases.iter().map(|case| case.op).chain(SHOWN_ELSEWHERE.iter().copied()).collect();
    let ops = catalogue().all();
    let with_gradient = ops.iter().filter(|op| matches!(op.gradient, Gradient::By(_)));
    let missing: Vec<&str> = with_gradient.map(|op| op.name).filter(|name| !covered.contains(name)).collect();
    assert!(missing.is_empty(), "no numeric check of the gradients of {missing:?}");
}
