//! The `grpc-timeout` header: at most eight digits and a unit.

use std::time::Duration;

/// The header's value for a duration, rounded up so that the server never gives up before its caller.
pub(crate) fn format(timeout: Duration) -> String {
    const LARGEST: u128 = 99_999_999;
    let nanos = timeout.as_nanos();
    for (unit, size) in [('u', 1_000), ('m', 1_000_000), ('S', 1_000_000_000), ('M', 60_000_000_000u128)] {
        let count = nanos.div_ceil(size);
        if count <= LARGEST {
            return format!("{count}{unit}");
        }
    }
    format!("{}H", nanos.div_ceil(3_600_000_000_000).min(LARGEST))
}

/// The duration a header's value stands for; `None` if it is malformed.
pub(crate) fn parse(value: &str) -> Option<Duration> {
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_never_shortened_and_hardly_lengthened() {
        for nanos in [0, 1, 999, 1_000_000, 99_999_999_001, 10u64.pow(15), 10u64.pow(18), u64::MAX] {
            let duration = Duration::from_nanos(nanos);
            let sent = parse(&format(duration)).unwrap();
            assert!(sent >= duration, "{nanos}");
            assert!(sent.as_secs_f64() <= duration.as_secs_f64() * 1.001 + 1e-6, "{nanos}");
        }
    }

    #[test]
    fn malformed_values_are_refused() {
        for value in ["", "S", "10", "123456789S", "-1S", "1 S", "1s", "ü", "1ü"] {
            assert_eq!(parse(value), None, "{value}");
        }
    }
}
