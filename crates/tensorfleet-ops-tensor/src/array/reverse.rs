//! Turning axes round: ReverseV2, Reverse, ReverseSequence.

use smallvec::{SmallVec, smallvec};
use tensorfleet_core::{Element, PartialShape, Result, Status, Tensor, bail, ensure};

use super::axes::{integers, normalized, one};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, same_as_input};
use tensorfleet_numeric::rearrange::{Movement, rearrange};
use tensorfleet_numeric::strided::{Window, view};
use tensorfleet_threads::Loops;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("ReverseV2", "tensor: T, axis: Tidx -> output: T").work(Work::Inputs).gradient(reversed_back)
        .attrs("Tidx: {int32, int64} = int32; T: {uint8, int8, uint16, int16, int32, uint32, int64, uint64, bool, bfloat16, half, float, double, complex64, complex128, string}")
        .shape(same_as_input)
        .kernel(reverse_v2_kernel),
    Op::new("Reverse", "tensor: T, dims: bool -> output: T").work(Work::Inputs).gradient(reversed_back)
        .attrs("T: {uint8, int8, uint16, int16, uint32, int32, uint64, int64, bool, bfloat16, half, float, double, complex64, complex128, string}")
        .shape(same_as_input)
        .kernel(reverse_kernel),
    Op::new("ReverseSequence", "input: T, seq_lengths: Tlen -> output: T").work(Work::Inputs).gradient(reversed_back)
        .attrs("seq_dim: int; batch_dim: int = 0; T: type; Tlen: {int32, int64} = int64")
        .shape(reverse_sequence_shape)
        .kernel(reverse_sequence_kernel),
];

fn reversed(loops: &Loops, tensor: &Tensor, axes: &[bool]) -> Result<Tensor> {
    let mut window = Window::whole(tensor.shape());
    for (axis, &len) in tensor.shape().iter().enumerate() {
        if axes[axis] && len > 1 {
            window = window.slice(axis, len - 1, -1, len);
        }
    }
    view(loops, tensor, &window, tensor.shape().clone())
}

fn reverse_v2_kernel(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let (tensor, axes) = (ctx.input(0)?, ctx.input(1)?);
        let rank = tensor.shape().rank();
        ensure!(
            axes.shape().rank() == 1,
            InvalidArgument,
            "'dims' must be 1-dimension, not {}",
            axes.shape().rank()
        );
        let mut turned: SmallVec<[bool; 8]> = smallvec![false; rank];
        for (position, &axis) in integers(axes)?.iter().enumerate() {
            let Some(axis) = normalized(axis, rank) else {
                bail!(
                    InvalidArgument,
                    "'axis'[{position}] = {axis} is out of valid range [0, {}]",
                    rank as i64 - 1
                )
            };
            ensure!(!turned[axis], InvalidArgument, "axis {axis} specified more than once.");
            turned[axis] = true;
        }
        let tensor = reversed(ctx.loops(), tensor, &turned)?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

fn reverse_kernel(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let (tensor, axes) = (ctx.input(0)?, ctx.input(1)?.as_slice::<bool>()?);
        ensure!(
            axes.len() == tensor.shape().rank(),
            InvalidArgument,
            "'dims' must have the same number of values as 'tensor' has dimensions. 'tensor' has {} dimensions. 'dims' has {} values",
            tensor.shape().rank(),
            axes.len()
        );
        let tensor = reversed(ctx.loops(), tensor, axes)?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

/// The source is `[outer, a, middle, b, inner]`; `a` and `b` are the batch and the sequence in either order. The
/// first `lengths[batch]` elements of every sequence are turned round.
struct TurnStarts<'a> {
    lengths: &'a [usize],
    /// The sizes of `a`, `middle`, `b` and `inner`.
    sizes: [usize; 4],
    batch_first: bool,
}

impl Movement for TurnStarts<'_> {
    fn run<T: Element>(&self, _: &Loops, sources: &[&[T]], out: &mut [T]) -> Result<()> {
        let &[source] = sources else { return Err(Status::internal("one tensor holds the sequences")) };
        let [first, middle, second, inner] = self.sizes;
        if inner == 0 {
            return Ok(());
        }
        for (row, out) in out.chunks_exact_mut(inner).enumerate() {
            let (b, rest) = (row % second, row / second);
            let (m, rest) = (rest % middle, rest / middle);
            let (a, outer) = (rest % first, rest / first);
            let (batch, place) = if self.batch_first { (a, b) } else { (b, a) };
            let length = self.lengths[batch];
            let from = if place < length { length - 1 - place } else { place };
            let (a, b) = if self.batch_first { (a, from) } else { (from, b) };
            let row = ((outer * first + a) * middle + m) * second + b;
            out.copy_from_slice(&source[row * inner..][..inner]);
        }
        Ok(())
    }
}

fn sequence_axes(seq_dim: i64, batch_dim: i64, rank: usize) -> Result<(usize, usize)> {
    ensure!(batch_dim != seq_dim, InvalidArgument, "batch_dim == seq_dim == {seq_dim}");
    ensure!(
        (0..rank as i64).contains(&seq_dim),
        InvalidArgument,
        "seq_dim must be < input rank ( {seq_dim} vs. {rank})"
    );
    ensure!(
        (0..rank as i64).contains(&batch_dim),
        InvalidArgument,
        "batch_dim must be < input rank ( {batch_dim} vs. {rank})"
    );
    Ok((seq_dim as usize, batch_dim as usize))
}

fn reverse_sequence_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let lengths = ctx.input_with_rank(1, 1)?;
    if let Some(dims) = ctx.input(0).dims() {
        let (_, batch_dim) = sequence_axes(ctx.attr("seq_dim")?, ctx.attr("batch_dim")?, dims.len())?;
        lengths.merge(&PartialShape::vector(dims[batch_dim]))?;
    }
    one(ctx.input(0).clone())
}

fn reverse_sequence_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (seq_dim, batch_dim): (i64, i64) = (node.attr("seq_dim")?, node.attr("batch_dim")?);
    Ok(KernelBox::from_fn(move |ctx| {
        let (input, lengths) = (ctx.input(0)?, ctx.input(1)?);
        let shape = input.shape();
        ensure!(
            lengths.shape().rank() == 1,
            InvalidArgument,
            "seq_lengths must be 1-dim, not {}",
            lengths.shape().rank()
        );
        let (seq_dim, batch_dim) = sequence_axes(seq_dim, batch_dim, shape.rank())?;
        ensure!(
            lengths.num_elements() == shape[batch_dim],
            InvalidArgument,
            "Length of seq_lengths != input.dims({batch_dim}), ({} vs. {})",
            lengths.num_elements(),
            shape[batch_dim]
        );
        let mut starts: SmallVec<[usize; 8]> = SmallVec::new();
        for (batch, &length) in integers(lengths)?.iter().enumerate() {
            ensure!(length >= 0, InvalidArgument, "seq_lens({batch}) < 0");
            ensure!(
                length <= shape[seq_dim] as i64,
                InvalidArgument,
                "seq_lens({batch}) > input.dims({seq_dim})"
            );
            starts.push(length as usize);
        }
        let (first, second) = (seq_dim.min(batch_dim), seq_dim.max(batch_dim));
        let middle = shape[first + 1..second].iter().product();
        let inner = shape[second + 1..].iter().product();
        let turn = TurnStarts {
            lengths: &starts,
            sizes: [shape[first], middle, shape[second], inner],
            batch_first: batch_dim < seq_dim,
        };
        let tensor = rearrange(ctx.loops(), input.dtype(), shape.clone(), &[input], &turn)?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

/// A reversal is its own inverse.
fn reversed_back(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, op) = (d.dy(0)?, d.node().op.to_string());
    let dx = d.with_attrs(&op, &[dy, d.input(1)?], &["seq_dim", "batch_dim"]);
    let dx = d.emit(dx)?;
    d.only(0, dx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use tensorfleet_core::DType;

    fn matrix() -> Tensor {
        Tensor::from_slice(&[0i32, 1, 2, 3, 4, 5], &[2, 3]).unwrap()
    }

    fn reverse(axes: &[i32]) -> Result<Vec<i32>> {
        let op = test_op("ReverseV2").with_shape_check().attr("T", DType::Int32).input(matrix());
        let out = op.input(Tensor::vector(axes).unwrap()).run_one()?;
        Ok(out.as_slice::<i32>().unwrap().to_vec())
    }

    #[test]
    fn named_axes_are_turned_round() {
        assert_eq!(reverse(&[1]).unwrap(), [2, 1, 0, 5, 4, 3]);
        assert_eq!(reverse(&[-2]).unwrap(), [3, 4, 5, 0, 1, 2]);
        assert_eq!(reverse(&[0, 1]).unwrap(), [5, 4, 3, 2, 1, 0]);
        assert_eq!(reverse(&[]).unwrap(), [0, 1, 2, 3, 4, 5]);
        assert!(reverse(&[0, -2]).unwrap_err().text().contains("axis 0 specified more than once."));
        assert!(reverse(&[3]).unwrap_err().text().contains("'axis'[0] = 3 is out of valid range [0, 1"));
        let op = test_op("Reverse").with_shape_check().attr("T", DType::Int32).input(matrix());
        let out = op.input(Tensor::vector(&[false, true]).unwrap()).run_one().unwrap();
        assert_eq!(out.as_slice::<i32>().unwrap(), [2, 1, 0, 5, 4, 3]);
    }

    #[test]
    fn each_sequence_is_turned_up_to_its_length() {
        let run = |lengths: &[i64], seq: i64, batch: i64| {
            let op =
                test_op("ReverseSequence").with_shape_check().attr("T", DType::Int32).attr("seq_dim", seq);
            let op = op.attr("batch_dim", batch).input(matrix()).input(Tensor::vector(lengths).unwrap());
            op.run_one().map(|tensor| tensor.as_slice::<i32>().unwrap().to_vec())
        };
        assert_eq!(run(&[2, 3], 1, 0).unwrap(), [1, 0, 2, 5, 4, 3]);
        assert_eq!(run(&[2, 0, 1], 0, 1).unwrap(), [3, 1, 2, 0, 4, 5]);
        let text = |lengths: &[i64], seq, batch| run(lengths, seq, batch).unwrap_err().text().to_string();
        assert_eq!(text(&[2, 4], 1, 0), "seq_lens(1) > input.dims(1)");
        assert_eq!(text(&[2, -1], 1, 0), "seq_lens(1) < 0");
        assert!(text(&[2], 1, 0).contains("Length of seq_lengths != input.dims(0), (1 vs. 2)"));
        assert!(text(&[2, 1], 1, 1).contains("batch_dim == seq_dim == 1"));
        assert!(text(&[2, 1], 2, 0).contains("seq_dim must be < input rank ( 2 vs. 2)"));
    }
}
