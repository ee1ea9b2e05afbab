//! Graphs that are imported, planned and run.

use std::sync::LazyLock;

use tensorfleet_core::attr::FromAttr;
use tensorfleet_core::{DType, PartialShape, Tensor};
use tensorfleet_ops::catalogue;
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::{GraphDef, NodeDef};

use super::sandbox;
use crate::mutation::{Choices, damage_graph};
use crate::random_node::{RandomNode, random_graph};

/// Graphs of more nodes take longer than they are worth.
const MAX_NODES: usize = 200;
/// Nodes of an encoded graph that are run, from its end.
const RUN_NODES: usize = 3;
/// Elements of a value for a placeholder.
const MAX_FED: usize = 256;

/// A graph of one to three nodes of any ops: bytes choose the ops, their attributes and inputs. All of it runs twice.
pub fn graph(data: &[u8]) {
    let mut choices = Choices::from_bytes(data);
    let count = 1 + choices.below(3);
    let ops: Vec<&str> = (0..count).map(|_| op_at(choices.below(1 << 16))).collect();
    let Some(RandomNode { graph, feeds, before, has_output }) = random_graph(&ops, &mut choices) else {
        return;
    };
    let session = sandbox::session();
    if session.extend(graph).is_err() {
        return;
    }
    let feeds: Vec<(&str, Tensor)> = feeds.iter().map(|(name, value)| (&**name, value.clone())).collect();
    let before: Vec<&str> = before.iter().map(String::as_str).collect();
    let options = sandbox::run_options();
    let _ = session.run(&feeds, &[], &before, &options);
    let fetches: &[&str] = if has_output { &["node:0"] } else { &[] };
    for _ in 0..2 {
        if let Err(status) = session.run(&feeds, fetches, &["node"], &options) {
            assert!(!status.text().contains("panicked"), "{status}");
        }
    }
    let _ = session.close();
}

/// The op at a place of a ring of all ops, so that new ops move few inputs to another op.
fn op_at(place: usize) -> &'static str {
    static RING: LazyLock<Vec<(usize, &'static str)>> = LazyLock::new(|| {
        let fold = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        let place = |name: &str| name.bytes().fold(0x811c_9dc5, fold) >> 16;
        let mut ring: Vec<_> =
            catalogue().all().iter().map(|op| (place(op.name) as usize, op.name)).collect();
        ring.sort_unstable();
        ring
    });
    let next = RING.partition_point(|&(other, _)| other < place);
    RING[next % RING.len()].1
}

/// An encoded graph: its last nodes are run, with zeros for placeholders.
pub fn graph_def(data: &[u8]) {
    let Ok(graph) = GraphDef::decode(data) else { return };
    if graph.node.len() > MAX_NODES {
        return;
    }
    let placeholders = graph.node.iter().filter(|node| node.op == "Placeholder");
    let fed: Vec<(String, Tensor)> =
        placeholders.filter_map(|node| Some((node.name.clone(), value_for(node)?))).collect();
    let last: Vec<String> = graph.node.iter().rev().map(|node| node.name.clone()).take(RUN_NODES).collect();
    let session = sandbox::session();
    if session.extend(graph).is_err() {
        return;
    }
    let feeds: Vec<(&str, Tensor)> = fed.iter().map(|(name, value)| (&**name, value.clone())).collect();
    for name in &last {
        let options = sandbox::run_options();
        // A node without outputs is a target; value or error, both are answers.
        if session.run(&feeds, &[&format!("{name}:0")], &[], &options).is_err() {
            let _ = session.run(&feeds, &[], &[name], &options);
        }
    }
    let _ = session.close();
}

fn value_for(node: &NodeDef) -> Option<Tensor> {
    let dtype = DType::from_attr(node.attr.get("dtype")?).ok()?;
    let shape = node.attr.get("shape").and_then(|shape| PartialShape::from_attr(shape).ok());
    let shape = shape.unwrap_or_else(PartialShape::unknown);
    let sizes = shape.dims().unwrap_or_default().iter().map(|size| size.unwrap_or(2));
    let sizes: Vec<usize> = sizes.collect();
    let count = sizes.iter().try_fold(1usize, |count, &size| count.checked_mul(size))?;
    let shape = tensorfleet_core::Shape::new(&sizes).ok().filter(|_| count <= MAX_FED)?;
    Tensor::zeros(dtype, shape).ok()
}

/// Changes an encoded graph so that it stays one. Gives the new length; 0 if there is no graph, or no room for it.
pub fn mutate_graph_def(data: &mut [u8], size: usize, seed: u32) -> usize {
    static OPS: LazyLock<Vec<&'static str>> =
        LazyLock::new(|| catalogue().all().iter().map(|op| op.name).collect());
    let Ok(mut graph) = GraphDef::decode(&data[..size]) else { return 0 };
    damage_graph(&mut graph, &OPS, &mut Choices::new(u64::from(seed)));
    let encoded = graph.encode_to_vec();
    match data.get_mut(..encoded.len()) {
        Some(room) if !encoded.is_empty() => {
            room.copy_from_slice(&encoded);
            encoded.len()
        }
        _ => 0,
    }
}
