//! When a hook acts that does not act at every step.

use std::time::{Duration, Instant};

use tensorfleet_core::clock::Clock;
use tensorfleet_core::{Result, ensure};

/// How often something happens.
///
/// ```
/// use tensorfleet::train::{Every, MonitoredTrainingSession};
/// # let g = tensorfleet::Graph::new();
/// let session = MonitoredTrainingSession::new(&g)
///     .save_checkpoint(Every::Secs(60.0))
///     .save_summaries(Every::Steps(100));
/// # drop(session);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Every {
    /// After so many steps.
    Steps(i64),
    /// After so many seconds.
    Secs(f64),
}

impl Every {
    pub(super) fn check(self, hook: &str) -> Result<Every> {
        let is_positive = match self {
            Every::Steps(steps) => steps > 0,
            Every::Secs(secs) => secs >= 0.0,
        };
        ensure!(is_positive, InvalidArgument, "{hook} must act after some steps or seconds, not {self:?}");
        Ok(self)
    }
}

/// Remembers when a hook last acted.
pub(super) struct Timer {
    every: Every,
    clock: Clock,
    last: Option<(i64, Instant)>,
}

impl Timer {
    pub(super) fn new(every: Every) -> Timer {
        Timer::by_clock(every, Clock::system())
    }

    fn by_clock(every: Every, clock: Clock) -> Timer {
        Timer { every, clock, last: None }
    }

    /// Whether it is time at this step; never twice at the same one.
    pub(super) fn is_due(&self, step: i64) -> bool {
        let Some((last_step, last_time)) = self.last else { return true };
        match self.every {
            _ if step == last_step => false,
            Every::Steps(steps) => step >= last_step.saturating_add(steps),
            Every::Secs(secs) => self.clock.since(last_time).as_secs_f64() >= secs,
        }
    }

    /// The hook acts at this step; time and steps since it did before.
    pub(super) fn act(&mut self, step: i64) -> Option<(Duration, i64)> {
        let now = self.clock.now();
        let before = self.last.replace((step, now));
        before.map(|(last_step, last_time)| (now - last_time, step - last_step))
    }

    pub(super) fn last_step(&self) -> Option<i64> {
        self.last.map(|(step, _)| step)
    }

    /// Forgets the past: the next step is due.
    pub(super) fn reset(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_from_the_last_act() {
        let mut timer = Timer::new(Every::Steps(10));
        assert!(timer.is_due(3), "the first step is always due");
        assert_eq!(timer.act(3), None);
        assert!(!timer.is_due(3) && !timer.is_due(12));
        assert!(timer.is_due(13) && timer.is_due(40));
        assert_eq!(timer.act(40).map(|(_, steps)| steps), Some(37));
        assert!(!timer.is_due(49));
        timer.reset();
        assert!(timer.is_due(40));
    }

    #[test]
    fn seconds_are_counted_but_a_step_is_due_once() {
        let mut timer = Timer::new(Every::Secs(0.0));
        timer.act(1);
        assert!(!timer.is_due(1) && timer.is_due(2));
        let hand = Clock::manual();
        let mut slow = Timer::by_clock(Every::Secs(60.0), hand.clock());
        slow.act(1);
        hand.advance(Duration::from_millis(59_999));
        assert!(!slow.is_due(1_000));
        hand.advance(Duration::from_millis(1));
        assert!(slow.is_due(1_000));
        assert_eq!(slow.act(1_000), Some((Duration::from_secs(60), 999)));
    }

    #[test]
    fn a_hook_that_never_acts_is_a_mistake() {
        assert!(Every::Steps(0).check("Hook").is_err());
        assert!(Every::Secs(-1.0).check("Hook").is_err());
        assert!(Every::Steps(1).check("Hook").is_ok());
    }
}
