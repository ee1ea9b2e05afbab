//! Our gradients of TensorFlow's own graphs, against the gradients TensorFlow built into them.
//!
//! The packed cases hold whole models with the gradient nodes that `tf.gradients` added. Each is imported, differentiated
//! again by us, and both gradients are computed in the same session from the same values.

#![allow(clippy::unwrap_used)]

use tensorfleet::{Graph, Output, Session, Step as SessionStep, Tensor};
use tensorfleet_core::DType;
use tensorfleet_kernel::NodeSpec;
use tensorfleet_tests::case::{Case, Expect, RunStep, Step};
use tensorfleet_tests::packed;

#[test]
fn whole_models_have_tensorflows_gradients() {
    let mut compared = 0;
    for case in cases_of(&["models_seed", "models_tier2", "batch_norm"]) {
        compared += compare_model(&case);
    }
    assert!(compared >= 60, "only {compared} gradients were compared");
}

#[test]
fn single_functions_have_tensorflows_gradients() {
    let cases = cases_of(&["gradients"]);
    for case in &cases {
        // The value that the case differentiates is the last node before the gradients.
        let loss = case.graph.node.iter().rev().find(|node| !node.name.starts_with("gradients")).unwrap();
        // This one's value is itself a gradient.
        if case.name.ends_with("second_order") {
            continue;
        }
        let step = runs(case).next().unwrap();
        let g = Graph::from_graph_def(case.graph.clone()).unwrap();
        let xs: Vec<Output> =
            step.feeds.iter().map(|&feed| g.output(&case.feeds[feed].name).unwrap()).collect();
        let ours = g.gradients([g.output(&loss.name).unwrap()], &xs).unwrap();
        let ours: Vec<Output> = ours.iter().flatten().map(|gradient| gradient.dense().unwrap()).collect();
        let Expect::Values(expected) = &step.expect else { panic!("{}: has no values", case.name) };
        let theirs: Vec<&Tensor> =
            expected.values[1..].iter().map(|index| &case.expected[index.unwrap()].value).collect();
        assert_eq!(ours.len(), theirs.len(), "{}", case.name);
        let session = Session::new(&g);
        let got = fed(case, step, &g, &session).run(ours).unwrap();
        for (got, want) in got.iter().zip(theirs) {
            assert_close(got, want, 1e-5, &case.name);
        }
    }
    assert!(cases.len() >= 20, "only {} cases", cases.len());
}

fn cases_of(families: &[&str]) -> Vec<Case> {
    let cases = packed::cases().unwrap().into_iter();
    cases.filter(|case| families.contains(&case.family.as_str()) && case.cluster.is_none()).collect()
}

fn runs(case: &Case) -> impl Iterator<Item = &RunStep> {
    case.steps.iter().filter_map(|step| match step {
        Step::Run(run) => Some(run),
        _ => None,
    })
}

fn fed<'s>(case: &Case, step: &RunStep, g: &Graph, session: &'s Session) -> SessionStep<'s> {
    step.feeds.iter().fold(session.step(), |run, &feed| {
        let record = &case.feeds[feed];
        run.feed(&g.output(&record.name).unwrap(), record.value.clone())
    })
}

/// Compares the gradients that arrive at the update of each variable; gives how many there are.
fn compare_model(case: &Case) -> usize {
    let g = Graph::from_graph_def(case.graph.clone()).unwrap();
    let updates = updates(&g);
    // The step that trains fetches the loss.
    let train = runs(case).find(|step| !step.targets.is_empty() && step.fetches.len() == 1);
    let (Some(train), false) = (train, updates.is_empty()) else { return 0 };
    let loss = g.output(&train.fetches[0]).unwrap();
    let variables: Vec<Output> = updates.iter().map(|(variable, _)| variable.clone()).collect();
    let ours = g.gradients([&loss], &variables).unwrap_or_else(|status| panic!("{}: {status}", case.name));
    let ours: Vec<Output> = ours
        .iter()
        .zip(&variables)
        .map(|(gradient, variable)| match gradient {
            Some(gradient) => gradient.dense().unwrap(),
            None => panic!("{}: {} has no gradient", case.name, variable.name()),
        })
        .collect();
    let theirs: Vec<Output> = updates.into_iter().map(|(_, gradient)| gradient).collect();

    let session = Session::new(&g);
    let init = runs(case).find(|step| step.fetches.is_empty() && !step.targets.is_empty()).unwrap();
    session.run(g.operation(&init.targets[0]).unwrap()).unwrap();
    let both = fed(case, train, &g, &session)
        .run((ours, theirs))
        .unwrap_or_else(|status| panic!("{}: {status}", case.name));
    for ((got, want), variable) in both.0.iter().zip(&both.1).zip(&variables) {
        assert_close(got, want, 1e-5, &format!("{}: gradient of {}", case.name, variable.name()));
    }
    both.0.len()
}

/// The variables that whole-tensor updates change, each with the gradient TensorFlow gives it.
fn updates(g: &Graph) -> Vec<(Output, Output)> {
    let graph = g.build(|builder| builder.graph().clone());
    let mut updates = Vec::new();
    for node in graph.nodes() {
        if !(node.op.starts_with("Apply") || node.op.starts_with("ResourceApply")) {
            continue;
        }
        let signature = NodeSpec::resolve(node, tensorfleet_ops::catalogue()).unwrap().signature().unwrap();
        let index = signature.inputs.iter().position(|arg| matches!(&*arg.name, "grad" | "delta")).unwrap();
        let output = |index: usize| {
            let endpoint = node.inputs[index];
            g.output(&format!("{}:{}", graph.node(endpoint.node).name, endpoint.slot)).unwrap()
        };
        updates.push((output(0), output(index)));
    }
    updates
}

fn assert_close(got: &Tensor, want: &Tensor, tolerance: f64, what: &str) {
    assert_eq!(got.shape(), want.shape(), "{what}");
    let (got, want) = (numbers(got), numbers(want));
    let scale = want.iter().fold(1.0f64, |scale, value| scale.max(value.abs()));
    for (index, (got, want)) in got.iter().zip(&want).enumerate() {
        let close = (got - want).abs() <= tolerance * scale || (got.is_nan() && want.is_nan());
        assert!(close, "{what}: element {index} is {got}, TensorFlow's {want}");
    }
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    match tensor.dtype() {
        DType::Double => tensor.as_slice::<f64>().unwrap().to_vec(),
        _ => tensor.as_slice::<f32>().unwrap().iter().map(|&value| f64::from(value)).collect(),
    }
}
