//! [`Background`]: what a session's kernels do between its steps, and how to make it pause.
//!
//! A dataset that reads ahead goes on when the step that started it is over: it works for the session. When nobody is
//! there to want the session's steps, it has to stop, or it takes memory and processors for nobody; and it must be able to
//! go on, because the session's user may come back and expects what it left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};

use crate::cancellation::Cancellation;

/// Whether a session's background work may go on. Those who do such work ask now and then.
#[derive(Default)]
pub struct Background {
    is_paused: AtomicBool,
    /// Held while `is_paused` changes, so that nobody falls asleep after the change that should have kept it awake.
    changing: Mutex<()>,
    changed: Condvar,
}

impl Background {
    /// Work that may go on.
    pub fn new() -> Background {
        Background::default()
    }

    /// Makes the work stop where it is, soon.
    pub fn pause(&self) {
        let _changing = self.changing.lock();
        self.is_paused.store(true, Ordering::Release);
    }

    /// Lets it go on. Costs next to nothing if it does.
    pub fn resume(&self) {
        if !self.is_paused() {
            return;
        }
        let _changing = self.changing.lock();
        self.is_paused.store(false, Ordering::Release);
        self.changed.notify_all();
    }

    /// Whether it is to stop.
    pub fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Acquire)
    }

    /// Waits as long as the work is to stop, or until it is cancelled. Only for threads that may wait.
    pub fn wait_while_paused(self: &Arc<Self>, cancellation: &Cancellation) {
        if !self.is_paused() {
            return;
        }
        let wakes = self.clone();
        let wake = move |_| {
            // Whoever waits either sees the cancellation or has not looked yet.
            drop(wakes.changing.lock());
            wakes.changed.notify_all();
        };
        let Ok(token) = cancellation.register(wake) else { return };
        let mut changing = self.changing.lock();
        while self.is_paused() && !cancellation.is_cancelled() {
            self.changed.wait(&mut changing);
        }
        drop(changing);
        cancellation.deregister(token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use tensorfleet_core::Status;

    /// What ends a pause: whoever waits is waited for, so that a wait that goes on for ever fails the test by its time limit.
    fn ends_by(end: impl FnOnce(&Background, &Cancellation)) {
        let (background, cancellation) = (Arc::new(Background::new()), Arc::new(Cancellation::new()));
        background.pause();
        let (begun, has_begun) = channel();
        std::thread::scope(|scope| {
            let (background, cancellation) = (&background, &cancellation);
            scope.spawn(move || {
                begun.send(()).unwrap();
                background.wait_while_paused(cancellation);
            });
            has_begun.recv().unwrap();
            end(background, cancellation);
        });
    }

    #[test]
    fn a_pause_ends_when_the_work_is_resumed_or_cancelled() {
        ends_by(|background, _| background.resume());
        ends_by(|_, cancellation| cancellation.cancel(Status::cancelled("the iterator is gone")));
    }

    #[test]
    fn nobody_waits_without_a_pause_or_after_a_cancellation() {
        let (background, cancellation) = (Arc::new(Background::new()), Cancellation::new());
        background.wait_while_paused(&cancellation);
        background.resume();
        background.pause();
        cancellation.cancel(Status::cancelled("the iterator is gone"));
        background.wait_while_paused(&cancellation);
    }
}
