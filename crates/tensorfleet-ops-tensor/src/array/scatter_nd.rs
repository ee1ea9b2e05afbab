//! Writing slices by coordinate: ScatterNd, ScatterNdNonAliasingAdd, TensorScatterUpdate, -Add, -Sub, -Min, -Max.

use tensorfleet_core::{DType, Element, PartialShape, Result, Shape, Status, Tensor, ensure, memory};

use crate::strings::joined;

use super::axes::{integers, one};
use super::gather::{SliceIndices, check_bad_indices_policy};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, same_as_input};
use tensorfleet_kernel::work::elements_of_shape;
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::number::Number;
use tensorfleet_numeric::rearrange::{Movement, update};
use tensorfleet_threads::Loops;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("ScatterNd", "indices: Tindices, updates: T, shape: Tindices -> output: T").work(Work::Values(elements_of_shape::<2>)).gradient(scatter_nd_gradient)
        .attrs("T: type; Tindices: {int16, int32, int64}; bad_indices_policy: string = ''")
        .shape(scatter_nd_shape)
        .kernel(scatter_nd_kernel),
    Op::new("ScatterNdNonAliasingAdd", "input: T, indices: Tindices, updates: T -> output: T").work(Work::Inputs).gradient(scatter_add_gradient)
        .attrs("T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, qint16, quint16, uint16, complex128, half, uint32, uint64, bool}; Tindices: {int32, int64}; bad_indices_policy: string = ''")
        .shape(same_as_input)
        .kernel(|node| tensor_scatter_kernel(node, Combine::Add)),
    Op::new("TensorScatterUpdate", "tensor: T, indices: Tindices, updates: T -> output: T").work(Work::Inputs).gradient(scatter_update_gradient)
        .attrs("T: type; Tindices: {int16, int32, int64, uint16}; bad_indices_policy: string = ''")
        .shape(same_as_input)
        .kernel(|node| tensor_scatter_kernel(node, Combine::Set)),
    Op::new("TensorScatterAdd", "tensor: T, indices: Tindices, updates: T -> output: T").work(Work::Inputs).gradient(scatter_add_gradient)
        .attrs("T: type; Tindices: {int32, int64}; bad_indices_policy: string = ''")
        .shape(same_as_input)
        .kernel(|node| tensor_scatter_kernel(node, Combine::Add)),
    Op::new("TensorScatterSub", "tensor: T, indices: Tindices, updates: T -> output: T").work(Work::Inputs).gradient(scatter_sub_gradient)
        .attrs("T: type; Tindices: {int32, int64}; bad_indices_policy: string = ''")
        .shape(same_as_input)
        .kernel(|node| tensor_scatter_kernel(node, Combine::Subtract)),
    Op::new("TensorScatterMin", "tensor: T, indices: Tindices, updates: T -> output: T").work(Work::Inputs).gradient(scatter_extremum_gradient)
        .attrs("T: type; Tindices: {int32, int64}; bad_indices_policy: string = ''")
        .shape(same_as_input)
        .kernel(|node| tensor_scatter_kernel(node, Combine::Min)),
    Op::new("TensorScatterMax", "tensor: T, indices: Tindices, updates: T -> output: T").work(Work::Inputs).gradient(scatter_extremum_gradient)
        .attrs("T: type; Tindices: {int32, int64}; bad_indices_policy: string = ''")
        .shape(same_as_input)
        .kernel(|node| tensor_scatter_kernel(node, Combine::Max)),
];

/// What happens where an update meets an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Combine {
    Set,
    Add,
    Subtract,
    Min,
    Max,
}

/// `target` with `updates` combined into the slices that `indices` name; in place if nobody else holds it.
pub(crate) fn scatter_nd(
    loops: &Loops,
    target: Tensor,
    indices: &Tensor,
    updates: &Tensor,
    combine: Combine,
) -> Result<Tensor> {
    check_updates(target.shape(), indices.shape(), updates.shape())?;
    if updates.num_elements() == 0 {
        return Ok(target);
    }
    ensure!(
        target.num_elements() > 0,
        InvalidArgument,
        "Indices and updates specified for empty output.  indices shape: {}",
        indices.shape()
    );
    let found = SliceIndices::resolve(indices, target.shape(), "shape")?;
    match (combine, target.dtype()) {
        (Combine::Set, _) => update(loops, target, &[updates], &SetSlices(&found)),
        (Combine::Add, DType::String) => append_strings(&target, &found, updates),
        (Combine::Add, DType::Bool) => combine_slices::<bool>(target, &found, updates, |a, b| a | b),
        (Combine::Add, dtype) => {
            dispatch!(dtype, T in numeric => combine_slices::<T>(target, &found, updates, T::plus))
        }
        (Combine::Subtract, dtype) => {
            dispatch!(dtype, T in numeric => combine_slices::<T>(target, &found, updates, T::minus))
        }
        (Combine::Min, dtype) => {
            dispatch!(dtype, T in real => combine_slices::<T>(target, &found, updates, |a, b| if b < a { b } else { a }))
        }
        (Combine::Max, dtype) => {
            dispatch!(dtype, T in real => combine_slices::<T>(target, &found, updates, |a, b| if b > a { b } else { a }))
        }
    }
}

fn check_updates(target: &Shape, indices: &Shape, updates: &Shape) -> Result<()> {
    let Some((&depth, outer)) = indices.split_last() else {
        return Err(Status::invalid_argument("indices must be at least a vector"));
    };
    ensure!(
        updates.rank() >= outer.len() && updates[..outer.len()] == *outer,
        InvalidArgument,
        "Dimensions [0,{}) of indices[shape={indices}] must match dimensions [0,{}) of updates[shape={updates}]",
        outer.len(),
        outer.len()
    );
    ensure!(
        depth <= target.rank() && target[depth..] == updates[outer.len()..],
        InvalidArgument,
        "Dimensions [{depth},{}) of input[shape={target}] must match dimensions [{},{}) of updates[shape={updates}]",
        target.rank(),
        outer.len(),
        updates.rank()
    );
    Ok(())
}

struct SetSlices<'a>(&'a SliceIndices);

impl Movement for SetSlices<'_> {
    fn run<T: Element>(&self, _: &Loops, sources: &[&[T]], out: &mut [T]) -> Result<()> {
        let &[updates] = sources else { return Err(Status::internal("one tensor holds the updates")) };
        let len = self.0.slice_len;
        for (&slice, row) in self.0.slices.iter().zip(updates.chunks_exact(len)) {
            out[slice * len..][..len].copy_from_slice(row);
        }
        Ok(())
    }
}

fn combine_slices<T: Element>(
    mut target: Tensor,
    found: &SliceIndices,
    updates: &Tensor,
    combine: impl Fn(T, T) -> T,
) -> Result<Tensor> {
    let updates = updates.as_slice::<T>()?;
    let out = target.make_mut::<T>()?;
    let len = found.slice_len;
    for (&slice, row) in found.slices.iter().zip(updates.chunks_exact(len)) {
        for (out, &element) in out[slice * len..][..len].iter_mut().zip(row) {
            *out = combine(*out, element);
        }
    }
    Ok(target)
}

/// The sum of strings is one after the other.
fn append_strings(target: &Tensor, found: &SliceIndices, updates: &Tensor) -> Result<Tensor> {
    let mut strings = memory::copy_of(target.as_strings()?)?;
    let len = found.slice_len;
    let mut grown = 0usize;
    for (&slice, row) in found.slices.iter().zip(updates.as_strings()?.chunks_exact(len)) {
        for (out, text) in strings[slice * len..][..len].iter_mut().zip(row) {
            *out = joined([&out[..], &text[..]].into_iter(), b"")?;
            grown = grown.saturating_add(out.len());
        }
        // They are charged when they are a tensor; until then, what all of them take must fit.
        memory::check_fits(grown)?;
    }
    Tensor::from_strings(strings, target.shape())
}

fn scatter_nd_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(2, 1)?;
    one(ctx.shape_value(2)?)
}

fn scatter_nd_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    check_bad_indices_policy(node)?;
    Ok(KernelBox::from_fn(|ctx| {
        let (indices, updates, sizes) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
        ensure!(sizes.shape().rank() == 1, InvalidArgument, "Shape must be a vector, got {}", sizes.shape());
        let target = Tensor::zeros(updates.dtype(), Shape::from_signed(&integers(sizes)?)?)?;
        let tensor = scatter_nd(ctx.loops(), target, indices, updates, Combine::Add)?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

fn tensor_scatter_kernel(node: &NodeSpec<'_>, combine: Combine) -> Result<KernelBox> {
    check_bad_indices_policy(node)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let target = ctx.take_input(0)?;
        let tensor = scatter_nd(ctx.loops(), target, ctx.input(1)?, ctx.input(2)?, combine)?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

fn scatter_nd_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, indices) = (d.dy(0)?, d.input(0)?);
    let updates = d.op("GatherNd", [dy, indices])?;
    d.only(1, updates)
}

fn scatter_add_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, indices) = (d.dy(0)?, d.input(1)?);
    let updates = d.op("GatherNd", [dy, indices])?;
    d.several([(0, dy), (2, updates)])
}

fn scatter_sub_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, indices) = (d.dy(0)?, d.input(1)?);
    let updates = d.op("GatherNd", [dy, indices])?;
    let updates = d.op("Neg", [updates])?;
    d.several([(0, dy), (2, updates)])
}

fn scatter_update_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, indices) = (d.dy(0)?, d.input(1)?);
    let updates = d.op("GatherNd", [dy, indices])?;
    let zeros = d.op("ZerosLike", [updates])?;
    let kept = d.op("TensorScatterUpdate", [dy, indices, zeros])?;
    d.several([(0, kept), (2, updates)])
}

/// What arrives is shared by all who reached the extremum.
fn scatter_extremum_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, x, indices, updates, y) = (d.dy(0)?, d.input(0)?, d.input(1)?, d.input(2)?, d.output(0));
    let dtype = d.dtype(dy)?;
    let index = d.dtype(indices)?;
    let kept = d.op("Equal", [x, y])?;
    let kept = d.cast(kept, dtype)?;
    let reached = d.op("GatherNd", [y, indices])?;
    let reached = d.op("Equal", [updates, reached])?;
    let reached = d.cast(reached, dtype)?;
    let shape = d.shape_as(x, index)?;
    let winners = d.op("ScatterNd", [indices, reached, shape])?;
    let winners = d.op("AddV2", [winners, kept])?;
    let share = d.op("RealDiv", [dy, winners])?;
    let dx = d.op("Mul", [share, kept])?;
    let share = d.op("GatherNd", [share, indices])?;
    let updates = d.op("Mul", [share, reached])?;
    d.several([(0, dx), (2, updates)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use tensorfleet_core::Code;

    fn column(indices: &[i32]) -> Tensor {
        Tensor::from_slice(indices, &[indices.len(), 1]).unwrap()
    }

    fn scatter(indices: Tensor, updates: Tensor, shape: &[i32]) -> Result<Tensor> {
        let op =
            test_op("ScatterNd").with_shape_check().attr("T", updates.dtype()).attr("Tindices", DType::Int32);
        op.input(indices).input(updates).input(Tensor::vector(shape).unwrap()).run_one()
    }

    #[test]
    fn repeated_indices_add_up() {
        let out = scatter(column(&[1, 3, 1]), Tensor::vector(&[1.0f32, 2.0, 3.0]).unwrap(), &[4]).unwrap();
        assert_eq!(out.as_slice::<f32>().unwrap(), [0.0, 4.0, 0.0, 2.0]);
        let words = Tensor::from_strings(vec!["a".into(), "b".into()], &[2]).unwrap();
        assert_eq!(scatter(column(&[1, 1]), words, &[2]).unwrap().as_strings().unwrap(), ["", "ab"]);
        let bits = Tensor::vector(&[true, false]).unwrap();
        assert_eq!(scatter(column(&[1, 1]), bits, &[2]).unwrap().as_slice::<bool>().unwrap(), [false, true]);
        let rows = Tensor::from_slice(&[1i32, 2], &[1, 2]).unwrap();
        assert_eq!(scatter(column(&[1]), rows, &[2, 2]).unwrap().as_slice::<i32>().unwrap(), [0, 0, 1, 2]);
        let none = Tensor::from_slice::<i32>(&[], &[0, 1]).unwrap();
        let out = scatter(none, Tensor::vector::<f32>(&[]).unwrap(), &[2]).unwrap();
        assert_eq!(out.as_slice::<f32>().unwrap(), [0.0, 0.0]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let one = || Tensor::vector(&[1.0f32]).unwrap();
        let text = |indices: Tensor, updates: Tensor, shape: &[i32]| {
            let status = scatter(indices, updates, shape).unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            status.text().to_string()
        };
        assert_eq!(text(column(&[7]), one(), &[4]), "indices[0] = [7] does not index into shape [4]");
        assert_eq!(text(column(&[-1]), one(), &[4]), "indices[0] = [-1] does not index into shape [4]");
        assert!(
            text(column(&[1, 2]), one(), &[4]).contains("must match dimensions [0,1) of updates[shape=[1]]")
        );
        assert!(text(column(&[0]), one(), &[0]).contains("specified for empty output"));
        let deep = Tensor::from_slice(&[1i32, 1, 1], &[1, 3]).unwrap();
        assert!(text(deep, one(), &[4]).contains("Dimensions [3,1) of input[shape=[4]]"));
    }

    #[test]
    fn a_tensor_is_updated_without_touching_others_that_share_it() {
        let run = |op: &str| {
            let target = Tensor::vector(&[1i64, 5, 9]).unwrap();
            let op = test_op(op).with_shape_check().attr("T", DType::Int64).attr("Tindices", DType::Int32);
            let op = op.input(target.clone()).input(column(&[0, 2, 0]));
            let out = op.input(Tensor::vector(&[4i64, 2, 3]).unwrap()).run_one().unwrap();
            assert_eq!(target.as_slice::<i64>().unwrap(), [1, 5, 9]);
            out.as_slice::<i64>().unwrap().to_vec()
        };
        assert_eq!(run("TensorScatterUpdate"), [3, 5, 2]);
        assert_eq!(run("TensorScatterAdd"), [8, 5, 11]);
        assert_eq!(run("TensorScatterSub"), [-6, 5, 7]);
        assert_eq!(run("TensorScatterMin"), [1, 5, 2]);
        assert_eq!(run("TensorScatterMax"), [4, 5, 9]);
    }
}
