//! Special functions of `f64`: error function, gamma and its relatives.
//!
//! Single precision goes through these too: they are not hot, and double precision spares a second set of
//! coefficients. Series and expansions are the textbook ones (Abramowitz & Stegun, chapters 6 and 23).

unsafe extern "C" {
    #[link_name = "erf"]
    safe fn c_erf(x: f64) -> f64;
    #[link_name = "erfc"]
    safe fn c_erfc(x: f64) -> f64;
    fn lgamma_r(x: f64, sign: *mut std::ffi::c_int) -> f64;
}

/// The error function.
pub fn erf(x: f64) -> f64 {
    c_erf(x)
}

/// One minus the error function, without cancellation.
pub fn erfc(x: f64) -> f64 {
    c_erfc(x)
}

/// The logarithm of the absolute value of the gamma function.
pub fn ln_gamma(x: f64) -> f64 {
    let mut sign = 0;
    // SAFETY: the C library's `lgamma_r` writes one int through the pointer, which outlives the call. (Plain
    // `lgamma` would write a global.)
    unsafe { lgamma_r(x, &mut sign) }
}

/// 1 / (1 + e^-x).
pub fn sigmoid_f64(x: f64) -> f64 {
    let shrunk = (-x.abs()).exp();
    (if x < 0.0 { shrunk } else { 1.0 }) / (1.0 + shrunk)
}

/// The derivative of the logarithm of the gamma function. Poles, at zero and the negative integers, give nan.
pub fn digamma(x: f64) -> f64 {
    if x <= 0.0 {
        if x == x.floor() {
            return f64::NAN;
        }
        // Reflection: psi(x) = psi(1 - x) - pi / tan(pi x).
        let fraction = x - x.floor();
        return digamma(1.0 - x) - std::f64::consts::PI / (std::f64::consts::PI * fraction).tan();
    }
    // Recurrence up to where the asymptotic series converges: psi(x) = psi(x + 1) - 1 / x.
    let (mut x, mut value) = (x, 0.0);
    while x < 10.0 {
        value -= 1.0 / x;
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    // Bernoulli numbers B(2k) / 2k.
    const TERMS: [f64; 7] =
        [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0];
    let series = TERMS.iter().rev().fold(0.0, |sum, term| (sum + term) * square);
    value + x.ln() - 0.5 / x - series
}

/// The zeta function gives up on bases below this one.
const LOWEST_ZETA_BASE: f64 = -1e4;

/// The Hurwitz zeta function: the sum of (q + k)^-x over k = 0, 1, …, for x > 1.
pub fn zeta(x: f64, q: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    if x.is_nan() || x < 1.0 || q.is_nan() {
        return f64::NAN;
    }
    if q <= 0.0 {
        if q == q.floor() {
            // A term is 0^-x: infinite, and of definite sign for even x only.
            return if x == x.floor() && x % 2.0 == 0.0 { f64::INFINITY } else { f64::NAN };
        }
        // A power of a negative number; and terms below zero are added one by one, so there must not be many.
        if x != x.floor() || q < LOWEST_ZETA_BASE {
            return f64::NAN;
        }
    }
    if q.is_infinite() {
        return 0.0;
    }
    euler_maclaurin(x, q)
}

/// The terms of the zeta sum one by one, then the rest as an integral with corrections.
fn euler_maclaurin(x: f64, q: f64) -> f64 {
    // (2k)! / B(2k) for k = 1, 2, …
    const FACTORS: [f64; 12] = [
        12.0,
        -720.0,
        30240.0,
        -1209600.0,
        47900160.0,
        -1.892_437_580_318_379_7e9,
        7.47242496e10,
        -2.950130727918164e12,
        1.164_678_281_435_006_8e14,
        -4.597_978_722_407_473e15,
        1.815_210_540_194_354_7e17,
        -7.166_165_256_175_667e18,
    ];
    let (mut sum, mut base, mut term) = (q.powf(-x), q, 0.0);
    let mut count = 0;
    while count < 9 || base <= 9.0 {
        count += 1;
        base += 1.0;
        term = base.powf(-x);
        sum += term;
        if (term / sum).abs() < f64::EPSILON {
            return sum;
        }
    }
    if x.is_infinite() {
        return sum;
    }
    sum += term * base / (x - 1.0);
    sum -= 0.5 * term;
    let (mut factor, mut order) = (1.0, 0.0);
    for divisor in FACTORS {
        factor *= x + order;
        term /= base;
        let correction = factor * term / divisor;
        sum += correction;
        if (correction / sum).abs() < f64::EPSILON {
            break;
        }
        order += 1.0;
        factor *= x + order;
        term /= base;
        order += 1.0;
    }
    sum
}

/// The `order`-th derivative of the digamma function.
pub fn polygamma(order: f64, x: f64) -> f64 {
    if order < 0.0 || order != order.floor() {
        return f64::NAN;
    }
    if order == 0.0 {
        return digamma(x);
    }
    let sign = if order % 2.0 == 0.0 { -1.0 } else { 1.0 };
    sign * ln_gamma(order + 1.0).exp() * zeta(order + 1.0, x)
}

/// The lower regularised incomplete gamma function P(a, x).
pub fn igamma(a: f64, x: f64) -> f64 {
    if x == 0.0 {
        return 0.0;
    }
    match () {
        _ if !(x > 0.0 && a > 0.0) || (x.is_infinite() && a.is_infinite()) => f64::NAN,
        _ if x.is_infinite() => 1.0,
        _ if a.is_infinite() => 0.0,
        _ if x > 1.0 && x > a => 1.0 - upper_by_fraction(a, x),
        _ => lower_by_series(a, x),
    }
}

/// The slope of P(a, x) along `a`: its series, differentiated term by term.
pub fn igamma_slope(a: f64, x: f64) -> f64 {
    if x == 0.0 {
        return 0.0;
    }
    if !(x > 0.0 && a > 0.0) || x.is_infinite() && a.is_infinite() {
        return f64::NAN;
    }
    // Far to the right of a, P is 1 for all purposes.
    if a.is_infinite() || x > a + 10.0 * a.sqrt() + 50.0 {
        return 0.0;
    }
    let (mut term, mut sum, mut divisor) = (1.0, 1.0, a);
    let (mut harmonic, mut slope) = (0.0, 0.0);
    // More terms than for P itself: they grow as long as the divisor is less than x.
    let steps = MAX_EXPANSION_STEPS + (10.0 * a.sqrt()).min(1e6) as usize;
    for _ in 0..steps {
        divisor += 1.0;
        term *= x / divisor;
        harmonic += 1.0 / divisor;
        sum += term;
        slope -= term * harmonic;
        if term * (1.0 + harmonic) <= sum * f64::EPSILON {
            break;
        }
    }
    incomplete_gamma_front(a, x) / a * (sum * (x.ln() - digamma(a + 1.0)) + slope)
}

/// The upper regularised incomplete gamma function Q(a, x) = 1 - P(a, x).
pub fn igammac(a: f64, x: f64) -> f64 {
    match () {
        _ if !(x >= 0.0 && a > 0.0) || (x.is_infinite() && a.is_infinite()) => f64::NAN,
        _ if x.is_infinite() => 0.0,
        _ if x == 0.0 || a.is_infinite() => 1.0,
        _ if x < 1.0 || x < a => 1.0 - lower_by_series(a, x),
        _ => upper_by_fraction(a, x),
    }
}

/// x^a e^-x / gamma(a), by logarithms.
fn incomplete_gamma_front(a: f64, x: f64) -> f64 {
    (a * x.ln() - x - ln_gamma(a)).exp()
}

/// Steps after which the incomplete gamma expansions give what they have.
const MAX_EXPANSION_STEPS: usize = 2000;

fn lower_by_series(a: f64, x: f64) -> f64 {
    let (mut term, mut sum, mut divisor) = (1.0, 1.0, a);
    for _ in 0..MAX_EXPANSION_STEPS {
        divisor += 1.0;
        term *= x / divisor;
        sum += term;
        if term <= sum * f64::EPSILON {
            break;
        }
    }
    sum * incomplete_gamma_front(a, x) / a
}

/// Lentz's evaluation of the continued fraction.
fn upper_by_fraction(a: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1.0 / TINY, 1.0 / if b.abs() < TINY { TINY } else { b });
    let mut fraction = d;
    for step in 1..=MAX_EXPANSION_STEPS {
        let i = step as f64;
        let numerator = -i * (i - a);
        b += 2.0;
        let guard = |value: f64| if value.abs() < TINY { TINY } else { value };
        d = 1.0 / guard(numerator * d + b);
        c = guard(b + numerator / c);
        let change = d * c;
        fraction *= change;
        if (change - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    fraction * incomplete_gamma_front(a, x)
}

/// How fast a sample of the gamma distribution of shape `a` moves with `a`, if its quantile stays: minus the slope of
/// P(a, x) by a, over the density. What both have in common is left out, since far from the mean it is too small for a
/// number.
pub fn gamma_sample_slope(a: f64, x: f64) -> f64 {
    if a.is_nan() || x.is_nan() || a <= 0.0 || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 || x.is_infinite() {
        return 0.0;
    }
    if x > 1.0 && x > a { slope_by_fraction(a, x) } else { slope_by_series(a, x) }
}

/// From the series of P(a, x), term by term with its derivative.
fn slope_by_series(a: f64, x: f64) -> f64 {
    let (mut term, mut sum, mut divisor) = (1.0, 1.0, a);
    let (mut log_slope, mut slope) = (0.0, 0.0);
    for _ in 0..MAX_EXPANSION_STEPS {
        divisor += 1.0;
        term *= x / divisor;
        log_slope -= 1.0 / divisor;
        sum += term;
        slope += term * log_slope;
        if term * log_slope.abs().max(1.0) <= sum * f64::EPSILON {
            break;
        }
    }
    -(x / a) * (sum * (x.ln() - digamma(a + 1.0)) + slope)
}

/// From the continued fraction of 1 - P(a, x), by the recurrence of its convergents and their derivatives.
fn slope_by_fraction(a: f64, x: f64) -> f64 {
    const HUGE: f64 = 1e200;
    // Numerators and denominators of the last two convergents, each with its derivative by a.
    let (mut p, mut q) = ([1.0, x + 1.0], [x, (x + 2.0 - a) * x]);
    let (mut dp, mut dq) = ([0.0, 0.0], [0.0, -x]);
    let (mut value, mut slope) = (p[1] / q[1], 0.0);
    for step in 1..=MAX_EXPANSION_STEPS {
        let c = step as f64;
        let (z, yc) = (x + 2.0 - a + 2.0 * c, (c + 1.0 - a) * c);
        let next = |old: [f64; 2]| old[1] * z - old[0] * yc;
        let next_slope = |old: [f64; 2], d: [f64; 2]| d[1] * z - old[1] - d[0] * yc + old[0] * c;
        (dp, dq) = ([dp[1], next_slope(p, dp)], [dq[1], next_slope(q, dq)]);
        (p, q) = ([p[1], next(p)], [q[1], next(q)]);
        if q[1] != 0.0 {
            let (old_value, old_slope) = (value, slope);
            value = p[1] / q[1];
            slope = (dp[1] - value * dq[1]) / q[1];
            let is_near = |new: f64, old: f64| (new - old).abs() <= f64::EPSILON * new.abs();
            if is_near(value, old_value) && is_near(slope, old_slope) {
                break;
            }
        }
        if p[1].abs() > HUGE || q[1].abs() > HUGE {
            for pair in [&mut p, &mut q, &mut dp, &mut dq] {
                pair.iter_mut().for_each(|number| *number /= HUGE);
            }
        }
    }
    x * ((x.ln() - digamma(a)) * value + slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(got: f64, want: f64) {
        assert!((got - want).abs() <= 1e-12 * want.abs().max(1.0), "got {got}, want {want}");
    }

    #[test]
    fn known_values_are_met() {
        let euler = 0.577_215_664_901_532_9;
        assert_close(digamma(1.0), -euler);
        assert_close(digamma(0.5), -euler - 2.0 * std::f64::consts::LN_2);
        assert_close(digamma(-0.5), 0.036_489_973_978_576_52);
        assert_close(zeta(2.0, 1.0), std::f64::consts::PI.powi(2) / 6.0);
        assert_close(zeta(4.0, 1.0), std::f64::consts::PI.powi(4) / 90.0);
        assert_close(polygamma(1.0, 1.0), std::f64::consts::PI.powi(2) / 6.0);
        assert_close(polygamma(2.0, 1.0), -2.404_113_806_319_188_6);
        assert_close(ln_gamma(5.0), 24f64.ln());
        assert_close(erf(1.0), 0.842_700_792_949_714_9);
        // P(1, x) = 1 - e^-x.
        for x in [0.1, 1.0, 3.0, 20.0] {
            assert_close(igamma(1.0, x), 1.0 - (-x).exp());
            assert_close(igammac(1.0, x), (-x).exp());
        }
    }

    #[test]
    fn poles_and_foreign_arguments_give_infinity_or_nan() {
        assert!(digamma(0.0).is_nan() && digamma(-2.0).is_nan());
        assert_eq!((digamma(f64::INFINITY), zeta(2.0, f64::INFINITY)), (f64::INFINITY, 0.0));
        assert_eq!((zeta(f64::INFINITY, 0.5), zeta(f64::INFINITY, 30.0)), (f64::INFINITY, 0.0));
        assert_eq!(zeta(1.0, 2.0), f64::INFINITY);
        assert!(zeta(0.5, 2.0).is_nan() && zeta(2.5, -0.5).is_nan());
        assert!(polygamma(0.5, 1.0).is_nan() && polygamma(-1.0, 1.0).is_nan());
        assert!(igamma(-1.0, 1.0).is_nan() && igamma(1.0, -1.0).is_nan());
        assert_eq!((igamma(2.0, 0.0), igamma(2.0, f64::INFINITY)), (0.0, 1.0));
    }

    #[test]
    fn huge_arguments_end() {
        // A base of -1e300 plus one is still -1e300: counting up from it would never end.
        assert!(zeta(2.0, -1e300).is_infinite() && zeta(2.0, -1e9 - 0.5).is_nan());
        assert!(digamma(-1e18).is_nan());
        assert!(igamma(1e10, 1e10).is_finite());
    }

    #[test]
    fn the_slope_of_the_incomplete_gamma_function_is_tensorflows() {
        for (a, x, slope) in [
            (0.5, 0.5, -0.647_200_352_377_753_9),
            (1.0, 2.0, -0.220_825_426_211_859_38),
            (2.5, 1.0, -0.180_099_606_954_041_54),
            (10.0, 5.0, -0.025_551_997_720_828_133),
            (10.0, 20.0, -0.004_098_523_101_719_269),
            (0.3, 8.0, -0.000_137_856_576_137_628),
            (50.0, 49.0, -0.056_510_237_991_276_815),
            (3.0, 0.0, 0.0),
        ] {
            let found = igamma_slope(a, x);
            assert!((found - slope).abs() < 1e-12, "{a}, {x}: {found} instead of {slope}");
        }
        assert!(igamma_slope(-1.0, 1.0).is_nan() && igamma_slope(2.0, -1.0).is_nan());
    }

    #[test]
    fn samples_of_gamma_distributions_move_as_tensorflows_do() {
        for (a, x, slope) in [
            (0.1, 0.05, 1.367_283_067_836_892_1),
            (0.5, 0.7, 1.586_724_944_450_385_3),
            (1.0, 1.0, 1.173_563_027_224_727_5),
            (2.5, 0.3, 0.305_572_879_746_713_7),
            (10.0, 12.0, 1.112_329_443_018_088),
            (100.0, 90.0, 0.949_825_949_801_144_4),
            (1000.0, 1010.0, 1.005_150_929_676_491_6),
            (3.0, 25.0, 2.532_049_548_754_878_6),
            (0.001, 1e-5, 0.109_374_727_780_818_23),
            (50.0, 20.0, 0.612_843_220_443_911_6),
        ] {
            let found = gamma_sample_slope(a, x);
            assert!((found - slope).abs() < 1e-9, "{a}, {x}: {found} instead of {slope}");
        }
        for (a, x) in [(0.0, 1.0), (-1.0, 1.0), (f64::NAN, 1.0), (1.0, -1.0)] {
            assert!(gamma_sample_slope(a, x).is_nan());
        }
        assert_eq!((gamma_sample_slope(1.0, 0.0), gamma_sample_slope(1.0, f64::INFINITY)), (0.0, 0.0));
        // The quantile stays: P(a + h, x + h slope) = P(a, x).
        for (a, x) in [(0.7, 0.9), (4.0, 2.0), (4.0, 9.0)] {
            let (h, slope) = (1e-5, gamma_sample_slope(a, x));
            let drift = igamma(a + h, x + h * slope) - igamma(a - h, x - h * slope);
            assert!(drift.abs() < 1e-12, "{a}, {x}: {drift}");
        }
    }
}
