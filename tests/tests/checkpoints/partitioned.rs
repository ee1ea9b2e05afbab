//! Checkpoints of a table in parts, in the middle of training: whatever division one side saves, the other restores into any
//! division, slots included, and goes on with the same losses.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tensorfleet::checkpoint::CheckpointReader;
use tensorfleet::train::{Adam, MinimizeOptions, Optimizer, Saver};
use tensorfleet::{Graph, Operation, Output, PartitionStrategy, Partitioner, Result, Session, Tensor};
use tensorfleet_tests::python::{Interpreter, Program};

/// Several times what the program takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(400);
const STEPS: usize = 3;

/// How the table is divided: along which axis, in how many parts.
const LAYOUTS: [(&str, Option<(usize, usize)>); 5] = [
    ("whole", None),
    ("one", Some((0, 1))),
    ("two", Some((0, 2))),
    ("three", Some((0, 3))),
    ("columns", Some((1, 2))),
];

struct Case {
    name: String,
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

/// The model of `partitioned_checkpoints.py`: rows of a divided table through a layer, trained by Adam.
fn model(name: &str, division: Option<(usize, usize)>, is_resource: bool) -> Result<Case> {
    let g = Graph::new();
    let get = |name: &str, initial: Tensor| {
        let variable = g.get_variable(name).value(initial);
        if is_resource { variable.resource() } else { variable }
    };
    let table = get("table", spread(&[7, 4]));
    let ids = [1, 4, 6, 3, 1];
    let rows = match division {
        None => table.build()?.gather(ids)?,
        Some((axis, parts)) => {
            let table = table.partitioner(Partitioner::fixed_size(parts).axis(axis)).build()?;
            assert_eq!(table.parts().len(), parts);
            match axis {
                0 => g.embedding_lookup(&table, ids, PartitionStrategy::Div)?,
                _ => table.value()?.gather(ids)?,
            }
        }
    };
    let weight = get("weight", spread(&[4, 2])).build()?;
    let wanted = g.constant(spread(&[5, 2])) * 2.0;
    let loss = (rows.matmul(&weight)? - wanted).square()?.reduce_mean(..)?;
    let options =
        MinimizeOptions { global_step: Some(g.get_or_create_global_step()?), ..MinimizeOptions::default() };
    let train = Adam::new(0.05).minimize_with(&loss, &options)?;
    let saver = Saver::new(&g)?;
    let name = format!("{name}-{}", if is_resource { "resource" } else { "reference" });
    Ok(Case { name, graph: g, loss, train, saver })
}

fn cases() -> Vec<Case> {
    let all = LAYOUTS.iter().flat_map(|layout| [(layout, false), (layout, true)]);
    all.map(|((name, division), is_resource)| model(name, *division, is_resource).unwrap()).collect()
}

impl Case {
    fn losses(&self, session: &Session) -> Vec<f32> {
        let step = |_| {
            let loss = session.run(&self.loss).unwrap().to_scalar::<f32>().unwrap();
            session.run(&self.train).unwrap();
            loss
        };
        (0..STEPS).map(step).collect()
    }

    /// Trains from the beginning, saves, and writes down the losses that follow.
    fn save(&self, directory: &Path) {
        std::fs::create_dir_all(directory).unwrap();
        let session = Session::new(&self.graph);
        session.run(self.graph.global_variables_initializer().unwrap()).unwrap();
        self.losses(&session);
        self.saver.save(&session, directory.join("model").to_str().unwrap(), Some(STEPS as i64)).unwrap();
        let losses = serde_json::to_string(&self.losses(&session)).unwrap();
        std::fs::write(directory.join("losses.json"), losses).unwrap();
    }

    /// Goes on from a checkpoint, and must get the losses that stand beside it.
    fn restore(&self, directory: &Path) {
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

fn prefix_in(directory: &Path) -> PathBuf {
    directory.join(format!("model-{STEPS}"))
}

fn layouts_are_exchanged_with(tensorflow: &Interpreter) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let cases = cases();
    cases.iter().for_each(|case| case.save(&root.join("ours").join(&case.name)));
    let flags = [format!("--directory={}", root.display())];
    let program = Program::start(tensorflow, "partitioned_checkpoints.py", flags, LIMIT).unwrap();
    let checks = program.finish(|request| Err(format!("asked for {request}"))).unwrap();
    let failed: Vec<_> = checks.iter().filter(|check| !check.passed).collect();
    assert!(failed.is_empty() && checks.len() == 2, "{failed:#?}");
    for saved in &cases {
        let theirs = root.join("theirs").join(&saved.name);
        let reader = CheckpointReader::open(prefix_in(&theirs).to_str().unwrap()).unwrap();
        reader.verify().unwrap();
        assert_eq!(&reader.shape("table/Adam").unwrap()[..], [7, 4], "{}", saved.name);
        cases.iter().for_each(|into| into.restore(&theirs));
    }
}

#[test]
fn every_division_restores_every_other() {
    let directory = tempfile::tempdir().unwrap();
    let cases = cases();
    for saved in &cases {
        let at = directory.path().join(&saved.name);
        saved.save(&at);
        cases.iter().for_each(|into| into.restore(&at));
    }
}

#[test]
fn tables_in_parts_are_exchanged_with_tensorflow_2() {
    layouts_are_exchanged_with(&Interpreter::with_tensorflow_2().unwrap());
}

#[test]
fn tables_in_parts_are_exchanged_with_tensorflow_1() {
    if let Some(tensorflow) = Interpreter::with_tensorflow_1() {
        layouts_are_exchanged_with(&tensorflow);
    }
}
