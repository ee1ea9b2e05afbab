//! RMSProp.

use tensorfleet_core::Result;

use super::slots::like;
use super::{Hyperparameter, OptimizerState, UpdateRule, optimizer_builder};
use crate::graph::{Graph, IndexedSlices, OpBuilder, Operation, Output, Variable};
use crate::variables::Initializer;

/// RMSProp: gradients divided by the root of the running mean of their squares (slot `rms`), with momentum (slot
/// `momentum`). The centered form subtracts the square of their mean (slot `mg`), so that it divides by an estimate of the
/// standard deviation.
///
/// ```
/// # use tensorfleet::Graph;
/// use tensorfleet::train::{Optimizer, RmsProp};
/// let g = Graph::new();
/// let x = g.variable("x", [1.0f32, -2.0]);
/// let optimizer = RmsProp::new(0.01).centered(true);
/// optimizer.minimize(&x.value().square()?)?;
/// assert_eq!(optimizer.get_slot_names(), ["mg", "momentum", "rms"]);
/// assert_eq!(optimizer.get_slot(&x, "momentum").unwrap().name(), "x/RMSProp_2");
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[doc(alias = "RMSPropOptimizer")]
#[derive(Debug)]
pub struct RmsProp {
    state: OptimizerState,
    learning_rate: Hyperparameter,
    decay: Hyperparameter,
    momentum: Hyperparameter,
    epsilon: Hyperparameter,
    centered: bool,
}

impl RmsProp {
    /// RMSProp with this learning rate.
    pub fn new(learning_rate: impl Into<Hyperparameter>) -> RmsProp {
        RmsProp {
            state: OptimizerState::new("RMSProp"),
            learning_rate: learning_rate.into(),
            decay: Hyperparameter::Number(0.9),
            momentum: Hyperparameter::Number(0.0),
            epsilon: Hyperparameter::Number(1e-10),
            centered: false,
        }
    }

    /// How much of the means each step keeps; 0.9 if nothing is said.
    pub fn decay(mut self, decay: impl Into<Hyperparameter>) -> RmsProp {
        self.decay = decay.into();
        self
    }

    /// The part of the last change that goes on; 0 if nothing is said.
    pub fn momentum(mut self, momentum: impl Into<Hyperparameter>) -> RmsProp {
        self.momentum = momentum.into();
        self
    }

    /// Added to the divisor; 1e-10 if nothing is said.
    pub fn epsilon(mut self, epsilon: impl Into<Hyperparameter>) -> RmsProp {
        self.epsilon = epsilon.into();
        self
    }

    /// The centered form.
    pub fn centered(mut self, centered: bool) -> RmsProp {
        self.centered = centered;
        self
    }

    /// The op up to its gradient; `prefix` is that of its name.
    fn update(&self, prefix: &str, variable: &Variable, prepared: &[Output; 4]) -> Result<OpBuilder> {
        let slots = self.state.slots();
        let mut op = match self.centered {
            true => {
                let op = self.state.training_op(&format!("{prefix}CenteredRMSProp"), variable);
                op.input(slots.of(variable, "mg")?)
            }
            false => self.state.training_op(&format!("{prefix}RMSProp"), variable),
        };
        op = op.input(slots.of(variable, "rms")?).input(slots.of(variable, "momentum")?);
        for value in prepared {
            op = op.input(like(value, variable)?);
        }
        Ok(op)
    }
}

optimizer_builder!(RmsProp);

impl UpdateRule for RmsProp {
    /// Learning rate, decay, momentum and epsilon.
    type Prepared = [Output; 4];

    fn state(&self) -> &OptimizerState {
        &self.state
    }

    fn create_slots(&self, variables: &[Variable]) -> Result<()> {
        let (slots, name) = (self.state.slots(), self.state.name());
        for variable in variables {
            slots.make(variable, "rms", name, Initializer::ones())?;
            if self.centered {
                slots.zeros(variable, "mg", name)?;
            }
            slots.zeros(variable, "momentum", name)?;
        }
        Ok(())
    }

    fn prepare(&self, graph: &Graph) -> Result<[Output; 4]> {
        Ok([
            self.learning_rate.tensor(graph, "learning_rate")?,
            self.decay.tensor(graph, "decay")?,
            self.momentum.tensor(graph, "momentum")?,
            self.epsilon.tensor(graph, "epsilon")?,
        ])
    }

    fn apply_dense(
        &self,
        prepared: &[Output; 4],
        variable: &Variable,
        gradient: &Output,
    ) -> Result<Operation> {
        self.update("Apply", variable, prepared)?.input(gradient).build()
    }

    fn apply_sparse(
        &self,
        prepared: &[Output; 4],
        variable: &Variable,
        gradient: &IndexedSlices,
    ) -> Result<Operation> {
        let op = self.update("SparseApply", variable, prepared)?;
        op.input(&gradient.values).input(&gradient.indices).build()
    }
}
