//! A small model that is saved in the middle of training, and that goes on with the losses written down beside the checkpoint,
//! whoever saved it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tensorfleet::train::{MinimizeOptions, Optimizer, Saver};
use tensorfleet::{Graph, Operation, Output, Result, Session, Tensor};
use tensorfleet_tests::python::{Interpreter, Program};

/// Several times what a program takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(400);
/// Before a checkpoint and after it; the Python programs have the same number.
const STEPS: usize = 3;

pub(crate) struct Trained {
    /// As the Python programs call it, with the kind of its variables.
    pub(crate) name: String,
    graph: Graph,
    loss: Output,
    train: Operation,
    saver: Saver,
}

/// Values that are all different, as the Python programs make them.
pub(crate) fn spread(dims: &[usize]) -> Tensor {
    let count: usize = dims.iter().product();
    let values: Vec<f32> = (0..count).map(|i| ((i * 37 % 101) as f32 - 50.0) / 100.0).collect();
    Tensor::from_slice(&values, dims).unwrap()
}

impl Trained {
    /// `loss` in `graph`, made smaller by `optimizer`.
    pub(crate) fn new(
        name: &str,
        is_resource: bool,
        graph: Graph,
        loss: Output,
        optimizer: &dyn Optimizer,
    ) -> Result<Trained> {
        let global_step = Some(graph.get_or_create_global_step()?);
        let train =
            optimizer.minimize_with(&loss, &MinimizeOptions { global_step, ..MinimizeOptions::default() })?;
        let saver = Saver::new(&graph)?;
        let name = format!("{name}-{}", if is_resource { "resource" } else { "reference" });
        Ok(Trained { name, graph, loss, train, saver })
    }

    fn losses(&self, session: &Session) -> Vec<f32> {
        let step = |_| {
            let loss = session.run(&self.loss).unwrap().to_scalar::<f32>().unwrap();
            session.run(&self.train).unwrap();
            loss
        };
        (0..STEPS).map(step).collect()
    }

    /// Trains from the beginning, saves, and writes down the losses that follow.
    pub(crate) fn save(&self, directory: &Path) {
        std::fs::create_dir_all(directory).unwrap();
        let session = Session::new(&self.graph);
        session.run(self.graph.global_variables_initializer().unwrap()).unwrap();
        self.losses(&session);
        self.saver.save(&session, directory.join("model").to_str().unwrap(), Some(STEPS as i64)).unwrap();
        let losses = serde_json::to_string(&self.losses(&session)).unwrap();
        std::fs::write(directory.join("losses.json"), losses).unwrap();
    }

    /// Goes on from a checkpoint, and must get the losses that stand beside it.
    pub(crate) fn restore(&self, directory: &Path) {
        let expected: Vec<f32> =
            serde_json::from_slice(&std::fs::read(directory.join("losses.json")).unwrap()).unwrap();
        let session = Session::new(&self.graph);
        self.saver.restore(&session, prefix_in(directory).to_str().unwrap()).unwrap();
        let found = self.losses(&session);
        assert_eq!(expected.len(), STEPS);
        let is_close =
            |(found, expected): (&f32, &f32)| (found - expected).abs() <= 1e-6 + 1e-5 * expected.abs();
        let all_close = found.iter().zip(&expected).all(is_close);
        assert!(all_close, "{} into {}: {found:?}, not {expected:?}", directory.display(), self.name);
    }
}

/// The checkpoint that [`Trained::save`] and the Python programs write there.
pub(crate) fn prefix_in(directory: &Path) -> PathBuf {
    directory.join(format!("model-{STEPS}"))
}

/// Saves `models` below `ours`, and has a Python program go on from there and save its own below `theirs`.
pub(crate) fn exchange(models: &[Trained], root: &Path, tensorflow: &Interpreter, program: &str) {
    models.iter().for_each(|model| model.save(&root.join("ours").join(&model.name)));
    let flags = [format!("--directory={}", root.display())];
    let program = Program::start(tensorflow, program, flags, LIMIT).unwrap();
    let checks = program.finish(|request| Err(format!("asked for {request}"))).unwrap();
    let failed: Vec<_> = checks.iter().filter(|check| !check.passed).collect();
    assert!(failed.is_empty() && checks.len() == 2, "{failed:#?}");
}
