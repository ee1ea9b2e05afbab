//! What the concurrent parts of this crate are built from.
//!
//! Here these are the primitives of `parking_lot` and the standard library. The crate `tensorfleet-models` compiles the
//! very same files (`rendezvous.rs`, and `counts.rs`, `slots.rs` and `async_call.rs` in `executor`) against a `crate::sync`
//! of its own, made of a model checker's primitives, and runs them through every order of events. So those files take
//! their primitives from here and nowhere else.

pub(crate) use parking_lot::Mutex;

/// Atomic numbers.
pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
}

/// A cell whose users keep the order of accesses by themselves.
///
/// Unlike the standard library's it gives out its pointer for the time of a call, so that a model checker can see who
/// accesses it when.
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// Gives `look` the pointer, to read through.
    pub(crate) fn with<R>(&self, look: impl FnOnce(*const T) -> R) -> R {
        look(self.0.get())
    }

    /// Gives `change` the pointer, to read and write through.
    pub(crate) fn with_mut<R>(&self, change: impl FnOnce(*mut T) -> R) -> R {
        change(self.0.get())
    }
}
