//! Gradient descent and Adagrad with a proximal step: regularization that makes elements exactly zero.

use tensorfleet_core::Result;

use super::slots::like;
use super::{Hyperparameter, OptimizerState, UpdateRule, optimizer_builder};
use crate::graph::{Graph, IndexedSlices, OpBuilder, Operation, Output, Variable};
use crate::variables::Initializer;

/// Learning rate and strengths, as all updates of one train op share them.
fn prepare(graph: &Graph, [rate, l1, l2]: [&Hyperparameter; 3]) -> Result<[Output; 3]> {
    Ok([
        rate.tensor(graph, "learning_rate")?,
        l1.tensor(graph, "l1_regularization_strength")?,
        l2.tensor(graph, "l2_regularization_strength")?,
    ])
}

/// An op with the shared values added.
fn with(mut op: OpBuilder, prepared: &[Output; 3], variable: &Variable) -> Result<OpBuilder> {
    for value in prepared {
        op = op.input(like(value, variable)?);
    }
    Ok(op)
}

/// Gradient descent, after each step of which elements move towards zero by the rate times `l1`, at most to zero, and
/// are divided by one plus the rate times `l2`.
///
/// ```
/// # use tensorfleet::{Graph, Session};
/// use tensorfleet::train::{Optimizer, ProximalGradientDescent};
/// let g = Graph::new();
/// let x = g.variable("x", [1.0f32, 0.01]);
/// let train = ProximalGradientDescent::new(0.1).l1(0.5).minimize(&x.value().square()?)?;
/// let session = Session::new(&g);
/// session.run(x.initializer())?;
/// session.run(&train)?;
/// assert_eq!(session.run(&x)?.as_slice::<f32>()?, [0.75, 0.0]);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[doc(alias = "ProximalGradientDescentOptimizer")]
#[derive(Debug)]
pub struct ProximalGradientDescent {
    state: OptimizerState,
    learning_rate: Hyperparameter,
    l1: Hyperparameter,
    l2: Hyperparameter,
}

impl ProximalGradientDescent {
    /// Proximal gradient descent with this learning rate.
    pub fn new(learning_rate: impl Into<Hyperparameter>) -> ProximalGradientDescent {
        ProximalGradientDescent {
            state: OptimizerState::new("ProximalGradientDescent"),
            learning_rate: learning_rate.into(),
            l1: Hyperparameter::Number(0.0),
            l2: Hyperparameter::Number(0.0),
        }
    }

    /// The strength of the L1 regularization.
    pub fn l1(mut self, strength: impl Into<Hyperparameter>) -> ProximalGradientDescent {
        self.l1 = strength.into();
        self
    }

    /// The strength of the L2 regularization.
    pub fn l2(mut self, strength: impl Into<Hyperparameter>) -> ProximalGradientDescent {
        self.l2 = strength.into();
        self
    }
}

optimizer_builder!(ProximalGradientDescent);

impl UpdateRule for ProximalGradientDescent {
    /// Learning rate and strengths.
    type Prepared = [Output; 3];

    fn state(&self) -> &OptimizerState {
        &self.state
    }

    fn prepare(&self, graph: &Graph) -> Result<[Output; 3]> {
        prepare(graph, [&self.learning_rate, &self.l1, &self.l2])
    }

    fn apply_dense(
        &self,
        prepared: &[Output; 3],
        variable: &Variable,
        gradient: &Output,
    ) -> Result<Operation> {
        let op = self.state.training_op("ApplyProximalGradientDescent", variable);
        with(op, prepared, variable)?.input(gradient).build()
    }

    fn apply_sparse(
        &self,
        prepared: &[Output; 3],
        variable: &Variable,
        gradient: &IndexedSlices,
    ) -> Result<Operation> {
        let op = self.state.training_op("SparseApplyProximalGradientDescent", variable);
        with(op, prepared, variable)?.input(&gradient.values).input(&gradient.indices).build()
    }
}

/// Adagrad (slot `accumulator`) with the proximal step of [`ProximalGradientDescent`], by each element's own rate.
///
/// ```
/// # use tensorfleet::Graph;
/// use tensorfleet::train::{Optimizer, ProximalAdagrad};
/// let g = Graph::new();
/// let x = g.variable("x", [1.0f32, -2.0]);
/// let optimizer = ProximalAdagrad::new(0.1).l1(0.01);
/// optimizer.minimize(&x.value().square()?)?;
/// assert_eq!(optimizer.get_slot(&x, "accumulator").unwrap().name(), "x/ProximalAdagrad");
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[doc(alias = "ProximalAdagradOptimizer")]
#[derive(Debug)]
pub struct ProximalAdagrad {
    state: OptimizerState,
    learning_rate: Hyperparameter,
    initial_accumulator_value: f64,
    l1: Hyperparameter,
    l2: Hyperparameter,
}

impl ProximalAdagrad {
    /// Proximal Adagrad with this learning rate.
    pub fn new(learning_rate: impl Into<Hyperparameter>) -> ProximalAdagrad {
        ProximalAdagrad {
            state: OptimizerState::new("ProximalAdagrad"),
            learning_rate: learning_rate.into(),
            initial_accumulator_value: 0.1,
            l1: Hyperparameter::Number(0.0),
            l2: Hyperparameter::Number(0.0),
        }
    }

    /// What the sums of squares start with; 0.1 if nothing is said.
    pub fn initial_accumulator_value(mut self, value: f64) -> ProximalAdagrad {
        self.initial_accumulator_value = value;
        self
    }

    /// The strength of the L1 regularization.
    pub fn l1(mut self, strength: impl Into<Hyperparameter>) -> ProximalAdagrad {
        self.l1 = strength.into();
        self
    }

    /// The strength of the L2 regularization.
    pub fn l2(mut self, strength: impl Into<Hyperparameter>) -> ProximalAdagrad {
        self.l2 = strength.into();
        self
    }
}

optimizer_builder!(ProximalAdagrad);

impl UpdateRule for ProximalAdagrad {
    /// Learning rate and strengths.
    type Prepared = [Output; 3];

    fn state(&self) -> &OptimizerState {
        &self.state
    }

    fn create_slots(&self, variables: &[Variable]) -> Result<()> {
        let initial = Initializer::constant(self.initial_accumulator_value);
        let (slots, name) = (self.state.slots(), self.state.name());
        variables.iter().try_for_each(|variable| slots.make(variable, "accumulator", name, initial.clone()))
    }

    fn prepare(&self, graph: &Graph) -> Result<[Output; 3]> {
        prepare(graph, [&self.learning_rate, &self.l1, &self.l2])
    }

    fn apply_dense(
        &self,
        prepared: &[Output; 3],
        variable: &Variable,
        gradient: &Output,
    ) -> Result<Operation> {
        let op = self.state.training_op("ApplyProximalAdagrad", variable);
        let op = op.input(self.state.slots().of(variable, "accumulator")?);
        with(op, prepared, variable)?.input(gradient).build()
    }

    fn apply_sparse(
        &self,
        prepared: &[Output; 3],
        variable: &Variable,
        gradient: &IndexedSlices,
    ) -> Result<Operation> {
        let op = self.state.training_op("SparseApplyProximalAdagrad", variable);
        let op = op.input(self.state.slots().of(variable, "accumulator")?);
        with(op, prepared, variable)?.input(&gradient.values).input(&gradient.indices).build()
    }
}
