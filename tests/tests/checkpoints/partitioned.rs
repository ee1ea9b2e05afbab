//! Checkpoints of a table in parts, in the middle of training: whatever division one side saves, the other restores into any
//! division, slots included, and goes on with the same losses.

use tensorfleet::checkpoint::CheckpointReader;
use tensorfleet::train::Adam;
use tensorfleet::{Graph, PartitionStrategy, Partitioner, Result, Tensor};
use tensorfleet_tests::python::Interpreter;

use super::trained::{Trained, exchange, prefix_in, spread};

/// How the table is divided: along which axis, in how many parts.
const LAYOUTS: [(&str, Option<(usize, usize)>); 5] = [
    ("whole", None),
    ("one", Some((0, 1))),
    ("two", Some((0, 2))),
    ("three", Some((0, 3))),
    ("columns", Some((1, 2))),
];

/// The model of `partitioned_checkpoints.py`: rows of a divided table through a layer, trained by Adam.
fn model(name: &str, division: Option<(usize, usize)>, is_resource: bool) -> Result<Trained> {
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
    Trained::new(name, is_resource, g, loss, &Adam::new(0.05))
}

fn cases() -> Vec<Trained> {
    let all = LAYOUTS.iter().flat_map(|layout| [(layout, false), (layout, true)]);
    all.map(|((name, division), is_resource)| model(name, *division, is_resource).unwrap()).collect()
}

fn layouts_are_exchanged_with(tensorflow: &Interpreter) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let cases = cases();
    exchange(&cases, root, tensorflow, "partitioned_checkpoints.py");
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
