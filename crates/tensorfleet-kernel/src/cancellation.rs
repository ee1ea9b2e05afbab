//! [`Cancellation`]: tells everyone who waits on behalf of a step that it is given up, and why.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tensorfleet_core::Status;

/// Identifies a registered callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CancellationToken(u64);

type Callback = Box<dyn FnOnce(Status) + Send>;

/// Cancelled at most once, with a reason; runs the callbacks registered until then.
#[derive(Default)]
pub struct Cancellation {
    is_cancelled: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reason: Option<Status>,
    next_token: u64,
    callbacks: FxHashMap<u64, Callback>,
}

impl Cancellation {
    /// Not cancelled yet.
    pub fn new() -> Cancellation {
        Cancellation::default()
    }

    /// Whether the step is given up; cheap enough to ask before every node.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Acquire)
    }

    /// Why the step was given up.
    pub fn reason(&self) -> Option<Status> {
        self.state.lock().reason.clone()
    }

    /// Gives the step up. Only the first reason counts. Callbacks run on this thread, outside the lock.
    pub fn cancel(&self, reason: Status) {
        let callbacks = {
            let mut state = self.state.lock();
            if state.reason.is_some() {
                return;
            }
            state.reason = Some(reason.clone());
            self.is_cancelled.store(true, Ordering::Release);
            std::mem::take(&mut state.callbacks)
        };
        for callback in callbacks.into_values() {
            callback(reason.clone());
        }
    }

    /// Asks to be told of a cancellation. If it has happened already, gives the reason instead, and the
    /// callback never runs.
    pub fn register(
        &self,
        callback: impl FnOnce(Status) + Send + 'static,
    ) -> Result<CancellationToken, Status> {
        let mut state = self.state.lock();
        if let Some(reason) = &state.reason {
            return Err(reason.clone());
        }
        let token = state.next_token;
        state.next_token += 1;
        state.callbacks.insert(token, Box::new(callback));
        Ok(CancellationToken(token))
    }

    /// Withdraws a callback. Returns whether it was still there: `false` means it has run or is running.
    pub fn deregister(&self, token: CancellationToken) -> bool {
        self.state.lock().callbacks.remove(&token.0).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn the_first_reason_counts_and_callbacks_run_once() {
        let cancellation = Cancellation::new();
        let calls = Arc::new(AtomicUsize::new(0));
        let count = |by: usize| {
            let calls = calls.clone();
            move |_| {
                calls.fetch_add(by, Ordering::Relaxed);
            }
        };
        cancellation.register(count(1)).unwrap();
        let withdrawn = cancellation.register(count(10)).unwrap();
        assert!(cancellation.deregister(withdrawn));
        cancellation.cancel(Status::cancelled("first"));
        cancellation.cancel(Status::aborted("second"));
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        assert_eq!(cancellation.reason().unwrap().text(), "first");
        assert_eq!(cancellation.register(count(100)).unwrap_err().text(), "first");
    }
}
