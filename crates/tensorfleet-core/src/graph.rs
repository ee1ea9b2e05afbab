//! [`Graph`]: nodes in a vector, data edges as (node, slot), control edges apart.
//!
//! The graph is the contract between front ends and runtimes, so it keeps everything a `GraphDef` says, also
//! what is not executed here (debug information). It knows structure only: names are unique,
//! inputs exist, the only cycles run through `NextIteration`. What an op accepts is the catalogue's business.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tensorfleet_proto::tensorflow::{
    AttrValue, FullTypeDef, FunctionDefLibrary, GraphDebugInfo, VersionDef, node_def::ExperimentalDebugInfo,
};

use crate::excerpt::excerpt;
use crate::status::{Result, Status};
use crate::{bail, ensure};

/// A node's place in its graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// The index into [`Graph::nodes`].
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The id of the node at `index`. Graphs hold fewer than 2³² nodes ([`crate::GraphLimits`]).
    pub fn from_index(index: usize) -> NodeId {
        NodeId(index as u32)
    }
}

/// One output of a node: the start of data edges.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Endpoint {
    /// The producing node.
    pub node: NodeId,
    /// Which of its outputs.
    pub slot: u32,
}

impl Endpoint {
    /// Output `slot` of `node`.
    pub fn new(node: NodeId, slot: u32) -> Endpoint {
        Endpoint { node, slot }
    }
}

/// One operation in a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Unique in its graph.
    pub name: Arc<str>,
    /// The op type, e.g. `MatMul`.
    pub op: Arc<str>,
    /// The requested device, as written; may be partial or empty.
    pub device: Arc<str>,
    /// Data inputs in slot order.
    pub inputs: Vec<Endpoint>,
    /// Nodes that must have run before.
    pub control_inputs: Vec<NodeId>,
    /// Attributes as written; the catalogue supplies defaults.
    pub attrs: BTreeMap<String, AttrValue>,
    /// Data of newer clients that is passed on unread.
    pub(crate) debug_info: Option<ExperimentalDebugInfo>,
    pub(crate) full_type: Option<FullTypeDef>,
}

impl Node {
    /// A node without inputs and attributes.
    pub fn new(name: impl Into<Arc<str>>, op: impl Into<Arc<str>>) -> Node {
        Node {
            name: name.into(),
            op: op.into(),
            device: Arc::from(""),
            inputs: Vec::new(),
            control_inputs: Vec::new(),
            attrs: BTreeMap::new(),
            debug_info: None,
            full_type: None,
        }
    }

    /// Whether this op starts the next iteration of a loop: the one place where a graph may be cyclic.
    pub fn is_next_iteration(&self) -> bool {
        matches!(&*self.op, "NextIteration" | "RefNextIteration")
    }
}

/// A dataflow graph.
#[derive(Clone, Default)]
pub struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) by_name: FxHashMap<Arc<str>, NodeId>,
    pub(crate) versions: Option<VersionDef>,
    pub(crate) library: Option<FunctionDefLibrary>,
    pub(crate) debug_info: Option<GraphDebugInfo>,
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// All nodes, in the order they were added.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All nodes with their ids.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate().map(|(index, node)| (NodeId::from_index(index), node))
    }

    /// The node with this id. Ids are made by the graph they belong to.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the graph has no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The node called `name`.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// The functions the graph's nodes may call.
    pub fn library(&self) -> Option<&FunctionDefLibrary> {
        self.library.as_ref()
    }

    /// Gives the graph other functions.
    pub fn set_library(&mut self, library: Option<FunctionDefLibrary>) {
        self.library = library;
    }

    /// The versions the producer declared.
    pub fn versions(&self) -> Option<&VersionDef> {
        self.versions.as_ref()
    }

    /// Declares versions, if none have been.
    pub fn set_versions(&mut self, versions: VersionDef) {
        self.versions = Some(versions);
    }

    /// The consumers of every node: `consumers[id]` lists who takes data or control from node `id`.
    pub fn consumers(&self) -> Vec<Vec<NodeId>> {
        let mut consumers = vec![Vec::new(); self.nodes.len()];
        for (id, node) in self.iter() {
            let producers =
                node.inputs.iter().map(|input| input.node).chain(node.control_inputs.iter().copied());
            for producer in producers {
                consumers[producer.index()].push(id);
            }
        }
        consumers
    }

    /// Adds a node whose inputs are already in the graph.
    pub fn add(&mut self, node: Node) -> Result<NodeId> {
        let id = NodeId::from_index(self.nodes.len());
        self.insert(node, id.index())?;
        Ok(id)
    }

    /// Adds nodes that may refer to each other, in any order; their ids go on where the graph's end. On an error the graph is
    /// as before.
    pub fn append(&mut self, nodes: Vec<Node>) -> Result<()> {
        let (before, after) = (self.nodes.len(), self.nodes.len() + nodes.len());
        for node in nodes {
            if let Err(status) = self.insert(node, after) {
                for node in self.nodes.drain(before..) {
                    self.by_name.remove(&node.name);
                }
                return Err(status);
            }
        }
        Ok(())
    }

    /// Adds a node whose inputs are among the first `len` nodes, those still to come included.
    fn insert(&mut self, node: Node, len: usize) -> Result<()> {
        check_name(&node.name)?;
        ensure!(
            !self.by_name.contains_key(&node.name),
            InvalidArgument,
            "Node '{}' is not unique",
            node.name
        );
        let mut inputs =
            node.inputs.iter().map(|input| input.node).chain(node.control_inputs.iter().copied());
        if let Some(input) = inputs.find(|input| input.index() >= len) {
            bail!(
                InvalidArgument,
                "Node '{}': its input number {} is not a node of this graph",
                node.name,
                input.index()
            );
        }
        self.by_name.insert(node.name.clone(), NodeId::from_index(self.nodes.len()));
        self.nodes.push(node);
        Ok(())
    }

    /// Changes a node in place. The name must stay as it is.
    pub fn node_mut(&mut self, id: NodeId) -> NodeMut<'_> {
        NodeMut(&mut self.nodes[id.index()])
    }

    /// Closes a loop: input `slot` of `merge` becomes output 0 of the `NextIteration` node `next`.
    pub fn set_back_edge(&mut self, merge: NodeId, slot: usize, next: NodeId) -> Result<()> {
        ensure!(
            self.node(next).is_next_iteration(),
            InvalidArgument,
            "Node '{}' is a {}: only NextIteration may lead back into a loop",
            self.node(next).name,
            self.node(next).op
        );
        let node = &mut self.nodes[merge.index()];
        let count = node.inputs.len();
        let input = node.inputs.get_mut(slot).ok_or_else(|| {
            Status::invalid_argument(format!(
                "Node '{}' has {count} inputs, there is no input {slot}",
                node.name
            ))
        })?;
        *input = Endpoint::new(next, 0);
        Ok(())
    }
}

/// Write access to those parts of a node that cannot break the graph's structure.
pub struct NodeMut<'a>(&'a mut Node);

impl NodeMut<'_> {
    /// Sets the requested device.
    pub fn set_device(&mut self, device: impl Into<Arc<str>>) {
        self.0.device = device.into();
    }

    /// Sets an attribute.
    pub fn set_attr(&mut self, name: impl Into<String>, value: AttrValue) {
        self.0.attrs.insert(name.into(), value);
    }

    /// Adds a control input; the caller keeps the graph acyclic.
    pub fn add_control_input(&mut self, before: NodeId) {
        if !self.0.control_inputs.contains(&before) {
            self.0.control_inputs.push(before);
        }
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} nodes)", self.nodes.len())
    }
}

/// Long names only serve to exhaust memory.
const MAX_NAME_BYTES: usize = 1 << 16;

/// Checks that a node name has only the characters TensorFlow allows.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-/>\\".contains(&byte);
    let start = |byte: u8| byte.is_ascii_alphanumeric() || b"_.>".contains(&byte);
    let valid =
        name.len() <= MAX_NAME_BYTES && name.bytes().next().is_some_and(start) && name.bytes().all(allowed);
    ensure!(
        valid,
        InvalidArgument,
        "Illegal op name '{}': a name starts with a letter, digit, '.' or '_' and goes on with those, '-' and '/'",
        excerpt(name)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Code;

    fn node(name: &str, inputs: &[usize]) -> Node {
        let mut node = Node::new(name, "NoOp");
        node.inputs = inputs.iter().map(|&input| Endpoint::new(NodeId::from_index(input), 0)).collect();
        node
    }

    #[test]
    fn appended_nodes_refer_to_each_other_in_any_order() {
        let mut graph = Graph::new();
        graph.add(node("a", &[])).unwrap();
        graph.append(vec![node("b", &[2]), node("c", &[0])]).unwrap();
        assert_eq!(graph.find("b"), Some(NodeId::from_index(1)));
        assert_eq!(graph.find("c"), Some(NodeId::from_index(2)));
    }

    #[test]
    fn what_cannot_be_appended_leaves_nothing_behind() {
        let mut graph = Graph::new();
        graph.add(node("a", &[])).unwrap();
        for bad in [node("a", &[]), node("b", &[]), node("not a name", &[]), node("c", &[3])] {
            let name = bad.name.clone();
            let status = graph.append(vec![node("b", &[0]), bad]).unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{status}");
            assert!(status.message().contains(&*name), "{status} should name {name}");
            assert_eq!((graph.len(), graph.find("b")), (1, None));
        }
        graph.append(vec![node("b", &[0])]).unwrap();
        let status = graph.add(node("self", &[2])).unwrap_err();
        assert_eq!(
            status.code(),
            Code::InvalidArgument,
            "a node that is added alone cannot take its own output"
        );
    }
}
