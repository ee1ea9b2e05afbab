//! [`KnownValue`]: what is known of a value before anything runs.
//!
//! Shapes are computed by graphs, too: `reshape(x, concat(shape(y)[:1], [-1]))`. Ops that programs take shapes apart and put them
//! together with have a rule beside their kernel ([`Op::known_value`](crate::op::Op::known_value)), as TensorFlow's shape refiner
//! knows them.

use tensorfleet_core::{DType, Dim, PartialShape, Tensor};

use crate::shape_context::{ShapeContext, integers_of};

/// Shape arithmetic works on a handful of numbers; anything larger is data, and is left to the run.
pub const MAX_KNOWN_ELEMENTS: usize = 1024;

/// What is known of the value of an output.
#[derive(Clone, Debug)]
pub enum KnownValue {
    /// All of it.
    Whole(Tensor),
    /// A vector of integers, read as a shape, of which some are known.
    Shape(PartialShape),
}

impl KnownValue {
    /// A scalar of dtype int32 or int64.
    pub fn integer(dtype: DType, value: usize) -> Option<KnownValue> {
        let tensor = match dtype {
            DType::Int32 => Tensor::scalar(i32::try_from(value).ok()?),
            DType::Int64 => Tensor::scalar(i64::try_from(value).ok()?),
            _ => return None,
        };
        Some(KnownValue::Whole(tensor))
    }
}

impl ShapeContext<'_> {
    /// The elements of an integer vector as dimensions, where at least their number is known.
    pub fn known_dims(&self, index: usize) -> Option<Vec<Dim>> {
        if let Some(value) = self.value(index) {
            let values = integers_of(value).ok()?;
            return Some(values.into_iter().map(|value| usize::try_from(value).ok()).collect());
        }
        match (self.as_shape(index), self.input(index).dims()) {
            (Some(shape), _) => shape.dims().map(<[Dim]>::to_vec),
            (None, Some([Some(len)])) if *len <= MAX_KNOWN_ELEMENTS => Some(vec![None; *len]),
            _ => None,
        }
    }

    /// Whether the first output is of integers that may be a shape.
    pub fn gives_shape(&self) -> bool {
        self.node.outputs.first().is_some_and(|edge| is_integer(edge.dtype))
    }
}

/// Whether shapes are written in this dtype.
pub fn is_integer(dtype: DType) -> bool {
    matches!(dtype, DType::Int32 | DType::Int64)
}
