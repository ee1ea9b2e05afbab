//! The frame of every optimizer kernel: read the numbers, check everything, then sweep a rule over the elements.
//!
//! A rule is a function from (variable, slots…, gradient) to (variable, slots…), element by element. The same
//! rule serves an op's four forms: reference or resource variables, dense gradients or rows of a sparse one. One
//! pass reads and writes each array once, so that an update runs at the speed of memory.

use smallvec::SmallVec;
use tensorfleet_core::{DType, Element, PartialShape, Result, Shape, Status, Tensor, bail, ensure, memory};

use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::shape_context::{ShapeContext, integers_of};
use tensorfleet_kernel::signature::{Arg, ArgTypes};
use tensorfleet_numeric::number::Field;
use tensorfleet_numeric::simd::{ROWS_AHEAD, expect_row};
use tensorfleet_numeric::stored::Stored;
use tensorfleet_threads::Loops;

use super::slots::Slots;

/// Estimated cost of one element, in hundredths of a nanosecond: updates wait for memory.
const CENTI_NS_PER_ELEMENT: usize = 40;

/// Which input of an update op is what.
#[derive(Clone)]
struct Layout {
    slots: usize,
    gradient: usize,
    indices: Option<usize>,
    scalars: Vec<(usize, String)>,
}

impl Layout {
    fn of(node: &NodeSpec<'_>) -> Result<Layout> {
        let mut layout = Layout { slots: 0, gradient: 0, indices: None, scalars: Vec::new() };
        for (index, arg) in node.signature()?.inputs.iter().enumerate() {
            match arg.name.as_str() {
                _ if is_variable(arg) => layout.slots += 1,
                "grad" | "delta" => layout.gradient = index,
                "indices" => layout.indices = Some(index),
                name => layout.scalars.push((index, name.to_string())),
            }
        }
        Ok(layout)
    }

    /// The values of the scalar inputs, in the order of the signature.
    fn numbers<T: Field>(&self, ctx: &Context<'_>) -> Result<SmallVec<[T; 6]>> {
        let number = |(index, name): &(usize, String)| {
            let tensor = ctx.input(*index)?;
            ensure!(tensor.is_scalar(), InvalidArgument, "{name} is not a scalar: {}", tensor.shape());
            Ok(match tensor.dtype() {
                DType::Int64 => T::constant(tensor.to_scalar::<i64>()? as f64),
                _ => tensor.to_scalar()?,
            })
        };
        self.scalars.iter().map(number).collect()
    }
}

fn is_variable(arg: &Arg) -> bool {
    arg.is_ref || matches!(arg.types, ArgTypes::Fixed(DType::Resource))
}

/// An update of slices of one length: the variable, its slots, and the gradient.
type Sweep<T, const N: usize> = Box<dyn Fn([&mut [T]; N], &[T]) + Send + Sync>;
/// The update that an op's scalars make, given in the order of its signature.
type SweepOf<T, const N: usize> = Box<dyn Fn(&[T]) -> Result<Sweep<T, N>> + Send + Sync>;

/// Makes the kernel of an update op. `rule` gets the op's scalars in the order of its signature and returns the
/// step of one element: `([variable, slots…], gradient) -> [variable, slots…]`.
///
/// Of what is compiled, only the loop over slices depends on the rule; all else exists once per dtype and number of slots.
pub(super) fn update_kernel<T, const N: usize, const K: usize, R, S>(
    node: &NodeSpec<'_>,
    rule: R,
) -> Result<KernelBox>
where
    T: Field + Stored,
    R: Fn([T; K]) -> S + Send + Sync + 'static,
    S: Fn([T; N], T) -> [T; N] + Send + Sync + 'static,
    [T; N]: Lockstep<T, N>,
{
    let sweep_of = move |numbers: &[T]| {
        let numbers = numbers.try_into().map_err(|_| Status::internal("a rule has its op's scalars"))?;
        let step = rule(numbers);
        let sweep: Sweep<T, N> = Box::new(move |state, gradient| <[T; N]>::sweep(state, gradient, &step));
        Ok(sweep)
    };
    kernel_of(node, K, Box::new(sweep_of))
}

fn kernel_of<T: Field, const N: usize>(
    node: &NodeSpec<'_>,
    scalars: usize,
    sweep_of: SweepOf<T, N>,
) -> Result<KernelBox> {
    let layout = Layout::of(node)?;
    ensure!(
        (layout.slots, layout.scalars.len()) == (N, scalars),
        Internal,
        "the rule of {} does not fit its signature",
        node.op().name
    );
    let gives_ref = !node.outputs.is_empty();
    Ok(KernelBox::from_fn(move |ctx| {
        let slots = Slots::<N>::of(ctx)?;
        let gradient = ctx.input(layout.gradient)?;
        let indices = layout.indices.map(|index| ctx.input(index)).transpose()?;
        let values = gradient.as_slice::<T>()?;
        match indices {
            None => slots.update(
                |shape| {
                    let sweep = sweep_of(&layout.numbers(ctx)?)?;
                    check_dense(shape, gradient)?;
                    Ok(sweep)
                },
                |state, _, sweep| sweep_all(ctx.loops(), state, values, &sweep),
            )?,
            Some(indices) => slots.update(
                |shape| {
                    let sweep = sweep_of(&layout.numbers(ctx)?)?;
                    Ok((sweep, check_sparse(shape, gradient, indices)?))
                },
                |state, shape, (sweep, rows)| {
                    let row_len = shape.iter().skip(1).product();
                    sweep_rows(ctx.loops(), state, values, &rows, row_len, &sweep);
                },
            )?,
        }
        if gives_ref {
            ctx.set_ref_output(0, slots.variable().clone());
        }
        Ok(())
    }))
}

fn check_dense(shape: &Shape, gradient: &Tensor) -> Result<()> {
    ensure!(
        shape == gradient.shape(),
        InvalidArgument,
        "var and grad do not have the same shape{shape} {}",
        gradient.shape()
    );
    Ok(())
}

/// Checks a sparse gradient against the variable, and returns which rows it is for.
fn check_sparse(shape: &Shape, gradient: &Tensor, indices: &Tensor) -> Result<Vec<usize>> {
    let Some((&rows, inner)) = shape.split_first() else {
        bail!(InvalidArgument, "var must be at least 1 dimensional")
    };
    ensure!(indices.shape().rank() == 1, InvalidArgument, "indices must be one-dimensional");
    let grad_shape = gradient.shape();
    ensure!(
        grad_shape.rank() == shape.rank(),
        InvalidArgument,
        "grad must have the same number of dimensions as var, got {grad_shape} for {shape}"
    );
    for (axis, (expected, found)) in inner.iter().zip(&grad_shape[1..]).enumerate() {
        ensure!(expected == found, InvalidArgument, "var and grad must match in dimension {}", axis + 1);
    }
    ensure!(
        grad_shape[0] == indices.num_elements(),
        InvalidArgument,
        "grad must be the same size as indices in the first dimension."
    );
    ensure!(
        inner.iter().product::<usize>() > 0 || grad_shape[0] == 0,
        InvalidArgument,
        "Inner dimension should be greater than zero."
    );
    let row_of = |(offset, index): (usize, i64)| {
        usize::try_from(index).ok().filter(|&row| row < rows).ok_or_else(|| {
            Status::invalid_argument(format!("Index {index} at offset {offset} in indices is out of range"))
        })
    };
    let mut found = memory::vec_with_room(indices.num_elements())?;
    for index in integers_of(indices)?.into_iter().enumerate() {
        found.push(row_of(index)?);
    }
    Ok(found)
}

/// Updates all elements, in parallel if they are many.
fn sweep_all<T: Element, const N: usize>(
    loops: &Loops,
    state: [&mut [T]; N],
    gradient: &[T],
    sweep: &Sweep<T, N>,
) {
    match loops.shard_len(gradient.len(), CENTI_NS_PER_ELEMENT * N) {
        None => sweep(state, gradient),
        Some(len) => {
            let pieces = cut(state, len).into_iter().zip(gradient.chunks(len));
            loops.each(pieces, |(state, gradient)| sweep(state, gradient));
        }
    }
}

/// Updates the given rows of the state, one after the other where a row is named twice. Shards are
/// ranges of rows of the variable; each looks for its rows in the whole list.
fn sweep_rows<T: Element, const N: usize>(
    loops: &Loops,
    state: [&mut [T]; N],
    gradient: &[T],
    rows: &[usize],
    row_len: usize,
    sweep: &Sweep<T, N>,
) {
    if rows.is_empty() {
        return;
    }
    let sweep_shard = |first_row: usize, mut state: [&mut [T]; N]| {
        let shard_rows = state[0].len() / row_len;
        for (at, (&row, gradient)) in rows.iter().zip(gradient.chunks(row_len)).enumerate() {
            let soon = rows.get(at + ROWS_AHEAD).map(|row| row.wrapping_sub(first_row));
            if let Some(soon) = soon.filter(|&soon| soon < shard_rows) {
                state.iter().for_each(|slot| expect_row(slot, soon * row_len, row_len));
            }
            let row = row.wrapping_sub(first_row);
            if row < shard_rows {
                let part = state.each_mut().map(|slot| &mut slot[row * row_len..(row + 1) * row_len]);
                sweep(part, gradient);
            }
        }
    };
    match loops.shard_len(rows.len(), CENTI_NS_PER_ELEMENT * N * row_len) {
        None => sweep_shard(0, state),
        Some(rows_per_shard) => {
            let shards = rows.len().div_ceil(rows_per_shard);
            let shard_rows = (state[0].len() / row_len).div_ceil(shards).max(1);
            let pieces = cut(state, shard_rows * row_len).into_iter().enumerate();
            loops.each(pieces, |(shard, state)| sweep_shard(shard * shard_rows, state));
        }
    }
}

/// Cuts the arrays, which are equally long, into pieces of `len` elements.
fn cut<T, const N: usize>(state: [&mut [T]; N], len: usize) -> Vec<[&mut [T]; N]> {
    let mut chunks = state.map(|slot| slot.chunks_mut(len));
    let count = chunks[0].len();
    (0..count).map(|_| std::array::from_fn(|slot| chunks[slot].next().unwrap_or_default())).collect()
}

/// Walking several arrays and a gradient in step. Written out for each number of arrays, with every array a
/// parameter of its own: so the compiler knows that they do not overlap, and vectorises the loop.
pub(super) trait Lockstep<T, const N: usize> {
    /// Replaces the elements of `state` by what `step` makes of them.
    fn sweep(state: [&mut [T]; N], gradient: &[T], step: &impl Fn([T; N], T) -> [T; N]);
}

macro_rules! lockstep {
    ($($count:literal: $($slot:ident)+;)+) => {
        $(impl<T: Stored> Lockstep<T, $count> for [T; $count] {
            fn sweep(state: [&mut [T]; $count], gradient: &[T], step: &impl Fn([T; $count], T) -> [T; $count]) {
                #[inline(always)]
                fn apart<T: Copy, S: Fn([T; $count], T) -> [T; $count]>($($slot: &mut [T],)+ gradient: &[T], step: &S) {
                    let len = gradient.len();
                    $(let $slot = &mut $slot[..len];)+
                    for i in 0..len {
                        [$($slot[i]),+] = step([$($slot[i]),+], gradient[i]);
                    }
                }
                tensorfleet_numeric::simd_dispatch! {
                    fn apart_wide[T: Copy, S: Fn([T; $count], T) -> [T; $count]]($($slot: &mut [T],)+ gradient: &[T], step: &S) {
                        apart($($slot,)+ gradient, step)
                    }
                }
                let [$($slot),+] = state;
                if const { T::IS_HOT } {
                    apart_wide($($slot,)+ gradient, step);
                } else {
                    apart($($slot,)+ gradient, step);
                }
            }
        })+
    };
}

lockstep! {
    1: a;
    2: a b;
    3: a b c;
    4: a b c d;
}

/// Shape rule of all update ops: variable, slots and gradient agree, and all else is scalar.
pub(super) fn update_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let layout = Layout::of(ctx.node)?;
    for (index, _) in &layout.scalars {
        ctx.input_with_rank(*index, 0)?;
    }
    if ctx.num_outputs() == 0 {
        return Ok(Vec::new());
    }
    let mut shape = ctx.input(0).clone();
    for slot in 1..layout.slots {
        shape = shape.merge(ctx.input(slot))?;
    }
    let gradient = ctx.input(layout.gradient);
    match layout.indices {
        None => shape = shape.merge(gradient)?,
        Some(indices) => {
            let indices = ctx.input_with_rank(indices, 1)?;
            if let Some(dims) = gradient.dims().filter(|dims| !dims.is_empty()) {
                PartialShape::vector(dims[0]).merge(&indices)?;
                let any_rows = PartialShape::new(std::iter::once(None).chain(dims[1..].iter().copied()));
                shape = shape.merge(&any_rows)?;
            }
        }
    }
    Ok(vec![shape])
}
