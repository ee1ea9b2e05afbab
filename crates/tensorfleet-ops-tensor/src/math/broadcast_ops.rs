//! `BroadcastTo`, and the arithmetic of shapes that gradients of broadcasting ops do.

use smallvec::SmallVec;
use tensorfleet_core::{DType, PartialShape, Result, Shape, Status, StringsBuilder, Tensor, bail, ensure};

use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, broadcast_shapes, integers_of};
use tensorfleet_kernel::work::elements_of_shape;
use tensorfleet_numeric::broadcast::Broadcast;
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::elementwise::cost;
use tensorfleet_numeric::stored::Stored;
use tensorfleet_threads::Loops;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("BroadcastTo", "input: T, shape: Tidx -> output: T")
        .work(Work::Values(elements_of_shape::<1>))
        .attrs("T: type; Tidx: {int32, int64} = int32")
        .shape(broadcast_to_shape)
        .kernel(broadcast_to)
        .gradient(broadcast_to_gradient),
    Op::new("BroadcastArgs", "s0: T, s1: T -> r0: T")
        .attrs("T: {int32, int64} = int32")
        .shape(broadcast_args_shape)
        .kernel(broadcast_args)
        .cost(Cost::Trivial)
        .never_longer(),
    Op::new("BroadcastGradientArgs", "s0: T, s1: T -> r0: T, r1: T")
        .attrs("T: {int32, int64} = int32")
        .shape(gradient_args_shape)
        .kernel(gradient_args)
        .cost(Cost::Trivial)
        .not_differentiable()
        .never_longer(),
];

fn broadcast_to_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (x, y, dy) = (d.input(0)?, d.output(0), d.dy(0)?);
    let (dx, _) = d.unbroadcast((x, dy), (y, dy))?;
    d.flow_first(dx)
}

fn broadcast_to_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let target = ctx.shape_value(1)?;
    if let (Some(from), Some(to)) = (ctx.input(0).rank(), target.rank()) {
        check_rank(from, to)?;
        let merged = broadcast_shapes(ctx.input(0), &target)?;
        // The input must not stretch the target.
        merged.merge(&target)?;
    }
    Ok(vec![target])
}

fn check_rank(input: usize, output: usize) -> Result<()> {
    ensure!(
        input <= output,
        InvalidArgument,
        "Rank of input ({input}) must be no greater than rank of output shape ({output})."
    );
    Ok(())
}

fn broadcast_to(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let (input, dims) = (ctx.input(0)?, ctx.input(1)?);
        ensure!(
            dims.shape().rank() == 1,
            InvalidArgument,
            "shape must be a vector of {{int32,int64}}, got shape {}",
            dims.shape()
        );
        let target = Shape::from_signed(&integers_of(dims)?)?;
        check_rank(input.shape().rank(), target.rank())?;
        if *input.shape() == target {
            ctx.forward(0, 0);
            return Ok(());
        }
        let broadcast =
            Broadcast::new(&[input.shape(), &target]).filter(|broadcast| *broadcast.shape() == target);
        let Some(broadcast) = broadcast else {
            bail!(InvalidArgument, "Incompatible shapes: {} vs. {target}", input.shape())
        };
        let output = stretch(ctx.loops(), input, &broadcast)?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

fn stretch(loops: &Loops, input: &Tensor, broadcast: &Broadcast) -> Result<Tensor> {
    if input.dtype() == DType::String {
        let strings = broadcast.strings(0, input)?;
        let mut stretched = StringsBuilder::new(strings.len())?;
        strings.into_iter().try_for_each(|text| stretched.push(text.clone()))?;
        return stretched.finish(broadcast.shape());
    }
    dispatch!(input.dtype(), T in plain => stretch_plain::<T>(loops, input, broadcast))?
        .with_dtype(input.dtype())
}

fn stretch_plain<S: Stored>(loops: &Loops, input: &Tensor, broadcast: &Broadcast) -> Result<Tensor> {
    let data = input.as_slice::<S>()?;
    Tensor::build::<S>(broadcast.shape().clone(), |out| {
        loops.chunks_mut(out, 1, cost::ARITHMETIC, |start, out| {
            let mut filled = 0;
            broadcast.visit_runs(0, start, out.len(), |first, len, same| {
                let part = &mut out[filled..filled + len];
                if same {
                    part.fill(data[first]);
                } else {
                    part.copy_from_slice(&data[first..first + len]);
                }
                filled += len;
            });
        });
        Ok(())
    })
}

/// Two shapes given as vectors of integers.
struct ShapePair {
    dtype: DType,
    first: Vec<i64>,
    second: Vec<i64>,
}

impl ShapePair {
    fn read(first: &Tensor, second: &Tensor) -> Result<ShapePair> {
        for (index, tensor) in [first, second].into_iter().enumerate() {
            ensure!(
                tensor.shape().rank() == 1,
                InvalidArgument,
                "In[{index}] must be a vector.{}",
                tensor.shape()
            );
        }
        Ok(ShapePair { dtype: first.dtype(), first: integers_of(first)?, second: integers_of(second)? })
    }

    /// The sizes of both shapes axis by axis, missing leading ones filled in.
    fn axes(&self) -> impl Iterator<Item = (i64, i64)> {
        let rank = self.first.len().max(self.second.len());
        let size = move |dims: &[i64], axis: usize| {
            let missing = rank - dims.len();
            if axis < missing { 1 } else { dims[axis - missing] }
        };
        (0..rank).map(move |axis| (size(&self.first, axis), size(&self.second, axis)))
    }

    fn clash(&self) -> Status {
        let text = |dims: &[i64]| {
            let dims: Vec<String> = dims.iter().map(i64::to_string).collect();
            format!("[{}]", dims.join(","))
        };
        Status::invalid_argument(format!(
            "Incompatible shapes: {} vs. {}",
            text(&self.first),
            text(&self.second)
        ))
    }

    /// A vector of the operands' dtype.
    fn vector(&self, values: &[i64]) -> Result<Tensor> {
        match self.dtype {
            DType::Int64 => Tensor::vector(values),
            _ => Tensor::vector(&values.iter().map(|&value| value as i32).collect::<SmallVec<[i32; 8]>>()),
        }
    }
}

fn vector_len(ctx: &ShapeContext<'_>, index: usize) -> Result<Option<usize>> {
    Ok(ctx.input_with_rank(index, 1)?.dim(0))
}

fn broadcast_args_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let lengths = vector_len(ctx, 0)?.zip(vector_len(ctx, 1)?);
    Ok(vec![PartialShape::vector(lengths.map(|(a, b)| a.max(b)))])
}

/// `BroadcastArgs`: the shape that two shapes broadcast to.
fn broadcast_args(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let pair = ShapePair::read(ctx.input(0)?, ctx.input(1)?)?;
        let dims: Result<Vec<i64>> = pair
            .axes()
            .map(|(a, b)| match (a, b) {
                (1, other) | (other, 1) => Ok(other),
                (a, b) if a == b => Ok(a),
                _ => Err(pair.clash()),
            })
            .collect();
        let output = pair.vector(&dims?)?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

fn gradient_args_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    vector_len(ctx, 0)?;
    vector_len(ctx, 1)?;
    Ok(vec![PartialShape::of_rank(1); 2])
}

/// `BroadcastGradientArgs`: for each of two shapes, the axes of their broadcast along which it is stretched, and so
/// the gradient has to be summed. Axes of size one in both are listed for both, unless the shapes are equal.
fn gradient_args(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let pair = ShapePair::read(ctx.input(0)?, ctx.input(1)?)?;
        let (mut first, mut second) = (Vec::new(), Vec::new());
        if pair.first != pair.second {
            for (axis, (a, b)) in pair.axes().enumerate() {
                if a != b && a != 1 && b != 1 {
                    return Err(pair.clash());
                }
                if a == 1 {
                    first.push(axis as i64);
                }
                if b == 1 {
                    second.push(axis as i64);
                }
            }
        }
        let (first, second) = (pair.vector(&first)?, pair.vector(&second)?);
        ctx.set_output(0, first);
        ctx.set_output(1, second);
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;

    fn stretched(input: Tensor, shape: &[i32]) -> Result<Tensor> {
        let op = test_op("BroadcastTo").attr("T", input.dtype());
        op.input(input).input(Tensor::vector(shape).unwrap()).run_one()
    }

    #[test]
    fn values_stretch_to_the_right_aligned_shape() {
        let column = Tensor::from_slice(&[1i32, 2], &[2, 1]).unwrap();
        let output = stretched(column.clone(), &[2, 2, 3]).unwrap();
        assert_eq!(output.shape().dims(), [2, 2, 3]);
        assert_eq!(output.as_slice::<i32>().unwrap(), [1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2]);
        assert_eq!(stretched(Tensor::vector(&[1i32]).unwrap(), &[0]).unwrap().num_elements(), 0);
        assert_eq!(stretched(Tensor::string("x"), &[2]).unwrap().as_strings().unwrap().len(), 2);
        assert!(stretched(column.clone(), &[2]).unwrap_err().text().contains("Rank of input (2)"));
        assert!(
            stretched(column.clone(), &[1, 3])
                .unwrap_err()
                .text()
                .contains("Incompatible shapes: [2,1] vs. [1,3]")
        );
        assert!(stretched(column, &[2, -1]).is_err());
    }

    fn shapes(op: &str, a: &[i32], b: &[i32]) -> Result<Vec<Vec<i32>>> {
        let op = test_op(op).input(Tensor::vector(a).unwrap()).input(Tensor::vector(b).unwrap());
        op.run()?.iter().map(|output| Ok(output.as_slice::<i32>()?.to_vec())).collect()
    }

    #[test]
    fn shapes_broadcast_as_values_do() {
        assert_eq!(shapes("BroadcastArgs", &[3, 1], &[1, 4]), Ok(vec![vec![3, 4]]));
        assert_eq!(shapes("BroadcastArgs", &[], &[2]), Ok(vec![vec![2]]));
        let status = shapes("BroadcastArgs", &[2], &[3]).unwrap_err();
        assert_eq!(status.text(), "Incompatible shapes: [2] vs. [3]");
    }

    #[test]
    fn gradients_are_summed_over_the_axes_that_were_stretched() {
        let args = |a: &[i32], b: &[i32]| shapes("BroadcastGradientArgs", a, b).unwrap();
        assert_eq!(args(&[2, 3], &[3]), [vec![], vec![0]]);
        assert_eq!(args(&[3, 1], &[1, 4]), [vec![1], vec![0]]);
        assert_eq!(args(&[2, 3], &[2, 3]), [vec![], Vec::<i32>::new()]);
        assert_eq!(args(&[1, 1], &[1]), [vec![0, 1], vec![0, 1]]);
        assert_eq!(args(&[5, 1, 3], &[2, 1]), [vec![1], vec![0, 2]]);
        assert!(shapes("BroadcastGradientArgs", &[2], &[3]).is_err());
    }
}
