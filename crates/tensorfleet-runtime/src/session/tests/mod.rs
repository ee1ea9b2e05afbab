//! Stories of sessions in this process: what runs give, what is refused, and how they end.

mod partial_runs;
mod placement_log;
mod simplified;

use std::sync::Arc;
use std::time::Duration;

use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{Code, DType, Result, Tensor};
use tensorfleet_proto::tensorflow::{AttrValue, GraphDef, NodeDef};

use super::{DirectSession, RunOptions, SessionOptions};
use crate::task::Task;

fn node(name: &str, op: &str, inputs: &[&str], attrs: Vec<(&str, AttrValue)>) -> NodeDef {
    let input = inputs.iter().map(|input| input.to_string()).collect();
    let attr = attrs.into_iter().map(|(key, value)| (key.to_string(), value)).collect();
    NodeDef { name: name.into(), op: op.into(), input, attr, ..Default::default() }
}

fn constant(name: &str, value: impl Into<Tensor>) -> NodeDef {
    let value = value.into();
    node(name, "Const", &[], vec![("dtype", value.dtype().into_attr()), ("value", value.into_attr())])
}

fn typed(name: &str, op: &str, inputs: &[&str], dtype: DType) -> NodeDef {
    node(name, op, inputs, vec![("T", dtype.into_attr())])
}

fn placeholder(name: &str, dtype: DType) -> NodeDef {
    node(name, "Placeholder", &[], vec![("dtype", dtype.into_attr())])
}

/// A node that waits for ever.
fn never_received(name: &str) -> NodeDef {
    let attrs = vec![
        ("tensor_type", DType::Int32.into_attr()),
        ("tensor_name", "never".into_attr()),
        ("send_device", "/job:a".into_attr()),
        ("recv_device", "/job:b".into_attr()),
        ("send_device_incarnation", 1i64.into_attr()),
    ];
    node(name, "_Recv", &[], attrs)
}

fn session(nodes: Vec<NodeDef>) -> DirectSession {
    let session = DirectSession::new(Task::local(), SessionOptions::default());
    session.extend(GraphDef { node: nodes, ..Default::default() }).unwrap();
    session
}

fn fetch(session: &DirectSession, name: &str) -> Result<Tensor> {
    session.run(&[], &[name], &[], &RunOptions::default()).map(|mut results| results.remove(0))
}

#[test]
fn values_flow_and_any_tensor_can_be_fed() {
    let session = session(vec![
        constant("a", 1i32),
        typed("b", "Identity", &["a"], DType::Int32),
        typed("c", "Identity", &["b", "^a"], DType::Int32),
    ]);
    assert_eq!(fetch(&session, "c:0").unwrap(), Tensor::scalar(1i32));
    let feeds = [("b", Tensor::scalar(5i32))];
    let results = session.run(&feeds, &["c", "a", "c"], &["b:0"], &RunOptions::default()).unwrap();
    assert_eq!(results, [Tensor::scalar(5i32), Tensor::scalar(1i32), Tensor::scalar(5i32)]);
}

#[test]
fn bad_requests_get_tensorflows_codes_and_leave_the_session_usable() {
    let session = session(vec![
        constant("a", 1i32),
        node("p", "Placeholder", &[], vec![("dtype", DType::Float.into_attr())]),
    ]);
    let run = |feeds: &[(&str, Tensor)], fetches: &[&str], targets: &[&str]| {
        session.run(feeds, fetches, targets, &RunOptions::default()).unwrap_err()
    };
    let one = Tensor::scalar(1i32);
    assert_eq!(run(&[], &["x"], &[]).code(), Code::NotFound);
    assert_eq!(run(&[], &[], &["x"]).code(), Code::NotFound);
    assert_eq!(run(&[("x", one.clone())], &["a"], &[]).code(), Code::NotFound);
    assert_eq!(run(&[], &["a:1"], &[]).code(), Code::InvalidArgument);
    assert_eq!(run(&[], &[], &[]).code(), Code::InvalidArgument);
    assert_eq!(run(&[("a", one.clone())], &["a"], &[]).code(), Code::InvalidArgument);
    assert_eq!(run(&[("a", one.clone()), ("a:0", one.clone())], &["p"], &[]).code(), Code::InvalidArgument);
    assert_eq!(run(&[("p", one)], &[], &["p"]).code(), Code::InvalidArgument);
    let unfed = run(&[], &["p"], &[]);
    assert_eq!(unfed.code(), Code::InvalidArgument);
    assert!(unfed.message().contains("placeholder tensor 'p' with dtype float"), "{unfed}");
    assert!(unfed.message().contains("{{node p}}"), "{unfed}");
    assert_eq!(fetch(&session, "a").unwrap(), Tensor::scalar(1i32));
}

#[test]
fn the_branch_not_taken_is_dead() {
    let session = session(vec![
        constant("x", 7i32),
        constant("yes", true),
        typed("switch", "Switch", &["x", "yes"], DType::Int32),
        typed("no_branch", "Identity", &["switch:0"], DType::Int32),
        typed("yes_branch", "Identity", &["switch:1"], DType::Int32),
        node(
            "merge",
            "Merge",
            &["no_branch", "yes_branch"],
            vec![("T", DType::Int32.into_attr()), ("N", 2i64.into_attr())],
        ),
    ]);
    assert_eq!(fetch(&session, "merge:0").unwrap(), Tensor::scalar(7i32));
    assert_eq!(fetch(&session, "merge:1").unwrap(), Tensor::scalar(1i32));
    assert_eq!(fetch(&session, "no_branch").unwrap_err().code(), Code::InvalidArgument);
    let feeds = [("yes", Tensor::scalar(false))];
    let results = session.run(&feeds, &["merge:1"], &[], &RunOptions::default()).unwrap();
    assert_eq!(results, [Tensor::scalar(0i32)]);
}

#[test]
fn sends_meet_receives_and_a_missing_sender_runs_into_the_deadline() {
    let transfer = |name: &str, op: &str, inputs: &[&str], dtype_attr: &str| {
        let attrs = vec![
            (dtype_attr, DType::Int32.into_attr()),
            ("tensor_name", "edge_1_x".into_attr()),
            ("send_device", "/job:a".into_attr()),
            ("recv_device", "/job:b".into_attr()),
            ("send_device_incarnation", (-1i64).into_attr()),
        ];
        node(name, op, inputs, attrs)
    };
    let session = session(vec![
        constant("x", 7i32),
        transfer("send", "_Send", &["x"], "T"),
        transfer("recv", "_Recv", &[], "tensor_type"),
    ]);
    let results = session.run(&[], &["recv"], &["send"], &RunOptions::default()).unwrap();
    assert_eq!(results, [Tensor::scalar(7i32)]);
    let options = RunOptions { timeout: Some(Duration::from_millis(20)) };
    let status = session.run(&[], &["recv"], &[], &options).unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
}

#[test]
fn closing_cancels_a_waiting_step() {
    let session = Arc::new(session(vec![never_received("recv")]));
    let waiting = {
        let session = session.clone();
        std::thread::spawn(move || fetch(&session, "recv").unwrap_err())
    };
    while session.state.running.is_empty() {
        std::thread::yield_now();
    }
    session.close().unwrap();
    let status = waiting.join().unwrap();
    assert_eq!(status.code(), Code::Cancelled);
    assert!(status.message().contains("Session::Close()"), "{status}");
    assert_eq!(fetch(&session, "recv").unwrap_err().code(), Code::Cancelled);
}

#[test]
fn loops_without_a_switch_and_crossed_frames_are_refused_or_fail_cleanly() {
    let enter = |name: &str, frame: &str| {
        node(name, "Enter", &["x"], vec![("T", DType::Int32.into_attr()), ("frame_name", frame.into_attr())])
    };
    let merge = |inputs: &[&str]| {
        node("m", "Merge", inputs, vec![("T", DType::Int32.into_attr()), ("N", 2i64.into_attr())])
    };
    let crossed = session(vec![
        constant("x", 1i32),
        enter("e", "f"),
        node("both", "IdentityN", &["x", "e"], vec![("T", vec![DType::Int32; 2].into_attr())]),
    ]);
    assert_eq!(fetch(&crossed, "both:0").unwrap_err().code(), Code::InvalidArgument);
    let endless = session(vec![
        constant("x", 1i32),
        enter("e", "f"),
        merge(&["e", "n"]),
        typed("n", "NextIteration", &["m"], DType::Int32),
        typed("out", "Exit", &["m"], DType::Int32),
    ]);
    assert_eq!(fetch(&endless, "out").unwrap_err().code(), Code::InvalidArgument);
    let options = RunOptions { timeout: Some(Duration::from_millis(20)) };
    let status = endless.run(&[], &[], &["n"], &options).unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "an endless loop ends with its time-out: {status}");
}
