//! Joining strings: element by element, or along dimensions.

use bytes::Bytes;
use tensorfleet_core::{PartialShape, Result, Shape, Status, StringsBuilder, Tensor, bail, ensure, memory};

use super::joined;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, broadcast_shapes};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("StringJoin", "inputs: N * string -> output: string")
        .not_differentiable()
        .attrs("N: int >= 0; separator: string = ''")
        .shape(join_shape)
        .kernel(join),
    Op::new("ReduceJoin", "inputs: string, reduction_indices: int32 -> output: string")
        .not_differentiable()
        .attrs("keep_dims: bool = false; separator: string = ''")
        .shape(reduce_join_shape)
        .kernel(reduce_join),
];

fn join_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    // Scalars go with anything; all other inputs have the same shape.
    let mut output = PartialShape::scalar();
    for index in 0..ctx.num_inputs() {
        let input = ctx.input(index);
        output = match (output.rank(), input.rank()) {
            (_, None) => return Ok(vec![PartialShape::unknown()]),
            (Some(0), _) => input.clone(),
            (_, Some(0)) => output,
            (a, b) if a != b => {
                bail!(InvalidArgument, "Shapes must be equal rank, but are {output} and {input}")
            }
            _ => broadcast_shapes(&output, input)?,
        };
    }
    Ok(vec![output])
}

/// `StringJoin`: scalars are repeated.
fn join(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let separator: Bytes = node.attr("separator")?;
    let count = node.inputs.len();
    Ok(KernelBox::from_fn(move |ctx| {
        let inputs: Vec<&Tensor> = (0..count).map(|index| ctx.input(index)).collect::<Result<_>>()?;
        let mut shape = &Shape::scalar();
        for input in inputs.iter().filter(|input| !input.is_scalar()) {
            ensure!(
                shape.rank() == 0 || shape == input.shape(),
                InvalidArgument,
                "Input shapes do not match: {shape} vs. {}",
                input.shape()
            );
            shape = input.shape();
        }
        let columns: Vec<&[Bytes]> = inputs.iter().map(|input| input.as_strings()).collect::<Result<_>>()?;
        let mut rows = StringsBuilder::new(shape.num_elements())?;
        for index in ctx.step.cancellation.unless_cancelled(0..shape.num_elements()) {
            let index = index?;
            let parts = columns.iter().map(|column| &column[if column.len() == 1 { 0 } else { index }][..]);
            rows.push(joined(parts, &separator)?)?;
        }
        let output = rows.finish(shape)?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

/// The axes to join along, in order, each within the rank and named once.
fn axes(rank: usize, indices: &[i32]) -> Result<Vec<usize>> {
    let mut axes = Vec::with_capacity(indices.len());
    for &index in indices {
        let axis = if index < 0 { index as i64 + rank as i64 } else { index as i64 };
        ensure!(
            (0..rank as i64).contains(&axis),
            OutOfRange,
            "Invalid reduction dimension {index} for input with {rank} dimension(s)"
        );
        ensure!(!axes.contains(&(axis as usize)), InvalidArgument, "Duplicate reduction dimension {index}");
        axes.push(axis as usize);
    }
    Ok(axes)
}

fn reduce_join_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let (Some(dims), Some(indices)) = (ctx.input(0).dims(), ctx.value(1)) else {
        return Ok(vec![PartialShape::unknown()]);
    };
    let keep_dims: bool = ctx.attr("keep_dims")?;
    let refused = |status: Status| Status::invalid_argument(status.text().to_string());
    let reduced = axes(dims.len(), indices.as_slice::<i32>()?).map_err(refused)?;
    let kept = dims.iter().enumerate().filter_map(|(axis, &dim)| match reduced.contains(&axis) {
        true => keep_dims.then_some(Some(1)),
        false => Some(dim),
    });
    Ok(vec![PartialShape::new(kept)])
}

/// `ReduceJoin`: joins along the given dimensions, one after the other, so that the first one given varies fastest.
fn reduce_join(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let separator: Bytes = node.attr("separator")?;
    let keep_dims: bool = node.attr("keep_dims")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let input = ctx.input(0)?;
        let shape = input.shape();
        let reduced = axes(shape.rank(), ctx.input(1)?.as_slice::<i32>()?)?;
        let strides: Vec<usize> = (0..shape.rank()).map(|axis| shape[axis + 1..].iter().product()).collect();
        let kept: Vec<usize> = (0..shape.rank()).filter(|axis| !reduced.contains(axis)).collect();
        let offsets = |axes: &[usize]| {
            axes.iter().try_fold(vec![0], |offsets: Vec<usize>, &axis| {
                let (count, stride) = (shape[axis], strides[axis]);
                let step = |&start: &usize| (0..count).map(move |index| start + index * stride);
                memory::collect(offsets.iter().flat_map(step))
            })
        };
        let slowest_first: Vec<usize> = reduced.iter().rev().copied().collect();
        let (starts, steps) = (offsets(&kept)?, offsets(&slowest_first)?);
        let strings = input.as_strings()?;
        let dims: Vec<usize> = (0..shape.rank())
            .filter_map(|axis| match reduced.contains(&axis) {
                true => keep_dims.then_some(1),
                false => Some(shape[axis]),
            })
            .collect();
        let mut rows = StringsBuilder::new(starts.len())?;
        for start in ctx.step.cancellation.unless_cancelled(starts) {
            let start = start?;
            rows.push(joined(steps.iter().map(|step| &strings[start + step][..]), &separator)?)?;
        }
        let output = rows.finish(&dims)?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strings::tests::strings;
    use crate::testing::{TestOp, test_op};
    use tensorfleet_core::Code;

    fn join_op(inputs: &[Tensor]) -> TestOp {
        let op = test_op("StringJoin").attr("N", inputs.len() as i64).attr("separator", "-");
        inputs.iter().fold(op, |op, input| op.input(input.clone()))
    }

    #[test]
    fn scalars_are_joined_to_every_element() {
        let joined = join_op(&[Tensor::string("x"), strings(&["a", "b"]), Tensor::string("")]);
        assert_eq!(joined.run_one().unwrap(), strings(&["x-a-", "x-b-"]));
        assert_eq!(join_op(&[Tensor::string("x")]).run_one().unwrap(), Tensor::string("x"));
        assert_eq!(join_op(&[]).run_one().unwrap(), Tensor::string(""));
        assert_eq!(join_op(&[strings(&[]), Tensor::string("x")]).run_one().unwrap(), strings(&[]));
        let mismatch = join_op(&[strings(&["a", "b"]), strings(&["a", "b", "c"])]).run().unwrap_err();
        assert_eq!(mismatch.code(), Code::InvalidArgument);
        let one = join_op(&[strings(&["a"]), strings(&["b", "c"])]).run().unwrap_err();
        assert_eq!(one.code(), Code::InvalidArgument);
    }

    fn reduce(axes: &[i32], keep_dims: bool) -> Result<Tensor> {
        let input = strings(&["a", "b", "c", "d"]).reshaped(Shape::new(&[2, 2]).unwrap()).unwrap();
        let op = test_op("ReduceJoin").attr("separator", ".").attr("keep_dims", keep_dims).input(input);
        op.input(Tensor::vector(axes).unwrap()).run_one()
    }

    #[test]
    fn dimensions_are_joined_in_the_order_given() {
        assert_eq!(reduce(&[0], false).unwrap(), strings(&["a.c", "b.d"]));
        assert_eq!(reduce(&[-1], false).unwrap(), strings(&["a.b", "c.d"]));
        assert_eq!(reduce(&[0, 1], false).unwrap(), Tensor::string("a.c.b.d"));
        assert_eq!(reduce(&[1, 0], false).unwrap(), Tensor::string("a.b.c.d"));
        assert_eq!(&reduce(&[1], true).unwrap().shape()[..], [2, 1]);
        for outside in [2, -3] {
            assert_eq!(reduce(&[outside], false).unwrap_err().code(), Code::OutOfRange, "{outside}");
        }
        for twice in [&[0, 0][..], &[0, -2]] {
            assert_eq!(reduce(twice, false).unwrap_err().code(), Code::InvalidArgument, "{twice:?}");
        }
    }
}
