//! [`ConditionalAccumulator`]: gradients that wait on a task until enough of them have come.

use std::time::Duration;

use tensorfleet_core::{DType, PartialShape, Result};

use crate::graph::{Gradient, Graph, IndexedSlices, OpBuilder, Operand, Operation, Output, ShapeLike};

/// Sums gradients of one variable and gives their mean once enough have come. Each gradient says at which step it was
/// computed; one from a step before the accumulator's own is dropped, for the variable has changed since.
///
/// The handle is a reference, which servers of TensorFlow 1.x and 2.x both know.
///
/// ```
/// # use tensorfleet::{DType, Gradient, Graph, Session};
/// let g = Graph::new();
/// let accumulator = g.conditional_accumulator(DType::Float, [2], "")?;
/// let (a, b) = (g.constant([1.0f32, 2.0]), g.constant([3.0f32, 6.0]));
/// let give = [
///     accumulator.apply_gradient(&Gradient::Dense(a), 0i64)?,
///     accumulator.apply_gradient(&Gradient::Dense(b), 0i64)?,
/// ];
/// let mean = accumulator.take_gradient(2)?.dense()?;
/// let session = Session::new(&g);
/// session.run(&give)?;
/// assert_eq!(session.run(&mean)?.as_slice::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone, Debug)]
pub struct ConditionalAccumulator {
    handle: Output,
    dtype: DType,
    is_sparse: bool,
}

impl Graph {
    /// An accumulator of whole tensors. Sessions share it by `shared_name`; without one it belongs to its session.
    pub fn conditional_accumulator(
        &self,
        dtype: DType,
        shape: impl ShapeLike,
        shared_name: &str,
    ) -> Result<ConditionalAccumulator> {
        self.accumulator(false, dtype, shape.to_partial_shape()?, shared_name)
    }

    /// An accumulator of rows; each row of the mean is divided by the number of gradients that contained it.
    pub fn sparse_conditional_accumulator(
        &self,
        dtype: DType,
        shape: impl ShapeLike,
        shared_name: &str,
    ) -> Result<ConditionalAccumulator> {
        self.accumulator(true, dtype, shape.to_partial_shape()?, shared_name)
    }

    fn accumulator(
        &self,
        is_sparse: bool,
        dtype: DType,
        shape: PartialShape,
        shared_name: &str,
    ) -> Result<ConditionalAccumulator> {
        let (op, name) = match is_sparse {
            true => ("SparseConditionalAccumulator", "sparse_conditional_accumulator"),
            false => ("ConditionalAccumulator", "conditional_accumulator"),
        };
        let node = self.op(op).name(name).attr("dtype", dtype).attr("shape", shape);
        let handle = node.attr("shared_name", shared_name).output()?;
        Ok(ConditionalAccumulator { handle, dtype, is_sparse })
    }
}

impl ConditionalAccumulator {
    /// Adds a gradient that was computed at `local_step` (int64), unless that is before the accumulator's step.
    pub fn apply_gradient(&self, gradient: &Gradient, local_step: impl Operand) -> Result<Operation> {
        self.apply_node(gradient, local_step)?.build()
    }

    /// The same for a member of a synchronous training, which counts once in a round. Servers of TensorFlow count every gradient.
    pub(crate) fn apply_members_gradient(
        &self,
        gradient: &Gradient,
        local_step: impl Operand,
    ) -> Result<Operation> {
        self.apply_node(gradient, local_step)?.attr("_tensorfleet_once_per_member", true).build()
    }

    fn apply_node(&self, gradient: &Gradient, local_step: impl Operand) -> Result<OpBuilder> {
        if !self.is_sparse {
            return Ok(self.op("AccumulatorApplyGradient").input(local_step).input(gradient.dense()?));
        }
        let IndexedSlices { values, indices, dense_shape } = gradient.slices()?;
        let (indices, shape) = (indices.cast(DType::Int64)?, dense_shape.cast(DType::Int64)?);
        let node = self.op("SparseAccumulatorApplyGradient").input(local_step).input(&indices);
        Ok(node.input(&values).input(&shape).attr("has_known_shape", true))
    }

    /// The mean of the gradients, as soon as there are `num_required`. Taking it empties the accumulator and raises its
    /// step by one.
    pub fn take_gradient(&self, num_required: impl Operand) -> Result<Gradient> {
        self.take_impatiently(num_required, None)
    }

    /// The same; with `(count, wait)` fewer gradients will do, if they are of at least `count` members, who have waited for the
    /// others for so long. Servers of TensorFlow wait for all.
    pub(crate) fn take_impatiently(
        &self,
        num_required: impl Operand,
        patience: Option<(usize, Duration)>,
    ) -> Result<Gradient> {
        let op = if self.is_sparse { "SparseAccumulatorTakeGradient" } else { "AccumulatorTakeGradient" };
        let mut node = self.op(op).input(num_required).attr("dtype", self.dtype);
        if let Some((count, wait)) = patience {
            let (count, millis) = (i64::try_from(count), i64::try_from(wait.as_millis()));
            node = node.attr("_tensorfleet_min_members", count.unwrap_or(i64::MAX));
            node = node.attr("_tensorfleet_patience_ms", millis.unwrap_or(i64::MAX));
        }
        let taken = node.build()?;
        Ok(match self.is_sparse {
            false => Gradient::Dense(taken.output(0)),
            true => Gradient::Slices(IndexedSlices {
                indices: taken.output(0),
                values: taken.output(1),
                dense_shape: taken.output(2),
            }),
        })
    }

    /// Sets the accumulator's step (int64). It never goes back.
    pub fn set_global_step(&self, step: impl Operand) -> Result<Operation> {
        self.op("AccumulatorSetGlobalStep").name("SetGlobalStep").input(step).build()
    }

    /// Sets the accumulator's step, and drops what it has collected for another one: the chief of a synchronous training begins
    /// with it. Servers of TensorFlow only set the step.
    pub(crate) fn begin_round(&self, step: impl Operand) -> Result<Operation> {
        let node = self.op("AccumulatorSetGlobalStep").name("SetGlobalStep").input(step);
        node.attr("_tensorfleet_begin_round", true).build()
    }

    /// How many gradients have come.
    pub fn num_accumulated(&self) -> Result<Output> {
        self.op("AccumulatorNumAccumulated").output()
    }

    fn op(&self, op: &str) -> OpBuilder {
        self.handle.graph().op(op).input(&self.handle)
    }
}
