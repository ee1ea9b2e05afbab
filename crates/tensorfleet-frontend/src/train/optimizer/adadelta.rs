//! Adadelta.

use tensorfleet_core::Result;

use super::slots::like;
use super::{Hyperparameter, OptimizerState, UpdateRule, optimizer_builder};
use crate::graph::{Graph, IndexedSlices, Operation, Output, Variable};

/// Adadelta: gradients times the ratio of the running means of the changes (slot `accum_update`) and of the gradients
/// (slot `accum`).
///
/// ```
/// # use tensorfleet::Graph;
/// use tensorfleet::train::{Adadelta, Optimizer};
/// let g = Graph::new();
/// let x = g.variable("x", [1.0f32, -2.0]);
/// let optimizer = Adadelta::new(1.0).rho(0.9);
/// optimizer.minimize(&x.value().square()?)?;
/// assert_eq!(optimizer.get_slot(&x, "accum_update").unwrap().name(), "x/Adadelta_1");
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[doc(alias = "AdadeltaOptimizer")]
#[derive(Debug)]
pub struct Adadelta {
    state: OptimizerState,
    learning_rate: Hyperparameter,
    rho: Hyperparameter,
    epsilon: Hyperparameter,
}

impl Adadelta {
    /// Adadelta with this learning rate; TensorFlow's default is 0.001.
    pub fn new(learning_rate: impl Into<Hyperparameter>) -> Adadelta {
        Adadelta {
            state: OptimizerState::new("Adadelta"),
            learning_rate: learning_rate.into(),
            rho: Hyperparameter::Number(0.95),
            epsilon: Hyperparameter::Number(1e-8),
        }
    }

    /// How much of the means each step keeps; 0.95 if nothing is said.
    pub fn rho(mut self, rho: impl Into<Hyperparameter>) -> Adadelta {
        self.rho = rho.into();
        self
    }

    /// Added under the roots; 1e-8 if nothing is said.
    pub fn epsilon(mut self, epsilon: impl Into<Hyperparameter>) -> Adadelta {
        self.epsilon = epsilon.into();
        self
    }
}

optimizer_builder!(Adadelta);

impl UpdateRule for Adadelta {
    /// Learning rate, rho and epsilon.
    type Prepared = [Output; 3];

    fn state(&self) -> &OptimizerState {
        &self.state
    }

    fn create_slots(&self, variables: &[Variable]) -> Result<()> {
        let (slots, name) = (self.state.slots(), self.state.name());
        for variable in variables {
            slots.zeros(variable, "accum", name)?;
            slots.zeros(variable, "accum_update", name)?;
        }
        Ok(())
    }

    fn prepare(&self, graph: &Graph) -> Result<[Output; 3]> {
        let rate = self.learning_rate.tensor(graph, "lr")?;
        Ok([rate, self.rho.tensor(graph, "rho")?, self.epsilon.tensor(graph, "epsilon")?])
    }

    fn apply_dense(
        &self,
        prepared: &[Output; 3],
        variable: &Variable,
        gradient: &Output,
    ) -> Result<Operation> {
        let slots = self.state.slots();
        let op = self.state.training_op("ApplyAdadelta", variable);
        let mut op = op.input(slots.of(variable, "accum")?).input(slots.of(variable, "accum_update")?);
        for value in prepared {
            op = op.input(like(value, variable)?);
        }
        op.input(gradient).build()
    }

    fn apply_sparse(
        &self,
        prepared: &[Output; 3],
        variable: &Variable,
        gradient: &IndexedSlices,
    ) -> Result<Operation> {
        let slots = self.state.slots();
        let op = self.state.training_op("SparseApplyAdadelta", variable);
        let mut op = op.input(slots.of(variable, "accum")?).input(slots.of(variable, "accum_update")?);
        for value in prepared {
            op = op.input(like(value, variable)?);
        }
        op.input(&gradient.values).input(&gradient.indices).build()
    }
}
