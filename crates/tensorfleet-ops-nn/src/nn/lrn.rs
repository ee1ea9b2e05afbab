//! Local response normalisation across channels, and the halved sum of squares.

use tensorfleet_core::{PartialShape, Result, Shape, ensure, memory};

use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, same_as_input, scalars};
use tensorfleet_numeric::dispatch;
use tensorfleet_threads::Loops;

use tensorfleet_numeric::number::Floating;
use tensorfleet_numeric::stored::{
    Stored, build_computed, build_floats, check_narrow, compute_elements, floats_of,
};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("LRN", "input: T -> output: T")
        .attrs(
            "depth_radius: int = 5; bias: float = 1.0; alpha: float = 1.0; beta: float = 0.5; \
             T: {half, bfloat16, float} = float",
        )
        .shape(same_as_input)
        .kernel(lrn)
        .gradient(lrn_gradient),
    Op::new("LRNGrad", "input_grads: T, input_image: T, output_image: T -> output: T")
        .attrs(
            "depth_radius: int = 5; bias: float = 1.0; alpha: float = 1.0; beta: float = 0.5; \
             T: {half, bfloat16, float} = float",
        )
        .shape(lrn_grad_shape)
        .kernel(lrn_grad),
    Op::new("L2Loss", "t: T -> output: T")
        .work(Work::Inputs)
        .attrs("T: floating")
        .shape(scalars)
        .kernel(l2_loss)
        .gradient(l2_loss_gradient),
];

fn lrn_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (x, y, dy) = (d.input(0)?, d.output(0), d.dy(0)?);
    let dx = d.emit(d.with_attrs("LRNGrad", &[dy, x, y], &["depth_radius", "bias", "alpha", "beta"]))?;
    d.flow([dx.into()])
}

fn l2_loss_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (x, dy) = (d.x(0)?, d.arriving_at(0)?);
    d.flow([x * dy])
}

fn lrn_grad_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(vec![ctx.input(0).merge(ctx.input(1))?.merge(ctx.input(2))?])
}

/// `x / (bias + alpha * sum of squares of the neighbours) ^ beta`
#[derive(Clone, Copy)]
struct Response {
    radius: usize,
    bias: f32,
    alpha: f32,
    beta: f32,
}

impl Response {
    fn of(node: &NodeSpec<'_>) -> Result<Response> {
        let radius: i64 = node.attr("depth_radius")?;
        ensure!(
            (0..=i32::MAX as i64).contains(&radius),
            InvalidArgument,
            "depth_radius = {radius} is not valid"
        );
        Ok(Response {
            radius: radius as usize,
            bias: node.attr("bias")?,
            alpha: node.attr("alpha")?,
            beta: node.attr("beta")?,
        })
    }

    fn neighbours(&self, channel: usize, depth: usize) -> std::ops::Range<usize> {
        channel.saturating_sub(self.radius)..channel.saturating_add(self.radius + 1).min(depth)
    }

    /// The denominator's base for every channel of a pixel.
    fn bases(&self, pixel: &[f32], bases: &mut [f32]) {
        for (channel, base) in bases.iter_mut().enumerate() {
            let squares: f32 = pixel[self.neighbours(channel, pixel.len())].iter().map(|x| x * x).sum();
            *base = self.bias + self.alpha * squares;
        }
    }

    fn cost(&self, depth: usize) -> usize {
        depth.saturating_mul(self.radius.min(depth) * 2 + 20).saturating_mul(60)
    }
}

fn depth_of(shape: &Shape, name: &str) -> Result<usize> {
    ensure!(shape.rank() == 4, InvalidArgument, "{name} must be 4-dimensional, got {shape}");
    Ok(shape[3])
}

fn lrn(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let response = Response::of(node)?;
    check_narrow(node.dtype()?)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let input = ctx.input(0)?;
        let depth = depth_of(input.shape(), "in")?;
        let (from, loops) = (floats_of(input)?, ctx.loops());
        let output = build_floats(input.dtype(), input.shape().clone(), |out| {
            if !out.is_empty() {
                loops.chunks_mut(out, depth, response.cost(depth), |first, piece| {
                    let mut bases = vec![0.0; depth];
                    let pixels = from[first * depth..].chunks(depth);
                    for (out, pixel) in piece.chunks_mut(depth).zip(pixels) {
                        response.bases(pixel, &mut bases);
                        for ((out, x), base) in out.iter_mut().zip(pixel).zip(&bases) {
                            *out = x * base.powf(-response.beta);
                        }
                    }
                });
            }
            Ok(())
        })?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

fn lrn_grad(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let response = Response::of(node)?;
    check_narrow(node.dtype()?)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let (gradient, image, normed) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
        let depth = depth_of(gradient.shape(), "inputs")?;
        ensure!(
            gradient.shape() == image.shape() && gradient.shape() == normed.shape(),
            InvalidArgument,
            "input_grads, input_image, and out_image should have the same shape"
        );
        let (gradients, images, normed) = (floats_of(gradient)?, floats_of(image)?, floats_of(normed)?);
        let loops = ctx.loops();
        let output = build_floats(gradient.dtype(), gradient.shape().clone(), |out| {
            if !out.is_empty() {
                loops.chunks_mut(out, depth, response.cost(depth) * 2, |first, piece| {
                    let mut bases = vec![0.0; depth];
                    for (at, sums) in piece.chunks_mut(depth).enumerate() {
                        let range = (first + at) * depth..(first + at + 1) * depth;
                        let pixel = &images[range.clone()];
                        response.bases(pixel, &mut bases);
                        grad_of_pixel(
                            &response,
                            pixel,
                            &bases,
                            &gradients[range.clone()],
                            &normed[range],
                            sums,
                        );
                    }
                });
            }
            Ok(())
        })?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

/// Each output channel depends on its own input channel through the numerator, and on all neighbours through the
/// denominator.
fn grad_of_pixel(
    response: &Response,
    pixel: &[f32],
    bases: &[f32],
    gradient: &[f32],
    normed: &[f32],
    sums: &mut [f32],
) {
    sums.fill(0.0);
    for (channel, (&gradient, &normed)) in gradient.iter().zip(normed).enumerate() {
        let base = bases[channel];
        let shared = -2.0 * response.alpha * response.beta * normed / base * gradient;
        for neighbour in response.neighbours(channel, pixel.len()) {
            sums[neighbour] += pixel[neighbour] * shared;
        }
        sums[channel] += base.powf(-response.beta) * gradient;
    }
}

/// Elements that are summed before their sum goes to the total.
const BLOCK: usize = 4096;

tensorfleet_numeric::simd_dispatch! {
    fn sum_of_squares[T: Floating](values: &[T]) -> T {
        let mut lanes = [T::ZERO; 16];
        let (blocks, rest) = values.as_chunks::<16>();
        for block in blocks {
            lanes.iter_mut().zip(block).for_each(|(sum, &x)| *sum = *sum + x * x);
        }
        rest.iter().map(|&x| x * x).chain(lanes).fold(T::ZERO, |sum, x| sum + x)
    }
}

fn l2_loss(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in floating => Ok(l2_loss_kernel::<T>()))
}

fn l2_loss_kernel<S: Stored<Compute: Floating>>() -> KernelBox {
    KernelBox::from_fn(|ctx| {
        let values = compute_elements(ctx.input(0)?.as_slice::<S>()?)?;
        let loss = build_computed::<S>(Shape::scalar(), |loss| {
            loss.fill(half_sum_of_squares(ctx.loops(), &values)?);
            Ok(())
        })?;
        ctx.set_output(0, loss);
        Ok(())
    })
}

fn half_sum_of_squares<T: Floating>(loops: &Loops, values: &[T]) -> Result<T> {
    let mut sums = memory::vec_of(T::ZERO, values.len().div_ceil(BLOCK))?;
    loops.chunks_mut(&mut sums, 1, BLOCK * 15, |first, piece| {
        let blocks = values[first * BLOCK..].chunks(BLOCK);
        piece.iter_mut().zip(blocks).for_each(|(sum, block)| *sum = sum_of_squares(block));
    });
    Ok(sums.into_iter().fold(T::ZERO, |sum, x| sum + x) * T::constant(0.5))
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestOp, test_op};
    use tensorfleet_core::{Code, DType, Tensor};

    fn pixel(values: [f32; 4]) -> Tensor {
        Tensor::from_slice(&values, &[1, 1, 1, 4]).unwrap()
    }

    fn op(name: &str) -> TestOp {
        let op = test_op(name).attr("T", DType::Float).attr("depth_radius", 1i64);
        op.attr("bias", 1.0f32).attr("alpha", 0.5f32).attr("beta", 0.75f32)
    }

    fn assert_close(found: &Tensor, expected: [f32; 4]) {
        let found = found.as_slice::<f32>().unwrap();
        assert!(found.iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-6), "{found:?}");
    }

    #[test]
    fn responses_and_gradients_are_tensorflows() {
        let image = pixel([1.0, 2.0, 3.0, 4.0]);
        let found = op("LRN").input(image.clone()).run_one().unwrap();
        assert_close(&found, [0.390_794_96, 0.420_448_2, 0.384_036_48, 0.567_949_4]);
        let run = op("LRNGrad").input(image.clone()).input(image).input(pixel([0.3, 0.4, 0.5, 0.6]));
        assert_close(&run.run_one().unwrap(), [0.251_509_25, -0.003_284_514, -0.458_705_43, -0.255_706_52]);
        let status = op("LRN").input(Tensor::vector(&[1.0f32]).unwrap()).run_one().unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
    }

    #[test]
    fn the_loss_is_half_the_sum_of_squares() {
        let loss = |values: &[f32]| {
            let run = test_op("L2Loss").attr("T", DType::Float).input(Tensor::vector(values).unwrap());
            run.run_one().unwrap().to_scalar::<f32>().unwrap()
        };
        assert_eq!(loss(&[3.0, 4.0]), 12.5);
        assert_eq!(loss(&[]), 0.0);
        assert!(loss(&[f32::NAN]).is_nan());
        assert_eq!(loss(&vec![1.0; 1 << 20]), (1 << 19) as f32);
    }
}
