//! Checkpoints in the middle of training, for every optimizer and both kinds of variables: TensorFlow restores ours, slots
//! included, and goes on with the losses that we get; we restore TensorFlow's and go on with its losses.

use tensorfleet::train::{Adadelta, Adagrad, Adam, Ftrl, GradientDescent, Momentum, Optimizer, RmsProp};
use tensorfleet::{Graph, Result, Tensor};
use tensorfleet_tests::python::Interpreter;

use super::trained::{Trained, exchange, spread};

fn optimizers() -> Vec<(&'static str, Box<dyn Optimizer>)> {
    vec![
        ("sgd", Box::new(GradientDescent::new(0.1))),
        ("adagrad", Box::new(Adagrad::new(0.1))),
        ("adam", Box::new(Adam::new(0.05))),
        ("momentum", Box::new(Momentum::new(0.1, 0.9))),
        ("nesterov", Box::new(Momentum::new(0.1, 0.9).use_nesterov(true))),
        ("rmsprop", Box::new(RmsProp::new(0.05).momentum(0.5))),
        ("rmsprop_centered", Box::new(RmsProp::new(0.05).centered(true))),
        ("ftrl", Box::new(Ftrl::new(0.1).l1(0.001))),
        ("adadelta", Box::new(Adadelta::new(0.5))),
    ]
}

/// The model of `optimizer_checkpoints.py`: rows of an embedding, whose gradient is sparse, through a layer.
fn model(name: &str, optimizer: &dyn Optimizer, is_resource: bool) -> Result<Trained> {
    let g = Graph::new();
    let variable = |name: &str, initial: Tensor| {
        let variable = g.new_variable(name);
        let variable = if is_resource { variable.resource() } else { variable };
        variable.init(initial)
    };
    let rows = variable("rows", spread(&[6, 3]));
    let weight = variable("layer/weight", spread(&[3, 2]));
    let bias = variable("layer/bias", Tensor::from_slice(&[0.0f32; 2], &[2])?);
    let wanted = g.constant(spread(&[4, 2])) * 2.0;
    let chosen = rows.gather([1, 4, 1, 3])?;
    let output = chosen.matmul(&weight)? + &bias;
    let loss = (output - wanted).square()?.reduce_mean(..)?;
    Trained::new(name, is_resource, g, loss, optimizer)
}

fn cases() -> Vec<Trained> {
    let mut cases = Vec::new();
    for is_resource in [false, true] {
        for (name, optimizer) in optimizers() {
            let model =
                model(name, &*optimizer, is_resource).unwrap_or_else(|status| panic!("{name}: {status}"));
            cases.push(model);
        }
    }
    cases
}

fn training_goes_on_in(tensorflow: &Interpreter) {
    let directory = tempfile::tempdir().unwrap();
    let (cases, root) = (cases(), directory.path());
    exchange(&cases, root, tensorflow, "optimizer_checkpoints.py");
    cases.iter().for_each(|case| case.restore(&root.join("theirs").join(&case.name)));
}

#[test]
fn training_goes_on_in_tensorflow_2_and_back() {
    training_goes_on_in(&Interpreter::with_tensorflow_2().unwrap());
}

#[test]
fn training_goes_on_in_tensorflow_1_and_back() {
    if let Some(tensorflow) = Interpreter::with_tensorflow_1() {
        training_goes_on_in(&tensorflow);
    }
}
