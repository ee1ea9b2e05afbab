//! `Cumsum` and `Cumprod`: running totals along an axis.

use tensorfleet_core::{PartialShape, Result, Shape, Status, Tensor, ensure, memory};

use super::reduce::{Reducer, resolve_axis};
use super::reduce_ops::{Prod, Sum};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Formula, Grads, Symbol, apply2};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{KernelFn, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, integers_of};
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::stored::{Stored, build_computed, compute_elements};
use tensorfleet_threads::first_error;

const fn scan(name: &'static str, kernel: KernelFn) -> Op {
    Op::new(name, "x: T, axis: Tidx -> out: T")
        .work(Work::Inputs)
        .attrs("exclusive: bool = false; reverse: bool = false; T: number; Tidx: {int32, int64} = int32")
        .shape(shape)
        .kernel(kernel)
}

/// The family's table.
pub(crate) static OPS: &[Op] =
    &[scan("Cumsum", cumsum).gradient(cumsum_gradient), scan("Cumprod", cumprod).gradient(cumprod_gradient)];

/// A scan with the attributes of this one, except for its direction.
fn like_this(d: &mut Differential<'_>, op: &str, value: impl Into<Formula>, turned: bool) -> Result<Symbol> {
    let (value, axis) = (d.build(value)?, d.input(1)?);
    let (exclusive, reverse): (bool, bool) = (d.attr("exclusive")?, d.attr("reverse")?);
    let scan = NewNode::new(op).input(value).input(axis);
    d.emit(scan.attr("exclusive", exclusive).attr("reverse", reverse != turned)).map(Symbol)
}

fn cumsum_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let dy = d.arriving_at(0)?;
    let dx = like_this(d, "Cumsum", dy, true)?;
    d.flow_first(dx)
}

/// As in TensorFlow, an element that is zero gets no gradient.
fn cumprod_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (x, y, dy) = (d.x(0)?, d.y(0), d.arriving_at(0)?);
    let total = like_this(d, "Cumsum", y * dy, true)?;
    d.flow_first(apply2("DivNoNan", total, x))
}

fn shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    if let (Some(rank), Some(axis)) = (ctx.input(0).rank(), ctx.integer(1)) {
        resolve_axis(axis, rank).ok_or_else(|| out_of_range(axis, rank))?;
    }
    Ok(vec![ctx.input(0).clone()])
}

fn out_of_range(axis: i64, rank: usize) -> Status {
    Status::invalid_argument(format!(
        "ScanOp: Expected scan axis in the range [-{rank}, {rank}), but got {axis}"
    ))
}

/// How a scan runs along its axis.
#[derive(Clone, Copy)]
struct Direction {
    /// Whether an element is left out of its own total.
    is_exclusive: bool,
    /// Whether the scan runs from the end.
    is_reverse: bool,
}

fn cumsum(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in numeric => kernel::<T>(node, scan_block::<<T as Stored>::Compute, Sum>))
}

fn cumprod(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in numeric => kernel::<T>(node, scan_block::<<T as Stored>::Compute, Prod>))
}

/// Scans a block of rows of so many elements.
type ScanBlock<T> = fn(&[T], usize, Direction, &mut [T]) -> Result<()>;

fn kernel<S: Stored>(node: &NodeSpec<'_>, run: ScanBlock<S::Compute>) -> Result<KernelBox> {
    let direction = Direction { is_exclusive: node.attr("exclusive")?, is_reverse: node.attr("reverse")? };
    Ok(KernelBox::from_fn(move |ctx| {
        let input = ctx.input(0)?;
        let axis = axis_of(ctx.input(1)?, input.shape())?;
        let elements = compute_elements(input.as_slice::<S>()?)?;
        let output = build_computed::<S>(input.shape().clone(), |out| {
            let inner: usize = input.shape()[axis + 1..].iter().product();
            let block = input.shape()[axis] * inner;
            if !out.is_empty() {
                first_error(|keep| {
                    ctx.loops().chunks_mut(out, block, block * 100, |start, out| {
                        let blocks = elements[start * block..].chunks_exact(block);
                        blocks
                            .zip(out.chunks_exact_mut(block))
                            .for_each(|(x, out)| keep(run(x, inner, direction, out)));
                    });
                })?;
            }
            Ok(())
        })?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

fn axis_of(axis: &Tensor, input: &Shape) -> Result<usize> {
    ensure!(axis.is_scalar(), InvalidArgument, "ScanOp: axis must be a scalar, not {}", axis.shape());
    let axis = integers_of(axis)?[0];
    resolve_axis(axis, input.rank()).ok_or_else(|| out_of_range(axis, input.rank()))
}

fn scan_block<T: Stored, R: Reducer<T>>(
    input: &[T],
    inner: usize,
    direction: Direction,
    out: &mut [T],
) -> Result<()> {
    let mut totals = memory::vec_of(R::IDENTITY, inner)?;
    let mut visit = |(row, out): (&[T], &mut [T])| {
        for ((total, &value), out) in totals.iter_mut().zip(row).zip(out) {
            let next = R::combine(*total, value);
            *out = if direction.is_exclusive { *total } else { next };
            *total = next;
        }
    };
    let rows = input.chunks_exact(inner).zip(out.chunks_exact_mut(inner));
    if direction.is_reverse {
        rows.rev().for_each(&mut visit)
    } else {
        rows.for_each(&mut visit)
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;

    fn run(op: &str, axis: i32, exclusive: bool, reverse: bool) -> Vec<f32> {
        let input = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]).unwrap();
        let output = test_op(op)
            .attr("T", input.dtype())
            .attr("exclusive", exclusive)
            .attr("reverse", reverse)
            .input(input)
            .input(Tensor::scalar(axis))
            .run_one();
        output.unwrap().as_slice::<f32>().unwrap().to_vec()
    }

    #[test]
    fn totals_run_forwards_and_backwards_with_and_without_their_own_element() {
        assert_eq!(run("Cumsum", 1, false, false), [1.0, 3.0, 6.0, 4.0, 9.0, 15.0]);
        assert_eq!(run("Cumsum", -1, true, false), [0.0, 1.0, 3.0, 0.0, 4.0, 9.0]);
        assert_eq!(run("Cumsum", 0, false, true), [5.0, 7.0, 9.0, 4.0, 5.0, 6.0]);
        assert_eq!(run("Cumprod", 1, true, true), [6.0, 3.0, 1.0, 30.0, 6.0, 1.0]);
    }

    #[test]
    fn axes_are_checked_and_empty_inputs_give_empty_outputs() {
        let scan = |input: Tensor, axis: Tensor| {
            test_op("Cumsum").attr("T", input.dtype()).input(input).input(axis).run_one()
        };
        let empty = Tensor::from_slice::<f32>(&[], &[0, 2]).unwrap();
        assert_eq!(scan(empty.clone(), Tensor::scalar(0i32)).unwrap().num_elements(), 0);
        assert_eq!(scan(empty.clone(), Tensor::scalar(1i32)).unwrap().num_elements(), 0);
        assert!(scan(empty.clone(), Tensor::scalar(2i32)).unwrap_err().text().contains("scan axis"));
        assert!(
            scan(empty, Tensor::vector(&[0i32]).unwrap()).unwrap_err().text().contains("must be a scalar")
        );
        assert!(scan(Tensor::scalar(1.0f32), Tensor::scalar(0i32)).is_err());
    }
}
