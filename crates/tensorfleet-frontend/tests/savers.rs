//! Savers on sessions of this process: what is saved comes back, what does not fit is told, old files go.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use tensorfleet::checkpoint::CheckpointReader;
use tensorfleet::train::{Adagrad, Optimizer};
use tensorfleet::train::{
    SaveOptions, Saver, checkpoint_exists, get_checkpoint_state, latest_checkpoint, update_checkpoint_state,
};
use tensorfleet::{
    Code, DType, Graph, Initializer, Partitioner, Result, Session, Tensor, Variable, import_meta_graph,
};

fn files(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        dir.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_string()
}

struct Model {
    graph: Graph,
    weights: Variable,
    bias: Variable,
    step: Variable,
}

/// Reference and resource variables of several dtypes.
fn model() -> Model {
    let graph = Graph::new();
    let weights = graph.variable("weights", [[1.0f32, 2.0], [3.0, 4.0]]);
    let bias = graph.new_variable("layer/bias").resource().init([0.5f64, 0.25]);
    let step = graph.new_variable("global_step").dtype(DType::Int64).untrainable().init(0);
    Model { graph, weights, bias, step }
}

fn initialised(graph: &Graph) -> Session {
    let session = Session::new(graph);
    session.run(graph.global_variables_initializer().unwrap()).unwrap();
    session
}

#[test]
fn what_is_saved_comes_back_into_variables_that_were_never_initialised() {
    let directory = tempfile::tempdir().unwrap();
    let Model { graph, weights, bias, step } = model();
    let text_variable = graph.new_variable("names").untrainable().init(["a", "", "long text"]);
    let saver = Saver::new(&graph).unwrap();
    let session = initialised(&graph);
    session.run(step.assign_add(41).unwrap()).unwrap();
    let prefix = saver.save(&session, &text(&directory.path().join("m")), Some(41)).unwrap();
    assert_eq!(prefix, text(&directory.path().join("m-41")));
    assert_eq!(
        files(directory.path()),
        ["checkpoint", "m-41.data-00000-of-00001", "m-41.index", "m-41.meta"]
    );

    let fresh = Session::new(&graph);
    saver.restore(&fresh, &prefix).unwrap();
    assert_eq!(fresh.run(&weights).unwrap().as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(fresh.run(&bias).unwrap().as_slice::<f64>().unwrap(), [0.5, 0.25]);
    assert_eq!(fresh.run(&step).unwrap().to_scalar::<i64>().unwrap(), 41);
    assert_eq!(fresh.run(&text_variable).unwrap().as_strings().unwrap()[2], "long text");
    let reader = CheckpointReader::open(&prefix).unwrap();
    assert_eq!(reader.names(), ["global_step", "layer/bias", "names", "weights"]);
    reader.verify().unwrap();
}

#[test]
fn a_sharded_checkpoint_has_a_file_for_each_device_and_is_read_by_any_saver() {
    let directory = tempfile::tempdir().unwrap();
    let graph = Graph::new();
    let a = graph.device("/cpu:0", || graph.variable("a", [1.0f32, 2.0]));
    let b = graph.new_variable("b").resource().init(3i32);
    let sharded = Saver::builder(&graph).sharded(true).build().unwrap();
    let plain = Saver::new(&graph).unwrap();
    let session = initialised(&graph);
    let prefix = sharded.save(&session, &text(&directory.path().join("deep/er/m")), None).unwrap();
    assert_eq!(
        files(&directory.path().join("deep/er")),
        ["checkpoint", "m.data-00000-of-00002", "m.data-00001-of-00002", "m.index", "m.meta"]
    );
    for saver in [&plain, &sharded] {
        let fresh = Session::new(&graph);
        saver.restore(&fresh, &prefix).unwrap();
        assert_eq!(fresh.run(&a).unwrap().as_slice::<f32>().unwrap(), [1.0, 2.0]);
        assert_eq!(fresh.run(&b).unwrap().to_scalar::<i32>().unwrap(), 3);
    }
}

#[test]
fn old_checkpoints_go_with_all_their_files() {
    let directory = tempfile::tempdir().unwrap();
    let graph = Graph::new();
    graph.device("/cpu:0", || graph.variable("a", 1.0f32));
    graph.variable("b", 1.0f32);
    let saver = Saver::builder(&graph).max_to_keep(2).sharded(true).pad_step_number(true).build().unwrap();
    let session = initialised(&graph);
    let path = text(&directory.path().join("m"));
    for step in [1, 2, 30] {
        saver.save(&session, &path, Some(step)).unwrap();
    }
    let kept: Vec<String> =
        files(directory.path()).into_iter().filter(|name| name.ends_with(".index")).collect();
    assert_eq!(kept, ["m-00000002.index", "m-00000030.index"]);
    assert!(!files(directory.path()).iter().any(|name| name.contains("00000001")));
    let state = get_checkpoint_state(&text(directory.path())).unwrap().unwrap();
    assert_eq!(state.model_checkpoint_path, format!("{path}-00000030"));
    assert_eq!(state.all_model_checkpoint_paths, saver.last_checkpoints());

    // Another program takes over and deletes in its turn.
    let next = Saver::builder(&graph).max_to_keep(2).build().unwrap();
    next.recover_last_checkpoints(&state.all_model_checkpoint_paths);
    next.save(&session, &path, Some(31)).unwrap();
    assert_eq!(next.last_checkpoints(), [format!("{path}-00000030"), format!("{path}-31")]);
}

/// Copies the files of a directory into another one.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for name in files(from) {
        std::fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

/// Training in a copy of a directory deleted the checkpoints of the original: the state file named them by absolute paths.
#[test]
fn what_is_saved_in_a_copy_leaves_the_original_alone() {
    let directory = tempfile::tempdir().unwrap();
    let [original, copied, older] = ["a", "b", "c"].map(|name| directory.path().join(name));
    let Model { graph, .. } = model();
    let session = initialised(&graph);
    let saver = || Saver::builder(&graph).max_to_keep(2).build().unwrap();
    let first = saver();
    for step in 1..=2 {
        first.save(&session, &text(&original.join("m")), Some(step)).unwrap();
    }
    let state = std::fs::read_to_string(original.join("checkpoint")).unwrap();
    assert!(state.starts_with("model_checkpoint_path: \"m-2\"\n"), "{state}");
    let before = files(&original);
    copy(&original, &copied);
    // As TensorFlow writes it, and as we did.
    copy(&original, &older);
    let absolute = [1, 2].map(|step| text(&original.join(format!("m-{step}"))));
    update_checkpoint_state(&text(&older), &absolute[1], &absolute).unwrap();

    for dir in [&copied, &older] {
        let state = get_checkpoint_state(&text(dir)).unwrap().unwrap();
        let next = saver();
        next.recover_last_checkpoints(&state.all_model_checkpoint_paths);
        for step in 3..=6 {
            next.save(&session, &text(&dir.join("m")), Some(step)).unwrap();
        }
        assert_eq!(files(&original), before);
        let newest = ["m-5", "m-6"].map(|name| text(&dir.join(name)));
        assert_eq!(next.last_checkpoints(), newest);
    }
    assert!(!files(&copied).contains(&"m-2.index".to_string()), "its own are deleted in their turn");
}

#[test]
fn a_saver_deletes_what_it_has_written_wherever_that_is() {
    let directory = tempfile::tempdir().unwrap();
    let Model { graph, .. } = model();
    let session = initialised(&graph);
    let saver = Saver::builder(&graph).max_to_keep(1).build().unwrap();
    let path = |step: i64| text(&directory.path().join(format!("{step}/m")));
    for step in 1..=2 {
        saver.save(&session, &path(step), None).unwrap();
    }
    assert!(!checkpoint_exists(&path(1)) && checkpoint_exists(&path(2)));
}

#[test]
fn without_a_limit_all_are_kept_and_the_state_file_names_the_newest() {
    let directory = tempfile::tempdir().unwrap();
    let Model { graph, .. } = model();
    let saver = Saver::builder(&graph).max_to_keep(0).build().unwrap();
    let session = initialised(&graph);
    let path = text(&directory.path().join("m"));
    for step in 0..7 {
        saver.save(&session, &path, Some(step)).unwrap();
    }
    let state = get_checkpoint_state(&text(directory.path())).unwrap().unwrap();
    assert_eq!(state.all_model_checkpoint_paths, [format!("{path}-6")]);
    assert_eq!(files(directory.path()).iter().filter(|name| name.ends_with(".index")).count(), 7);
}

#[test]
fn parts_of_a_checkpoint_are_restored_and_names_are_mapped() {
    let directory = tempfile::tempdir().unwrap();
    let Model { graph, weights, .. } = model();
    let session = initialised(&graph);
    let prefix =
        Saver::new(&graph).unwrap().save(&session, &text(&directory.path().join("m")), None).unwrap();

    let other = Graph::new();
    let renamed = other.variable("model/w", [[0.0f32; 2]; 2]);
    other.variable("new", 7.0f32);
    let saver = Saver::builder(&other).variables([("weights", &renamed)]).build().unwrap();
    let fresh = Session::new(&other);
    saver.restore(&fresh, &prefix).unwrap();
    assert_eq!(fresh.run(&renamed).unwrap().as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);

    let subset = Saver::builder(&graph).variables([&weights]).build().unwrap();
    subset.restore(&Session::new(&graph), &prefix).unwrap();
}

#[test]
fn a_checkpoint_that_does_not_fit_is_told_in_one_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let Model { graph, .. } = model();
    let session = initialised(&graph);
    let prefix =
        Saver::new(&graph).unwrap().save(&session, &text(&directory.path().join("m")), None).unwrap();
    let restoring = |build: &dyn Fn(&Graph)| {
        let graph = Graph::new();
        build(&graph);
        Saver::new(&graph).unwrap().restore(&Session::new(&graph), &prefix).unwrap_err()
    };

    let missing = restoring(&|g| {
        g.variable("weights", [[0.0f32; 2]; 2]);
        g.variable("layer_1/bias", [0.0f64; 2]);
    });
    assert_eq!(missing.code(), Code::NotFound);
    let message = missing.message();
    assert!(message.contains("Key layer_1/bias not found") && message.contains("'layer/bias'"), "{message}");

    for resource in [false, true] {
        let shape = restoring(&|g| {
            let weights = g.new_variable("weights");
            let weights = if resource { weights.resource() } else { weights };
            weights.init([0.0f32; 3]);
        });
        assert_eq!(shape.code(), Code::InvalidArgument);
        assert!(shape.message().contains("[3]") && shape.message().contains("[2,2]"), "{shape}");
    }
    let dtype = restoring(&|g| drop(g.variable("weights", [[0i32; 2]; 2])));
    assert_eq!(dtype.code(), Code::InvalidArgument);
    assert!(dtype.message().contains("int32") && dtype.message().contains("float"), "{dtype}");

    let another = restoring(&|g| {
        g.variable("conv1", 0.0f32);
        g.variable("conv2", 0.0f32);
    });
    assert_eq!(another.code(), Code::NotFound);
    assert!(another.message().contains("is of another model"), "{another}");

    let gone = text(&directory.path().join("gone"));
    let status = Saver::new(&graph).unwrap().restore(&session, &gone).unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert!(status.message().contains(&gone), "{status}");
}

#[test]
fn a_saver_without_variables_is_a_mistake_unless_it_is_meant() {
    let graph = Graph::new();
    assert_eq!(Saver::new(&graph).unwrap_err().code(), Code::InvalidArgument);
    let saver = Saver::builder(&graph).allow_empty(true).build().unwrap();
    let session = Session::new(&graph);
    assert_eq!(saver.save(&session, "nowhere/m", Some(1)).unwrap(), "nowhere/m-1");
    saver.restore(&session, "nowhere/m-1").unwrap();
    assert!(!Path::new("nowhere").exists());
}

#[test]
fn mistakes_are_told_when_the_saver_is_built_or_used() {
    let Model { graph, weights, bias, .. } = model();
    let twice = Saver::builder(&graph).variables([("x", &weights), ("x", &bias)]).build();
    assert!(twice.unwrap_err().message().contains("same name: x"));
    assert!(Saver::builder(&Graph::new()).variables([&weights]).build().is_err());
    let saver = Saver::new(&graph).unwrap();
    let elsewhere = Graph::new();
    let status = saver.save(&Session::new(&elsewhere), "never/m", None).unwrap_err();
    assert!(status.message().contains("another graph"), "{status}");
    assert!(!Path::new("never").exists());
    let session = initialised(&graph);
    assert!(saver.save(&session, "never/checkpoint", None).is_err());
    assert!(saver.save(&session, "never/", None).is_err());
    assert!(saver.restore(&session, "").is_err());
}

#[test]
fn the_newest_complete_checkpoint_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let dir = text(directory.path());
    let Model { graph, .. } = model();
    let saver = Saver::new(&graph).unwrap();
    let session = initialised(&graph);
    let path = text(&directory.path().join("m"));
    for step in 1..=4 {
        saver.save(&session, &path, Some(step)).unwrap();
    }
    assert_eq!(latest_checkpoint(&dir).unwrap(), Some(format!("{path}-4")));
    // The index of the newest is gone.
    std::fs::remove_file(format!("{path}-4.index")).unwrap();
    assert_eq!(latest_checkpoint(&dir).unwrap(), Some(format!("{path}-3")));
    // The data of the next is cut short.
    let data = format!("{path}-3.data-00000-of-00001");
    let bytes = std::fs::read(&data).unwrap();
    std::fs::write(&data, &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(latest_checkpoint(&dir).unwrap(), Some(format!("{path}-2")));
    // The state file is unreadable: the directory tells.
    std::fs::write(directory.path().join("checkpoint"), b"\xff\x00garbage").unwrap();
    assert_eq!(latest_checkpoint(&dir).unwrap(), Some(format!("{path}-2")));
    assert_eq!(get_checkpoint_state(&dir).unwrap_err().code(), Code::DataLoss);
}

#[test]
fn a_failed_save_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let Model { graph, .. } = model();
    let saver = Saver::new(&graph).unwrap();
    let path = text(&directory.path().join("m"));
    let session = initialised(&graph);
    saver.save(&session, &path, Some(1)).unwrap();
    let before = files(directory.path());
    // Variables that were never initialised cannot be saved.
    let status = saver.save(&Session::new(&graph), &path, Some(2)).unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    // A directory where the meta file belongs: the checkpoint is complete, but the save is not.
    std::fs::create_dir(directory.path().join("m-3.meta")).unwrap();
    assert!(saver.save(&session, &path, Some(3)).is_err());
    std::fs::remove_dir(directory.path().join("m-3.meta")).unwrap();
    assert_eq!(files(directory.path()), before);
    assert_eq!(latest_checkpoint(&text(directory.path())).unwrap(), Some(format!("{path}-1")));
    assert_eq!(saver.last_checkpoints(), [format!("{path}-1")]);
    saver.save(&session, &path, Some(3)).unwrap();
}

#[test]
fn a_graph_is_trained_on_from_its_meta_file() {
    let directory = tempfile::tempdir().unwrap();
    let Model { graph, step, .. } = model();
    graph.new_variable("mine").local().init(1.0f32);
    step.assign_add(1).unwrap();
    let saver = Saver::builder(&graph).sharded(true).max_to_keep(3).build().unwrap();
    let session = initialised(&graph);
    let prefix = saver.save(&session, &text(&directory.path().join("m")), Some(1)).unwrap();

    let imported = import_meta_graph(&format!("{prefix}.meta")).unwrap();
    let names = |variables: Vec<Variable>| variables.iter().map(Variable::name).collect::<Vec<_>>();
    assert_eq!(names(imported.graph.global_variables()), names(graph.global_variables()));
    assert_eq!(names(imported.graph.trainable_variables()), ["weights", "layer/bias"]);
    assert_eq!(names(imported.graph.local_variables()), ["mine"]);
    let again = imported.saver.unwrap();
    assert_eq!(again.saver_def(), saver.saver_def());
    let session = Session::new(&imported.graph);
    again.restore(&session, &prefix).unwrap();
    session.run(&imported.graph.operation("AssignAdd").unwrap()).unwrap();
    let step = imported.graph.output("global_step:0").unwrap();
    assert_eq!(session.run(&step).unwrap().to_scalar::<i64>().unwrap(), 1);
    let options = SaveOptions { global_step: Some(2), write_meta_graph: false, ..Default::default() };
    let prefix = again.save_with(&session, &text(&directory.path().join("m")), &options).unwrap();
    assert!(!Path::new(&format!("{prefix}.meta")).exists());
}

/// A divided variable and its optimizer's slots are saved whole, and restored in other parts or in one.
#[test]
fn a_divided_variable_is_restored_in_other_parts() -> Result<()> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model").to_str().unwrap().to_string();
    let numbers: Vec<f32> = (0..14).map(|i| i as f32).collect();

    let model = |parts: usize| -> Result<(Graph, Vec<Variable>)> {
        let g = Graph::new();
        let table = g.get_variable("table").shape([7, 2]).initializer(Initializer::zeros());
        let table = table.partitioner(Partitioner::fixed_size(parts)).build()?;
        let loss = table.value()?.square()?.reduce_sum(..)?;
        Adagrad::new(0.1).minimize(&loss)?;
        Ok((g, table.parts().to_vec()))
    };
    let (g, parts) = model(3)?;
    let names: Vec<String> = g.global_variables().iter().map(|v| v.name()).collect();
    assert!(names.contains(&"table/part_2/Adagrad".to_string()), "{names:?}");
    let saver = Saver::new(&g)?;
    let session = Session::new(&g);
    session.run(g.global_variables_initializer()?)?;
    let mut start = 0;
    for part in &parts {
        let count = part.shape()?.dim(0).unwrap() * 2;
        let value = Tensor::from_slice(&numbers[start..start + count], &[count / 2, 2])?;
        session.run(part.assign(value)?)?;
        start += count;
    }
    let prefix = saver.save(&session, &path, None)?;
    let reader = CheckpointReader::open(&prefix)?;
    assert_eq!(reader.names(), ["table", "table/Adagrad"]);
    assert_eq!(reader.tensor("table")?.as_slice::<f32>()?, numbers);

    // In two parts, from a meta graph that remembers what the parts are, and in one variable.
    let (g, parts) = model(2)?;
    let session = Session::new(&g);
    Saver::new(&g)?.restore(&session, &prefix)?;
    assert_eq!(session.run(&parts[1])?.as_slice::<f32>()?, &numbers[8..]);

    let imported = import_meta_graph(&format!("{prefix}.meta"))?;
    let session = Session::new(&imported.graph);
    Saver::new(&imported.graph)?.restore(&session, &prefix)?;
    assert_eq!(session.run(imported.graph.output("table/part_1:0")?)?.as_slice::<f32>()?, &numbers[6..10]);

    let g = Graph::new();
    let whole = g.get_variable("table").shape([7, 2]).build()?;
    let session = Session::new(&g);
    Saver::new(&g)?.restore(&session, &prefix)?;
    assert_eq!(session.run(&whole)?.as_slice::<f32>()?, numbers);

    // The other way round: a whole variable into parts, and a table of another shape not at all.
    let prefix = Saver::new(&g)?.save(&session, &path, Some(1))?;
    let g = Graph::new();
    let table = g.get_variable("table").shape([7, 2]).partitioner(Partitioner::fixed_size(4)).build()?;
    let session = Session::new(&g);
    Saver::new(&g)?.restore(&session, &prefix)?;
    assert_eq!(session.run(table.value()?)?.as_slice::<f32>()?, numbers);
    let g = Graph::new();
    g.get_variable("table").shape([8, 2]).partitioner(Partitioner::fixed_size(4)).build()?;
    let error = Saver::new(&g)?.restore(&Session::new(&g), &prefix).unwrap_err();
    assert!(error.message().contains("[8,2]") && error.message().contains("[7,2]"), "{error}");
    Ok(())
}
