//! [`Variable`]: state that outlives a run.
//!
//! Both kinds of TensorFlow variables exist: reference variables (`VariableV2`, what TensorFlow 1.x programs have
//! unless they ask otherwise) and resource variables (`VarHandleOp`). Nodes have the names TensorFlow gives them, so
//! that checkpoints and programs on other tasks agree: `v`, `v/Assign`, `v/read`, `v/initial_value`.

use std::fmt;
use std::sync::Arc;

use tensorfleet_core::{DType, Endpoint, NodeId, PartialShape, Result, Status};
use tensorfleet_ops::builder::{DeviceScope, GraphBuilder, Input, NewNode};

use super::variable_slice::VariableSlice;
use crate::graph::{Arg, Graph, Operand, Operation, Output};

/// A variable of a graph. Like an [`Output`] it may carry the error that kept it from being built.
///
/// ```
/// # use tensorfleet::{Graph, Session};
/// let g = Graph::new();
/// let counter = g.variable("counter", 0i32);
/// let next = counter.assign_add(1)?;
/// let session = Session::new(&g);
/// session.run(counter.initializer())?;
/// session.run(&next)?;
/// assert_eq!(session.run(&next)?.to_scalar::<i32>()?, 2);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone)]
pub struct Variable {
    graph: Graph,
    parts: Result<Parts>,
}

/// The nodes of a variable.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) kind: Kind,
    pub(crate) dtype: DType,
    pub(crate) handle: Endpoint,
    pub(crate) initial_value: Endpoint,
    pub(crate) initializer: NodeId,
    pub(crate) read: Endpoint,
    /// Which part of a partitioned variable it is, if it is one.
    pub(crate) slice: Option<Arc<VariableSlice>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Reference,
    Resource,
}

/// What a variable starts with.
pub(crate) enum Initial {
    Value(Arg),
    /// What this builds, inside the scope `NAME/Initializer`.
    By(Box<dyn FnOnce() -> Result<Output>>),
}

/// A variable about to be built; see [`Graph::new_variable`].
#[must_use = "nothing is added to the graph before `init`"]
pub struct VariableBuilder {
    graph: Graph,
    name: String,
    kind: Kind,
    dtype: Option<DType>,
    is_trainable: bool,
    is_local: bool,
    slice: Option<Arc<VariableSlice>>,
}

/// The first value of a variable, once its nodes are built.
struct FirstValue {
    endpoint: Endpoint,
    /// Whether it was made for this variable, and so declares that it belongs where the variable is.
    is_own: bool,
}

impl Graph {
    /// A trainable variable that starts with the value of `initial`.
    pub fn variable(&self, name: &str, initial: impl Operand) -> Variable {
        self.new_variable(name).init(initial)
    }

    /// A variable of which more is to be said.
    ///
    /// ```
    /// # use tensorfleet::{DType, Graph};
    /// let g = Graph::new();
    /// let step = g.new_variable("global_step").dtype(DType::Int64).untrainable().init(0);
    /// assert_eq!(step.dtype()?, DType::Int64);
    /// assert!(g.trainable_variables().is_empty());
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn new_variable(&self, name: &str) -> VariableBuilder {
        VariableBuilder {
            graph: self.clone(),
            name: name.to_string(),
            kind: Kind::Reference,
            dtype: None,
            is_trainable: true,
            is_local: false,
            slice: None,
        }
    }
}

impl VariableBuilder {
    /// The dtype, if it is not that of the initial value.
    pub fn dtype(mut self, dtype: DType) -> VariableBuilder {
        self.dtype = Some(dtype);
        self
    }

    /// Not changed by training.
    pub fn untrainable(mut self) -> VariableBuilder {
        self.is_trainable = false;
        self
    }

    /// Belongs to one process; not trained and not saved.
    pub fn local(mut self) -> VariableBuilder {
        self.is_local = true;
        self
    }

    /// A resource variable instead of a reference variable.
    pub fn resource(mut self) -> VariableBuilder {
        self.kind = Kind::Resource;
        self
    }

    /// Is a part of a partitioned variable, and saved as such.
    pub(crate) fn slice(mut self, slice: Option<Arc<VariableSlice>>) -> VariableBuilder {
        self.slice = slice;
        self
    }

    /// Builds the variable, which starts with the value of `initial`.
    pub fn init(self, initial: impl Operand) -> Variable {
        self.init_with(Initial::Value(initial.into_arg()))
    }

    /// Builds the variable, which starts with what `initial` builds. As in TensorFlow the nodes of `initial` stand in the
    /// name scope `NAME/Initializer` and are placed with the variable.
    ///
    /// ```
    /// # use tensorfleet::Graph;
    /// let g = Graph::new();
    /// let make = { let g = g.clone(); move || g.truncated_normal([2, 3], 0.0, 0.1) };
    /// let w = g.new_variable("w").init_by(make);
    /// assert_eq!(w.initial_value().name(), "w/Initializer/truncated_normal:0");
    /// ```
    pub fn init_by(self, initial: impl FnOnce() -> Result<Output> + 'static) -> Variable {
        self.init_with(Initial::By(Box::new(initial)))
    }

    pub(crate) fn init_with(self, initial: Initial) -> Variable {
        let parts = self.build(initial).map(|parts| Parts { slice: self.slice.clone(), ..parts });
        if let Ok(parts) = &parts {
            self.graph.collect(|collections| {
                let parts = parts.clone();
                match (self.is_local, self.is_trainable) {
                    (true, _) => collections.local.push(parts),
                    (false, true) => {
                        collections.trainable.push(parts.clone());
                        collections.global.push(parts);
                    }
                    (false, false) => collections.global.push(parts),
                }
            });
        }
        Variable { graph: self.graph, parts }
    }

    /// Variables belong to no branch or loop and wait for nothing.
    fn build(&self, initial: Initial) -> Result<Parts> {
        let graph = &self.graph;
        let enter = |builder: &mut GraphBuilder| {
            builder.enter_outside();
            if let Err(status) = builder.enter_name_scope(&self.name) {
                builder.enter_invalid(status);
            }
        };
        graph.scoped(enter, || {
            let scope = graph.build(|builder| builder.name_scope().to_string());
            let first = self.first_value(&scope, initial)?;
            graph.build(|builder| match self.kind {
                Kind::Reference => reference(builder, first),
                Kind::Resource => resource(builder, first.endpoint),
            })
        })
    }

    /// The first value as an edge. Nodes made for it say that they belong to the variable; the constant of a reference
    /// variable does not, as in TensorFlow.
    fn first_value(&self, scope: &str, initial: Initial) -> Result<FirstValue> {
        let graph = &self.graph;
        let inside = |builder: &mut GraphBuilder| {
            builder.enter_device(DeviceScope::Reset);
            builder.enter_class(scope);
        };
        let make = match initial {
            Initial::By(make) => make,
            Initial::Value(value) => {
                let endpoint = match (self.initial_input(value)?, self.kind) {
                    (Input::Edge(endpoint), _) => endpoint,
                    (Input::Tensor(value), Kind::Reference) => {
                        graph.build(|builder| builder.constant("initial_value", value))?
                    }
                    (Input::Tensor(value), Kind::Resource) => graph.name_scope("Initializer", || {
                        graph.scoped(inside, || {
                            graph.build(|builder| builder.constant("initial_value", value))
                        })
                    })?,
                    _ => return Err(Status::internal("an initial value is an edge or a tensor")),
                };
                return Ok(FirstValue { endpoint, is_own: false });
            }
        };
        let value = graph.name_scope("Initializer", || graph.scoped(inside, make))?;
        let (endpoint, dtype) = (value.endpoint_in(graph)?, value.dtype()?);
        self.check_dtype(dtype)?;
        Ok(FirstValue { endpoint, is_own: true })
    }

    fn check_dtype(&self, dtype: DType) -> Result<()> {
        match self.dtype {
            Some(wanted) if wanted != dtype => Err(Status::invalid_argument(format!(
                "Variable '{}' is {wanted}, but its initial value is {dtype}",
                self.name
            ))),
            _ => Ok(()),
        }
    }

    fn initial_input(&self, initial: Arg) -> Result<Input> {
        let adapt = |tensor| match self.dtype {
            Some(dtype) => tensorfleet_ops::builder::adapt_literal(&tensor, dtype).unwrap_or(tensor),
            None => tensor,
        };
        let input = match initial {
            Arg::Output(output) => Input::Edge(output.endpoint_in(&self.graph)?),
            Arg::Variable(variable) => Input::Edge(variable.value().endpoint_in(&self.graph)?),
            Arg::Tensor(tensor) => Input::Tensor(tensor),
            Arg::Literal(tensor) => Input::Tensor(adapt(tensor?)),
        };
        let dtype = match &input {
            Input::Edge(endpoint) => self.graph.build(|builder| builder.dtype(*endpoint))?,
            Input::Tensor(tensor) => tensor.dtype(),
            _ => return Ok(input),
        };
        self.check_dtype(dtype)?;
        Ok(input)
    }
}

/// Builds inside the name scope of the variable, whose own node has the scope's name.
fn reference(builder: &mut GraphBuilder, first: FirstValue) -> Result<Parts> {
    let scope = builder.name_scope().to_string();
    let initial = first.endpoint;
    let (dtype, shape) = (builder.dtype(initial)?, builder.shape(initial)?.clone());
    let depth = builder.depth();
    if first.is_own {
        builder.enter_class(&scope);
    }
    let handle = NewNode::new("VariableV2").name(format!("{scope}/")).attr("dtype", dtype);
    let handle = builder.emit(handle.attr("shape", shape));
    builder.leave(depth);
    let handle = handle?;
    let initializer = builder.add(NewNode::new("Assign").input(handle).input(initial))?;
    let read = NewNode::new("Identity").name("read").input(handle).colocate_with(handle.node);
    let read = builder.emit(read)?;
    Ok(Parts { kind: Kind::Reference, dtype, handle, initial_value: initial, initializer, read, slice: None })
}

fn resource(builder: &mut GraphBuilder, initial: Endpoint) -> Result<Parts> {
    let scope = builder.name_scope().to_string();
    let (dtype, shape) = (builder.dtype(initial)?, builder.shape(initial)?.clone());
    let handle = NewNode::new("VarHandleOp")
        .name(format!("{scope}/"))
        .attr("dtype", dtype)
        .attr("shape", shape)
        .attr("_class", vec![format!("loc:@{scope}")])
        .attr("shared_name", scope);
    let handle = builder.emit(handle)?;
    within(builder, "IsInitialized", |builder| {
        builder.add(NewNode::new("VarIsInitializedOp").input(handle))
    })?;
    // Nothing but the device request holds these to the variable's place, so they repeat it.
    let device = builder.node(handle.node).device.to_string();
    let assign = NewNode::new("AssignVariableOp").name("Assign").input(handle).input(initial);
    let initializer = anywhere(builder, |builder| builder.add(assign.device(&device)))?;
    let read = NewNode::new("ReadVariableOp").input(handle).attr("dtype", dtype).device(&device);
    let read = within(builder, "Read", |builder| builder.emit(read))?;
    Ok(Parts { kind: Kind::Resource, dtype, handle, initial_value: initial, initializer, read, slice: None })
}

fn within<R>(
    builder: &mut GraphBuilder,
    name: &str,
    work: impl FnOnce(&mut GraphBuilder) -> Result<R>,
) -> Result<R> {
    let depth = builder.depth();
    builder.enter_name_scope(name)?;
    let result = work(builder);
    builder.leave(depth);
    result
}

/// Builds nodes outside the device scopes around.
fn anywhere<R>(builder: &mut GraphBuilder, work: impl FnOnce(&mut GraphBuilder) -> Result<R>) -> Result<R> {
    let depth = builder.depth();
    builder.enter_anywhere();
    let result = work(builder);
    builder.leave(depth);
    result
}

impl Variable {
    pub(crate) fn new(graph: &Graph, parts: Result<Parts>) -> Variable {
        Variable { graph: graph.clone(), parts }
    }

    pub(crate) fn parts(&self) -> Result<Parts> {
        self.parts.clone()
    }

    fn output(&self, which: impl FnOnce(&Parts) -> Endpoint) -> Output {
        match &self.parts {
            Ok(parts) => self.graph.output_at(which(parts)),
            Err(status) => Output::new(&self.graph, Err(status.clone())),
        }
    }

    /// The variable itself if it is valid, or the error it carries.
    pub fn check(self) -> Result<Variable> {
        match &self.parts {
            Ok(_) => Ok(self),
            Err(status) => Err(status.clone()),
        }
    }

    /// The graph it belongs to.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The name of its node; empty if it could not be built.
    pub fn name(&self) -> String {
        self.handle().operation().name()
    }

    /// The dtype of its values.
    pub fn dtype(&self) -> Result<DType> {
        Ok(self.parts.clone()?.dtype)
    }

    /// The shape of its values.
    pub fn shape(&self) -> Result<PartialShape> {
        self.initial_value().shape()
    }

    /// The device asked for.
    pub fn device(&self) -> String {
        self.handle().device()
    }

    /// Which part of a partitioned variable it is, if it is one.
    pub(crate) fn slice_info(&self) -> Option<Arc<VariableSlice>> {
        self.parts.as_ref().ok()?.slice.clone()
    }

    /// The reference or resource handle, for ops that change the variable.
    pub fn handle(&self) -> Output {
        self.output(|parts| parts.handle)
    }

    /// What it starts with.
    pub fn initial_value(&self) -> Output {
        self.output(|parts| parts.initial_value)
    }

    /// Gives it its first value. Run this before anything that reads it.
    pub fn initializer(&self) -> Operation {
        Operation::new(&self.graph, self.parts.clone().map(|parts| parts.initializer))
    }

    /// Whether it is a resource variable.
    pub fn is_resource(&self) -> bool {
        matches!(&self.parts, Ok(parts) if parts.kind == Kind::Resource)
    }

    /// Its value: `NAME/read` of a reference variable; a new read, which control dependencies around it order, of a
    /// resource variable.
    pub fn value(&self) -> Output {
        match &self.parts {
            Ok(parts) if parts.kind == Kind::Resource => {
                let (handle, dtype) = (parts.handle, parts.dtype);
                let read = self.graph.build(|builder| builder.read_variable(handle, dtype));
                match read {
                    Ok(read) => self.graph.output_at(read),
                    Err(status) => Output::new(&self.graph, Err(status)),
                }
            }
            _ => self.snapshot(),
        }
    }

    /// Its value read anew, beside the variable: after what control dependencies around it name.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let counter = g.variable("counter", 0);
    /// let count = counter.assign_add(1)?.operation();
    /// let counted = g.control_dependencies([&count], || counter.read_value())?;
    /// let session = Session::new(&g);
    /// session.run(counter.initializer())?;
    /// assert_eq!(session.run(&counted)?.to_scalar::<i32>()?, 1);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn read_value(&self) -> Result<Output> {
        match self.is_resource() {
            true => self.value().check(),
            false => {
                let handle = self.handle();
                self.graph.colocate_with(&handle, || handle.op("Identity").name("read").output())
            }
        }
    }

    /// The read that was built with the variable.
    fn snapshot(&self) -> Output {
        self.output(|parts| parts.read)
    }

    /// The read that was built with the variable, if it belongs to `graph`.
    pub(crate) fn snapshot_in(&self, graph: &Graph) -> Result<Endpoint> {
        let read = self.parts.as_ref().map_err(Clone::clone)?.read;
        match self.graph.is_same(graph) {
            true => Ok(read),
            false => self.snapshot().endpoint_in(graph),
        }
    }

    /// The variable as an input that reads it.
    pub(crate) fn as_input(&self, graph: &Graph) -> Result<Input> {
        let parts = self.parts.clone()?;
        let read = self.snapshot_in(graph)?;
        Ok(match parts.kind {
            Kind::Reference => Input::Edge(read),
            Kind::Resource => Input::Read(parts.handle, parts.dtype),
        })
    }

    /// Sets the value; gives the new one.
    pub fn assign(&self, value: impl Operand) -> Result<Output> {
        self.update("Assign", "AssignVariableOp", value)
    }

    /// Adds to the value; gives the new one.
    pub fn assign_add(&self, value: impl Operand) -> Result<Output> {
        self.update("AssignAdd", "AssignAddVariableOp", value)
    }

    /// Subtracts from the value; gives the new one.
    pub fn assign_sub(&self, value: impl Operand) -> Result<Output> {
        self.update("AssignSub", "AssignSubVariableOp", value)
    }

    fn update(&self, reference_op: &str, resource_op: &str, value: impl Operand) -> Result<Output> {
        let parts = self.parts.clone()?;
        match parts.kind {
            Kind::Reference => self.graph.op(reference_op).input(self.handle()).input(value).output(),
            Kind::Resource => {
                let value = value.into_arg().into_output(&self.graph, "Const", Some(parts.dtype))?;
                let update = self.graph.op(resource_op).input(self.handle()).input(value).build()?;
                let read = self.graph.op("ReadVariableOp").attr("dtype", parts.dtype);
                self.graph.control_dependencies([update], || read.input(self.handle()).output())
            }
        }
    }

    /// The rows with these indices, looked up where the variable is: only they travel. Their gradient is made of rows
    /// as well ([`Gradient::Slices`](crate::Gradient::Slices)).
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let table = g.variable("table", [[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    /// let rows = table.gather([2, 0])?;
    /// let session = Session::new(&g);
    /// session.run(table.initializer())?;
    /// assert_eq!(session.run(&rows)?.as_slice::<f32>()?, [5.0, 6.0, 1.0, 2.0]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn gather(&self, indices: impl Operand) -> Result<Output> {
        let graph = &self.graph;
        graph.colocate_with(self, || match self.is_resource() {
            false => graph.op("GatherV2").input(self).input(indices).input(0).output(),
            true => {
                let rows = graph.op("ResourceGather").input(self).input(indices).attr("dtype", self.dtype()?);
                rows.output()?.identity()
            }
        })
    }

    /// Whether it has a value, as a bool scalar.
    pub fn is_initialized(&self) -> Result<Output> {
        let op = if self.is_resource() { "VarIsInitializedOp" } else { "IsVariableInitialized" };
        self.graph.op(op).input(self.handle()).output()
    }
}

impl fmt::Debug for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.parts {
            Ok(parts) => write!(f, "Variable({}, dtype={})", self.name(), parts.dtype),
            Err(status) => write!(f, "Variable({status})"),
        }
    }
}
