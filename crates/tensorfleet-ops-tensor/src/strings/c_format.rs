//! Numbers as C's `printf` writes them, which is how TensorFlow turns numbers into text.

/// A conversion: `%` flags width precision kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spec {
    /// What fills up a number that is narrower than `width`, or its sign.
    pub(crate) fill: Fill,
    /// The smallest number of characters.
    pub(crate) width: usize,
    /// Digits after the point, or significant digits; 6 if absent.
    pub(crate) precision: Option<usize>,
}

/// The flags of a conversion, of which TensorFlow's ops allow one at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Spaces before the number.
    #[default]
    None,
    /// Zeros between sign and number.
    Zero,
    /// Spaces after the number.
    Left,
    /// A space in place of a plus sign.
    Space,
    /// A plus sign before numbers that are not negative.
    Plus,
}

/// How a float is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatStyle {
    /// `%f`: as many digits as the number has before the point.
    Fixed,
    /// `%e`: one digit before the point, and an exponent.
    Scientific,
    /// `%g`: whichever is shorter, without trailing zeros.
    Shortest,
}

const DEFAULT_PRECISION: usize = 6;

impl Spec {
    /// A float.
    pub(crate) fn float(&self, value: f64, style: FloatStyle) -> String {
        let precision = self.precision.unwrap_or(DEFAULT_PRECISION);
        let magnitude = value.abs();
        let digits = match (value.is_nan(), value.is_infinite()) {
            (true, _) => "nan".to_string(),
            (_, true) => "inf".to_string(),
            _ => match style {
                FloatStyle::Fixed => format!("{magnitude:.precision$}"),
                FloatStyle::Scientific => scientific(magnitude, precision),
                FloatStyle::Shortest => shortest(magnitude, precision),
            },
        };
        // Zeros do not go before words.
        let fill = if self.fill == Fill::Zero && !value.is_finite() { Fill::None } else { self.fill };
        Spec { fill, ..*self }.pad(value.is_sign_negative() && !value.is_nan(), &digits, true)
    }

    /// A signed integer.
    pub(crate) fn signed(&self, value: i64) -> String {
        self.pad(value < 0, &value.unsigned_abs().to_string(), true)
    }

    /// An unsigned integer, which has no place for a sign.
    pub(crate) fn unsigned(&self, value: u64) -> String {
        self.pad(false, &value.to_string(), false)
    }

    fn pad(&self, negative: bool, digits: &str, signed: bool) -> String {
        let sign = match (negative, self.fill) {
            (true, _) => "-",
            (false, Fill::Plus) if signed => "+",
            (false, Fill::Space) if signed => " ",
            _ => "",
        };
        let missing = self.width.saturating_sub(sign.len() + digits.len());
        match self.fill {
            Fill::Zero => format!("{sign}{}{digits}", "0".repeat(missing)),
            Fill::Left => format!("{sign}{digits}{}", " ".repeat(missing)),
            _ => format!("{}{sign}{digits}", " ".repeat(missing)),
        }
    }
}

/// Mantissa and exponent of a number that is finite and not negative.
fn mantissa_and_exponent(magnitude: f64, precision: usize) -> (String, i32) {
    let text = format!("{magnitude:.precision$e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => (mantissa.to_string(), exponent.parse().unwrap_or(0)),
        None => (text, 0),
    }
}

fn scientific(magnitude: f64, precision: usize) -> String {
    let (mantissa, exponent) = mantissa_and_exponent(magnitude, precision);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

fn shortest(magnitude: f64, precision: usize) -> String {
    let significant = precision.max(1);
    let (_, exponent) = mantissa_and_exponent(magnitude, significant - 1);
    if exponent < -4 || exponent >= significant as i32 {
        let text = scientific(magnitude, significant - 1);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, ""));
        return format!("{}e{exponent}", without_trailing_zeros(mantissa));
    }
    let decimals = (significant as i32 - 1 - exponent) as usize;
    without_trailing_zeros(&format!("{magnitude:.decimals$}")).to_string()
}

fn without_trailing_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// A float with the fewest of 6 or 9 significant digits that give it back.
pub(crate) fn brief_f32(value: f32) -> String {
    let text = significant(value as f64, 6);
    if text.parse::<f32>() == Ok(value) || value.is_nan() { text } else { significant(value as f64, 9) }
}

/// A double with the fewest of 15 or 17 significant digits that give it back.
pub(crate) fn brief_f64(value: f64) -> String {
    let text = significant(value, 15);
    if text.parse::<f64>() == Ok(value) || value.is_nan() { text } else { significant(value, 17) }
}

fn significant(value: f64, digits: usize) -> String {
    Spec { precision: Some(digits), ..Spec::default() }.float(value, FloatStyle::Shortest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_c_does() {
        let spec = Spec::default();
        let all = |value: f64| {
            use FloatStyle::*;
            [Fixed, Scientific, Shortest].map(|style| spec.float(value, style))
        };
        assert_eq!(all(1.5), ["1.500000", "1.500000e+00", "1.5"]);
        assert_eq!(all(-0.0), ["-0.000000", "-0.000000e+00", "-0"]);
        assert_eq!(all(1e20), ["100000000000000000000.000000", "1.000000e+20", "1e+20"]);
        assert_eq!(all(1.0 / 3.0), ["0.333333", "3.333333e-01", "0.333333"]);
        assert_eq!(all(1e-7), ["0.000000", "1.000000e-07", "1e-07"]);
        assert_eq!(all(999999.5)[2], "1e+06");
        assert_eq!(all(123456.0)[2], "123456");
        assert_eq!(all(f64::NAN)[0], "nan");
        assert_eq!(all(f64::NEG_INFINITY)[1], "-inf");
        assert_eq!(all(1e100)[1], "1.000000e+100");
    }

    #[test]
    fn widths_and_flags_are_obeyed() {
        let spec = |fill| Spec { fill, width: 8, precision: Some(2) };
        let numbers =
            |fill| [spec(fill).float(1.5, FloatStyle::Fixed), spec(fill).signed(-12), spec(fill).unsigned(7)];
        assert_eq!(numbers(Fill::None), ["    1.50", "     -12", "       7"]);
        assert_eq!(numbers(Fill::Zero), ["00001.50", "-0000012", "00000007"]);
        assert_eq!(numbers(Fill::Left), ["1.50    ", "-12     ", "7       "]);
        assert_eq!(numbers(Fill::Plus), ["   +1.50", "     -12", "       7"]);
        assert_eq!(numbers(Fill::Space)[0], "    1.50");
        assert_eq!(spec(Fill::Zero).float(f64::INFINITY, FloatStyle::Fixed), "     inf");
    }

    #[test]
    fn brief_floats_read_back() {
        assert_eq!(brief_f32(1.0 / 3.0), "0.333333343");
        assert_eq!(brief_f32(123456789.0), "123456792");
        assert_eq!(brief_f32(0.1), "0.1");
        assert_eq!(brief_f32(1e6), "1e+06");
        assert_eq!(brief_f64(1.0 / 3.0), "0.33333333333333331");
        assert_eq!(brief_f64(1e6), "1000000");
        assert_eq!(brief_f64(f64::NAN), "nan");
    }
}
