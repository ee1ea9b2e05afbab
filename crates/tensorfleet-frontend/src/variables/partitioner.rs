//! [`Partitioner`]: into how many parts a variable is divided.

use std::fmt;
use std::sync::Arc;

use tensorfleet_core::{DType, Result, Shape, Status, ensure};

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

    /// The axis along which it divides.
    pub(super) fn along(&self) -> usize {
        self.axis
    }

    /// Where the parts of a variable begin along the axis, and how long they are.
    pub(super) fn extents(&self, name: &str, shape: &Shape, dtype: DType) -> Result<Vec<(usize, usize)>> {
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
