//! Ctrl-C during a wait: the interpreter's handlers of signals, asked by whoever waits without it.

use parking_lot::Mutex;
use pyo3::prelude::*;
use tensorfleet_core::interrupt;

/// What a handler raised while the main thread waited.
static RAISED: Mutex<Option<PyErr>> = Mutex::new(None);

/// Lets waits of this thread, the interpreter's main one, end when a signal's handler raises.
pub(crate) fn install() {
    interrupt::install(|| {
        Python::attach(|py| match py.check_signals() {
            Ok(()) => false,
            Err(error) => {
                *RAISED.lock() = Some(error);
                true
            }
        })
    });
}

/// What the handler raised that ended the last wait.
pub(crate) fn take() -> Option<PyErr> {
    RAISED.lock().take()
}
