//! Checkpoints in the middle of training, for every optimizer and both kinds of variables: TensorFlow restores ours, slots
//! included, and goes on with the losses that we get; we restore TensorFlow's and go on with its losses.

use std::path::Path;
use std::time::Duration;

use tensorfleet::train::{
    Adadelta, Adagrad, Adam, Ftrl, GradientDescent, MinimizeOptions, Momentum, Optimizer, RmsProp, Saver,
};
use tensorfleet::{Graph, Operation, Output, Result, Session, Tensor};
use tensorfleet_tests::python::{Interpreter, Program};

const LIMIT: Duration = Duration::from_secs(400);
const STEPS: usize = 3;

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

struct Model {
    graph: Graph,
    loss: Output,
    train: Operation,
    saver: Saver,
}

fn spread(dims: &[usize]) -> Tensor {
    let count: usize = dims.iter().product();
    let values: Vec<f32> = (0..count).map(|i| ((i * 37 % 101) as f32 - 50.0) / 100.0).collect();
    Tensor::from_slice(&values, dims).unwrap()
}

/// The model of `optimizer_checkpoints.py`: rows of an embedding, whose gradient is sparse, through a layer.
fn model(optimizer: &dyn Optimizer, is_resource: bool) -> Result<Model> {
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
    let options =
        MinimizeOptions { global_step: Some(g.get_or_create_global_step()?), ..MinimizeOptions::default() };
    let train = optimizer.minimize_with(&loss, &options)?;
    let saver = Saver::new(&g)?;
    Ok(Model { graph: g, loss, train, saver })
}

impl Model {
    fn losses(&self, session: &Session) -> Vec<f32> {
        let step = |_| {
            let loss = session.run(&self.loss).unwrap().to_scalar::<f32>().unwrap();
            session.run(&self.train).unwrap();
            loss
        };
        (0..STEPS).map(step).collect()
    }
}

fn cases() -> Vec<(String, Model)> {
    let mut cases = Vec::new();
    for is_resource in [false, true] {
        for (name, optimizer) in optimizers() {
            let case = format!("{name}-{}", if is_resource { "resource" } else { "reference" });
            let model = model(&*optimizer, is_resource).unwrap_or_else(|status| panic!("{case}: {status}"));
            cases.push((case, model));
        }
    }
    cases
}

fn save_ours(root: &Path) {
    for (case, model) in cases() {
        let directory = root.join("ours").join(&case);
        std::fs::create_dir_all(&directory).unwrap();
        let session = Session::new(&model.graph);
        session.run(model.graph.global_variables_initializer().unwrap()).unwrap();
        model.losses(&session);
        model.saver.save(&session, directory.join("model").to_str().unwrap(), Some(STEPS as i64)).unwrap();
        let losses = serde_json::to_string(&model.losses(&session)).unwrap();
        std::fs::write(directory.join("losses.json"), losses).unwrap();
    }
}

fn go_on_from_theirs(root: &Path) {
    for (case, model) in cases() {
        let directory = root.join("theirs").join(&case);
        let theirs: Vec<f32> =
            serde_json::from_slice(&std::fs::read(directory.join("losses.json")).unwrap()).unwrap();
        let session = Session::new(&model.graph);
        let prefix = directory.join(format!("model-{STEPS}"));
        model.saver.restore(&session, prefix.to_str().unwrap()).unwrap();
        let ours = model.losses(&session);
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let is_close = (ours - theirs).abs() <= 1e-6 + 1e-5 * theirs.abs();
            assert!(is_close, "{case}: our next loss is {ours}, TensorFlow's {theirs}");
        }
    }
}

fn training_goes_on_in(tensorflow: &Interpreter) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    save_ours(root);
    let flags = [format!("--directory={}", root.display())];
    let program = Program::start(tensorflow, "optimizer_checkpoints.py", flags, LIMIT).unwrap();
    let checks = program.finish(|request| Err(format!("asked for {request}"))).unwrap();
    let failed: Vec<_> = checks.iter().filter(|check| !check.passed).collect();
    assert!(failed.is_empty() && checks.len() == 2, "{failed:#?}");
    go_on_from_theirs(root);
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
