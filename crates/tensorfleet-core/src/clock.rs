//! Time as a value: whoever decides something by time is handed a [`Clock`], and a test hands it one that it moves.
//!
//! What waits for time to pass (a lease that runs out, a sweep, a peer that has been silent for too long) is wrong in
//! ways that a test meets only if it can say how late it is. So such code never asks the operating system; it keeps a
//! `Clock` and asks that. What merely measures (traces, progress, logs) uses a [`Stopwatch`], and what writes a date
//! into a record [`since_epoch`]: neither decides anything, so neither has to be handed down. A wait that the operating
//! system ends, on a socket or a condition, has its end by the same clock as the system's timers: [`deadline_in`] and
//! [`time_left`].
//!
//! No other module of the libraries reads the clocks of the operating system: `clippy.toml` bans the raw calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Says what time it is. Cheap to clone; clones agree.
///
/// ```
/// use std::time::Duration;
/// use tensorfleet_core::clock::Clock;
///
/// let hand = Clock::manual();
/// let clock = hand.clock();
/// let started = clock.now();
/// hand.advance(Duration::from_secs(3600));
/// assert_eq!(clock.now() - started, Duration::from_secs(3600));
/// ```
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Manual(Arc<ManualTime>),
}

#[derive(Debug)]
struct ManualTime {
    /// Instants have no zero; every time of this clock is told from here.
    origin: Instant,
    /// Nanoseconds since `origin`: five centuries fit.
    passed_ns: AtomicU64,
}

impl Clock {
    /// The monotonic clock of the operating system.
    pub const fn system() -> Clock {
        Clock(Source::System)
    }

    /// A clock that stands still until its [`ManualClock`] moves it.
    pub fn manual() -> ManualClock {
        ManualClock(Arc::new(ManualTime { origin: system_now(), passed_ns: AtomicU64::new(0) }))
    }

    /// The present.
    pub fn now(&self) -> Instant {
        match &self.0 {
            Source::System => system_now(),
            Source::Manual(time) => time.now(),
        }
    }

    /// How long ago `earlier` was; zero if it is still to come.
    pub fn since(&self, earlier: Instant) -> Duration {
        self.now().saturating_duration_since(earlier)
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::system()
    }
}

impl ManualTime {
    fn now(&self) -> Instant {
        self.origin + Duration::from_nanos(self.passed_ns.load(Ordering::SeqCst))
    }
}

/// The hand that moves the clocks made by [`clock`](ManualClock::clock); for tests.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<ManualTime>);

impl ManualClock {
    /// A clock that this hand moves.
    pub fn clock(&self) -> Clock {
        Clock(Source::Manual(self.0.clone()))
    }

    /// The present of the clocks that this hand moves.
    pub fn now(&self) -> Instant {
        self.0.now()
    }

    /// Lets `duration` pass, for every clock of this hand at once.
    ///
    /// Nobody is woken by it: code that waits for a deadline is given its next look at the clock by the test.
    pub fn advance(&self, duration: Duration) {
        let passed_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.0.passed_ns.fetch_add(passed_ns, Ordering::SeqCst);
    }
}

/// Measures how long something took: for reports, and for choices that only cost or save time, such as how long to spin.
/// What becomes of work is decided by a [`Clock`].
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts measuring.
    pub fn start() -> Stopwatch {
        Stopwatch(system_now())
    }

    /// When the measurement began.
    pub fn started(self) -> Instant {
        self.0
    }

    /// The time since the start.
    pub fn elapsed(self) -> Duration {
        system_now().saturating_duration_since(self.0)
    }
}

/// When a wait of `patience` that begins now is over; `None` if that is beyond all time, so that it never is.
pub fn deadline_in(patience: Duration) -> Option<Instant> {
    system_now().checked_add(patience)
}

/// How long a wait that ends at `deadline` may still take; zero if it is over.
pub fn time_left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(system_now())
}

/// The time since 1970 by the calendar of the machine, for records that carry a date; zero if it is set before that.
pub fn since_epoch() -> Duration {
    #[expect(clippy::disallowed_methods, reason = "the place that reads the calendar for everybody")]
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn system_now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "the place that reads the clock for everybody")]
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_stands_still_until_it_is_moved_and_its_clones_agree() {
        let hand = Clock::manual();
        let (clock, other) = (hand.clock(), hand.clock().clone());
        let start = clock.now();
        assert_eq!(clock.now(), start);
        hand.advance(Duration::from_millis(1500));
        assert_eq!(
            (clock.since(start), other.since(start)),
            (Duration::from_millis(1500), Duration::from_millis(1500))
        );
        assert_eq!(hand.now(), other.now());
    }

    #[test]
    fn a_time_to_come_is_no_time_ago() {
        let hand = Clock::manual();
        assert_eq!(hand.clock().since(hand.now() + Duration::from_secs(1)), Duration::ZERO);
    }

    #[test]
    fn clocks_of_different_hands_are_moved_apart() {
        let (moved, still) = (Clock::manual(), Clock::manual());
        let before = still.now();
        moved.advance(Duration::from_secs(10));
        assert_eq!(still.now(), before);
    }

    #[test]
    fn a_deadline_comes_closer_until_it_has_passed_and_may_never_come() {
        let deadline = deadline_in(Duration::from_secs(3600)).unwrap();
        let left = time_left(deadline);
        assert!(left <= Duration::from_secs(3600) && left > Duration::from_secs(1800));
        assert_eq!(time_left(deadline_in(Duration::ZERO).unwrap()), Duration::ZERO);
        assert_eq!(deadline_in(Duration::MAX), None);
    }

    #[test]
    fn the_system_clock_never_runs_backwards() {
        let clock = Clock::default();
        let first = clock.now();
        assert!(clock.now() >= first);
        assert!(Stopwatch::start().started() >= first);
    }
}
