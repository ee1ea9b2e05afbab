//! Moving blocks of space into the batch or the depth and back: SpaceToBatch(ND), BatchToSpace(ND), SpaceToDepth,
//! DepthToSpace. All of them split axes, reorder them and join them again.

use smallvec::SmallVec;
use tensorfleet_core::{Dim, PartialShape, Result, Shape, Tensor, bail, ensure};

use super::axes::{Integers, integers, one};
use super::pad::{Paddings, padded};
use super::transpose::transposed;
use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_numeric::strided::{Window, view};
use tensorfleet_threads::Loops;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("SpaceToBatchND", "input: T, block_shape: Tblock_shape, paddings: Tpaddings -> output: T")
        .gradient(space_to_batch_nd_gradient)
        .attrs("T: type; Tblock_shape: {int32, int64} = int32; Tpaddings: {int32, int64} = int32")
        .shape(space_to_batch_nd_shape)
        .kernel(|_| {
            Ok(KernelBox::from_fn(|ctx| {
                let blocks = block_sizes(ctx.input(1)?)?;
                let tensor = space_to_batch(ctx.loops(), ctx.input(0)?, &blocks, ctx.input(2)?)?;
                ctx.set_output(0, tensor);
                Ok(())
            }))
        }),
    Op::new("BatchToSpaceND", "input: T, block_shape: Tblock_shape, crops: Tcrops -> output: T")
        .work(Work::Inputs)
        .gradient(batch_to_space_nd_gradient)
        .attrs("T: type; Tblock_shape: {int32, int64} = int32; Tcrops: {int32, int64} = int32")
        .shape(batch_to_space_nd_shape)
        .kernel(|_| {
            Ok(KernelBox::from_fn(|ctx| {
                let blocks = block_sizes(ctx.input(1)?)?;
                let tensor = batch_to_space(ctx.loops(), ctx.input(0)?, &blocks, ctx.input(2)?)?;
                ctx.set_output(0, tensor);
                Ok(())
            }))
        }),
    Op::new("SpaceToBatch", "input: T, paddings: Tpaddings -> output: T")
        .gradient(space_to_batch_gradient)
        .attrs("T: type; Tpaddings: {int32, int64} = int32; block_size: int >= 2")
        .shape(space_to_batch_shape)
        .kernel(|node| {
            let block = node.attr::<i64>("block_size")? as usize;
            Ok(KernelBox::from_fn(move |ctx| {
                check_image(ctx.input(0)?.shape())?;
                let tensor = space_to_batch(ctx.loops(), ctx.input(0)?, &[block, block], ctx.input(1)?)?;
                ctx.set_output(0, tensor);
                Ok(())
            }))
        }),
    Op::new("BatchToSpace", "input: T, crops: Tidx -> output: T")
        .work(Work::Inputs)
        .gradient(batch_to_space_gradient)
        .attrs("T: type; block_size: int >= 2; Tidx: {int32, int64} = int32")
        .shape(batch_to_space_shape)
        .kernel(|node| {
            let block = node.attr::<i64>("block_size")? as usize;
            Ok(KernelBox::from_fn(move |ctx| {
                check_image(ctx.input(0)?.shape())?;
                let tensor = batch_to_space(ctx.loops(), ctx.input(0)?, &[block, block], ctx.input(1)?)?;
                ctx.set_output(0, tensor);
                Ok(())
            }))
        }),
    Op::new("SpaceToDepth", "input: T -> output: T")
        .work(Work::Inputs)
        .gradient(space_to_depth_gradient)
        .attrs("T: type; block_size: int >= 2; data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'")
        .shape(|ctx| depth_shape(ctx, space_to_depth_dims))
        .kernel(space_to_depth_kernel),
    Op::new("DepthToSpace", "input: T -> output: T")
        .work(Work::Inputs)
        .gradient(depth_to_space_gradient)
        .attrs("T: type; block_size: int >= 2; data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'")
        .shape(|ctx| depth_shape(ctx, depth_to_space_dims))
        .kernel(depth_to_space_kernel),
];

/// The elements of `tensor`, seen as `dims`, with those axes in another order, seen as `shape`.
fn regrouped(
    loops: &Loops,
    tensor: &Tensor,
    dims: &[usize],
    order: &[usize],
    shape: Shape,
) -> Result<Tensor> {
    transposed(loops, &tensor.clone().reshaped(Shape::new(dims)?)?, order)?.reshaped(shape)
}

/// The shapes of the ops whose second input holds the block sizes, and those whose attribute does.
fn space_to_batch_nd_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    one(blocks_shape(ctx.input(0), ctx.integers(1).as_deref(), ctx.integers(2).as_deref(), to_batch_dim))
}

fn batch_to_space_nd_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    one(blocks_shape(ctx.input(0), ctx.integers(1).as_deref(), ctx.integers(2).as_deref(), to_space_dim))
}

fn space_to_batch_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let blocks = [ctx.attr::<i64>("block_size")?; 2];
    one(blocks_shape(ctx.input(0), Some(&blocks), ctx.integers(1).as_deref(), to_batch_dim))
}

fn batch_to_space_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let blocks = [ctx.attr::<i64>("block_size")?; 2];
    one(blocks_shape(ctx.input(0), Some(&blocks), ctx.integers(1).as_deref(), to_space_dim))
}

/// What becomes of the batch (no margin) and of a dimension of space, for a block size and the sum of the margins.
type BlockRule = fn(dim: i64, block: i64, margin: Option<i64>) -> Option<i64>;

fn to_batch_dim(dim: i64, block: i64, margin: Option<i64>) -> Option<i64> {
    let Some(margin) = margin else { return dim.checked_mul(block) };
    let padded = dim.checked_add(margin)?;
    (padded.checked_rem(block)? == 0).then_some(padded / block)
}

fn to_space_dim(dim: i64, block: i64, margin: Option<i64>) -> Option<i64> {
    let Some(margin) = margin else { return (dim.checked_rem(block)? == 0).then_some(dim / block) };
    dim.checked_mul(block)?.checked_sub(margin)
}

/// As much of the shape as the constants say. What does not fit stays unknown: the kernel names the mistake.
fn blocks_shape(
    input: &PartialShape,
    blocks: Option<&[i64]>,
    margins: Option<&[i64]>,
    rule: BlockRule,
) -> PartialShape {
    let Some(dims) = input.dims() else { return PartialShape::unknown() };
    let (Some(blocks), true) = (blocks, !dims.is_empty()) else { return PartialShape::of_rank(dims.len()) };
    let after = |dim: Dim, block: i64, margin: Option<i64>| {
        usize::try_from(rule(i64::try_from(dim?).ok()?, block, margin)?).ok()
    };
    let mut result: SmallVec<[Dim; 8]> = dims.iter().copied().collect();
    result[0] = blocks.iter().fold(dims[0], |dim, &block| after(dim, block, None));
    for (index, (dim, &block)) in result[1..].iter_mut().zip(blocks).enumerate() {
        let pair = margins.and_then(|margins| margins.get(index * 2..index * 2 + 2));
        *dim = pair.and_then(|pair| after(*dim, block, Some(pair[0].checked_add(pair[1])?)));
    }
    PartialShape::new(result)
}

fn check_image(shape: &Shape) -> Result<()> {
    ensure!(shape.rank() == 4, InvalidArgument, "Input rank should be 4 instead of {}", shape.rank());
    Ok(())
}

fn block_sizes(blocks: &Tensor) -> Result<SmallVec<[usize; 4]>> {
    ensure!(
        blocks.shape().rank() == 1,
        InvalidArgument,
        "block_shape rank should be 1 instead of {}",
        blocks.shape().rank()
    );
    let mut sizes = SmallVec::new();
    for (index, &size) in integers(blocks)?.iter().enumerate() {
        ensure!(
            size > 0,
            InvalidArgument,
            "All values in block_shape must be positive, got value, {size} at index {index}."
        );
        sizes.push(size as usize);
    }
    Ok(sizes)
}

/// Pairs of sizes before and behind each block axis.
fn margins(tensor: &Tensor, count: usize, name: &str) -> Result<Paddings> {
    ensure!(
        tensor.shape().dims() == [count, 2],
        InvalidArgument,
        "{name} should have shape [{count}, 2] instead of {}",
        tensor.shape()
    );
    let sizes: Integers = integers(tensor)?;
    let capital = if name == "crops" { "Crops" } else { "Paddings" };
    ensure!(sizes.iter().all(|&size| size >= 0), InvalidArgument, "{capital} must be non-negative");
    Ok(sizes.chunks_exact(2).map(|pair| (pair[0] as usize, pair[1] as usize)).collect())
}

fn check_rank(shape: &Shape, blocks: usize) -> Result<()> {
    ensure!(
        shape.rank() > blocks,
        InvalidArgument,
        "input rank should be >= {} instead of {}",
        blocks + 1,
        shape.rank()
    );
    Ok(())
}

fn space_to_batch(loops: &Loops, input: &Tensor, blocks: &[usize], paddings: &Tensor) -> Result<Tensor> {
    let count = blocks.len();
    check_rank(input.shape(), count)?;
    let mut around: Paddings = SmallVec::from_elem((0, 0), input.shape().rank());
    around[1..=count].copy_from_slice(&margins(paddings, count, "paddings")?);
    let input = padded(loops, input, &around, None)?;
    let shape = input.shape();
    // [batch, h/b, b, …, rest] becomes [b, …, batch, h/b, …, rest].
    let mut split: SmallVec<[usize; 12]> = SmallVec::from_slice(&shape[..1]);
    let mut out: SmallVec<[usize; 8]> = SmallVec::from_slice(&shape[..1]);
    for (index, (&size, &block)) in shape[1..].iter().zip(blocks).enumerate() {
        ensure!(
            size.is_multiple_of(block),
            InvalidArgument,
            "padded_shape[{index}]={size} is not divisible by block_shape[{index}]={block}"
        );
        split.extend([size / block, block]);
        out.push(size / block);
        out[0] = out[0].saturating_mul(block);
    }
    split.extend_from_slice(&shape[1 + count..]);
    out.extend_from_slice(&shape[1 + count..]);
    let order: SmallVec<[usize; 12]> = (0..count)
        .map(|k| 2 * k + 2)
        .chain([0])
        .chain((0..count).map(|k| 2 * k + 1))
        .chain(2 * count + 1..split.len())
        .collect();
    regrouped(loops, &input, &split, &order, Shape::new(&out)?)
}

fn batch_to_space(loops: &Loops, input: &Tensor, blocks: &[usize], crops: &Tensor) -> Result<Tensor> {
    let (count, shape) = (blocks.len(), input.shape());
    check_rank(shape, count)?;
    let crops = margins(crops, count, "crops")?;
    let product = Shape::new(blocks)?.num_elements();
    ensure!(
        shape[0].is_multiple_of(product),
        InvalidArgument,
        "Input batch dimension ({}) is not divisible by product of block sizes ({product})",
        shape[0]
    );
    // [b, …, batch, h, …, rest] becomes [batch, h, b, …, rest].
    let split: SmallVec<[usize; 12]> =
        blocks.iter().copied().chain([shape[0] / product]).chain(shape[1..].iter().copied()).collect();
    let mut whole: SmallVec<[usize; 8]> = SmallVec::from_slice(&[shape[0] / product]);
    whole.extend(shape[1..].iter().zip(blocks).map(|(&size, &block)| size.saturating_mul(block)));
    whole.extend_from_slice(&shape[1 + count..]);
    let order: SmallVec<[usize; 12]> = [count]
        .into_iter()
        .chain((0..count).flat_map(|k| [count + 1 + k, k]))
        .chain(2 * count + 1..split.len())
        .collect();
    let joined = regrouped(loops, input, &split, &order, Shape::new(&whole)?)?;
    let mut window = Window::whole(&whole);
    for (index, &(before, behind)) in crops.iter().enumerate() {
        let size = whole[index + 1];
        let Some(rest) = size.checked_sub(before.saturating_add(behind)) else {
            bail!(
                InvalidArgument,
                "cropped_shape[{index}]={} must be non-negative",
                size as i128 - before as i128 - behind as i128
            )
        };
        window = window.slice(index + 1, before, 1, rest);
        whole[index + 1] = rest;
    }
    view(loops, &joined, &window, Shape::new(&whole)?)
}

/// Batch, height, width and depth of an image tensor in either layout.
fn image_dims<D: Copy>(dims: &[D], channels_first: bool) -> Result<[D; 4]> {
    match (dims, channels_first) {
        (&[batch, height, width, depth], false) => Ok([batch, height, width, depth]),
        (&[batch, depth, height, width], true) => Ok([batch, height, width, depth]),
        _ => bail!(InvalidArgument, "Input rank should be 4 instead of {}", dims.len()),
    }
}

fn from_image_dims<D: Copy>([batch, height, width, depth]: [D; 4], channels_first: bool) -> [D; 4] {
    if channels_first { [batch, depth, height, width] } else { [batch, height, width, depth] }
}

fn is_channels_first(format: &str) -> Result<bool> {
    match format {
        "NHWC" => Ok(false),
        "NCHW" => Ok(true),
        other => bail!(InvalidArgument, "The CPU has no kernel for data_format {other}"),
    }
}

fn space_to_depth_dims([batch, height, width, depth]: [Dim; 4], block: usize) -> Result<[Dim; 4]> {
    let divisible = |size: Dim| size.is_none_or(|size| size.is_multiple_of(block));
    let shown = |size: Dim| size.map_or("?".to_string(), |size| size.to_string());
    ensure!(
        divisible(height) && divisible(width),
        InvalidArgument,
        "Image width {} and height {} should be divisible by block_size: {block}",
        shown(width),
        shown(height)
    );
    let depth = depth.and_then(|depth| depth.checked_mul(block.checked_mul(block)?));
    Ok([batch, height.map(|size| size / block), width.map(|size| size / block), depth])
}

fn depth_to_space_dims([batch, height, width, depth]: [Dim; 4], block: usize) -> Result<[Dim; 4]> {
    let square = block.saturating_mul(block);
    ensure!(
        depth.is_none_or(|depth| depth.is_multiple_of(square)),
        InvalidArgument,
        "Input depth dimension {} should be divisible by: {square}",
        depth.unwrap_or_default()
    );
    let grown = |size: Dim| size.and_then(|size| size.checked_mul(block));
    Ok([batch, grown(height), grown(width), depth.map(|depth| depth / square)])
}

type DimsRule = fn([Dim; 4], usize) -> Result<[Dim; 4]>;

fn depth_shape(ctx: &ShapeContext<'_>, rule: DimsRule) -> Result<Vec<PartialShape>> {
    let channels_first = is_channels_first(&ctx.attr::<String>("data_format")?)?;
    let block = ctx.attr::<i64>("block_size")? as usize;
    let Some(dims) = ctx.input(0).dims() else { return one(PartialShape::of_rank(4)) };
    let dims = rule(image_dims(dims, channels_first)?, block)?;
    one(PartialShape::new(from_image_dims(dims, channels_first)))
}

fn out_shape(image: [usize; 4], block: usize, channels_first: bool, rule: DimsRule) -> Result<Shape> {
    let dims: SmallVec<[usize; 4]> = from_image_dims(rule(image.map(Some), block)?, channels_first)
        .into_iter()
        .map(|dim| dim.unwrap_or(usize::MAX))
        .collect();
    Shape::new(&dims)
}

fn space_to_depth_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let channels_first = is_channels_first(&node.attr::<String>("data_format")?)?;
    let block = node.attr::<i64>("block_size")? as usize;
    Ok(KernelBox::from_fn(move |ctx| {
        let input = ctx.input(0)?;
        let image @ [batch, height, width, depth] = image_dims(input.shape(), channels_first)?;
        let shape = out_shape(image, block, channels_first, space_to_depth_dims)?;
        let (h, w) = (height / block, width / block);
        let tensor = if channels_first {
            regrouped(ctx.loops(), input, &[batch, depth, h, block, w, block], &[0, 3, 5, 1, 2, 4], shape)?
        } else {
            regrouped(ctx.loops(), input, &[batch, h, block, w, block, depth], &[0, 1, 3, 2, 4, 5], shape)?
        };
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

fn depth_to_space_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let channels_first = is_channels_first(&node.attr::<String>("data_format")?)?;
    let block = node.attr::<i64>("block_size")? as usize;
    Ok(KernelBox::from_fn(move |ctx| {
        let input = ctx.input(0)?;
        let image @ [batch, height, width, depth] = image_dims(input.shape(), channels_first)?;
        let shape = out_shape(image, block, channels_first, depth_to_space_dims)?;
        let depth = depth / block / block;
        let tensor = if channels_first {
            regrouped(
                ctx.loops(),
                input,
                &[batch, block, block, depth, height, width],
                &[0, 3, 4, 1, 5, 2],
                shape,
            )?
        } else {
            regrouped(
                ctx.loops(),
                input,
                &[batch, height, width, block, block, depth],
                &[0, 1, 3, 2, 4, 5],
                shape,
            )?
        };
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

/// Each of these ops is undone by another with the same parameters.
fn undone_by(d: &mut Differential<'_>, op: &str) -> Result<Grads> {
    let mut inputs = d.inputs();
    if let Some(first) = inputs.first_mut() {
        *first = d.dy(0)?;
    }
    let dx = d.with_attrs(op, &inputs, &["block_size", "data_format"]);
    let dx = d.emit(dx)?;
    d.only(0, dx)
}

fn space_to_batch_nd_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    undone_by(d, "BatchToSpaceND")
}

fn batch_to_space_nd_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    undone_by(d, "SpaceToBatchND")
}

fn space_to_batch_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    undone_by(d, "BatchToSpace")
}

fn batch_to_space_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    undone_by(d, "SpaceToBatch")
}

fn space_to_depth_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    undone_by(d, "DepthToSpace")
}

fn depth_to_space_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    undone_by(d, "SpaceToDepth")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use tensorfleet_core::DType;

    fn image(dims: &[usize]) -> Tensor {
        Tensor::from_slice(&(0..dims.iter().product::<usize>() as i32).collect::<Vec<_>>(), dims).unwrap()
    }

    fn nd(op: &str, input: Tensor, blocks: &[i32], margins: &[i32]) -> Result<Tensor> {
        let margins = Tensor::from_slice(margins, &[margins.len() / 2, 2]).unwrap();
        let op = test_op(op).with_shape_check().attr("T", DType::Int32).input(input);
        op.input(Tensor::vector(blocks).unwrap()).input(margins).run_one()
    }

    #[test]
    fn padded_space_goes_to_the_batch_and_back() {
        let input = image(&[1, 4, 4, 1]);
        let out = nd("SpaceToBatchND", input.clone(), &[2, 2], &[0, 0, 2, 0]).unwrap();
        assert_eq!(out.shape().dims(), [4, 2, 3, 1]);
        let expected = [0, 0, 2, 0, 8, 10, 0, 1, 3, 0, 9, 11, 0, 4, 6, 0, 12, 14, 0, 5, 7, 0, 13, 15];
        assert_eq!(out.as_slice::<i32>().unwrap(), expected);
        assert_eq!(nd("BatchToSpaceND", out, &[2, 2], &[0, 0, 2, 0]).unwrap(), input);
    }

    #[test]
    fn shapes_follow_from_constant_blocks_and_margins() {
        let known = PartialShape::new([Some(2), Some(8), None, Some(3)]);
        let blocks = blocks_shape(&known, Some(&[2, 2]), Some(&[2, 2, 0, 0]), to_batch_dim);
        assert_eq!(blocks, PartialShape::new([Some(8), Some(6), None, Some(3)]));
        let back = blocks_shape(&blocks, Some(&[2, 2]), Some(&[2, 2, 0, 0]), to_space_dim);
        assert_eq!(back, known);
        let unknown_margins = blocks_shape(&known, Some(&[2, 2]), None, to_batch_dim);
        assert_eq!(unknown_margins, PartialShape::new([Some(8), None, None, Some(3)]));
        assert_eq!(blocks_shape(&known, None, None, to_batch_dim), PartialShape::of_rank(4));
    }

    #[test]
    fn sizes_that_do_not_divide_are_refused() {
        let text = |op: &str, blocks: &[i32], margins: &[i32]| {
            nd(op, image(&[1, 4, 4, 1]), blocks, margins).unwrap_err().text().to_string()
        };
        assert!(
            text("SpaceToBatchND", &[3, 2], &[0; 4])
                .contains("padded_shape[0]=4 is not divisible by block_shape[0]=3")
        );
        assert!(text("SpaceToBatchND", &[2, 0], &[0; 4]).contains("got value, 0 at index 1."));
        assert!(text("SpaceToBatchND", &[2, 2], &[0, 0, 2, -2]).contains("Paddings must be non-negative"));
        assert!(
            text("SpaceToBatchND", &[2, 2], &[0, 0])
                .contains("paddings should have shape [2, 2] instead of [1,2]")
        );
        assert!(text("SpaceToBatchND", &[2; 5], &[0; 10]).contains("input rank should be >= 6 instead of 4"));
        assert!(
            text("BatchToSpaceND", &[2, 2], &[0; 4])
                .contains("(1) is not divisible by product of block sizes (4)")
        );
        let crop = nd("BatchToSpaceND", image(&[4, 1, 1, 1]), &[2, 2], &[0, 0, 3, 0]).unwrap_err();
        assert!(crop.text().contains("cropped_shape[1]=-1 must be non-negative"));
    }

    #[test]
    fn space_goes_to_the_depth_and_back_in_both_layouts() {
        let run = |op: &str, input: Tensor, format: &str| {
            let op = test_op(op).with_shape_check().attr("T", DType::Int32).attr("block_size", 2i64);
            op.attr("data_format", format).input(input).run_one()
        };
        let deep = run("SpaceToDepth", image(&[1, 4, 4, 1]), "NHWC").unwrap();
        assert_eq!(deep.shape().dims(), [1, 2, 2, 4]);
        assert_eq!(deep.as_slice::<i32>().unwrap()[..8], [0, 1, 4, 5, 2, 3, 6, 7]);
        assert_eq!(run("DepthToSpace", deep, "NHWC").unwrap(), image(&[1, 4, 4, 1]));
        let first = run("SpaceToDepth", image(&[2, 3, 4, 6]), "NCHW").unwrap();
        assert_eq!(first.shape().dims(), [2, 12, 2, 3]);
        assert_eq!(run("DepthToSpace", first, "NCHW").unwrap(), image(&[2, 3, 4, 6]));
        assert!(
            run("DepthToSpace", image(&[1, 1, 1, 6]), "NHWC")
                .unwrap_err()
                .text()
                .contains("6 should be divisible by: 4")
        );
        assert!(
            run("SpaceToDepth", image(&[1, 3, 4, 1]), "NHWC")
                .unwrap_err()
                .text()
                .contains("divisible by block_size: 2")
        );
        assert!(
            run("SpaceToDepth", image(&[3, 4, 1]), "NHWC")
                .unwrap_err()
                .text()
                .contains("Input rank should be 4")
        );
    }
}
