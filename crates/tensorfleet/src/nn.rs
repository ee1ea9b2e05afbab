//! Layers and what they are made of.

use tensorfleet_core::{Result, Status, ensure};

use crate::graph::Graph;
use crate::initializers::Initializer;
use crate::math::Axes;
use crate::operand::Operand;
use crate::output::Output;
use crate::regularizers::Regularizer;
use crate::uninitialized::static_shape;

impl Output {
    /// `x · weights + biases`.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let y = g.constant([[1.0f32, 2.0]]).xw_plus_b([[1.0f32], [10.0]], [0.5f32])?;
    /// assert_eq!(Session::new(&g).run(&y)?.as_slice::<f32>()?, [21.5]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn xw_plus_b(&self, weights: impl Operand, biases: impl Operand) -> Result<Output> {
        let graph = self.graph();
        graph.name_scope("xw_plus_b", || {
            let scope = format!("{}/", graph.current_name_scope());
            self.matmul(weights)?.op("BiasAdd").input(biases).name(&scope).output()
        })
    }

    /// The elements, each zero with probability `rate`, the others larger by so much that the sum stays the same on
    /// average.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let x = g.constant(vec![1.0f32; 1000]).dropout(0.25, Some(1))?;
    /// let kept = Session::new(&g).run(&x)?;
    /// assert!(kept.as_slice::<f32>()?.iter().all(|&x| x == 0.0 || (x - 1.0 / 0.75).abs() < 1e-6));
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn dropout(&self, rate: f64, seed: Option<i64>) -> Result<Output> {
        ensure!(
            (0.0..1.0).contains(&rate),
            InvalidArgument,
            "rate must be a number in the range [0, 1), got {rate}"
        );
        let (graph, dtype) = (self.graph(), self.dtype()?);
        graph.name_scope("dropout", || {
            let scale = graph.literal("Const", 1.0 / (1.0 - rate), dtype)?;
            let scaled = self.mul(scale)?;
            let shape = static_shape(self)?;
            let chance = graph.name_scope("random_uniform", || {
                let (seed, seed2) = graph.seeds_for(seed);
                let chance = graph.op("RandomUniform").input(shape).attr("dtype", dtype);
                chance.attr("seed", seed).attr("seed2", seed2).output()
            })?;
            let is_kept = chance.greater_equal(rate)?;
            let zero = graph.literal("Const", 0.0, dtype)?;
            graph.op("SelectV2").input(is_kept).input(scaled).input(zero).output()
        })
    }

    /// The value divided by its L2 norm over `axes`.
    pub fn l2_normalize(&self, axes: impl Axes) -> Result<Output> {
        /// Keeps the divisor away from zero; TensorFlow's default.
        const EPSILON: f64 = 1e-12;
        let graph = self.graph();
        graph.name_scope("l2_normalize", || {
            let scope = format!("{}/", graph.current_name_scope());
            let sum = self.square()?.reduce_sum_keep_dims(axes)?;
            let inverse_norm = sum.maximum(EPSILON)?.rsqrt()?;
            self.op("Mul").input(inverse_norm).name(&scope).output()
        })
    }

    /// The mean and the variance over `axes`.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let (mean, variance) = g.constant([[1.0f32, 2.0], [3.0, 6.0]]).moments(&[0])?;
    /// let (mean, variance) = Session::new(&g).run((&mean, &variance))?;
    /// assert_eq!((mean.as_slice::<f32>()?, variance.as_slice::<f32>()?), (&[2.0, 4.0][..], &[1.0, 4.0][..]));
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn moments(&self, axes: &[i32]) -> Result<(Output, Output)> {
        let graph = self.graph();
        graph.name_scope("moments", || {
            let mean_of = |value: &Output, name: &str| {
                value.op("Mean").input(axes.to_vec()).attr("keep_dims", true).name(name).output()
            };
            let mean = mean_of(self, "mean")?;
            // The gradient through the mean of the squares is zero, so it need not be computed.
            let squares = self.squared_difference(mean.stop_gradient()?)?;
            let variance = mean_of(&squares, "variance")?;
            let dropped: Vec<i64> = axes.iter().map(|&axis| axis.into()).collect();
            Ok((mean.squeeze(&dropped)?, variance.squeeze(&dropped)?))
        })
    }
}

/// A fully connected layer about to be built; see [`Graph::dense`].
#[must_use = "nothing is added to the graph before `build`"]
pub struct Dense {
    graph: Graph,
    units: usize,
    name: Option<String>,
    use_bias: bool,
    activation: Option<Activation>,
    kernel_initializer: Option<Initializer>,
    bias_initializer: Initializer,
    kernel_regularizer: Option<Regularizer>,
}

type Activation = Box<dyn FnOnce(&Output) -> Result<Output>>;

impl Graph {
    /// A fully connected layer of `units` outputs: variables `NAME/kernel` and `NAME/bias`, where the name is `dense`,
    /// `dense_1`, … if none is given.
    ///
    /// ```
    /// # use tensorfleet::{DType, Graph, Output};
    /// let g = Graph::new();
    /// let x = g.placeholder(DType::Float, [-1, 3]);
    /// let hidden = g.dense(5).activation(Output::relu).build(&x)?;
    /// let y = g.dense(1).name("out").build(&hidden)?;
    /// let names: Vec<String> = g.trainable_variables().iter().map(|v| v.name()).collect();
    /// assert_eq!(names, ["dense/kernel", "dense/bias", "out/kernel", "out/bias"]);
    /// assert_eq!(y.shape()?.to_string(), "[?,1]");
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn dense(&self, units: usize) -> Dense {
        Dense {
            graph: self.clone(),
            units,
            name: None,
            use_bias: true,
            activation: None,
            kernel_initializer: None,
            bias_initializer: Initializer::zeros(),
            kernel_regularizer: None,
        }
    }
}

impl Dense {
    /// Names the layer.
    pub fn name(mut self, name: &str) -> Dense {
        self.name = Some(name.to_string());
        self
    }

    /// Whether there are biases; there are if nothing is said.
    pub fn use_bias(mut self, use_bias: bool) -> Dense {
        self.use_bias = use_bias;
        self
    }

    /// What is applied to the sums, such as [`Output::relu`].
    pub fn activation(mut self, activation: impl FnOnce(&Output) -> Result<Output> + 'static) -> Dense {
        self.activation = Some(Box::new(activation));
        self
    }

    /// What the weights start with; that of the variable scope if nothing is said.
    pub fn kernel_initializer(mut self, initializer: Initializer) -> Dense {
        self.kernel_initializer = Some(initializer);
        self
    }

    /// What the biases start with; zeros if nothing is said.
    pub fn bias_initializer(mut self, initializer: Initializer) -> Dense {
        self.bias_initializer = initializer;
        self
    }

    /// What keeps the weights small.
    pub fn kernel_regularizer(mut self, regularizer: Regularizer) -> Dense {
        self.kernel_regularizer = Some(regularizer);
        self
    }

    /// Builds the layer on a matrix.
    pub fn build(self, x: &Output) -> Result<Output> {
        let graph = self.graph.clone();
        match self.name.clone() {
            Some(name) => graph.variable_scope(&name, || self.layer(x)),
            None => graph.unique_variable_scope("dense", || self.layer(x)),
        }
    }

    fn layer(self, x: &Output) -> Result<Output> {
        let (graph, dtype, shape) = (&self.graph, x.dtype()?, x.shape()?);
        let inputs = match (shape.rank(), shape.dims().and_then(|dims| dims.last().copied().flatten())) {
            (Some(2), Some(inputs)) => inputs,
            _ => {
                return Err(Status::invalid_argument(format!(
                    "A dense layer takes a matrix whose last dimension is known, got the shape {shape}"
                )));
            }
        };
        let mut kernel = graph.get_variable("kernel").shape([inputs, self.units]).dtype(dtype);
        if let Some(initializer) = self.kernel_initializer {
            kernel = kernel.initializer(initializer);
        }
        if let Some(regularizer) = self.kernel_regularizer {
            kernel = kernel.regularizer(regularizer);
        }
        let kernel = kernel.build()?;
        let bias = match self.use_bias {
            true => {
                let bias = graph.get_variable("bias").shape([self.units]).dtype(dtype);
                Some(bias.initializer(self.bias_initializer).build()?)
            }
            false => None,
        };
        let mut y = x.matmul(&kernel)?;
        if let Some(bias) = bias {
            y = y.bias_add(&bias)?;
        }
        self.activation.map_or(Ok(y.clone()), |activation| activation(&y))
    }
}
