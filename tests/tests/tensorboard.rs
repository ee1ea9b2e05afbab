//! What the tools people look at runs with make of ours: TensorBoard's readers of event files, TensorFlow's timeline,
//! and TensorFlow itself on graphs with summaries; and what our timeline makes of a TensorFlow server's statistics.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use half::f16;
use serde_json::Value;
use tensorfleet::summary::{FileWriter, MetaGraphDef, SessionStatus};
use tensorfleet::{Graph, Output, Session, Tensor, Timeline};
use tensorfleet_proto::Message;
use tensorfleet_tests::cluster::{Cluster, Job, Server};
use tensorfleet_tests::python::{Interpreter, Program};
use tensorfleet_tests::skipping::skip;
use tensorfleet_tests::summary_check::compare_summaries;

/// Ten times what the program takes on an idle machine.
const LIMIT: Duration = Duration::from_secs(300);

struct Model {
    graph: Graph,
    loss: Output,
    /// All summaries but that of the loss, which is fed.
    summaries: Vec<Output>,
}

/// A graph with every kind of summary, on values that every program can compute for itself.
fn model() -> Model {
    let g = Graph::new();
    let loss = g.constant_named("current_loss", 1.0f32);
    g.scalar_summary("loss", &loss).unwrap();
    g.name_scope("train", || g.scalar_summary("count", 1i64 << 40)).unwrap();
    let weights: Vec<f32> = (0..1000).map(|n| ((n * 37 % 1000) as f32 / 250.0 - 2.0).powi(3)).collect();
    g.device("/job:localhost/task:0", || g.histogram_summary("weights", g.constant(weights))).unwrap();
    g.histogram_summary("numbers", g.constant([-3i32, 0, 7, 1000])).unwrap();
    let pixels: Vec<u8> = (0..120).map(|n| (n * 7 % 256) as u8).collect();
    let pictures = g.constant_named("pictures", Tensor::from_slice(&pixels, &[2, 4, 5, 3]).unwrap());
    g.image_summary("bytes", &pictures, 3).unwrap();
    let mut floats: Vec<f32> = (0..256).map(|n| (n as f32).sin() * 3.0).collect();
    floats[17] = f32::NAN;
    floats[40] = f32::NEG_INFINITY;
    g.image_summary("floats", Tensor::from_slice(&floats, &[4, 8, 8, 1]).unwrap(), 1).unwrap();
    let halves: Vec<f16> = (0..64).map(|n| f16::from_f32((n as f32).sqrt())).collect();
    g.image_summary("halves", Tensor::from_slice(&halves, &[1, 4, 4, 4]).unwrap(), 3).unwrap();
    g.text_summary("notes", g.constant(["first *line*", "second"])).unwrap();
    let clips = g.constant([[0.0f32, 0.5, -0.5, 1.0, -1.0, 2.0], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]]);
    g.audio_summary("sound", &clips, 8000.0f32).unwrap();
    let summaries = g.collection(tensorfleet::summary::SUMMARIES);
    Model { graph: g, loss, summaries }
}

/// Everything that `tensorboard_reader.py` looks for; gives what our session computed for each summary.
fn write_run(directory: &Path) -> Vec<Tensor> {
    let Model { graph: g, loss, summaries } = model();
    let merged = g.merge_all_summaries().unwrap().unwrap();
    let session = Session::new(&g);
    let results = session.run(summaries.clone()).unwrap();
    std::fs::write(directory.join("graph.pb"), without_devices(&g)).unwrap();
    let names: Vec<String> = summaries.iter().map(Output::name).collect();
    std::fs::write(directory.join("fetches.txt"), names.join("\n")).unwrap();

    let writer = FileWriter::new(&directory.join("logs").display().to_string()).unwrap();
    writer.add_session_log(SessionStatus::Start, "", 0).unwrap();
    writer.add_graph(&g).unwrap();
    let meta_graph = MetaGraphDef { graph_def: Some(g.to_graph_def()), ..Default::default() };
    writer.add_meta_graph(&meta_graph, 0).unwrap();
    for step in 1..=3i64 {
        let value = 0.5f32.powi(step as i32);
        writer.add_summary(&session.feed(&loss, value).run(&merged).unwrap(), step).unwrap();
    }
    writer.add_scalar("global_step/sec", 12.5, 3).unwrap();
    writer.add_session_log(SessionStatus::Checkpoint, "/logs/model.ckpt-3", 3).unwrap();
    let (_, metadata) = session.step().run_traced(&merged).unwrap();
    writer.add_run_metadata(&metadata, "step3", 3).unwrap();
    writer.add_session_log(SessionStatus::Stop, "", 3).unwrap();
    writer.close().unwrap();
    Timeline::new(&metadata).write(directory.join("trace.json")).unwrap();
    results
}

/// TensorFlow's session in a Python process has other devices than ours.
fn without_devices(g: &Graph) -> Vec<u8> {
    let mut def = g.to_graph_def();
    def.node.iter_mut().for_each(|node| node.device.clear());
    def.encode_to_vec()
}

fn assert_passes(interpreter: &Interpreter, program: &str, directory: &Path) {
    let flag = format!("--directory={}", directory.display());
    let program = Program::start(interpreter, program, [flag], LIMIT);
    let checks = program.and_then(|program| program.finish(|_| Ok(())));
    let checks = checks.unwrap_or_else(|story| panic!("{story}"));
    for check in &checks {
        println!("{} {} {}", check.passed, check.name, check.detail);
    }
    let failed: Vec<_> = checks.iter().filter(|check| !check.passed).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn tensorflow_computes_the_same_summaries_and_draws_the_same_timeline() {
    let directory = tempfile::tempdir().unwrap();
    let ours = write_run(directory.path());
    let interpreter = Interpreter::with_tensorflow_2().unwrap_or_else(|reason| panic!("{reason}"));
    assert_passes(&interpreter, "summary_graph.py", directory.path());
    for (index, ours) in ours.iter().enumerate() {
        let file = directory.path().join(format!("tensorflow_{index}.summary"));
        let theirs = Tensor::string(std::fs::read(file).unwrap());
        compare_summaries(ours, &theirs).unwrap();
    }
    assert_eq!(ours.len(), 9);
}

/// TensorFlow 2.21 no longer brings TensorBoard along, 1.15 does.
fn with_tensorboard() -> Option<Interpreter> {
    let has_tensorboard = |interpreter: &Interpreter| {
        let import = Command::new(interpreter.program()).args(["-c", "import tensorboard"]).output();
        import.is_ok_and(|output| output.status.success())
    };
    let all = [Interpreter::with_tensorflow_2().ok(), Interpreter::with_tensorflow_1_if_any()];
    let found = all.into_iter().flatten().find(has_tensorboard);
    if found.is_none() {
        skip("no Python has TensorBoard", "`cargo xtask python` installs it");
    }
    found
}

#[test]
fn tensorboard_reads_everything_we_write() {
    let Some(interpreter) = with_tensorboard() else { return };
    let directory = tempfile::tempdir().unwrap();
    write_run(directory.path());
    assert_passes(&interpreter, "tensorboard_reader.py", directory.path());
}

/// A TensorFlow server lists transfers apart from nodes, and names receiving nodes in its own way.
#[test]
fn the_timeline_of_a_tensorflow_cluster_has_all_devices_and_arrows_between_them() {
    let interpreter = Interpreter::with_tensorflow_2().unwrap_or_else(|reason| panic!("{reason}"));
    let server = || Server::TensorFlow(interpreter.clone());
    let cluster = Cluster::start(&[server()], &[server()]).unwrap_or_else(|reason| panic!("{reason}"));
    let g = Graph::new();
    let v = g.device("/job:ps/task:0", || g.variable("v", [[1.0f32, 2.0], [3.0, 4.0]]));
    let y = g.device("/job:worker/task:0", || v.value().matmul(&v)).unwrap();
    let session = Session::connect(&cluster.target(Job::Worker, 0).unwrap(), &g).unwrap();
    session.run(v.initializer()).unwrap();
    let (_, metadata) = session.step().run_traced(&y).unwrap();

    let trace: Value = serde_json::from_str(&Timeline::new(&metadata).chrome_trace()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of_kind = |kind: &str| events.iter().filter(|event| event["ph"] == kind).collect::<Vec<_>>();
    let processes: Vec<&str> =
        of_kind("M").iter().map(|event| event["args"]["name"].as_str().unwrap()).collect();
    for job in ["ps", "worker"] {
        let compute = format!("/job:{job}/replica:0/task:0/device:CPU:0 Compute");
        assert_eq!(processes.iter().filter(|name| **name == compute).count(), 1, "{processes:?}");
    }
    let named = |name: &str| of_kind("X").into_iter().filter(|event| event["args"]["name"] == name).count();
    assert_eq!((named("v"), named("MatMul"), named("RecvTensor")), (1, 1, 1), "{trace:#}");
    let arrows = of_kind("s");
    assert!(arrows.iter().any(|arrow| arrow["name"] == "v/read"), "{trace:#}");
    session.close().unwrap();
}
