//! [`Completion`]: lets a thread wait for a result that another one brings.

use std::time::Duration;

use crate::sync::{Condvar, Mutex};

/// A place for one result.
pub struct Completion<T> {
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
    pub fn set(&self, result: T) {
        *self.result.lock() = Some(result);
        self.arrived.notify_one();
    }

    /// Waits for the result and takes it; one thread may.
    pub fn wait(&self) -> T {
        let mut result = self.result.lock();
        loop {
            match result.take() {
                Some(result) => return result,
                None => self.arrived.wait(&mut result),
            }
        }
    }

    /// Waits for the result like [`wait`](Completion::wait), and calls `ask` each time that `interval` has passed.
    pub fn wait_asking(&self, interval: Duration, ask: impl Fn()) -> T {
        let mut result = self.result.lock();
        loop {
            if let Some(result) = result.take() {
                return result;
            }
            self.arrived.wait_for(&mut result, interval);
            if result.is_none() {
                drop(result);
                ask();
                result = self.result.lock();
            }
        }
    }

    /// Waits for the result, or for a reason to give up, in which case the result is still to come. Whoever makes the
    /// reason calls [`wake`](Completion::wake) afterwards.
    pub fn wait_unless<E>(&self, reason: impl Fn() -> Option<E>) -> Result<T, E> {
        let mut result = self.result.lock();
        loop {
            if let Some(result) = result.take() {
                return Ok(result);
            }
            if let Some(reason) = reason() {
                return Err(reason);
            }
            self.arrived.wait(&mut result);
        }
    }

    /// Lets whoever waits look for a reason to give up.
    pub fn wake(&self) {
        // Whoever waits either has seen the reason or does not hold the lock any more, and is woken.
        drop(self.result.lock());
        self.arrived.notify_one();
    }
}
