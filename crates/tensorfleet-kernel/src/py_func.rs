//! Functions that live in another language's interpreter: what `PyFunc` nodes call.
//!
//! A process that has such functions installs one callback, which finds them by the token that a node carries. A process
//! without one refuses the nodes.

use std::sync::OnceLock;

use tensorfleet_core::{DType, Result, Tensor};

/// Calls the function that is registered under a token: its arguments, and the dtypes that its results must have.
pub type PyFuncCallback = dyn Fn(&str, Vec<Tensor>, &[DType]) -> Result<Vec<Tensor>> + Send + Sync;

static CALLBACK: OnceLock<Box<PyFuncCallback>> = OnceLock::new();

/// Installs the callback of this process; the first one stays. It is called on threads that may wait.
pub fn set_py_func(callback: Box<PyFuncCallback>) {
    // The interpreter loads its extension once; a second callback would be the same.
    let _ = CALLBACK.set(callback);
}

/// The callback of this process, if it has one.
pub fn py_func() -> Option<&'static PyFuncCallback> {
    CALLBACK.get().map(|callback| &**callback)
}
