//! [`AsyncCall`]: whether a kernel that may wait had its result before its `start` returned, or after.
//!
//! Either the result comes first: it stays here, and the thread that called `start` goes on with it. Or `start` returns first:
//! the node waits, and whoever brings the result goes on with it. Which of the two it is is decided once, under the lock.

use crate::sync::Mutex;

/// A call of a kernel that may wait.
pub(super) struct AsyncCall<R>(Mutex<State<R>>);

enum State<R> {
    /// The kernel's `start` has not returned.
    Starting,
    /// It has, without a result.
    Waiting,
    /// The result came before `start` returned.
    Finished(R),
}

impl<R> AsyncCall<R> {
    /// The kernel is about to be started.
    pub(super) fn new() -> AsyncCall<R> {
        AsyncCall(Mutex::new(State::Starting))
    }

    /// The result is there. Gives it back if `start` has returned: then whoever calls this goes on with it.
    pub(super) fn complete(&self, result: R) -> Option<R> {
        let mut state = self.0.lock();
        if let State::Waiting = *state {
            return Some(result);
        }
        *state = State::Finished(result);
        None
    }

    /// `start` has returned. Gives the result if it is there. If not, the node waits from now on, and `wait` notes that
    /// before anybody can go on with it.
    pub(super) fn returned(&self, wait: impl FnOnce()) -> Option<R> {
        let mut state = self.0.lock();
        match std::mem::replace(&mut *state, State::Waiting) {
            State::Finished(result) => Some(result),
            State::Starting | State::Waiting => {
                wait();
                None
            }
        }
    }
}
