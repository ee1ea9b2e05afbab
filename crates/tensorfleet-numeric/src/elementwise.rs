//! Running element-wise loops over whole tensors: block by block, in parallel, in place where possible.
//!
//! An op is a type with an `apply` for one or two elements ([`UnaryOp`], [`BinaryOp`]). [`unary_loop`] and
//! [`binary_loop`] turn it into a loop over slices, compiled for wide vectors too; [`unary_fn`] and [`binary_fn`] do it
//! for functions with parameters. Everything else here depends on dtypes only, not on ops, and so exists once per dtype.
//!
//! In place: the output takes over the memory of an input that nobody else holds and that has the output's shape
//! and dtype. The block about to be overwritten is read through a copy in the cache, which costs next to nothing
//! beside the memory traffic saved.

use std::marker::PhantomData;

use tensorfleet_core::{Result, Tensor};

use crate::broadcast::{BLOCK, Broadcast};
use crate::simd_dispatch;
use crate::simd_dispatch_widest;
use crate::stored::Stored;
use tensorfleet_threads::Loops;

/// Costs of an element in hundredths of a nanosecond, for [`Loops`].
pub mod cost {
    /// Bound by memory: sums, products, comparisons.
    pub const ARITHMETIC: usize = 30;
    /// A division or a vectorised elementary function.
    pub const VECTOR_FUNCTION: usize = 120;
    /// A call into the C library.
    pub const SCALAR_FUNCTION: usize = 1000;
}

/// An op of one operand.
pub trait UnaryOp<T>: 'static {
    /// The result's type.
    type Out;
    /// The cost of an element, see [`cost`].
    const COST: usize = cost::ARITHMETIC;
    /// The result for one element. Implementations are `#[inline(always)]`.
    fn apply(x: T) -> Self::Out;
}

/// An op of two operands.
pub trait BinaryOp<T>: 'static {
    /// The result's type.
    type Out;
    /// The cost of an element, see [`cost`].
    const COST: usize = cost::ARITHMETIC;
    /// The result for two elements that meet. Implementations are `#[inline(always)]`.
    fn apply(x: T, y: T) -> Self::Out;
    /// Refuses second operands that the op is not defined for (a divisor of zero).
    fn check(_second: &[T]) -> Result<()> {
        Ok(())
    }
}

/// A loop over one operand; both slices have the same length.
pub type UnaryLoop<I, O> = fn(&[I], &mut [O]);
/// A loop over two operands; all slices have the same length.
pub type BinaryLoop<I, O> = fn(&[I], &[I], &mut [O]);
/// A [`UnaryLoop`], or a loop with parameters of its own. It is called for a block at a time, never for an element.
pub type UnaryFn<I, O> = dyn Fn(&[I], &mut [O]) + Send + Sync;
/// A [`BinaryLoop`], or a loop with parameters of its own.
pub type BinaryFn<I, O> = dyn Fn(&[I], &[I], &mut [O]) + Send + Sync;

/// Whether a loop is worth compiling for wide vectors too.
const fn is_hot<T: Stored>(cost: usize) -> bool {
    T::IS_HOT && cost < cost::SCALAR_FUNCTION
}

simd_dispatch! {
    fn run_unary_wide[T: Stored, F: UnaryOp<T>](op: PhantomData<F>, x: &[T], out: &mut [F::Out]) {
        run_unary(op, x, out)
    }

    fn run_binary_wide[T: Stored, F: BinaryOp<T>](op: PhantomData<F>, x: &[T], y: &[T], out: &mut [F::Out]) {
        run_binary(op, x, y, out)
    }
}

simd_dispatch_widest! {
    fn run_unary_widest[T: Stored, F: UnaryOp<T>](op: PhantomData<F>, x: &[T], out: &mut [F::Out]) {
        run_unary(op, x, out)
    }
}

#[inline(always)]
fn run_unary<T: Stored, F: UnaryOp<T>>(_: PhantomData<F>, x: &[T], out: &mut [F::Out]) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out = F::apply(x);
    }
}

#[inline(always)]
fn run_binary<T: Stored, F: BinaryOp<T>>(_: PhantomData<F>, x: &[T], y: &[T], out: &mut [F::Out]) {
    for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
        *out = F::apply(x, y);
    }
}

/// The loop of an op.
pub fn unary_loop<T: Stored, F: UnaryOp<T>>() -> UnaryLoop<T, F::Out> {
    if const { is_hot::<T>(F::COST) && F::COST >= cost::VECTOR_FUNCTION } {
        |x, out| run_unary_widest(PhantomData::<F>, x, out)
    } else if const { is_hot::<T>(F::COST) } {
        |x, out| run_unary_wide(PhantomData::<F>, x, out)
    } else {
        |x, out| run_unary(PhantomData::<F>, x, out)
    }
}

/// The loop of an op.
pub fn binary_loop<T: Stored, F: BinaryOp<T>>() -> BinaryLoop<T, F::Out> {
    if const { is_hot::<T>(F::COST) } {
        |x, y, out| run_binary_wide(PhantomData::<F>, x, y, out)
    } else {
        |x, y, out| run_binary(PhantomData::<F>, x, y, out)
    }
}

simd_dispatch! {
    fn map_slices[T: Copy, F: Fn(T) -> T](x: &[T], out: &mut [T], f: &F) {
        for (out, &x) in out.iter_mut().zip(x) {
            *out = f(x);
        }
    }

    fn zip_slices[T: Copy, F: Fn(T, T) -> T](x: &[T], y: &[T], out: &mut [T], f: &F) {
        for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
            *out = f(x, y);
        }
    }
}

/// The loop of a function with parameters, compiled for wide vectors too.
pub fn unary_fn<T: Copy>(f: impl Fn(T) -> T + Send + Sync + 'static) -> Box<UnaryFn<T, T>> {
    Box::new(move |x, out| map_slices(x, out, &f))
}

/// The loop of a function of two operands with parameters, compiled for wide vectors too.
pub fn binary_fn<T: Copy>(f: impl Fn(T, T) -> T + Send + Sync + 'static) -> Box<BinaryFn<T, T>> {
    Box::new(move |x, y, out| zip_slices(x, y, out, &f))
}

/// Runs `fill` on `out` as its compute type, through a buffer if that is wider.
pub fn write_block<O: Stored>(out: &mut [O], fill: impl FnOnce(&mut [O::Compute])) {
    if let Some(direct) = O::as_compute_mut(out) {
        return fill(direct);
    }
    let mut buffer = [O::Compute::default(); BLOCK];
    let wide = &mut buffer[..out.len()];
    fill(wide);
    O::narrow(wide, out);
}

/// `out = f(input)`, element by element.
pub fn map<S: Stored, O: Stored>(
    loops: &Loops,
    input: &[S],
    out: &mut [O],
    f: &UnaryFn<S::Compute, O::Compute>,
    cost: usize,
) {
    loops.chunks_mut(out, BLOCK, cost * BLOCK, |block, out| {
        let input = &input[block * BLOCK..][..out.len()];
        if let Some(direct) = S::as_compute(input)
            && let Some(out) = O::as_compute_mut(out)
        {
            return f(direct, out);
        }
        let mut buffer = [S::Compute::default(); BLOCK];
        for (input, out) in input.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
            let wide = &mut buffer[..input.len()];
            S::widen(input, wide);
            write_block(out, |out| f(wide, out));
        }
    });
}

/// `values = f(values)`, element by element.
pub fn map_in_place<S: Stored>(
    loops: &Loops,
    values: &mut [S],
    f: &UnaryFn<S::Compute, S::Compute>,
    cost: usize,
) {
    loops.chunks_mut(values, BLOCK, cost * BLOCK, |_, values| {
        let mut buffer = [S::Compute::default(); BLOCK];
        for values in values.chunks_mut(BLOCK) {
            let wide = &mut buffer[..values.len()];
            S::widen(values, wide);
            write_block(values, |out| f(wide, out));
        }
    });
}

/// Which operand's memory the output has taken over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reuse {
    First,
    Second,
}

/// `out = f(a, b)`, element by element, broadcasting. `a` and `b` lie as `broadcast` says.
pub fn zip<S: Stored, O: Stored>(
    loops: &Loops,
    broadcast: &Broadcast,
    (a, b): (&[S], &[S]),
    out: &mut [O],
    f: &BinaryFn<S::Compute, O::Compute>,
    cost: usize,
) {
    let unit = broadcast.block_len();
    loops.chunks_mut(out, unit, cost * unit, |block, out| {
        let start = block * unit;
        if broadcast.is_elementwise()
            && let Some(a) = S::as_compute(&a[start..][..out.len()])
            && let Some(b) = S::as_compute(&b[start..][..out.len()])
            && let Some(out) = O::as_compute_mut(out)
        {
            return f(a, b, out);
        }
        let (mut a, mut b) = (broadcast.reader(0, a), broadcast.reader(1, b));
        for (index, out) in out.chunks_mut(unit).enumerate() {
            let start = start + index * unit;
            let (a, b) = (a.block(start, out.len()), b.block(start, out.len()));
            write_block(out, |out| f(a, b, out));
        }
    });
}

/// `out = f(out, other)` or `f(other, out)`, broadcasting `other`.
fn zip_in_place<S: Stored>(
    loops: &Loops,
    broadcast: &Broadcast,
    reuse: Reuse,
    other: &[S],
    out: &mut [S],
    f: &BinaryFn<S::Compute, S::Compute>,
    cost: usize,
) {
    let unit = broadcast.block_len();
    loops.chunks_mut(out, unit, cost * unit, |block, out| {
        let mut buffer = [S::Compute::default(); BLOCK];
        let mut other = broadcast.reader(if reuse == Reuse::First { 1 } else { 0 }, other);
        for (index, out) in out.chunks_mut(unit).enumerate() {
            let own = &mut buffer[..out.len()];
            S::widen(out, own);
            let other = other.block((block + index) * unit, own.len());
            write_block(out, |out| match reuse {
                Reuse::First => f(own, other, out),
                Reuse::Second => f(other, own, out),
            });
        }
    });
}

/// Whether an output of `count` elements may take over `tensor`: small ones are cheaper to allocate.
fn is_reusable(tensor: &mut Tensor, count: usize) -> bool {
    count >= BLOCK && tensor.num_elements() == count && tensor.is_unique()
}

/// Applies a loop to a tensor, in place if possible.
pub fn apply_unary<S: Stored>(
    loops: &Loops,
    mut input: Tensor,
    f: &UnaryFn<S::Compute, S::Compute>,
    cost: usize,
) -> Result<Tensor> {
    let count = input.num_elements();
    if is_reusable(&mut input, count) {
        map_in_place(loops, input.make_mut::<S>()?, f, cost);
        return Ok(input);
    }
    apply_unary_to::<S, S>(loops, &input, f, cost)
}

/// Applies a loop whose result is of another type.
pub fn apply_unary_to<S: Stored, O: Stored>(
    loops: &Loops,
    input: &Tensor,
    f: &UnaryFn<S::Compute, O::Compute>,
    cost: usize,
) -> Result<Tensor> {
    let elements = input.as_slice::<S>()?;
    Tensor::build::<O>(input.shape().clone(), |out| {
        map(loops, elements, out, f, cost);
        Ok(())
    })
}

/// Applies a loop to two tensors, broadcasting, in place if possible.
pub fn apply_binary<S: Stored>(
    loops: &Loops,
    mut a: Tensor,
    mut b: Tensor,
    f: &BinaryFn<S::Compute, S::Compute>,
    cost: usize,
) -> Result<Tensor> {
    let broadcast = Broadcast::of_two(a.shape(), b.shape())?;
    let (count, shape) = (broadcast.num_elements(), broadcast.shape());
    if broadcast.is_contiguous(0) && is_reusable(&mut a, count) {
        zip_in_place(loops, &broadcast, Reuse::First, b.as_slice::<S>()?, a.make_mut::<S>()?, f, cost);
        return a.reshaped(shape.clone());
    }
    if broadcast.is_contiguous(1) && is_reusable(&mut b, count) {
        zip_in_place(loops, &broadcast, Reuse::Second, a.as_slice::<S>()?, b.make_mut::<S>()?, f, cost);
        return b.reshaped(shape.clone());
    }
    zip_to_new::<S, S>(loops, &broadcast, &a, &b, f, cost)
}

/// Applies a loop to two tensors, broadcasting, whose result is of another type.
pub fn zip_to_new<S: Stored, O: Stored>(
    loops: &Loops,
    broadcast: &Broadcast,
    a: &Tensor,
    b: &Tensor,
    f: &BinaryFn<S::Compute, O::Compute>,
    cost: usize,
) -> Result<Tensor> {
    let operands = (a.as_slice::<S>()?, b.as_slice::<S>()?);
    Tensor::build::<O>(broadcast.shape().clone(), |out| {
        zip(loops, broadcast, operands, out, f, cost);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tensorfleet_core::Shape;

    use super::*;
    use crate::broadcast::tests::{compatible_shapes, naive_indices};

    struct Difference;

    impl BinaryOp<i32> for Difference {
        type Out = i32;
        fn apply(x: i32, y: i32) -> i32 {
            x.wrapping_sub(y)
        }
    }

    proptest! {
        #[test]
        fn subtraction_broadcasts_as_the_naive_loop_does((a, b) in compatible_shapes()) {
            let (a, b) = (Shape::new(&a).unwrap(), Shape::new(&b).unwrap());
            let shape = Broadcast::of_two(&a, &b).unwrap().shape().clone();
            prop_assume!(shape.num_elements() < 200_000);
            let x: Vec<i32> = (0..a.num_elements() as i32).map(|i| i * 7).collect();
            let y: Vec<i32> = (0..b.num_elements() as i32).map(|i| i.wrapping_mul(i)).collect();
            let want: Vec<i32> = naive_indices(&shape, &a).iter().zip(naive_indices(&shape, &b))
                .map(|(&i, j)| x[i].wrapping_sub(y[j])).collect();
            let (x, y) = (Tensor::from_slice(&x, &a).unwrap(), Tensor::from_slice(&y, &b).unwrap());
            let run = |x, y| apply_binary::<i32>(tensorfleet_threads::Threads::of_process().loops(), x, y, &binary_loop::<i32, Difference>(), Difference::COST).unwrap();
            // Held elsewhere, so that neither may be overwritten; then in place.
            let fresh = run(x.clone(), y.clone());
            prop_assert_eq!(fresh.shape(), &shape);
            prop_assert_eq!(fresh.as_slice::<i32>().unwrap(), &want);
            let in_place = run(x, y);
            prop_assert_eq!(in_place.as_slice::<i32>().unwrap(), &want);
        }
    }
}
