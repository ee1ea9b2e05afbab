//! Gradients of the reductions.
//!
//! All of them bring what has the shape of the output back beside the input ([`Reduced::kept`]). Where the axes are known
//! when the graph is built, that takes nothing if they are the first ones (broadcasting aligns from the right), else one
//! `ExpandDims` or `Reshape`; only unknown axes need shapes computed in the graph.

use tensorfleet_core::{Endpoint, Result, Tensor};

use super::reduce::resolve_axis;
use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Grads, Symbol, apply, apply2, conj};
use tensorfleet_kernel::shape_context::integers_of;

/// How a node reduces its input.
struct Reduced {
    input: Endpoint,
    keep_dims: bool,
    /// The reduced axes in ascending order, and the rank of the input, if known.
    known: Option<(Vec<usize>, usize)>,
}

impl Reduced {
    fn of(d: &Differential<'_>) -> Result<Reduced> {
        let (input, axes) = (d.input(0)?, d.constant_value(d.input(1)?));
        let rank = d.shape(input)?.rank();
        let resolve = |axes: Tensor, rank: usize| -> Option<(Vec<usize>, usize)> {
            let axes = integers_of(&axes).ok()?;
            let mut axes: Vec<usize> =
                axes.into_iter().map(|axis| resolve_axis(axis, rank)).collect::<Option<_>>()?;
            axes.sort_unstable();
            axes.dedup();
            Some((axes, rank))
        };
        let known = axes.zip(rank).and_then(|(axes, rank)| resolve(axes, rank));
        Ok(Reduced { input, keep_dims: d.attr("keep_dims")?, known })
    }

    /// A value of the output's shape, so that it broadcasts to the input's.
    fn kept(&self, d: &mut Differential<'_>, value: Endpoint) -> Result<Endpoint> {
        if self.keep_dims {
            return Ok(value);
        }
        let Some((axes, _)) = &self.known else {
            let shape = self.kept_shape(d)?;
            return d.op("Reshape", [value, shape]);
        };
        if axes.iter().enumerate().all(|(index, &axis)| index == axis) {
            return Ok(value);
        }
        if let (Some(shape), 2..) = (d.shape(self.input)?.to_shape(), axes.len()) {
            let dim = |(axis, &dim): (usize, &usize)| if axes.contains(&axis) { 1 } else { dim as i64 };
            let kept: Vec<i64> = shape.dims().iter().enumerate().map(dim).collect();
            let kept = d.constant(Tensor::vector(&kept)?)?;
            return d.op("Reshape", [value, kept]);
        }
        axes.iter().try_fold(value, |value, &axis| {
            let axis = d.constant(Tensor::scalar(axis as i32))?;
            d.op("ExpandDims", [value, axis])
        })
    }

    /// The shape of the input with reduced axes of length 1, when the axes are only known in the step.
    fn kept_shape(&self, d: &mut Differential<'_>) -> Result<Endpoint> {
        let (shape, rank) = (d.shape_of(self.input)?, d.op("Rank", [self.input])?);
        let axes = self.axes_in_step(d, rank)?;
        let ones = d.op("OnesLike", [axes])?;
        let (start, step) = (d.constant(Tensor::scalar(0i32))?, d.constant(Tensor::scalar(1i32))?);
        let all = d.op("Range", [start, rank, step])?;
        d.emit(NewNode::new("DynamicStitch").input_list([all, axes]).input_list([shape, ones]))
    }

    /// The reduced axes as an int32 vector without negative ones.
    fn axes_in_step(&self, d: &mut Differential<'_>, rank: Endpoint) -> Result<Endpoint> {
        let axes = d.input(1)?;
        let axes = d.cast(axes, tensorfleet_core::DType::Int32)?;
        let vector = d.constant(Tensor::vector(&[-1i32])?)?;
        let axes = d.op("Reshape", [axes, vector])?;
        d.build(apply2("FloorMod", Symbol(axes) + Symbol(rank), Symbol(rank)))
    }

    /// A value of the output's shape, spread over the input's.
    fn spread(&self, d: &mut Differential<'_>, value: Endpoint) -> Result<Endpoint> {
        if self.known.as_ref().is_some_and(|(axes, _)| axes.is_empty()) {
            return Ok(value);
        }
        let (kept, shape) = (self.kept(d, value)?, d.shape_of(self.input)?);
        d.op("BroadcastTo", [kept, shape])
    }

    /// How many elements of the input make one of the output.
    fn factor(&self, d: &mut Differential<'_>, like: Endpoint) -> Result<Endpoint> {
        let dims = d.shape(self.input)?;
        if let Some((axes, _)) = &self.known
            && let Some(count) = axes.iter().map(|&axis| dims.dim(axis)).product::<Option<usize>>()
        {
            return d.scalar_like(like, count as f64);
        }
        let mut count = d.op("Size", [self.input])?;
        let output = d.output(0);
        if d.shape(output)?.rank() != Some(0) {
            let (size, one) = (d.op("Size", [output])?, d.constant(Tensor::scalar(1i32))?);
            let size = d.op("Maximum", [size, one])?;
            count = d.op("FloorDiv", [count, size])?;
        }
        let dtype = d.dtype(like)?;
        d.cast(count, dtype)
    }
}

pub(super) fn sum_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (reduced, dy) = (Reduced::of(d)?, d.dy(0)?);
    let spread = reduced.spread(d, dy)?;
    d.flow_first(spread)
}

/// Divides before it spreads: the small tensor, not the large one.
pub(super) fn mean_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (reduced, dy) = (Reduced::of(d)?, d.dy(0)?);
    let factor = reduced.factor(d, dy)?;
    let share = d.op("RealDiv", [dy, factor])?;
    let spread = reduced.spread(d, share)?;
    d.flow_first(spread)
}

/// Elements that are the extremum share its gradient equally.
pub(super) fn extremum_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (reduced, x, y, dy) = (Reduced::of(d)?, d.x(0)?, d.output(0), d.dy(0)?);
    let (y, dy) = (Symbol(reduced.kept(d, y)?), Symbol(reduced.kept(d, dy)?));
    let (is_extremum, dtype, axes) = (d.build(apply2("Equal", y, x))?, d.dtype(x.0)?, d.input(1)?);
    let is_extremum = Symbol(d.cast(is_extremum, dtype)?);
    let count = NewNode::new("Sum").input(is_extremum.0).input(axes).attr("keep_dims", true);
    let count = Symbol(d.emit(count)?);
    d.flow_first(is_extremum / count * dy)
}

pub(super) fn euclidean_norm_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (reduced, x, y, dy) = (Reduced::of(d)?, d.x(0)?, d.output(0), d.dy(0)?);
    let (y, dy) = (Symbol(reduced.kept(d, y)?), Symbol(reduced.kept(d, dy)?));
    d.flow_first(x / (y / dy))
}

/// The product of all others: of those before times those after, so that zeros do no harm.
pub(super) fn prod_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (reduced, x, dy) = (Reduced::of(d)?, d.input(0)?, d.dy(0)?);
    let dy = Symbol(reduced.kept(d, dy)?);
    let others = match &reduced.known {
        Some((axes, _)) if axes.is_empty() => d.op("OnesLike", [x])?,
        Some((axes, _)) if axes.len() == 1 => {
            let axis = axes.first().copied().unwrap_or_default();
            product_of_others(d, x, axis as i32)?
        }
        _ => product_of_others_in_step(d, &reduced)?,
    };
    d.flow_first(dy * Symbol(others))
}

fn product_of_others(d: &mut Differential<'_>, x: Endpoint, axis: i32) -> Result<Endpoint> {
    let mut side = |reverse: bool| {
        let scan = NewNode::new("Cumprod").input(x).input(Tensor::scalar(axis));
        d.emit(scan.attr("exclusive", true).attr("reverse", reverse)).map(Symbol)
    };
    let (before, after) = (side(false)?, side(true)?);
    d.build(conj(before) * conj(after))
}

/// The same along several axes: they are brought to the front and made one.
fn product_of_others_in_step(d: &mut Differential<'_>, reduced: &Reduced) -> Result<Endpoint> {
    let x = reduced.input;
    let rank = d.op("Rank", [x])?;
    let axes = reduced.axes_in_step(d, rank)?;
    let (zero, one) = (d.constant(Tensor::scalar(0i32))?, d.constant(Tensor::scalar(1i32))?);
    let all = d.op("Range", [zero, rank, one])?;
    let rest = d.op("ListDiff", [all, axes])?;
    let order = d.emit(NewNode::new("ConcatV2").input_list([axes, rest]).input(zero))?;
    let in_front = d.op("Transpose", [x, order])?;
    let (shape, in_front_shape) = (d.op("Shape", [x])?, d.op("Shape", [in_front])?);
    let mut count = |axes: Endpoint| {
        let dims = d.op("GatherV2", [shape, axes, zero])?;
        d.op("Prod", [dims, zero])
    };
    let counts = [count(axes)?, count(rest)?];
    let counts = d.emit(NewNode::new("Pack").input_list(counts))?;
    let matrix = d.op("Reshape", [in_front, counts])?;
    let others = product_of_others(d, matrix, 0)?;
    let others = d.op("Reshape", [others, in_front_shape])?;
    let back = apply("InvertPermutation", order);
    d.build(apply2("Transpose", others, back))
}
