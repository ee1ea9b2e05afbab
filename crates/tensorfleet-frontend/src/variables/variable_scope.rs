//! Variable scopes: where [`Graph::get_variable`] makes and finds variables.
//!
//! A variable scope prefixes the names of variables. It also opens a name scope for ops; but while a name scope that is
//! taken gets a suffix, a variable scope entered twice is the same scope, so that code that builds a layer can be called
//! again with the same variables.

use std::fmt;
use std::thread::ThreadId;

use rustc_hash::FxHashMap;

use super::initializers::Initializer;
use super::regularizers::Regularizer;
use crate::graph::{Graph, VariableParts};

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
    pub(super) initializer: Option<Initializer>,
    pub(super) regularizer: Option<Regularizer>,
    pub(super) is_resource: bool,
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

    pub(super) fn qualified(&self, name: &str) -> String {
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
pub(super) struct VariableStore {
    pub(super) variables: FxHashMap<String, VariableParts>,
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

impl Graph {
    pub(super) fn variable_store<R>(&self, work: impl FnOnce(&mut VariableStore) -> R) -> R {
        self.registry(work)
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

    /// The regularizer of variables for which nothing else is said.
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
