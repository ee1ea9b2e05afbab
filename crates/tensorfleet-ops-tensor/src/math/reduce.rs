//! Reducing tensors along some of their axes.
//!
//! Axes of size one vanish and neighbours that are both kept or both reduced merge; what remains alternates between
//! kept and reduced. From the inside out there are then only two steps to repeat: the innermost axis is reduced
//! (*rows*: every output is one contiguous run), or the one before it is (*columns*: runs are added up element by
//! element).
//!
//! Sums are cascaded: a running total sees a few dozen additions before it is folded into the next level, so errors
//! grow with the logarithm of the length. Work is cut by shapes alone, never by the number of threads, and so
//! results are the same bits on every machine and in every run.

use std::borrow::Cow;
use std::marker::PhantomData;

use smallvec::SmallVec;
use tensorfleet_core::{Result, Shape, Status, Tensor, ensure, memory};

use tensorfleet_kernel::shape_context::integers_of;
use tensorfleet_numeric::simd_dispatch;
use tensorfleet_numeric::stored::Stored;
use tensorfleet_threads::Loops;

/// An associative operation with an identity.
pub(crate) trait Reducer<T>: 'static {
    /// The result of reducing nothing.
    const IDENTITY: T;
    /// Two results as one. Implementations are `#[inline(always)]`.
    fn combine(a: T, b: T) -> T;
}

/// A reducer as its two loops; everything here knows it only so and is compiled once per dtype.
pub(crate) struct Reduction<T: 'static> {
    identity: T,
    /// Reduces every row of so many elements.
    rows: fn(&[T], usize, &mut [T]),
    /// Combines the second slice into the first.
    combine: fn(&mut [T], &[T]),
}

impl<T: Stored> Reduction<T> {
    /// The loops of a reducer.
    pub(crate) fn of<R: Reducer<T>>() -> Reduction<T> {
        let identity = R::IDENTITY;
        if const { T::IS_HOT } {
            Reduction {
                identity,
                rows: |input, len, out| rows_wide(PhantomData::<R>, input, len, out),
                combine: |totals, values| combine_wide(PhantomData::<R>, totals, values),
            }
        } else {
            Reduction {
                identity,
                rows: |input, len, out| run_rows(PhantomData::<R>, input, len, out),
                combine: |totals, values| run_combine(PhantomData::<R>, totals, values),
            }
        }
    }
}

simd_dispatch! {
    fn rows_wide[T: Stored, R: Reducer<T>](reducer: PhantomData<R>, input: &[T], len: usize, out: &mut [T]) {
        run_rows(reducer, input, len, out)
    }

    fn combine_wide[T: Stored, R: Reducer<T>](reducer: PhantomData<R>, totals: &mut [T], values: &[T]) {
        run_combine(reducer, totals, values)
    }
}

#[inline(always)]
fn run_rows<T: Stored, R: Reducer<T>>(_: PhantomData<R>, input: &[T], len: usize, out: &mut [T]) {
    for (out, row) in out.iter_mut().zip(input.chunks_exact(len)) {
        *out = if row.len() < LANES {
            row.iter().fold(R::IDENTITY, |total, &value| R::combine(total, value))
        } else {
            row.chunks(RUN).fold(R::IDENTITY, |total, run| R::combine(total, reduce_run::<T, R>(run)))
        };
    }
}

#[inline(always)]
fn run_combine<T: Stored, R: Reducer<T>>(_: PhantomData<R>, totals: &mut [T], values: &[T]) {
    for (total, &value) in totals.iter_mut().zip(values) {
        *total = R::combine(*total, value);
    }
}

/// Independent running totals of a row: enough to keep the adders of a wide vector unit busy.
const LANES: usize = 32;
/// Elements of a row that go through one set of lanes: 32 additions each.
const RUN: usize = 1024;
/// Longer rows are cut into pieces of this length, which are reduced on their own.
const PIECE: usize = 16 * RUN;
/// Columns are worked on in tiles of this width, so that totals stay in the cache.
const TILE: usize = 256;
/// Rows that are combined one after the other before their total is.
const GROUP: usize = 32;
/// Elements in a group of narrow rows.
const GROUP_ELEMENTS: usize = 4096;
/// With at least so many columns there is work for all threads without cutting the rows into groups.
const MANY_COLUMNS: usize = 16 * 1024;
/// The cost of combining an element, in hundredths of a nanosecond.
const COST: usize = 20;

/// Reduces up to [`RUN`] elements.
#[inline(always)]
fn reduce_run<T: Stored, R: Reducer<T>>(run: &[T]) -> T {
    let mut lanes = [R::IDENTITY; LANES];
    let (chunks, rest) = run.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = R::combine(*lane, value);
        }
    }
    for (lane, &value) in lanes.iter_mut().zip(rest) {
        *lane = R::combine(*lane, value);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for index in 0..width {
            lanes[index] = R::combine(lanes[index], lanes[index + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// Some neighbouring axes, taken as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    len: usize,
    is_reduced: bool,
}

/// What a reduction of a certain shape along certain axes does.
#[derive(Debug)]
pub(crate) struct ReductionPlan {
    /// Alternately kept and reduced, none of size one.
    axes: SmallVec<[Axis; 4]>,
    /// The result's shape.
    pub(crate) output: Shape,
    /// How many elements go into one result.
    pub(crate) count: usize,
}

impl ReductionPlan {
    /// Reads the axes, negative ones counting from the end.
    pub(crate) fn new(input: &Shape, axes: &Tensor, keep_dims: bool) -> Result<ReductionPlan> {
        let rank = input.rank();
        let mut is_reduced: SmallVec<[bool; 8]> = SmallVec::from_elem(false, rank);
        for axis in integers_of(axes)? {
            let index = resolve_axis(axis, rank).ok_or_else(|| {
                Status::invalid_argument(format!(
                    "Invalid reduction dimension ({axis} for input with {rank} dimension(s)"
                ))
            })?;
            ensure!(
                !std::mem::replace(&mut is_reduced[index], true),
                InvalidArgument,
                "Invalid reduction arguments: Axes contains duplicate dimension: {index}"
            );
        }
        let mut merged: SmallVec<[Axis; 4]> = SmallVec::new();
        let mut output: SmallVec<[usize; 8]> = SmallVec::new();
        let mut count = 1;
        for (&len, is_reduced) in input.iter().zip(is_reduced) {
            match is_reduced {
                true => count *= len,
                false => output.push(len),
            }
            if is_reduced && keep_dims {
                output.push(1);
            }
            match merged.last_mut() {
                _ if len == 1 => {}
                Some(last) if last.is_reduced == is_reduced => last.len *= len,
                _ => merged.push(Axis { len, is_reduced }),
            }
        }
        Ok(ReductionPlan { axes: merged, output: Shape::new(&output)?, count })
    }

    /// Whether every result is one element of the input.
    pub(crate) fn keeps_everything(&self) -> bool {
        !self.axes.iter().any(|axis| axis.is_reduced)
    }

    /// Reduces `input`, which has the planned shape, into `out`, which has the planned output's.
    pub(crate) fn run<T: Stored>(
        &self,
        loops: &Loops,
        input: &[T],
        reduction: &Reduction<T>,
        out: &mut [T],
    ) -> Result<()> {
        if self.count == 0 {
            out.fill(reduction.identity);
        }
        if input.is_empty() {
            return Ok(());
        }
        if self.keeps_everything() {
            out.copy_from_slice(input);
            return Ok(());
        }
        let mut axes = self.axes.clone();
        let mut current = Cow::Borrowed(input);
        while let Some(step) = Step::next(&mut axes) {
            if !axes.iter().any(|axis| axis.is_reduced) {
                return step.run(loops, &current, reduction, out);
            }
            let mut reduced = memory::vec_of(reduction.identity, current.len() / step.len)?;
            step.run(loops, &current, reduction, &mut reduced)?;
            current = Cow::Owned(reduced);
        }
        Ok(())
    }
}

/// The axis that `axis` means in a shape of `rank` dimensions, if there is such.
pub(crate) fn resolve_axis(axis: i64, rank: usize) -> Option<usize> {
    let rank = rank as i64;
    (-rank..rank).contains(&axis).then(|| (if axis < 0 { axis + rank } else { axis }) as usize)
}

/// One step: the middle axis of `[outer, len, inner]` is reduced.
struct Step {
    outer: usize,
    len: usize,
    inner: usize,
}

impl Step {
    /// Takes the innermost reduced axis out of `axes`, merging what then becomes neighbours.
    fn next(axes: &mut SmallVec<[Axis; 4]>) -> Option<Step> {
        let index = axes.iter().rposition(|axis| axis.is_reduced)?;
        let product = |axes: &[Axis]| axes.iter().map(|axis| axis.len).product();
        let step =
            Step { outer: product(&axes[..index]), len: axes[index].len, inner: product(&axes[index + 1..]) };
        axes.remove(index);
        if index > 0 && index < axes.len() {
            axes[index - 1].len *= axes[index].len;
            axes.remove(index);
        }
        Some(step)
    }

    fn run<T: Stored>(
        &self,
        loops: &Loops,
        input: &[T],
        reduction: &Reduction<T>,
        out: &mut [T],
    ) -> Result<()> {
        if self.inner == 1 {
            reduce_rows(loops, input, self.len, reduction, out)
        } else {
            self.reduce_columns(loops, input, reduction, out)
        }
    }

    /// `[outer, len, inner]` to `[outer, inner]`.
    fn reduce_columns<T: Stored>(
        &self,
        loops: &Loops,
        input: &[T],
        reduction: &Reduction<T>,
        out: &mut [T],
    ) -> Result<()> {
        let &Step { outer, len, inner } = self;
        let group = (GROUP_ELEMENTS / inner).max(GROUP);
        if len <= group || out.len() >= MANY_COLUMNS {
            self.reduce_tiles(loops, input, reduction, out);
            return Ok(());
        }
        // Few columns: groups of rows are reduced in parallel, then their totals.
        let groups = len.div_ceil(group);
        let mut totals = memory::vec_of(reduction.identity, outer * groups * inner)?;
        loops.chunks_mut(&mut totals, inner, group * inner * COST, |start, totals| {
            for (index, total) in totals.chunks_exact_mut(inner).enumerate() {
                let (outer, group_index) = ((start + index) / groups, (start + index) % groups);
                let first = group_index * group;
                let rows = first..(first + group).min(len);
                let rows = &input[(outer * len + rows.start) * inner..(outer * len + rows.end) * inner];
                reduce_group(rows, reduction, total);
            }
        });
        Step { outer, len: groups, inner }.reduce_columns(loops, &totals, reduction, out)
    }

    /// Every thread takes some columns and goes down their rows.
    fn reduce_tiles<T: Stored>(&self, loops: &Loops, input: &[T], reduction: &Reduction<T>, out: &mut [T]) {
        let &Step { len, inner, .. } = self;
        if inner <= TILE / 2 && len * inner <= GROUP_ELEMENTS {
            return loops.chunks_mut(out, inner, len * inner * COST, |start, out| {
                let blocks = input[start * len * inner..].chunks_exact(len * inner);
                for (total, block) in out.chunks_exact_mut(inner).zip(blocks) {
                    total.fill(reduction.identity);
                    reduce_group(block, reduction, total);
                }
            });
        }
        // What a column gives does not depend on where tiles begin, and so not on how `out` is cut.
        loops.chunks_mut(out, 1, len * COST, |start, out| {
            let mut done = 0;
            while done < out.len() {
                let (outer, column) = ((start + done) / inner, (start + done) % inner);
                let block = &input[outer * len * inner..][..len * inner];
                let width = (inner - column).min(TILE).min(out.len() - done);
                reduce_tile(block, inner, column, reduction, &mut out[done..done + width]);
                done += width;
            }
        });
    }
}

/// Reduces rows of `len` elements each; longer ones in pieces, so that one long row is work for many threads.
fn reduce_rows<T: Stored>(
    loops: &Loops,
    input: &[T],
    len: usize,
    reduction: &Reduction<T>,
    out: &mut [T],
) -> Result<()> {
    if len <= PIECE {
        loops.chunks_mut(out, 1, len * COST, |start, out| {
            (reduction.rows)(&input[start * len..][..out.len() * len], len, out);
        });
        return Ok(());
    }
    let pieces = len.div_ceil(PIECE);
    let mut totals = memory::vec_of(reduction.identity, out.len() * pieces)?;
    loops.chunks_mut(&mut totals, 1, PIECE * COST, |start, totals| {
        for (index, total) in totals.iter_mut().enumerate() {
            let (row, piece) = ((start + index) / pieces, (start + index) % pieces);
            let row = &input[row * len..][..len];
            let piece = &row[piece * PIECE..((piece + 1) * PIECE).min(len)];
            (reduction.rows)(piece, piece.len(), std::slice::from_mut(total));
        }
    });
    reduce_rows(loops, &totals, pieces, reduction, out)
}

/// Combines whole rows into `total`. Narrow rows are taken several at a time, as wide ones.
fn reduce_group<T: Stored>(rows: &[T], reduction: &Reduction<T>, total: &mut [T]) {
    let inner = total.len();
    if inner * 2 > TILE {
        return rows.chunks_exact(inner).for_each(|row| (reduction.combine)(total, row));
    }
    let mut wide = [reduction.identity; TILE];
    let wide = &mut wide[..TILE / inner * inner];
    for rows in rows.chunks(wide.len()) {
        (reduction.combine)(wide, rows);
    }
    for part in wide.chunks_exact(inner) {
        (reduction.combine)(total, part);
    }
}

/// Reduces some columns of rows of `inner` elements, from `column` on, into `total`.
fn reduce_tile<T: Stored>(
    rows: &[T],
    inner: usize,
    column: usize,
    reduction: &Reduction<T>,
    total: &mut [T],
) {
    total.fill(reduction.identity);
    let width = total.len();
    let mut group_total = [reduction.identity; TILE];
    let group_total = &mut group_total[..width];
    for group in rows.chunks(GROUP * inner) {
        group_total.fill(reduction.identity);
        for row in group.chunks_exact(inner) {
            (reduction.combine)(group_total, &row[column..column + width]);
        }
        (reduction.combine)(total, group_total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Sum;
    impl Reducer<i64> for Sum {
        const IDENTITY: i64 = 0;
        fn combine(a: i64, b: i64) -> i64 {
            a.wrapping_add(b)
        }
    }
    impl Reducer<f32> for Sum {
        const IDENTITY: f32 = 0.0;
        fn combine(a: f32, b: f32) -> f32 {
            a + b
        }
    }

    fn plan(dims: &[usize], axes: &[i32], keep_dims: bool) -> Result<ReductionPlan> {
        ReductionPlan::new(&Shape::new(dims).unwrap(), &Tensor::vector(axes).unwrap(), keep_dims)
    }

    /// One element at a time, by index arithmetic.
    fn naive(dims: &[usize], axes: &[usize], input: &[i64]) -> Vec<i64> {
        let kept: Vec<usize> = (0..dims.len()).filter(|axis| !axes.contains(axis)).collect();
        let mut out = vec![0; kept.iter().map(|&axis| dims[axis]).product()];
        for (flat, &value) in input.iter().enumerate() {
            let mut position = vec![0; dims.len()];
            let mut rest = flat;
            for axis in (0..dims.len()).rev() {
                position[axis] = rest % dims[axis];
                rest /= dims[axis];
            }
            let index = kept.iter().fold(0, |index, &axis| index * dims[axis] + position[axis]);
            out[index] += value;
        }
        out
    }

    fn reduce(dims: &[usize], axes: &[usize], input: &[i64]) -> Vec<i64> {
        let axes: Vec<i32> = axes.iter().map(|&axis| axis as i32).collect();
        let plan = plan(dims, &axes, false).unwrap();
        let mut out = vec![77; plan.output.num_elements()];
        plan.run(
            tensorfleet_threads::Threads::of_process().loops(),
            input,
            &Reduction::of::<Sum>(),
            &mut out,
        )
        .unwrap();
        out
    }

    proptest! {
        #[test]
        fn any_axes_of_any_small_shape_reduce_as_the_naive_loop_does(
            dims in prop::collection::vec(prop_oneof![6 => 0usize..6, 1 => Just(40usize), 1 => Just(300usize)], 0..=4),
            mask in 0usize..16,
        ) {
            prop_assume!(dims.iter().product::<usize>() < 300_000);
            let axes: Vec<usize> = (0..dims.len()).filter(|axis| mask >> axis & 1 == 1).collect();
            let input: Vec<i64> = (0..dims.iter().product::<usize>() as i64).map(|i| i * 7 % 1000 - 300).collect();
            prop_assert_eq!(reduce(&dims, &axes, &input), naive(&dims, &axes, &input));
        }
    }

    #[test]
    fn every_strategy_for_large_shapes_agrees_with_the_naive_loop() {
        let cases: &[(&[usize], &[usize])] = &[
            (&[100_000], &[0]),           // one long row, in pieces
            (&[3, 40_000], &[1]),         // several long rows
            (&[40_000, 3], &[0]),         // many rows of few columns
            (&[5_000, 70], &[0]),         // groups of rows
            (&[40, 20_000], &[0]),        // tiles
            (&[2, 3_000, 2, 5], &[1, 3]), // rows, then columns
            (&[50, 2, 60, 3, 4], &[0, 2, 4]),
        ];
        for (dims, axes) in cases {
            let input: Vec<i64> = (0..dims.iter().product::<usize>() as i64).map(|i| i * 31 % 997).collect();
            assert_eq!(reduce(dims, axes, &input), naive(dims, axes, &input), "{dims:?} along {axes:?}");
        }
    }

    #[test]
    fn float_sums_of_a_million_are_right_to_single_precision() {
        let input: Vec<f32> =
            (0..1_000_000u32).map(|i| (i.wrapping_mul(2654435761) >> 8) as f32 * 1e-7).collect();
        let exact: f64 = input.iter().map(|&x| x as f64).sum();
        for dims in [&[1_000_000][..], &[1000, 1000], &[250_000, 4]] {
            let axes: Vec<i32> = vec![0];
            let plan = plan(dims, &axes, false).unwrap();
            let mut out = vec![0.0f32; plan.output.num_elements()];
            plan.run(
                tensorfleet_threads::Threads::of_process().loops(),
                &input,
                &Reduction::of::<Sum>(),
                &mut out,
            )
            .unwrap();
            let total: f64 = out.iter().map(|&x| x as f64).sum();
            assert!((total - exact).abs() < 2e-7 * exact, "{dims:?}: {total} instead of {exact}");
        }
    }

    #[test]
    fn axes_are_checked() {
        let message = |axes: &[i32]| plan(&[2, 3, 4], axes, false).unwrap_err().text().to_string();
        assert_eq!(message(&[0, -3]), "Invalid reduction arguments: Axes contains duplicate dimension: 0");
        assert_eq!(message(&[3]), "Invalid reduction dimension (3 for input with 3 dimension(s)");
        assert_eq!(message(&[-4]), "Invalid reduction dimension (-4 for input with 3 dimension(s)");
        assert_eq!(plan(&[2, 3, 4], &[-1, 0], true).unwrap().output.to_string(), "[1,3,1]");
        assert!(plan(&[1, 3, 1], &[0, 2], false).unwrap().keeps_everything());
    }
}
