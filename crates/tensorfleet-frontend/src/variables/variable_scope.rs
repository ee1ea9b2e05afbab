//! Variables by name: [`Graph::get_variable`] makes a variable or finds the one that exists, and variable scopes say where.
//!
//! A variable scope prefixes the names of variables. It also opens a name scope for ops; but while a name scope that is
//! taken gets a suffix, a variable scope entered twice is the same scope, so that code that builds a layer can be called
//! again with the same variables.

use std::fmt;
use std::sync::Arc;
use std::thread::ThreadId;

use rustc_hash::FxHashMap;
use tensorfleet_core::{DType, PartialShape, Result, Shape, Status};

use super::initializers::Initializer;
use super::partitioned_variable::{GetPartitionedVariable, Partitioner};
use super::regularizers::Regularizer;
use super::variable::{Initial, Parts, Variable};
use super::variable_slice::VariableSlice;
use crate::graph::{Arg, Graph, Operand, Output, ShapeLike};

/// Whether variables of a scope are made or found; see [`Graph::get_variable`].
#[doc(alias = "AUTO_REUSE")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    /// Each must be new.
    #[default]
    No,
    /// Each must exist.
    Yes,
    /// Those that do not exist are made; TensorFlow's `AUTO_REUSE`.
    Auto,
}

/// A variable scope: a prefix of variable names, and what holds for the variables made in it. [`Graph::again_in`] enters one
/// again.
#[derive(Clone, Default)]
pub struct VariableScope {
    name: String,
    reuse: Reuse,
    initializer: Option<Initializer>,
    regularizer: Option<Regularizer>,
    is_resource: bool,
}

impl VariableScope {
    /// The prefix, without a slash at its end.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether variables are made or found.
    pub fn reuse(&self) -> Reuse {
        self.reuse
    }

    fn qualified(&self, name: &str) -> String {
        match self.name.is_empty() {
            true => name.to_string(),
            false => format!("{}/{name}", self.name),
        }
    }
}

impl fmt::Debug for VariableScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VariableScope({:?}, reuse={:?})", self.name, self.reuse)
    }
}

/// The variables of a graph that were made by name, and the scopes its threads are in.
#[derive(Default)]
pub(crate) struct VariableStore {
    variables: FxHashMap<String, Parts>,
    /// How often each scope was entered since the scope around it was, for scopes that need a name of their own.
    entered: FxHashMap<String, usize>,
    scopes: FxHashMap<ThreadId, Vec<VariableScope>>,
}

impl VariableStore {
    fn current(&self) -> VariableScope {
        let scopes = self.scopes.get(&std::thread::current().id());
        scopes.and_then(|scopes| scopes.last()).cloned().unwrap_or_default()
    }

    fn enter(&mut self, scope: VariableScope) {
        *self.entered.entry(scope.name.clone()).or_default() += 1;
        self.scopes.entry(std::thread::current().id()).or_default().push(scope);
    }

    fn leave(&mut self) {
        let thread = std::thread::current().id();
        let Some(scopes) = self.scopes.get_mut(&thread) else { return };
        if let Some(left) = scopes.pop() {
            let inner = format!("{}/", left.name);
            self.entered.retain(|name, _| !name.starts_with(&inner));
        }
        if scopes.is_empty() {
            self.scopes.remove(&thread);
        }
    }

    /// `name` in the current scope, with a suffix if such a scope was entered before.
    fn unused(&self, name: &str) -> String {
        let qualified = self.current().qualified(name);
        let is_free = |candidate: &String| !self.entered.contains_key(candidate);
        let suffixed = (1..).map(|suffix| format!("{qualified}_{suffix}"));
        std::iter::once(qualified.clone()).chain(suffixed).find(is_free).unwrap_or(qualified)
    }
}

/// A variable scope about to be entered; see [`Graph::new_variable_scope`].
#[must_use = "nothing happens before `enter`"]
pub struct VariableScopeBuilder {
    graph: Graph,
    /// What the name scope is called, if one is opened.
    ops_name: Option<String>,
    scope: VariableScope,
}

impl Graph {
    /// Prefixes the names of variables made in `body`, and those of ops.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Result, Reuse, Variable};
    /// let g = Graph::new();
    /// let weights = || g.get_variable("w").shape([3, 2]).build();
    /// let made = g.variable_scope("layer", weights)?;
    /// let found = g.new_variable_scope("layer").reuse(Reuse::Yes).enter(weights)?;
    /// assert_eq!((made.name(), found.name()), ("layer/w".to_string(), "layer/w".to_string()));
    /// assert_eq!(g.global_variables().len(), 1);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn variable_scope<R>(&self, name: &str, body: impl FnOnce() -> R) -> R {
        self.new_variable_scope(name).enter(body)
    }

    /// A variable scope of which more is to be said.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Initializer};
    /// let g = Graph::new();
    /// let layer = g.new_variable_scope("layer").initializer(Initializer::zeros()).resource();
    /// let w = layer.enter(|| g.get_variable("w").shape([3, 2]).build())?;
    /// assert_eq!(w.name(), "layer/w");
    /// assert!(w.is_resource());
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn new_variable_scope(&self, name: &str) -> VariableScopeBuilder {
        let outer = self.current_variable_scope();
        let scope = VariableScope { name: outer.qualified(name), ..outer };
        VariableScopeBuilder { graph: self.clone(), ops_name: Some(name.to_string()), scope }
    }

    /// A scope that was entered before, wherever this code stands now.
    ///
    /// ```
    /// # use tensorfleet::Graph;
    /// let g = Graph::new();
    /// let model = g.variable_scope("model", || g.current_variable_scope());
    /// let w = g.variable_scope("elsewhere", || g.again_in(&model).enter(|| g.get_variable("w").shape([2]).build()))?;
    /// assert_eq!(w.name(), "model/w");
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn again_in(&self, scope: &VariableScope) -> VariableScopeBuilder {
        let ops_name = scope.name.rsplit('/').next().filter(|name| !name.is_empty()).map(str::to_string);
        VariableScopeBuilder { graph: self.clone(), ops_name, scope: scope.clone() }
    }

    /// A variable scope named `default`, or `default_1`, … if there was one of that name, so that each call has
    /// variables of its own.
    ///
    /// ```
    /// # use tensorfleet::Graph;
    /// let g = Graph::new();
    /// let layer = || g.unique_variable_scope("layer", || g.get_variable("w").shape([2]).build());
    /// assert_eq!((layer()?.name(), layer()?.name()), ("layer/w".to_string(), "layer_1/w".to_string()));
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn unique_variable_scope<R>(&self, default: &str, body: impl FnOnce() -> R) -> R {
        let name = self.variable_store(|store| store.unused(default));
        let scope = VariableScope { name, ..self.current_variable_scope() };
        VariableScopeBuilder { graph: self.clone(), ops_name: Some(default.to_string()), scope }.enter(body)
    }

    /// The variable scope this thread is in.
    pub fn current_variable_scope(&self) -> VariableScope {
        self.variable_store(|store| store.current())
    }

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

impl VariableScopeBuilder {
    /// Whether variables are made or found. A scope inherits this from the scope around it.
    pub fn reuse(mut self, reuse: Reuse) -> VariableScopeBuilder {
        if reuse != Reuse::No {
            self.scope.reuse = reuse;
        }
        self
    }

    /// What variables start with for which nothing else is said.
    pub fn initializer(mut self, initializer: Initializer) -> VariableScopeBuilder {
        self.scope.initializer = Some(initializer);
        self
    }

    /// What keeps variables small for which nothing else is said.
    pub fn regularizer(mut self, regularizer: Regularizer) -> VariableScopeBuilder {
        self.scope.regularizer = Some(regularizer);
        self
    }

    /// Makes resource variables instead of reference variables.
    pub fn resource(mut self) -> VariableScopeBuilder {
        self.scope.is_resource = true;
        self
    }

    /// Leaves the names of ops as they are.
    pub fn without_name_scope(mut self) -> VariableScopeBuilder {
        self.ops_name = None;
        self
    }

    /// Runs `body` inside the scope; leaves it even if `body` panics.
    pub fn enter<R>(self, body: impl FnOnce() -> R) -> R {
        struct Leave<'a>(&'a Graph);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.variable_store(VariableStore::leave);
            }
        }
        let VariableScopeBuilder { graph, ops_name, scope } = self;
        let inside = || {
            graph.variable_store(|store| store.enter(scope));
            let _leave = Leave(&graph);
            body()
        };
        match ops_name {
            Some(name) => graph.name_scope(&name, inside),
            None => inside(),
        }
    }
}

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

    /// What keeps it small; see [`Graph::regularization_losses`].
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

    /// Divides the variable: what is built is a [`PartitionedVariable`](crate::PartitionedVariable).
    pub fn partitioner(self, partitioner: Partitioner) -> GetPartitionedVariable {
        GetPartitionedVariable::new(self, partitioner)
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
        match (found, self.scope.reuse) {
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

/// Adds what keeps the variable small to the graph's losses.
fn regularize(graph: &Graph, variable: &Variable, full_name: &str, regularizer: &Regularizer) -> Result<()> {
    let loss: Output = graph.name_scope(&format!("{full_name}/Regularizer/"), || {
        graph.colocate_with(variable, || regularizer.build(&variable.value()))
    })?;
    graph.add_regularization_loss(&loss)
}

/// Makes a variable that accompanies another one, as TensorFlow names and places them:
/// `PRIMARY/NAME` in the current variable scope, with a suffix if there is one already, where `primary` is.
pub(crate) fn create_slot(primary: &Variable, name: &str, initial: Initial) -> Result<Variable> {
    let graph = primary.graph();
    let slice = primary.slice_info();
    graph.unique_variable_scope(&format!("{}/{name}", primary.name()), || {
        let full_name = graph.current_variable_scope().name;
        graph.colocate_with(primary, || {
            let slot = graph.new_variable(&format!("{full_name}/")).untrainable();
            let slot = if primary.is_resource() { slot.resource() } else { slot };
            // What accompanies a part is a part of what accompanies the whole, and saved as that.
            let own_name =
                full_name.rsplit_once(&format!("{}/", primary.name())).map_or(name, |(_, name)| name);
            let slot = slot.slice(slice.map(|slice| Arc::new(slice.slot(own_name))));
            slot.init_with(initial).check()
        })
    })
}
