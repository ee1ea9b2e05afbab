//! Taking and changing slices: Slice, StridedSlice, StridedSliceGrad, TensorStridedSliceUpdate.

use smallvec::SmallVec;
use tensorfleet_core::{Dim, Endpoint, PartialShape, Result, Shape, Tensor, ensure};

use super::axes::{integers, one};
use super::slice_spec::{Bounds, Slice, SliceSpec};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::known_value::KnownValue;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, same_as_input};
use tensorfleet_kernel::work::elements_of_shape;
use tensorfleet_numeric::rearrange::{rearrange, update};
use tensorfleet_numeric::strided::{Window, WriteThrough, view};
use tensorfleet_threads::Loops;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("StridedSlice", "input: T, begin: Index, end: Index, strides: Index -> output: T").work(Work::Inputs).gradient(strided_slice_gradient)
        .attrs("T: type; Index: {int16, int32, int64}; begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0; new_axis_mask: int = 0; shrink_axis_mask: int = 0")
        .shape(strided_slice_shape)
        .kernel(strided_slice_kernel)
        .known_value(known_slice),
    Op::new("StridedSliceGrad", "shape: Index, begin: Index, end: Index, strides: Index, dy: T -> output: T").work(Work::Values(elements_of_shape::<0>)).gradient(strided_slice_grad_gradient)
        .attrs("T: type; Index: {int32, int64}; begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0; new_axis_mask: int = 0; shrink_axis_mask: int = 0")
        .shape(|ctx| one(ctx.shape_value(0)?))
        .kernel(strided_slice_grad_kernel),
    Op::new("TensorStridedSliceUpdate", "input: T, begin: Index, end: Index, strides: Index, value: T -> output: T").work(Work::Inputs).gradient(strided_slice_update_gradient)
        .attrs("T: type; Index: {int32, int64}; begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0; new_axis_mask: int = 0; shrink_axis_mask: int = 0")
        .shape(same_as_input)
        .kernel(strided_slice_update_kernel),
    Op::new("Slice", "input: T, begin: Index, size: Index -> output: T").work(Work::Inputs).gradient(slice_gradient)
        .attrs("T: type; Index: {int32, int64}")
        .shape(slice_shape)
        .kernel(slice_kernel),
];

fn strided_slice_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let spec = SliceSpec::from_attrs(|name| ctx.attr(name))?;
    match Bounds::partial(ctx.value(1), ctx.value(2), ctx.value(3))? {
        Some(bounds) => one(spec.resolve_shape(ctx.input(0), &bounds)?),
        None => one(PartialShape::unknown()),
    }
}

/// A part of a shape, or one of its sizes: `shape(x)[:2]`, `shape(x)[1]`.
fn known_slice(ctx: &ShapeContext<'_>, _: usize) -> Option<KnownValue> {
    if !ctx.gives_shape() {
        return None;
    }
    let mask = |name: &str| ctx.attr::<i64>(name).ok();
    let dims = ctx.known_dims(0)?;
    let len = dims.len() as i64;
    match (mask("shrink_axis_mask")?, mask("ellipsis_mask")? | mask("new_axis_mask")?) {
        (0, 0) => {
            let (begin, end) = (ctx.integer(1)?, ctx.integer(2)?);
            let stride = usize::try_from(ctx.integer(3)?).ok().filter(|&stride| stride > 0)?;
            let clamped =
                |value: i64| (if value < 0 { value.saturating_add(len) } else { value }).clamp(0, len);
            let begin = if mask("begin_mask")? & 1 != 0 { 0 } else { clamped(begin) };
            let end = if mask("end_mask")? & 1 != 0 { len } else { clamped(end) };
            let taken = dims.get(begin as usize..end as usize).unwrap_or_default();
            Some(KnownValue::Shape(PartialShape::new(taken.iter().step_by(stride).copied())))
        }
        (1, 0) if mask("begin_mask")? == 0 => {
            let index = ctx.integer(1)?;
            let index = if index < 0 { index.checked_add(len)? } else { index };
            let size = dims.get(usize::try_from(index).ok()?).copied().flatten()?;
            KnownValue::integer(ctx.node.output_dtype(0).ok()?, size)
        }
        _ => None,
    }
}

fn strided_slice_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = SliceSpec::from_attrs(|name| node.attr(name))?;
    Ok(KernelBox::from_fn(move |ctx| {
        let input = ctx.input(0)?;
        let bounds = Bounds::of(ctx.input(1)?, ctx.input(2)?, ctx.input(3)?)?;
        let Slice { window, shape } = spec.resolve(input.shape(), &bounds)?;
        let tensor = view(ctx.loops(), input, &window, shape)?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

/// `StridedSliceGrad`: zeros, with the gradient where the slice was taken.
fn strided_slice_grad_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = SliceSpec::from_attrs(|name| node.attr(name))?;
    Ok(KernelBox::from_fn(move |ctx| {
        let sizes = ctx.input(0)?;
        ensure!(
            sizes.shape().rank() == 1,
            InvalidArgument,
            "shape must be 1-D, got shape.shape = {}",
            sizes.shape()
        );
        let input = Shape::from_signed(&integers(sizes)?)?;
        let bounds = Bounds::of(ctx.input(1)?, ctx.input(2)?, ctx.input(3)?)?;
        let Slice { window, shape } = spec.resolve(&input, &bounds)?;
        let dy = ctx.input(4)?;
        ensure!(*dy.shape() == shape, InvalidArgument, "shape of dy was {} instead of {shape}", dy.shape());
        let movement = WriteThrough { window: &window, clear: true };
        let tensor = rearrange(ctx.loops(), dy.dtype(), input, &[dy], &movement)?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

/// `target` with `value` in place of a slice of it; in place if nobody else holds the target.
pub fn assign_slice(
    loops: &Loops,
    target: Tensor,
    spec: &SliceSpec,
    bounds: &Bounds,
    value: &Tensor,
) -> Result<Tensor> {
    let Slice { window, shape } = spec.resolve(target.shape(), bounds)?;
    ensure!(
        *value.shape() == shape,
        InvalidArgument,
        "Must have shape {shape} to be assigned to the slice, got {}",
        value.shape()
    );
    update(loops, target, &[value], &WriteThrough { window: &window, clear: false })
}

fn strided_slice_update_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = SliceSpec::from_attrs(|name| node.attr(name))?;
    Ok(KernelBox::from_fn(move |ctx| {
        let target = ctx.take_input(0)?;
        let bounds = Bounds::of(ctx.input(1)?, ctx.input(2)?, ctx.input(3)?)?;
        let tensor = assign_slice(ctx.loops(), target, &spec, &bounds, ctx.input(4)?)?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

/// The size of a slice of one axis; -1 runs to the end.
fn slice_len(axis: usize, dim: usize, begin: i64, size: i64) -> Result<usize> {
    ensure!(
        (0..=dim as i64).contains(&begin),
        InvalidArgument,
        "Expected begin[{axis}] in [0, {dim}], but got {begin}"
    );
    let rest = dim as i64 - begin;
    let len = if size == -1 { rest } else { size };
    ensure!(
        (0..=rest).contains(&len),
        InvalidArgument,
        "Expected size[{axis}] in [0, {rest}], but got {size}"
    );
    Ok(len as usize)
}

fn slice_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let (begin, size) = (ctx.integers(1), ctx.integers(2));
    let Some(dims) = ctx.input(0).dims() else {
        // A size that is not -1 holds whatever the input is.
        return one(size.map_or_else(PartialShape::unknown, |size| {
            PartialShape::new(size.iter().map(|&size| usize::try_from(size).ok()))
        }));
    };
    for given in [&begin, &size].into_iter().flatten() {
        ensure!(
            given.len() == dims.len(),
            InvalidArgument,
            "Expected begin and size arguments to be 1-D tensors of size {}, but got {} elements",
            dims.len(),
            given.len()
        );
    }
    let Some(size) = size else { return one(PartialShape::of_rank(dims.len())) };
    let mut out: SmallVec<[Dim; 8]> = SmallVec::new();
    for (axis, (&dim, &size)) in dims.iter().zip(&size).enumerate() {
        out.push(match (dim, begin.as_ref().map(|begin| begin[axis])) {
            (Some(dim), Some(begin)) => Some(slice_len(axis, dim, begin, size)?),
            _ => usize::try_from(size).ok(),
        });
    }
    one(PartialShape::new(out))
}

fn slice_kernel(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let (input, begin, size) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
        let rank = input.shape().rank();
        ensure!(
            begin.shape().dims() == [rank] && size.shape().dims() == [rank],
            InvalidArgument,
            "Expected begin and size arguments to be 1-D tensors of size {rank}, but got shapes {} and {} instead.",
            begin.shape(),
            size.shape()
        );
        let mut window = Window::whole(input.shape());
        let mut dims: SmallVec<[usize; 8]> = SmallVec::new();
        for (axis, (&begin, &size)) in integers(begin)?.iter().zip(&integers(size)?).enumerate() {
            let len = slice_len(axis, input.shape()[axis], begin, size)?;
            window = window.slice(axis, begin as usize, 1, len);
            dims.push(len);
        }
        let tensor = view(ctx.loops(), input, &window, Shape::new(&dims)?)?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

const MASKS: [&str; 5] = ["begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"];

fn strided_slice_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, x, begin) = (d.dy(0)?, d.input(0)?, d.input(1)?);
    let index = d.dtype(begin)?;
    let shape = d.shape_as(x, index)?;
    let dx = d.with_attrs("StridedSliceGrad", &[shape, begin, d.input(2)?, d.input(3)?, dy], &MASKS);
    let dx = d.emit(dx)?;
    d.only(0, dx)
}

/// The same slice as the node's bounds say, of what arrives.
fn slice_arriving(d: &mut Differential<'_>) -> Result<Endpoint> {
    let dy = d.dy(0)?;
    let slice = d.with_attrs("StridedSlice", &[dy, d.input(1)?, d.input(2)?, d.input(3)?], &MASKS);
    d.emit(slice)
}

fn strided_slice_grad_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let slice = slice_arriving(d)?;
    d.only(4, slice)
}

fn strided_slice_update_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, slice) = (d.dy(0)?, slice_arriving(d)?);
    let zeros = d.op("ZerosLike", [slice])?;
    let inputs = [dy, d.input(1)?, d.input(2)?, d.input(3)?, zeros];
    let rest = d.with_attrs("TensorStridedSliceUpdate", &inputs, &MASKS);
    let rest = d.emit(rest)?;
    d.several([(0, rest), (4, slice)])
}

/// Zeros around what arrives.
fn slice_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, x, begin) = (d.dy(0)?, d.input(0)?, d.input(1)?);
    let index = d.dtype(begin)?;
    let (whole, kept) = (d.shape_as(x, index)?, d.shape_as(d.output(0), index)?);
    let behind = d.op("Sub", [whole, kept])?;
    let after = d.op("Sub", [behind, begin])?;
    let paddings = d.emit(NewNode::new("Pack").input_list([begin, after]).attr("axis", 1i64))?;
    let dx = d.op("Pad", [dy, paddings])?;
    d.only(0, dx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestOp, test_op};
    use tensorfleet_core::{Code, DType};

    fn matrix() -> Tensor {
        Tensor::from_slice(&(0..12).collect::<Vec<i32>>(), &[3, 4]).unwrap()
    }

    fn vector(elements: &[i32]) -> Tensor {
        Tensor::vector(elements).unwrap()
    }

    fn strided(input: Tensor, begin: &[i32], end: &[i32], strides: &[i32]) -> TestOp {
        let op =
            test_op("StridedSlice").with_shape_check().attr("T", input.dtype()).attr("Index", DType::Int32);
        op.input(input).input(vector(begin)).input(vector(end)).input(vector(strides))
    }

    #[test]
    fn a_strided_slice_steps_either_way() {
        let out = strided(matrix(), &[2, 0], &[0, 4], &[-1, 2]).run_one().unwrap();
        assert_eq!((out.shape().dims(), out.as_slice::<i32>().unwrap()), (&[2, 2][..], &[8, 10, 4, 6][..]));
        let out = strided(matrix(), &[5], &[9], &[1]).run_one().unwrap();
        assert_eq!(out.shape().dims(), [0, 4]);
    }

    #[test]
    fn a_row_shares_the_data_of_its_matrix() {
        let matrix = matrix();
        let row = strided(matrix.clone(), &[1], &[2], &[1]).attr("shrink_axis_mask", 1i64).run_one().unwrap();
        assert_eq!(row.as_slice::<i32>().unwrap(), [4, 5, 6, 7]);
        assert_eq!(row.as_bytes().unwrap().as_ptr(), matrix.as_bytes().unwrap()[16..].as_ptr());
    }

    #[test]
    fn strings_are_sliced_too() {
        let words = Tensor::from_strings(vec!["a".into(), "b".into(), "c".into()], &[3]).unwrap();
        let op = strided(words, &[2], &[0], &[-2]).attr("end_mask", 1i64);
        assert_eq!(op.run_one().unwrap().as_strings().unwrap(), ["c", "a"]);
    }

    #[test]
    fn the_gradient_lies_where_the_slice_was() {
        let op = test_op("StridedSliceGrad")
            .with_shape_check()
            .attr("T", DType::Float)
            .attr("Index", DType::Int32);
        let op = op.input(vector(&[4])).input(vector(&[3])).input(vector(&[0])).input(vector(&[-2]));
        let out = op.input(Tensor::vector(&[1.0f32, 2.0]).unwrap()).run_one().unwrap();
        assert_eq!(out.as_slice::<f32>().unwrap(), [0.0, 2.0, 0.0, 1.0]);
        let op = test_op("StridedSliceGrad")
            .with_shape_check()
            .attr("T", DType::Float)
            .attr("Index", DType::Int32);
        let op = op.input(vector(&[4])).input(vector(&[0])).input(vector(&[4])).input(vector(&[1]));
        let status = op.input(Tensor::vector(&[1.0f32]).unwrap()).run_one().unwrap_err();
        assert!(status.text().contains("shape of dy was [1] instead of [4]"));
    }

    #[test]
    fn an_update_changes_the_slice_only() {
        let op = test_op("TensorStridedSliceUpdate")
            .with_shape_check()
            .attr("T", DType::Int32)
            .attr("Index", DType::Int32);
        let op = op.input(vector(&[1, 2, 3, 4])).input(vector(&[0])).input(vector(&[4])).input(vector(&[2]));
        assert_eq!(op.input(vector(&[8, 9])).run_one().unwrap(), vector(&[8, 2, 9, 4]));
    }

    #[test]
    fn slice_checks_begin_and_size() {
        let slice = |begin: &[i32], size: &[i32]| {
            let op = test_op("Slice").with_shape_check().attr("T", DType::Int32).attr("Index", DType::Int32);
            op.input(matrix()).input(vector(begin)).input(vector(size)).run_one()
        };
        assert_eq!(slice(&[1, 2], &[-1, 1]).unwrap().as_slice::<i32>().unwrap(), [6, 10]);
        assert_eq!(slice(&[3, 0], &[0, 4]).unwrap().shape().dims(), [0, 4]);
        let text = |begin: &[i32], size: &[i32]| {
            let status = slice(begin, size).unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            status.text().to_string()
        };
        assert!(text(&[1, 1], &[3, 1]).contains("Expected size[0] in [0, 2], but got 3"));
        assert!(text(&[4, 1], &[-1, 1]).contains("Expected begin[0] in [0, 3], but got 4"));
        assert!(text(&[1, 1], &[-2, 1]).contains("Expected size[0] in [0, 2], but got -2"));
        assert!(text(&[1], &[1]).contains("to be 1-D tensors of size 2, but got shapes [1] and [1]"));
    }
}
