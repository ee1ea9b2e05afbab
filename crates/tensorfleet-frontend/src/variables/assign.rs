//! Reading and changing variables.

use tensorfleet_core::Result;

use crate::graph::{Operand, Output, Variable, VariableKind};

impl Variable {
    /// Its value read anew, beside the variable: after what control dependencies around it name.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let counter = g.variable("counter", 0);
    /// let count = counter.assign_add(1)?.operation();
    /// let counted = g.control_dependencies([&count], || counter.read_value())?;
    /// let session = Session::new(&g);
    /// session.run(counter.initializer())?;
    /// assert_eq!(session.run(&counted)?.to_scalar::<i32>()?, 1);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn read_value(&self) -> Result<Output> {
        match self.is_resource() {
            true => self.value().check(),
            false => {
                let handle = self.handle();
                self.graph().colocate_with(&handle, || handle.op("Identity").name("read").output())
            }
        }
    }

    /// Sets the value; gives the new one.
    pub fn assign(&self, value: impl Operand) -> Result<Output> {
        self.update("Assign", "AssignVariableOp", value)
    }

    /// Adds to the value; gives the new one.
    pub fn assign_add(&self, value: impl Operand) -> Result<Output> {
        self.update("AssignAdd", "AssignAddVariableOp", value)
    }

    /// Subtracts from the value; gives the new one.
    pub fn assign_sub(&self, value: impl Operand) -> Result<Output> {
        self.update("AssignSub", "AssignSubVariableOp", value)
    }

    fn update(&self, reference_op: &str, resource_op: &str, value: impl Operand) -> Result<Output> {
        let parts = self.parts()?;
        match parts.kind {
            VariableKind::Reference => {
                self.graph().op(reference_op).input(self.handle()).input(value).output()
            }
            VariableKind::Resource => {
                let value = value.into_arg().into_output(self.graph(), "Const", Some(parts.dtype))?;
                let update = self.graph().op(resource_op).input(self.handle()).input(value).build()?;
                let read = self.graph().op("ReadVariableOp").attr("dtype", parts.dtype);
                self.graph().control_dependencies([update], || read.input(self.handle()).output())
            }
        }
    }

    /// The rows with these indices, looked up where the variable is: only they travel. Their gradient is sparse
    /// ([`Gradient::Slices`](crate::Gradient::Slices)).
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let table = g.variable("table", [[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    /// let rows = table.gather([2, 0])?;
    /// let session = Session::new(&g);
    /// session.run(table.initializer())?;
    /// assert_eq!(session.run(&rows)?.as_slice::<f32>()?, [5.0, 6.0, 1.0, 2.0]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn gather(&self, indices: impl Operand) -> Result<Output> {
        let graph = self.graph();
        graph.colocate_with(self, || match self.is_resource() {
            false => graph.op("GatherV2").input(self).input(indices).input(0).output(),
            true => {
                let rows = graph.op("ResourceGather").input(self).input(indices).attr("dtype", self.dtype()?);
                rows.output()?.identity()
            }
        })
    }

    /// Whether it has a value, as a bool scalar.
    pub fn is_initialized(&self) -> Result<Output> {
        let op = if self.is_resource() { "VarIsInitializedOp" } else { "IsVariableInitialized" };
        self.graph().op(op).input(self.handle()).output()
    }
}
