//! `Switch`, `Merge`, `Enter`, `Exit`, `NextIteration`, `LoopCond`: TensorFlow 1.x conditionals and loops.
//!
//! The kernels only pass values on. Deadness, frames and iterations are the executor's business, told by
//! [`Flow`]. The reference forms pass on the variable itself.

use tensorfleet_core::{PartialShape, Result, Status, Tensor, ensure};

use crate::graph_ops::passed_back;
use tensorfleet_kernel::gradients::branches::{merge_gradient, next_iteration_gradient, switch_gradient};
use tensorfleet_kernel::kernel::{KernelBox, Value};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Flow, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, same_as_input};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    control("Switch", "data: T, pred: bool -> output_false: T, output_true: T", Flow::Switch)
        .gradient(switch_gradient)
        .shape(switch_shape)
        .kernel(switch),
    control(
        "RefSwitch",
        "data: Ref(T), pred: bool -> output_false: Ref(T), output_true: Ref(T)",
        Flow::Switch,
    )
    .gradient(switch_gradient)
    .shape(switch_shape)
    .kernel(switch)
    .allow_uninitialized(),
    Op::new("Merge", "inputs: N * T -> output: T, value_index: int32")
        .gradient(merge_gradient)
        .attrs("T: type; N: int >= 1")
        .flow(Flow::Merge)
        .cost(Cost::Trivial)
        .shape(merge_shape)
        .kernel(merge),
    Op::new("RefMerge", "inputs: Ref(N * T) -> output: Ref(T), value_index: int32")
        .gradient(merge_gradient)
        .attrs("T: type; N: int >= 1")
        .flow(Flow::Merge)
        .cost(Cost::Trivial)
        .allow_uninitialized()
        .shape(merge_shape)
        .kernel(merge),
    enter("Enter", "data: T -> output: T").gradient(passed_back),
    enter("RefEnter", "data: Ref(T) -> output: Ref(T)").gradient(passed_back).allow_uninitialized(),
    pass("Exit", "data: T -> output: T", Flow::Exit).gradient(passed_back),
    pass("RefExit", "data: Ref(T) -> output: Ref(T)", Flow::Exit).gradient(passed_back).allow_uninitialized(),
    pass("NextIteration", "data: T -> output: T", Flow::NextIteration).gradient(next_iteration_gradient),
    pass("RefNextIteration", "data: Ref(T) -> output: Ref(T)", Flow::NextIteration)
        .gradient(next_iteration_gradient)
        .allow_uninitialized(),
    pass("RefIdentity", "input: Ref(T) -> output: Ref(T)", Flow::Plain)
        .gradient(passed_back)
        .allow_uninitialized(),
    Op::new("LoopCond", "input: bool -> output: bool")
        .not_differentiable()
        .cost(Cost::Trivial)
        .shape(same_as_input)
        .kernel(pass_on)
        .never_merged(),
];

const fn control(name: &'static str, signature: &'static str, flow: Flow) -> Op {
    Op::new(name, signature).attrs("T: type").flow(flow).cost(Cost::Trivial)
}

const fn pass(name: &'static str, signature: &'static str, flow: Flow) -> Op {
    control(name, signature, flow).shape(same_as_input).kernel(pass_on)
}

const fn enter(name: &'static str, signature: &'static str) -> Op {
    pass(name, signature, Flow::Enter)
        .attrs("T: type; frame_name: string; is_constant: bool = false; parallel_iterations: int = 10")
}

fn pass_on(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        ctx.forward(0, 0);
        Ok(())
    }))
}

fn switch_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(1, 0)?;
    Ok(vec![ctx.input(0).clone(); 2])
}

fn switch(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let predicate = ctx.input(1)?;
        ensure!(
            predicate.is_scalar(),
            InvalidArgument,
            "The second input must be a scalar, but it has shape {}",
            predicate.shape()
        );
        let taken = usize::from(predicate.to_scalar::<bool>()?);
        ctx.forward(0, taken);
        Ok(())
    }))
}

fn merge_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let mut merged = ctx.input(0).clone();
    for index in 1..ctx.num_inputs() {
        merged = common(&merged, ctx.input(index));
    }
    Ok(vec![merged, PartialShape::scalar()])
}

/// What holds for both shapes: `Merge` passes on the one or the other.
fn common(a: &PartialShape, b: &PartialShape) -> PartialShape {
    match (a.dims(), b.dims()) {
        (Some(a), Some(b)) if a.len() == b.len() => {
            PartialShape::new(a.iter().zip(b).map(|(&x, &y)| if x == y { x } else { None }))
        }
        _ => PartialShape::unknown(),
    }
}

fn merge(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let index = ctx.inputs.iter().position(Option::is_some);
        let index = index.ok_or_else(|| Status::internal("a merge ran without a live input"))?;
        ctx.forward(index, 0);
        let position = i32::try_from(index).map_err(|_| Status::internal("a merge has too many inputs"))?;
        ctx.outputs[1] = Some(Value::Tensor(Tensor::scalar(position)));
        Ok(())
    }))
}
