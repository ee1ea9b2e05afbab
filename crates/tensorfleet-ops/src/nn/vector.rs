//! Vectors of numbers that live in registers, for the few loops whose sums the compiler would keep in memory.
//!
//! Everything else relies on loops that vectorise by themselves ([`simd_dispatch!`](crate::simd_dispatch)).

/// Some numbers of type `T` side by side.
///
/// # Safety
///
/// All functions may be called only where the processor has the vector's features.
pub(super) unsafe trait Vector<T>: Copy {
    /// How many numbers there are.
    const LANES: usize;
    /// Zeros.
    unsafe fn zero() -> Self;
    /// The numbers at `from`, which are readable.
    unsafe fn load(from: *const T) -> Self;
    /// Writes the numbers to `to`, which is writable.
    unsafe fn store(self, to: *mut T);
    /// The first `count` numbers, and zeros behind them. There are at least so many.
    unsafe fn first(self, count: usize) -> Self;
    /// `self + other`
    unsafe fn plus(self, other: Self) -> Self;
    /// `self * factor + sum`, in one rounding if the vector is one of the processor's.
    unsafe fn multiply_add(self, factor: T, sum: Self) -> Self;
}

/// Eight numbers that are a vector on any processor.
#[derive(Clone, Copy)]
pub(super) struct Portable<T>([T; 8]);

/// Numbers without a vector of their own.
pub(super) trait Number: Copy + Default {
    /// `self + other`
    fn plus(self, other: Self) -> Self;
    /// `self * other`
    fn times(self, other: Self) -> Self;
}

macro_rules! numbers {
    ($($number:ident, $plus:expr, $times:expr;)*) => {$(
        impl Number for $number {
            #[inline(always)]
            fn plus(self, other: $number) -> $number {
                $plus(self, other)
            }
            #[inline(always)]
            fn times(self, other: $number) -> $number {
                $times(self, other)
            }
        }
    )*};
}
numbers! {
    f32, |a, b| a + b, |a, b| a * b;
    f64, |a, b| a + b, |a, b| a * b;
    i32, i32::wrapping_add, i32::wrapping_mul;
}

// SAFETY: needs no features.
unsafe impl<T: Number> Vector<T> for Portable<T> {
    const LANES: usize = 8;
    #[inline(always)]
    unsafe fn zero() -> Self {
        Portable([T::default(); 8])
    }
    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: the caller says that eight numbers are readable.
        Portable(unsafe { from.cast::<[T; 8]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: the caller says that eight numbers are writable.
        unsafe { to.cast::<[T; 8]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn first(self, count: usize) -> Self {
        Portable(std::array::from_fn(|lane| if lane < count { self.0[lane] } else { T::default() }))
    }
    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        Portable(std::array::from_fn(|lane| self.0[lane].plus(other.0[lane])))
    }
    #[inline(always)]
    unsafe fn multiply_add(self, factor: T, sum: Self) -> Self {
        Portable(std::array::from_fn(|lane| self.0[lane].times(factor).plus(sum.0[lane])))
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! registers {
    ($($vector:ident, $number:ident, $lanes:literal, $zero:ident, $load:ident, $store:ident, $add:ident, $splat:ident, $fused:ident, $first:expr;)*) => {$(
        // SAFETY: the instructions are those of the vector's features, which the caller says are there.
        unsafe impl Vector<$number> for std::arch::x86_64::$vector {
            const LANES: usize = $lanes;
            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: as above.
                unsafe { std::arch::x86_64::$zero() }
            }
            #[inline(always)]
            unsafe fn load(from: *const $number) -> Self {
                // SAFETY: as above; any alignment will do.
                unsafe { std::arch::x86_64::$load(from) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $number) {
                // SAFETY: as above; any alignment will do.
                unsafe { std::arch::x86_64::$store(to, self) }
            }
            #[inline(always)]
            unsafe fn first(self, count: usize) -> Self {
                // SAFETY: as above.
                unsafe { $first(self, count) }
            }
            #[inline(always)]
            unsafe fn plus(self, other: Self) -> Self {
                // SAFETY: as above.
                unsafe { std::arch::x86_64::$add(self, other) }
            }
            #[inline(always)]
            unsafe fn multiply_add(self, factor: $number, sum: Self) -> Self {
                // SAFETY: as above.
                unsafe { std::arch::x86_64::$fused(self, std::arch::x86_64::$splat(factor), sum) }
            }
        }
    )*};
}
#[cfg(target_arch = "x86_64")]
registers! {
    __m256, f32, 8, _mm256_setzero_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_add_ps, _mm256_set1_ps, _mm256_fmadd_ps, masked::first_ps;
    __m512, f32, 16, _mm512_setzero_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_add_ps, _mm512_set1_ps, _mm512_fmadd_ps,
        |numbers, count| std::arch::x86_64::_mm512_maskz_mov_ps(((1u32 << count) - 1) as u16, numbers);
    __m256d, f64, 4, _mm256_setzero_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_add_pd, _mm256_set1_pd, _mm256_fmadd_pd, masked::first_pd;
    __m512d, f64, 8, _mm512_setzero_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_add_pd, _mm512_set1_pd, _mm512_fmadd_pd,
        |numbers, count| std::arch::x86_64::_mm512_maskz_mov_pd(((1u32 << count) - 1) as u8, numbers);
}

/// Masks for vectors of AVX2, whose instructions have none.
#[cfg(target_arch = "x86_64")]
mod masked {
    use std::arch::x86_64::*;

    /// Ones and zeros: a mask for `count` of eight begins `count` before the zeros.
    static MASKS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    static WIDE_MASKS: [i64; 8] = [-1, -1, -1, -1, 0, 0, 0, 0];

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn first_ps(numbers: __m256, count: usize) -> __m256 {
        let mask = &MASKS[8 - count..][..8];
        // SAFETY: eight integers are readable, at any alignment.
        _mm256_and_ps(numbers, unsafe { _mm256_loadu_ps(mask.as_ptr().cast()) })
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn first_pd(numbers: __m256d, count: usize) -> __m256d {
        let mask = &WIDE_MASKS[4 - count..][..4];
        // SAFETY: four integers are readable, at any alignment.
        _mm256_and_pd(numbers, unsafe { _mm256_loadu_pd(mask.as_ptr().cast()) })
    }
}
