//! The elements of a tensor as numbers, whatever its dtype.

use half::{bf16, f16};
use num_complex::Complex;
use tensorfleet_core::{DType, Element, Result, Tensor};

/// Borrowed elements. Quantised dtypes are their integers.
pub(super) enum Numbers<'a> {
    Half(&'a [f16]),
    BFloat16(&'a [bf16]),
    Float(&'a [f32]),
    Double(&'a [f64]),
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    UInt8(&'a [u8]),
    UInt16(&'a [u16]),
    UInt32(&'a [u32]),
    UInt64(&'a [u64]),
    Bool(&'a [bool]),
    Complex64(&'a [Complex<f32>]),
    Complex128(&'a [Complex<f64>]),
}

/// Runs the same code on the slice, whatever its type.
macro_rules! on_slice {
    ($numbers:expr, $slice:ident => $code:expr) => {
        match $numbers {
            Numbers::Half($slice) => $code,
            Numbers::BFloat16($slice) => $code,
            Numbers::Float($slice) => $code,
            Numbers::Double($slice) => $code,
            Numbers::Int8($slice) => $code,
            Numbers::Int16($slice) => $code,
            Numbers::Int32($slice) => $code,
            Numbers::Int64($slice) => $code,
            Numbers::UInt8($slice) => $code,
            Numbers::UInt16($slice) => $code,
            Numbers::UInt32($slice) => $code,
            Numbers::UInt64($slice) => $code,
            Numbers::Bool($slice) => $code,
            Numbers::Complex64($slice) => $code,
            Numbers::Complex128($slice) => $code,
        }
    };
}

impl Numbers<'_> {
    /// The numbers of a tensor; `None` if it holds strings or handles.
    pub(super) fn of(tensor: &Tensor) -> Result<Option<Numbers<'_>>> {
        use Numbers as N;
        Ok(Some(match tensor.dtype().storage() {
            DType::Half => N::Half(tensor.as_slice()?),
            DType::BFloat16 => N::BFloat16(tensor.as_slice()?),
            DType::Float => N::Float(tensor.as_slice()?),
            DType::Double => N::Double(tensor.as_slice()?),
            DType::Int8 => N::Int8(tensor.as_slice()?),
            DType::Int16 => N::Int16(tensor.as_slice()?),
            DType::Int32 => N::Int32(tensor.as_slice()?),
            DType::Int64 => N::Int64(tensor.as_slice()?),
            DType::UInt8 => N::UInt8(tensor.as_slice()?),
            DType::UInt16 => N::UInt16(tensor.as_slice()?),
            DType::UInt32 => N::UInt32(tensor.as_slice()?),
            DType::UInt64 => N::UInt64(tensor.as_slice()?),
            DType::Bool => N::Bool(tensor.as_slice()?),
            DType::Complex64 => N::Complex64(tensor.as_slice()?),
            DType::Complex128 => N::Complex128(tensor.as_slice()?),
            _ => return Ok(None),
        }))
    }

    /// Calls `see` with each element as a real number (complex ones by their magnitude) and as an exact integer if it
    /// is of an integer type.
    pub(super) fn for_each(&self, mut see: impl FnMut(f64, Option<i128>)) {
        on_slice!(self, slice => slice.iter().for_each(|element| see(element.real(), element.integer())));
    }

    /// Calls `see` for each pair with the distance of the two; `None` if they are equal. All distances are from finite
    /// numbers to finite ones, or infinite.
    pub(super) fn for_each_distance(&self, other: &Numbers, mut see: impl FnMut(Option<f64>)) {
        macro_rules! pairs {
            ($($kind:ident)*) => {
                match (self, other) {
                    $((Numbers::$kind(a), Numbers::$kind(b)) => {
                        a.iter().zip(*b).for_each(|(a, b)| see(a.distance(b)));
                    })*
                    // Callers compare tensors of one dtype.
                    _ => {}
                }
            };
        }
        pairs!(Half BFloat16 Float Double Int8 Int16 Int32 Int64 UInt8 UInt16 UInt32 UInt64 Bool Complex64 Complex128);
    }
}

/// What the numeric types have in common.
trait Number: Element {
    fn real(&self) -> f64;

    fn integer(&self) -> Option<i128> {
        None
    }

    /// How far two elements are apart; `None` if they are equal, and NaN is equal to NaN.
    fn distance(&self, other: &Self) -> Option<f64> {
        if self == other {
            return None;
        }
        let (a, b) = (self.real(), other.real());
        match (a.is_nan() && b.is_nan(), (a - b).abs()) {
            (true, _) => None,
            (false, distance) if distance.is_finite() => Some(distance),
            (false, _) => Some(f64::INFINITY),
        }
    }
}

impl Number for f16 {
    fn real(&self) -> f64 {
        self.to_f64()
    }
}

impl Number for bf16 {
    fn real(&self) -> f64 {
        self.to_f64()
    }
}

impl Number for f32 {
    fn real(&self) -> f64 {
        f64::from(*self)
    }
}

impl Number for f64 {
    fn real(&self) -> f64 {
        *self
    }
}

impl Number for bool {
    fn real(&self) -> f64 {
        f64::from(u8::from(*self))
    }
}

macro_rules! integers {
    ($($type:ty)*) => {
        $(impl Number for $type {
            fn real(&self) -> f64 {
                *self as f64
            }

            fn integer(&self) -> Option<i128> {
                Some(i128::from(*self))
            }

            fn distance(&self, other: &Self) -> Option<f64> {
                (self != other).then(|| (i128::from(*self) - i128::from(*other)).unsigned_abs() as f64)
            }
        })*
    };
}

integers!(i8 i16 i32 i64 u8 u16 u32 u64);

macro_rules! complex_numbers {
    ($($type:ty)*) => {
        $(impl Number for Complex<$type> {
            fn real(&self) -> f64 {
                f64::from(self.re).hypot(f64::from(self.im))
            }

            fn distance(&self, other: &Self) -> Option<f64> {
                if self == other {
                    return None;
                }
                let distance = f64::from(self.re - other.re).hypot(f64::from(self.im - other.im));
                match (self.is_nan() && other.is_nan(), distance.is_finite()) {
                    (true, _) => None,
                    (false, true) => Some(distance),
                    (false, false) => Some(f64::INFINITY),
                }
            }
        })*
    };
}

complex_numbers!(f32 f64);

/// A number with about six digits.
pub(super) fn short(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 || !number.is_finite() {
        return format!("{number}");
    }
    if !(1e-4..1e7).contains(&size) {
        return format!("{number:.4e}");
    }
    let digits = (5 - size.log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{number:.digits$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_keep_their_size() {
        for (number, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (-0.1, "-0.1"),
            (1234.5678, "1234.57"),
            (0.000123456789, "0.000123457"),
            (1e-30, "1.0000e-30"),
            (3.4e38, "3.4000e38"),
            (100000.0, "100000"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(short(number), text);
        }
    }

    #[test]
    fn distances_are_exact_for_integers_and_forgive_equal_nans() {
        assert_eq!(i64::MAX.distance(&(i64::MAX - 1)), Some(1.0));
        assert_eq!(f32::NAN.distance(&f32::NAN), None);
        assert_eq!(f32::NAN.distance(&1.0), Some(f64::INFINITY));
        assert_eq!(f32::INFINITY.distance(&f32::INFINITY), None);
        assert_eq!(Complex::new(0.0f32, 0.0).distance(&Complex::new(3.0, 4.0)), Some(5.0));
        assert_eq!(true.distance(&false), Some(1.0));
    }
}
