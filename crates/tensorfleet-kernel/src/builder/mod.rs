//! [`GraphBuilder`]: makes graphs node by node, as TensorFlow's Python front end does.
//!
//! Every front end and every gradient adds nodes here, so that all of them name, type, place and check nodes in
//! the same way: type attributes follow from the inputs, literals become `Const` nodes of the right dtype,
//! defaults are written into the node, names are made unique, scopes give device, control inputs and colocation,
//! branches and loops get the `Switch` and `Enter` nodes they need, and the shape rule runs at once, so that a
//! mistake is reported where it is made.
//!
//! Adding a node takes time proportional to its edges and to the depth of the scopes around it.

mod arguments;
mod backward;
mod control_flow;
mod facts;
mod import;
mod literal;
mod names;
mod new_node;
mod scope;

use std::sync::Arc;

use tensorfleet_core::attr::{FromAttr, IntoAttr};
use tensorfleet_core::{
    DType, DeviceName, EdgeType, Endpoint, Graph, Node, NodeId, PartialShape, Result, Status, Tensor, ensure,
};
use tensorfleet_proto::tensorflow::{AttrValue, GraphDef, VersionDef};

use crate::catalogue::Catalogue;
use crate::node_spec::NodeSpec;
use crate::op::{Flow, Op};
use crate::shape_context::InputShape;
use arguments::Bound;
use control_flow::FlowContext;
use facts::NodeFacts;
use names::UniqueNames;
use scope::Frame;

pub use arguments::python_name;
pub(crate) use backward::{BackwardLoop, LoopParts};
pub use control_flow::{Cond, FlowId, Loop, LoopOptions};
pub use facts::OutputFacts;
pub use literal::adapted as adapt_literal;
pub use new_node::{Input, NewNode};
pub use scope::{DeviceFn, DeviceScope, Scopes};

/// One more than the GraphDef version of TensorFlow 1.15, whose semantics the nodes made here have. Servers see by it that the graph
/// was not made by TensorFlow 1.x, whose nodes without a job all go to the first task of the cluster.
const PRODUCER_VERSION: i32 = 135;

/// A graph under construction, with what is known of every output.
#[derive(Clone, Debug)]
pub struct GraphBuilder {
    catalogue: &'static Catalogue,
    graph: Graph,
    /// One entry per node.
    facts: Vec<NodeFacts>,
    /// For each node the innermost branch or loop it was built in.
    flows: Vec<Option<FlowId>>,
    contexts: Vec<FlowContext>,
    /// The first nodes of loops whose back edges are still missing.
    open_loops: Vec<usize>,
    names: UniqueNames,
    scopes: Scopes,
}

impl GraphBuilder {
    /// An empty graph of ops of this catalogue.
    pub fn new(catalogue: &'static Catalogue) -> GraphBuilder {
        let mut graph = Graph::new();
        graph.set_versions(VersionDef { producer: PRODUCER_VERSION, ..Default::default() });
        GraphBuilder {
            catalogue,
            graph,
            facts: Vec::new(),
            flows: Vec::new(),
            contexts: Vec::new(),
            open_loops: Vec::new(),
            names: UniqueNames::default(),
            scopes: Scopes::default(),
        }
    }

    /// Says which version of TensorFlow's graphs the nodes follow: servers place nodes without a job by it.
    pub fn set_producer(&mut self, producer: i32) {
        let versions = self.graph.versions().cloned().unwrap_or_default();
        self.graph.set_versions(VersionDef { producer, ..versions });
    }

    /// The ops that nodes may have.
    pub fn catalogue(&self) -> &'static Catalogue {
        self.catalogue
    }

    /// The graph so far.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The node with this id.
    pub fn node(&self, id: NodeId) -> &Node {
        self.graph.node(id)
    }

    /// How many nodes, counted from the first, are complete: nodes of a loop whose body is still being built are
    /// not, nor are those after them.
    pub fn complete_len(&self) -> usize {
        self.open_loops.first().copied().unwrap_or(self.graph.len())
    }

    /// Nodes `start..end` as a `GraphDef`, for a session that has the ones before.
    pub fn export(&self, start: usize, end: usize) -> GraphDef {
        GraphDef {
            node: (start..end).map(|index| self.graph.node_def(NodeId::from_index(index))).collect(),
            versions: self.graph.versions().cloned(),
            library: self.graph.library().cloned(),
            ..Default::default()
        }
    }

    /// What is known of an output.
    pub fn facts(&self, endpoint: Endpoint) -> Result<&OutputFacts> {
        let facts = self.facts.get(endpoint.node.index());
        facts.and_then(|outputs| outputs.get(endpoint.slot as usize)).ok_or_else(|| self.no_output(endpoint))
    }

    #[cold]
    fn no_output(&self, endpoint: Endpoint) -> Status {
        match self.facts.get(endpoint.node.index()) {
            None => Status::invalid_argument(format!("the graph has no node {}", endpoint.node.index())),
            Some(outputs) => {
                let node = self.node(endpoint.node);
                let (count, slot) = (outputs.len(), endpoint.slot);
                let text = format!("Node '{}' has {count} outputs, there is no output {slot}", node.name);
                Status::invalid_argument(text).at_node(&node.name, &node.op, &node.device)
            }
        }
    }

    /// The number of outputs of a node.
    pub fn num_outputs(&self, node: NodeId) -> usize {
        self.facts.get(node.index()).map_or(0, |outputs| outputs.len())
    }

    /// The type of an output.
    pub fn edge_type(&self, endpoint: Endpoint) -> Result<EdgeType> {
        Ok(self.facts(endpoint)?.edge)
    }

    /// The dtype of an output.
    pub fn dtype(&self, endpoint: Endpoint) -> Result<DType> {
        Ok(self.facts(endpoint)?.edge.dtype)
    }

    /// The shape of an output, as far as it is known.
    pub fn shape(&self, endpoint: Endpoint) -> Result<&PartialShape> {
        Ok(&self.facts(endpoint)?.shape)
    }

    /// Adds what the caller knows about the shape of an output; it must not contradict what is known.
    pub fn set_shape(&mut self, endpoint: Endpoint, shape: &PartialShape) -> Result<()> {
        let merged = self.shape(endpoint)?.merge(shape)?;
        self.overwrite_shape(endpoint, merged);
        Ok(())
    }

    fn overwrite_shape(&mut self, endpoint: Endpoint, shape: PartialShape) {
        let outputs = self.facts.get_mut(endpoint.node.index());
        if let Some(fact) = outputs.and_then(|outputs| outputs.get_mut(endpoint.slot as usize)) {
            fact.shape = shape;
        }
    }

    /// Adds a node.
    pub fn add(&mut self, new: NewNode) -> Result<NodeId> {
        let flow = self.scopes.flow();
        self.add_in(new, flow)
    }

    /// Adds a node and gives its first output, which it must have.
    pub fn emit(&mut self, new: NewNode) -> Result<Endpoint> {
        let endpoint = Endpoint::new(self.add(new)?, 0);
        self.facts(endpoint)?;
        Ok(endpoint)
    }

    /// Sets an attribute of a node that no session has seen.
    pub fn set_attr(&mut self, id: NodeId, name: &str, value: AttrValue) -> Result<()> {
        let mut node = self.node(id).clone();
        node.attrs.insert(name.to_string(), value.clone());
        NodeSpec::resolve(&node, self.catalogue)?;
        self.graph.node_mut(id).set_attr(name, value);
        Ok(())
    }

    /// Sets the device of a node that no session has seen.
    pub fn set_device(&mut self, id: NodeId, device: &str) -> Result<()> {
        let device: DeviceName = device.parse()?;
        self.graph.node_mut(id).set_device(device.to_string());
        Ok(())
    }

    /// Adds control inputs to a node that no session has seen. They must not depend on it.
    pub fn add_control_inputs(&mut self, id: NodeId, before: &[NodeId]) -> Result<()> {
        for &before in before {
            if !self.node(id).control_inputs.contains(&before) {
                self.graph.node_mut(id).add_control_input(before);
            }
        }
        Ok(())
    }

    /// A name that no node or scope has, inside the current name scope; it is taken from now on if `mark` says so.
    pub fn unique_name(&mut self, name: &str, mark: bool) -> String {
        let qualified = self.scopes.qualified(name);
        match mark {
            true => self.names.claim(&qualified),
            false => self.names.clone().claim(&qualified),
        }
    }

    /// Adds a `Const` node.
    pub fn constant(&mut self, name: &str, value: Tensor) -> Result<Endpoint> {
        self.emit(NewNode::new("Const").name(name).attr("dtype", value.dtype()).attr("value", value))
    }

    /// Adds a read of the resource variable behind `handle`. It asks for no device, whatever the scopes around say:
    /// a variable is read where it is, and its value travels.
    pub fn read_variable(&mut self, handle: Endpoint, dtype: DType) -> Result<Endpoint> {
        let depth = self.scopes.depth();
        self.scopes.push(Frame::Anywhere);
        let read = self.emit(NewNode::new("ReadVariableOp").input(handle).attr("dtype", dtype));
        self.scopes.truncate(depth);
        read
    }

    fn add_in(&mut self, mut new: NewNode, flow: Option<FlowId>) -> Result<NodeId> {
        self.scopes.check()?;
        let entry = self.catalogue.find(&new.op).ok_or_else(|| {
            Status::not_found(format!("Op type not registered '{}' in Tensorfleet", new.op))
        })?;
        let signature = entry.signature()?;
        let inputs = std::mem::take(&mut new.inputs);
        let type_of = |endpoint| self.edge_type(endpoint);
        let mut attrs = std::mem::take(&mut new.attrs);
        let bindings = arguments::bind(&new.op, signature, inputs, &mut attrs, type_of)
            .map_err(|status| status.at_node(new.name.as_deref().unwrap_or(&new.op), &new.op, &new.device))?;

        let name = self.claim_name(new.name.as_deref().unwrap_or(&new.op))?;
        let inputs = self.add_constants(&name, bindings.inputs)?;
        let mut node = Node::new(name, &*new.op);
        node.device = Arc::from(&*new.device);
        node.attrs = attrs;
        // Asked before values are brought in: the nodes that do it are built here, too.
        let around = self.control_inputs_around(&new, &inputs);
        node.inputs = if new.capture { self.bring_all_into(flow, inputs, &node.name)? } else { inputs };
        node.control_inputs = self.control_inputs(&new, &node, around, flow)?;
        new.colocate_with.extend(bindings.references.iter().map(|endpoint| endpoint.node));
        // What brings a value into a branch stays with the value, whatever the scopes around say.
        let is_apart = !new.capture && !new.colocate_with.is_empty();
        self.place(&mut node, &new.colocate_with, is_apart)?;
        self.insert(node, flow)
    }

    /// The name of a new node or scope: prefixed and made unique, or as it is if it ends in a slash.
    fn claim_name(&mut self, name: &str) -> Result<String> {
        if let Some(exact) = name.strip_suffix('/') {
            ensure!(
                self.graph.find(exact).is_none(),
                InvalidArgument,
                "Duplicate node name in graph: '{exact}'"
            );
            self.names.mark(exact);
            return Ok(exact.to_string());
        }
        let qualified = self.scopes.qualified(name);
        Ok(self.names.claim(&qualified))
    }

    /// Adds the literals among the inputs as constants named after the argument they are for.
    fn add_constants(&mut self, node: &str, inputs: Vec<Bound>) -> Result<Vec<Endpoint>> {
        let depth = self.scopes.depth();
        self.scopes.push(Frame::Name(Arc::from(node)));
        let endpoints = inputs.into_iter().map(|input| match input {
            Bound::Edge(endpoint) => Ok(endpoint),
            Bound::Constant(argument, value) => self.constant(&argument, value),
            Bound::Read(handle, dtype) => self.read_variable(handle, dtype),
        });
        let endpoints = endpoints.collect();
        self.scopes.truncate(depth);
        endpoints
    }

    /// The control inputs that the scopes give to a node with these inputs.
    fn control_inputs_around(&self, new: &NewNode, inputs: &[Endpoint]) -> Vec<NodeId> {
        if !new.capture {
            return Vec::new();
        }
        let producers: Vec<NodeId> = inputs.iter().map(|input| input.node).collect();
        self.scopes.control_inputs(&producers)
    }

    fn control_inputs(
        &mut self,
        new: &NewNode,
        node: &Node,
        around: Vec<NodeId>,
        flow: Option<FlowId>,
    ) -> Result<Vec<NodeId>> {
        let mut controls = new.control_inputs.clone();
        if let Some(unknown) = controls.iter().find(|control| control.index() >= self.graph.len()) {
            let text = format!("its control input number {} is not a node of this graph", unknown.index());
            return Err(Status::invalid_argument(text).at_node(&node.name, &node.op, &node.device));
        }
        if new.capture {
            let producers: Vec<NodeId> = node.inputs.iter().map(|input| input.node).collect();
            controls.extend(around);
            controls = self.controls_into(flow, controls, &producers, &node.name)?;
        }
        let mut seen = rustc_hash::FxHashSet::default();
        controls.retain(|control| seen.insert(*control));
        Ok(controls)
    }

    /// Sets device and colocation. A node that must be with others ignores the device scopes around it.
    fn place(&self, node: &mut Node, colocate_with: &[NodeId], is_apart: bool) -> Result<()> {
        if colocate_with.is_empty() {
            let device = self.scopes.device_for(node)?;
            node.device = device.to_string().into();
        }
        let around = self.scopes.colocations().filter(|_| !is_apart);
        let peers: Vec<NodeId> = colocate_with.iter().copied().chain(around).collect();
        if peers.is_empty() {
            if let Some(group) = self.scopes.class() {
                let class = vec![format!("loc:@{group}")].into_attr();
                node.attrs.entry("_class".to_string()).or_insert(class);
            }
            return Ok(());
        }
        if let Some(placed) = peers.iter().find(|&&peer| !self.node(peer).device.is_empty()) {
            node.device = self.node(*placed).device.clone();
        }
        let mut groups: Vec<String> = peers.iter().flat_map(|&peer| self.colocation_groups(peer)).collect();
        groups.sort();
        groups.dedup();
        node.attrs.insert("_class".to_string(), groups.into_attr());
        Ok(())
    }

    fn colocation_groups(&self, id: NodeId) -> Vec<String> {
        let node = self.node(id);
        let class = node.attrs.get("_class").and_then(|class| Vec::<String>::from_attr(class).ok());
        let mut groups = class.unwrap_or_default();
        groups.retain(|group| group.starts_with("loc:@"));
        if groups.is_empty() {
            groups.push(format!("loc:@{}", node.name));
        }
        groups
    }

    /// What `node` reads of a resource variable through its handle, which may have come into a branch or loop: the whole,
    /// or rows. The handle itself is a scalar, so the shape rule cannot know.
    fn shape_read(&self, node: &Node) -> Option<PartialShape> {
        match &*node.op {
            "ReadVariableOp" => self.variable_shape(node),
            "ResourceGather"
                if node.attrs.get("batch_dims").is_none_or(|dims| i64::from_attr(dims) == Ok(0)) =>
            {
                let indices = self.shape(*node.inputs.get(1)?).ok()?;
                let whole = self.variable_shape(node)?;
                let (rows, rest) = (indices.dims()?, whole.dims()?.get(1..)?);
                Some(PartialShape::new(rows.iter().chain(rest).copied()))
            }
            _ => None,
        }
    }

    fn find_op(&self, id: NodeId) -> Option<&'static Op> {
        self.catalogue.find(&self.node(id).op).map(|entry| entry.op)
    }

    /// The declared shape of the variable whose handle is the first input of `node`.
    fn variable_shape(&self, node: &Node) -> Option<PartialShape> {
        let mut producer = node.inputs.first()?.node;
        // Each of these ops has its source before it in the graph, so the walk ends.
        while self
            .find_op(producer)
            .is_some_and(|op| op.passes_through || matches!(op.flow, Flow::Enter | Flow::Switch))
        {
            producer = self.node(producer).inputs.first()?.node;
        }
        let variable = self.node(producer);
        PartialShape::from_attr(variable.attrs.get("shape").filter(|_| &*variable.op == "VarHandleOp")?).ok()
    }

    /// Checks the finished node and appends it.
    fn insert(&mut self, node: Node, flow: Option<FlowId>) -> Result<NodeId> {
        let spec = NodeSpec::resolve(&node, self.catalogue)?;
        let inputs: Vec<InputShape> =
            node.inputs.iter().map(|&input| Ok(self.facts(input)?.as_input())).collect::<Result<_>>()?;
        let mut facts = facts::infer(&spec, &inputs)
            .map_err(|status| status.at_node(&node.name, &node.op, &node.device))?;
        if let (Some(shape), [fact]) = (self.shape_read(&node), &mut facts[..]) {
            fact.shape = shape;
        }
        let id = self.graph.add(node)?;
        self.facts.push(facts);
        self.flows.push(flow);
        self.scopes.record(id);
        Ok(id)
    }
}

/// Scopes. Each of these enters one scope; [`GraphBuilder::leave`] leaves all that were entered since
/// [`GraphBuilder::depth`] was asked.
impl GraphBuilder {
    /// How deep in scopes the builder is.
    pub fn depth(&self) -> usize {
        self.scopes.depth()
    }

    /// Leaves all scopes deeper than `depth`.
    pub fn leave(&mut self, depth: usize) {
        self.scopes.truncate(depth);
    }

    /// Exchanges all scopes for others: how each thread gets its own.
    pub fn swap_scopes(&mut self, scopes: &mut Scopes) {
        std::mem::swap(&mut self.scopes, scopes);
    }

    /// Puts `name/` before the names of new nodes. A scope name that is taken gets a suffix; one that ends in `/`
    /// is entered again as it is; an empty one leads back to the root.
    pub fn enter_name_scope(&mut self, name: &str) -> Result<()> {
        let prefix = match name.strip_suffix('/') {
            _ if name.is_empty() => String::new(),
            Some(exact) => exact.to_string(),
            None => {
                let qualified = self.scopes.qualified(name);
                self.names.claim(&qualified)
            }
        };
        self.scopes.push(Frame::Name(prefix.into()));
        Ok(())
    }

    /// The prefix of new names, without a slash at its end.
    pub fn name_scope(&self) -> &str {
        self.scopes.prefix()
    }

    /// Places new nodes.
    pub fn enter_device(&mut self, device: DeviceScope) {
        self.scopes.push(Frame::Device(device));
    }

    /// Makes new nodes run after `before`.
    pub fn enter_control_dependencies(&mut self, before: Vec<NodeId>) {
        self.scopes.push_control(before);
    }

    /// Forgets control dependencies, branches and loops around.
    pub fn enter_outside(&mut self) {
        self.scopes.push(Frame::Outside);
    }

    /// Forgets devices and colocations around: new nodes ask for no device and go where their inputs are.
    pub fn enter_anywhere(&mut self) {
        self.scopes.push(Frame::Anywhere);
    }

    /// Makes every new node fail, because the scope it is meant for is not valid.
    pub fn enter_invalid(&mut self, reason: Status) {
        self.scopes.push(Frame::Invalid(reason));
    }

    /// Places new nodes where the node called `name` will be, which need not exist yet. They stay with a node they are
    /// colocated with, if there is one.
    pub fn enter_class(&mut self, name: &str) {
        self.scopes.push(Frame::Class(name.into()));
    }

    /// Places new nodes where `node` is.
    pub fn enter_colocation(&mut self, node: NodeId) {
        self.scopes.push(Frame::Colocate(node));
    }
}
