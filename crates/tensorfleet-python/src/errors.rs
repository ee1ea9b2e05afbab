//! Errors of the library as the exceptions that TensorFlow raises.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tensorfleet_core::Status;

use crate::interrupt;

/// What Python raises for an error of a run, a server or a file: `tf.errors.*`, made by the package.
pub(crate) fn raised(py: Python<'_>, status: Status) -> PyErr {
    if let Some(error) = interrupt::take() {
        return error;
    }
    static FROM_STATUS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = FROM_STATUS.get_or_try_init(py, || -> PyResult<Py<PyAny>> {
        Ok(py.import("tensorfleet.framework.errors")?.getattr("from_status")?.unbind())
    });
    let made = make.and_then(|make| {
        let arguments = (status.code() as i32, status.message(), status.node().map(str::to_string));
        make.bind(py).call1(arguments)
    });
    made.map_or_else(|error| error, PyErr::from_value)
}

/// What Python raises for a mistake in building a graph: a `ValueError` with the library's words.
pub(crate) fn mistaken(status: &Status) -> PyErr {
    PyValueError::new_err(status.text().to_string())
}

/// A result of the library as one of Python.
pub(crate) trait OrRaise<T> {
    /// The value, or `tf.errors.*`.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
    /// The value, or a `ValueError`.
    fn or_mistake(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for tensorfleet_core::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|status| raised(py, status))
    }

    fn or_mistake(self) -> PyResult<T> {
        self.map_err(|status| mistaken(&status))
    }
}
