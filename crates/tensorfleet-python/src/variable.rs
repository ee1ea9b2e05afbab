//! Variables: their nodes, as the library makes them.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tensorfleet::{DType, Graph, Output, Status, Variable};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::{SaveSliceInfoDef, VariableDef};

use crate::arrays;
use crate::errors::OrRaise;
use crate::graph::{PyGraph, endpoint, number};

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyVariable>()
}

/// A variable. What it is called and where it is listed is the package's business.
#[pyclass(frozen, name = "Variable", module = "tensorfleet._native")]
pub(crate) struct PyVariable(pub(crate) Variable);

/// What a variable starts with.
enum Initial<'py> {
    /// An output.
    Output(u64),
    /// An array and its dtype.
    Array(Bound<'py, PyAny>, DType),
    /// A function that builds the value and gives its output.
    By(Py<PyAny>),
}

impl<'py> Initial<'py> {
    fn from_python(initial: &Bound<'py, PyAny>) -> PyResult<Initial<'py>> {
        if initial.is_callable() {
            return Ok(Initial::By(initial.clone().unbind()));
        }
        if let Ok((array, dtype)) = initial.extract::<(Bound<'py, PyAny>, i32)>() {
            return Ok(Initial::Array(array, DType::from_number(dtype).or_mistake()?));
        }
        Ok(Initial::Output(initial.extract()?))
    }
}

#[pymethods]
impl PyVariable {
    /// Builds a variable. `initial` is an output, an array with its dtype, or a function that builds the value.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "those of tf.Variable")]
    #[pyo3(signature = (graph, name, initial, is_resource, trainable, is_local, any_shape=false, caching_device=None, slice_def=None))]
    fn new(
        py: Python<'_>,
        graph: &PyGraph,
        name: &str,
        initial: &Bound<'_, PyAny>,
        is_resource: bool,
        trainable: bool,
        is_local: bool,
        any_shape: bool,
        caching_device: Option<&str>,
        slice_def: Option<&[u8]>,
    ) -> PyResult<PyVariable> {
        let slice = slice_def.map(SaveSliceInfoDef::decode).transpose();
        let slice = slice.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let initial = Initial::from_python(initial)?;
        let raised = std::sync::Arc::new(parking_lot::Mutex::new(None));
        let kept = raised.clone();
        let built = graph.locked(py, |graph| {
            let mut builder = graph.new_variable(name);
            if !trainable {
                builder = builder.untrainable();
            }
            if is_local {
                builder = builder.local();
            }
            if is_resource {
                builder = builder.resource();
            }
            if any_shape {
                builder = builder.any_shape();
            }
            if let Some(device) = caching_device {
                builder = builder.caching_device(device);
            }
            if let Some(slice) = &slice {
                builder = builder.slice_def(slice)?;
            }
            match initial {
                Initial::Output(output) => builder.init(graph.output_at(endpoint(output))),
                Initial::Array(array, dtype) => {
                    match arrays::to_tensor(&array, dtype).map(|tensor| tensor.deep_copy()) {
                        Ok(Ok(tensor)) => builder.init(tensor),
                        Ok(Err(status)) => return Err(status),
                        Err(error) => return Err(keep(&kept, error)),
                    }
                }
                Initial::By(make) => {
                    let graph = graph.clone();
                    builder.init_by(move || call(&make, &graph, &kept))
                }
            }
            .check()
        });
        match raised.lock().take() {
            Some(error) => Err(error),
            None => built.map(PyVariable),
        }
    }

    /// The variable whose nodes a serialized `VariableDef` names.
    #[staticmethod]
    fn from_def(py: Python<'_>, graph: &PyGraph, def: &[u8]) -> PyResult<PyVariable> {
        let def = VariableDef::decode(def).map_err(|error| PyValueError::new_err(error.to_string()))?;
        graph.locked(py, |graph| Variable::from_variable_def(graph, &def)).map(PyVariable)
    }

    /// The serialized `VariableDef`.
    fn to_def<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let def = py.detach(|| self.0.to_variable_def()).or_mistake()?;
        Ok(PyBytes::new(py, &def.encode_to_vec()))
    }

    /// The numbers of its parts: handle, initial value, the node of its initializer, and the read that was built with it.
    fn parts(&self, py: Python<'_>) -> PyResult<(u64, u64, usize, u64)> {
        let parts = py.detach(|| {
            let handle = self.0.handle().endpoint()?;
            let (initial, read) = (self.0.initial_value().endpoint()?, self.0.snapshot().endpoint()?);
            Ok((number(handle), number(initial), self.0.initializer().node()?.index(), number(read)))
        });
        parts.or_mistake()
    }

    fn is_resource(&self) -> bool {
        self.0.is_resource()
    }

    /// The number of its dtype.
    fn dtype(&self) -> PyResult<i32> {
        Ok(self.0.dtype().or_mistake()?.number())
    }
}

fn keep(kept: &parking_lot::Mutex<Option<PyErr>>, error: PyErr) -> Status {
    let status = Status::invalid_argument(error.to_string());
    *kept.lock() = Some(error);
    status
}

fn call(
    make: &Py<PyAny>,
    graph: &Graph,
    kept: &parking_lot::Mutex<Option<PyErr>>,
) -> tensorfleet::Result<Output> {
    let built = Python::attach(|py| make.bind(py).call0()?.extract::<u64>());
    built.map(|output| graph.output_at(endpoint(output))).map_err(|error| keep(kept, error))
}

#[pymethods]
impl PyGraph {
    /// The variables of one of the library's lists (`global`, `trainable`, `local`) from number `start` on: how the package learns
    /// of variables that the library made, such as an optimizer's slots.
    fn listed_variables(&self, py: Python<'_>, list: &str, start: usize) -> PyResult<Vec<PyVariable>> {
        let all = self.locked(py, |graph| {
            Ok(match list {
                "trainable" => graph.trainable_variables(),
                "local" => graph.local_variables(),
                _ => graph.global_variables(),
            })
        })?;
        Ok(all.into_iter().skip(start).map(PyVariable).collect())
    }
}
