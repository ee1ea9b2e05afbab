//! Exceptions of Python that pass through the library: hooks, init functions and creators raise them, and whoever called gets them as they
//! were, with their traceback.

use std::cell::RefCell;

use pyo3::prelude::*;
use tensorfleet_core::{Code, Status};

use crate::{errors, interrupt};

thread_local! {
    /// The last exception of this thread, and the status that the library got for it.
    static KEPT: RefCell<Option<(Status, PyErr)>> = const { RefCell::new(None) };
}

/// Keeps an exception, and gives the library a status with its code: what TensorFlow recovers from, the library does, too.
pub(crate) fn keep(py: Python<'_>, error: PyErr) -> Status {
    let code = error.value(py).getattr("error_code").and_then(|code| code.extract::<i32>());
    let code = code.map_or(Code::Unknown, Code::from_i32);
    let status = Status::new(code, format!("{error}"));
    KEPT.with(|kept| *kept.borrow_mut() = Some((status.clone(), error)));
    status
}

/// The exception behind a status: the one that was kept for it, or one of `tf.errors`.
pub(crate) fn raise(py: Python<'_>, status: Status) -> PyErr {
    let kept = KEPT.with(|kept| kept.borrow_mut().take());
    match kept {
        Some((of, error)) if of == status => error,
        _ => errors::raised(py, status),
    }
}

/// A result of the library as one of Python, for calls that may have called Python.
pub(crate) trait OrReraise<T> {
    fn or_reraise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrReraise<T> for tensorfleet_core::Result<T> {
    fn or_reraise(self, py: Python<'_>) -> PyResult<T> {
        let value = self.map_err(|status| raise(py, status))?;
        // A wait that a signal has ended may have given what it had.
        match interrupt::take() {
            Some(error) => Err(error),
            None => Ok(value),
        }
    }
}

/// Calls Python from the library.
pub(crate) fn call<R>(body: impl FnOnce(Python<'_>) -> PyResult<R>) -> tensorfleet_core::Result<R> {
    Python::attach(|py| body(py).map_err(|error| keep(py, error)))
}
