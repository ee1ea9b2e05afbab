//! Loops over elements that reuse the input's memory where it is free: the frame of activations and gradients.

use tensorfleet_core::{Element, PartialShape, Result, Tensor, ensure};

use tensorfleet_kernel::kernel::Context;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_threads::parallel;

tensorfleet_numeric::simd_dispatch! {
    fn map_into[T: Copy, F: Fn(T) -> T](from: &[T], to: &mut [T], change: &F) {
        for (to, &from) in to.iter_mut().zip(from) {
            *to = change(from);
        }
    }

    fn map_in_place[T: Copy, F: Fn(T) -> T](values: &mut [T], change: &F) {
        for value in values {
            *value = change(*value);
        }
    }

    fn combine_in_place[T: Copy, F: Fn(T, T) -> T](values: &mut [T], others: &[T], combine: &F) {
        for (value, &other) in values.iter_mut().zip(others) {
            *value = combine(*value, other);
        }
    }

    fn combine_into[T: Copy, F: Fn(T, T) -> T](values: &[T], others: &[T], to: &mut [T], combine: &F) {
        for ((to, &value), &other) in to.iter_mut().zip(values).zip(others) {
            *to = combine(value, other);
        }
    }
}

/// Changes every element of `tensor`; in place if nobody else holds it.
pub(crate) fn map<T: Element>(
    mut tensor: Tensor,
    centi_ns: usize,
    change: impl Fn(T) -> T + Send + Sync,
) -> Result<Tensor> {
    if tensor.is_unique() {
        parallel::chunks_mut(tensor.make_mut::<T>()?, 1, centi_ns, |_, piece| map_in_place(piece, &change));
        return Ok(tensor);
    }
    let from = tensor.as_slice::<T>()?;
    let mut output = Tensor::allocate(tensor.dtype(), tensor.shape().clone())?;
    parallel::chunks_mut(output.make_mut::<T>()?, 1, centi_ns, |start, piece| {
        map_into(&from[start..start + piece.len()], piece, &change);
    });
    Ok(output)
}

/// Combines inputs 0 and 1, which must have the same shape, element by element.
pub(crate) fn combine_inputs<T: Element>(
    ctx: &mut Context<'_>,
    op: &str,
    name: &str,
    centi_ns: usize,
    combine: impl Fn(T, T) -> T + Send + Sync,
) -> Result<Tensor> {
    let (mut first, second) = (ctx.take_input(0)?, ctx.take_input(1)?);
    ensure!(
        first.shape() == second.shape(),
        InvalidArgument,
        "Inputs to operation {name} of type {op} must have the same size and shape.  Input 0: {} != input 1: {}",
        first.shape(),
        second.shape()
    );
    let others = second.as_slice::<T>()?;
    if first.is_unique() {
        parallel::chunks_mut(first.make_mut::<T>()?, 1, centi_ns, |start, piece| {
            combine_in_place(piece, &others[start..start + piece.len()], &combine);
        });
        return Ok(first);
    }
    let values = first.as_slice::<T>()?;
    let mut output = Tensor::allocate(first.dtype(), first.shape().clone())?;
    parallel::chunks_mut(output.make_mut::<T>()?, 1, centi_ns, |start, piece| {
        let range = start..start + piece.len();
        combine_into(&values[range.clone()], &others[range], piece, &combine);
    });
    Ok(output)
}

/// Shape rule: two inputs of one shape give one output of that shape.
pub(crate) fn same_shapes(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(vec![ctx.input(0).merge(ctx.input(1))?])
}
