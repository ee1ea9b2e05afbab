//! Tensors filled from one distribution: uniform, normal and truncated normal, with a stream of their own or, for
//! the stateless ops, with seeds as an input.

use tensorfleet_core::{DType, Element, PartialShape, Result, Shape, Tensor, ensure};

use super::distributions::{Distribution, Normal, TruncatedNormal, Uniform, UniformInt, fill};
use super::stream::Stream;
use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, integers_of};
use tensorfleet_kernel::work::elements_of_shape;
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::philox::Philox;
use tensorfleet_threads::Loops;

const SEEDED: &str =
    "seed: int = 0; seed2: int = 0; dtype: {half, bfloat16, float, double}; T: {int32, int64}";
const STATELESS: &str = "dtype: {half, bfloat16, float, double} = float; T: {int32, int64} = int32; \
                         Tseed: {int32, int64} = int64";

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    seeded("RandomUniform").not_differentiable().kernel(uniform),
    seeded("RandomStandardNormal").not_differentiable().kernel(normal),
    seeded("TruncatedNormal").not_differentiable().kernel(truncated_normal),
    Op::new("RandomUniformInt", "shape: T, minval: Tout, maxval: Tout -> output: Tout")
        .work(Work::Values(elements_of_shape::<0>))
        .attrs("seed: int = 0; seed2: int = 0; Tout: {int32, int64}; T: {int32, int64}")
        .random()
        .shape(shape_of_value)
        .kernel(uniform_int),
    stateless("StatelessRandomUniform").not_differentiable().kernel(stateless_uniform),
    stateless("StatelessRandomNormal").not_differentiable().kernel(stateless_normal),
    stateless("StatelessTruncatedNormal").not_differentiable().kernel(stateless_truncated_normal),
    Op::new(
        "StatelessRandomUniformInt",
        "shape: T, seed: Tseed, minval: dtype, maxval: dtype -> output: dtype",
    )
    .work(Work::Values(elements_of_shape::<0>))
    .not_differentiable()
    .attrs("dtype: {int32, int64}; T: {int32, int64}; Tseed: {int32, int64} = int64")
    .shape(shape_of_value)
    .kernel(stateless_uniform_int),
];

const fn seeded(name: &'static str) -> Op {
    let op = Op::new(name, "shape: T -> output: dtype").attrs(SEEDED).random();
    op.shape(shape_of_value).work(Work::Values(elements_of_shape::<0>))
}

const fn stateless(name: &'static str) -> Op {
    let op = Op::new(name, "shape: T, seed: Tseed -> output: dtype").attrs(STATELESS);
    op.shape(shape_of_value).work(Work::Values(elements_of_shape::<0>))
}

fn shape_of_value(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(vec![ctx.shape_value(0)?])
}

/// The shape that a vector of int32 or int64 describes.
pub(super) fn shape_in(tensor: &Tensor) -> Result<Shape> {
    ensure!(
        tensor.shape().rank() == 1,
        InvalidArgument,
        "shape must be a vector of {{int32,int64}}, got shape {}",
        tensor.shape()
    );
    Shape::from_signed(&integers_of(tensor)?)
}

fn filled<T: Element, D: Distribution<T>>(
    loops: &Loops,
    shape: Shape,
    base: Philox,
    distribution: &D,
) -> Result<Tensor> {
    Tensor::build::<T>(shape, |out| {
        fill(loops, base, out, distribution);
        Ok(())
    })
}

fn stream_kernel<T: Element, D: Distribution<T> + Send + 'static>(
    node: &NodeSpec<'_>,
    distribution: D,
) -> Result<KernelBox> {
    let stream = Stream::of_node(node)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let shape = shape_in(ctx.input(0)?)?;
        let base = stream.reserve_outputs(shape.num_elements() as u64);
        ctx.set_output(0, filled(ctx.loops(), shape, base, &distribution)?);
        Ok(())
    }))
}

fn uniform(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.output_dtype(0)?, T in floating => stream_kernel::<T, _>(node, Uniform))
}

fn normal(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.output_dtype(0)?, T in floating => stream_kernel::<T, _>(node, Normal))
}

fn truncated_normal(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.output_dtype(0)?, T in floating => stream_kernel::<T, _>(node, TruncatedNormal))
}

fn uniform_int(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let stream = Stream::of_node(node)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let shape = shape_in(ctx.input(0)?)?;
        let output = filled_with_integers(ctx, 1, shape, |count| stream.reserve_outputs(count))?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

/// Integers between the bounds in inputs `bounds` and `bounds + 1`; the stream moves only if they are good.
fn filled_with_integers(
    ctx: &Context<'_>,
    bounds: usize,
    shape: Shape,
    reserve: impl FnOnce(u64) -> Philox,
) -> Result<Tensor> {
    let (low, high) = (ctx.input(bounds)?, ctx.input(bounds + 1)?);
    for (name, bound) in [("minval", low), ("maxval", high)] {
        ensure!(bound.is_scalar(), InvalidArgument, "{name} must be 0-D, got shape {}", bound.shape());
    }
    let dtype = low.dtype();
    if shape.num_elements() == 0 {
        return Tensor::allocate(dtype, shape);
    }
    let (low, high) = (integers_of(low)?[0], integers_of(high)?[0]);
    ensure!(low < high, InvalidArgument, "Need minval < maxval, got {low} >= {high}");
    let range = high.wrapping_sub(low) as u64;
    let base = reserve(shape.num_elements() as u64);
    match dtype {
        DType::Int32 => filled(ctx.loops(), shape, base, &UniformInt { low: low as i32, range }),
        _ => filled(ctx.loops(), shape, base, &UniformInt { low, range }),
    }
}

/// The stream for the two seeds in an input.
pub(super) fn stateless_stream(seed: &Tensor) -> Result<Philox> {
    let seeds = integers_of(seed)?;
    let ([seed, seed2], 1) = (&seeds[..], seed.shape().rank()) else {
        return Err(tensorfleet_core::Status::invalid_argument(format!(
            "seed must have shape [2], not {}",
            seed.shape()
        )));
    };
    Ok(Philox::scrambled(*seed as u64, *seed2 as u64))
}

fn stateless_kernel<T: Element, D: Distribution<T> + Send + 'static>(distribution: D) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(move |ctx| {
        let base = stateless_stream(ctx.input(1)?)?;
        let output = filled(ctx.loops(), shape_in(ctx.input(0)?)?, base, &distribution)?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

fn stateless_uniform(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.output_dtype(0)?, T in floating => stateless_kernel::<T, _>(Uniform))
}

fn stateless_normal(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.output_dtype(0)?, T in floating => stateless_kernel::<T, _>(Normal))
}

fn stateless_truncated_normal(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.output_dtype(0)?, T in floating => stateless_kernel::<T, _>(TruncatedNormal))
}

fn stateless_uniform_int(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(move |ctx| {
        let base = stateless_stream(ctx.input(1)?)?;
        let output = filled_with_integers(ctx, 2, shape_in(ctx.input(0)?)?, |_| base)?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

#[cfg(test)]
#[path = "fills_tests.rs"]
mod tests;
