//! `replica_device_setter` of the library.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tensorfleet::{ClusterSpec, DeviceScope, replica_device_setter};
use tensorfleet_core::Node;
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::{ClusterDef, NodeDef};

use crate::callbacks;
use crate::device::{NodeView, Raised};
use crate::errors::OrRaise;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyDeviceSetter>()
}

/// A device function that puts variables on parameter servers. All scopes that use it share its turn.
#[pyclass(frozen, name = "DeviceSetter", module = "tensorfleet._native")]
pub(crate) struct PyDeviceSetter(DeviceScope);

impl PyDeviceSetter {
    /// The scope to enter. A strategy of Python that uses the graph meanwhile is told that it must not.
    pub(crate) fn scope(&self, raised: Raised) -> DeviceScope {
        match self.0.clone() {
            DeviceScope::By(choose) => DeviceScope::by(move |node| raised.asking(|| choose(node))),
            other => other,
        }
    }
}

#[pymethods]
impl PyDeviceSetter {
    /// `strategy` is a function of a `NodeView` that gives a task, or `None` for one server after the other.
    #[new]
    #[pyo3(signature = (ps_tasks, cluster_def, ps_device, worker_device, merge_devices, ps_ops, strategy))]
    fn new(
        ps_tasks: u32,
        cluster_def: Option<&[u8]>,
        ps_device: &str,
        worker_device: &str,
        merge_devices: bool,
        ps_ops: Vec<String>,
        strategy: Option<Py<PyAny>>,
    ) -> PyResult<PyDeviceSetter> {
        let mut setter =
            replica_device_setter().ps_tasks(ps_tasks).ps_device(ps_device).worker_device(worker_device);
        if let Some(def) = cluster_def {
            let def = ClusterDef::decode(def)
                .map_err(|error| PyValueError::new_err(format!("cluster: {error}")))?;
            setter = setter.cluster(&ClusterSpec::from_cluster_def(&def).or_mistake()?);
        }
        setter = setter.merge_devices(merge_devices).ps_ops(ps_ops.iter().map(String::as_str));
        if let Some(strategy) = strategy {
            setter = setter.strategy_by(move |node| {
                let task = Python::attach(|py| strategy.bind(py).call1((NodeView::of(node),))?.extract());
                task.map_err(callbacks::keep)
            });
        }
        match DeviceScope::from(setter) {
            DeviceScope::Invalid(status) => Err(PyValueError::new_err(status.text().to_string())),
            scope => Ok(PyDeviceSetter(scope)),
        }
    }

    /// The device for a node given as a serialized `NodeDef`; its turn is taken.
    fn choose(&self, node_def: &[u8]) -> PyResult<String> {
        let def = NodeDef::decode(node_def).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let mut node = Node::new(def.name, def.op);
        node.device = def.device.into();
        node.attrs = def.attr.into_iter().collect();
        callbacks::forget();
        match &self.0 {
            DeviceScope::By(choose) => match choose(&node) {
                Ok(device) => Ok(device.to_string()),
                Err(status) => {
                    Err(callbacks::take().unwrap_or_else(|| PyValueError::new_err(status.text().to_string())))
                }
            },
            _ => Ok(node.device.to_string()),
        }
    }
}
