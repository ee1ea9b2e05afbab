//! [`ExponentialMovingAverage`]: shadow variables that follow others slowly.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tensorfleet_core::{DType, Result, Status, ensure};

use crate::graph::{Arg, Graph, Operand, OperandList, Operation, Output, Variable, VariableParts};
use crate::variables::{Initial, Initializer, Reuse, create_slot};

/// Keeps moving averages of variables and of computed values: `average -= (1 - decay) * (average - value)`.
///
/// The average of a variable is kept in a variable called `NAME/ExponentialMovingAverage` beside it. Averages of the
/// weights often predict better than the weights themselves; [`ExponentialMovingAverage::variables_to_restore`] says how to
/// load them in their place.
///
/// ```
/// # use tensorfleet::{Graph, Session};
/// use tensorfleet::train::ExponentialMovingAverage;
/// let g = Graph::new();
/// let w = g.variable("w", 10.0f32);
/// let averages = ExponentialMovingAverage::new(0.9);
/// let follow = averages.apply([&w])?;
/// let average = averages.average(&w).unwrap();
/// assert_eq!(average.name(), "w/ExponentialMovingAverage");
///
/// let session = Session::new(&g);
/// session.run(g.global_variables_initializer()?)?;
/// session.run(w.assign(0.0)?)?;
/// session.run(&follow)?;
/// assert_eq!(session.run(&average)?.to_scalar::<f32>()?, 9.0);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Debug)]
pub struct ExponentialMovingAverage {
    decay: f64,
    num_updates: Option<Variable>,
    zero_debias: bool,
    name: String,
    averages: Mutex<BTreeMap<(usize, String), Variable>>,
}

impl ExponentialMovingAverage {
    /// Averages that keep this part of themselves at each update; 0.999 or so.
    pub fn new(decay: f64) -> ExponentialMovingAverage {
        ExponentialMovingAverage {
            decay,
            num_updates: None,
            zero_debias: false,
            name: "ExponentialMovingAverage".to_string(),
            averages: Mutex::default(),
        }
    }

    /// Lets averages follow faster at the start: the decay is at most `(1 + num_updates) / (10 + num_updates)`. The global
    /// step is what is usually given.
    pub fn num_updates(mut self, num_updates: &Variable) -> ExponentialMovingAverage {
        self.num_updates = Some(num_updates.clone());
        self
    }

    /// Corrects averages of computed values, which start with zero, for that start.
    pub fn zero_debias(mut self, zero_debias: bool) -> ExponentialMovingAverage {
        self.zero_debias = zero_debias;
        self
    }

    /// Names the averages otherwise.
    pub fn name(mut self, name: &str) -> ExponentialMovingAverage {
        self.name = name.to_string();
        self
    }

    /// An operation that updates the averages of all trainable variables.
    pub fn apply_to_trainable(&self, graph: &Graph) -> Result<Operation> {
        self.apply(graph.trainable_variables())
    }

    /// An operation that updates the averages of these variables and outputs, which are made if they do not exist.
    pub fn apply(&self, values: impl OperandList) -> Result<Operation> {
        let values: Vec<Source> = values.into_args().into_iter().map(Source::new).collect::<Result<_>>()?;
        let Some(first) = values.first() else {
            return Err(Status::invalid_argument("There is nothing to keep moving averages of."));
        };
        let graph = first.graph().clone();
        for value in &values {
            graph.without_dependencies(|| self.make(&graph, value))?;
        }
        graph.name_scope(&self.name, || {
            let scope = graph.current_name_scope();
            let decay = self.decay_tensor(&graph)?;
            let mut updates = Vec::with_capacity(values.len());
            for value in &values {
                let average =
                    self.find(&graph, &value.name()).ok_or_else(|| Status::internal("no average"))?;
                let update = graph.name_scope("AssignMovingAvg", || match value {
                    Source::Computed(_) if self.zero_debias => debiased(&average, value, &decay),
                    _ => follow(&average, value, &decay),
                });
                updates.push(update?);
            }
            graph.group_named(&format!("{scope}/"), updates)
        })
    }

    fn decay_tensor(&self, graph: &Graph) -> Result<Output> {
        let decay = graph.literal("decay", self.decay, DType::Float)?;
        let Some(updates) = &self.num_updates else { return Ok(decay) };
        let updates =
            graph.op("Cast").input(updates).attr("DstT", DType::Float).name("num_updates").output()?;
        let numerator = 1.0 + &updates;
        let quotient = (numerator / (10.0 + &updates)).check()?;
        decay.minimum(quotient)
    }

    /// Makes the average of `value` unless it exists.
    fn make(&self, graph: &Graph, value: &Source) -> Result<()> {
        let name = value.name();
        if self.find(graph, &name).is_some() {
            return Ok(());
        }
        let dtype = value.dtype()?;
        ensure!(
            matches!(dtype, DType::Float | DType::Double | DType::Half),
            InvalidArgument,
            "The variables must be half, float, or double: '{name}' is {dtype}"
        );
        let average = match value {
            Source::Variable(variable) => {
                let parts = variable.parts()?;
                graph.registry(|Averaged(variables)| variables.push(parts));
                let initial = initialized_value(variable)?.into_arg();
                create_slot(variable, &self.name, Initial::Value(initial))?
            }
            Source::Computed(output) => {
                let shape = output.shape()?.to_shape().ok_or_else(|| {
                    Status::invalid_argument(format!(
                        "The moving average of '{name}' needs a value whose shape is known"
                    ))
                })?;
                let slot = format!("{}/{}", output.operation().name(), self.name);
                graph.unique_variable_scope(&slot, || {
                    let full_name = graph.current_variable_scope().name().to_string();
                    let builder = graph.new_variable(&format!("{full_name}/")).untrainable();
                    let graph = graph.clone();
                    builder.init_by(move || Initializer::zeros().build(&graph, &shape, dtype)).check()
                })?
            }
        };
        self.averages.lock().insert((graph.address(), name), average);
        Ok(())
    }

    fn find(&self, graph: &Graph, name: &str) -> Option<Variable> {
        self.averages.lock().get(&(graph.address(), name.to_string())).cloned()
    }

    /// The variable that holds the average of a variable or output; `None` before [`ExponentialMovingAverage::apply`].
    pub fn average(&self, of: impl Operand) -> Option<Variable> {
        let source = Source::new(of.into_arg()).ok()?;
        self.find(source.graph(), &source.name())
    }

    /// The name under which the average of a variable is or would be saved.
    pub fn average_name(&self, of: &Variable) -> String {
        match self.average(of) {
            Some(average) => average.name(),
            None => format!("{}/{}", of.name(), self.name),
        }
    }

    /// What to restore so that averages take the places of what they follow: for each name in a checkpoint the variable to
    /// put it into.
    ///
    /// ```
    /// # use tensorfleet::Graph;
    /// use tensorfleet::train::ExponentialMovingAverage;
    /// let g = Graph::new();
    /// g.variable("w", 1.0f32);
    /// g.get_or_create_global_step()?;
    /// let restore = ExponentialMovingAverage::new(0.9).variables_to_restore(&g);
    /// let names: Vec<&str> = restore.keys().map(|name| name.as_str()).collect();
    /// assert_eq!(names, ["global_step", "w/ExponentialMovingAverage"]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn variables_to_restore(&self, graph: &Graph) -> BTreeMap<String, Variable> {
        let mut averaged = graph.trainable_variables();
        averaged.extend(graph.moving_average_variables());
        let mut restore = BTreeMap::new();
        let mut has_average = std::collections::BTreeSet::new();
        for variable in averaged {
            has_average.insert(variable.name());
            restore.insert(self.average_name(&variable), variable);
        }
        for variable in graph.global_variables() {
            let name = variable.name();
            if !has_average.contains(&name) {
                restore.entry(name).or_insert(variable);
            }
        }
        restore
    }
}

/// The variables of a graph of which moving averages are kept.
#[derive(Default)]
struct Averaged(Vec<VariableParts>);

impl Graph {
    /// The variables of which moving averages are kept.
    pub fn moving_average_variables(&self) -> Vec<Variable> {
        let parts = self.registry(|Averaged(variables)| variables.clone());
        parts.into_iter().map(|parts| Variable::new(self, Ok(parts))).collect()
    }
}

/// What an average is kept of.
enum Source {
    Variable(Variable),
    Computed(Output),
}

impl Source {
    fn new(arg: Arg) -> Result<Source> {
        match arg {
            Arg::Variable(variable) => Ok(Source::Variable(variable.check()?)),
            Arg::Output(output) => Ok(Source::Computed(output.check()?)),
            Arg::Tensor(_) | Arg::Literal(_) => {
                Err(Status::invalid_argument("A constant has no moving average; give variables or outputs"))
            }
        }
    }

    fn graph(&self) -> &Graph {
        match self {
            Source::Variable(variable) => variable.graph(),
            Source::Computed(output) => output.graph(),
        }
    }

    /// Tells it from other variables and outputs.
    fn name(&self) -> String {
        match self {
            Source::Variable(variable) => format!("{}:0", variable.name()),
            Source::Computed(output) => output.name(),
        }
    }

    fn dtype(&self) -> Result<DType> {
        match self {
            Source::Variable(variable) => variable.dtype(),
            Source::Computed(output) => output.dtype(),
        }
    }

    fn arg(&self) -> Arg {
        match self {
            Source::Variable(variable) => variable.into_arg(),
            Source::Computed(output) => output.into_arg(),
        }
    }
}

/// The value of a variable, or what it will start with if it has none.
fn initialized_value(variable: &Variable) -> Result<Output> {
    let graph = variable.graph();
    let read = || match variable.is_resource() {
        true => variable.value().identity(),
        // Inside the branch, because reading a variable without a value is an error.
        false => graph.op("Identity").input(variable.handle()).name("read").output(),
    };
    graph.cond(variable.is_initialized()?, read, || Ok(variable.initial_value()))
}

/// `average -= (average - value) * (1 - decay)`.
fn follow(average: &Variable, value: &Source, decay: &Output) -> Result<Operation> {
    let graph = average.graph();
    let scope = format!("{}/", graph.current_name_scope());
    let rest = (1.0 - decay).check()?.cast(average.dtype()?)?;
    let distance = (average.value() - value.arg()).check()?;
    let change = (distance * rest).check()?;
    if average.is_resource() {
        let update = graph.op("AssignSubVariableOp").input(average).input(change).build()?;
        let read = graph.op("ReadVariableOp").input(average).attr("dtype", average.dtype()?);
        graph.control_dependencies([&update], || read.output())?;
        return Ok(update);
    }
    graph.op("AssignSub").input(average).input(change).name(&scope).build()
}

/// Follows in a variable of its own and gives the average what that lacks because it started with zero.
fn debiased(average: &Variable, value: &Source, decay: &Output) -> Result<Operation> {
    let graph = average.graph();
    let scope = format!("{}/", graph.current_name_scope());
    let dtype = average.dtype()?;
    let rest = (1.0 - decay).check()?.cast(dtype)?;
    let (biased, local_step) = debiasing_variables(average)?;
    let distance = (biased.value() - value.arg()).check()?;
    let biased = graph.op("AssignSub").input(&biased).input(distance * &rest).output()?;
    let local_step = graph.op("AssignAdd").input(&local_step).input(1.0).output()?;
    let lacking = (1.0 - (1.0 - &rest).check()?.pow(local_step)?).check()?;
    let unbiased = (biased / lacking).check()?;
    graph.op("Assign").input(average).input(unbiased).name(&scope).build()
}

/// `AVERAGE/biased` and `AVERAGE/local_step`.
fn debiasing_variables(average: &Variable) -> Result<(Variable, Variable)> {
    let (graph, dtype) = (average.graph().clone(), average.dtype()?);
    let shape = average.shape()?;
    graph.new_variable_scope(&average.name()).reuse(Reuse::Auto).enter(|| {
        graph.colocate_with(average, || {
            let zeros = Initializer::zeros;
            let biased = graph.get_variable("biased").shape(shape).dtype(dtype).initializer(zeros());
            let biased = biased.untrainable().build()?;
            let local_step = graph.get_variable("local_step").shape(()).dtype(dtype).initializer(zeros());
            Ok((biased, local_step.untrainable().build()?))
        })
    })
}
