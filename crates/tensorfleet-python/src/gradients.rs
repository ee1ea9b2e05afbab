//! Gradients of outputs.

use pyo3::prelude::*;
use tensorfleet_core::Endpoint;
use tensorfleet_kernel::gradients::{self as engine, Gate, Grad, GradientOptions};

use crate::graph::{PyGraph, endpoint, number};

/// A gradient: one output, or the values, indices and dense shape of slices.
type Gradient = Vec<u64>;

#[pymethods]
impl PyGraph {
    /// The gradients of the sum of `ys` with respect to `xs`: for each an output, three of them for slices, or `None`.
    #[pyo3(signature = (ys, xs, grad_ys, stop_gradients, colocate, gate, name))]
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
        };
        let (ys, xs) = (all(ys), all(xs));
        let found = self.build(py, |builder| engine::gradients(builder, &ys, &xs, &options))?;
        let numbered = |grad: Grad| match grad {
            Grad::Dense(output) => vec![number(output)],
            Grad::Slices { values, indices, dense_shape } => [values, indices, dense_shape].map(number).to_vec(),
        };
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
