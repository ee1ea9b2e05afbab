//! Synchronous training: the library's graph around an optimizer of Python.

use pyo3::prelude::*;
use pyo3::types::PyList;
use tensorfleet::train::{Optimizer, SyncReplicasOptimizer};
use tensorfleet::{Gradient, Graph, IndexedSlices, Operation, Result, Variable};
use tensorfleet_core::Status;

use crate::callbacks;
use crate::errors::OrRaise;
use crate::graph::{PyGraph, number};
use crate::variable::PyVariable;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PySyncReplicas>()
}

/// An optimizer of Python as one of the library: `apply(gradients, global_step, name)` gives the node of the train op, where
/// `gradients` are pairs of numbers of outputs (none, one, or three for slices) and the position of a variable.
struct PythonOptimizer {
    name: String,
    apply: Py<PyAny>,
}

fn numbers(gradient: Option<&Gradient>) -> Result<Vec<u64>> {
    let at = |output: &tensorfleet::Output| output.endpoint().map(number);
    match gradient {
        None => Ok(Vec::new()),
        Some(Gradient::Dense(output)) => Ok(vec![at(output)?]),
        Some(Gradient::Slices(rows)) => {
            Ok(vec![at(&rows.values)?, at(&rows.indices)?, at(&rows.dense_shape)?])
        }
    }
}

impl Optimizer for PythonOptimizer {
    fn get_name(&self) -> &str {
        &self.name
    }

    fn apply_gradients_named(
        &self,
        gradients: &[(Option<Gradient>, Variable)],
        global_step: Option<&Variable>,
        _name: Option<&str>,
    ) -> Result<Operation> {
        let Some(global_step) = global_step else {
            return Err(Status::internal("synchronous training counts its rounds"));
        };
        let all: Vec<Vec<u64>> =
            gradients.iter().map(|(gradient, _)| numbers(gradient.as_ref())).collect::<Result<_>>()?;
        let node = Python::attach(|py| self.apply.bind(py).call1((all,))?.extract::<usize>());
        let node = node.map_err(callbacks::keep)?;
        Ok(global_step.graph().operation_at(tensorfleet_core::NodeId::from_index(node)))
    }

    fn get_slot(&self, _variable: &Variable, _slot: &str) -> Option<Variable> {
        None
    }

    fn get_slot_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn variables(&self) -> Vec<Variable> {
        Vec::new()
    }
}

/// The graph of synchronous training. Its optimizer and what follows a round are functions of Python.
#[pyclass(frozen, name = "SyncReplicas", module = "tensorfleet._native")]
struct PySyncReplicas(SyncReplicasOptimizer);

fn node(operation: Result<Operation>) -> PyResult<usize> {
    Ok(operation.and_then(|operation| operation.node()).or_mistake()?.index())
}

#[pymethods]
impl PySyncReplicas {
    /// `apply` builds the train op of the optimizer from gradients; `after_round` builds what follows each round, if something does;
    /// `ready_for` are the variables that the package lists as global.
    #[new]
    fn new(
        apply: Py<PyAny>,
        optimizer: &str,
        replicas_to_aggregate: usize,
        total_num_replicas: usize,
        name: &str,
        after_round: Option<Py<PyAny>>,
        ready_for: Vec<Py<PyVariable>>,
    ) -> PySyncReplicas {
        let inner = PythonOptimizer { name: optimizer.to_string(), apply };
        let mut sync = SyncReplicasOptimizer::new(inner, replicas_to_aggregate);
        sync = sync.total_num_replicas(total_num_replicas).name(name);
        sync = sync.ready_for(ready_for.iter().map(|variable| variable.get().0.clone()).collect());
        if let Some(build) = after_round {
            sync = sync.after_round(move |graph: &Graph| {
                let node = Python::attach(|py| build.bind(py).call0()?.extract::<usize>());
                Ok(graph.operation_at(tensorfleet_core::NodeId::from_index(node.map_err(callbacks::keep)?)))
            });
        }
        PySyncReplicas(sync)
    }

    /// Builds the graph: `gradients` has pairs of the numbers of a gradient's outputs (none, one, or three for slices) and its
    /// variable. Gives the node of the train op.
    fn apply_gradients(
        &self,
        py: Python<'_>,
        graph: &PyGraph,
        gradients: &Bound<'_, PyList>,
        global_step: &PyVariable,
        name: Option<&str>,
    ) -> PyResult<usize> {
        let mut pairs = Vec::with_capacity(gradients.len());
        for pair in gradients {
            let (outputs, variable) = pair.extract::<(Vec<u64>, Py<PyVariable>)>()?;
            let gradient = match *outputs.as_slice() {
                [whole] => Some(Gradient::Dense(graph.output(whole))),
                [values, indices, dense_shape] => Some(Gradient::Slices(IndexedSlices {
                    values: graph.output(values),
                    indices: graph.output(indices),
                    dense_shape: graph.output(dense_shape),
                })),
                _ => None,
            };
            pairs.push((gradient, variable.get().0.clone()));
        }
        let train =
            graph.locked(py, |_| self.0.apply_gradients_named(&pairs, Some(&global_step.0), name)?.node())?;
        Ok(train.index())
    }

    /// The node that gives out the first tokens.
    fn init_tokens_op(&self, py: Python<'_>, graph: &PyGraph, num_tokens: Option<usize>) -> PyResult<usize> {
        Ok(graph.locked(py, |_| self.0.get_init_tokens_op(num_tokens)?.node())?.index())
    }

    fn chief_init_op(&self) -> PyResult<usize> {
        node(self.0.chief_init_op())
    }

    fn local_step_init_op(&self) -> PyResult<usize> {
        node(self.0.local_step_init_op())
    }

    fn close_tokens_op(&self) -> PyResult<usize> {
        node(self.0.close_tokens_op())
    }

    fn ready_for_local_init_op(&self) -> PyResult<u64> {
        Ok(number(self.0.ready_for_local_init_op().and_then(|output| output.endpoint()).or_mistake()?))
    }

    fn is_closed(&self) -> PyResult<u64> {
        Ok(number(self.0.is_closed().and_then(|output| output.endpoint()).or_mistake()?))
    }

    fn local_step(&self) -> PyResult<PyVariable> {
        self.0.local_step().map(PyVariable).or_mistake()
    }

    /// What applies the rounds: the queue's name, the nodes that its threads run, the one for the end, the one for a stop.
    fn chief_queue_runner(&self) -> PyResult<(String, Vec<usize>, usize, usize)> {
        let runner = self.0.get_chief_queue_runner().or_mistake()?;
        let index = |operation: Operation| node(Ok(operation));
        let enqueue = runner.enqueue_ops().into_iter().map(index).collect::<PyResult<_>>()?;
        Ok((runner.name().to_string(), enqueue, index(runner.close_op())?, index(runner.cancel_op())?))
    }
}
