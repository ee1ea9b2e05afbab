//! [`OpBuilder`]: builds any op of the catalogue.

use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{DType, Result, Status};
use tensorfleet_kernel::builder::{Input, NewNode};
use tensorfleet_kernel::signature::ArgTypes;

use super::graph::Graph;
use super::operand::{Arg, Operand, OperandList};
use super::operation::Operation;
use super::output::Output;

/// A node about to be built. Inputs come in the order of the op's declaration; type attributes follow from them, and
/// attributes with defaults may be left out. [`Graph::op`] begins one.
///
/// ```
/// # use tensorfleet::{DType, Graph, Session};
/// let g = Graph::new();
/// let sum = g.op("AddN").inputs([1.5f32, 2.0]).name("sum").output()?;
/// let whole = g.op("Cast").input(&sum).attr("DstT", DType::Int32).output()?;
/// assert_eq!(Session::new(&g).run(&whole)?.to_scalar::<i32>()?, 3);
///
/// let error = g.op("AddN").inputs([1.5f32, 2.0]).attr("no_such_attribute", 1i64).build().unwrap_err();
/// assert!(error.message().contains("no_such_attribute"));
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[must_use = "nothing is added to the graph before `build` or `output`"]
pub struct OpBuilder {
    graph: Graph,
    op: String,
    node: NewNode,
    inputs: usize,
    /// The first thing that went wrong, reported by `build`.
    error: Option<Status>,
}

impl OpBuilder {
    pub(crate) fn new(graph: &Graph, node: NewNode) -> OpBuilder {
        OpBuilder { graph: graph.clone(), op: node.op_type().to_string(), node, inputs: 0, error: None }
    }

    /// Adds an input: an output, a variable, a tensor or a literal. A variable is passed as a reference or handle
    /// where the op wants one, and is read everywhere else.
    pub fn input(mut self, input: impl Operand) -> OpBuilder {
        let wants_handle = self.wants_handle();
        match self.resolve(input.into_arg(), wants_handle) {
            Ok(input) => self.node = self.node.input(input),
            Err(status) => self.error = self.error.or(Some(status)),
        }
        self.inputs += 1;
        self
    }

    /// Adds an input that is a list (`values: N * T`).
    pub fn inputs(mut self, inputs: impl OperandList) -> OpBuilder {
        let resolved: Result<Vec<Input>> =
            inputs.into_args().into_iter().map(|input| self.resolve(input, false)).collect();
        match resolved {
            Ok(list) => self.node = self.node.input_list(list),
            Err(status) => self.error = self.error.or(Some(status)),
        }
        self.inputs += 1;
        self
    }

    fn wants_handle(&self) -> bool {
        let signature = self.graph.catalogue().find(&self.op).and_then(|entry| entry.signature().ok());
        let arg = signature.and_then(|signature| signature.inputs.get(self.inputs));
        arg.is_some_and(|arg| arg.is_ref || matches!(arg.types, ArgTypes::Fixed(DType::Resource)))
    }

    fn resolve(&self, arg: Arg, wants_handle: bool) -> Result<Input> {
        match arg {
            Arg::Output(output) => Ok(Input::Edge(output.endpoint_in(&self.graph)?)),
            Arg::Variable(variable) if wants_handle => {
                Ok(Input::Edge(variable.handle().endpoint_in(&self.graph)?))
            }
            Arg::Variable(variable) => variable.as_input(&self.graph),
            Arg::Tensor(tensor) => Ok(Input::Tensor(tensor)),
            Arg::Literal(tensor) => Ok(Input::Literal(tensor?)),
        }
    }

    /// Sets an attribute.
    pub fn attr(mut self, name: &str, value: impl IntoAttr) -> OpBuilder {
        self.node = self.node.attr(name, value);
        self
    }

    /// Names the node; without a name it is named after its op.
    pub fn name(mut self, name: &str) -> OpBuilder {
        self.node = self.node.name(name);
        self
    }

    /// Asks for a device, as an innermost device scope would.
    pub fn device(mut self, device: &str) -> OpBuilder {
        self.node = self.node.device(device);
        self
    }

    /// Makes the node run after `before`.
    pub fn control_input(mut self, before: impl Into<Operation>) -> OpBuilder {
        match before.into().node_in(&self.graph) {
            Ok(before) => self.node = self.node.control_input(before),
            Err(status) => self.error = self.error.or(Some(status)),
        }
        self
    }

    /// Adds the node.
    pub fn build(self) -> Result<Operation> {
        if let Some(status) = self.error {
            return Err(status);
        }
        let node = self.graph.build(|builder| builder.add(self.node)).map_err(with_remedy)?;
        Ok(Operation::new(&self.graph, Ok(node)))
    }

    /// Adds the node and gives its first output.
    pub fn output(self) -> Result<Output> {
        if let Some(status) = self.error {
            return Err(status);
        }
        self.graph.emit(self.node).map_err(with_remedy)
    }
}

/// The mistake that newcomers to Rust make first is told with what to write instead.
fn with_remedy(status: Status) -> Status {
    let mentions = |text: &str| status.message().contains(text);
    if mentions("has type float64 that does not match type float32") {
        let remedy = "(A number such as 1.0 is an f64 in Rust: write 1.0f32, or cast.)";
        return Status::new(status.code(), format!("{} {remedy}", status.message()));
    }
    status
}

impl Graph {
    /// Any op of the catalogue.
    ///
    /// ```
    /// # use tensorfleet::Graph;
    /// let g = Graph::new();
    /// let x = g.constant([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let gram = g.op("MatMul").input(&x).input(&x).attr("transpose_b", true).name("gram").output()?;
    /// assert_eq!(gram.name(), "gram:0");
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn op(&self, op: &str) -> OpBuilder {
        OpBuilder::new(self, NewNode::new(op))
    }
}

impl Output {
    /// Any op of the catalogue with this output as its first input.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let x = g.constant([[3, 1, 2]]);
    /// let sorted = x.op("TopKV2").input(3).attr("sorted", true).build()?;
    /// assert_eq!(Session::new(&g).run(sorted.output(1))?.as_slice::<i32>()?, [0, 2, 1]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn op(&self, op: &str) -> OpBuilder {
        self.graph().op(op).input(self)
    }

    pub(crate) fn unary(&self, op: &str) -> Result<Output> {
        self.op(op).output()
    }

    pub(crate) fn binary(&self, op: &str, other: impl Operand) -> Result<Output> {
        self.op(op).input(other).output()
    }
}
