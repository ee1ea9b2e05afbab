//! Two-dimensional convolutions and their gradients.
//!
//! Patches of the image are laid out as the rows of a matrix, block by block so that a block stays in the cache,
//! and multiplied with the filter, which is a matrix already. The gradients are the other two products of the
//! same three matrices.

use num_traits::Float;
use parking_lot::Mutex;
use tensorfleet_core::{Element, Endpoint, PartialShape, Result, Shape, Tensor, bail, ensure};

use crate::dispatch;
use crate::gradients::{Differential, Grad, Grads};
use crate::kernel::{Context, KernelBox};
use crate::node_spec::NodeSpec;
use crate::op::{Cost, Op};
use crate::parallel;
use crate::shape_context::ShapeContext;

use super::activations::Activation;
use super::matmul::add_bias_and_activate;
use super::product::{Matrix, Multiply, Output, Threads, multiply};
use super::real::{Real, Wide};
use super::window::{Axis, Window, partial_4, rank_4, shape_in};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Conv2D", "input: T, filter: T -> output: T")
        .attrs(
            "T: {half, bfloat16, float, double, int32}; strides: list(int); use_cudnn_on_gpu: bool = true; \
             padding: {'SAME', 'VALID', 'EXPLICIT'}; explicit_paddings: list(int) = []; \
             data_format: {'NHWC', 'NCHW'} = 'NHWC'; dilations: list(int) = [1, 1, 1, 1]",
        )
        .shape(conv_shape)
        .kernel(conv)
        .cost(Cost::Heavy).gradient(conv_gradient),
    // What TensorFlow's masters make of a convolution and the ops after it. `TArgs` came with 2.x.
    Op::new("_FusedConv2D", "input: T, filter: T, args: num_args * T, host_args: num_host_args * float -> output: T")
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
    Op::new("Conv2DBackpropInput", "input_sizes: int32, filter: T, out_backprop: T -> output: T")
        .attrs(
            "T: {half, bfloat16, float, double, int32}; strides: list(int); use_cudnn_on_gpu: bool = true; \
             padding: {'SAME', 'VALID', 'EXPLICIT'}; explicit_paddings: list(int) = []; \
             data_format: {'NHWC', 'NCHW'} = 'NHWC'; dilations: list(int) = [1, 1, 1, 1]",
        )
        .shape(sizes_shape)
        .kernel(conv_backprop_input)
        .cost(Cost::Heavy).gradient(backprop_input_gradient),
    Op::new("Conv2DBackpropFilter", "input: T, filter_sizes: int32, out_backprop: T -> output: T")
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

/// Elements of a block of patches: about what fits a core's own cache.
const BLOCK_ELEMENTS: usize = 1 << 17;

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

/// The sizes of one convolution.
#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    rows: Axis,
    cols: Axis,
    depth: usize,
    channels: usize,
}

impl Sizes {
    /// Checks an image (channels last) against a filter.
    fn of(window: &Window, image: &Shape, filter: &Shape) -> Result<Sizes> {
        let [batch, height, width, depth] = rank_4(image, "input")?;
        let [kernel_rows, kernel_cols, filter_depth, channels] = rank_4(filter, "filter")?;
        ensure!(filter_depth > 0, InvalidArgument, "filter depth must be positive, its shape is {filter}");
        ensure!(
            depth % filter_depth == 0,
            InvalidArgument,
            "input depth must be evenly divisible by filter depth: {depth} vs {filter_depth}"
        );
        if depth != filter_depth {
            bail!(
                Unimplemented,
                "The Conv2D op currently does not support grouped convolutions on the CPU. A grouped convolution was \
                 attempted to be run because the input depth of {depth} does not match the filter input depth of {filter_depth}"
            );
        }
        let [rows, cols] = window.over([height, width], [kernel_rows, kernel_cols])?;
        Ok(Sizes { batch, rows, cols, depth, channels })
    }

    fn output(&self) -> [usize; 4] {
        [self.batch, self.rows.output, self.cols.output, self.channels]
    }

    /// Checks that a gradient has the shape of the output.
    fn check_gradient(&self, gradient: &Shape) -> Result<()> {
        ensure!(
            **gradient == self.output(),
            InvalidArgument,
            "Size of out_backprop doesn't match computed: actual = {gradient}, computed = {:?}",
            self.output()
        );
        Ok(())
    }

    /// Elements of a patch: the rows of the filter matrix.
    fn patch(&self) -> usize {
        self.rows.kernel * self.cols.kernel * self.depth
    }

    fn image_len(&self) -> usize {
        self.rows.input * self.cols.input * self.depth
    }

    /// Pixels of one output image.
    fn pixels(&self) -> usize {
        self.rows.output * self.cols.output
    }

    /// How many patches make a block.
    fn block(&self) -> usize {
        (BLOCK_ELEMENTS / self.patch().max(1)).clamp(16, 4096)
    }

    /// Whether an image is its own matrix of patches.
    fn is_pointwise(&self) -> bool {
        self.rows.is_identity() && self.cols.is_identity()
    }

    /// Estimated cost of an output pixel, in hundredths of a nanosecond.
    fn pixel_cost(&self) -> usize {
        self.patch().saturating_mul(self.channels).saturating_mul(2).saturating_add(self.patch() * 30)
    }

    /// Lays out the patches at pixels `first..` (of all images in a row) in `space`: a matrix with a row for each.
    fn patches<'p, T: Element>(
        &self,
        images: &[T],
        first: usize,
        space: &'p mut [T],
    ) -> Result<Matrix<'p, T>> {
        let count = space.len() / self.patch().max(1);
        if self.depth == 1 && self.cols.is_dense() {
            self.gather_columns(images, first, count, space);
            return Ok(Matrix::new(space, self.patch(), count)?.transposed());
        }
        self.gather(images, first, space);
        Matrix::new(space, count, self.patch())
    }

    /// Lays out `count` patches as columns. Where images have one channel, the same tap of neighbouring patches sees neighbouring
    /// pixels, so whole lines are copied; a line of a patch would be a few numbers.
    fn gather_columns<T: Copy + Default>(&self, images: &[T], first: usize, count: usize, columns: &mut [T]) {
        let (mut pixel, end) = (first, first + count);
        while pixel < end {
            let (row, col) = (pixel % self.pixels() / self.cols.output, pixel % self.cols.output);
            let len = (self.cols.output - col).min(end - pixel);
            let image = &images[pixel / self.pixels() * self.image_len()..][..self.image_len()];
            for (tap, line) in columns.chunks_mut(count).enumerate() {
                let line = &mut line[pixel - first..][..len];
                match self.rows.source(row, tap / self.cols.kernel) {
                    Some(y) => {
                        let seen = &image[y * self.cols.input..][..self.cols.input];
                        self.cols.slide_along(seen, col, tap % self.cols.kernel, line);
                    }
                    None => line.fill(T::default()),
                }
            }
            pixel += len;
        }
    }

    /// Lays out the patches at pixels `first..` (of all images in a row) as rows of `patches`.
    fn gather<T: Copy + Default>(&self, images: &[T], first: usize, patches: &mut [T]) {
        let (mut row, mut col) = (first % self.pixels() / self.cols.output, first % self.cols.output);
        let mut images = images[first / self.pixels() * self.image_len()..].chunks(self.image_len().max(1));
        let mut image = images.next().unwrap_or_default();
        let tap_row = self.cols.kernel * self.depth;
        for patch in patches.chunks_mut(self.patch()) {
            for (row_tap, taps) in patch.chunks_mut(tap_row).enumerate() {
                match self.rows.source(row, row_tap) {
                    Some(y) => self.gather_row(&image[y * self.cols.input * self.depth..], col, taps),
                    None => taps.fill(T::default()),
                }
            }
            col += 1;
            if col == self.cols.output {
                (row, col) = (row + 1, 0);
            }
            if row == self.rows.output {
                (row, image) = (0, images.next().unwrap_or_default());
            }
        }
    }

    /// Lays out one row of a patch. Pixels are followed by their right neighbours, so it is mostly one piece of the image.
    #[inline(always)]
    fn gather_row<T: Copy + Default>(&self, line: &[T], col: usize, taps: &mut [T]) {
        let depth = self.depth;
        if let Some(run) = self.cols.run(col) {
            let (from, len) = (run.first_tap * depth, run.count * depth);
            if len < taps.len() {
                taps.fill(T::default());
            }
            taps[from..from + len].copy_from_slice(&line[run.source * depth..][..len]);
            return;
        }
        for (col_tap, tap) in taps.chunks_mut(depth).enumerate() {
            match self.cols.source(col, col_tap) {
                Some(x) => tap.copy_from_slice(&line[x * depth..][..depth]),
                None => tap.fill(T::default()),
            }
        }
    }
}

crate::simd_dispatch! {
    /// Adds patches at pixels `first..` of one image back to where they came from.
    fn scatter[T: Convolve](sizes: &Sizes, patches: &[T], first: usize, image: &mut [T]) {
        let (depth, tap_row) = (sizes.depth, sizes.cols.kernel * sizes.depth);
        let (mut row, mut col) = (first / sizes.cols.output, first % sizes.cols.output);
        for patch in patches.chunks(sizes.patch()) {
            for (row_tap, taps) in patch.chunks(tap_row).enumerate() {
                let Some(y) = sizes.rows.source(row, row_tap) else { continue };
                let line = &mut image[y * sizes.cols.input * depth..];
                match sizes.cols.run(col) {
                    Some(run) => {
                        let (from, len) = (run.first_tap * depth, run.count * depth);
                        add_up(&mut line[run.source * depth..][..len], &taps[from..from + len]);
                    }
                    None => {
                        for (col_tap, x) in sizes.cols.taps(col) {
                            add_up(&mut line[x * depth..][..depth], &taps[col_tap * depth..][..depth]);
                        }
                    }
                }
            }
            col += 1;
            if col == sizes.cols.output {
                (row, col) = (row + 1, 0);
            }
        }
    }
}

#[inline(always)]
fn add_up<T: Convolve>(to: &mut [T], from: &[T]) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = to.sum(from));
}

/// Room for patches, which is used again and again.
fn space_for<T: Element>(patches: usize, patch: usize) -> Result<Tensor> {
    Tensor::allocate(T::DTYPE, Shape::new(&[patches, patch])?)
}

/// Numbers that patches of gradients are added up in.
trait Convolve: Multiply {
    fn sum(self, other: Self) -> Self;
}

macro_rules! convolve {
    ($($number:ty, $sum:expr;)*) => {
        $(impl Convolve for $number {
            #[inline(always)]
            fn sum(self, other: $number) -> $number {
                $sum(self, other)
            }
        })*
    };
}

convolve! {
    f32, |a, b| a + b;
    f64, |a, b| a + b;
    half::f16, |a, b| a + b;
    half::bf16, |a, b| a + b;
    i32, i32::wrapping_add;
}

/// Runs fallible work in parallel and keeps an error.
fn first_error(run: impl FnOnce(&(dyn Fn(Result<()>) + Sync))) -> Result<()> {
    let failure = Mutex::new(None);
    run(&|result| {
        if let Err(status) = result {
            failure.lock().get_or_insert(status);
        }
    });
    failure.into_inner().map_or(Ok(()), Err)
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
fn convolved<T: Convolve>(window: &Window, ctx: &Context<'_>) -> Result<Tensor> {
    let (image, filter) = (ctx.input(0)?, ctx.input(1)?);
    rank_4(image.shape(), "input")?;
    let image = window.layout.to_channels_last::<T>(image)?;
    let sizes = Sizes::of(window, image.shape(), filter.shape())?;
    Tensor::build::<T>(Shape::new(&sizes.output())?, |out| {
        forward(&sizes, image.as_slice::<T>()?, filter.as_slice::<T>()?, out)
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
            ChannelStep::Bias => add_bias_and_activate(values, channel_values::<T>(ctx, 2, channels)?, activation),
            ChannelStep::Normalize => {
                let input = |index| channel_values::<T>(ctx, index, channels);
                let bias = scale_channels(values, [input(2)?, input(3)?, input(4)?, input(5)?], epsilon);
                add_bias_and_activate(values, &bias, activation);
            }
        }
        ctx.set_output(0, window.layout.restored::<T>(output)?);
        Ok(())
    })))
}

/// Multiplies each channel by what normalisation with these statistics comes to, and gives the bias that completes it.
fn scale_channels<T: Real>(values: &mut [T], statistics: [&[T]; 4], epsilon: f32) -> Vec<T> {
    let [scale, offset, mean, variance] = statistics;
    let epsilon = T::Wide::constant(epsilon as f64);
    let factor = |channel: usize| scale[channel].widen() / (variance[channel].widen() + epsilon).sqrt();
    let factors: Vec<T::Wide> = (0..scale.len()).map(factor).collect();
    for pixel in values.chunks_mut(scale.len().max(1)) {
        for (value, &factor) in pixel.iter_mut().zip(&factors) {
            *value = T::narrow(value.widen() * factor);
        }
    }
    let bias = |channel: usize| T::narrow(offset[channel].widen() - mean[channel].widen() * factors[channel]);
    (0..scale.len()).map(bias).collect()
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

fn forward<T: Convolve>(sizes: &Sizes, images: &[T], filter: &[T], out: &mut [T]) -> Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    let (patch, channels) = (sizes.patch(), sizes.channels);
    let filter = Matrix::new(filter, patch, channels)?;
    if sizes.is_pointwise() {
        let pixels = Matrix::new(images, sizes.batch * sizes.pixels(), patch)?;
        return multiply(pixels, filter, out, Output::Overwrite, Threads::Many);
    }
    first_error(|keep| {
        parallel::chunks_mut(out, channels, sizes.pixel_cost(), |first, out| {
            let mut blocks = || -> Result<()> {
                let mut space = space_for::<T>((out.len() / channels).min(sizes.block()), patch)?;
                let space = space.make_mut::<T>()?;
                for (block, out) in out.chunks_mut(sizes.block() * channels).enumerate() {
                    let space = &mut space[..out.len() / channels * patch];
                    let patches = sizes.patches(images, first + block * sizes.block(), space)?;
                    multiply(patches, filter, out, Output::Overwrite, Threads::One)?;
                }
                Ok(())
            };
            keep(blocks());
        });
    })
}

fn conv_backprop_input(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let window = Window::of(node)?;
    dispatch!(node.dtype()?, T in [f32, f64, half::f16, half::bf16, i32] => Ok(KernelBox::from_fn(move |ctx| {
        let (filter, gradient) = (ctx.input(1)?, ctx.input(2)?);
        let input = image_sizes(ctx.input(0)?, &window, filter.shape(), gradient.shape())?;
        let gradient = window.layout.to_channels_last::<T>(gradient)?;
        let sizes = Sizes::of(&window, &input, filter.shape())?;
        sizes.check_gradient(gradient.shape())?;
        let mut output = Tensor::zeros(T::DTYPE, input)?;
        backward_to_input(&sizes, gradient.as_slice::<T>()?, filter.as_slice::<T>()?, output.make_mut::<T>()?)?;
        ctx.set_output(0, window.layout.restored::<T>(output)?);
        Ok(())
    })))
}

/// The shape of the image, channels last. `input_sizes` may give height and width alone.
fn image_sizes(sizes: &Tensor, window: &Window, filter: &Shape, gradient: &Shape) -> Result<Shape> {
    let given = crate::shape_context::integers_of(sizes)?;
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

fn backward_to_input<T: Convolve>(sizes: &Sizes, gradient: &[T], filter: &[T], out: &mut [T]) -> Result<()> {
    if out.is_empty() || gradient.is_empty() {
        return Ok(());
    }
    let (patch, channels, pixels) = (sizes.patch(), sizes.channels, sizes.pixels());
    let filter = Matrix::new(filter, patch, channels)?.transposed();
    if sizes.is_pointwise() {
        let gradient = Matrix::new(gradient, sizes.batch * pixels, channels)?;
        return multiply(gradient, filter, out, Output::Overwrite, Threads::Many);
    }
    let threads = if sizes.batch == 1 { Threads::Many } else { Threads::One };
    let cost = sizes.pixel_cost().saturating_mul(pixels);
    first_error(|keep| {
        parallel::chunks_mut(out, sizes.image_len(), cost, |first, images| {
            let mut back = || -> Result<()> {
                let mut space = space_for::<T>(pixels.min(sizes.block()), patch)?;
                let space = space.make_mut::<T>()?;
                for (at, image) in images.chunks_mut(sizes.image_len()).enumerate() {
                    let gradient = &gradient[(first + at) * pixels * channels..][..pixels * channels];
                    for (block, gradient) in gradient.chunks(sizes.block() * channels).enumerate() {
                        let count = gradient.len() / channels;
                        let patches = &mut space[..count * patch];
                        let gradient = Matrix::new(gradient, count, channels)?;
                        multiply(gradient, filter, patches, Output::Overwrite, threads)?;
                        scatter(sizes, patches, block * sizes.block(), image);
                    }
                }
                Ok(())
            };
            keep(back());
        });
    })
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
        let mut output = Tensor::zeros(T::DTYPE, filter)?;
        backward_to_filter(&sizes, image.as_slice::<T>()?, gradient.as_slice::<T>()?, output.make_mut::<T>()?)?;
        ctx.set_output(0, output);
        Ok(())
    })))
}

fn backward_to_filter<T: Convolve>(sizes: &Sizes, images: &[T], gradient: &[T], out: &mut [T]) -> Result<()> {
    let (patch, channels) = (sizes.patch(), sizes.channels);
    let pixels = sizes.batch * sizes.pixels();
    if pixels == 0 || sizes.depth == 0 {
        return Ok(());
    }
    if sizes.is_pointwise() {
        let (images, gradient) =
            (Matrix::new(images, pixels, patch)?, Matrix::new(gradient, pixels, channels)?);
        return multiply(images.transposed(), gradient, out, Output::Overwrite, Threads::Many);
    }
    // Each shard of pixels sums up a filter of its own.
    let shard = parallel::shard_len(pixels, sizes.pixel_cost()).unwrap_or(pixels).max(sizes.block());
    let mut filters = vec![T::default(); pixels.div_ceil(shard) * patch * channels];
    first_error(|keep| {
        let shards = filters.chunks_mut(patch * channels).zip(gradient.chunks(shard * channels)).enumerate();
        parallel::each(shards, |(at, (filter, gradient))| {
            let mut blocks = || -> Result<()> {
                let mut space = space_for::<T>((gradient.len() / channels).min(sizes.block()), patch)?;
                let space = space.make_mut::<T>()?;
                for (block, gradient) in gradient.chunks(sizes.block() * channels).enumerate() {
                    let count = gradient.len() / channels;
                    let space = &mut space[..count * patch];
                    let patches = sizes.patches(images, at * shard + block * sizes.block(), space)?;
                    let gradient = Matrix::new(gradient, count, channels)?;
                    multiply(patches.transposed(), gradient, filter, Output::Accumulate, Threads::One)?;
                }
                Ok(())
            };
            keep(blocks());
        });
    })?;
    for filter in filters.chunks(patch * channels) {
        out.iter_mut().zip(filter).for_each(|(out, &part)| *out = out.sum(part));
    }
    Ok(())
}
