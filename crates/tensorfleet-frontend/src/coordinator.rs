//! [`Coordinator`]: ends a group of threads together, and reports the first error of any of them.

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tensorfleet_core::clock::{self, Clock};
use tensorfleet_core::{Code, Result, Status};

use crate::listing::listed;

/// How long [`Coordinator::join`] gives threads to end after a stop was requested, as in TensorFlow.
pub(crate) const STOP_GRACE_PERIOD: Duration = Duration::from_secs(120);

/// How long threads may take to end by themselves before their session is closed under them. Threads that wait for a
/// queue are woken at once; one that applies gradients of synchronous replicas may wait for a gradient that never comes.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// How often threads that were not started here, and so cannot announce their end, are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Ends a group of threads together. A handle: clones coordinate the same threads.
///
/// Any thread may request a stop, with an error if something went wrong; all look at [`Coordinator::should_stop`] and end
/// when it says so. [`Coordinator::join`] waits for them and gives the error of the first request. Errors with a clean
/// code (`OutOfRange`, unless told otherwise: an input is used up) stop the threads and are not reported.
///
/// ```
/// use tensorfleet::train::Coordinator;
/// use tensorfleet::Status;
///
/// let coordinator = Coordinator::new();
/// let waiting = coordinator.clone();
/// coordinator.spawn("waits", move || {
///     waiting.wait_for_stop();
///     Ok(())
/// })?;
/// coordinator.spawn("fails", || Err(Status::internal("a thread failed")))?;
/// assert_eq!(coordinator.join().unwrap_err().text(), "a thread failed");
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone)]
pub struct Coordinator(Arc<Shared>);

struct Shared {
    clean_stop_codes: Vec<Code>,
    state: Mutex<State>,
    /// A stop was requested or withdrawn, or a thread ended.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_stopped: bool,
    /// Of the first request to stop.
    error: Option<Status>,
    threads: Vec<JoinHandle<()>>,
}

impl Default for Coordinator {
    fn default() -> Coordinator {
        Coordinator::new()
    }
}

impl Coordinator {
    /// A coordinator of no threads yet, for which `OutOfRange` is a clean end.
    pub fn new() -> Coordinator {
        Coordinator::with_clean_stop_codes(&[Code::OutOfRange])
    }

    /// A coordinator for which errors with these codes are clean ends.
    pub fn with_clean_stop_codes(codes: &[Code]) -> Coordinator {
        let shared = Shared {
            clean_stop_codes: codes.to_vec(),
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
        };
        Coordinator(Arc::new(shared))
    }

    /// Whether the threads should end.
    pub fn should_stop(&self) -> bool {
        self.0.state.lock().is_stopped
    }

    /// Asks all threads to end. Whether nobody had before.
    pub fn request_stop(&self) -> bool {
        self.stop(None)
    }

    /// Asks all threads to end because of `error`. Only the first request's error is reported: those that follow come
    /// from threads that were being stopped. Whether this request is the first.
    pub fn request_stop_with(&self, error: Status) -> bool {
        self.stop(Some(error))
    }

    fn stop(&self, error: Option<Status>) -> bool {
        let mut state = self.0.state.lock();
        let is_first = !state.is_stopped;
        if is_first {
            state.is_stopped = true;
            state.error = error.filter(|error| !self.0.clean_stop_codes.contains(&error.code()));
        }
        self.0.changed.notify_all();
        is_first
    }

    /// Forgets that a stop was requested, and its error.
    pub fn clear_stop(&self) {
        let mut state = self.0.state.lock();
        state.is_stopped = false;
        state.error = None;
    }

    /// Waits until a stop is requested.
    pub fn wait_for_stop(&self) {
        self.wait_for_stop_or(|| false);
    }

    /// Waits until a stop is requested, at most this long. Whether one was.
    pub fn wait_for_stop_within(&self, limit: Duration) -> bool {
        let mut state = self.0.state.lock();
        let Some(deadline) = clock::deadline_in(limit) else {
            drop(state);
            self.wait_for_stop();
            return true;
        };
        while !state.is_stopped {
            if self.0.changed.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        state.is_stopped
    }

    /// Waits until a stop is requested or `is_over`, which is asked again whenever a thread ends.
    pub(crate) fn wait_for_stop_or(&self, is_over: impl Fn() -> bool) {
        let mut state = self.0.state.lock();
        while !state.is_stopped && !is_over() {
            self.0.changed.wait(&mut state);
        }
    }

    /// Starts a thread that [`Coordinator::join`] waits for. Its error requests a stop; so does a panic.
    pub fn spawn(&self, name: &str, work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
        let announced = Announce { coordinator: self.clone(), name: name.to_string() };
        #[expect(
            clippy::disallowed_methods,
            reason = "the coordinator owns its threads: `join` waits for them"
        )]
        let thread = std::thread::Builder::new().name(name.to_string()).spawn(move || {
            let announced = announced;
            if let Err(error) = work() {
                announced.coordinator.request_stop_with(error);
            }
        });
        let thread = thread.map_err(|error| {
            Status::resource_exhausted(format!("the thread '{name}' could not be started: {error}"))
        })?;
        self.register_thread(thread);
        Ok(())
    }

    /// Starts a thread that does `work` every `interval`, at once the first time, until the coordinator stops. An error
    /// stops the coordinator. Ticks do not drift; those that `work` was too slow for are left out. With an interval of
    /// zero it works all the time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tensorfleet::train::Coordinator;
    ///
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// let coordinator = Coordinator::new();
    /// let mut ticks = 0;
    /// coordinator.loop_every("ticker", Duration::from_millis(1), move || {
    ///     ticks += 1;
    ///     let _ = sender.send(ticks);
    ///     Ok(())
    /// })?;
    /// assert_eq!(receiver.iter().take(3).collect::<Vec<_>>(), [1, 2, 3]);
    /// coordinator.request_stop();
    /// coordinator.join()?;
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn loop_every(
        &self,
        name: &str,
        interval: Duration,
        mut work: impl FnMut() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let coordinator = self.clone();
        self.spawn(name, move || {
            let clock = Clock::system();
            let mut next = clock.now();
            while !coordinator.wait_for_stop_within(clock::time_left(next)) {
                work()?;
                let Some(then) = next.checked_add(interval) else {
                    coordinator.wait_for_stop();
                    break;
                };
                next = then.max(clock.now());
            }
            Ok(())
        })
    }

    /// Makes [`Coordinator::join`] wait for a thread that was started elsewhere.
    pub fn register_thread(&self, thread: JoinHandle<()>) {
        self.0.state.lock().threads.push(thread);
    }

    /// Waits until all threads have ended; after a request to stop they have 120 seconds. The error of the request, if
    /// it had one.
    pub fn join(&self) -> Result<()> {
        self.join_within(STOP_GRACE_PERIOD)
    }

    /// Like [`Coordinator::join`], with another time to end after a request to stop.
    pub fn join_within(&self, stop_grace_period: Duration) -> Result<()> {
        let stragglers = self.join_threads(stop_grace_period);
        self.raise_requested_error()?;
        if stragglers.is_empty() {
            return Ok(());
        }
        Err(Status::deadline_exceeded(format!(
            "Coordinator stopped with threads still running after {} s: {}",
            stop_grace_period.as_secs_f64(),
            listed(&stragglers)
        )))
    }

    /// Whether some of the threads that [`Coordinator::join`] would wait for still run.
    pub fn has_live_threads(&self) -> bool {
        self.0.state.lock().threads.iter().any(|thread| !thread.is_finished())
    }

    /// Waits until all threads have ended, a stop was requested and this time has passed since, or the program interrupts
    /// the wait. Whether they have.
    pub(crate) fn wait_for_threads(&self, stop_grace_period: Duration) -> bool {
        let mut deadline = None;
        let mut state = self.0.state.lock();
        let is_alive = |thread: &JoinHandle<()>| !thread.is_finished();
        while state.threads.iter().any(is_alive) {
            if state.is_stopped {
                // A period too long to be a point in time is one that does not end.
                let deadline = *deadline.get_or_insert_with(|| clock::deadline_in(stop_grace_period));
                if deadline.is_some_and(|deadline| clock::time_left(deadline).is_zero()) {
                    return false;
                }
            }
            self.0.changed.wait_for(&mut state, POLL_INTERVAL);
            if tensorfleet_core::interrupt::interval().is_some() {
                // Whoever answers may need what a thread that waits for this lock holds, such as an interpreter.
                let is_interrupted = parking_lot::MutexGuard::unlocked(&mut state, || {
                    tensorfleet_core::interrupt::check().is_err()
                });
                if is_interrupted {
                    return false;
                }
            }
        }
        true
    }

    /// Waits for the threads, and gives the names of those that still run in the end. They are no longer waited for.
    pub(crate) fn join_threads(&self, stop_grace_period: Duration) -> Vec<String> {
        self.wait_for_threads(stop_grace_period);
        let threads = std::mem::take(&mut self.0.state.lock().threads);
        let mut stragglers = Vec::new();
        for thread in threads {
            match thread.is_finished() {
                // Panics of threads that were started here have requested a stop.
                true => drop(thread.join()),
                false => stragglers.push(thread.thread().name().unwrap_or("unnamed").to_string()),
            }
        }
        stragglers
    }

    /// The error that the first request to stop had, if it had one.
    pub fn raise_requested_error(&self) -> Result<()> {
        match &self.0.state.lock().error {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}

/// Tells the coordinator that a thread has ended, however it did.
struct Announce {
    coordinator: Coordinator,
    name: String,
}

impl Drop for Announce {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let error = Status::internal(format!("the thread '{}' panicked", self.name));
            self.coordinator.request_stop_with(error);
        }
        let _state = self.coordinator.0.state.lock();
        self.coordinator.0.changed.notify_all();
    }
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state.lock();
        f.debug_struct("Coordinator")
            .field("is_stopped", &state.is_stopped)
            .field("error", &state.error)
            .field("threads", &state.threads.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits_for_stop(coordinator: &Coordinator) {
        let waits = coordinator.clone();
        let work = move || {
            waits.wait_for_stop();
            Ok(())
        };
        coordinator.spawn("waits", work).unwrap();
    }

    #[test]
    fn the_error_of_the_first_request_is_reported() {
        let coordinator = Coordinator::new();
        waits_for_stop(&coordinator);
        assert!(!coordinator.should_stop());
        coordinator.request_stop_with(Status::internal("first"));
        coordinator.request_stop_with(Status::internal("second"));
        assert!(coordinator.should_stop());
        assert_eq!(coordinator.raise_requested_error().unwrap_err().text(), "first");
        assert_eq!(coordinator.join().unwrap_err().text(), "first");
    }

    #[test]
    fn errors_after_a_stop_without_one_are_not_reported() {
        let coordinator = Coordinator::new();
        coordinator.request_stop();
        coordinator.request_stop_with(Status::internal("of a thread that was stopped"));
        assert_eq!(coordinator.join(), Ok(()));
    }

    #[test]
    fn the_end_of_an_input_is_a_clean_end_unless_told_otherwise() {
        let coordinator = Coordinator::new();
        coordinator.request_stop_with(Status::out_of_range("no more input"));
        assert!(coordinator.should_stop());
        assert_eq!(coordinator.join(), Ok(()));
        let strict = Coordinator::with_clean_stop_codes(&[]);
        strict.request_stop_with(Status::out_of_range("no more input"));
        assert_eq!(strict.join().unwrap_err().code(), Code::OutOfRange);
    }

    #[test]
    fn a_stop_can_be_withdrawn() {
        let coordinator = Coordinator::new();
        coordinator.request_stop_with(Status::internal("over"));
        coordinator.clear_stop();
        assert!(!coordinator.should_stop());
        assert!(!coordinator.wait_for_stop_within(Duration::from_millis(1)));
        assert_eq!(coordinator.raise_requested_error(), Ok(()));
    }

    #[test]
    fn threads_that_do_not_end_are_named() {
        let coordinator = Coordinator::new();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        coordinator
            .spawn("stubborn", move || {
                let _ = ended.recv();
                Ok(())
            })
            .unwrap();
        coordinator.request_stop();
        let error = coordinator.join_within(Duration::from_millis(5)).unwrap_err();
        assert_eq!(error.code(), Code::DeadlineExceeded);
        assert!(error.text().contains("stubborn"), "{error}");
        drop(end);
    }

    #[test]
    fn join_ends_when_all_threads_have_ended_by_themselves() {
        let coordinator = Coordinator::new();
        coordinator.spawn("short", || Ok(())).unwrap();
        assert_eq!(coordinator.join(), Ok(()));
        assert!(!coordinator.should_stop());
    }

    #[test]
    fn a_panic_stops_the_others_and_names_the_thread() {
        let coordinator = Coordinator::new();
        waits_for_stop(&coordinator);
        coordinator.spawn("broken", || panic!("on purpose")).unwrap();
        let error = coordinator.join().unwrap_err();
        assert!(error.text().contains("'broken' panicked"), "{error}");
    }
}
