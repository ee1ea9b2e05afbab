//! The placement log of a session in this process, on its standard output.

use std::process::Command;

use super::*;

#[test]
fn the_device_of_every_node_is_printed_when_the_graph_is_placed() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", "session::tests::placement_log::a_process_that_logs"])
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = printed.lines().filter(|line| line.contains("/device:CPU:0")).collect();
    let device = "/job:localhost/replica:0/task:0/device:CPU:0";
    let [b, a, c] = [("b", "Identity"), ("a", "Const"), ("c", "Identity")]
        .map(|(name, op)| format!("{name}: ({op}): {device}"));
    // Once when the first step is planned, and again when the graph has grown.
    assert_eq!(lines, [&*b, &a, &b, &c, &a], "{printed}");
}

#[test]
#[ignore = "the process that the_device_of_every_node_is_printed_when_the_graph_is_placed starts"]
fn a_process_that_logs() {
    let options = SessionOptions { log_device_placement: true, ..SessionOptions::default() };
    let session = DirectSession::new(Task::local(), options);
    let extend = |nodes| session.extend(GraphDef { node: nodes, ..Default::default() }).unwrap();
    // The harness has printed the name of the test, without an end of line.
    println!();
    extend(vec![constant("a", 1i32), typed("b", "Identity", &["a"], DType::Int32)]);
    for name in ["b", "a"] {
        fetch(&session, name).unwrap();
    }
    extend(vec![typed("c", "Identity", &["b"], DType::Int32)]);
    fetch(&session, "c").unwrap();
}
