//! Depthwise convolutions: every input channel has filters of its own. Output channel `c * multiplier + q` is
//! input channel `c` under filter `q`.

use tensorfleet_core::{PartialShape, Result, Shape, ensure, memory};

use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_kernel::work::elements_of_shape;
use tensorfleet_numeric::dispatch;
use tensorfleet_threads::Loops;

use super::conv::{
    convolution_backprop_filter_gradient, convolution_backprop_input_gradient, convolution_gradient,
    filter_sizes_shape, sizes_shape,
};
use super::window::{Axis, Window, partial_4, rank_4, shape_in};
use tensorfleet_numeric::number::Floating;
use tensorfleet_numeric::stored::{build_computed, build_sums, compute_elements};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("DepthwiseConv2dNative", "input: T, filter: T -> output: T").work(Work::Inputs)
        .attrs(
            "T: floating; strides: list(int); padding: {'SAME', 'VALID', 'EXPLICIT'}; explicit_paddings: list(int) = []; \
             data_format: {'NHWC', 'NCHW'} = 'NHWC'; dilations: list(int) = [1, 1, 1, 1]",
        )
        .shape(depthwise_shape)
        .kernel(depthwise)
        .cost(Cost::Heavy).gradient(depthwise_gradient),
    Op::new("DepthwiseConv2dNativeBackpropInput", "input_sizes: int32, filter: T, out_backprop: T -> output: T").work(Work::Values(elements_of_shape::<0>))
        .attrs(
            "T: floating; strides: list(int); padding: {'SAME', 'VALID', 'EXPLICIT'}; explicit_paddings: list(int) = []; \
             data_format: {'NHWC', 'NCHW'} = 'NHWC'; dilations: list(int) = [1, 1, 1, 1]",
        )
        .shape(sizes_shape)
        .kernel(depthwise_backprop_input)
        .cost(Cost::Heavy).gradient(backprop_input_gradient),
    Op::new("DepthwiseConv2dNativeBackpropFilter", "input: T, filter_sizes: int32, out_backprop: T -> output: T").work(Work::Values(elements_of_shape::<1>))
        .attrs(
            "T: floating; strides: list(int); padding: {'SAME', 'VALID', 'EXPLICIT'}; explicit_paddings: list(int) = []; \
             data_format: {'NHWC', 'NCHW'} = 'NHWC'; dilations: list(int) = [1, 1, 1, 1]",
        )
        .shape(filter_sizes_shape)
        .kernel(depthwise_backprop_filter)
        .cost(Cost::Heavy).gradient(backprop_filter_gradient),
];

fn depthwise_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    convolution_gradient(d, "DepthwiseConv2dNative")
}

fn backprop_input_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    convolution_backprop_input_gradient(d, "DepthwiseConv2dNative")
}

fn backprop_filter_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    convolution_backprop_filter_gradient(d, "DepthwiseConv2dNative")
}

fn depthwise_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let window = Window::of(ctx.node)?;
    let [batch, height, width, depth] = window.layout.read(partial_4(&ctx.input_with_rank(0, 4)?));
    let [rows, cols, filter_depth, multiplier] = partial_4(&ctx.input_with_rank(1, 4)?);
    let depth = PartialShape::vector(depth).merge(&PartialShape::vector(filter_depth))?.dim(0);
    let channels = depth.zip(multiplier).and_then(|(depth, multiplier)| depth.checked_mul(multiplier));
    let [out_height, out_width] = window.partial([height, width], [rows, cols])?;
    Ok(vec![PartialShape::new(window.layout.write([batch, out_height, out_width, channels]))])
}

#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    rows: Axis,
    cols: Axis,
    depth: usize,
    multiplier: usize,
}

impl Sizes {
    fn of(window: &Window, image: &Shape, filter: &Shape) -> Result<Sizes> {
        let [batch, height, width, depth] = rank_4(image, "input")?;
        let [kernel_rows, kernel_cols, filter_depth, multiplier] = rank_4(filter, "filter")?;
        ensure!(
            depth == filter_depth,
            InvalidArgument,
            "input and filter must have the same depth: {depth} vs {filter_depth}"
        );
        let [rows, cols] = window.over([height, width], [kernel_rows, kernel_cols])?;
        Ok(Sizes { batch, rows, cols, depth, multiplier })
    }

    fn output(&self) -> [usize; 4] {
        [self.batch, self.rows.output, self.cols.output, self.depth * self.multiplier]
    }

    fn check_gradient(&self, gradient: &Shape) -> Result<()> {
        ensure!(
            **gradient == self.output(),
            InvalidArgument,
            "out_backprop has shape {gradient}, but the convolution's output has {:?}",
            self.output()
        );
        Ok(())
    }

    fn channels(&self) -> usize {
        self.depth * self.multiplier
    }

    fn pixel_cost(&self) -> usize {
        (self.rows.kernel * self.cols.kernel).saturating_mul(self.channels()).saturating_mul(60)
    }

    /// Calls `visit` with every tap of every pixel of output row `row`: the pixel's column, where the tap's filter
    /// starts, and where its source starts in the image.
    fn visit_row(&self, row: usize, mut visit: impl FnMut(usize, usize, usize)) {
        for (row_tap, y) in self.rows.taps(row) {
            for col in 0..self.cols.output {
                for (col_tap, x) in self.cols.taps(col) {
                    let tap = (row_tap * self.cols.kernel + col_tap) * self.channels();
                    visit(col, tap, (y * self.cols.input + x) * self.depth);
                }
            }
        }
    }
}

fn depthwise(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let window = Window::of(node)?;
    dispatch!(node.dtype()?, T in floating => Ok(KernelBox::from_fn(move |ctx| {
        let (image, filter) = (ctx.input(0)?, ctx.input(1)?);
        rank_4(image.shape(), "input")?;
        let image = window.layout.to_channels_last::<T>(image)?;
        let sizes = Sizes::of(&window, image.shape(), filter.shape())?;
        let (image, filter) = (compute_elements(image.as_slice::<T>()?)?, compute_elements(filter.as_slice::<T>()?)?);
        let output = build_computed::<T>(Shape::new(&sizes.output())?, |out| {
            forward(ctx.loops(), &sizes, &image, &filter, out);
            Ok(())
        })?;
        ctx.set_output(0, window.layout.restored::<T>(output)?);
        Ok(())
    })))
}

fn forward<T: Floating>(loops: &Loops, sizes: &Sizes, images: &[T], filter: &[T], out: &mut [T]) {
    let (channels, image_len) = (sizes.channels(), sizes.rows.input * sizes.cols.input * sizes.depth);
    let row_len = sizes.cols.output * channels;
    if out.is_empty() {
        return;
    }
    let cost = sizes.pixel_cost().saturating_mul(sizes.cols.output);
    loops.chunks_mut(out, row_len, cost, |first, piece| {
        for (at, sums) in piece.chunks_mut(row_len).enumerate() {
            let (image, row) = ((first + at) / sizes.rows.output, (first + at) % sizes.rows.output);
            let image = &images[image * image_len..][..image_len];
            sums.fill(T::ZERO);
            sizes.visit_row(row, |col, tap, source| {
                let sums = &mut sums[col * channels..][..channels];
                let (filter, pixel) = (&filter[tap..][..channels], &image[source..][..sizes.depth]);
                if sizes.multiplier == 1 {
                    for ((sum, &f), &x) in sums.iter_mut().zip(filter).zip(pixel) {
                        *sum = *sum + x * f;
                    }
                } else {
                    let by_channel = sums.chunks_mut(sizes.multiplier).zip(filter.chunks(sizes.multiplier));
                    for ((sums, filter), &x) in by_channel.zip(pixel) {
                        sums.iter_mut().zip(filter).for_each(|(sum, &f)| *sum = *sum + x * f);
                    }
                }
            });
        }
    });
}

fn depthwise_backprop_input(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let window = Window::of(node)?;
    dispatch!(node.dtype()?, T in floating => Ok(KernelBox::from_fn(move |ctx| {
        let input = shape_in(ctx.input(0)?, "input_sizes")?;
        let (filter, gradient) = (ctx.input(1)?, ctx.input(2)?);
        let input = Shape::new(&window.layout.read(rank_4(&input, "input_sizes")?))?;
        let gradient = window.layout.to_channels_last::<T>(gradient)?;
        let sizes = Sizes::of(&window, &input, filter.shape())?;
        sizes.check_gradient(gradient.shape())?;
        let (gradient, filter) = (compute_elements(gradient.as_slice::<T>()?)?, compute_elements(filter.as_slice::<T>()?)?);
        let output = build_sums::<T>(input, |sums| {
            backward_to_input(ctx.loops(), &sizes, &gradient, &filter, sums);
            Ok(())
        })?;
        ctx.set_output(0, window.layout.restored::<T>(output)?);
        Ok(())
    })))
}

fn backward_to_input<T: Floating>(
    loops: &Loops,
    sizes: &Sizes,
    gradient: &[T],
    filter: &[T],
    sums: &mut [T],
) {
    let (channels, depth) = (sizes.channels(), sizes.depth);
    let (image_len, row_len) = (sizes.rows.input * sizes.cols.input * depth, sizes.cols.output * channels);
    if !sums.is_empty() && !gradient.is_empty() {
        let cost = sizes.pixel_cost().saturating_mul(sizes.cols.output * sizes.rows.output);
        loops.chunks_mut(sums, image_len, cost, |first, images| {
            for (at, image) in images.chunks_mut(image_len).enumerate() {
                for row in 0..sizes.rows.output {
                    let gradient = &gradient[((first + at) * sizes.rows.output + row) * row_len..][..row_len];
                    sizes.visit_row(row, |col, tap, source| {
                        let gradient = gradient[col * channels..][..channels].chunks(sizes.multiplier);
                        let filter = filter[tap..][..channels].chunks(sizes.multiplier);
                        for ((sum, gradient), filter) in
                            image[source..][..depth].iter_mut().zip(gradient).zip(filter)
                        {
                            for (&g, &f) in gradient.iter().zip(filter) {
                                *sum = *sum + g * f;
                            }
                        }
                    });
                }
            }
        });
    }
}

fn depthwise_backprop_filter(node: &NodeSpec<'_>) -> Result<KernelBox> {
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
        let output = build_sums::<T>(filter, |total| {
            backward_to_filter(ctx.loops(), &sizes, &image, &gradient, total)
        })?;
        ctx.set_output(0, output);
        Ok(())
    })))
}

fn backward_to_filter<T: Floating>(
    loops: &Loops,
    sizes: &Sizes,
    images: &[T],
    gradient: &[T],
    total: &mut [T],
) -> Result<()> {
    let (channels, depth) = (sizes.channels(), sizes.depth);
    let (image_len, row_len) = (sizes.rows.input * sizes.cols.input * depth, sizes.cols.output * channels);
    let rows = sizes.batch * sizes.rows.output;
    if gradient.is_empty() || images.is_empty() || rows == 0 {
        return Ok(());
    }
    // Each shard of output rows sums up a filter of its own.
    let cost = sizes.pixel_cost().saturating_mul(sizes.cols.output);
    let shard = loops.shard_len(rows, cost).unwrap_or(rows);
    let mut filters = memory::vec_of(T::ZERO, rows.div_ceil(shard).saturating_mul(total.len()))?;
    let shards = filters.chunks_mut(total.len()).zip(gradient.chunks(shard * row_len)).enumerate();
    loops.each(shards, |(at, (filter, gradient))| {
        for (i, gradient) in gradient.chunks(row_len).enumerate() {
            if loops.are_given_up() {
                break;
            }
            let (image, row) = ((at * shard + i) / sizes.rows.output, (at * shard + i) % sizes.rows.output);
            let image = &images[image * image_len..][..image_len];
            sizes.visit_row(row, |col, tap, source| {
                let filter = filter[tap..][..channels].chunks_mut(sizes.multiplier);
                let gradient = gradient[col * channels..][..channels].chunks(sizes.multiplier);
                for ((sums, gradient), &x) in filter.zip(gradient).zip(&image[source..][..depth]) {
                    sums.iter_mut().zip(gradient).for_each(|(sum, &g)| *sum = *sum + x * g);
                }
            });
        }
    });
    for filter in filters.chunks(total.len()) {
        total.iter_mut().zip(filter).for_each(|(total, &part)| *total = *total + part);
    }
    Ok(())
}
