//! Branches and loops under construction.

use parking_lot::Mutex;
use pyo3::prelude::*;
use tensorfleet_core::Endpoint;
use tensorfleet_kernel::builder::{Cond, Loop, LoopOptions};

use crate::attributes;
use crate::graph::{PyGraph, endpoint, number};

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyCond>()?;
    module.add_class::<PyLoop>()
}

/// The two branches of a condition.
#[pyclass(frozen, name = "Cond", module = "tensorfleet._native")]
struct PyCond(Cond);

/// A loop under construction.
#[pyclass(frozen, name = "Loop", module = "tensorfleet._native")]
struct PyLoop(Mutex<Loop>);

fn numbers(endpoints: &[Endpoint]) -> Vec<u64> {
    endpoints.iter().map(|&endpoint| number(endpoint)).collect()
}

fn endpoints(numbers: &[u64]) -> Vec<Endpoint> {
    numbers.iter().map(|&output| endpoint(output)).collect()
}

#[pymethods]
impl PyCond {
    /// Adds the nodes that choose a branch, inside the current name scope.
    #[new]
    fn new(py: Python<'_>, graph: &PyGraph, predicate: u64) -> PyResult<PyCond> {
        graph.build(py, |builder| builder.begin_cond(endpoint(predicate))).map(PyCond)
    }

    /// Enters a branch, until the graph leaves it.
    fn enter(&self, py: Python<'_>, graph: &PyGraph, is_true: bool) -> PyResult<()> {
        graph.build(py, |builder| {
            builder.enter_flow(if is_true { self.0.then } else { self.0.otherwise });
            Ok(())
        })
    }

    /// An output that is there if and only if a branch is taken.
    fn pivot(&self, py: Python<'_>, graph: &PyGraph, is_true: bool) -> PyResult<u64> {
        graph
            .build(py, |builder| Ok(builder.pivot(if is_true { self.0.then } else { self.0.otherwise })))
            .map(number)
    }

    /// A result of a branch, brought into it if it comes from around.
    fn result(&self, py: Python<'_>, graph: &PyGraph, is_true: bool, value: u64) -> PyResult<u64> {
        let branch = if is_true { self.0.then } else { self.0.otherwise };
        graph.build(py, |builder| builder.branch_result(branch, endpoint(value))).map(number)
    }

    /// Joins a value of each branch.
    fn join(&self, py: Python<'_>, graph: &PyGraph, if_true: u64, if_false: u64) -> PyResult<u64> {
        graph.build(py, |builder| builder.join(self.0, endpoint(if_true), endpoint(if_false))).map(number)
    }
}

#[pymethods]
impl PyLoop {
    /// Begins a loop over these values, inside the current name scope.
    #[new]
    fn new(
        py: Python<'_>,
        graph: &PyGraph,
        variables: Vec<u64>,
        parallel_iterations: i64,
        shape_invariants: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<PyLoop> {
        let shape_invariants = shape_invariants.iter().map(attributes::shape).collect::<PyResult<_>>()?;
        let options = LoopOptions { parallel_iterations, shape_invariants };
        let begun = graph.build(py, |builder| builder.begin_loop(&endpoints(&variables), &options))?;
        Ok(PyLoop(Mutex::new(begun)))
    }

    /// Enters the loop, until the graph leaves it.
    fn enter(&self, py: Python<'_>, graph: &PyGraph) -> PyResult<()> {
        let flow = self.0.lock().flow();
        graph.build(py, |builder| {
            builder.enter_flow(flow);
            Ok(())
        })
    }

    /// The variables as the condition sees them.
    fn variables(&self) -> Vec<u64> {
        numbers(self.0.lock().variables())
    }

    /// Ends the condition; gives the variables as the body sees them.
    fn condition(&self, py: Python<'_>, graph: &PyGraph, goes_on: u64) -> PyResult<Vec<u64>> {
        // Not held while the graph is waited for: another thread may hold the graph and ask for the loop.
        let mut the_loop = self.0.lock().clone();
        let inside = graph.build(py, |builder| builder.loop_condition(&mut the_loop, endpoint(goes_on)))?;
        *self.0.lock() = the_loop;
        Ok(numbers(&inside))
    }

    /// Ends the body with the values of the next iteration; gives those after the loop.
    fn end(&self, py: Python<'_>, graph: &PyGraph, next: Vec<u64>) -> PyResult<Vec<u64>> {
        let the_loop = self.0.lock().clone();
        let exits = graph.build(py, |builder| builder.end_loop(&the_loop, &endpoints(&next)))?;
        Ok(numbers(&exits))
    }

    /// Gives the loop up after an error.
    fn abandon(&self, py: Python<'_>, graph: &PyGraph) -> PyResult<()> {
        let the_loop = self.0.lock().clone();
        graph.build(py, |builder| {
            builder.abandon_loop(&the_loop);
            Ok(())
        })
    }
}
