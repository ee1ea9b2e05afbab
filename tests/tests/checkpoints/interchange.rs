//! TensorFlow reads what we save, and we read what TensorFlow saves: values, names, nodes, meta graphs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tensorfleet::checkpoint::CheckpointReader;
use tensorfleet::train::{Saver, latest_checkpoint};
use tensorfleet::{DType, Graph, Session, Tensor, import_meta_graph};
use tensorfleet_proto::Message;
use tensorfleet_tests::python::{Interpreter, Program};

/// Ten times what the program takes on an idle machine.
const LIMIT: Duration = Duration::from_secs(400);

fn as_json(tensor: &Tensor) -> Value {
    let (dtype, values) = match tensor.dtype() {
        DType::Float => ("float32", json!(tensor.as_slice::<f32>().unwrap())),
        DType::Double => ("float64", json!(tensor.as_slice::<f64>().unwrap())),
        DType::Int32 => ("int32", json!(tensor.as_slice::<i32>().unwrap())),
        DType::Int64 => ("int64", json!(tensor.as_slice::<i64>().unwrap())),
        DType::Bool => ("bool", json!(tensor.as_slice::<bool>().unwrap())),
        DType::String => {
            let texts = tensor.as_strings().unwrap().iter();
            ("string", json!(texts.map(|text| String::from_utf8_lossy(text)).collect::<Vec<_>>()))
        }
        other => panic!("no test has a variable of {other}"),
    };
    json!({ "dtype": dtype, "shape": &tensor.shape()[..], "values": values })
}

/// Saves all variables of the graph, and writes down what was saved.
fn save_case(root: &Path, case: &str, graph: &Graph, sharded: bool, train: Option<&str>) {
    let directory = root.join("ours").join(case);
    std::fs::create_dir_all(&directory).unwrap();
    let saver = Saver::builder(graph).sharded(sharded).build().unwrap();
    let session = Session::new(graph);
    session.run(graph.global_variables_initializer().unwrap()).unwrap();
    let prefix = saver.save(&session, directory.join("model").to_str().unwrap(), Some(7)).unwrap();
    let variables = graph.global_variables();
    let tensors: BTreeMap<String, Value> = variables
        .iter()
        .map(|variable| (variable.name(), as_json(&session.run(variable).unwrap())))
        .collect();
    let trainable: Vec<String> = graph.trainable_variables().iter().map(|variable| variable.name()).collect();
    let mut expected = json!({ "prefix": prefix, "tensors": tensors, "trainable": trainable });
    if let Some(train) = train {
        expected["train"] = json!(train);
    }
    std::fs::write(directory.join("expected.json"), expected.to_string()).unwrap();
}

/// A model of many dtypes whose operation `train` changes every trainable variable.
fn model(resource: bool) -> Graph {
    let graph = Graph::new();
    let new = |name: &str| {
        let variable = graph.new_variable(name);
        if resource { variable.resource() } else { variable }
    };
    let w = graph.device("/cpu:0", || new("layer/w").init([[1.5f32, -2.0, 1e-30], [f32::MAX, 0.1, 7.0]]));
    let b = new("layer/b").init([0.1f64, 0.2]);
    new("count").untrainable().init(i64::MAX);
    new("small").untrainable().init([-7i32]);
    new("flags").untrainable().init([true, false, true]);
    // 1.15 and 2.x have no resource variables of strings on every device.
    graph.new_variable("names").untrainable().init(["", "x", "a longer text"]);
    let changes =
        [w.assign_sub(Tensor::from_slice(&[1.0f32; 6], &[2, 3]).unwrap()), b.assign_add([1.0, 1.0])];
    graph.group_named("train", changes.map(Result::unwrap).iter()).unwrap();
    graph
}

/// The graphs that `build_CASE` of the Python program builds.
fn export_graphs(root: &Path) {
    let directory = root.join("graphs");
    std::fs::create_dir_all(&directory).unwrap();
    for (resource, sharded, case) in [
        (false, false, "reference"),
        (true, false, "resource"),
        (false, true, "reference_sharded"),
        (true, true, "resource_sharded"),
    ] {
        let graph = Graph::new();
        let new = |name: &str, initial: tensorfleet::Output| {
            let variable = graph.new_variable(name);
            if resource { variable.resource().init(initial) } else { variable.init(initial) }
        };
        graph.device("/job:ps/task:0", || new("a", graph.constant_named("first", [1.0f32, 2.0])));
        graph.device("/job:ps/task:1", || new("scope/b", graph.constant_named("second", [3i32])));
        new("c", graph.constant_named("third", 5.0f32));
        Saver::builder(&graph).sharded(sharded).build().unwrap();
        let bytes = graph.to_graph_def().encode_to_vec();
        std::fs::write(directory.join(format!("{case}.pb")), bytes).unwrap();
    }
}

/// Whether a tensor is the expected one, bit for bit.
fn assert_same(tensor: &Tensor, expected: &Value, name: &str) {
    let got = as_json(tensor);
    assert_eq!((&got["dtype"], &got["shape"]), (&expected["dtype"], &expected["shape"]), "{name}");
    match expected["bytes"].as_str() {
        Some(bytes) => {
            let got: String = tensor.as_bytes().unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(got, bytes, "{name}");
        }
        None => assert_eq!(got["values"], expected["values"], "{name}"),
    }
}

/// Checks every case that TensorFlow has written.
fn read_theirs(root: &Path) -> usize {
    let mut cases: Vec<PathBuf> =
        root.join("theirs").read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    for case in &cases {
        let expected: Value =
            serde_json::from_slice(&std::fs::read(case.join("expected.json")).unwrap()).unwrap();
        let prefix = expected["prefix"].as_str().unwrap();
        let tensors = expected["tensors"].as_object().unwrap();
        assert_eq!(latest_checkpoint(case.to_str().unwrap()).unwrap().as_deref(), Some(prefix));
        let reader = CheckpointReader::open(prefix).unwrap();
        reader.verify().unwrap();
        assert_eq!(reader.names(), tensors.keys().map(String::as_str).collect::<Vec<_>>());
        for (name, tensor) in tensors {
            assert_same(&reader.tensor(name).unwrap(), tensor, name);
        }
        import_theirs(case, prefix, &expected);
    }
    cases.len()
}

/// The meta graph becomes a graph of ours, whose saver restores and saves.
fn import_theirs(case: &Path, prefix: &str, expected: &Value) {
    let imported = import_meta_graph(&format!("{prefix}.meta")).unwrap();
    let session = Session::new(&imported.graph);
    let saver = imported.saver.unwrap();
    saver.restore(&session, prefix).unwrap();
    let tensors = expected["tensors"].as_object().unwrap();
    let mut found = 0;
    for variable in imported.graph.global_variables() {
        if let Some(tensor) = tensors.get(&variable.name()) {
            assert_same(&session.run(&variable).unwrap(), tensor, &variable.name());
            found += 1;
        }
    }
    let is_partitioned = case.ends_with("partitioned");
    assert!(is_partitioned || found == tensors.len(), "{found} variables in {}", case.display());
    if is_partitioned {
        let reader = CheckpointReader::open(prefix).unwrap();
        assert_eq!(reader.slices("p").unwrap(), ["0,3:0,3", "3,2:0,3", "5,2:0,3"]);
        let rows = reader.tensor_slice("p", "2,2:-").unwrap();
        assert_eq!(rows.as_slice::<f32>().unwrap(), [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
    }
    let again = saver.save(&session, &format!("{prefix}-again"), None).unwrap();
    for tensor in CheckpointReader::open(prefix).unwrap().iter() {
        let (old, new) = (CheckpointReader::open(prefix).unwrap(), CheckpointReader::open(&again).unwrap());
        assert_eq!(old.tensor(&tensor.name).unwrap(), new.tensor(&tensor.name).unwrap());
    }
}

fn interchange_with(tensorflow: &Interpreter, arguments: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    save_case(root, "reference", &model(false), false, Some("train"));
    save_case(root, "resource", &model(true), false, Some("train"));
    save_case(root, "sharded", &model(false), true, Some("train"));
    export_graphs(root);
    std::fs::create_dir(root.join("theirs")).unwrap();
    let own = [format!("--directory={}", root.display())];
    let flags = own.into_iter().chain(arguments.iter().map(|&argument| argument.to_string()));
    let program = Program::start(tensorflow, "checkpoints.py", flags, LIMIT).unwrap();
    let checks = program.finish(|request| Err(format!("asked for {request}"))).unwrap();
    for check in &checks {
        println!("{:<7}{:>7.2} s  {}", if check.passed { "ok" } else { "FAILED" }, check.seconds, check.name);
    }
    let failed: Vec<String> = checks
        .iter()
        .filter(|check| !check.passed)
        .map(|check| format!("── {}\n{}", check.name, check.detail))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(read_theirs(root), 9);
}

#[test]
fn tensorflow_2_and_we_read_each_others_checkpoints() {
    interchange_with(&Interpreter::with_tensorflow_2().unwrap(), &[]);
}

/// Savers of 1.15 have a few other nodes than those of 2.x, whose ours are.
#[test]
fn tensorflow_1_and_we_read_each_others_checkpoints() {
    if let Some(tensorflow) = Interpreter::with_tensorflow_1() {
        interchange_with(&tensorflow, &["--skip=our_savers_have_the_nodes"]);
    }
}
