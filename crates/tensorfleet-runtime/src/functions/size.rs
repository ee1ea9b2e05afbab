//! [`check_size`]: how big a graph will be once its functions stand in the place of their calls, before any of that is made.
//!
//! A function that calls another twice, which calls another twice, doubles with every level: forty functions in six kilobytes are
//! a million million nodes. What a function becomes is the same wherever it is called, but for the length of names, so one look
//! at each function is enough: the size of a call is that of its function and of its name before every name in it.

use rustc_hash::FxHashMap;
use tensorfleet_core::{Result, ensure, memory};
use tensorfleet_proto::tensorflow::attr_value::Value;
use tensorfleet_proto::tensorflow::{AttrValue, NodeDef};

use super::body::{FunctionIndex, signature};

/// Nodes that functions may add to any graph.
const ADDED_TO_ANY: usize = 100_000;
/// Nodes that they may add for each node that was sent, in the graph or in a function: a function of a thousand nodes may be
/// called some hundred times.
const ADDED_FOR_EACH: usize = 400;
/// Nodes that they may add at most. A program that needs more than this would not fit into memory as TensorFlow runs it either.
const ADDED_AT_MOST: usize = 2_000_000;

/// Nodes around the body of a function that is called: start, end, name, conditions.
const NODES_OF_CALL: usize = 16;
/// Nodes for each value that goes into or comes out of it: switches, merges, entries, exits.
const NODES_OF_VALUE: usize = 6;

/// What a node takes besides names and attributes, and an attribute besides its name: measured on graphs of a million nodes.
const NODE_BYTES: usize = 512;
const ATTR_BYTES: usize = 160;

/// How big a part of a graph is once it is expanded.
#[derive(Clone, Copy, Default)]
struct Size {
    nodes: usize,
    /// How often names are written, those of inputs included.
    names: usize,
    bytes: usize,
}

impl Size {
    fn plus(self, other: Size) -> Size {
        Size {
            nodes: self.nodes.saturating_add(other.nodes),
            names: self.names.saturating_add(other.names),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// With names that are longer by so much.
    fn under_prefix(self, length: usize) -> Size {
        Size { bytes: self.bytes.saturating_add(self.names.saturating_mul(length)), ..self }
    }
}

/// What a node takes in memory as it stands.
pub(crate) fn node_bytes(node: &NodeDef) -> usize {
    let inputs = node.input.iter().map(|input| input.len() + size_of::<String>());
    let attrs = node.attr.iter().map(|(name, value)| ATTR_BYTES + name.len() + attr_bytes(value));
    NODE_BYTES + 2 * node.name.len() + node.device.len() + inputs.chain(attrs).sum::<usize>()
}

/// What an attribute takes besides itself. Contents of tensors belong to the message that brought them.
fn attr_bytes(value: &AttrValue) -> usize {
    match &value.value {
        Some(Value::S(_)) | Some(Value::Shape(_)) => prost::Message::encoded_len(value),
        Some(Value::List(_) | Value::Func(_)) => prost::Message::encoded_len(value).saturating_mul(4),
        Some(Value::Tensor(tensor)) => {
            let lists = prost::Message::encoded_len(&**tensor).saturating_sub(tensor.tensor_content.len());
            lists.saturating_mul(4)
        }
        _ => 0,
    }
}

/// How many nodes functions may add to a graph of which `sent` nodes came.
pub(super) fn most_added(sent: usize) -> usize {
    sent.saturating_mul(ADDED_FOR_EACH).saturating_add(ADDED_TO_ANY).min(ADDED_AT_MOST)
}

/// Refuses nodes that would become more than `most` nodes, or more than fits into memory.
pub(super) fn check_size(library: &FunctionIndex<'_>, nodes: &[NodeDef], most: usize) -> Result<()> {
    let mut known = FxHashMap::default();
    let size =
        nodes.iter().fold(Size::default(), |sum, node| sum.plus(size_of_node(library, node, &mut known)));
    ensure!(
        size.nodes <= most.saturating_add(nodes.len()),
        ResourceExhausted,
        "with its functions expanded the graph would have {} nodes, and at most {} may be: {} were sent, and functions may add \
         {most}",
        size.nodes,
        most.saturating_add(nodes.len()),
        nodes.len()
    );
    memory::check_fits(size.bytes).map_err(|status| status.context("expanding the functions of the graph"))
}

/// The sizes of functions that have been looked at; `None` while one is.
type Known<'a> = FxHashMap<&'a str, Option<Size>>;

/// Functions call each other at most so deep; expansion says so.
const MAX_DEPTH: usize = 65;

/// What a node becomes.
fn size_of_node<'a>(library: &FunctionIndex<'a>, node: &NodeDef, known: &mut Known<'a>) -> Size {
    let mut size = Size { nodes: 1, names: 1 + node.input.len(), bytes: node_bytes(node) };
    for name in callees(library, node) {
        if let Some(function) = size_of_function(library, name, known, MAX_DEPTH) {
            size = size.plus(call_of(function, node));
        }
    }
    size
}

fn call_of(function: Size, node: &NodeDef) -> Size {
    let nodes = NODES_OF_CALL.saturating_add(NODES_OF_VALUE.saturating_mul(node.input.len()));
    let around = Size { nodes, names: 3 * nodes, bytes: nodes.saturating_mul(NODE_BYTES) };
    // `name/_body/`, or what stands there for branches and loops.
    function.plus(around).under_prefix(node.name.len() + "/_branch_1000/".len())
}

/// What a function becomes; `None` for one that is not known, or calls itself: expansion says so.
fn size_of_function<'a>(
    library: &FunctionIndex<'a>,
    name: &str,
    known: &mut Known<'a>,
    depth: usize,
) -> Option<Size> {
    if let Some(size) = known.get(name) {
        return *size;
    }
    let function = library.get(name)?;
    let depth = depth.checked_sub(1)?;
    known.insert(&signature(function).ok()?.name, None);
    let mut sum = Size::default();
    for node in &function.node_def {
        sum = sum.plus(Size { nodes: 1, names: 1 + node.input.len(), bytes: node_bytes(node) });
        for callee in callees(library, node) {
            if let Some(size) = size_of_function(library, callee, known, depth) {
                sum = sum.plus(call_of(size, node));
            }
        }
    }
    known.insert(&signature(function).ok()?.name, Some(sum));
    Some(sum)
}

/// The functions that a node calls where it stands. Those that datasets call are only named, and stay what they are.
fn callees<'n>(library: &FunctionIndex<'_>, node: &'n NodeDef) -> Vec<&'n str> {
    if library.get(&node.op).is_some() {
        return vec![&*node.op];
    }
    if library.op(&node.op).is_none_or(|op| op.calls.is_none()) {
        return Vec::new();
    }
    let mut names = Vec::new();
    for value in node.attr.values() {
        match &value.value {
            Some(Value::Func(function)) => names.push(&*function.name),
            Some(Value::List(list)) => names.extend(list.func.iter().map(|function| &*function.name)),
            _ => {}
        }
    }
    names
}
