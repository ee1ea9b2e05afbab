//! `Multinomial`: classes drawn with the probabilities that rows of logits give.

use tensorfleet_core::{DType, PartialShape, Result, Tensor, ensure, memory};

use super::fills::stateless_stream;
use super::stream::Stream;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::philox::{Philox, Singles};

/// How many samples are drawn before the next look whether anybody waits for them: some milliseconds.
const BETWEEN_CHECKS: usize = 1 << 16;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Multinomial", "logits: T, num_samples: int32 -> output: output_dtype")
        .not_differentiable()
        .attrs("seed: int = 0; seed2: int = 0; T: real; output_dtype: {int32, int64} = int64")
        .random()
        .shape(shape)
        .kernel(multinomial),
    Op::new("StatelessMultinomial", "logits: T, num_samples: int32, seed: Tseed -> output: output_dtype")
        .not_differentiable()
        .attrs("T: real; Tseed: {int32, int64} = int64; output_dtype: {int32, int64} = int64")
        .shape(shape)
        .kernel(stateless_multinomial),
];

fn shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let logits = ctx.input_with_rank(0, 2)?;
    let batch = logits.dims().and_then(|dims| dims[0]);
    let samples = ctx.integer(1).and_then(|count| usize::try_from(count).ok());
    Ok(vec![PartialShape::new([batch, samples])])
}

fn multinomial(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let stream = Stream::of_node(node)?;
    let dtype = node.output_dtype(0)?;
    Ok(KernelBox::from_fn(move |ctx| {
        // TensorFlow rounds up to groups of four and counts two numbers for a double.
        let reserve = |rows: usize, samples: usize| {
            stream.reserve_outputs((rows * samples.next_multiple_of(4) * 2) as u64)
        };
        let output = draw(ctx, dtype, reserve)?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

fn stateless_multinomial(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype = node.output_dtype(0)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let base = stateless_stream(ctx.input(2)?)?;
        let output = draw(ctx, dtype, |_, _| base)?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

fn draw(ctx: &Context<'_>, dtype: DType, reserve: impl FnOnce(usize, usize) -> Philox) -> Result<Tensor> {
    let (logits, count) = (ctx.input(0)?, ctx.input(1)?);
    ensure!(
        logits.shape().rank() == 2,
        InvalidArgument,
        "logits should be a matrix, got shape {}",
        logits.shape()
    );
    ensure!(
        count.is_scalar(),
        InvalidArgument,
        "num_samples should be a scalar, got shape {}",
        count.shape()
    );
    let count: i32 = count.to_scalar()?;
    ensure!(count >= 0, InvalidArgument, "num_samples should be nonnegative, got {count}");
    let (rows, classes, count) = (logits.shape()[0], logits.shape()[1], count as usize);
    ensure!(classes > 0 || rows == 0, InvalidArgument, "num_classes should be positive, got 0");
    let shape = tensorfleet_core::Shape::new(&[rows, count])?;
    let wide = as_doubles(logits)?;
    let picked = Tensor::build::<i64>(shape.clone(), |picked| {
        if picked.is_empty() {
            return Ok(());
        }
        let mut singles = Singles::new(reserve(rows, count));
        for (row, picked) in wide.chunks_exact(classes).zip(picked.chunks_exact_mut(count)) {
            let cumulated = cumulate(row)?;
            let total = cumulated[classes - 1];
            for picked in picked.chunks_mut(BETWEEN_CHECKS) {
                ctx.check_cancelled()?;
                picked.fill_with(|| {
                    let wanted = singles.next_f64() * total;
                    cumulated.partition_point(|&sum| sum <= wanted) as i64
                });
            }
        }
        Ok(())
    })?;
    match dtype {
        DType::Int32 => Tensor::build::<i32>(shape, |narrow| {
            narrow
                .iter_mut()
                .zip(picked.as_slice::<i64>()?)
                .for_each(|(narrow, &class)| *narrow = class as i32);
            Ok(())
        }),
        _ => Ok(picked),
    }
}

/// Running sums of the probabilities, up to a factor; classes without a finite logit have none.
fn cumulate(logits: &[f64]) -> Result<Vec<f64>> {
    let finite = logits.iter().copied().filter(|logit| logit.is_finite());
    let largest = finite.fold(f64::MIN, f64::max);
    let mut sum = 0.0;
    let add = |&logit: &f64| {
        if logit.is_finite() {
            sum += (logit - largest).exp();
        }
        sum
    };
    memory::collect(logits.iter().map(add))
}

fn as_doubles(tensor: &Tensor) -> Result<Vec<f64>> {
    use num_traits::AsPrimitive;
    dispatch!(tensor.dtype(), T in real => {
        memory::collect(tensor.as_slice::<T>()?.iter().map(|&value| AsPrimitive::<f64>::as_(value)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestOp, test_op};
    use tensorfleet_core::Code;

    fn op(logits: Tensor, count: i32) -> TestOp {
        let op = test_op("Multinomial").attr("T", logits.dtype()).attr("seed", 5i64).attr("seed2", 2i64);
        op.input(logits).input(Tensor::scalar(count))
    }

    #[test]
    fn classes_are_tensorflows() {
        let logits = Tensor::from_slice(&[0.0f32, 1.0, 2.0, 1.0, 0.0, -1.0], &[2, 3]).unwrap();
        let runs = op(logits.clone(), 6).run_times(2).unwrap();
        assert_eq!(runs[0][0].as_slice::<i64>().unwrap(), [1, 1, 1, 2, 2, 0, 0, 1, 1, 0, 0, 0]);
        assert_eq!(runs[1][0].as_slice::<i64>().unwrap(), [1, 1, 1, 2, 2, 1, 2, 0, 0, 0, 0, 1]);
        let odd = [0.0f64, 1.0, f64::INFINITY, 1.0, f64::NAN, -1.0];
        let odd = op(Tensor::from_slice(&odd, &[2, 3]).unwrap(), 6).attr("output_dtype", DType::Int32);
        let runs = odd.run_times(2).unwrap();
        assert_eq!(runs[0][0].as_slice::<i32>().unwrap(), [0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(runs[1][0].as_slice::<i32>().unwrap(), [0, 0, 1, 1, 1, 1, 2, 0, 0, 0, 0, 0]);
        let stateless = test_op("StatelessMultinomial").attr("T", DType::Float).input(logits);
        let stateless = stateless.input(Tensor::scalar(6i32)).input(Tensor::vector(&[7i64, 3]).unwrap());
        let output = stateless.run_one().unwrap();
        assert_eq!(output.as_slice::<i64>().unwrap(), [2, 2, 2, 1, 2, 1, 1, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn bad_inputs_are_refused() {
        let vector = Tensor::vector(&[0.0f32]).unwrap();
        assert_eq!(op(vector, 1).run().unwrap_err().code(), Code::InvalidArgument);
        let none = Tensor::from_slice::<f32>(&[], &[1, 0]).unwrap();
        assert_eq!(op(none, 1).run().unwrap_err().code(), Code::InvalidArgument);
        let empty = Tensor::from_slice::<f32>(&[], &[0, 3]).unwrap();
        assert_eq!(op(empty.clone(), 2).run_one().unwrap().num_elements(), 0);
        assert_eq!(op(empty, -1).run().unwrap_err().code(), Code::InvalidArgument);
        let many = Tensor::from_slice(&[0.0f32; 100_000], &[100_000, 1]).unwrap();
        assert_eq!(op(many, i32::MAX).run().unwrap_err().code(), Code::ResourceExhausted);
    }
}
