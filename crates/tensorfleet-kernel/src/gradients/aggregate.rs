//! Gradients as values of the graph, and their sums.

use tensorfleet_core::{DType, Endpoint, Result, Tensor};

use crate::builder::{GraphBuilder, Input, NewNode};

/// A gradient in the graph: a whole tensor, or some rows of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grad {
    /// A tensor of the shape of what it is the gradient of.
    Dense(Endpoint),
    /// Rows of a tensor that is zero elsewhere, as gathers give them; TensorFlow's `IndexedSlices`.
    Slices {
        /// The rows.
        values: Endpoint,
        /// Which rows of the whole they are; one row may come several times, then they add up.
        indices: Endpoint,
        /// The shape of the whole, an integer vector.
        dense_shape: Endpoint,
    },
}

/// The gradient as a whole tensor.
pub fn densify(builder: &mut GraphBuilder, grad: Grad) -> Result<Endpoint> {
    let (values, indices, dense_shape) = match grad {
        Grad::Dense(endpoint) => return Ok(endpoint),
        Grad::Slices { values, indices, dense_shape } => (values, indices, dense_shape),
    };
    let int = |value: i32| Tensor::vector(&[value]).map(Input::Tensor);
    let rows = builder.emit(
        NewNode::new("StridedSlice")
            .input(dense_shape)
            .input(int(0)?)
            .input(int(1)?)
            .input(int(1)?)
            .attr("shrink_axis_mask", 1i64),
    )?;
    let dense = builder.emit(NewNode::new("UnsortedSegmentSum").input(values).input(indices).input(rows))?;
    if let Some(shape) = builder.facts(dense_shape)?.as_shape.clone() {
        builder.set_shape(dense, &shape)?;
    }
    Ok(dense)
}

/// The sum of gradients that arrive at one place; `None` if there are none. Rows stay rows: those of several gradients
/// follow one another.
pub(super) fn sum(builder: &mut GraphBuilder, grads: &[Grad]) -> Result<Option<Grad>> {
    let dense: Option<Vec<Endpoint>> = grads
        .iter()
        .map(|grad| match grad {
            Grad::Dense(endpoint) => Some(*endpoint),
            Grad::Slices { .. } => None,
        })
        .collect();
    match (grads, dense) {
        ([], _) => Ok(None),
        ([only], _) => Ok(Some(*only)),
        (_, Some(dense)) => Ok(Some(Grad::Dense(builder.emit(NewNode::new("AddN").input_list(dense))?))),
        (_, None) => concatenate(builder, grads).map(Some),
    }
}

fn concatenate(builder: &mut GraphBuilder, grads: &[Grad]) -> Result<Grad> {
    // A whole tensor among rows makes the sum a whole tensor.
    if grads.iter().any(|grad| matches!(grad, Grad::Dense(_))) {
        let dense: Vec<Endpoint> = grads.iter().map(|&grad| densify(builder, grad)).collect::<Result<_>>()?;
        return Ok(Grad::Dense(builder.emit(NewNode::new("AddN").input_list(dense))?));
    }
    let (mut all_values, mut all_indices, mut shape) = (Vec::new(), Vec::new(), None);
    for grad in grads {
        if let Grad::Slices { values, indices, dense_shape } = *grad {
            all_values.push(values);
            all_indices.push(indices);
            shape = Some(dense_shape);
        }
    }
    // Row numbers of two dtypes become those of the larger.
    let dtypes: Vec<DType> = all_indices.iter().map(|&part| builder.dtype(part)).collect::<Result<_>>()?;
    if dtypes.windows(2).any(|pair| pair.first() != pair.last()) {
        for indices in &mut all_indices {
            *indices = builder.emit(NewNode::new("Cast").input(*indices).attr("DstT", DType::Int64))?;
        }
    }
    let mut concat = |parts: Vec<Endpoint>| {
        let axis = Input::Tensor(Tensor::scalar(0i32));
        builder.emit(NewNode::new("ConcatV2").name("concat").input_list(parts).input(axis))
    };
    let (values, indices) = (concat(all_values)?, concat(all_indices)?);
    match shape {
        Some(dense_shape) => Ok(Grad::Slices { values, indices, dense_shape }),
        None => Err(tensorfleet_core::Status::internal("a sum of no gradients")),
    }
}
