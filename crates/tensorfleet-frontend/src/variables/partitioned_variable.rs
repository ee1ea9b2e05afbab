//! [`PartitionedVariable`]: a variable in several parts, which may stand on different parameter servers.
//!
//! The parts are variables of their own, `NAME/part_0`, `NAME/part_1`, …; a [`Partitioner`] says how many there are. Checkpoints
//! hold the whole under `NAME`, so it may be restored in other parts, and by TensorFlow.

use std::fmt;
use std::sync::Arc;

use tensorfleet_core::{DType, Result, Shape, Status, ensure};

use super::variable::Variable;
use super::variable_scope::GetVariable;
use super::variable_slice::VariableSlice;
use crate::graph::{Graph, Output};

/// What an element of a string variable is taken to occupy; TensorFlow's number.
const BYTES_PER_STRING: u64 = 16;

/// How a variable is divided along one of its axes.
///
/// ```
/// # use tensorfleet::{Graph, Partitioner};
/// let g = Graph::new();
/// let table = g.get_variable("table").shape([7, 2]).partitioner(Partitioner::fixed_size(3)).build()?;
/// let shapes: Vec<String> = table.parts().iter().map(|part| part.shape().unwrap().to_string()).collect();
/// assert_eq!(shapes, ["[3,2]", "[2,2]", "[2,2]"]);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone)]
pub struct Partitioner {
    axis: usize,
    rule: Rule,
}

#[derive(Clone)]
enum Rule {
    FixedSize { parts: usize },
    AxisSize { max_part_bytes: u64, max_parts: Option<usize> },
    MinMax { max_parts: usize, min_part_bytes: u64 },
    By(Arc<PartsOf>),
}

type PartsOf = dyn Fn(&Shape, DType) -> usize + Send + Sync;

impl Partitioner {
    /// So many parts.
    pub fn fixed_size(parts: usize) -> Partitioner {
        Partitioner { axis: 0, rule: Rule::FixedSize { parts } }
    }

    /// As many parts as it takes for none to have more than so many bytes.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Partitioner};
    /// let g = Graph::new();
    /// // A row has 16 bytes, so a part has four rows.
    /// let v = g.get_variable("v").shape([7, 4]).partitioner(Partitioner::variable_axis_size(64)).build()?;
    /// assert_eq!(v.parts().len(), 2);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn variable_axis_size(max_part_bytes: u64) -> Partitioner {
        Partitioner { axis: 0, rule: Rule::AxisSize { max_part_bytes, max_parts: None } }
    }

    /// At most so many parts, and fewer if they would have less than 256 KiB.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Partitioner};
    /// let g = Graph::new();
    /// let small = g.get_variable("small").shape([100, 4]).partitioner(Partitioner::min_max(3)).build()?;
    /// let large = g.get_variable("large").shape([100_000, 4]).partitioner(Partitioner::min_max(3)).build()?;
    /// assert_eq!((small.parts().len(), large.parts().len()), (1, 3));
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn min_max(max_parts: usize) -> Partitioner {
        Partitioner { axis: 0, rule: Rule::MinMax { max_parts, min_part_bytes: 256 << 10 } }
    }

    /// As many parts as a function of shape and dtype says.
    pub fn by(parts: impl Fn(&Shape, DType) -> usize + Send + Sync + 'static) -> Partitioner {
        Partitioner { axis: 0, rule: Rule::By(Arc::new(parts)) }
    }

    /// Divides along this axis instead of the first.
    pub fn axis(mut self, axis: usize) -> Partitioner {
        self.axis = axis;
        self
    }

    /// The largest number of parts of [`Partitioner::variable_axis_size`].
    pub fn max_parts(mut self, count: usize) -> Partitioner {
        match &mut self.rule {
            Rule::AxisSize { max_parts, .. } => *max_parts = Some(count),
            Rule::MinMax { max_parts, .. } => *max_parts = count,
            Rule::FixedSize { .. } | Rule::By(_) => {}
        }
        self
    }

    /// The number of bytes below which [`Partitioner::min_max`] makes fewer parts.
    pub fn min_part_bytes(mut self, bytes: u64) -> Partitioner {
        if let Rule::MinMax { min_part_bytes, .. } = &mut self.rule {
            *min_part_bytes = bytes;
        }
        self
    }

    /// Where the parts of a variable begin along the axis, and how long they are.
    fn extents(&self, name: &str, shape: &Shape, dtype: DType) -> Result<Vec<(usize, usize)>> {
        let Some(&length) = shape.get(self.axis) else {
            return Err(Status::invalid_argument(format!(
                "Variable {name} of shape {shape} cannot be divided along axis {}",
                self.axis
            )));
        };
        let element = dtype.size().map_or(BYTES_PER_STRING, |size| size as u64);
        let bytes = (shape.num_elements() as u64).saturating_mul(element);
        let count = match &self.rule {
            Rule::FixedSize { parts } => *parts,
            Rule::AxisSize { max_part_bytes, max_parts } => {
                let slice_bytes = bytes.checked_div(length as u64).unwrap_or(0).max(1);
                let slices = usize::try_from(max_part_bytes / slice_bytes).unwrap_or(usize::MAX).max(1);
                length.div_ceil(slices).min(max_parts.unwrap_or(usize::MAX))
            }
            Rule::MinMax { max_parts, min_part_bytes } => {
                let wanted = bytes.div_ceil((*min_part_bytes).max(1));
                usize::try_from(wanted).unwrap_or(usize::MAX).min(*max_parts)
            }
            Rule::By(parts) => parts(shape, dtype),
        };
        ensure!(
            count > 0,
            InvalidArgument,
            "Variable {name} cannot be divided into no parts: ask for one or more"
        );
        let count = count.min(length.max(1));
        // What does not divide evenly goes to the first parts, one each.
        let (size, more) = (length / count, length % count);
        let mut start = 0;
        let extent = |part| {
            let length = size + usize::from(part < more);
            let extent = (start, length);
            start += length;
            extent
        };
        Ok((0..count).map(extent).collect())
    }
}

impl fmt::Debug for Partitioner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = match &self.rule {
            Rule::FixedSize { parts } => format!("{parts} parts"),
            Rule::AxisSize { max_part_bytes, .. } => format!("at most {max_part_bytes} bytes each"),
            Rule::MinMax { max_parts, min_part_bytes } => {
                format!("at most {max_parts} parts, of at least {min_part_bytes} bytes")
            }
            Rule::By(_) => "a function".to_string(),
        };
        write!(f, "Partitioner(axis {}, {rule})", self.axis)
    }
}

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

impl GetPartitionedVariable {
    pub(crate) fn new(whole: GetVariable, partitioner: Partitioner) -> GetPartitionedVariable {
        GetPartitionedVariable { whole, partitioner }
    }

    /// Makes or finds the parts.
    pub fn build(mut self) -> Result<PartitionedVariable> {
        let (name, shape, dtype) = self.whole.description()?;
        let axis = self.partitioner.axis;
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

/// A variable in several parts.
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
