//! Half and bfloat16: each operation is done in float and rounded.

use half::{bf16, f16};

use super::{Field, Number};

macro_rules! halves {
    ($($type:ident),*) => {$(
        impl Number for $type {
            const ZERO: $type = $type::ZERO;
            const ONE: $type = $type::ONE;
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
                $type::from_f64(count as f64)
            }
            #[inline(always)]
            fn divided_by(self, divisor: $type) -> $type {
                self / divisor
            }
            #[inline(always)]
            fn checked_quotient(self, divisor: $type) -> Option<$type> {
                Some(self / divisor)
            }
        }

        impl Field for $type {
            #[inline(always)]
            fn constant(value: f64) -> $type {
                $type::from_f64(value)
            }
            #[inline(always)]
            fn root(self) -> $type {
                $type::from_f32(self.to_f32().sqrt())
            }
        }
    )*};
}
halves!(f16, bf16);
