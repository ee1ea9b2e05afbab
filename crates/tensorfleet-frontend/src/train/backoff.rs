//! [`Backoff`]: waiting for what other tasks do, with pauses that get longer, reports and a timeout.

use std::time::{Duration, Instant};

use tensorfleet_core::clock::Clock;
use tensorfleet_core::{Result, Status, interrupt, notice};

/// The first pause, ...
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// ... and the longest: an attempt costs a run of a few small nodes.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A wait that is over before is not worth a line: every start of a cluster has such waits.
const FIRST_REPORT: Duration = Duration::from_secs(3);
/// How often a wait is reported.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Pauses between attempts, which get longer until a timeout.
pub(crate) struct Backoff {
    clock: Clock,
    started: Instant,
    timeout: Duration,
    pause: Duration,
    longest_pause: Duration,
    reported: Option<Instant>,
}

impl Backoff {
    /// The pauses last at most `longest_pause`.
    pub(crate) fn new(timeout: Duration, longest_pause: Duration) -> Backoff {
        let longest_pause = longest_pause.min(LONGEST_PAUSE);
        let pause = FIRST_PAUSE.min(longest_pause);
        let clock = Clock::system();
        Backoff { started: clock.now(), clock, timeout, pause, longest_pause, reported: None }
    }

    /// The time until the timeout.
    pub(crate) fn remaining(&self) -> Duration {
        self.timeout.saturating_sub(self.clock.since(self.started))
    }

    /// Pauses like [`Backoff::pause`], but after the timeout the error is the one that made waiting necessary.
    pub(crate) fn pause_after(&mut self, error: Option<&Status>, what: impl Fn() -> String) -> Result<()> {
        match error {
            Some(error) if self.remaining().is_zero() => Err(error.clone()),
            _ => self.pause(what),
        }
    }

    /// Pauses, and says what for now and then; an error after the timeout.
    pub(crate) fn pause(&mut self, what: impl Fn() -> String) -> Result<()> {
        let (waited, left) = (self.clock.since(self.started), self.remaining());
        if left.is_zero() {
            return Err(Status::deadline_exceeded(format!(
                "Session was not ready after waiting {} secs for {}",
                waited.as_secs(),
                what()
            )));
        }
        if self.reported.map_or(waited >= FIRST_REPORT, |at| self.clock.since(at) >= REPORT_EVERY) {
            self.reported = Some(self.clock.now());
            notice::info(format!(
                "has waited {} s, and waits for at most {} s more, for {}",
                waited.as_secs(),
                left.as_secs(),
                what()
            ));
        }
        sleep(self.pause.min(left))?;
        self.pause = (self.pause * 3 / 2).min(self.longest_pause);
        Ok(())
    }
}

/// Sleeps, unless the thread is interrupted.
fn sleep(duration: Duration) -> Result<()> {
    let mut left = duration;
    while !left.is_zero() {
        interrupt::check()?;
        let part = interrupt::interval().map_or(left, |interval| interval.min(left));
        #[expect(
            clippy::disallowed_methods,
            reason = "nobody could say that another task has done something"
        )]
        std::thread::sleep(part);
        left = left.saturating_sub(part);
    }
    Ok(())
}
