//! The conditional accumulator ops: with string handles, as TensorFlow 1.x clients write them, and with resource
//! handles. Sparse accumulators only have the first form.

use std::sync::Arc;
use std::time::Duration;

use tensorfleet_core::{DType, Element, PartialShape, Result, Tensor, ensure};

use super::accumulator::{Accumulator, Asked, Layout, Reduction};
use super::naming::{Owner, handle_shape, no_outputs, own_attr};
use super::round::{Offer, Patience};
use super::sparse_gradient::SparseGradient;
use tensorfleet_kernel::Work;
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::kernel::{AsyncContext, AsyncKernel, Done, KernelBox, tensor_outputs};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, scalars, unknown};

/// On a node that gives a gradient: its owner counts once in a round.
const ONCE_PER_MEMBER: &str = "_tensorfleet_once_per_member";
/// On a node that takes: so many members are enough ...
const MIN_MEMBERS: &str = "_tensorfleet_min_members";
/// ... after they have waited this long for the others.
const PATIENCE_MS: &str = "_tensorfleet_patience_ms";
/// On a node that sets the step: a chief begins its round.
const BEGIN_ROUND: &str = "_tensorfleet_begin_round";

const ATTRS: &str = "dtype: number; shape: shape; container: string = ''; shared_name: string = ''; \
                     reduction_type: {'MEAN', 'SUM'} = 'MEAN'";

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    maker("ConditionalAccumulator", "-> handle: Ref(string)").kernel(|node| make(node, Layout::Dense)),
    maker("ResourceConditionalAccumulator", "-> handle: resource").kernel(|node| make(node, Layout::Dense)),
    maker("SparseConditionalAccumulator", "-> handle: Ref(string)").kernel(|node| make(node, Layout::Sparse)),
    apply_op("AccumulatorApplyGradient", "handle: Ref(string), local_step: int64, gradient: dtype"),
    apply_op("ResourceAccumulatorApplyGradient", "handle: resource, local_step: int64, gradient: dtype")
        .stateful(),
    Op::new(
        "SparseAccumulatorApplyGradient",
        "handle: Ref(string), local_step: int64, gradient_indices: int64, gradient_values: dtype, \
         gradient_shape: int64",
    )
    .work(Work::Inputs)
    .attrs("dtype: number; has_known_shape: bool")
    .shape(apply_shape)
    .kernel(apply_sparse),
    take_op("AccumulatorTakeGradient", "handle: Ref(string), num_required: int32 -> average: dtype")
        .kernel(|node| take(node, Layout::Dense)),
    take_op("ResourceAccumulatorTakeGradient", "handle: resource, num_required: int32 -> average: dtype")
        .stateful()
        .kernel(|node| take(node, Layout::Dense)),
    take_op(
        "SparseAccumulatorTakeGradient",
        "handle: Ref(string), num_required: int32 -> indices: int64, values: dtype, shape: int64",
    )
    .kernel(|node| take(node, Layout::Sparse)),
    Op::new("AccumulatorNumAccumulated", "handle: Ref(string) -> num_accumulated: int32")
        .shape(scalars)
        .kernel(num_accumulated)
        .cost(Cost::Trivial),
    Op::new("ResourceAccumulatorNumAccumulated", "handle: resource -> num_accumulated: int32")
        .stateful()
        .shape(scalars)
        .kernel(num_accumulated)
        .cost(Cost::Trivial),
    Op::new("AccumulatorSetGlobalStep", "handle: Ref(string), new_global_step: int64")
        .shape(apply_shape)
        .kernel(set_global_step)
        .cost(Cost::Trivial),
    Op::new("ResourceAccumulatorSetGlobalStep", "handle: resource, new_global_step: int64")
        .stateful()
        .shape(apply_shape)
        .kernel(set_global_step)
        .cost(Cost::Trivial),
];

const fn maker(name: &'static str, signature: &'static str) -> Op {
    Op::new(name, signature).attrs(ATTRS).stateful().shape(handle_shape).cost(Cost::Trivial)
}

const fn apply_op(name: &'static str, signature: &'static str) -> Op {
    Op::new(name, signature).work(Work::Inputs).attrs("dtype: number").shape(apply_shape).kernel(apply_dense)
}

const fn take_op(name: &'static str, signature: &'static str) -> Op {
    Op::new(name, signature).work(Work::Inputs).attrs("dtype: number").shape(take_shape)
}

fn apply_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(1, 0)?;
    no_outputs(ctx)
}

fn take_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(1, 0)?;
    unknown(ctx)
}

fn make(node: &NodeSpec<'_>, layout: Layout) -> Result<KernelBox> {
    let owner = Owner::<Accumulator>::new(node)?;
    let dtype: DType = node.attr("dtype")?;
    ensure!(
        matches!(dtype, DType::Float | DType::Double | DType::Half),
        InvalidArgument,
        "No OpKernel was registered to support the dtype {dtype} on CPU"
    );
    let shape: PartialShape = node.attr("shape")?;
    let reduction = match node.attr::<String>("reduction_type")?.as_str() {
        "SUM" => Reduction::Sum,
        _ => Reduction::Mean,
    };
    Ok(KernelBox::from_fn(move |ctx| {
        let loops = ctx.loops();
        let make =
            |name: &str| Ok(Accumulator::new(name, layout, dtype, shape.clone(), reduction, loops.clone()));
        // Like TensorFlow, nodes of one shared_name get the first one's accumulator, whatever they ask for; a
        // gradient of the wrong kind is refused when it comes.
        let handle = owner.handle(ctx.step, make, |_| Ok(()))?;
        ctx.set_output(0, handle);
        Ok(())
    }))
}

fn scalar<T: Element>(tensor: &Tensor, argument: &str) -> Result<T> {
    ensure!(
        tensor.is_scalar(),
        InvalidArgument,
        "Argument {argument} must be scalar, but had bad shape {}",
        tensor.shape()
    );
    tensor.to_scalar()
}

fn apply_dense(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let once_per_member: bool = own_attr(node, ONCE_PER_MEMBER)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let accumulator = ctx.resource::<Accumulator>(0)?;
        let local_step = scalar(ctx.input(1)?, "local_step")?;
        let offer = Offer { origin: ctx.step.session.origin.clone(), local_step, once_per_member };
        accumulator.apply_dense(&offer, ctx.take_input(2)?.kept()?, ctx.resume)
    }))
}

fn apply_sparse(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let has_known_shape: bool = node.attr("has_known_shape")?;
    let once_per_member: bool = own_attr(node, ONCE_PER_MEMBER)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let accumulator = ctx.resource::<Accumulator>(0)?;
        let local_step = scalar(ctx.input(1)?, "local_step")?;
        let (indices, values) = (ctx.take_input(2)?.kept()?, ctx.take_input(3)?.kept()?);
        let shape = ctx.input(4)?.as_slice::<i64>()?;
        let shape = has_known_shape.then(|| shape.to_vec());
        let offer = Offer { origin: ctx.step.session.origin.clone(), local_step, once_per_member };
        accumulator.apply_sparse(&offer, SparseGradient { indices, values, shape }, ctx.resume)
    }))
}

struct TakeKernel {
    layout: Layout,
    dtype: DType,
    patience: Option<Patience>,
}

impl TakeKernel {
    fn request(&self, ctx: &AsyncContext) -> Result<(Arc<Accumulator>, Asked)> {
        let accumulator = ctx.resource::<Accumulator>(0)?;
        let required: i32 = scalar(ctx.input(1)?, "num_required")?;
        ensure!(required > 0, InvalidArgument, "Argument num_required must be positive, but was {required}");
        accumulator.check_use(self.layout, self.dtype)?;
        let asked = Asked {
            required: required as usize,
            patience: self.patience,
            origin: ctx.step.session.origin.clone(),
            threads: ctx.step.session.threads.clone(),
        };
        Ok((accumulator, asked))
    }
}

impl AsyncKernel for TakeKernel {
    fn start(&self, ctx: AsyncContext, done: Done, resume: Resume<'_>) {
        match self.request(&ctx) {
            Ok((accumulator, asked)) => {
                let taken = |result: Result<Vec<Tensor>>, resume: Resume<'_>| {
                    done(result.map(tensor_outputs), resume);
                };
                accumulator.take(asked, &ctx.step.cancellation, Box::new(taken), resume);
            }
            Err(status) => done(Err(status), resume),
        }
    }
}

fn take(node: &NodeSpec<'_>, layout: Layout) -> Result<KernelBox> {
    let min_members: i64 = own_attr(node, MIN_MEMBERS)?;
    let patience_ms: i64 = own_attr(node, PATIENCE_MS)?;
    let patience = usize::try_from(min_members).ok().filter(|&count| count > 0).map(|min_members| Patience {
        min_members,
        wait: Duration::from_millis(patience_ms.try_into().unwrap_or(0)),
    });
    Ok(KernelBox::new_async(TakeKernel { layout, dtype: node.attr("dtype")?, patience }))
}

fn num_accumulated(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let count = ctx.resource::<Accumulator>(0)?.count();
        ctx.set_output(0, Tensor::scalar(i32::try_from(count).unwrap_or(i32::MAX)));
        Ok(())
    }))
}

fn set_global_step(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let begins_round: bool = own_attr(node, BEGIN_ROUND)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let step = scalar(ctx.input(1)?, "new_global_step")?;
        let accumulator = ctx.resource::<Accumulator>(0)?;
        match begins_round {
            true => accumulator.begin(step),
            false => accumulator.set_step(step),
        }
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{test_op, test_step};
    use tensorfleet_core::Code;

    #[test]
    fn both_families_of_ops_average_gradients() {
        let step = test_step();
        for (prefix, dtype) in [("", DType::Half), ("Resource", DType::Half)] {
            let make = test_op(&format!("{prefix}ConditionalAccumulator")).attr("dtype", dtype);
            let make = make
                .attr("shape", PartialShape::vector(Some(1)))
                .attr("shared_name", format!("a{prefix}").as_str());
            let handle = make.in_step(&step).run_one().unwrap();
            let op = |name: &str| {
                test_op(&format!("{prefix}Accumulator{name}")).in_step(&step).input(handle.clone())
            };
            for gradient in [1.0, 2.0] {
                let gradient = Tensor::vector(&[half::f16::from_f32(gradient)]).unwrap();
                let apply = op("ApplyGradient").attr("dtype", dtype).input(Tensor::scalar(0i64));
                apply.input(gradient).run().unwrap();
            }
            assert_eq!(op("NumAccumulated").run_one().unwrap().to_scalar::<i32>(), Ok(2));
            let take = |n: i32| op("TakeGradient").attr("dtype", dtype).input(Tensor::scalar(n)).run_one();
            assert_eq!(take(0).unwrap_err().text(), "Argument num_required must be positive, but was 0");
            assert_eq!(take(2).unwrap().as_slice::<half::f16>().unwrap()[0].to_f32(), 1.5);
            op("SetGlobalStep").input(Tensor::scalar(9i64)).run().unwrap();
            let vector = op("SetGlobalStep").input(Tensor::vector(&[9i64]).unwrap());
            assert_eq!(vector.run().unwrap_err().code(), Code::InvalidArgument);
        }
    }

    #[test]
    fn sparse_gradients_come_out_as_indices_values_and_shape() {
        let step = test_step();
        let make = test_op("SparseConditionalAccumulator").attr("dtype", DType::Float);
        let make = make.attr("shape", PartialShape::new([Some(6), Some(1)])).attr("shared_name", "s");
        let handle = make.in_step(&step).run_one().unwrap();
        for rows in [[0i64, 3], [3, 5]] {
            let apply = test_op("SparseAccumulatorApplyGradient").attr("dtype", DType::Float);
            let apply = apply.attr("has_known_shape", true).in_step(&step).input(handle.clone());
            let apply = apply.input(Tensor::scalar(0i64)).input(Tensor::vector(&rows).unwrap());
            let apply = apply.input(Tensor::from_slice(&[2.0f32, 4.0], &[2, 1]).unwrap());
            apply.input(Tensor::vector(&[6i64, 1]).unwrap()).run().unwrap();
        }
        let take = test_op("SparseAccumulatorTakeGradient").attr("dtype", DType::Float).in_step(&step);
        let taken = take.input(handle.clone()).input(Tensor::scalar(1i32)).run().unwrap();
        assert_eq!(taken[0].as_slice::<i64>().unwrap(), [0, 3, 5]);
        assert_eq!(taken[1].as_slice::<f32>().unwrap(), [2.0, 3.0, 4.0]);
        assert_eq!(taken[2].as_slice::<i64>().unwrap(), [6, 1]);
        let dense = test_op("AccumulatorTakeGradient").attr("dtype", DType::Float).in_step(&step);
        let status = dense.input(handle).input(Tensor::scalar(1i32)).run().unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
    }
}
