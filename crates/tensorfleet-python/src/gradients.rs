//! Gradients of outputs.

use std::collections::HashSet;
use std::sync::Arc;

use pyo3::exceptions::PyLookupError;
use pyo3::prelude::*;
use tensorfleet::Graph;
use tensorfleet_core::{Code, Endpoint};
use tensorfleet_kernel::gradients::{
    self as engine, CustomGradients, Differential, Gate, Grad, GradientOptions,
};

use crate::callbacks;
use crate::graph::{PyGraph, endpoint, number};

/// A gradient: one output, or the values, indices and dense shape of slices.
type Gradient = Vec<u64>;

/// Gradients that Python defines: `build(op, node, arriving)` gives the gradients of the node's inputs.
#[derive(Debug)]
struct Defined {
    graph: Graph,
    /// The ops that have one.
    ops: HashSet<String>,
    build: Py<PyAny>,
}

fn numbered(grad: Grad) -> Gradient {
    match grad {
        Grad::Dense(output) => vec![number(output)],
        Grad::Slices { values, indices, dense_shape } => [values, indices, dense_shape].map(number).to_vec(),
    }
}

impl CustomGradients for Defined {
    fn defines(&self, op: &str) -> bool {
        self.ops.contains(op)
    }

    fn differentiate(
        &self,
        op: &str,
        differential: &mut Differential<'_>,
    ) -> tensorfleet_core::Result<Vec<Option<Grad>>> {
        let node = differential.node_id();
        let count = differential.builder().num_outputs(node);
        let arriving: Vec<Option<Gradient>> =
            (0..count).map(|slot| differential.arriving(slot).map(numbered)).collect();
        let built = self.graph.lend(differential.builder(), || {
            Python::attach(|py| -> PyResult<Vec<Option<Gradient>>> {
                self.build.bind(py).call1((op, node.index(), arriving))?.extract()
            })
        });
        let grads = built.map_err(callbacks::keep)?;
        Ok(grads.into_iter().map(|grad| grad.as_deref().and_then(unnumbered)).collect())
    }
}

fn unnumbered(numbers: &[u64]) -> Option<Grad> {
    match *numbers {
        [output] => Some(Grad::Dense(endpoint(output))),
        [values, indices, dense_shape] => Some(Grad::Slices {
            values: endpoint(values),
            indices: endpoint(indices),
            dense_shape: endpoint(dense_shape),
        }),
        _ => None,
    }
}

#[pymethods]
impl PyGraph {
    /// The gradients of the sum of `ys` with respect to `xs`: for each an output, three of them for slices, or `None`.
    /// `defined` names the ops whose gradients Python defines, and the function that builds them.
    #[pyo3(signature = (ys, xs, grad_ys, stop_gradients, colocate, gate, name, defined=None))]
    #[expect(clippy::too_many_arguments, reason = "those of tf.gradients")]
    fn gradients(
        &self,
        py: Python<'_>,
        ys: Vec<u64>,
        xs: Vec<u64>,
        grad_ys: Vec<Option<u64>>,
        stop_gradients: Vec<u64>,
        colocate: bool,
        gate: &str,
        name: &str,
        defined: Option<(HashSet<String>, Py<PyAny>)>,
    ) -> PyResult<Vec<Option<Gradient>>> {
        let all = |numbers: Vec<u64>| -> Vec<Endpoint> { numbers.into_iter().map(endpoint).collect() };
        let options = GradientOptions {
            grad_ys: grad_ys.into_iter().map(|grad| grad.map(endpoint)).collect(),
            stop_gradients: all(stop_gradients),
            colocate_with_ops: colocate,
            gate: match gate {
                "op" => Gate::Op,
                "graph" => Gate::Graph,
                _ => Gate::None,
            },
            name: name.to_string(),
            custom: defined.map(|(ops, build)| -> Arc<dyn CustomGradients> {
                Arc::new(Defined { graph: self.graph.clone(), ops, build })
            }),
        };
        let (ys, xs) = (all(ys), all(xs));
        let found = self.build(py, |builder| {
            engine::gradients(builder, &ys, &xs, &options).map_err(|status| match status.code() {
                Code::NotFound => callbacks::keep(PyLookupError::new_err(status.text().to_string())),
                _ => status,
            })
        })?;
        Ok(found.into_iter().map(|grad| grad.map(numbered)).collect())
    }

    /// A gradient of slices as a dense output.
    fn densify(&self, py: Python<'_>, values: u64, indices: u64, dense_shape: u64) -> PyResult<u64> {
        let slices = Grad::Slices {
            values: endpoint(values),
            indices: endpoint(indices),
            dense_shape: endpoint(dense_shape),
        };
        self.build(py, |builder| engine::densify(builder, slices)).map(number)
    }
}
