//! Float and double.

use super::{Elementary, Field, Floating, Number, Power, Real};
use crate::special;
use crate::vector_math::{self, FlushDenormal};

macro_rules! floats {
    ($($type:ident $exp:path, $exp_of_negative:path, $ln:path, $tanh:path, $sigmoid:path);* $(;)?) => {$(
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
            #[inline(always)]
            fn checked_quotient(self, divisor: $type) -> Option<$type> {
                Some(self / divisor)
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
            #[inline(always)]
            fn root(self) -> $type {
                $type::sqrt(self)
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
            const EPSILON: $type = $type::EPSILON;
            #[inline(always)]
            fn exp_of_negative(self) -> $type {
                $exp_of_negative(self)
            }
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
    f32 vector_math::exp_f32, vector_math::exp_of_negative_f32, vector_math::log_f32, vector_math::tanh_f32, vector_math::sigmoid_f32;
    f64 f64::exp, f64::exp, f64::ln, f64::tanh, special::sigmoid_f64;
}
