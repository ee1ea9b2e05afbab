//! Gradients of the list ops: the gradient of a list is a list, and what took an element off puts its gradient back on.

use tensorfleet_core::{DType, Endpoint, Result, Tensor};

use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Grads};

fn element_dtype(d: &Differential<'_>) -> Result<DType> {
    d.attr("element_dtype")
}

/// The shape of a list's elements, as a value.
fn element_shape(d: &mut Differential<'_>, list: Endpoint) -> Result<Endpoint> {
    d.emit(NewNode::new("TensorListElementShape").input(list).attr("shape_type", DType::Int32))
}

/// An op that gives elements of the node's dtype.
fn reading(d: &Differential<'_>, op: &str) -> Result<NewNode> {
    Ok(NewNode::new(op).attr("element_dtype", element_dtype(d)?))
}

pub(super) fn push_back(d: &mut Differential<'_>) -> Result<Grads> {
    let (list, tensor) = (d.dy(0)?, d.input(1)?);
    let shape = d.shape_of(tensor)?;
    let pop = reading(d, "TensorListPopBack")?.input(list).input(shape);
    let pop = d.add(pop)?;
    let (list, tensor) = (Endpoint::new(pop, 0), Endpoint::new(pop, 1));
    d.several([(0, list), (1, tensor)])
}

pub(super) fn pop_back(d: &mut Differential<'_>) -> Result<Grads> {
    let list = match d.arriving(0) {
        Some(_) => d.dy(0)?,
        // Nothing has come for the elements that were left.
        None => {
            let left = d.output(0);
            unset_like(d, left)?
        }
    };
    let tensor = d.dy(1)?;
    let list = d.op("TensorListPushBack", [list, tensor])?;
    d.only(0, list)
}

pub(super) fn get_item(d: &mut Differential<'_>) -> Result<Grads> {
    let (list, index, dy) = (d.input(0)?, d.input(1)?, d.dy(0)?);
    let zeros = unset_like(d, list)?;
    let list = d.op("TensorListSetItem", [zeros, index, dy])?;
    d.only(0, list)
}

/// A list as long as `list` with no element set.
fn unset_like(d: &mut Differential<'_>, list: Endpoint) -> Result<Endpoint> {
    let (shape, len) = (element_shape(d, list)?, d.op("TensorListLength", [list])?);
    let reserve = reading(d, "TensorListReserve")?.input(shape).input(len);
    d.emit(reserve)
}

pub(super) fn set_item(d: &mut Differential<'_>) -> Result<Grads> {
    let (list, index, item) = (d.dy(0)?, d.input(1)?, d.input(2)?);
    let shape = d.shape_of(item)?;
    let get = reading(d, "TensorListGetItem")?.input(list).input(index).input(shape);
    let got = d.emit(get)?;
    let zeros = d.op("ZerosLike", [item])?;
    let mut cleared = d.op("TensorListSetItem", [list, index, zeros])?;
    if d.attr("resize_if_index_out_of_bounds")? {
        let before = d.input(0)?;
        let len = d.op("TensorListLength", [before])?;
        cleared = d.op("TensorListResize", [cleared, len])?;
    }
    d.several([(0, cleared), (2, got)])
}

pub(super) fn resize(d: &mut Differential<'_>) -> Result<Grads> {
    let (list, before) = (d.dy(0)?, d.input(0)?);
    let len = d.op("TensorListLength", [before])?;
    let list = d.op("TensorListResize", [list, len])?;
    d.only(0, list)
}

pub(super) fn from_tensor(d: &mut Differential<'_>) -> Result<Grads> {
    let (list, tensor) = (d.dy(0)?, d.input(0)?);
    let shape = row_shape(d, tensor)?;
    let count = d.shape(tensor)?.dim(0).map_or(-1, |count| count as i64);
    let stack = reading(d, "TensorListStack")?.input(list).input(shape).attr("num_elements", count);
    let stacked = d.emit(stack)?;
    d.only(0, stacked)
}

/// The shape of the rows of a tensor, as a value.
fn row_shape(d: &mut Differential<'_>, tensor: Endpoint) -> Result<Endpoint> {
    let shape = d.shape_of(tensor)?;
    let int = |value: i32| Tensor::vector(&[value]).map(Differential::literal);
    let slice = NewNode::new("StridedSlice").input(shape).input(int(1)?).input(int(0)?).input(int(1)?);
    d.emit(slice.attr("end_mask", 1i64))
}

pub(super) fn stack(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, shape) = (d.dy(0)?, d.input(1)?);
    let list = d.op("TensorListFromTensor", [dy, shape])?;
    d.only(0, list)
}

pub(super) fn gather(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, list, indices) = (d.dy(0)?, d.input(0)?, d.input(1)?);
    let (shape, len) = (element_shape(d, list)?, d.op("TensorListLength", [list])?);
    let list = d.op("TensorListScatterV2", [dy, indices, shape, len])?;
    d.only(0, list)
}

pub(super) fn scatter(d: &mut Differential<'_>) -> Result<Grads> {
    let (list, tensor, indices) = (d.dy(0)?, d.input(0)?, d.input(1)?);
    let gathered = gather_rows(d, list, tensor, indices)?;
    d.only(0, gathered)
}

fn gather_rows(
    d: &mut Differential<'_>,
    list: Endpoint,
    tensor: Endpoint,
    indices: Endpoint,
) -> Result<Endpoint> {
    let shape = row_shape(d, tensor)?;
    let gather = reading(d, "TensorListGather")?.input(list).input(indices).input(shape);
    d.emit(gather)
}

pub(super) fn scatter_into(d: &mut Differential<'_>) -> Result<Grads> {
    let (list, tensor, indices) = (d.dy(0)?, d.input(1)?, d.input(2)?);
    let gathered = gather_rows(d, list, tensor, indices)?;
    let zeros = d.op("ZerosLike", [tensor])?;
    let cleared = d.op("TensorListScatterIntoExistingList", [list, zeros, indices])?;
    let before = d.input(0)?;
    let len = d.op("TensorListLength", [before])?;
    let cleared = d.op("TensorListResize", [cleared, len])?;
    d.several([(0, cleared), (1, gathered)])
}

pub(super) fn concat(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, list, lengths) = (d.dy(0)?, d.input(0)?, d.output(1));
    let shape = element_shape(d, list)?;
    let list = d.op("TensorListSplit", [dy, shape, lengths])?;
    d.only(0, list)
}

pub(super) fn split(d: &mut Differential<'_>) -> Result<Grads> {
    let (list, shape, lengths) = (d.dy(0)?, d.input(1)?, d.input(2)?);
    let concat = reading(d, "TensorListConcatV2")?.input(list).input(shape).input(lengths);
    let joined = d.emit(concat)?;
    d.only(0, joined)
}
