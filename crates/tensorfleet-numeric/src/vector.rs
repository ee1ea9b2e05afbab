//! Vectors of numbers that live in registers, for the few loops whose sums the compiler would keep in memory.
//!
//! Everything else relies on loops that vectorise by themselves ([`simd_dispatch!`](crate::simd_dispatch)).

use crate::number::Number;
#[cfg(target_arch = "x86_64")]
use crate::simd::{has_avx2_fma, has_avx512};

/// Some numbers of type `T` side by side.
///
/// # Safety
///
/// All functions may be called only where the processor has the vector's features.
#[expect(clippy::missing_safety_doc, reason = "the section above is that of all functions")]
pub unsafe trait Vector<T>: Copy {
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
    /// A bit for each number, from the lowest on: whether it is not zero. NaN counts as nonzero.
    unsafe fn nonzero(self) -> u32;
    /// `self * factor + sum`, in one rounding if the vector is one of the processor's.
    unsafe fn multiply_add(self, factor: T, sum: Self) -> Self;
}

/// Eight numbers that are a vector on any processor.
#[derive(Clone, Copy)]
pub struct Portable<T>([T; 8]);

// SAFETY: arrays and scalar arithmetic, which every processor has.
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
    unsafe fn nonzero(self) -> u32 {
        (0..8).fold(0, |bits, lane| bits | u32::from(self.0[lane] != T::default()) << lane)
    }
    #[inline(always)]
    unsafe fn multiply_add(self, factor: T, sum: Self) -> Self {
        Portable(std::array::from_fn(|lane| self.0[lane].times(factor).plus(sum.0[lane])))
    }
}

/// A computation that is compiled for every kind of vector.
pub trait Vectorized<T> {
    /// Computes with vectors `V`, or `W` where fewer lanes will do. So many sums fit into registers: `SUMS`.
    ///
    /// # Safety
    ///
    /// The processor must have the features of `V` and `W`.
    unsafe fn run<V: Vector<T>, W: Vector<T>, const SUMS: usize>(self);

    /// Computes with the vectors that every processor has.
    fn run_portable(self)
    where
        T: Number,
        Self: Sized,
    {
        // SAFETY: portable vectors need no features.
        unsafe { self.run::<Portable<T>, Portable<T>, 5>() }
    }
}

/// Numbers for which there are vectors.
pub trait Lanes: Number {
    /// Computes with the widest vectors there are.
    fn compute(work: impl Vectorized<Self>);
}

macro_rules! lanes {
    ($($number:ident, $widest:ident, $wide:ident;)*) => {$(
        impl Lanes for $number {
            fn compute(work: impl Vectorized<$number>) {
                #[cfg(target_arch = "x86_64")]
                {
                    use std::arch::x86_64::{$wide, $widest};
                    /// AVX-512: 32 registers; the last columns use vectors of half the width.
                    #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq")]
                    fn with_avx512(work: impl Vectorized<$number>) {
                        // SAFETY: this function's `target_feature` names the features of both vectors.
                        unsafe { work.run::<$widest, $wide, 14>() }
                    }
                    /// AVX2: 16 registers.
                    #[target_feature(enable = "avx2,fma")]
                    fn with_avx2(work: impl Vectorized<$number>) {
                        // SAFETY: this function's `target_feature` names the features of both vectors.
                        unsafe { work.run::<$wide, $wide, 11>() }
                    }
                    if has_avx512() {
                        // SAFETY: the features were just found present.
                        return unsafe { with_avx512(work) };
                    }
                    if has_avx2_fma() {
                        // SAFETY: as above.
                        return unsafe { with_avx2(work) };
                    }
                }
                work.run_portable();
            }
        }
    )*};
}
lanes! {
    f32, __m512, __m256;
    f64, __m512d, __m256d;
}

impl Lanes for i32 {
    fn compute(work: impl Vectorized<i32>) {
        work.run_portable();
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! registers {
    ($($vector:ident, $number:ident, $lanes:literal, $zero:ident, $load:ident, $store:ident, $add:ident, $splat:ident, $fused:ident, $nonzero:expr, $first:expr;)*) => {$(
        // SAFETY: the instructions are those of the vector's features, which the caller says are there.
        unsafe impl Vector<$number> for std::arch::x86_64::$vector {
            const LANES: usize = $lanes;
            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: the features are there by the trait's contract.
                unsafe { std::arch::x86_64::$zero() }
            }
            #[inline(always)]
            unsafe fn load(from: *const $number) -> Self {
                // SAFETY: the features by the trait's contract, the memory by this function's; any alignment will do.
                unsafe { std::arch::x86_64::$load(from) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $number) {
                // SAFETY: the features by the trait's contract, the memory by this function's; any alignment will do.
                unsafe { std::arch::x86_64::$store(to, self) }
            }
            #[inline(always)]
            unsafe fn first(self, count: usize) -> Self {
                // SAFETY: the features are there by the trait's contract.
                unsafe { $first(self, count) }
            }
            #[inline(always)]
            unsafe fn plus(self, other: Self) -> Self {
                // SAFETY: the features are there by the trait's contract.
                unsafe { std::arch::x86_64::$add(self, other) }
            }
            #[inline(always)]
            unsafe fn nonzero(self) -> u32 {
                // SAFETY: the features are there by the trait's contract.
                unsafe { $nonzero(self) }
            }
            #[inline(always)]
            unsafe fn multiply_add(self, factor: $number, sum: Self) -> Self {
                // SAFETY: the features are there by the trait's contract.
                unsafe { std::arch::x86_64::$fused(self, std::arch::x86_64::$splat(factor), sum) }
            }
        }
    )*};
}
#[cfg(target_arch = "x86_64")]
registers! {
    __m256, f32, 8, _mm256_setzero_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_add_ps, _mm256_set1_ps, _mm256_fmadd_ps, masked::nonzero_ps, masked::first_ps;
    __m512, f32, 16, _mm512_setzero_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_add_ps, _mm512_set1_ps, _mm512_fmadd_ps,
        |numbers| u32::from(std::arch::x86_64::_mm512_cmp_ps_mask::<{ std::arch::x86_64::_CMP_NEQ_UQ }>(numbers, std::arch::x86_64::_mm512_setzero_ps())),
        |numbers, count| std::arch::x86_64::_mm512_maskz_mov_ps(((1u32 << count) - 1) as u16, numbers);
    __m256d, f64, 4, _mm256_setzero_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_add_pd, _mm256_set1_pd, _mm256_fmadd_pd, masked::nonzero_pd, masked::first_pd;
    __m512d, f64, 8, _mm512_setzero_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_add_pd, _mm512_set1_pd, _mm512_fmadd_pd,
        |numbers| u32::from(std::arch::x86_64::_mm512_cmp_pd_mask::<{ std::arch::x86_64::_CMP_NEQ_UQ }>(numbers, std::arch::x86_64::_mm512_setzero_pd())),
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
    pub(super) fn nonzero_ps(numbers: __m256) -> u32 {
        _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NEQ_UQ>(numbers, _mm256_setzero_ps())) as u32
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn nonzero_pd(numbers: __m256d) -> u32 {
        _mm256_movemask_pd(_mm256_cmp_pd::<_CMP_NEQ_UQ>(numbers, _mm256_setzero_pd())) as u32
    }

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
