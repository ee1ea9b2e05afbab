//! Deadlines: runs a callback at a point in time, unless it is withdrawn before. The one place that reads the
//! clock to wait for it.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

type Callback = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Timer {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_running: bool,
    next_id: u64,
    /// By time, then by order of registration.
    alarms: BTreeMap<(Instant, u64), Callback>,
}

static TIMER: LazyLock<Timer> = LazyLock::new(Timer::default);

/// A pending callback; dropping it withdraws the callback.
pub(crate) struct Alarm {
    key: (Instant, u64),
}

impl Drop for Alarm {
    fn drop(&mut self) {
        TIMER.state.lock().alarms.remove(&self.key);
    }
}

/// Runs `callback` after `delay`, on the timer's thread: it must be short.
pub(crate) fn after(delay: Duration, callback: impl FnOnce() + Send + 'static) -> Alarm {
    let now = Instant::now();
    // A delay beyond the clock's range never comes; a century is as good.
    let at = now.checked_add(delay).unwrap_or(now + Duration::from_secs(100 * 365 * 86400));
    let mut state = TIMER.state.lock();
    let key = (at, state.next_id);
    state.next_id += 1;
    state.alarms.insert(key, Box::new(callback));
    if !state.is_running {
        state.is_running = std::thread::Builder::new().name("tensorfleet-timer".into()).spawn(run).is_ok();
    }
    TIMER.changed.notify_one();
    Alarm { key }
}

fn run() {
    let mut state = TIMER.state.lock();
    loop {
        let Some((&(at, _), _)) = state.alarms.first_key_value() else {
            TIMER.changed.wait(&mut state);
            continue;
        };
        if at > Instant::now() {
            TIMER.changed.wait_until(&mut state, at);
            continue;
        }
        if let Some((_, callback)) = state.alarms.pop_first() {
            parking_lot::MutexGuard::unlocked(&mut state, callback);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn alarms_go_off_in_order_and_withdrawn_ones_do_not() {
        let (sender, receiver) = mpsc::channel();
        let send = |text: &'static str| {
            let sender = sender.clone();
            move || sender.send(text).unwrap()
        };
        let _late = after(Duration::from_millis(30), send("late"));
        let _early = after(Duration::from_millis(5), send("early"));
        drop(after(Duration::from_millis(1), send("withdrawn")));
        let _never = after(Duration::MAX, send("never"));
        assert_eq!([receiver.recv().unwrap(), receiver.recv().unwrap()], ["early", "late"]);
        assert!(receiver.try_recv().is_err());
    }
}
