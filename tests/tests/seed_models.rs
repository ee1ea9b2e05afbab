//! The five seed models, built by the Rust front end, trained by the steps TensorFlow took: every loss and every variable
//! after every step must be what TensorFlow got.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tensorfleet_tests::backend::Backend;
use tensorfleet_tests::case::Case;
use tensorfleet_tests::direct::Direct;
use tensorfleet_tests::fleet::Fleet;
use tensorfleet_tests::packed;
use tensorfleet_tests::runner::{Outcome, STEP_LIMIT, run_case};
use tensorfleet_tests::seed_models;

/// The cases with the graphs that Rust builds in place of those that Python built.
fn rust_cases() -> Vec<Arc<Case>> {
    let cases = packed::cases().unwrap().into_iter();
    let models = cases.filter(|case| case.family == "models_seed" && !case.name.contains("supervisor"));
    let mut twins = Vec::new();
    for case in models {
        let graph = seed_models::graph_of(&case).unwrap_or_else(|status| panic!("{}: {status}", case.name));
        twins.push(Arc::new(Case { graph: graph.to_graph_def(), ..case }));
    }
    assert!(twins.len() >= 15, "only {} models", twins.len());
    twins
}

fn all_pass(backend: Arc<dyn Backend>, cases: &[Arc<Case>]) {
    for case in cases {
        match run_case(&backend, case, STEP_LIMIT) {
            Outcome::Passed => {}
            other => panic!("{}: {other:?}", case.name),
        }
    }
}

#[test]
fn train_as_in_tensorflow_in_this_process() {
    all_pass(Arc::new(Direct), &rust_cases());
}

#[test]
fn train_as_in_tensorflow_on_a_cluster() {
    all_pass(Arc::new(Fleet), &rust_cases());
}
