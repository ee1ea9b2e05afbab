//! Elementary functions of `f32` that auto-vectorise: no branches, no calls, no table look-ups.
//!
//! The standard library's functions go through the C library one element at a time, which is several times slower
//! than TensorFlow's vectorised ones. These are polynomials after an exact range reduction, correct to about two
//! units in the last place (the tests sweep them against `f64`).
//!
//! TensorFlow runs its kernels with denormal numbers flushed to zero. Where that can be seen in a result (a
//! quotient, a comparison, a ceiling), kernels pass operands through [`FlushDenormal`]; results of the functions here
//! below the smallest normal number are zero.

use half::{bf16, f16};

/// Numbers that may be denormal.
pub trait FlushDenormal {
    /// The number as TensorFlow's arithmetic sees it: denormal numbers are zeros of the same sign.
    fn flush_denormal(self) -> Self;
}

macro_rules! flush_denormal {
    ($($float:ident),*) => {$(
        impl FlushDenormal for $float {
            #[inline(always)]
            fn flush_denormal(self) -> $float {
                if self.abs() < $float::MIN_POSITIVE { (0.0 as $float).copysign(self) } else { self }
            }
        }
    )*};
}
flush_denormal!(f32, f64);

macro_rules! never_denormal {
    ($($integer:ident),*) => {$(
        impl FlushDenormal for $integer {
            #[inline(always)]
            fn flush_denormal(self) -> $integer {
                self
            }
        }
    )*};
}
never_denormal!(i8, i16, i32, i64, u8, u16, u32, u64, bool);
// Computed in float, in which the denormal numbers of half are normal.
never_denormal!(f16, bf16);

impl<T: FlushDenormal> FlushDenormal for num_complex::Complex<T> {
    #[inline(always)]
    fn flush_denormal(self) -> Self {
        num_complex::Complex { re: self.re.flush_denormal(), im: self.im.flush_denormal() }
    }
}

/// Adding and subtracting this rounds a small float to an integer, ties to even, without the instruction for it,
/// which the baseline lacks.
const ROUNDER: f32 = 12_582_912.0;
/// ln 2 in two parts: products of the first with small integers are exact.
const LN2_HIGH: f32 = 355.0 / 512.0;
const LN2_LOW: f32 = -2.121_944_4e-4;
/// ln 2^-150, just below the logarithm of the smallest denormal number.
const LN_OF_DENORMALS: f32 = -103.972_08;
const LOG2_E: f32 = std::f32::consts::LOG2_E;

/// Evaluates a polynomial, highest coefficient first.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut value = coefficients[0];
    let mut index = 1;
    while index < N {
        value = value * x + coefficients[index];
        index += 1;
    }
    value
}

/// 2^n for integers -126..=127 stored as floats.
#[inline(always)]
fn power_of_two(n: f32) -> f32 {
    // The rounder leaves n in the low bits of the mantissa, from where it is shifted into the exponent.
    f32::from_bits((n + (ROUNDER + 127.0)).to_bits() << 23)
}

/// `x = n ln 2 + r`: returns n and r, |r| <= ln 2 / 2, for |x| up to about 100.
#[inline(always)]
fn reduce_by_ln2(x: f32) -> (f32, f32) {
    let n = (x * LOG2_E + ROUNDER) - ROUNDER;
    (n, (x - n * LN2_HIGH) - n * LN2_LOW)
}

/// (e^r - 1 - r) / r² for |r| <= ln 2 / 2.
#[inline(always)]
fn exp_tail(r: f32) -> f32 {
    polynomial(r, [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5e-1])
}

/// e^x. Overflows to infinity above 88.72; below -87.34, where results would be denormal, it is 0.
#[inline(always)]
pub fn exp_f32(x: f32) -> f32 {
    const HIGHEST: f32 = 88.722_84;
    const LOWEST: f32 = -87.336_54;
    // Comparisons are written so that nan falls through to the polynomial and stays nan.
    let clamped = if x > HIGHEST { HIGHEST } else { x };
    let clamped = if clamped < LOWEST { LOWEST } else { clamped };
    let (n, r) = reduce_by_ln2(clamped);
    let mantissa = exp_tail(r) * (r * r) + r + 1.0;
    // n reaches 128, one more than a power of two can have: multiply in two steps.
    let half = n * 0.5;
    let first = (half + ROUNDER) - ROUNDER;
    let value = mantissa * power_of_two(first) * power_of_two(n - first);
    let value = if x > HIGHEST { f32::INFINITY } else { value };
    if x < LOWEST { 0.0 } else { value }
}

/// e^x for x up to 0, as [`exp_f32`] gives it, in fewer steps: it cannot overflow, and one power of two is enough.
#[inline(always)]
pub fn exp_of_negative_f32(x: f32) -> f32 {
    const LOWEST: f32 = -87.336_54;
    let clamped = if x < LOWEST { LOWEST } else { x };
    let (n, r) = reduce_by_ln2(clamped);
    let value = (exp_tail(r) * (r * r) + r + 1.0) * power_of_two(n);
    if x < LOWEST { 0.0 } else { value }
}

/// ln x. Zero gives minus infinity, negative numbers nan. All denormal numbers give the logarithm of 2^-150, as
/// TensorFlow was observed to do.
#[inline(always)]
pub fn log_f32(x: f32) -> f32 {
    // x = 2^e m with m in [sqrt(1/2), sqrt(2)).
    const SQRT_HALF_BITS: u32 = 0x3f35_04f3;
    let shifted = x.to_bits().wrapping_sub(SQRT_HALF_BITS);
    let exponent = (shifted as i32 >> 23) as f32;
    let m = f32::from_bits((shifted & 0x007f_ffff).wrapping_add(SQRT_HALF_BITS)) - 1.0;
    let square = m * m;
    let series = polynomial(
        m,
        [
            7.037_683_6e-2,
            -1.151_461e-1,
            1.167_699_8e-1,
            -1.242_014_1e-1,
            1.424_932_3e-1,
            -1.666_805_7e-1,
            2.000_071_4e-1,
            -2.499_999_4e-1,
            3.333_333e-1,
        ],
    );
    let tail = series * m * square + exponent * LN2_LOW - 0.5 * square;
    let value = m + tail + exponent * LN2_HIGH;
    let value = if x == f32::INFINITY { x } else { value };
    // By their bits, since denormal numbers compare equal to zero while nodes run, and in two steps, since the compiler
    // makes a comparison with zero of one.
    let (exponent_bits, fraction_bits) = (x.to_bits() & 0x7f80_0000, x.to_bits() & 0x007f_ffff);
    let of_small = if fraction_bits == 0 { f32::NEG_INFINITY } else { LN_OF_DENORMALS };
    let value = if exponent_bits == 0 { of_small } else { value };
    // Negative numbers and nan fail this comparison.
    if x >= 0.0 { value } else { f32::NAN }
}

/// e^x - 1, accurate near zero, for |x| <= 80.
#[inline(always)]
fn expm1_bounded(x: f32) -> f32 {
    let (n, r) = reduce_by_ln2(x);
    let small = exp_tail(r) * (r * r) + r;
    let power = power_of_two(n);
    // 2^n (e^r - 1) + (2^n - 1); for n = 0 the second term vanishes and nothing is lost.
    small * power + (power - 1.0)
}

/// tanh x.
#[inline(always)]
pub fn tanh_f32(x: f32) -> f32 {
    let magnitude = x.abs();
    // Above this the result rounds to one.
    let bounded = if magnitude > 9.1 { 9.1 } else { magnitude };
    let grown = expm1_bounded(2.0 * bounded);
    let value = grown / (grown + 2.0);
    // Tiny arguments are their own tangent; this also keeps the sign of zero and nan.
    let value = if magnitude < 1e-4 { magnitude } else { value };
    value.copysign(x)
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub fn sigmoid_f32(x: f32) -> f32 {
    // The exponential of a negative number neither overflows nor, added to one, cancels.
    let shrunk = exp_of_negative_f32(-x.abs());
    let numerator = if x < 0.0 { shrunk } else { 1.0 };
    numerator / (1.0 + shrunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest error in units in the last place of the exact result, over `count` floats spread evenly over
    /// the bit patterns from `low` to `high`.
    fn worst_error(low: f32, high: f32, f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64) -> (f64, f32) {
        let mut worst = (0.0, 0.0);
        let mut check = |x: f32| {
            let (got, want) = (f(x), exact(x as f64));
            let rounded = want as f32;
            let unit = (f32::from_bits(rounded.abs().to_bits() + 1) - rounded.abs()) as f64;
            let error = (got as f64 - want).abs() / unit;
            if error.is_nan() || error > worst.0 {
                worst = (error, x);
            }
        };
        const COUNT: usize = 400_000;
        for step in 0..=COUNT {
            check(low + (high - low) * (step as f32 / COUNT as f32));
        }
        for bits in (f32::MIN_POSITIVE.to_bits()..f32::MAX.to_bits()).step_by(4099) {
            let x = f32::from_bits(bits);
            [x, -x].into_iter().filter(|x| (low..=high).contains(x)).for_each(&mut check);
        }
        worst
    }

    #[test]
    fn exp_is_within_two_units_wherever_its_result_is_normal() {
        let worst = worst_error(-87.3, 88.72, exp_f32, f64::exp);
        assert!(worst.0 <= 2.0, "{worst:?}");
    }

    #[test]
    fn exp_of_negative_numbers_is_exp() {
        for step in 0..=1_000_000 {
            let x = -(step as f32) * 1e-4;
            assert_eq!(exp_of_negative_f32(x).to_bits(), exp_f32(x).to_bits(), "{x}");
        }
        let inf = f32::INFINITY;
        assert_eq!((exp_of_negative_f32(-inf), exp_of_negative_f32(-0.0)), (0.0, 1.0));
        assert!(exp_of_negative_f32(f32::NAN).is_nan());
    }

    #[test]
    fn log_is_within_two_units_of_every_positive_normal_number() {
        let worst = worst_error(f32::MIN_POSITIVE, f32::MAX, log_f32, f64::ln);
        assert!(worst.0 <= 2.0, "{worst:?}");
        let worst = worst_error(0.5, 2.0, log_f32, f64::ln);
        assert!(worst.0 <= 2.0, "{worst:?}");
    }

    #[test]
    fn tanh_and_sigmoid_are_within_three_units() {
        let worst = worst_error(-10.0, 10.0, tanh_f32, f64::tanh);
        assert!(worst.0 <= 3.0, "{worst:?}");
        let worst = worst_error(-87.0, 87.0, sigmoid_f32, |x| 1.0 / (1.0 + (-x).exp()));
        assert!(worst.0 <= 3.0, "{worst:?}");
    }

    #[test]
    fn the_ends_of_the_number_line_behave() {
        let (inf, nan, tiny) = (f32::INFINITY, f32::NAN, f32::from_bits(1));
        assert_eq!((exp_f32(inf), exp_f32(-inf), exp_f32(3.4e38), exp_f32(-3.4e38)), (inf, 0.0, inf, 0.0));
        assert_eq!((exp_f32(0.0), exp_f32(-0.0), exp_f32(tiny), exp_f32(-88.0)), (1.0, 1.0, 1.0, 0.0));
        assert_eq!((log_f32(inf), log_f32(0.0), log_f32(-0.0), log_f32(1.0)), (inf, -inf, -inf, 0.0));
        assert_eq!(log_f32(tiny), -103.97208);
        let flushing = tensorfleet_threads::denormals::FlushDenormals::begin();
        let tiny = std::hint::black_box(tiny);
        assert_eq!((log_f32(tiny), log_f32(std::hint::black_box(0.0))), (-103.97208, -inf));
        drop(flushing);
        assert!(log_f32(-1.0).is_nan() && log_f32(-inf).is_nan() && log_f32(-1e-30).is_nan());
        assert_eq!((tanh_f32(inf), tanh_f32(-inf), tanh_f32(1e-30)), (1.0, -1.0, 1e-30));
        assert!(tanh_f32(-0.0).is_sign_negative());
        assert_eq!((sigmoid_f32(inf), sigmoid_f32(-inf), sigmoid_f32(0.0)), (1.0, 0.0, 0.5));
        for f in [exp_f32, log_f32, tanh_f32, sigmoid_f32] {
            assert!(f(nan).is_nan() && f(-nan).is_nan());
        }
    }

    #[test]
    fn denormal_numbers_are_zeros_of_their_sign() {
        assert_eq!(1e-45f32.flush_denormal().to_bits(), 0.0f32.to_bits());
        assert_eq!((-1e-310f64).flush_denormal().to_bits(), (-0.0f64).to_bits());
        assert_eq!(f32::MIN_POSITIVE.flush_denormal(), f32::MIN_POSITIVE);
        assert!(f32::NAN.flush_denormal().is_nan());
    }
}
