//! The gradient of the gradient of a pool of maxima: what arrives at the pixels that were the maxima.

use tensorfleet_core::{DType, PartialShape, Result, Shape, Tensor, ensure, memory};

use super::pool::{PoolAttrs, image_in};
use super::window::rank_4;
use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_numeric::dispatch;

/// The family's table.
pub(crate) static OPS: &[Op] =
    &[Op::new("MaxPoolGradGrad", "orig_input: T, orig_output: T, grad: T -> output: T")
        .work(Work::Inputs)
        .attrs(
            "ksize: list(int) >= 4; strides: list(int) >= 4; padding: {'SAME', 'VALID'}; \
         data_format: {'NHWC', 'NCHW'} = 'NHWC'; T: real",
        )
        .shape(grad_grad_shape)
        .kernel(|node| max_pool_grad_grad(node.dtype()?, &PoolAttrs::of(node)?))
        .gradient(max_pool_grad_grad_gradient)];

/// The attributes that the op and its gradients share.
const SHARED_ATTRS: &[&str] = &["ksize", "strides", "padding", "data_format"];

/// Which pixels are maxima does not change with small changes of the picture, so nothing flows to it.
pub(super) fn max_pool_grad_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let padding: String = d.attr("padding")?;
    ensure!(
        padding != "EXPLICIT",
        Unimplemented,
        "the gradient of MaxPoolGrad does not exist for explicit padding, in TensorFlow neither: use tf.pad before"
    );
    let (x, y, dz) = (d.input(0)?, d.input(1)?, d.dy(0)?);
    let grad = d.emit(d.with_attrs("MaxPoolGradGrad", &[x, y, dz], SHARED_ATTRS))?;
    d.only(2, grad)
}

fn max_pool_grad_grad_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (x, y, dz) = (d.input(0)?, d.input(1)?, d.dy(0)?);
    let grad = d.emit(d.with_attrs("MaxPoolGrad", &[x, y, dz], SHARED_ATTRS))?;
    d.only(2, grad)
}

pub(super) fn grad_grad_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input(0).merge(ctx.input(2))?;
    Ok(vec![ctx.input_with_rank(1, 4)?])
}

pub(super) fn max_pool_grad_grad(dtype: DType, attrs: &PoolAttrs) -> Result<KernelBox> {
    let pool = attrs.pool()?;
    dispatch!(dtype, T in real => Ok(KernelBox::from_fn(move |ctx| {
        let image = image_in::<T>(&pool, ctx.input(0)?)?;
        let sizes = pool.over(image.shape())?;
        let expected = Shape::new(&pool.window.layout.write(rank_4(&sizes.output()?, "output")?))?;
        let found = ctx.input(1)?.shape();
        ensure!(*found == expected, InvalidArgument, "Expected orig_output shape to be {expected}, but got {found}");
        let (expected, found) = (ctx.input(0)?.shape(), ctx.input(2)?.shape());
        ensure!(found == expected, InvalidArgument, "Expected grad shape to be {expected}, but got {found}");
        let gradient = image_in::<T>(&pool, ctx.input(2)?)?;
        // A pixel and what arrives at it, side by side.
        let pairs = image.as_slice::<T>()?.iter().copied().zip(gradient.as_slice::<T>()?.iter().copied());
        let pairs: Vec<(T, T)> = memory::collect(pairs)?;
        let output = Tensor::build::<T>(sizes.output()?, |out| {
            sizes.for_each_pixel(ctx.loops(), &pairs, out, |image, window, out| {
                for (channel, out) in out.iter_mut().enumerate() {
                    let mut best: Option<(T, T)> = None;
                    for source in window.sources() {
                        let (pixel, gradient) = image[source + channel];
                        if best.is_none_or(|(max, _)| pixel > max) {
                            best = Some((pixel, gradient));
                        }
                    }
                    *out = best.map_or_else(T::default, |(_, gradient)| gradient);
                }
            });
            Ok(())
        })?;
        ctx.set_output(0, pool.window.layout.restored::<T>(output)?);
        Ok(())
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;

    #[test]
    fn what_arrives_at_the_first_maximum_goes_on() {
        let image = |values: &[f32], dims: &[usize]| Tensor::from_slice(values, dims).unwrap();
        let run = |gradient: Tensor, output: Tensor, format: &str| {
            let window = if format == "NHWC" { vec![1i64, 2, 2, 1] } else { vec![1, 1, 2, 2] };
            let op = test_op("MaxPoolGradGrad").with_shape_check().attr("T", DType::Float);
            let op = op.attr("ksize", window.clone()).attr("strides", window).attr("padding", "VALID");
            let pixels = image(&[1.0, 5.0, 5.0, 2.0], gradient.shape());
            op.attr("data_format", format).input(pixels).input(output).input(gradient).run_one()
        };
        let gradient = image(&[10.0, 20.0, 30.0, 40.0], &[1, 2, 2, 1]);
        let output = image(&[5.0], &[1, 1, 1, 1]);
        let found = run(gradient, output.clone(), "NHWC").unwrap();
        assert_eq!(found.as_slice::<f32>().unwrap(), [20.0]);
        let first = image(&[10.0, 20.0, 30.0, 40.0], &[1, 1, 2, 2]);
        assert_eq!(run(first.clone(), output, "NCHW").unwrap().as_slice::<f32>().unwrap(), [20.0]);
        let wrong = image(&[5.0, 5.0], &[1, 1, 2, 1]);
        assert!(run(first, wrong, "NCHW").unwrap_err().text().contains("Expected orig_output shape"));
    }
}
