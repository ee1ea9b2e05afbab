//! Sessions: runs by the numbers of nodes, with arrays in and out.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use tensorfleet::{RunOptions, Session, SessionOptions};
use tensorfleet_core::{DType, Endpoint, NodeId, Tensor};
use tensorfleet_frontend::EndpointsPartialRun;
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::ConfigProto;

use crate::arrays;
use crate::errors::OrRaise;
use crate::fork;
use crate::graph::{PyGraph, endpoint};

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PySession>()?;
    module.add_class::<PyPartialRun>()?;
    module.add_function(wrap_pyfunction!(reset, module)?)
}

/// A session. The package checks what is fed and asked for; here are only numbers and arrays.
#[pyclass(frozen, name = "Session", module = "tensorfleet._native")]
pub(crate) struct PySession {
    session: Mutex<Option<Arc<Session>>>,
}

/// A run in parts.
#[pyclass(frozen, name = "PartialRun", module = "tensorfleet._native")]
struct PyPartialRun(EndpointsPartialRun);

type Feeds<'py> = Vec<(u64, i32, Bound<'py, PyAny>)>;

fn tensors(feeds: &Feeds<'_>) -> PyResult<Vec<(Endpoint, Tensor)>> {
    let mut tensors = Vec::with_capacity(feeds.len());
    for (output, dtype, value) in feeds {
        let dtype = DType::from_number(*dtype).or_mistake()?;
        tensors.push((endpoint(*output), arrays::to_tensor(value, dtype)?));
    }
    Ok(tensors)
}

fn nodes(targets: Vec<u64>) -> Vec<NodeId> {
    targets.into_iter().map(|node| NodeId::from_index(node as usize)).collect()
}

fn as_arrays<'py>(py: Python<'py>, tensors: Vec<Tensor>) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for tensor in tensors {
        list.append(arrays::to_array(py, tensor)?)?;
    }
    Ok(list)
}

pub(crate) fn options_of(config: &[u8]) -> PyResult<SessionOptions> {
    let config =
        ConfigProto::decode(config).map_err(|error| PyValueError::new_err(format!("config: {error}")))?;
    SessionOptions::from_config(&config).or_mistake()
}

impl PySession {
    /// Wraps a session that the library has made.
    pub(crate) fn of(session: Arc<Session>) -> PySession {
        PySession { session: Mutex::new(Some(session)) }
    }

    /// The session, unless it is closed.
    pub(crate) fn get(&self) -> PyResult<Arc<Session>> {
        fork::check()?;
        let session = self.session.lock().clone();
        session.ok_or_else(|| PyRuntimeError::new_err("Attempted to use a closed Session."))
    }
}

#[pymethods]
impl PySession {
    /// Opens a session on `target`, with a serialized `ConfigProto`. Waits for the server without the interpreter.
    #[new]
    fn new(py: Python<'_>, graph: &PyGraph, target: &str, config: &[u8]) -> PyResult<PySession> {
        fork::check()?;
        let options = options_of(config)?;
        let opened = py.detach(|| Session::connect_with(target, &graph.graph, options)).or_raise(py)?;
        Ok(PySession::of(Arc::new(opened)))
    }

    /// Runs: `feeds` has the number, the dtype and the array of each output that is fed. Gives the fetched arrays, and the serialized
    /// `RunMetadata` if the run is traced.
    #[pyo3(signature = (feeds, fetches, targets, timeout_ms=0, is_traced=false))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        feeds: Feeds<'py>,
        fetches: Vec<u64>,
        targets: Vec<u64>,
        timeout_ms: u64,
        is_traced: bool,
    ) -> PyResult<(Bound<'py, PyList>, Option<Bound<'py, PyBytes>>)> {
        let session = self.get()?;
        let feeds = tensors(&feeds)?;
        let fetches: Vec<Endpoint> = fetches.into_iter().map(endpoint).collect();
        let targets = nodes(targets);
        let options = RunOptions { timeout: (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms)) };
        let ran = py.detach(|| session.run_endpoints(feeds, &fetches, &targets, &options, is_traced));
        let (tensors, metadata) = ran.or_raise(py)?;
        let metadata = is_traced.then(|| PyBytes::new(py, &metadata.encode_to_vec()));
        Ok((as_arrays(py, tensors)?, metadata))
    }

    /// Begins a run in parts.
    fn partial_run(
        &self,
        py: Python<'_>,
        feeds: Vec<u64>,
        fetches: Vec<u64>,
        targets: Vec<u64>,
    ) -> PyResult<PyPartialRun> {
        let session = self.get()?;
        let feeds: Vec<Endpoint> = feeds.into_iter().map(endpoint).collect();
        let fetches: Vec<Endpoint> = fetches.into_iter().map(endpoint).collect();
        let targets = nodes(targets);
        let begun = py.detach(|| session.partial_run_endpoints(&feeds, &fetches, &targets));
        Ok(PyPartialRun(begun.or_raise(py)?))
    }

    /// The serialized `DeviceAttributes` of all devices.
    fn list_devices<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let session = self.get()?;
        let devices = py.detach(|| session.list_devices()).or_raise(py)?;
        Ok(devices.iter().map(|device| PyBytes::new(py, &device.encode_to_vec())).collect())
    }

    /// Whether it was closed.
    fn is_closed(&self) -> bool {
        self.session.lock().is_none()
    }

    /// Closes it: running steps are cancelled.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let session = self.session.lock().take();
        match session {
            // It is the parent's.
            Some(session) if fork::is_forked() => {
                std::mem::forget(session);
                Ok(())
            }
            Some(session) => py.detach(|| session.close()).or_raise(py),
            None => Ok(()),
        }
    }
}

impl Drop for PySession {
    /// Closing waits for a server; whoever drops the last reference to a session may hold the interpreter.
    fn drop(&mut self) {
        if let Some(session) = self.session.get_mut().take() {
            if fork::is_forked() {
                return std::mem::forget(session);
            }
            Python::attach(|py| py.detach(|| drop(session)));
        }
    }
}

#[pymethods]
impl PyPartialRun {
    /// Gives some of the feeds and waits for some of the fetches.
    fn run<'py>(
        &self,
        py: Python<'py>,
        feeds: Feeds<'py>,
        fetches: Vec<u64>,
    ) -> PyResult<Bound<'py, PyList>> {
        let feeds = tensors(&feeds)?;
        let fetches: Vec<Endpoint> = fetches.into_iter().map(endpoint).collect();
        let values = py.detach(|| self.0.run(feeds, &fetches)).or_raise(py)?;
        as_arrays(py, values)
    }
}

/// Clears containers on all tasks that the server at `target` knows.
#[pyfunction]
fn reset(py: Python<'_>, target: &str, containers: Vec<String>) -> PyResult<()> {
    let containers: Vec<&str> = containers.iter().map(String::as_str).collect();
    py.detach(|| Session::reset(target, &containers)).or_raise(py)
}
