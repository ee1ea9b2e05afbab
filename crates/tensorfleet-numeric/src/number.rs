//! What ops ask of element types: [`Number`], [`Real`], [`Field`], [`Elementary`].
//!
//! Rust's operators differ from TensorFlow's in corners: integers wrap around instead of panicking, maximum and
//! minimum pass nan on, elementary functions of `f32` have vectorisable versions. These traits say once how it is
//! done for each compute type (see [`crate::stored::Stored`]), so that an op is one generic expression.

use num_complex::{Complex, ComplexFloat};

use crate::special;
use crate::vector_math::{self, FlushDenormal};

/// Numbers with wrapping ring operations.
pub trait Number: Copy + Default + PartialEq + FlushDenormal + Send + Sync + 'static {
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

/// Floats and complex numbers.
pub trait Field: Number {
    /// A constant.
    fn constant(value: f64) -> Self;
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

/// Real floats.
pub trait Floating: Real + Elementary {
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

macro_rules! integers {
    ($($type:ident $magnitude:expr, $sign:expr);* $(;)?) => {$(
        impl Number for $type {
            const ZERO: $type = 0;
            const ONE: $type = 1;
            #[inline(always)]
            fn plus(self, other: $type) -> $type {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn minus(self, other: $type) -> $type {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn times(self, other: $type) -> $type {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn conjugate(self) -> $type {
                self
            }
            #[inline(always)]
            fn from_count(count: usize) -> $type {
                count as $type
            }
            #[inline(always)]
            fn divided_by(self, divisor: $type) -> $type {
                if divisor == 0 { 0 } else { self.wrapping_div(divisor) }
            }
        }

        #[allow(unused_comparisons, reason = "signed and unsigned types share the definition")]
        impl Real for $type {
            const LOWEST: $type = $type::MIN;
            const HIGHEST: $type = $type::MAX;
            #[inline(always)]
            fn max_or_nan(self, other: $type) -> $type {
                self.max(other)
            }
            #[inline(always)]
            fn min_or_nan(self, other: $type) -> $type {
                self.min(other)
            }
            #[inline(always)]
            fn magnitude(self) -> $type {
                let magnitude: fn($type) -> $type = $magnitude;
                magnitude(self)
            }
            #[inline(always)]
            fn sign(self) -> $type {
                let sign: fn($type) -> $type = $sign;
                sign(self)
            }
            #[inline(always)]
            fn floor_div(self, divisor: $type) -> $type {
                let remainder = self.truncate_mod(divisor);
                let is_between = remainder != 0 && (remainder < 0) != (divisor < 0);
                self.divided_by(divisor).wrapping_sub(is_between as $type)
            }
            #[inline(always)]
            fn truncate_div(self, divisor: $type) -> $type {
                self.divided_by(divisor)
            }
            #[inline(always)]
            fn floor_mod(self, divisor: $type) -> $type {
                let remainder = self.truncate_mod(divisor);
                let has_other_sign = remainder != 0 && (remainder < 0) != (divisor < 0);
                if has_other_sign { remainder.wrapping_add(divisor) } else { remainder }
            }
            #[inline(always)]
            fn truncate_mod(self, divisor: $type) -> $type {
                if divisor == 0 { 0 } else { self.wrapping_rem(divisor) }
            }
            #[inline(always)]
            fn rounded(self) -> $type {
                self
            }
        }

        impl Power for $type {
            /// By squaring. Negative exponents are ruled out by callers.
            #[inline(always)]
            fn power(self, exponent: $type) -> $type {
                let (mut base, mut left, mut result) = (self, exponent, 1 as $type);
                while left > 0 {
                    if left & 1 == 1 {
                        result = result.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    left >>= 1;
                }
                result
            }
        }
    )*};
}
integers! {
    i8 i8::wrapping_abs, i8::signum;
    i16 i16::wrapping_abs, i16::signum;
    i32 i32::wrapping_abs, i32::signum;
    i64 i64::wrapping_abs, i64::signum;
    u8 |x| x, |x| x.min(1);
    u16 |x| x, |x| x.min(1);
    u32 |x| x, |x| x.min(1);
    u64 |x| x, |x| x.min(1);
}

macro_rules! floats {
    ($($type:ident $exp:path, $ln:path, $tanh:path, $sigmoid:path);* $(;)?) => {$(
        impl Number for $type {
            const ZERO: $type = 0.0;
            const ONE: $type = 1.0;
            #[inline(always)]
            fn plus(self, other: $type) -> $type {
                self + other
            }
            #[inline(always)]
            fn minus(self, other: $type) -> $type {
                self - other
            }
            #[inline(always)]
            fn times(self, other: $type) -> $type {
                self * other
            }
            #[inline(always)]
            fn conjugate(self) -> $type {
                self
            }
            #[inline(always)]
            fn from_count(count: usize) -> $type {
                count as $type
            }
            #[inline(always)]
            fn divided_by(self, divisor: $type) -> $type {
                self.flush_denormal() / divisor.flush_denormal()
            }
        }

        impl Real for $type {
            const LOWEST: $type = $type::NEG_INFINITY;
            const HIGHEST: $type = $type::INFINITY;
            #[inline(always)]
            fn max_or_nan(self, other: $type) -> $type {
                if self > other || self.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn min_or_nan(self, other: $type) -> $type {
                if self < other || self.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn magnitude(self) -> $type {
                self.abs()
            }
            #[inline(always)]
            fn sign(self) -> $type {
                let x = self.flush_denormal();
                let sign = (1.0 as $type).copysign(x);
                if x == 0.0 || x.is_nan() { x } else { sign }
            }
            #[inline(always)]
            fn floor_div(self, divisor: $type) -> $type {
                self.divided_by(divisor).floor()
            }
            #[inline(always)]
            fn truncate_div(self, divisor: $type) -> $type {
                self.divided_by(divisor).trunc()
            }
            #[inline(always)]
            fn floor_mod(self, divisor: $type) -> $type {
                let remainder = self % divisor;
                let has_other_sign = remainder != 0.0 && (remainder < 0.0) != (divisor < 0.0);
                if has_other_sign { remainder + divisor } else { remainder }
            }
            #[inline(always)]
            fn truncate_mod(self, divisor: $type) -> $type {
                self % divisor
            }
            #[inline(always)]
            fn rounded(self) -> $type {
                self.round_ties_even()
            }
        }

        impl Power for $type {
            #[inline(always)]
            fn power(self, exponent: $type) -> $type {
                self.flush_denormal().powf(exponent.flush_denormal())
            }
        }

        impl Field for $type {
            #[inline(always)]
            fn constant(value: f64) -> $type {
                value as $type
            }
        }

        impl Elementary for $type {
            #[inline(always)]
            fn exp(self) -> $type {
                $exp(self)
            }
            #[inline(always)]
            fn exp_minus_1(self) -> $type {
                self.exp_m1()
            }
            #[inline(always)]
            fn ln(self) -> $type {
                $ln(self)
            }
            #[inline(always)]
            fn ln_1_plus(self) -> $type {
                self.ln_1p()
            }
            #[inline(always)]
            fn sqrt(self) -> $type {
                self.flush_denormal().sqrt()
            }
            #[inline(always)]
            fn sigmoid(self) -> $type {
                $sigmoid(self)
            }
            #[inline(always)]
            fn tanh(self) -> $type {
                $tanh(self)
            }
            elementary_methods!($type: sin cos tan asin acos atan sinh cosh acosh atanh);
            #[inline]
            fn asinh(self) -> $type {
                // The library's formula doubles its operand; from here on ln 2|x| is exact.
                if self.abs() > 1e18 && self.is_finite() {
                    (self.abs().ln() + std::$type::consts::LN_2).copysign(self)
                } else {
                    $type::asinh(self)
                }
            }
        }

        impl Floating for $type {
            #[inline(always)]
            fn floor(self) -> $type {
                $type::floor(self.flush_denormal())
            }
            #[inline(always)]
            fn ceil(self) -> $type {
                $type::ceil(self.flush_denormal())
            }
            #[inline(always)]
            fn atan2(self, x: $type) -> $type {
                self.atan2(x)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            #[inline(always)]
            fn is_infinite(self) -> bool {
                self.is_infinite()
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn from_f64(value: f64) -> $type {
                value as $type
            }
        }
    )*};
}

macro_rules! elementary_methods {
    ($type:ident: $($function:ident)*) => {$(
        #[inline(always)]
        fn $function(self) -> $type {
            $type::$function(self)
        }
    )*};
}

floats! {
    f32 vector_math::exp_f32, vector_math::log_f32, vector_math::tanh_f32, vector_math::sigmoid_f32;
    f64 f64::exp, f64::ln, f64::tanh, special::sigmoid_f64;
}

macro_rules! complex_methods {
    ($type:ident: $($function:ident)*) => {$(
        #[inline(always)]
        fn $function(self) -> Self {
            Complex::<$type>::$function(self)
        }
    )*};
}

macro_rules! complex_numbers {
    ($($type:ident),*) => {$(
        impl Number for Complex<$type> {
            const ZERO: Self = Complex { re: 0.0, im: 0.0 };
            const ONE: Self = Complex { re: 1.0, im: 0.0 };
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn conjugate(self) -> Self {
                self.conj()
            }
            #[inline(always)]
            fn from_count(count: usize) -> Self {
                Complex { re: count as $type, im: 0.0 }
            }
            #[inline(always)]
            fn divided_by(self, divisor: Self) -> Self {
                self / divisor
            }
        }

        impl Power for Complex<$type> {
            #[inline(always)]
            fn power(self, exponent: Self) -> Self {
                if exponent == Self::ZERO { Self::ONE } else { self.powc(exponent) }
            }
        }

        impl Field for Complex<$type> {
            #[inline(always)]
            fn constant(value: f64) -> Self {
                Complex { re: value as $type, im: 0.0 }
            }
        }

        impl Elementary for Complex<$type> {
            #[inline(always)]
            fn exp_minus_1(self) -> Self {
                // e^(x+iy) - 1 = (e^x - 1) cos y - 2 sin²(y/2) + i e^x sin y, without cancellation near zero.
                let half_sine = (self.im * 0.5).sin();
                Complex {
                    re: self.re.exp_m1() * self.im.cos() - 2.0 * half_sine * half_sine,
                    im: self.re.exp() * self.im.sin(),
                }
            }
            #[inline(always)]
            fn ln_1_plus(self) -> Self {
                let shifted = self + Self::ONE;
                // |1+z|² - 1 = x (2 + x) + y², without cancellation near zero.
                let re = if shifted.re.abs() < 2.0 && shifted.im.abs() < 1.0 {
                    0.5 * (self.re * (2.0 + self.re) + self.im * self.im).ln_1p()
                } else {
                    ComplexFloat::abs(shifted).ln()
                };
                Complex { re, im: shifted.arg() }
            }
            #[inline(always)]
            fn sigmoid(self) -> Self {
                Self::ONE / (Self::ONE + (-self).exp())
            }
            complex_methods!($type: exp ln sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh);
        }
    )*};
}
complex_numbers!(f32, f64);

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
