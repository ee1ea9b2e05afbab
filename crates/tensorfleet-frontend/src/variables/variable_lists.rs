//! The variables of a graph, by what they are for.

use tensorfleet_core::Result;

use crate::graph::{Graph, Operation, Variable, VariableParts};

/// The variables of a graph, in the order they were made.
#[derive(Default)]
pub(super) struct VariableLists {
    /// Those that are saved and shared.
    pub(super) global: Vec<VariableParts>,
    /// Those that training changes.
    pub(super) trainable: Vec<VariableParts>,
    /// Those of one process, not saved.
    pub(super) local: Vec<VariableParts>,
}

impl Graph {
    /// All variables, in the order they were made; those of [`crate::VariableBuilder::local`] are not among them.
    pub fn global_variables(&self) -> Vec<Variable> {
        self.variables(|lists| &lists.global)
    }

    /// The variables that training changes.
    pub fn trainable_variables(&self) -> Vec<Variable> {
        self.variables(|lists| &lists.trainable)
    }

    /// The variables that belong to one process and are not saved.
    pub fn local_variables(&self) -> Vec<Variable> {
        self.variables(|lists| &lists.local)
    }

    fn variables(&self, which: impl FnOnce(&VariableLists) -> &Vec<VariableParts>) -> Vec<Variable> {
        let parts = self.registry(|lists| which(lists).clone());
        parts.into_iter().map(|parts| Variable::new(self, Ok(parts))).collect()
    }

    /// An operation, named `init`, that initialises all global variables.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let (a, b) = (g.variable("a", 1.0f32), g.variable("b", 2.0f32));
    /// let session = Session::new(&g);
    /// session.run(g.global_variables_initializer()?)?;
    /// assert_eq!(session.run(&a + &b)?.to_scalar::<f32>()?, 3.0);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn global_variables_initializer(&self) -> Result<Operation> {
        self.group_named("init", self.global_variables().iter().map(Variable::initializer))
    }

    /// An operation, named `init`, that initialises all local variables.
    pub fn local_variables_initializer(&self) -> Result<Operation> {
        self.group_named("init", self.local_variables().iter().map(Variable::initializer))
    }
}
