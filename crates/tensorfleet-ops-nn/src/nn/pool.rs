//! Pools over windows of an image: maxima and means, and their gradients.
//!
//! The gradient of a maximum goes to the first largest pixel of its window, in row-major order. A mean counts only
//! the pixels of its window that lie in the image.

use num_traits::Bounded;
use tensorfleet_core::{DType, Element, PartialShape, Result, Shape, Tensor, bail, ensure};

use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{Differential, Grad, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_kernel::work::elements_of_shape;
use tensorfleet_numeric::dispatch;
use tensorfleet_threads::Loops;

use super::conv::sizes_shape;
use super::pool_depth::DepthPool;
use super::window::{Axis, Border, Run, Window, four, partial_4, rank_4, shape_in};
use tensorfleet_numeric::number::{Floating, Number};
use tensorfleet_numeric::stored::{Stored, build_computed, build_sums, compute_elements};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("MaxPool", "input: T -> output: T")
        .work(Work::Inputs)
        .attrs(
            "T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = float; \
             ksize: list(int) >= 4; strides: list(int) >= 4; padding: {'SAME', 'VALID', 'EXPLICIT'}; \
             explicit_paddings: list(int) = []; data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'",
        )
        .shape(|ctx| max_pool_shape(ctx, &PoolAttrs::of(ctx.node)?))
        .kernel(|node| max_pool(node.dtype()?, &PoolAttrs::of(node)?))
        .gradient(max_pool_gradient),
    Op::new("MaxPoolGrad", "orig_input: T, orig_output: T, grad: T -> output: T")
        .work(Work::Inputs)
        .attrs(
            "ksize: list(int) >= 4; strides: list(int) >= 4; padding: {'SAME', 'VALID', 'EXPLICIT'}; \
             explicit_paddings: list(int) = []; data_format: {'NHWC', 'NCHW'} = 'NHWC'; T: real = float",
        )
        .shape(max_pool_grad_shape)
        .kernel(|node| max_pool_grad(node.dtype()?, &PoolAttrs::of(node)?))
        .gradient(super::pool_twice::max_pool_grad_gradient),
    Op::new("AvgPool", "value: T -> output: T")
        .work(Work::Inputs)
        .attrs(
            "ksize: list(int) >= 4; strides: list(int) >= 4; padding: {'SAME', 'VALID'}; \
             data_format: {'NHWC', 'NCHW'} = 'NHWC'; T: floating",
        )
        .shape(|ctx| pool_shape(ctx, &Pool::of(ctx.node)?))
        .kernel(avg_pool)
        .gradient(avg_pool_gradient),
    Op::new("AvgPoolGrad", "orig_input_shape: int32, grad: T -> output: T")
        .work(Work::Values(elements_of_shape::<0>))
        .attrs(
            "ksize: list(int) >= 4; strides: list(int) >= 4; padding: {'SAME', 'VALID'}; \
             data_format: {'NHWC', 'NCHW'} = 'NHWC'; T: floating",
        )
        .shape(sizes_shape)
        .kernel(avg_pool_grad)
        .gradient(avg_pool_grad_gradient),
];

/// The attributes that pooling and its gradients share.
const SHARED_ATTRS: &[&str] = &["ksize", "strides", "padding", "explicit_paddings", "data_format"];

fn max_pool_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (x, y, dy) = (d.input(0)?, d.output(0), d.dy(0)?);
    let dx = d.emit(d.with_attrs("MaxPoolGrad", &[x, y, dy], SHARED_ATTRS))?;
    d.flow([dx.into()])
}

fn avg_pool_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (x, dy) = (d.input(0)?, d.dy(0)?);
    let sizes = d.shape_of(x)?;
    let dx = d.emit(d.with_attrs("AvgPoolGrad", &[sizes, dy], SHARED_ATTRS))?;
    d.flow([dx.into()])
}

fn avg_pool_grad_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let dz = d.dy(0)?;
    let forward = d.emit(d.with_attrs("AvgPool", &[dz], SHARED_ATTRS))?;
    Ok(vec![None, Some(Grad::Dense(forward))])
}

/// What decides where a pool looks. Some ops have the window among their attributes, others among their inputs.
#[derive(Clone, Copy)]
pub(super) struct PoolAttrs {
    pub(super) border: Border,
    pub(super) ksize: [i64; 4],
    pub(super) strides: [i64; 4],
}

impl PoolAttrs {
    /// Of an op with the window among its attributes.
    pub(super) fn of(node: &NodeSpec<'_>) -> Result<PoolAttrs> {
        let (ksize, strides) = (four(node, "ksize")?, four(node, "strides")?);
        Ok(PoolAttrs { border: Border::of(node)?, ksize, strides })
    }

    /// The pool over channels that the window asks for, if it does.
    fn over_depth(&self) -> Result<Option<DepthPool>> {
        DepthPool::of(self.border.layout, self.ksize, self.strides)
    }

    /// The pool over height and width.
    pub(super) fn pool(&self) -> Result<Pool> {
        let window = Window::new(self.border, self.strides, [1; 4])?;
        let [batch, rows, cols, depth] = window.layout.read(self.ksize);
        ensure!(batch == 1, Unimplemented, "Pooling is not yet supported on the batch dimension.");
        ensure!(depth == 1, Unimplemented, "Pooling is not supported on the depth dimension.");
        ensure!(
            [rows, cols].iter().all(|size| (1..=1 << 31).contains(size)),
            InvalidArgument,
            "Sliding window ksize must be positive, got {rows} by {cols}"
        );
        Ok(Pool { window, kernel: [rows as usize, cols as usize] })
    }
}

/// The window of a pool with its size.
#[derive(Clone, Copy)]
pub(super) struct Pool {
    pub(super) window: Window,
    kernel: [usize; 2],
}

impl Pool {
    pub(super) fn of(node: &NodeSpec<'_>) -> Result<Pool> {
        PoolAttrs::of(node)?.pool()
    }

    /// The pool over an image, channels last.
    pub(super) fn over(&self, image: &Shape) -> Result<Sizes> {
        let [batch, height, width, depth] = rank_4(image, "the image of a pool")?;
        let [rows, cols] = self.window.over([height, width], self.kernel)?;
        Ok(Sizes { batch, rows, cols, depth })
    }
}

/// The pixels of a window.
#[derive(Clone, Copy)]
pub(super) struct Region {
    rows: Run,
    cols: Run,
    /// Pixels of a row of the image.
    width: usize,
    depth: usize,
}

impl Region {
    /// How many pixels there are.
    fn len(&self) -> usize {
        self.rows.count * self.cols.count
    }

    /// Where the first pixel starts in the image.
    fn first_source(&self) -> Option<usize> {
        (self.len() > 0).then_some((self.rows.source * self.width + self.cols.source) * self.depth)
    }

    /// Like [`sources`](Region::sources), in loops that stay loops.
    #[inline(always)]
    fn for_each_source(&self, mut visit: impl FnMut(usize)) {
        for y in self.rows.source..self.rows.source + self.rows.count {
            for x in self.cols.source..self.cols.source + self.cols.count {
                visit((y * self.width + x) * self.depth);
            }
        }
    }

    /// Where the pixels start in the image, in row-major order.
    #[inline(always)]
    pub(super) fn sources(self) -> impl Iterator<Item = usize> {
        let Region { rows, cols, width, depth } = self;
        (rows.source..rows.source + rows.count)
            .flat_map(move |y| (cols.source..cols.source + cols.count).map(move |x| (y * width + x) * depth))
    }
}

#[derive(Clone, Copy)]
pub(super) struct Sizes {
    batch: usize,
    rows: Axis,
    cols: Axis,
    pub(super) depth: usize,
}

impl Sizes {
    pub(super) fn output(&self) -> Result<Shape> {
        Shape::new(&[self.batch, self.rows.output, self.cols.output, self.depth])
    }

    pub(super) fn image_len(&self) -> usize {
        self.rows.input * self.cols.input * self.depth
    }

    /// Elements of one image of the output.
    fn output_len(&self) -> usize {
        self.rows.output * self.cols.output * self.depth
    }

    /// The part of the window at `row`, `col` that lies in the image. The windows of pools have no gaps.
    fn region(&self, row: usize, col: usize) -> Region {
        let none = Run { first_tap: 0, source: 0, count: 0 };
        let (rows, cols) = (self.rows.run(row).unwrap_or(none), self.cols.run(col).unwrap_or(none));
        Region { rows, cols, width: self.cols.input, depth: self.depth }
    }

    /// Estimated cost of an output row, in hundredths of a nanosecond.
    fn row_cost(&self) -> usize {
        let taps = self.rows.kernel.min(self.rows.input) * self.cols.kernel.min(self.cols.input);
        taps.saturating_mul(self.cols.output * self.depth).saturating_mul(50)
    }

    /// Fills the output; `pixel` gets the image, the window, and the output pixel.
    pub(super) fn for_each_pixel<T: Element, I: Sync>(
        &self,
        loops: &Loops,
        images: &[I],
        out: &mut [T],
        pixel: impl Fn(&[I], Region, &mut [T]) + Send + Sync,
    ) {
        let row_len = self.cols.output * self.depth;
        if out.is_empty() {
            return;
        }
        loops.chunks_mut(out, row_len, self.row_cost(), |first, piece| {
            for (at, out) in piece.chunks_mut(row_len).enumerate() {
                let (image, row) = ((first + at) / self.rows.output, (first + at) % self.rows.output);
                let image = &images[image * self.image_len()..][..self.image_len()];
                for (col, out) in out.chunks_mut(self.depth).enumerate() {
                    pixel(image, self.region(row, col), out);
                }
            }
        });
    }

    /// Sends gradients back, image by image; `pixel` gets the number of the image, the window, where the output pixel starts in
    /// its image, and the image of the result.
    fn for_each_gradient<T: Element>(
        &self,
        loops: &Loops,
        out: &mut [T],
        pixel: impl Fn(usize, Region, usize, &mut [T]) + Send + Sync,
    ) {
        if out.is_empty() {
            return;
        }
        let cost = self.row_cost().saturating_mul(2 * self.rows.output);
        loops.chunks_mut(out, self.image_len(), cost, |first, piece| {
            for (at, out) in piece.chunks_mut(self.image_len()).enumerate() {
                for row in 0..self.rows.output {
                    for col in 0..self.cols.output {
                        let start = (row * self.cols.output + col) * self.depth;
                        pixel(first + at, self.region(row, col), start, out);
                    }
                }
            }
        });
    }
}

pub(super) fn max_pool_shape(ctx: &ShapeContext<'_>, attrs: &PoolAttrs) -> Result<Vec<PartialShape>> {
    match attrs.over_depth()? {
        Some(pool) => pool.shape(ctx),
        None => pool_shape(ctx, &attrs.pool()?),
    }
}

pub(super) fn pool_shape(ctx: &ShapeContext<'_>, pool: &Pool) -> Result<Vec<PartialShape>> {
    let layout = pool.window.layout;
    let [batch, height, width, depth] = layout.read(partial_4(&ctx.input_with_rank(0, 4)?));
    let [rows, cols] = pool.window.partial([height, width], pool.kernel.map(Some))?;
    Ok(vec![PartialShape::new(layout.write([batch, rows, cols, depth]))])
}

pub(super) fn max_pool_grad_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input(1).merge(ctx.input(2))?;
    Ok(vec![ctx.input_with_rank(0, 4)?])
}

/// The image of a pool, channels last.
pub(super) fn image_in<T: Element>(pool: &Pool, image: &Tensor) -> Result<Tensor> {
    let rank = image.shape().rank();
    ensure!(rank == 4, InvalidArgument, "tensor_in must be 4-dimensional, got shape {}", image.shape());
    pool.window.layout.to_channels_last::<T>(image)
}

pub(super) fn max_pool(dtype: DType, attrs: &PoolAttrs) -> Result<KernelBox> {
    if let Some(pool) = attrs.over_depth()? {
        return pool.kernel(dtype);
    }
    let pool = attrs.pool()?;
    dispatch!(dtype, T in real => Ok(KernelBox::from_fn(move |ctx| {
        let image = image_in::<T>(&pool, ctx.input(0)?)?;
        let sizes = pool.over(image.shape())?;
        let mut output = Tensor::allocate(image.dtype(), sizes.output()?)?;
        sizes.for_each_pixel(ctx.loops(), image.as_slice::<T>()?, output.make_mut::<T>()?, |image, window, out| {
            by_pieces(out.len(), &mut Maxima { image, window, out });
        });
        ctx.set_output(0, pool.window.layout.restored::<T>(output)?);
        Ok(())
    })))
}

pub(super) fn max_pool_grad(dtype: DType, attrs: &PoolAttrs) -> Result<KernelBox> {
    let pool = attrs.pool()?;
    dispatch!(dtype, T in real => Ok(KernelBox::from_fn(move |ctx| {
        let image = image_in::<T>(&pool, ctx.input(0)?)?;
        let sizes = pool.over(image.shape())?;
        let expected = Shape::new(&pool.window.layout.write(rank_4(&sizes.output()?, "output")?))?;
        for (index, name) in [(1, "orig_output"), (2, "grad")] {
            let shape = ctx.input(index)?.shape();
            ensure!(*shape == expected, InvalidArgument, "Expected {name} shape to be {expected}, but got {shape}");
        }
        let gradient = image_in::<T>(&pool, ctx.input(2)?)?;
        let mut output = Tensor::zeros(image.dtype(), image.shape().clone())?;
        send_to_maxima(ctx.loops(), &sizes, image.as_slice::<T>()?, gradient.as_slice::<T>()?, output.make_mut::<T>()?);
        ctx.set_output(0, pool.window.layout.restored::<T>(output)?);
        Ok(())
    })))
}

fn send_to_maxima<T: Number + PartialOrd>(
    loops: &Loops,
    sizes: &Sizes,
    images: &[T],
    gradient: &[T],
    out: &mut [T],
) {
    sizes.for_each_gradient(loops, out, |at, window, start, out| {
        let image = &images[at * sizes.image_len()..][..sizes.image_len()];
        let gradient = &gradient[at * sizes.output_len() + start..][..sizes.depth];
        by_pieces(sizes.depth, &mut ToMaxima { image, window, gradient, out });
    });
}

/// What is done to some channels of a pixel at a time.
trait Piece {
    /// Does it to `L` channels from `first` on.
    fn piece<const L: usize>(&mut self, first: usize);
}

/// Goes through all channels in pieces of known length, which are vectors to the compiler. Images often have few channels, and
/// loops of unknown length cost more than what is done in them.
#[inline(always)]
fn by_pieces(channels: usize, work: &mut impl Piece) {
    let mut at = 0;
    while channels - at >= 16 {
        work.piece::<16>(at);
        at += 16;
    }
    if channels & 8 != 0 {
        work.piece::<8>(at);
        at += 8;
    }
    if channels & 4 != 0 {
        work.piece::<4>(at);
        at += 4;
    }
    if channels & 2 != 0 {
        work.piece::<2>(at);
        at += 2;
    }
    if channels & 1 != 0 {
        work.piece::<1>(at);
    }
}

/// `L` numbers from `at` on.
#[inline(always)]
fn lanes<T: Copy, const L: usize>(from: &[T], at: usize) -> [T; L] {
    let from = &from[at..at + L];
    std::array::from_fn(|lane| from[lane])
}

/// Writes the maxima of a window.
struct Maxima<'a, T> {
    image: &'a [T],
    window: Region,
    out: &'a mut [T],
}

impl<T: Element + Bounded + PartialOrd> Piece for Maxima<'_, T> {
    #[inline(always)]
    fn piece<const L: usize>(&mut self, first: usize) {
        // Not the first pixel, which may be no number: TensorFlow 2.21 takes what is larger than the lowest one.
        let mut maxima = [T::min_value(); L];
        self.window.for_each_source(|source| {
            let values: [T; L] = lanes(self.image, source + first);
            for lane in 0..L {
                maxima[lane] = if values[lane] > maxima[lane] { values[lane] } else { maxima[lane] };
            }
        });
        self.out[first..first + L].copy_from_slice(&maxima);
    }
}

/// Adds gradients to where the maxima of a window are.
struct ToMaxima<'a, T> {
    image: &'a [T],
    window: Region,
    gradient: &'a [T],
    out: &'a mut [T],
}

impl<T: Number + PartialOrd> Piece for ToMaxima<'_, T> {
    #[inline(always)]
    fn piece<const L: usize>(&mut self, first: usize) {
        let Some(source) = self.window.first_source() else { return };
        let (mut maxima, mut places) = (lanes::<T, L>(self.image, source + first), [source; L]);
        self.window.for_each_source(|source| {
            let values: [T; L] = lanes(self.image, source + first);
            for lane in 0..L {
                let larger = values[lane] > maxima[lane];
                maxima[lane] = if larger { values[lane] } else { maxima[lane] };
                places[lane] = if larger { source } else { places[lane] };
            }
        });
        for (lane, place) in places.into_iter().enumerate() {
            let to = &mut self.out[place + first + lane];
            *to = to.plus(self.gradient[first + lane]);
        }
    }
}

fn avg_pool(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let pool = Pool::of(node)?;
    dispatch!(node.dtype()?, T in floating => Ok(KernelBox::from_fn(move |ctx| {
        let image = image_in::<T>(&pool, ctx.input(0)?)?;
        let output = means::<T>(ctx.loops(), &pool.over(image.shape())?, image.as_slice::<T>()?)?;
        ctx.set_output(0, pool.window.layout.restored::<T>(output)?);
        Ok(())
    })))
}

fn means<S: Stored<Compute: Floating>>(loops: &Loops, sizes: &Sizes, images: &[S]) -> Result<Tensor> {
    let images = compute_elements(images)?;
    build_computed::<S>(sizes.output()?, |out| {
        write_means(loops, sizes, &images, out);
        Ok(())
    })
}

fn write_means<T: Floating>(loops: &Loops, sizes: &Sizes, images: &[T], out: &mut [T]) {
    sizes.for_each_pixel(loops, images, out, |image, window, out| {
        out.fill(T::ZERO);
        for source in window.sources() {
            out.iter_mut().zip(&image[source..]).for_each(|(sum, &x)| *sum = *sum + x);
        }
        let count = T::from_count(window.len());
        out.iter_mut().for_each(|sum| *sum = *sum / count);
    });
}

fn avg_pool_grad(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let pool = Pool::of(node)?;
    dispatch!(node.dtype()?, T in floating => Ok(KernelBox::from_fn(move |ctx| {
        let shape = shape_in(ctx.input(0)?, "orig_input_shape")?;
        let shape = Shape::new(&pool.window.layout.read(rank_4(&shape, "orig_input_shape")?))?;
        let gradient = image_in::<T>(&pool, ctx.input(1)?)?;
        let sizes = pool.over(&shape)?;
        if *gradient.shape() != sizes.output()? {
            bail!(InvalidArgument, "Expected grad shape to be {}, but got {}", sizes.output()?, gradient.shape());
        }
        let output = spread::<T>(ctx.loops(), &sizes, shape, gradient.as_slice::<T>()?)?;
        ctx.set_output(0, pool.window.layout.restored::<T>(output)?);
        Ok(())
    })))
}

fn spread<S: Stored<Compute: Floating>>(
    loops: &Loops,
    sizes: &Sizes,
    shape: Shape,
    gradient: &[S],
) -> Result<Tensor> {
    let gradient = compute_elements(gradient)?;
    build_sums::<S>(shape, |sums| {
        add_shares(loops, sizes, &gradient, sums);
        Ok(())
    })
}

fn add_shares<T: Floating>(loops: &Loops, sizes: &Sizes, gradient: &[T], sums: &mut [T]) {
    sizes.for_each_gradient(loops, sums, |at, window, start, out| {
        let gradient = &gradient[at * sizes.output_len() + start..][..sizes.depth];
        let count = T::from_count(window.len());
        for source in window.sources() {
            let out = &mut out[source..source + sizes.depth];
            out.iter_mut().zip(gradient).for_each(|(sum, &g)| *sum = *sum + g / count);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestOp, test_op};
    use tensorfleet_core::{Code, DType};

    fn image(values: &[f32], dims: &[usize]) -> Tensor {
        Tensor::from_slice(values, dims).unwrap()
    }

    fn pool(op: &str, kernel: [i64; 4], strides: [i64; 4], padding: &str) -> TestOp {
        let run = test_op(op).attr("T", DType::Float).attr("ksize", kernel.to_vec());
        run.attr("strides", strides.to_vec()).attr("padding", padding)
    }

    const TWO: [i64; 4] = [1, 2, 2, 1];
    const ONE: [i64; 4] = [1, 1, 1, 1];

    #[test]
    fn means_count_only_what_lies_in_the_image() {
        let x = image(&[1.0, 2.0, 3.0, 4.0], &[1, 2, 2, 1]);
        let found = pool("AvgPool", TWO, ONE, "SAME").input(x.clone()).run_one().unwrap();
        assert_eq!(found.as_slice::<f32>().unwrap(), [2.5, 3.0, 3.5, 4.0]);
        let run =
            pool("AvgPoolGrad", TWO, ONE, "SAME").input(Tensor::vector(&[1i32, 2, 2, 1]).unwrap()).input(x);
        assert_eq!(run.run_one().unwrap().as_slice::<f32>().unwrap(), [0.25, 1.25, 1.75, 6.75]);
    }

    #[test]
    fn the_gradient_of_a_maximum_goes_to_the_first_one() {
        let x = image(&[1.0, 5.0, 5.0, 2.0], &[1, 2, 2, 1]);
        let y = pool("MaxPool", TWO, TWO, "VALID").input(x.clone()).run_one().unwrap();
        assert_eq!(y.as_slice::<f32>().unwrap(), [5.0]);
        let gradient = image(&[3.0], &[1, 1, 1, 1]);
        let run = pool("MaxPoolGrad", TWO, TWO, "VALID").input(x).input(y).input(gradient);
        assert_eq!(run.run_one().unwrap().as_slice::<f32>().unwrap(), [0.0, 3.0, 0.0, 0.0]);
    }

    #[test]
    fn pools_follow_their_definition_for_any_number_of_channels() {
        for (depth, kernel, stride) in [(1, 2, 2), (3, 3, 2), (6, 2, 2), (16, 2, 1), (31, 3, 1), (37, 2, 3)] {
            let (height, width) = (7, 5);
            let values: Vec<f32> = (0..height * width * depth).map(|i| (i * 37 % 23) as f32).collect();
            let x = image(&values, &[1, height, width, depth]);
            let (kernel_4, stride_4) =
                ([1, kernel as i64, kernel as i64, 1], [1, stride as i64, stride as i64, 1]);
            let y = pool("MaxPool", kernel_4, stride_4, "VALID").input(x.clone()).run_one().unwrap();
            let [_, rows, cols, _] = *y.shape().dims() else { panic!("{}", y.shape()) };
            let gradient: Vec<f32> = (0..rows * cols * depth).map(|i| i as f32 + 1.0).collect();
            let (mut maxima, mut sent) = (vec![0.0f32; gradient.len()], vec![0.0f32; values.len()]);
            for at in 0..gradient.len() {
                let (row, col, channel) =
                    (at / depth / cols * stride, at / depth % cols * stride, at % depth);
                let place =
                    |tap: usize| ((row + tap / kernel) * width + col + tap % kernel) * depth + channel;
                let best = (1..kernel * kernel)
                    .fold(0, |best, tap| if values[place(tap)] > values[place(best)] { tap } else { best });
                maxima[at] = values[place(best)];
                sent[place(best)] += gradient[at];
            }
            assert_eq!(y.as_slice::<f32>().unwrap(), maxima);
            let run = pool("MaxPoolGrad", kernel_4, stride_4, "VALID").input(x).input(y.clone());
            let found = run.input(image(&gradient, &[1, rows, cols, depth])).run_one().unwrap();
            assert_eq!(found.as_slice::<f32>().unwrap(), sent);
        }
    }

    #[test]
    fn channels_first_is_the_same_pool() {
        let x = image(&[1.0, 5.0, 2.0, 3.0, 9.0, 8.0, 7.0, 6.0], &[1, 2, 2, 2]);
        let run = pool("MaxPool", [1, 1, 2, 2], [1, 1, 2, 2], "VALID").attr("data_format", "NCHW");
        assert_eq!(run.input(x).run_one().unwrap().as_slice::<f32>().unwrap(), [5.0, 9.0]);
    }

    #[test]
    fn what_is_no_number_is_no_maximum() {
        let x = image(&[f32::NAN, 1.0, 2.0, f32::NAN, f32::NAN, f32::NAN], &[1, 1, 6, 1]);
        let y = pool("MaxPool", [1, 1, 2, 1], [1, 1, 2, 1], "VALID").input(x).run_one().unwrap();
        assert_eq!(y.as_slice::<f32>().unwrap(), [1.0, 2.0, f32::MIN]);
    }

    #[test]
    fn a_window_in_the_padding_has_the_lowest_maximum() {
        let run =
            pool("MaxPool", TWO, TWO, "EXPLICIT").attr("explicit_paddings", vec![0i64, 0, 2, 0, 0, 0, 0, 0]);
        let found = run.input(image(&[], &[1, 0, 2, 1])).run_one().unwrap();
        assert_eq!(found.as_slice::<f32>().unwrap(), [f32::MIN]);
    }

    #[test]
    fn windows_and_gradients_that_do_not_fit_are_refused() {
        let x = image(&[0.0; 4], &[1, 2, 2, 1]);
        let status = pool("MaxPool", [1, 5, 5, 1], ONE, "VALID").input(x.clone()).run_one().unwrap_err();
        assert!(status.text().contains("Computed output size would be negative: -2"), "{}", status.text());
        let status = pool("MaxPool", [2, 1, 1, 1], ONE, "VALID").input(x.clone()).run_one().unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented);
        assert!(pool("MaxPool", [1, 0, 1, 1], ONE, "VALID").input(x.clone()).run_one().is_err());
        assert!(pool("MaxPool", TWO, [1, 0, 1, 1], "VALID").input(x.clone()).run_one().is_err());
        let small = image(&[0.0], &[1, 1, 1, 1]);
        let run = pool("MaxPoolGrad", TWO, ONE, "VALID")
            .input(x)
            .input(small)
            .input(image(&[0.0; 2], &[1, 2, 1, 1]));
        let status = run.run_one().unwrap_err();
        assert!(status.text().contains("Expected grad shape to be [1,1,1,1], but got [1,2,1,1]"));
        let status = pool("AvgPool", TWO, ONE, "SAME")
            .input(Tensor::vector(&[1.0f32]).unwrap())
            .run_one()
            .unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
    }
}
