//! What two-dimensional convolutions and their gradients compute.
//!
//! The patches of an image that a filter sees are a matrix, and so is the filter: a convolution is their product, and its
//! gradients are the other two products of the same three matrices. Patches are multiplied where they lie
//! (see `implicit_gemm.rs`). Where windows reach over the border, a copy of the image with the padding around it is made, some
//! rows at a time so that it stays in the cache.

use tensorfleet_core::{Result, Shape, Tensor, bail, ensure, memory};

use super::window::{Axis, Window, rank_4};
use tensorfleet_numeric::gemm::{Matrix, Output, Threads, multiply};
use tensorfleet_numeric::implicit_gemm::{Gathered, Lines, Offsets, Tile, gemm_gathered_lhs};
use tensorfleet_threads::{Loops, first_error};

/// About how many pixels of the output are computed at a time.
const BLOCK_PIXELS: usize = 1024;

/// The sizes of one convolution.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    batch: usize,
    rows: Axis,
    cols: Axis,
    depth: usize,
    channels: usize,
}

impl Sizes {
    /// Checks an image (channels last) against a filter.
    pub(super) fn of(window: &Window, image: &Shape, filter: &Shape) -> Result<Sizes> {
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

    pub(super) fn output(&self) -> [usize; 4] {
        [self.batch, self.rows.output, self.cols.output, self.channels]
    }

    /// Checks that a gradient has the shape of the output.
    pub(super) fn check_gradient(&self, gradient: &Shape) -> Result<()> {
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

    /// Whether an image is its own matrix of patches.
    fn is_pointwise(&self) -> bool {
        self.rows.is_identity() && self.cols.is_identity()
    }

    /// Estimated cost of a row of output pixels, in hundredths of a nanosecond.
    fn row_cost(&self) -> usize {
        let pixel = self.patch().saturating_mul(self.channels).saturating_mul(4).saturating_add(500);
        pixel.saturating_mul(self.cols.output)
    }

    /// How many rows of output pixels make a block.
    fn block_rows(&self) -> usize {
        (BLOCK_PIXELS / self.cols.output.max(1)).clamp(1, self.rows.output.max(1))
    }

    /// The blocks of output rows `from..to`, counted through all images.
    fn blocks(&self, from: usize, to: usize) -> impl Iterator<Item = Block> {
        let (height, most) = (self.rows.output, self.block_rows());
        let mut at = from;
        std::iter::from_fn(move || {
            let (image, row) = (at / height, at % height);
            let rows = most.min(height - row).min(to - at);
            at += rows;
            (rows > 0).then_some(Block { image, row, rows })
        })
    }
}

/// Some rows of the output of one image.
#[derive(Clone, Copy)]
struct Block {
    image: usize,
    row: usize,
    rows: usize,
}

/// Where the pixels that windows see lie: in the image, or in a copy with the padding around it.
struct Im2col {
    sizes: Sizes,
    padded: bool,
    /// Elements from a row of pixels to the next.
    line: usize,
    /// Where the windows of a block begin, in row-major order.
    windows: Vec<usize>,
    /// Where the elements of a patch lie, seen from the start of its window.
    taps: Vec<usize>,
}

impl Im2col {
    fn new(sizes: &Sizes) -> Result<Im2col> {
        let Sizes { rows, cols, depth, .. } = *sizes;
        // A shape that exists has no more elements than can be counted, so no offset overflows.
        Shape::new(&[rows.span(rows.output), cols.span(cols.output), depth])?;
        let padded = rows.is_padded() || cols.is_padded();
        let line = depth * if padded { cols.span(cols.output) } else { cols.input };
        let place = |row: usize, col: usize| row * line + col * depth;
        let windows = (0..sizes.block_rows() * cols.output)
            .map(|at| place(at / cols.output * rows.stride, at % cols.output * cols.stride));
        let taps = (0..sizes.patch())
            .map(|at| (at / depth / cols.kernel, at / depth % cols.kernel, at % depth))
            .map(|(row, col, channel)| place(row * rows.dilation, col * cols.dilation) + channel);
        let (windows, taps) = (memory::collect(windows)?, memory::collect(taps)?);
        Ok(Im2col { sizes: *sizes, padded, line, windows, taps })
    }

    /// What the windows of a block see. `space` is for a copy.
    fn seen<'a, T: Tile>(&self, images: &'a [T], block: Block, space: &'a mut [T]) -> &'a [T] {
        let Sizes { rows, cols, depth, .. } = self.sizes;
        let image = &images[block.image * self.sizes.image_len()..][..self.sizes.image_len()];
        let first = block.row * rows.stride;
        if !self.padded {
            return &image[first * self.line..];
        }
        let (width, span) = (cols.input * depth, rows.span(block.rows));
        let (across, down) = (cols.piece(0, self.line / depth), rows.piece(first, span));
        let (before, len) = (across.first_tap * depth, across.count * depth);
        for (at, to) in space.chunks_mut(self.line).take(span).enumerate() {
            match at.checked_sub(down.first_tap).filter(|&at| at < down.count) {
                Some(at) => {
                    to[..before].fill(T::default());
                    to[before..before + len]
                        .copy_from_slice(&image[(down.source + at) * width + across.source * depth..][..len]);
                    to[before + len..].fill(T::default());
                }
                None => to.fill(T::default()),
            }
        }
        space
    }

    /// Room for what the windows of so many rows of the output see, if that is not the image itself.
    fn space<T: Tile>(&self, rows: usize) -> Result<Tensor> {
        let rows = if self.padded { self.sizes.rows.span(rows) } else { 0 };
        Tensor::zeros(T::DTYPE, Shape::new(&[rows, self.line])?)
    }

    /// Copies what lies inside of the padding to `image`.
    fn unpad<T: Tile>(&self, padded: &[T], image: &mut [T]) {
        let Sizes { rows, cols, depth, .. } = self.sizes;
        let (across, down) = (cols.piece(0, self.line / depth), rows.piece(0, rows.span(rows.output)));
        let (width, len) = (cols.input * depth, across.count * depth);
        for at in 0..down.count {
            let from = (down.first_tap + at) * self.line + across.first_tap * depth;
            let to = (down.source + at) * width + across.source * depth;
            image[to..to + len].copy_from_slice(&padded[from..from + len]);
        }
    }
}

/// Multiples of `step`.
fn multiples(count: usize, step: usize) -> Result<Vec<usize>> {
    memory::collect((0..count).map(|at| at * step))
}

/// The convolution of `images` with `filter`.
pub(super) fn forward<T: Tile>(
    loops: &Loops,
    sizes: &Sizes,
    images: &[T],
    filter: &[T],
    out: &mut [T],
) -> Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    let (patch, channels) = (sizes.patch(), sizes.channels);
    if sizes.is_pointwise() {
        let pixels = Matrix::new(images, sizes.batch * sizes.pixels(), patch)?;
        let filter = Matrix::new(filter, patch, channels)?;
        return multiply(pixels, filter, out, Output::Overwrite, Threads::Many(loops));
    }
    let im2col = Im2col::new(sizes)?;
    let places = multiples(im2col.windows.len(), channels)?;
    let (windows, taps, places) =
        (Offsets::new(&im2col.windows), Offsets::new(&im2col.taps), Offsets::new(&places));
    let filter = Lines { data: filter, stride: channels, cols: channels };
    let row = sizes.cols.output * channels;
    first_error(|keep| {
        loops.chunks_mut(out, row, sizes.row_cost(), |first, out| {
            let mut blocks = || -> Result<()> {
                let mut space = im2col.space::<T>(sizes.block_rows())?;
                let (space, mut done) = (space.make_mut::<T>()?, 0);
                for block in sizes.blocks(first, first + out.len() / row) {
                    let out = &mut out[done * row..][..block.rows * row];
                    let pixels = block.rows * sizes.cols.output;
                    let data = im2col.seen(images, block, space);
                    let patches = Gathered { data, rows: windows.first(pixels), cols: taps };
                    gemm_gathered_lhs(patches, filter, out, places.first(pixels), Output::Overwrite)?;
                    done += block.rows;
                }
                Ok(())
            };
            keep(blocks());
        });
    })
}

/// A part of the filter whose taps lie side by side in an image.
struct Segment {
    /// Its first element in a patch.
    first: usize,
    /// Where it lies, seen from the start of the window.
    at: usize,
}

/// The gradient with respect to the images: each pixel's part of it, a product of its gradient and the filter, is added where
/// its window lies. `out` is zero.
pub(super) fn backward_to_input<T: Tile>(
    loops: &Loops,
    sizes: &Sizes,
    gradient: &[T],
    filter: &[T],
    out: &mut [T],
) -> Result<()> {
    if out.is_empty() || gradient.is_empty() {
        return Ok(());
    }
    let (patch, channels) = (sizes.patch(), sizes.channels);
    if sizes.is_pointwise() {
        let gradient = Matrix::new(gradient, sizes.batch * sizes.pixels(), channels)?;
        let filter = Matrix::new(filter, patch, channels)?.transposed();
        return multiply(gradient, filter, out, Output::Overwrite, Threads::Many(loops));
    }
    let im2col = Im2col::new(sizes)?;
    // Columns of pixels first: the windows of neighbours in a row overlap, and memory that has just been written is slow to read
    // in other pieces than it was written in.
    let down = || (0..sizes.cols.output).flat_map(|col| (0..sizes.rows.output).map(move |row| (row, col)));
    let sources = memory::collect(down().map(|(row, col)| (row * sizes.cols.output + col) * channels))?;
    let window = |(row, col): (usize, usize)| {
        row * sizes.rows.stride * im2col.line + col * sizes.cols.stride * sizes.depth
    };
    let windows = memory::collect(down().map(window))?;
    let inner = multiples(channels, 1)?;
    let (sources, windows, inner) = (Offsets::new(&sources), Offsets::new(&windows), Offsets::new(&inner));
    let len = if sizes.cols.dilation == 1 { sizes.cols.kernel * sizes.depth } else { sizes.depth };
    let segments =
        memory::collect((0..patch).step_by(len).map(|first| Segment { first, at: im2col.taps[first] }))?;
    let transposed: Vec<T> =
        memory::collect((0..patch * channels).map(|at| filter[at % patch * channels + at / patch]))?;
    let cost = sizes.row_cost().saturating_mul(sizes.rows.output);
    first_error(|keep| {
        loops.chunks_mut(out, sizes.image_len(), cost, |first, images| {
            let mut each_image = || -> Result<()> {
                let mut space = im2col.space::<T>(sizes.rows.output)?;
                let space = space.make_mut::<T>()?;
                for (at, image) in images.chunks_mut(sizes.image_len()).enumerate() {
                    let data = &gradient[(first + at) * sizes.pixels() * channels..];
                    let left = Gathered { data, rows: sources, cols: inner };
                    space.fill(T::default());
                    let sums = if im2col.padded { &mut *space } else { &mut *image };
                    for segment in &segments {
                        let right = Lines { data: &transposed[segment.first..], stride: patch, cols: len };
                        let sums = &mut sums[segment.at..];
                        gemm_gathered_lhs(left, right, sums, windows, Output::Accumulate)?;
                    }
                    if im2col.padded {
                        im2col.unpad(space, image);
                    }
                }
                Ok(())
            };
            keep(each_image());
        });
    })
}

/// The gradient with respect to the filter. `out` is zero.
pub(super) fn backward_to_filter<T: Tile>(
    loops: &Loops,
    sizes: &Sizes,
    images: &[T],
    gradient: &[T],
    out: &mut [T],
) -> Result<()> {
    let (patch, channels) = (sizes.patch(), sizes.channels);
    if gradient.is_empty() || sizes.depth == 0 {
        return Ok(());
    }
    if sizes.is_pointwise() {
        let pixels = sizes.batch * sizes.pixels();
        let (images, gradient) =
            (Matrix::new(images, pixels, patch)?, Matrix::new(gradient, pixels, channels)?);
        return multiply(images.transposed(), gradient, out, Output::Overwrite, Threads::Many(loops));
    }
    let im2col = Im2col::new(sizes)?;
    let places = multiples(patch, channels)?;
    let (windows, taps, places) =
        (Offsets::new(&im2col.windows), Offsets::new(&im2col.taps), Offsets::new(&places));
    // Each shard of rows sums up a filter of its own.
    let (rows, row) = (sizes.batch * sizes.rows.output, sizes.cols.output * channels);
    let shard = loops.shard_len(rows, sizes.row_cost()).unwrap_or(rows);
    let mut filters = memory::vec_of(T::default(), rows.div_ceil(shard).saturating_mul(patch * channels))?;
    first_error(|keep| {
        let shards = filters.chunks_mut(patch * channels).enumerate();
        loops.each(shards, |(at, filter)| {
            let mut blocks = || -> Result<()> {
                let mut space = im2col.space::<T>(sizes.block_rows())?;
                let space = space.make_mut::<T>()?;
                for block in sizes.blocks(at * shard, rows.min((at + 1) * shard)) {
                    if loops.are_given_up() {
                        break;
                    }
                    let first = (block.image * sizes.rows.output + block.row) * row;
                    let right = Lines { data: &gradient[first..], stride: channels, cols: channels };
                    let data = im2col.seen(images, block, space);
                    let cols = windows.first(block.rows * sizes.cols.output);
                    let patches = Gathered { data, rows: taps, cols };
                    gemm_gathered_lhs(patches, right, filter, places, Output::Accumulate)?;
                }
                Ok(())
            };
            keep(blocks());
        });
    })?;
    for filter in filters.chunks(patch * channels) {
        out.iter_mut().zip(filter).for_each(|(out, &part)| *out = out.plus(part));
    }
    Ok(())
}
