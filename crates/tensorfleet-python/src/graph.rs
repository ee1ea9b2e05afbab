//! [`PyGraph`]: a graph under construction, by the numbers of its nodes.

use parking_lot::{ReentrantMutex, ReentrantMutexGuard};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use tensorfleet::{DeviceScope, Graph, GraphDef, Operation, Output};
use tensorfleet_core::{Endpoint, NodeId};
use tensorfleet_kernel::builder::{GraphBuilder, Input, NewNode};
use tensorfleet_proto::Message;
use tensorfleet_runtime::catalogue;

use crate::device::{self, Raised};
use crate::device_setter::PyDeviceSetter;
use crate::errors::{OrRaise, mistaken};
use crate::{arrays, attributes, callbacks};

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyGraph>()
}

/// A graph. See the crate's documentation for how nodes and outputs are numbered.
#[pyclass(frozen, name = "Graph", module = "tensorfleet._native")]
pub(crate) struct PyGraph {
    pub(crate) graph: Graph,
    /// Whoever builds holds this, and has waited for it without the interpreter: a device function runs Python while the
    /// graph's own lock is held, and another thread that waited for that lock with the interpreter would stop both.
    building: ReentrantMutex<()>,
    raised: Raised,
}

/// Name, op, device, inputs, control inputs and the dtypes of the outputs of a node.
type NodeParts = (String, String, String, Vec<u64>, Vec<usize>, Vec<i32>);

/// The output with this number.
pub(crate) fn endpoint(number: u64) -> Endpoint {
    Endpoint::new(NodeId::from_index((number >> 32) as usize), number as u32)
}

/// The number of an output.
pub(crate) fn number(endpoint: Endpoint) -> u64 {
    (endpoint.node.index() as u64) << 32 | u64::from(endpoint.slot)
}

impl PyGraph {
    /// Works on the graph; errors of device functions are raised as they were.
    pub(crate) fn locked<R>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Graph) -> tensorfleet_core::Result<R>,
    ) -> PyResult<R> {
        let _guard = self.enter(py)?;
        callbacks::forget();
        work(&self.graph).map_err(|status| {
            self.raised.take().or_else(callbacks::take).unwrap_or_else(|| mistaken(&status))
        })
    }

    /// Works on the graph's builder.
    pub(crate) fn build<R>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut GraphBuilder) -> tensorfleet_core::Result<R>,
    ) -> PyResult<R> {
        self.locked(py, |graph| graph.build(work))
    }

    /// Waits, without the interpreter, until nobody else builds.
    pub(crate) fn enter(&self, py: Python<'_>) -> PyResult<ReentrantMutexGuard<'_, ()>> {
        if self.raised.is_asking_here() {
            return Err(PyRuntimeError::new_err(
                "a device function must not use the graph: it sees the node that is being built",
            ));
        }
        if let Some(guard) = self.building.try_lock() {
            return Ok(guard);
        }
        py.detach(|| std::mem::forget(self.building.lock()));
        // SAFETY: the line before has locked it for this thread, and leaked that guard.
        Ok(unsafe { self.building.make_guard_unchecked() })
    }

    /// Asks the graph, without the interpreter: another thread may be inside a function of Python that the graph waits for.
    pub(crate) fn apart<R: Send>(&self, ask: impl FnOnce(&Graph) -> R + Send) -> R {
        Python::attach(|py| py.detach(|| ask(&self.graph)))
    }

    /// The output with this number.
    pub(crate) fn output(&self, number: u64) -> Output {
        self.apart(|graph| graph.output_at(endpoint(number)))
    }

    /// The operation with this number.
    pub(crate) fn operation(&self, node: usize) -> Operation {
        self.apart(|graph| graph.operation_at(NodeId::from_index(node)))
    }

    pub(crate) fn node_index(&self, node: u64) -> PyResult<NodeId> {
        match usize::try_from(node).ok().filter(|&index| index < self.__len__()) {
            Some(index) => Ok(NodeId::from_index(index)),
            None => Err(PyValueError::new_err(format!("the graph has no node {node}"))),
        }
    }

    fn inputs(&self, inputs: &Bound<'_, PyList>) -> PyResult<Vec<Input>> {
        let edge =
            |item: &Bound<'_, PyAny>| -> PyResult<Input> { Ok(Input::Edge(endpoint(item.extract()?))) };
        let input = |item: Bound<'_, PyAny>| match item.cast::<PyList>() {
            Ok(list) => Ok(Input::List(list.iter().map(|item| edge(&item)).collect::<PyResult<_>>()?)),
            Err(_) => edge(&item),
        };
        inputs.iter().map(input).collect()
    }
}

#[pymethods]
impl PyGraph {
    /// An empty graph whose `GraphDef` says that `producer` made it.
    #[new]
    fn new(producer: i32) -> PyGraph {
        let graph = Graph::new();
        graph.build(|builder| builder.set_producer(producer));
        PyGraph { graph, building: ReentrantMutex::new(()), raised: Raised::default() }
    }

    fn __len__(&self) -> usize {
        self.apart(Graph::len)
    }

    /// Adds a node and gives its number. `inputs` has an output, or a list of them, for each argument of the op.
    #[pyo3(signature = (op, name, inputs, attrs, control_inputs, device=""))]
    #[expect(clippy::too_many_arguments, reason = "the parts of a node")]
    fn add_node(
        &self,
        py: Python<'_>,
        op: &str,
        name: &str,
        inputs: &Bound<'_, PyList>,
        attrs: &Bound<'_, PyDict>,
        control_inputs: Vec<u64>,
        device: &str,
    ) -> PyResult<usize> {
        let entry = catalogue::linked().find(op).ok_or_else(|| {
            PyValueError::new_err(format!("Op type not registered '{op}': tensorfleet has no such op"))
        })?;
        let signature = entry.signature().or_mistake()?;
        let mut node = NewNode::new(op).name(name).device(device);
        for (key, value) in attrs {
            let key: String = key.extract()?;
            let value = match signature.attr(&key) {
                Some(decl) => attributes::declared(&value, decl),
                None => attributes::undeclared(&value),
            };
            let value = value.map_err(|error| {
                PyTypeError::new_err(format!("attribute '{key}' of '{op}': {}", error.value(py)))
            })?;
            node = node.attr(key, value);
        }
        for input in self.inputs(inputs)? {
            node = node.input(input);
        }
        for control in control_inputs {
            node = node.control_input(self.node_index(control)?);
        }
        self.build(py, |builder| builder.add(node)).map(NodeId::index)
    }

    /// What is known of a node: `(name, op, device, inputs, control inputs, dtypes of the outputs)`; a reference's dtype is its
    /// number and 100.
    fn node(&self, py: Python<'_>, node: u64) -> PyResult<NodeParts> {
        let id = self.node_index(node)?;
        self.build(py, |builder| {
            let node = builder.node(id);
            let types = (0..builder.num_outputs(id) as u32)
                .map(|slot| Ok(builder.edge_type(Endpoint::new(id, slot))?.number()))
                .collect::<tensorfleet_core::Result<_>>()?;
            Ok((
                node.name.to_string(),
                node.op.to_string(),
                node.device.to_string(),
                node.inputs.iter().map(|&input| number(input)).collect(),
                node.control_inputs.iter().map(|control| control.index()).collect(),
                types,
            ))
        })
    }

    /// The number of the node called `name`.
    fn find(&self, py: Python<'_>, name: &str) -> PyResult<Option<usize>> {
        self.build(py, |builder| Ok(builder.graph().find(name).map(NodeId::index)))
    }

    /// The serialized `NodeDef` of a node.
    fn node_def<'py>(&self, py: Python<'py>, node: u64) -> PyResult<Bound<'py, PyBytes>> {
        let id = self.node_index(node)?;
        let def = self.build(py, |builder| Ok(builder.graph().node_def(id)))?;
        Ok(PyBytes::new(py, &def.encode_to_vec()))
    }

    /// The serialized `AttrValue` of an attribute of a node, if it has it.
    fn attr<'py>(&self, py: Python<'py>, node: u64, name: &str) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let id = self.node_index(node)?;
        let value =
            self.build(py, |builder| Ok(builder.node(id).attrs.get(name).map(Message::encode_to_vec)))?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    /// Sets an attribute of a node, from a serialized `AttrValue`.
    fn set_attr(&self, py: Python<'_>, node: u64, name: &str, value: &[u8]) -> PyResult<()> {
        let id = self.node_index(node)?;
        let value = Message::decode(value).map_err(|error| PyValueError::new_err(error.to_string()))?;
        self.build(py, |builder| builder.set_attr(id, name, value))
    }

    /// Sets the device of a node.
    fn set_device(&self, py: Python<'_>, node: u64, device: &str) -> PyResult<()> {
        let id = self.node_index(node)?;
        self.build(py, |builder| builder.set_device(id, device))
    }

    /// Adds control inputs to a node.
    fn add_control_inputs(&self, py: Python<'_>, node: u64, before: Vec<u64>) -> PyResult<()> {
        let id = self.node_index(node)?;
        let before = before.into_iter().map(|node| self.node_index(node)).collect::<PyResult<Vec<_>>>()?;
        self.build(py, |builder| builder.add_control_inputs(id, &before))
    }

    /// The shape of an output: a list with -1 for what is not known, or `None`.
    fn shape(&self, py: Python<'_>, output: u64) -> PyResult<Option<Vec<i64>>> {
        self.build(py, |builder| Ok(attributes::dims(builder.shape(endpoint(output))?)))
    }

    /// Adds what is known about the shape of an output.
    fn set_shape(&self, py: Python<'_>, output: u64, shape: &Bound<'_, PyAny>) -> PyResult<()> {
        let shape = attributes::shape(shape)?;
        self.build(py, |builder| builder.set_shape(endpoint(output), &shape))
    }

    /// The value of an output, if it is constant and was computed while the graph was built.
    fn constant_value(&self, py: Python<'_>, output: u64) -> PyResult<Option<Py<PyAny>>> {
        let value = self.build(py, |builder| Ok(builder.facts(endpoint(output))?.value.clone()))?;
        value.map(|value| arrays::to_array(py, value)).transpose()
    }

    /// The value of an output read as a shape, as far as it is known; `None` if not even its rank is.
    fn constant_value_as_shape(&self, py: Python<'_>, output: u64) -> PyResult<Option<Vec<i64>>> {
        self.build(py, |builder| {
            let facts = builder.facts(endpoint(output))?;
            Ok(facts.as_shape.as_ref().and_then(attributes::dims))
        })
    }

    /// The serialized `GraphDef` of the nodes from number `start` on.
    #[pyo3(signature = (start=0))]
    fn graph_def<'py>(&self, py: Python<'py>, start: usize) -> PyResult<Bound<'py, PyBytes>> {
        let def = self.build(py, |builder| {
            Ok(builder.export(start.min(builder.graph().len()), builder.graph().len()))
        })?;
        Ok(PyBytes::new(py, &def.encode_to_vec()))
    }

    /// The version of the producer.
    fn producer(&self, py: Python<'_>) -> PyResult<(i32, i32)> {
        self.build(py, |builder| {
            let versions = builder.graph().versions().cloned().unwrap_or_default();
            Ok((versions.producer, versions.min_consumer))
        })
    }

    /// Adds the nodes of a serialized `GraphDef` below `prefix`, with some inputs taken from this graph: `input_map` has pairs of
    /// a name in the definition (`node:0`, `^node`) and an output, or for a control input a node, of this graph. Gives the
    /// numbers of the first new node and the one after the last.
    fn import_graph_def(
        &self,
        py: Python<'_>,
        def: &[u8],
        prefix: &str,
        input_map: Vec<(String, u64)>,
    ) -> PyResult<(usize, usize)> {
        let def = GraphDef::decode(def)
            .map_err(|error| PyTypeError::new_err(format!("not a GraphDef: {error}")))?;
        let mut mapped = Vec::with_capacity(input_map.len());
        for (name, to) in input_map {
            mapped.push((name, endpoint(to)));
        }
        self.build(py, |builder| {
            let start = builder.graph().len();
            builder.import_mapped(def, prefix, &mapped)?;
            Ok((start, builder.graph().len()))
        })
    }

    /// Adds a serialized function library's functions.
    fn add_functions(&self, py: Python<'_>, library: &[u8]) -> PyResult<()> {
        let library = Message::decode(library).map_err(|error| PyValueError::new_err(error.to_string()))?;
        self.build(py, |builder| builder.add_functions(library))
    }

    /// How deep in scopes this thread is.
    fn depth(&self, py: Python<'_>) -> PyResult<usize> {
        self.build(py, |builder| Ok(builder.depth()))
    }

    /// Leaves all scopes deeper than `depth`.
    fn leave(&self, py: Python<'_>, depth: usize) -> PyResult<()> {
        self.build(py, |builder| {
            builder.leave(depth);
            Ok(())
        })
    }

    /// Enters a name scope and gives its prefix, without a slash at its end.
    fn enter_name_scope(&self, py: Python<'_>, name: &str) -> PyResult<String> {
        self.build(py, |builder| {
            builder.enter_name_scope(name)?;
            Ok(builder.name_scope().to_string())
        })
    }

    /// The prefix of new names, without a slash at its end.
    fn name_scope(&self, py: Python<'_>) -> PyResult<String> {
        self.build(py, |builder| Ok(builder.name_scope().to_string()))
    }

    /// A name that no node or scope has, inside the current scope; taken from now on if `mark` says so.
    fn unique_name(&self, py: Python<'_>, name: &str, mark: bool) -> PyResult<String> {
        self.build(py, |builder| Ok(builder.unique_name(name, mark)))
    }

    /// Enters a device scope: a specification, `None` to forget those around, or a function of a `NodeView`.
    fn enter_device(&self, py: Python<'_>, device: &Bound<'_, PyAny>) -> PyResult<()> {
        let scope = if device.is_none() {
            DeviceScope::Reset
        } else if let Ok(setter) = device.cast::<PyDeviceSetter>() {
            setter.get().scope(self.raised.clone())
        } else if device.is_callable() {
            device::scope(device.clone().unbind(), self.raised.clone())
        } else {
            match DeviceScope::from(device.extract::<String>()?) {
                DeviceScope::Invalid(status) => return Err(mistaken(&status)),
                valid => valid,
            }
        };
        self.build(py, |builder| {
            builder.enter_device(scope);
            Ok(())
        })
    }

    /// Makes new nodes run after these.
    fn enter_control_dependencies(&self, py: Python<'_>, before: Vec<u64>) -> PyResult<()> {
        let before = before.into_iter().map(|node| self.node_index(node)).collect::<PyResult<Vec<_>>>()?;
        self.build(py, |builder| {
            builder.enter_control_dependencies(before);
            Ok(())
        })
    }

    /// Forgets control dependencies, branches and loops around.
    fn enter_outside(&self, py: Python<'_>) -> PyResult<()> {
        self.build(py, |builder| {
            builder.enter_outside();
            Ok(())
        })
    }

    /// Forgets devices and colocations around.
    fn enter_anywhere(&self, py: Python<'_>) -> PyResult<()> {
        self.build(py, |builder| {
            builder.enter_anywhere();
            Ok(())
        })
    }

    /// Places new nodes where a node is.
    fn enter_colocation(&self, py: Python<'_>, node: u64) -> PyResult<()> {
        let node = self.node_index(node)?;
        self.build(py, |builder| {
            builder.enter_colocation(node);
            Ok(())
        })
    }

    /// The seeds of a random op that is built now.
    #[pyo3(signature = (own=None))]
    fn seeds(&self, own: Option<i64>) -> (Option<i64>, Option<i64>) {
        match self.apart(|graph| graph.seed_pair(own)) {
            Some((graph, op)) => (Some(graph), Some(op)),
            None => (None, None),
        }
    }

    /// Sets or forgets the seed of the graph.
    #[pyo3(signature = (seed))]
    fn set_random_seed(&self, seed: Option<i64>) {
        self.apart(|graph| graph.set_random_seed_or_none(seed));
    }
}
