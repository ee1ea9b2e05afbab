//! [`Initializer`]: what variables start with.

use std::fmt;
use std::sync::Arc;

use tensorfleet_core::{DType, Result, Shape, Status, Tensor};
use tensorfleet_kernel::builder::adapt_literal;

use crate::graph::{Graph, IntoTensor, Output};

/// The standard deviation of a standard normal distribution cut off at two standard deviations, by which TensorFlow
/// divides so that the samples have the variance asked for.
const TRUNCATED_STDDEV: f64 = 0.879_625_661_034_239_8;

/// A way to make the initial value of a variable of any shape, for [`Graph::get_variable`].
///
/// Random ones take a seed; without one, each follows from [`Graph::set_random_seed`], or else from chance.
///
/// ```
/// # use tensorfleet::{Graph, Initializer, Session};
/// let g = Graph::new();
/// let w = g.get_variable("w").shape([2, 2]).initializer(Initializer::constant(0.5)).build()?;
/// let session = Session::new(&g);
/// session.run(w.initializer())?;
/// assert_eq!(session.run(&w)?.as_slice::<f32>()?, [0.5; 4]);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone)]
pub struct Initializer(Rule);

#[derive(Clone)]
enum Rule {
    Zeros,
    Ones,
    Constant(Result<Tensor>),
    Normal { mean: f64, stddev: f64, seed: Option<i64> },
    TruncatedNormal { mean: f64, stddev: f64, seed: Option<i64> },
    Uniform { low: f64, high: f64, seed: Option<i64> },
    Scaled { scale: f64, fan: Fan, distribution: Distribution, seed: Option<i64> },
    By(Arc<Maker>),
}

type Maker = dyn Fn(&Graph, &Shape, DType) -> Result<Output> + Send + Sync;

/// Which number of connections [`Initializer::variance_scaling`] divides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fan {
    /// The inputs of a unit.
    In,
    /// The outputs of a unit.
    Out,
    /// Their mean.
    Average,
}

/// The shape of the distribution that [`Initializer::variance_scaling`] draws from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Normal, cut off at two standard deviations.
    TruncatedNormal,
    /// Normal.
    UntruncatedNormal,
    /// Uniform.
    Uniform,
}

impl Initializer {
    /// Zeros, `false` or empty strings.
    pub fn zeros() -> Initializer {
        Initializer(Rule::Zeros)
    }

    /// Ones or `true`.
    pub fn ones() -> Initializer {
        Initializer(Rule::Ones)
    }

    /// One number everywhere, or a tensor of as many elements as the variable has.
    pub fn constant(value: impl IntoTensor) -> Initializer {
        Initializer(Rule::Constant(value.into_tensor().0))
    }

    /// Normally distributed numbers.
    pub fn random_normal(mean: f64, stddev: f64) -> Initializer {
        Initializer(Rule::Normal { mean, stddev, seed: None })
    }

    /// Normally distributed numbers, those beyond two standard deviations drawn again.
    pub fn truncated_normal(mean: f64, stddev: f64) -> Initializer {
        Initializer(Rule::TruncatedNormal { mean, stddev, seed: None })
    }

    /// Numbers spread evenly over `low..high`.
    pub fn random_uniform(low: f64, high: f64) -> Initializer {
        Initializer(Rule::Uniform { low, high, seed: None })
    }

    /// Numbers of variance `scale` divided by the number of connections, so that signals keep their size from layer to
    /// layer.
    ///
    /// ```
    /// # use tensorfleet::{Distribution, Fan, Graph, Initializer, Session};
    /// let g = Graph::new();
    /// let he = Initializer::variance_scaling(2.0, Fan::In, Distribution::TruncatedNormal).seed(1);
    /// let w = g.get_variable("w").shape([200, 10]).initializer(he).build()?;
    /// let variance = w.value().square()?.reduce_mean(..)?;
    /// let session = Session::new(&g);
    /// session.run(w.initializer())?;
    /// let variance = session.run(&variance)?.to_scalar::<f32>()?;
    /// assert!((variance - 2.0 / 200.0).abs() < 0.002);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn variance_scaling(scale: f64, fan: Fan, distribution: Distribution) -> Initializer {
        Initializer(Rule::Scaled { scale, fan, distribution, seed: None })
    }

    /// Glorot's (Xavier's) uniform initializer, what [`Graph::get_variable`] uses for floating-point variables if nothing
    /// is said.
    pub fn glorot_uniform() -> Initializer {
        Initializer::variance_scaling(1.0, Fan::Average, Distribution::Uniform)
    }

    /// Glorot's (Xavier's) normal initializer.
    pub fn glorot_normal() -> Initializer {
        Initializer::variance_scaling(1.0, Fan::Average, Distribution::TruncatedNormal)
    }

    /// He's normal initializer, for layers with rectifiers.
    pub fn he_normal() -> Initializer {
        Initializer::variance_scaling(2.0, Fan::In, Distribution::TruncatedNormal)
    }

    /// He's uniform initializer, for layers with rectifiers.
    pub fn he_uniform() -> Initializer {
        Initializer::variance_scaling(2.0, Fan::In, Distribution::Uniform)
    }

    /// What a function builds for the shape and dtype of the variable.
    pub fn by(make: impl Fn(&Graph, &Shape, DType) -> Result<Output> + Send + Sync + 'static) -> Initializer {
        Initializer(Rule::By(Arc::new(make)))
    }

    /// Makes a random initializer draw the same numbers in every program.
    pub fn seed(mut self, value: i64) -> Initializer {
        match &mut self.0 {
            Rule::Normal { seed, .. }
            | Rule::TruncatedNormal { seed, .. }
            | Rule::Uniform { seed, .. }
            | Rule::Scaled { seed, .. } => *seed = Some(value),
            Rule::Zeros | Rule::Ones | Rule::Constant(_) | Rule::By(_) => {}
        }
        self
    }

    /// Builds the nodes of an initial value.
    pub fn build(&self, graph: &Graph, shape: &Shape, dtype: DType) -> Result<Output> {
        self.build_part(graph, shape, shape, dtype)
    }

    /// Builds the nodes of an initial value of a part of a variable, whose whole shape decides how far numbers spread.
    pub(crate) fn build_part(
        &self,
        graph: &Graph,
        shape: &Shape,
        whole: &Shape,
        dtype: DType,
    ) -> Result<Output> {
        let draw = |random: Random| random.build(graph, shape, dtype);
        match &self.0 {
            Rule::Zeros => graph.zeros(dtype, shape.clone()),
            Rule::Ones => graph.ones(dtype, shape.clone()),
            Rule::Constant(value) => constant(graph, value.clone()?, shape, dtype),
            Rule::Normal { mean, stddev, seed } => draw(Random::normal(*mean, *stddev, *seed)),
            Rule::TruncatedNormal { mean, stddev, seed } => draw(Random::truncated(*mean, *stddev, *seed)),
            Rule::Uniform { low, high, seed } => draw(Random::uniform(*low, *high, *seed)),
            Rule::Scaled { scale, fan, distribution, seed } => {
                let variance = scale / connections(whole, *fan);
                draw(match distribution {
                    Distribution::TruncatedNormal => {
                        Random::truncated(0.0, variance.sqrt() / TRUNCATED_STDDEV, *seed)
                    }
                    Distribution::UntruncatedNormal => Random::normal(0.0, variance.sqrt(), *seed),
                    Distribution::Uniform => {
                        let limit = (3.0 * variance).sqrt();
                        Random::uniform(-limit, limit, *seed)
                    }
                })
            }
            Rule::By(make) => make(graph, shape, dtype),
        }
    }
}

impl fmt::Debug for Initializer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Rule::Zeros => "Initializer(zeros)",
            Rule::Ones => "Initializer(ones)",
            Rule::Constant(_) => "Initializer(constant)",
            Rule::Normal { .. } => "Initializer(random_normal)",
            Rule::TruncatedNormal { .. } => "Initializer(truncated_normal)",
            Rule::Uniform { .. } => "Initializer(random_uniform)",
            Rule::Scaled { .. } => "Initializer(variance_scaling)",
            Rule::By(_) => "Initializer(a function)",
        })
    }
}

/// The value in the variable's shape: one number fills it, as many elements as there is room for are laid out in it.
fn constant(graph: &Graph, value: Tensor, shape: &Shape, dtype: DType) -> Result<Output> {
    let wrong = |what: String| Status::invalid_argument(format!("A constant initializer {what}"));
    let value = match value.dtype() == dtype {
        true => value,
        false => adapt_literal(&value, dtype)
            .ok_or_else(|| wrong(format!("of dtype {} cannot fill a {dtype} variable", value.dtype())))?,
    };
    if value.num_elements() == shape.num_elements() {
        return graph.constant(value.reshaped(shape.clone())?).check();
    }
    if value.num_elements() != 1 {
        return Err(wrong(format!(
            "has {} elements, but the variable's shape is {shape}",
            value.num_elements()
        )));
    }
    let value = value.reshaped(Shape::scalar())?;
    graph.filled("Const", shape.clone(), value.clone(), |shape| {
        if let Ok([text]) = value.as_strings() {
            return Tensor::from_strings(vec![text.clone(); shape.num_elements()], &shape);
        }
        let element = value.as_bytes()?;
        let mut filled = Tensor::allocate(dtype, shape)?;
        filled.make_bytes_mut()?.chunks_exact_mut(element.len()).for_each(|at| at.copy_from_slice(element));
        Ok(filled)
    })
}

/// How many connections a unit of a layer with weights of this shape has: the last dimension counts outputs, the one
/// before it inputs, those before slide over positions.
fn connections(shape: &Shape, fan: Fan) -> f64 {
    let dims: Vec<f64> = shape.iter().map(|&dim| dim as f64).collect();
    let (inputs, outputs) = match &dims[..] {
        [] => (1.0, 1.0),
        [only] => (*only, *only),
        [field @ .., inputs, outputs] => {
            let positions: f64 = field.iter().product();
            (inputs * positions, outputs * positions)
        }
    };
    let connections = match fan {
        Fan::In => inputs,
        Fan::Out => outputs,
        Fan::Average => (inputs + outputs) / 2.0,
    };
    connections.max(1.0)
}

/// Random numbers about to be drawn.
struct Random {
    name: &'static str,
    op: &'static str,
    /// Names and values of the two constants that describe the distribution.
    constants: [(&'static str, f64); 2],
    seed: Option<i64>,
}

impl Random {
    fn normal(mean: f64, stddev: f64, seed: Option<i64>) -> Random {
        let constants = [("mean", mean), ("stddev", stddev)];
        Random { name: "random_normal", op: "RandomStandardNormal", constants, seed }
    }

    fn truncated(mean: f64, stddev: f64, seed: Option<i64>) -> Random {
        let constants = [("mean", mean), ("stddev", stddev)];
        Random { name: "truncated_normal", op: "TruncatedNormal", constants, seed }
    }

    fn uniform(low: f64, high: f64, seed: Option<i64>) -> Random {
        let constants = [("min", low), ("max", high)];
        Random { name: "random_uniform", op: "RandomUniform", constants, seed }
    }

    fn build(self, graph: &Graph, shape: &Shape, dtype: DType) -> Result<Output> {
        graph.name_scope(self.name, || {
            let scope = graph.build(|builder| builder.name_scope().to_string());
            let small: Option<Vec<i32>> = shape.iter().map(|&dim| i32::try_from(dim).ok()).collect();
            let dims = match small {
                Some(dims) => graph.constant_named("shape", dims),
                None => {
                    graph.constant_named("shape", shape.iter().map(|&dim| dim as i64).collect::<Vec<_>>())
                }
            };
            let [first, second] = self.constants;
            let number = |(name, value): (&str, f64)| {
                let value = adapt_literal(&Tensor::scalar(value), dtype).ok_or_else(|| {
                    Status::invalid_argument(format!("There are no random numbers of dtype {dtype}"))
                })?;
                graph.constant_named(name, value).check()
            };
            let (first, second) = (number(first)?, number(second)?);
            let (seed, seed2) = graph.seeds_for(self.seed);
            let drawn = graph.op(self.op).input(&dims).attr("dtype", dtype);
            let drawn = drawn.attr("seed", seed).attr("seed2", seed2).output()?;
            // Uniform numbers are stretched to the width of their range and moved to its start.
            let (scaled, offset) = match self.op {
                "RandomUniform" => (drawn * (&second - &first), first),
                _ => (drawn * second, first),
            };
            scaled.op("AddV2").input(offset).name(&format!("{scope}/")).output()
        })
    }
}
