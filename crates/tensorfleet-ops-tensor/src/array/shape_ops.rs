//! Asking for shapes, and changing them without touching elements: Shape, Size, Rank, Reshape, Squeeze,
//! ExpandDims. All take constant time; reshaped tensors share their data.

use smallvec::SmallVec;
use tensorfleet_core::{Dim, PartialShape, Result, Shape, Tensor, bail, ensure};

use super::axes::{integer, integers, normalized, one, product, sizes_tensor};
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::known_value::KnownValue;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, scalars};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Shape", "input: T -> output: out_type")
        .not_differentiable()
        .attrs("T: type; out_type: {int32, int64} = int32")
        .shape(shape_shape)
        .kernel(shape_kernel)
        .cost(Cost::Trivial)
        .reads_in_place()
        .reads_shape_only()
        .known_value(known_shape),
    Op::new("ShapeN", "input: N * T -> output: N * out_type")
        .not_differentiable()
        .attrs("N: int >= 1; T: type; out_type: {int32, int64} = int32")
        .shape(shape_shape)
        .kernel(shape_kernel)
        .cost(Cost::Trivial)
        .reads_in_place()
        .known_value(known_shape),
    Op::new("Size", "input: T -> output: out_type")
        .not_differentiable()
        .attrs("T: type; out_type: {int32, int64} = int32")
        .shape(scalars)
        .kernel(size_kernel)
        .cost(Cost::Trivial)
        .reads_in_place()
        .reads_shape_only()
        .known_value(known_size),
    Op::new("Rank", "input: T -> output: int32")
        .not_differentiable()
        .attrs("T: type")
        .shape(scalars)
        .kernel(rank_kernel)
        .cost(Cost::Trivial)
        .reads_in_place()
        .reads_shape_only()
        .known_value(known_rank),
    Op::new("Reshape", "tensor: T, shape: Tshape -> output: T")
        .gradient(reshaped_back)
        .attrs("T: type; Tshape: {int32, int64} = int32")
        .shape(reshape_shape)
        .kernel(reshape_kernel)
        .cost(Cost::Trivial),
    Op::new("Squeeze", "input: T -> output: T")
        .gradient(reshaped_back)
        .attrs("T: type; squeeze_dims: list(int) >= 0 = []")
        .shape(squeeze_shape)
        .kernel(squeeze_kernel)
        .cost(Cost::Trivial),
    Op::new("ExpandDims", "input: T, dim: Tdim -> output: T")
        .gradient(reshaped_back)
        .attrs("T: type; Tdim: {int32, int64} = int32")
        .shape(expand_dims_shape)
        .kernel(expand_dims_kernel)
        .cost(Cost::Trivial),
];

fn shape_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok((0..ctx.num_outputs()).map(|index| PartialShape::vector(ctx.input(index).rank())).collect())
}

fn known_shape(ctx: &ShapeContext<'_>, output: usize) -> Option<KnownValue> {
    let shape = ctx.input(output);
    shape.rank().map(|_| KnownValue::Shape(shape.clone()))
}

fn known_size(ctx: &ShapeContext<'_>, _: usize) -> Option<KnownValue> {
    let count = ctx.input(0).to_shape()?.num_elements();
    KnownValue::integer(ctx.node.output_dtype(0).ok()?, count)
}

fn known_rank(ctx: &ShapeContext<'_>, _: usize) -> Option<KnownValue> {
    KnownValue::integer(ctx.node.output_dtype(0).ok()?, ctx.input(0).rank()?)
}

/// `Shape` and `ShapeN`.
fn shape_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (out, count) = (node.attr("out_type")?, node.outputs.len());
    Ok(KernelBox::from_fn(move |ctx| {
        for index in 0..count {
            let shape = ctx.read_in_place(index, |tensor| Ok(tensor.shape().clone()))?;
            let tensor = sizes_tensor(shape.iter().copied(), &[shape.rank()], out)?;
            ctx.set_output(index, tensor);
        }
        Ok(())
    }))
}

fn size_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let out = node.attr("out_type")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let size = ctx.read_in_place(0, |tensor| Ok(tensor.num_elements()))?;
        let tensor = sizes_tensor([size].into_iter(), &[], out)?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

fn rank_kernel(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let rank = ctx.read_in_place(0, |tensor| Ok(tensor.shape().rank() as i32))?;
        ctx.set_output(0, Tensor::scalar(rank));
        Ok(())
    }))
}

fn reshape_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let target = ctx.shape_value(1)?;
    if let (Some(input), Some(sizes)) = (ctx.input(0).to_shape(), ctx.integers(1)) {
        return one((&resolve_reshape(&input, &sizes)?).into());
    }
    let known = ctx.input(0).dims().and_then(product);
    let (Some(dims), Some(count)) = (target.dims(), known) else { return one(target) };
    // One unknown size follows from the others.
    let unknown: SmallVec<[usize; 4]> = (0..dims.len()).filter(|&axis| dims[axis].is_none()).collect();
    let others: SmallVec<[Dim; 8]> = dims.iter().copied().filter(Option::is_some).collect();
    let mut dims: SmallVec<[Dim; 8]> = SmallVec::from_slice(dims);
    match (&unknown[..], product(&others)) {
        (&[axis], Some(others)) if others > 0 && count.is_multiple_of(others) => {
            dims[axis] = Some(count / others)
        }
        ([], Some(others)) => ensure!(
            others == count,
            InvalidArgument,
            "Cannot reshape a tensor with {count} elements to shape {target} ({others} elements)"
        ),
        _ => {}
    }
    one(PartialShape::new(dims))
}

/// The shape `sizes` stands for, in which one -1 is what is left over for it.
pub(crate) fn resolve_reshape(input: &Shape, sizes: &[i64]) -> Result<Shape> {
    let mut unknown = None;
    let mut dims: SmallVec<[usize; 8]> = SmallVec::new();
    for (axis, &size) in sizes.iter().enumerate() {
        match (usize::try_from(size), unknown) {
            (Ok(size), _) => dims.push(size),
            (Err(_), None) if size == -1 => {
                unknown = Some(axis);
                dims.push(1);
            }
            (Err(_), Some(first)) if size == -1 => {
                bail!(InvalidArgument, "Only one input size may be -1, not both {first} and {axis}")
            }
            _ => bail!(InvalidArgument, "Size {axis} must be non-negative, not {size}"),
        }
    }
    let count = input.num_elements();
    if let Some(axis) = unknown {
        // Beside a zero the -1 cannot be told from the element count; the non-zero sizes of the input tell.
        let has_zero = dims.contains(&0);
        let nonzero = |dims: &[usize]| -> SmallVec<[usize; 8]> {
            dims.iter().copied().filter(|&dim| dim != 0).collect()
        };
        let others = Shape::new(&nonzero(&dims))?.num_elements();
        let total = if has_zero { nonzero(input).iter().product() } else { count };
        let hidden_by_zero = has_zero && count == 0;
        ensure!(
            hidden_by_zero || total % others == 0,
            InvalidArgument,
            "Input to reshape is a tensor with {count} values, but the requested shape requires a multiple of {others}"
        );
        dims[axis] = total / others;
    }
    let shape = Shape::new(&dims)?;
    ensure!(
        shape.num_elements() == count,
        InvalidArgument,
        "Input to reshape is a tensor with {count} values, but the requested shape has {}",
        shape.num_elements()
    );
    Ok(shape)
}

fn reshape_kernel(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let sizes = ctx.input(1)?;
        ensure!(sizes.shape().rank() == 1, InvalidArgument, "sizes input must be 1-D, not {}", sizes.shape());
        let shape = resolve_reshape(ctx.input(0)?.shape(), &integers(sizes)?)?;
        let tensor = ctx.take_input(0)?.reshaped(shape)?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

/// Which axes `Squeeze` drops from a shape of this rank. Without a list: `None`, all of size 1.
fn squeezed_axes(axes: &[i64], rank: usize) -> Result<Option<SmallVec<[bool; 8]>>> {
    if axes.is_empty() {
        return Ok(None);
    }
    let mut dropped = SmallVec::from_elem(false, rank);
    for &axis in axes {
        match normalized(axis, rank) {
            Some(axis) => dropped[axis] = true,
            None => {
                bail!(InvalidArgument, "Tried to squeeze dim index {axis} for tensor with {rank} dimensions.")
            }
        }
    }
    Ok(Some(dropped))
}

fn squeeze(dims: &[Dim], axes: &[i64]) -> Result<SmallVec<[Dim; 8]>> {
    let dropped = squeezed_axes(axes, dims.len())?;
    let mut rest = SmallVec::new();
    for (axis, &dim) in dims.iter().enumerate() {
        match &dropped {
            None if dim == Some(1) => {}
            Some(dropped) if dropped[axis] => ensure!(
                dim.is_none_or(|dim| dim == 1),
                InvalidArgument,
                "Can not squeeze dim[{axis}], expected a dimension of 1, got {}",
                dim.unwrap_or_default()
            ),
            _ => rest.push(dim),
        }
    }
    Ok(rest)
}

fn squeeze_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let axes: Vec<i64> = ctx.attr("squeeze_dims")?;
    let Some(dims) = ctx.input(0).dims() else { return one(PartialShape::unknown()) };
    if axes.is_empty() && dims.contains(&None) {
        return one(PartialShape::unknown());
    }
    one(PartialShape::new(squeeze(dims, &axes)?))
}

fn squeeze_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let axes: Vec<i64> = node.attr("squeeze_dims")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let tensor = ctx.take_input(0)?;
        let dims: SmallVec<[Dim; 8]> = tensor.shape().iter().map(|&dim| Some(dim)).collect();
        let rest: SmallVec<[usize; 8]> = squeeze(&dims, &axes)?.into_iter().flatten().collect();
        ctx.set_output(0, tensor.reshaped(Shape::new(&rest)?)?);
        Ok(())
    }))
}

fn expand_dims_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let Some(dims) = ctx.input(0).dims() else { return one(PartialShape::unknown()) };
    let Some(axis) = ctx.integer(1) else { return one(PartialShape::of_rank(dims.len() + 1)) };
    let axis = expanded_axis(axis, dims.len())?;
    let mut dims: SmallVec<[Dim; 8]> = SmallVec::from_slice(dims);
    dims.insert(axis, Some(1));
    one(PartialShape::new(dims))
}

fn expanded_axis(axis: i64, rank: usize) -> Result<usize> {
    match normalized(axis, rank + 1) {
        Some(axis) => Ok(axis),
        None => bail!(InvalidArgument, "Tried to expand dim index {axis} for tensor with {rank} dimensions."),
    }
}

fn expand_dims_kernel(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let axis = ctx.input(1)?;
        ensure!(axis.num_elements() == 1, InvalidArgument, "'dim' must be a tensor with a single value");
        let axis = integer(axis, "dim")?;
        let tensor = ctx.take_input(0)?;
        let mut dims: SmallVec<[usize; 8]> = SmallVec::from_slice(tensor.shape());
        dims.insert(expanded_axis(axis, dims.len())?, 1);
        ctx.set_output(0, tensor.reshaped(Shape::new(&dims)?)?);
        Ok(())
    }))
}

/// What only changes the shape is undone by changing it back.
fn reshaped_back(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, x) = (d.dy(0)?, d.input(0)?);
    let back = d.reshape_like(dy, x)?;
    d.only(0, back)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use tensorfleet_core::{Code, DType};

    fn floats(dims: &[usize]) -> Tensor {
        Tensor::zeros(DType::Float, Shape::new(dims).unwrap()).unwrap()
    }

    fn reshape(dims: &[usize], sizes: &[i32]) -> Result<Vec<usize>> {
        let op = test_op("Reshape").with_shape_check().attr("T", DType::Float).input(floats(dims));
        Ok(op.input(Tensor::vector(sizes).unwrap()).run_one()?.shape().to_vec())
    }

    #[test]
    fn reshape_infers_one_size() {
        assert_eq!(reshape(&[2, 6], &[3, -1]).unwrap(), [3, 4]);
        assert_eq!(reshape(&[1, 1], &[]).unwrap(), []);
        assert_eq!(reshape(&[0, 3], &[-1, 3]).unwrap(), [0, 3]);
        assert_eq!(reshape(&[0, 3], &[-1, 0]).unwrap(), [3, 0]);
        assert_eq!(reshape(&[0, 3], &[-1, 5]).unwrap(), [0, 5]);
    }

    #[test]
    fn reshape_refuses_what_does_not_fit_with_the_words_of_tensorflow() {
        let cases: &[(&[usize], &[i32], &str)] = &[
            (&[2, 3], &[4, 2], "Input to reshape is a tensor with 6 values, but the requested shape has 8"),
            (&[2, 3], &[-1, -1], "Only one input size may be -1, not both 0 and 1"),
            (&[2, 3], &[-1, 4], "6 values, but the requested shape requires a multiple of 4"),
            (&[2, 3], &[-2, 3], "Size 0 must be non-negative, not -2"),
            (&[2, 3], &[-1, 0], "6 values, but the requested shape has 0"),
            (&[2, 3], &[i32::MAX, i32::MAX, i32::MAX], "too many elements"),
        ];
        for (dims, sizes, text) in cases {
            let status = reshape(dims, sizes).unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            assert!(status.text().contains(text), "{status}");
        }
    }

    #[test]
    fn reshape_shares_the_data() {
        let tensor = Tensor::vector(&[1.0f32, 2.0]).unwrap();
        let op = test_op("Reshape").with_shape_check().attr("T", DType::Float).input(tensor.clone());
        let out = op.input(Tensor::vector(&[2, 1]).unwrap()).run_one().unwrap();
        assert_eq!(out.as_bytes().unwrap().as_ptr(), tensor.as_bytes().unwrap().as_ptr());
    }

    #[test]
    fn squeeze_drops_ones_and_only_ones() {
        let squeeze = |dims: &[usize], axes: &[i64]| {
            let op = test_op("Squeeze")
                .with_shape_check()
                .attr("T", DType::Float)
                .attr("squeeze_dims", axes.to_vec());
            op.input(floats(dims)).run_one().map(|tensor| tensor.shape().to_vec())
        };
        assert_eq!(squeeze(&[1, 2, 1], &[]).unwrap(), [2]);
        assert_eq!(squeeze(&[1, 2, 1], &[-1]).unwrap(), [1, 2]);
        let status = squeeze(&[2, 1, 3], &[0]).unwrap_err();
        assert_eq!(status.text(), "Can not squeeze dim[0], expected a dimension of 1, got 2");
        assert!(squeeze(&[2, 1, 3], &[3]).unwrap_err().text().contains("squeeze dim index 3"));
    }

    #[test]
    fn expand_dims_takes_every_place_between_dims() {
        let expand = |axis: i32| {
            let op = test_op("ExpandDims").with_shape_check().attr("T", DType::Float).input(floats(&[2, 3]));
            op.input(axis.into()).run_one().map(|tensor| tensor.shape().to_vec())
        };
        assert_eq!(expand(0).unwrap(), [1, 2, 3]);
        assert_eq!(expand(2).unwrap(), [2, 3, 1]);
        assert_eq!(expand(-1).unwrap(), [2, 3, 1]);
        assert_eq!(expand(-3).unwrap(), [1, 2, 3]);
        assert!(expand(3).unwrap_err().text().contains("expand dim index 3 for tensor with 2 dimensions"));
    }

    #[test]
    fn shape_size_and_rank_have_the_asked_type() {
        let run = |op: &str, out: Option<DType>| {
            let mut op = test_op(op).with_shape_check().attr("T", DType::Float).input(floats(&[2, 0, 3]));
            if let Some(out) = out {
                op = op.attr("out_type", out);
            }
            op.run_one().unwrap()
        };
        assert_eq!(run("Shape", None), Tensor::vector(&[2i32, 0, 3]).unwrap());
        assert_eq!(run("Shape", Some(DType::Int64)), Tensor::vector(&[2i64, 0, 3]).unwrap());
        assert_eq!(run("Size", Some(DType::Int64)), Tensor::scalar(0i64));
        assert_eq!(run("Rank", None), Tensor::scalar(3i32));
        let both = test_op("ShapeN").with_shape_check().attr("N", 2i64).attr("T", DType::String);
        let both = both.input("a".into()).input(Tensor::from_strings(vec![], &[0]).unwrap()).run().unwrap();
        assert_eq!(both, [Tensor::vector::<i32>(&[]).unwrap(), Tensor::vector(&[0i32]).unwrap()]);
    }
}
