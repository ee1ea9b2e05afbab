//! The primitives that the protocols of this crate are made of. Files that use nothing else of this kind are also compiled
//! against a model checker's, which tries the orders in which threads can meet.

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) use parking_lot::{Condvar, Mutex};

/// Lets a thread that looks for something again and again leave the core's resources to others for a moment.
pub(crate) fn spin() {
    (0..8).for_each(|_| std::hint::spin_loop());
}
