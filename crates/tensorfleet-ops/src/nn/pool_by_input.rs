//! Pools of maxima whose window is an input: `MaxPoolV2` and its gradients. Each is the op with the window among its attributes,
//! chosen when the window is known.

use std::sync::Arc;

use parking_lot::Mutex;
use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{Node, PartialShape, Result, Status, bail};

use crate::gradients::{Differential, Grads};
use crate::kernel::{Context, KernelBox};
use crate::node_spec::NodeSpec;
use crate::op::Op;
use crate::shape_context::{InputShape, ShapeContext, integers_of};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("MaxPoolV2", "input: T, ksize: int32, strides: int32 -> output: T")
        .attrs(
            "T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = float; \
             padding: {'SAME', 'VALID'}; data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'",
        )
        .shape(pool_shape)
        .kernel(pool)
        .gradient(pool_gradient),
    Op::new(
        "MaxPoolGradV2",
        "orig_input: T, orig_output: T, grad: T, ksize: int32, strides: int32 -> output: T",
    )
    .attrs("padding: {'SAME', 'VALID'}; data_format: {'NHWC', 'NCHW'} = 'NHWC'; T: real = float")
    .shape(pool_shape)
    .kernel(pool)
    .gradient(pool_grad_gradient),
    Op::new(
        "MaxPoolGradGradV2",
        "orig_input: T, orig_output: T, grad: T, ksize: int32, strides: int32 -> output: T",
    )
    .attrs("padding: {'SAME', 'VALID'}; data_format: {'NHWC', 'NCHW'} = 'NHWC'; T: real")
    .shape(pool_shape)
    .kernel(pool)
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

/// How many inputs the op with the window among its attributes has.
fn count_of_others(node: &NodeSpec<'_>) -> usize {
    node.inputs.len().saturating_sub(2)
}

/// The node with the window among its attributes.
fn with_window(node: &Node, ksize: &[i64], strides: &[i64]) -> Node {
    let mut fixed = node.clone();
    fixed.op = node.op.trim_end_matches("V2").into();
    fixed.inputs.truncate(node.inputs.len().saturating_sub(2));
    fixed.attrs.insert("ksize".to_string(), ksize.to_vec().into_attr());
    fixed.attrs.insert("strides".to_string(), strides.to_vec().into_attr());
    fixed
}

fn pool_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let count = count_of_others(ctx.node);
    let (Some(ksize), Some(strides)) = (ctx.integers(count), ctx.integers(count + 1)) else {
        return Ok(vec![PartialShape::of_rank(4)]);
    };
    let fixed = with_window(ctx.node.node(), &ksize, &strides);
    let fixed = NodeSpec::resolve(&fixed)?;
    let others = (0..count).map(|at| InputShape { shape: ctx.input(at).clone(), ..InputShape::default() });
    let others: Vec<InputShape> = others.collect();
    match fixed.op().shape {
        Some(rule) => rule(&ShapeContext::new(&fixed, &others)),
        None => Ok(vec![PartialShape::of_rank(4)]),
    }
}

/// A window and the kernel for it.
struct Made {
    window: [Vec<i64>; 2],
    kernel: Arc<KernelBox>,
}

fn pool(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let count = count_of_others(node);
    let node = node.node().clone();
    // Windows seldom change from step to step.
    let last: Mutex<Option<Made>> = Mutex::new(None);
    Ok(KernelBox::from_fn(move |ctx| {
        let window = [integers_of(ctx.input(count)?)?, integers_of(ctx.input(count + 1)?)?];
        let known = last.lock().as_ref().filter(|made| made.window == window).map(|made| made.kernel.clone());
        let kernel = match known {
            Some(kernel) => kernel,
            None => {
                let kernel = Arc::new(kernel_for(&node, &window)?);
                *last.lock() = Some(Made { window, kernel: kernel.clone() });
                kernel
            }
        };
        let KernelBox::Sync(kernel) = &*kernel else { bail!(Internal, "the kernel of a pool does not wait") };
        let Context { step, frame, inputs, outputs, is_input_dead } = ctx;
        kernel.compute(&mut Context {
            step,
            frame: *frame,
            inputs: &mut inputs[..count],
            outputs,
            is_input_dead: *is_input_dead,
        })
    }))
}

fn kernel_for(node: &Node, [ksize, strides]: &[Vec<i64>; 2]) -> Result<KernelBox> {
    let fixed = with_window(node, ksize, strides);
    let fixed = NodeSpec::resolve(&fixed)?;
    let make = fixed.op().kernel.ok_or_else(|| Status::internal("a pool without a kernel"))?;
    make(&fixed)
}

#[cfg(test)]
mod tests {
    use tensorfleet_core::{Code, DType, Tensor};

    use super::*;
    use crate::testing::TestOp;

    fn image(values: &[f32], dims: &[usize]) -> Tensor {
        Tensor::from_slice(values, dims).unwrap()
    }

    fn run(op: &str, images: &[Tensor], ksize: &[i32], strides: &[i32]) -> Result<Tensor> {
        let op = TestOp::with_shape_check(op).attr("T", DType::Float).attr("padding", "VALID");
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
            let op = TestOp::new("MaxPoolV2").attr("T", DType::Float).attr("padding", "VALID");
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
