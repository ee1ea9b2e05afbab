//! [`Variable`]: the nodes of a variable, as a value of the graph. How they are made stands in `variables`.
//!
//! Both kinds of TensorFlow variables exist: reference variables (`VariableV2`, what TensorFlow 1.x programs have
//! unless they ask otherwise) and resource variables (`VarHandleOp`). Nodes have the names TensorFlow gives them, so
//! that checkpoints and programs on other tasks agree: `v`, `v/Assign`, `v/read`, `v/initial_value`.

use std::fmt;
use std::sync::Arc;

use tensorfleet_core::{DType, Endpoint, NodeId, PartialShape, Result};
use tensorfleet_kernel::builder::Input;

use super::graph::Graph;
use super::operation::Operation;
use super::output::Output;
use super::variable_slice::VariableSlice;

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
    parts: Result<VariableParts>,
}

/// The nodes of a variable.
#[derive(Clone, Debug)]
pub(crate) struct VariableParts {
    pub(crate) kind: VariableKind,
    pub(crate) dtype: DType,
    pub(crate) handle: Endpoint,
    pub(crate) initial_value: Endpoint,
    pub(crate) initializer: NodeId,
    pub(crate) read: Endpoint,
    /// Which part of a partitioned variable it is, if it is one.
    pub(crate) slice: Option<Arc<VariableSlice>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VariableKind {
    Reference,
    Resource,
}

impl Variable {
    pub(crate) fn new(graph: &Graph, parts: Result<VariableParts>) -> Variable {
        Variable { graph: graph.clone(), parts }
    }

    pub(crate) fn parts(&self) -> Result<VariableParts> {
        self.parts.clone()
    }

    fn output(&self, which: impl FnOnce(&VariableParts) -> Endpoint) -> Output {
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

    /// Gives it its initial value. Run this before anything that reads it.
    pub fn initializer(&self) -> Operation {
        Operation::new(&self.graph, self.parts.clone().map(|parts| parts.initializer))
    }

    /// Whether it is a resource variable.
    pub fn is_resource(&self) -> bool {
        matches!(&self.parts, Ok(parts) if parts.kind == VariableKind::Resource)
    }

    /// Its value: `NAME/read` of a reference variable; a new read, which control dependencies around it order, of a
    /// resource variable.
    pub fn value(&self) -> Output {
        match &self.parts {
            Ok(parts) if parts.kind == VariableKind::Resource => {
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

    /// The read that was built with the variable.
    pub fn snapshot(&self) -> Output {
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
            VariableKind::Reference => Input::Edge(read),
            VariableKind::Resource => Input::Read(parts.handle, parts.dtype),
        })
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

impl From<&Variable> for Operation {
    /// The operation that holds the variable.
    fn from(variable: &Variable) -> Operation {
        variable.handle().operation()
    }
}
