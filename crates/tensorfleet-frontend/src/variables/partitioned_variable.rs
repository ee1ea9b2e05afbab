//! [`PartitionedVariable`]: a variable in several parts, which may stand on different parameter servers.
//!
//! The parts are variables of their own, `NAME/part_0`, `NAME/part_1`, …; a [`Partitioner`] says how many there are. Checkpoints
//! hold the whole under `NAME`, so it may be restored in other parts, and by TensorFlow.

use std::fmt;
use std::sync::Arc;

use tensorfleet_core::{DType, Result, Shape};

use super::get_variable::GetVariable;
use super::partitioner::Partitioner;
use crate::graph::{Graph, Output, Variable, VariableSlice};

/// A partitioned variable about to be made or found; see [`GetVariable::partitioner`]. If it starts with a value, each part starts
/// with its part of it:
///
/// ```
/// # use tensorfleet::{Graph, Partitioner, Session};
/// let g = Graph::new();
/// let v = g.get_variable("v").value([1.0f32, 2.0, 3.0]).partitioner(Partitioner::fixed_size(2)).build()?;
/// let session = Session::new(&g);
/// session.run(g.global_variables_initializer()?)?;
/// assert_eq!(session.run(&v.parts()[1])?.as_slice::<f32>()?, [3.0]);
/// assert!(g.get_variable("w").shape([3]).value([1.0f32]).partitioner(Partitioner::fixed_size(2)).build().is_err());
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[must_use = "nothing is added to the graph before `build`"]
pub struct GetPartitionedVariable {
    whole: GetVariable,
    partitioner: Partitioner,
}

impl GetVariable {
    /// Divides the variable: what is built is a [`PartitionedVariable`].
    pub fn partitioner(self, partitioner: Partitioner) -> GetPartitionedVariable {
        GetPartitionedVariable { whole: self, partitioner }
    }
}

impl GetPartitionedVariable {
    /// Makes or finds the parts.
    pub fn build(mut self) -> Result<PartitionedVariable> {
        let (name, shape, dtype) = self.whole.description()?;
        let axis = self.partitioner.along();
        let mut parts = Vec::new();
        for (index, (start, length)) in
            self.partitioner.extents(&name, &shape, dtype)?.into_iter().enumerate()
        {
            let slice = VariableSlice::along(&name, &shape, axis, start, length)?;
            parts.push(self.whole.part(&format!("part_{index}"), slice)?.build()?);
        }
        let graph = self.whole.graph().clone();
        Ok(PartitionedVariable { graph, name, shape, dtype, axis, parts: parts.into() })
    }
}

/// A variable in several parts. It is saved whole and may be restored in others; a table that is looked up with
/// [`PartitionStrategy::Mod`](crate::PartitionStrategy::Mod) should not be, since the rows of its ids depend on the number of parts.
///
/// ```
/// # use tensorfleet::{Graph, Initializer, Partitioner, Session, replica_device_setter};
/// let g = Graph::new();
/// let table = g.device(replica_device_setter().ps_tasks(2), || {
///     g.get_variable("table").shape([1000, 8]).partitioner(Partitioner::fixed_size(2)).build()
/// })?;
/// let devices: Vec<String> = table.parts().iter().map(|part| part.device()).collect();
/// assert_eq!(devices, ["/job:ps/task:0", "/job:ps/task:1"]);
/// assert_eq!(table.value()?.shape()?.to_string(), "[1000,8]");
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone)]
pub struct PartitionedVariable {
    graph: Graph,
    name: String,
    shape: Shape,
    dtype: DType,
    axis: usize,
    parts: Arc<[Variable]>,
}

impl PartitionedVariable {
    /// The graph it belongs to.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The name of the whole, under which it is saved.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The shape of the whole.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The dtype of its values.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The axis along which it is divided.
    pub fn axis(&self) -> usize {
        self.axis
    }

    /// The parts, in their order.
    pub fn parts(&self) -> &[Variable] {
        &self.parts
    }

    /// The whole, put together: all parts travel to where this is built. [`Graph::embedding_lookup`] moves only rows.
    pub fn value(&self) -> Result<Output> {
        match &*self.parts {
            [only] => only.value().check(),
            parts => self.graph.name_scope(&format!("{}/ConcatPartitions/", self.name), || {
                self.graph.concat(parts, i32::try_from(self.axis).unwrap_or(i32::MAX))
            }),
        }
    }
}

impl fmt::Debug for PartitionedVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartitionedVariable({}, shape={}, {} parts)", self.name, self.shape, self.parts.len())
    }
}
