//! A fork copies the memory of a process but not its threads. Sessions and servers live by threads, so in a child of a process
//! that has used one they would wait for ever: they are refused there, with what to do instead, and left alone when dropped, because
//! their connections are still the parent's.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Whether this process has had a session or a server.
static USED: AtomicBool = AtomicBool::new(false);
/// Whether this process is a child of one that had.
static FORKED: AtomicBool = AtomicBool::new(false);

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let os = py.import("os")?;
    if os.hasattr("register_at_fork")? {
        let hooks = PyDict::new(py);
        hooks.set_item("after_in_child", wrap_pyfunction!(after_in_child, module)?)?;
        os.call_method("register_at_fork", (), Some(&hooks))?;
    }
    Ok(())
}

#[pyfunction]
fn after_in_child() {
    if USED.load(Ordering::Acquire) {
        FORKED.store(true, Ordering::Release);
    }
}

/// Whether sessions of this process belong to its parent.
pub(crate) fn is_forked() -> bool {
    FORKED.load(Ordering::Acquire)
}

/// Called before a session or a server is made or used.
pub(crate) fn check() -> PyResult<()> {
    if is_forked() {
        return Err(PyRuntimeError::new_err(
            "this process was forked from one that had a session or a server, whose threads are not here; fork before the \
             first session, or start processes with multiprocessing.get_context('spawn')",
        ));
    }
    USED.store(true, Ordering::Release);
    Ok(())
}
