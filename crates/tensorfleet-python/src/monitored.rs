//! Monitored sessions with hooks of Python and of the library.
//!
//! Hooks of Python that stand beside each other are one hook of the library, so that a run enters the interpreter twice for all of
//! them. What they raise is kept and raised again by the call that led to it.

use std::cell::RefCell;
use std::sync::Arc;

use parking_lot::{Mutex, ReentrantMutex};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use tensorfleet::train::{
    CheckpointSaverHook, CheckpointSaverListener, Coordinator, Every, GlobalStepWaiterHook, MonitoredSession,
    RunArgs, RunContext, RunValues, SessionCreator, SessionHook, StepContext, StepCounterHook,
    StopAtStepHook, SummarySaverHook,
};
use tensorfleet::{Graph, Output, Result, RunMetadata, Session, Tensor};
use tensorfleet_core::{NodeId, Status};
use tensorfleet_proto::Message;

use crate::arrays;
use crate::coordinator::PyCoordinator;
use crate::errors::OrRaise;
use crate::graph::{PyGraph, endpoint};
use crate::raised::{self, OrReraise};
use crate::saver::PySaver;
use crate::session::PySession;
use crate::supervision::{Feeds, feeds_of, seconds};

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyMonitoredSession>()?;
    module.add_class::<PyStepContext>()?;
    module.add_class::<PyLibraryHook>()
}

/// What a run is asked for: feeds, fetches, nodes, a time-out in milliseconds (0 is none), and whether it is traced.
type Wanted<'py> = (Feeds<'py>, Vec<u64>, Vec<usize>, u64, bool);

fn run_args(graph: &Graph, wanted: &Wanted<'_>) -> PyResult<RunArgs> {
    let (feeds, fetches, targets, timeout_ms, is_traced) = wanted;
    let mut args = RunArgs::new();
    for output in fetches {
        args = args.fetch(&graph.output_at(endpoint(*output)));
    }
    for node in targets {
        args = args.target(&graph.operation_at(NodeId::from_index(*node)));
    }
    for (output, dtype, value) in feeds {
        let dtype = tensorfleet_core::DType::from_number(*dtype).or_mistake()?;
        args = args.feed(&graph.output_at(endpoint(*output)), arrays::to_tensor(value, dtype)?);
    }
    if *timeout_ms > 0 {
        args = args.timeout(std::time::Duration::from_millis(*timeout_ms));
    }
    Ok(if *is_traced { args.traced() } else { args })
}

fn as_arrays<'py>(py: Python<'py>, tensors: &[Tensor]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for tensor in tensors {
        list.append(arrays::to_array(py, tensor.clone())?)?;
    }
    Ok(list)
}

fn as_bytes<'py>(py: Python<'py>, metadata: Option<&RunMetadata>) -> Option<Bound<'py, PyBytes>> {
    metadata.map(|metadata| PyBytes::new(py, &metadata.encode_to_vec()))
}

/// Hooks of Python that stand beside each other; the package calls them one after the other.
struct PythonHooks {
    hooks: Py<PyAny>,
    graph: Graph,
}

impl SessionHook for PythonHooks {
    fn begin(&mut self, _: &Graph) -> Result<()> {
        raised::call(|py| self.hooks.bind(py).call_method0("begin").map(drop))
    }

    fn after_create_session(&mut self, session: &Arc<Session>, coordinator: &Coordinator) -> Result<()> {
        raised::call(|py| {
            let arguments = (PySession::of(session.clone()), PyCoordinator(coordinator.clone()));
            self.hooks.bind(py).call_method1("after_create_session", arguments).map(drop)
        })
    }

    fn before_run(&mut self, context: &RunContext) -> Result<RunArgs> {
        let is_stopped = context.stop_requested();
        raised::call(|py| {
            let asked = self.hooks.bind(py).call_method1("before_run", (is_stopped,))?;
            if asked.is_none() {
                return Ok(RunArgs::new());
            }
            let (wanted, stops): (Wanted<'_>, bool) = asked.extract()?;
            if stops {
                context.request_stop();
            }
            run_args(&self.graph, &wanted)
        })
    }

    fn after_run(&mut self, context: &RunContext, values: &RunValues) -> Result<()> {
        raised::call(|py| {
            let arguments =
                (context.stop_requested(), as_arrays(py, values.tensors())?, as_bytes(py, values.metadata()));
            if self.hooks.bind(py).call_method1("after_run", arguments)?.extract()? {
                context.request_stop();
            }
            Ok(())
        })
    }

    fn end(&mut self, session: &Arc<Session>) -> Result<()> {
        raised::call(|py| {
            self.hooks.bind(py).call_method1("end", (PySession::of(session.clone()),)).map(drop)
        })
    }
}

/// A listener of Python.
struct PythonListener(Py<PyAny>);

impl PythonListener {
    fn call<R>(
        &self,
        method: &str,
        session: Option<&Arc<Session>>,
        step: i64,
        take: impl FnOnce(Bound<'_, PyAny>) -> PyResult<R>,
    ) -> Result<R> {
        raised::call(|py| {
            let session = session.map(|session| PySession::of(session.clone()));
            take(self.0.bind(py).call_method1(method, (session, step))?)
        })
    }
}

impl CheckpointSaverListener for PythonListener {
    fn begin(&mut self) -> Result<()> {
        self.call("begin", None, 0, |_| Ok(()))
    }

    fn before_save(&mut self, session: &Arc<Session>, global_step: i64) -> Result<()> {
        self.call("before_save", Some(session), global_step, |_| Ok(()))
    }

    fn after_save(&mut self, session: &Arc<Session>, global_step: i64) -> Result<bool> {
        self.call("after_save", Some(session), global_step, |stops| stops.is_truthy())
    }

    fn end(&mut self, session: &Arc<Session>, global_step: i64) -> Result<()> {
        self.call("end", Some(session), global_step, |_| Ok(()))
    }
}

/// A hook of the library, for one monitored session.
#[pyclass(frozen, name = "LibraryHook", module = "tensorfleet._native")]
struct PyLibraryHook(Mutex<Option<Box<dyn SessionHook>>>);

impl PyLibraryHook {
    fn of(hook: impl SessionHook + 'static) -> PyLibraryHook {
        PyLibraryHook(Mutex::new(Some(Box::new(hook))))
    }
}

fn every(steps: Option<i64>, secs: Option<f64>) -> PyResult<Every> {
    match (steps, secs) {
        (Some(steps), _) => Ok(Every::Steps(steps)),
        (None, Some(secs)) => Ok(Every::Secs(secs)),
        (None, None) => Err(PyValueError::new_err("Either every_secs or every_steps must be provided.")),
    }
}

fn step_of(graph: &PyGraph, step: u64) -> Output {
    graph.output(step)
}

#[pymethods]
impl PyLibraryHook {
    /// Ends training at a step, or after some steps.
    #[staticmethod]
    fn stop_at_step(
        graph: &PyGraph,
        step: u64,
        num_steps: Option<i64>,
        last_step: Option<i64>,
    ) -> PyLibraryHook {
        let hook = match (num_steps, last_step) {
            (Some(num_steps), None) => StopAtStepHook::num_steps(num_steps),
            (_, last_step) => StopAtStepHook::last_step(last_step.unwrap_or(0)),
        };
        PyLibraryHook::of(hook.global_step(&step_of(graph, step)))
    }

    /// Waits for a step before the first run.
    #[staticmethod]
    fn global_step_waiter(graph: &PyGraph, step: u64, wait_until_step: i64) -> PyLibraryHook {
        PyLibraryHook::of(GlobalStepWaiterHook::new(wait_until_step).global_step(&step_of(graph, step)))
    }

    /// Measures speed.
    #[staticmethod]
    fn step_counter(
        graph: &PyGraph,
        step: u64,
        steps: Option<i64>,
        secs: Option<f64>,
        output_dir: Option<&str>,
    ) -> PyResult<PyLibraryHook> {
        let mut hook =
            StepCounterHook::new(every(steps, secs)?).or_mistake()?.global_step(&step_of(graph, step));
        if let Some(dir) = output_dir {
            hook = hook.output_dir(dir);
        }
        Ok(PyLibraryHook::of(hook))
    }

    /// Records the summaries that a function names by the number of their output, or `None`.
    #[staticmethod]
    fn summary_saver(
        graph: &PyGraph,
        step: u64,
        steps: Option<i64>,
        secs: Option<f64>,
        output_dir: &str,
        summary_op: Py<PyAny>,
    ) -> PyResult<PyLibraryHook> {
        let library = graph.graph.clone();
        let summary_op = move || -> Result<Option<Output>> {
            let number = raised::call(|py| summary_op.bind(py).call0()?.extract::<Option<u64>>())?;
            Ok(number.map(|number| library.output_at(endpoint(number))))
        };
        let hook =
            SummarySaverHook::with_summary_by(every(steps, secs)?, output_dir, summary_op).or_mistake()?;
        Ok(PyLibraryHook::of(hook.global_step(&step_of(graph, step))))
    }

    /// Saves with the saver that a function gives.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "those of tf.train.CheckpointSaverHook")]
    fn checkpoint_saver(
        graph: &PyGraph,
        step: u64,
        steps: Option<i64>,
        secs: Option<f64>,
        checkpoint_dir: &str,
        basename: &str,
        saver: Py<PyAny>,
        listeners: Vec<Py<PyAny>>,
    ) -> PyResult<PyLibraryHook> {
        let saver = move || {
            raised::call(|py| {
                let saver = saver.bind(py).call0()?;
                Ok(saver.cast::<PySaver>()?.get().0.clone())
            })
        };
        let hook =
            CheckpointSaverHook::with_saver_by(checkpoint_dir, every(steps, secs)?, saver).or_mistake()?;
        let hook = hook.checkpoint_basename(basename).global_step(&step_of(graph, step));
        let hook = listeners.into_iter().fold(hook, |hook, listener| hook.listener(PythonListener(listener)));
        Ok(PyLibraryHook::of(hook))
    }
}

/// A session creator of Python: a function that gives a session of this crate.
struct PythonCreator {
    graph: Graph,
    create: Py<PyAny>,
}

impl SessionCreator for PythonCreator {
    fn graph(&self) -> &Graph {
        &self.graph
    }

    fn create_session(&mut self) -> Result<Arc<Session>> {
        raised::call(|py| {
            let session = self.create.bind(py).call0()?;
            session.cast::<PySession>()?.get().get()
        })
    }
}

/// A session with hooks. A hook that uses its own session gets an error instead of waiting for itself.
#[pyclass(frozen, name = "MonitoredSession", module = "tensorfleet._native")]
struct PyMonitoredSession {
    graph: Py<PyGraph>,
    session: ReentrantMutex<RefCell<Option<MonitoredSession>>>,
}

// SAFETY: the cell is only touched by the thread that holds the lock, as `ReentrantMutex` of a `Send` value is.
unsafe impl Sync for PyMonitoredSession {}

fn busy() -> Status {
    Status::failed_precondition(
        "a monitored session cannot be used by its own hooks; run_context.session can",
    )
}

fn closed() -> PyErr {
    PyRuntimeError::new_err("Attempted to use a closed Session.")
}

impl PyMonitoredSession {
    /// Works with the session, without the interpreter, unless another thread or one of its own hooks does at the moment.
    fn try_with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut MonitoredSession) -> Result<R> + Send,
    ) -> PyResult<Option<R>> {
        let done = py.detach(|| {
            let Some(guard) = self.session.try_lock() else { return Ok(None) };
            let Ok(mut session) = guard.try_borrow_mut() else { return Ok(None) };
            session.as_mut().map(work).ok_or(()).map(Some)
        });
        match done {
            Ok(Some(done)) => done.or_reraise(py).map(Some),
            Ok(None) => Ok(None),
            Err(()) => Err(closed()),
        }
    }

    /// Works with the session, without the interpreter.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut MonitoredSession) -> Result<R> + Send,
    ) -> PyResult<R> {
        let done = py.detach(|| {
            let guard = self.session.lock();
            let Ok(mut session) = guard.try_borrow_mut() else { return Some(Err(busy())) };
            session.as_mut().map(work)
        });
        done.ok_or_else(closed)?.or_reraise(py)
    }
}

#[pymethods]
impl PyMonitoredSession {
    /// Opens a session: `create` gives sessions, `hooks` are hooks of the library or groups of hooks of Python.
    #[new]
    fn new(
        py: Python<'_>,
        graph: Py<PyGraph>,
        create: Py<PyAny>,
        hooks: Vec<Bound<'_, PyAny>>,
        recovers: bool,
        stop_grace_period_secs: f64,
    ) -> PyResult<PyMonitoredSession> {
        let library = graph.get().graph.clone();
        let mut all: Vec<Box<dyn SessionHook>> = Vec::with_capacity(hooks.len());
        for hook in hooks {
            match hook.cast::<PyLibraryHook>() {
                Ok(own) => all.push(
                    own.get()
                        .0
                        .lock()
                        .take()
                        .ok_or_else(|| PyRuntimeError::new_err("a hook is used twice"))?,
                ),
                Err(_) => all.push(Box::new(PythonHooks { hooks: hook.unbind(), graph: library.clone() })),
            }
        }
        let creator = Box::new(PythonCreator { graph: library, create });
        let grace = seconds(stop_grace_period_secs);
        let opened = py.detach(|| match recovers {
            true => MonitoredSession::with_stop_grace_period(creator, all, grace),
            false => MonitoredSession::singular_with_stop_grace_period(creator, all, grace),
        });
        let session = ReentrantMutex::new(RefCell::new(Some(opened.or_reraise(py)?)));
        Ok(PyMonitoredSession { graph, session })
    }

    /// Runs, and gives the fetched arrays and the record of the run if somebody asked for it; `None` if another thread runs at the
    /// moment: the package lets runs stand beside each other.
    #[expect(clippy::type_complexity, reason = "arrays, and a record")]
    fn run<'py>(
        &self,
        py: Python<'py>,
        wanted: Wanted<'py>,
    ) -> PyResult<Option<(Bound<'py, PyList>, Option<Bound<'py, PyBytes>>)>> {
        let graph = self.graph.get();
        let feeds = feeds_of(graph, &wanted.0)?;
        let (_, fetches, targets, timeout_ms, is_traced) = wanted;
        let ran = self.try_with(py, move |session| {
            let args = run_args_of(session.graph(), &fetches, &targets);
            let mut step = session.step();
            for (output, value) in feeds {
                step = step.feed(&output, value);
            }
            if timeout_ms > 0 {
                step = step.timeout(std::time::Duration::from_millis(timeout_ms));
            }
            let step = if is_traced { step.traced() } else { step };
            step.run_recorded(&args)
        })?;
        let Some((values, metadata)) = ran else { return Ok(None) };
        Ok(Some((as_arrays(py, values.tensors())?, as_bytes(py, metadata.as_deref()))))
    }

    /// Calls a function with a context for a step of several runs, again in another session when a task was lost.
    fn run_step(&self, py: Python<'_>, function: Py<PyAny>) -> PyResult<Py<PyAny>> {
        let graph = self.graph.clone_ref(py);
        self.with(py, |session| {
            session.run_step(|context| {
                raised::call(|py| {
                    let pointer: *mut StepContext<'_> = context;
                    let lent = Lent(Some(pointer.cast::<StepContext<'static>>()));
                    let lent =
                        Py::new(py, PyStepContext { graph: graph.clone_ref(py), lent: Mutex::new(lent) })?;
                    let called = function.bind(py).call1((lent.clone_ref(py),));
                    // Whoever keeps it has no step any more.
                    lent.get().lent.lock().0 = None;
                    Ok(called?.unbind())
                })
            })
        })
    }

    /// Whether the training loop should end; `None` if another thread runs at the moment.
    fn should_stop(&self, py: Python<'_>) -> PyResult<Option<bool>> {
        self.try_with(py, |session| Ok(session.should_stop()))
    }

    /// The session of the moment.
    fn session(&self, py: Python<'_>) -> PyResult<PySession> {
        Ok(PySession::of(self.with(py, |session| session.session().cloned())?))
    }

    /// Whether it was closed.
    fn is_closed(&self, py: Python<'_>) -> bool {
        py.detach(|| self.session.lock().try_borrow().is_ok_and(|session| session.is_none()))
    }

    /// Ends it: hooks finish their work, unless it failed.
    fn close(&self, py: Python<'_>, failed: bool) -> PyResult<()> {
        let done = py.detach(|| {
            let guard = self.session.lock();
            let Ok(mut session) = guard.try_borrow_mut() else { return Some(Err(busy())) };
            let taken = session.take();
            drop(session);
            taken.map(|session| if failed { session.abandon() } else { session.close() })
        });
        done.ok_or_else(|| PyRuntimeError::new_err("Session is already closed."))?.or_reraise(py)
    }
}

impl Drop for PyMonitoredSession {
    /// Closing waits for threads and servers, and hooks of Python go with it.
    fn drop(&mut self) {
        if let Some(session) = self.session.get_mut().get_mut().take() {
            Python::attach(|py| py.detach(|| drop(session)));
        }
    }
}

fn run_args_of(graph: &Graph, fetches: &[u64], targets: &[usize]) -> RunArgs {
    let args =
        fetches.iter().fold(RunArgs::new(), |args, &output| args.fetch(&graph.output_at(endpoint(output))));
    targets.iter().fold(args, |args, &node| args.target(&graph.operation_at(NodeId::from_index(node))))
}

/// A step of several runs, as long as the function that was called with it runs.
#[pyclass(frozen, name = "StepContext", module = "tensorfleet._native")]
struct PyStepContext {
    graph: Py<PyGraph>,
    lent: Mutex<Lent>,
}

struct Lent(Option<*mut StepContext<'static>>);

// SAFETY: the pointer is used by one thread at a time, under the lock, and only while the call that lent it has not returned.
unsafe impl Send for Lent {}

impl PyStepContext {
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut StepContext<'static>) -> Result<R> + Send,
    ) -> PyResult<R> {
        let done = py.detach(|| {
            let lent = self.lent.lock();
            // SAFETY: `run_step` sets it to none before what it points to ends, and waits for this lock to do so.
            lent.0.map(|context| work(unsafe { &mut *context }))
        });
        done.ok_or_else(|| PyRuntimeError::new_err("the step of this step context is over"))?.or_reraise(py)
    }
}

#[pymethods]
impl PyStepContext {
    fn session(&self, py: Python<'_>) -> PyResult<PySession> {
        Ok(PySession::of(self.with(py, |context| Ok(context.session().clone()))?))
    }

    fn run_with_hooks<'py>(&self, py: Python<'py>, wanted: Wanted<'py>) -> PyResult<Bound<'py, PyList>> {
        let feeds = feeds_of(self.graph.get(), &wanted.0)?;
        let (_, fetches, targets, ..) = wanted;
        let values = self.with(py, move |context| {
            let args = run_args_of(context.session().graph(), &fetches, &targets);
            context.feed_with_hooks(&feeds, &args)
        })?;
        as_arrays(py, values.tensors())
    }

    fn request_stop(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |context| {
            context.request_stop();
            Ok(())
        })
    }
}
