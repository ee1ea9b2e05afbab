//! [`Field`]: the numbers that optimizers compute with, each operation rounded to the dtype as TensorFlow does.

use half::{bf16, f16};
use num_complex::Complex;
use tensorfleet_core::Element;

/// Numbers with the four operations and square roots; real or complex.
pub(crate) trait Field: Element + num_traits::Num + std::ops::Neg<Output = Self> {
    /// The principal square root.
    fn root(self) -> Self;
    /// A step counter as a number of this type.
    fn from_count(count: i64) -> Self;

    /// `self * self`
    fn squared(self) -> Self {
        self * self
    }
}

macro_rules! fields {
    ($($number:ty, $root:path, $from_count:expr;)*) => {
        $(impl Field for $number {
            #[inline(always)]
            fn root(self) -> Self {
                $root(self)
            }
            fn from_count(count: i64) -> Self {
                $from_count(count)
            }
        })*
    };
}

fields! {
    f32, f32::sqrt, |count| count as f32;
    f64, f64::sqrt, |count| count as f64;
    f16, num_traits::Float::sqrt, |count| f16::from_f64(count as f64);
    bf16, num_traits::Float::sqrt, |count| bf16::from_f64(count as f64);
    Complex<f32>, Complex::sqrt, |count| Complex::from(count as f32);
    Complex<f64>, Complex::sqrt, |count| Complex::from(count as f64);
}

/// Fields with an order: what rules with thresholds and signs need.
pub(crate) trait Ordered: Field + num_traits::Float {
    /// -1, 0 or 1; NaN stays NaN. (`Float::signum` has no zero.)
    #[inline(always)]
    fn sign(self) -> Self {
        if self > Self::zero() {
            Self::one()
        } else if self < Self::zero() {
            -Self::one()
        } else {
            self
        }
    }
}

impl<T: Field + num_traits::Float> Ordered for T {}
