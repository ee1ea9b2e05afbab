//! [`Model`]: a graph as this command looks at it. Nothing in it must be right: an input that names no node is counted,
//! an op that nobody knows is a word like any other.

use std::collections::{BTreeMap, HashMap};

use tensorfleet_core::attr::FromAttr;
use tensorfleet_core::{DType, parse_endpoint};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::attr_value::Value;
use tensorfleet_proto::tensorflow::{GraphDef, NodeDef};

use super::shapes::{Shapes, dtype_attr, shape_attr};
use super::volume::Volume;

/// What nodes without a device are called.
const NOWHERE: &str = "(no device)";
/// How many colocations are followed from a node to one with a device.
const MAX_COLOCATIONS: usize = 8;

pub(super) struct Model {
    pub(super) nodes: Vec<Node>,
    /// The names of devices, in order; nodes have an index into this.
    pub(super) devices: Vec<String>,
    pub(super) edges: Vec<Edge>,
    /// From and to.
    pub(super) control_edges: Vec<(usize, usize)>,
    /// Inputs that name no node.
    pub(super) dangling: usize,
    pub(super) functions: usize,
    /// Why shapes are known only in part.
    pub(super) shapes_note: Option<String>,
}

pub(super) struct Node {
    pub(super) name: String,
    pub(super) op: String,
    pub(super) device: usize,
    /// The bytes of a variable.
    pub(super) variable: Option<Volume>,
    /// Its type and shape in words.
    pub(super) variable_type: String,
    /// The bytes that a constant takes in the file.
    pub(super) constant_bytes: Option<u64>,
}

/// A tensor from one node to another.
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) slot: u32,
    pub(super) to: usize,
    pub(super) volume: Volume,
}

impl Model {
    pub(super) fn of(graph: &GraphDef, batch: Option<u64>) -> Model {
        let mut by_name: HashMap<&str, usize> = HashMap::with_capacity(graph.node.len());
        for (index, node) in graph.node.iter().enumerate() {
            by_name.entry(&node.name).or_insert(index);
        }
        let shapes = Shapes::of(graph);
        let placed: Vec<String> =
            graph.node.iter().map(|node| device_of(graph, &by_name, &shapes, node)).collect();
        let devices: BTreeMap<&str, ()> = placed.iter().map(|device| (device.as_str(), ())).collect();
        let devices: Vec<String> = devices.keys().map(|device| device.to_string()).collect();
        let nodes = graph.node.iter().zip(&placed).map(|(node, device)| Node {
            name: node.name.clone(),
            op: node.op.clone(),
            device: devices.binary_search(device).unwrap_or(0),
            variable: variable(node, batch),
            variable_type: variable_type(node),
            constant_bytes: constant_bytes(node),
        });
        let mut model = Model {
            nodes: nodes.collect(),
            edges: Vec::new(),
            control_edges: Vec::new(),
            dangling: 0,
            functions: graph.library.as_ref().map_or(0, |library| library.function.len()),
            shapes_note: shapes.note.clone(),
            devices,
        };
        for (to, node) in graph.node.iter().enumerate() {
            for input in &node.input {
                model.add_input(input, to, &by_name, &shapes, batch);
            }
        }
        model
    }

    fn add_input(
        &mut self,
        input: &str,
        to: usize,
        by_name: &HashMap<&str, usize>,
        shapes: &Shapes,
        batch: Option<u64>,
    ) {
        if let Some(name) = input.strip_prefix('^') {
            match by_name.get(name) {
                Some(&from) => self.control_edges.push((from, to)),
                None => self.dangling += 1,
            }
            return;
        }
        let (name, slot) = parse_endpoint(input).unwrap_or((input, 0));
        let Some(&from) = by_name.get(name) else {
            self.dangling += 1;
            return;
        };
        let volume = match shapes.output(from, slot) {
            Some((dtype, shape)) => Volume::of(*dtype, shape, batch),
            None => Volume { unknown: 1, ..Volume::default() },
        };
        self.edges.push(Edge { from, slot, to, volume });
    }

    /// How deep each node lies: the length of the longest way to it from a node without inputs. Edges that close a loop
    /// do not count.
    pub(super) fn depths(&self) -> Vec<u32> {
        let mut waiting = vec![0u32; self.nodes.len()];
        let mut consumers: Vec<Vec<u32>> = vec![Vec::new(); self.nodes.len()];
        let all =
            self.edges.iter().map(|edge| (edge.from, edge.to)).chain(self.control_edges.iter().copied());
        for (from, to) in all {
            if self.nodes[from].op != "NextIteration" && self.nodes[from].op != "RefNextIteration" {
                waiting[to] += 1;
                consumers[from].push(to as u32);
            }
        }
        let mut depths = vec![0u32; self.nodes.len()];
        let mut ready: Vec<usize> = (0..self.nodes.len()).filter(|&node| waiting[node] == 0).collect();
        // What stays waiting is in a cycle that no loop explains, and keeps the depth it has so far.
        while let Some(node) = ready.pop() {
            for &to in &consumers[node] {
                let to = to as usize;
                depths[to] = depths[to].max(depths[node] + 1);
                waiting[to] -= 1;
                if waiting[to] == 0 {
                    ready.push(to);
                }
            }
        }
        depths
    }
}

/// Where a node is: on its own device, or on that of the node it is colocated with, or of the variable it works on.
fn device_of(graph: &GraphDef, by_name: &HashMap<&str, usize>, shapes: &Shapes, node: &NodeDef) -> String {
    let resource = |input: &String| {
        let (name, slot) = parse_endpoint(input).ok()?;
        let &index = by_name.get(name)?;
        let is_resource = shapes.output(index, slot).is_some_and(|(dtype, _)| *dtype == DType::Resource);
        is_resource.then_some(index)
    };
    let mut node = node;
    for _ in 0..MAX_COLOCATIONS {
        if !node.device.is_empty() {
            return short_device(&node.device);
        }
        let classes = node.attr.get("_class").and_then(|class| Vec::<String>::from_attr(class).ok());
        let with = classes.iter().flatten().find_map(|class| class.strip_prefix("loc:@"));
        let with = with.and_then(|name| by_name.get(name)).copied();
        let with = with.or_else(|| node.input.iter().find_map(resource));
        match with.and_then(|index| graph.node.get(index)) {
            Some(next) => node = next,
            None => break,
        }
    }
    NOWHERE.to_string()
}

/// A device name without what is the same everywhere: `/job:ps/task:0` for `/job:ps/replica:0/task:0/device:CPU:0`.
fn short_device(device: &str) -> String {
    let mut short = device.replace("/replica:0", "");
    for ending in ["/device:CPU:0", "/device:cpu:0", "/cpu:0", "/CPU:0"] {
        if let Some(task) = short.strip_suffix(ending).filter(|task| !task.is_empty()) {
            short = task.to_string();
        }
    }
    short
}

fn is_variable(op: &str) -> bool {
    matches!(op, "Variable" | "VariableV2" | "VarHandleOp")
}

fn variable(node: &NodeDef, batch: Option<u64>) -> Option<Volume> {
    if !is_variable(&node.op) {
        return None;
    }
    Some(match (dtype_attr(node, "dtype"), shape_attr(node)) {
        (Some(dtype), Some(shape)) => Volume::of(dtype, &shape, batch),
        _ => Volume { unknown: 1, ..Volume::default() },
    })
}

fn variable_type(node: &NodeDef) -> String {
    match (is_variable(&node.op), dtype_attr(node, "dtype"), shape_attr(node)) {
        (true, Some(dtype), Some(shape)) => format!("{dtype} {shape}"),
        _ => String::new(),
    }
}

fn constant_bytes(node: &NodeDef) -> Option<u64> {
    if node.op != "Const" {
        return None;
    }
    match node.attr.get("value")?.value.as_ref()? {
        Value::Tensor(tensor) => Some(tensor.encoded_len() as u64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, op: &str, inputs: &[&str]) -> NodeDef {
        NodeDef {
            name: name.to_string(),
            op: op.to_string(),
            input: inputs.iter().map(|input| input.to_string()).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn broken_graphs_are_counted_and_cycles_end() {
        let nodes = vec![
            node("a", "NoSuchOp", &["b", "nobody", "^nobody"]),
            node("b", "NoSuchOp", &["a:1", "^a", "b"]),
            node("a", "Twice", &["x:y:z"]),
        ];
        let model = Model::of(&GraphDef { node: nodes, ..Default::default() }, None);
        assert_eq!((model.edges.len(), model.control_edges.len(), model.dangling), (3, 1, 3));
        assert!(model.shapes_note.is_some());
        assert_eq!(model.depths().len(), 3);
    }

    #[test]
    fn devices_are_short_and_follow_colocation() {
        assert_eq!(short_device("/job:ps/replica:0/task:0/device:CPU:0"), "/job:ps/task:0");
        assert_eq!(short_device("/job:ps/task:1/device:GPU:0"), "/job:ps/task:1/device:GPU:0");
        assert_eq!(short_device("/device:CPU:0"), "/device:CPU:0");
        let mut first = node("v", "NoOp", &[]);
        first.device = "/job:ps/task:1".to_string();
        let mut second = node("w", "NoOp", &[]);
        let class = tensorfleet_core::attr::IntoAttr::into_attr(vec!["loc:@v".to_string()]);
        second.attr.insert("_class".to_string(), class);
        let graph = GraphDef { node: vec![first, second, node("x", "NoOp", &[])], ..Default::default() };
        let model = Model::of(&graph, None);
        let placed: Vec<&str> = model.nodes.iter().map(|node| model.devices[node.device].as_str()).collect();
        assert_eq!(placed, ["/job:ps/task:1", "/job:ps/task:1", "(no device)"]);
    }
}
