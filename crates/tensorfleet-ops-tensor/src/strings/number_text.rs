//! Reading numbers from text the way TensorFlow does: spaces around are fine, hexadecimal floats too, anything else
//! that is not part of the number is not.

/// The text without C's white space around it, if it is ASCII enough to be a number.
fn trimmed(text: &[u8]) -> Option<&str> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|byte| !is_space(byte))?;
    let end = text.iter().rposition(|byte| !is_space(byte))? + 1;
    std::str::from_utf8(&text[start..end]).ok()
}

/// An integer of any width, in decimal.
pub fn parse_integer<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    trimmed(text)?.parse().ok()
}

/// A float of either width; numbers that are too large are infinite.
pub fn parse_float<T: std::str::FromStr + Copy>(text: &[u8], from_hexadecimal: fn(f64) -> T) -> Option<T> {
    let text = trimmed(text)?;
    match hexadecimal(text) {
        Some(value) => value.map(from_hexadecimal),
        None => text.parse().ok(),
    }
}

/// `None` if the text does not start like a hexadecimal number, `Some(None)` if it does but is none.
fn hexadecimal(text: &str) -> Option<Option<f64>> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X"))?;
    let sign = if negative { -1.0 } else { 1.0 };
    Some(hexadecimal_digits(digits).map(|value| sign * value))
}

fn hexadecimal_digits(text: &str) -> Option<f64> {
    let (mantissa, exponent) = match text.split_once(['p', 'P']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0.0;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + digit.to_digit(16)? as f64;
    }
    let exponent = exponent.saturating_sub(4 * i32::try_from(fraction.len()).ok()?);
    Some(value * 2f64.powi(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(text: &str) -> Option<f64> {
        parse_float(text.as_bytes(), |value| value)
    }

    #[test]
    fn floats_are_read_with_their_surroundings() {
        assert_eq!(float(" -2 "), Some(-2.0));
        assert_eq!(float("\t3\n"), Some(3.0));
        assert_eq!(float("1e999"), Some(f64::INFINITY));
        assert_eq!(float("-inf"), Some(f64::NEG_INFINITY));
        assert!(float("NaN").is_some_and(f64::is_nan));
        assert_eq!((float(".5"), float("5."), float("+7")), (Some(0.5), Some(5.0), Some(7.0)));
        assert_eq!((float("0x10"), float("0x1p3"), float("-0x1.8")), (Some(16.0), Some(8.0), Some(-1.5)));
        for bad in ["", "  ", "1 2", "1_0", "1e", "1.5f", "- 3", "0x", "0xg", "abc"] {
            assert_eq!(float(bad), None, "{bad}");
        }
    }

    #[test]
    fn integers_have_to_fit() {
        assert_eq!(parse_integer::<i32>(b" 00012 "), Some(12));
        assert_eq!(parse_integer::<i32>(b"+7"), Some(7));
        assert_eq!(parse_integer::<i32>(b"2147483648"), None);
        assert_eq!(parse_integer::<i64>(b"9000000000"), Some(9_000_000_000));
        assert_eq!(parse_integer::<i64>(b"1.5"), None);
        assert_eq!(parse_integer::<u32>(b"-1"), None);
    }
}
