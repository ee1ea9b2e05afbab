//! Adam.

use tensorfleet_core::{Result, Status};

use super::slots::like;
use super::{Hyperparameter, OptimizerState, UpdateRule, optimizer_builder};
use crate::graph::{Arg, Graph, IndexedSlices, Operand, Operation, Output, Variable};

/// Adam: steps of the running mean of the gradients (slot `m`) divided by the root of that of their squares (slot `v`).
///
/// Rows that a sparse gradient does not mention still decay and move, as in TensorFlow.
///
/// ```
/// # use tensorfleet::Graph;
/// use tensorfleet::train::{Adam, Optimizer};
/// let g = Graph::new();
/// let x = g.variable("x", [1.0f32, -2.0]);
/// let optimizer = Adam::new(0.01).beta1(0.8);
/// optimizer.minimize(&x.value().square()?)?;
/// let names: Vec<String> = optimizer.variables().iter().map(|variable| variable.name()).collect();
/// assert_eq!(names, ["beta1_power", "beta2_power", "x/Adam", "x/Adam_1"]);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[doc(alias = "AdamOptimizer")]
#[derive(Debug)]
pub struct Adam {
    state: OptimizerState,
    learning_rate: Hyperparameter,
    beta1: Hyperparameter,
    beta2: Hyperparameter,
    epsilon: Hyperparameter,
}

impl Adam {
    /// Adam with this learning rate; 0.001 is the usual one.
    pub fn new(learning_rate: impl Into<Hyperparameter>) -> Adam {
        Adam {
            state: OptimizerState::new("Adam"),
            learning_rate: learning_rate.into(),
            beta1: Hyperparameter::Number(0.9),
            beta2: Hyperparameter::Number(0.999),
            epsilon: Hyperparameter::Number(1e-8),
        }
    }

    /// How much of the mean of gradients each step keeps; 0.9 if nothing is said.
    pub fn beta1(mut self, beta1: impl Into<Hyperparameter>) -> Adam {
        self.beta1 = beta1.into();
        self
    }

    /// How much of the mean of squares each step keeps; 0.999 if nothing is said.
    pub fn beta2(mut self, beta2: impl Into<Hyperparameter>) -> Adam {
        self.beta2 = beta2.into();
        self
    }

    /// Added to the divisor; 1e-8 if nothing is said.
    pub fn epsilon(mut self, epsilon: impl Into<Hyperparameter>) -> Adam {
        self.epsilon = epsilon.into();
        self
    }

    /// `beta1_power` and `beta2_power`: what the means lack because they started with zeros.
    fn powers(&self, graph: &Graph) -> Result<[Variable; 2]> {
        let slots = self.state.slots();
        Ok([slots.shared(graph, "beta1_power")?, slots.shared(graph, "beta2_power")?])
    }

    /// `slot = slot * decay + rows`, and its new value.
    fn decay_and_add(
        &self,
        slot: &Variable,
        decay: &Output,
        rows: &Output,
        indices: &Output,
    ) -> Result<Decayed> {
        let graph = slot.graph();
        let decayed = (slot.value() * decay).check()?;
        let assign = assign(slot, &decayed, self.state.use_locking())?;
        graph.control_dependencies([assign], || {
            if slot.is_resource() {
                let add = graph.op("ResourceScatterAdd").input(slot).input(indices).input(rows).build()?;
                let value = graph.control_dependencies([add], || slot.value()).check()?;
                return Ok(Decayed { done: value.operation(), value });
            }
            let add = graph.op("ScatterAdd").input(slot).input(indices).input(rows);
            let value = add.attr("use_locking", self.state.use_locking()).output()?;
            Ok(Decayed { done: value.operation(), value })
        })
    }
}

/// A slot after its update.
struct Decayed {
    value: Output,
    done: Operation,
}

optimizer_builder!(Adam);

/// What the updates of one train op share.
#[derive(Debug)]
pub struct AdamPrepared {
    rate: Output,
    beta1: Output,
    beta2: Output,
    epsilon: Output,
}

impl UpdateRule for Adam {
    type Prepared = AdamPrepared;

    fn state(&self) -> &OptimizerState {
        &self.state
    }

    fn create_slots(&self, variables: &[Variable]) -> Result<()> {
        let slots = self.state.slots();
        // TensorFlow, too, puts them with the variable whose name comes first, so that all workers agree.
        let first = variables.iter().min_by_key(|variable| variable.name());
        let first = first.ok_or_else(|| Status::internal("Adam makes slots for at least one variable"))?;
        slots.make_shared("beta1_power", &self.beta1, first)?;
        slots.make_shared("beta2_power", &self.beta2, first)?;
        for variable in variables {
            slots.zeros(variable, "m", self.state.name())?;
            slots.zeros(variable, "v", self.state.name())?;
        }
        Ok(())
    }

    fn prepare(&self, graph: &Graph) -> Result<AdamPrepared> {
        Ok(AdamPrepared {
            rate: self.learning_rate.tensor(graph, "learning_rate")?,
            beta1: self.beta1.tensor(graph, "beta1")?,
            beta2: self.beta2.tensor(graph, "beta2")?,
            epsilon: self.epsilon.tensor(graph, "epsilon")?,
        })
    }

    fn apply_dense(
        &self,
        prepared: &AdamPrepared,
        variable: &Variable,
        gradient: &Output,
    ) -> Result<Operation> {
        let slots = self.state.slots();
        let op = self.state.training_op("ApplyAdam", variable);
        let mut op = op.input(slots.of(variable, "m")?).input(slots.of(variable, "v")?);
        for power in self.powers(variable.graph())? {
            op = op.input(power_like(&power, variable)?);
        }
        for value in [&prepared.rate, &prepared.beta1, &prepared.beta2, &prepared.epsilon] {
            op = op.input(like(value, variable)?);
        }
        op.input(gradient).build()
    }

    fn apply_sparse(
        &self,
        prepared: &AdamPrepared,
        variable: &Variable,
        gradient: &IndexedSlices,
    ) -> Result<Operation> {
        let (slots, graph) = (self.state.slots(), variable.graph());
        let [beta1_power, beta2_power] = self.powers(graph)?;
        let beta1_power = power_like(&beta1_power, variable)?;
        let beta2_power = power_like(&beta2_power, variable)?;
        let rate = like(&prepared.rate, variable)?;
        let (beta1, beta2) = (like(&prepared.beta1, variable)?, like(&prepared.beta2, variable)?);
        let epsilon = like(&prepared.epsilon, variable)?;

        let values = &gradient.values;
        let rate = rate * rest(beta2_power)?.sqrt()?;
        let rate = (rate / rest(beta1_power)?).check()?;
        let rows = (values * (1.0 - &beta1)).check()?;
        let m = self.decay_and_add(&slots.of(variable, "m")?, &beta1, &rows, &gradient.indices)?;
        let squares = values * values;
        let rows = (squares * (1.0 - &beta2)).check()?;
        let v = self.decay_and_add(&slots.of(variable, "v")?, &beta2, &rows, &gradient.indices)?;
        let root = v.value.sqrt()?;
        let change = ((rate * &m.value) / (root + &epsilon)).check()?;
        let changed = match variable.is_resource() {
            false => {
                let subtract = graph.op("AssignSub").input(variable).input(change);
                subtract.attr("use_locking", self.state.use_locking()).build()?
            }
            true => {
                let subtract = graph.op("AssignSubVariableOp").input(variable).input(change).build()?;
                read_after(variable, &subtract)?;
                subtract
            }
        };
        graph.group([changed, m.done, v.done])
    }

    fn finish(&self, prepared: &AdamPrepared, mut updates: Vec<Operation>) -> Result<Vec<Operation>> {
        let graph = prepared.beta1.graph();
        let powers = self.powers(graph)?;
        let [beta1_power, _] = &powers;
        let next = graph.control_dependencies(updates.clone(), || {
            graph.colocate_with(beta1_power, || -> Result<Vec<Operation>> {
                let betas = [&prepared.beta1, &prepared.beta2];
                let next = powers.iter().zip(betas).map(|(power, beta)| {
                    let product = (power.value() * beta).check()?;
                    assign(power, &product, self.state.use_locking())
                });
                next.collect()
            })
        });
        updates.extend(next?);
        Ok(updates)
    }
}

/// A power as the dtype of the variable; the variable itself, to be read by its user, if it has that dtype.
fn power_like(power: &Variable, variable: &Variable) -> Result<Arg> {
    match power.dtype()? == variable.dtype()? {
        true => Ok(power.into_arg()),
        false => {
            let cast = power.graph().op("Cast").input(power).attr("DstT", variable.dtype()?);
            Ok(cast.output()?.into_arg())
        }
    }
}

/// `1 - power`, which is read for it.
fn rest(power: Arg) -> Result<Output> {
    let power = match power {
        Arg::Variable(variable) => variable.value(),
        Arg::Output(output) => output,
        _ => return Err(Status::internal("a power of beta is a variable or computed")),
    };
    (1.0 - power).check()
}

/// Sets a variable. For a resource variable TensorFlow also builds a read of the new value; so do we.
fn assign(variable: &Variable, value: &Output, use_locking: bool) -> Result<Operation> {
    let graph = variable.graph();
    if !variable.is_resource() {
        let assign = graph.op("Assign").input(variable).input(value).attr("use_locking", use_locking);
        return assign.build();
    }
    let assign = graph.op("AssignVariableOp").input(variable).input(value).build()?;
    read_after(variable, &assign)?;
    Ok(assign)
}

fn read_after(variable: &Variable, update: &Operation) -> Result<Output> {
    let graph = variable.graph();
    let read = graph.op("ReadVariableOp").input(variable).attr("dtype", variable.dtype()?);
    graph.control_dependencies([update], || read.output())
}
