//! [`Stored`]: elements as tensors store them, and as loops compute with them.
//!
//! Half and bfloat16 have no arithmetic of their own on most processors. TensorFlow computes on them by widening to
//! float and rounding the result, and so do we, a block at a time: ops need no loops of their own for these types.

use std::borrow::Cow;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use num_complex::Complex;
use tensorfleet_core::{DType, Element, Result, Shape, Tensor, memory};

/// A storage type with the type that its arithmetic is done in.
pub trait Stored: Element {
    /// What loops compute with: the type itself, or `f32` for 16-bit floats.
    type Compute: Stored<Compute = Self::Compute>;

    /// Whether programs spend their time on this type, so that loops over it get a version for wide vectors.
    const IS_HOT: bool = false;

    /// The elements themselves, if they need no widening.
    fn as_compute(elements: &[Self]) -> Option<&[Self::Compute]>;

    /// The elements themselves for writing, if they need no rounding.
    fn as_compute_mut(elements: &mut [Self]) -> Option<&mut [Self::Compute]>;

    /// One element widened.
    fn widened(&self) -> Self::Compute;

    /// Widens into a slice of the same length.
    fn widen(elements: &[Self], wide: &mut [Self::Compute]);

    /// Rounds into a slice of the same length.
    fn narrow(wide: &[Self::Compute], elements: &mut [Self]);
}

macro_rules! computed_as_stored {
    ($is_hot:literal: $($type:ty),*) => {$(
        impl Stored for $type {
            type Compute = $type;
            const IS_HOT: bool = $is_hot;

            #[inline(always)]
            fn as_compute(elements: &[$type]) -> Option<&[$type]> {
                Some(elements)
            }

            #[inline(always)]
            fn as_compute_mut(elements: &mut [$type]) -> Option<&mut [$type]> {
                Some(elements)
            }

            #[inline(always)]
            fn widened(&self) -> $type {
                *self
            }

            #[inline(always)]
            fn widen(elements: &[$type], wide: &mut [$type]) {
                wide.copy_from_slice(elements);
            }

            #[inline(always)]
            fn narrow(wide: &[$type], elements: &mut [$type]) {
                elements.copy_from_slice(wide);
            }
        }
    )*};
}
computed_as_stored!(true: f32, f64, i32, i64);
computed_as_stored!(false: i8, i16, u8, u16, u32, u64, bool, Complex<f32>, Complex<f64>);

macro_rules! computed_as_float {
    ($($type:ty),*) => {$(
        impl Stored for $type {
            type Compute = f32;

            #[inline(always)]
            fn as_compute(_: &[$type]) -> Option<&[f32]> {
                None
            }

            #[inline(always)]
            fn as_compute_mut(_: &mut [$type]) -> Option<&mut [f32]> {
                None
            }

            #[inline(always)]
            fn widened(&self) -> f32 {
                self.to_f32()
            }

            fn widen(elements: &[$type], wide: &mut [f32]) {
                elements.convert_to_f32_slice(wide);
            }

            fn narrow(wide: &[f32], elements: &mut [$type]) {
                elements.convert_from_f32_slice(wide);
            }
        }
    )*};
}
computed_as_float!(f16, bf16);

/// All elements as compute values: the elements themselves, or a widened copy.
pub fn compute_elements<S: Stored>(elements: &[S]) -> Result<Cow<'_, [S::Compute]>> {
    match S::as_compute(elements) {
        Some(direct) => Ok(Cow::Borrowed(direct)),
        None => {
            let mut wide = memory::vec_of(S::Compute::default(), elements.len())?;
            S::widen(elements, &mut wide);
            Ok(Cow::Owned(wide))
        }
    }
}

/// The elements rounded to their storage type.
pub fn stored_elements<S: Stored>(wide: &[S::Compute]) -> Result<Vec<S>> {
    let mut elements = memory::vec_of(S::default(), wide.len())?;
    S::narrow(wide, &mut elements);
    Ok(elements)
}

/// Changes all elements as compute values, each rounded once.
pub fn update_computed<S: Stored>(elements: &mut [S], update: impl FnOnce(&mut [S::Compute])) -> Result<()> {
    if let Some(direct) = S::as_compute_mut(elements) {
        update(direct);
        return Ok(());
    }
    let mut wide = memory::vec_of(S::Compute::default(), elements.len())?;
    S::widen(elements, &mut wide);
    update(&mut wide);
    S::narrow(&wide, elements);
    Ok(())
}

/// That a dtype is one of those whose compute type is float: float, half or bfloat16.
pub fn check_narrow(dtype: DType) -> Result<()> {
    match dtype {
        DType::Float | DType::Half | DType::BFloat16 => Ok(()),
        _ => Err(crate::dispatch::no_kernel(dtype)),
    }
}

/// The elements of a float, half or bfloat16 tensor as floats.
pub fn floats_of(tensor: &Tensor) -> Result<Cow<'_, [f32]>> {
    crate::dispatch!(tensor.dtype(), T in [f32, f16, bf16] => compute_elements(tensor.as_slice::<T>()?))
}

/// Writes the elements of a tensor as floats.
type Fill<'a> = Box<dyn FnOnce(&mut [f32]) -> Result<()> + 'a>;

/// A float, half or bfloat16 tensor whose elements are written by `fill` as floats and rounded once.
pub fn build_floats(
    dtype: DType,
    shape: Shape,
    fill: impl FnOnce(&mut [f32]) -> Result<()>,
) -> Result<Tensor> {
    // One instance of `fill`, whichever of the types it is.
    let fill: Fill<'_> = Box::new(fill);
    crate::dispatch!(dtype, T in [f32, f16, bf16] => build_computed::<T>(shape, fill))
}

/// A tensor whose elements are written by `fill` as compute values and rounded once, at the end. `fill` gets
/// unspecified content to overwrite.
pub fn build_computed<S: Stored>(
    shape: Shape,
    fill: impl FnOnce(&mut [S::Compute]) -> Result<()>,
) -> Result<Tensor> {
    Tensor::build::<S>(shape, |out| {
        if let Some(direct) = S::as_compute_mut(out) {
            return fill(direct);
        }
        let mut wide = memory::vec_of(S::Compute::default(), out.len())?;
        fill(&mut wide)?;
        S::narrow(&wide, out);
        Ok(())
    })
}

/// A tensor of zeros to whose elements `add` adds as compute values; they are rounded once, at the end.
pub fn build_sums<S: Stored>(
    shape: Shape,
    add: impl FnOnce(&mut [S::Compute]) -> Result<()>,
) -> Result<Tensor> {
    let mut sums = Tensor::zeros(S::DTYPE, shape)?;
    let elements = sums.make_mut::<S>()?;
    if let Some(direct) = S::as_compute_mut(elements) {
        add(direct)?;
    } else {
        let mut wide = memory::vec_of(S::Compute::default(), elements.len())?;
        add(&mut wide)?;
        S::narrow(&wide, elements);
    }
    Ok(sums)
}
