//! Learning rate schedules: rates that the graph computes from the global step.

use tensorfleet_core::{DType, Result, ensure};

use super::Hyperparameter;
use crate::graph::{Arg, Graph, Operand, Output};

/// Whether a rate falls at every step or once per period; see [`Graph::exponential_decay`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decay {
    /// At every step.
    Smooth,
    /// Once every `decay_steps`.
    Staircase,
}

/// How [`Graph::polynomial_decay`], which has an example, falls.
#[derive(Clone, Copy, Debug)]
pub struct PolynomialDecay {
    /// The rate at the end.
    pub end_learning_rate: f64,
    /// The power; 1 falls in a straight line.
    pub power: f64,
    /// Starts over, lower each time, instead of staying at the end.
    pub cycle: bool,
}

impl Default for PolynomialDecay {
    fn default() -> PolynomialDecay {
        PolynomialDecay { end_learning_rate: 0.0001, power: 1.0, cycle: false }
    }
}

impl Graph {
    /// `learning_rate * decay_rate ^ (global_step / decay_steps)`.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// use tensorfleet::train::{Decay, GradientDescent};
    /// let g = Graph::new();
    /// let step = g.get_or_create_global_step()?;
    /// let rate = g.exponential_decay(0.5, &step, 100, 0.96, Decay::Staircase)?;
    /// let optimizer = GradientDescent::new(&rate);
    /// let session = Session::new(&g);
    /// session.run(step.initializer())?;
    /// assert_eq!(session.run(&rate)?.to_scalar::<f32>()?, 0.5);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn exponential_decay(
        &self,
        learning_rate: impl Into<Hyperparameter>,
        global_step: impl Operand,
        decay_steps: i64,
        decay_rate: impl Into<Hyperparameter>,
        decay: Decay,
    ) -> Result<Output> {
        let schedule = Schedule::new(self, learning_rate.into(), global_step.into_arg());
        schedule.scoped("ExponentialDecay", |schedule, scope| {
            let rate = schedule.initial()?;
            let steps = schedule.integer(decay_steps)?;
            let decay_rate = schedule.number(&decay_rate.into())?;
            let periods = schedule.periods(&steps, decay)?;
            let factor = decay_rate.pow(periods)?;
            rate.op("Mul").input(factor).name(scope).output()
        })
    }

    /// `learning_rate * exp(-decay_rate * global_step / decay_steps)`.
    pub fn natural_exp_decay(
        &self,
        learning_rate: impl Into<Hyperparameter>,
        global_step: impl Operand,
        decay_steps: i64,
        decay_rate: f64,
        decay: Decay,
    ) -> Result<Output> {
        let rate = self.op("Neg").input(decay_rate as f32).output()?.exp()?;
        self.exponential_decay(learning_rate, global_step, decay_steps, rate, decay)
    }

    /// `learning_rate / (1 + decay_rate * global_step / decay_steps)`.
    pub fn inverse_time_decay(
        &self,
        learning_rate: impl Into<Hyperparameter>,
        global_step: impl Operand,
        decay_steps: i64,
        decay_rate: impl Into<Hyperparameter>,
        decay: Decay,
    ) -> Result<Output> {
        let schedule = Schedule::new(self, learning_rate.into(), global_step.into_arg());
        schedule.scoped("InverseTimeDecay", |schedule, scope| {
            let rate = schedule.initial()?;
            let steps = schedule.integer(decay_steps)?;
            let decay_rate = schedule.number(&decay_rate.into())?;
            let periods = schedule.periods(&steps, decay)?;
            let one = self.constant(1).cast(rate.dtype()?)?;
            let divisor = one.add(decay_rate.mul(periods)?)?;
            rate.op("RealDiv").input(divisor).name(scope).output()
        })
    }

    /// From `learning_rate` down to an end within `decay_steps`, as a power of what is left of the way.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session, train::PolynomialDecay};
    /// let g = Graph::new();
    /// let line = PolynomialDecay { end_learning_rate: 0.1, ..Default::default() };
    /// let rate = g.polynomial_decay(0.5, 50i64, 100, line)?;
    /// assert!((Session::new(&g).run(&rate)?.to_scalar::<f32>()? - 0.3).abs() < 1e-6);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn polynomial_decay(
        &self,
        learning_rate: impl Into<Hyperparameter>,
        global_step: impl Operand,
        decay_steps: i64,
        shape: PolynomialDecay,
    ) -> Result<Output> {
        let schedule = Schedule::new(self, learning_rate.into(), global_step.into_arg());
        schedule.scoped("PolynomialDecay", |schedule, scope| {
            let rate = schedule.initial()?;
            let end = schedule.number(&shape.end_learning_rate.into())?;
            let power = schedule.number(&shape.power.into())?;
            let mut step = schedule.step()?;
            let mut steps = schedule.integer(decay_steps)?;
            if shape.cycle {
                let at_start = step.equal(0.0)?;
                let cycles = (&step / decay_steps as f32).ceil()?;
                let cycles = self.op("SelectV2").input(at_start).input(1.0).input(cycles).output()?;
                steps = steps.mul(cycles)?;
            } else {
                step = step.minimum(&steps)?;
            }
            let way = (step / &steps).check()?;
            let range = (&rate - &end).check()?;
            let left = (1.0 - way).check()?.pow(power)?;
            range.mul(left)?.op("AddV2").input(end).name(scope).output()
        })
    }

    /// From `learning_rate` down to `alpha` times that within `decay_steps`, along half a period of a cosine.
    pub fn cosine_decay(
        &self,
        learning_rate: impl Into<Hyperparameter>,
        global_step: impl Operand,
        decay_steps: i64,
        alpha: f64,
    ) -> Result<Output> {
        let schedule = Schedule::new(self, learning_rate.into(), global_step.into_arg());
        schedule.scoped("CosineDecay", |schedule, _| {
            let rate = schedule.initial()?;
            let steps = schedule.integer(decay_steps)?;
            let step = schedule.step()?.minimum(&steps)?;
            let way = (step / &steps).check()?;
            let pi = self.literal("Const", std::f64::consts::PI, rate.dtype()?)?;
            let cosine = self.op("Cos").input(pi * way).output()?;
            let half = 0.5 * (1.0 + cosine);
            rate.mul((1.0 - alpha) * half + alpha)
        })
    }

    /// `values[i]` while the step is at most `boundaries[i]`, afterwards the last value, of which there is one more.
    ///
    /// TensorFlow builds nested conditions for this; as the values are single numbers, we select instead.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let step = g.placeholder(tensorfleet::DType::Int64, ());
    /// let rate = g.piecewise_constant(&step, &[100, 200], &[0.1, 0.01, 0.001])?;
    /// let session = Session::new(&g);
    /// assert_eq!(session.feed(&step, 100).run(&rate)?.to_scalar::<f32>()?, 0.1);
    /// assert_eq!(session.feed(&step, 101).run(&rate)?.to_scalar::<f32>()?, 0.01);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn piecewise_constant(
        &self,
        global_step: impl Operand,
        boundaries: &[i64],
        values: &[f64],
    ) -> Result<Output> {
        ensure!(
            values.len() == boundaries.len() + 1,
            InvalidArgument,
            "The length of boundaries should be 1 less than the length of values, got {} and {}",
            boundaries.len(),
            values.len()
        );
        ensure!(
            boundaries.windows(2).all(|pair| matches!(pair, [low, high] if low < high)),
            InvalidArgument,
            "The boundaries {boundaries:?} must rise"
        );
        self.name_scope("PiecewiseConstant", || {
            let step = global_step.into_arg().into_output(self, "step", None)?;
            let number = |value: f64| self.literal("Const", value, DType::Float);
            let mut value = number(values.last().copied().unwrap_or_default())?;
            for (boundary, earlier) in boundaries.iter().zip(values).rev() {
                value = step.less_equal(*boundary)?.select(number(*earlier)?, value)?;
            }
            Ok(value)
        })
    }
}

/// A schedule about to be built, with the nodes that TensorFlow makes of its numbers.
struct Schedule<'a> {
    graph: &'a Graph,
    learning_rate: Hyperparameter,
    global_step: Option<Arg>,
    dtype: DType,
}

impl<'a> Schedule<'a> {
    fn new(graph: &'a Graph, learning_rate: Hyperparameter, global_step: Arg) -> Schedule<'a> {
        let dtype = match &learning_rate {
            Hyperparameter::Number(_) => DType::Float,
            Hyperparameter::Computed(rate) => rate.dtype().unwrap_or(DType::Float),
        };
        Schedule { graph, learning_rate, global_step: Some(global_step), dtype }
    }

    /// Builds in a name scope; the last node has the scope's name, which `build` gets with a slash.
    fn scoped(
        mut self,
        name: &str,
        build: impl FnOnce(&mut Schedule<'_>, &str) -> Result<Output>,
    ) -> Result<Output> {
        let graph = self.graph;
        graph.name_scope(name, || {
            let scope = format!("{}/", graph.current_name_scope());
            build(&mut self, &scope)
        })
    }

    fn initial(&self) -> Result<Output> {
        self.learning_rate.tensor(self.graph, "initial_learning_rate")
    }

    fn cast(&self, build: impl FnOnce() -> Result<Arg>) -> Result<Output> {
        self.graph.name_scope("Cast", || {
            let scope = format!("{}/", self.graph.current_name_scope());
            let value = build()?;
            let cast = self.graph.op("Cast").input(value).attr("DstT", self.dtype);
            cast.name(&scope).output()
        })
    }

    /// A whole number as floating point.
    fn integer(&self, value: i64) -> Result<Output> {
        let narrow = i32::try_from(value);
        self.cast(|| {
            let value = match narrow {
                Ok(value) => self.graph.constant_named("x", value),
                Err(_) => self.graph.constant_named("x", value),
            };
            Ok(value.into_arg())
        })
    }

    fn number(&self, value: &Hyperparameter) -> Result<Output> {
        match value {
            Hyperparameter::Number(number) => {
                self.graph.name_scope("Cast", || self.graph.literal("x", *number, self.dtype))
            }
            Hyperparameter::Computed(output) => output.cast(self.dtype),
        }
    }

    /// The step as floating point.
    fn step(&mut self) -> Result<Output> {
        let step = self.global_step.take();
        let step = step.ok_or_else(|| tensorfleet_core::Status::internal("a schedule uses the step once"))?;
        self.cast(|| match step {
            Arg::Literal(_) | Arg::Tensor(_) => Ok(step.into_output(self.graph, "x", None)?.into_arg()),
            other => Ok(other),
        })
    }

    /// How many periods have passed.
    fn periods(&mut self, steps: &Output, decay: Decay) -> Result<Output> {
        let periods = (self.step()? / steps).check()?;
        match decay {
            Decay::Smooth => Ok(periods),
            Decay::Staircase => periods.floor(),
        }
    }
}
