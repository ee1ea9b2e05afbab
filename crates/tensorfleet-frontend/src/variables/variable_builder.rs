//! [`VariableBuilder`]: the nodes of a new variable.

use std::sync::Arc;

use tensorfleet_core::{DType, Endpoint, PartialShape, Result, Status};
use tensorfleet_kernel::builder::{DeviceScope, GraphBuilder, Input, NewNode};
use tensorfleet_proto::tensorflow::SaveSliceInfoDef;

use super::variable_lists::VariableLists;
use crate::graph::{Arg, Graph, Operand, Output, Variable, VariableKind, VariableParts, VariableSlice};

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
    kind: VariableKind,
    dtype: Option<DType>,
    is_trainable: bool,
    is_local: bool,
    slice: Option<Arc<VariableSlice>>,
    /// Whether values of other shapes than the first may be assigned.
    is_any_shape: bool,
    caching_device: Option<String>,
}

/// The initial value of a variable, once its nodes are built.
struct InitialValue {
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
            kind: VariableKind::Reference,
            dtype: None,
            is_trainable: true,
            is_local: false,
            slice: None,
            is_any_shape: false,
            caching_device: None,
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
        self.kind = VariableKind::Resource;
        self
    }

    /// Lets values of other shapes than the first be assigned: nothing is known about the shape while the graph is built.
    pub fn any_shape(mut self) -> VariableBuilder {
        self.is_any_shape = true;
        self
    }

    /// Where to keep the value that others read; beside the variable if nothing is said.
    pub fn caching_device(mut self, device: &str) -> VariableBuilder {
        self.caching_device = Some(device.to_string());
        self
    }

    /// Is a part of a partitioned variable, and saved as such.
    pub(crate) fn slice(mut self, slice: Option<Arc<VariableSlice>>) -> VariableBuilder {
        self.slice = slice;
        self
    }

    /// Is the part of a partitioned variable that this describes, and saved as such.
    pub fn slice_def(self, def: &SaveSliceInfoDef) -> Result<VariableBuilder> {
        let slice = VariableSlice::from_def(def)?;
        Ok(self.slice(Some(Arc::new(slice))))
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
        let parts = self.build(initial).map(|parts| VariableParts { slice: self.slice.clone(), ..parts });
        if let Ok(parts) = &parts {
            self.graph.registry(|lists: &mut VariableLists| {
                let parts = parts.clone();
                match (self.is_local, self.is_trainable) {
                    (true, _) => lists.local.push(parts),
                    (false, true) => {
                        lists.trainable.push(parts.clone());
                        lists.global.push(parts);
                    }
                    (false, false) => lists.global.push(parts),
                }
            });
        }
        Variable::new(&self.graph, parts)
    }

    /// Variables belong to no branch or loop and wait for nothing.
    fn build(&self, initial: Initial) -> Result<VariableParts> {
        let graph = &self.graph;
        let enter = |builder: &mut GraphBuilder| {
            builder.enter_outside();
            if let Err(status) = builder.enter_name_scope(&self.name) {
                builder.enter_invalid(status);
            }
        };
        graph.scoped(enter, || {
            let scope = graph.build(|builder| builder.name_scope().to_string());
            let first = self.initial_value(&scope, initial)?;
            graph.build(|builder| match self.kind {
                VariableKind::Reference => self.reference_parts(builder, first),
                VariableKind::Resource => self.resource_parts(builder, first.endpoint),
            })
        })
    }

    /// The initial value as an edge. Nodes made for it say that they belong to the variable; the constant of a reference
    /// variable does not, as in TensorFlow.
    fn initial_value(&self, scope: &str, initial: Initial) -> Result<InitialValue> {
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
                    (Input::Tensor(value), VariableKind::Reference) => {
                        graph.build(|builder| builder.constant("initial_value", value))?
                    }
                    (Input::Tensor(value), VariableKind::Resource) => {
                        graph.name_scope("Initializer", || {
                            graph.scoped(inside, || {
                                graph.build(|builder| builder.constant("initial_value", value))
                            })
                        })?
                    }
                    _ => return Err(Status::internal("an initial value is an edge or a tensor")),
                };
                return Ok(InitialValue { endpoint, is_own: false });
            }
        };
        let value = graph.name_scope("Initializer", || graph.scoped(inside, make))?;
        let (endpoint, dtype) = (value.endpoint_in(graph)?, value.dtype()?);
        self.check_dtype(dtype)?;
        Ok(InitialValue { endpoint, is_own: true })
    }

    /// Builds inside the name scope of the variable, whose own node has the scope's name.
    fn reference_parts(&self, builder: &mut GraphBuilder, first: InitialValue) -> Result<VariableParts> {
        let scope = builder.name_scope().to_string();
        let initial = first.endpoint;
        let (dtype, shape) = (builder.dtype(initial)?, self.declared_shape(builder, initial)?);
        let depth = builder.depth();
        if first.is_own {
            builder.enter_class(&scope);
        }
        let handle = NewNode::new("VariableV2").name(format!("{scope}/")).attr("dtype", dtype);
        let handle = builder.emit(handle.attr("shape", shape));
        builder.leave(depth);
        let handle = handle?;
        let assign = NewNode::new("Assign").input(handle).input(initial);
        let initializer = builder.add(assign.attr("validate_shape", !self.is_any_shape))?;
        let read = NewNode::new("Identity").name("read").input(handle);
        let read = match &self.caching_device {
            None => builder.emit(read.colocate_with(handle.node))?,
            Some(device) => anywhere(builder, |builder| builder.emit(read.device(device)))?,
        };
        Ok(VariableParts {
            kind: VariableKind::Reference,
            dtype,
            handle,
            initial_value: initial,
            initializer,
            read,
            slice: None,
        })
    }

    fn resource_parts(&self, builder: &mut GraphBuilder, initial: Endpoint) -> Result<VariableParts> {
        let scope = builder.name_scope().to_string();
        let (dtype, shape) = (builder.dtype(initial)?, self.declared_shape(builder, initial)?);
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
        let mut read = within(builder, "Read", |builder| builder.emit(read))?;
        if let Some(device) = &self.caching_device {
            let cached = NewNode::new("Identity").input(read).device(device);
            read = anywhere(builder, |builder| builder.emit(cached))?;
        }
        Ok(VariableParts {
            kind: VariableKind::Resource,
            dtype,
            handle,
            initial_value: initial,
            initializer,
            read,
            slice: None,
        })
    }

    fn declared_shape(&self, builder: &GraphBuilder, initial: Endpoint) -> Result<PartialShape> {
        match self.is_any_shape {
            true => Ok(PartialShape::unknown()),
            false => builder.shape(initial).cloned(),
        }
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
            Some(dtype) => tensorfleet_kernel::builder::adapt_literal(&tensor, dtype).unwrap_or(tensor),
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
