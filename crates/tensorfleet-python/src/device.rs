//! Device scopes whose device a Python function chooses.

use std::sync::Arc;
use std::thread::ThreadId;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tensorfleet::DeviceScope;
use tensorfleet_core::{DeviceName, Node, Status};
use tensorfleet_proto::Message;

use crate::errors::OrRaise;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<NodeView>()?;
    module.add_function(wrap_pyfunction!(canonical_device, module)?)?;
    module.add_function(wrap_pyfunction!(merged_device, module)?)
}

/// A node that is being built, as a device function sees it. The graph is locked meanwhile, so it is a copy.
#[pyclass(frozen, module = "tensorfleet._native")]
pub(crate) struct NodeView {
    #[pyo3(get)]
    name: String,
    #[pyo3(get)]
    r#type: String,
    #[pyo3(get)]
    device: String,
    attrs: Vec<(String, Vec<u8>)>,
}

impl NodeView {
    pub(crate) fn of(node: &Node) -> NodeView {
        NodeView {
            name: node.name.to_string(),
            r#type: node.op.to_string(),
            device: node.device.to_string(),
            attrs: node.attrs.iter().map(|(name, value)| (name.clone(), value.encode_to_vec())).collect(),
        }
    }
}

#[pymethods]
impl NodeView {
    /// The serialized `AttrValue` of an attribute.
    fn attr<'py>(&self, py: Python<'py>, name: &str) -> Option<Bound<'py, PyBytes>> {
        let (_, value) = self.attrs.iter().find(|(attr, _)| attr == name)?;
        Some(PyBytes::new(py, value))
    }

    /// The names of all attributes.
    fn attr_names(&self) -> Vec<&str> {
        self.attrs.iter().map(|(name, _)| name.as_str()).collect()
    }
}

/// What the last device function raised, for the call that made the node to raise it again.
#[derive(Clone, Default)]
pub(crate) struct Raised(Arc<parking_lot::Mutex<State>>);

#[derive(Default)]
struct State {
    error: Option<PyErr>,
    /// The thread that is inside a device function: the graph is locked by it.
    asking: Option<ThreadId>,
}

impl Raised {
    fn keep(&self, error: PyErr) -> Status {
        let text = error.to_string();
        self.0.lock().error = Some(error);
        Status::invalid_argument(text)
    }

    pub(crate) fn take(&self) -> Option<PyErr> {
        self.0.lock().error.take()
    }

    /// Asks a device function: meanwhile this thread must not use the graph.
    pub(crate) fn asking<R>(&self, ask: impl FnOnce() -> R) -> R {
        self.0.lock().asking = Some(std::thread::current().id());
        let answer = ask();
        self.0.lock().asking = None;
        answer
    }

    /// Whether this thread is inside a device function.
    pub(crate) fn is_asking_here(&self) -> bool {
        self.0.lock().asking == Some(std::thread::current().id())
    }
}

/// A scope that asks `choose`, a function of a [`NodeView`] wrapped by the package; it answers a device or `None`.
pub(crate) fn scope(choose: Py<PyAny>, raised: Raised) -> DeviceScope {
    DeviceScope::by(move |node: &Node| -> tensorfleet_core::Result<DeviceName> {
        let answer = raised.asking(|| {
            Python::attach(|py| -> PyResult<Option<String>> {
                choose.bind(py).call1((NodeView::of(node),))?.extract()
            })
        });
        match answer {
            Ok(Some(device)) => device.parse(),
            Ok(None) => Ok(DeviceName::default()),
            Err(error) => Err(raised.keep(error)),
        }
    })
}

/// A device as it is written in nodes: `/job:ps/task:0/device:CPU:0`.
#[pyfunction]
fn canonical_device(device: &str) -> PyResult<String> {
    let text =
        if device.is_empty() || device.starts_with('/') { device.to_string() } else { format!("/{device}") };
    Ok(text.parse::<DeviceName>().or_mistake()?.to_string())
}

/// What `inner` says, and where it says nothing, `outer`.
#[pyfunction]
fn merged_device(outer: &str, inner: &str) -> PyResult<String> {
    let (outer, inner) =
        (outer.parse::<DeviceName>().or_mistake()?, inner.parse::<DeviceName>().or_mistake()?);
    Ok(outer.overridden_by(&inner).to_string())
}
