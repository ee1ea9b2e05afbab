//! [`RunningSteps`]: the steps of a session under way, and the end of one or all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tensorfleet_core::clock::Clock;
use tensorfleet_core::{Result, Status};
use tensorfleet_runtime::step_errors::{cancelled_by_close, session_closed};
use tokio::sync::{Notify, watch};

use super::planned_step::PlannedStep;

/// Counts steps, and tells them when the session is closed, or they themselves are to end.
pub(super) struct RunningSteps {
    clock: Clock,
    count: AtomicUsize,
    steps: Mutex<Vec<Entry>>,
    ends: watch::Sender<Ends>,
    ended: Notify,
}

/// What is to end.
#[derive(Default)]
struct Ends {
    /// All of it.
    session: bool,
    /// Single steps, each with the reason.
    steps: Vec<(i64, Status)>,
}

struct Entry {
    id: i64,
    since: Instant,
    plan: Arc<PlannedStep>,
}

/// A step under way, as somebody sees it who looks after it.
pub(super) struct RunningStep {
    pub(super) id: i64,
    pub(super) age: Duration,
    pub(super) plan: Arc<PlannedStep>,
}

impl RunningSteps {
    pub(super) fn new(clock: Clock) -> RunningSteps {
        RunningSteps {
            clock,
            count: AtomicUsize::new(0),
            steps: Mutex::default(),
            ends: watch::Sender::default(),
            ended: Notify::new(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    pub(super) fn check_open(&self) -> Result<()> {
        if self.ends.borrow().session { Err(session_closed()) } else { Ok(()) }
    }

    /// Registers a step, until the guard is dropped.
    pub(super) fn enter(&self, id: i64, plan: &Arc<PlannedStep>) -> Result<RunningStepGuard<'_>> {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.steps.lock().push(Entry { id, since: self.clock.now(), plan: plan.clone() });
        let guard = RunningStepGuard { running: self, id };
        self.check_open()?;
        Ok(guard)
    }

    /// The steps that have run for longer than `age`.
    pub(super) fn longer_than(&self, age: Duration) -> Vec<RunningStep> {
        let steps = self.steps.lock();
        let running = steps.iter().map(|entry| RunningStep {
            id: entry.id,
            age: self.clock.since(entry.since),
            plan: entry.plan.clone(),
        });
        running.filter(|step| step.age > age).collect()
    }

    /// Ends one step, if it still runs.
    pub(super) fn abort(&self, id: i64, reason: Status) {
        if self.steps.lock().iter().any(|entry| entry.id == id) {
            self.ends.send_modify(|ends| ends.steps.push((id, reason)));
        }
    }

    /// Resolves once the session is closed, or the step is to end.
    pub(super) async fn closed(&self, id: Option<i64>) -> Status {
        let mut ends = self.ends.subscribe();
        let reason = |ends: &Ends| {
            let own = ends.steps.iter().find(|(step, _)| Some(*step) == id).map(|(_, reason)| reason.clone());
            own.or_else(|| ends.session.then(cancelled_by_close))
        };
        // The sender lives as long as the session.
        match ends.wait_for(|ends| reason(ends).is_some()).await {
            Ok(ends) => reason(&ends).unwrap_or_else(cancelled_by_close),
            Err(_) => cancelled_by_close(),
        }
    }

    /// Closes the session and waits for its steps to end.
    pub(super) async fn close(&self) {
        self.ends.send_modify(|ends| ends.session = true);
        loop {
            let ended = self.ended.notified();
            if self.count() == 0 {
                return;
            }
            ended.await;
        }
    }
}

/// A step under way.
pub(super) struct RunningStepGuard<'a> {
    running: &'a RunningSteps,
    id: i64,
}

impl Drop for RunningStepGuard<'_> {
    fn drop(&mut self) {
        let entry = {
            let mut steps = self.running.steps.lock();
            let position = steps.iter().position(|entry| entry.id == self.id);
            position.map(|position| steps.swap_remove(position))
        };
        // A plan may be dropped with it, which tells its tasks; not under the lock.
        drop(entry);
        if !self.running.ends.borrow().steps.is_empty() {
            self.running.ends.send_if_modified(|ends| {
                ends.steps.retain(|(id, _)| *id != self.id);
                false
            });
        }
        if self.running.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.running.ended.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use tensorfleet_core::Code;
    use tensorfleet_runtime::plan::Signature;

    fn plan() -> Arc<PlannedStep> {
        Arc::new(PlannedStep {
            bytes: 0,
            signature: Signature::new(&[], &[], &[]),
            feed_dtypes: Vec::new(),
            partitions: Vec::new(),
            fetch_needs: Vec::new(),
        })
    }

    #[test]
    fn closing_tells_steps_and_waits_for_them() {
        let running = RunningSteps::new(Clock::system());
        let step = running.enter(1, &plan()).unwrap();
        let mut told = Box::pin(running.closed(Some(1)));
        assert!(told.as_mut().now_or_never().is_none());
        let mut closing = Box::pin(running.close());
        assert!(closing.as_mut().now_or_never().is_none());
        assert!(told.now_or_never().is_some());
        assert!(running.enter(2, &plan()).is_err());
        drop(step);
        assert!(closing.now_or_never().is_some());
    }

    #[test]
    fn one_step_ends_and_the_others_go_on() {
        let hand = Clock::manual();
        let running = RunningSteps::new(hand.clock());
        let (first, _second) = (running.enter(1, &plan()).unwrap(), running.enter(2, &plan()).unwrap());
        hand.advance(Duration::from_secs(3));
        let _third = running.enter(3, &plan()).unwrap();
        let old: Vec<i64> = running.longer_than(Duration::from_secs(2)).iter().map(|step| step.id).collect();
        assert_eq!(old, [1, 2]);
        running.abort(1, Status::aborted("anew"));
        assert_eq!(running.closed(Some(1)).now_or_never().unwrap().code(), Code::Aborted);
        assert!(running.closed(Some(2)).now_or_never().is_none());
        drop(first);
        running.abort(1, Status::aborted("too late"));
        assert!(running.closed(Some(1)).now_or_never().is_none(), "a number is not remembered");
    }
}
