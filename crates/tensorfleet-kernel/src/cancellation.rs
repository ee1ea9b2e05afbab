//! [`Cancellation`]: tells everyone who waits on behalf of a step that it is given up, and why.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tensorfleet_core::{Result, Status};
use tensorfleet_threads::GivenUp;

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

    /// Fails once the step is given up. For kernels with long loops of their own: between rows, strings or some thousand
    /// elements it costs nothing.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(self.status()) } else { Ok(()) }
    }

    /// The items, until the step is given up: then an error, which ends whatever is collected from them.
    pub fn unless_cancelled<T>(&self, items: impl IntoIterator<Item = T>) -> impl Iterator<Item = Result<T>> {
        items.into_iter().map(|item| self.check().map(|()| item))
    }

    /// The error of a step that is given up.
    #[cold]
    pub fn status(&self) -> Status {
        self.reason().unwrap_or_else(|| Status::cancelled("the step was cancelled"))
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
        // All are told, even if one of them panics: each may be the only way to end somebody's wait.
        let mut panic = None;
        for callback in callbacks.into_values() {
            let told = catch_unwind(AssertUnwindSafe(|| callback(reason.clone())));
            panic = panic.or(told.err());
        }
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Asks to be told of a cancellation. If it has happened already, gives the reason instead, and the
    /// callback never runs.
    pub fn register(&self, callback: impl FnOnce(Status) + Send + 'static) -> Result<CancellationToken> {
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

impl GivenUp for Cancellation {
    fn is_given_up(&self) -> bool {
        self.is_cancelled()
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

    #[test]
    fn all_are_told_even_if_one_of_them_panics() {
        let cancellation = Cancellation::new();
        let calls = Arc::new(AtomicUsize::new(0));
        for index in 0..10 {
            let calls = calls.clone();
            let callback = move |_| {
                calls.fetch_add(1, Ordering::Relaxed);
                assert!(index % 3 > 0, "a callback's own business");
            };
            cancellation.register(callback).unwrap();
        }
        let cancel = || cancellation.cancel(Status::cancelled("given up"));
        assert!(catch_unwind(AssertUnwindSafe(cancel)).is_err(), "it is not hidden");
        assert_eq!(calls.load(Ordering::Relaxed), 10);
    }

    #[test]
    fn a_loop_ends_with_the_reason_as_soon_as_its_step_is_given_up() {
        let cancellation = Cancellation::new();
        let mut seen = 0;
        let result: Result<()> = cancellation.unless_cancelled(0..100).try_for_each(|item| {
            seen = item?;
            if seen == 7 {
                cancellation.cancel(Status::cancelled("the client is gone"));
            }
            Ok(())
        });
        assert_eq!((seen, result.unwrap_err().text()), (7, "the client is gone"));
    }
}
