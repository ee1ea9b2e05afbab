//! What layers are made of.

use tensorfleet_core::{Result, ensure};

use super::array::static_shape;
use super::math::Axes;
use super::operand::Operand;
use super::output::Output;

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

    /// `x`, or `alpha · x` where it is negative; TensorFlow's `alpha` is 0.2.
    pub fn leaky_relu(&self, alpha: f32) -> Result<Output> {
        self.op("LeakyRelu").attr("alpha", alpha).output()
    }

    /// The logarithm of [`Output::sigmoid`].
    pub fn log_sigmoid(&self) -> Result<Output> {
        let graph = self.graph();
        graph.name_scope("LogSigmoid", || {
            let scope = format!("{}/", graph.current_name_scope());
            self.neg()?.softplus()?.op("Neg").name(&scope).output()
        })
    }

    /// The `k` largest elements of the last dimension, and where they stand, largest first.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let (best, places) = g.constant([0.1f32, 0.7, 0.2]).top_k(2)?;
    /// let (best, places) = Session::new(&g).run((&best, &places))?;
    /// assert_eq!((best.as_slice::<f32>()?, places.as_slice::<i32>()?), (&[0.7, 0.2][..], &[1, 2][..]));
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn top_k(&self, k: impl Operand) -> Result<(Output, Output)> {
        let top = self.op("TopKV2").input(k).build()?;
        Ok((top.output(0), top.output(1)))
    }

    /// Whether the class in `targets` is among the `k` with the largest of these predictions, for each row.
    pub fn in_top_k(&self, targets: impl Operand, k: impl Operand) -> Result<Output> {
        let graph = self.graph();
        graph.name_scope("in_top_k", || self.op("InTopKV2").input(targets).input(k).output())
    }

    /// `(x - mean) / √(variance + epsilon) · scale + offset`. As a layer with variables of its own:
    /// [`Graph::batch_normalization`](crate::Graph::batch_normalization).
    pub fn batch_normalization(
        &self,
        mean: &Output,
        variance: &Output,
        offset: &Output,
        scale: &Output,
        epsilon: f64,
    ) -> Result<Output> {
        self.graph().name_scope("batchnorm", || {
            let factor = (variance + epsilon).rsqrt()?.mul(scale)?;
            self.mul(&factor)?.add(offset.sub(mean.mul(&factor)?)?)
        })
    }

    /// Each value divided by the sum of squares of its neighbours in depth; TensorFlow's numbers are radius 5, bias 1, alpha 1, beta 0.5.
    pub fn local_response_normalization(
        &self,
        radius: i64,
        bias: f32,
        alpha: f32,
        beta: f32,
    ) -> Result<Output> {
        let node = self.op("LRN").attr("depth_radius", radius).attr("bias", bias);
        node.attr("alpha", alpha).attr("beta", beta).output()
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
