//! Picking slices by index: Gather, GatherV2, GatherNd.

use smallvec::SmallVec;
use tensorfleet_core::{
    DType, Dim, Element, Endpoint, PartialShape, Result, Shape, Status, Tensor, bail, ensure, memory,
};

use super::axes::{at_least_rank, concat_dims, integer, integers, normalized, one};
use super::indices::{checked_indices, coordinates};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Grad, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_numeric::rearrange::{Movement, rearrange};
use tensorfleet_numeric::simd::{ROWS_AHEAD, expect_row};
use tensorfleet_numeric::strided::around_axis;
use tensorfleet_threads::Loops;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Gather", "params: Tparams, indices: Tindices -> output: Tparams")
        .work(Work::Measured)
        .gradient(gather_gradient)
        .attrs("validate_indices: bool = true; Tparams: type; Tindices: {int32, int64}")
        .shape(|ctx| gather_shape(ctx, Some(0), 0))
        .kernel(gather_kernel)
        .reads_in_place(),
    Op::new("GatherV2", "params: Tparams, indices: Tindices, axis: Taxis -> output: Tparams")
        .work(Work::Measured)
        .gradient(gather_v2_gradient)
        .attrs("batch_dims: int = 0; Tparams: type; Tindices: {int16, int32, int64}; Taxis: {int32, int64}")
        .shape(|ctx| gather_shape(ctx, ctx.integer(2), ctx.attr("batch_dims")?))
        .kernel(gather_v2_kernel)
        .reads_in_place(),
    Op::new("GatherNd", "params: Tparams, indices: Tindices -> output: Tparams")
        .work(Work::Measured)
        .gradient(gather_nd_gradient)
        .attrs("Tparams: type; Tindices: {int16, int32, int64}; bad_indices_policy: string = ''")
        .shape(gather_nd_shape)
        .kernel(gather_nd_kernel)
        .reads_in_place(),
];

/// The source is `[batches, outer, axis, inner]`; out is `[batches, outer, indices of a batch, inner]`.
pub(crate) struct PickRows<'a> {
    /// For every batch, which elements of the axis. All lie in it.
    pub(crate) indices: &'a [usize],
    pub(crate) batches: usize,
    pub(crate) outer: usize,
    pub(crate) axis: usize,
    pub(crate) inner: usize,
}

impl Movement for PickRows<'_> {
    fn run<T: Element>(&self, loops: &Loops, sources: &[&[T]], out: &mut [T]) -> Result<()> {
        let &[source] = sources else { return Err(Status::internal("rows are picked from one source")) };
        let (axis, inner) = (self.axis, self.inner);
        let per_batch = self.indices.len() / self.batches.max(1);
        if out.is_empty() {
            return Ok(());
        }
        loops.chunks_mut(out, inner, 200 + inner * 20, |first, out| {
            let mut row = first;
            let mut out = out;
            while !out.is_empty() {
                // As many rows as follow in the same block of the source.
                let (block, at) = (row / per_batch, row % per_batch);
                let count = (per_batch - at).min(out.len() / inner);
                let from = block / self.outer * per_batch + at;
                let indices = &self.indices[from..from + count];
                let block = &source[block * axis * inner..][..axis * inner];
                let (part, rest) = out.split_at_mut(count * inner);
                pick_rows(block, indices, inner, part);
                row += count;
                out = rest;
            }
        });
        Ok(())
    }
}

#[inline]
fn pick_rows<T: Copy>(block: &[T], indices: &[usize], inner: usize, out: &mut [T]) {
    let expect = |at: usize| {
        if let Some(&soon) = indices.get(at + ROWS_AHEAD) {
            expect_row(block, soon * inner, inner);
        }
    };
    if inner == 1 {
        for (at, (out, &index)) in out.iter_mut().zip(indices).enumerate() {
            expect(at);
            *out = block[index];
        }
        return;
    }
    for (at, (out, &index)) in out.chunks_exact_mut(inner).zip(indices).enumerate() {
        expect(at);
        out.copy_from_slice(&block[index * inner..][..inner]);
    }
}

/// Slices of `params` along `axis`, for every index; the first `batch_dims` dimensions of both go together.
pub fn gather(
    loops: &Loops,
    params: &Tensor,
    indices: &Tensor,
    axis: i64,
    batch_dims: i64,
) -> Result<Tensor> {
    let (from, by) = (params.shape(), indices.shape());
    ensure!(from.rank() >= 1, InvalidArgument, "params must be at least 1 dimensional");
    let (axis, batch_dims) = gather_axes(from.rank(), by.rank(), axis, batch_dims)?;
    for k in 0..batch_dims {
        ensure!(
            from[k] == by[k],
            InvalidArgument,
            "params.shape[{k}]: {} should be equal to indices.shape[{k}]: {}",
            from[k],
            by[k]
        );
    }
    let shape = concat_dims(&[&from[..axis], &by[batch_dims..], &from[axis + 1..]])?;
    let (before, len, inner) = around_axis(from, axis);
    let batches: usize = from[..batch_dims].iter().product();
    let indices =
        if shape.num_elements() > 0 { checked_indices(indices, len, "indices")? } else { Vec::new() };
    let outer = before / batches.max(1);
    rearrange(
        loops,
        params.dtype(),
        shape,
        &[params],
        &PickRows { indices: &indices, batches, outer, axis: len, inner },
    )
}

fn gather_axes(rank: usize, index_rank: usize, axis: i64, batch_dims: i64) -> Result<(usize, usize)> {
    let Some(axis) = normalized(axis, rank) else {
        bail!(InvalidArgument, "Expected axis in the range [-{rank}, {rank}), but got {axis}")
    };
    let limit = index_rank as i64;
    ensure!(
        (-limit..=limit).contains(&batch_dims),
        InvalidArgument,
        "Expected batch_dims in the range [-{limit}, {limit}], but got {batch_dims}"
    );
    let batch_dims = (if batch_dims < 0 { batch_dims + limit } else { batch_dims }) as usize;
    ensure!(
        batch_dims < rank,
        InvalidArgument,
        "batch_dims ({batch_dims}) must be less than rank(params) ({rank})."
    );
    ensure!(
        batch_dims <= axis,
        InvalidArgument,
        "batch_dims ({batch_dims}) must be less than or equal to axis ({axis})."
    );
    Ok((axis, batch_dims))
}

fn gather_shape(ctx: &ShapeContext<'_>, axis: Option<i64>, batch_dims: i64) -> Result<Vec<PartialShape>> {
    at_least_rank(ctx, 0, 1)?;
    let (Some(params), Some(indices)) = (ctx.input(0).dims(), ctx.input(1).dims()) else {
        return one(PartialShape::unknown());
    };
    let Some(axis) = axis else {
        // Each batch dimension and the axis itself are counted once.
        let shared = if batch_dims < 0 { batch_dims + indices.len() as i64 } else { batch_dims };
        let rank = (params.len() + indices.len()) as i64 - 1 - shared;
        return one(usize::try_from(rank).map_or_else(|_| PartialShape::unknown(), PartialShape::of_rank));
    };
    let (axis, batch_dims) = gather_axes(params.len(), indices.len(), axis, batch_dims)?;
    let shared = |dims: &[Dim]| PartialShape::new(dims[..batch_dims].iter().copied());
    let shared = shared(params).merge(&shared(indices))?;
    let dims: SmallVec<[Dim; 8]> = [
        shared.dims().unwrap_or_default(),
        &params[batch_dims..axis],
        &indices[batch_dims..],
        &params[axis + 1..],
    ]
    .concat()
    .into();
    one(PartialShape::new(dims))
}

fn gather_kernel(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let tensor = ctx.read_in_place(0, |params| {
            ctx.read_in_place(1, |indices| gather(ctx.loops(), params, indices, 0, 0))
        })?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

fn gather_v2_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let batch_dims = node.attr("batch_dims")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let axis = ctx.read_in_place(2, |axis| integer(axis, "axis"))?;
        let tensor = ctx.read_in_place(0, |params| {
            ctx.read_in_place(1, |indices| gather(ctx.loops(), params, indices, axis, batch_dims))
        })?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

/// Indices whose last dimension is a coordinate: each names a slice of a tensor.
pub(crate) struct SliceIndices {
    /// For every coordinate, the number of the slice it names.
    pub(crate) slices: Vec<usize>,
    /// The number of elements in a slice.
    pub(crate) slice_len: usize,
    /// How many dimensions of the tensor a coordinate fixes.
    pub(crate) depth: usize,
}

impl SliceIndices {
    /// Checks `indices` against the tensor's shape; `whose` ends the error message ("param shape", "shape").
    pub(crate) fn resolve(indices: &Tensor, shape: &Shape, whose: &str) -> Result<SliceIndices> {
        let Some((&depth, outer)) = indices.shape().split_last() else {
            bail!(InvalidArgument, "indices must be at least a vector")
        };
        ensure!(
            depth <= shape.rank(),
            InvalidArgument,
            "index innermost dimension length must be <= params rank; saw: {depth} vs. {}",
            shape.rank()
        );
        let slice_len = shape[depth..].iter().product();
        let count: usize = outer.iter().product();
        if depth == 0 {
            // Every (empty) coordinate names the whole; the count was never stored, so anything may come.
            return Ok(SliceIndices { slices: memory::vec_of(0, count)?, slice_len, depth });
        }
        let coordinates_of = integers(indices)?;
        let mut slices = memory::vec_with_room(count)?;
        for (position, coordinate) in coordinates_of.chunks_exact(depth).enumerate() {
            let mut slice = 0usize;
            for (&index, &dim) in coordinate.iter().zip(shape.iter()) {
                if index as u64 >= dim as u64 {
                    return Err(bad_coordinate(outer, position, coordinate, whose, shape));
                }
                slice = slice * dim + index as usize;
            }
            slices.push(slice);
        }
        Ok(SliceIndices { slices, slice_len, depth })
    }
}

#[cold]
fn bad_coordinate(
    outer: &[usize],
    position: usize,
    coordinate: &[i64],
    whose: &str,
    shape: &Shape,
) -> Status {
    let place = coordinates(outer, position);
    let coordinate = coordinate.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    Status::invalid_argument(format!("indices{place} = [{coordinate}] does not index into {whose} {shape}"))
}

/// The slices of `params` that the coordinates in `indices` name.
pub fn gather_nd(loops: &Loops, params: &Tensor, indices: &Tensor) -> Result<Tensor> {
    let from = params.shape();
    ensure!(from.rank() >= 1, InvalidArgument, "params must be at least a vector");
    ensure!(
        params.num_elements() > 0 || indices.num_elements() == 0,
        InvalidArgument,
        "Requested more than 0 entries, but params is empty.  Params shape: {from}"
    );
    let found = SliceIndices::resolve(indices, from, "param shape")?;
    let outer = &indices.shape()[..indices.shape().rank() - 1];
    let shape = concat_dims(&[outer, &from[found.depth..]])?;
    let axis = from[..found.depth].iter().product();
    let rows = PickRows { indices: &found.slices, batches: 1, outer: 1, axis, inner: found.slice_len };
    rearrange(loops, params.dtype(), shape, &[params], &rows)
}

/// TensorFlow 2.19 and later can be told to skip bad indices; the CPU's default is to refuse them.
pub fn check_bad_indices_policy(node: &NodeSpec<'_>) -> Result<()> {
    let policy: String = node.attr("bad_indices_policy")?;
    ensure!(
        matches!(policy.as_str(), "" | "DEFAULT" | "ERROR"),
        Unimplemented,
        "bad_indices_policy '{policy}' is not supported"
    );
    Ok(())
}

fn gather_nd_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    at_least_rank(ctx, 1, 1)?;
    let (Some(params), Some(indices)) = (ctx.input(0).dims(), ctx.input(1).dims()) else {
        return one(PartialShape::unknown());
    };
    let Some((&Some(depth), outer)) = indices.split_last() else { return one(PartialShape::unknown()) };
    ensure!(
        depth <= params.len(),
        InvalidArgument,
        "indices.shape[-1] must be <= params.rank, but saw indices shape: {} and params shape: {}",
        ctx.input(1),
        ctx.input(0)
    );
    one(PartialShape::new(outer.iter().chain(&params[depth..]).copied()))
}

fn gather_nd_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    check_bad_indices_policy(node)?;
    Ok(KernelBox::from_fn(|ctx| {
        let tensor = ctx.read_in_place(0, |params| {
            ctx.read_in_place(1, |indices| gather_nd(ctx.loops(), params, indices))
        })?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

fn gather_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (params, indices) = (d.input(0)?, d.input(1)?);
    let shape = d.shape_of(params)?;
    let rows = gathered_rows(d, indices, shape)?;
    d.only(0, rows)
}

fn gather_v2_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (params, indices, axis) = (d.input(0)?, d.input(1)?, d.input(2)?);
    let shape = d.shape_of(params)?;
    let batch_dims: i64 = d.attr("batch_dims")?;
    let is_first =
        d.constant_value(axis).is_some_and(|axis| integers(&axis).is_ok_and(|axis| axis[..] == [0]));
    if is_first && batch_dims == 0 {
        let rows = gathered_rows(d, indices, shape)?;
        return d.only(0, rows);
    }
    let axis = d.cast(axis, DType::Int32)?;
    let rank = d.rank_of(params)?;
    let axis = d.op("FloorMod", [axis, rank])?;
    let batch_dims = match i32::try_from(batch_dims) {
        Ok(dims) if dims >= 0 => d.int(dims)?,
        Ok(dims) => {
            let (dims, rank) = (d.int(dims)?, d.rank_of(indices)?);
            d.op("AddV2", [dims, rank])?
        }
        Err(_) => return Err(Status::invalid_argument(format!("batch_dims {batch_dims} is out of range"))),
    };
    let dense = scatter_back(d, indices, shape, axis, batch_dims)?;
    d.only(0, dense)
}

/// The rows of a tensor of `shape` that `indices` name, as what arrives at output 0.
pub fn gathered_rows(d: &mut Differential<'_>, indices: Endpoint, shape: Endpoint) -> Result<Grad> {
    let dy = d.dy(0)?;
    let one = d.int(1)?;
    let row = d.part(shape, one, None)?;
    let count = d.emit(NewNode::new("Size").input(indices).attr("out_type", d.dtype(shape)?))?;
    let count = d.expand(count, 0)?;
    let values_shape = d.joined([count, row], 0)?;
    let values = d.op("Reshape", [dy, values_shape])?;
    Ok(Grad::Slices { values, indices: d.flat(indices)?, dense_shape: shape })
}

/// What arrives at output 0 added up at the `indices` along `axis` of a tensor of `shape`, all of whose leading
/// `batch_dims` axes it shares with the indices. Everything is seen as `[batches, outer, axis, inner]`.
pub fn scatter_back(
    d: &mut Differential<'_>,
    indices: Endpoint,
    shape: Endpoint,
    axis: Endpoint,
    batch_dims: Endpoint,
) -> Result<Endpoint> {
    let dy = d.dy(0)?;
    let (zero, one) = (d.int(0)?, d.int(1)?);
    let behind_axis = d.op("AddV2", [axis, one])?;
    let size = |d: &mut Differential<'_>, begin, end| {
        let part = d.part(shape, begin, end)?;
        d.product(part)
    };
    let batches = size(d, zero, Some(batch_dims))?;
    let outer = size(d, batch_dims, Some(axis))?;
    let length = size(d, axis, Some(behind_axis))?;
    let inner = size(d, behind_axis, None)?;
    let indices_shape = d.shape_of(indices)?;
    let picked = d.part(indices_shape, batch_dims, None)?;
    let picked = d.product(picked)?;

    let dy_shape = d.vector([batches, outer, picked, inner])?;
    let dy = d.op("Reshape", [dy, dy_shape])?;
    let order = d.ints(&[0, 2, 1, 3])?;
    let rows = d.op("Transpose", [dy, order])?;
    let count = d.op("Mul", [batches, picked])?;
    let rows_shape = d.vector([count, outer, inner])?;
    let rows = d.op("Reshape", [rows, rows_shape])?;

    // Rows of different batches must not meet.
    let indices = d.cast(indices, DType::Int32)?;
    let by_batch = d.vector([batches, picked])?;
    let indices = d.op("Reshape", [indices, by_batch])?;
    let batch = d.count_to(batches)?;
    let offset = d.op("Mul", [batch, length])?;
    let offset = d.expand(offset, 1)?;
    let segments = d.op("AddV2", [indices, offset])?;
    let segments = d.flat(segments)?;
    let slots = d.op("Mul", [batches, length])?;
    let sums = d.op("UnsortedSegmentSum", [rows, segments, slots])?;

    let sums_shape = d.vector([batches, length, outer, inner])?;
    let sums = d.op("Reshape", [sums, sums_shape])?;
    let sums = d.op("Transpose", [sums, order])?;
    d.op("Reshape", [sums, shape])
}

fn gather_nd_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (params, indices) = (d.input(0)?, d.input(1)?);
    let index = d.dtype(indices)?;
    let shape = d.shape_as(params, index)?;
    let grad = gathered_slices(d, indices, shape)?;
    d.only(0, grad)
}

/// The slices of a tensor of `shape` at the coordinates `indices`, as what arrives at output 0: rows, if the coordinates
/// are a list of row numbers.
pub fn gathered_slices(d: &mut Differential<'_>, indices: Endpoint, shape: Endpoint) -> Result<Grad> {
    let dy = d.dy(0)?;
    let dims = d.shape(indices)?.dims().map(<[_]>::to_vec);
    if matches!(dims.as_deref(), Some([_, Some(1)])) {
        return Ok(Grad::Slices { values: dy, indices: d.flat(indices)?, dense_shape: shape });
    }
    Ok(d.op("ScatterNd", [indices, dy, shape])?.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use proptest::prelude::*;
    use tensorfleet_core::{Code, DType};

    fn gather_v2(params: Tensor, indices: Tensor, axis: i32, batch_dims: i64) -> Result<Tensor> {
        let op = test_op("GatherV2")
            .with_shape_check()
            .attr("Tparams", params.dtype())
            .attr("Tindices", indices.dtype());
        let op = op.attr("Taxis", DType::Int32).attr("batch_dims", batch_dims);
        op.input(params).input(indices).input(axis.into()).run_one()
    }

    fn params(dims: &[usize]) -> Tensor {
        let elements: Vec<f32> = (0..dims.iter().product()).map(|i| i as f32).collect();
        Tensor::from_slice(&elements, dims).unwrap()
    }

    fn indices(elements: &[i32], dims: &[usize]) -> Tensor {
        Tensor::from_slice(elements, dims).unwrap()
    }

    #[test]
    fn rows_are_picked_in_order_and_repeatedly() {
        let out = gather_v2(params(&[3, 2]), indices(&[2, 0, 2], &[3]), 0, 0).unwrap();
        assert_eq!(out.as_slice::<f32>().unwrap(), [4.0, 5.0, 0.0, 1.0, 4.0, 5.0]);
        let scalar = gather_v2(params(&[3, 2]), Tensor::scalar(1i64), -1, 0).unwrap();
        assert_eq!(
            (scalar.shape().dims(), scalar.as_slice::<f32>().unwrap()),
            (&[3][..], &[1.0, 3.0, 5.0][..])
        );
        let words = Tensor::from_strings(vec!["a".into(), "b".into()], &[2]).unwrap();
        let out = gather_v2(words, indices(&[1, 1], &[2]), 0, 0).unwrap();
        assert_eq!(out.as_strings().unwrap(), ["b", "b"]);
    }

    #[test]
    fn batches_pick_from_their_own_params() {
        let out = gather_v2(params(&[2, 3]), indices(&[0, 2, 1, 1], &[2, 2]), 1, 1).unwrap();
        assert_eq!(
            (out.shape().dims(), out.as_slice::<f32>().unwrap()),
            (&[2, 2][..], &[0.0, 2.0, 4.0, 4.0][..])
        );
        // Batch dimensions count from the end of the indices' shape, too.
        let same = gather_v2(params(&[2, 3]), indices(&[0, 2, 1, 1], &[2, 2]), 1, -1).unwrap();
        assert_eq!(same, out);
    }

    #[test]
    fn bad_indices_are_refused_with_their_place() {
        let text = |indices: Tensor, axis, batch_dims| {
            let status = gather_v2(params(&[4, 3]), indices, axis, batch_dims).unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            status.text().to_string()
        };
        assert_eq!(text(indices(&[0, 1, 4, 0], &[2, 2]), 0, 0), "indices[1,0] = 4 is not in [0, 4)");
        assert_eq!(text(indices(&[-1], &[1]), 0, 0), "indices[0] = -1 is not in [0, 4)");
        assert_eq!(text(indices(&[3], &[1]), 1, 0), "indices[0] = 3 is not in [0, 3)");
        assert!(text(indices(&[0], &[1]), 2, 0).contains("axis in the range [-2, 2), but got 2"));
        assert!(text(indices(&[0], &[1, 1]), 0, 3).contains("batch_dims in the range [-2, 2], but got 3"));
        assert!(text(indices(&[0], &[1, 1]), 0, 1).contains("must be less than or equal to axis (0)"));
        assert!(
            text(indices(&[0], &[1, 1]), 1, 1)
                .contains("params.shape[0]: 4 should be equal to indices.shape[0]: 1")
        );
    }

    #[test]
    fn nothing_is_checked_where_nothing_is_gathered() {
        assert_eq!(gather_v2(params(&[4, 0]), indices(&[7], &[1]), 0, 0).unwrap().shape().dims(), [1, 0]);
        assert!(gather_v2(params(&[0, 2]), indices(&[7], &[1]), 0, 0).is_err());
        assert_eq!(gather_v2(params(&[0, 2]), indices(&[], &[0]), 0, 0).unwrap().shape().dims(), [0, 2]);
    }

    fn run_gather_nd(params: Tensor, indices: Tensor) -> Result<Tensor> {
        let op = test_op("GatherNd")
            .with_shape_check()
            .attr("Tparams", params.dtype())
            .attr("Tindices", indices.dtype());
        op.input(params).input(indices).run_one()
    }

    #[test]
    fn gather_nd_takes_elements_rows_or_the_whole() {
        let elements = run_gather_nd(params(&[2, 2]), indices(&[0, 1, 1, 0], &[2, 2])).unwrap();
        assert_eq!(elements.as_slice::<f32>().unwrap(), [1.0, 2.0]);
        let rows = run_gather_nd(params(&[2, 2]), indices(&[1], &[1, 1])).unwrap();
        assert_eq!((rows.shape().dims(), rows.as_slice::<f32>().unwrap()), (&[1, 2][..], &[2.0, 3.0][..]));
        let whole = run_gather_nd(params(&[2]), indices(&[], &[2, 0])).unwrap();
        assert_eq!(whole.as_slice::<f32>().unwrap(), [0.0, 1.0, 0.0, 1.0]);
    }

    #[test]
    fn gather_nd_refuses_bad_coordinates() {
        let text =
            |dims: &[usize], by: Tensor| run_gather_nd(params(dims), by).unwrap_err().text().to_string();
        let bad = text(&[2, 2], indices(&[0, 1, 0, 5], &[1, 2, 2]));
        assert_eq!(bad, "indices[0,1] = [0, 5] does not index into param shape [2,2]");
        assert!(text(&[2, 2], indices(&[0, 1, 1], &[1, 3])).contains("saw: 3 vs. 2"));
        assert!(text(&[0, 2], indices(&[0], &[1, 1])).contains("params is empty"));
        assert!(text(&[2], indices(&[0], &[])).contains("at least a vector"));
    }

    proptest! {
        #[test]
        fn gathering_agrees_with_element_by_element_lookup(
            outer in 1usize..4, axis in 1usize..5, inner in 1usize..4, picks in prop::collection::vec(0usize..5, 0..6),
        ) {
            let from = params(&[outer, axis, inner]);
            let picks: Vec<usize> = picks.iter().map(|pick| pick % axis).collect();
            let by: Vec<i64> = picks.iter().map(|&pick| pick as i64).collect();
            let out = gather_v2(from.clone(), Tensor::vector(&by).unwrap(), 1, 0).unwrap();
            let elements = from.as_slice::<f32>().unwrap();
            let mut expected = Vec::new();
            for o in 0..outer {
                for &pick in &picks {
                    (0..inner).for_each(|i| expected.push(elements[(o * axis + pick) * inner + i]));
                }
            }
            prop_assert_eq!(out.as_slice::<f32>().unwrap(), &expected[..]);
        }
    }
}
