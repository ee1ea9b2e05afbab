//! `target += operand` and `target -= operand` for any numeric dtype: the updates of variables and accumulators.

use tensorfleet_core::{Element, Result, Tensor, ensure};
use tensorfleet_threads::Loops;

use crate::number::Number;

/// Hundredths of a nanosecond that adding one element takes.
const COST_OF_ADDING: usize = 20;

/// Combines `operand` into `target` element by element, in place if nobody shares the target. The shapes
/// must be equal; the caller has reported a clash in the words of its op.
fn combine<T: Element>(
    loops: &Loops,
    target: &mut Tensor,
    operand: &Tensor,
    // Generic, not a pointer: a call for each element takes longer than the addition.
    with: impl Fn(T, T) -> T + Send + Sync,
) -> Result<()> {
    ensure!(target.shape() == operand.shape(), Internal, "unequal shapes reach an element-wise update");
    let operand = operand.as_slice::<T>()?;
    let target = target.make_mut::<T>()?;
    loops.chunks_mut(target, 1, COST_OF_ADDING, |start, piece| {
        let operand = &operand[start..start + piece.len()];
        piece.iter_mut().zip(operand).for_each(|(x, &y)| *x = with(*x, y));
    });
    Ok(())
}

/// `target += operand` for any numeric dtype.
pub fn add_assign(loops: &Loops, target: &mut Tensor, operand: &Tensor) -> Result<()> {
    crate::dispatch!(target.dtype(), T in numeric => combine::<T>(loops, target, operand, T::plus))
}

/// `target -= operand` for any numeric dtype.
pub fn sub_assign(loops: &Loops, target: &mut Tensor, operand: &Tensor) -> Result<()> {
    crate::dispatch!(target.dtype(), T in numeric => combine::<T>(loops, target, operand, T::minus))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_leave_a_shared_operand_alone() {
        let loops = tensorfleet_threads::Threads::of_process().loops();
        let mut target = Tensor::vector(&[1i64, 2]).unwrap();
        let shared = target.clone();
        add_assign(loops, &mut target, &Tensor::vector(&[10i64, 20]).unwrap()).unwrap();
        sub_assign(loops, &mut target, &Tensor::vector(&[1i64, 1]).unwrap()).unwrap();
        assert_eq!(target.as_slice::<i64>().unwrap(), [10, 21]);
        assert_eq!(shared.as_slice::<i64>().unwrap(), [1, 2]);
    }
}
