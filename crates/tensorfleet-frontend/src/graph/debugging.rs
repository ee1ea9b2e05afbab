//! Looking into a running graph, and stopping it where a value is wrong.

use tensorfleet_core::Result;

use super::graph::Graph;
use super::operand::{Operand, OperandList};
use super::operation::Operation;
use super::output::Output;

impl Output {
    /// The same value; each run that uses it prints `message` and the first elements of `data` on the standard error of the task.
    pub fn print(&self, data: impl OperandList, message: &str) -> Result<Output> {
        self.op("Print").inputs(data).attr("message", message).output()
    }

    /// The same value; a run in which it has an infinite element or a NaN fails with `message`.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let x = g.constant([1.0f32, 0.0]);
    /// let checked = (1.0 / &x).check_numerics("1/x")?;
    /// assert!(Session::new(&g).run(&checked).unwrap_err().message().contains("1/x"));
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn check_numerics(&self, message: &str) -> Result<Output> {
        self.op("CheckNumerics").attr("message", message).output()
    }
}

impl Graph {
    /// An operation that fails, and shows `data`, unless `condition` is true.
    pub fn assert(&self, condition: impl Operand, data: impl OperandList) -> Result<Operation> {
        self.op("Assert").input(condition).inputs(data).build()
    }
}
