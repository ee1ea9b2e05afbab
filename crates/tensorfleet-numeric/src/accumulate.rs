//! Adding and comparing elements of any number type, for ops that scatter into overlapping places.

use half::{bf16, f16};
use num_complex::Complex;
use tensorfleet_core::Element;

/// A number one can sum up. Integers wrap, as TensorFlow's do.
pub trait Summand: Element {
    /// The sum.
    fn plus(self, other: Self) -> Self;
    /// The difference.
    fn minus(self, other: Self) -> Self;
    /// The product.
    fn times(self, other: Self) -> Self;
}

macro_rules! summands {
    (integers $($rust:ty),*) => {$(
        impl Summand for $rust {
            #[inline]
            fn plus(self, other: $rust) -> $rust { self.wrapping_add(other) }
            #[inline]
            fn minus(self, other: $rust) -> $rust { self.wrapping_sub(other) }
            #[inline]
            fn times(self, other: $rust) -> $rust { self.wrapping_mul(other) }
        }
    )*};
    (others $($rust:ty),*) => {$(
        impl Summand for $rust {
            #[inline]
            fn plus(self, other: $rust) -> $rust { self + other }
            #[inline]
            fn minus(self, other: $rust) -> $rust { self - other }
            #[inline]
            fn times(self, other: $rust) -> $rust { self * other }
        }
    )*};
}
summands!(integers i8, i16, i32, i64, u8, u16, u32, u64);
summands!(others f32, f64, f16, bf16, Complex<f32>, Complex<f64>);

/// Adds a row to another of the same length.
#[inline]
pub fn add_row<T: Summand>(out: &mut [T], row: &[T]) {
    out.iter_mut().zip(row).for_each(|(out, &element)| *out = out.plus(element));
}
