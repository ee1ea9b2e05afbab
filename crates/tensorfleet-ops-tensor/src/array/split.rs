//! Taking tensors apart: Split, SplitV, Unpack. Parts along the first axis share the data.

use smallvec::SmallVec;
use tensorfleet_core::{Dim, Endpoint, PartialShape, Result, Shape, Tensor, bail, ensure};

use super::axes::{Integers, integer, integers, normalized, with_dim};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_numeric::strided::{Window, view};
use tensorfleet_threads::Loops;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Split", "split_dim: int32, value: T -> output: num_split * T")
        .work(Work::Inputs)
        .gradient(split_gradient)
        .attrs("num_split: int >= 1; T: type")
        .shape(split_shape)
        .kernel(split_kernel),
    Op::new("SplitV", "value: T, size_splits: Tlen, split_dim: int32 -> output: num_split * T")
        .work(Work::Inputs)
        .gradient(split_v_gradient)
        .attrs("num_split: int >= 1; T: type; Tlen: {int8, int32, int64} = int64")
        .shape(split_v_shape)
        .kernel(split_v_kernel),
    Op::new("Unpack", "value: T -> output: num * T")
        .work(Work::Inputs)
        .gradient(unpack_gradient)
        .attrs("num: int >= 0; T: type; axis: int = 0")
        .shape(unpack_shape)
        .kernel(unpack_kernel),
];

/// `len` elements of `axis` from `start`.
pub(crate) fn part(loops: &Loops, tensor: &Tensor, axis: usize, start: usize, len: usize) -> Result<Tensor> {
    let window = Window::whole(tensor.shape()).slice(axis, start, 1, len);
    view(loops, tensor, &window, with_dim(tensor.shape(), axis, len)?)
}

fn split_axis(axis: i64, rank: usize) -> Result<usize> {
    match normalized(axis, rank) {
        Some(axis) => Ok(axis),
        None => {
            bail!(InvalidArgument, "-input rank(-{rank}) <= split_dim < input rank ({rank}), but got {axis}")
        }
    }
}

fn equal_part(axis: usize, len: usize, count: usize) -> Result<usize> {
    ensure!(
        count > 0 && len.is_multiple_of(count),
        InvalidArgument,
        "Number of ways to split should evenly divide the split dimension, but got split_dim {axis} (size = {len}) and num_split {count}"
    );
    Ok(len / count)
}

/// The input's shape with another size of `axis`.
fn resized(dims: &[Dim], axis: usize, size: Dim) -> PartialShape {
    PartialShape::new(dims.iter().enumerate().map(|(k, &dim)| if k == axis { size } else { dim }))
}

fn split_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let count = ctx.num_outputs();
    let Some(dims) = ctx.input(1).dims() else { return Ok(vec![PartialShape::unknown(); count]) };
    let Some(axis) = ctx.integer(0) else { return Ok(vec![PartialShape::of_rank(dims.len()); count]) };
    let axis = split_axis(axis, dims.len())?;
    let len = dims[axis].map(|len| equal_part(axis, len, count)).transpose()?;
    Ok(vec![resized(dims, axis, len); count])
}

fn split_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let count = node.outputs.len();
    Ok(KernelBox::from_fn(move |ctx| {
        let axis = integer(ctx.input(0)?, "split_dim")?;
        let value = ctx.take_input(1)?;
        let axis = split_axis(axis, value.shape().rank())?;
        let len = equal_part(axis, value.shape()[axis], count)?;
        for index in 0..count {
            ctx.set_output(index, part(ctx.loops(), &value, axis, index * len, len)?);
        }
        Ok(())
    }))
}

/// The sizes of the parts of an axis, of which one may be -1: what is left.
fn resolve_sizes(sizes: &[i64], count: usize, total: usize) -> Result<SmallVec<[usize; 8]>> {
    ensure!(
        sizes.len() == count,
        InvalidArgument,
        "size of the split_tensor must be 1-D and have the same elements as outputs got {} elements for {count} outputs",
        sizes.len()
    );
    let mut unknown = None;
    let mut given = 0usize;
    for (index, &size) in sizes.iter().enumerate() {
        match usize::try_from(size) {
            Ok(size) => given = given.saturating_add(size),
            Err(_) if size == -1 => {
                ensure!(unknown.is_none(), InvalidArgument, "There can only be one -1 in the input.");
                unknown = Some(index);
            }
            Err(_) => bail!(InvalidArgument, "Split size at index {index} must be >= 0. Got: {size}"),
        }
    }
    ensure!(
        given == total || (unknown.is_some() && given < total),
        InvalidArgument,
        "Determined shape must either match input shape along split_dim exactly if fully specified, or be less than the size of the input along split_dim if not fully specified.  Got: {given}"
    );
    Ok(sizes.iter().map(|&size| usize::try_from(size).unwrap_or(total - given)).collect())
}

fn split_v_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let count = ctx.num_outputs();
    let Some(dims) = ctx.input(0).dims() else { return Ok(vec![PartialShape::unknown(); count]) };
    let Some(axis) = ctx.integer(2) else { return Ok(vec![PartialShape::of_rank(dims.len()); count]) };
    let axis = split_axis(axis, dims.len())?;
    let sizes: Integers = match ctx.value(1) {
        Some(value) => integers(value)?,
        None => return Ok(vec![resized(dims, axis, None); count]),
    };
    let sizes: SmallVec<[Dim; 8]> = match dims[axis] {
        Some(total) => resolve_sizes(&sizes, count, total)?.into_iter().map(Some).collect(),
        None => sizes.iter().map(|&size| usize::try_from(size).ok()).collect(),
    };
    Ok((0..count).map(|index| resized(dims, axis, sizes.get(index).copied().flatten())).collect())
}

fn split_v_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let count = node.outputs.len();
    Ok(KernelBox::from_fn(move |ctx| {
        let axis = integer(ctx.input(2)?, "split_dim")?;
        let sizes = integers(ctx.input(1)?)?;
        let value = ctx.take_input(0)?;
        let axis = split_axis(axis, value.shape().rank())?;
        let mut start = 0;
        for (index, len) in resolve_sizes(&sizes, count, value.shape()[axis])?.into_iter().enumerate() {
            ctx.set_output(index, part(ctx.loops(), &value, axis, start, len)?);
            start += len;
        }
        Ok(())
    }))
}

fn unpacked_axis(axis: i64, rank: usize) -> Result<usize> {
    match normalized(axis, rank) {
        Some(axis) => Ok(axis),
        None => bail!(InvalidArgument, "axis = {axis} not in [-{rank}, {rank})"),
    }
}

fn unpack_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let count = ctx.num_outputs();
    let Some(dims) = ctx.input(0).dims() else { return Ok(vec![PartialShape::unknown(); count]) };
    let axis = unpacked_axis(ctx.attr("axis")?, dims.len())?;
    ensure!(
        dims[axis].is_none_or(|len| len == count),
        InvalidArgument,
        "Input shape axis {axis} must equal {count}, got shape {}",
        ctx.input(0)
    );
    let mut dims: SmallVec<[Dim; 8]> = SmallVec::from_slice(dims);
    dims.remove(axis);
    Ok(vec![PartialShape::new(dims); count])
}

fn unpack_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (axis, count): (i64, usize) = (node.attr("axis")?, node.outputs.len());
    Ok(KernelBox::from_fn(move |ctx| {
        let value = ctx.take_input(0)?;
        let axis = unpacked_axis(axis, value.shape().rank())?;
        ensure!(
            value.shape()[axis] == count,
            InvalidArgument,
            "Input shape axis {axis} must equal {count}, got shape {}",
            value.shape()
        );
        let mut dims: SmallVec<[usize; 8]> = SmallVec::from_slice(value.shape());
        dims.remove(axis);
        let shape = Shape::new(&dims)?;
        for index in 0..count {
            let slice = part(ctx.loops(), &value, axis, index, 1)?;
            ctx.set_output(index, slice.reshaped(shape.clone())?);
        }
        Ok(())
    }))
}

fn arriving_parts(d: &mut Differential<'_>) -> Result<Vec<Endpoint>> {
    let node = d.node_id();
    let count = d.builder().num_outputs(node);
    (0..count).map(|slot| d.dy(slot)).collect()
}

fn join_back(d: &mut Differential<'_>, axis: usize) -> Result<Endpoint> {
    let (parts, axis) = (arriving_parts(d)?, d.input(axis)?);
    d.emit(NewNode::new("ConcatV2").input_list(parts).input(axis))
}

fn split_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let joined = join_back(d, 0)?;
    d.only(1, joined)
}

fn split_v_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let joined = join_back(d, 2)?;
    d.only(0, joined)
}

fn unpack_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let parts = arriving_parts(d)?;
    let pack = NewNode::new("Pack").input_list(parts).attr("axis", d.attr::<i64>("axis")?);
    let packed = d.emit(pack)?;
    d.only(0, packed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use tensorfleet_core::{Code, DType};

    fn matrix() -> Tensor {
        Tensor::from_slice(&[1i32, 2, 3, 4, 5, 6, 7, 8], &[2, 4]).unwrap()
    }

    fn slices(outputs: &[Tensor]) -> Vec<Vec<i32>> {
        outputs.iter().map(|tensor| tensor.as_slice::<i32>().unwrap().to_vec()).collect()
    }

    #[test]
    fn split_gives_equal_parts_and_shares_rows() {
        let split = |axis: i32, count: i64| {
            let op = test_op("Split").with_shape_check().attr("num_split", count).attr("T", DType::Int32);
            op.input(axis.into()).input(matrix()).run()
        };
        assert_eq!(slices(&split(-1, 2).unwrap()), [[1, 2, 5, 6], [3, 4, 7, 8]]);
        assert_eq!(slices(&split(0, 2).unwrap()), [[1, 2, 3, 4], [5, 6, 7, 8]]);
        let status = split(1, 3).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.text().contains("but got split_dim 1 (size = 4) and num_split 3"));
        assert!(split(2, 2).unwrap_err().text().contains("but got 2"));
    }

    #[test]
    fn split_v_gives_parts_of_given_sizes_one_of_them_inferred() {
        let split = |sizes: &[i64]| {
            let op = test_op("SplitV")
                .with_shape_check()
                .attr("num_split", sizes.len() as i64)
                .attr("T", DType::Int32);
            op.input(matrix()).input(Tensor::vector(sizes).unwrap()).input(1i32.into()).run()
        };
        assert_eq!(slices(&split(&[1, -1]).unwrap()), [vec![1, 5], vec![2, 3, 4, 6, 7, 8]]);
        assert_eq!(split(&[4, 0]).unwrap()[1].shape().dims(), [2, 0]);
        assert_eq!(split(&[4, -1]).unwrap()[1].shape().dims(), [2, 0]);
        for sizes in [&[1, 2][..], &[-1, -1], &[5, -1], &[6, -2], &[i64::MAX, i64::MAX]] {
            assert_eq!(split(sizes).unwrap_err().code(), Code::InvalidArgument, "{sizes:?}");
        }
    }

    #[test]
    fn unpack_undoes_pack_along_any_axis() {
        let unpack = |axis: i64, count: i64| {
            let op = test_op("Unpack")
                .with_shape_check()
                .attr("num", count)
                .attr("T", DType::Int32)
                .attr("axis", axis);
            op.input(matrix()).run()
        };
        let columns = unpack(-1, 4).unwrap();
        assert_eq!((columns.len(), columns[2].shape().dims()), (4, &[2][..]));
        assert_eq!(slices(&columns), [[1, 5], [2, 6], [3, 7], [4, 8]]);
        assert!(
            unpack(0, 3).unwrap_err().text().contains("Input shape axis 0 must equal 3, got shape [2,4]")
        );
        assert!(unpack(2, 3).unwrap_err().text().contains("axis = 2 not in [-2, 2)"));
    }
}
