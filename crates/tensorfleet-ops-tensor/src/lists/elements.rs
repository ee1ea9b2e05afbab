//! Ops on single elements of lists, and on lists as such.

use tensorfleet_core::{DType, PartialShape, Result, Shape, Status, Tensor, Variant, bail, ensure};

use super::gradients;
use crate::array::axes::{integer, integers, sizes_tensor};
use crate::variants::TensorList;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, same_as_input, scalars};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("EmptyTensorList", "element_shape: shape_type, max_num_elements: int32 -> handle: variant")
        .attrs("element_dtype: type; shape_type: {int32, int64}")
        .not_differentiable()
        .cost(Cost::Trivial)
        .shape(scalars)
        .kernel(empty),
    Op::new("TensorListReserve", "element_shape: shape_type, num_elements: int32 -> handle: variant")
        .attrs("element_dtype: type; shape_type: {int32, int64}")
        .not_differentiable()
        .cost(Cost::Trivial)
        .shape(scalars)
        .kernel(reserve),
    Op::new("TensorListLength", "input_handle: variant -> length: int32")
        .not_differentiable()
        .cost(Cost::Trivial)
        .shape(scalars)
        .kernel(length),
    Op::new("TensorListElementShape", "input_handle: variant -> element_shape: shape_type")
        .attrs("shape_type: {int32, int64}")
        .not_differentiable()
        .cost(Cost::Trivial)
        .shape(tensorfleet_kernel::shape_context::unknown)
        .kernel(element_shape),
    Op::new("TensorListPushBack", "input_handle: variant, tensor: element_dtype -> output_handle: variant")
        .attrs("element_dtype: type")
        .gradient(gradients::push_back)
        .cost(Cost::Trivial)
        .shape(scalars)
        .kernel(push_back),
    Op::new(
        "TensorListPushBackBatch",
        "input_handles: variant, tensor: element_dtype -> output_handles: variant",
    )
    .attrs("element_dtype: type")
    .not_differentiable()
    .shape(same_as_input)
    .kernel(push_back_batch),
    Op::new(
        "TensorListPopBack",
        "input_handle: variant, element_shape: int32 -> output_handle: variant, tensor: element_dtype",
    )
    .attrs("element_dtype: type")
    .gradient(gradients::pop_back)
    .cost(Cost::Trivial)
    .shape(|ctx| Ok(vec![PartialShape::scalar(), described_shape(ctx, 1)?]))
    .kernel(pop_back),
    Op::new(
        "TensorListGetItem",
        "input_handle: variant, index: int32, element_shape: Tshape -> item: element_dtype",
    )
    .attrs("element_dtype: type; Tshape: {int32, int64} = int32")
    .gradient(gradients::get_item)
    .cost(Cost::Trivial)
    .shape(|ctx| Ok(vec![described_shape(ctx, 2)?]))
    .kernel(get_item),
    Op::new(
        "TensorListSetItem",
        "input_handle: variant, index: int32, item: element_dtype -> output_handle: variant",
    )
    .attrs("element_dtype: type; resize_if_index_out_of_bounds: bool = false")
    .gradient(gradients::set_item)
    .cost(Cost::Trivial)
    .shape(scalars)
    .kernel(set_item),
    Op::new("TensorListResize", "input_handle: variant, size: int32 -> output_handle: variant")
        .gradient(gradients::resize)
        .shape(scalars)
        .kernel(resize),
    Op::new("TensorListConcatLists", "input_a: variant, input_b: variant -> output: variant")
        .attrs("element_dtype: type")
        .not_differentiable()
        .shape(same_as_input)
        .kernel(concat_lists),
];

/// The shape that a shape input describes: its numbers, or, as the scalar -1, nothing.
pub(super) fn shape_input(ctx: &Context<'_>, index: usize) -> Result<PartialShape> {
    let tensor = ctx.input(index)?;
    let dims = integers(tensor)?;
    match tensor.shape().rank() {
        0 => match dims[..] {
            [-1] => Ok(PartialShape::unknown()),
            _ => bail!(
                InvalidArgument,
                "The only valid scalar shape tensor is the fully unknown shape specified as -1."
            ),
        },
        1 => PartialShape::from_signed(&dims),
        _ => {
            bail!(InvalidArgument, "a shape must be a vector or the scalar -1, got shape {}", tensor.shape())
        }
    }
}

/// The same, before the value is there.
pub(super) fn described_shape(ctx: &ShapeContext<'_>, index: usize) -> Result<PartialShape> {
    match ctx.input(index).rank() {
        Some(1) => ctx.shape_value(index),
        _ => Ok(PartialShape::unknown()),
    }
}

/// The number in a scalar input that must not be negative.
pub(super) fn count_input(ctx: &Context<'_>, index: usize, refusal: impl Fn(i64) -> String) -> Result<usize> {
    let value = integer(ctx.input(index)?, "the number of elements")?;
    usize::try_from(value).map_err(|_| Status::invalid_argument(refusal(value)))
}

fn empty(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype: DType = node.attr("element_dtype")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let shape = shape_input(ctx, 0)?;
        let max = usize::try_from(integer(ctx.input(1)?, "max_num_elements")?).ok();
        ctx.set_output(0, TensorList::new(dtype, shape, max).into_tensor()?);
        Ok(())
    }))
}

fn reserve(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype: DType = node.attr("element_dtype")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let len = count_input(ctx, 1, |found| {
            format!("The num_elements to reserve must be a non negative number, but got {found}")
        })?;
        let mut list = TensorList::new(dtype, shape_input(ctx, 0)?, None);
        list.resize(len)?;
        ctx.set_output(0, list.into_tensor()?);
        Ok(())
    }))
}

fn length(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let len = TensorList::in_tensor(ctx.input(0)?)?.len();
        ctx.set_output(0, Tensor::scalar(i32::try_from(len).unwrap_or(i32::MAX)));
        Ok(())
    }))
}

fn element_shape(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let out: DType = node.attr("shape_type")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let list = TensorList::in_tensor(ctx.input(0)?)?;
        let sizes = match list.element_shape().dims() {
            Some(dims) if dims.iter().all(Option::is_some) => {
                sizes_tensor(dims.iter().map(|dim| dim.unwrap_or_default()), &[dims.len()], out)?
            }
            Some(dims) => signed_tensor(dims.iter().map(|dim| dim.map_or(-1, |dim| dim as i64)), out)?,
            None => signed_tensor(std::iter::once(-1), out)?.reshaped(Shape::scalar())?,
        };
        ctx.set_output(0, sizes);
        Ok(())
    }))
}

/// Sizes, some of which are -1.
fn signed_tensor(sizes: impl Iterator<Item = i64>, out: DType) -> Result<Tensor> {
    let sizes: Vec<i64> = sizes.collect();
    if out == DType::Int64 {
        return Tensor::vector(&sizes);
    }
    let narrow: Result<Vec<i32>, _> = sizes.iter().map(|&size| i32::try_from(size)).collect();
    Tensor::vector(&narrow.map_err(|_| Status::invalid_argument("an element's size does not fit in int32"))?)
}

fn push_back(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let (list, tensor) = (ctx.take_input(0)?, ctx.take_input(1)?);
        let (list, ()) = TensorList::change(list, |list| list.push(tensor))?;
        ctx.set_output(0, list);
        Ok(())
    }))
}

/// Pushes row `i` of a tensor to list `i`.
fn push_back_batch(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let (handles, tensor) = (ctx.input(0)?, ctx.input(1)?);
        ensure!(
            handles.shape().rank() == 1,
            InvalidArgument,
            "Expected input_handles to be a vector, but saw shape: {}",
            handles.shape()
        );
        ensure!(
            tensor.shape().rank() >= 1,
            InvalidArgument,
            "Expected tensor to be at least a vector, but saw shape: {}",
            tensor.shape()
        );
        ensure!(
            tensor.shape()[0] == handles.num_elements(),
            InvalidArgument,
            "Expected tensor.shape[0] == input_handles.size, but saw {} vs. {}",
            tensor.shape()[0],
            handles.num_elements()
        );
        let push = |(index, handle): (usize, &Variant)| {
            let mut list = TensorList::of(handle)?.into_owned();
            list.push(tensor.row(index)?)?;
            Ok(Variant::from_object(list))
        };
        let lists = handles.as_variants()?.iter().enumerate().map(push).collect::<Result<_>>()?;
        let lists = Tensor::from_variants(lists, handles.shape())?;
        ctx.set_output(0, lists);
        Ok(())
    }))
}

fn pop_back(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype: DType = node.attr("element_dtype")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let (list, shape) = (ctx.take_input(0)?, shape_input(ctx, 1)?);
        let (list, tensor) = TensorList::change(list, |list| {
            list.check_dtype(dtype)?;
            let Some(tensor) = list.pop()? else {
                let shape = list.known_shape(&shape)?;
                let unknown = || {
                    Status::invalid_argument(format!(
                        "Trying to read an uninitialized tensor but element_shape is not fully defined.{shape}"
                    ))
                };
                return list.zeros(shape.to_shape().ok_or_else(unknown)?);
            };
            Ok(tensor)
        })?;
        ctx.set_output(0, list);
        ctx.set_output(1, tensor);
        Ok(())
    }))
}

fn get_item(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype: DType = node.attr("element_dtype")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let list = TensorList::in_tensor(ctx.input(0)?)?;
        list.check_dtype(dtype)?;
        let item = list.read(integer(ctx.input(1)?, "index")?, &shape_input(ctx, 2)?)?;
        ctx.set_output(0, item);
        Ok(())
    }))
}

fn set_item(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let may_grow: bool = node.attr("resize_if_index_out_of_bounds")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let index = integer(ctx.input(1)?, "index")?;
        let (list, item) = (ctx.take_input(0)?, ctx.take_input(2)?);
        let (list, ()) = TensorList::change(list, |list| {
            let at = usize::try_from(index).ok().filter(|&at| may_grow || at < list.len());
            let Some(at) = at else {
                bail!(
                    InvalidArgument,
                    "Trying to modify element {index} in a list with {} elements.",
                    list.len()
                )
            };
            if at >= list.len() {
                list.resize(at + 1)?;
            }
            list.set(at, item)
        })?;
        ctx.set_output(0, list);
        Ok(())
    }))
}

fn resize(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let len = count_input(ctx, 1, |found| {
            format!("TensorListSlice expects size to be non-negative. Got: {found}")
        })?;
        let (list, ()) = TensorList::change(ctx.take_input(0)?, |list| list.resize(len))?;
        ctx.set_output(0, list);
        Ok(())
    }))
}

fn concat_lists(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype: DType = node.attr("element_dtype")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let (a, b) = (ctx.input(0)?, ctx.input(1)?);
        ensure!(
            a.shape() == b.shape(),
            InvalidArgument,
            "Incompatible input TensorList tensor shapes: {} vs. {}",
            a.shape(),
            b.shape()
        );
        let join = |(index, (a, b)): (usize, (&Variant, &Variant))| {
            let (a, b) = (TensorList::of(a)?, TensorList::of(b)?);
            a.check_dtype(dtype)?;
            b.check_dtype(dtype)?;
            ensure!(
                a.element_shape() == b.element_shape(),
                InvalidArgument,
                "input_a and input_b TensorList element shapes are not identical at index {index}.  Saw {} vs. {}",
                a.element_shape(),
                b.element_shape()
            );
            let items = a.items().iter().chain(b.items()).cloned().collect();
            let joined = TensorList::new(dtype, a.element_shape().clone(), a.max_len()).with_items(items)?;
            Ok(Variant::from_object(joined))
        };
        let pairs = a.as_variants()?.iter().zip(b.as_variants()?).enumerate();
        let joined = Tensor::from_variants(pairs.map(join).collect::<Result<_>>()?, a.shape())?;
        ctx.set_output(0, joined);
        Ok(())
    }))
}
