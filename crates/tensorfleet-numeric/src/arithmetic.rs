//! [`Arithmetic`]: the element arithmetic of updates, the same for all numeric dtypes.
//!
//! Integers wrap, as they do in TensorFlow; a division that has no result says so instead of trapping.

use half::{bf16, f16};
use num_complex::Complex;
use tensorfleet_core::{Element, Result, Status, Tensor, ensure};

use tensorfleet_threads::parallel;

/// Hundredths of a nanosecond that adding one element takes.
const COST_OF_ADDING: usize = 20;

/// Sums, differences, products and quotients that never trap.
pub trait Arithmetic: Element {
    /// The sum.
    fn plus(self, other: Self) -> Self;
    /// The difference.
    fn minus(self, other: Self) -> Self;
    /// The product.
    fn times(self, other: Self) -> Self;
    /// The quotient; `None` for an integer divided by zero.
    fn over(self, other: Self) -> Option<Self>;
}

/// Dtypes with an order.
pub trait Ordered: Element {
    /// The smaller of two.
    fn smaller(self, other: Self) -> Self;
    /// The larger of two.
    fn larger(self, other: Self) -> Self;
}

macro_rules! arithmetic {
    (wrapping: $($int:ty),*) => {$(
        impl Arithmetic for $int {
            fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
            fn minus(self, other: Self) -> Self { self.wrapping_sub(other) }
            fn times(self, other: Self) -> Self { self.wrapping_mul(other) }
            fn over(self, other: Self) -> Option<Self> { (other != 0).then(|| self.wrapping_div(other)) }
        }
    )*};
    (exact: $($field:ty),*) => {$(
        impl Arithmetic for $field {
            fn plus(self, other: Self) -> Self { self + other }
            fn minus(self, other: Self) -> Self { self - other }
            fn times(self, other: Self) -> Self { self * other }
            fn over(self, other: Self) -> Option<Self> { Some(self / other) }
        }
    )*};
    (ordered: $($real:ty),*) => {$(
        impl Ordered for $real {
            fn smaller(self, other: Self) -> Self { if other < self { other } else { self } }
            fn larger(self, other: Self) -> Self { if other > self { other } else { self } }
        }
    )*};
}

arithmetic!(wrapping: i8, i16, i32, i64, u8, u16, u32, u64);
arithmetic!(exact: f32, f64, f16, bf16, Complex<f32>, Complex<f64>);
arithmetic!(ordered: i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, f16, bf16);

/// Combines `operand` into `target` element by element, in place if nobody shares the target. The shapes
/// must be equal; the caller has reported a clash in the words of its op.
fn combine<T: Element>(
    target: &mut Tensor,
    operand: &Tensor,
    // Generic, not a pointer: a call for each element takes longer than the addition.
    with: impl Fn(T, T) -> T + Send + Sync,
) -> Result<()> {
    ensure!(target.shape() == operand.shape(), Internal, "unequal shapes reach an element-wise update");
    let operand = operand.as_slice::<T>()?;
    let target = target.make_mut::<T>()?;
    parallel::chunks_mut(target, 1, COST_OF_ADDING, |start, piece| {
        let operand = &operand[start..start + piece.len()];
        piece.iter_mut().zip(operand).for_each(|(x, &y)| *x = with(*x, y));
    });
    Ok(())
}

/// `target += operand` for any numeric dtype.
pub fn add_assign(target: &mut Tensor, operand: &Tensor) -> Result<()> {
    crate::dispatch!(target.dtype(), T in numeric => combine::<T>(target, operand, T::plus))
}

/// `target -= operand` for any numeric dtype.
pub fn sub_assign(target: &mut Tensor, operand: &Tensor) -> Result<()> {
    crate::dispatch!(target.dtype(), T in numeric => combine::<T>(target, operand, T::minus))
}

/// The error for an integer division by zero.
#[cold]
pub fn division_by_zero() -> Status {
    Status::invalid_argument("Integer division by zero")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_and_refuse_only_zero_divisors() {
        assert_eq!(i32::MAX.plus(1), i32::MIN);
        assert_eq!(i64::MIN.over(-1), Some(i64::MIN));
        assert_eq!(7i8.over(0), None);
        assert_eq!(1.0f32.over(0.0), Some(f32::INFINITY));
    }

    #[test]
    fn updates_leave_a_shared_operand_alone() {
        let mut target = Tensor::vector(&[1i64, 2]).unwrap();
        let shared = target.clone();
        add_assign(&mut target, &Tensor::vector(&[10i64, 20]).unwrap()).unwrap();
        sub_assign(&mut target, &Tensor::vector(&[1i64, 1]).unwrap()).unwrap();
        assert_eq!(target.as_slice::<i64>().unwrap(), [10, 21]);
        assert_eq!(shared.as_slice::<i64>().unwrap(), [1, 2]);
    }
}
