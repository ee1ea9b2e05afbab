//! Softmax over the last dimension, and the cross-entropy losses that are computed with it.
//!
//! The row maximum is subtracted first, so that exponentials cannot overflow.

use std::borrow::Cow;

use tensorfleet_core::{DType, PartialShape, Result, Shape, Status, Tensor, bail, ensure, memory};

use tensorfleet_kernel::Work;
use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Formula, Grads, Symbol, apply};
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, broadcast_shapes, integers_of};
use tensorfleet_numeric::dispatch;
use tensorfleet_threads::{Loops, first_error};

use tensorfleet_numeric::number::Floating;
use tensorfleet_numeric::stored::{Stored, build_computed, build_sums, compute_elements};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Softmax", "logits: T -> softmax: T")
        .work(Work::Inputs)
        .attrs("T: floating")
        .shape(softmax_shape)
        .kernel(softmax)
        .gradient(softmax_gradient),
    Op::new("LogSoftmax", "logits: T -> logsoftmax: T")
        .work(Work::Inputs)
        .attrs("T: floating")
        .shape(softmax_shape)
        .kernel(log_softmax)
        .gradient(log_softmax_gradient),
    Op::new("SoftmaxCrossEntropyWithLogits", "features: T, labels: T -> loss: T, backprop: T")
        .work(Work::Inputs)
        .attrs("T: floating")
        .shape(cross_entropy_shape)
        .kernel(cross_entropy)
        .gradient(cross_entropy_gradient),
    Op::new("SparseSoftmaxCrossEntropyWithLogits", "features: T, labels: Tlabels -> loss: T, backprop: T")
        .work(Work::Inputs)
        .attrs("T: floating; Tlabels: {int32, int64} = int64")
        .shape(sparse_cross_entropy_shape)
        .kernel(sparse_cross_entropy)
        .gradient(sparse_cross_entropy_gradient),
];

/// The sum over the classes, which stay as an axis of length 1.
fn sum_over_classes(d: &mut Differential<'_>, value: impl Into<Formula>) -> Result<Symbol> {
    let value = d.build(value)?;
    let axis = Tensor::vector(&[-1i32])?;
    d.emit(NewNode::new("Sum").input(value).input(axis).attr("keep_dims", true)).map(Symbol)
}

fn softmax_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (y, dy) = (d.y(0), d.arriving_at(0)?);
    let mean = sum_over_classes(d, dy * y)?;
    d.flow([(dy - mean) * y])
}

fn log_softmax_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (y, dy) = (d.y(0), d.arriving_at(0)?);
    let total = sum_over_classes(d, dy)?;
    d.flow([dy - total * apply("Exp", y)])
}

/// The gradient of the logits: the kernel has computed it on the way, as its second output. If that output was itself
/// used, its own gradient comes on top.
fn logits_gradient(d: &mut Differential<'_>) -> Result<(Formula, Formula)> {
    let losses = d.dy(0)?;
    let axis = d.constant(Tensor::scalar(-1i32))?;
    let losses = d.op("ExpandDims", [losses, axis]).map(Symbol)?;
    let first = losses * d.y(1);
    if d.arriving(1).is_none() {
        return Ok((losses.into(), first));
    }
    let (logits, second) = (d.x(0)?, d.arriving_at(1)?);
    let softmax = d.share(apply("Softmax", logits))?;
    let mean = sum_over_classes(d, second * softmax)?;
    Ok((losses.into(), first + (second - mean) * softmax))
}

fn cross_entropy_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (losses, logits_gradient) = logits_gradient(d)?;
    let logits = d.x(0)?;
    d.flow([logits_gradient, losses * -apply("LogSoftmax", logits)])
}

fn sparse_cross_entropy_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (_, logits_gradient) = logits_gradient(d)?;
    d.flow_first(logits_gradient)
}

/// Cost of an exponential in hundredths of a nanosecond.
const EXPONENTIAL: usize = 120;

fn softmax_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let shape = ctx.input(0);
    ensure!(shape.rank() != Some(0), InvalidArgument, "Shape must be at least rank 1 but is rank 0");
    Ok(vec![shape.clone()])
}

fn cross_entropy_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let shape = broadcast_shapes(ctx.input(0), ctx.input(1))?.merge(&PartialShape::of_rank(2))?;
    Ok(vec![PartialShape::vector(shape.dim(0)), shape])
}

fn sparse_cross_entropy_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let (features, labels) = (ctx.input_with_rank(0, 2)?, ctx.input_with_rank(1, 1)?);
    let batch = PartialShape::vector(features.dim(0)).merge(&labels)?;
    let backprop = PartialShape::new([batch.dim(0), features.dim(1)]);
    Ok(vec![batch, backprop])
}

/// How many elements side by side a reduction keeps apart, so that it vectorises.
const LANES: usize = 16;

/// The largest element; NaN is passed over (it shows up in the sum anyway).
#[inline(always)]
fn maximum<T: Floating>(row: &[T]) -> T {
    let larger = |a: T, b: T| if b > a { b } else { a };
    let mut lanes = [T::LOWEST; LANES];
    let (blocks, rest) = row.as_chunks::<LANES>();
    for block in blocks {
        lanes.iter_mut().zip(block).for_each(|(max, &x)| *max = larger(*max, x));
    }
    rest.iter().copied().chain(lanes).fold(lanes[0], larger)
}

/// The sum of all elements.
#[inline(always)]
fn sum<T: Floating>(row: &[T]) -> T {
    let mut lanes = [T::ZERO; LANES];
    let (blocks, rest) = row.as_chunks::<LANES>();
    for block in blocks {
        lanes.iter_mut().zip(block).for_each(|(sum, &x)| *sum = *sum + x);
    }
    rest.iter().copied().chain(lanes).fold(T::ZERO, |sum, x| sum + x)
}

/// A row of logits, prepared: its exponentials with the maximum subtracted, and their sum.
struct Exponentials<T> {
    maximum: T,
    sum: T,
}

#[inline(always)]
fn exponentials<T: Floating>(row: &[T], powers: &mut [T]) -> Exponentials<T> {
    let maximum = maximum(row);
    powers.iter_mut().zip(row).for_each(|(power, &x)| *power = (x - maximum).exp_of_negative());
    Exponentials { maximum, sum: sum(powers) }
}

tensorfleet_numeric::simd_dispatch_widest! {
    fn softmax_row[T: Floating](logits: &[T], out: &mut [T], powers: &mut [T], infinities_apart: bool) {
        let Exponentials { maximum, sum: total } = exponentials(logits, powers);
        if maximum == T::HIGHEST && infinities_apart {
            return overwhelmed_row(logits, out);
        }
        let scale = T::ONE / total;
        out.iter_mut().zip(&*powers).for_each(|(out, &power)| *out = power * scale);
    }

    fn log_softmax_row[T: Floating](logits: &[T], out: &mut [T], powers: &mut [T]) {
        let Exponentials { maximum, sum } = exponentials(logits, powers);
        let log_sum = sum.ln();
        out.iter_mut().zip(logits).for_each(|(out, &x)| *out = (x - maximum) - log_sum);
    }

    /// Writes `softmax(logits) - labels` and returns the loss.
    fn cross_entropy_row[T: Floating](logits: &[T], labels: &[T], out: &mut [T], powers: &mut [T]) -> T {
        let Exponentials { maximum, sum: total } = exponentials(logits, powers);
        let log_sum = total.ln();
        for ((out, power), label) in out.iter_mut().zip(&*powers).zip(labels) {
            *out = *power / total - *label;
        }
        for ((power, x), label) in powers.iter_mut().zip(logits).zip(labels) {
            *power = *label * (log_sum - (*x - maximum));
        }
        sum(powers)
    }

    /// The same with a label that is 1 for one class.
    fn sparse_cross_entropy_row[T: Floating](logits: &[T], label: usize, out: &mut [T], powers: &mut [T]) -> T {
        let Exponentials { maximum, sum } = exponentials(logits, powers);
        out.iter_mut().zip(&*powers).for_each(|(out, &power)| *out = power / sum);
        out[label] = powers[label] / sum - T::ONE;
        sum.ln() - (logits[label] - maximum)
    }
}

/// Whether the softmax of a row with an infinite logit is not a number for that one only. TensorFlow 2.21 computes these dtypes with
/// oneDNN, which has it so; of the others the whole row is lost.
fn keeps_infinities_apart(dtype: DType) -> bool {
    matches!(dtype, DType::Float | DType::BFloat16)
}

/// The softmax of a row whose maximum is infinite: nothing is left for finite logits.
#[cold]
fn overwhelmed_row<T: Floating>(logits: &[T], out: &mut [T]) {
    let nan = T::constant(f64::NAN);
    for (out, &x) in out.iter_mut().zip(logits) {
        *out = if x < T::HIGHEST { T::ZERO } else { nan };
    }
}

/// Writes a row of the output from a row of the input, with scratch space as long as a row.
type Row<'a, T> = &'a (dyn Fn(&[T], &mut [T], &mut [T]) + Send + Sync);

fn softmax(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let apart = keeps_infinities_apart(node.dtype()?);
    dispatch!(node.dtype()?, T in floating => Ok(KernelBox::from_fn(move |ctx| {
        by_rows::<T>(ctx, &move |logits, out, powers| softmax_row(logits, out, powers, apart))
    })))
}

fn log_softmax(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in floating => Ok(KernelBox::from_fn(|ctx| by_rows::<T>(ctx, &log_softmax_row))))
}

fn by_rows<S: Stored<Compute: Floating>>(ctx: &mut Context<'_>, row: Row<'_, S::Compute>) -> Result<()> {
    let logits = ctx.input(0)?;
    let shape = logits.shape();
    let Some(&classes) = shape.last() else {
        bail!(InvalidArgument, "logits must have >= 1 dimension, got {shape}")
    };
    let from = compute_elements(logits.as_slice::<S>()?)?;
    let output = build_computed::<S>(shape.clone(), |out| {
        if classes > 0 {
            write_rows(ctx.loops(), &from, classes, row, out)?;
        }
        Ok(())
    })?;
    ctx.set_output(0, output);
    Ok(())
}

fn write_rows<T: Floating>(
    loops: &Loops,
    from: &[T],
    classes: usize,
    row: Row<'_, T>,
    out: &mut [T],
) -> Result<()> {
    let some_rows = |first: usize, piece: &mut [T]| -> Result<()> {
        let mut powers = memory::vec_of(T::ZERO, classes)?;
        let from = from[first * classes..].chunks(classes);
        for (out, logits) in piece.chunks_mut(classes).zip(from) {
            row(logits, out, &mut powers);
        }
        Ok(())
    };
    let cost = classes * EXPONENTIAL;
    first_error(|keep| loops.chunks_mut(out, classes, cost, |first, piece| keep(some_rows(first, piece))))
}

/// Gives the loss of a row, whose number it is told, and fills the row's backprop; with scratch space as long as a row.
type LossRow<'a, T> = &'a (dyn Fn(usize, &mut [T], &mut [T]) -> T + Send + Sync);

/// Computes loss and backprop row by row.
fn losses<S: Stored<Compute: Floating>>(
    loops: &Loops,
    [batch, classes]: [usize; 2],
    row: LossRow<'_, S::Compute>,
) -> Result<[Tensor; 2]> {
    let mut backprop = None;
    let loss = build_sums::<S>(Shape::vector(batch), |losses| {
        backprop = Some(build_computed::<S>(Shape::new(&[batch, classes])?, |gradients| {
            if classes > 0 {
                write_losses(loops, losses, gradients, classes, row)?;
            }
            Ok(())
        })?);
        Ok(())
    })?;
    let backprop = backprop.ok_or_else(|| Status::internal("a loss is built without its backprop"))?;
    Ok([loss, backprop])
}

fn write_losses<T: Floating>(
    loops: &Loops,
    losses: &mut [T],
    gradients: &mut [T],
    classes: usize,
    row: LossRow<'_, T>,
) -> Result<()> {
    let batch = losses.len();
    let shard = loops.shard_len(batch, classes.saturating_mul(EXPONENTIAL)).unwrap_or(batch).max(1);
    let pieces = losses.chunks_mut(shard).zip(gradients.chunks_mut(shard * classes)).enumerate();
    let some_rows = |at: usize, losses: &mut [T], gradients: &mut [T]| -> Result<()> {
        let mut powers = memory::vec_of(T::ZERO, classes)?;
        for (i, (loss, gradient)) in losses.iter_mut().zip(gradients.chunks_mut(classes)).enumerate() {
            *loss = row(at * shard + i, gradient, &mut powers);
        }
        Ok(())
    };
    first_error(|keep| {
        loops.each(pieces, |(at, (losses, gradients))| keep(some_rows(at, losses, gradients)));
    })
}

fn cross_entropy(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in floating => Ok(KernelBox::from_fn(run_cross_entropy::<T>)))
}

fn run_cross_entropy<S: Stored<Compute: Floating>>(ctx: &mut Context<'_>) -> Result<()> {
    let (features, labels) = (ctx.input(0)?, ctx.input(1)?);
    let sizes = common_matrix(features.shape(), labels.shape())?;
    let (features, labels) = (stretched::<S>(features, sizes)?, stretched::<S>(labels, sizes)?);
    let [_, classes] = sizes;
    let [loss, backprop] = losses::<S>(ctx.loops(), sizes, &|at, out, powers| {
        let range = at * classes..(at + 1) * classes;
        cross_entropy_row(&features[range.clone()], &labels[range], out, powers)
    })?;
    ctx.set_output(0, loss);
    ctx.set_output(1, backprop);
    Ok(())
}

/// The matrix that logits and labels broadcast to.
fn common_matrix(logits: &Shape, labels: &Shape) -> Result<[usize; 2]> {
    let common = broadcast_shapes(&logits.into(), &labels.into()).map_err(|_| {
        Status::invalid_argument(format!(
            "logits and labels must be broadcastable: logits_size={logits} labels_size={labels}"
        ))
    })?;
    match common.dims() {
        Some(&[Some(batch), Some(classes)]) => Ok([batch, classes]),
        _ => bail!(
            InvalidArgument,
            "logits and labels must be either 2-dimensional, or broadcasted to be 2-dimensional"
        ),
    }
}

/// The tensor's elements, repeated to fill a matrix where it is smaller.
fn stretched<S: Stored>(tensor: &Tensor, [rows, cols]: [usize; 2]) -> Result<Cow<'_, [S::Compute]>> {
    let elements = compute_elements(tensor.as_slice::<S>()?)?;
    if elements.len() == rows * cols {
        return Ok(elements);
    }
    let elements = &*elements;
    let own_cols = tensor.shape().last().copied().unwrap_or(1);
    let own_rows = elements.len() / own_cols.max(1);
    let at = |row: usize, col: usize| {
        (if own_rows == 1 { 0 } else { row }) * own_cols + if own_cols == 1 { 0 } else { col }
    };
    let mut filled = memory::vec_with_room(rows * cols)?;
    for row in 0..rows {
        filled.extend((0..cols).map(|col| elements[at(row, col)]));
    }
    Ok(Cow::Owned(filled))
}

fn sparse_cross_entropy(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in floating => Ok(KernelBox::from_fn(run_sparse_cross_entropy::<T>)))
}

fn run_sparse_cross_entropy<S: Stored<Compute: Floating>>(ctx: &mut Context<'_>) -> Result<()> {
    let (features, labels) = (ctx.input(0)?, ctx.input(1)?);
    let sizes = sparse_sizes(features.shape(), labels.shape())?;
    let [_, classes] = sizes;
    let labels = checked_labels(&integers_of(labels)?, classes)?;
    let features = compute_elements(features.as_slice::<S>()?)?;
    let [loss, backprop] = losses::<S>(ctx.loops(), sizes, &|at, out, powers| {
        sparse_cross_entropy_row(&features[at * classes..(at + 1) * classes], labels[at], out, powers)
    })?;
    ctx.set_output(0, loss);
    ctx.set_output(1, backprop);
    Ok(())
}

fn sparse_sizes(logits: &Shape, labels: &Shape) -> Result<[usize; 2]> {
    let &[batch, classes] = logits.dims() else {
        bail!(InvalidArgument, "logits must be 2-D, but got shape {logits}")
    };
    let &[count] = labels.dims() else {
        bail!(InvalidArgument, "labels must be 1-D, but got shape {labels}")
    };
    ensure!(
        count == batch,
        InvalidArgument,
        "logits and labels must have the same first dimension, got logits shape {logits} and labels shape {labels}"
    );
    ensure!(classes > 0, InvalidArgument, "Must have at least one class, but got logits shape {logits}");
    Ok([batch, classes])
}

fn checked_labels(labels: &[i64], classes: usize) -> Result<Vec<usize>> {
    let check = |&label: &i64| {
        usize::try_from(label).ok().filter(|&label| label < classes).ok_or_else(|| {
            Status::invalid_argument(format!(
                "Received a label value of {label} which is outside the valid range of [0, {classes})."
            ))
        })
    };
    let mut checked = memory::vec_with_room(labels.len())?;
    for label in labels {
        checked.push(check(label)?);
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestOp, test_op};
    use half::f16;
    use tensorfleet_core::{Code, Element};

    const NAN: f32 = f32::NAN;
    const INF: f32 = f32::INFINITY;

    fn close(found: &Tensor, expected: &[f32]) {
        let found = found.as_slice::<f32>().unwrap();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (&x, &y) in found.iter().zip(expected) {
            let same = x == y || (x - y).abs() <= 1e-6 * y.abs().max(1.0) || (x.is_nan() && y.is_nan());
            assert!(same, "{found:?} instead of {expected:?}");
        }
    }

    fn matrix<T: Element>(rows: &[&[T]]) -> Tensor {
        Tensor::from_slice(&rows.concat(), &[rows.len(), rows.first().map_or(0, |row| row.len())]).unwrap()
    }

    fn run(op: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let first = test_op(op).attr("T", inputs[0].dtype());
        let first = inputs.get(1).into_iter().fold(first, |run, labels| run.attr("Tlabels", labels.dtype()));
        inputs.iter().cloned().fold(first, TestOp::input).run()
    }

    #[test]
    fn an_infinite_logit_leaves_nothing_for_others() {
        // What TensorFlow 2.21 gives.
        let softmax = |logits: Tensor| run("Softmax", &[logits]).unwrap().remove(0);
        let single =
            softmax(matrix(&[&[1.0, INF, 2.0], &[INF, -INF, INF], &[INF, NAN, 0.0], &[-INF, -INF, -INF]]));
        close(&single, &[0.0, NAN, 0.0, NAN, 0.0, NAN, NAN, NAN, 0.0, NAN, NAN, NAN]);
        let double = softmax(matrix(&[&[1.0, f64::INFINITY, 2.0]]));
        assert!(double.as_slice::<f64>().unwrap().iter().all(|x| x.is_nan()));
        let half = softmax(matrix(&[&[f16::ONE, f16::INFINITY]]));
        assert!(half.as_slice::<f16>().unwrap().iter().all(|x| x.is_nan()));
    }

    #[test]
    fn rows_sum_to_one_even_for_large_logits() {
        let logits = matrix(&[&[1000.0f32, 0.0, -1000.0], &[-500.0, -500.0, -500.0], &[1.0, 2.0, 3.0]]);
        let third = 1.0 / 3.0;
        let softmax = [1.0, 0.0, 0.0, third, third, third, 0.090_030_57, 0.244_728_47, 0.665_240_94];
        close(&run("Softmax", std::slice::from_ref(&logits)).unwrap()[0], &softmax);
        let log = [
            0.0,
            -1000.0,
            -2000.0,
            -1.098_612_3,
            -1.098_612_3,
            -1.098_612_3,
            -2.407_606,
            -1.407_606,
            -0.407_606,
        ];
        close(&run("LogSoftmax", &[logits]).unwrap()[0], &log);
    }

    #[test]
    fn infinite_and_missing_logits_follow_ieee() {
        let logits = matrix(&[&[-INF, 1.0], &[-INF, -INF]]);
        close(&run("Softmax", &[logits]).unwrap()[0], &[0.0, 1.0, NAN, NAN]);
        let empty = Tensor::zeros(DType::Float, Shape::new(&[2, 0]).unwrap()).unwrap();
        assert_eq!(run("Softmax", &[empty]).unwrap()[0].shape().dims(), [2, 0]);
        let status = run("Softmax", &[Tensor::scalar(1.0f32)]).unwrap_err();
        assert_eq!(status.text(), "logits must have >= 1 dimension, got []");
    }

    #[test]
    fn halves_are_summed_in_single_precision() {
        let found = run("Softmax", &[matrix(&[&[f16::ONE; 3000]])]).unwrap();
        assert_eq!(found[0].as_slice::<f16>().unwrap()[0], f16::from_f32(1.0 / 3000.0));
    }

    #[test]
    fn the_loss_is_the_cross_entropy_and_backprop_its_gradient() {
        let logits = matrix(&[&[1.0f32, 2.0, 3.0]]);
        let backprop = [0.090_030_57, -0.755_271_5, 0.665_240_94];
        let dense =
            run("SoftmaxCrossEntropyWithLogits", &[logits.clone(), matrix(&[&[0.0f32, 1.0, 0.0]])]).unwrap();
        close(&dense[0], &[1.407_606]);
        close(&dense[1], &backprop);
        let sparse =
            run("SparseSoftmaxCrossEntropyWithLogits", &[logits, Tensor::vector(&[1i32]).unwrap()]).unwrap();
        close(&sparse[0], &[1.407_606]);
        close(&sparse[1], &backprop);
    }

    #[test]
    fn labels_and_logits_broadcast() {
        let zeros = |dims: &[usize]| Tensor::zeros(DType::Float, Shape::new(dims).unwrap()).unwrap();
        let op = "SoftmaxCrossEntropyWithLogits";
        let found = run(op, &[zeros(&[2, 3]), matrix(&[&[1.0f32, 0.0, 0.0]])]).unwrap();
        let third = 1.0 / 3.0;
        close(&found[0], &[1.098_612_3; 2]);
        close(&found[1], &[third - 1.0, third, third, third - 1.0, third, third]);
        for (logits, labels) in [(&[1, 3][..], &[2, 3][..]), (&[2, 3], &[2, 1]), (&[2, 3], &[3])] {
            close(&run(op, &[zeros(logits), zeros(labels)]).unwrap()[1], &[third; 6]);
        }
        close(&run(op, &[zeros(&[2, 0]), zeros(&[2, 0])]).unwrap()[0], &[0.0; 2]);
        for (logits, labels) in [(&[2, 3][..], &[2, 4][..]), (&[3], &[3]), (&[2, 1, 3], &[2, 1, 3])] {
            assert_eq!(run(op, &[zeros(logits), zeros(labels)]).unwrap_err().code(), Code::InvalidArgument);
        }
    }

    #[test]
    fn labels_outside_the_classes_are_refused() {
        let op = "SparseSoftmaxCrossEntropyWithLogits";
        let logits = matrix(&[&[0.0f32; 3], &[0.0; 3]]);
        for label in [3i64, -1, i64::MIN] {
            let status = run(op, &[logits.clone(), Tensor::vector(&[0, label]).unwrap()]).unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            assert!(status.text().contains("outside the valid range of [0, 3)"));
        }
        let status = run(op, &[logits, Tensor::vector(&[0i64]).unwrap()]).unwrap_err();
        assert!(status.text().contains("must have the same first dimension"));
    }
}
