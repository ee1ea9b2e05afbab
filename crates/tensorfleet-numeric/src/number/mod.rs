//! The tower of number traits: [`Number`] ⊃ [`Real`], [`Power`], [`Field`] ⊃ [`Elementary`] ⊃ [`Floating`].
//!
//! Rust's operators differ from TensorFlow's in corners: integers wrap around instead of panicking, maximum and
//! minimum pass NaN on, elementary functions of `f32` have vectorisable versions. These traits say once how it is
//! done for each type, so that an op is one generic expression.
//!
//! Half and bfloat16 are [`Field`]s: each operation is done in float and rounded to the type, as TensorFlow does where
//! it keeps values of these types between operations (scattered sums, optimizer updates). Everything above is defined
//! for the types that loops compute in alone (see [`crate::stored::Stored`]).

use tensorfleet_core::Element;

use crate::vector_math::FlushDenormal;

mod complex;
mod floats;
mod halves;
mod integers;

/// All numbers, with ring operations that wrap around in integers.
pub trait Number: Element + PartialEq + FlushDenormal {
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// The sum.
    fn plus(self, other: Self) -> Self;
    /// The difference.
    fn minus(self, other: Self) -> Self;
    /// The product.
    fn times(self, other: Self) -> Self;
    /// The complex conjugate; a real number itself.
    fn conjugate(self) -> Self;
    /// A count as a number, for means.
    fn from_count(count: usize) -> Self;
    /// The quotient, truncated for integers; dividing an integer by zero gives zero, which callers rule out before.
    fn divided_by(self, divisor: Self) -> Self;
    /// The quotient, truncated for integers; `None` for an integer divided by zero.
    fn checked_quotient(self, divisor: Self) -> Option<Self>;
}

/// Ordered numbers.
pub trait Real: Number + PartialOrd {
    /// The smallest and the largest value, infinite for floats.
    const LOWEST: Self;
    /// The largest value.
    const HIGHEST: Self;
    /// The larger one; nan if either is.
    fn max_or_nan(self, other: Self) -> Self;
    /// The smaller one; nan if either is.
    fn min_or_nan(self, other: Self) -> Self;
    /// The absolute value; that of the smallest integer is itself.
    fn magnitude(self) -> Self;
    /// -1, 0 or 1; nan for nan.
    fn sign(self) -> Self;
    /// The quotient rounded towards minus infinity.
    fn floor_div(self, divisor: Self) -> Self;
    /// The quotient rounded towards zero.
    fn truncate_div(self, divisor: Self) -> Self;
    /// The remainder with the divisor's sign.
    fn floor_mod(self, divisor: Self) -> Self;
    /// The remainder with the dividend's sign.
    fn truncate_mod(self, divisor: Self) -> Self;
    /// The nearest integer, ties to even.
    fn rounded(self) -> Self;
}

/// Numbers that can be raised to a power of their own kind.
pub trait Power: Number {
    /// The power.
    fn power(self, exponent: Self) -> Self;
}

/// Floats and complex numbers: Rust's operators are TensorFlow's.
pub trait Field: Number + num_traits::Num + std::ops::Neg<Output = Self> {
    /// A constant, rounded.
    fn constant(value: f64) -> Self;
    /// The principal square root, of denormal numbers too.
    fn root(self) -> Self;
    /// `self * self`
    #[inline(always)]
    fn squared(self) -> Self {
        self * self
    }
}

/// Numbers that elementary functions are defined for.
pub trait Elementary: Field {
    /// e to this power.
    fn exp(self) -> Self;
    /// `exp(x) - 1`, exact near zero.
    fn exp_minus_1(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// `ln(1 + x)`, exact near zero.
    fn ln_1_plus(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// `1 / (1 + exp(-x))`.
    fn sigmoid(self) -> Self;
    /// The sine.
    fn sin(self) -> Self;
    /// The cosine.
    fn cos(self) -> Self;
    /// The tangent.
    fn tan(self) -> Self;
    /// The arc sine.
    fn asin(self) -> Self;
    /// The arc cosine.
    fn acos(self) -> Self;
    /// The arc tangent.
    fn atan(self) -> Self;
    /// The hyperbolic sine.
    fn sinh(self) -> Self;
    /// The hyperbolic cosine.
    fn cosh(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// The inverse hyperbolic sine.
    fn asinh(self) -> Self;
    /// The inverse hyperbolic cosine.
    fn acosh(self) -> Self;
    /// The inverse hyperbolic tangent.
    fn atanh(self) -> Self;
}

/// Float and double.
pub trait Floating: Real + Elementary {
    /// The distance from one to the next larger number.
    const EPSILON: Self;
    /// e to this power, which is at most zero.
    fn exp_of_negative(self) -> Self;
    /// Rounded down.
    fn floor(self) -> Self;
    /// Rounded up.
    fn ceil(self) -> Self;
    /// The angle of the point `(x, self)`.
    fn atan2(self, x: Self) -> Self;
    /// Whether it is NaN.
    fn is_nan(self) -> bool;
    /// Whether it is infinite.
    fn is_infinite(self) -> bool;
    /// As a double.
    fn to_f64(self) -> f64;
    /// The nearest to a double.
    fn from_f64(value: f64) -> Self;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_division_rounds_as_named_for_all_signs() {
        let table: &[(i32, i32, i32, i32, i32, i32)] = &[
            // x, y, floor_div, floor_mod, truncate_div, truncate_mod
            (7, 2, 3, 1, 3, 1),
            (-7, 2, -4, 1, -3, -1),
            (7, -2, -4, -1, -3, 1),
            (-7, -2, 3, -1, 3, -1),
            (6, -3, -2, 0, -2, 0),
            (i32::MIN, -1, i32::MIN, 0, i32::MIN, 0),
        ];
        for &(x, y, floor_div, floor_mod, truncate_div, truncate_mod) in table {
            assert_eq!((x.floor_div(y), x.floor_mod(y)), (floor_div, floor_mod), "{x} by {y}");
            assert_eq!((x.truncate_div(y), x.truncate_mod(y)), (truncate_div, truncate_mod), "{x} by {y}");
        }
        assert_eq!((200u8.floor_div(7), 200u8.floor_mod(7)), (28, 4));
    }

    #[test]
    fn integers_wrap_and_refuse_only_zero_divisors() {
        assert_eq!(i32::MAX.plus(1), i32::MIN);
        assert_eq!(i64::MIN.checked_quotient(-1), Some(i64::MIN));
        assert_eq!(7i8.checked_quotient(0), None);
        assert_eq!(1.0f32.checked_quotient(0.0), Some(f32::INFINITY));
    }

    #[test]
    fn float_remainders_follow_the_divisor_even_when_it_is_infinite() {
        assert_eq!((-7.0f32).floor_mod(2.0), 1.0);
        assert_eq!(7.0f64.floor_mod(-2.0), -1.0);
        assert_eq!((-5.0f32).floor_mod(f32::INFINITY), f32::INFINITY);
        assert!(1.0f32.floor_mod(0.0).is_nan());
    }

    #[test]
    fn nan_survives_maximum_and_minimum_from_either_side() {
        let nan = f32::NAN;
        for value in
            [nan.max_or_nan(1.0), 1.0f32.max_or_nan(nan), nan.min_or_nan(1.0), 1.0f32.min_or_nan(nan)]
        {
            assert!(value.is_nan());
        }
    }

    #[test]
    fn integer_powers_wrap_and_zero_to_the_zero_is_one() {
        assert_eq!((3i32.power(4), 0i64.power(0), (-2i8).power(7), 2i32.power(32)), (81, 1, -128, 0));
    }

    #[test]
    fn the_sign_and_magnitude_of_the_smallest_integer_do_not_overflow() {
        assert_eq!((i32::MIN.magnitude(), i32::MIN.sign(), 5u8.sign()), (i32::MIN, -1, 1));
        assert!(f32::NAN.sign().is_nan());
        assert_eq!((-0.0f32).sign(), 0.0);
    }
}
