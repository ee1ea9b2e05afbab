//! Session managers and supervisors.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::prelude::*;
use tensorfleet::summary::FileWriter;
use tensorfleet::train::{Initialization, OpenOptions, Saver, SessionManager, Supervisor};
use tensorfleet::{ClientId, Operation, Output, Session, SessionOptions, Tensor};
use tensorfleet_core::DType;

use crate::arrays;
use crate::coordinator::PyCoordinator;
use crate::errors::OrRaise;
use crate::graph::PyGraph;
use crate::raised::{self, OrReraise};
use crate::saver::PySaver;
use crate::session::{PySession, options_of};
use crate::summaries::PyFileWriter;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyClient>()?;
    module.add_class::<PySessionManager>()?;
    module.add_class::<PySupervisor>()
}

/// Number, dtype and array of what is fed.
pub(crate) type Feeds<'py> = Vec<(u64, i32, Bound<'py, PyAny>)>;

pub(crate) fn feeds_of(graph: &PyGraph, feeds: &Feeds<'_>) -> PyResult<Vec<(Output, Tensor)>> {
    let mut fed = Vec::with_capacity(feeds.len());
    for (output, dtype, value) in feeds {
        let dtype = DType::from_number(*dtype).or_mistake()?;
        fed.push((graph.output(*output), arrays::to_tensor(value, dtype)?));
    }
    Ok(fed)
}

pub(crate) fn operation(graph: &PyGraph, node: Option<usize>) -> Option<Operation> {
    node.map(|node| graph.operation(node))
}

pub(crate) fn output(graph: &PyGraph, number: Option<u64>) -> Option<Output> {
    number.map(|number| graph.output(number))
}

pub(crate) fn seconds(secs: f64) -> Duration {
    Duration::try_from_secs_f64(secs.max(0.0)).unwrap_or(Duration::MAX)
}

/// Who opens sessions one after the other: a new one ends the one before.
#[pyclass(frozen, name = "Client", module = "tensorfleet._native")]
struct PyClient(Mutex<ClientId>);

#[pymethods]
impl PyClient {
    #[new]
    fn new() -> PyClient {
        PyClient(Mutex::new(ClientId::random()))
    }
}

fn options_for(config: &[u8], client: Option<&PyClient>) -> PyResult<SessionOptions> {
    let mut options = options_of(config)?;
    if let Some(client) = client {
        let mut id = client.0.lock();
        *id = id.next();
        options.client = Some(*id);
    }
    Ok(options)
}

/// A function of Python that gets a session.
fn init_fn(function: Option<Py<PyAny>>) -> Option<tensorfleet::train::InitFn> {
    let function = function?;
    Some(Arc::new(move |session: &Arc<Session>| {
        raised::call(|py| function.bind(py).call1((PySession::of(session.clone()),)).map(drop))
    }))
}

/// Opens sessions whose model is ready.
#[pyclass(frozen, name = "SessionManager", module = "tensorfleet._native")]
struct PySessionManager(SessionManager);

/// What a chief initialises a model with: node, feeds, function, saver, directory, checkpoint, whether it waits for one.
type Init<'py> =
    (Option<usize>, Feeds<'py>, Option<Py<PyAny>>, Option<Py<PySaver>>, Option<String>, Option<String>, bool);

fn initialization(graph: &PyGraph, init: Init<'_>) -> PyResult<Initialization> {
    let (init_op, feeds, function, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint) =
        init;
    Ok(Initialization {
        init_op: operation(graph, init_op),
        init_feeds: feeds_of(graph, &feeds)?,
        init_fn: init_fn(function),
        saver: saver.map(|saver| saver.get().0.clone()),
        checkpoint_dir,
        checkpoint_filename_with_path,
        wait_for_checkpoint,
        overwrite: false,
    })
}

#[pymethods]
impl PySessionManager {
    #[new]
    fn new(
        py: Python<'_>,
        graph: &PyGraph,
        ready_op: Option<u64>,
        ready_for_local_init_op: Option<u64>,
        local_init_op: Option<usize>,
        local_init_feeds: Feeds<'_>,
        recovery_wait_secs: f64,
    ) -> PyResult<PySessionManager> {
        let feeds = feeds_of(graph, &local_init_feeds)?;
        graph.locked(py, |library| {
            let manager = SessionManager::with_ready_op(library, output(graph, ready_op));
            let manager = manager.ready_for_local_init_op(output(graph, ready_for_local_init_op));
            let manager = manager.local_init_op(operation(graph, local_init_op)).local_init_feeds(feeds);
            Ok(PySessionManager(manager.recovery_wait(seconds(recovery_wait_secs))))
        })
    }

    /// A session of the chief.
    #[pyo3(signature = (graph, master, init, max_wait_secs, config, client=None))]
    #[expect(clippy::too_many_arguments, reason = "those of tf.train.SessionManager.prepare_session")]
    fn prepare_session(
        &self,
        py: Python<'_>,
        graph: &PyGraph,
        master: &str,
        init: Init<'_>,
        max_wait_secs: f64,
        config: &[u8],
        client: Option<&PyClient>,
    ) -> PyResult<PySession> {
        let (init, options) = (initialization(graph, init)?, options_for(config, client)?);
        let manager = self.0.clone().max_wait(seconds(max_wait_secs));
        let opened = py.detach(|| manager.prepare_session(master, &init, &options));
        Ok(PySession::of(opened.or_reraise(py)?))
    }

    /// A session restored from a checkpoint, and whether it is ready.
    fn recover_session(
        &self,
        py: Python<'_>,
        graph: &PyGraph,
        master: &str,
        init: Init<'_>,
        max_wait_secs: f64,
        config: &[u8],
    ) -> PyResult<(PySession, bool)> {
        let (init, options) = (initialization(graph, init)?, options_for(config, None)?);
        let manager = self.0.clone().max_wait(seconds(max_wait_secs));
        let opened = py.detach(|| manager.recover_session(master, &init, &options));
        let (session, is_ready) = opened.or_reraise(py)?;
        Ok((PySession::of(session), is_ready))
    }

    /// A session of a task that is not the chief.
    #[pyo3(signature = (master, max_wait_secs, config, client=None))]
    fn wait_for_session(
        &self,
        py: Python<'_>,
        master: &str,
        max_wait_secs: f64,
        config: &[u8],
        client: Option<&PyClient>,
    ) -> PyResult<PySession> {
        let options = options_for(config, client)?;
        let manager = self.0.clone().max_wait(seconds(max_wait_secs));
        let opened = py.detach(|| manager.wait_for_session(master, &options));
        Ok(PySession::of(opened.or_reraise(py)?))
    }
}

/// A supervisor of a model whose parts the package has built.
#[pyclass(frozen, name = "Supervisor", module = "tensorfleet._native")]
struct PySupervisor(Supervisor);

/// The ops of a model: init, local init, ready, ready for local init, summaries, and the step with its name.
type Ops = (Option<usize>, Option<usize>, Option<u64>, Option<u64>, Option<u64>, Option<(u64, String)>);
/// How often a model and its summaries are saved, and the waits for recovery and for threads that end; 0 is never.
type Times = (f64, f64, f64, f64);

#[pymethods]
impl PySupervisor {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "those of tf.train.Supervisor")]
    fn new(
        py: Python<'_>,
        graph: &PyGraph,
        is_chief: bool,
        logdir: Option<&str>,
        ops: Ops,
        feeds: (Feeds<'_>, Feeds<'_>),
        function: Option<Py<PyAny>>,
        saver: Option<Py<PySaver>>,
        writer: Option<Py<PyFileWriter>>,
        coordinator: &PyCoordinator,
        times: Times,
        checkpoint_basename: &str,
    ) -> PyResult<PySupervisor> {
        let (init_op, local_init_op, ready_op, ready_for_local_init_op, summary_op, step) = ops;
        let (save_model, save_summaries, recovery_wait, stop_grace) = times;
        let saver: Option<Saver> = saver.map(|saver| saver.get().0.clone());
        let writer: Option<FileWriter> = writer.map(|writer| writer.get().0.clone());
        let (init_feeds, local_feeds) = (feeds_of(graph, &feeds.0)?, feeds_of(graph, &feeds.1)?);
        let made = graph.locked(py, |library| {
            let mut builder = Supervisor::builder(library)
                .is_chief(is_chief)
                .init_op(operation(graph, init_op).as_ref())
                .local_init_op(operation(graph, local_init_op).as_ref())
                .local_init_feeds(local_feeds)
                .ready_op(output(graph, ready_op).as_ref())
                .summary_op(output(graph, summary_op).as_ref())
                .saver(saver.as_ref())
                .summary_writer(writer.as_ref())
                .coordinator(&coordinator.0)
                .recovery_wait_secs(recovery_wait.max(0.0) as u64)
                .stop_grace_secs(stop_grace.max(0.0) as u64)
                .checkpoint_basename(checkpoint_basename);
            builder = match save_model > 0.0 {
                true => builder.save_model_every(seconds(save_model)),
                false => builder.save_model_secs(0),
            };
            builder = match save_summaries > 0.0 {
                true => builder.save_summaries_every(seconds(save_summaries)),
                false => builder.save_summaries_secs(0),
            };
            builder = match &step {
                Some((step, name)) => builder.step_output(&graph.output(*step), name),
                None => builder.global_step(None),
            };
            for (fed, value) in init_feeds {
                builder = builder.init_feed(&fed, value);
            }
            if let Some(ready) = output(graph, ready_for_local_init_op) {
                builder = builder.ready_for_local_init_op(&ready);
            }
            if let Some(function) = init_fn(function) {
                builder = builder.init_fn(move |session| function(session));
            }
            if let Some(logdir) = logdir {
                builder = builder.logdir(logdir);
            }
            builder.build()
        })?;
        Ok(PySupervisor(made))
    }

    /// Opens a session whose model is ready, and writes the graph; starts nothing.
    fn open_session(
        &self,
        py: Python<'_>,
        master: &str,
        config: &[u8],
        max_wait_secs: f64,
        wait_for_checkpoint: bool,
    ) -> PyResult<PySession> {
        let options = OpenOptions {
            config: options_of(config)?,
            max_wait: seconds(max_wait_secs),
            wait_for_checkpoint,
        };
        let opened = py.detach(|| self.0.open_session_with(master, &options));
        Ok(PySession::of(opened.or_reraise(py)?))
    }

    /// Writes the graph to the directory and the event file.
    fn write_graph(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.write_graph()).or_reraise(py)
    }

    /// Starts the threads that save the model and record summaries and speed.
    fn start_standard_services(&self, py: Python<'_>, session: &PySession) -> PyResult<()> {
        let session = session.get()?;
        py.detach(|| self.0.start_standard_services(&session)).or_reraise(py)
    }

    /// Closes the event file.
    fn close_writer(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.close_writer()).or_reraise(py)
    }
}
