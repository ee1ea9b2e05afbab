//! Optimizers: what turns gradients into changes of variables.
//!
//! [`Optimizer`] is what a program sees, and what wrappers of optimizers implement too. An [`UpdateRule`] is what one kind of
//! optimizer adds: which slot variables it keeps and which ops change a variable; whoever implements it has an
//! [`Optimizer`]. Ops, slots and all names are those of TensorFlow 1.x, so that checkpoints and other programs fit.

mod adadelta;
mod adagrad;
mod adagrad_da;
mod adam;
mod ftrl;
mod gradient_descent;
mod hyperparameter;
mod momentum;
mod proximal;
mod rms_prop;
mod slots;

use tensorfleet_core::{DType, Result, Status, ensure};

pub use adadelta::Adadelta;
pub use adagrad::Adagrad;
pub use adagrad_da::AdagradDa;
pub use adam::Adam;
pub use ftrl::Ftrl;
pub use gradient_descent::GradientDescent;
pub use hyperparameter::Hyperparameter;
pub use momentum::Momentum;
pub use proximal::{ProximalAdagrad, ProximalGradientDescent};
pub use rms_prop::RmsProp;
pub use slots::Slots;

use crate::graph::{Gate, Gradient, Graph, IndexedSlices, OpBuilder, Operand, Operation, Output, Variable};

/// Gradients and the variables they belong to, from [`Optimizer::compute_gradients`] for [`Optimizer::apply_gradients`];
/// `None` where the loss does not depend on the variable.
pub type GradientsAndVariables = Vec<(Option<Gradient>, Variable)>;

/// What may be said about a minimisation; see [`Optimizer::minimize_with`].
///
/// ```
/// # use tensorfleet::{Graph, Session};
/// use tensorfleet::train::{GradientDescent, MinimizeOptions, Optimizer};
///
/// let g = Graph::new();
/// let (a, b) = (g.variable("a", 1.0f32), g.variable("b", 1.0f32));
/// let options = MinimizeOptions { var_list: Some(vec![b.clone()]), ..MinimizeOptions::default() };
/// let train = GradientDescent::new(0.5).minimize_with(&(&a * &b), &options)?;
///
/// let session = Session::new(&g);
/// session.run(g.global_variables_initializer()?)?;
/// session.run(&train)?;
/// assert_eq!(session.run((&a, &b))?.1.to_scalar::<f32>()?, 0.5);
/// assert_eq!(session.run(&a)?.to_scalar::<f32>()?, 1.0);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MinimizeOptions {
    /// Counts the steps: incremented after the variables were changed.
    pub global_step: Option<Variable>,
    /// The variables to change; the graph's trainable ones if nothing is said.
    pub var_list: Option<Vec<Variable>>,
    /// Places the nodes of each gradient where the node is that they differentiate.
    pub colocate_gradients_with_ops: bool,
    /// The gradient with respect to the loss; ones if nothing is said.
    pub grad_loss: Option<Output>,
    /// The name of the train op; that of the optimizer if nothing is said.
    pub name: Option<String>,
    /// How far gradients wait for one another; those of each op do if nothing is said.
    pub gate: Gate,
}

impl MinimizeOptions {
    /// Only that `global_step` counts the steps, which is what most programs say.
    ///
    /// ```
    /// use tensorfleet::prelude::*;
    ///
    /// let g = Graph::new();
    /// let x = g.variable("x", 5.0f32);
    /// let loss = x.value().square()?;
    /// let global_step = g.get_or_create_global_step()?;
    /// let train = GradientDescent::new(0.25).minimize_with(&loss, &MinimizeOptions::counting(&global_step))?;
    ///
    /// let session = Session::new(&g);
    /// session.run(g.global_variables_initializer()?)?;
    /// session.run(&train)?;
    /// assert_eq!(session.run(&global_step)?.to_scalar::<i64>()?, 1);
    /// # Ok::<(), Status>(())
    /// ```
    pub fn counting(global_step: &Variable) -> MinimizeOptions {
        MinimizeOptions { global_step: Some(global_step.clone()), ..MinimizeOptions::default() }
    }
}

/// Changes variables to make a loss smaller.
///
/// ```
/// # use tensorfleet::{Graph, Session};
/// use tensorfleet::train::{GradientDescent, MinimizeOptions, Optimizer};
///
/// let g = Graph::new();
/// let x = g.variable("x", 5.0f32);
/// let loss = x.value().square()?;
/// let global_step = g.get_or_create_global_step()?;
/// let train = GradientDescent::new(0.25).minimize_with(&loss, &MinimizeOptions::counting(&global_step))?;
///
/// let session = Session::new(&g);
/// session.run(g.global_variables_initializer()?)?;
/// session.run(&train)?;
/// session.run(&train)?;
/// assert_eq!(session.run(&x)?.to_scalar::<f32>()?, 1.25);
/// assert_eq!(session.run(&global_step)?.to_scalar::<i64>()?, 2);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub trait Optimizer: Send + Sync {
    /// The name of train ops and slot variables, e.g. `Adam`.
    fn get_name(&self) -> &str;

    /// Applies gradients; the operation is called `name`, or as the optimizer if there is none.
    fn apply_gradients_named(
        &self,
        gradients: &[(Option<Gradient>, Variable)],
        global_step: Option<&Variable>,
        name: Option<&str>,
    ) -> Result<Operation>;

    /// The variable that the optimizer keeps under the name `slot` for `variable`.
    fn get_slot(&self, variable: &Variable, slot: &str) -> Option<Variable>;

    /// The names of the slots, in alphabetical order.
    fn get_slot_names(&self) -> Vec<String>;

    /// All variables that the optimizer keeps, by name.
    fn variables(&self) -> Vec<Variable>;

    /// The gradients of the loss; of the options only those that concern gradients count.
    fn compute_gradients(&self, loss: &Output, options: &MinimizeOptions) -> Result<GradientsAndVariables> {
        compute_gradients(loss, options)
    }

    /// An operation that applies gradients and then increments `global_step`.
    fn apply_gradients(
        &self,
        gradients: &[(Option<Gradient>, Variable)],
        global_step: Option<&Variable>,
    ) -> Result<Operation> {
        self.apply_gradients_named(gradients, global_step, None)
    }

    /// An operation that makes one step: computes the gradients of `loss` with respect to the trainable variables and
    /// applies them.
    fn minimize(&self, loss: &Output) -> Result<Operation> {
        self.minimize_with(loss, &MinimizeOptions::default())
    }

    /// A [`Optimizer::minimize`] of which more is said.
    fn minimize_with(&self, loss: &Output, options: &MinimizeOptions) -> Result<Operation> {
        let gradients = self.compute_gradients(loss, options)?;
        ensure!(
            gradients.iter().any(|(gradient, _)| gradient.is_some()),
            InvalidArgument,
            "No gradients provided for any variable, check your graph for ops that do not support gradients, between \
             variables {} and loss {loss:?}.",
            names(gradients.iter().map(|(_, variable)| variable))
        );
        self.apply_gradients_named(&gradients, options.global_step.as_ref(), options.name.as_deref())
    }
}

/// The gradients of `loss` as every optimizer computes them.
fn compute_gradients(loss: &Output, options: &MinimizeOptions) -> Result<GradientsAndVariables> {
    let graph = loss.graph();
    check_dtype(&loss.name(), loss.dtype()?)?;
    let variables = options.var_list.clone().unwrap_or_else(|| graph.trainable_variables());
    ensure!(
        !variables.is_empty(),
        InvalidArgument,
        "No variables to optimize: the graph has no trainable variables and none were given."
    );
    let mut gradients = graph.new_gradients().colocate_with_ops(options.colocate_gradients_with_ops);
    gradients = gradients.gate(options.gate);
    if let Some(grad_loss) = &options.grad_loss {
        gradients = gradients.grad_ys([grad_loss]);
    }
    let gradients = gradients.build([loss], &variables)?;
    // Variables that the loss does not depend on, such as step counters, may have any dtype.
    for (_, variable) in gradients.iter().zip(&variables).filter(|(gradient, _)| gradient.is_some()) {
        check_dtype(&variable.name(), variable.dtype()?)?;
    }
    Ok(gradients.into_iter().zip(variables).collect())
}

fn check_dtype(name: &str, dtype: DType) -> Result<()> {
    ensure!(
        matches!(dtype, DType::Float | DType::Double | DType::Half | DType::BFloat16),
        InvalidArgument,
        "Invalid type {dtype} for {name}, expected: float32, float64, float16 or bfloat16."
    );
    Ok(())
}

/// The names of variables for a message, cut with a count where there are many.
fn names<'a>(variables: impl Iterator<Item = &'a Variable>) -> String {
    const SHOWN: usize = 10;
    let all: Vec<String> = variables.map(|variable| format!("'{}'", variable.name())).collect();
    match all.get(..SHOWN).filter(|_| all.len() > SHOWN) {
        Some(shown) => format!("[{}, and {} more]", shown.join(", "), all.len() - SHOWN),
        None => format!("[{}]", all.join(", ")),
    }
}

/// What all optimizers of this module have, and those that implement [`UpdateRule`].
#[derive(Debug)]
pub struct OptimizerState {
    name: String,
    use_locking: bool,
    slots: Slots,
}

impl OptimizerState {
    /// The state of an optimizer that has not made slots.
    pub fn new(name: &str) -> OptimizerState {
        OptimizerState { name: name.to_string(), use_locking: false, slots: Slots::default() }
    }

    /// The optimizer's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether updates of a variable exclude one another.
    pub fn use_locking(&self) -> bool {
        self.use_locking
    }

    /// The variables the optimizer keeps.
    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// An op that trains `variable`: `op` itself for a reference variable, `Resource…` for a resource variable; the
    /// variable is its first input.
    pub fn training_op(&self, op: &str, variable: &Variable) -> OpBuilder {
        let graph = variable.graph();
        let op = match variable.is_resource() {
            true => graph.op(&format!("Resource{op}")),
            false => graph.op(op),
        };
        op.input(variable).attr("use_locking", self.use_locking)
    }
}

/// How one kind of optimizer changes variables; who implements this has an [`Optimizer`].
///
/// ```
/// use tensorfleet::prelude::*;
/// use tensorfleet::train::{OptimizerState, UpdateRule};
/// use tensorfleet::{Gradient, IndexedSlices};
///
/// /// Moves every element by the same distance, against its gradient.
/// struct SignDescent {
///     state: OptimizerState,
///     distance: f32,
/// }
///
/// impl UpdateRule for SignDescent {
///     /// The distance as a node that all updates share.
///     type Prepared = Output;
///
///     fn state(&self) -> &OptimizerState {
///         &self.state
///     }
///
///     fn prepare(&self, graph: &Graph) -> Result<Output> {
///         graph.constant(self.distance).check()
///     }
///
///     fn apply_dense(&self, distance: &Output, variable: &Variable, gradient: &Output) -> Result<Operation> {
///         Ok(variable.assign_sub(gradient.sign()? * distance)?.operation())
///     }
///
///     fn apply_sparse(&self, distance: &Output, variable: &Variable, rows: &IndexedSlices) -> Result<Operation> {
///         self.apply_dense(distance, variable, &Gradient::Slices(rows.clone()).dense()?)
///     }
/// }
///
/// let g = Graph::new();
/// let x = g.variable("x", [5.0f32, -5.0]);
/// let optimizer = SignDescent { state: OptimizerState::new("SignDescent"), distance: 0.5 };
/// let train = optimizer.minimize(&x.value().square()?)?;
/// let session = Session::new(&g);
/// session.run(x.initializer())?;
/// session.run(&train)?;
/// assert_eq!(session.run(&x)?.as_slice::<f32>()?, [4.5, -4.5]);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub trait UpdateRule: Send + Sync {
    /// Values that the updates of one train op share, such as the learning rate.
    type Prepared;

    /// Whether the rows of a sparse gradient that stand for the same row of the variable are added up first. Needed
    /// unless applying rows one after the other is the same.
    const SUMS_DUPLICATES: bool = true;

    /// Name, locking and slots.
    fn state(&self) -> &OptimizerState;

    /// Makes the slots of these variables that do not exist.
    fn create_slots(&self, _variables: &[Variable]) -> Result<()> {
        Ok(())
    }

    /// Builds what the updates share.
    fn prepare(&self, graph: &Graph) -> Result<Self::Prepared>;

    /// Changes `variable` by a gradient of its shape.
    fn apply_dense(
        &self,
        prepared: &Self::Prepared,
        variable: &Variable,
        gradient: &Output,
    ) -> Result<Operation>;

    /// Changes rows of `variable`.
    fn apply_sparse(
        &self,
        prepared: &Self::Prepared,
        variable: &Variable,
        gradient: &IndexedSlices,
    ) -> Result<Operation>;

    /// Builds what follows the updates; gives all that the train op must wait for.
    fn finish(&self, _prepared: &Self::Prepared, updates: Vec<Operation>) -> Result<Vec<Operation>> {
        Ok(updates)
    }
}

impl<R: UpdateRule> Optimizer for R {
    fn get_name(&self) -> &str {
        self.state().name()
    }

    fn apply_gradients_named(
        &self,
        gradients: &[(Option<Gradient>, Variable)],
        global_step: Option<&Variable>,
        name: Option<&str>,
    ) -> Result<Operation> {
        let pairs: Vec<(&Gradient, &Variable)> = gradients
            .iter()
            .filter_map(|(gradient, variable)| Some((gradient.as_ref()?, variable)))
            .collect();
        let Some((_, first)) = pairs.first() else {
            return Err(Status::invalid_argument(format!(
                "No gradients provided for any variable: {}.",
                names(gradients.iter().map(|(_, variable)| variable))
            )));
        };
        let graph = first.graph();
        let variables: Vec<Variable> = pairs.iter().map(|(_, variable)| (*variable).clone()).collect();
        graph.without_dependencies(|| self.create_slots(&variables))?;
        graph.name_scope(name.unwrap_or(self.get_name()), || {
            let scope = graph.current_name_scope();
            let prepared = self.prepare(graph)?;
            let mut updates = Vec::with_capacity(pairs.len());
            for (gradient, variable) in pairs {
                let update = graph.name_scope(&format!("update_{}", variable.name()), || {
                    graph.colocate_with(variable, || update(self, &prepared, variable, gradient))
                });
                updates.push(update?);
            }
            let updates = self.finish(&prepared, updates)?;
            match global_step {
                None => graph.group_named(&format!("{scope}/"), updates),
                Some(global_step) => {
                    let updated = graph.group_named("update", updates)?;
                    count(graph, global_step, updated, &format!("{scope}/"))
                }
            }
        })
    }

    fn get_slot(&self, variable: &Variable, slot: &str) -> Option<Variable> {
        self.state().slots.get(variable, slot)
    }

    fn get_slot_names(&self) -> Vec<String> {
        self.state().slots.names()
    }

    fn variables(&self) -> Vec<Variable> {
        self.state().slots.variables()
    }
}

fn update<R: UpdateRule + ?Sized>(
    rule: &R,
    prepared: &R::Prepared,
    variable: &Variable,
    gradient: &Gradient,
) -> Result<Operation> {
    match gradient {
        Gradient::Dense(gradient) => rule.apply_dense(prepared, variable, gradient),
        Gradient::Slices(slices) if R::SUMS_DUPLICATES => {
            rule.apply_sparse(prepared, variable, &slices.sum_duplicates()?)
        }
        Gradient::Slices(slices) => rule.apply_sparse(prepared, variable, slices),
    }
}

/// Increments the step counter after `updated`.
fn count(graph: &Graph, global_step: &Variable, updated: Operation, name: &str) -> Result<Operation> {
    graph.control_dependencies([updated], || {
        graph.colocate_with(global_step, || match global_step.is_resource() {
            true => {
                let one = 1.into_arg().into_output(graph, "Const", Some(global_step.dtype()?))?;
                graph.op("AssignAddVariableOp").input(global_step).input(one).name(name).build()
            }
            false => graph.op("AssignAdd").input(global_step).input(1).name(name).build(),
        })
    })
}

impl IndexedSlices {
    /// The same gradient with each row at most once.
    pub fn sum_duplicates(&self) -> Result<IndexedSlices> {
        let graph = self.values.graph();
        let unique = graph.op("Unique").input(&self.indices).build()?;
        let (indices, positions) = (unique.output(0), unique.output(1));
        let count = graph.op("Shape").input(&indices).output()?.index(0)?;
        let sum = graph.op("UnsortedSegmentSum").input(&self.values).input(positions);
        let values = sum.input(count).output()?;
        Ok(IndexedSlices { values, indices, dense_shape: self.dense_shape.clone() })
    }
}

/// Implements what every optimizer's builder has.
macro_rules! optimizer_builder {
    ($optimizer:ident) => {
        impl $optimizer {
            /// Names train ops and slots otherwise.
            pub fn name(mut self, name: &str) -> $optimizer {
                self.state.name = name.to_string();
                self
            }

            /// Makes updates of a variable exclude one another.
            pub fn use_locking(mut self, use_locking: bool) -> $optimizer {
                self.state.use_locking = use_locking;
                self
            }
        }
    };
}
use optimizer_builder;
