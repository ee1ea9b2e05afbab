//! Ops between lists and tensors whose rows are their elements: stack, gather, scatter, concatenate, split.

use tensorfleet_core::{DType, Dim, PartialShape, Result, Shape, Status, Tensor, bail, ensure};

use super::elements::{described_shape, shape_input};
use super::gradients;
use crate::array::axes::{integer, integers};
use crate::array::concat::{concat, pack};
use crate::variants::{TensorList, check_len};
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, scalars};
use tensorfleet_threads::Loops;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new(
        "TensorListFromTensor",
        "tensor: element_dtype, element_shape: shape_type -> output_handle: variant",
    )
    .attrs("element_dtype: type; shape_type: {int32, int64}")
    .gradient(gradients::from_tensor)
    .shape(scalars)
    .kernel(from_tensor),
    Op::new("TensorListStack", "input_handle: variant, element_shape: int32 -> tensor: element_dtype")
        .attrs("element_dtype: type; num_elements: int = -1")
        .gradient(gradients::stack)
        .shape(stack_shape)
        .kernel(stack),
    Op::new(
        "TensorListGather",
        "input_handle: variant, indices: int32, element_shape: int32 -> values: element_dtype",
    )
    .attrs("element_dtype: type")
    .gradient(gradients::gather)
    .shape(gather_shape)
    .kernel(gather),
    Op::new(
        "TensorListScatter",
        "tensor: element_dtype, indices: int32, element_shape: shape_type -> output_handle: variant",
    )
    .attrs("element_dtype: type; shape_type: {int32, int64}")
    .gradient(gradients::scatter)
    .shape(scalars)
    .kernel(scatter),
    Op::new(
        "TensorListScatterV2",
        "tensor: element_dtype, indices: int32, element_shape: shape_type, num_elements: int32 -> \
         output_handle: variant",
    )
    .attrs("element_dtype: type; shape_type: {int32, int64}")
    .gradient(gradients::scatter)
    .shape(scalars)
    .kernel(scatter),
    Op::new(
        "TensorListScatterIntoExistingList",
        "input_handle: variant, tensor: element_dtype, indices: int32 -> output_handle: variant",
    )
    .attrs("element_dtype: type")
    .gradient(gradients::scatter_into)
    .shape(scalars)
    .kernel(scatter_into),
    Op::new("TensorListConcat", "input_handle: variant -> tensor: element_dtype, lengths: int64")
        .attrs("element_dtype: type; element_shape: shape = unknown")
        .gradient(gradients::concat)
        .shape(concat_shape)
        .kernel(concat_all),
    Op::new(
        "TensorListConcatV2",
        "input_handle: variant, element_shape: shape_type, leading_dims: int64 -> tensor: element_dtype, \
         lengths: int64",
    )
    .attrs("element_dtype: type; shape_type: {int32, int64}")
    .gradient(gradients::concat)
    .shape(concat_shape)
    .kernel(concat_all),
    Op::new(
        "TensorListSplit",
        "tensor: element_dtype, element_shape: shape_type, lengths: int64 -> output_handle: variant",
    )
    .attrs("element_dtype: type; shape_type: {int32, int64}")
    .gradient(gradients::split)
    .shape(scalars)
    .kernel(split),
];

fn stack_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let count: i64 = ctx.attr("num_elements")?;
    Ok(vec![rows_of(usize::try_from(count).ok(), &described_shape(ctx, 1)?)])
}

fn gather_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let count = ctx.input(1).dims().and_then(crate::array::axes::product);
    Ok(vec![rows_of(count, &described_shape(ctx, 2)?)])
}

fn concat_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let element = match ctx.num_inputs() {
        1 => ctx.attr("element_shape")?,
        _ => described_shape(ctx, 1)?,
    };
    let rest =
        element.dims().and_then(|dims| dims.get(1..)).map(|rest| PartialShape::new(rest.iter().copied()));
    Ok(vec![rest.map_or_else(PartialShape::unknown, |rest| rows_of(None, &rest)), PartialShape::of_rank(1)])
}

/// `count` rows of this shape.
fn rows_of(count: Dim, row: &PartialShape) -> PartialShape {
    match row.dims() {
        Some(dims) => PartialShape::new(std::iter::once(count).chain(dims.iter().copied())),
        None => PartialShape::unknown(),
    }
}

/// Checks that a tensor has rows, and that they fit a list of this element shape; gives their number.
fn check_rows(tensor: &Tensor, element_shape: &PartialShape) -> Result<usize> {
    let Some((&count, row)) = tensor.shape().split_first() else {
        bail!(InvalidArgument, "Tensor must be at least a vector, but saw shape: {}", tensor.shape())
    };
    let row = Shape::new(row)?;
    ensure!(
        element_shape.admits(&row),
        InvalidArgument,
        "Specified a list with shape {element_shape} from a tensor with shape {row}"
    );
    Ok(count)
}

fn from_tensor(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let (tensor, shape) = (ctx.input(0)?, shape_input(ctx, 1)?);
        let count = check_rows(tensor, &shape)?;
        check_len(count)?;
        let rows = (0..count).map(|row| tensor.row(row).map(Some)).collect::<Result<_>>()?;
        let list = TensorList::new(tensor.dtype(), shape, None).with_items(rows)?.into_tensor()?;
        ctx.set_output(0, list);
        Ok(())
    }))
}

fn stack(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (dtype, expected): (DType, i64) = (node.attr("element_dtype")?, node.attr("num_elements")?);
    Ok(KernelBox::from_fn(move |ctx| {
        let list = TensorList::in_tensor(ctx.input(0)?)?;
        list.check_dtype(dtype)?;
        ensure!(
            expected < 0 || expected as usize == list.len(),
            InvalidArgument,
            "Operation expected a list with {expected} elements but got a list with {} elements.",
            list.len()
        );
        let known = list.known_shape(&shape_input(ctx, 1)?)?;
        let items: Vec<_> = list.items().iter().map(Option::as_ref).collect();
        let stacked = stack_items(ctx.loops(), &list, known, &items, |shape, is_empty| match is_empty {
            true => format!(
                "Tried to stack elements of an empty list with non-fully-defined element_shape: {shape}"
            ),
            false => format!(
                "Tried to stack list which only contains uninitialized tensors and has a non-fully-defined \
                 element_shape: {shape}"
            ),
        })?;
        ctx.set_output(0, stacked);
        Ok(())
    }))
}

/// The elements as rows of one tensor, with zeros for those that nobody has set.
fn stack_items(
    loops: &Loops,
    list: &TensorList,
    known: PartialShape,
    items: &[Option<&Tensor>],
    refusal: impl Fn(&PartialShape, bool) -> String,
) -> Result<Tensor> {
    let shape = TensorList::common_shape(known, items.iter().flatten().copied())?;
    let Some(row) = shape.to_shape() else {
        return Err(Status::invalid_argument(refusal(&shape, items.is_empty())));
    };
    if items.is_empty() {
        return list.zeros(crate::array::axes::concat_dims(&[&[0], &row])?);
    }
    let zeros = if items.iter().any(Option::is_none) { Some(list.zeros(row)?) } else { None };
    let rows: Vec<&Tensor> = items.iter().filter_map(|item| item.or(zeros.as_ref())).collect();
    pack(loops, &rows, 0)
}

fn gather(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype: DType = node.attr("element_dtype")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let list = TensorList::in_tensor(ctx.input(0)?)?;
        list.check_dtype(dtype)?;
        let known = list.known_shape(&shape_input(ctx, 2)?)?;
        let item = |&index: &i64| match usize::try_from(index).ok().and_then(|index| list.items().get(index))
        {
            Some(item) => Ok(item.as_ref()),
            None => Err(Status::invalid_argument(format!(
                "Trying to gather element {index} in a list with {} elements.",
                list.len()
            ))),
        };
        let items: Vec<_> = integers(ctx.input(1)?)?.iter().map(item).collect::<Result<_>>()?;
        let gathered = stack_items(ctx.loops(), &list, known, &items, |shape, is_empty| match is_empty {
            true => format!("Tried to gather 0-elements from a list with non-fully-defined shape: {shape}"),
            false => format!(
                "Tried to gather uninitialized tensors from a list with non-fully-defined element_shape: {shape}"
            ),
        })?;
        ctx.set_output(0, gathered);
        Ok(())
    }))
}

/// Puts the rows of `tensor` into the places of `list` that `indices` name; makes the list longer where it has to be.
fn scatter_rows(list: &mut TensorList, tensor: &Tensor, indices: &[i64]) -> Result<()> {
    let rows = check_rows(tensor, list.element_shape())?;
    ensure!(
        rows == indices.len(),
        InvalidArgument,
        "Invalid number of rows in input tensor. Expected: {} Actual: {rows}",
        indices.len()
    );
    for (row, &index) in indices.iter().enumerate() {
        let index = usize::try_from(index).map_err(|_| {
            Status::invalid_argument("Indices in TensorListScatter must all be non-negative.")
        })?;
        if index >= list.len() {
            list.resize(index + 1)?;
        }
        list.set(index, tensor.row(row)?)?;
    }
    Ok(())
}

/// Both forms; the second says how long the list is to be.
fn scatter(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let says_length = node.inputs.len() == 4;
    Ok(KernelBox::from_fn(move |ctx| {
        let indices = integers(ctx.input(1)?)?;
        let tensor = ctx.input(0)?;
        let mut list = TensorList::new(tensor.dtype(), shape_input(ctx, 2)?, None);
        if says_length {
            let len = integer(ctx.input(3)?, "num_elements")?;
            ensure!(len >= -1, InvalidArgument, "TensorListScatter expects num_elements >= -1, found: {len}");
            if let Some(beyond) = indices.iter().find(|&&index| len >= 0 && index >= len) {
                bail!(
                    InvalidArgument,
                    "TensorListScatter: Trying to scatter at index {beyond} in list with size {len}"
                );
            }
            list.resize(usize::try_from(len).unwrap_or_default())?;
        }
        scatter_rows(&mut list, tensor, &indices)?;
        ctx.set_output(0, list.into_tensor()?);
        Ok(())
    }))
}

fn scatter_into(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let list = ctx.take_input(0)?;
        let (tensor, indices) = (ctx.input(1)?, integers(ctx.input(2)?)?);
        let (list, ()) = TensorList::change(list, |list| scatter_rows(list, tensor, &indices))?;
        ctx.set_output(0, list);
        Ok(())
    }))
}

/// `TensorListConcat` and its second form, which says how long each element is that nobody has set.
fn concat_all(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype: DType = node.attr("element_dtype")?;
    let shape_attr: Option<PartialShape> =
        if node.inputs.len() == 1 { Some(node.attr("element_shape")?) } else { None };
    Ok(KernelBox::from_fn(move |ctx| {
        let list = TensorList::in_tensor(ctx.input(0)?)?;
        list.check_dtype(dtype)?;
        let (given, leading) = match &shape_attr {
            Some(shape) => (shape.clone(), Vec::new()),
            None => (shape_input(ctx, 1)?, integers(ctx.input(2)?)?.to_vec()),
        };
        let (tensor, lengths) = concat_list(ctx.loops(), &list, &list.known_shape(&given)?, &leading)?;
        ctx.set_output(0, tensor);
        ctx.set_output(1, Tensor::vector(&lengths)?);
        Ok(())
    }))
}

fn concat_list(
    loops: &Loops,
    list: &TensorList,
    known: &PartialShape,
    leading: &[i64],
) -> Result<(Tensor, Vec<i64>)> {
    let (mut first, mut rest) = (None, PartialShape::unknown());
    if let Some(dims) = known.dims() {
        let Some((&first_dim, rest_dims)) = dims.split_first() else {
            bail!(InvalidArgument, "Concat requires elements to be at least vectors, found scalars instead.")
        };
        (first, rest) = (first_dim, PartialShape::new(rest_dims.iter().copied()));
    }
    for (index, item) in list.items().iter().enumerate() {
        let Some(item) = item else { continue };
        let Some((_, dims)) = item.shape().split_first() else {
            bail!(
                InvalidArgument,
                "Concat saw a scalar shape at index {index} but requires at least vectors."
            )
        };
        let own: PartialShape = Shape::new(dims)?.into();
        rest = rest.merge(&own).map_err(|_| {
            Status::invalid_argument(format!("Incompatible shapes during merge: {rest} vs. {own}"))
        })?;
    }
    let Some(row) = rest.to_shape() else {
        let reason = match list.len() {
            0 => {
                "All except the first dimension must be fully defined when concating an empty tensor list. \
                  element_shape:"
            }
            _ => {
                "Trying to concat list with only uninitialized tensors but element_shape_except_first_dim is not \
                  fully defined:"
            }
        };
        bail!(InvalidArgument, "{reason} {rest}")
    };
    let mut parts = Vec::with_capacity(list.len());
    for (index, item) in list.items().iter().enumerate() {
        parts.push(match item {
            Some(tensor) => tensor.clone(),
            None => {
                let told = leading.get(index).and_then(|&dim| usize::try_from(dim).ok());
                let Some(len) = told.or(first) else {
                    bail!(
                        InvalidArgument,
                        "Element {index} of the list is not set, and neither element_shape nor leading_dims says how \
                         long it is"
                    )
                };
                list.zeros(crate::array::axes::concat_dims(&[&[len], &row])?)?
            }
        });
    }
    let lengths = parts.iter().map(|part| part.shape()[0] as i64).collect();
    if parts.is_empty() {
        return Ok((list.zeros(crate::array::axes::concat_dims(&[&[0], &row])?)?, lengths));
    }
    Ok((concat(loops, &parts.iter().collect::<Vec<_>>(), 0)?, lengths))
}

fn split(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let list = split_tensor(ctx)?.into_tensor()?;
        ctx.set_output(0, list);
        Ok(())
    }))
}

fn split_tensor(ctx: &Context<'_>) -> Result<TensorList> {
    let (tensor, shape, lengths) = (ctx.input(0)?, shape_input(ctx, 1)?, ctx.input(2)?);
    let Some((&total, row)) = tensor.shape().split_first() else {
        bail!(InvalidArgument, "Tensor must be at least a vector, but saw shape: {}", tensor.shape())
    };
    ensure!(
        lengths.shape().rank() == 1,
        InvalidArgument,
        "Expected lengths to be a vector, received shape: {}",
        lengths.shape()
    );
    let rows = PartialShape::new(std::iter::once(None).chain(row.iter().map(|&dim| Some(dim))));
    ensure!(
        shape.merge(&rows).is_ok(),
        InvalidArgument,
        "tensor shape {} is not compatible with element_shape {shape}",
        tensor.shape()
    );
    let (mut start, mut parts) = (0usize, Vec::with_capacity(lengths.num_elements()));
    for &length in lengths.as_slice::<i64>()? {
        let length = usize::try_from(length)
            .map_err(|_| Status::invalid_argument(format!("Invalid value in lengths: {length}")))?;
        let end = start.saturating_add(length);
        ensure!(
            end <= total,
            InvalidArgument,
            "Attempting to slice [{start}, {end}] from tensor with length {total}"
        );
        let part = tensor.rows(start, length)?;
        ensure!(
            shape.admits(part.shape()),
            InvalidArgument,
            "a part of shape {} does not fit a list with element_shape {shape}",
            part.shape()
        );
        parts.push(Some(part));
        start = end;
    }
    ensure!(
        start == total,
        InvalidArgument,
        "Unused values in tensor. Length of tensor: {total} Values used: {start}"
    );
    TensorList::new(tensor.dtype(), shape, None).with_items(parts)
}
