//! Adagrad.

use tensorfleet_core::Result;

use super::slots::like;
use super::{Hyperparameter, OptimizerState, UpdateRule, optimizer_builder};
use crate::graph::{Graph, IndexedSlices, Operation, Output, Variable};
use crate::variables::Initializer;

/// Adagrad: each element has its own rate, which falls with the squares of its gradients so far (slot `accumulator`).
///
/// ```
/// # use tensorfleet::Graph;
/// use tensorfleet::train::{Adagrad, Optimizer};
/// let g = Graph::new();
/// let x = g.variable("x", [1.0f32, -2.0]);
/// let optimizer = Adagrad::new(0.1).initial_accumulator_value(0.5);
/// optimizer.minimize(&x.value().square()?)?;
/// assert_eq!(optimizer.get_slot(&x, "accumulator").unwrap().name(), "x/Adagrad");
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[doc(alias = "AdagradOptimizer")]
#[derive(Debug)]
pub struct Adagrad {
    state: OptimizerState,
    learning_rate: Hyperparameter,
    initial_accumulator_value: f64,
}

impl Adagrad {
    /// Adagrad with this learning rate.
    pub fn new(learning_rate: impl Into<Hyperparameter>) -> Adagrad {
        Adagrad {
            state: OptimizerState::new("Adagrad"),
            learning_rate: learning_rate.into(),
            initial_accumulator_value: 0.1,
        }
    }

    /// What the sums of squares start with; 0.1 if nothing is said.
    pub fn initial_accumulator_value(mut self, value: f64) -> Adagrad {
        self.initial_accumulator_value = value;
        self
    }
}

optimizer_builder!(Adagrad);

impl UpdateRule for Adagrad {
    /// The learning rate.
    type Prepared = Output;

    fn state(&self) -> &OptimizerState {
        &self.state
    }

    fn create_slots(&self, variables: &[Variable]) -> Result<()> {
        let initial = Initializer::constant(self.initial_accumulator_value);
        let slots = self.state.slots();
        variables
            .iter()
            .try_for_each(|variable| slots.make(variable, "accumulator", self.state.name(), initial.clone()))
    }

    fn prepare(&self, graph: &Graph) -> Result<Output> {
        self.learning_rate.tensor(graph, "learning_rate")
    }

    fn apply_dense(&self, rate: &Output, variable: &Variable, gradient: &Output) -> Result<Operation> {
        let accumulator = self.state.slots().of(variable, "accumulator")?;
        let op = self.state.training_op("ApplyAdagrad", variable).input(accumulator);
        op.input(like(rate, variable)?).input(gradient).build()
    }

    fn apply_sparse(
        &self,
        rate: &Output,
        variable: &Variable,
        gradient: &IndexedSlices,
    ) -> Result<Operation> {
        let accumulator = self.state.slots().of(variable, "accumulator")?;
        let op = self.state.training_op("SparseApplyAdagrad", variable).input(accumulator);
        op.input(like(rate, variable)?).input(&gradient.values).input(&gradient.indices).build()
    }
}
