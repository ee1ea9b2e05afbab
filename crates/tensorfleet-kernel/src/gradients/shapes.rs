//! What gradient functions of arrays build with: answers in short, and arithmetic on shapes and indices.

use tensorfleet_core::{DType, Endpoint, Result, Tensor};

use super::aggregate::Grad;
use super::differential::Differential;
use crate::builder::{Input, NewNode};

/// What a gradient function gives: for each data input what flows back to it.
pub type Grads = Vec<Option<Grad>>;

impl From<Endpoint> for Grad {
    fn from(whole: Endpoint) -> Grad {
        Grad::Dense(whole)
    }
}

impl Differential<'_> {
    /// The answer of a node of which only input `index` has a gradient.
    pub fn only(&self, index: usize, gradient: impl Into<Grad>) -> Result<Grads> {
        self.several([(index, gradient.into())])
    }

    /// The answer of a node of which only these inputs have gradients.
    pub fn several<G: Into<Grad>>(&self, gradients: impl IntoIterator<Item = (usize, G)>) -> Result<Grads> {
        let mut answer = vec![None; self.node().inputs.len()];
        for (index, gradient) in gradients {
            if let Some(place) = answer.get_mut(index) {
                *place = Some(gradient.into());
            }
        }
        Ok(answer)
    }

    /// A constant int32 scalar.
    pub fn int(&mut self, value: i32) -> Result<Endpoint> {
        self.constant(Tensor::scalar(value))
    }

    /// A constant int32 vector.
    pub fn ints(&mut self, values: &[i32]) -> Result<Endpoint> {
        self.constant(Tensor::vector(values)?)
    }

    /// The shape of `value` as a vector of `dtype`, int32 or int64.
    pub fn shape_as(&mut self, value: Endpoint, dtype: DType) -> Result<Endpoint> {
        let shape = self.shape_of(value)?;
        self.cast(shape, dtype)
    }

    /// The rank of `value` as an int32 scalar.
    pub fn rank_of(&mut self, value: Endpoint) -> Result<Endpoint> {
        match self.shape(value)?.rank().and_then(|rank| i32::try_from(rank).ok()) {
            Some(rank) => self.int(rank),
            None => self.op("Rank", [value]),
        }
    }

    /// `value` as a vector of its elements.
    pub fn flat(&mut self, value: Endpoint) -> Result<Endpoint> {
        let shape = self.ints(&[-1])?;
        self.op("Reshape", [value, shape])
    }

    /// `value` with an axis of length one put in at `axis`.
    pub fn expand(&mut self, value: Endpoint, axis: i32) -> Result<Endpoint> {
        let axis = self.int(axis)?;
        self.op("ExpandDims", [value, axis])
    }

    /// `0, 1, …` up to but without `limit`, an int32 scalar.
    pub fn count_to(&mut self, limit: Endpoint) -> Result<Endpoint> {
        let (start, delta) = (self.int(0)?, self.int(1)?);
        self.op("Range", [start, limit, delta])
    }

    /// All axes of `value`.
    pub fn axes_of(&mut self, value: Endpoint) -> Result<Endpoint> {
        let rank = self.rank_of(value)?;
        self.count_to(rank)
    }

    /// The sum over all of `value`.
    pub fn total(&mut self, value: Endpoint) -> Result<Endpoint> {
        let axes = self.axes_of(value)?;
        self.op("Sum", [value, axes])
    }

    /// The product of an integer vector; 1 if it is empty.
    pub fn product(&mut self, vector: Endpoint) -> Result<Endpoint> {
        let axis = self.ints(&[0])?;
        self.op("Prod", [vector, axis])
    }

    /// Integer scalars as a vector.
    pub fn vector(&mut self, scalars: impl IntoIterator<Item = Endpoint>) -> Result<Endpoint> {
        self.emit(NewNode::new("Pack").name("stack").input_list(scalars))
    }

    /// Tensors one after another along `axis`.
    pub fn joined(&mut self, parts: impl IntoIterator<Item = Endpoint>, axis: i32) -> Result<Endpoint> {
        let axis = Input::Tensor(Tensor::scalar(axis));
        self.emit(NewNode::new("ConcatV2").name("concat").input_list(parts).input(axis))
    }

    /// Elements `begin..end` of a vector; to its end if there is no `end`. The bounds are int32 scalars.
    pub fn part(&mut self, vector: Endpoint, begin: Endpoint, end: Option<Endpoint>) -> Result<Endpoint> {
        let begin = self.vector([begin])?;
        let one = self.ints(&[1])?;
        let (end, end_mask) = match end {
            Some(end) => (self.vector([end])?, 0i64),
            None => (one, 1),
        };
        let slice = NewNode::new("StridedSlice").input(vector).input(begin).input(end).input(one);
        self.emit(slice.attr("end_mask", end_mask))
    }

    /// Element `index` of a vector, a scalar. Negative indices count from the end.
    pub fn element(&mut self, vector: Endpoint, index: i32) -> Result<Endpoint> {
        let (begin, one) = (self.ints(&[index])?, self.ints(&[1])?);
        // After the last element comes no index that could be named from the end.
        let end = self.ints(&[index.wrapping_add(1)])?;
        let slice = NewNode::new("StridedSlice").input(vector).input(begin).input(end).input(one);
        let slice = slice.attr("shrink_axis_mask", 1i64);
        self.emit(if index == -1 { slice.attr("end_mask", 1i64) } else { slice })
    }

    /// Rows of `values` along its first axis.
    pub fn rows(&mut self, values: Endpoint, indices: Endpoint) -> Result<Endpoint> {
        let axis = self.int(0)?;
        self.op("GatherV2", [values, indices, axis])
    }
}
