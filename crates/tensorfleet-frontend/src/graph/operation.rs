//! [`Operation`]: a node of a graph, for what it does rather than for a value.

use std::fmt;

use tensorfleet_core::{Endpoint, NodeId, Result, Status, parse_endpoint};
use tensorfleet_kernel::builder::{GraphBuilder, NewNode};

use super::graph::Graph;
use super::output::Output;

/// A node of a graph. Like an [`Output`] it may carry the error that kept it from being built.
///
/// ```
/// # use tensorfleet::{Graph, Session};
/// let g = Graph::new();
/// let (a, b) = (g.variable("a", 1.0f32), g.variable("b", 2.0f32));
/// let both = g.group([a.initializer(), b.initializer()])?;
/// let session = Session::new(&g);
/// session.run(&both)?; // An operation has no value: this gives `()`.
///
/// let sum = (&a + &b).operation();
/// assert_eq!((sum.name().as_str(), sum.op_type().as_str()), ("add", "AddV2"));
/// assert_eq!(session.run(sum.output(0))?.to_scalar::<f32>()?, 3.0);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone)]
pub struct Operation {
    graph: Graph,
    node: Result<NodeId>,
}

impl Operation {
    pub(crate) fn new(graph: &Graph, node: Result<NodeId>) -> Operation {
        Operation { graph: graph.clone(), node }
    }

    /// The graph it belongs to.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The node's id, or the error that kept it from being built.
    pub fn node(&self) -> Result<NodeId> {
        self.node.clone()
    }

    /// The node's id in `graph`; an error if it belongs to another one.
    pub(crate) fn node_in(&self, graph: &Graph) -> Result<NodeId> {
        let node = self.node()?;
        if !self.graph.is_same(graph) {
            return Err(Status::invalid_argument(format!(
                "Operation '{}' is not an element of this graph.",
                self.name()
            )));
        }
        Ok(node)
    }

    /// The operation itself if it is valid.
    pub fn check(self) -> Result<Operation> {
        self.node.clone()?;
        Ok(self)
    }

    /// The node's name; empty if it could not be built.
    pub fn name(&self) -> String {
        self.look(|node| node.name.to_string())
    }

    /// The op type, e.g. `MatMul`.
    pub fn op_type(&self) -> String {
        self.look(|node| node.op.to_string())
    }

    /// The requested device.
    pub fn device(&self) -> String {
        self.look(|node| node.device.to_string())
    }

    fn look(&self, what: impl FnOnce(&tensorfleet_core::Node) -> String) -> String {
        match self.node {
            Ok(id) => self.graph.build(|builder| what(builder.node(id))),
            Err(_) => String::new(),
        }
    }

    /// Output `slot`.
    pub fn output(&self, slot: u32) -> Output {
        match &self.node {
            Ok(node) => self.graph.output_at(Endpoint::new(*node, slot)),
            Err(status) => Output::new(&self.graph, Err(status.clone())),
        }
    }

    /// All outputs.
    pub fn outputs(&self) -> Result<Vec<Output>> {
        let node = self.node()?;
        let count = self.graph.build(|builder| builder.num_outputs(node)) as u32;
        Ok((0..count).map(|slot| self.output(slot)).collect())
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Ok(_) => write!(f, "Operation({}: {})", self.name(), self.op_type()),
            Err(status) => write!(f, "Operation({status})"),
        }
    }
}

impl From<&Operation> for Operation {
    fn from(operation: &Operation) -> Operation {
        operation.clone()
    }
}

impl From<&Output> for Operation {
    /// The operation that computes the output.
    fn from(output: &Output) -> Operation {
        output.operation()
    }
}

impl From<Output> for Operation {
    fn from(output: Output) -> Operation {
        output.operation()
    }
}

impl Output {
    /// The operation that computes it.
    pub fn operation(&self) -> Operation {
        Operation::new(self.graph(), self.endpoint().map(|endpoint| endpoint.node))
    }
}

impl Graph {
    /// An operation of this graph, by the number of its node.
    pub fn operation_at(&self, node: NodeId) -> Operation {
        let exists = self.build(|builder| node.index() < builder.graph().len());
        let missing = || Status::not_found(format!("the graph has no node {}", node.index()));
        Operation::new(self, exists.then_some(node).ok_or_else(missing))
    }

    /// The operation called `name`.
    pub fn operation(&self, name: &str) -> Result<Operation> {
        let found = self.build(|builder| builder.graph().find(name));
        let id = found.ok_or_else(|| {
            Status::not_found(format!(
                "The name '{name}' refers to an Operation, but there is no operation of that name in the graph."
            ))
        })?;
        Ok(Operation::new(self, Ok(id)))
    }

    /// The output called `NODE:SLOT`, or the first output of `NODE`.
    pub fn output(&self, name: &str) -> Result<Output> {
        let (node, slot) = parse_endpoint(name)?;
        self.operation(node)?.output(slot).check()
    }

    /// Makes the nodes built in `body` run after `before`.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let count = g.variable("count", 0i32);
    /// let increment = count.assign_add(1)?;
    /// // Each run that reads this counts.
    /// let answer = g.control_dependencies([&increment], || g.constant(42).identity())?;
    /// let session = Session::new(&g);
    /// session.run(count.initializer())?;
    /// session.run(&answer)?;
    /// session.run(&answer)?;
    /// assert_eq!(session.run(&count)?.to_scalar::<i32>()?, 2);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn control_dependencies<R>(
        &self,
        before: impl IntoIterator<Item: Into<Operation>>,
        body: impl FnOnce() -> R,
    ) -> R {
        let nodes: Result<Vec<NodeId>> =
            before.into_iter().map(|operation| operation.into().node_in(self)).collect();
        let enter = |builder: &mut GraphBuilder| match nodes {
            Ok(nodes) => builder.enter_control_dependencies(nodes),
            Err(status) => builder.enter_invalid(status),
        };
        self.scoped(enter, body)
    }

    /// Places the nodes built in `body` where `operation` is.
    ///
    /// ```
    /// # use tensorfleet::Graph;
    /// let g = Graph::new();
    /// let v = g.device("/job:ps/task:1", || g.variable("v", 1.0f32));
    /// let doubled = g.device("/job:worker", || g.colocate_with(&v, || &v * 2.0));
    /// assert_eq!(doubled.device(), "/job:ps/task:1");
    /// ```
    pub fn colocate_with<R>(&self, operation: impl Into<Operation>, body: impl FnOnce() -> R) -> R {
        let node = operation.into().node_in(self);
        let enter = |builder: &mut GraphBuilder| match node {
            Ok(node) => builder.enter_colocation(node),
            Err(status) => builder.enter_invalid(status),
        };
        self.scoped(enter, body)
    }

    /// An operation that does nothing: something to hang control dependencies on.
    pub fn no_op(&self) -> Result<Operation> {
        self.op("NoOp").build()
    }

    /// An operation that is done when all of `operations` are; see the example of [`Operation`].
    pub fn group(&self, operations: impl IntoIterator<Item: Into<Operation>>) -> Result<Operation> {
        self.group_named("group_deps", operations)
    }

    /// A [`Graph::group`] with a name. As in TensorFlow, operations on several devices are first grouped on each,
    /// so that one signal per device travels.
    pub fn group_named(
        &self,
        name: &str,
        operations: impl IntoIterator<Item: Into<Operation>>,
    ) -> Result<Operation> {
        let mut nodes = Vec::new();
        for operation in operations {
            nodes.push(operation.into().node_in(self)?);
        }
        let group = self.build(|builder| {
            let mut by_device: std::collections::BTreeMap<String, Vec<NodeId>> = Default::default();
            for node in nodes {
                by_device.entry(builder.node(node).device.to_string()).or_default().push(node);
            }
            let no_op = |device: &str, before: &[NodeId]| {
                let node = NewNode::new("NoOp").device(device);
                before.iter().fold(node, |node, &before| node.control_input(before))
            };
            if by_device.len() <= 1 {
                let (device, nodes) = by_device.pop_first().unwrap_or_default();
                return builder.add(no_op(&device, &nodes).name(name));
            }
            let depth = builder.depth();
            builder.enter_name_scope(name)?;
            let scope = builder.name_scope().to_string();
            let parts: Result<Vec<NodeId>> =
                by_device.iter().map(|(device, nodes)| builder.add(no_op(device, nodes))).collect();
            builder.leave(depth);
            builder.add(no_op("", &parts?).name(format!("{scope}/")))
        })?;
        Ok(Operation::new(self, Ok(group)))
    }
}
