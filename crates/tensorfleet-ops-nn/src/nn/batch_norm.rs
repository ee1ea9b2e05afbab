//! Batch normalisation: every channel is brought to mean 0 and variance 1, then scaled and shifted.
//!
//! In training, `y` uses the biased variance of the batch, while the variance *output* (for moving averages) is
//! the unbiased one. The reserve outputs carry mean and biased variance to the gradient.

use tensorfleet_core::{PartialShape, Result, Shape, Tensor, bail, ensure, memory};

use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_threads::Loops;

use super::batch_norm_gradients::{norm_grad_gradient, norm_gradient};
use tensorfleet_numeric::stored::{build_floats, check_narrow, floats_of};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new(
        "FusedBatchNorm",
        "x: T, scale: T, offset: T, mean: T, variance: T -> y: T, batch_mean: T, batch_variance: T, \
         reserve_space_1: T, reserve_space_2: T",
    ).work(Work::Inputs)
    .attrs(
        "T: {float}; epsilon: float = 0.0001; exponential_avg_factor: float = 1.0; \
         data_format: {'NHWC', 'NCHW'} = 'NHWC'; is_training: bool = true",
    )
    .shape(norm_shape)
    .kernel(norm).gradient(norm_gradient),
    Op::new(
        "FusedBatchNormV2",
        "x: T, scale: U, offset: U, mean: U, variance: U -> y: T, batch_mean: U, batch_variance: U, \
         reserve_space_1: U, reserve_space_2: U",
    ).work(Work::Inputs)
    .attrs(
        "T: {half, bfloat16, float}; U: {float}; epsilon: float = 0.0001; exponential_avg_factor: float = 1.0; \
         data_format: {'NHWC', 'NCHW'} = 'NHWC'; is_training: bool = true",
    )
    .shape(norm_shape)
    .kernel(norm).gradient(norm_gradient),
    Op::new(
        "FusedBatchNormV3",
        "x: T, scale: U, offset: U, mean: U, variance: U -> y: T, batch_mean: U, batch_variance: U, \
         reserve_space_1: U, reserve_space_2: U, reserve_space_3: U",
    ).work(Work::Inputs)
    .attrs(
        "T: {half, bfloat16, float}; U: {bfloat16, float}; epsilon: float = 0.0001; \
         exponential_avg_factor: float = 1.0; data_format: {'NHWC', 'NCHW', 'NDHWC', 'NCDHW'} = 'NHWC'; \
         is_training: bool = true",
    )
    .shape(norm_shape)
    .kernel(norm).gradient(norm_gradient),
    Op::new(
        "FusedBatchNormGrad",
        "y_backprop: T, x: T, scale: T, reserve_space_1: T, reserve_space_2: T -> x_backprop: T, \
         scale_backprop: T, offset_backprop: T, reserve_space_3: T, reserve_space_4: T",
    ).work(Work::Inputs)
    .attrs(
        "T: {float}; epsilon: float = 0.0001; data_format: {'NHWC', 'NCHW'} = 'NHWC'; is_training: bool = true",
    )
    .shape(norm_grad_shape)
    .kernel(norm_grad).gradient(norm_grad_gradient),
    Op::new(
        "FusedBatchNormGradV2",
        "y_backprop: T, x: T, scale: float, reserve_space_1: U, reserve_space_2: U -> x_backprop: T, \
         scale_backprop: U, offset_backprop: U, reserve_space_3: U, reserve_space_4: U",
    ).work(Work::Inputs)
    .attrs(
        "T: {half, bfloat16, float}; U: {float}; epsilon: float = 0.0001; \
         data_format: {'NHWC', 'NCHW'} = 'NHWC'; is_training: bool = true",
    )
    .shape(norm_grad_shape)
    .kernel(norm_grad).gradient(norm_grad_gradient),
    Op::new(
        "FusedBatchNormGradV3",
        "y_backprop: T, x: T, scale: float, reserve_space_1: U, reserve_space_2: U, reserve_space_3: U -> \
         x_backprop: T, scale_backprop: U, offset_backprop: U, reserve_space_4: U, reserve_space_5: U",
    ).work(Work::Inputs)
    .attrs(
        "T: {half, bfloat16, float}; U: {float}; epsilon: float = 0.0001; \
         data_format: {'NHWC', 'NCHW', 'NDHWC', 'NCDHW'} = 'NHWC'; is_training: bool = true",
    )
    .shape(norm_grad_shape)
    .kernel(norm_grad).gradient(norm_grad_gradient),
];

/// The axis of the channels, for a shape of this rank.
fn channel_axis(node: &NodeSpec<'_>, rank: usize) -> Result<usize> {
    ensure!((4..=5).contains(&rank), InvalidArgument, "input must be 4 or 5-dimensional, its rank is {rank}");
    let format: String = node.attr("data_format")?;
    Ok(if format.starts_with("NC") { 1 } else { rank - 1 })
}

fn norm_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let x = ctx.input(0).clone();
    let mut channels = PartialShape::vector(None);
    if let Some(rank) = x.rank() {
        channels = PartialShape::vector(x.dim(channel_axis(ctx.node, rank)?));
    }
    let given = if ctx.attr("is_training")? { 2 } else { 4 };
    for index in 1..=given {
        channels = channels.merge(ctx.input(index))?;
    }
    let mut shapes = vec![x];
    shapes.extend(std::iter::repeat_n(channels, 4));
    shapes.extend((shapes.len()..ctx.num_outputs()).map(|_| PartialShape::scalar()));
    Ok(shapes)
}

fn norm_grad_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let x = ctx.input(0).merge(ctx.input(1))?;
    let mut channels = ctx.input(2).merge(&PartialShape::vector(None))?;
    if let Some(rank) = x.rank() {
        channels = channels.merge(&PartialShape::vector(x.dim(channel_axis(ctx.node, rank)?)))?;
    }
    let nothing = PartialShape::vector(Some(0));
    Ok(vec![x, channels.clone(), channels, nothing.clone(), nothing])
}

/// A tensor seen as `outer * channels * inner` elements.
#[derive(Clone, Copy)]
struct Channels {
    outer: usize,
    count: usize,
    inner: usize,
}

impl Channels {
    fn of(shape: &Shape, channels_first: bool) -> Result<Channels> {
        let rank = shape.rank();
        ensure!((4..=5).contains(&rank), InvalidArgument, "input must be 4 or 5-dimensional{shape}");
        let axis = if channels_first { 1 } else { rank - 1 };
        Ok(Channels {
            outer: shape[..axis].iter().product(),
            count: shape[axis],
            inner: shape[axis + 1..].iter().product(),
        })
    }

    /// Elements of each channel.
    fn population(&self) -> usize {
        self.outer * self.inner
    }

    /// Sums `terms(element, channel)` over each channel, in double precision and in blocks, which keeps the sums
    /// of large batches exact.
    fn sums(
        &self,
        loops: &Loops,
        x: &[f32],
        terms: impl Fn(usize, f64, usize) -> [f64; 2] + Send + Sync,
    ) -> Result<Vec<[f64; 2]>> {
        let mut total = memory::vec_of([0.0; 2], self.count)?;
        if x.is_empty() {
            return Ok(total);
        }
        let rows_per_block = (4096 / (self.count * self.inner)).max(1);
        let block_len = rows_per_block * self.count * self.inner;
        let mut partial = memory::vec_of([0.0; 2], self.outer.div_ceil(rows_per_block) * self.count)?;
        loops.chunks_mut(&mut partial, self.count, block_len * 100, |first, partial| {
            let blocks = x[first * block_len..].chunks(block_len).enumerate();
            for (sums, (at, block)) in partial.chunks_mut(self.count).zip(blocks) {
                let start = (first + at) * block_len;
                for (run, values) in block.chunks(self.inner).enumerate() {
                    let channel = run % self.count;
                    for (i, &x) in values.iter().enumerate() {
                        let [a, b] = terms(start + run * self.inner + i, f64::from(x), channel);
                        sums[channel] = [sums[channel][0] + a, sums[channel][1] + b];
                    }
                }
            }
        });
        for block in partial.chunks(self.count) {
            total.iter_mut().zip(block).for_each(|(total, part)| {
                *total = [total[0] + part[0], total[1] + part[1]];
            });
        }
        Ok(total)
    }

    /// Writes `value(position, channel)` everywhere.
    fn fill(&self, loops: &Loops, out: &mut [f32], value: impl Fn(usize, usize) -> f32 + Send + Sync) {
        let unit = self.count * self.inner;
        if out.is_empty() {
            return;
        }
        loops.chunks_mut(out, unit, unit * 60, |first, piece| {
            for (run, out) in piece.chunks_mut(self.inner).enumerate() {
                let (channel, start) = (run % self.count, first * unit + run * self.inner);
                out.iter_mut().enumerate().for_each(|(i, out)| *out = value(start + i, channel));
            }
        });
    }
}

/// What the kernels of a node have in common.
#[derive(Clone, Copy)]
struct Norm {
    epsilon: f32,
    channels_first: bool,
    is_training: bool,
}

impl Norm {
    fn of(node: &NodeSpec<'_>) -> Result<Norm> {
        Ok(Norm {
            epsilon: node.attr("epsilon")?,
            channels_first: node.attr::<String>("data_format")?.starts_with("NC"),
            is_training: node.attr("is_training")?,
        })
    }

    /// One over the standard deviation.
    fn inverse_deviation(&self, variance: f32) -> f32 {
        1.0 / (variance + self.epsilon).sqrt()
    }
}

/// A vector with one value for each channel.
fn per_channel<'a>(tensor: &'a Tensor, name: &str, count: usize) -> Result<&'a [f32]> {
    ensure!(tensor.shape().rank() == 1, InvalidArgument, "{name} must be 1-dimensional{}", tensor.shape());
    let values = tensor.as_slice::<f32>()?;
    ensure!(
        values.len() == count,
        InvalidArgument,
        "{name} must have the same number of elements as the channels of x, got {} and {count}",
        values.len()
    );
    Ok(values)
}

fn norm(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let norm = Norm::of(node)?;
    let factor: f32 = node.attr("exponential_avg_factor")?;
    if node.output_dtype(1)? != tensorfleet_core::DType::Float {
        return Err(tensorfleet_numeric::dispatch::no_kernel(node.output_dtype(1)?));
    }
    let has_reserve_3 = node.outputs.len() == 6;
    check_narrow(node.dtype()?)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let x = ctx.input(0)?;
        let channels = Channels::of(x.shape(), norm.channels_first)?;
        let scale = per_channel(ctx.input(1)?, "scale", channels.count)?;
        let offset = per_channel(ctx.input(2)?, "offset", channels.count)?;
        let given = |index, name| per_channel(ctx.input(index)?, name, channels.count);
        let elements = floats_of(x)?;
        let statistics = if norm.is_training {
            let old = if factor == 1.0 { None } else { Some((given(3, "mean")?, given(4, "variance")?)) };
            Statistics::of_batch(ctx.loops(), &elements, &channels, old, factor)?
        } else {
            Statistics::given(given(3, "mean")?, given(4, "variance")?)?
        };
        // TensorFlow 2.21 has the same answer for an empty batch, in training or not.
        let statistics =
            if elements.is_empty() { Statistics::of_nothing(channels.count)? } else { statistics };
        let gain = |(&v, &s): (&f32, &f32)| norm.inverse_deviation(v) * s;
        let gains = memory::collect(statistics.variance.iter().zip(scale).map(gain))?;
        let y = build_floats(x.dtype(), x.shape().clone(), |out| {
            channels.fill(ctx.loops(), out, |at, channel| {
                (elements[at] - statistics.mean[channel]) * gains[channel] + offset[channel]
            });
            Ok(())
        })?;
        ctx.set_output(0, y);
        ctx.set_output(1, Tensor::vector(&statistics.new_mean)?);
        ctx.set_output(2, Tensor::vector(&statistics.new_variance)?);
        ctx.set_output(3, Tensor::vector(&statistics.mean)?);
        ctx.set_output(4, Tensor::vector(&statistics.variance)?);
        if has_reserve_3 {
            ctx.set_output(5, Tensor::scalar(0.0f32));
        }
        Ok(())
    }))
}

/// Mean and variance of each channel, and what the moving averages become.
struct Statistics {
    mean: Vec<f32>,
    variance: Vec<f32>,
    new_mean: Vec<f32>,
    new_variance: Vec<f32>,
}

impl Statistics {
    fn given(mean: &[f32], variance: &[f32]) -> Result<Statistics> {
        let copy = memory::copy_of;
        Ok(Statistics {
            mean: copy(mean)?,
            variance: copy(variance)?,
            new_mean: copy(mean)?,
            new_variance: copy(variance)?,
        })
    }

    fn of_nothing(channels: usize) -> Result<Statistics> {
        let all = |value: f32| memory::vec_of(value, channels);
        let (new_mean, new_variance) = (all(f32::NAN)?, all(f32::NAN)?);
        Ok(Statistics { mean: all(0.0)?, variance: all(0.0)?, new_mean, new_variance })
    }

    fn of_batch(
        loops: &Loops,
        x: &[f32],
        channels: &Channels,
        old: Option<(&[f32], &[f32])>,
        factor: f32,
    ) -> Result<Statistics> {
        let population = channels.population() as f64;
        let sums = channels.sums(loops, x, |_, x, _| [x, 0.0])?;
        let means = memory::collect(sums.iter().map(|[sum, _]| sum / population))?;
        let squares =
            channels.sums(loops, x, |_, x, channel| [(x - means[channel]) * (x - means[channel]), 0.0])?;
        let mean = memory::collect(means.iter().map(|&mean| mean as f32))?;
        let variance = memory::collect(squares.iter().map(|[sum, _]| (sum / population) as f32))?;
        let unbiased = (population / (population - 1.0).max(1.0)) as f32;
        let mut new_mean = memory::copy_of(&mean)?;
        let mut new_variance = memory::collect(variance.iter().map(|&variance| variance * unbiased))?;
        if let Some((old_mean, old_variance)) = old {
            for (new, old) in [(&mut new_mean, old_mean), (&mut new_variance, old_variance)] {
                new.iter_mut().zip(old).for_each(|(new, old)| *new = (1.0 - factor) * old + factor * *new);
            }
        }
        Ok(Statistics { mean, variance, new_mean, new_variance })
    }
}

fn norm_grad(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let norm = Norm::of(node)?;
    check_narrow(node.dtype()?)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let (gradient, x) = (ctx.input(0)?, ctx.input(1)?);
        let channels = Channels::of(x.shape(), norm.channels_first)?;
        if x.shape() != gradient.shape() {
            bail!(
                InvalidArgument,
                "x and y_backprop must have same shape, but x has shape {} and y_backprop has shape {}",
                x.shape(),
                gradient.shape()
            );
        }
        let scale = per_channel(ctx.input(2)?, "scale", channels.count)?;
        let mean = per_channel(ctx.input(3)?, "reserve_space_1", channels.count)?;
        let variance = per_channel(ctx.input(4)?, "reserve_space_2", channels.count)?;
        let (dtype, shape) = (x.dtype(), x.shape().clone());
        let (x, gradient) = (floats_of(x)?, floats_of(gradient)?);
        let sums = channels.sums(ctx.loops(), &x, |at, x, channel| {
            let gradient = f64::from(gradient[at]);
            [gradient, gradient * (x - mean[channel] as f64)]
        })?;
        let population = channels.population().max(1) as f64;
        let inverse = memory::collect(variance.iter().map(|&variance| norm.inverse_deviation(variance)))?;
        // dx = gain * (dy - shift - slope * (x - mean)); the last two vanish if the statistics are constants.
        let terms: Vec<[f32; 3]> = memory::collect((0..channels.count).map(|channel| {
            let gain = scale[channel] * inverse[channel];
            if !norm.is_training {
                return [gain, 0.0, 0.0];
            }
            let [sum, product] = sums[channel];
            let deviation = variance[channel] as f64 + norm.epsilon as f64;
            [gain, (sum / population) as f32, (product / population / deviation) as f32]
        }))?;
        let backprop = build_floats(dtype, shape, |out| {
            channels.fill(ctx.loops(), out, |at, channel| {
                let [gain, shift, slope] = terms[channel];
                gain * (gradient[at] - shift - slope * (x[at] - mean[channel]))
            });
            Ok(())
        })?;
        let scaled = |([_, product], &inverse): (&[f64; 2], &f32)| *product as f32 * inverse;
        let for_scale = memory::collect(sums.iter().zip(&inverse).map(scaled))?;
        let for_offset = memory::collect(sums.iter().map(|[sum, _]| *sum as f32))?;
        ctx.set_output(0, backprop);
        ctx.set_output(1, Tensor::vector(&for_scale)?);
        ctx.set_output(2, Tensor::vector(&for_offset)?);
        ctx.set_output(3, Tensor::vector::<f32>(&[])?);
        ctx.set_output(4, Tensor::vector::<f32>(&[])?);
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestOp, test_op};
    use tensorfleet_core::{Code, DType};

    fn floats(values: &[f32]) -> Tensor {
        Tensor::vector(values).unwrap()
    }

    fn image(values: impl Fn(f32) -> f32) -> Tensor {
        let values: Vec<f32> = (0..8).map(|i| values(i as f32)).collect();
        Tensor::from_slice(&values, &[1, 2, 2, 2]).unwrap()
    }

    fn norm(x: Tensor, mean: &[f32], variance: &[f32]) -> TestOp {
        let run = test_op("FusedBatchNormV3").attr("T", DType::Float).attr("U", DType::Float).input(x);
        run.input(floats(&[1.0, 2.0])).input(floats(&[0.0, 1.0])).input(floats(mean)).input(floats(variance))
    }

    fn assert_close(found: &Tensor, expected: &[f32]) {
        let found = found.as_slice::<f32>().unwrap();
        assert_eq!(found.len(), expected.len());
        assert!(
            found.iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-4),
            "{found:?} instead of {expected:?}"
        );
    }

    #[test]
    fn training_gives_unbiased_variances_and_keeps_biased_ones_for_the_gradient() {
        let found = norm(image(|x| x), &[], &[]).run().unwrap();
        assert_close(
            &found[0],
            &[-1.341_627, -1.683_255, -0.447_209, 0.105_582, 0.447_209, 1.894_418, 1.341_627, 3.683_255],
        );
        for (index, expected) in
            [(1, [3.0, 4.0]), (2, [6.666_667, 6.666_667]), (3, [3.0, 4.0]), (4, [5.0, 5.0])]
        {
            assert_close(&found[index], &expected);
        }
        let found = norm(image(|x| x), &[1.0, 1.0], &[2.0, 2.0])
            .attr("exponential_avg_factor", 0.5f32)
            .run()
            .unwrap();
        assert_close(&found[1], &[2.0, 2.5]);
        assert_close(&found[2], &[4.333_333, 4.333_333]);
    }

    #[test]
    fn inference_uses_the_given_statistics() {
        let found = norm(image(|x| x), &[3.0, 4.0], &[5.0, 5.0]).attr("is_training", false).run().unwrap();
        assert_close(
            &found[0],
            &[-1.341_627, -1.683_255, -0.447_209, 0.105_582, 0.447_209, 1.894_418, 1.341_627, 3.683_255],
        );
        let status = norm(image(|x| x), &[3.0], &[5.0]).attr("is_training", false).run().unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
    }

    #[test]
    fn an_empty_batch_has_no_statistics() {
        let empty = Tensor::zeros(DType::Float, Shape::new(&[0, 2, 2, 2]).unwrap()).unwrap();
        let training = norm(empty.clone(), &[], &[]);
        let inference = norm(empty, &[3.0, 3.0], &[2.0, 2.0]).attr("is_training", false);
        for found in [training.run().unwrap(), inference.run().unwrap()] {
            for output in &found[1..3] {
                assert!(output.as_slice::<f32>().unwrap().iter().all(|mean| mean.is_nan()));
            }
            assert_eq!(found[3].as_slice::<f32>().unwrap(), [0.0, 0.0]);
            assert_eq!(found[4].as_slice::<f32>().unwrap(), [0.0, 0.0]);
        }
    }

    #[test]
    fn gradients_are_tensorflows() {
        let gradient = |training: bool| {
            let run = test_op("FusedBatchNormGrad").attr("T", DType::Float).attr("is_training", training);
            let run = run.input(image(|x| x * x)).input(image(|x| x)).input(floats(&[1.0, 2.0]));
            run.input(floats(&[3.0, 4.0])).input(floats(&[5.0, 5.0])).run().unwrap()
        };
        let found = gradient(true);
        assert_close(
            &found[0],
            &[1.788_675, 3.577_243, -1.788_89, -3.577_816, -1.788_783, -3.577_53, 1.788_998, 3.578_103],
        );
        assert_close(&found[1], &[53.665_092, 71.553_46]);
        assert_close(&found[2], &[56.0, 84.0]);
        assert_eq!(found[3].num_elements(), 0);
        let found = gradient(false);
        assert_close(
            &found[0],
            &[0.0, 0.894_418, 1.788_836, 8.049_765, 7.155_346, 22.360_456, 16.099_53, 43.826_49],
        );
    }
}
