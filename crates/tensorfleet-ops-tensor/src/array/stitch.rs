//! Dealing rows out and putting them back: DynamicPartition, DynamicStitch, ParallelDynamicStitch.

use smallvec::SmallVec;
use tensorfleet_core::{Element, Endpoint, PartialShape, Result, Shape, Tensor, ensure, memory};

use super::axes::{concat_dims, one};
use super::gather::PickRows;
use super::indices::checked_indices;
use tensorfleet_kernel::Work;
use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, integers_of};
use tensorfleet_kernel::work::{NodeInputs, integers_in};
use tensorfleet_numeric::rearrange::{Movement, rearrange};
use tensorfleet_threads::Loops;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("DynamicStitch", "indices: N * int32, data: N * T -> merged: T")
        .work(Work::Values(stitched_elements))
        .gradient(stitch_gradient)
        .attrs("N: int >= 1; T: type")
        .shape(stitch_shape)
        .kernel(stitch_kernel),
    Op::new("ParallelDynamicStitch", "indices: N * int32, data: N * T -> merged: T")
        .work(Work::Values(stitched_elements))
        .gradient(stitch_gradient)
        .attrs("N: int >= 1; T: type")
        .shape(stitch_shape)
        .kernel(stitch_kernel),
    Op::new("DynamicPartition", "data: T, partitions: int32 -> outputs: num_partitions * T")
        .work(Work::Inputs)
        .gradient(partition_gradient)
        .attrs("num_partitions: int >= 1; T: type")
        .shape(partition_shape)
        .kernel(partition_kernel),
];

/// As many rows as the largest index says, each as long as those of the longest input.
fn stitched_elements(inputs: &dyn NodeInputs) -> Option<usize> {
    let count = inputs.count() / 2;
    let (mut rows, mut row_len) = (0, 0);
    for index in 0..count {
        let (indices, data) = (inputs.tensor(index)?, inputs.tensor(count + index)?);
        rows = rows.max(integers_in(indices)?.max().map_or(0, |last| last.saturating_add(1)));
        row_len = row_len.max(data.num_elements() / indices.num_elements().max(1));
    }
    Some(usize::try_from(rows).unwrap_or(0).saturating_mul(row_len))
}

/// Rows of every source go to the places its indices name; later ones win. Rows nobody names are zero.
struct PlaceRows {
    places: SmallVec<[Vec<usize>; 4]>,
    inner: usize,
}

impl Movement for PlaceRows {
    fn run<T: Element>(&self, _: &Loops, sources: &[&[T]], out: &mut [T]) -> Result<()> {
        out.fill(T::default());
        if self.inner == 0 {
            return Ok(());
        }
        for (places, source) in self.places.iter().zip(sources) {
            for (&place, row) in places.iter().zip(source.chunks_exact(self.inner)) {
                out[place * self.inner..][..self.inner].copy_from_slice(row);
            }
        }
        Ok(())
    }
}

/// The dimensions of the data behind those of the indices, which it starts with.
fn slice_dims<'a>(index: usize, data: &'a Shape, indices: &Shape) -> Result<&'a [usize]> {
    ensure!(
        data.starts_with(indices),
        InvalidArgument,
        "data[{index}].shape = {data} does not start with indices[{index}].shape = {indices}"
    );
    Ok(&data[indices.rank()..])
}

fn stitch_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let count = ctx.num_inputs() / 2;
    let mut rest = PartialShape::unknown();
    let mut rows = Some(0usize);
    for index in 0..count {
        let values = ctx.value(index).map(integers_of).transpose()?;
        let largest =
            values.map(|values| values.into_iter().max().unwrap_or(-1).saturating_add(1).max(0) as usize);
        rows = rows.zip(largest).map(|(rows, largest)| rows.max(largest));
        let (Some(rank), Some(dims)) = (ctx.input(index).rank(), ctx.input(count + index).dims()) else {
            continue;
        };
        ensure!(
            dims.len() >= rank,
            InvalidArgument,
            "data[{index}].shape = {} does not start with indices[{index}].shape = {}",
            ctx.input(count + index),
            ctx.input(index)
        );
        let start = PartialShape::new(dims[..rank].iter().copied());
        start.merge(ctx.input(index))?;
        rest = rest.merge(&PartialShape::new(dims[rank..].iter().copied()))?;
    }
    match rest.dims() {
        Some(dims) => one(PartialShape::new([rows].into_iter().chain(dims.iter().copied()))),
        None => one(PartialShape::unknown()),
    }
}

/// `DynamicStitch`; the parallel form promises less about repeated indices and so is served as well.
fn stitch_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (count, dtype) = (node.inputs.len() / 2, node.dtype()?);
    Ok(KernelBox::from_fn(move |ctx| {
        let (first_indices, first_data) = (ctx.input(0)?, ctx.input(count)?);
        let first = slice_dims(0, first_data.shape(), first_indices.shape())?;
        let mut rows = 0usize;
        for index in 0..count {
            let (indices, data) = (ctx.input(index)?, ctx.input(count + index)?);
            let dims = slice_dims(index, data.shape(), indices.shape())?;
            ensure!(
                dims == first,
                InvalidArgument,
                "Need data[0].shape[{}:] = data[{index}].shape[{}:], got data[0].shape = {}, data[{index}].shape = {}, indices[0].shape = {}, indices[{index}].shape = {}",
                first_indices.shape().rank(),
                indices.shape().rank(),
                first_data.shape(),
                data.shape(),
                first_indices.shape(),
                indices.shape()
            );
            for &place in indices.as_slice::<i32>()? {
                ensure!(place >= 0, InvalidArgument, "indices[{index}] is out of range");
                rows = rows.max(place as usize + 1);
            }
        }
        let shape = concat_dims(&[&[rows], first])?;
        let inner = first.iter().product();
        let places = (0..count).map(|index| checked_indices(ctx.input(index)?, rows, "indices"));
        let places = places.collect::<Result<_>>()?;
        let data: Vec<&Tensor> = (0..count).map(|index| ctx.input(count + index)).collect::<Result<_>>()?;
        let tensor = rearrange(ctx.loops(), dtype, shape, &data, &PlaceRows { places, inner })?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

fn partition_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let count = ctx.num_outputs();
    let (Some(data), Some(rank)) = (ctx.input(0).dims(), ctx.input(1).rank()) else {
        return Ok(vec![PartialShape::unknown(); count]);
    };
    ensure!(
        data.len() >= rank,
        InvalidArgument,
        "data.shape must start with partitions.shape, got data.shape = {}, partitions.shape = {}",
        ctx.input(0),
        ctx.input(1)
    );
    PartialShape::new(data[..rank].iter().copied()).merge(ctx.input(1))?;
    Ok(vec![PartialShape::new([None].into_iter().chain(data[rank..].iter().copied())); count])
}

fn partition_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let count = node.outputs.len();
    Ok(KernelBox::from_fn(move |ctx| {
        let (data, partitions) = (ctx.input(0)?, ctx.input(1)?);
        ensure!(
            data.shape().starts_with(partitions.shape()),
            InvalidArgument,
            "data.shape must start with partitions.shape, got data.shape = {}, partitions.shape = {}",
            data.shape(),
            partitions.shape()
        );
        let mut rows: Vec<Vec<usize>> = vec![Vec::new(); count];
        for (row, partition) in checked_indices(partitions, count, "partitions")?.into_iter().enumerate() {
            memory::make_room(&mut rows[partition], 1)?;
            rows[partition].push(row);
        }
        let slice = &data.shape()[partitions.shape().rank()..];
        let inner = slice.iter().product();
        let axis = partitions.num_elements();
        let mut parts: SmallVec<[Tensor; 4]> = SmallVec::new();
        for rows in &rows {
            let pick = PickRows { indices: rows, batches: 1, outer: 1, axis, inner };
            parts.push(rearrange(
                ctx.loops(),
                data.dtype(),
                concat_dims(&[&[rows.len()], slice])?,
                &[data],
                &pick,
            )?);
        }
        for (index, part) in parts.into_iter().enumerate() {
            ctx.set_output(index, part);
        }
        Ok(())
    }))
}

/// Each piece of data gets the rows it was written to.
fn stitch_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, inputs) = (d.dy(0)?, d.inputs());
    let count = inputs.len() / 2;
    let mut grads = vec![None; count];
    for &indices in inputs.iter().take(count) {
        grads.push(Some(d.rows(dy, indices)?.into()));
    }
    Ok(grads)
}

/// The parts go back to where they were: the same partition of positions says where.
fn partition_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (data, partitions) = (d.input(0)?, d.input(1)?);
    let count: i64 = d.attr("num_partitions")?;
    let dys: Vec<Endpoint> = (0..count as usize).map(|slot| d.dy(slot)).collect::<Result<_>>()?;
    let size = d.op("Size", [partitions])?;
    let positions = d.count_to(size)?;
    let positions = d.reshape_like(positions, partitions)?;
    let node = NewNode::new("DynamicPartition").input(positions).input(partitions);
    let positions = d.add(node.attr("num_partitions", count))?;
    let positions = (0..count as u32).map(|slot| Endpoint::new(positions, slot));
    let stitch = NewNode::new("ParallelDynamicStitch").input_list(positions).input_list(dys);
    let rows = d.emit(stitch)?;
    let dx = d.reshape_like(rows, data)?;
    d.only(0, dx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use tensorfleet_core::{Code, DType};

    fn stitch(indices: &[Tensor], data: &[Tensor]) -> Result<Tensor> {
        let op = test_op("DynamicStitch")
            .with_shape_check()
            .attr("N", indices.len() as i64)
            .attr("T", data[0].dtype());
        indices.iter().chain(data).fold(op, |op, tensor| op.input(tensor.clone())).run_one()
    }

    fn vector<T: Element>(elements: &[T]) -> Tensor {
        Tensor::vector(elements).unwrap()
    }

    #[test]
    fn the_last_of_repeated_indices_wins_and_gaps_are_zero() {
        let out =
            stitch(&[vector(&[0, 3]), vector(&[3, 5])], &[vector(&[1.0f32, 2.0]), vector(&[7.0f32, 8.0])]);
        assert_eq!(out.unwrap().as_slice::<f32>().unwrap(), [1.0, 0.0, 0.0, 7.0, 0.0, 8.0]);
    }

    #[test]
    fn indices_of_any_rank_name_rows() {
        let scalar = (Tensor::scalar(1i32), Tensor::vector(&[1i64, 2]).unwrap());
        let matrix = (
            Tensor::from_slice(&[2i32, 0], &[1, 2]).unwrap(),
            Tensor::from_slice(&[3i64, 4, 5, 6], &[1, 2, 2]).unwrap(),
        );
        let out = stitch(&[scalar.0, matrix.0], &[scalar.1, matrix.1]).unwrap();
        assert_eq!(
            (out.shape().dims(), out.as_slice::<i64>().unwrap()),
            (&[3, 2][..], &[5, 6, 1, 2, 3, 4][..])
        );
        let words = Tensor::from_strings(vec!["x".into(), "y".into()], &[2]).unwrap();
        assert_eq!(stitch(&[vector(&[1, 0])], &[words]).unwrap().as_strings().unwrap(), ["y", "x"]);
        assert_eq!(stitch(&[vector::<i32>(&[])], &[vector::<f32>(&[])]).unwrap().shape().dims(), [0]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let text = |indices: &[Tensor], data: &[Tensor]| {
            let status = stitch(indices, data).unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            status.text().to_string()
        };
        assert_eq!(text(&[vector(&[-1])], &[vector(&[1.0f32])]), "indices[0] is out of range");
        assert!(
            text(&[vector(&[0, 1])], &[vector(&[1.0f32])])
                .contains("does not start with indices[0].shape = [2]")
        );
        let rows = Tensor::from_slice(&[1.0f32], &[1, 1]).unwrap();
        assert!(
            text(&[vector(&[0]), vector(&[1])], &[rows, vector(&[1.0f32])])
                .contains("Need data[0].shape[1:]")
        );
    }

    #[test]
    fn partitions_keep_the_order_of_rows() {
        let partition = |data: Tensor, partitions: Tensor, count: i64| {
            let op = test_op("DynamicPartition")
                .with_shape_check()
                .attr("num_partitions", count)
                .attr("T", data.dtype());
            op.input(data).input(partitions).run()
        };
        let data = Tensor::from_slice(&[1i32, 2, 3, 4, 5, 6], &[3, 2]).unwrap();
        let out = partition(data.clone(), vector(&[1, 0, 1]), 3).unwrap();
        assert_eq!(out[1].as_slice::<i32>().unwrap(), [1, 2, 5, 6]);
        assert_eq!(out[2].shape().dims(), [0, 2]);
        let out = partition(Tensor::scalar(3.0f32), Tensor::scalar(1i32), 2).unwrap();
        assert_eq!((out[0].shape().dims(), out[1].as_slice::<f32>().unwrap()), (&[0][..], &[3.0][..]));
        let text = |partitions: &[i32]| {
            partition(data.clone(), vector(partitions), 4).unwrap_err().text().to_string()
        };
        assert_eq!(text(&[0, 0, 4]), "partitions[2] = 4 is not in [0, 4)");
        assert!(text(&[0, 0]).contains("data.shape must start with partitions.shape"));
        assert_eq!(out[0].dtype(), DType::Float);
    }
}
