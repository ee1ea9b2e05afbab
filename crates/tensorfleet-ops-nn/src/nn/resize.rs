//! Resizing images, bilinearly or to the nearest pixel, and the gradients.

use half::{bf16, f16};
use num_traits::NumCast;
use tensorfleet_core::{Element, PartialShape, Result, Shape, Tensor, bail, ensure, memory};

use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, integers_of};
use tensorfleet_numeric::dispatch;
use tensorfleet_threads::Loops;

use super::window::{partial_4, rank_4};
use tensorfleet_numeric::number::{Floating, Number};
use tensorfleet_numeric::stored::build_sums;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("ResizeBilinear", "images: T, size: int32 -> resized_images: float")
        .attrs(
            "T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double}; \
             align_corners: bool = false; half_pixel_centers: bool = false",
        )
        .shape(resize_shape)
        .kernel(resize_bilinear)
        .gradient(image_gradient),
    Op::new("ResizeBilinearGrad", "grads: float, original_image: T -> output: T")
        .attrs("T: floating; align_corners: bool = false; half_pixel_centers: bool = false")
        .shape(bilinear_grad_shape)
        .kernel(resize_bilinear_grad)
        .not_differentiable(),
    Op::new("ResizeNearestNeighbor", "images: T, size: int32 -> resized_images: T")
        .attrs(
            "T: {int8, uint8, int16, uint16, int32, int64, half, float, double, bfloat16}; \
             align_corners: bool = false; half_pixel_centers: bool = false",
        )
        .shape(resize_shape)
        .kernel(resize_nearest)
        .gradient(nearest_gradient),
    Op::new("ResizeNearestNeighborGrad", "grads: T, size: int32 -> output: T")
        .attrs(
            "T: {uint8, int8, int32, half, float, double, bfloat16}; align_corners: bool = false; \
             half_pixel_centers: bool = false",
        )
        .shape(resize_shape)
        .kernel(resize_nearest_grad),
];

fn image_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (image, dy) = (d.input(0)?, d.dy(0)?);
    if !d.dtype(image)?.is_floating() {
        return Ok(vec![None, None]);
    }
    let resized = d.with_attrs("ResizeBilinearGrad", &[dy, image], &["align_corners", "half_pixel_centers"]);
    let dx = d.emit(resized)?;
    d.flow_first(dx)
}

fn nearest_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (image, dy) = (d.input(0)?, d.dy(0)?);
    let known = d.shape(image)?;
    let size = match (known.dim(1), known.dim(2)) {
        (Some(height), Some(width)) => d.constant(Tensor::vector(&[height as i32, width as i32])?)?,
        _ => {
            let (shape, one) = (d.op("Shape", [image])?, Tensor::vector(&[1i32])?);
            let middle = NewNode::new("StridedSlice").input(shape).input(one.clone());
            d.emit(middle.input(Tensor::vector(&[3i32])?).input(one))?
        }
    };
    let attrs = &["align_corners", "half_pixel_centers"];
    let dx = d.emit(d.with_attrs("ResizeNearestNeighborGrad", &[dy, size], attrs))?;
    d.flow_first(dx)
}

fn resize_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let [batch, _, _, depth] = partial_4(&ctx.input_with_rank(0, 4)?);
    ctx.input(1).merge(&PartialShape::vector(Some(2)))?;
    let size = ctx.shape_value(1)?;
    Ok(vec![PartialShape::new([batch, size.dim(0), size.dim(1), depth])])
}

fn bilinear_grad_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(vec![ctx.input_with_rank(1, 4)?])
}

/// How positions in the resized image correspond to positions in the original.
#[derive(Clone, Copy)]
struct Grid {
    align_corners: bool,
    half_pixel_centers: bool,
}

/// A position between two pixels of the original.
#[derive(Clone, Copy)]
struct Between {
    lower: usize,
    upper: usize,
    /// How far it is from `lower` to `upper`.
    share: f32,
}

impl Grid {
    fn of(node: &NodeSpec<'_>) -> Result<Grid> {
        let grid = Grid {
            align_corners: node.attr("align_corners")?,
            half_pixel_centers: node.attr("half_pixel_centers")?,
        };
        ensure!(
            !(grid.align_corners && grid.half_pixel_centers),
            InvalidArgument,
            "If half_pixel_centers is True, align_corners must be False."
        );
        Ok(grid)
    }

    /// The distance of neighbouring pixels of the resized image, in pixels of the original.
    fn scale(&self, original: usize, resized: usize) -> f32 {
        if self.align_corners && resized > 1 {
            (original - 1) as f32 / (resized - 1) as f32
        } else {
            original as f32 / resized as f32
        }
    }

    /// Where each pixel of an axis comes from. `original` is not 0.
    fn between(&self, original: usize, resized: usize) -> Result<Vec<Between>> {
        let scale = self.scale(original, resized);
        let position = |at: usize| {
            let position =
                if self.half_pixel_centers { (at as f32 + 0.5) * scale - 0.5 } else { at as f32 * scale };
            let floor = position.floor();
            let lower = (floor.max(0.0) as usize).min(original - 1);
            let upper = ((floor + 1.0).max(0.0) as usize).min(original - 1);
            Between { lower, upper, share: position - floor }
        };
        of_all_pixels(resized, position)
    }

    /// Which pixel of the original each pixel of an axis shows. `original` is not 0.
    fn nearest(&self, original: usize, resized: usize) -> Result<Vec<usize>> {
        let scale = self.scale(original, resized);
        let position = |at: usize| {
            let position = if self.half_pixel_centers {
                ((at as f32 + 0.5) * scale).floor()
            } else if self.align_corners {
                (at as f32 * scale).round()
            } else {
                (at as f32 * scale).floor()
            };
            (position.max(0.0) as usize).min(original - 1)
        };
        of_all_pixels(resized, position)
    }
}

/// What `position` says of each pixel of an axis. The length is anybody's, and this list may take more than the image.
fn of_all_pixels<P>(pixels: usize, position: impl FnMut(usize) -> P) -> Result<Vec<P>> {
    memory::check_fits(pixels.saturating_mul(size_of::<P>()))?;
    Ok((0..pixels).map(position).collect())
}

/// The sizes of a resize: `[batch, height, width, depth]` before and after.
fn sizes(images: &Shape, size: &Tensor) -> Result<([usize; 4], Shape)> {
    ensure!(images.rank() == 4, InvalidArgument, "input must be 4-dimensional{images}");
    let original = rank_4(images, "input")?;
    ensure!(size.shape().rank() == 1, InvalidArgument, "shape_t must be 1-dimensional{}", size.shape());
    let [height, width] = integers_of(size)?[..] else {
        bail!(InvalidArgument, "shape_t must have two elements{}", size.shape())
    };
    ensure!(height > 0 && width > 0, InvalidArgument, "output dimensions must be positive");
    ensure!(original[1] > 0 && original[2] > 0, InvalidArgument, "input image must be of non-zero size");
    Ok((original, Shape::from_signed(&[original[0] as i64, height, width, original[3] as i64])?))
}

fn resize_bilinear(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let grid = Grid::of(node)?;
    dispatch!(node.dtype()?, T in real => Ok(KernelBox::from_fn(move |ctx| {
        let images = ctx.input(0)?;
        let ([_, height, width, depth], shape) = sizes(images.shape(), ctx.input(1)?)?;
        let (resized_height, resized_width) = (shape[1], shape[2]);
        let from = images.as_slice::<T>()?;
        let output = Tensor::build::<f32>(shape, |out| {
            if out.is_empty() {
                return Ok(());
            }
            let (rows, cols) = (grid.between(height, resized_height)?, grid.between(width, resized_width)?);
            let (row_len, image_len) = (cols.len() * depth, height * width * depth);
            ctx.loops().chunks_mut(out, row_len, row_len * 200, |first, piece| {
                for (at, out) in piece.chunks_mut(row_len).enumerate() {
                    let (image, row) = ((first + at) / rows.len(), rows[(first + at) % rows.len()]);
                    let image = &from[image * image_len..][..image_len];
                    for (out, col) in out.chunks_mut(depth).zip(&cols) {
                        let pixel = |y: usize, x: usize| &image[(y * width + x) * depth..][..depth];
                        let corners = [
                            pixel(row.lower, col.lower), pixel(row.lower, col.upper),
                            pixel(row.upper, col.lower), pixel(row.upper, col.upper),
                        ];
                        for (channel, out) in out.iter_mut().enumerate() {
                            let [a, b, c, d] = corners.map(|corner| as_float(corner[channel]));
                            let (top, bottom) = (a + (b - a) * col.share, c + (d - c) * col.share);
                            *out = top + (bottom - top) * row.share;
                        }
                    }
                }
            });
            Ok(())
        })?;
        ctx.set_output(0, output);
        Ok(())
    })))
}

fn as_float<T: NumCast>(x: T) -> f32 {
    x.to_f32().unwrap_or(f32::NAN)
}

fn resize_bilinear_grad(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let grid = Grid::of(node)?;
    dispatch!(node.dtype()?, T in floating => Ok(KernelBox::from_fn(move |ctx| {
        let (gradient, original) = (ctx.input(0)?, ctx.input(1)?.shape());
        let output = build_sums::<T>(original.clone(), |sums| bilinear_gradient(ctx.loops(), &grid, gradient, original, sums))?;
        ctx.set_output(0, output);
        Ok(())
    })))
}

/// Shares are single precision, as the gradient is; sums are as precise as the image.
fn bilinear_gradient<T: Floating>(
    loops: &Loops,
    grid: &Grid,
    gradient: &Tensor,
    original: &Shape,
    sums: &mut [T],
) -> Result<()> {
    ensure!(
        gradient.shape().rank() == 4,
        InvalidArgument,
        "input_grad must be 4-dimensional{}",
        gradient.shape()
    );
    ensure!(original.rank() == 4, InvalidArgument, "original_image must be 4-dimensional{original}");
    let [batch, resized_height, resized_width, depth] = rank_4(gradient.shape(), "input_grad")?;
    let [original_batch, height, width, original_depth] = rank_4(original, "original_image")?;
    ensure!(
        batch == original_batch && depth == original_depth,
        InvalidArgument,
        "Batch and depth of grads {} and of the original image {original} must match",
        gradient.shape()
    );
    let gradient = gradient.as_slice::<f32>()?;
    if sums.is_empty() || gradient.is_empty() {
        return Ok(());
    }
    let (rows, cols) = (grid.between(height, resized_height)?, grid.between(width, resized_width)?);
    let (image_len, resized_len) = (height * width * depth, resized_height * resized_width * depth);
    loops.chunks_mut(sums, image_len, resized_len.saturating_mul(300), |first, images| {
        for (at, image) in images.chunks_mut(image_len).enumerate() {
            let mut gradient = gradient[(first + at) * resized_len..].chunks(depth);
            for row in &rows {
                for (col, gradient) in cols.iter().zip(&mut gradient) {
                    for (y, row_share) in [(row.lower, 1.0 - row.share), (row.upper, row.share)] {
                        for (x, col_share) in [(col.lower, 1.0 - col.share), (col.upper, col.share)] {
                            let pixel = &mut image[(y * width + x) * depth..][..depth];
                            pixel.iter_mut().zip(gradient).for_each(|(sum, g)| {
                                *sum = *sum + T::constant((g * row_share * col_share) as f64);
                            });
                        }
                    }
                }
            }
        }
    });
    Ok(())
}

fn resize_nearest(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let grid = Grid::of(node)?;
    dispatch!(node.dtype()?, T in real => Ok(KernelBox::from_fn(move |ctx| {
        let images = ctx.input(0)?;
        let ([_, height, width, depth], shape) = sizes(images.shape(), ctx.input(1)?)?;
        let (resized_height, resized_width) = (shape[1], shape[2]);
        let from = images.as_slice::<T>()?;
        let output = Tensor::build::<T>(shape, |out| {
            if out.is_empty() {
                return Ok(());
            }
            let (rows, cols) = (grid.nearest(height, resized_height)?, grid.nearest(width, resized_width)?);
            let row_len = cols.len() * depth;
            ctx.loops().chunks_mut(out, row_len, row_len * 30, |first, piece| {
                for (at, out) in piece.chunks_mut(row_len).enumerate() {
                    let (image, row) = ((first + at) / rows.len(), rows[(first + at) % rows.len()]);
                    for (out, col) in out.chunks_mut(depth).zip(&cols) {
                        out.copy_from_slice(&from[((image * height + row) * width + col) * depth..][..depth]);
                    }
                }
            });
            Ok(())
        })?;
        ctx.set_output(0, output);
        Ok(())
    })))
}

fn resize_nearest_grad(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let grid = Grid::of(node)?;
    dispatch!(node.dtype()?, T in [u8, i8, i32, f16, f32, f64, bf16] => Ok(KernelBox::from_fn(move |ctx| {
        let gradient = ctx.input(0)?;
        let ([_, resized_height, resized_width, depth], shape) = sizes(gradient.shape(), ctx.input(1)?)?;
        let (height, width) = (shape[1], shape[2]);
        let gradient = gradient.as_slice::<T>()?;
        let mut output = Tensor::zeros(T::DTYPE, shape)?;
        let (image_len, resized_len) = (height * width * depth, resized_height * resized_width * depth);
        let out = output.make_mut::<T>()?;
        if !out.is_empty() {
            let (rows, cols) = (grid.nearest(height, resized_height)?, grid.nearest(width, resized_width)?);
            ctx.loops().chunks_mut(out, image_len, resized_len.saturating_mul(50), |first, images| {
                for (at, image) in images.chunks_mut(image_len).enumerate() {
                    let mut gradient = gradient[(first + at) * resized_len..].chunks(depth);
                    for row in &rows {
                        for (col, gradient) in cols.iter().zip(&mut gradient) {
                            let pixel = &mut image[(row * width + col) * depth..][..depth];
                            pixel.iter_mut().zip(gradient).for_each(|(sum, &g)| *sum = sum.plus(g));
                        }
                    }
                }
            });
        }
        ctx.set_output(0, output);
        Ok(())
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use tensorfleet_core::{Code, DType};

    fn image(values: &[f32], dims: &[usize]) -> Tensor {
        Tensor::from_slice(values, dims).unwrap()
    }

    #[test]
    fn sizes_beyond_all_memory_are_refused_or_come_to_nothing() {
        let huge = i32::MAX;
        for op in ["ResizeBilinear", "ResizeNearestNeighbor"] {
            for size in [[huge, huge], [huge, 1], [1, huge]] {
                let run = |dims: &[usize]| {
                    let pixels = vec![0.0f32; dims.iter().product()];
                    let run = test_op(op).attr("T", DType::Float).input(image(&pixels, dims));
                    run.input(Tensor::vector(&size).unwrap()).run_one()
                };
                assert_eq!(run(&[0, 2, 2, 1]).unwrap().num_elements(), 0);
                let code = run(&[1, 2, 2, 64]).unwrap_err().code();
                assert!(
                    matches!(code, Code::ResourceExhausted | Code::InvalidArgument),
                    "{op} {size:?}: {code:?}"
                );
            }
        }
        // An image that has no pixels, however high it is.
        let empty = Tensor::zeros(DType::Float, Shape::new(&[0, 1 << 40, 5, 2]).unwrap()).unwrap();
        let run = test_op("ResizeNearestNeighborGrad").attr("T", DType::Float).input(empty.clone());
        assert_eq!(run.input(Tensor::vector(&[3i32, 3]).unwrap()).run_one().unwrap().num_elements(), 0);
        let run = test_op("ResizeBilinearGrad").attr("T", DType::Float).input(empty);
        assert_eq!(run.input(image(&[], &[0, 3, 3, 2])).run_one().unwrap().num_elements(), 0);
    }

    fn resized(op: &str, size: &[i32], align: bool, half: bool) -> Result<Vec<f32>> {
        let run =
            test_op(op).attr("T", DType::Float).attr("align_corners", align).attr("half_pixel_centers", half);
        let run = run.input(image(&[0.0, 1.0, 2.0, 3.0], &[1, 2, 2, 1])).input(Tensor::vector(size).unwrap());
        Ok(run.run_one()?.as_slice::<f32>()?.to_vec())
    }

    #[test]
    fn the_three_grids_are_tensorflows() {
        let third = 1.0 / 3.0;
        for (align, half, expected) in [
            (
                false,
                false,
                [0.0, 0.5, 1.0, 1.0, 4.0 * third, 1.833_333_4, 7.0 * third, 7.0 * third, 2.0, 2.5, 3.0, 3.0],
            ),
            (
                true,
                false,
                [
                    0.0,
                    third,
                    2.0 * third,
                    1.0,
                    1.0,
                    4.0 * third,
                    5.0 * third,
                    2.0,
                    2.0,
                    7.0 * third,
                    8.0 * third,
                    3.0,
                ],
            ),
            (false, true, [0.0, 0.25, 0.75, 1.0, 1.0, 1.25, 1.75, 2.0, 2.0, 2.25, 2.75, 3.0]),
        ] {
            let found = resized("ResizeBilinear", &[3, 4], align, half).unwrap();
            assert!(found.iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-5), "{found:?}");
        }
        let nearest = resized("ResizeNearestNeighbor", &[3, 3], false, false).unwrap();
        assert_eq!(nearest, [0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 2.0, 2.0, 3.0]);
        let nearest = resized("ResizeNearestNeighbor", &[3, 3], true, false).unwrap();
        assert_eq!(nearest, [0.0, 1.0, 1.0, 2.0, 3.0, 3.0, 2.0, 3.0, 3.0]);
    }

    #[test]
    fn gradients_give_back_what_was_spread() {
        let run = test_op("ResizeBilinearGrad").attr("T", DType::Double);
        let original = Tensor::from_slice(&[0.0f64; 4], &[1, 2, 2, 1]).unwrap();
        let found = run.input(image(&[1.0; 12], &[1, 3, 4, 1])).input(original).run_one().unwrap();
        let sum: f64 = found.as_slice::<f64>().unwrap().iter().sum();
        assert!((sum - 12.0).abs() < 1e-6);
        let run = test_op("ResizeNearestNeighborGrad")
            .attr("T", DType::Float)
            .input(image(&[1.0; 9], &[1, 3, 3, 1]));
        let found = run.input(Tensor::vector(&[2i32, 2]).unwrap()).run_one().unwrap();
        assert_eq!(found.as_slice::<f32>().unwrap(), [4.0, 2.0, 2.0, 1.0]);
    }

    #[test]
    fn sizes_must_be_two_positive_numbers() {
        for size in [&[0, 4][..], &[4, -1], &[4], &[4, 4, 4]] {
            assert_eq!(
                resized("ResizeBilinear", size, false, false).unwrap_err().code(),
                Code::InvalidArgument
            );
        }
        let both = resized("ResizeBilinear", &[2, 2], true, true).unwrap_err();
        assert!(both.text().contains("If half_pixel_centers is True, align_corners must be False."));
        let run = test_op("ResizeNearestNeighbor").attr("T", DType::Float).input(image(&[], &[1, 0, 2, 1]));
        let status = run.input(Tensor::vector(&[2i32, 2]).unwrap()).run_one().unwrap_err();
        assert!(status.text().contains("input image must be of non-zero size"));
    }
}
