//! Adding a bias for each channel, and its gradient: the sum over everything else.

use tensorfleet_core::{PartialShape, Result, Shape, ensure, memory};

use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::number::Number;
use tensorfleet_numeric::stored::{Stored, build_computed, compute_elements};
use tensorfleet_threads::Loops;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("BiasAdd", "value: T, bias: T -> output: T")
        .work(Work::Inputs)
        .attrs("T: number; data_format: {'NHWC', 'NCHW'} = 'NHWC'")
        .shape(bias_add_shape)
        .kernel(bias_add)
        .gradient(bias_add_gradient),
    Op::new("BiasAddV1", "value: T, bias: T -> output: T")
        .work(Work::Inputs)
        .attrs("T: number")
        .shape(bias_add_shape)
        .kernel(bias_add)
        .gradient(bias_add_v1_gradient),
    Op::new("BiasAddGrad", "out_backprop: T -> output: T")
        .work(Work::Inputs)
        .attrs("T: number; data_format: {'NHWC', 'NCHW'} = 'NHWC'")
        .shape(bias_add_grad_shape)
        .kernel(bias_add_grad)
        .gradient(bias_add_grad_gradient),
];

fn bias_add_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let dy = d.dy(0)?;
    let bias = d.emit(d.with_attrs("BiasAddGrad", &[dy], &["data_format"]))?;
    d.flow([dy.into(), bias.into()])
}

fn bias_add_v1_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let dy = d.dy(0)?;
    let bias = d.op("BiasAddGrad", [dy])?;
    d.flow([dy.into(), bias.into()])
}

/// A sum's gradient is the same everywhere: a bias added to zeros.
fn bias_add_grad_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (x, dy) = (d.input(0)?, d.dy(0)?);
    let zeros = d.op("ZerosLike", [x])?;
    let spread = d.emit(d.with_attrs("BiasAdd", &[zeros, dy], &["data_format"]))?;
    d.flow([spread.into()])
}

/// Where a tensor has its channels: as `outer * channels * inner` elements.
struct Channels {
    outer: usize,
    count: usize,
    inner: usize,
}

impl Channels {
    fn of(shape: &Shape, channels_first: bool) -> Result<Channels> {
        ensure!(shape.rank() >= 2, InvalidArgument, "Input tensor must be at least 2D: {shape}");
        let axis = if channels_first { 1 } else { shape.rank() - 1 };
        Ok(Channels {
            outer: shape[..axis].iter().product(),
            count: shape[axis],
            inner: shape[axis + 1..].iter().product(),
        })
    }
}

fn channels_first(node: &NodeSpec<'_>) -> Result<bool> {
    // BiasAddV1 has no such attribute.
    Ok(node.attr::<String>("data_format").is_ok_and(|format| format == "NCHW"))
}

fn channel_axis(ctx: &ShapeContext<'_>, shape: &PartialShape) -> Result<Option<usize>> {
    let Some(rank) = shape.rank() else { return Ok(None) };
    ensure!(rank >= 2, InvalidArgument, "Shape must be at least rank 2 but is rank {rank}");
    Ok(Some(if channels_first(ctx.node)? { 1 } else { rank - 1 }))
}

fn bias_add_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let bias = ctx.input_with_rank(1, 1)?;
    let mut shape = ctx.input(0).clone();
    if let Some(axis) = channel_axis(ctx, &shape)? {
        let channels = PartialShape::vector(shape.dim(axis)).merge(&bias)?;
        let dims = shape.dims().unwrap_or_default().iter().enumerate();
        shape = PartialShape::new(dims.map(|(at, &dim)| if at == axis { channels.dim(0) } else { dim }));
    }
    Ok(vec![shape])
}

fn bias_add_grad_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let shape = ctx.input(0);
    Ok(vec![PartialShape::vector(channel_axis(ctx, shape)?.and_then(|axis| shape.dim(axis)))])
}

tensorfleet_numeric::simd_dispatch! {
    /// Adds `bias[channel]` to runs of `inner` elements; `values` starts at channel 0.
    fn add_bias[T: Number](values: &mut [T], bias: &[T], inner: usize) {
        if inner == 1 {
            for row in values.chunks_mut(bias.len()) {
                row.iter_mut().zip(bias).for_each(|(x, &bias)| *x = x.plus(bias));
            }
        } else {
            for (run, &bias) in values.chunks_mut(inner).zip(bias.iter().cycle()) {
                run.iter_mut().for_each(|x| *x = x.plus(bias));
            }
        }
    }

    /// Adds up the rows of a matrix.
    fn add_rows[T: Number](rows: &[T], sums: &mut [T]) {
        for row in rows.chunks(sums.len()) {
            sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum = sum.plus(x));
        }
    }

    /// The sum of a run, in eight strands so that it vectorises.
    fn sum_run[T: Number](run: &[T]) -> T {
        let mut strands = [T::ZERO; 8];
        let (blocks, rest) = run.as_chunks::<8>();
        for block in blocks {
            strands.iter_mut().zip(block).for_each(|(sum, &x)| *sum = sum.plus(x));
        }
        let tail = rest.iter().fold(T::ZERO, |sum, &x| sum.plus(x));
        strands.into_iter().fold(tail, T::plus)
    }
}

fn bias_add(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let channels_first = channels_first(node)?;
    dispatch!(node.dtype()?, T in numeric => Ok(KernelBox::from_fn(move |ctx| {
        let loops = ctx.loops();
        let mut value = ctx.take_input(0)?;
        let bias = ctx.input(1)?;
        let channels = Channels::of(value.shape(), channels_first)?;
        ensure!(bias.shape().rank() == 1, InvalidArgument, "Biases must be 1D: {}", bias.shape());
        ensure!(
            bias.num_elements() == channels.count,
            InvalidArgument,
            "Must provide as many biases as the {} dimension of the input tensor: {} vs. {}",
            if channels_first && value.shape().rank() > 2 { "channel" } else { "last" },
            bias.shape(),
            value.shape()
        );
        if value.num_elements() > 0 {
            let (bias, unit) = (bias.as_slice::<T>()?, channels.count * channels.inner);
            loops.chunks_mut(value.make_mut::<T>()?, unit, unit * 30, |_, piece| {
                add_bias(piece, bias, channels.inner);
            });
        }
        ctx.set_output(0, value);
        Ok(())
    })))
}

/// Rows that are added up before their sum goes to the total: keeps rounding errors small, and is a shard.
const ROWS_PER_BLOCK: usize = 256;

fn bias_add_grad(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let channels_first = channels_first(node)?;
    dispatch!(node.dtype()?, T in numeric => Ok(bias_grad_kernel::<T>(channels_first)))
}

/// Sums of halves are kept in float and rounded at the end.
fn bias_grad_kernel<S: Stored<Compute: Number>>(channels_first: bool) -> KernelBox {
    KernelBox::from_fn(move |ctx| {
        let backprop = ctx.input(0)?;
        let channels = Channels::of(backprop.shape(), channels_first)?;
        let values = compute_elements(backprop.as_slice::<S>()?)?;
        let output = build_computed::<S>(Shape::vector(channels.count), |sums| {
            channel_sums(ctx.loops(), &values, &channels, sums)
        })?;
        ctx.set_output(0, output);
        Ok(())
    })
}

/// Writes the sum of each channel to `sums`.
fn channel_sums<T: Number>(loops: &Loops, values: &[T], channels: &Channels, sums: &mut [T]) -> Result<()> {
    let Channels { outer, count, inner } = *channels;
    sums.fill(T::ZERO);
    if values.is_empty() {
        return Ok(());
    }
    let rows_per_block = if inner == 1 { ROWS_PER_BLOCK } else { 1 };
    let block_len = rows_per_block * count * inner;
    let mut partial = memory::vec_of(T::ZERO, outer.div_ceil(rows_per_block) * count)?;
    loops.chunks_mut(&mut partial, count, block_len * 25, |first, partial| {
        let blocks = values[first * block_len..].chunks(block_len);
        for (sums, block) in partial.chunks_mut(count).zip(blocks) {
            if inner == 1 {
                add_rows(block, sums);
            } else {
                block.chunks(inner).zip(sums).for_each(|(run, sum)| *sum = sum_run(run));
            }
        }
    });
    for block in partial.chunks(count) {
        sums.iter_mut().zip(block).for_each(|(sum, &part)| *sum = sum.plus(part));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use half::f16;
    use tensorfleet_core::{Code, DType, Tensor};

    fn counting(dims: &[usize]) -> Tensor {
        let count: usize = dims.iter().product();
        Tensor::from_slice(&(0..count).map(|i| i as f32).collect::<Vec<_>>(), dims).unwrap()
    }

    fn add(value: Tensor, bias: &[f32], format: &str) -> Result<Tensor> {
        let run = test_op("BiasAdd").attr("T", DType::Float).attr("data_format", format);
        run.input(value).input(Tensor::vector(bias).unwrap()).run_one()
    }

    fn gradient(value: Tensor, format: &str) -> Result<Tensor> {
        test_op("BiasAddGrad").attr("T", value.dtype()).attr("data_format", format).input(value).run_one()
    }

    #[test]
    fn the_channel_is_the_last_dimension_or_the_second() {
        let found = add(counting(&[2, 3]), &[10.0, 20.0, 30.0], "NHWC").unwrap();
        assert_eq!(found.as_slice::<f32>().unwrap(), [10.0, 21.0, 32.0, 13.0, 24.0, 35.0]);
        for dims in [&[1, 2, 2][..], &[1, 2, 1, 2], &[1, 2, 1, 1, 2]] {
            let found = add(counting(dims), &[10.0, 20.0], "NCHW").unwrap();
            assert_eq!(found.as_slice::<f32>().unwrap(), [10.0, 11.0, 22.0, 23.0], "{dims:?}");
        }
        assert_eq!(add(counting(&[0, 3]), &[1.0; 3], "NHWC").unwrap().num_elements(), 0);
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        for (dims, bias, fragment) in [
            (&[3][..], 3, "Input tensor must be at least 2D: [3]"),
            (
                &[2, 3],
                2,
                "Must provide as many biases as the last dimension of the input tensor: [2] vs. [2,3]",
            ),
            (&[2, 3], 0, "Must provide as many biases"),
        ] {
            let status = add(counting(dims), &vec![0.0; bias], "NHWC").unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            assert!(status.text().contains(fragment), "{}", status.text());
        }
        let run =
            test_op("BiasAdd").attr("T", DType::Float).input(counting(&[2, 3])).input(counting(&[1, 3]));
        assert!(run.run_one().unwrap_err().text().contains("Biases must be 1D: [1,3]"));
    }

    #[test]
    fn the_gradient_sums_everything_but_the_channel() {
        for (dims, format, expected) in [
            (&[1, 2, 2, 2][..], "NCHW", &[6.0f32, 22.0][..]),
            (&[2, 3], "NCHW", &[3.0, 5.0, 7.0]),
            (&[2, 2, 2], "NCHW", &[10.0, 18.0]),
            (&[2, 2, 2], "NHWC", &[12.0, 16.0]),
            (&[0, 3], "NHWC", &[0.0; 3]),
        ] {
            let found = gradient(counting(dims), format).unwrap();
            assert_eq!(found.as_slice::<f32>().unwrap(), expected, "{dims:?} {format}");
        }
        let ones = Tensor::from_slice(&vec![f16::ONE; 3000], &[3000, 1]).unwrap();
        assert_eq!(gradient(ones, "NHWC").unwrap().as_slice::<f16>().unwrap()[0].to_f32(), 3000.0);
        assert!(
            gradient(counting(&[3]), "NHWC")
                .unwrap_err()
                .text()
                .contains("Input tensor must be at least 2D: [3]")
        );
    }

    #[test]
    fn large_gradients_are_summed_in_blocks() {
        let found =
            gradient(Tensor::from_slice(&vec![1.0f32; 300_000], &[100_000, 3]).unwrap(), "NHWC").unwrap();
        assert_eq!(found.as_slice::<f32>().unwrap(), [100_000.0; 3]);
    }
}
