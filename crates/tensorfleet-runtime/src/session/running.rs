//! [`RunningSteps`]: the steps of a session under way, and the end of all of them.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use rustc_hash::FxHashMap;
use tensorfleet_core::Result;
use tensorfleet_kernel::cancellation::Cancellation;

use crate::step_errors::{cancelled_by_close, session_closed};

/// Steps under way, by number.
#[derive(Default)]
pub(super) struct RunningSteps {
    state: Mutex<State>,
    all_ended: Condvar,
}

#[derive(Default)]
struct State {
    is_closed: bool,
    steps: FxHashMap<i64, Arc<Cancellation>>,
}

impl RunningSteps {
    pub(super) fn check_open(&self) -> Result<()> {
        if self.state.lock().is_closed { Err(session_closed()) } else { Ok(()) }
    }

    /// Notes that a step begins, which `cancellation` ends. Fails once the session is closed.
    pub(super) fn enter(&self, step_id: i64, cancellation: Arc<Cancellation>) -> Result<()> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(session_closed());
        }
        state.steps.insert(step_id, cancellation);
        Ok(())
    }

    /// Notes that a step has ended.
    pub(super) fn leave(&self, step_id: i64) {
        let mut state = self.state.lock();
        state.steps.remove(&step_id);
        if state.is_closed && state.steps.is_empty() {
            self.all_ended.notify_all();
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().steps.is_empty()
    }

    /// Refuses new steps, cancels those under way and waits for them.
    pub(super) fn close(&self) {
        let steps: Vec<Arc<Cancellation>> = {
            let mut state = self.state.lock();
            state.is_closed = true;
            state.steps.values().cloned().collect()
        };
        steps.iter().for_each(|step| step.cancel(cancelled_by_close()));
        let mut state = self.state.lock();
        while !state.steps.is_empty() {
            self.all_ended.wait(&mut state);
        }
    }
}
