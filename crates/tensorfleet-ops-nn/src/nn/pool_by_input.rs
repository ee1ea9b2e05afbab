//! Pools of maxima whose window is an input: `MaxPoolV2` and its gradients. Each is the op with the window among its attributes,
//! chosen when the window is known.

use std::sync::Arc;

use parking_lot::Mutex;
use tensorfleet_core::{DType, PartialShape, Result, bail};

use super::pool::{PoolAttrs, max_pool, max_pool_grad, max_pool_grad_shape, max_pool_shape};
use super::pool_twice::{grad_grad_shape, max_pool_grad_grad};
use super::window::{Border, four_of};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, integers_of};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("MaxPoolV2", "input: T, ksize: int32, strides: int32 -> output: T")
        .work(Work::Inputs)
        .attrs(
            "T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = float; \
             padding: {'SAME', 'VALID'}; data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'",
        )
        .shape(pool_shape)
        .kernel(|node| pool(node, max_pool))
        .gradient(pool_gradient),
    Op::new(
        "MaxPoolGradV2",
        "orig_input: T, orig_output: T, grad: T, ksize: int32, strides: int32 -> output: T",
    )
    .work(Work::Inputs)
    .attrs("padding: {'SAME', 'VALID'}; data_format: {'NHWC', 'NCHW'} = 'NHWC'; T: real = float")
    .shape(max_pool_grad_shape)
    .kernel(|node| pool(node, max_pool_grad))
    .gradient(pool_grad_gradient),
    Op::new(
        "MaxPoolGradGradV2",
        "orig_input: T, orig_output: T, grad: T, ksize: int32, strides: int32 -> output: T",
    )
    .work(Work::Inputs)
    .attrs("padding: {'SAME', 'VALID'}; data_format: {'NHWC', 'NCHW'} = 'NHWC'; T: real")
    .shape(grad_grad_shape)
    .kernel(|node| pool(node, max_pool_grad_grad))
    .gradient(pool_grad_grad_gradient),
];

/// The attributes that the ops share.
const SHARED_ATTRS: &[&str] = &["padding", "data_format"];

fn pool_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let inputs = [d.input(0)?, d.output(0), d.dy(0)?, d.input(1)?, d.input(2)?];
    let dx = d.emit(d.with_attrs("MaxPoolGradV2", &inputs, SHARED_ATTRS))?;
    d.only(0, dx)
}

/// Which pixels are maxima does not change with small changes of the picture, so nothing flows to it.
fn pool_grad_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    gradient_by(d, "MaxPoolGradGradV2")
}

fn pool_grad_grad_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    gradient_by(d, "MaxPoolGradV2")
}

fn gradient_by(d: &mut Differential<'_>, op: &str) -> Result<Grads> {
    let inputs = [d.input(0)?, d.input(1)?, d.dy(0)?, d.input(3)?, d.input(4)?];
    let grad = d.emit(d.with_attrs(op, &inputs, SHARED_ATTRS))?;
    d.only(2, grad)
}

/// The window that an op's last two inputs say.
fn attrs(border: Border, ksize: Vec<i64>, strides: Vec<i64>) -> Result<PoolAttrs> {
    Ok(PoolAttrs { border, ksize: four_of(ksize, "ksize")?, strides: four_of(strides, "strides")? })
}

fn pool_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    match (ctx.integers(1), ctx.integers(2)) {
        (Some(ksize), Some(strides)) => max_pool_shape(ctx, &attrs(Border::of(ctx.node)?, ksize, strides)?),
        _ => Ok(vec![PartialShape::of_rank(4)]),
    }
}

/// Makes the kernel of the op with the window among its attributes.
type MakeKernel = fn(DType, &PoolAttrs) -> Result<KernelBox>;

/// A window and the kernel for it.
struct Made {
    window: [Vec<i64>; 2],
    kernel: Arc<KernelBox>,
}

fn pool(node: &NodeSpec<'_>, make: MakeKernel) -> Result<KernelBox> {
    let count = node.inputs.len().saturating_sub(2);
    let (dtype, border) = (node.dtype()?, Border::of(node)?);
    // Windows seldom change from step to step.
    let last: Mutex<Option<Made>> = Mutex::new(None);
    Ok(KernelBox::from_fn(move |ctx| {
        let window = [integers_of(ctx.input(count)?)?, integers_of(ctx.input(count + 1)?)?];
        let known = last.lock().as_ref().filter(|made| made.window == window).map(|made| made.kernel.clone());
        let kernel = match known {
            Some(kernel) => kernel,
            None => {
                let [ksize, strides] = window.clone();
                let kernel = Arc::new(make(dtype, &attrs(border, ksize, strides)?)?);
                *last.lock() = Some(Made { window, kernel: kernel.clone() });
                kernel
            }
        };
        let KernelBox::Sync(kernel) = &*kernel else { bail!(Internal, "the kernel of a pool does not wait") };
        let Context { step, frame, inputs, outputs, is_input_dead, resume, loops } = ctx;
        kernel.compute(&mut Context {
            step,
            frame: *frame,
            inputs: &mut inputs[..count],
            outputs,
            is_input_dead: *is_input_dead,
            resume: *resume,
            loops,
        })
    }))
}

#[cfg(test)]
mod tests {
    use tensorfleet_core::{Code, Tensor};

    use super::*;
    use crate::testing::test_op;

    fn image(values: &[f32], dims: &[usize]) -> Tensor {
        Tensor::from_slice(values, dims).unwrap()
    }

    fn run(op: &str, images: &[Tensor], ksize: &[i32], strides: &[i32]) -> Result<Tensor> {
        let op = test_op(op).with_shape_check().attr("T", DType::Float).attr("padding", "VALID");
        let op = images.iter().fold(op, |op, image| op.input(image.clone()));
        op.input(Tensor::vector(ksize)?).input(Tensor::vector(strides)?).run_one()
    }

    #[test]
    fn the_window_is_what_the_inputs_say() {
        let x = image(&[1.0, 5.0, 5.0, 2.0], &[1, 2, 2, 1]);
        let found = run("MaxPoolV2", std::slice::from_ref(&x), &[1, 2, 2, 1], &[1, 2, 2, 1]).unwrap();
        assert_eq!(found, image(&[5.0], &[1, 1, 1, 1]));
        let found = run("MaxPoolV2", std::slice::from_ref(&x), &[1, 1, 2, 1], &[1, 1, 1, 1]).unwrap();
        assert_eq!(found, image(&[5.0, 5.0], &[1, 2, 1, 1]));
        let (y, dy) = (image(&[5.0], &[1, 1, 1, 1]), image(&[3.0], &[1, 1, 1, 1]));
        let found = run("MaxPoolGradV2", &[x.clone(), y.clone(), dy], &[1, 2, 2, 1], &[1, 2, 2, 1]).unwrap();
        assert_eq!(found, image(&[0.0, 3.0, 0.0, 0.0], &[1, 2, 2, 1]));
        let dz = image(&[10.0, 20.0, 30.0, 40.0], &[1, 2, 2, 1]);
        let found = run("MaxPoolGradGradV2", &[x, y, dz], &[1, 2, 2, 1], &[1, 2, 2, 1]).unwrap();
        assert_eq!(found, image(&[20.0], &[1, 1, 1, 1]));
    }

    #[test]
    fn windows_that_make_no_sense_are_refused() {
        let x = image(&[1.0, 5.0, 5.0, 2.0], &[1, 2, 2, 1]);
        let code = |ksize: &[i32], strides: &[i32]| {
            let images = std::slice::from_ref(&x);
            let op = test_op("MaxPoolV2").attr("T", DType::Float).attr("padding", "VALID");
            let op = images.iter().fold(op, |op, image| op.input(image.clone()));
            let op = op.input(Tensor::vector(ksize).unwrap()).input(Tensor::vector(strides).unwrap());
            op.run_one().unwrap_err().code()
        };
        assert_eq!(code(&[1, 2, 2], &[1, 1, 1, 1]), Code::InvalidArgument);
        assert_eq!(code(&[1, 0, 2, 1], &[1, 1, 1, 1]), Code::InvalidArgument);
        assert_eq!(code(&[1, 2, 2, 1], &[1, 0, 1, 1]), Code::InvalidArgument);
        assert_eq!(code(&[1, 9, 9, 1], &[1, 1, 1, 1]), Code::InvalidArgument);
        assert_eq!(code(&[2, 2, 2, 1], &[1, 1, 1, 1]), Code::Unimplemented);
        assert_eq!(code(&[], &[]), Code::InvalidArgument);
    }
}
