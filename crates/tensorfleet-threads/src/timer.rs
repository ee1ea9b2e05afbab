//! [`Timer`]: runs a callback at a point in time, unless it is withdrawn before. For those who block a thread meanwhile;
//! whoever awaits uses the timers of the runtime that polls it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tensorfleet_core::clock::{self, Clock};

use crate::start::start_thread;

type Callback = Box<dyn FnOnce() + Send>;

/// One thread that waits for the next of many points in time. It is started for the first, and ends with the timer.
#[derive(Default)]
pub struct Timer {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_running: bool,
    is_closed: bool,
    next_id: u64,
    /// By time, then by order of registration.
    alarms: BTreeMap<(Instant, u64), Callback>,
}

/// A pending callback; dropping it withdraws the callback.
#[must_use = "dropping an alarm withdraws it"]
pub struct Alarm {
    shared: Arc<Shared>,
    key: (Instant, u64),
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.shared.state.lock().alarms.remove(&self.key);
    }
}

impl Timer {
    /// Runs `callback` after `delay`, on the timer's thread: it must be short.
    pub fn after(&self, delay: Duration, callback: impl FnOnce() + Send + 'static) -> Alarm {
        let now = Clock::system().now();
        // A delay beyond the clock's range never comes; a century is as good.
        let at = now.checked_add(delay).unwrap_or(now + Duration::from_secs(100 * 365 * 86400));
        let mut state = self.shared.state.lock();
        let key = (at, state.next_id);
        state.next_id += 1;
        state.alarms.insert(key, Box::new(callback));
        if !state.is_running {
            let shared = self.shared.clone();
            state.is_running = start_thread("tensorfleet-timer".into(), move || shared.serve()).is_ok();
        }
        self.shared.changed.notify_one();
        Alarm { shared: self.shared.clone(), key }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.shared.state.lock().is_closed = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn serve(&self) {
        let mut state = self.state.lock();
        while !state.is_closed {
            let Some((&(at, _), _)) = state.alarms.first_key_value() else {
                self.changed.wait(&mut state);
                continue;
            };
            if !clock::time_left(at).is_zero() {
                self.changed.wait_until(&mut state, at);
                continue;
            }
            if let Some((_, callback)) = state.alarms.pop_first() {
                // The thread serves all alarms of its process: it outlives a callback that panics.
                let guarded = || drop(catch_unwind(AssertUnwindSafe(callback)));
                MutexGuard::unlocked(&mut state, guarded);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn alarms_go_off_in_order_and_withdrawn_ones_do_not() {
        let timer = Timer::default();
        let (sender, receiver) = mpsc::channel();
        let send = |text: &'static str| {
            let sender = sender.clone();
            move || sender.send(text).unwrap()
        };
        let _late = timer.after(Duration::from_millis(30), send("late"));
        let _early = timer.after(Duration::from_millis(5), send("early"));
        drop(timer.after(Duration::from_millis(1), send("withdrawn")));
        let _never = timer.after(Duration::MAX, send("never"));
        assert_eq!([receiver.recv().unwrap(), receiver.recv().unwrap()], ["early", "late"]);
        assert!(receiver.try_recv().is_err());
    }
    #[test]
    fn alarms_go_off_after_one_that_panics() {
        let timer = Timer::default();
        let (sender, receiver) = mpsc::channel();
        let _panics = timer.after(Duration::ZERO, || panic!("a callback's own business"));
        let _next = timer.after(Duration::from_millis(1), move || sender.send("next").unwrap());
        assert_eq!(receiver.recv(), Ok("next"));
    }
}
