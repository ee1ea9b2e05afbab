//! Event files.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tensorfleet::summary::{Event, FileWriter, FileWriterOptions};
use tensorfleet_proto::Message;

use crate::errors::OrRaise;
use crate::graph::PyGraph;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyFileWriter>()
}

/// Writes events from a thread of its own.
#[pyclass(frozen, name = "FileWriter", module = "tensorfleet._native")]
pub(crate) struct PyFileWriter(pub(crate) FileWriter);

#[pymethods]
impl PyFileWriter {
    #[new]
    fn new(
        py: Python<'_>,
        logdir: &str,
        max_queue: usize,
        flush_secs: f64,
        suffix: &str,
    ) -> PyResult<PyFileWriter> {
        let secs = flush_secs.max(0.0) as u64;
        let options = FileWriterOptions::new().max_queue(max_queue).flush_secs(secs).filename_suffix(suffix);
        Ok(PyFileWriter(py.detach(|| options.open(logdir)).or_raise(py)?))
    }

    /// The writer that everybody in this process uses for a directory.
    #[staticmethod]
    fn shared(py: Python<'_>, logdir: &str) -> PyResult<PyFileWriter> {
        Ok(PyFileWriter(py.detach(|| FileWriter::shared(logdir)).or_raise(py)?))
    }

    /// Adds a serialized `Event`.
    fn add_event(&self, py: Python<'_>, event: &[u8]) -> PyResult<()> {
        let event = Event::decode(event).map_err(|error| PyValueError::new_err(format!("event: {error}")))?;
        py.detach(|| self.0.add_event(event)).or_raise(py)
    }

    /// Adds what a summary op gave, or a serialized `Summary`.
    fn add_summary(&self, py: Python<'_>, summary: &[u8], global_step: i64) -> PyResult<()> {
        let summary = Message::decode(summary).map_err(|error| {
            PyValueError::new_err(format!("the value holds no serialized Summary: {error}"))
        })?;
        py.detach(|| self.0.add_summary_proto(summary, global_step)).or_raise(py)
    }

    /// Adds a graph with the shapes that are known.
    fn add_graph(&self, py: Python<'_>, graph: &PyGraph) -> PyResult<()> {
        py.detach(|| self.0.add_graph(&graph.graph)).or_raise(py)
    }

    fn is_open(&self, py: Python<'_>) -> bool {
        py.detach(|| self.0.path().is_some())
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.flush()).or_raise(py)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.close()).or_raise(py)
    }

    fn reopen(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.reopen()).or_raise(py)
    }
}
