//! Reductions that are made of others, and sums along an axis.

use tensorfleet_core::{DType, Result};

use super::math::Axes;
use super::operand::Operand;
use super::output::Output;

impl Output {
    /// The sums of the elements so far, along `axis`.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let sums = g.constant([1, 2, 3]).cumsum(0)?;
    /// assert_eq!(Session::new(&g).run(&sums)?.as_slice::<i32>()?, [1, 3, 6]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn cumsum(&self, axis: impl Operand) -> Result<Output> {
        self.binary("Cumsum", axis)
    }

    /// The products of the elements so far, along `axis`.
    pub fn cumprod(&self, axis: impl Operand) -> Result<Output> {
        self.binary("Cumprod", axis)
    }

    /// The mean squared distance from the mean, over `axes`.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let x = g.constant([1.0f32, 3.0]);
    /// let (variance, deviation) = Session::new(&g).run((x.reduce_variance(..)?, x.reduce_std(..)?))?;
    /// assert_eq!((variance.to_scalar::<f32>()?, deviation.to_scalar::<f32>()?), (1.0, 1.0));
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn reduce_variance(&self, axes: impl Axes) -> Result<Output> {
        self.graph().name_scope("reduce_variance", || {
            let axes = self.axes_output(axes)?;
            let distance = self.sub(self.reduce_mean_keep_dims(&axes)?)?;
            distance.square()?.reduce_mean(&axes)
        })
    }

    /// The root of [`Output::reduce_variance`].
    pub fn reduce_std(&self, axes: impl Axes) -> Result<Output> {
        self.graph().name_scope("reduce_std", || self.reduce_variance(axes)?.sqrt())
    }

    /// The logarithm of the sum of exponentials over `axes`, which large numbers do not make infinite.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let x = g.constant([1000.0f32, 1000.0]).reduce_logsumexp(..)?;
    /// assert_eq!(Session::new(&g).run(&x)?.to_scalar::<f32>()?, 1000.0 + 2f32.ln());
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn reduce_logsumexp(&self, axes: impl Axes) -> Result<Output> {
        self.graph().name_scope("ReduceLogSumExp", || {
            let axes = self.axes_output(axes)?;
            let largest = self.reduce_max_keep_dims(&axes)?;
            let largest = largest.is_finite()?.select(&largest, largest.zeros_like()?)?.stop_gradient()?;
            let sum = self.sub(&largest)?.exp()?.reduce_sum(&axes)?;
            let logarithm = sum.log()?;
            logarithm.add(largest.reshape(logarithm.shape_tensor()?)?)
        })
    }

    /// How many elements over `axes` are not zero, as int64.
    pub fn count_nonzero(&self, axes: impl Axes) -> Result<Output> {
        let graph = self.graph();
        graph.name_scope("count_nonzero", || {
            let zero = graph.zeros(self.dtype()?, ())?;
            self.not_equal(zero)?.cast(DType::Int64)?.reduce_sum(axes)
        })
    }

    /// The Euclidean length over `axes`.
    pub fn norm(&self, axes: impl Axes) -> Result<Output> {
        self.graph().name_scope("norm", || self.mul(self)?.reduce_sum(axes)?.sqrt())
    }

    fn axes_output(&self, axes: impl Axes) -> Result<Output> {
        match axes.into_axes() {
            Some(axes) => axes.into_output(self.graph(), "reduction_indices", None),
            None => self.all_axes(),
        }
    }
}
