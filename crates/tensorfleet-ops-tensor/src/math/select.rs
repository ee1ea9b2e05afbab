//! Choosing elements by a condition: `Select`, `SelectV2`, `Where`, `ClipByValue`.

use bytes::Bytes;
use tensorfleet_core::{DType, PartialShape, Result, Shape, Tensor, bail, ensure, memory};

use tensorfleet_kernel::Work;
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::gradients::{Differential, Formula, Grad, Grads, Symbol, apply, apply2, apply3};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, broadcast_shapes};
use tensorfleet_numeric::broadcast::Broadcast;
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::elementwise::{cost, write_block};
use tensorfleet_numeric::number::Real;
use tensorfleet_numeric::stored::Stored;
use tensorfleet_numeric::vector_math::FlushDenormal;
use tensorfleet_threads::Loops;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Select", "condition: bool, t: T, e: T -> output: T").work(Work::Broadcast)
        .attrs("T: type")
        .shape(select_shape)
        .kernel(select).gradient(select_gradient),
    Op::new("SelectV2", "condition: bool, t: T, e: T -> output: T").work(Work::Broadcast)
        .attrs("T: type")
        .shape(select_v2_shape)
        .kernel(select_v2).gradient(select_v2_gradient),
    Op::new("Where", "input: T -> index: int64").work(Work::Inputs)
        .attrs(
            "T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, qint16, \
             quint16, uint16, complex128, half, uint32, uint64, bool} = bool",
        )
        .shape(where_shape)
        .kernel(where_kernel),
    Op::new("ClipByValue", "t: T, clip_value_min: T, clip_value_max: T -> output: T").work(Work::Broadcast)
        .attrs("T: number")
        .shape(clip_shape)
        .kernel(clip).gradient(clip_gradient),
];

fn select_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (condition, then, dy) = (d.x(0)?, d.x(1)?, d.arriving_at(0)?);
    // The condition may be a vector of rows, so that zeros have to be as many as the gradient.
    let zeros = d.share(apply("ZerosLike", then))?;
    let grads = d.flow([apply3("Select", condition, dy, zeros), apply3("Select", condition, zeros, dy)])?;
    Ok([None].into_iter().chain(grads).collect())
}

fn select_v2_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (condition, dy) = (d.x(0)?, d.arriving_at(0)?);
    let zero = Symbol(d.scalar_like(dy.0, 0.0)?);
    let then = fold(d, 1, apply3("SelectV2", condition, dy, zero))?;
    let otherwise = fold(d, 2, apply3("SelectV2", condition, zero, dy))?;
    Ok(vec![None, then, otherwise])
}

/// What is clipped gets nothing: it flows to the bound.
fn clip_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (x, low, high, dy) = (d.x(0)?, d.x(1)?, d.x(2)?, d.arriving_at(0)?);
    let zero = Symbol(d.scalar_like(dy.0, 0.0)?);
    let is_low = d.share(apply2("Less", x, low))?;
    let is_high = d.share(apply2("Greater", x, high))?;
    let x = fold(d, 0, apply3("SelectV2", apply2("LogicalOr", is_low, is_high), zero, dy))?;
    let low = fold(d, 1, apply3("SelectV2", is_low, dy, zero))?;
    let high = fold(d, 2, apply3("SelectV2", is_high, dy, zero))?;
    Ok(vec![x, low, high])
}

/// A gradient of the output's shape, summed to that of input `index`.
fn fold(d: &mut Differential<'_>, index: usize, formula: Formula) -> Result<Option<Grad>> {
    let (input, output, gradient) = (d.input(index)?, d.output(0), d.build(formula)?);
    let (gradient, _) = d.unbroadcast((input, gradient), (output, gradient))?;
    Ok(Some(Grad::Dense(gradient)))
}

fn select_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let output = ctx.input(1).merge(ctx.input(2))?;
    let condition = ctx.input(0);
    match condition.rank() {
        None | Some(0) => Ok(vec![output]),
        Some(1) if output.rank() != Some(1) => {
            if let (Some(count), Some(rows)) = (condition.dim(0), output.dim(0)) {
                ensure!(
                    count == rows,
                    InvalidArgument,
                    "Dimensions must be equal, but are {count} and {rows}"
                );
            }
            Ok(vec![output])
        }
        _ => Ok(vec![output.merge(condition)?]),
    }
}

fn select_v2_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let values = broadcast_shapes(ctx.input(1), ctx.input(2))?;
    Ok(vec![broadcast_shapes(ctx.input(0), &values)?])
}

/// What one op chooses from.
struct Choice<'a> {
    condition: &'a Tensor,
    then: &'a Tensor,
    otherwise: &'a Tensor,
}

impl Choice<'_> {
    /// Chooses for every element of `broadcast`, whose operands are condition, then and else.
    fn make(&self, loops: &Loops, broadcast: &Broadcast) -> Result<Tensor> {
        match self.then.dtype() {
            DType::String => self.make_strings(broadcast),
            DType::Resource | DType::Variant => self.make_whole(broadcast),
            dtype => dispatch!(dtype, T in plain => self.make_plain::<T>(loops, broadcast)),
        }
    }

    fn make_plain<S: Stored>(&self, loops: &Loops, broadcast: &Broadcast) -> Result<Tensor> {
        let condition = self.condition.as_slice::<bool>()?;
        let (then, otherwise) = (self.then.as_slice::<S>()?, self.otherwise.as_slice::<S>()?);
        let output = Tensor::build::<S>(broadcast.shape().clone(), |out| {
            let unit = broadcast.block_len();
            loops.chunks_mut(out, unit, cost::ARITHMETIC * unit, |block, out| {
                let mut condition = broadcast.reader(0, condition);
                let (mut then, mut otherwise) = (broadcast.reader(1, then), broadcast.reader(2, otherwise));
                for (index, out) in out.chunks_mut(unit).enumerate() {
                    let start = (block + index) * unit;
                    let condition = condition.block(start, out.len());
                    let (then, otherwise) = (then.block(start, out.len()), otherwise.block(start, out.len()));
                    write_block(out, |out| {
                        let operands = condition.iter().zip(then).zip(otherwise);
                        for (out, ((&condition, &then), &otherwise)) in out.iter_mut().zip(operands) {
                            *out = if condition { then } else { otherwise };
                        }
                    });
                }
            });
            Ok(())
        })?;
        output.with_dtype(self.then.dtype())
    }

    fn make_strings(&self, broadcast: &Broadcast) -> Result<Tensor> {
        let mut condition = memory::vec_with_room(broadcast.num_elements())?;
        let values = self.condition.as_slice::<bool>()?;
        broadcast.visit_runs(0, 0, broadcast.num_elements(), |first, len, same| {
            condition.extend((0..len).map(|i| values[if same { first } else { first + i }]));
        });
        let pairs = broadcast.strings(1, self.then)?.into_iter().zip(broadcast.strings(2, self.otherwise)?);
        let chosen: Vec<Bytes> =
            memory::collect(condition.into_iter().zip(pairs).map(|(condition, (then, otherwise))| {
                if condition { then.clone() } else { otherwise.clone() }
            }))?;
        Tensor::from_strings(chosen, broadcast.shape())
    }

    /// Handles and variants are chosen whole.
    fn make_whole(&self, broadcast: &Broadcast) -> Result<Tensor> {
        let chosen = match self.condition.as_slice::<bool>()? {
            [true] => self.then,
            [false] => self.otherwise,
            _ => bail!(Unimplemented, "{} values are chosen by a scalar condition only", self.then.dtype()),
        };
        chosen.clone().reshaped(broadcast.shape().clone())
    }
}

/// `Select`: the condition is a scalar, a vector over rows, or of the values' shape.
fn select(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let name = node.name().to_string();
    Ok(KernelBox::from_fn(move |ctx| {
        let (condition, then, otherwise) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
        ensure!(
            then.shape() == otherwise.shape(),
            InvalidArgument,
            "'then' and 'else' must have the same size.  but received: {} vs. {}",
            then.shape(),
            otherwise.shape()
        );
        if condition.is_scalar() {
            let chosen = if condition.to_scalar::<bool>()? { then } else { otherwise };
            let chosen = chosen.clone();
            ctx.set_output(0, chosen);
            return Ok(());
        }
        let aligned = aligned_condition(condition, then.shape(), &name)?;
        let Some(broadcast) = Broadcast::new(&[&aligned, then.shape(), otherwise.shape()]) else {
            bail!(InvalidArgument, "condition {} does not fit values {}", condition.shape(), then.shape())
        };
        let output = Choice { condition, then, otherwise }.make(ctx.loops(), &broadcast)?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

/// The shape under which a condition of `Select` broadcasts against the values: a vector stands for rows.
fn aligned_condition(condition: &Tensor, values: &Shape, node: &str) -> Result<Shape> {
    let shape = condition.shape();
    if shape.rank() != 1 || values.rank() == 1 && shape == values {
        ensure!(
            shape == values,
            InvalidArgument,
            "Inputs to operation {node} of type Select must have the same size and shape.  \
             Input 0: {shape} != input 1: {values}"
        );
        return Ok(shape.clone());
    }
    let Some(&rows) = values.first() else {
        bail!(InvalidArgument, "'then' must be at least a vector, but saw shape: {values}")
    };
    ensure!(
        rows == shape[0],
        InvalidArgument,
        "Number of batches of 'then' must match size of 'cond', but saw: {rows} vs. {}",
        shape[0]
    );
    let mut dims = vec![1; values.rank()];
    dims[0] = rows;
    Shape::new(&dims)
}

/// `SelectV2`: all three operands broadcast.
fn select_v2(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let (condition, then, otherwise) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
        let Some(broadcast) = Broadcast::new(&[condition.shape(), then.shape(), otherwise.shape()]) else {
            bail!(
                InvalidArgument,
                "condition {}, then {}, and else {} must be broadcastable",
                condition.shape(),
                then.shape(),
                otherwise.shape()
            )
        };
        let output = Choice { condition, then, otherwise }.make(ctx.loops(), &broadcast)?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

fn where_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(vec![PartialShape::new([None, ctx.input(0).rank()])])
}

/// `Where`: the coordinates of the true or non-zero elements, in row-major order.
fn where_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in plain => Ok(KernelBox::from_fn(|ctx| {
        let input = ctx.input(0)?;
        let output = coordinates_of(&ctx.step.cancellation, input.as_slice::<T>()?, input.shape(), |element| {
            element.widened().flush_denormal() != <T as Stored>::Compute::default()
        })?;
        ctx.set_output(0, output);
        Ok(())
    })))
}

fn coordinates_of<T>(
    cancellation: &Cancellation,
    elements: &[T],
    shape: &Shape,
    is_set: impl Fn(&T) -> bool,
) -> Result<Tensor> {
    const MAX_RANK: usize = 8;
    /// Elements that are looked at between two looks at the cancellation.
    const PIECE: usize = 1 << 16;
    let rank = shape.rank();
    ensure!((1..=MAX_RANK).contains(&rank), InvalidArgument, "WhereOp : Unhandled input dimensions: {rank}");
    let mut count = 0;
    for piece in cancellation.unless_cancelled(elements.chunks(PIECE)) {
        count += piece?.iter().filter(|element| is_set(element)).count();
    }
    Tensor::build::<i64>(Shape::new(&[count, rank])?, |out| {
        let mut rows = out.chunks_exact_mut(rank);
        for (number, piece) in cancellation.unless_cancelled(elements.chunks(PIECE)).enumerate() {
            let set = piece?.iter().enumerate().filter(|(_, element)| is_set(element));
            // The elements come first: a row that is asked for in vain would be gone.
            for ((index, _), row) in set.zip(&mut rows) {
                let mut rest = number * PIECE + index;
                for (slot, &dim) in row.iter_mut().zip(shape.iter()).rev() {
                    *slot = (rest % dim) as i64;
                    rest /= dim;
                }
            }
        }
        Ok(())
    })
}

fn clip_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(vec![ctx.input(0).clone()])
}

/// A number that can be kept between two others.
trait Clip: Copy {
    fn clip(self, low: Self, high: Self) -> Self;
}

macro_rules! clip_real {
    ($($type:ident)*) => {$(
        impl Clip for $type {
            #[inline(always)]
            fn clip(self, low: $type, high: $type) -> $type {
                self.min_or_nan(high).max_or_nan(low)
            }
        }
    )*};
}
clip_real!(f32 f64 i8 i16 i32 i64 u8 u16 u32 u64);

/// `ClipByValue`: bounds are scalars or of the input's shape.
fn clip(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in real => Ok(KernelBox::from_fn(|ctx| {
        let (input, low, high) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
        let fits = |bound: &Tensor| bound.is_scalar() || bound.shape() == input.shape();
        let broadcast = Broadcast::new(&[input.shape(), low.shape(), high.shape()]);
        let Some(broadcast) = broadcast.filter(|_| fits(low) && fits(high)) else {
            bail!(
                InvalidArgument,
                "clip_value_min and clip_value_max must be either of the same shape as input, or a scalar. \
                 input shape: {}clip_value_min shape: {}clip_value_max shape: {}",
                input.shape(), low.shape(), high.shape()
            )
        };
        let output = clip_elements::<T>(ctx.loops(), &broadcast, [input, low, high])?;
        ctx.set_output(0, output);
        Ok(())
    })))
}

fn clip_elements<S: Stored<Compute: Clip>>(
    loops: &Loops,
    broadcast: &Broadcast,
    operands: [&Tensor; 3],
) -> Result<Tensor> {
    let [input, low, high] = operands.map(|operand| operand.as_slice::<S>());
    let (input, low, high) = (input?, low?, high?);
    Tensor::build::<S>(broadcast.shape().clone(), |out| {
        let unit = broadcast.block_len();
        loops.chunks_mut(out, unit, cost::ARITHMETIC * unit, |block, out| {
            let mut readers =
                [(0, input), (1, low), (2, high)].map(|(index, data)| broadcast.reader(index, data));
            for (index, out) in out.chunks_mut(unit).enumerate() {
                let start = (block + index) * unit;
                let [input, low, high] = readers.each_mut().map(|reader| reader.block(start, out.len()));
                write_block(out, |out| {
                    for (out, ((x, &low), &high)) in out.iter_mut().zip(input.iter().zip(low).zip(high)) {
                        *out = x.clip(low, high);
                    }
                });
            }
        });
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;

    fn run(op: &str, condition: Tensor, then: Tensor, otherwise: Tensor) -> Result<Tensor> {
        let op = test_op(op).attr("T", then.dtype());
        op.input(condition).input(then).input(otherwise).run_one()
    }

    fn matrix(values: [i32; 4]) -> Tensor {
        Tensor::from_slice(&values, &[2, 2]).unwrap()
    }

    #[test]
    fn a_condition_is_a_scalar_a_vector_over_rows_or_of_the_same_shape() {
        let choose = |condition: Tensor| {
            let chosen = run("Select", condition, matrix([1, 2, 3, 4]), matrix([5, 6, 7, 8])).unwrap();
            chosen.as_slice::<i32>().unwrap().to_vec()
        };
        assert_eq!(choose(Tensor::scalar(false)), [5, 6, 7, 8]);
        assert_eq!(choose(Tensor::vector(&[true, false]).unwrap()), [1, 2, 7, 8]);
        assert_eq!(choose(Tensor::from_slice(&[true, false, false, true], &[2, 2]).unwrap()), [1, 6, 7, 4]);
    }

    #[test]
    fn conditions_that_do_not_fit_are_refused() {
        let message = |condition: Tensor, then: Tensor, otherwise: Tensor| {
            run("Select", condition, then, otherwise).unwrap_err().text().to_string()
        };
        let (values, scalar) = (matrix([0; 4]), Tensor::scalar(0i32));
        let three = Tensor::vector(&[true; 3]).unwrap();
        assert!(message(three.clone(), values.clone(), values.clone()).contains("saw: 2 vs. 3"));
        assert!(message(three.clone(), scalar.clone(), scalar.clone()).contains("at least a vector"));
        assert!(message(three, values.clone(), scalar).contains("must have the same size"));
        let column = Tensor::from_slice(&[true, false], &[2, 1]).unwrap();
        assert!(message(column.clone(), values.clone(), values.clone()).contains("same size and shape"));
        assert!(run("SelectV2", column, values.clone(), values.clone()).is_ok());
        let status =
            run("SelectV2", Tensor::vector(&[true; 3]).unwrap(), values.clone(), values).unwrap_err();
        assert!(status.text().contains("must be broadcastable"));
    }

    #[test]
    fn the_second_version_broadcasts_all_three() {
        let condition = Tensor::from_slice(&[true, false], &[2, 1]).unwrap();
        let strings = Tensor::from_strings(vec![Bytes::from("x"), Bytes::from("y")], &[2]).unwrap();
        let chosen = run("SelectV2", condition.clone(), strings, Tensor::string("-")).unwrap();
        assert_eq!(chosen.shape().dims(), [2, 2]);
        assert_eq!(chosen.as_strings().unwrap(), ["x", "y", "-", "-"].map(Bytes::from));
        let halves = Tensor::vector(&[half::f16::ONE, half::f16::ZERO]).unwrap();
        let chosen = run("SelectV2", condition, halves.clone(), halves).unwrap();
        assert_eq!(chosen.num_elements(), 4);
    }

    #[test]
    fn where_lists_coordinates_in_row_major_order() {
        let list = |input: Tensor| test_op("Where").attr("T", input.dtype()).input(input).run_one();
        let found = list(Tensor::from_slice(&[0.0f32, 2.0, f32::NAN, -0.0], &[2, 2]).unwrap()).unwrap();
        assert_eq!(
            (found.shape().dims(), found.as_slice::<i64>().unwrap()),
            (&[2, 2][..], &[0, 1, 1, 0][..])
        );
        let none = list(Tensor::from_slice::<bool>(&[], &[0, 2]).unwrap()).unwrap();
        assert_eq!(none.shape().dims(), [0, 2]);
        assert!(list(Tensor::scalar(true)).unwrap_err().text().contains("Unhandled input dimensions: 0"));
    }

    #[test]
    fn clipping_takes_scalars_or_bounds_of_the_same_shape() {
        let clip = |low: Tensor, high: Tensor| {
            let input = Tensor::vector(&[1.0f32, f32::NAN, 3.0]).unwrap();
            test_op("ClipByValue").attr("T", input.dtype()).input(input).input(low).input(high).run_one()
        };
        let clipped = clip(Tensor::scalar(2.0f32), Tensor::vector(&[2.5f32; 3]).unwrap()).unwrap();
        let clipped = clipped.as_slice::<f32>().unwrap();
        assert!(clipped[0] == 2.0 && clipped[1].is_nan() && clipped[2] == 2.5);
        assert!(clip(Tensor::vector(&[1.0f32]).unwrap(), Tensor::scalar(2.0f32)).is_err());
    }
}
