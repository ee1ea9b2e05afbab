//! Surrounding tensors: Pad, PadV2 with a constant; MirrorPad with their own reflection, and its gradient.

use smallvec::SmallVec;
use tensorfleet_core::{Dim, Element, Endpoint, PartialShape, Result, Shape, Status, Tensor, ensure, memory};

use super::axes::{integers, one};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_kernel::work::{NodeInputs, integers_in};
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::number::Number;
use tensorfleet_numeric::rearrange::{Movement, rearrange};
use tensorfleet_numeric::strided::Window;
use tensorfleet_threads::Loops;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Pad", "input: T, paddings: Tpaddings -> output: T")
        .work(Work::Values(padded_elements))
        .gradient(pad_gradient)
        .attrs("T: type; Tpaddings: {int32, int64} = int32")
        .shape(|ctx| padded_shape(ctx, 1))
        .kernel(pad_kernel),
    Op::new("PadV2", "input: T, paddings: Tpaddings, constant_values: T -> output: T")
        .work(Work::Values(padded_elements))
        .gradient(pad_gradient)
        .attrs("T: type; Tpaddings: {int32, int64} = int32")
        .shape(|ctx| padded_shape(ctx, 1))
        .kernel(pad_kernel),
    Op::new("MirrorPad", "input: T, paddings: Tpaddings -> output: T")
        .work(Work::Values(padded_elements))
        .gradient(mirror_pad_gradient)
        .attrs("T: type; Tpaddings: {int32, int64} = int32; mode: {'REFLECT', 'SYMMETRIC'}")
        .shape(|ctx| padded_shape(ctx, 1))
        .kernel(mirror_pad_kernel),
    Op::new("MirrorPadGrad", "input: T, paddings: Tpaddings -> output: T")
        .work(Work::Inputs)
        .gradient(mirror_pad_grad_gradient)
        .attrs("T: type; Tpaddings: {int32, int64} = int32; mode: {'REFLECT', 'SYMMETRIC'}")
        .shape(|ctx| padded_shape(ctx, -1))
        .kernel(mirror_pad_grad_kernel),
];

/// How many elements go before and behind each axis.
pub(crate) type Paddings = SmallVec<[(usize, usize); 6]>;

fn paddings_of(paddings: &Tensor, input: &Shape) -> Result<Paddings> {
    let shape = paddings.shape();
    ensure!(
        shape.rank() == 2 && shape[1] == 2,
        InvalidArgument,
        "paddings must be a matrix with 2 columns: {shape}"
    );
    ensure!(
        shape[0] == input.rank(),
        InvalidArgument,
        "The first dimension of paddings must be the rank of inputs{shape} {input}"
    );
    let pair = |pair: &[i64]| match (usize::try_from(pair[0]), usize::try_from(pair[1])) {
        (Ok(before), Ok(behind)) => Ok((before, behind)),
        _ => Err(Status::invalid_argument(format!("Paddings must be non-negative: {} {}", pair[0], pair[1]))),
    };
    integers(paddings)?.chunks_exact(2).map(pair).collect()
}

/// The shape with paddings added (`sign` 1) or taken off (-1).
fn padded_elements(inputs: &dyn NodeInputs) -> Option<usize> {
    let mut paddings = integers_in(inputs.tensor(1)?)?;
    let mut next = || paddings.next().and_then(|padding| usize::try_from(padding).ok()).unwrap_or(0);
    let dims = inputs.tensor(0)?.shape().dims().iter();
    Some(dims.fold(1, |elements: usize, dim| {
        elements.saturating_mul(dim.saturating_add(next()).saturating_add(next()))
    }))
}

fn padded_shape(ctx: &ShapeContext<'_>, sign: i64) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(1, 2)?;
    let rank = ctx.input(0).rank().or(ctx.input(1).dim(0));
    let Some(rank) = rank else { return one(PartialShape::unknown()) };
    let Some(paddings) = ctx.integers(1) else { return one(PartialShape::of_rank(rank)) };
    ensure!(
        paddings.len() == rank * 2,
        InvalidArgument,
        "The first dimension of paddings must be the rank of inputs {}",
        ctx.input(0)
    );
    let mut dims: SmallVec<[Dim; 8]> = SmallVec::new();
    for (axis, pair) in paddings.chunks_exact(2).enumerate() {
        ensure!(
            pair[0] >= 0 && pair[1] >= 0,
            InvalidArgument,
            "Paddings must be non-negative: {} {}",
            pair[0],
            pair[1]
        );
        let size = |dim: usize| {
            let size = (dim as i64).checked_add(sign.checked_mul(pair[0].checked_add(pair[1])?)?)?;
            usize::try_from(size).ok()
        };
        dims.push(ctx.input(0).dim(axis).and_then(size));
    }
    one(PartialShape::new(dims))
}

fn enlarged(input: &Shape, paddings: &Paddings) -> Result<Shape> {
    let size = |(&dim, &(before, behind)): (&usize, &(usize, usize))| {
        before.saturating_add(dim).saturating_add(behind)
    };
    let dims: SmallVec<[usize; 8]> = input.iter().zip(paddings).map(size).collect();
    Shape::new(&dims)
}

/// The first source inside a frame of the second one's element, or of zeros.
struct Frame {
    inside: Window,
}

impl Movement for Frame {
    fn run<T: Element>(&self, _: &Loops, sources: &[&[T]], out: &mut [T]) -> Result<()> {
        match sources {
            [input, [value]] => {
                out.fill(*value);
                self.inside.write(input, out)
            }
            [input] => {
                out.fill(T::default());
                self.inside.write(input, out)
            }
            _ => Err(Status::internal("a frame has one value")),
        }
    }
}

/// `input` with paddings of `value`, or of zeros.
pub(crate) fn padded(
    loops: &Loops,
    input: &Tensor,
    paddings: &Paddings,
    value: Option<&Tensor>,
) -> Result<Tensor> {
    if paddings.iter().all(|&pair| pair == (0, 0)) {
        return Ok(input.clone());
    }
    let shape = enlarged(input.shape(), paddings)?;
    let mut inside = Window::whole(&shape);
    for (axis, &(before, _)) in paddings.iter().enumerate() {
        inside = inside.slice(axis, before, 1, input.shape()[axis]);
    }
    let sources: SmallVec<[&Tensor; 2]> = [input].into_iter().chain(value).collect();
    rearrange(loops, input.dtype(), shape, &sources, &Frame { inside })
}

/// `Pad` and `PadV2`.
fn pad_kernel(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let input = ctx.input(0)?;
        let value = if ctx.num_inputs() > 2 { Some(ctx.input(2)?) } else { None };
        if let Some(value) = value {
            ensure!(
                value.is_scalar(),
                InvalidArgument,
                "constant_values must be a scalar. Found: {}",
                value.shape()
            );
        }
        let tensor = padded(ctx.loops(), input, &paddings_of(ctx.input(1)?, input.shape())?, value)?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

/// Each element of the output is the element of the source at the sum of one offset for every axis.
struct AxisOffsets {
    offsets: SmallVec<[Vec<usize>; 6]>,
}

impl AxisOffsets {
    /// The offsets that reflect `inner` at its borders.
    fn mirrored(inner: &Shape, paddings: &Paddings, repeats_border: bool) -> Result<AxisOffsets> {
        let mut offsets = SmallVec::new();
        for (axis, (dim, &(before, behind))) in Window::whole(inner).axes().iter().zip(paddings).enumerate() {
            let size = inner[axis];
            if repeats_border {
                ensure!(
                    before <= size && behind <= size,
                    InvalidArgument,
                    "paddings must be no greater than the dimension size: {before}, {behind} greater than {size}"
                );
            } else {
                ensure!(
                    before < size && behind < size,
                    InvalidArgument,
                    "paddings must be less than the dimension size: {before}, {behind} not less than {size}"
                );
            }
            let skip = usize::from(!repeats_border);
            let left = (0..before).rev().map(|i| i + skip);
            let right = (0..behind).map(|i| size - 1 - skip - i);
            offsets.push(memory::collect(left.chain(0..size).chain(right).map(|i| i * dim.stride as usize))?);
        }
        Ok(AxisOffsets { offsets })
    }

    /// Calls `visit` with the number of each output element and the offset of its source element.
    fn walk(&self, mut visit: impl FnMut(usize, usize)) {
        let Some((last, outer)) = self.offsets.split_last() else { return visit(0, 0) };
        if self.offsets.iter().any(Vec::is_empty) {
            return;
        }
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, outer.len());
        let mut position = 0;
        loop {
            let base: usize = outer.iter().zip(&index).map(|(offsets, &i)| offsets[i]).sum();
            for &offset in last {
                visit(position, base + offset);
                position += 1;
            }
            let mut axis = outer.len();
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                index[axis] += 1;
                if index[axis] < outer[axis].len() {
                    break;
                }
                index[axis] = 0;
            }
        }
    }
}

impl Movement for AxisOffsets {
    fn run<T: Element>(&self, _: &Loops, sources: &[&[T]], out: &mut [T]) -> Result<()> {
        let &[source] = sources else { return Err(Status::internal("one tensor is mirrored")) };
        self.walk(|position, offset| out[position] = source[offset]);
        Ok(())
    }
}

fn mirror_pad_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let repeats_border = node.attr::<String>("mode")? == "SYMMETRIC";
    Ok(KernelBox::from_fn(move |ctx| {
        let input = ctx.input(0)?;
        let paddings = paddings_of(ctx.input(1)?, input.shape())?;
        let shape = enlarged(input.shape(), &paddings)?;
        let offsets = AxisOffsets::mirrored(input.shape(), &paddings, repeats_border)?;
        let tensor = rearrange(ctx.loops(), input.dtype(), shape, &[input], &offsets)?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

/// `MirrorPadGrad`: what was copied several times gets the sum of the gradients.
fn mirror_pad_grad_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let repeats_border = node.attr::<String>("mode")? == "SYMMETRIC";
    dispatch!(node.dtype()?, T in numeric => Ok(KernelBox::from_fn(move |ctx| {
        let input = ctx.input(0)?;
        let paddings = paddings_of(ctx.input(1)?, input.shape())?;
        let shape = reduced(input.shape(), &paddings)?;
        let offsets = AxisOffsets::mirrored(&shape, &paddings, repeats_border)?;
        let gradients = input.as_slice::<T>()?;
        let mut tensor = Tensor::zeros(input.dtype(), shape)?;
        let out = tensor.make_mut::<T>()?;
        offsets.walk(|position, offset| out[offset] = out[offset].plus(gradients[position]));
        ctx.set_output(0, tensor);
        Ok(())
    })))
}

fn reduced(padded: &Shape, paddings: &Paddings) -> Result<Shape> {
    let mut dims: SmallVec<[usize; 8]> = SmallVec::new();
    for (&dim, &(before, behind)) in padded.iter().zip(paddings) {
        let size = dim.checked_sub(before).and_then(|rest| rest.checked_sub(behind));
        dims.push(size.ok_or_else(|| {
            Status::invalid_argument(format!("paddings ({before}, {behind}) are larger than the size {dim}"))
        })?);
    }
    Shape::new(&dims)
}

/// What arrives without the padding. Like TensorFlow's, the value that `PadV2` pads with has no gradient.
fn pad_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, x, paddings) = (d.dy(0)?, d.input(0)?, d.input(1)?);
    let index = d.dtype(paddings)?;
    let split = d.add(NewNode::new("Unpack").input(paddings).attr("num", 2i64).attr("axis", 1i64))?;
    let size = d.shape_as(x, index)?;
    let dx = d.op("Slice", [dy, Endpoint::new(split, 0), size])?;
    d.only(0, dx)
}

fn mirror_pad_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    mirror_back(d, "MirrorPadGrad")
}

fn mirror_pad_grad_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    mirror_back(d, "MirrorPad")
}

fn mirror_back(d: &mut Differential<'_>, op: &str) -> Result<Grads> {
    let dy = d.dy(0)?;
    let dx = d.with_attrs(op, &[dy, d.input(1)?], &["mode"]);
    let dx = d.emit(dx)?;
    d.only(0, dx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use tensorfleet_core::{Code, DType};

    fn pad(op: &str, mode: Option<&str>, input: Tensor, paddings: &[i32]) -> Result<Tensor> {
        let mut test = test_op(op).with_shape_check().attr("T", input.dtype());
        if let Some(mode) = mode {
            test = test.attr("mode", mode);
        }
        let paddings = Tensor::from_slice(paddings, &[paddings.len() / 2, 2]).unwrap();
        test.input(input).input(paddings).run_one()
    }

    #[test]
    fn zeros_or_a_constant_surround_the_input() {
        let input = Tensor::from_slice(&[1i32, 2], &[1, 2]).unwrap();
        let out = pad("Pad", None, input.clone(), &[1, 0, 0, 1]).unwrap();
        assert_eq!(out, Tensor::from_slice(&[0i32, 0, 0, 1, 2, 0], &[2, 3]).unwrap());
        let words = Tensor::from_strings(vec!["a".into()], &[1]).unwrap();
        assert_eq!(pad("Pad", None, words, &[1, 1]).unwrap().as_strings().unwrap(), ["", "a", ""]);
        let op = test_op("PadV2").with_shape_check().attr("T", DType::Int32).input(input);
        let op =
            op.input(Tensor::from_slice(&[0i64, 0, 1, 0], &[2, 2]).unwrap()).attr("Tpaddings", DType::Int64);
        assert_eq!(op.input(7i32.into()).run_one().unwrap().as_slice::<i32>().unwrap(), [7, 1, 2]);
        let empty = Tensor::vector::<f32>(&[]).unwrap();
        assert_eq!(pad("Pad", None, empty, &[1, 1]).unwrap().as_slice::<f32>().unwrap(), [0.0, 0.0]);
    }

    #[test]
    fn wrong_paddings_are_refused() {
        let input = || Tensor::vector(&[1.0f32, 2.0]).unwrap();
        let text = |paddings: &[i32]| {
            let status = pad("Pad", None, input(), paddings).unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            status.text().to_string()
        };
        assert!(text(&[1, -1]).contains("Paddings must be non-negative: 1 -1"));
        assert!(text(&[1, 1, 1, 1]).contains("The first dimension of paddings must be the rank of inputs"));
    }

    #[test]
    fn mirrors_leave_out_or_repeat_the_border() {
        let input = || Tensor::vector(&[0.0f64, 1.0, 2.0]).unwrap();
        let run = |mode, paddings: &[i32]| pad("MirrorPad", Some(mode), input(), paddings);
        assert_eq!(
            run("REFLECT", &[2, 1]).unwrap().as_slice::<f64>().unwrap(),
            [2.0, 1.0, 0.0, 1.0, 2.0, 1.0]
        );
        let symmetric = run("SYMMETRIC", &[3, 1]).unwrap();
        assert_eq!(symmetric.as_slice::<f64>().unwrap(), [2.0, 1.0, 0.0, 0.0, 1.0, 2.0, 2.0]);
        assert!(run("REFLECT", &[3, 1]).unwrap_err().text().contains("3, 1 not less than 3"));
        assert!(run("SYMMETRIC", &[4, 1]).unwrap_err().text().contains("4, 1 greater than 3"));
        let matrix = Tensor::from_slice(&[1i32, 2, 3, 4], &[2, 2]).unwrap();
        let out = pad("MirrorPad", Some("REFLECT"), matrix, &[1, 0, 0, 1]).unwrap();
        assert_eq!(out.as_slice::<i32>().unwrap(), [3, 4, 3, 1, 2, 1, 3, 4, 3]);
    }

    #[test]
    fn gradients_of_mirrors_add_up() {
        let input = || Tensor::vector(&[0.0f64, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let run = |mode| pad("MirrorPadGrad", Some(mode), input(), &[2, 1]).unwrap();
        assert_eq!(run("REFLECT").as_slice::<f64>().unwrap(), [2.0, 4.0, 10.0, 5.0]);
        assert_eq!(run("SYMMETRIC").as_slice::<f64>().unwrap(), [3.0, 3.0, 4.0, 11.0]);
        assert!(pad("MirrorPadGrad", Some("REFLECT"), Tensor::vector(&[1.0f32]).unwrap(), &[2, 1]).is_err());
    }
}
