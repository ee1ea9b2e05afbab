//! `ArgMax` and `ArgMin`: where along an axis the extreme element is.
//!
//! The first of equal elements wins. Nan never wins, as TensorFlow 2.21 was observed to do.

use tensorfleet_core::{DType, PartialShape, Result, Shape, Status, Tensor, bail, ensure, memory};

use super::reduce::resolve_axis;
use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, integers_of};
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::number::Real;
use tensorfleet_numeric::stored::{Stored, compute_elements};
use tensorfleet_threads::{Loops, first_error};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("ArgMax", "input: T, dimension: Tidx -> output: output_type").work(Work::Inputs)
        .attrs(
            "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8, \
             quint8, qint32, qint16, quint16, bool}; Tidx: {int16, int32, int64} = int32; \
             output_type: {int16, uint16, int32, int64} = int64",
        )
        .shape(shape)
        .kernel(arg_max).not_differentiable(),
    Op::new("ArgMin", "input: T, dimension: Tidx -> output: output_type").work(Work::Inputs)
        .attrs(
            "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8, \
             quint8, qint32, qint16, quint16, bool}; Tidx: {int32, int64} = int32; \
             output_type: {int32, int64} = int64",
        )
        .shape(shape)
        .kernel(arg_min).not_differentiable(),
];

fn shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let Some(dims) = ctx.input(0).dims() else { return Ok(vec![PartialShape::unknown()]) };
    let Some(axis) = ctx.integer(1) else {
        return Ok(vec![dims.len().checked_sub(1).map_or(PartialShape::unknown(), PartialShape::of_rank)]);
    };
    let axis = resolve_axis(axis, dims.len()).ok_or_else(|| out_of_range(axis, dims.len()))?;
    let kept = dims.iter().enumerate().filter(|&(index, _)| index != axis);
    Ok(vec![PartialShape::new(kept.map(|(_, &dim)| dim))])
}

fn out_of_range(axis: i64, rank: usize) -> Status {
    Status::invalid_argument(format!("Expected dimension in the range [-{rank}, {rank}), but got {axis}"))
}

fn arg_max(node: &NodeSpec<'_>) -> Result<KernelBox> {
    kernel(node, Extreme::Largest)
}

fn arg_min(node: &NodeSpec<'_>) -> Result<KernelBox> {
    kernel(node, Extreme::Smallest)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Extreme {
    Largest,
    Smallest,
}

fn kernel(node: &NodeSpec<'_>, extreme: Extreme) -> Result<KernelBox> {
    let output_type = node.output_dtype(0)?;
    Ok(KernelBox::from_fn(move |ctx: &mut Context<'_>| {
        let (input, dimension) = (ctx.input(0)?, ctx.input(1)?);
        let axis = axis_of(dimension, input.shape())?;
        let positions = match input.dtype() {
            DType::Bool => {
                let bits: Vec<u8> = memory::collect(input.as_slice::<bool>()?.iter().map(|&bit| bit as u8))?;
                search(ctx.loops(), &bits, input.shape(), axis, extreme)?
            }
            dtype => dispatch!(dtype, T in real => {
                search(ctx.loops(), &compute_elements::<T>(input.as_slice()?)?, input.shape(), axis, extreme)
            })?,
        };
        let output = positions_as(output_type, &positions, input.shape(), axis)?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

fn axis_of(dimension: &Tensor, input: &Shape) -> Result<usize> {
    ensure!(
        dimension.is_scalar(),
        InvalidArgument,
        "dim must be a scalar, but received tensor of shape: {}",
        dimension.shape()
    );
    let axis = match dimension.dtype() {
        DType::Int16 => dimension.to_scalar::<i16>()? as i64,
        _ => integers_of(dimension)?[0],
    };
    let index = resolve_axis(axis, input.rank()).ok_or_else(|| out_of_range(axis, input.rank()))?;
    ensure!(input[index] > 0, InvalidArgument, "Reduction axis {index} is empty in shape {input}");
    Ok(index)
}

/// The positions along `axis`, which is not empty, of the extreme elements.
fn search<T: Real + Stored>(
    loops: &Loops,
    elements: &[T],
    shape: &Shape,
    axis: usize,
    extreme: Extreme,
) -> Result<Vec<u64>> {
    match extreme {
        Extreme::Largest => search_by(loops, elements, shape, axis, T::LOWEST, |a, b| a > b),
        Extreme::Smallest => search_by(loops, elements, shape, axis, T::HIGHEST, |a, b| a < b),
    }
}

fn search_by<T: Stored>(
    loops: &Loops,
    elements: &[T],
    shape: &Shape,
    axis: usize,
    worst: T,
    beats: fn(&T, &T) -> bool,
) -> Result<Vec<u64>> {
    let (len, inner): (usize, usize) = (shape[axis], shape[axis + 1..].iter().product());
    let mut positions = memory::vec_of(0u64, elements.len() / len.max(1))?;
    first_error(|keep| {
        loops.chunks_mut(&mut positions, inner, len * inner * 100, |start, positions| {
            let blocks = elements[start * len * inner..].chunks_exact((len * inner).max(1));
            let mut best = match memory::vec_of(worst, inner) {
                Ok(best) => best,
                Err(status) => return keep(Err(status)),
            };
            for (positions, block) in positions.chunks_exact_mut(inner.max(1)).zip(blocks) {
                best.fill(worst);
                for (index, row) in block.chunks_exact(inner).enumerate() {
                    for ((position, best), value) in positions.iter_mut().zip(&mut best).zip(row) {
                        if beats(value, best) {
                            (*position, *best) = (index as u64, *value);
                        }
                    }
                }
            }
        })
    })?;
    Ok(positions)
}

fn positions_as(dtype: DType, positions: &[u64], input: &Shape, axis: usize) -> Result<Tensor> {
    let mut dims = input.to_vec();
    dims.remove(axis);
    fn converted<T: tensorfleet_core::Element>(
        positions: &[u64],
        dims: &[usize],
        to: fn(u64) -> T,
    ) -> Result<Tensor> {
        let converted: Vec<T> = memory::collect(positions.iter().map(|&position| to(position)))?;
        Tensor::from_slice(&converted, dims)
    }
    match dtype {
        DType::Int64 => converted(positions, &dims, |position| position as i64),
        DType::Int32 => converted(positions, &dims, |position| position as i32),
        DType::Int16 => converted(positions, &dims, |position| position as i16),
        DType::UInt16 => converted(positions, &dims, |position| position as u16),
        other => bail!(InvalidArgument, "positions cannot be {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;

    fn run(op: &str, input: Tensor, axis: Tensor) -> Result<Tensor> {
        let (dtype, index) = (input.dtype(), axis.dtype());
        test_op(op).attr("T", dtype).attr("Tidx", index).input(input).input(axis).run_one()
    }

    #[test]
    fn the_first_of_equal_elements_wins_along_any_axis() {
        let matrix = Tensor::from_slice(&[1.0f32, 5.0, 5.0, 7.0, -2.0, 7.0], &[2, 3]).unwrap();
        let largest = run("ArgMax", matrix.clone(), Tensor::scalar(1i32)).unwrap();
        assert_eq!(largest.as_slice::<i64>().unwrap(), [1, 0]);
        let largest = run("ArgMax", matrix.clone(), Tensor::scalar(-2i64)).unwrap();
        assert_eq!(largest.as_slice::<i64>().unwrap(), [1, 0, 1]);
        let smallest = run("ArgMin", matrix, Tensor::scalar(0i32)).unwrap();
        assert_eq!(smallest.as_slice::<i64>().unwrap(), [0, 1, 0]);
        let bits = Tensor::vector(&[false, true, true]).unwrap();
        assert_eq!(run("ArgMax", bits, Tensor::scalar(0i32)).unwrap().to_scalar::<i64>(), Ok(1));
    }

    #[test]
    fn nan_never_wins() {
        let values = Tensor::vector(&[f32::NAN, 1.0, 2.0, f32::NAN]).unwrap();
        assert_eq!(run("ArgMax", values.clone(), Tensor::scalar(0i32)).unwrap().to_scalar::<i64>(), Ok(2));
        assert_eq!(run("ArgMin", values, Tensor::scalar(0i32)).unwrap().to_scalar::<i64>(), Ok(1));
    }

    #[test]
    fn empty_axes_and_axes_out_of_range_are_refused() {
        let empty = Tensor::from_slice::<f32>(&[], &[0, 2]).unwrap();
        let status = run("ArgMax", empty.clone(), Tensor::scalar(0i32)).unwrap_err();
        assert_eq!(status.text(), "Reduction axis 0 is empty in shape [0,2]");
        assert_eq!(run("ArgMax", empty.clone(), Tensor::scalar(1i32)).unwrap().num_elements(), 0);
        assert!(run("ArgMax", empty.clone(), Tensor::scalar(2i32)).unwrap_err().text().contains("but got 2"));
        assert!(run("ArgMax", empty, Tensor::vector(&[0i32]).unwrap()).is_err());
    }
}
