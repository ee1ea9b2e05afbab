//! Durations as people read them.

use std::time::Duration;

/// A duration for people: `0.4 s`, `12 s`, `3 min 20 s`.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 119.5 => format!("{s:.0} s"),
        s => format!("{} min {:02} s", s as u64 / 60, s as u64 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        let shown = |seconds: f64| duration(Duration::from_secs_f64(seconds));
        assert_eq!([0.04, 9.94, 12.3, 200.0].map(shown), ["0.0 s", "9.9 s", "12 s", "3 min 20 s"]);
    }
}
