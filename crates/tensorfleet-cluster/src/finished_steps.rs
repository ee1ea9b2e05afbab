//! [`FinishedSteps`]: steps that went well and that another task can forget.
//!
//! TensorFlow tells each task with a call of its own that a step is over. A training loop sends the next step right after,
//! so between tasks of ours the news travels with that, and only if there is none soon, in calls of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// How long news may wait for a step to travel with.
pub(crate) const WAIT: Duration = Duration::from_millis(50);
/// More steps than this do not travel in one header.
const MAX_STEPS: usize = 64;

/// Names steps that can be forgotten, in decimal, separated by commas.
pub(crate) const HEADER: &str = "tensorfleet-finished-steps";

/// Steps that a task has not been told of.
#[derive(Default)]
pub(crate) struct FinishedSteps {
    steps: Mutex<Vec<i64>>,
    is_watched: AtomicBool,
}

impl FinishedSteps {
    /// Adds steps. Whether somebody must see to it, after [`WAIT`], that the news gets through.
    pub(crate) fn add(&self, steps: impl IntoIterator<Item = i64>) -> bool {
        self.steps.lock().extend(steps);
        !self.is_watched.swap(true, Ordering::AcqRel)
    }

    /// Takes some steps, to tell the other task.
    pub(crate) fn take(&self) -> Vec<i64> {
        let mut steps = self.steps.lock();
        let count = steps.len().min(MAX_STEPS);
        steps.drain(..count).collect()
    }

    /// Notes that nobody watches any more. Whether somebody should go on, since there are steps left.
    pub(crate) fn stop_watching(&self) -> bool {
        self.is_watched.store(false, Ordering::Release);
        !self.steps.lock().is_empty() && !self.is_watched.swap(true, Ordering::AcqRel)
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
        let finished = FinishedSteps::default();
        assert!(finished.add([1]) && !finished.add([2, -3]));
        assert_eq!(finished.take(), [1, 2, -3]);
        finished.add([4]);
        assert!(finished.stop_watching(), "a step came in between");
        finished.take();
        assert!(!finished.stop_watching());
        assert!(finished.add([5]));
    }

    #[test]
    fn headers_carry_any_step_and_no_more_than_fit() {
        assert_eq!(read(&write(&[1, -2, i64::MAX])).collect::<Vec<_>>(), [1, -2, i64::MAX]);
        assert_eq!(read("7,,x,9999999999999999999999,8").collect::<Vec<_>>(), [7, 8]);
        let finished = FinishedSteps::default();
        finished.add(0..100);
        assert_eq!((finished.take().len(), finished.take().len()), (64, 36));
        assert_eq!(read(&"1,".repeat(1000)).count(), 64);
    }
}
