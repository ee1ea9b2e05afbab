//! Integers: all operations wrap around.

use super::{Number, Power, Real};

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
            #[inline(always)]
            fn checked_quotient(self, divisor: $type) -> Option<$type> {
                (divisor != 0).then(|| self.wrapping_div(divisor))
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
