//! Reducing gathered rows by segment: SparseSegmentSum, -Mean, -SqrtN, with a number of segments, and gradients.

use half::{bf16, f16};
use tensorfleet_core::{DType, Endpoint, PartialShape, Result, Shape, Status, Tensor, bail, ensure, memory};

use super::axes::{Integers, at_least_rank, concat_dims, integer, integers, one, sizes_tensor};
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::number::Number;

const SIGNATURE: &str = "data: T, indices: Tidx, segment_ids: Tsegmentids -> output: T";
const WITH_NUMBER: &str =
    "data: T, indices: Tidx, segment_ids: Tsegmentids, num_segments: Tnumsegments -> output: T";
const GRAD: &str = "grad: T, indices: Tidx, segment_ids: Tsegmentids, output_dim0: int32 -> output: T";
const GRAD_V2: &str = "grad: T, indices: Tidx, segment_ids: Tsegmentids, dense_output_dim0: int32 -> output: T, sorted_unique_indices: Tidx";

const SUM_ATTRS: &str = "T: real; Tidx: {int32, int64} = int32; Tsegmentids: {int32, int64} = int32; sparse_gradient: bool = false";
const SUM_NUMBER_ATTRS: &str = "T: real; Tidx: {int32, int64} = int32; Tnumsegments: {int32, int64} = int32; Tsegmentids: {int32, int64} = int32; sparse_gradient: bool = false";
const MEAN_ATTRS: &str = "T: floating; Tidx: {int32, int64} = int32; Tsegmentids: {int32, int64} = int32; sparse_gradient: bool = false";
const MEAN_NUMBER_ATTRS: &str = "T: floating; Tidx: {int32, int64} = int32; Tnumsegments: {int32, int64} = int32; Tsegmentids: {int32, int64} = int32; sparse_gradient: bool = false";
const GRAD_ATTRS: &str = "T: floating; Tidx: {int32, int64} = int32; Tsegmentids: {int32, int64} = int32";

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("SparseSegmentSum", SIGNATURE)
        .gradient(sum_gradient)
        .attrs(SUM_ATTRS)
        .shape(segment_shape)
        .kernel(|node| segment_kernel(node, Scale::One))
        .touches_rows(),
    Op::new("SparseSegmentMean", SIGNATURE)
        .gradient(mean_gradient)
        .attrs(MEAN_ATTRS)
        .shape(segment_shape)
        .kernel(|node| segment_kernel(node, Scale::Mean))
        .touches_rows(),
    Op::new("SparseSegmentSqrtN", SIGNATURE)
        .gradient(sqrt_n_gradient)
        .attrs(MEAN_ATTRS)
        .shape(segment_shape)
        .kernel(|node| segment_kernel(node, Scale::SqrtN))
        .touches_rows(),
    Op::new("SparseSegmentSumWithNumSegments", WITH_NUMBER)
        .gradient(sum_gradient)
        .attrs(SUM_NUMBER_ATTRS)
        .shape(segment_shape)
        .kernel(|node| segment_kernel(node, Scale::One))
        .touches_rows(),
    Op::new("SparseSegmentMeanWithNumSegments", WITH_NUMBER)
        .gradient(mean_gradient)
        .attrs(MEAN_NUMBER_ATTRS)
        .shape(segment_shape)
        .kernel(|node| segment_kernel(node, Scale::Mean))
        .touches_rows(),
    Op::new("SparseSegmentSqrtNWithNumSegments", WITH_NUMBER)
        .gradient(sqrt_n_gradient)
        .attrs(MEAN_NUMBER_ATTRS)
        .shape(segment_shape)
        .kernel(|node| segment_kernel(node, Scale::SqrtN))
        .touches_rows(),
    Op::new("SparseSegmentSumGrad", GRAD)
        .attrs(GRAD_ATTRS)
        .shape(grad_shape)
        .kernel(|node| grad_kernel(node, Scale::One, false)),
    Op::new("SparseSegmentMeanGrad", GRAD)
        .attrs(GRAD_ATTRS)
        .shape(grad_shape)
        .kernel(|node| grad_kernel(node, Scale::Mean, false)),
    Op::new("SparseSegmentSqrtNGrad", GRAD)
        .attrs(GRAD_ATTRS)
        .shape(grad_shape)
        .kernel(|node| grad_kernel(node, Scale::SqrtN, false)),
    Op::new("SparseSegmentSumGradV2", GRAD_V2)
        .attrs(GRAD_ATTRS)
        .shape(grad_v2_shape)
        .kernel(|node| grad_kernel(node, Scale::One, true)),
    Op::new("SparseSegmentMeanGradV2", GRAD_V2)
        .attrs(GRAD_ATTRS)
        .shape(grad_v2_shape)
        .kernel(|node| grad_kernel(node, Scale::Mean, true)),
    Op::new("SparseSegmentSqrtNGradV2", GRAD_V2)
        .attrs(GRAD_ATTRS)
        .shape(grad_v2_shape)
        .kernel(|node| grad_kernel(node, Scale::SqrtN, true)),
];

/// By what the sum of a segment is divided.
#[derive(Clone, Copy, PartialEq)]
enum Scale {
    One,
    Mean,
    SqrtN,
}

impl Scale {
    fn factor(self, count: usize) -> f64 {
        match self {
            Scale::One => 1.0,
            Scale::Mean => 1.0 / count.max(1) as f64,
            Scale::SqrtN => 1.0 / (count.max(1) as f64).sqrt(),
        }
    }
}

/// An element, and the type its sums are kept in: 16-bit floats are too narrow for that.
trait Segmented: Number {
    type Sum: Number;
    fn widened(self) -> Self::Sum;
    fn narrowed(sum: Self::Sum, factor: f64) -> Self;
}

macro_rules! segmented {
    ($($rust:ty => $sum:ty: $widen:expr, $narrow:expr;)*) => {$(
        impl Segmented for $rust {
            type Sum = $sum;
            #[inline]
            fn widened(self) -> $sum { $widen(self) }
            #[inline]
            fn narrowed(sum: $sum, factor: f64) -> $rust { $narrow(sum, factor) }
        }
    )*};
}
segmented! {
    f32 => f32: |x| x, |sum: f32, factor: f64| sum * factor as f32;
    f64 => f64: |x| x, |sum: f64, factor: f64| sum * factor;
    f16 => f32: f16::to_f32, |sum: f32, factor: f64| f16::from_f32(sum * factor as f32);
    bf16 => f32: bf16::to_f32, |sum: f32, factor: f64| bf16::from_f32(sum * factor as f32);
    i8 => i8: |x| x, |sum, _| sum;
    i16 => i16: |x| x, |sum, _| sum;
    i32 => i32: |x| x, |sum, _| sum;
    i64 => i64: |x| x, |sum, _| sum;
    u8 => u8: |x| x, |sum, _| sum;
    u16 => u16: |x| x, |sum, _| sum;
    u32 => u32: |x| x, |sum, _| sum;
    u64 => u64: |x| x, |sum, _| sum;
}

fn segment_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    at_least_rank(ctx, 0, 1)?;
    let indices = ctx.input_with_rank(1, 1)?;
    indices.merge(&ctx.input_with_rank(2, 1)?)?;
    let segments = if ctx.num_inputs() > 3 { ctx.integer(3) } else { None };
    let Some([_, rest @ ..]) = ctx.input(0).dims() else { return one(PartialShape::unknown()) };
    let rows = segments.and_then(|segments| usize::try_from(segments).ok());
    one(PartialShape::new([rows].into_iter().chain(rest.iter().copied())))
}

fn read_pairs(indices: &Tensor, segments: &Tensor) -> Result<(Integers, Integers)> {
    ensure!(indices.shape().rank() == 1, InvalidArgument, "indices should be a vector.");
    ensure!(segments.shape().rank() == 1, InvalidArgument, "segment_ids should be a vector.");
    ensure!(
        indices.num_elements() == segments.num_elements(),
        InvalidArgument,
        "segment_ids and indices should have same size."
    );
    Ok((integers(indices)?, integers(segments)?))
}

fn segment_kernel(node: &NodeSpec<'_>, scale: Scale) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in real => Ok(KernelBox::from_fn(move |ctx| reduce_segments::<T>(ctx, scale))))
}

fn reduce_segments<T: Segmented>(ctx: &mut Context<'_>, scale: Scale) -> Result<()> {
    let data = ctx.input(0)?;
    let (indices, segments) = read_pairs(ctx.input(1)?, ctx.input(2)?)?;
    let Some((&data_rows, slice)) = data.shape().split_first() else {
        bail!(InvalidArgument, "Shape must be at least rank 1")
    };
    let last = segments.last().map_or(0, |&last| last.saturating_add(1));
    ensure!(last > 0 || segments.is_empty(), InvalidArgument, "segment ids must be >= 0");
    let rows = if ctx.num_inputs() > 3 { integer(ctx.input(3)?, "num_segments")? } else { last };
    ensure!(rows >= 0, InvalidArgument, "segment ids must be >= 0");
    ensure!(last <= rows, InvalidArgument, "segment ids must be < num_segments");
    let rows = rows as usize;
    let mut tensor = Tensor::zeros(data.dtype(), concat_dims(&[&[rows], slice])?)?;
    let inner: usize = slice.iter().product();
    let (data, out) = (data.as_slice::<T>()?, tensor.make_mut::<T>()?);
    let mut sums = memory::vec_of(<T::Sum as Default>::default(), inner)?;
    let mut start = 0;
    while start < segments.len() {
        let segment = segments[start];
        let len = segments[start..].iter().take_while(|&&other| other == segment).count();
        if let Some(&next) = segments.get(start + len) {
            ensure!(next > segment, InvalidArgument, "segment ids are not increasing");
        }
        ensure!(
            (0..rows as i64).contains(&segment),
            InvalidArgument,
            "Segment id {segment} out of range [0, {rows}), possibly because 'segment_ids' input is not sorted."
        );
        sums.fill(Default::default());
        for (position, &index) in indices.iter().enumerate().skip(start).take(len) {
            ensure!(
                (0..data_rows as i64).contains(&index),
                InvalidArgument,
                "Bad: indices[{position}] == {index} out of range [0, {data_rows})"
            );
            let row = &data[index as usize * inner..][..inner];
            sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum = sum.plus(x.widened()));
        }
        let factor = scale.factor(len);
        let row = &mut out[segment as usize * inner..][..inner];
        row.iter_mut().zip(&sums).for_each(|(out, &sum)| *out = T::narrowed(sum, factor));
        start += len;
    }
    ctx.set_output(0, tensor);
    Ok(())
}

fn grad_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    at_least_rank(ctx, 0, 1)?;
    let Some([_, rest @ ..]) = ctx.input(0).dims() else { return one(PartialShape::unknown()) };
    let rows = ctx.integer(3).and_then(|rows| usize::try_from(rows).ok());
    one(PartialShape::new([rows].into_iter().chain(rest.iter().copied())))
}

fn grad_v2_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    at_least_rank(ctx, 0, 1)?;
    let rows = PartialShape::vector(None);
    let Some([_, rest @ ..]) = ctx.input(0).dims() else { return Ok(vec![PartialShape::unknown(), rows]) };
    Ok(vec![PartialShape::new([None].into_iter().chain(rest.iter().copied())), rows])
}

fn grad_kernel(node: &NodeSpec<'_>, scale: Scale, is_compact: bool) -> Result<KernelBox> {
    let index_type = node.attr::<DType>("Tidx")?;
    dispatch!(node.dtype()?, T in floating => Ok(KernelBox::from_fn(move |ctx| {
        spread_gradients::<T>(ctx, scale, is_compact.then_some(index_type))
    })))
}

/// Each gathered row gets the gradient of its segment. With `compact`, the output has only the rows that occur, and
/// the second output says which.
fn spread_gradients<T: Segmented>(ctx: &mut Context<'_>, scale: Scale, compact: Option<DType>) -> Result<()> {
    let grad = ctx.input(0)?;
    let (indices, segments) = read_pairs(ctx.input(1)?, ctx.input(2)?)?;
    let rows = integer(ctx.input(3)?, "output_dim0")?;
    ensure!(rows >= 0, InvalidArgument, "Expected a non-negative size, got {rows}");
    let Some((&segment_count, slice)) = grad.shape().split_first() else {
        bail!(InvalidArgument, "Shape must be at least rank 1")
    };
    let mut counts = memory::vec_of(0usize, segment_count)?;
    for (&index, &segment) in indices.iter().zip(&segments) {
        let count = usize::try_from(segment).ok().and_then(|segment| counts.get_mut(segment));
        let outside =
            || Status::invalid_argument(format!("Segment id {segment} out of range [0, {segment_count})."));
        *count.ok_or_else(outside)? += 1;
        ensure!((0..rows).contains(&index), InvalidArgument, "Index {index} out of range [0, {rows}).");
    }
    let mut present: Vec<i64> = Vec::new();
    if compact.is_some() {
        present = memory::copy_of(&indices)?;
        present.sort_unstable();
        present.dedup();
    }
    let out_rows = if compact.is_some() { present.len() } else { rows as usize };
    let mut tensor = Tensor::zeros(grad.dtype(), concat_dims(&[&[out_rows], slice])?)?;
    let inner: usize = slice.iter().product();
    let (grad, out) = (grad.as_slice::<T>()?, tensor.make_mut::<T>()?);
    let mut scaled = memory::vec_of(T::default(), inner)?;
    for (&index, &segment) in indices.iter().zip(&segments) {
        let segment = segment as usize;
        let factor = scale.factor(counts[segment]);
        let row = &grad[segment * inner..][..inner];
        scaled.iter_mut().zip(row).for_each(|(scaled, &x)| *scaled = T::narrowed(x.widened(), factor));
        let place =
            if compact.is_some() { present.partition_point(|&other| other < index) } else { index as usize };
        let row = &mut out[place * inner..][..inner];
        row.iter_mut().zip(&scaled).for_each(|(sum, &x)| *sum = sum.plus(x));
    }
    ctx.set_output(0, tensor);
    if let Some(dtype) = compact {
        let places = present.iter().map(|&index| index as usize);
        ctx.set_output(1, sizes_tensor(places, &Shape::vector(present.len()), dtype)?);
    }
    Ok(())
}

/// Each row of the data gets the sums of the segments it was added to.
fn sum_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, indices, segments) = (d.dy(0)?, d.input(1)?, d.input(2)?);
    let (rows, count) = (d.rows(dy, segments)?, data_rows(d)?);
    let dx = d.op("UnsortedSegmentSum", [rows, indices, count])?;
    d.only(0, dx)
}

fn mean_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    scaled_gradient(d, "SparseSegmentMeanGrad")
}

fn sqrt_n_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    scaled_gradient(d, "SparseSegmentSqrtNGrad")
}

fn scaled_gradient(d: &mut Differential<'_>, op: &str) -> Result<Grads> {
    let (dy, indices, segments) = (d.dy(0)?, d.input(1)?, d.input(2)?);
    let count = data_rows(d)?;
    let dx = d.op(op, [dy, indices, segments, count])?;
    d.only(0, dx)
}

fn data_rows(d: &mut Differential<'_>) -> Result<Endpoint> {
    let data = d.input(0)?;
    let shape = d.shape_of(data)?;
    d.element(shape, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;

    fn data() -> Tensor {
        Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2]).unwrap()
    }

    fn vector(elements: &[i32]) -> Tensor {
        Tensor::vector(elements).unwrap()
    }

    fn segment(op: &str, indices: &[i32], segments: &[i32]) -> Result<Tensor> {
        let op = test_op(op).with_shape_check().attr("T", DType::Float);
        op.input(data()).input(vector(indices)).input(vector(segments)).run_one()
    }

    fn floats(tensor: &Tensor) -> &[f32] {
        tensor.as_slice::<f32>().unwrap()
    }

    #[test]
    fn gathered_rows_are_reduced_and_gaps_are_zero() {
        assert_eq!(
            floats(&segment("SparseSegmentSum", &[0, 1, 2], &[0, 0, 2]).unwrap()),
            [4.0, 6.0, 0.0, 0.0, 5.0, 6.0]
        );
        assert_eq!(
            floats(&segment("SparseSegmentMean", &[0, 1, 2], &[0, 0, 2]).unwrap()),
            [2.0, 3.0, 0.0, 0.0, 5.0, 6.0]
        );
        let root = segment("SparseSegmentSqrtN", &[0, 1], &[0, 0]).unwrap();
        assert!((floats(&root)[0] - 4.0 / 2f32.sqrt()).abs() < 1e-6);
        assert_eq!(segment("SparseSegmentSum", &[], &[]).unwrap().shape().dims(), [0, 2]);
        let op = test_op("SparseSegmentSumWithNumSegments").with_shape_check().attr("T", DType::Float);
        let op = op.input(data()).input(vector(&[0])).input(vector(&[1])).input(3i32.into());
        assert_eq!(floats(&op.run_one().unwrap()), [0.0, 0.0, 1.0, 2.0, 0.0, 0.0]);
    }

    #[test]
    fn wrong_indices_and_segments_are_refused() {
        let text = |indices: &[i32], segments: &[i32]| {
            segment("SparseSegmentMean", indices, segments).unwrap_err().text().to_string()
        };
        assert_eq!(text(&[0, 5], &[0, 0]), "Bad: indices[1] == 5 out of range [0, 3)");
        assert_eq!(text(&[0, 1], &[1, 0]), "segment ids are not increasing");
        assert!(text(&[0, 1], &[-1, 0]).contains("Segment id -1 out of range [0, 1), possibly because"));
        assert_eq!(text(&[0, 1], &[-2, -1]), "segment ids must be >= 0");
        assert_eq!(text(&[0, 1], &[0]), "segment_ids and indices should have same size.");
    }

    fn grad(op: &str, indices: &[i32], segments: &[i32], rows: i32) -> Result<Vec<Tensor>> {
        let op = test_op(op).with_shape_check().attr("T", DType::Float).input(data());
        op.input(vector(indices)).input(vector(segments)).input(rows.into()).run()
    }

    #[test]
    fn gradients_flow_back_to_the_gathered_rows() {
        let out = grad("SparseSegmentSumGrad", &[0, 1, 1], &[0, 0, 2], 3).unwrap();
        assert_eq!(floats(&out[0]), [1.0, 2.0, 6.0, 8.0, 0.0, 0.0]);
        let out = grad("SparseSegmentMeanGradV2", &[7, 1, 1], &[0, 0, 2], 9).unwrap();
        assert_eq!(floats(&out[0]), [5.5, 7.0, 0.5, 1.0]);
        assert_eq!(out[1], vector(&[1, 7]));
        let text = |indices: &[i32], segments: &[i32]| {
            grad("SparseSegmentSqrtNGrad", indices, segments, 3).unwrap_err().text().to_string()
        };
        assert_eq!(text(&[3], &[0]), "Index 3 out of range [0, 3).");
        assert_eq!(text(&[0], &[3]), "Segment id 3 out of range [0, 3).");
    }
}
