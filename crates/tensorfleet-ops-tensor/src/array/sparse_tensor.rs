//! Sparse tensors as triples of indices, values and shape: SparseToDense, SparseReorder, SparseReshape,
//! SparseReduceSum.

use smallvec::{SmallVec, smallvec};
use tensorfleet_core::{
    DType, Element, Endpoint, PartialShape, Result, Shape, Status, Tensor, bail, ensure, memory,
};

use super::axes::{Integers, integers, normalized, one};
use super::gather::PickRows;
use tensorfleet_kernel::Work;
use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_kernel::work::elements_of_shape;
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::number::Number;
use tensorfleet_numeric::rearrange::{Movement, rearrange};
use tensorfleet_threads::Loops;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("SparseToDense", "sparse_indices: Tindices, output_shape: Tindices, sparse_values: T, default_value: T -> dense: T").work(Work::Values(elements_of_shape::<1>)).gradient(to_dense_gradient)
        .attrs("validate_indices: bool = true; T: type; Tindices: {int32, int64}")
        .shape(|ctx| one(ctx.shape_value(1)?))
        .kernel(to_dense_kernel),
    Op::new("SparseReorder", "input_indices: int64, input_values: T, input_shape: int64 -> output_indices: int64, output_values: T").work(Work::Inputs).gradient(reorder_gradient)
        .attrs("T: type")
        .shape(reorder_shape)
        .kernel(reorder_kernel),
    Op::new("SparseReshape", "input_indices: int64, input_shape: int64, new_shape: int64 -> output_indices: int64, output_shape: int64").work(Work::Inputs)
        .shape(reshape_shape)
        .kernel(reshape_kernel),
    Op::new("SparseReduceSum", "input_indices: int64, input_values: T, input_shape: int64, reduction_axes: int32 -> output: T").gradient(reduce_sum_gradient)
        .attrs("keep_dims: bool = false; T: number")
        .shape(reduce_sum_shape)
        .kernel(reduce_sum_kernel),
];

/// The coordinates of a sparse tensor's values, checked to be a matrix with a row for each value.
pub(crate) struct Coordinates<'a> {
    pub(crate) rows: &'a [i64],
    pub(crate) rank: usize,
}

impl<'a> Coordinates<'a> {
    /// Of a whole sparse tensor.
    pub(crate) fn of(indices: &'a Tensor, values: &Tensor, shape: &Tensor) -> Result<Coordinates<'a>> {
        let coordinates = Coordinates::without_values(indices, shape)?;
        ensure!(
            values.shape().rank() == 1,
            InvalidArgument,
            "Input values should be a vector but received shape {}",
            values.shape()
        );
        let count = indices.shape()[0];
        ensure!(
            values.num_elements() == count,
            InvalidArgument,
            "The length of `values` ({}) must match the first dimension of `indices` ({count}).",
            values.num_elements()
        );
        Ok(coordinates)
    }

    /// Of a sparse tensor whose values do not matter.
    fn without_values(indices: &'a Tensor, shape: &Tensor) -> Result<Coordinates<'a>> {
        let &[_, rank] = indices.shape().dims() else {
            bail!(InvalidArgument, "Input indices should be a matrix but received shape {}", indices.shape())
        };
        ensure!(
            shape.shape().rank() == 1,
            InvalidArgument,
            "Input shape should be a vector but received shape {}",
            shape.shape()
        );
        ensure!(
            shape.num_elements() == rank,
            InvalidArgument,
            "Input tensor rank must match input shape length."
        );
        Ok(Coordinates { rows: indices.as_slice::<i64>()?, rank })
    }

    pub(crate) fn row(&self, row: usize) -> &'a [i64] {
        &self.rows[row * self.rank..(row + 1) * self.rank]
    }
}

/// How a coordinate reads in error messages: `[0,5]`.
fn shown(coordinate: &[i64]) -> String {
    format!("[{}]", coordinate.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
}

/// The flat place of every coordinate in a dense tensor, which must be sorted and distinct if `validate` is set.
fn dense_places(
    coordinates: &[i64],
    rank: usize,
    count: usize,
    shape: &Shape,
    validate: bool,
) -> Result<Vec<usize>> {
    let mut places: Vec<usize> = memory::vec_with_room(count)?;
    for row in 0..count {
        let coordinate = &coordinates[row * rank..(row + 1) * rank];
        let inside = coordinate.iter().zip(shape.iter()).all(|(&index, &dim)| (index as u64) < dim as u64);
        if !inside && validate {
            bail!(
                InvalidArgument,
                "indices[{row}] = {} is out of bounds: need 0 <= index < {shape}",
                shown(coordinate)
            );
        }
        ensure!(inside, InvalidArgument, "Indices are not valid (out of bounds).  Shape: {shape}");
        let place =
            coordinate.iter().zip(shape.iter()).fold(0, |place, (&index, &dim)| place * dim + index as usize);
        if validate && let Some(&last) = places.last() {
            ensure!(place != last, InvalidArgument, "indices[{row}] = {} is repeated", shown(coordinate));
            ensure!(
                place > last,
                InvalidArgument,
                "indices[{row}] = {} is out of order. Many sparse ops require sorted indices.\n    Use `tf.sparse.reorder` to create a correctly ordered copy.\n",
                shown(coordinate)
            );
        }
        places.push(place);
    }
    Ok(places)
}

/// Out is the second source's element, with elements of the first (one for all, or one for each) at some places.
struct Sprinkle {
    places: Vec<usize>,
}

impl Movement for Sprinkle {
    fn run<T: Element>(&self, _: &Loops, sources: &[&[T]], out: &mut [T]) -> Result<()> {
        let [values, [default]] = sources else {
            return Err(Status::internal("values and a default are needed"));
        };
        out.fill(*default);
        let mut values = values.iter().cycle();
        for &place in &self.places {
            if let Some(&value) = values.next() {
                out[place] = value;
            }
        }
        Ok(())
    }
}

fn to_dense_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let validate = node.attr("validate_indices")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let (indices, sizes) = (ctx.input(0)?, ctx.input(1)?);
        let (values, default) = (ctx.input(2)?, ctx.input(3)?);
        ensure!(
            indices.shape().rank() <= 2,
            InvalidArgument,
            "sparse_indices should be a scalar, vector, or matrix, got shape {}",
            indices.shape()
        );
        let count = indices.shape().first().copied().unwrap_or(1);
        let rank = indices.shape().get(1).copied().unwrap_or(1);
        ensure!(
            sizes.shape().rank() == 1,
            InvalidArgument,
            "output_shape must be rank 1, got shape {}",
            sizes.shape()
        );
        ensure!(
            sizes.num_elements() == rank,
            InvalidArgument,
            "output_shape has incorrect number of elements: {} should be: {rank}",
            sizes.num_elements()
        );
        ensure!(
            values.is_scalar() || values.shape().dims() == [count],
            InvalidArgument,
            "sparse_values has incorrect shape {}, should be [] or [{count}]",
            values.shape()
        );
        ensure!(default.is_scalar(), InvalidArgument, "default_value should be a scalar.");
        let shape = Shape::from_signed(&integers(sizes)?)?;
        let places = dense_places(&integers(indices)?, rank, count, &shape, validate)?;
        let tensor = rearrange(ctx.loops(), values.dtype(), shape, &[values, default], &Sprinkle { places })?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

fn reorder_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(2, 1)?;
    Ok(vec![ctx.input_with_rank(0, 2)?, ctx.input_with_rank(1, 1)?])
}

/// `SparseReorder`: values in the order of their coordinates; equal coordinates keep theirs.
fn reorder_kernel(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let (indices, values) = (ctx.input(0)?, ctx.input(1)?);
        let coordinates = Coordinates::of(indices, values, ctx.input(2)?)?;
        let count = values.num_elements();
        let mut order: Vec<usize> = memory::collect(0..count)?;
        order.sort_by_key(|&row| coordinates.row(row));
        let pick = |inner| PickRows { indices: &order, batches: 1, outer: 1, axis: count, inner };
        let sorted = rearrange(
            ctx.loops(),
            DType::Int64,
            indices.shape().clone(),
            &[indices],
            &pick(coordinates.rank),
        )?;
        let values = rearrange(ctx.loops(), values.dtype(), values.shape().clone(), &[values], &pick(1))?;
        ctx.set_output(0, sorted);
        ctx.set_output(1, values);
        Ok(())
    }))
}

fn reshape_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let indices = ctx.input_with_rank(0, 2)?;
    let new_shape = ctx.input_with_rank(2, 1)?;
    Ok(vec![PartialShape::new([indices.dim(0), new_shape.dim(0)]), new_shape])
}

/// The target of a sparse reshape, in which one -1 is inferred. Sizes are only counted, never allocated, so they may
/// be huge.
fn resolve_sparse_reshape(input: &Integers, target: &Integers) -> Result<Integers> {
    let overflow = || Status::invalid_argument("the shape of a sparse tensor has too many elements");
    let product = |dims: &[i64]| -> Result<i64> {
        dims.iter().try_fold(1i64, |product, &dim| product.checked_mul(dim).ok_or_else(overflow))
    };
    ensure!(
        input.iter().all(|&dim| dim >= 0),
        InvalidArgument,
        "Input shape must be non-negative, got {input:?}"
    );
    let dense = product(input)?;
    let mut unknown = None;
    let mut output = target.clone();
    for (axis, size) in output.iter_mut().enumerate() {
        if *size == -1 {
            if let Some(first) = unknown {
                bail!(InvalidArgument, "only one output dimension may be -1, not both {first} and {axis}");
            }
            unknown = Some(axis);
            *size = 1;
        }
        ensure!(*size >= 0, InvalidArgument, "size {axis} must be non-negative, not {size}");
    }
    let given = product(&output)?;
    if let Some(axis) = unknown {
        ensure!(
            given > 0,
            InvalidArgument,
            "reshape cannot infer the missing input size for an empty tensor unless all specified input sizes are non-zero"
        );
        output[axis] = dense / given;
        ensure!(
            dense % given == 0,
            InvalidArgument,
            "Input to reshape is a SparseTensor with {dense} dense values, but the requested shape requires a multiple of {given}. input_shape={} output_shape={}",
            shown(input),
            shown(&output)
        );
    }
    let found = product(&output)?;
    ensure!(
        found == dense,
        InvalidArgument,
        "Input to reshape is a tensor with {dense} dense values, but the requested shape has {found}. input_shape={} output_shape={}",
        shown(input),
        shown(&output)
    );
    Ok(output)
}

fn reshape_kernel(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let (indices, shape, target) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
        let coordinates = Coordinates::without_values(indices, shape)?;
        ensure!(
            target.shape().rank() == 1,
            InvalidArgument,
            "Target shape should be a vector but received shape {}",
            target.shape()
        );
        let count = indices.shape()[0];
        let input = integers(shape)?;
        let output = resolve_sparse_reshape(&input, &integers(target)?)?;
        let mut moved: Vec<i64> = memory::vec_with_room(count.saturating_mul(output.len()))?;
        for row in 0..count {
            let place = coordinates
                .row(row)
                .iter()
                .zip(&input)
                .fold(0i64, |place, (&index, &dim)| place.wrapping_mul(dim).wrapping_add(index));
            let (start, mut rest) = (moved.len(), place);
            moved.resize(start + output.len(), 0);
            for (axis, &dim) in output.iter().enumerate().skip(1).rev() {
                moved[start + axis] = rest % dim.max(1);
                rest /= dim.max(1);
            }
            if !output.is_empty() {
                moved[start] = rest;
            }
        }
        let indices = Tensor::from_slice(&moved, &[count, output.len()])?;
        ctx.set_output(0, indices);
        ctx.set_output(1, Tensor::vector(&output)?);
        Ok(())
    }))
}

fn reduce_sum_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let shape = ctx.shape_value(2)?;
    let (Some(dims), Some(axes)) = (shape.dims(), ctx.integers(3)) else {
        return one(PartialShape::unknown());
    };
    let reduced = reduced_axes(&axes, dims.len())?;
    let keep: bool = ctx.attr("keep_dims")?;
    let dims = dims.iter().zip(&reduced).filter(|&(_, &gone)| keep || !gone);
    one(PartialShape::new(dims.map(|(&dim, &gone)| if gone { Some(1) } else { dim })))
}

fn reduced_axes(axes: &[i64], rank: usize) -> Result<SmallVec<[bool; 8]>> {
    let mut reduced: SmallVec<[bool; 8]> = smallvec![false; rank];
    for &axis in axes {
        match normalized(axis, rank) {
            Some(axis) => reduced[axis] = true,
            None => bail!(
                InvalidArgument,
                "Invalid reduction dimension {axis}, for input with {rank} dimensions."
            ),
        }
    }
    Ok(reduced)
}

fn reduce_sum_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let keep_dims: bool = node.attr("keep_dims")?;
    dispatch!(node.dtype()?, T in numeric => Ok(KernelBox::from_fn(move |ctx| {
        let (indices, values, shape) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
        let coordinates = Coordinates::of(indices, values, shape)?;
        let shape = Shape::from_signed(&integers(shape)?)?;
        let reduced = reduced_axes(&integers(ctx.input(3)?)?, shape.rank())?;
        let kept: SmallVec<[usize; 8]> = (0..shape.rank()).filter(|&axis| !reduced[axis]).collect();
        let dims: SmallVec<[usize; 8]> = if keep_dims {
            shape.iter().zip(&reduced).map(|(&dim, &gone)| if gone { 1 } else { dim }).collect()
        } else {
            kept.iter().map(|&axis| shape[axis]).collect()
        };
        let mut tensor = Tensor::zeros(values.dtype(), Shape::new(&dims)?)?;
        let sums = tensor.make_mut::<T>()?;
        for (row, &value) in values.as_slice::<T>()?.iter().enumerate() {
            let mut place = 0usize;
            for &axis in &kept {
                let (index, dim) = (coordinates.row(row)[axis], shape[axis]);
                ensure!(
                    (0..dim as i64).contains(&index),
                    Internal,
                    "Obtained a write index of {index} which is outside of bounds of [0, {dim})"
                );
                place = place * dim + index as usize;
            }
            sums[place] = sums[place].plus(value);
        }
        ctx.set_output(0, tensor);
        Ok(())
    })))
}

fn to_dense_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, indices, values) = (d.dy(0)?, d.input(0)?, d.input(2)?);
    // Coordinates of a vector may be a vector themselves, a single one even a scalar.
    let coordinates = match d.shape(indices)?.rank() {
        Some(0) => {
            let shape = d.ints(&[1, 1])?;
            d.op("Reshape", [indices, shape])?
        }
        Some(1) => d.expand(indices, 1)?,
        _ => indices,
    };
    let picked = d.op("GatherNd", [dy, coordinates])?;
    let (whole, part) = (d.total(dy)?, d.total(picked)?);
    let default = d.op("Sub", [whole, part])?;
    let values = if d.shape(values)?.rank() == Some(0) { part } else { picked };
    d.several([(2, values), (3, default)])
}

/// Sorting positions along with the values tells where each value went.
fn reorder_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, indices, values, shape) = (d.dy(1)?, d.input(0)?, d.input(1)?, d.input(2)?);
    let count = d.op("Size", [values])?;
    let positions = d.count_to(count)?;
    let sorted = d.add(NewNode::new("SparseReorder").input(indices).input(positions).input(shape))?;
    let places = d.op("InvertPermutation", [Endpoint::new(sorted, 1)])?;
    let dx = d.rows(dy, places)?;
    d.only(1, dx)
}

/// Each value gets what arrives at the element it was added to: at its own coordinates, but 0 along reduced axes.
fn reduce_sum_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, indices, shape, axes) = (d.dy(0)?, d.input(0)?, d.input(2)?, d.input(3)?);
    let rank = d.op("Size", [shape])?;
    let axes = d.op("FloorMod", [axes, rank])?;
    let axes = d.flat(axes)?;
    let all = d.count_to(rank)?;
    let ones = d.op("OnesLike", [axes])?;
    let ones = d.cast(ones, DType::Int64)?;
    let stitch = NewNode::new("DynamicStitch").input_list([all, axes]).input_list([shape, ones]);
    let kept = d.emit(stitch)?;
    let dy = d.op("Reshape", [dy, kept])?;
    let scale = d.op("FloorDiv", [shape, kept])?;
    let coordinates = d.op("FloorDiv", [indices, scale])?;
    let dx = d.op("GatherNd", [dy, coordinates])?;
    d.only(1, dx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;

    fn matrix(elements: &[i64], columns: usize) -> Tensor {
        Tensor::from_slice(elements, &[elements.len() / columns, columns]).unwrap()
    }

    fn vector<T: Element>(elements: &[T]) -> Tensor {
        Tensor::vector(elements).unwrap()
    }

    fn to_dense(indices: Tensor, shape: &[i64], values: Tensor, validate: bool) -> Result<Tensor> {
        let op = test_op("SparseToDense")
            .with_shape_check()
            .attr("T", DType::Float)
            .attr("Tindices", DType::Int64);
        let op = op.attr("validate_indices", validate).input(indices).input(vector(shape));
        op.input(values).input(7.0f32.into()).run_one()
    }

    #[test]
    fn values_lie_at_their_places_in_the_default() {
        let out = to_dense(matrix(&[0, 1, 1, 0], 2), &[2, 2], vector(&[1.0f32, 2.0]), true).unwrap();
        assert_eq!(out.as_slice::<f32>().unwrap(), [7.0, 1.0, 2.0, 7.0]);
        let out = to_dense(vector(&[0i64, 2]), &[3], 5.0f32.into(), true).unwrap();
        assert_eq!(out.as_slice::<f32>().unwrap(), [5.0, 7.0, 5.0]);
        let out = to_dense(3i64.into(), &[4], 5.0f32.into(), true).unwrap();
        assert_eq!(out.as_slice::<f32>().unwrap(), [7.0, 7.0, 7.0, 5.0]);
        let out = to_dense(matrix(&[0, 1, 0, 0], 2), &[1, 2], vector(&[1.0f32, 2.0]), false).unwrap();
        assert_eq!(out.as_slice::<f32>().unwrap(), [2.0, 1.0]);
    }

    #[test]
    fn unsorted_repeated_or_outer_indices_are_refused() {
        let text = |indices: &[i64], validate| {
            let pair = vector(&[1.0f32, 2.0]);
            to_dense(matrix(indices, 2), &[2, 2], pair, validate).unwrap_err().text().to_string()
        };
        assert!(text(&[0, 1, 0, 0], true).contains("indices[1] = [0,0] is out of order"));
        assert_eq!(text(&[0, 1, 0, 1], true), "indices[1] = [0,1] is repeated");
        assert_eq!(text(&[0, 1, 0, 5], true), "indices[1] = [0,5] is out of bounds: need 0 <= index < [2,2]");
        assert!(text(&[0, 1, 0, -1], false).contains("Indices are not valid (out of bounds)."));
        let values = to_dense(vector(&[1i64, 3]), &[4], vector(&[1.0f32; 3]), true).unwrap_err();
        assert!(values.text().contains("sparse_values has incorrect shape [3], should be [] or [2]"));
    }

    #[test]
    fn reordering_sorts_by_coordinate() {
        let op = test_op("SparseReorder").with_shape_check().attr("T", DType::Int32);
        let op = op.input(matrix(&[1, 0, 0, 1, 0, 0], 2)).input(vector(&[1, 2, 3])).input(vector(&[2i64, 2]));
        let out = op.run().unwrap();
        assert_eq!(out[0], matrix(&[0, 0, 0, 1, 1, 0], 2));
        assert_eq!(out[1].as_slice::<i32>().unwrap(), [3, 2, 1]);
    }

    #[test]
    fn reshaping_moves_coordinates() {
        let reshape = |indices: Tensor, shape: &[i64], target: &[i64]| {
            let op = test_op("SparseReshape").with_shape_check().input(indices).input(vector(shape));
            op.input(vector(target)).run()
        };
        let out = reshape(matrix(&[0, 1, 1, 2], 2), &[2, 3], &[3, -1]).unwrap();
        assert_eq!(out, [matrix(&[0, 1, 2, 1], 2), vector(&[3i64, 2])]);
        let empty = reshape(Tensor::from_slice::<i64>(&[], &[0, 2]).unwrap(), &[0, 3], &[-1]).unwrap();
        assert_eq!(empty[1], vector(&[0i64]));
        let text =
            |target: &[i64]| reshape(matrix(&[0, 1], 2), &[2, 3], target).unwrap_err().text().to_string();
        assert!(text(&[4, -1]).contains("requires a multiple of 4. input_shape=[2,3] output_shape=[4,1]"));
        assert!(text(&[-1, -1]).contains("not both 0 and 1"));
        assert!(text(&[2, 2]).contains("with 6 dense values, but the requested shape has 4"));
        assert!(text(&[i64::MAX, 3]).contains("too many elements"));
    }

    #[test]
    fn sums_are_taken_over_the_named_axes() {
        let run = |axes: &[i32], keep: bool| {
            let op =
                test_op("SparseReduceSum").with_shape_check().attr("T", DType::Float).attr("keep_dims", keep);
            let op = op.input(matrix(&[0, 1, 1, 0, 1, 1], 2)).input(vector(&[1.0f32, 2.0, 3.0]));
            op.input(vector(&[2i64, 2])).input(vector(axes)).run_one()
        };
        assert_eq!(run(&[1], false).unwrap(), vector(&[1.0f32, 5.0]));
        assert_eq!(run(&[], false).unwrap().as_slice::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(run(&[0, -1], true).unwrap(), Tensor::from_slice(&[6.0f32], &[1, 1]).unwrap());
        assert!(run(&[5], false).unwrap_err().text().contains("Invalid reduction dimension 5"));
    }
}
