//! [`RunningSteps`]: the steps of a session under way, and the end of all of them.

use std::sync::atomic::{AtomicUsize, Ordering};

use tensorfleet_core::{Result, Status};
use tensorfleet_runtime::step_errors::{cancelled_by_close, session_closed};
use tokio::sync::{Notify, watch};

/// Counts steps, and tells them when the session is closed.
pub(super) struct RunningSteps {
    count: AtomicUsize,
    is_closed: watch::Sender<bool>,
    ended: Notify,
}

impl RunningSteps {
    pub(super) fn new() -> RunningSteps {
        RunningSteps {
            count: AtomicUsize::new(0),
            is_closed: watch::Sender::new(false),
            ended: Notify::new(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    pub(super) fn check_open(&self) -> Result<()> {
        if *self.is_closed.borrow() { Err(session_closed()) } else { Ok(()) }
    }

    /// Registers a step, until the guard is dropped.
    pub(super) fn enter(&self) -> Result<RunningStepGuard<'_>> {
        self.count.fetch_add(1, Ordering::AcqRel);
        let guard = RunningStepGuard(self);
        self.check_open()?;
        Ok(guard)
    }

    /// Resolves once the session is closed.
    pub(super) async fn closed(&self) -> Status {
        let mut is_closed = self.is_closed.subscribe();
        // The sender lives as long as the session.
        let _ = is_closed.wait_for(|is_closed| *is_closed).await;
        cancelled_by_close()
    }

    /// Closes the session and waits for its steps to end.
    pub(super) async fn close(&self) {
        self.is_closed.send_replace(true);
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
pub(super) struct RunningStepGuard<'a>(&'a RunningSteps);

impl Drop for RunningStepGuard<'_> {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.ended.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn closing_tells_steps_and_waits_for_them() {
        let running = RunningSteps::new();
        let step = running.enter().unwrap();
        let mut told = Box::pin(running.closed());
        assert!(told.as_mut().now_or_never().is_none());
        let mut closing = Box::pin(running.close());
        assert!(closing.as_mut().now_or_never().is_none());
        assert!(told.now_or_never().is_some());
        assert!(running.enter().is_err());
        drop(step);
        assert!(closing.now_or_never().is_some());
    }
}
