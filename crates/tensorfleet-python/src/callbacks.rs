//! Functions of Python that the library calls: what they raise reaches the call that led to them.

use std::cell::RefCell;

use pyo3::PyErr;
use tensorfleet_core::Status;

thread_local! {
    /// What the last function of this thread raised.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Keeps an exception for the call that is under way; the library gets a status with its text.
pub(crate) fn keep(error: PyErr) -> Status {
    let status = Status::invalid_argument(error.to_string());
    RAISED.with(|raised| *raised.borrow_mut() = Some(error));
    status
}

/// The exception that was kept.
pub(crate) fn take() -> Option<PyErr> {
    RAISED.with(|raised| raised.borrow_mut().take())
}

/// Forgets an exception of a call before.
pub(crate) fn forget() {
    drop(take());
}
