//! Two-dimensional convolutions and their gradients: the ops. What they compute is in `convolve.rs`.

use tensorfleet_core::{Element, Endpoint, PartialShape, Result, Shape, Tensor, bail, ensure, memory};

use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{Differential, Grad, Grads};
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_kernel::work::elements_of_shape;
use tensorfleet_numeric::dispatch;

use super::activations::Activation;
use super::convolve::{Sizes, backward_to_filter, backward_to_input, forward};
use super::matmul::add_bias_and_activate;
use super::window::{Window, partial_4, rank_4, shape_in};
use tensorfleet_numeric::implicit_gemm::Tile;
use tensorfleet_numeric::number::{Field, Floating};
use tensorfleet_numeric::stored::{
    Stored, build_computed, build_sums, compute_elements, stored_elements, update_computed,
};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Conv2D", "input: T, filter: T -> output: T").work(Work::Inputs)
        .attrs(
            "T: {half, bfloat16, float, double, int32}; strides: list(int); use_cudnn_on_gpu: bool = true; \
             padding: {'SAME', 'VALID', 'EXPLICIT'}; explicit_paddings: list(int) = []; \
             data_format: {'NHWC', 'NCHW'} = 'NHWC'; dilations: list(int) = [1, 1, 1, 1]",
        )
        .shape(conv_shape)
        .kernel(conv)
        .cost(Cost::Heavy).gradient(conv_gradient),
    // What TensorFlow's masters make of a convolution and the ops after it. `TArgs` came with 2.x.
    Op::new("_FusedConv2D", "input: T, filter: T, args: num_args * T, host_args: num_host_args * float -> output: T").work(Work::Inputs)
        .attrs(
            "T: {half, float, double}; TArgs: list(type) = []; num_args: int >= 0; num_host_args: int >= 0 = 0; \
             strides: list(int); padding: {'SAME', 'VALID', 'EXPLICIT'}; explicit_paddings: list(int) = []; \
             data_format: {'NHWC', 'NCHW'} = 'NHWC'; filter_format: {'HWIO'} = 'HWIO'; \
             dilations: list(int) = [1, 1, 1, 1]; use_cudnn_on_gpu: bool = true; fused_ops: list(string) = []; \
             epsilon: float = 0.0001; leakyrelu_alpha: float = 0.2",
        )
        .shape(conv_shape)
        .kernel(fused_conv)
        .cost(Cost::Heavy),
    Op::new("Conv2DBackpropInput", "input_sizes: int32, filter: T, out_backprop: T -> output: T").work(Work::Values(elements_of_shape::<0>))
        .attrs(
            "T: {half, bfloat16, float, double, int32}; strides: list(int); use_cudnn_on_gpu: bool = true; \
             padding: {'SAME', 'VALID', 'EXPLICIT'}; explicit_paddings: list(int) = []; \
             data_format: {'NHWC', 'NCHW'} = 'NHWC'; dilations: list(int) = [1, 1, 1, 1]",
        )
        .shape(sizes_shape)
        .kernel(conv_backprop_input)
        .cost(Cost::Heavy).gradient(backprop_input_gradient),
    Op::new("Conv2DBackpropFilter", "input: T, filter_sizes: int32, out_backprop: T -> output: T").work(Work::Values(elements_of_shape::<1>))
        .attrs(
            "T: floating; strides: list(int); use_cudnn_on_gpu: bool = true; \
             padding: {'SAME', 'VALID', 'EXPLICIT'}; explicit_paddings: list(int) = []; \
             data_format: {'NHWC', 'NCHW'} = 'NHWC'; dilations: list(int) = [1, 1, 1, 1]",
        )
        .shape(filter_sizes_shape)
        .kernel(conv_backprop_filter)
        .cost(Cost::Heavy).gradient(backprop_filter_gradient),
];

/// The attributes that a convolution and its gradients share.
pub(super) const SHARED_ATTRS: &[&str] =
    &["strides", "padding", "explicit_paddings", "data_format", "dilations", "use_cudnn_on_gpu"];

fn conv_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    convolution_gradient(d, "Conv2D")
}

fn backprop_input_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    convolution_backprop_input_gradient(d, "Conv2D")
}

fn backprop_filter_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    convolution_backprop_filter_gradient(d, "Conv2D")
}

/// The gradient of the convolution that `op` is.
pub(super) fn convolution_gradient(d: &mut Differential<'_>, op: &str) -> Result<Grads> {
    let (x, filter, dy) = (d.input(0)?, d.input(1)?, d.dy(0)?);
    let dx = backprop_input(d, op, x, filter, dy)?;
    let dfilter = backprop_filter(d, op, x, filter, dy)?;
    d.flow([dx.into(), dfilter.into()])
}

/// Of the gradient with respect to the input, as a function of the filter and of what arrives.
pub(super) fn convolution_backprop_input_gradient(d: &mut Differential<'_>, op: &str) -> Result<Grads> {
    let (filter, arriving, dz) = (d.input(1)?, d.input(2)?, d.dy(0)?);
    let dfilter = backprop_filter(d, op, dz, filter, arriving)?;
    let forward = d.emit(d.with_attrs(op, &[dz, filter], SHARED_ATTRS))?;
    Ok(vec![None, Some(Grad::Dense(dfilter)), Some(Grad::Dense(forward))])
}

/// Of the gradient with respect to the filter, as a function of the input and of what arrives.
pub(super) fn convolution_backprop_filter_gradient(d: &mut Differential<'_>, op: &str) -> Result<Grads> {
    let (x, arriving, dz) = (d.input(0)?, d.input(2)?, d.dy(0)?);
    let dx = backprop_input(d, op, x, dz, arriving)?;
    let forward = d.emit(d.with_attrs(op, &[x, dz], SHARED_ATTRS))?;
    Ok(vec![Some(Grad::Dense(dx)), None, Some(Grad::Dense(forward))])
}

fn backprop_input(
    d: &mut Differential<'_>,
    op: &str,
    x: Endpoint,
    filter: Endpoint,
    dy: Endpoint,
) -> Result<Endpoint> {
    let sizes = d.shape_of(x)?;
    d.emit(d.with_attrs(&format!("{op}BackpropInput"), &[sizes, filter, dy], SHARED_ATTRS))
}

fn backprop_filter(
    d: &mut Differential<'_>,
    op: &str,
    x: Endpoint,
    filter: Endpoint,
    dy: Endpoint,
) -> Result<Endpoint> {
    let sizes = d.shape_of(filter)?;
    d.emit(d.with_attrs(&format!("{op}BackpropFilter"), &[x, sizes, dy], SHARED_ATTRS))
}

fn conv_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let window = Window::of(ctx.node)?;
    let [batch, height, width, depth] = window.layout.read(partial_4(&ctx.input_with_rank(0, 4)?));
    let [rows, cols, filter_depth, channels] = partial_4(&ctx.input_with_rank(1, 4)?);
    if let (Some(depth), Some(filter_depth)) = (depth, filter_depth) {
        ensure!(
            filter_depth > 0 && depth % filter_depth == 0,
            InvalidArgument,
            "Depth of input ({depth}) is not a multiple of input depth of filter ({filter_depth})"
        );
    }
    let [out_height, out_width] = window.partial([height, width], [rows, cols])?;
    Ok(vec![PartialShape::new(window.layout.write([batch, out_height, out_width, channels]))])
}

/// Shape rule: the output has the shape that input 0 describes.
pub(crate) fn sizes_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(vec![ctx.shape_value(0)?.merge(&PartialShape::of_rank(4))?])
}

/// Shape rule: the output has the shape that input 1 describes.
pub(crate) fn filter_sizes_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(vec![ctx.shape_value(1)?.merge(&PartialShape::of_rank(4))?])
}

fn conv(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let window = Window::of(node)?;
    dispatch!(node.dtype()?, T in [f32, f64, half::f16, half::bf16, i32] => Ok(KernelBox::from_fn(move |ctx| {
        let output = convolved::<T>(&window, ctx)?;
        ctx.set_output(0, window.layout.restored::<T>(output)?);
        Ok(())
    })))
}

/// The convolution of input 0 with the filter in input 1, channels last.
///
/// Halves are convolved in single precision and rounded once.
fn convolved<T: Stored<Compute: Tile>>(window: &Window, ctx: &Context<'_>) -> Result<Tensor> {
    let (image, filter) = (ctx.input(0)?, ctx.input(1)?);
    rank_4(image.shape(), "input")?;
    let image = window.layout.to_channels_last::<T>(image)?;
    let sizes = Sizes::of(window, image.shape(), filter.shape())?;
    let (image, filter) =
        (compute_elements(image.as_slice::<T>()?)?, compute_elements(filter.as_slice::<T>()?)?);
    build_computed::<T>(Shape::new(&sizes.output())?, |out| {
        forward(ctx.loops(), &sizes, &image, &filter, out)
    })
}

/// What a fused convolution does to each channel before it activates.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChannelStep {
    /// Adds a bias: one more input.
    Bias,
    /// Normalises with given statistics: scale, offset, mean and variance.
    Normalize,
}

/// `_FusedConv2D`: bias or normalisation, and an activation, follow without another pass over memory.
fn fused_conv(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let window = Window::of(node)?;
    let fused: Vec<String> = node.attr("fused_ops")?;
    let names: Vec<&str> = fused.iter().map(String::as_str).collect();
    let alpha = node.attr("leakyrelu_alpha")?;
    let (step, activation) = match names[..] {
        ["BiasAdd"] => (ChannelStep::Bias, Activation::Identity),
        ["BiasAdd", name] => (ChannelStep::Bias, Activation::named(name, alpha)?),
        ["FusedBatchNorm"] => (ChannelStep::Normalize, Activation::Identity),
        ["FusedBatchNorm", name] => (ChannelStep::Normalize, Activation::named(name, alpha)?),
        _ => bail!(Unimplemented, "Fusion is not implemented: [{}]", names.join(",")),
    };
    let expected = if step == ChannelStep::Bias { 1 } else { 4 };
    let found: i64 = node.attr("num_args")?;
    ensure!(
        found == expected,
        InvalidArgument,
        "Fused Conv2D with {} needs {expected} arguments, got {found}",
        names[0]
    );
    let epsilon: f32 = node.attr("epsilon")?;
    dispatch!(node.dtype()?, T in [f32, f64, half::f16] => Ok(KernelBox::from_fn(move |ctx| {
        let mut output = convolved::<T>(&window, ctx)?;
        let channels = output.shape()[3];
        let values = output.make_mut::<T>()?;
        match step {
            ChannelStep::Bias => add_bias_and_activate(ctx.loops(), values, channel_values::<T>(ctx, 2, channels)?, activation)?,
            ChannelStep::Normalize => {
                let input = |index| channel_values::<T>(ctx, index, channels);
                let bias = scale_channels(values, [input(2)?, input(3)?, input(4)?, input(5)?], epsilon)?;
                add_bias_and_activate(ctx.loops(), values, &bias, activation)?;
            }
        }
        ctx.set_output(0, window.layout.restored::<T>(output)?);
        Ok(())
    })))
}

/// Multiplies each channel by what normalisation with these statistics comes to, and gives the bias that completes it.
fn scale_channels<S: Stored<Compute: Floating>>(
    values: &mut [S],
    statistics: [&[S]; 4],
    epsilon: f32,
) -> Result<Vec<S>> {
    let [scale, offset, mean, variance] = statistics;
    let (scale, offset) = (compute_elements(scale)?, compute_elements(offset)?);
    let (mean, variance) = (compute_elements(mean)?, compute_elements(variance)?);
    let epsilon = S::Compute::constant(epsilon as f64);
    let factor = |(&scale, &variance): (&S::Compute, &S::Compute)| scale / (variance + epsilon).root();
    let factors = memory::collect(scale.iter().zip(&*variance).map(factor))?;
    update_computed(values, |values| {
        for pixel in values.chunks_mut(factors.len().max(1)) {
            pixel.iter_mut().zip(&factors).for_each(|(value, &factor)| *value = *value * factor);
        }
    })?;
    let terms = offset.iter().zip(&*mean).zip(&factors);
    stored_elements(&memory::collect(terms.map(|((&offset, &mean), &factor)| offset - mean * factor))?)
}

/// Input `index`, which has one value for each channel.
fn channel_values<'a, T: Element>(ctx: &'a Context<'_>, index: usize, channels: usize) -> Result<&'a [T]> {
    let tensor = ctx.input(index)?;
    ensure!(
        tensor.shape().rank() == 1 && tensor.num_elements() == channels,
        InvalidArgument,
        "Input {index} of a fused convolution needs a value for each of {channels} channels, its shape is {}",
        tensor.shape()
    );
    tensor.as_slice::<T>()
}

fn conv_backprop_input(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let window = Window::of(node)?;
    dispatch!(node.dtype()?, T in [f32, f64, half::f16, half::bf16, i32] => Ok(KernelBox::from_fn(move |ctx| {
        let (filter, gradient) = (ctx.input(1)?, ctx.input(2)?);
        let input = image_sizes(ctx.input(0)?, &window, filter.shape(), gradient.shape())?;
        let gradient = window.layout.to_channels_last::<T>(gradient)?;
        let sizes = Sizes::of(&window, &input, filter.shape())?;
        sizes.check_gradient(gradient.shape())?;
        let (gradient, filter) = (compute_elements(gradient.as_slice::<T>()?)?, compute_elements(filter.as_slice::<T>()?)?);
        let output = build_sums::<T>(input, |out| backward_to_input(ctx.loops(), &sizes, &gradient, &filter, out))?;
        ctx.set_output(0, window.layout.restored::<T>(output)?);
        Ok(())
    })))
}

/// The shape of the image, channels last. `input_sizes` may give height and width alone.
fn image_sizes(sizes: &Tensor, window: &Window, filter: &Shape, gradient: &Shape) -> Result<Shape> {
    let given = tensorfleet_kernel::shape_context::integers_of(sizes)?;
    if let [height, width] = given[..] {
        let (Some(&batch), Some(&depth)) = (gradient.first(), filter.get(2)) else {
            bail!(
                InvalidArgument,
                "filter and out_backprop must be 4-dimensional, got {filter} and {gradient}"
            )
        };
        return Shape::from_signed(&[batch as i64, height, width, depth as i64]);
    }
    Shape::new(&window.layout.read(rank_4(&shape_in(sizes, "input_sizes")?, "input_sizes")?))
}

fn conv_backprop_filter(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let window = Window::of(node)?;
    dispatch!(node.dtype()?, T in floating => Ok(KernelBox::from_fn(move |ctx| {
        let (image, gradient) = (ctx.input(0)?, ctx.input(2)?);
        let filter = shape_in(ctx.input(1)?, "filter_sizes")?;
        rank_4(image.shape(), "input")?;
        let image = window.layout.to_channels_last::<T>(image)?;
        let gradient = window.layout.to_channels_last::<T>(gradient)?;
        let sizes = Sizes::of(&window, image.shape(), &filter)?;
        sizes.check_gradient(gradient.shape())?;
        let (image, gradient) = (compute_elements(image.as_slice::<T>()?)?, compute_elements(gradient.as_slice::<T>()?)?);
        let output = build_sums::<T>(filter, |out| backward_to_filter(ctx.loops(), &sizes, &image, &gradient, out))?;
        ctx.set_output(0, output);
        Ok(())
    })))
}
