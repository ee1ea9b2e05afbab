//! Counting into bins: HistogramFixedWidth, Bincount, DenseBincount, Bucketize.

use num_traits::AsPrimitive;
use tensorfleet_core::{DType, Element, PartialShape, Result, Tensor, ensure, memory};

use super::axes::{integer, one};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, same_as_input};
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::number::Number;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("HistogramFixedWidth", "values: T, value_range: T, nbins: int32 -> out: dtype")
        .attrs("T: {int32, int64, float, double}; dtype: {int32, int64} = int32")
        .shape(histogram_shape)
        .kernel(histogram_kernel),
    Op::new("Bincount", "arr: int32, size: int32, weights: T -> bins: T")
        .attrs("T: {int32, int64, float, double}")
        .shape(bincount_shape)
        .kernel(bincount_kernel),
    Op::new("DenseBincount", "input: Tidx, size: Tidx, weights: T -> output: T")
        .attrs("Tidx: {int32, int64}; T: {int32, int64, float, double}; binary_output: bool = false")
        .shape(dense_bincount_shape)
        .kernel(dense_bincount_kernel),
    Op::new("Bucketize", "input: T -> output: int32")
        .work(Work::Inputs)
        .attrs("T: {int32, int64, float, double}; boundaries: list(float)")
        .shape(same_as_input)
        .kernel(bucketize_kernel),
];

fn histogram_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(1, 1)?;
    ctx.input_with_rank(2, 0)?;
    one(PartialShape::vector(ctx.integer(2).and_then(|bins| usize::try_from(bins).ok())))
}

fn histogram_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let out = node.attr::<DType>("dtype")?;
    dispatch!(node.dtype()?, T in [i32, i64, f32, f64] => Ok(KernelBox::from_fn(move |ctx| {
        let bins = integer(ctx.input(2)?, "nbins")?;
        ensure!(bins > 0, InvalidArgument, "nbins should be a positive number, but got '{bins}'");
        let &[low, high] = ctx.input(1)?.as_slice::<T>()? else {
            return Err(tensorfleet_core::Status::invalid_argument("value_range should be a vector of 2 elements."));
        };
        ensure!(
            low < high,
            InvalidArgument,
            "value_range should satisfy value_range[0] < value_range[1], but got '[{low}, {high}]'"
        );
        let counts = count_values(ctx.input(0)?.as_slice::<T>()?, low.as_(), high.as_(), bins as usize)?;
        let tensor = match out {
            DType::Int64 => Tensor::vector(&counts)?,
            _ => Tensor::vector(&memory::collect(counts.iter().map(|&count| count as i32))?)?,
        };
        ctx.set_output(0, tensor);
        Ok(())
    })))
}

/// How many values fall in each of `bins` equal parts of the range; those outside go to the first or last bin.
fn count_values<T: AsPrimitive<f64>>(values: &[T], low: f64, high: f64, bins: usize) -> Result<Vec<i64>> {
    let mut counts = memory::vec_of(0i64, bins)?;
    let step = (high - low) / bins as f64;
    for value in values {
        let value: f64 = value.as_();
        ensure!(!value.is_nan(), InvalidArgument, "Histogram values must not contain NaN");
        let bin = ((value.max(low) - low) / step).min((bins - 1) as f64);
        counts[bin as usize] += 1;
    }
    Ok(counts)
}

fn bincount_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(1, 0)?;
    one(PartialShape::vector(ctx.integer(1).and_then(|size| usize::try_from(size).ok())))
}

fn dense_bincount_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(1, 0)?;
    let size = ctx.integer(1).and_then(|size| usize::try_from(size).ok());
    match ctx.input(0).dims() {
        None => one(PartialShape::unknown()),
        Some([rows, _]) => one(PartialShape::new([*rows, size])),
        Some(dims) => {
            ensure!(
                dims.len() <= 2,
                InvalidArgument,
                "Shape must be at most rank 2 but is rank {}",
                dims.len()
            );
            one(PartialShape::vector(size))
        }
    }
}

fn bincount_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in [i32, i64, f32, f64] => Ok(KernelBox::from_fn(|ctx| {
        let count = ctx.input(0)?.num_elements();
        run_bincount::<i32, T>(ctx, 1, count, &[], false)
    })))
}

fn dense_bincount_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let binary = node.attr("binary_output")?;
    dispatch!(node.attr::<DType>("Tidx")?, I in index => {
        dispatch!(node.dtype()?, T in [i32, i64, f32, f64] => Ok(KernelBox::from_fn(move |ctx| {
            let shape = ctx.input(0)?.shape().clone();
            match *shape.dims() {
                [rows, columns] => run_bincount::<I, T>(ctx, rows, columns, &[rows], binary),
                _ => {
                    ensure!(shape.rank() <= 2, InvalidArgument, "Shape must be at most rank 2 but is rank {}", shape.rank());
                    run_bincount::<I, T>(ctx, 1, shape.num_elements(), &[], binary)
                }
            }
        })))
    })
}

/// For each row of the input, how often each number occurs, or the weights of its occurrences summed. Numbers
/// beyond the last bin are not counted.
fn run_bincount<I: Element + Into<i64>, T: Number>(
    ctx: &mut Context<'_>,
    rows: usize,
    columns: usize,
    row_dims: &[usize],
    binary: bool,
) -> Result<()> {
    let (input, size, weights) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    ensure!(
        size.num_elements() == 1,
        InvalidArgument,
        "Shape must be rank 0 but is rank {}",
        size.shape().rank()
    );
    let size = integer(size, "size")?;
    ensure!(size >= 0, InvalidArgument, "size ({size}) must be non-negative");
    ensure!(
        weights.num_elements() == 0 || weights.shape() == input.shape(),
        InvalidArgument,
        "`weights` must be the same shape as `arr` or a length-0 `Tensor`, in which case it acts as all weights equal to 1. Received {}",
        weights.shape()
    );
    let numbers = input.as_slice::<I>()?;
    ensure!(
        numbers.iter().all(|&number| number.into() >= 0),
        InvalidArgument,
        "Input arr must be non-negative!"
    );
    let weights = weights.as_slice::<T>()?;
    let size = size as usize;
    let shape = super::axes::concat_dims(&[row_dims, &[size]])?;
    let mut tensor = Tensor::zeros(T::DTYPE, shape)?;
    let bins = tensor.make_mut::<T>()?;
    for (position, &number) in numbers.iter().take(rows * columns).enumerate() {
        let number = number.into() as usize;
        if number < size {
            let bin = &mut bins[position / columns.max(1) * size + number];
            *bin = match weights.get(position) {
                _ if binary => T::ONE,
                Some(&weight) => bin.plus(weight),
                None => bin.plus(T::ONE),
            };
        }
    }
    ctx.set_output(0, tensor);
    Ok(())
}

/// A number and a boundary are compared as C++ compares them.
trait Bounded: Element {
    fn is_below(self, boundary: f32) -> bool;
}

macro_rules! bounded {
    ($($rust:ty as $common:ty),*) => {$(
        impl Bounded for $rust {
            #[inline]
            fn is_below(self, boundary: f32) -> bool { (self as $common) < boundary as $common }
        }
    )*};
}
bounded!(i32 as f32, i64 as f32, f64 as f64);

impl Bounded for f32 {
    #[inline]
    fn is_below(self, boundary: f32) -> bool {
        self < boundary
    }
}

fn bucketize_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let boundaries: Vec<f32> = node.attr("boundaries")?;
    ensure!(boundaries.is_sorted(), InvalidArgument, "Expected sorted boundaries");
    dispatch!(node.dtype()?, T in [i32, i64, f32, f64] => Ok(KernelBox::from_fn(move |ctx| {
        let input = ctx.input(0)?;
        let values = input.as_slice::<T>()?;
        let tensor = Tensor::build(input.shape().clone(), |out: &mut [i32]| {
            for (out, &value) in out.iter_mut().zip(values) {
                *out = boundaries.partition_point(|&boundary| !value.is_below(boundary)) as i32;
            }
            Ok(())
        })?;
        ctx.set_output(0, tensor);
        Ok(())
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;

    fn vector<T: Element>(elements: &[T]) -> Tensor {
        Tensor::vector(elements).unwrap()
    }

    #[test]
    fn values_outside_the_range_go_to_the_outer_bins() {
        let run = |values: &[f32], range: &[f32], bins: i32| {
            let op = test_op("HistogramFixedWidth").with_shape_check().attr("T", DType::Float);
            let out = op.input(vector(values)).input(vector(range)).input(bins.into()).run_one()?;
            Ok::<_, tensorfleet_core::Status>(out.as_slice::<i32>().unwrap().to_vec())
        };
        assert_eq!(run(&[0.0, 0.1, 0.9, 2.0, -5.0, 0.25], &[0.0, 1.0], 4).unwrap(), [3, 1, 0, 2]);
        let text =
            |values: &[f32], range: &[f32], bins| run(values, range, bins).unwrap_err().text().to_string();
        assert!(text(&[f32::NAN], &[0.0, 1.0], 2).contains("must not contain NaN"));
        assert!(text(&[0.0], &[1.0, 1.0], 2).contains("but got '[1, 1]'"));
        assert!(text(&[0.0], &[0.0, 1.0], 0).contains("nbins should be a positive number, but got '0'"));
        assert!(text(&[0.0], &[0.0], 1).contains("should be a vector of 2 elements"));
        let op = test_op("HistogramFixedWidth").with_shape_check().attr("T", DType::Int32);
        let op = op.input(vector(&[0, 3, 7, 10])).input(vector(&[0, 10])).input(3i32.into());
        assert_eq!(op.run_one().unwrap().as_slice::<i32>().unwrap(), [2, 0, 2]);
    }

    fn dense(input: Tensor, size: i32, weights: Tensor, binary: bool) -> Result<Tensor> {
        let op =
            test_op("DenseBincount").with_shape_check().attr("Tidx", DType::Int32).attr("T", weights.dtype());
        op.attr("binary_output", binary).input(input).input(size.into()).input(weights).run_one()
    }

    #[test]
    fn numbers_are_counted_by_row_and_by_weight() {
        let none = || vector::<i32>(&[]);
        assert_eq!(
            dense(vector(&[1, 1, 7]), 4, none(), false).unwrap().as_slice::<i32>().unwrap(),
            [0, 2, 0, 0]
        );
        let rows = || Tensor::from_slice(&[1, 1, 0, 3], &[2, 2]).unwrap();
        let out = dense(rows(), 4, none(), false).unwrap();
        assert_eq!(
            (out.shape().dims(), out.as_slice::<i32>().unwrap()),
            (&[2, 4][..], &[0, 2, 0, 0, 1, 0, 0, 1][..])
        );
        assert_eq!(
            dense(rows(), 4, none(), true).unwrap().as_slice::<i32>().unwrap(),
            [0, 1, 0, 0, 1, 0, 0, 1]
        );
        let out = dense(vector(&[1, 1]), 3, vector(&[1.0f32, 2.0]), false).unwrap();
        assert_eq!(out.as_slice::<f32>().unwrap(), [0.0, 3.0, 0.0]);
        let op = test_op("Bincount").with_shape_check().attr("T", DType::Int32).input(rows());
        assert_eq!(
            op.input(4i32.into()).input(none()).run_one().unwrap().as_slice::<i32>().unwrap(),
            [1, 2, 0, 1]
        );
    }

    #[test]
    fn wrong_numbers_sizes_and_weights_are_refused() {
        let text = |input: &[i32], size, weights: &[f32]| {
            dense(vector(input), size, vector(weights), false).unwrap_err().text().to_string()
        };
        assert!(text(&[1, -1], 4, &[]).contains("Input arr must be non-negative!"));
        assert!(text(&[1], -4, &[]).contains("size (-4) must be non-negative"));
        assert!(text(&[1], 4, &[1.0, 2.0]).contains("`weights` must be the same shape as `arr`"));
    }

    #[test]
    fn buckets_begin_at_their_boundary() {
        let op = test_op("Bucketize")
            .with_shape_check()
            .attr("T", DType::Float)
            .attr("boundaries", vec![0.0f32, 10.0, 100.0]);
        let out = op.input(vector(&[-5.0f32, 0.0, 10.0, f32::NAN, 150.0, 100.0])).run_one().unwrap();
        assert_eq!(out.as_slice::<i32>().unwrap(), [0, 1, 2, 3, 3, 3]);
        let op = test_op("Bucketize")
            .with_shape_check()
            .attr("T", DType::Float)
            .attr("boundaries", vec![10.0f32, 0.0]);
        assert!(
            op.input(vector(&[0.0f32])).run_one().unwrap_err().text().contains("Expected sorted boundaries")
        );
    }
}
