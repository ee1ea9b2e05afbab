//! Gradient descent with momentum.

use tensorfleet_core::Result;

use super::slots::like;
use super::{Hyperparameter, OptimizerState, UpdateRule, optimizer_builder};
use crate::graph::{Graph, IndexedSlices, Operation, Output, Variable};

/// Gradient descent with momentum: the change is a running sum of gradients (slot `momentum`).
///
/// ```
/// # use tensorfleet::Graph;
/// use tensorfleet::train::{Momentum, Optimizer};
/// let g = Graph::new();
/// let x = g.variable("x", [1.0f32, -2.0]);
/// let optimizer = Momentum::new(0.01, 0.9).use_nesterov(true);
/// optimizer.minimize(&x.value().square()?)?;
/// assert_eq!(optimizer.get_slot(&x, "momentum").unwrap().name(), "x/Momentum");
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[doc(alias = "MomentumOptimizer")]
#[derive(Debug)]
pub struct Momentum {
    state: OptimizerState,
    learning_rate: Hyperparameter,
    momentum: Hyperparameter,
    use_nesterov: bool,
}

impl Momentum {
    /// Momentum with this learning rate; `momentum` is the part of the last change that goes on.
    pub fn new(learning_rate: impl Into<Hyperparameter>, momentum: impl Into<Hyperparameter>) -> Momentum {
        Momentum {
            state: OptimizerState::new("Momentum"),
            learning_rate: learning_rate.into(),
            momentum: momentum.into(),
            use_nesterov: false,
        }
    }

    /// Nesterov's form: the change looks one step ahead.
    pub fn use_nesterov(mut self, use_nesterov: bool) -> Momentum {
        self.use_nesterov = use_nesterov;
        self
    }
}

optimizer_builder!(Momentum);

impl UpdateRule for Momentum {
    /// The learning rate and the momentum.
    type Prepared = [Output; 2];

    fn state(&self) -> &OptimizerState {
        &self.state
    }

    fn create_slots(&self, variables: &[Variable]) -> Result<()> {
        let slots = self.state.slots();
        variables.iter().try_for_each(|variable| slots.zeros(variable, "momentum", self.state.name()))
    }

    fn prepare(&self, graph: &Graph) -> Result<[Output; 2]> {
        let rate = self.learning_rate.tensor(graph, "learning_rate")?;
        Ok([rate, self.momentum.tensor(graph, "momentum")?])
    }

    fn apply_dense(
        &self,
        [rate, momentum]: &[Output; 2],
        variable: &Variable,
        gradient: &Output,
    ) -> Result<Operation> {
        let slot = self.state.slots().of(variable, "momentum")?;
        let op = self.state.training_op("ApplyMomentum", variable).input(slot);
        let op = op.input(like(rate, variable)?).input(gradient).input(like(momentum, variable)?);
        op.attr("use_nesterov", self.use_nesterov).build()
    }

    fn apply_sparse(
        &self,
        [rate, momentum]: &[Output; 2],
        variable: &Variable,
        gradient: &IndexedSlices,
    ) -> Result<Operation> {
        let slot = self.state.slots().of(variable, "momentum")?;
        let op = self.state.training_op("SparseApplyMomentum", variable).input(slot);
        let op = op.input(like(rate, variable)?).input(&gradient.values).input(&gradient.indices);
        op.input(like(momentum, variable)?).attr("use_nesterov", self.use_nesterov).build()
    }
}
