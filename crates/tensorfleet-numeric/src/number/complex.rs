//! Complex numbers.

use num_complex::{Complex, ComplexFloat};

use super::{Elementary, Field, Number, Power};

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
            #[inline(always)]
            fn checked_quotient(self, divisor: Self) -> Option<Self> {
                Some(self / divisor)
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
            #[inline(always)]
            fn root(self) -> Self {
                Complex::<$type>::sqrt(self)
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
