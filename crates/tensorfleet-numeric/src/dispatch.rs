//! From a dtype to a Rust type: [`dispatch!`](crate::dispatch!) runs a generic expression for the dtype at hand.

/// Evaluates an expression with a type alias bound to the Rust type of a dtype. Dtypes outside the set give
/// the error "no kernel for …".
///
/// ```ignore
/// dispatch!(dtype, T in numeric => Ok(KernelBox::new(Negate::<T>::default())))
/// ```
///
/// Sets: `floating` (half, bfloat16, float, double), `integer`, `real` (both), `complex`, `numeric` (real and
/// complex), `plain` (numeric and bool), `index` (int32, int64), or an explicit list `[f32, f64]`.
#[macro_export]
macro_rules! dispatch {
    ($dtype:expr, $T:ident in floating => $body:expr) => {
        $crate::dispatch!($dtype, $T in [f32, f64, half::f16, half::bf16] => $body)
    };
    ($dtype:expr, $T:ident in integer => $body:expr) => {
        $crate::dispatch!($dtype, $T in [i32, i64, i8, i16, u8, u16, u32, u64] => $body)
    };
    ($dtype:expr, $T:ident in real => $body:expr) => {
        $crate::dispatch!($dtype, $T in [f32, f64, half::f16, half::bf16, i32, i64, i8, i16, u8, u16, u32, u64] => $body)
    };
    ($dtype:expr, $T:ident in complex => $body:expr) => {
        $crate::dispatch!($dtype, $T in [num_complex::Complex<f32>, num_complex::Complex<f64>] => $body)
    };
    ($dtype:expr, $T:ident in numeric => $body:expr) => {
        $crate::dispatch!($dtype, $T in [f32, f64, half::f16, half::bf16, i32, i64, i8, i16, u8, u16, u32, u64,
            num_complex::Complex<f32>, num_complex::Complex<f64>] => $body)
    };
    ($dtype:expr, $T:ident in plain => $body:expr) => {
        $crate::dispatch!($dtype, $T in [f32, f64, half::f16, half::bf16, i32, i64, i8, i16, u8, u16, u32, u64, bool,
            num_complex::Complex<f32>, num_complex::Complex<f64>] => $body)
    };
    ($dtype:expr, $T:ident in index => $body:expr) => {
        $crate::dispatch!($dtype, $T in [i32, i64] => $body)
    };
    ($dtype:expr, $T:ident in [$($rust:ty),+ $(,)?] => $body:expr) => {{
        let dtype: tensorfleet_core::DType = $dtype;
        $(if dtype.storage() == <$rust as tensorfleet_core::Element>::DTYPE {
            type $T = $rust;
            $body
        } else)+ {
            Err($crate::dispatch::no_kernel(dtype))
        }
    }};
}

/// The error for a dtype that an op allows but no kernel serves.
#[cold]
pub fn no_kernel(dtype: tensorfleet_core::DType) -> tensorfleet_core::Status {
    tensorfleet_core::Status::invalid_argument(format!(
        "No OpKernel was registered to support the dtype {dtype} on CPU"
    ))
}
