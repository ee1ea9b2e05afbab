//! Coordinators and the threads of queue runners. Threads of Python are the package's to join; those of the library are joined here.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tensorfleet::train::{Coordinator, QueueRunner, RunnerThread};
use tensorfleet_core::{Code, Status};

use crate::errors;
use crate::graph::PyGraph;
use crate::session::PySession;

/// How long a wait goes on before signals are looked at.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyCoordinator>()?;
    module.add_class::<PyThread>()?;
    module.add_class::<PyQueueRunner>()
}

/// A coordinator of threads of the library and of Python.
#[pyclass(frozen, name = "Coordinator", module = "tensorfleet._native")]
pub(crate) struct PyCoordinator(pub(crate) Coordinator);

fn codes(numbers: Vec<i32>) -> Vec<Code> {
    numbers.into_iter().map(Code::from_i32).collect()
}

#[pymethods]
impl PyCoordinator {
    /// Errors with these codes end threads cleanly.
    #[new]
    fn new(clean_stop_codes: Vec<i32>) -> PyCoordinator {
        PyCoordinator(Coordinator::with_clean_stop_codes(&codes(clean_stop_codes)))
    }

    fn should_stop(&self, py: Python<'_>) -> bool {
        py.detach(|| self.0.should_stop())
    }

    /// Asks all threads to end, because of an error if a code and a text are given. Whether nobody had before.
    #[pyo3(signature = (error=None))]
    fn request_stop(&self, py: Python<'_>, error: Option<(i32, String)>) -> bool {
        py.detach(|| match error {
            Some((code, text)) => {
                let code = Code::from_i32(code);
                self.0.request_stop_with(Status::new(code, text))
            }
            None => self.0.request_stop(),
        })
    }

    fn clear_stop(&self, py: Python<'_>) {
        py.detach(|| self.0.clear_stop());
    }

    /// Waits until a stop is requested, at most so many seconds. Whether one was.
    #[pyo3(signature = (seconds=None))]
    fn wait_for_stop(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<bool> {
        let mut left =
            seconds.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX));
        loop {
            let part = left.map_or(SIGNALS_EVERY, |left| left.min(SIGNALS_EVERY));
            if py.detach(|| self.0.wait_for_stop_within(part)) {
                return Ok(true);
            }
            py.check_signals()?;
            if let Some(left) = &mut left {
                *left = left.saturating_sub(part);
                if left.is_zero() {
                    return Ok(false);
                }
            }
        }
    }

    /// Raises the error that the first request to stop had, if it had one.
    fn raise_requested_error(&self, py: Python<'_>) -> PyResult<()> {
        let requested = py.detach(|| self.0.raise_requested_error());
        requested.map_err(|status| errors::raised(py, status))
    }

    /// Whether threads of the library still run that were started for this coordinator.
    fn has_live_threads(&self, py: Python<'_>) -> bool {
        py.detach(|| self.0.has_live_threads())
    }
}

type Work = Box<dyn FnOnce() -> tensorfleet::Result<()> + Send>;

/// A thread of the library that Python starts.
#[pyclass(frozen, name = "Thread", module = "tensorfleet._native")]
struct PyThread {
    name: String,
    work: Mutex<Option<Work>>,
    state: Arc<(Mutex<State>, Condvar)>,
    /// Told of the thread's error.
    coordinator: Coordinator,
}

#[derive(Clone, Default)]
struct State {
    is_running: bool,
    error: Option<Status>,
}

#[pymethods]
impl PyThread {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Starts it; a second time is a mistake, as with threads of Python.
    fn start(&self) -> PyResult<()> {
        let Some(work) = self.work.lock().take() else {
            return Err(PyRuntimeError::new_err("threads can only be started once"));
        };
        self.state.0.lock().is_running = true;
        let (state, coordinator) = (self.state.clone(), self.coordinator.clone());
        let body = move || {
            let ended = work();
            if let Err(error) = &ended {
                coordinator.request_stop_with(error.clone());
            }
            *state.0.lock() = State { is_running: false, error: ended.err() };
            state.1.notify_all();
        };
        #[expect(clippy::disallowed_methods, reason = "the coordinator ends it, and `join` waits for it")]
        let started = std::thread::Builder::new().name(self.name.clone()).spawn(body);
        started.map(drop).map_err(|error| {
            self.state.0.lock().is_running = false;
            PyRuntimeError::new_err(format!("can't start new thread: {error}"))
        })
    }

    fn is_alive(&self) -> bool {
        self.state.0.lock().is_running
    }

    /// Waits until it ends, at most so many seconds.
    #[pyo3(signature = (timeout=None))]
    fn join(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let mut left =
            timeout.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX));
        while self.is_alive() {
            let part = left.map_or(SIGNALS_EVERY, |left| left.min(SIGNALS_EVERY));
            if part.is_zero() {
                break;
            }
            py.detach(|| {
                let mut state = self.state.0.lock();
                if state.is_running {
                    self.state.1.wait_for(&mut state, part);
                }
            });
            py.check_signals()?;
            left = left.map(|left| left.saturating_sub(part));
        }
        Ok(())
    }

    /// The error it ended with.
    fn error(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let error = self.state.0.lock().error.clone()?;
        Some(errors::raised(py, error).into_value(py).into_any())
    }
}

/// What fills a queue.
#[pyclass(frozen, name = "QueueRunner", module = "tensorfleet._native")]
struct PyQueueRunner(QueueRunner);

#[pymethods]
impl PyQueueRunner {
    /// A runner of nodes, by their numbers; errors with `closed_codes` say that the queue is closed.
    #[new]
    fn new(
        py: Python<'_>,
        graph: &PyGraph,
        name: &str,
        enqueue: Vec<usize>,
        close: usize,
        cancel: usize,
        closed_codes: Vec<i32>,
    ) -> PyResult<PyQueueRunner> {
        let at = |node: usize| graph.operation(node);
        let enqueue: Vec<_> = enqueue.into_iter().map(at).collect();
        let runner = graph.locked(py, |_| {
            QueueRunner::from_operations(name, &enqueue, &at(close), &at(cancel), &codes(closed_codes))
        })?;
        Ok(PyQueueRunner(runner))
    }

    /// The threads, not started yet; none if they run in this session already.
    fn threads(
        &self,
        py: Python<'_>,
        session: &PySession,
        coordinator: &PyCoordinator,
    ) -> PyResult<Vec<PyThread>> {
        let session = session.get()?;
        let threads = py.detach(|| self.0.threads(&session, &coordinator.0));
        let thread = |RunnerThread { name, work }| PyThread {
            name,
            work: Mutex::new(Some(work)),
            state: Arc::default(),
            coordinator: coordinator.0.clone(),
        };
        Ok(threads.into_iter().map(thread).collect())
    }
}
