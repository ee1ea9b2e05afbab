//! The data that is built in.

use pyo3::prelude::*;
use tensorfleet_core::Tensor;
use tensorfleet_datasets::mnist;

use crate::arrays;
use crate::errors::OrRaise;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(mnist_data, module)?)
}

/// The embedded digits, as `(images, classes)` for training, validation and test: images are float arrays between 0 and 1.
#[pyfunction]
fn mnist_data(py: Python<'_>) -> PyResult<Vec<(Py<PyAny>, Py<PyAny>)>> {
    let sets = py.detach(mnist::embedded).or_raise(py)?;
    let mut parts = Vec::new();
    for set in [&sets.train, &sets.validation, &sets.test] {
        let classes = Tensor::from_slice(set.classes(), &[set.classes().len()]).or_raise(py)?;
        parts.push((arrays::to_array(py, set.images().or_raise(py)?)?, arrays::to_array(py, classes)?));
    }
    Ok(parts)
}
