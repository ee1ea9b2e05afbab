//! Updates against values that TensorFlow computed, and what must not happen when an update fails.

use std::sync::Arc;

use proptest::prelude::*;
use tensorfleet_core::{Code, DType, Element, ResourceHandle, Tensor};

use crate::testing::{TestOp, test_op, test_step};
use tensorfleet_kernel::kernel::StepContext;
use tensorfleet_kernel::variable::Variable;

fn variable(name: &str, value: Tensor) -> Arc<Variable> {
    let variable = Variable::new(name, value.dtype());
    variable.assign(value);
    Arc::new(variable)
}

fn floats(variable: &Variable) -> Vec<f32> {
    variable.read().unwrap().as_slice::<f32>().unwrap().to_vec()
}

fn vector(values: &[f32]) -> Tensor {
    Tensor::vector(values).unwrap()
}

/// Runs an update whose inputs are variables, then tensors.
fn apply(op: &str, variables: &[&Arc<Variable>], inputs: &[Tensor]) -> tensorfleet_core::Result<Vec<Tensor>> {
    let run =
        variables.iter().fold(test_op(op).attr("T", DType::Float), |run, variable| run.variable(variable));
    let run = run.attr("Tindices", DType::Int32);
    inputs.iter().cloned().fold(run, TestOp::input).run()
}

fn scalars(values: &[f32]) -> Vec<Tensor> {
    values.iter().map(|&value| Tensor::scalar(value)).collect()
}

fn assert_close(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len());
    let near = found.iter().zip(expected).all(|(x, y)| (x - y).abs() <= 1e-6 + 2e-6 * y.abs());
    assert!(near, "{what}: {found:?} instead of {expected:?}");
}

/// Inputs of the table below: the gradient, row indices, a step counter, or a number.
#[derive(Clone, Copy)]
enum In {
    G,
    I,
    S,
    N(f32),
}
use In::{G, I, N, S};

/// What TensorFlow makes of these variables and slots, with gradient `[0.1, -0.2, 0.3, -0.4]`: op, a flag that
/// is set (or, with `!`, not), inputs, and all variables afterwards. In sparse forms the variables are 2 by 2,
/// and both rows of the gradient go to row 1.
const START: [[f32; 4]; 4] =
    [[0.5, -1.0, 2.0, 0.0], [0.3, 0.2, 0.5, 0.1], [0.4, 0.05, 0.6, 0.2], [0.7, 0.9, 1.1, 0.8]];
type Case = (&'static str, &'static str, &'static [In], &'static [[f32; 4]]);
#[rustfmt::skip]
const CASES: &[Case] = &[
    ("ApplyGradientDescent", "", &[N(0.2), G], &[[0.48, -0.96, 1.94, 0.080000006]]),
    ("ApplyAdagrad", "", &[N(0.1), G], &[[0.48203948, -0.95917517, 1.9609433, 0.07844645], [0.31, 0.24000001, 0.59000003, 0.26000002]]),
    ("ApplyAdagrad", "!update_slots", &[N(0.1), G], &[[0.4817426, -0.95527864, 1.9575737, 0.12649111], [0.3, 0.2, 0.5, 0.1]]),
    ("SparseApplyAdagrad", "", &[N(0.1), G, I], &[[0.5, -1.0, 1.9472674, 0.12648192], [0.3, 0.2, 0.6, 0.3]]),
    ("SparseApplyAdagrad", "!update_slots", &[N(0.1), G, I], &[[0.5, -1.0, 1.9434314, 0.18973666], [0.3, 0.2, 0.5, 0.1]]),
    ("ApplyAdagradV2", "", &[N(0.1), N(0.001), G], &[[0.48207167, -0.9592583, 1.9609941, 0.07829291], [0.31, 0.24000001, 0.59000003, 0.26000002]]),
    ("ApplyAdagradV2", "!update_slots", &[N(0.1), N(0.001), G], &[[0.48177585, -0.9553784, 1.9576335, 0.12609239], [0.3, 0.2, 0.5, 0.1]]),
    ("SparseApplyAdagradV2", "", &[N(0.1), N(0.001), G, I], &[[0.5, -1.0, 1.9473369, 0.12620637], [0.3, 0.2, 0.6, 0.3]]),
    ("SparseApplyAdagradV2", "!update_slots", &[N(0.1), N(0.001), G, I], &[[0.5, -1.0, 1.9435114, 0.18913859], [0.3, 0.2, 0.5, 0.1]]),
    ("ApplyAdam", "", &[N(0.81), N(0.9801), N(0.1), N(0.9), N(0.99), N(0.001), G], &[[0.46702087, -1.0529423, 1.9538544, -0.008290713], [0.28, 0.16, 0.48, 0.04999999], [0.3961, 0.0499, 0.5949, 0.1996]]),
    ("ApplyAdam", "use_nesterov", &[N(0.81), N(0.9801), N(0.1), N(0.9), N(0.99), N(0.001), G], &[[0.46914095, -1.0410303, 1.9555849, -0.0008290682], [0.28, 0.16, 0.48, 0.04999999], [0.3961, 0.0499, 0.5949, 0.1996]]),
    ("ApplyMomentum", "", &[N(0.1), G, N(0.5)], &[[0.475, -0.99, 1.945, 0.035], [0.25, -0.1, 0.55, -0.35]]),
    ("ApplyMomentum", "use_nesterov", &[N(0.1), G, N(0.5)], &[[0.4775, -0.975, 1.9425, 0.057500005], [0.25, -0.1, 0.55, -0.35]]),
    ("SparseApplyMomentum", "", &[N(0.1), G, I, N(0.5)], &[[0.5, -1.0, 1.9175, 0.0625], [0.3, 0.2, 0.47500002, -0.47500002]]),
    ("SparseApplyMomentum", "use_nesterov", &[N(0.1), G, I, N(0.5)], &[[0.5, -1.0, 1.9187499, 0.09125001], [0.3, 0.2, 0.47500002, -0.47500002]]),
    ("ResourceApplyKerasMomentum", "", &[N(0.1), G, N(0.5)], &[[0.64, -0.88, 2.22, 0.09], [0.14, 0.120000005, 0.22, 0.09]]),
    ("ResourceApplyKerasMomentum", "use_nesterov", &[N(0.1), G, N(0.5)], &[[0.56, -0.92, 2.08, 0.08500001], [0.14, 0.120000005, 0.22, 0.09]]),
    ("ResourceSparseApplyKerasMomentum", "", &[N(0.1), G, I, N(0.5)], &[[0.5, -1.0, 2.33, 0.14500001], [0.3, 0.2, 0.089999996, 0.075]]),
    ("ResourceSparseApplyKerasMomentum", "use_nesterov", &[N(0.1), G, I, N(0.5)], &[[0.5, -1.0, 2.125, 0.1325], [0.3, 0.2, 0.089999996, 0.075]]),
    ("ApplyRMSProp", "", &[N(0.1), N(0.9), N(0.5), N(0.001), G], &[[0.28082585, -0.97850096, 1.6557674, 0.022283569], [0.271, 0.184, 0.459, 0.106000006], [0.21917413, -0.021499058, 0.34423262, -0.022283569]]),
    ("SparseApplyRMSProp", "", &[N(0.1), N(0.9), N(0.5), N(0.001), G, I], &[[0.5, -1.0, 1.4811702, 0.07282403], [0.3, 0.2, 0.41489998, 0.1006], [0.4, 0.05, 0.20395568, -0.10793546]]),
    ("ApplyCenteredRMSProp", "", &[N(0.1), N(0.9), N(0.5), N(0.001), G], &[[0.1312221, -1.3219631, 1.3969338, -0.3093015], [0.28, 0.16, 0.48, 0.04999999], [0.361, 0.049000002, 0.549, 0.19600001], [0.3687779, 0.3219631, 0.6030662, 0.3093015]]),
    ("SparseApplyCenteredRMSProp", "", &[N(0.1), N(0.9), N(0.5), N(0.001), G, I], &[[0.5, -1.0, 1.0941104, -0.4355658], [0.3, 0.2, 0.44399998, 0.022999983], [0.4, 0.05, 0.4959, 0.1816], [0.7, 0.9, 0.33849242, 0.08269315]]),
    ("ApplyFtrl", "", &[G, N(0.1), N(0.05), N(0.1), N(-0.5)], &[[-0.07017113, -0.044488072, 0.03427876, 0.028307123], [0.31, 0.24000001, 0.59000003, 0.26000002], [0.45473057, 0.27684376, -0.32015592, -0.2]]),
    ("ApplyFtrl", "multiply_linear_by_lr", &[G, N(0.1), N(0.05), N(0.1), N(-0.5)], &[[-0.6943298, -0.13274102, -0.6382123, -0.29250693], [0.31, 0.24000001, 0.59000003, 0.26000002], [0.40547305, 0.07268438, 0.5079844, 0.16]]),
    ("ApplyFtrl", "", &[G, N(0.1), N(0.05), N(0.1), N(-0.7)], &[[-0.08686532, -0.06213201, 0.07906817, 0.036632136], [0.31, 0.24000001, 0.59000003, 0.26000002], [0.4500212, 0.29123023, -0.61232364, -0.2]]),
    ("SparseApplyFtrl", "", &[G, I, N(0.1), N(0.05), N(0.1), N(-0.5)], &[[0.5, -1.0, -0.10712546, 0.06164983], [0.3, 0.2, 0.6, 0.3], [0.4, 0.05, 0.9012154, -0.4]]),
    ("SparseApplyFtrl", "multiply_linear_by_lr", &[G, I, N(0.1), N(0.05), N(0.1), N(-0.5)], &[[0.5, -1.0, -0.8426771, -0.37351876], [0.3, 0.2, 0.6, 0.3], [0.4, 0.05, 0.67458844, 0.21705502]]),
    ("SparseApplyFtrl", "", &[G, I, N(0.1), N(0.05), N(0.1), N(-0.7)], &[[0.5, -1.0, -0.11593161, 0.077689454], [0.3, 0.2, 0.6, 0.3], [0.4, 0.05, 0.88397515, -0.4]]),
    ("ApplyFtrlV2", "", &[G, N(0.1), N(0.05), N(0.1), N(0.02), N(-0.5)], &[[-0.07363868, -0.036643364, 0.024127956, 0.028307123], [0.31, 0.24000001, 0.59000003, 0.26000002], [0.47473058, 0.23684375, -0.24015594, -0.2]]),
    ("ApplyFtrlV2", "multiply_linear_by_lr", &[G, N(0.1), N(0.05), N(0.1), N(0.02), N(-0.5)], &[[-0.69779736, -0.12489631, -0.6483631, -0.29250693], [0.31, 0.24000001, 0.59000003, 0.26000002], [0.40747306, 0.06868438, 0.5159844, 0.16]]),
    ("ApplyFtrlV2", "", &[G, N(0.1), N(0.05), N(0.1), N(0.02), N(-0.7)], &[[-0.09120836, -0.051829487, 0.06781939, 0.036632136], [0.31, 0.24000001, 0.59000003, 0.26000002], [0.47002122, 0.25123024, -0.5323236, -0.2]]),
    ("SparseApplyFtrlV2", "", &[G, I, N(0.1), N(0.05), N(0.1), N(0.02), N(-0.5)], &[[0.5, -1.0, -0.11761845, 0.06164983], [0.3, 0.2, 0.6, 0.3], [0.4, 0.05, 0.9845923, -0.4]]),
    ("SparseApplyFtrlV2", "multiply_linear_by_lr", &[G, I, N(0.1), N(0.05), N(0.1), N(0.02), N(-0.5)], &[[0.5, -1.0, -0.8494674, -0.37039065], [0.3, 0.2, 0.6, 0.3], [0.4, 0.05, 0.679984, 0.21527912]]),
    ("SparseApplyFtrlV2", "", &[G, I, N(0.1), N(0.05), N(0.1), N(0.02), N(-0.7)], &[[0.5, -1.0, -0.127869, 0.077689454], [0.3, 0.2, 0.6, 0.3], [0.4, 0.05, 0.96984893, -0.4]]),
    ("ApplyAdadelta", "", &[N(0.1), N(0.9), N(0.001), G], &[[0.48785806, -0.98949903, 1.9657091, 0.05482343], [0.271, 0.184, 0.459, 0.106], [0.36147425, 0.046102703, 0.5517587, 0.21005608]]),
    ("SparseApplyAdadelta", "", &[N(0.1), N(0.9), N(0.001), G, I], &[[0.5, -1.0, 1.9542112, 0.08371451], [0.3, 0.2, 0.41489998, 0.1006], [0.4, 0.05, 0.49893263, 0.19945356]]),
    ("ApplyAdagradDA", "", &[G, N(0.1), N(0.05), N(0.1), S], &[[-0.03729604, -0.0, -0.07552322, 0.023809524], [0.4, 0.0, 0.8, -0.3], [0.41, 0.09, 0.69000006, 0.36]]),
    ("SparseApplyAdagradDA", "", &[G, I, N(0.1), N(0.05), N(0.1), S], &[[0.5, -1.0, -0.08653913, 0.052833736], [0.3, 0.2, 0.90000004, -0.5], [0.4, 0.05, 0.70000005, 0.40000004]]),
    ("ApplyProximalAdagrad", "", &[N(0.1), N(0.05), N(0.1), G], &[[0.4647127, -0.92998564, 1.9293164, 0.067320384], [0.31, 0.24000001, 0.59000003, 0.26000002]]),
    ("SparseApplyProximalAdagrad", "", &[N(0.1), N(0.05), N(0.1), G, I], &[[0.5, -1.0, 1.8821834, 0.10110077], [0.3, 0.2, 0.6, 0.3]]),
    ("ApplyProximalGradientDescent", "", &[N(0.2), N(0.05), N(0.1), G], &[[0.46078432, -0.9313726, 1.892157, 0.06862746]]),
    ("SparseApplyProximalGradientDescent", "", &[N(0.2), N(0.05), N(0.1), G, I], &[[0.5, -1.0, 1.8248752, 0.09746253]]),
    ("ApplyAddSign", "", &[N(0.1), N(0.2), N(0.7), N(0.9), G], &[[0.491, -1.01, 1.973, -0.020000001], [0.28, 0.15999998, 0.48, 0.049999986]]),
    ("ApplyPowerSign", "", &[N(0.1), N(1.0), N(0.7), N(0.9), G], &[[0.47986248, -0.9900683, 1.9395874, 0.019863414], [0.28, 0.15999998, 0.48, 0.049999986]]),
    ("ApplyAdaMax", "", &[N(0.81), N(0.1), N(0.9), N(0.99), N(0.001), G], &[[0.12879488, -1.4189578, 1.5754092, -0.0656254], [0.28, 0.16, 0.48, 0.04999999], [0.396, 0.2, 0.59400004, 0.4]]),
    ("ResourceApplyAdamWithAmsgrad", "", &[N(0.81), N(0.9801), N(0.1), N(0.9), N(0.99), N(0.001), G], &[[0.47518218, -1.0125087, 1.9660528, -0.004145843], [0.28, 0.16, 0.48, 0.04999999], [0.3961, 0.0499, 0.5949, 0.1996], [0.7, 0.9, 1.1, 0.8]]),
];

#[test]
fn every_rule_agrees_with_tensorflow_in_every_form() {
    let forms = CASES.iter().flat_map(|&(op, flag, inputs, expected)| {
        let resource = (!op.starts_with("Resource")).then(|| format!("Resource{op}"));
        [op.to_string()].into_iter().chain(resource).map(move |op| (op, flag, inputs, expected))
    });
    for (op, flag, inputs, expected) in forms {
        let op = op.as_str();
        let sparse = op.contains("Sparse");
        let dims: &[usize] = if sparse { &[2, 2] } else { &[4] };
        let step = test_step();
        let slots: Vec<_> = START[..expected.len()]
            .iter()
            .enumerate()
            .map(|(at, values)| variable(&format!("slot{at}"), Tensor::from_slice(values, dims).unwrap()))
            .collect();
        let is_resource = op.starts_with("Resource");
        let mut run = test_op(op).in_step(&step).attr("T", DType::Float).attr("Tindices", DType::Int32);
        for slot in &slots {
            run = if is_resource { run.input(handle_of(&step, slot)) } else { run.variable(slot) };
        }
        for input in inputs {
            run = run.input(match input {
                G => Tensor::from_slice(&[0.1f32, -0.2, 0.3, -0.4], dims).unwrap(),
                I => Tensor::vector(&[1i32, 1]).unwrap(),
                S => Tensor::scalar(3i64),
                N(number) => Tensor::scalar(*number),
            });
        }
        if !flag.is_empty() {
            run = run.attr(flag.trim_start_matches('!'), !flag.starts_with('!'));
        }
        assert_eq!(run.run().unwrap().len(), !is_resource as usize);
        for (at, expected) in expected.iter().enumerate() {
            let found =
                if is_resource { floats(&resource(&step, &format!("slot{at}"))) } else { floats(&slots[at]) };
            assert_close(&found, expected, &format!("{op} {flag} slot {at}"));
        }
    }
}

fn handle_of(step: &StepContext, variable: &Variable) -> Tensor {
    let shared = step
        .session
        .resources
        .get_or_create("", variable.name(), || Ok(Variable::new(variable.name(), variable.dtype())));
    shared.unwrap().assign(variable.read().unwrap().deep_copy().unwrap());
    Tensor::resource(ResourceHandle::new("", "", variable.name(), ""))
}

fn resource(step: &StepContext, name: &str) -> Arc<Variable> {
    step.session.resources.get("", name).unwrap()
}

#[test]
fn nothing_changes_when_an_argument_is_wrong() {
    let (var, accum) = (variable("v", vector(&[1.0; 4])), variable("a", vector(&[1.0; 4])));
    for (lr, grad, fragment) in [
        (vector(&[0.1, 0.2]), vector(&[1.0; 4]), "lr is not a scalar: [2]"),
        (Tensor::scalar(0.1f32), vector(&[1.0; 3]), "var and grad do not have the same shape[4] [3]"),
    ] {
        let status = apply("ApplyAdagrad", &[&var, &accum], &[lr, grad]).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.text().contains(fragment), "{}", status.text());
    }
    let short = variable("short", vector(&[1.0; 3]));
    let inputs = [Tensor::scalar(0.1f32), vector(&[1.0; 4])];
    assert_eq!(apply("ApplyAdagrad", &[&var, &short], &inputs).unwrap_err().code(), Code::InvalidArgument);
    let double = variable("double", Tensor::vector(&[1.0f64; 4]).unwrap());
    assert_eq!(apply("ApplyAdagrad", &[&var, &double], &inputs).unwrap_err().code(), Code::InvalidArgument);
    assert_eq!((floats(&var), floats(&accum)), (vec![1.0; 4], vec![1.0; 4]));
}

#[test]
fn a_variable_cannot_be_its_own_slot() {
    let var = variable("v", vector(&[1.0; 4]));
    let status =
        apply("ApplyAdagrad", &[&var, &var], &[Tensor::scalar(0.1f32), vector(&[1.0; 4])]).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.text().contains("variable v is given twice"));
}

#[test]
fn variables_without_a_value_are_a_failed_precondition() {
    let (var, empty) = (variable("v", vector(&[1.0; 4])), Arc::new(Variable::new("slot", DType::Float)));
    let inputs = [Tensor::scalar(0.1f32), vector(&[1.0; 4])];
    let status = apply("ApplyAdagrad", &[&var, &empty], &inputs).unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(status.text(), "Attempting to use uninitialized value slot");
    let handle = Tensor::resource(ResourceHandle::new("", "", "nobody", ""));
    let status = apply("ResourceApplyGradientDescent", &[], &[handle, inputs[0].clone(), inputs[1].clone()]);
    let status = status.unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert!(status.text().contains("Invalid variable reference."));
}

#[test]
fn sparse_gradients_that_do_not_fit_are_refused_before_anything_is_written() {
    let matrix = |dims: &[usize]| Tensor::from_slice(&vec![1.0f32; dims.iter().product()], dims).unwrap();
    let (var, accum) = (variable("v", matrix(&[4, 2])), variable("a", matrix(&[4, 2])));
    let indices = |values: &[i32]| Tensor::vector(values).unwrap();
    for (grad, indices, fragment) in [
        (matrix(&[1, 2]), indices(&[4]), "Index 4 at offset 0 in indices is out of range"),
        (matrix(&[2, 2]), indices(&[0, -1]), "Index -1 at offset 1 in indices is out of range"),
        (matrix(&[1, 2]), Tensor::from_slice(&[0i32], &[1, 1]).unwrap(), "indices must be one-dimensional"),
        (matrix(&[2, 2]), indices(&[0]), "grad must be the same size as indices in the first dimension."),
        (matrix(&[1, 3]), indices(&[0]), "var and grad must match in dimension 1"),
        (matrix(&[1]), indices(&[0]), "grad must have the same number of dimensions as var"),
    ] {
        let status = apply("SparseApplyAdagrad", &[&var, &accum], &[Tensor::scalar(0.1f32), grad, indices])
            .unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.text().contains(fragment), "{}", status.text());
    }
    assert_eq!((floats(&var), floats(&accum)), (vec![1.0; 8], vec![1.0; 8]));
    let scalar = variable("s", Tensor::scalar(1.0f32));
    let inputs = [Tensor::scalar(0.1f32), Tensor::scalar(1.0f32), indices(&[0])];
    let status = apply(
        "SparseApplyProximalGradientDescent",
        &[&scalar],
        &[&scalars(&[0.1, 0.0]), &inputs[..]].concat(),
    );
    assert!(status.unwrap_err().text().contains("var must be at least 1 dimensional"));
    let nothing = [Tensor::scalar(0.1f32), matrix(&[0, 2]), indices(&[])];
    apply("SparseApplyAdagrad", &[&var, &accum], &nothing).unwrap();
}

#[test]
fn large_updates_are_in_place_and_the_same_as_small_ones() {
    let count = 300_000;
    let values: Vec<f32> = (0..count).map(|i| (i % 1000) as f32 / 1000.0).collect();
    let [var, m, v] = ["v", "m", "s"].map(|name| variable(name, vector(&values)));
    let address = |variable: &Variable| variable.inspect(|t| Ok(t.as_bytes()?.as_ptr().addr())).unwrap();
    let before = [&var, &m, &v].map(|variable| address(variable));
    let inputs = [scalars(&[0.9, 0.99, 0.1, 0.9, 0.99, 0.01]), vec![vector(&values)]].concat();
    apply("ApplyAdam", &[&var, &m, &v], &inputs).unwrap();
    assert_eq!([&var, &m, &v].map(|variable| address(variable)), before);
    let small = ["v", "m", "s"].map(|name| variable(name, vector(&values[..1000])));
    let inputs = [scalars(&[0.9, 0.99, 0.1, 0.9, 0.99, 0.01]), vec![vector(&values[..1000])]].concat();
    apply("ApplyAdam", &small.each_ref(), &inputs).unwrap();
    for (large, small) in [&var, &m, &v].into_iter().zip(&small) {
        assert!(floats(large).chunks(1000).all(|chunk| chunk == floats(small)));
    }
}

#[test]
fn updates_that_share_variables_in_any_order_do_not_deadlock() {
    let variables = ["a", "b", "c"].map(|name| variable(name, vector(&[1.0; 64])));
    std::thread::scope(|scope| {
        for rotation in 0..3 {
            let variables = &variables;
            scope.spawn(move || {
                let [x, y, z] = std::array::from_fn(|at| &variables[(at + rotation) % 3]);
                let inputs = [scalars(&[0.9, 0.99, 0.1, 0.9, 0.99, 0.01]), vec![vector(&[0.1; 64])]].concat();
                for _ in 0..200 {
                    apply("ApplyAdam", &[x, y, z], &inputs).unwrap();
                }
            });
        }
    });
}

fn typed<T: Element>(op: &str, one: T, two: T) -> Vec<T> {
    let var = variable("v", Tensor::vector(&[two]).unwrap());
    let run = test_op(op).attr("T", T::DTYPE).variable(&var);
    let output = run.input(Tensor::scalar(one)).input(Tensor::vector(&[one]).unwrap()).run_one().unwrap();
    output.as_slice::<T>().unwrap().to_vec()
}

#[test]
fn halves_and_complex_numbers_are_updated_too() {
    use half::{bf16, f16};
    use num_complex::Complex;
    assert_eq!(typed("ApplyGradientDescent", f16::ONE, f16::from_f32(2.0)), [f16::ONE]);
    assert_eq!(typed("ApplyGradientDescent", bf16::ONE, bf16::from_f32(2.0)), [bf16::ONE]);
    let i = Complex::new(0.0f64, 1.0);
    assert_eq!(typed("ApplyGradientDescent", i, i), [i + 1.0]);
}

proptest! {
    /// Sparse updates of distinct rows are the dense update of those rows, however many there are.
    #[test]
    fn sparse_updates_are_dense_updates_of_the_named_rows(rows in 1usize..2000, cols in 1usize..20, stride in 1usize..5) {
        let start = vec![1.0f32; rows * cols];
        let named: Vec<i32> = (0..rows as i32).step_by(stride).collect();
        let (var, accum) = (
            variable("v", Tensor::from_slice(&start, &[rows, cols]).unwrap()),
            variable("a", Tensor::from_slice(&start, &[rows, cols]).unwrap()),
        );
        let gradient: Vec<f32> = (0..named.len() * cols).map(|i| (i % 7) as f32 - 3.0).collect();
        let gradient_tensor = Tensor::from_slice(&gradient, &[named.len(), cols]).unwrap();
        let inputs = [Tensor::scalar(0.5f32), gradient_tensor, Tensor::vector(&named).unwrap()];
        apply("SparseApplyAdagrad", &[&var, &accum], &inputs).unwrap();
        let (found, sums) = (floats(&var), floats(&accum));
        for row in 0..rows {
            for col in 0..cols {
                let g = if row % stride == 0 { gradient[row / stride * cols + col] } else { 0.0 };
                let sum = 1.0 + g * g;
                prop_assert_eq!(sums[row * cols + col], sum);
                prop_assert_eq!(found[row * cols + col], 1.0 - g * 0.5 / sum.sqrt());
            }
        }
    }
}
