//! Literals take the dtype their place asks for, as Python numbers do: `x + 2` works for every numeric `x`.

use half::{bf16, f16};
use num_complex::Complex;
use tensorfleet_core::{DType, Element, Tensor};

/// The literal as `dtype`: integers as any number that represents them exactly (or rounds, if floating), floats
/// as any floating or complex number; `None` if it cannot become one.
pub fn adapted(literal: &Tensor, dtype: DType) -> Option<Tensor> {
    if literal.dtype() == dtype {
        return Some(literal.clone());
    }
    match literal.dtype() {
        DType::Float => {
            from_floats(literal, literal.as_slice::<f32>().ok()?.iter().map(|&x| x as f64), dtype)
        }
        DType::Double => from_floats(literal, literal.as_slice::<f64>().ok()?.iter().copied(), dtype),
        DType::Int8 => {
            from_integers(literal, literal.as_slice::<i8>().ok()?.iter().map(|&x| x.into()), dtype)
        }
        DType::Int16 => {
            from_integers(literal, literal.as_slice::<i16>().ok()?.iter().map(|&x| x.into()), dtype)
        }
        DType::Int32 => {
            from_integers(literal, literal.as_slice::<i32>().ok()?.iter().map(|&x| x.into()), dtype)
        }
        DType::Int64 => {
            from_integers(literal, literal.as_slice::<i64>().ok()?.iter().map(|&x| x.into()), dtype)
        }
        DType::UInt8 => {
            from_integers(literal, literal.as_slice::<u8>().ok()?.iter().map(|&x| x.into()), dtype)
        }
        DType::UInt16 => {
            from_integers(literal, literal.as_slice::<u16>().ok()?.iter().map(|&x| x.into()), dtype)
        }
        DType::UInt32 => {
            from_integers(literal, literal.as_slice::<u32>().ok()?.iter().map(|&x| x.into()), dtype)
        }
        DType::UInt64 => {
            from_integers(literal, literal.as_slice::<u64>().ok()?.iter().map(|&x| x.into()), dtype)
        }
        _ => None,
    }
}

fn from_floats(like: &Tensor, values: impl Iterator<Item = f64>, dtype: DType) -> Option<Tensor> {
    match dtype {
        DType::Half => collect(like, values.map(|x| Some(f16::from_f64(x)))),
        DType::BFloat16 => collect(like, values.map(|x| Some(bf16::from_f64(x)))),
        DType::Float => collect(like, values.map(|x| Some(x as f32))),
        DType::Double => collect(like, values.map(Some)),
        DType::Complex64 => collect(like, values.map(|x| Some(Complex::new(x as f32, 0.0)))),
        DType::Complex128 => collect(like, values.map(|x| Some(Complex::new(x, 0.0)))),
        _ => None,
    }
}

fn from_integers(like: &Tensor, values: impl Iterator<Item = i128>, dtype: DType) -> Option<Tensor> {
    match dtype {
        DType::Int8 => collect(like, values.map(|x| i8::try_from(x).ok())),
        DType::Int16 => collect(like, values.map(|x| i16::try_from(x).ok())),
        DType::Int32 => collect(like, values.map(|x| i32::try_from(x).ok())),
        DType::Int64 => collect(like, values.map(|x| i64::try_from(x).ok())),
        DType::UInt8 => collect(like, values.map(|x| u8::try_from(x).ok())),
        DType::UInt16 => collect(like, values.map(|x| u16::try_from(x).ok())),
        DType::UInt32 => collect(like, values.map(|x| u32::try_from(x).ok())),
        DType::UInt64 => collect(like, values.map(|x| u64::try_from(x).ok())),
        _ => from_floats(like, values.map(|x| x as f64), dtype),
    }
}

fn collect<T: Element>(like: &Tensor, values: impl Iterator<Item = Option<T>>) -> Option<Tensor> {
    let values: Vec<T> = values.collect::<Option<_>>()?;
    Tensor::from_slice(&values, like.shape()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_become_any_number_that_holds_them_and_floats_any_float() {
        let two = Tensor::scalar(2i32);
        assert_eq!(adapted(&two, DType::Float), Some(Tensor::scalar(2.0f32)));
        assert_eq!(adapted(&two, DType::UInt8), Some(Tensor::scalar(2u8)));
        assert_eq!(adapted(&Tensor::scalar(300i32), DType::UInt8), None);
        assert_eq!(adapted(&Tensor::scalar(-1i64), DType::UInt64), None);
        assert_eq!(adapted(&Tensor::scalar(0.1f64), DType::Float), Some(Tensor::scalar(0.1f32)));
        assert_eq!(adapted(&Tensor::scalar(2.0f64), DType::Int32), None);
        assert_eq!(adapted(&Tensor::scalar(true), DType::Int32), None);
    }
}
