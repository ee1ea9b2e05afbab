//! What the protocols of this crate are built from.
//!
//! Here these are the primitives of `parking_lot` and the standard library. The crate `tensorfleet-models` compiles
//! `loops/job.rs` against a `crate::sync` of its own, made of a model checker's primitives, and runs it through every order
//! of events. So that file takes its primitives from here and nowhere else.

pub(crate) use std::sync::Arc;

pub(crate) use parking_lot::{Condvar, Mutex};

/// Atomic numbers.
pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};
}

/// Lets a thread that looks for something again and again leave the core's resources to others for a moment.
pub(crate) fn spin() {
    (0..8).for_each(|_| std::hint::spin_loop());
}
