//! Servers in the interpreter's process.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tensorfleet::{ClusterSpec, Server, ServerOptions};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::{ClusterDef, ConfigProto};

use crate::errors::OrRaise;
use crate::fork;

/// How long calls under way may take when a server is stopped.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyServer>()?;
    module.add_function(wrap_pyfunction!(check_cluster, module)?)?;
    module.add_function(wrap_pyfunction!(cluster_of_tf_config, module)?)
}

/// A server of a task. It serves without the interpreter.
#[pyclass(frozen, name = "Server", module = "tensorfleet._native")]
struct PyServer(std::mem::ManuallyDrop<Server>);

impl Drop for PyServer {
    fn drop(&mut self) {
        if !fork::is_forked() {
            // SAFETY: dropped here and nowhere else, once.
            unsafe { std::mem::ManuallyDrop::drop(&mut self.0) }
        }
    }
}

fn cluster(def: &[u8]) -> PyResult<ClusterSpec> {
    let def = ClusterDef::decode(def).map_err(|error| PyValueError::new_err(format!("cluster: {error}")))?;
    ClusterSpec::from_cluster_def(&def).or_mistake()
}

#[pymethods]
impl PyServer {
    /// Starts the server of a task: when this returns, it listens.
    #[new]
    fn new(py: Python<'_>, cluster_def: &[u8], job: &str, task: u32, config: &[u8]) -> PyResult<PyServer> {
        fork::check()?;
        let config =
            ConfigProto::decode(config).map_err(|error| PyValueError::new_err(format!("config: {error}")))?;
        let options = ServerOptions { config, ..ServerOptions::new(cluster(cluster_def)?, job, task) };
        Ok(PyServer(std::mem::ManuallyDrop::new(py.detach(|| Server::start(options)).or_raise(py)?)))
    }

    /// What a client connects to.
    fn target(&self) -> String {
        self.0.target()
    }

    /// The serialized `ClusterDef`, with the port that was chosen.
    fn cluster_def<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.cluster().as_cluster_def().encode_to_vec())
    }

    /// Waits until the server ends.
    fn join(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.join()).or_raise(py)
    }

    /// Ends the server.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.stop(STOP_TIMEOUT)).or_raise(py)
    }
}

/// Whether a serialized `ClusterDef` describes a cluster; the same one with its addresses as they are used.
#[pyfunction]
fn check_cluster<'py>(py: Python<'py>, cluster_def: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    Ok(PyBytes::new(py, &cluster(cluster_def)?.as_cluster_def().encode_to_vec()))
}

/// The serialized `ClusterDef` and the task of a `TF_CONFIG`.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "a cluster, and a job with an index")]
fn cluster_of_tf_config<'py>(
    py: Python<'py>,
    text: &str,
) -> PyResult<(Option<Bound<'py, PyBytes>>, Option<(String, u32)>)> {
    let config = tensorfleet::TfConfig::parse(text).or_mistake()?;
    let def = PyBytes::new(py, &config.cluster.as_cluster_def().encode_to_vec());
    Ok((Some(def), config.task.map(|task| (task.job.clone(), task.index))))
}
