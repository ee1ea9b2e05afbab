//! Gradients of operands that were broadcast: sums over the axes along which they were stretched.
//!
//! Where the shapes say which axes these are, the sum has constant axes, or there is none; only else are shapes computed
//! in the graph, by `BroadcastGradientArgs`.

use tensorfleet_core::{Dim, Endpoint, PartialShape, Result, Tensor};

use super::differential::Differential;
use crate::builder::NewNode;

impl Differential<'_> {
    /// Gradients of the two operands of an elementwise op from gradients of its broadcast result: each is summed over
    /// the axes along which its operand was stretched.
    pub fn unbroadcast(
        &mut self,
        (x, dx): (Endpoint, Endpoint),
        (y, dy): (Endpoint, Endpoint),
    ) -> Result<(Endpoint, Endpoint)> {
        self.unbroadcast_before((x, dx), (y, dy), 0)
    }

    /// The same for batches of matrices: only the axes before the last two were broadcast.
    pub fn unbroadcast_batch(
        &mut self,
        x: (Endpoint, Endpoint),
        y: (Endpoint, Endpoint),
    ) -> Result<(Endpoint, Endpoint)> {
        self.unbroadcast_before(x, y, 2)
    }

    fn unbroadcast_before(
        &mut self,
        (x, dx): (Endpoint, Endpoint),
        (y, dy): (Endpoint, Endpoint),
        trailing: usize,
    ) -> Result<(Endpoint, Endpoint)> {
        if x == y {
            return Ok((dx, dy));
        }
        let (x_shape, y_shape) = (self.shape(x)?, self.shape(y)?);
        let (x_dims, y_dims) = (leading(&x_shape, trailing), leading(&y_shape, trailing));
        let axes = |of, beside| stretched_axes(of?, beside?);
        let (x_axes, y_axes) = (axes(x_dims, y_dims), axes(y_dims, x_dims));
        if let (Some(x_axes), Some(y_axes)) = (x_axes, y_axes) {
            return Ok((self.fold_axes(dx, x, x_axes)?, self.fold_axes(dy, y, y_axes)?));
        }
        let (x_shape, y_shape) = (self.shape_of(x)?, self.shape_of(y)?);
        let (x_batch, y_batch) =
            (self.leading_dims(x_shape, trailing)?, self.leading_dims(y_shape, trailing)?);
        let axes = self.add(NewNode::new("BroadcastGradientArgs").input(x_batch).input(y_batch))?;
        let mut fold = |gradient, shape, slot| {
            let sum = self.op("Sum", [gradient, Endpoint::new(axes, slot)])?;
            self.op("Reshape", [sum, shape])
        };
        Ok((fold(dx, x_shape, 0)?, fold(dy, y_shape, 1)?))
    }

    /// A shape without its last axes.
    fn leading_dims(&mut self, shape: Endpoint, trailing: usize) -> Result<Endpoint> {
        if trailing == 0 {
            return Ok(shape);
        }
        let int = |value: i32| Tensor::vector(&[value]);
        let slice = NewNode::new("StridedSlice").input(shape).input(int(0)?).input(int(-(trailing as i32))?);
        self.emit(slice.input(int(1)?).attr("begin_mask", 1i64))
    }

    /// The sum of `gradient` over `axes`, in the shape of `operand`.
    fn fold_axes(&mut self, gradient: Endpoint, operand: Endpoint, axes: Vec<i32>) -> Result<Endpoint> {
        if axes.is_empty() {
            return Ok(gradient);
        }
        let (from, to) = (self.shape(gradient)?.rank(), self.shape(operand)?.rank());
        let (keep_dims, sum_fits) = match (from, to) {
            (Some(from), Some(to)) => (from == to, from == to || from - axes.len().min(from) == to),
            _ => (false, false),
        };
        let axes = Tensor::vector(&axes)?;
        let sum = self.emit(NewNode::new("Sum").input(gradient).input(axes).attr("keep_dims", keep_dims))?;
        match sum_fits {
            true => Ok(sum),
            false => self.reshape_like(sum, operand),
        }
    }
}

/// The dimensions without the last ones, if known.
fn leading(shape: &PartialShape, trailing: usize) -> Option<&[Dim]> {
    let dims = shape.dims()?;
    dims.get(..dims.len().checked_sub(trailing)?)
}

/// The axes of the broadcast shape along which `x` is stretched or may be of length 1; `None` if the shapes do not tell.
fn stretched_axes(x: &[Dim], y: &[Dim]) -> Option<Vec<i32>> {
    let rank = x.len().max(y.len());
    let from_right = |dims: &[Dim], axis: usize| -> Option<Dim> {
        (axis + dims.len()).checked_sub(rank).and_then(|index| dims.get(index).copied())
    };
    let mut axes = Vec::new();
    for axis in 0..rank {
        match (from_right(x, axis), from_right(y, axis)) {
            // The axis is not there, or of length 1 where the other one is longer or unknown.
            (None, _) => axes.push(i32::try_from(axis).ok()?),
            (Some(Some(1)), Some(other)) if other != Some(1) => axes.push(i32::try_from(axis).ok()?),
            (Some(Some(_)), _) | (Some(None), None | Some(Some(1))) => {}
            (Some(None), Some(_)) => return None,
        }
    }
    Some(axes)
}
