//! [`simd_dispatch!`](crate::simd_dispatch) and [`simd_dispatch_widest!`](crate::simd_dispatch_widest): one loop, compiled for the
//! baseline, for AVX2 and perhaps for AVX-512, chosen at run time.
//!
//! The crate is built for any x86-64, whose baseline has vectors of four floats and no rounding or blending
//! instructions. Hot loops gain a factor of two and more from AVX2, so they are compiled a second time with these
//! features on. Both versions are the same source and Rust never fuses or reorders floating-point operations by
//! itself: results are the same bits on every machine, unless the loop asks for `mul_add` explicitly.

/// Whether the vector features that [`simd_dispatch!`](crate::simd_dispatch) compiles for are there.
///
/// The answer is cached by the standard library; asking costs a load and a branch.
#[inline(always)]
pub fn has_avx2_fma() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// How many rows ahead of their use [`expect_row`] is told of them: as many as the processor can wait for at the same time.
pub const ROWS_AHEAD: usize = 8;

/// Says that `len` elements from `start` on will be needed soon. Rows of a large table are at random places, and each would
/// otherwise be waited for when its turn has come; of a long row, the processor finds the rest by itself.
#[inline(always)]
pub fn expect_row<T>(table: &[T], start: usize, len: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        const LINE_BYTES: usize = 64;
        const MOST_LINES: usize = 4;
        let per_line = (LINE_BYTES / size_of::<T>().max(1)).max(1);
        for line in 0..len.div_ceil(per_line).min(MOST_LINES) {
            let address = table.as_ptr().wrapping_add(start.wrapping_add(line * per_line));
            // SAFETY: a hint reads nothing and may name any address, valid or not.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (table, start, len);
}

/// Defines a function whose body is compiled twice, for the baseline and for AVX2 with FMA, and which picks the
/// version that the processor supports.
///
/// Write the body so that it auto-vectorises: slices of equal length (assert or cut them before the loop), no
/// branches, calls only to `#[inline(always)]` functions. Type parameters stand in brackets, and each must follow
/// from the arguments; pass a marker by value where it would not.
///
/// ```ignore
/// simd_dispatch! {
///     /// Multiplies every element by `factor`.
///     pub fn scale[T: Copy + std::ops::Mul<Output = T>](values: &mut [T], factor: T) {
///         values.iter_mut().for_each(|value| *value = *value * factor);
///     }
/// }
/// ```
///
/// A function that runs a few nanoseconds gains nothing; give it whole slices.
#[macro_export]
macro_rules! simd_dispatch {
    ($(
        $(#[$meta:meta])*
        $visibility:vis fn $name:ident $([$($generics:tt)*])? ($($arg:ident : $type:ty),* $(,)?) $(-> $output:ty)?
        $body:block
    )+) => {$(
        $(#[$meta])*
        $visibility fn $name $(<$($generics)*>)? ($($arg: $type),*) $(-> $output)? {
            #[inline(always)]
            fn portable $(<$($generics)*>)? ($($arg: $type),*) $(-> $output)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn wide $(<$($generics)*>)? ($($arg: $type),*) $(-> $output)? {
                    portable($($arg),*)
                }
                if $crate::simd::has_avx2_fma() {
                    // SAFETY: `wide` has a safe body and needs nothing but the features just found present.
                    return unsafe { wide($($arg),*) };
                }
            }
            portable($($arg),*)
        }
    )+};
}

/// Whether the vector features that [`simd_dispatch_widest!`](crate::simd_dispatch_widest) compiles for are there.
#[inline(always)]
pub fn has_avx512() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        has_avx2_fma()
            && std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512vl")
            && std::arch::is_x86_feature_detected!("avx512bw")
            && std::arch::is_x86_feature_detected!("avx512dq")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// Like [`simd_dispatch!`](crate::simd_dispatch), with a third version for AVX-512. For loops with tens of operations per element,
/// such as exponentials, where the width of vectors is what counts; others wait for memory, and would only take longer to compile.
#[macro_export]
macro_rules! simd_dispatch_widest {
    ($(
        $(#[$meta:meta])*
        $visibility:vis fn $name:ident $([$($generics:tt)*])? ($($arg:ident : $type:ty),* $(,)?) $(-> $output:ty)?
        $body:block
    )+) => {$(
        $(#[$meta])*
        $visibility fn $name $(<$($generics)*>)? ($($arg: $type),*) $(-> $output)? {
            #[inline(always)]
            fn body $(<$($generics)*>)? ($($arg: $type),*) $(-> $output)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq")]
                fn widest $(<$($generics)*>)? ($($arg: $type),*) $(-> $output)? {
                    body($($arg),*)
                }
                if $crate::simd::has_avx512() {
                    // SAFETY: `widest` has a safe body and needs nothing but the features just found present.
                    return unsafe { widest($($arg),*) };
                }
            }
            $crate::simd_dispatch! {
                fn narrower $([$($generics)*])? ($($arg: $type),*) $(-> $output)? {
                    body($($arg),*)
                }
            }
            narrower($($arg),*)
        }
    )+};
}

#[cfg(test)]
mod tests {
    simd_dispatch_widest! {
        fn doubled[T: Copy + std::ops::Add<Output = T>](values: &mut [T]) -> usize {
            values.iter_mut().for_each(|value| *value = *value + *value);
            values.len()
        }
    }

    simd_dispatch! {
        /// The sum of products, by lanes.
        fn dot[T: Copy + Default + std::ops::Add<Output = T> + std::ops::Mul<Output = T>](a: &[T], b: &[T]) -> T {
            a.iter().zip(b).fold(T::default(), |sum, (&x, &y)| sum + x * y)
        }
        fn negate(values: &mut [i32]) {
            values.iter_mut().for_each(|value| *value = value.wrapping_neg());
        }
    }

    #[test]
    fn generic_and_plain_functions_are_dispatched() {
        assert_eq!(dot(&[1.0f32, 2.0], &[3.0, 4.0]), 11.0);
        let mut floats = [1.5f32; 40];
        assert_eq!((doubled(&mut floats), floats), (40, [3.0; 40]));
        let mut values = [1, -2, i32::MIN];
        negate(&mut values);
        assert_eq!(values, [-1, 2, i32::MIN]);
    }
}
