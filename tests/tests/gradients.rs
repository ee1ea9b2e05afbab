//! Every gradient against numeric differentiation, and every op with a gradient among the cases.

#![allow(clippy::unwrap_used)]

#[path = "gradients/arrays.rs"]
mod arrays;
#[path = "gradients/edge_values.rs"]
mod edge_values;
#[path = "gradients/math.rs"]
mod math;
#[path = "gradients/neural_network.rs"]
mod neural_network;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tensorfleet_ops::catalogue;
use tensorfleet_ops::op::Gradient;
use tensorfleet_tests::gradient_check::GradientCase;

/// Ops that are differentiated through in tests of their own, because they need more than a function of tensors.
const SHOWN_ELSEWHERE: &[&str] = &[];

fn cases() -> Vec<GradientCase> {
    [math::cases(), neural_network::cases(), arrays::cases()].into_iter().flatten().collect()
}

#[test]
fn every_gradient_agrees_with_numeric_differentiation() {
    // All of them are tried, so that one run shows everything that is wrong.
    let is_wrong = |case: &GradientCase| catch_unwind(AssertUnwindSafe(|| case.check())).is_err();
    let wrong: Vec<&str> = cases().iter().filter(|case| is_wrong(case)).map(|case| case.op).collect();
    assert!(wrong.is_empty(), "gradients differ from differences: {wrong:?}");
}

#[test]
fn every_op_with_a_gradient_has_a_case() {
    let cases = cases();
    let covered: BTreeSet<&str> =
        cases.iter().map(|case| case.op).chain(SHOWN_ELSEWHERE.iter().copied()).collect();
    let ops = catalogue::all();
    let with_gradient = ops.iter().filter(|op| matches!(op.gradient, Gradient::By(_)));
    let missing: Vec<&str> = with_gradient.map(|op| op.name).filter(|name| !covered.contains(name)).collect();
    assert!(missing.is_empty(), "no numeric check of the gradients of {missing:?}");
}
