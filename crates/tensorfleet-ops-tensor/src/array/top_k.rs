//! The largest elements of rows: TopK, TopKV2, InTopK, InTopKV2.

use std::cmp::Ordering;
use std::collections::VecDeque;

use tensorfleet_core::{DType, Element, PartialShape, Result, Shape, Status, Tensor, ensure, memory};

use super::axes::{at_least_rank, integer, integers, one, with_dim};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_numeric::dispatch;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("TopK", "input: T -> values: T, indices: int32").work(Work::Inputs).gradient(top_k_gradient)
        .attrs("k: int >= 0; sorted: bool = true; T: real")
        .shape(|ctx| top_k_shape(ctx, Some(ctx.attr("k")?)))
        .kernel(top_k_kernel),
    Op::new("TopKV2", "input: T, k: Tk -> values: T, indices: index_type").work(Work::Inputs).gradient(top_k_gradient)
        .attrs("sorted: bool = true; T: real; Tk: {int16, int32, int64} = int32; index_type: {int16, int32, int64} = int32")
        .shape(|ctx| top_k_shape(ctx, ctx.integer(1)))
        .kernel(top_k_v2_kernel),
    Op::new("InTopK", "predictions: float, targets: T -> precision: bool").work(Work::Inputs)
        .attrs("k: int; T: {int32, int64} = int32")
        .shape(in_top_k_shape)
        .kernel(in_top_k_kernel),
    Op::new("InTopKV2", "predictions: float, targets: T, k: T -> precision: bool").work(Work::Inputs)
        .attrs("T: {int32, int64} = int32")
        .shape(in_top_k_shape)
        .kernel(in_top_k_v2_kernel),
];

fn check_k(k: i64, columns: Option<usize>) -> Result<usize> {
    ensure!(k >= 0, InvalidArgument, "Need k >= 0, got {k}");
    if let Some(columns) = columns {
        ensure!(
            columns as i64 >= k,
            InvalidArgument,
            "input must have at least k columns. Had {columns}, needed {k}"
        );
    }
    Ok(k as usize)
}

fn top_k_shape(ctx: &ShapeContext<'_>, k: Option<i64>) -> Result<Vec<PartialShape>> {
    at_least_rank(ctx, 0, 1)?;
    let Some((&columns, rows)) = ctx.input(0).dims().and_then(<[_]>::split_last) else {
        return Ok(vec![PartialShape::unknown(); 2]);
    };
    let k = k.map(|k| check_k(k, columns)).transpose()?;
    Ok(vec![PartialShape::new(rows.iter().copied().chain([k])); 2])
}

fn top_k_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let k = node.attr("k")?;
    dispatch!(node.dtype()?, T in real => Ok(KernelBox::from_fn(move |ctx| top_k::<T>(ctx, k, DType::Int32))))
}

fn top_k_v2_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let index_type = node.attr("index_type")?;
    dispatch!(node.dtype()?, T in real => Ok(KernelBox::from_fn(move |ctx| {
        let k = ctx.input(1)?;
        ensure!(k.is_scalar(), InvalidArgument, "k must be scalar, got shape {}", k.shape());
        let k = integer(k, "k")?;
        top_k::<T>(ctx, k, index_type)
    })))
}

/// Descending; a NaN is larger than anything, so that the order is total.
fn descending<T: PartialOrd>(a: &T, b: &T) -> Ordering {
    #[expect(clippy::eq_op, reason = "only a NaN differs from itself")]
    let is_nan = |x: &T| x != x;
    b.partial_cmp(a).unwrap_or_else(|| is_nan(b).cmp(&is_nan(a)))
}

fn top_k<T: Element + PartialOrd>(ctx: &mut Context<'_>, k: i64, index_type: DType) -> Result<()> {
    let input = ctx.input(0)?;
    ensure!(input.shape().rank() >= 1, InvalidArgument, "input must be >= 1-D, got shape {}", input.shape());
    let last = input.shape().rank() - 1;
    let columns = input.shape()[last];
    let k = check_k(k, Some(columns))?;
    let shape = with_dim(input.shape(), last, k)?;
    let mut values = Tensor::allocate(input.dtype(), shape.clone())?;
    let mut indices = Tensor::allocate(DType::Int64, shape)?;
    if k > 0 {
        let rows = input.as_slice::<T>()?.chunks_exact(columns);
        let outs =
            values.make_mut::<T>()?.chunks_exact_mut(k).zip(indices.make_mut::<i64>()?.chunks_exact_mut(k));
        let mut order = Vec::new();
        for (row, (values, indices)) in rows.zip(outs) {
            largest(row, k, RUN, &mut order, || ctx.check_cancelled())?;
            for ((value, index), &from) in values.iter_mut().zip(indices).zip(&order) {
                (*value, *index) = (row[from], from as i64);
            }
        }
    }
    ctx.set_output(0, values);
    ctx.set_output(1, narrowed(indices, index_type)?);
    Ok(())
}

/// How many elements are ordered before the next look whether anybody waits for them: a tenth of a second.
const RUN: usize = 1 << 20;

/// Finds the places of the `k` largest elements, largest first, the lower place first among equals. A long row is ordered in
/// runs of `run` elements, which are then merged; `check` is asked before each.
fn largest<T: PartialOrd>(
    row: &[T],
    k: usize,
    run: usize,
    order: &mut Vec<usize>,
    check: impl Fn() -> Result<()>,
) -> Result<()> {
    let compare = |&a: &usize, &b: &usize| descending(&row[a], &row[b]).then(a.cmp(&b));
    let mut runs = VecDeque::new();
    for first in (0..row.len()).step_by(run) {
        check()?;
        let mut places = if runs.is_empty() { std::mem::take(order) } else { Vec::new() };
        places.clear();
        let range = first..(first + run).min(row.len());
        if k == 1 {
            places.extend(range.min_by(compare));
        } else {
            memory::make_room(&mut places, range.len())?;
            places.extend(range);
            if k < places.len() {
                places.select_nth_unstable_by(k - 1, compare);
                places.truncate(k);
            }
            places.sort_unstable_by(compare);
        }
        if row.len() > run {
            // Many runs with a few places each must not keep the room of whole ones.
            places.shrink_to_fit();
        }
        runs.push_back(places);
    }
    while let Some(left) = runs.pop_front() {
        match runs.pop_front() {
            Some(right) => runs.push_back(merged(&left, &right, k, run, compare, &check)?),
            None => *order = left,
        }
    }
    Ok(())
}

/// The first `k` of two ordered lists.
fn merged(
    left: &[usize],
    right: &[usize],
    k: usize,
    run: usize,
    compare: impl Fn(&usize, &usize) -> Ordering,
    check: impl Fn() -> Result<()>,
) -> Result<Vec<usize>> {
    let len = (left.len() + right.len()).min(k);
    let mut out = memory::vec_with_room(len)?;
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    while out.len() < len {
        if out.len() % run == 0 {
            check()?;
        }
        let from_left = match (left.peek(), right.peek()) {
            (Some(a), Some(b)) => compare(a, b).is_le(),
            (a, _) => a.is_some(),
        };
        out.extend(if from_left { left.next() } else { right.next() });
    }
    Ok(out)
}

fn narrowed(indices: Tensor, dtype: DType) -> Result<Tensor> {
    let wide = indices.as_slice::<i64>()?;
    match dtype {
        DType::Int32 => Tensor::build(indices.shape().clone(), |out: &mut [i32]| {
            out.iter_mut().zip(wide).for_each(|(out, &index)| *out = index as i32);
            Ok(())
        }),
        DType::Int16 => Tensor::build(indices.shape().clone(), |out: &mut [i16]| {
            out.iter_mut().zip(wide).for_each(|(out, &index)| *out = index as i16);
            Ok(())
        }),
        _ => Ok(indices),
    }
}

fn in_top_k_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let predictions = ctx.input_with_rank(0, 2)?;
    let targets = ctx.input_with_rank(1, 1)?;
    one(targets.merge(&PartialShape::vector(predictions.dim(0)))?)
}

fn in_top_k_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let k = node.attr("k")?;
    Ok(KernelBox::from_fn(move |ctx| in_top_k(ctx, k)))
}

fn in_top_k_v2_kernel(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let k = ctx.input(2)?;
        ensure!(k.is_scalar(), InvalidArgument, "k must be 0-D, got shape {}", k.shape());
        let k = integer(k, "k")?;
        in_top_k(ctx, k)
    }))
}

/// Whether fewer than `k` predictions beat that of the target. Where a prediction is not finite, nothing is in.
fn in_top_k(ctx: &mut Context<'_>, k: i64) -> Result<()> {
    let (predictions, targets) = (ctx.input(0)?, ctx.input(1)?);
    let &[rows, classes] = predictions.shape().dims() else {
        return Err(Status::invalid_argument("predictions must be 2-dimensional"));
    };
    ensure!(targets.shape().rank() == 1, InvalidArgument, "targets must be 1-dimensional");
    ensure!(
        targets.num_elements() == rows,
        InvalidArgument,
        "First dimension of predictions {rows} must match length of targets {}",
        targets.num_elements()
    );
    let (scores, targets) = (predictions.as_slice::<f32>()?, integers(targets)?);
    let tensor = Tensor::build(Shape::vector(rows), |out: &mut [bool]| {
        for (row, (out, &target)) in out.iter_mut().zip(&targets).enumerate() {
            ctx.check_cancelled()?;
            let scores = &scores[row * classes..(row + 1) * classes];
            let target = usize::try_from(target).ok().and_then(|target| scores.get(target));
            *out = target.is_some_and(|target| {
                let better = scores.iter().filter(|&score| score > target).count() as i64;
                scores.iter().all(|score| score.is_finite()) && better < k
            });
        }
        Ok(())
    })?;
    ctx.set_output(0, tensor);
    Ok(())
}

/// What arrives goes to where the largest elements were found; every row's places are moved to their place among all
/// elements.
fn top_k_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, x, places) = (d.dy(0)?, d.input(0)?, d.output(1));
    let places = d.cast(places, DType::Int32)?;
    let (shape, found) = (d.shape_of(x)?, d.shape_of(places)?);
    let (width, k) = (d.element(shape, -1)?, d.element(found, -1)?);
    let (minus_one, size) = (d.int(-1)?, d.product(shape)?);
    let by_row = d.vector([minus_one, k])?;
    let places = d.op("Reshape", [places, by_row])?;
    // A row without elements has no places to move.
    let one = d.int(1)?;
    let step = d.op("Maximum", [width, one])?;
    let rows = d.op("FloorDiv", [size, step])?;
    let rows = d.count_to(rows)?;
    let offsets = d.op("Mul", [rows, width])?;
    let offsets = d.expand(offsets, 1)?;
    let places = d.op("AddV2", [places, offsets])?;
    let places = d.flat(places)?;
    let places = d.expand(places, 1)?;
    let (updates, size) = (d.flat(dy)?, d.vector([size])?);
    let dx = d.op("ScatterNd", [places, updates, size])?;
    let dx = d.op("Reshape", [dx, shape])?;
    d.only(0, dx)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::testing::test_op;

    use proptest::prelude::*;

    fn top_k(input: Tensor, k: i32) -> Result<Vec<Tensor>> {
        test_op("TopKV2").with_shape_check().attr("T", input.dtype()).input(input).input(k.into()).run()
    }

    #[test]
    fn a_long_row_is_ordered_in_runs_with_looks_between_them() {
        let row: Vec<f32> = (0..1000).map(|index| ((index * 7919) % 101) as f32).collect();
        for k in [1, 2, 99, 500, 999, 1000] {
            let (looks, mut whole, mut in_runs) = (Cell::new(0), Vec::new(), vec![7]);
            let look = || {
                looks.set(looks.get() + 1);
                Ok(())
            };
            largest(&row, k, 1000, &mut whole, look).unwrap();
            assert_eq!((whole.len(), looks.take()), (k, 1));
            largest(&row, k, 64, &mut in_runs, look).unwrap();
            assert_eq!(in_runs, whole);
            assert!(looks.get() >= 1000 / 64 + 15, "{} looks", looks.get());
            let gives_up = || match looks.replace(looks.get() - 1) {
                0 => Err(Status::cancelled("the client is gone")),
                _ => Ok(()),
            };
            looks.set(looks.get() - 1);
            assert!(largest(&row, k, 64, &mut in_runs, gives_up).is_err(), "the last look counts, too");
        }
    }

    #[test]
    fn ties_go_to_the_lower_index() {
        let input = Tensor::from_slice(&[1.0f32, 3.0, 3.0, 2.0, 0.0, -1.0, 5.0, 5.0], &[2, 4]).unwrap();
        let out = top_k(input, 3).unwrap();
        assert_eq!(out[0].as_slice::<f32>().unwrap(), [3.0, 3.0, 2.0, 5.0, 5.0, 0.0]);
        assert_eq!(out[1].as_slice::<i32>().unwrap(), [1, 2, 3, 2, 3, 0]);
        let empty = top_k(Tensor::vector(&[1i64]).unwrap(), 0).unwrap();
        assert_eq!(empty[0].shape().dims(), [0]);
        let first = test_op("TopK").with_shape_check().attr("T", DType::UInt8).attr("k", 1i64);
        let out = first.input(Tensor::vector(&[3u8, 9, 9]).unwrap()).run().unwrap();
        assert_eq!(
            (out[0].as_slice::<u8>().unwrap(), out[1].as_slice::<i32>().unwrap()),
            (&[9][..], &[1][..])
        );
    }

    #[test]
    fn a_wrong_k_is_refused() {
        let text = |input: Tensor, k| top_k(input, k).unwrap_err().text().to_string();
        let pair = || Tensor::vector(&[1.0f32, 2.0]).unwrap();
        assert!(text(pair(), 3).contains("input must have at least k columns. Had 2, needed 3"));
        assert!(text(pair(), -1).contains("Need k >= 0, got -1"));
        assert!(text(1.0f32.into(), 1).contains("input must be >= 1-D"));
    }

    #[test]
    fn ties_at_the_border_are_in_and_what_is_not_finite_is_out() {
        let run = |rows: &[f32], targets: &[i32], k: i32| {
            let predictions = Tensor::from_slice(rows, &[targets.len(), rows.len() / targets.len()]).unwrap();
            let op = test_op("InTopKV2").with_shape_check().input(predictions);
            let out = op.input(Tensor::vector(targets).unwrap()).input(k.into()).run_one().unwrap();
            out.as_slice::<bool>().unwrap().to_vec()
        };
        assert_eq!(run(&[1.0, 3.0, 3.0, 2.0], &[2], 1), [true]);
        assert_eq!(run(&[1.0, 2.0, 3.0, 1.0, 2.0, 3.0], &[0, 5], 2), [false, false]);
        assert_eq!(run(&[1.0, f32::INFINITY, 3.0], &[0], 3), [false]);
        assert_eq!(run(&[1.0, f32::NAN, 3.0], &[2], 3), [false]);
        assert_eq!(run(&[1.0], &[0], 0), [false]);
        let op = test_op("InTopK").with_shape_check().attr("k", 1i64);
        let op = op.input(Tensor::from_slice(&[1.0f32], &[1, 1]).unwrap());
        let status = op.input(Tensor::vector(&[0, 0]).unwrap()).run_one().unwrap_err();
        assert!(status.text().contains("First dimension of predictions 1 must match length of targets 2"));
    }

    proptest! {
        #[test]
        fn the_top_is_the_start_of_a_stable_sort(row in prop::collection::vec(-5i32..5, 1..40), k in 0usize..40) {
            let k = k.min(row.len());
            let mut order: Vec<usize> = (0..row.len()).collect();
            order.sort_by_key(|&i| -row[i]);
            let out = top_k(Tensor::vector(&row).unwrap(), k as i32).unwrap();
            let found: Vec<usize> = out[1].as_slice::<i32>().unwrap().iter().map(|&i| i as usize).collect();
            prop_assert_eq!(&found[..], &order[..k]);
        }
    }
}
