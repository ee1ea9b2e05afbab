//! `tf.py_func`: nodes that call functions of this interpreter.

use pyo3::exceptions::{PyMemoryError, PyNotImplementedError, PyStopIteration, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyTuple};
use tensorfleet_core::{Code, DType, Status, Tensor};
use tensorfleet_kernel::py_func;

use crate::arrays;
use crate::errors::OrRaise;

pub(crate) fn add(_: &Bound<'_, PyModule>) -> PyResult<()> {
    py_func::set_py_func(Box::new(call));
    Ok(())
}

/// Calls the function with this token. The thread is one that may wait, and holds nothing but its arguments.
fn call(token: &str, arguments: Vec<Tensor>, results: &[DType]) -> tensorfleet_core::Result<Vec<Tensor>> {
    let called = Python::try_attach(|py| {
        call_attached(py, token, arguments, results).map_err(|error| status(py, &error))
    });
    called.unwrap_or_else(|| Err(Status::unavailable(format!("{token}: the interpreter has ended"))))
}

fn call_attached(
    py: Python<'_>,
    token: &str,
    arguments: Vec<Tensor>,
    results: &[DType],
) -> PyResult<Vec<Tensor>> {
    static CALL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let call = CALL.get_or_try_init(py, || -> PyResult<Py<PyAny>> {
        Ok(py.import("tensorfleet.ops.script")?.getattr("call_registered")?.unbind())
    })?;
    let arrays =
        arguments.into_iter().map(|tensor| arrays::to_array(py, tensor)).collect::<PyResult<Vec<_>>>()?;
    let dtypes: Vec<i32> = results.iter().map(|dtype| dtype.number()).collect();
    let values = call.bind(py).call1((token, PyTuple::new(py, arrays)?, dtypes))?;
    let mut tensors = Vec::new();
    for pair in values.cast::<PyList>()?.iter() {
        let (array, dtype): (Bound<'_, PyAny>, i32) = pair.extract()?;
        // The array may be one that the function changes later.
        let tensor = arrays::to_tensor(&array, DType::from_number(dtype).or_mistake()?)?;
        tensors.push(tensor.deep_copy().or_raise(py)?);
    }
    Ok(tensors)
}

/// An exception as the error that TensorFlow makes of it, with the traceback in its text.
fn status(py: Python<'_>, error: &PyErr) -> Status {
    let code = if error.is_instance_of::<PyStopIteration>(py) {
        Code::OutOfRange
    } else if error.is_instance_of::<PyNotImplementedError>(py) {
        Code::Unimplemented
    } else if error.is_instance_of::<PyMemoryError>(py) {
        Code::ResourceExhausted
    } else if error.is_instance_of::<PyValueError>(py) || error.is_instance_of::<PyTypeError>(py) {
        Code::InvalidArgument
    } else {
        code_of_op_error(py, error).unwrap_or(Code::Unknown)
    };
    let name = error.get_type(py).name().map_or_else(|_| "Exception".to_string(), |name| name.to_string());
    let traceback = error.traceback(py).and_then(|traceback| traceback.format().ok()).unwrap_or_default();
    Status::new(code, format!("{name}: {}\n{traceback}", error.value(py)))
}

/// The code of one of `tf.errors`, which passes through as it is.
fn code_of_op_error(py: Python<'_>, error: &PyErr) -> Option<Code> {
    let code: i32 = error.value(py).getattr("error_code").ok()?.extract().ok()?;
    Some(Code::from_i32(code))
}
