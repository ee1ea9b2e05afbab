//! Numbers for people: bytes, times, counts and dates with the unit that fits.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A number of bytes.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let (mut value, mut unit) = (count as f64, 0);
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 || value >= 10.0 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// How long something has been going on.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} d", s / 86400.0),
    }
}

/// A count with a comma between thousands: `159,010`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun: `1 node`, `2 nodes`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", count(number as u64), if number == 1 { "" } else { "s" })
}

/// Seconds since 1970; times before that count as its beginning.
pub(crate) fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

/// A date and time in UTC: `2026-11-16 14:13:48Z`.
pub(crate) fn date(unix_seconds: u64) -> String {
    let (days, second) = (unix_seconds / 86400, unix_seconds % 86400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// The date so many days after 1970-01-01. Counted from 0000-03-01, years end with February, so that a leap day is
/// always the last of its year and of its era of 400 years.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_BEFORE_1970: u64 = 719_468;
    const DAYS_OF_ERA: u64 = 146_097;
    let days = days + DAYS_BEFORE_1970;
    let (era, day) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next_year, month, day)
}

/// A time in seconds, possibly with a fraction.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| format!("'{text}' is not a number of seconds"))?;
    Duration::try_from_secs_f64(number).map_err(|_| format!("{text} s is not a time to wait"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units_that_fit() {
        assert_eq!(
            [0, 999, 1500, 10_000, 2_500_000_000].map(bytes),
            ["0 B", "999 B", "1.5 KB", "10 KB", "2.5 GB"]
        );
        assert_eq!(
            [0.5, 75.0, 600.0, 7200.0, 864_000.0].map(duration),
            ["0.5 s", "75 s", "10 min", "2 h", "10 d"]
        );
        assert_eq!(
            [0, 999, 1000, 159_010, 1_234_567].map(count),
            ["0", "999", "1,000", "159,010", "1,234,567"]
        );
        assert_eq!((counted(1, "node"), counted(0, "node")), ("1 node".to_string(), "0 nodes".to_string()));
    }

    #[test]
    fn dates_know_leap_years() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_400, "2000-02-29 00:00:00Z"),
            (1_709_251_199, "2024-02-29 23:59:59Z"),
            (1_709_251_200, "2024-03-01 00:00:00Z"),
            (1_794_838_428, "2026-11-16 14:13:48Z"),
            (4_107_542_400, "2100-03-01 00:00:00Z"),
        ] {
            assert_eq!(date(seconds), expected);
        }
    }
}
