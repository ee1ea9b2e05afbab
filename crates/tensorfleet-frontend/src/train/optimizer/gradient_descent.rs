//! Gradient descent.

use tensorfleet_core::Result;

use super::slots::like;
use super::{Hyperparameter, OptimizerState, UpdateRule, optimizer_builder};
use crate::graph::{Graph, IndexedSlices, Operation, Output, Variable};

/// Subtracts the gradient times the learning rate.
///
/// ```
/// # use tensorfleet::{Graph, Session};
/// use tensorfleet::train::{GradientDescent, Optimizer};
/// let g = Graph::new();
/// let x = g.variable("x", [1.0f32, -2.0]);
/// let train = GradientDescent::new(0.5).minimize(&x.value().square()?)?;
/// assert_eq!(train.name(), "GradientDescent");
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[doc(alias = "GradientDescentOptimizer")]
#[derive(Debug)]
pub struct GradientDescent {
    state: OptimizerState,
    learning_rate: Hyperparameter,
}

impl GradientDescent {
    /// Gradient descent with this learning rate.
    pub fn new(learning_rate: impl Into<Hyperparameter>) -> GradientDescent {
        GradientDescent { state: OptimizerState::new("GradientDescent"), learning_rate: learning_rate.into() }
    }
}

optimizer_builder!(GradientDescent);

impl UpdateRule for GradientDescent {
    /// The learning rate.
    type Prepared = Output;

    const SUMS_DUPLICATES: bool = false;

    fn state(&self) -> &OptimizerState {
        &self.state
    }

    fn prepare(&self, graph: &Graph) -> Result<Output> {
        self.learning_rate.tensor(graph, "learning_rate")
    }

    fn apply_dense(&self, rate: &Output, variable: &Variable, gradient: &Output) -> Result<Operation> {
        let op = self.state.training_op("ApplyGradientDescent", variable);
        op.input(like(rate, variable)?).input(gradient).build()
    }

    fn apply_sparse(
        &self,
        rate: &Output,
        variable: &Variable,
        gradient: &IndexedSlices,
    ) -> Result<Operation> {
        let graph = variable.graph();
        let rate = like(rate, variable)?;
        if variable.is_resource() {
            let change = (-&gradient.values * rate).check()?;
            let add = graph.op("ResourceScatterAdd").input(variable).input(&gradient.indices);
            return add.input(change).build();
        }
        let change = (&gradient.values * rate).check()?;
        let subtract = graph.op("ScatterSub").input(variable).input(&gradient.indices).input(change);
        subtract.attr("use_locking", self.state.use_locking()).build()
    }
}
