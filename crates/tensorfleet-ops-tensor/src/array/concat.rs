//! Putting tensors together: Concat, ConcatV2, Pack, and ConcatOffset for their gradients.

use smallvec::SmallVec;
use tensorfleet_core::{
    DType, Dim, Element, Endpoint, PartialShape, Result, Shape, Status, Tensor, bail, ensure,
};

use super::axes::{Integers, integer, integers, normalized, one, sizes_tensor, with_dim};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::known_value::KnownValue;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_numeric::rearrange::{Movement, rearrange};
use tensorfleet_numeric::strided::around_axis;
use tensorfleet_threads::Loops;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("ConcatV2", "values: N * T, axis: Tidx -> output: T")
        .work(Work::Inputs)
        .gradient(concat_v2_gradient)
        .attrs("N: int >= 2; T: type; Tidx: {int32, int64} = int32")
        .shape(|ctx| concat_shape(ctx, 0, ctx.num_inputs().saturating_sub(1)))
        .kernel(|node| concat_kernel(0, node.inputs.len() - 1))
        .known_value(known_concat),
    Op::new("Concat", "concat_dim: int32, values: N * T -> output: T")
        .work(Work::Inputs)
        .gradient(concat_gradient)
        .attrs("N: int >= 2; T: type")
        .shape(|ctx| concat_shape(ctx, 1, 0))
        .kernel(|_| concat_kernel(1, 0)),
    Op::new("Pack", "values: N * T -> output: T")
        .work(Work::Inputs)
        .gradient(pack_gradient)
        .attrs("N: int >= 1; T: type; axis: int = 0")
        .shape(pack_shape)
        .kernel(pack_kernel)
        .known_value(known_pack),
    Op::new("ConcatOffset", "concat_dim: int32, shape: N * shape_type -> offset: N * shape_type")
        .not_differentiable()
        .attrs("N: int >= 2; shape_type: {int32, int64} = int32")
        .shape(concat_offset_shape)
        .kernel(concat_offset_kernel)
        .cost(Cost::Trivial),
];

/// Shapes that are put together of parts.
fn known_concat(ctx: &ShapeContext<'_>, _: usize) -> Option<KnownValue> {
    let parts = if ctx.gives_shape() { ctx.num_inputs().checked_sub(1)? } else { return None };
    let dims = (0..parts).map(|index| ctx.known_dims(index)).collect::<Option<Vec<_>>>()?.concat();
    Some(KnownValue::Shape(PartialShape::new(dims)))
}

/// Shapes that are put together of sizes.
fn known_pack(ctx: &ShapeContext<'_>, _: usize) -> Option<KnownValue> {
    let are_scalars = (0..ctx.num_inputs()).all(|index| ctx.input(index).rank() == Some(0));
    let dim = |index: usize| usize::try_from(ctx.integer(index)?).ok();
    (ctx.gives_shape() && are_scalars)
        .then(|| KnownValue::Shape(PartialShape::new((0..ctx.num_inputs()).map(dim))))
}

/// Each row of the output is a row of every source, one after the other.
struct SideBySide {
    /// How many elements of each source make its part of a row.
    widths: SmallVec<[usize; 8]>,
}

impl Movement for SideBySide {
    fn run<T: Element>(&self, loops: &Loops, sources: &[&[T]], out: &mut [T]) -> Result<()> {
        let width: usize = self.widths.iter().sum();
        if out.len() == width {
            // A single row: every source is one run.
            let mut rest = out;
            for source in sources {
                let (part, others) = rest.split_at_mut(source.len());
                loops.chunks_mut(part, 1, 10, |first, part| {
                    part.copy_from_slice(&source[first..first + part.len()]);
                });
                rest = others;
            }
            return Ok(());
        }
        loops.chunks_mut(out, width, width * 20, |first, out| {
            for (row, mut out) in (first..).zip(out.chunks_exact_mut(width)) {
                for (source, &width) in sources.iter().zip(&self.widths) {
                    let (part, rest) = out.split_at_mut(width);
                    part.copy_from_slice(&source[row * width..(row + 1) * width]);
                    out = rest;
                }
            }
        });
        Ok(())
    }
}

/// `tensors` one after the other along `axis`; they agree in all other dimensions.
pub fn concat(loops: &Loops, tensors: &[&Tensor], axis: i64) -> Result<Tensor> {
    let Some(&first) = tensors.first() else { bail!(InvalidArgument, "ConcatOp : nothing to concatenate") };
    let axis = concat_axis(axis, first.shape().rank())?;
    let mut total = 0usize;
    let mut widths = SmallVec::new();
    for (index, tensor) in tensors.iter().enumerate() {
        check_concat(first.shape(), index, tensor.shape(), axis)?;
        let (_, len, inner) = around_axis(tensor.shape(), axis);
        total = total.saturating_add(len);
        widths.push(len * inner);
    }
    let shape = with_dim(first.shape(), axis, total)?;
    // With nothing but one tensor to copy, there is nothing to copy.
    let mut filled = tensors.iter().filter(|tensor| tensor.num_elements() > 0);
    if let (Some(only), None) = (filled.next(), filled.next()) {
        return Tensor::clone(only).reshaped(shape);
    }
    rearrange(loops, first.dtype(), shape, tensors, &SideBySide { widths })
}

fn concat_axis(axis: i64, rank: usize) -> Result<usize> {
    ensure!(rank > 0, InvalidArgument, "ConcatOp : Can't concatenate scalars (use tf.stack instead)");
    match normalized(axis, rank) {
        Some(axis) => Ok(axis),
        None => bail!(
            InvalidArgument,
            "ConcatOp : Expected concatenating dimensions in the range [{}, {rank}), but got {axis}",
            -(rank as i64)
        ),
    }
}

fn check_concat(first: &Shape, index: usize, shape: &Shape, axis: usize) -> Result<()> {
    ensure!(
        shape.rank() == first.rank(),
        InvalidArgument,
        "ConcatOp : Ranks of all input tensors should match: shape[0] = {first} vs. shape[{index}] = {shape}"
    );
    for (other, (a, b)) in first.iter().zip(shape.iter()).enumerate() {
        ensure!(
            other == axis || a == b,
            InvalidArgument,
            "ConcatOp : Dimension {other} in both shapes must be equal: shape[0] = {first} vs. shape[{index}] = {shape}"
        );
    }
    Ok(())
}

/// Where the values are among a node's inputs, the axis being before or behind them.
fn value_inputs(first: usize, count: usize) -> std::ops::Range<usize> {
    first..first + count - 1
}

fn concat_shape(ctx: &ShapeContext<'_>, first: usize, axis_input: usize) -> Result<Vec<PartialShape>> {
    let values = value_inputs(first, ctx.num_inputs());
    let rank = values.clone().find_map(|index| ctx.input(index).rank());
    let Some(rank) = rank else { return one(PartialShape::unknown()) };
    let Some(axis) = ctx.integer(axis_input) else {
        ensure!(rank > 0, InvalidArgument, "ConcatOp : Can't concatenate scalars (use tf.stack instead)");
        return one(PartialShape::of_rank(rank));
    };
    let axis = concat_axis(axis, rank)?;
    let mut total: Dim = Some(0);
    let mut merged = PartialShape::of_rank(rank);
    for index in values {
        let shape = ctx.input(index);
        total = total.zip(shape.dim(axis)).and_then(|(a, b)| a.checked_add(b));
        let others = shape.dims().map(|dims| {
            PartialShape::new(dims.iter().enumerate().map(|(k, &dim)| if k == axis { None } else { dim }))
        });
        merged = merged.merge(&others.unwrap_or_default())?;
    }
    let dims = merged.dims().unwrap_or_default();
    one(PartialShape::new(dims.iter().enumerate().map(|(k, &dim)| if k == axis { total } else { dim })))
}

fn input_tensors<'a>(ctx: &'a Context<'_>, range: std::ops::Range<usize>) -> Result<Vec<&'a Tensor>> {
    range.map(|index| ctx.input(index)).collect()
}

/// `Concat` and `ConcatV2`, which differ in where the axis stands.
fn concat_kernel(first: usize, axis_input: usize) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(move |ctx| {
        let axis = integer(ctx.input(axis_input)?, "ConcatOp : concat_dim")?;
        let values = input_tensors(ctx, value_inputs(first, ctx.num_inputs()))?;
        let tensor = concat(ctx.loops(), &values, axis)?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

fn stacked_axis(axis: i64, rank: usize) -> Result<usize> {
    match normalized(axis, rank + 1) {
        Some(axis) => Ok(axis),
        None => bail!(InvalidArgument, "axis = {axis} not in [{}, {})", -(rank as i64) - 1, rank + 1),
    }
}

fn pack_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let mut merged = PartialShape::unknown();
    for index in 0..ctx.num_inputs() {
        merged = merged.merge(ctx.input(index))?;
    }
    let Some(dims) = merged.dims() else { return one(PartialShape::unknown()) };
    let mut dims: SmallVec<[Dim; 8]> = SmallVec::from_slice(dims);
    dims.insert(stacked_axis(ctx.attr("axis")?, dims.len())?, Some(ctx.num_inputs()));
    one(PartialShape::new(dims))
}

/// `tensors`, all of one shape, along a new axis.
pub fn pack(loops: &Loops, tensors: &[&Tensor], axis: i64) -> Result<Tensor> {
    let Some(&first) = tensors.first() else { bail!(InvalidArgument, "there is nothing to stack") };
    let axis = stacked_axis(axis, first.shape().rank())?;
    for (index, tensor) in tensors.iter().enumerate() {
        ensure!(
            tensor.shape() == first.shape(),
            InvalidArgument,
            "Shapes of all inputs must match: values[0].shape = {} != values[{index}].shape = {}",
            first.shape(),
            tensor.shape()
        );
    }
    let mut dims: SmallVec<[usize; 8]> = SmallVec::from_slice(first.shape());
    dims.insert(axis, tensors.len());
    let shape = Shape::new(&dims)?;
    if let [only] = tensors {
        return Tensor::clone(only).reshaped(shape);
    }
    let width = first.shape()[axis..].iter().product();
    rearrange(
        loops,
        first.dtype(),
        shape,
        tensors,
        &SideBySide { widths: SmallVec::from_elem(width, tensors.len()) },
    )
}

fn pack_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let axis = node.attr("axis")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let tensor = pack(ctx.loops(), &input_tensors(ctx, 0..ctx.num_inputs())?, axis)?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

fn concat_offset_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    (1..ctx.num_inputs()).map(|index| ctx.input_with_rank(index, 1)).collect()
}

/// `ConcatOffset`: where in the concatenation each part begins.
fn concat_offset_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let out = node.attr("shape_type")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let count = ctx.num_inputs() - 1;
        let first = integers(ctx.input(1)?)?;
        let rank = first.len();
        let axis = integer(ctx.input(0)?, "Concat dim tensor")?;
        let Some(axis) = normalized(axis, rank) else {
            bail!(InvalidArgument, "Concat dim is out of range: {axis} vs. {rank}")
        };
        let mut start = 0i64;
        for index in 0..count {
            let shape = integers(ctx.input(index + 1)?)?;
            check_offset_shape(&first, index, &shape, axis)?;
            let offsets = (0..rank).map(|k| if k == axis { start as usize } else { 0 });
            let tensor = sizes_tensor(offsets, &[rank], out)?;
            ctx.set_output(index, tensor);
            start = start.saturating_add(shape[axis].max(0));
        }
        Ok(())
    }))
}

fn check_offset_shape(first: &Integers, index: usize, shape: &Integers, axis: usize) -> Result<()> {
    ensure!(
        shape.len() == first.len(),
        InvalidArgument,
        "input {index} should contain {} elements, but got {}",
        first.len(),
        shape.len()
    );
    ensure!(
        first.iter().zip(shape).enumerate().all(|(k, (a, b))| k == axis || a == b),
        InvalidArgument,
        "All dimensions except {axis} must match. Input {index} has shape {shape:?} and doesn't match input 0 with shape {first:?}."
    );
    Ok(())
}

fn concat_v2_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let mut parts = d.inputs();
    let axis = parts.pop().ok_or_else(|| Status::internal("a concatenation without an axis"))?;
    let mut grads = slices_back(d, &parts, axis)?;
    grads.push(None);
    Ok(grads)
}

fn concat_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let parts = d.inputs().split_off(1);
    let axis = d.input(0)?;
    let mut grads = slices_back(d, &parts, axis)?;
    grads.insert(0, None);
    Ok(grads)
}

/// Each part of a concatenation gets its slice of the whole.
fn slices_back(d: &mut Differential<'_>, parts: &[Endpoint], axis: Endpoint) -> Result<Grads> {
    let dy = d.dy(0)?;
    if parts.len() == 1 {
        return Ok(vec![Some(dy.into())]);
    }
    if let Some(grads) = known_slices_back(d, parts, axis, dy)? {
        return Ok(grads);
    }
    let axis = d.cast(axis, DType::Int32)?;
    let shapes: Vec<Endpoint> = parts.iter().map(|&part| d.shape_of(part)).collect::<Result<_>>()?;
    let offsets = d.add(NewNode::new("ConcatOffset").input(axis).input_list(shapes.iter().copied()))?;
    let slice = |(index, &size): (usize, &Endpoint)| {
        Ok(Some(d.op("Slice", [dy, Endpoint::new(offsets, index as u32), size])?.into()))
    };
    shapes.iter().enumerate().map(slice).collect()
}

/// The same where it is known how far each part reaches along the axis: then nothing about the parts has to be computed in the
/// graph, nor kept for it in a loop.
fn known_slices_back(
    d: &mut Differential<'_>,
    parts: &[Endpoint],
    axis: Endpoint,
    dy: Endpoint,
) -> Result<Option<Grads>> {
    let shapes: Vec<PartialShape> = parts.iter().map(|&part| d.shape(part)).collect::<Result<_>>()?;
    let Some(rank) = shapes.iter().find_map(PartialShape::rank) else { return Ok(None) };
    let axis = d.constant_value(axis).and_then(|axis| integer(&axis, "axis").ok());
    let Some(axis) = axis.and_then(|axis| normalized(axis, rank)) else { return Ok(None) };
    let (mut places, mut end) = (Vec::with_capacity(parts.len()), 0i32);
    for shape in &shapes {
        let length = shape.dim(axis).and_then(|length| i32::try_from(length).ok());
        let Some((length, next)) = length.and_then(|length| Some((length, end.checked_add(length)?))) else {
            return Ok(None);
        };
        places.push((end, length));
        end = next;
    }
    let along_axis = |value: i32, elsewhere: i32| -> Vec<i32> {
        (0..rank).map(|other| if other == axis { value } else { elsewhere }).collect()
    };
    let slice = |(start, length)| {
        let (begin, size) = (d.ints(&along_axis(start, 0))?, d.ints(&along_axis(length, -1))?);
        Ok(Some(d.op("Slice", [dy, begin, size])?.into()))
    };
    places.into_iter().map(slice).collect::<Result<_>>().map(Some)
}

fn pack_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, count) = (d.dy(0)?, d.inputs().len());
    let unpack = d.with_attrs("Unpack", &[dy], &["axis"]).attr("num", count as i64);
    let parts = d.add(unpack)?;
    Ok((0..count).map(|slot| Some(Endpoint::new(parts, slot as u32).into())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use proptest::prelude::*;
    use tensorfleet_core::{Code, DType};

    fn concat_v2(values: &[Tensor], axis: i32) -> Result<Tensor> {
        let mut op = test_op("ConcatV2")
            .with_shape_check()
            .attr("N", values.len() as i64)
            .attr("T", values[0].dtype());
        for value in values {
            op = op.input(value.clone());
        }
        op.input(axis.into()).run_one()
    }

    fn zeros(dims: &[usize]) -> Tensor {
        Tensor::zeros(DType::Float, Shape::new(dims).unwrap()).unwrap()
    }

    #[test]
    fn concat_takes_the_axis_from_either_end_and_any_dtype() {
        let a = Tensor::from_slice(&[1i32, 2], &[2, 1]).unwrap();
        let b = Tensor::from_slice(&[3i32, 4, 5, 6], &[2, 2]).unwrap();
        let expected = Tensor::from_slice(&[1i32, 3, 4, 2, 5, 6], &[2, 3]).unwrap();
        assert_eq!(concat_v2(&[a.clone(), b.clone()], 1).unwrap(), expected);
        assert_eq!(concat_v2(&[a.clone(), b.clone()], -1).unwrap(), expected);
        let first = test_op("Concat").with_shape_check().attr("N", 2i64).attr("T", DType::Int32);
        assert_eq!(first.input(1i32.into()).input(a).input(b).run_one().unwrap(), expected);
        let strings = ["x", "y"].map(|text| Tensor::from_strings(vec![text.into()], &[1]).unwrap());
        assert_eq!(concat_v2(&strings, 0).unwrap().as_strings().unwrap(), ["x", "y"]);
    }

    #[test]
    fn concat_refuses_what_does_not_fit_with_the_words_of_tensorflow() {
        let text = |values: &[Tensor], axis| {
            let status = concat_v2(values, axis).unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            status.text().to_string()
        };
        assert!(
            text(&[zeros(&[2, 3]), zeros(&[3, 2])], 0).contains("Dimension 1 in both shapes must be equal")
        );
        assert!(text(&[zeros(&[2, 3]), zeros(&[2, 3])], 2).contains("in the range [-2, 2), but got 2"));
        assert!(text(&[zeros(&[2, 3]), zeros(&[2])], 0).contains("Ranks of all input tensors should match"));
        assert!(text(&[zeros(&[]), zeros(&[])], 0).contains("Can't concatenate scalars"));
    }

    #[test]
    fn empty_parts_cost_nothing() {
        let full = Tensor::vector(&[1.0f32, 2.0]).unwrap();
        let out = concat_v2(&[zeros(&[0]), full.clone(), zeros(&[0])], 0).unwrap();
        assert_eq!(out.as_bytes().unwrap().as_ptr(), full.as_bytes().unwrap().as_ptr());
        assert_eq!(concat_v2(&[zeros(&[0]), zeros(&[0])], 0).unwrap().shape().dims(), [0]);
    }

    #[test]
    fn pack_stacks_along_a_new_axis() {
        let pack = |values: &[Tensor], axis: i64| {
            let op = test_op("Pack")
                .with_shape_check()
                .attr("N", values.len() as i64)
                .attr("T", values[0].dtype());
            values.iter().fold(op.attr("axis", axis), |op, value| op.input(value.clone())).run_one()
        };
        let (a, b) = (Tensor::vector(&[1i64, 2]).unwrap(), Tensor::vector(&[3i64, 4]).unwrap());
        let rows = Tensor::from_slice(&[1i64, 2, 3, 4], &[2, 2]).unwrap();
        let columns = Tensor::from_slice(&[1i64, 3, 2, 4], &[2, 2]).unwrap();
        assert_eq!(pack(&[a.clone(), b.clone()], 0).unwrap(), rows);
        assert_eq!(pack(&[a.clone(), b.clone()], -2).unwrap(), rows);
        assert_eq!(pack(&[a.clone(), b.clone()], 1).unwrap(), columns);
        assert_eq!(pack(&["x".into(), "y".into()], 0).unwrap().as_strings().unwrap(), ["x", "y"]);
        assert!(pack(&[a.clone(), b], 2).unwrap_err().text().contains("axis = 2 not in [-2, 2)"));
        let status = pack(&[a, Tensor::vector(&[1i64]).unwrap()], 0).unwrap_err();
        assert!(status.text().contains("values[0].shape = [2] != values[1].shape = [1]"));
    }

    #[test]
    fn offsets_say_where_parts_begin() {
        let offset = |axis: i32, shapes: &[&[i32]]| {
            let op =
                test_op("ConcatOffset").with_shape_check().attr("N", shapes.len() as i64).input(axis.into());
            shapes.iter().fold(op, |op, shape| op.input(Tensor::vector(shape).unwrap())).run()
        };
        let out = offset(-1, &[&[2, 3], &[2, 4], &[2, 1]]).unwrap();
        assert_eq!(out[2].as_slice::<i32>().unwrap(), [0, 7]);
        assert!(
            offset(0, &[&[2, 3], &[2, 4]]).unwrap_err().text().contains("All dimensions except 0 must match")
        );
        assert!(offset(5, &[&[2], &[2]]).unwrap_err().text().contains("out of range: 5 vs. 1"));
        assert!(
            offset(0, &[&[2], &[2, 4]]).unwrap_err().text().contains("should contain 1 elements, but got 2")
        );
    }

    proptest! {
        #[test]
        fn concatenation_agrees_with_element_by_element_lookup(
            outer in 0usize..4, inner in 0usize..4, lens in prop::collection::vec(0usize..4, 2..5),
        ) {
            let mut next = 0;
            let parts: Vec<Tensor> = lens.iter().map(|&len| {
                let elements: Vec<i32> = (0..outer * len * inner).map(|_| { next += 1; next }).collect();
                Tensor::from_slice(&elements, &[outer, len, inner]).unwrap()
            }).collect();
            let mut expected: Vec<i32> = Vec::new();
            for o in 0..outer {
                for (part, &len) in parts.iter().zip(&lens) {
                    let elements = part.as_slice::<i32>().unwrap();
                    (0..len * inner).for_each(|i| expected.push(elements[o * len * inner + i]));
                }
            }
            let out = concat_v2(&parts, 1).unwrap();
            prop_assert_eq!(out.shape().dims(), &[outer, lens.iter().sum(), inner]);
            prop_assert_eq!(out.as_slice::<i32>().unwrap(), &expected[..]);
        }
    }
}
