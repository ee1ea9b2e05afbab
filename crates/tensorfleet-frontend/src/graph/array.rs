//! Shapes, slices, joins and gathers.

use std::ops::{Range, RangeFrom, RangeFull, RangeTo};

use tensorfleet_core::{Result, Status};

use super::graph::Graph;
use super::operand::{Operand, OperandList};
use super::output::Output;

impl Output {
    /// The shape as an int32 vector, computed when the graph runs.
    pub fn shape_tensor(&self) -> Result<Output> {
        self.unary("Shape")
    }

    /// The number of dimensions as an int32 scalar.
    pub fn rank(&self) -> Result<Output> {
        self.unary("Rank")
    }

    /// The number of elements as an int32 scalar.
    pub fn size(&self) -> Result<Output> {
        self.unary("Size")
    }

    /// The same elements under another shape; -1 stands for the size that fits.
    ///
    /// ```
    /// # use tensorfleet::Graph;
    /// let g = Graph::new();
    /// let rows = g.range(0, 6, 1)?.reshape([-1, 3])?;
    /// assert_eq!(rows.shape()?.to_string(), "[2,3]");
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn reshape(&self, shape: impl Operand) -> Result<Output> {
        self.binary("Reshape", shape)
    }

    /// The dimensions in another order.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let x = g.constant([[1, 2, 3], [4, 5, 6]]).transpose([1, 0])?;
    /// assert_eq!(Session::new(&g).run(&x)?.as_slice::<i32>()?, [1, 4, 2, 5, 3, 6]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn transpose(&self, permutation: impl Operand) -> Result<Output> {
        self.op("Transpose").input(permutation).name("transpose").output()
    }

    /// A dimension of size 1 inserted before `axis`.
    pub fn expand_dims(&self, axis: impl Operand) -> Result<Output> {
        self.binary("ExpandDims", axis)
    }

    /// Without those of `axes`, or of all axes if it is empty, that have size 1.
    pub fn squeeze(&self, axes: &[i64]) -> Result<Output> {
        self.op("Squeeze").attr("squeeze_dims", axes.to_vec()).output()
    }

    /// Repeated along each dimension.
    pub fn tile(&self, multiples: impl Operand) -> Result<Output> {
        self.binary("Tile", multiples)
    }

    /// The slices of the first dimension that `indices` name.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let rows = g.constant([[1, 2], [3, 4], [5, 6]]).gather([2, 0])?;
    /// assert_eq!(Session::new(&g).run(&rows)?.as_slice::<i32>()?, [5, 6, 1, 2]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn gather(&self, indices: impl Operand) -> Result<Output> {
        self.gather_along(indices, 0)
    }

    /// The slices along `axis` that `indices` name.
    pub fn gather_along(&self, indices: impl Operand, axis: impl Operand) -> Result<Output> {
        self.op("GatherV2").input(indices).input(axis).output()
    }

    /// A box of `size` from `begin`; -1 in `size` means to the end.
    pub fn slice(&self, begin: impl Operand, size: impl Operand) -> Result<Output> {
        self.op("Slice").input(begin).input(size).output()
    }

    /// One row of 0 and 1 (float) for each of these indices.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let rows = g.constant([1, 0]).one_hot(3)?;
    /// assert_eq!(Session::new(&g).run(&rows)?.as_slice::<f32>()?, [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn one_hot(&self, depth: impl Operand) -> Result<Output> {
        self.op("OneHot").input(depth).input(1.0f32).input(0.0f32).name("one_hot").output()
    }

    /// `count` equal parts along `axis`.
    pub fn split(&self, count: i64, axis: i32) -> Result<Vec<Output>> {
        let split = self.graph().op("Split").input(axis).input(self).attr("num_split", count).name("split");
        split.build()?.outputs()
    }

    /// The slices along the first dimension, whose size must be known.
    pub fn unstack(&self) -> Result<Vec<Output>> {
        let shape = self.shape()?;
        let count = shape.dim(0).ok_or_else(|| {
            Status::invalid_argument(format!("Cannot infer argument `num` from shape {shape}"))
        })?;
        self.op("Unpack").attr("num", count as i64).name("unstack").build()?.outputs()
    }

    /// A part, written as Python writes it: an index takes one slice and drops the dimension, a range keeps it, `..`
    /// takes all; [`NewAxis`] adds a dimension, [`Ellipsis`] stands for all dimensions not mentioned. Negative numbers
    /// count from the end.
    ///
    /// ```
    /// # use tensorfleet::{Ellipsis, Graph, Session};
    /// let g = Graph::new();
    /// let x = g.constant([[1, 2, 3], [4, 5, 6]]);
    /// let session = Session::new(&g);
    /// assert_eq!(session.run(x.index(1)?)?.as_slice::<i32>()?, [4, 5, 6]);
    /// assert_eq!(session.run(x.index((.., 1..))?)?.as_slice::<i32>()?, [2, 3, 5, 6]);
    /// assert_eq!(session.run(x.index((Ellipsis, -1))?)?.as_slice::<i32>()?, [3, 6]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn index(&self, indices: impl Indices) -> Result<Output> {
        let mut spec = Vec::new();
        indices.collect(&mut spec);
        let mut masks = [0i64; 5];
        let [begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_mask] = &mut masks;
        let (mut begin, mut end) = (Vec::with_capacity(spec.len()), Vec::with_capacity(spec.len()));
        for (position, index) in spec.iter().enumerate() {
            let bit = 1i64 << position;
            let (from, to) = match *index {
                Index::At(at) => {
                    *shrink_mask |= bit;
                    (Some(at), Some(at.wrapping_add(1)))
                }
                Index::Range(from, to) => {
                    *begin_mask |= if from.is_none() { bit } else { 0 };
                    *end_mask |= if to.is_none() { bit } else { 0 };
                    (from, to)
                }
                Index::NewAxis => {
                    *new_axis_mask |= bit;
                    (None, Some(1))
                }
                Index::Ellipsis => {
                    *ellipsis_mask |= bit;
                    (None, None)
                }
            };
            begin.push(from.unwrap_or(0));
            end.push(to.unwrap_or(0));
        }
        // The one before the end has no "one after" that is not 0: it ends where the dimension does.
        for (position, index) in spec.iter().enumerate() {
            if *index == Index::At(-1) {
                masks[1] |= 1 << position;
            }
        }
        self.strided_slice(begin, end, vec![1; spec.len()], masks)
    }

    fn strided_slice(
        &self,
        begin: Vec<i32>,
        end: Vec<i32>,
        strides: Vec<i32>,
        masks: [i64; 5],
    ) -> Result<Output> {
        let graph = self.graph();
        let [begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_mask] = masks;
        graph.name_scope("strided_slice", || {
            let scope = graph.build(|builder| builder.name_scope().to_string());
            let bounds: Vec<Output> = [begin, end, strides]
                .into_iter()
                .map(|bound| graph.constant_named("stack", bound).check())
                .collect::<Result<_>>()?;
            let [begin, end, strides] = &bounds[..] else {
                return Err(Status::internal("three bounds were made"));
            };
            self.op("StridedSlice")
                .input(begin)
                .input(end)
                .input(strides)
                .attr("begin_mask", begin_mask)
                .attr("end_mask", end_mask)
                .attr("ellipsis_mask", ellipsis_mask)
                .attr("new_axis_mask", new_axis_mask)
                .attr("shrink_axis_mask", shrink_mask)
                .name(&format!("{scope}/"))
                .output()
        })
    }
}

/// In [`Output::index`]: a new dimension of size 1.
///
/// ```
/// # use tensorfleet::{Graph, NewAxis};
/// let g = Graph::new();
/// let column = g.constant([1, 2, 3]).index((.., NewAxis))?;
/// assert_eq!(column.shape()?.to_string(), "[3,1]");
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct NewAxis;

/// In [`Output::index`], which has an example: all dimensions that are not mentioned.
#[derive(Clone, Copy, Debug)]
pub struct Ellipsis;

/// One part of an index, for those that a program puts together; others are written as [`Output::index`] shows.
///
/// ```
/// # use tensorfleet::{Graph, Index, Session};
/// let g = Graph::new();
/// let x = g.constant([[1, 2], [3, 4]]);
/// let first_column = x.index(vec![Index::Range(None, None), Index::At(0)])?;
/// assert_eq!(Session::new(&g).run(&first_column)?.as_slice::<i32>()?, [1, 3]);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// One slice; the dimension goes.
    At(i32),
    /// From, to; all if not given.
    Range(Option<i32>, Option<i32>),
    /// A new dimension.
    NewAxis,
    /// All dimensions that are not mentioned.
    Ellipsis,
}

/// What can stand in [`Output::index`]: an index, a range, `..`, [`NewAxis`], [`Ellipsis`], or a tuple of these.
pub trait Indices {
    /// Appends the parts.
    fn collect(self, indices: &mut Vec<Index>);
}

macro_rules! single_indices {
    ($($rust:ty => |$value:ident| $index:expr;)*) => {$(
        impl Indices for $rust {
            fn collect(self, indices: &mut Vec<Index>) {
                let $value = self;
                indices.push($index);
            }
        }
    )*};
}

single_indices! {
    i32 => |at| Index::At(at);
    Range<i32> => |range| Index::Range(Some(range.start), Some(range.end));
    RangeFrom<i32> => |range| Index::Range(Some(range.start), None);
    RangeTo<i32> => |range| Index::Range(None, Some(range.end));
    RangeFull => |_all| Index::Range(None, None);
    NewAxis => |_axis| Index::NewAxis;
    Ellipsis => |_rest| Index::Ellipsis;
    Index => |index| index;
}

impl Indices for Vec<Index> {
    fn collect(self, indices: &mut Vec<Index>) {
        indices.extend(self);
    }
}

macro_rules! tuple_indices {
    ($($name:ident),*) => {
        impl<$($name: Indices),*> Indices for ($($name,)*) {
            #[allow(non_snake_case)]
            fn collect(self, indices: &mut Vec<Index>) {
                let ($($name,)*) = self;
                $($name.collect(indices);)*
            }
        }
    };
}

tuple_indices!(A, B);
tuple_indices!(A, B, C);
tuple_indices!(A, B, C, D);
tuple_indices!(A, B, C, D, E);

impl Graph {
    /// Values joined along `axis`.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let (a, b) = (g.constant([1, 2]), g.constant([3, 4]));
    /// let (joined, stacked) = (g.concat([&a, &b], 0)?, g.stack([&a, &b])?);
    /// assert_eq!(Session::new(&g).run(&joined)?.as_slice::<i32>()?, [1, 2, 3, 4]);
    /// assert_eq!(stacked.shape()?.to_string(), "[2,2]");
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn concat(&self, values: impl OperandList, axis: impl Operand) -> Result<Output> {
        let mut values = values.into_args();
        // The op takes at least two; one is what it is, as in TensorFlow.
        if values.len() == 1
            && let Some(only) = values.pop()
        {
            return only.into_output(self, "values_0", None)?.identity();
        }
        self.op("ConcatV2").name("concat").inputs(values).input(axis).output()
    }

    /// Values of one shape stacked along a new first dimension.
    pub fn stack(&self, values: impl OperandList) -> Result<Output> {
        self.op("Pack").inputs(values).name("stack").output()
    }

    /// The sum of values of one shape.
    pub fn add_n(&self, values: impl OperandList) -> Result<Output> {
        self.op("AddN").inputs(values).output()
    }
}

impl Output {
    /// The rows (elements along the first dimensions) for which the bool `mask` is true.
    pub fn boolean_mask(&self, mask: &Output) -> Result<Output> {
        let graph = self.graph();
        graph.name_scope("boolean_mask", || {
            let rank = mask.shape()?.rank().ok_or_else(|| {
                Status::invalid_argument(
                    "The number of dimensions of a mask must be known, even if its sizes are not",
                )
            })?;
            let masked = i32::try_from(rank).unwrap_or(i32::MAX);
            let count = static_shape(self)?.index(..masked)?.reduce_prod([0])?;
            let before = static_shape(self)?.index(..0)?;
            let after = static_shape(self)?.index(masked..)?;
            let count = count.op("Pack").attr("N", 1i64).name("concat/values_1").output()?;
            let shape = graph.concat([before, count, after], 0)?;
            let rows = self.reshape(shape)?;
            let chosen = mask.reshape([-1])?.where_true()?.squeeze(&[1])?;
            graph.op("GatherV2").input(rows).input(chosen).input(0).output()
        })
    }
}

/// The shape as a value: a constant if it is known.
pub(crate) fn static_shape(value: &Output) -> Result<Output> {
    match value.shape()?.to_shape() {
        Some(shape) => {
            let dims: Vec<i32> = shape.iter().map(|&dim| dim as i32).collect();
            value.graph().constant_named("Shape", dims).check()
        }
        None => value.graph().op("Shape").input(value).output(),
    }
}
