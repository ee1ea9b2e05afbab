//! Adagrad dual averaging.

use tensorfleet_core::{DType, Result};

use super::slots::like;
use super::{Hyperparameter, OptimizerState, UpdateRule, optimizer_builder};
use crate::graph::{Graph, IndexedSlices, OpBuilder, Operation, Output, Variable};
use crate::variables::Initializer;

/// Adagrad dual averaging: each element follows from the sum of its gradients (slot `gradient_accumulator`), that of their
/// squares (slot `gradient_squared_accumulator`) and the number of steps, with regularization inside. It keeps linear models
/// sparse, because what is regularized away becomes exactly zero.
///
/// ```
/// # use tensorfleet::{Graph, Session};
/// use tensorfleet::train::{AdagradDa, MinimizeOptions, Optimizer};
/// let g = Graph::new();
/// let x = g.variable("x", [1.0f32, -2.0]);
/// let step = g.get_or_create_global_step()?;
/// let optimizer = AdagradDa::new(0.5, &step).l1(0.1);
/// let train = optimizer.minimize_with(&x.value().square()?, &MinimizeOptions::counting(&step))?;
/// assert_eq!(optimizer.get_slot(&x, "gradient_squared_accumulator").unwrap().name(), "x/AdagradDA_1");
/// let session = Session::new(&g);
/// session.run(g.global_variables_initializer()?)?;
/// session.run(&train)?;
/// let x = session.run(&x)?;
/// assert!((x.as_slice::<f32>()?[0] + 0.469).abs() < 1e-3, "{x}");
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[doc(alias = "AdagradDAOptimizer")]
#[derive(Debug)]
pub struct AdagradDa {
    state: OptimizerState,
    learning_rate: Hyperparameter,
    global_step: Variable,
    initial_gradient_squared_accumulator_value: f64,
    l1: f64,
    l2: f64,
}

impl AdagradDa {
    /// Adagrad dual averaging with this learning rate; `global_step` counts its steps.
    pub fn new(learning_rate: impl Into<Hyperparameter>, global_step: &Variable) -> AdagradDa {
        AdagradDa {
            state: OptimizerState::new("AdagradDA"),
            learning_rate: learning_rate.into(),
            global_step: global_step.clone(),
            initial_gradient_squared_accumulator_value: 0.1,
            l1: 0.0,
            l2: 0.0,
        }
    }

    /// What the sums of squares start with; 0.1 if nothing is said.
    pub fn initial_gradient_squared_accumulator_value(mut self, value: f64) -> AdagradDa {
        self.initial_gradient_squared_accumulator_value = value;
        self
    }

    /// The strength of the L1 regularization.
    pub fn l1(mut self, strength: f64) -> AdagradDa {
        self.l1 = strength;
        self
    }

    /// The strength of the L2 regularization.
    pub fn l2(mut self, strength: f64) -> AdagradDa {
        self.l2 = strength;
        self
    }

    /// The op up to its gradient, and the step where the variable is.
    fn begin(
        &self,
        op: &str,
        prepared: &AdagradDaPrepared,
        variable: &Variable,
    ) -> Result<(OpBuilder, Output)> {
        let (slots, graph) = (self.state.slots(), variable.graph());
        let step = graph.device(variable.device(), || prepared.step.identity())?;
        let op = self.state.training_op(op, variable).input(slots.of(variable, "gradient_accumulator")?);
        Ok((op.input(slots.of(variable, "gradient_squared_accumulator")?), step))
    }

    /// Adds what follows the gradient.
    fn end(
        &self,
        op: OpBuilder,
        prepared: &AdagradDaPrepared,
        variable: &Variable,
        step: Output,
    ) -> Result<Operation> {
        let mut op = op.input(like(&prepared.rate, variable)?);
        for strength in [self.l1, self.l2] {
            op = op.input(cast(variable.graph(), strength, variable.dtype()?)?);
        }
        op.input(step).build()
    }
}

optimizer_builder!(AdagradDa);

/// A number as a value of `dtype`, with the nodes that TensorFlow makes of it.
fn cast(graph: &Graph, number: f64, dtype: DType) -> Result<Output> {
    graph.name_scope("Cast", || {
        let scope = format!("{}/", graph.current_name_scope());
        let x = graph.literal("x", number, DType::Float)?;
        match dtype {
            DType::Float => Ok(x),
            _ => graph.op("Cast").input(x).attr("DstT", dtype).name(&scope).output(),
        }
    })
}

/// What the updates of one train op share.
#[derive(Debug)]
pub struct AdagradDaPrepared {
    rate: Output,
    /// The number of the step, which begins at 1.
    step: Output,
}

impl UpdateRule for AdagradDa {
    type Prepared = AdagradDaPrepared;

    fn state(&self) -> &OptimizerState {
        &self.state
    }

    fn create_slots(&self, variables: &[Variable]) -> Result<()> {
        let (slots, name) = (self.state.slots(), self.state.name());
        let squares = Initializer::constant(self.initial_gradient_squared_accumulator_value);
        for variable in variables {
            slots.zeros(variable, "gradient_accumulator", name)?;
            slots.make(variable, "gradient_squared_accumulator", name, squares.clone())?;
        }
        Ok(())
    }

    fn prepare(&self, graph: &Graph) -> Result<AdagradDaPrepared> {
        let rate = self.learning_rate.tensor(graph, "learning_rate")?;
        // A copy beside the rate, so that not every update asks the server that has the step.
        let copy = || graph.op("Identity").input(&self.global_step).output();
        let step = graph.colocate_with(&rate, || (copy()? + 1i64).check())?;
        let step = step.cast(DType::Int64)?;
        Ok(AdagradDaPrepared { rate, step })
    }

    fn apply_dense(
        &self,
        prepared: &AdagradDaPrepared,
        variable: &Variable,
        gradient: &Output,
    ) -> Result<Operation> {
        let (op, step) = self.begin("ApplyAdagradDA", prepared, variable)?;
        self.end(op.input(gradient), prepared, variable, step)
    }

    fn apply_sparse(
        &self,
        prepared: &AdagradDaPrepared,
        variable: &Variable,
        gradient: &IndexedSlices,
    ) -> Result<Operation> {
        let (op, step) = self.begin("SparseApplyAdagradDA", prepared, variable)?;
        self.end(op.input(&gradient.values).input(&gradient.indices), prepared, variable, step)
    }
}
