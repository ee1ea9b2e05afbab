//! Reducing rows by segment: sorted ids (`SegmentSum` and its kin) or ids in any order (`UnsortedSegmentSum` …).

use half::{bf16, f16};
use tensorfleet_core::{DType, PartialShape, Result, Shape, Tensor, bail, ensure, memory};

use super::reduce::Reducer;
use super::reduce_ops::{Prod, Sum};
use super::segment_gradients::{
    segment_extremum_gradient, segment_mean_gradient, segment_prod_gradient, segment_sum_gradient,
};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{KernelFn, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, integers_of};
use tensorfleet_kernel::work::{NodeInputs, elements_of_shape, integers_in};
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::number::{Number, Real};
use tensorfleet_numeric::stored::{Stored, build_computed, compute_elements};
use tensorfleet_threads::Loops;

const SORTED_NUMBER: &str = "T: number; Tindices: {int32, int64}";
const SORTED_REAL: &str = "T: real; Tindices: {int32, int64}";
const UNSORTED_NUMBER: &str =
    "T: number; Tindices: {int16, int32, int64}; Tnumsegments: {int32, int64} = int32";
const UNSORTED_REAL: &str = "T: real; Tindices: {int16, int32, int64}; Tnumsegments: {int32, int64} = int32";

const fn sorted(name: &'static str, attrs: &'static str, kernel: KernelFn) -> Op {
    Op::new(name, "data: T, segment_ids: Tindices -> output: T")
        .work(Work::Values(sorted_elements))
        .attrs(attrs)
        .shape(sorted_shape)
        .kernel(kernel)
}

const fn unsorted(name: &'static str, attrs: &'static str, kernel: KernelFn) -> Op {
    Op::new(name, "data: T, segment_ids: Tindices, num_segments: Tnumsegments -> output: T")
        .work(Work::Values(unsorted_elements))
        .attrs(attrs)
        .shape(unsorted_shape)
        .kernel(kernel)
}

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    sorted("SegmentSum", SORTED_NUMBER, segment_sum).gradient(segment_sum_gradient),
    sorted("SegmentMean", SORTED_NUMBER, segment_mean).gradient(segment_mean_gradient),
    sorted("SegmentProd", SORTED_NUMBER, segment_prod).gradient(segment_prod_gradient),
    sorted("SegmentMax", SORTED_REAL, segment_max).gradient(segment_extremum_gradient),
    sorted("SegmentMin", SORTED_REAL, segment_min).gradient(segment_extremum_gradient),
    unsorted("UnsortedSegmentSum", UNSORTED_NUMBER, unsorted_sum).gradient(segment_sum_gradient),
    unsorted("UnsortedSegmentProd", UNSORTED_NUMBER, unsorted_prod).gradient(segment_prod_gradient),
    unsorted("UnsortedSegmentMax", UNSORTED_REAL, unsorted_max).gradient(segment_extremum_gradient),
    unsorted("UnsortedSegmentMin", UNSORTED_REAL, unsorted_min).gradient(segment_extremum_gradient),
];

/// As many rows as the last id says.
fn sorted_elements(inputs: &dyn NodeInputs) -> Option<usize> {
    let last = integers_in(inputs.tensor(1)?)?.last().unwrap_or(-1);
    rows_of_segments(inputs, usize::try_from(last.saturating_add(1)).unwrap_or(0))
}

/// As many rows as there are said to be.
fn unsorted_elements(inputs: &dyn NodeInputs) -> Option<usize> {
    rows_of_segments(inputs, elements_of_shape::<2>(inputs)?)
}

fn rows_of_segments(inputs: &dyn NodeInputs, segments: usize) -> Option<usize> {
    let row_len = inputs.tensor(0)?.num_elements() / inputs.tensor(1)?.num_elements().max(1);
    Some(segments.saturating_mul(row_len.max(1)))
}

fn sorted_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(1, 1)?;
    let Some([_, rest @ ..]) = ctx.input(0).dims() else { return Ok(vec![PartialShape::unknown()]) };
    Ok(vec![PartialShape::new([None].into_iter().chain(rest.iter().copied()))])
}

fn unsorted_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(2, 0)?;
    let (Some(data), Some(ids)) = (ctx.input(0).dims(), ctx.input(1).dims()) else {
        return Ok(vec![PartialShape::unknown()]);
    };
    ensure!(
        ids.len() <= data.len(),
        InvalidArgument,
        "data.shape = {} does not start with segment_ids.shape = {}",
        ctx.input(0),
        ctx.input(1)
    );
    let segments = ctx.integer(2).and_then(|count| usize::try_from(count).ok());
    Ok(vec![PartialShape::new([segments].into_iter().chain(data[ids.len()..].iter().copied()))])
}

/// The larger of two, the later one if they do not compare: a nan is forgotten when a number follows.
struct Largest;
/// The smaller of two, the later one if they do not compare.
struct Smallest;

impl<T: Real> Reducer<T> for Largest {
    const IDENTITY: T = T::LOWEST;
    #[inline(always)]
    fn combine(a: T, b: T) -> T {
        if b < a { a } else { b }
    }
}

impl<T: Real> Reducer<T> for Smallest {
    const IDENTITY: T = T::HIGHEST;
    #[inline(always)]
    fn combine(a: T, b: T) -> T {
        if b > a { a } else { b }
    }
}

fn combine_rows<T: Copy, R: Reducer<T>>(total: &mut [T], row: &[T]) {
    for (total, &value) in total.iter_mut().zip(row) {
        *total = R::combine(*total, value);
    }
}

/// How rows of a segment become one.
struct Rule<T> {
    /// What a segment without rows gives.
    empty: T,
    combine: fn(&mut [T], &[T]),
    /// Done to a sorted segment's total, knowing how many rows went into it.
    finish: fn(&mut [T], usize),
}

impl<T: Copy> Rule<T> {
    fn of<R: Reducer<T>>(empty: T) -> Rule<T> {
        Rule { empty, combine: combine_rows::<T, R>, finish: |_, _| {} }
    }
}

fn segment_sum(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in numeric => Ok(sorted_kernel::<T>(Rule::of::<Sum>(Number::ZERO))))
}

fn segment_prod(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in numeric => Ok(sorted_kernel::<T>(Rule::of::<Prod>(Number::ONE))))
}

fn segment_max(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in real => Ok(sorted_kernel::<T>(Rule::of::<Largest>(Number::ZERO))))
}

fn segment_min(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in real => Ok(sorted_kernel::<T>(Rule::of::<Smallest>(Number::ZERO))))
}

fn segment_mean(node: &NodeSpec<'_>) -> Result<KernelBox> {
    fn divide<T: Number>(totals: &mut [T], count: usize) {
        let count = T::from_count(count);
        totals.iter_mut().for_each(|total| *total = total.divided_by(count));
    }
    dispatch!(node.dtype()?, T in numeric => {
        Ok(sorted_kernel::<T>(Rule { finish: divide, ..Rule::of::<Sum>(Number::ZERO) }))
    })
}

fn sorted_kernel<S: Stored>(rule: Rule<S::Compute>) -> KernelBox {
    KernelBox::from_fn(move |ctx| {
        let (data, ids) = (ctx.input(0)?, ctx.input(1)?);
        let (ids, shape) = sorted_ids(data, ids)?;
        let elements = compute_elements(data.as_slice::<S>()?)?;
        let row_len: usize = shape[1..].iter().product();
        let output = build_computed::<S>(shape, |out| {
            out.fill(rule.empty);
            if !out.is_empty() {
                reduce_sorted(&elements, &ids, row_len, &rule, out);
            }
            Ok(())
        })?;
        ctx.set_output(0, output);
        Ok(())
    })
}

/// The ids, checked to be sorted and one for each row, and the output's shape.
fn sorted_ids(data: &Tensor, ids: &Tensor) -> Result<(Vec<i64>, Shape)> {
    ensure!(ids.shape().rank() == 1, InvalidArgument, "segment_ids should be a vector.");
    let Some((&rows, rest)) = data.shape().split_first() else {
        bail!(InvalidArgument, "input must be at least rank 1")
    };
    ensure!(
        ids.num_elements() == rows,
        InvalidArgument,
        "segment_ids should be the same size as dimension 0 of input."
    );
    let ids = integers_of(ids)?;
    let last = ids.last().copied().unwrap_or(-1);
    ensure!(ids.is_empty() || last >= 0, InvalidArgument, "segment ids must be >= 0");
    let segments = last.saturating_add(1);
    ensure!(
        ids.first().is_none_or(|first| (0..segments).contains(first)),
        InvalidArgument,
        "Segment id {} out of range [0, {segments}), possibly because 'segment_ids' input is not sorted.",
        ids[0]
    );
    ensure!(ids.is_sorted(), InvalidArgument, "segment ids are not increasing");
    let mut dims = vec![segments];
    dims.extend(rest.iter().map(|&dim| dim as i64));
    Ok((ids, Shape::from_signed(&dims)?))
}

fn reduce_sorted<T: Copy>(data: &[T], ids: &[i64], row_len: usize, rule: &Rule<T>, out: &mut [T]) {
    let mut start = 0;
    for segment in ids.chunk_by(|a, b| a == b) {
        let total = &mut out[segment[0] as usize * row_len..][..row_len];
        let rows = &data[start * row_len..(start + segment.len()) * row_len];
        let (first, others) = rows.split_at(row_len);
        total.copy_from_slice(first);
        others.chunks_exact(row_len).for_each(|row| (rule.combine)(total, row));
        (rule.finish)(total, segment.len());
        start += segment.len();
    }
}

fn unsorted_sum(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in numeric => Ok(unsorted_kernel::<T>(Rule::of::<Sum>(Number::ZERO))))
}

fn unsorted_prod(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in numeric => Ok(unsorted_kernel::<T>(Rule::of::<Prod>(Number::ONE))))
}

/// The smallest and largest numbers that are not infinite, as compute values: TensorFlow's results for segments of
/// `UnsortedSegmentMax` and `UnsortedSegmentMin` without rows.
fn finite_limits<S: Limits>() -> (S::Compute, S::Compute) {
    (S::LOWEST_FINITE.widened(), S::HIGHEST_FINITE.widened())
}

/// Types with finite limits.
trait Limits: Stored {
    const LOWEST_FINITE: Self;
    const HIGHEST_FINITE: Self;
}

macro_rules! limits {
    ($($type:ident)*) => {$(
        impl Limits for $type {
            const LOWEST_FINITE: $type = $type::MIN;
            const HIGHEST_FINITE: $type = $type::MAX;
        }
    )*};
}
limits!(f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64);

fn unsorted_max(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in real => Ok(unsorted_kernel::<T>(Rule::of::<Largest>(finite_limits::<T>().0))))
}

fn unsorted_min(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in real => Ok(unsorted_kernel::<T>(Rule::of::<Smallest>(finite_limits::<T>().1))))
}

fn unsorted_kernel<S: Stored>(rule: Rule<S::Compute>) -> KernelBox {
    KernelBox::from_fn(move |ctx| {
        let (ids, shape) = unsorted_ids(ctx)?;
        let elements = compute_elements(ctx.input(0)?.as_slice::<S>()?)?;
        let row_len: usize = shape[1..].iter().product();
        let output = build_computed::<S>(shape, |out| {
            reduce_unsorted(ctx.loops(), &elements, &ids, row_len, &rule, out);
            Ok(())
        })?;
        ctx.set_output(0, output);
        Ok(())
    })
}

/// The ids, checked to lie in range or below zero and to be a prefix of the data's shape, and the output's shape.
fn unsorted_ids(ctx: &Context<'_>) -> Result<(Vec<i64>, Shape)> {
    let (data, ids, segments) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    ensure!(
        segments.is_scalar(),
        InvalidArgument,
        "num_segments should be a scalar, not shape {}",
        segments.shape()
    );
    ensure!(
        data.shape().starts_with(ids.shape()),
        InvalidArgument,
        "data.shape = {} does not start with segment_ids.shape = {}",
        data.shape(),
        ids.shape()
    );
    let segments = integers_of(segments)?[0];
    ensure!(segments >= 0, InvalidArgument, "Input num_segments == {segments} must not be negative.");
    let numbers = match ids.dtype() {
        DType::Int16 => memory::collect(ids.as_slice::<i16>()?.iter().map(|&id| id as i64))?,
        _ => integers_of(ids)?,
    };
    if let Some(index) = numbers.iter().position(|&id| id >= segments) {
        bail!(
            InvalidArgument,
            "segment_ids{} = {} is out of range [0, {segments})",
            coordinates(index, ids.shape()),
            numbers[index]
        );
    }
    let mut dims = vec![segments];
    dims.extend(data.shape()[ids.shape().rank()..].iter().map(|&dim| dim as i64));
    Ok((numbers, Shape::from_signed(&dims)?))
}

/// The place of an element in a tensor of that shape, as `[1,2]`.
fn coordinates(index: usize, shape: &Shape) -> String {
    let mut rest = index;
    let mut position: Vec<String> = Vec::with_capacity(shape.rank());
    for &dim in shape.iter().rev() {
        position.push((rest % dim.max(1)).to_string());
        rest /= dim.max(1);
    }
    position.reverse();
    format!("[{}]", position.join(","))
}

/// Every thread has some segments and looks for their rows: rows are combined in order, whoever does it.
fn reduce_unsorted<T: Stored>(
    loops: &Loops,
    data: &[T],
    ids: &[i64],
    row_len: usize,
    rule: &Rule<T>,
    out: &mut [T],
) {
    out.fill(rule.empty);
    if out.is_empty() {
        return;
    }
    let cost_per_segment = data.len() * 50 / (out.len() / row_len);
    loops.chunks_mut(out, row_len, cost_per_segment, |first, out| {
        let own = first as i64..(first + out.len() / row_len) as i64;
        for (&id, row) in ids.iter().zip(data.chunks_exact(row_len)) {
            if own.contains(&id) {
                let total = &mut out[(id - own.start) as usize * row_len..][..row_len];
                (rule.combine)(total, row);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;

    fn sorted(op: &str, data: &[f32], ids: &[i32]) -> Result<Vec<f32>> {
        let (data, ids) = (Tensor::vector(data).unwrap(), Tensor::vector(ids).unwrap());
        let output = test_op(op).attr("T", data.dtype()).attr("Tindices", ids.dtype()).input(data).input(ids);
        Ok(output.run_one()?.as_slice::<f32>()?.to_vec())
    }

    fn unsorted(op: &str, data: Tensor, ids: Tensor, segments: i32) -> Result<Tensor> {
        let op = test_op(op).attr("T", data.dtype()).attr("Tindices", ids.dtype());
        op.input(data).input(ids).input(Tensor::scalar(segments)).run_one()
    }

    #[test]
    fn sorted_segments_are_reduced_and_gaps_get_the_default() {
        let (data, ids) = ([1.0, 2.0, 3.0, 4.0], [0, 0, 2, 2]);
        assert_eq!(sorted("SegmentSum", &data, &ids).unwrap(), [3.0, 0.0, 7.0]);
        assert_eq!(sorted("SegmentMean", &data, &ids).unwrap(), [1.5, 0.0, 3.5]);
        assert_eq!(sorted("SegmentProd", &data, &ids).unwrap(), [2.0, 1.0, 12.0]);
        assert_eq!(sorted("SegmentMax", &data, &ids).unwrap(), [2.0, 0.0, 4.0]);
        assert_eq!(sorted("SegmentMin", &data, &[1, 1, 3, 3]).unwrap(), [0.0, 1.0, 0.0, 3.0]);
        assert_eq!(sorted("SegmentSum", &[], &[]).unwrap(), []);
    }

    #[test]
    fn sorted_ids_are_checked() {
        let message = |ids: &[i32]| sorted("SegmentSum", &[0.0; 3], ids).unwrap_err().text().to_string();
        assert_eq!(message(&[1, 0, 2]), "segment ids are not increasing");
        assert!(message(&[-1, 0, 2]).contains("Segment id -1 out of range [0, 3)"));
        assert!(message(&[0, 0, -5]).contains("must be >= 0"));
        assert!(message(&[0, 0]).contains("same size as dimension 0"));
    }

    #[test]
    fn unsorted_segments_skip_negative_ids_and_refuse_large_ones() {
        let data = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
        let ids = Tensor::from_slice(&[2i64, 0, 2, -1], &[2, 2]).unwrap();
        let sums = unsorted("UnsortedSegmentSum", data.clone(), ids.clone(), 4).unwrap();
        assert_eq!(sums.as_slice::<f32>().unwrap(), [2.0, 0.0, 4.0, 0.0]);
        let largest = unsorted("UnsortedSegmentMax", data.clone(), ids.clone(), 3).unwrap();
        assert_eq!(largest.as_slice::<f32>().unwrap(), [2.0, f32::MIN, 3.0]);
        let status = unsorted("UnsortedSegmentSum", data.clone(), ids.clone(), 2).unwrap_err();
        assert_eq!(status.text(), "segment_ids[0,0] = 2 is out of range [0, 2)");
        assert!(unsorted("UnsortedSegmentSum", data.clone(), ids, -1).is_err());
        let rows = Tensor::vector(&[1i32, 1]).unwrap();
        let products = unsorted("UnsortedSegmentProd", data, rows, 2).unwrap();
        assert_eq!(products.as_slice::<f32>().unwrap(), [1.0, 1.0, 3.0, 8.0]);
    }
}
