//! The numbers of neural-network kernels: halves are computed in single precision and rounded once, as
//! TensorFlow does.

use half::{bf16, f16};
use tensorfleet_core::Element;

use crate::vector_math;

/// A floating-point dtype with the type its kernels compute in.
pub trait Real: Element {
    /// `f32` for all but `f64`.
    type Wide: Wide;
    /// The exact value in the wider type.
    fn widen(self) -> Self::Wide;
    /// The nearest value.
    fn narrow(wide: Self::Wide) -> Self;
}

/// A type that kernels compute in, with elementary functions that vectorise where the type allows.
pub trait Wide: Real<Wide = Self> + num_traits::Float + std::iter::Sum {
    /// e^x
    fn fast_exp(self) -> Self;
    /// e^x for x up to 0
    fn fast_exp_of_negative(self) -> Self;
    /// ln x
    fn fast_ln(self) -> Self;
    /// tanh x
    fn fast_tanh(self) -> Self;
    /// A constant, rounded.
    fn constant(value: f64) -> Self;

    /// 1 / (1 + e^-x)
    #[inline(always)]
    fn fast_sigmoid(self) -> Self {
        Self::one() / (Self::one() + (-self).fast_exp())
    }
}

macro_rules! wide {
    ($($number:ty, $exp:path, $exp_of_negative:path, $ln:path, $tanh:path;)*) => {
        $(impl Real for $number {
            type Wide = $number;
            #[inline(always)]
            fn widen(self) -> $number {
                self
            }
            #[inline(always)]
            fn narrow(wide: $number) -> $number {
                wide
            }
        }
        impl Wide for $number {
            #[inline(always)]
            fn fast_exp(self) -> $number {
                $exp(self)
            }
            #[inline(always)]
            fn fast_exp_of_negative(self) -> $number {
                $exp_of_negative(self)
            }
            #[inline(always)]
            fn fast_ln(self) -> $number {
                $ln(self)
            }
            #[inline(always)]
            fn fast_tanh(self) -> $number {
                $tanh(self)
            }
            #[inline(always)]
            fn constant(value: f64) -> $number {
                value as $number
            }
        })*
    };
}

wide! {
    f32, vector_math::exp_f32, vector_math::exp_of_negative_f32, vector_math::log_f32, vector_math::tanh_f32;
    f64, f64::exp, f64::exp, f64::ln, f64::tanh;
}

macro_rules! narrow {
    ($($half:ty;)*) => {
        $(impl Real for $half {
            type Wide = f32;
            #[inline(always)]
            fn widen(self) -> f32 {
                self.to_f32()
            }
            #[inline(always)]
            fn narrow(wide: f32) -> $half {
                <$half>::from_f32(wide)
            }
        })*
    };
}

narrow! {
    f16;
    bf16;
}
