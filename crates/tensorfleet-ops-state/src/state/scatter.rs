//! Updating some slices of a variable: `Scatter*` by row, `ScatterNd*` by coordinates, and slices by stride.
//!
//! Updates are applied one after another, so repeated indices add up (or the last one stays). Like TensorFlow, a bad
//! index ends the op with an error after the updates before it have been made.

use tensorfleet_core::{Element, Result, Shape, Status, Tensor, bail, ensure, memory};

use super::naming::no_outputs;
use super::resource_variable_ops::variable_to_update;
use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{integers_of, same_as_input};
use tensorfleet_numeric::number::Number;
use tensorfleet_numeric::rearrange::{self, Movement};
use tensorfleet_ops_tensor::array::gather::check_bad_indices_policy;
use tensorfleet_ops_tensor::array::indices::coordinates;
use tensorfleet_ops_tensor::array::slice::assign_slice;
use tensorfleet_ops_tensor::array::slice_spec::{Bounds, SliceSpec};
use tensorfleet_threads::Loops;

/// What happens where an update meets the old value.
#[derive(Clone, Copy)]
enum Combine {
    Update,
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
}

const REF: &str = "ref: Ref(T), indices: Tindices, updates: T -> output_ref: Ref(T)";
const RESOURCE: &str = "resource: resource, indices: Tindices, updates: dtype";
const RESOURCE_ND: &str = "ref: resource, indices: Tindices, updates: T";

const fn by_row(name: &'static str, attrs: &'static str) -> Op {
    Op::new(name, REF).work(Work::Inputs).attrs(attrs).touches_rows().writes_variable().shape(same_as_input)
}

const fn resource_by_row(name: &'static str, attrs: &'static str) -> Op {
    let op = Op::new(name, RESOURCE).work(Work::Inputs).attrs(attrs).touches_rows();
    op.writes_variable().stateful().shape(no_outputs)
}

const ANY: &str = "T: type; Tindices: {int32, int64}; use_locking: bool = true";
const NUMBER: &str = "T: number; Tindices: {int32, int64}; use_locking: bool = false";
const ORDERED: &str =
    "T: {half, bfloat16, float, double, int32, int64}; Tindices: {int32, int64}; use_locking: bool = false";
const ANY_ND: &str =
    "T: type; Tindices: {int32, int64}; use_locking: bool = true; bad_indices_policy: string = ''";
const NUMBER_ND: &str =
    "T: number; Tindices: {int32, int64}; use_locking: bool = false; bad_indices_policy: string = ''";
const RESOURCE_ANY: &str = "dtype: type; Tindices: {int32, int64}";
const RESOURCE_NUMBER: &str = "dtype: number; Tindices: {int32, int64}";
const SLICE_ATTRS: &str = "T: type; Index: {int32, int64}; begin_mask: int = 0; end_mask: int = 0; \
                           ellipsis_mask: int = 0; new_axis_mask: int = 0; shrink_axis_mask: int = 0";

const fn by_coordinates(name: &'static str, attrs: &'static str) -> Op {
    Op::new(name, REF).work(Work::Inputs).attrs(attrs).touches_rows().writes_variable().shape(same_as_input)
}

const fn resource_by_coordinates(name: &'static str) -> Op {
    let op = Op::new(name, RESOURCE_ND).work(Work::Inputs).attrs(ANY_ND).touches_rows();
    op.writes_variable().stateful().shape(no_outputs)
}

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    by_row("ScatterUpdate", ANY).kernel(|_| rows(Combine::Update)),
    by_row("ScatterAdd", NUMBER).not_differentiable().kernel(|_| rows(Combine::Add)),
    by_row("ScatterSub", NUMBER).not_differentiable().kernel(|_| rows(Combine::Sub)),
    by_row("ScatterMul", NUMBER).not_differentiable().kernel(|_| rows(Combine::Mul)),
    by_row("ScatterDiv", NUMBER).not_differentiable().kernel(|_| rows(Combine::Div)),
    by_row("ScatterMin", ORDERED).kernel(|_| rows(Combine::Min)),
    by_row("ScatterMax", ORDERED).kernel(|_| rows(Combine::Max)),
    resource_by_row("ResourceScatterUpdate", RESOURCE_ANY).kernel(|_| rows(Combine::Update)),
    resource_by_row("ResourceScatterAdd", RESOURCE_NUMBER).kernel(|_| rows(Combine::Add)),
    resource_by_row("ResourceScatterSub", RESOURCE_NUMBER).kernel(|_| rows(Combine::Sub)),
    resource_by_row("ResourceScatterMul", RESOURCE_NUMBER).kernel(|_| rows(Combine::Mul)),
    resource_by_row("ResourceScatterDiv", RESOURCE_NUMBER).kernel(|_| rows(Combine::Div)),
    resource_by_row("ResourceScatterMin", RESOURCE_NUMBER).kernel(|_| rows(Combine::Min)),
    resource_by_row("ResourceScatterMax", RESOURCE_NUMBER).kernel(|_| rows(Combine::Max)),
    by_coordinates("ScatterNdUpdate", ANY_ND)
        .not_differentiable()
        .kernel(|node| slices(node, Combine::Update)),
    by_coordinates("ScatterNdAdd", NUMBER_ND).not_differentiable().kernel(|node| slices(node, Combine::Add)),
    by_coordinates("ScatterNdSub", NUMBER_ND).not_differentiable().kernel(|node| slices(node, Combine::Sub)),
    by_coordinates("ScatterNdMin", NUMBER_ND).kernel(|node| slices(node, Combine::Min)),
    by_coordinates("ScatterNdMax", NUMBER_ND).kernel(|node| slices(node, Combine::Max)),
    resource_by_coordinates("ResourceScatterNdUpdate").kernel(|node| slices(node, Combine::Update)),
    resource_by_coordinates("ResourceScatterNdAdd").kernel(|node| slices(node, Combine::Add)),
    resource_by_coordinates("ResourceScatterNdSub").kernel(|node| slices(node, Combine::Sub)),
    resource_by_coordinates("ResourceScatterNdMin").kernel(|node| slices(node, Combine::Min)),
    resource_by_coordinates("ResourceScatterNdMax").kernel(|node| slices(node, Combine::Max)),
    Op::new(
        "StridedSliceAssign",
        "ref: Ref(T), begin: Index, end: Index, strides: Index, value: T -> output_ref: Ref(T)",
    )
    .work(Work::Inputs)
    .attrs(SLICE_ATTRS)
    .writes_variable()
    .shape(same_as_input)
    .kernel(strided_slice_assign),
    Op::new(
        "ResourceStridedSliceAssign",
        "ref: resource, begin: Index, end: Index, strides: Index, value: T",
    )
    .work(Work::Inputs)
    .attrs(SLICE_ATTRS)
    .writes_variable()
    .stateful()
    .shape(no_outputs)
    .kernel(strided_slice_assign),
];

/// Which slices of a value are updated.
struct Targets {
    /// The number of each slice, in the order of the updates, up to the first bad index.
    slices: Vec<usize>,
    slice_len: usize,
    /// Whether there is one element for all slices instead of a slice for each.
    is_single: bool,
    /// The error for the first bad index.
    bad: Option<Status>,
}

/// Changes the variable in input 0 and hands a reference on.
fn change_variable(ctx: &mut Context<'_>, change: impl FnOnce(&mut Tensor) -> Result<()>) -> Result<()> {
    let variable = variable_to_update(ctx, 0)?;
    variable.update(change)?;
    if !ctx.outputs.is_empty() {
        ctx.set_ref_output(0, variable);
    }
    Ok(())
}

fn rows(combine: Combine) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(move |ctx| {
        let (indices, updates) = (ctx.take_input(1)?, ctx.take_input(2)?);
        let loops = ctx.loops();
        change_variable(ctx, |value| {
            check_dtype(value, &updates)?;
            let targets = row_targets(value.shape(), &indices, &updates)?;
            apply(loops, value, targets, &updates, combine)
        })
    }))
}

fn check_dtype(value: &Tensor, updates: &Tensor) -> Result<()> {
    ensure!(
        value.dtype() == updates.dtype(),
        InvalidArgument,
        "DType of scatter resource and updates does not match: {} and {}",
        value.dtype(),
        updates.dtype()
    );
    Ok(())
}

fn row_targets(value: &Shape, indices: &Tensor, updates: &Tensor) -> Result<Targets> {
    let Some((&limit, row)) = value.split_first() else {
        return Err(Status::invalid_argument(format!("params must be at least 1-D, got shape {value}")));
    };
    let whole = updates.shape().strip_prefix(indices.shape().dims()).is_some_and(|rest| rest == row);
    ensure!(
        whole || updates.is_scalar(),
        InvalidArgument,
        "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got updates.shape {}, \
         indices.shape {}, params.shape {value}",
        updates.shape(),
        indices.shape()
    );
    let numbers = integers_of(indices)?;
    let bad = numbers.iter().position(|&index| index as u64 >= limit as u64);
    let good = &numbers[..bad.unwrap_or(numbers.len())];
    let slices = memory::collect(good.iter().map(|&index| index as usize))?;
    let bad = bad.map(|position| {
        let place = coordinates(indices.shape(), position);
        Status::invalid_argument(format!("indices{place} = {} is not in [0, {limit})", numbers[position]))
    });
    Ok(Targets { slices, slice_len: row.iter().product(), is_single: !whole, bad })
}

fn slices(node: &NodeSpec<'_>, combine: Combine) -> Result<KernelBox> {
    check_bad_indices_policy(node)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let (indices, updates) = (ctx.take_input(1)?, ctx.take_input(2)?);
        let loops = ctx.loops();
        change_variable(ctx, |value| {
            check_dtype(value, &updates)?;
            let targets = coordinate_targets(value.shape(), &indices, &updates)?;
            apply(loops, value, targets, &updates, combine)
        })
    }))
}

fn coordinate_targets(value: &Shape, indices: &Tensor, updates: &Tensor) -> Result<Targets> {
    let Some((&depth, outer)) = indices.shape().split_last() else {
        return Err(Status::invalid_argument("indices must be at least a vector, got a scalar"));
    };
    ensure!(
        depth <= value.rank(),
        InvalidArgument,
        "The inner dimension of indices {} is {depth}, more than the rank of input[shape={value}]",
        indices.shape()
    );
    let found = updates.shape();
    ensure!(
        found.get(..outer.len()) == Some(outer),
        InvalidArgument,
        "Dimensions [0,{0}) of indices[shape={1}] must match dimensions [0,{0}) of updates[shape={found}]",
        outer.len(),
        indices.shape()
    );
    ensure!(
        found[outer.len()..] == value[depth..],
        InvalidArgument,
        "Dimensions [{depth},{}) of input[shape={value}] must match dimensions [{},{}) of updates[shape={found}]",
        value.rank(),
        outer.len(),
        found.rank()
    );
    let slice_len = value[depth..].iter().product();
    let numbers = integers_of(indices)?;
    let mut targets = Targets { slices: Vec::new(), slice_len, is_single: false, bad: None };
    if depth == 0 {
        // Every empty coordinate names the whole.
        ensure!(
            slice_len > 0 || updates.num_elements() == 0,
            Internal,
            "updates of an empty variable are empty"
        );
        let count = updates.num_elements().checked_div(slice_len).unwrap_or(0);
        targets.slices = memory::vec_of(0, count)?;
        return Ok(targets);
    }
    targets.slices = memory::vec_with_room(numbers.len() / depth)?;
    for (position, coordinate) in numbers.chunks_exact(depth).enumerate() {
        if coordinate.iter().zip(value.iter()).any(|(&index, &dim)| index as u64 >= dim as u64) {
            let place = coordinates(outer, position);
            let shown = coordinate.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
            targets.bad = Some(Status::invalid_argument(format!(
                "indices{place} = [{shown}] does not index into shape {value}"
            )));
            break;
        }
        let slice =
            coordinate.iter().zip(value.iter()).fold(0, |slice, (&index, &dim)| slice * dim + index as usize);
        targets.slices.push(slice);
    }
    Ok(targets)
}

/// Makes the updates up to the first bad index, then reports that.
fn apply(
    loops: &Loops,
    value: &mut Tensor,
    targets: Targets,
    updates: &Tensor,
    combine: Combine,
) -> Result<()> {
    let dtype = value.dtype();
    match combine {
        Combine::Update => {
            change_in_place(value, |value| rearrange::update(loops, value, &[updates], &targets))?
        }
        Combine::Add => {
            tensorfleet_numeric::dispatch!(dtype, T in numeric => fold::<T>(value, &targets, updates, T::plus))?
        }
        Combine::Sub => {
            tensorfleet_numeric::dispatch!(dtype, T in numeric => fold::<T>(value, &targets, updates, T::minus))?
        }
        Combine::Mul => {
            tensorfleet_numeric::dispatch!(dtype, T in numeric => fold::<T>(value, &targets, updates, T::times))?
        }
        Combine::Div => tensorfleet_numeric::dispatch!(dtype, T in numeric => {
            let zero = T::default();
            let defined = !dtype.is_integer() || updates.as_slice::<T>()?.iter().all(|&divisor| divisor != zero);
            if !defined {
                bail!(InvalidArgument, "Integer division by zero");
            }
            fold::<T>(value, &targets, updates, |x, y| x.checked_quotient(y).unwrap_or(x))
        })?,
        Combine::Min => {
            tensorfleet_numeric::dispatch!(dtype, T in real => fold::<T>(value, &targets, updates, smaller))?
        }
        Combine::Max => {
            tensorfleet_numeric::dispatch!(dtype, T in real => fold::<T>(value, &targets, updates, larger))?
        }
    }
    targets.bad.map_or(Ok(()), Err)
}

/// The smaller of two; `x` if they cannot be compared.
fn smaller<T: PartialOrd>(x: T, y: T) -> T {
    if y < x { y } else { x }
}

/// The larger of two; `x` if they cannot be compared.
fn larger<T: PartialOrd>(x: T, y: T) -> T {
    if y > x { y } else { x }
}

/// Combines each slice with its update.
fn fold<T: Element>(
    value: &mut Tensor,
    targets: &Targets,
    updates: &Tensor,
    with: impl Fn(T, T) -> T,
) -> Result<()> {
    let updates = updates.as_slice::<T>()?;
    targets.for_each(value.make_mut::<T>()?, updates, |slice, update| match update {
        Update::Slice(update) => slice.iter_mut().zip(update).for_each(|(x, &y)| *x = with(*x, y)),
        Update::Single(update) => slice.iter_mut().for_each(|x| *x = with(*x, update)),
    });
    Ok(())
}

enum Update<'a, T> {
    Slice(&'a [T]),
    Single(T),
}

impl Targets {
    /// Visits each slice of `value` with its update, in order. The shapes have been checked.
    fn for_each<T: Copy>(
        &self,
        value: &mut [T],
        updates: &[T],
        mut visit: impl FnMut(&mut [T], Update<'_, T>),
    ) {
        let len = self.slice_len;
        for (number, &slice) in self.slices.iter().enumerate() {
            let slice = &mut value[slice * len..(slice + 1) * len];
            visit(
                slice,
                match (self.is_single, updates.first()) {
                    (true, Some(&update)) => Update::Single(update),
                    _ => Update::Slice(&updates[number * len..(number + 1) * len]),
                },
            );
        }
    }
}

/// Puts the updates in place of the slices.
impl Movement for Targets {
    fn run<T: Element>(&self, _: &Loops, sources: &[&[T]], out: &mut [T]) -> Result<()> {
        let Some(&updates) = sources.first() else { return Ok(()) };
        self.for_each(out, updates, |slice, update| match update {
            Update::Slice(update) => slice.copy_from_slice(update),
            Update::Single(update) => slice.fill(update),
        });
        Ok(())
    }
}

/// Runs a change that takes the tensor by value; `change` does not fail on memory that it may write. If others hold
/// the tensor, it is left to them.
fn change_in_place(value: &mut Tensor, change: impl FnOnce(Tensor) -> Result<Tensor>) -> Result<()> {
    if !value.is_unique() {
        *value = change(value.clone())?;
        return Ok(());
    }
    let taken = std::mem::replace(value, Tensor::scalar(0u8));
    *value = change(taken)?;
    Ok(())
}

fn strided_slice_assign(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = SliceSpec::from_attrs(|name| node.attr(name))?;
    Ok(KernelBox::from_fn(move |ctx| {
        let bounds = Bounds::of(ctx.input(1)?, ctx.input(2)?, ctx.input(3)?)?;
        let part = ctx.take_input(4)?;
        let loops = ctx.loops();
        change_variable(ctx, |value| {
            check_dtype(value, &part)?;
            // Refuse what does not fit while the value is still whole.
            let slice = spec.resolve(value.shape(), &bounds)?;
            ensure!(
                slice.shape == *part.shape(),
                InvalidArgument,
                "Must have shape {} to be assigned to the slice, got {}",
                slice.shape,
                part.shape()
            );
            change_in_place(value, |value| assign_slice(loops, value, &spec, &bounds, &part))
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use proptest::prelude::*;
    use std::sync::Arc;
    use tensorfleet_core::{Code, DType};
    use tensorfleet_kernel::variable::Variable;

    fn variable(value: Tensor) -> Arc<Variable> {
        let variable = Arc::new(Variable::new("v", value.dtype()));
        variable.assign(value);
        variable
    }

    fn scatter(op: &str, v: &Arc<Variable>, indices: Tensor, updates: Tensor) -> Result<Tensor> {
        let op = test_op(op).attr("T", v.dtype()).attr("Tindices", indices.dtype());
        op.variable(v).input(indices).input(updates).run_one()
    }

    fn ones() -> Arc<Variable> {
        variable(Tensor::from_slice(&[1.0f32; 6], &[3, 2]).unwrap())
    }

    fn floats(values: &[f32], dims: &[usize]) -> Tensor {
        Tensor::from_slice(values, dims).unwrap()
    }

    fn indices(values: &[i32]) -> Tensor {
        Tensor::vector(values).unwrap()
    }

    #[test]
    fn repeated_indices_apply_one_after_another() {
        let v = ones();
        let out =
            scatter("ScatterAdd", &v, indices(&[0, 0]), floats(&[1.0, 1.0, 2.0, 2.0], &[2, 2])).unwrap();
        assert_eq!(out.as_slice::<f32>().unwrap(), [4.0, 4.0, 1.0, 1.0, 1.0, 1.0]);
        scatter("ScatterUpdate", &v, indices(&[2, 2]), floats(&[5.0, 6.0, 7.0, 8.0], &[2, 2])).unwrap();
        assert_eq!(v.read().unwrap().as_slice::<f32>().unwrap()[4..], [7.0, 8.0]);
        scatter("ScatterMul", &v, indices(&[1, 2]), Tensor::scalar(3.0f32)).unwrap();
        scatter("ScatterMax", &v, indices(&[0]), floats(&[9.0, 0.0], &[1, 2])).unwrap();
        assert_eq!(v.read().unwrap().as_slice::<f32>().unwrap(), [9.0, 4.0, 3.0, 3.0, 21.0, 24.0]);
    }

    #[test]
    fn a_bad_index_fails_after_the_updates_before_it() {
        let v = ones();
        let status = scatter("ScatterAdd", &v, indices(&[0, 3, 1]), Tensor::scalar(1.0f32)).unwrap_err();
        assert_eq!(
            (status.code(), status.text()),
            (Code::InvalidArgument, "indices[1] = 3 is not in [0, 3)")
        );
        assert_eq!(v.read().unwrap().as_slice::<f32>().unwrap(), [2.0, 2.0, 1.0, 1.0, 1.0, 1.0]);
        let coordinates = Tensor::from_slice(&[0i32, 1, 0, -1], &[2, 2]).unwrap();
        let status = scatter("ScatterNdAdd", &v, coordinates, floats(&[1.0, 2.0], &[2])).unwrap_err();
        assert_eq!(status.text(), "indices[1] = [0, -1] does not index into shape [3,2]");
        assert_eq!(v.read().unwrap().as_slice::<f32>().unwrap()[..2], [2.0, 3.0]);
        let rows = floats(&[5.0, 6.0, 7.0, 8.0, 9.0, 9.0], &[3, 2]);
        for op in ["ScatterUpdate", "ScatterMin"] {
            let v = ones();
            scatter(op, &v, indices(&[1, 2, 9]), rows.clone()).unwrap_err();
            let expected = if op == "ScatterUpdate" { [5.0, 6.0, 7.0, 8.0] } else { [1.0; 4] };
            assert_eq!(v.read().unwrap().as_slice::<f32>().unwrap()[2..], expected);
        }
    }

    #[test]
    fn shapes_must_fit() {
        let v = ones();
        let status = scatter("ScatterAdd", &v, indices(&[0]), floats(&[1.0, 1.0], &[2])).unwrap_err();
        assert!(status.text().starts_with("Must have updates.shape = indices.shape + params.shape[1:]"));
        let rows = Tensor::from_slice(&[0i32, 2], &[2, 1]).unwrap();
        let status = scatter("ScatterNdUpdate", &v, rows.clone(), floats(&[1.0, 1.0], &[2])).unwrap_err();
        assert!(status.text().starts_with("Dimensions [1,2) of input[shape=[3,2]] must match"));
        scatter("ScatterNdUpdate", &v, rows, floats(&[5.0, 6.0, 7.0, 8.0], &[2, 2])).unwrap();
        assert_eq!(v.read().unwrap().as_slice::<f32>().unwrap(), [5.0, 6.0, 1.0, 1.0, 7.0, 8.0]);
        let status = scatter("ScatterNdAdd", &v, Tensor::scalar(0i32), floats(&[], &[0])).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
    }

    #[test]
    fn integers_divided_by_zero_are_refused_and_strings_can_be_replaced() {
        let v = variable(indices(&[7, -7]));
        let status = scatter("ScatterDiv", &v, indices(&[0]), indices(&[0])).unwrap_err();
        assert_eq!((status.code(), status.text()), (Code::InvalidArgument, "Integer division by zero"));
        scatter("ScatterDiv", &v, indices(&[0, 1]), Tensor::scalar(2i32)).unwrap();
        assert_eq!(v.read().unwrap().as_slice::<i32>().unwrap(), [3, -3]);
        let words = |a: &'static str, b: &'static str| Tensor::from_strings(vec![a.into(), b.into()], &[2]);
        let v = variable(words("a", "b").unwrap());
        scatter("ScatterUpdate", &v, indices(&[1]), Tensor::from_strings(vec!["c".into()], &[1]).unwrap())
            .unwrap();
        assert_eq!(v.read().unwrap().as_strings().unwrap(), ["a", "c"]);
    }

    #[test]
    fn a_slice_is_assigned_or_the_value_stays_whole() {
        let v = variable(floats(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], &[2, 3]));
        let assign = |part: Tensor| {
            let op = test_op("StridedSliceAssign").attr("T", DType::Float).attr("Index", DType::Int32);
            let op = op.attr("end_mask", 1i64).attr("shrink_axis_mask", 2i64).variable(&v);
            op.input(indices(&[0, 2])).input(indices(&[0, 3])).input(indices(&[1, 1])).input(part).run_one()
        };
        assert_eq!(assign(floats(&[1.0], &[1])).unwrap_err().code(), Code::InvalidArgument);
        let out = assign(floats(&[9.0, 8.0], &[2])).unwrap();
        assert_eq!(out.as_slice::<f32>().unwrap(), [0.0, 1.0, 9.0, 3.0, 4.0, 8.0]);
    }

    proptest! {
        #[test]
        fn scattering_is_a_loop_over_rows(
            rows in proptest::collection::vec(0i64..5, 0..12),
            width in 0usize..4,
            updates in proptest::collection::vec(any::<i32>(), 48),
        ) {
            let mut expected = vec![1i32; 5 * width];
            for (number, &row) in rows.iter().enumerate() {
                for column in 0..width {
                    let x = &mut expected[row as usize * width + column];
                    *x = x.wrapping_sub(updates[number * width + column]);
                }
            }
            let v = variable(Tensor::from_slice(&vec![1i32; 5 * width], &[5, width]).unwrap());
            let updates = Tensor::from_slice(&updates[..rows.len() * width], &[rows.len(), width]).unwrap();
            let out = scatter("ScatterSub", &v, Tensor::vector(&rows).unwrap(), updates).unwrap();
            prop_assert_eq!(out.as_slice::<i32>().unwrap(), &expected[..]);
        }
    }
}
