//! [`FinishedSteps`]: steps that went well and that another task can forget.
//!
//! TensorFlow tells each task with a call of its own that a step is over. A training loop sends the next step right after,
//! so between tasks of ours the cleanup travels with that, in a header, and only if there is none soon, in a call of its
//! own.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tensorfleet_core::clock::Clock;

/// How long a cleanup may wait for a step to travel with.
const PIGGYBACK_TIMEOUT: Duration = Duration::from_millis(50);
/// More steps than this do not travel in one header.
const MAX_STEPS: usize = 64;

/// Steps that a task has not been told of.
pub(crate) struct FinishedSteps {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Each with the time it was added at, in that order.
    steps: VecDeque<(i64, Instant)>,
    is_watched: bool,
}

impl FinishedSteps {
    /// None yet. How long they wait is measured by `clock`.
    pub(crate) fn new(clock: Clock) -> FinishedSteps {
        FinishedSteps { clock, state: Mutex::default() }
    }

    /// Adds steps. Whether somebody must begin to watch that they do not wait for too long: see [`FinishedSteps::next_look`].
    pub(crate) fn add(&self, steps: impl IntoIterator<Item = i64>) -> bool {
        let now = self.clock.now();
        let mut state = self.state.lock();
        state.steps.extend(steps.into_iter().map(|step| (step, now)));
        !state.steps.is_empty() && !std::mem::replace(&mut state.is_watched, true)
    }

    /// Takes as many steps as travel with one call, however long they have waited.
    pub(crate) fn take(&self) -> Vec<i64> {
        let mut state = self.state.lock();
        let count = state.steps.len().min(MAX_STEPS);
        state.steps.drain(..count).map(|(step, _)| step).collect()
    }

    /// Takes the steps that have waited for too long.
    pub(crate) fn take_overdue(&self) -> Vec<i64> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let is_overdue = |added: Instant| now.saturating_duration_since(added) >= PIGGYBACK_TIMEOUT;
        let count = state.steps.iter().take_while(|(_, added)| is_overdue(*added)).count();
        state.steps.drain(..count).map(|(step, _)| step).collect()
    }

    /// For whoever watches: after which time the next step will have waited for too long. `None` if there is none, and then
    /// nobody watches any more.
    pub(crate) fn next_look(&self) -> Option<Duration> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let first = state.steps.front().map(|(_, added)| *added);
        state.is_watched = first.is_some();
        first.map(|added| (added + PIGGYBACK_TIMEOUT).saturating_duration_since(now))
    }
}

/// The header's value.
pub(crate) fn write(steps: &[i64]) -> String {
    let steps: Vec<String> = steps.iter().map(i64::to_string).collect();
    steps.join(",")
}

/// The steps that a header names. What is no step is left out: the worst that can happen is that one is kept for longer.
pub(crate) fn read(header: &str) -> impl Iterator<Item = i64> {
    header.split(',').take(MAX_STEPS).filter_map(|step| step.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_watcher_is_enough_and_misses_nothing() {
        let finished = FinishedSteps::new(Clock::manual().clock());
        assert!(finished.add([1]) && !finished.add([2, -3]));
        assert_eq!(finished.take(), [1, 2, -3]);
        finished.add([4]);
        assert!(finished.next_look().is_some(), "a step came in between");
        finished.take();
        assert!(finished.next_look().is_none());
        assert!(finished.add([5]), "nobody watches any more");
        assert!(!FinishedSteps::new(Clock::system()).add([]), "there is nothing to watch");
    }

    #[test]
    fn a_step_that_nothing_takes_along_is_overdue_after_its_own_time() {
        let hand = Clock::manual();
        let finished = FinishedSteps::new(hand.clock());
        finished.add([1]);
        hand.advance(Duration::from_millis(30));
        finished.add([2]);
        assert_eq!(finished.next_look(), Some(Duration::from_millis(20)));
        assert!(finished.take_overdue().is_empty());
        hand.advance(Duration::from_millis(20));
        assert_eq!(finished.take_overdue(), [1]);
        assert_eq!(finished.next_look(), Some(Duration::from_millis(30)));
        hand.advance(Duration::from_secs(3600));
        assert_eq!(finished.next_look(), Some(Duration::ZERO));
        assert_eq!(finished.take_overdue(), [2]);
        assert_eq!(finished.next_look(), None);
    }

    #[test]
    fn headers_carry_any_step_and_no_more_than_fit() {
        assert_eq!(read(&write(&[1, -2, i64::MAX])).collect::<Vec<_>>(), [1, -2, i64::MAX]);
        assert_eq!(read("7,,x,9999999999999999999999,8").collect::<Vec<_>>(), [7, 8]);
        let finished = FinishedSteps::new(Clock::system());
        finished.add(0..100);
        assert_eq!((finished.take().len(), finished.take().len()), (64, 36));
        assert_eq!(read(&"1,".repeat(1000)).count(), 64);
    }
}
