//! [`Completion`]: lets a thread wait for a result that another one brings.

use crate::sync::{Condvar, Mutex};

/// A place for one result.
pub(crate) struct Completion<T> {
    /// `None` before the result has come, and after it was taken.
    result: Mutex<Option<T>>,
    arrived: Condvar,
}

impl<T> Default for Completion<T> {
    fn default() -> Completion<T> {
        Completion { result: Mutex::new(None), arrived: Condvar::new() }
    }
}

impl<T> Completion<T> {
    /// Brings the result.
    pub(crate) fn set(&self, result: T) {
        *self.result.lock() = Some(result);
        self.arrived.notify_one();
    }

    /// Waits for the result and takes it; one thread may.
    pub(crate) fn wait(&self) -> T {
        let mut result = self.result.lock();
        loop {
            match result.take() {
                Some(result) => return result,
                None => self.arrived.wait(&mut result),
            }
        }
    }
}
