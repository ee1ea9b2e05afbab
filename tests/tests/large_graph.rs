//! Graphs of a hundred thousand nodes are imported, planned and run without recursion.
//!
//! The work is done on a thread with a small stack, which any recursion over the graph would overflow. Times are
//! printed (`--nocapture`), not asserted: they depend on the machine.

#![allow(clippy::unwrap_used)]

use std::thread;
use std::time::Instant;

use tensorfleet_core::{DType, Tensor};
use tensorfleet_proto::tensorflow::GraphDef;
use tensorfleet_runtime::{DirectSession, RunOptions, SessionOptions, Task};
use tensorfleet_tests::graph_builder::GraphBuilder;

const NODES: usize = 100_000;
const SMALL_STACK_BYTES: usize = 256 << 10;

/// Runs a graph twice and returns what it fetched.
fn run_on_a_small_stack(what: &'static str, graph: GraphDef, fetch: &'static str) -> Tensor {
    let work = move || {
        let session = DirectSession::new(Task::local(), SessionOptions::default());
        let mut last = Instant::now();
        let mut lap = || std::mem::replace(&mut last, Instant::now()).elapsed();
        session.extend(graph).unwrap();
        let imported = lap();
        let first = session.run(&[], &[fetch], &[], &RunOptions::default()).unwrap();
        let planned = lap();
        let second = session.run(&[], &[fetch], &[], &RunOptions::default()).unwrap();
        println!("{what}: import {imported:?}, plan and first run {planned:?}, second run {:?}", lap());
        assert_eq!(first, second);
        session.close().unwrap();
        second.into_iter().next().unwrap()
    };
    let thread = thread::Builder::new().stack_size(SMALL_STACK_BYTES).spawn(work).unwrap();
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[test]
fn a_chain_of_additions_counts_its_nodes() {
    let mut builder = GraphBuilder::new().constant("n0", 0i32).constant("one", 1i32);
    for index in 1..=NODES {
        let previous = format!("n{}", index - 1);
        builder = builder.typed(&format!("n{index}"), "AddV2", &[&previous, "one"], DType::Int32);
    }
    let mut graph = builder.build();
    // Consumers before producers is the worst order for an importer that follows inputs.
    graph.node.reverse();
    assert_eq!(run_on_a_small_stack("chain", graph, "n100000:0"), Tensor::scalar(NODES as i32));
}

#[test]
fn a_chain_of_control_edges_is_followed_to_its_end() {
    let mut builder = GraphBuilder::new().node("c0", "NoOp", &[], &[]);
    for index in 1..NODES {
        let previous = format!("^c{}", index - 1);
        builder = builder.node(&format!("c{index}"), "NoOp", &[&previous], &[]);
    }
    let graph =
        builder.constant("value", 7i32).typed("end", "Identity", &["value", "^c99999"], DType::Int32).build();
    assert_eq!(run_on_a_small_stack("control chain", graph, "end:0"), Tensor::scalar(7i32));
}

#[test]
fn one_node_may_wait_for_a_hundred_thousand_others() {
    let names: Vec<String> = (0..NODES).map(|index| format!("^c{index}")).collect();
    let mut builder = GraphBuilder::new().constant("value", 7i32);
    for name in &names {
        builder = builder.node(&name[1..], "NoOp", &[], &[]);
    }
    let inputs: Vec<&str> = std::iter::once("value").chain(names.iter().map(String::as_str)).collect();
    let graph = builder.typed("end", "Identity", &inputs, DType::Int32).build();
    assert_eq!(run_on_a_small_stack("fan in", graph, "end:0"), Tensor::scalar(7i32));
}

#[test]
fn one_value_may_go_to_a_hundred_thousand_nodes() {
    let mut builder = GraphBuilder::new().constant("value", 7i32);
    let names: Vec<String> = (0..NODES).map(|index| format!("^i{index}")).collect();
    for name in &names {
        builder = builder.typed(&name[1..], "Identity", &["value"], DType::Int32);
    }
    let inputs: Vec<&str> = std::iter::once("value").chain(names.iter().map(String::as_str)).collect();
    let graph = builder.typed("end", "Identity", &inputs, DType::Int32).build();
    assert_eq!(run_on_a_small_stack("fan out", graph, "end:0"), Tensor::scalar(7i32));
}
