//! [`CheckedGraph`]: a graph whose nodes agree with the catalogue and with each other.
//!
//! Structure was checked on import (`tensorfleet_core::Graph`); here every node's op, attributes, arity and types
//! are, once, when the node arrives. Later stages rely on it.

use std::sync::Arc;
use tensorfleet_core::memory::Charge;

use tensorfleet_core::{
    DeviceName, EdgeType, Endpoint, Graph, GraphLimits, Node, NodeId, Result, Status, ensure,
};
use tensorfleet_kernel::node_spec::EdgeTypes;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::{Catalogue, NodeSpec};
use tensorfleet_proto::tensorflow::GraphDef;

use crate::functions::{expand, node_bytes};

/// What the catalogue says of a node: its op, and the types of its edges.
#[derive(Clone)]
pub struct NodeTypes {
    /// The op.
    pub op: &'static Op,
    /// What the op expects of each data input.
    pub inputs: EdgeTypes,
    /// What each output is.
    pub outputs: EdgeTypes,
}

/// A graph and the types of all its edges.
#[derive(Clone)]
pub struct CheckedGraph {
    catalogue: &'static Catalogue,
    graph: Graph,
    types: Vec<NodeTypes>,
    /// For nodes, functions and types, one for each part that was added.
    charges: Vec<Arc<Charge>>,
}

impl CheckedGraph {
    /// An empty graph of ops of this catalogue.
    pub fn new(catalogue: &'static Catalogue) -> CheckedGraph {
        CheckedGraph { catalogue, graph: Graph::new(), types: Vec::new(), charges: Vec::new() }
    }

    /// The ops that nodes may have.
    pub fn catalogue(&self) -> &'static Catalogue {
        self.catalogue
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// What its nodes, functions and types take in memory, as they are charged; large constants aside.
    pub fn charged_bytes(&self) -> usize {
        self.charges.iter().map(|charge| charge.bytes()).fold(0, usize::saturating_add)
    }

    /// The op of a node and the types of its edges.
    pub fn types(&self, node: NodeId) -> &NodeTypes {
        &self.types[node.index()]
    }

    /// Whether the node at `index` has state, which stays on the device where it is.
    pub fn is_stateful(&self, index: usize) -> bool {
        self.types.get(index).is_some_and(|types| types.op.stateful)
    }

    /// The type of an output, if the node has it.
    pub fn output_type(&self, endpoint: Endpoint) -> Option<EdgeType> {
        self.types.get(endpoint.node.index())?.outputs.get(endpoint.slot as usize).copied()
    }

    /// Adds nodes, with functions in the place of their calls. On an error the graph is unchanged.
    pub fn extend(&mut self, def: GraphDef, limits: &GraphLimits) -> Result<()> {
        let def = expand(def, self.graph.library(), limits, self.catalogue)?;
        let charge =
            Charge::new(graph_bytes(&def)).map_err(|status| status.context("the nodes of a graph"))?;
        let (catalogue, types) = (self.catalogue, &self.types);
        let new_types =
            self.graph.extend_checked(def, limits, |old, new| check_new(catalogue, old, types, new));
        self.types.extend(new_types?);
        self.charges.push(Arc::new(charge));
        Ok(())
    }
}

/// What the graph takes in memory.
fn graph_bytes(def: &GraphDef) -> usize {
    let nodes = def.node.iter().map(node_bytes).fold(0, usize::saturating_add);
    let library = def.library.as_ref().map_or(0, prost::Message::encoded_len);
    nodes.saturating_add(library.saturating_mul(4))
}

fn check_new(
    catalogue: &'static Catalogue,
    old: &Graph,
    old_types: &[NodeTypes],
    new: &[Node],
) -> Result<Vec<NodeTypes>> {
    let mut new_types = Vec::with_capacity(new.len());
    for node in new {
        let spec = NodeSpec::resolve(node, catalogue)?;
        // A malformed device name is as fatal as a malformed attribute; where it leads is placement's concern.
        let device = node.device.parse::<DeviceName>();
        device.map_err(|status| status.at_node(&node.name, &node.op, &node.device))?;
        new_types.push(NodeTypes { op: spec.op(), inputs: spec.inputs, outputs: spec.outputs });
    }
    let find = |id: NodeId| match id.index().checked_sub(old.len()) {
        Some(offset) => (&new[offset], &new_types[offset]),
        None => (old.node(id), &old_types[id.index()]),
    };
    for (node, types) in new.iter().zip(&new_types) {
        let at_node = |status: Status| status.at_node(&node.name, &node.op, &node.device);
        for (slot, (&input, &expected)) in node.inputs.iter().zip(&types.inputs).enumerate() {
            let (producer, NodeTypes { outputs, .. }) = find(input.node);
            let Some(&found) = outputs.get(input.slot as usize) else {
                return Err(at_node(Status::invalid_argument(format!(
                    "Node '{}': Connecting to invalid output {} of source node {} which has {} outputs.",
                    node.name,
                    input.slot,
                    producer.name,
                    outputs.len()
                ))));
            };
            check_edge(&node.name, slot, expected, found, || format!("{}:{}", producer.name, input.slot))
                .map_err(at_node)?;
        }
    }
    Ok(new_types)
}

/// Whether an edge of type `found` may feed an input of type `expected`: the same dtype, and a reference where
/// one is wanted.
pub(crate) fn check_edge(
    node: &str,
    slot: usize,
    expected: EdgeType,
    found: EdgeType,
    source: impl Fn() -> String,
) -> Result<()> {
    ensure!(
        expected.dtype == found.dtype && (found.is_ref || !expected.is_ref),
        InvalidArgument,
        "Input {slot} of node {node} was passed {found} from {} incompatible with expected {expected}.",
        source()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::attr::IntoAttr;
    use tensorfleet_core::{Code, DType, Tensor};
    use tensorfleet_proto::tensorflow::NodeDef;

    fn node(name: &str, op: &str, inputs: &[&str], dtype: DType) -> NodeDef {
        let mut attr = std::collections::BTreeMap::new();
        match op {
            "Const" => {
                attr.insert("dtype".to_string(), dtype.into_attr());
                attr.insert("value".to_string(), Tensor::scalar(1.0f32).into_attr());
            }
            _ => {
                attr.insert("T".to_string(), dtype.into_attr());
            }
        }
        let input = inputs.iter().map(|input| input.to_string()).collect();
        NodeDef { name: name.into(), op: op.into(), input, attr, ..Default::default() }
    }

    fn refusal(nodes: Vec<NodeDef>) -> Status {
        let mut graph = CheckedGraph::new(crate::catalogue::linked());
        graph
            .extend(
                GraphDef { node: vec![node("a", "Const", &[], DType::Float)], ..Default::default() },
                &GraphLimits::default(),
            )
            .unwrap();
        let status = graph
            .extend(GraphDef { node: nodes, ..Default::default() }, &GraphLimits::default())
            .unwrap_err();
        assert_eq!(
            (graph.graph().len(), graph.types.len()),
            (1, 1),
            "a refused extension leaves nothing behind"
        );
        assert!(graph.graph().find("b").is_none());
        status
    }

    #[test]
    fn nodes_that_break_their_ops_rules_are_refused_by_name() {
        let mut without_attr = node("b", "Identity", &["a"], DType::Float);
        without_attr.attr.clear();
        let mut bad_device = node("b", "Identity", &["a"], DType::Float);
        bad_device.device = "job:ps".to_string();
        for (bad, code, fragment) in [
            (node("b", "NoSuchOp", &[], DType::Float), Code::NotFound, "Op type not registered 'NoSuchOp'"),
            (without_attr, Code::NotFound, "No attr named 'T'"),
            (
                node("b", "Identity", &["a", "a"], DType::Float),
                Code::InvalidArgument,
                "do not match 2 inputs",
            ),
            (
                node("b", "Identity", &["a:3"], DType::Float),
                Code::InvalidArgument,
                "invalid output 3 of source node a which has 1 outputs",
            ),
            (
                node("b", "Identity", &["a"], DType::Int32),
                Code::InvalidArgument,
                "Input 0 of node b was passed float from a:0 incompatible with expected int32.",
            ),
            (bad_device, Code::InvalidArgument, "Malformed device specification"),
        ] {
            let status = refusal(vec![bad]);
            assert_eq!(status.code(), code, "{status}");
            assert!(status.message().contains(fragment), "{status} should contain {fragment}");
        }
    }
}
