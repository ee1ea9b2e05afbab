//! [`GetVariable`]: makes the variable of a name, or finds the one that exists.

use std::sync::Arc;

use tensorfleet_core::{DType, PartialShape, Result, Shape, Status};

use super::initializers::Initializer;
use super::regularizers::Regularizer;
use super::variable_builder::Initial;
use super::variable_scope::{Reuse, VariableScope};
use crate::graph::{Arg, Graph, Operand, Output, ShapeLike, Variable, VariableSlice};

/// A variable about to be made or found; see [`Graph::get_variable`].
#[must_use = "nothing is added to the graph before `build`"]
pub struct GetVariable {
    graph: Graph,
    name: String,
    scope: VariableScope,
    shape: Result<Option<PartialShape>>,
    dtype: Option<DType>,
    initial: Option<First>,
    regularizer: Option<Regularizer>,
    is_trainable: bool,
    is_local: bool,
    slice: Option<Arc<VariableSlice>>,
}

enum First {
    By(Initializer),
    Value(Arg),
}

impl GetVariable {
    /// The shape; needed unless the variable exists or a value is given.
    pub fn shape(mut self, shape: impl ShapeLike) -> GetVariable {
        self.shape = shape.to_partial_shape().map(Some);
        self
    }

    /// The dtype; float if nothing is said.
    pub fn dtype(mut self, dtype: DType) -> GetVariable {
        self.dtype = Some(dtype);
        self
    }

    /// What it starts with. If nothing is said: what the scope says, else [`Initializer::glorot_uniform`] for
    /// floating-point variables and zeros for others.
    pub fn initializer(mut self, initializer: Initializer) -> GetVariable {
        self.initial = Some(First::By(initializer));
        self
    }

    /// The value it starts with, which has the shape.
    pub fn value(mut self, value: impl Operand) -> GetVariable {
        self.initial = Some(First::Value(value.into_arg()));
        self
    }

    /// Its regularizer; see [`Graph::regularization_losses`].
    pub fn regularizer(mut self, regularizer: Regularizer) -> GetVariable {
        self.regularizer = Some(regularizer);
        self
    }

    /// Not changed by training.
    pub fn untrainable(mut self) -> GetVariable {
        self.is_trainable = false;
        self
    }

    /// Belongs to one process; not trained and not saved.
    pub fn local(mut self) -> GetVariable {
        self.is_local = true;
        self
    }

    /// A resource variable instead of a reference variable.
    pub fn resource(mut self) -> GetVariable {
        self.scope.is_resource = true;
        self
    }

    /// The name in its scope, the shape, which must be fully known, and the dtype. A value it starts with becomes a node of the
    /// graph, of which the [parts](GetVariable::part) take theirs.
    pub(crate) fn description(&mut self) -> Result<(String, Shape, DType)> {
        let full_name = self.scope.qualified(&self.name);
        let value = match self.initial.take() {
            Some(First::Value(value)) => value,
            other => {
                self.initial = other;
                let shape = full_shape(&full_name, self.shape.clone()?)?;
                return Ok((full_name, shape, self.dtype.unwrap_or(DType::Float)));
            }
        };
        if self.shape.clone()?.is_some() {
            return Err(shape_twice(&full_name));
        }
        let name = format!("{full_name}/initial_value");
        let value = self.graph.name_scope("", || value.into_output(&self.graph, &name, self.dtype))?;
        let (shape, dtype) = (full_shape(&full_name, Some(value.shape()?))?, value.dtype()?);
        self.initial = Some(First::Value(Arg::Output(value)));
        Ok((full_name, shape, dtype))
    }

    /// The same with another name and shape, as a part of this one.
    pub(crate) fn part(&self, name: &str, slice: VariableSlice) -> Result<GetVariable> {
        let initial = match &self.initial {
            Some(First::By(initializer)) => Some(First::By(initializer.clone())),
            Some(First::Value(Arg::Output(whole))) => {
                let (begin, size) = slice.begin_and_size()?;
                Some(First::Value(Arg::Output(whole.slice(begin, size)?)))
            }
            _ => None,
        };
        let has_shape = matches!(initial, Some(First::Value(_)));
        Ok(GetVariable {
            graph: self.graph.clone(),
            name: format!("{}/{name}", self.name),
            scope: self.scope.clone(),
            shape: Ok((!has_shape).then(|| slice.shape().into())),
            dtype: self.dtype,
            initial,
            regularizer: self.regularizer.clone(),
            is_trainable: self.is_trainable,
            is_local: self.is_local,
            slice: Some(Arc::new(slice)),
        })
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Makes or finds the variable.
    pub fn build(mut self) -> Result<Variable> {
        let full_name = self.scope.qualified(&self.name);
        let found = self.graph.variable_store(|store| store.variables.get(&full_name).cloned());
        match (found, self.scope.reuse()) {
            (Some(_), Reuse::No) => Err(Status::invalid_argument(format!(
                "Variable {full_name} already exists, disallowed. To share it, enter its scope with Reuse::Yes or Reuse::Auto"
            ))),
            (None, Reuse::Yes) => Err(Status::invalid_argument(format!(
                "Variable {full_name} does not exist, or was not created with get_variable. To make those that are \
                 missing, enter the scope with Reuse::Auto"
            ))),
            (Some(parts), _) => {
                let variable = Variable::new(&self.graph, Ok(parts));
                self.share(&full_name, variable)
            }
            (None, _) => {
                let regularizer = self.regularizer.take().or(self.scope.regularizer.take());
                let graph = self.graph.clone();
                let variable = self.make(&full_name)?;
                let parts = variable.parts()?;
                graph.variable_store(|store| store.variables.insert(full_name.clone(), parts));
                if let Some(regularizer) = regularizer {
                    regularize(&graph, &variable, &full_name, &regularizer)?;
                }
                Ok(variable)
            }
        }
    }

    fn share(self, full_name: &str, variable: Variable) -> Result<Variable> {
        let (dtype, shape) = (variable.dtype()?, variable.shape()?);
        if let Some(wanted) = self.shape?.filter(|wanted| wanted.merge(&shape).is_err()) {
            return Err(Status::invalid_argument(format!(
                "Trying to share variable {full_name}, but specified shape {wanted} and found shape {shape}."
            )));
        }
        if let Some(wanted) = self.dtype.filter(|wanted| *wanted != dtype) {
            return Err(Status::invalid_argument(format!(
                "Trying to share variable {full_name}, but specified dtype {wanted} and found dtype {dtype}."
            )));
        }
        Ok(variable)
    }

    fn make(self, full_name: &str) -> Result<Variable> {
        let graph = self.graph.clone();
        let initial = match self.initial {
            Some(First::Value(value)) => {
                if self.shape?.is_some() {
                    return Err(shape_twice(full_name));
                }
                Initial::Value(value)
            }
            other => {
                let dtype = self.dtype.unwrap_or(DType::Float);
                let shape = full_shape(full_name, self.shape?)?;
                let own = match other {
                    Some(First::By(initializer)) => Some(initializer),
                    _ => self.scope.initializer,
                };
                let initializer = own.map_or_else(|| default_initializer(full_name, dtype), Ok)?;
                let graph = graph.clone();
                // The spread of random numbers is that of the whole.
                let whole =
                    self.slice.as_ref().map_or_else(|| shape.clone(), |slice| slice.full_shape().clone());
                Initial::By(Box::new(move || initializer.build_part(&graph, &shape, &whole, dtype)))
            }
        };
        // Names of variables follow from variable scopes alone, so the name scopes around are left.
        graph.name_scope("", || {
            let mut variable = graph.new_variable(full_name).slice(self.slice);
            if let Some(dtype) = self.dtype {
                variable = variable.dtype(dtype);
            }
            if !self.is_trainable {
                variable = variable.untrainable();
            }
            if self.is_local {
                variable = variable.local();
            }
            if self.scope.is_resource {
                variable = variable.resource();
            }
            variable.init_with(initial).check()
        })
    }
}

impl Graph {
    /// The variable called `name` in the current variable scope, to be made or found; see [`Reuse`].
    ///
    /// ```
    /// # use tensorfleet::{DType, Graph, Initializer, Reuse};
    /// let g = Graph::new();
    /// let w = g.get_variable("w").shape([2, 3]).initializer(Initializer::ones()).build()?;
    /// let count = g.get_variable("count").shape(()).dtype(DType::Int64).untrainable().build()?;
    /// assert_eq!(g.trainable_variables().len(), 1);
    ///
    /// // Once more under the same name is a mistake, unless the scope says that variables are shared.
    /// assert!(g.get_variable("w").shape([2, 3]).build().is_err());
    /// let again = g.again_in(&g.current_variable_scope()).reuse(Reuse::Yes).enter(|| g.get_variable("w").build())?;
    /// assert_eq!(again.name(), w.name());
    /// # let _ = count;
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn get_variable(&self, name: &str) -> GetVariable {
        GetVariable {
            graph: self.clone(),
            name: name.to_string(),
            scope: self.current_variable_scope(),
            shape: Ok(None),
            dtype: None,
            initial: None,
            regularizer: None,
            is_trainable: true,
            is_local: false,
            slice: None,
        }
    }
}

fn shape_twice(name: &str) -> Status {
    Status::invalid_argument(format!(
        "Variable {name}: the value it starts with has the shape; do not give both"
    ))
}

fn full_shape(name: &str, shape: Option<PartialShape>) -> Result<Shape> {
    let full = shape.as_ref().and_then(PartialShape::to_shape);
    full.ok_or_else(|| {
        let found = shape.map_or("none".to_string(), |shape| shape.to_string());
        Status::invalid_argument(format!(
            "Shape of a new variable ({name}) must be fully defined, but is {found}. Give it with shape()"
        ))
    })
}

fn default_initializer(name: &str, dtype: DType) -> Result<Initializer> {
    use DType::{BFloat16, Bool, Double, Float, Half, Int8, Int16, Int32, Int64, UInt8, UInt16};
    match dtype {
        Float | Double | Half | BFloat16 => Ok(Initializer::glorot_uniform()),
        Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | Bool | DType::String => Ok(Initializer::zeros()),
        other => Err(Status::invalid_argument(format!(
            "An initializer for variable {name} of {other} is required"
        ))),
    }
}

/// Adds the penalty of the variable to the graph's regularization losses.
fn regularize(graph: &Graph, variable: &Variable, full_name: &str, regularizer: &Regularizer) -> Result<()> {
    let loss: Output = graph.name_scope(&format!("{full_name}/Regularizer/"), || {
        graph.colocate_with(variable, || regularizer.build(&variable.value()))
    })?;
    graph.add_regularization_loss(&loss)
}
