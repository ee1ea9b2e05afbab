//! [`ShapeContext`]: what a shape rule sees — partial input shapes, and input values where they are constant.

use tensorfleet_core::attr::FromAttr;
use tensorfleet_core::{DType, Dim, PartialShape, Result, Status, Tensor, bail, memory};

use crate::node_spec::NodeSpec;

/// The knowledge a shape rule works with.
pub struct ShapeContext<'a> {
    /// The node.
    pub node: &'a NodeSpec<'a>,
    inputs: &'a [InputShape],
}

/// What is known of one input.
#[derive(Clone, Debug, Default)]
pub struct InputShape {
    /// Its shape.
    pub shape: PartialShape,
    /// Its value, where it is constant.
    pub value: Option<Tensor>,
    /// Its value read as a shape, where the input is a shape vector of which at least the length is known.
    pub as_shape: Option<PartialShape>,
}

impl<'a> ShapeContext<'a> {
    /// A context for `node` with these inputs, one for each data input.
    pub fn new(node: &'a NodeSpec<'a>, inputs: &'a [InputShape]) -> ShapeContext<'a> {
        ShapeContext { node, inputs }
    }

    /// The number of inputs.
    pub fn num_inputs(&self) -> usize {
        self.inputs.len()
    }

    /// The shape of input `index`.
    pub fn input(&self, index: usize) -> &PartialShape {
        static UNKNOWN: std::sync::LazyLock<PartialShape> = std::sync::LazyLock::new(PartialShape::unknown);
        self.inputs.get(index).map_or(&UNKNOWN, |input| &input.shape)
    }

    /// The value of input `index`, if it is constant.
    pub fn value(&self, index: usize) -> Option<&Tensor> {
        self.inputs.get(index)?.value.as_ref()
    }

    /// What is known of the value of input `index` as a shape, if its value is not constant.
    pub fn as_shape(&self, index: usize) -> Option<&PartialShape> {
        self.inputs.get(index)?.as_shape.as_ref()
    }

    /// The constant integers (int32 or int64) in input `index`.
    pub fn integers(&self, index: usize) -> Option<Vec<i64>> {
        integers_of(self.value(index)?).ok()
    }

    /// The constant integer scalar in input `index`.
    pub fn integer(&self, index: usize) -> Option<i64> {
        match self.integers(index)?[..] {
            [value] => Some(value),
            _ => None,
        }
    }

    /// The shape that the *value* of input `index` describes (-1 is unknown), as far as it is known.
    pub fn shape_value(&self, index: usize) -> Result<PartialShape> {
        let Some(input) = self.inputs.get(index) else { return Ok(PartialShape::unknown()) };
        if let Some(value) = &input.value {
            return PartialShape::from_signed(&integers_of(value)?);
        }
        if let Some(shape) = &input.as_shape {
            return Ok(shape.clone());
        }
        Ok(match input.shape.dims() {
            Some([Some(rank)]) => PartialShape::of_rank(*rank),
            _ => PartialShape::unknown(),
        })
    }

    /// An attribute of the node.
    pub fn attr<A: FromAttr>(&self, name: &str) -> Result<A> {
        self.node.attr(name)
    }

    /// The number of outputs.
    pub fn num_outputs(&self) -> usize {
        self.node.outputs.len()
    }

    /// Input `index`, checked to have rank `rank` (or an unknown one).
    pub fn input_with_rank(&self, index: usize, rank: usize) -> Result<PartialShape> {
        let shape = self.input(index);
        match shape.rank() {
            None => Ok(PartialShape::of_rank(rank)),
            Some(found) if found == rank => Ok(shape.clone()),
            Some(found) => bail!(
                InvalidArgument,
                "Shape must be rank {rank} but is rank {found}: input {index} has shape {shape}"
            ),
        }
    }
}

/// The elements of an int32 or int64 tensor.
pub fn integers_of(tensor: &Tensor) -> Result<Vec<i64>> {
    match tensor.dtype() {
        DType::Int32 => memory::collect(tensor.as_slice::<i32>()?.iter().map(|&value| value as i64)),
        DType::Int64 => memory::copy_of(tensor.as_slice::<i64>()?),
        other => Err(Status::invalid_argument(format!("expected int32 or int64 values, got {other}"))),
    }
}

/// Shape rule: one output with the shape of the first input.
pub fn same_as_input(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(vec![ctx.input(0).clone()])
}

/// Shape rule: scalars.
pub fn scalars(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(vec![PartialShape::scalar(); ctx.num_outputs()])
}

/// Shape rule: nothing is known of the outputs before the op runs.
pub fn unknown(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(vec![PartialShape::unknown(); ctx.num_outputs()])
}

/// Shape rule: two inputs broadcast against each other.
pub fn broadcast(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(vec![broadcast_shapes(ctx.input(0), ctx.input(1))?])
}

/// The shape of two operands broadcast against each other.
pub fn broadcast_shapes(a: &PartialShape, b: &PartialShape) -> Result<PartialShape> {
    let (Some(a_dims), Some(b_dims)) = (a.dims(), b.dims()) else { return Ok(PartialShape::unknown()) };
    let rank = a_dims.len().max(b_dims.len());
    let aligned = |dims: &[Dim], axis: usize| {
        let missing = rank - dims.len();
        if axis < missing { Some(1) } else { dims[axis - missing] }
    };
    let mut dims = Vec::with_capacity(rank);
    for axis in 0..rank {
        dims.push(match (aligned(a_dims, axis), aligned(b_dims, axis)) {
            (Some(1), other) | (other, Some(1)) => other,
            (Some(x), Some(y)) if x != y => {
                bail!(InvalidArgument, "Dimensions must be equal, but are {x} and {y} for shapes {a} and {b}")
            }
            (x, y) => x.or(y),
        });
    }
    Ok(PartialShape::new(dims))
}
