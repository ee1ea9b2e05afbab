//! FTRL-proximal.

use tensorfleet_core::{DType, Result, ensure};

use super::slots::like;
use super::{Hyperparameter, OptimizerState, UpdateRule, optimizer_builder};
use crate::graph::{Graph, IndexedSlices, OpBuilder, Operation, Output, Variable};
use crate::variables::Initializer;

/// Keeps the learning rate away from zero where it divides.
const SMALLEST_RATE: f64 = 1e-36;

/// Follow the regularized leader: sparse models through regularization inside the update (slots `accum` and `linear`).
///
/// ```
/// # use tensorfleet::Graph;
/// use tensorfleet::train::{Ftrl, Optimizer};
/// let g = Graph::new();
/// let x = g.variable("x", [1.0f32, -2.0]);
/// let optimizer = Ftrl::new(0.05).l1(0.01).l2(0.02);
/// optimizer.minimize(&x.value().square()?)?;
/// assert_eq!(optimizer.get_slot(&x, "linear").unwrap().name(), "x/Ftrl_1");
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[doc(alias = "FtrlOptimizer")]
#[derive(Debug)]
pub struct Ftrl {
    state: OptimizerState,
    learning_rate: Hyperparameter,
    learning_rate_power: Hyperparameter,
    initial_accumulator_value: f64,
    l1: Hyperparameter,
    l2: Hyperparameter,
    l2_shrinkage: Hyperparameter,
    /// `None` if the rule is that of TensorFlow 1.15, which has no beta and no nodes for it.
    beta: Option<f64>,
}

impl Ftrl {
    /// FTRL with this learning rate.
    pub fn new(learning_rate: impl Into<Hyperparameter>) -> Ftrl {
        Ftrl {
            state: OptimizerState::new("Ftrl"),
            learning_rate: learning_rate.into(),
            learning_rate_power: Hyperparameter::Number(-0.5),
            initial_accumulator_value: 0.1,
            l1: Hyperparameter::Number(0.0),
            l2: Hyperparameter::Number(0.0),
            l2_shrinkage: Hyperparameter::Number(0.0),
            beta: Some(0.0),
        }
    }

    /// How the rate falls with the squares of the gradients; -0.5 if nothing is said, 0 for a fixed rate.
    pub fn learning_rate_power(mut self, power: impl Into<Hyperparameter>) -> Ftrl {
        self.learning_rate_power = power.into();
        self
    }

    /// What the sums of squares start with; 0.1 if nothing is said.
    pub fn initial_accumulator_value(mut self, value: f64) -> Ftrl {
        self.initial_accumulator_value = value;
        self
    }

    /// The strength of the L1 regularization.
    pub fn l1(mut self, strength: impl Into<Hyperparameter>) -> Ftrl {
        self.l1 = strength.into();
        self
    }

    /// The strength of the L2 regularization, which keeps the updates stable.
    pub fn l2(mut self, strength: impl Into<Hyperparameter>) -> Ftrl {
        self.l2 = strength.into();
        self
    }

    /// The strength of the L2 regularization that shrinks weights in use.
    pub fn l2_shrinkage(mut self, strength: impl Into<Hyperparameter>) -> Ftrl {
        self.l2_shrinkage = strength.into();
        self
    }

    /// The beta of the paper; 0 if nothing is said.
    pub fn beta(mut self, beta: f64) -> Ftrl {
        self.beta = Some(beta);
        self
    }

    /// The rule of TensorFlow 1.15: no beta, and no nodes for it.
    pub fn without_beta(mut self) -> Ftrl {
        self.beta = None;
        self
    }

    fn check(&self) -> Result<()> {
        let not_negative = [
            ("initial_accumulator_value", Some(self.initial_accumulator_value)),
            ("l1", self.l1.number()),
            ("l2", self.l2.number()),
            ("l2_shrinkage", self.l2_shrinkage.number()),
            ("learning_rate_power, negated,", self.learning_rate_power.number().map(|power| -power)),
        ];
        for (name, value) in not_negative {
            let value = value.unwrap_or(0.0);
            ensure!(value >= 0.0, InvalidArgument, "Ftrl: {name} must not be negative, got {value}");
        }
        Ok(())
    }

    fn slots(&self, op: OpBuilder, variable: &Variable) -> Result<OpBuilder> {
        let slots = self.state.slots();
        Ok(op.input(slots.of(variable, "accum")?).input(slots.of(variable, "linear")?))
    }

    fn has_shrinkage(&self) -> bool {
        let strength = match &self.l2_shrinkage {
            Hyperparameter::Number(strength) => Some(*strength),
            Hyperparameter::Computed(strength) => {
                strength.constant_value().and_then(|value| value.to_scalar::<f32>().ok()).map(f64::from)
            }
        };
        strength.is_none_or(|strength| strength > 0.0)
    }

    /// Adds what follows the gradient.
    fn strengths(&self, op: OpBuilder, prepared: &FtrlPrepared, variable: &Variable) -> Result<Operation> {
        let mut op = op;
        for value in [&prepared.rate, &prepared.l1, &prepared.l2] {
            op = op.input(like(value, variable)?);
        }
        if self.has_shrinkage() {
            op = op.input(like(&prepared.l2_shrinkage, variable)?);
        }
        op.input(like(&prepared.rate_power, variable)?).build()
    }
}

optimizer_builder!(Ftrl);

/// What the updates of one train op share.
#[derive(Debug)]
pub struct FtrlPrepared {
    rate: Output,
    l1: Output,
    /// With the part that `beta` adds.
    l2: Output,
    l2_shrinkage: Output,
    rate_power: Output,
}

impl UpdateRule for Ftrl {
    type Prepared = FtrlPrepared;

    fn state(&self) -> &OptimizerState {
        &self.state
    }

    fn create_slots(&self, variables: &[Variable]) -> Result<()> {
        self.check()?;
        let (slots, name) = (self.state.slots(), self.state.name());
        let initial = self.initial_accumulator_value;
        for variable in variables {
            let filled = Initializer::by(move |graph, shape, dtype| {
                (graph.ones(dtype, shape.clone())? * initial).check()
            });
            slots.make(variable, "accum", name, filled)?;
            slots.zeros(variable, "linear", name)?;
        }
        Ok(())
    }

    fn prepare(&self, graph: &Graph) -> Result<FtrlPrepared> {
        let rate = self.learning_rate.tensor(graph, "learning_rate")?;
        let l1 = self.l1.tensor(graph, "l1_regularization_strength")?;
        let l2 = match self.beta {
            None => self.l2.tensor(graph, "l2_regularization_strength")?,
            Some(beta) => {
                let rate_to_divide_by = match &self.learning_rate {
                    Hyperparameter::Number(rate) => graph.op("Maximum").input(*rate as f32),
                    Hyperparameter::Computed(rate) => graph.op("Maximum").input(rate),
                };
                let twice = (2.0 * rate_to_divide_by.input(SMALLEST_RATE as f32).output()?).check()?;
                let l2 = match &self.l2 {
                    Hyperparameter::Number(l2) => (*l2 + beta / twice).check()?,
                    Hyperparameter::Computed(l2) => (l2 + beta / twice).check()?,
                };
                graph.literal("beta", beta, DType::Float)?;
                l2
            }
        };
        Ok(FtrlPrepared {
            rate,
            l1,
            l2,
            l2_shrinkage: self.l2_shrinkage.tensor(graph, "l2_shrinkage_regularization_strength")?,
            rate_power: self.learning_rate_power.tensor(graph, "learning_rate_power")?,
        })
    }

    fn apply_dense(
        &self,
        prepared: &FtrlPrepared,
        variable: &Variable,
        gradient: &Output,
    ) -> Result<Operation> {
        let op = if self.has_shrinkage() { "ApplyFtrlV2" } else { "ApplyFtrl" };
        let op = self.slots(self.state.training_op(op, variable), variable)?;
        self.strengths(op.input(gradient), prepared, variable)
    }

    fn apply_sparse(
        &self,
        prepared: &FtrlPrepared,
        variable: &Variable,
        gradient: &IndexedSlices,
    ) -> Result<Operation> {
        let op = if self.has_shrinkage() { "SparseApplyFtrlV2" } else { "SparseApplyFtrl" };
        let op = self.slots(self.state.training_op(op, variable), variable)?;
        self.strengths(op.input(&gradient.values).input(&gradient.indices), prepared, variable)
    }
}
