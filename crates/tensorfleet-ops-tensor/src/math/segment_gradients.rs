//! Gradients of reductions by segment: what arrives at a segment is gathered by each of its rows.

use tensorfleet_core::{DType, Endpoint, Result, Tensor};

use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Formula, Grads, Symbol, apply, apply2, apply3};

/// The segments of a node: sorted, or in any order with a number of segments.
struct Segments {
    ids: Endpoint,
    count: Option<Endpoint>,
    /// Of ids in any order, those that are not negative, as a mask of rows: negative ones belong to no segment.
    mask: Option<Symbol>,
    /// The ids without negative ones.
    clipped: Endpoint,
}

impl Segments {
    fn of(d: &mut Differential<'_>) -> Result<Segments> {
        let ids = d.input(1)?;
        if d.node().inputs.len() == 2 {
            return Ok(Segments { ids, count: None, mask: None, clipped: ids });
        }
        let (zero, count) = (d.scalar_like(ids, 0.0)?, d.input(2)?);
        let clipped = d.op("Maximum", [ids, zero])?;
        let mask = d.op("GreaterEqual", [ids, zero])?;
        let mask = rows(d, mask).map(Symbol)?;
        Ok(Segments { ids, count: Some(count), mask: Some(mask), clipped })
    }

    /// `value`, which has as many rows as there are ids, reduced like the node reduces.
    fn reduce(&self, d: &mut Differential<'_>, what: &str, value: impl Into<Formula>) -> Result<Symbol> {
        let value = d.build(value)?;
        let reduced = match self.count {
            None => NewNode::new(format!("Segment{what}")).input(value).input(self.ids),
            Some(count) => {
                NewNode::new(format!("UnsortedSegment{what}")).input(value).input(self.ids).input(count)
            }
        };
        d.emit(reduced).map(Symbol)
    }

    /// For each row the value of its segment, which is of no meaning for rows without one.
    fn gather(&self, d: &mut Differential<'_>, value: impl Into<Formula>) -> Result<Symbol> {
        let (value, axis) = (d.build(value)?, d.constant(Tensor::scalar(0i32))?);
        d.op("GatherV2", [value, self.clipped, axis]).map(Symbol)
    }

    /// For each row the value of its segment, and zeros for rows without one.
    fn gather_or_zero(&self, d: &mut Differential<'_>, value: impl Into<Formula>) -> Result<Symbol> {
        let gathered = self.gather(d, value)?;
        match self.mask {
            None => Ok(gathered),
            Some(mask) => {
                let zero = Symbol(d.scalar_like(gathered.0, 0.0)?);
                d.share(apply3("SelectV2", mask, gathered, zero))
            }
        }
    }
}

/// A value of the shape of the ids, with axes of length 1 for the other axes of the data.
fn rows(d: &mut Differential<'_>, value: Endpoint) -> Result<Endpoint> {
    let (data, ids) = (d.input(0)?, d.input(1)?);
    if let (Some(data), Some(ids)) = (d.shape(data)?.rank(), d.shape(ids)?.rank()) {
        let last = d.constant(Tensor::scalar(-1i32))?;
        return (ids..data).try_fold(value, |value, _| d.op("ExpandDims", [value, last]));
    }
    let (one, zero) = (d.constant(Tensor::scalar(1i32))?, d.constant(Tensor::scalar(0i32))?);
    let (data_rank, ids_rank) = (d.op("Rank", [data])?, d.op("Rank", [ids])?);
    let more = d.op("Sub", [data_rank, ids_rank])?;
    let more = d.op("ExpandDims", [more, zero])?;
    let (ones, shape) = (d.op("Fill", [more, one])?, d.op("Shape", [ids])?);
    let shape = d.emit(NewNode::new("ConcatV2").input_list([shape, ones]).input(zero))?;
    d.op("Reshape", [value, shape])
}

pub(super) fn segment_sum_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (segments, dy) = (Segments::of(d)?, d.arriving_at(0)?);
    let dx = segments.gather_or_zero(d, dy)?;
    d.flow_first(dx)
}

pub(super) fn segment_mean_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (segments, x, dy) = (Segments::of(d)?, d.x(0)?, d.arriving_at(0)?);
    let count = segments.reduce(d, "Sum", apply("OnesLike", x))?;
    let dx = segments.gather(d, dy / count)?;
    d.flow_first(dx)
}

/// Elements that are the extremum of their segment share its gradient equally.
pub(super) fn segment_extremum_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (segments, x, y, dy) = (Segments::of(d)?, d.x(0)?, d.y(0), d.arriving_at(0)?);
    let extremum = segments.gather_or_zero(d, y)?;
    let mut is_extremum = apply2("Equal", x, extremum);
    if let Some(mask) = segments.mask {
        is_extremum = apply2("LogicalAnd", is_extremum, mask);
    }
    let (is_extremum, dtype) = (d.share(is_extremum)?, d.dtype(dy.0)?);
    let as_number = Symbol(d.cast(is_extremum.0, dtype)?);
    let count = segments.reduce(d, "Sum", as_number)?;
    let share = segments.gather(d, dy / count)?;
    let zero = Symbol(d.scalar_like(share.0, 0.0)?);
    d.flow_first(apply3("SelectV2", is_extremum, share, zero))
}

/// The product of the others: the whole divided by the element; if the element is the only zero of its segment, the
/// product of what is not zero; if there are more zeros, nothing.
pub(super) fn segment_prod_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (segments, x, y, dy) = (Segments::of(d)?, d.x(0)?, d.y(0), d.arriving_at(0)?);
    let zero = Symbol(d.scalar_like(x.0, 0.0)?);
    let is_zero = d.share(apply2("Equal", x, zero))?;
    let as_number = Symbol(d.cast(is_zero.0, DType::Int32)?);
    let zeros = segments.reduce(d, "Sum", as_number)?;
    let dy = d.share(apply3("SelectV2", apply2("Greater", zeros, 1.0), zero, dy))?;
    let others = d.share(apply3("SelectV2", is_zero, apply("OnesLike", x), x))?;
    let product_of_others = segments.reduce(d, "Prod", others)?;
    let product_of_others = segments.gather(d, product_of_others)?;
    let product = segments.gather(d, y)?;
    let dy = segments.gather_or_zero(d, dy)?;
    d.flow_first(dy * apply3("SelectV2", is_zero, product_of_others, product / others))
}
