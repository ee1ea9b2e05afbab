//! `crate::sync` of the modelled files: loom's primitives behind the interface of `parking_lot`.

use std::ops::{Deref, DerefMut};

pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::sync::Arc;

/// Atomic numbers whose loads see every value that the memory model allows.
pub(crate) mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
}

/// A lock. Poisoning cannot be seen: a panic ends the model.
#[derive(Default)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(self.0.lock().ok())
    }
}

/// Access to what a [`Mutex`] holds. Empty only inside of [`Condvar::wait`].
pub(crate) struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("a guard in use is not empty")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("a guard in use is not empty")
    }
}

/// A condition that threads wait for.
#[derive(Default)]
pub(crate) struct Condvar(loom::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Condvar {
        Condvar::default()
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        guard.0 = guard.0.take().and_then(|guard| self.0.wait(guard).ok());
    }

    /// Time does not pass in a model, so this waits until it is notified.
    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _limit: std::time::Duration) {
        self.wait(guard);
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// What a thread does that looks for something again and again: it lets the others go on.
pub(crate) fn spin() {
    loom::thread::yield_now();
}
