//! Giving every row of a sparse tensor an entry: SparseFillEmptyRows and its gradient.

use num_traits::Zero;
use tensorfleet_core::{DType, Endpoint, PartialShape, Result, Shape, Tensor, ensure, memory};

use super::axes::{concat_dims, integers};
use super::concat::concat;
use super::gather::PickRows;
use super::sparse_tensor::Coordinates;
use tensorfleet_kernel::Work;
use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::number::Number;
use tensorfleet_numeric::rearrange::rearrange;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("SparseFillEmptyRows", "indices: int64, values: T, dense_shape: int64, default_value: T -> output_indices: int64, output_values: T, empty_row_indicator: bool, reverse_index_map: int64").gradient(fill_gradient)
        .attrs("T: type")
        .shape(fill_shape)
        .kernel(fill_kernel),
    Op::new("SparseFillEmptyRowsGrad", "reverse_index_map: int64, grad_values: T -> d_values: T, d_default_value: T").work(Work::Inputs)
        .attrs("T: type")
        .shape(grad_shape)
        .kernel(grad_kernel),
];

fn fill_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let indices = ctx.input_with_rank(0, 2)?;
    let values = ctx.input_with_rank(1, 1)?;
    let shape = ctx.input_with_rank(2, 1)?;
    ctx.input_with_rank(3, 0)?;
    Ok(vec![
        PartialShape::new([None, indices.dim(1).or(shape.dim(0))]),
        PartialShape::vector(None),
        PartialShape::vector(ctx.shape_value(2)?.dim(0)),
        PartialShape::vector(values.dim(0).or(indices.dim(0))),
    ])
}

/// Where each entry of the filled tensor comes from, in order: an entry of the input, or (`None`) the default.
struct Filled {
    origins: Vec<Option<usize>>,
    rows: Vec<usize>,
    is_empty: Vec<bool>,
    /// Where each entry of the input went.
    places: Vec<i64>,
}

fn fill(coordinates: &Coordinates<'_>, count: usize, rows: usize) -> Result<Filled> {
    // Five vectors as long, or longer, are made of it.
    memory::check_fits(rows.saturating_mul(5 * size_of::<usize>()))?;
    let mut per_row = memory::vec_of(0usize, rows)?;
    for entry in 0..count {
        let row = coordinates.row(entry)[0];
        ensure!(
            (0..rows as i64).contains(&row),
            InvalidArgument,
            "indices({entry}, 0) is invalid: {row} >= {rows}"
        );
        per_row[row as usize] += 1;
    }
    let is_empty = memory::collect(per_row.iter().map(|&entries| entries == 0))?;
    // Entries keep their order within a row; an empty row has one.
    let mut next: Vec<usize> = memory::collect(per_row.iter().scan(0, |total, &entries| {
        let start = *total;
        *total += entries.max(1);
        Some(start)
    }))?;
    let total: usize = per_row.iter().map(|&entries| entries.max(1)).sum();
    let mut filled = Filled {
        origins: memory::vec_of(None, total)?,
        rows: memory::vec_of(0, total)?,
        is_empty,
        places: memory::vec_with_room(count)?,
    };
    for (row, &start) in next.iter().enumerate() {
        filled.rows[start] = row;
    }
    for entry in 0..count {
        let row = coordinates.row(entry)[0] as usize;
        let place = next[row];
        next[row] += 1;
        filled.origins[place] = Some(entry);
        filled.rows[place] = row;
        filled.places.push(place as i64);
    }
    Ok(filled)
}

fn fill_kernel(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let (indices, values, shape) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
        let default = ctx.input(3)?;
        ensure!(
            default.is_scalar(),
            InvalidArgument,
            "default_value must be a scalar, saw: {}",
            default.shape()
        );
        let coordinates = Coordinates::of(indices, values, shape)?;
        ensure!(coordinates.rank > 0, InvalidArgument, "Dense shape cannot be empty.");
        let count = values.num_elements();
        // Bounded by what a tensor of flags may hold.
        let flags = Tensor::zeros(DType::Bool, Shape::from_signed(&integers(shape)?[..1])?)?;
        let rows = flags.num_elements();
        ensure!(
            rows > 0 || count == 0,
            InvalidArgument,
            "Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = {count}"
        );
        let filled = fill(&coordinates, count, rows)?;
        let rank = coordinates.rank;
        let mut moved = memory::vec_of(0i64, filled.origins.len().saturating_mul(rank))?;
        for (place, origin) in filled.origins.iter().enumerate() {
            let to = &mut moved[place * rank..(place + 1) * rank];
            match origin {
                Some(entry) => to.copy_from_slice(coordinates.row(*entry)),
                None => to[0] = filled.rows[place] as i64,
            }
        }
        // The default stands behind the values, as one more of them.
        let all = concat(ctx.loops(), &[values, &default.clone().reshaped(Shape::vector(1))?], 0)?;
        let picks = memory::collect(filled.origins.iter().map(|origin| origin.unwrap_or(count)))?;
        let pick = PickRows { indices: &picks, batches: 1, outer: 1, axis: count + 1, inner: 1 };
        let values = rearrange(ctx.loops(), values.dtype(), Shape::vector(picks.len()), &[&all], &pick)?;
        ctx.set_output(0, Tensor::from_slice(&moved, &[picks.len(), rank])?);
        ctx.set_output(1, values);
        ctx.set_output(2, Tensor::vector(&filled.is_empty)?);
        ctx.set_output(3, Tensor::vector(&filled.places)?);
        Ok(())
    }))
}

fn grad_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(1, 1)?;
    Ok(vec![ctx.input_with_rank(0, 1)?, PartialShape::scalar()])
}

/// The gradient of each value is that of the place it went to; the default gets the sum of the rest.
fn grad_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in numeric => Ok(KernelBox::from_fn(|ctx| {
        let (places, gradients) = (ctx.input(0)?, ctx.input(1)?);
        ensure!(places.shape().rank() == 1, InvalidArgument, "reverse_index_map must be a vector, saw: {}", places.shape());
        ensure!(gradients.shape().rank() == 1, InvalidArgument, "grad_values must be a vector, saw: {}", gradients.shape());
        let (places, gradients) = (places.as_slice::<i64>()?, gradients.as_slice::<T>()?);
        let mut is_taken = memory::vec_of(false, gradients.len())?;
        let mut taken: Vec<T> = memory::vec_with_room(places.len())?;
        for &place in places {
            ensure!(
                (0..gradients.len() as i64).contains(&place),
                InvalidArgument,
                "Elements in reverse index must be in [0, {}) but got {place}",
                gradients.len()
            );
            is_taken[place as usize] = true;
            taken.push(gradients[place as usize]);
        }
        let rest = gradients.iter().zip(&is_taken).filter(|&(_, &taken)| !taken);
        let default = rest.fold(T::zero(), |sum, (&gradient, _)| sum.plus(gradient));
        let shape = concat_dims(&[&[places.len()]])?;
        ctx.set_output(0, Tensor::from_slice(&taken, &shape)?);
        ctx.set_output(1, Tensor::scalar(default));
        Ok(())
    })))
}

fn fill_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, map) = (d.dy(1)?, d.output(3));
    let grad = d.add(NewNode::new("SparseFillEmptyRowsGrad").input(map).input(dy))?;
    d.several([(1, Endpoint::new(grad, 0)), (3, Endpoint::new(grad, 1))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;

    fn run(indices: &[i64], values: &[i32], shape: [i64; 2]) -> Result<Vec<Tensor>> {
        let op = test_op("SparseFillEmptyRows").with_shape_check().attr("T", DType::Int32);
        let op = op.input(Tensor::from_slice(indices, &[indices.len() / 2, 2]).unwrap());
        op.input(Tensor::vector(values).unwrap())
            .input(Tensor::vector(&shape).unwrap())
            .input(9i32.into())
            .run()
    }

    #[test]
    fn empty_rows_get_the_default_and_others_keep_their_order() {
        let out = run(&[2, 1, 0, 1, 2, 0], &[1, 2, 3], [4, 2]).unwrap();
        assert_eq!(out[0].as_slice::<i64>().unwrap(), [0, 1, 1, 0, 2, 1, 2, 0, 3, 0]);
        assert_eq!(out[1].as_slice::<i32>().unwrap(), [2, 9, 1, 3, 9]);
        assert_eq!(out[2].as_slice::<bool>().unwrap(), [false, true, false, true]);
        assert_eq!(out[3].as_slice::<i64>().unwrap(), [2, 0, 3]);
        assert_eq!(run(&[], &[], [2, 2]).unwrap()[1].as_slice::<i32>().unwrap(), [9, 9]);
        assert_eq!(run(&[], &[], [0, 2]).unwrap()[0].shape().dims(), [0, 2]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let text = |indices: &[i64], values: &[i32], shape| {
            run(indices, values, shape).unwrap_err().text().to_string()
        };
        assert_eq!(text(&[2, 1], &[1], [2, 2]), "indices(0, 0) is invalid: 2 >= 2");
        assert_eq!(text(&[-1, 1], &[1], [2, 2]), "indices(0, 0) is invalid: -1 >= 2");
        assert!(text(&[0, 0], &[1], [0, 2]).contains("dense_shape[0] = 0 but indices.shape[0] = 1"));
        assert!(text(&[0, 0], &[1, 2], [2, 2]).contains("The length of `values` (2) must match"));
    }

    #[test]
    fn the_default_gets_what_nobody_else_gets() {
        let grad = |places: &[i64]| {
            let op = test_op("SparseFillEmptyRowsGrad").with_shape_check().attr("T", DType::Float);
            op.input(Tensor::vector(places).unwrap())
                .input(Tensor::vector(&[1.0f32, 2.0, 3.0, 4.0]).unwrap())
                .run()
        };
        let out = grad(&[0, 2]).unwrap();
        assert_eq!(out, [Tensor::vector(&[1.0f32, 3.0]).unwrap(), Tensor::scalar(6.0f32)]);
        assert!(grad(&[7]).unwrap_err().text().contains("must be in [0, 4) but got 7"));
    }
}
