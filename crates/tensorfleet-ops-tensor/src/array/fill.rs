//! Tensors made from a rule: Fill, ZerosLike, OnesLike, Range, LinSpace.

use half::{bf16, f16};
use num_traits::{FromPrimitive, One};
use tensorfleet_core::{DType, Element, PartialShape, Result, Shape, Status, Tensor, bail, ensure};

use super::axes::{integer, integers, one};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, same_as_input};
use tensorfleet_kernel::work::{NodeInputs, elements_of_shape, number_in};
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::rearrange::{Movement, rearrange};
use tensorfleet_threads::{Loops, first_error};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Fill", "dims: index_type, value: T -> output: T").work(Work::Values(elements_of_shape::<0>)).gradient(fill_gradient)
        .attrs("T: type; index_type: {int32, int64} = int32")
        .shape(fill_shape)
        .kernel(fill_kernel),
    Op::new("ZerosLike", "x: T -> y: T").work(Work::Inputs).not_differentiable().attrs("T: type").shape(same_as_input).kernel(zeros_like_kernel),
    Op::new("OnesLike", "x: T -> y: T").work(Work::Inputs).not_differentiable()
        .attrs("T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, uint64, complex64, complex128, bool}")
        .shape(same_as_input)
        .kernel(ones_like_kernel),
    Op::new("Range", "start: Tidx, limit: Tidx, delta: Tidx -> output: Tidx").work(Work::Values(range_elements)).not_differentiable()
        .attrs("Tidx: {bfloat16, half, float, double, int8, int16, int32, int64, uint16, uint32, uint64} = int32")
        .shape(range_shape)
        .kernel(range_kernel),
    Op::new("LinSpace", "start: T, stop: T, num: Tidx -> output: T").work(Work::Values(elements_of_shape::<2>)).not_differentiable()
        .attrs("T: {bfloat16, half, float, double}; Tidx: {int32, int64} = int32")
        .shape(lin_space_shape)
        .kernel(lin_space_kernel),
];

/// Every element of the output is the only element of the source.
pub(crate) struct Broadcast;

impl Movement for Broadcast {
    fn run<T: Element>(&self, loops: &Loops, sources: &[&[T]], out: &mut [T]) -> Result<()> {
        let [[value]] = sources else { return Err(Status::internal("one element fills a tensor")) };
        loops.chunks_mut(out, 1, 10, |_, out| out.fill(*value));
        Ok(())
    }
}

fn range_elements(inputs: &dyn NodeInputs) -> Option<usize> {
    let [start, limit, delta] = [0, 1, 2].map(|index| number_in(inputs, index));
    let elements = (limit? - start?) / delta?;
    // A float becomes the nearest integer there is; what is no number is refused by the kernel.
    Some(elements.ceil() as usize)
}

fn fill_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(0, 1)?;
    one(ctx.shape_value(0)?)
}

fn fill_kernel(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let (dims, value) = (ctx.input(0)?, ctx.input(1)?);
        ensure!(
            dims.shape().rank() == 1,
            InvalidArgument,
            "dims must represent a vector, got shape {}",
            dims.shape()
        );
        ensure!(
            value.num_elements() == 1,
            InvalidArgument,
            "value must represent a scalar, got shape {}",
            value.shape()
        );
        let shape = Shape::from_signed(&integers(dims)?)?;
        let tensor = rearrange(ctx.loops(), value.dtype(), shape, &[value], &Broadcast)?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

/// Every element of the output is zero, `false` or empty.
struct Zeros;

impl Movement for Zeros {
    fn run<T: Element>(&self, loops: &Loops, _: &[&[T]], out: &mut [T]) -> Result<()> {
        loops.chunks_mut(out, 1, 10, |_, out| out.fill(T::default()));
        Ok(())
    }
}

fn zeros_like_kernel(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let mut tensor = ctx.take_input(0)?;
        let zeros = if tensor.dtype() == DType::Variant {
            crate::variants::zeros_like(&tensor)?
        } else if tensor.is_unique() {
            // Memory at hand is warmer than fresh memory.
            tensorfleet_numeric::rearrange::update(ctx.loops(), tensor, &[], &Zeros)?
        } else {
            Tensor::zeros(tensor.dtype(), tensor.shape().clone())?
        };
        ctx.set_output(0, zeros);
        Ok(())
    }))
}

fn ones_like_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype = node.dtype()?;
    let value = match dtype {
        DType::Bool => Tensor::scalar(true),
        _ => dispatch!(dtype, T in numeric => Ok(Tensor::scalar(T::one())))?,
    };
    Ok(KernelBox::from_fn(move |ctx| {
        let shape = ctx.input(0)?.shape().clone();
        ctx.set_output(0, rearrange(ctx.loops(), dtype, shape, &[&value], &Broadcast)?);
        Ok(())
    }))
}

/// A type that `Range` counts in.
trait Countable: Element + std::fmt::Display {
    /// How many steps of `delta` lead from `start` up to `limit`, or down to it.
    fn count(start: Self, limit: Self, delta: Self) -> Result<usize>;
    /// `start + index * delta`.
    fn at(start: Self, delta: Self, index: usize) -> Self;
}

fn check_direction<T: std::fmt::Display>(
    start: T,
    limit: T,
    sign: std::cmp::Ordering,
    ordered: bool,
) -> Result<()> {
    use std::cmp::Ordering::*;
    match sign {
        Equal => bail!(InvalidArgument, "Requires delta != 0: 0"),
        Greater => {
            ensure!(ordered, InvalidArgument, "Requires start <= limit when delta > 0: {start}/{limit}")
        }
        Less => ensure!(ordered, InvalidArgument, "Requires start >= limit when delta < 0: {start}/{limit}"),
    }
    Ok(())
}

macro_rules! countable_integers {
    ($($rust:ty),*) => {$(
        impl Countable for $rust {
            fn count(start: $rust, limit: $rust, delta: $rust) -> Result<usize> {
                let (low, high, step) = (start as i128, limit as i128, delta as i128);
                check_direction(start, limit, step.cmp(&0), if step > 0 { low <= high } else { low >= high })?;
                let count = (high - low).unsigned_abs().div_ceil(step.unsigned_abs());
                usize::try_from(count).map_err(|_| too_long())
            }
            fn at(start: $rust, delta: $rust, index: usize) -> $rust {
                start.wrapping_add(delta.wrapping_mul(index as $rust))
            }
        }
    )*};
}
countable_integers!(i8, i16, i32, i64, u16, u32, u64);

macro_rules! countable_floats {
    ($($rust:ty: $to:expr, $from:expr;)*) => {$(
        impl Countable for $rust {
            fn count(start: $rust, limit: $rust, delta: $rust) -> Result<usize> {
                let (low, high, step): (f64, f64, f64) = ($to(start), $to(limit), $to(delta));
                let sign = step.partial_cmp(&0.0).ok_or_else(|| Status::invalid_argument("Requires delta != nan"))?;
                check_direction(start, limit, sign, if step > 0.0 { low <= high } else { low >= high })?;
                let count = ((high - low) / step).abs().ceil();
                if count.is_finite() && count < isize::MAX as f64 { Ok(count as usize) } else { Err(too_long()) }
            }
            fn at(start: $rust, delta: $rust, index: usize) -> $rust {
                start + delta * $from(index)
            }
        }
    )*};
}
countable_floats! {
    f32: f64::from, |index| index as f32;
    f64: f64::from, |index| index as f64;
    f16: f16::to_f64, |index| f16::from_f32(index as f32);
    bf16: bf16::to_f64, |index| bf16::from_f32(index as f32);
}

#[cold]
fn too_long() -> Status {
    Status::invalid_argument("Requires ((limit - start) / delta) <= 9223372036854775807")
}

fn range_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    for index in 0..3 {
        ctx.input_with_rank(index, 0)?;
    }
    let (Some(start), Some(limit), Some(delta)) = (ctx.value(0), ctx.value(1), ctx.value(2)) else {
        return one(PartialShape::vector(None));
    };
    one(PartialShape::vector(Some(range_len(start, limit, delta)?)))
}

fn range_len(start: &Tensor, limit: &Tensor, delta: &Tensor) -> Result<usize> {
    dispatch!(start.dtype(), T in [i32, i64, f32, f64, f16, bf16, i8, i16, u16, u32, u64] => {
        T::count(start.to_scalar()?, limit.to_scalar()?, delta.to_scalar()?)
    })
}

fn range_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype = node.attr("Tidx")?;
    dispatch!(dtype, T in [i32, i64, f32, f64, f16, bf16, i8, i16, u16, u32, u64] => {
        Ok(KernelBox::from_fn(|ctx| {
            for (index, name) in ["start", "limit", "delta"].into_iter().enumerate() {
                let shape = ctx.input(index)?.shape();
                ensure!(shape.num_elements() == 1, InvalidArgument, "{name} must be a scalar, not shape {shape}");
            }
            let (start, delta) = (ctx.input(0)?.to_scalar::<T>()?, ctx.input(2)?.to_scalar::<T>()?);
            let count = T::count(start, ctx.input(1)?.to_scalar()?, delta)?;
            let shape = Shape::new(&[count])?;
            let tensor = Tensor::build(shape, |out: &mut [T]| {
                ctx.loops().chunks_mut(out, 1, 50, |first, out| {
                    out.iter_mut().enumerate().for_each(|(i, out)| *out = T::at(start, delta, first + i));
                });
                Ok(())
            })?;
            ctx.set_output(0, tensor);
            Ok(())
        }))
    })
}

fn lin_space_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    for index in 0..3 {
        ctx.input_with_rank(index, 0)?;
    }
    let Some(num) = ctx.integer(2) else { return one(PartialShape::vector(None)) };
    ensure!(num > 0, InvalidArgument, "Requires num > 0: {num}");
    one(PartialShape::vector(usize::try_from(num).ok()))
}

fn lin_space_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in floating => Ok(KernelBox::from_fn(|ctx| {
        for (index, name) in ["start", "stop", "num"].into_iter().enumerate() {
            let shape = ctx.input(index)?.shape();
            ensure!(shape.num_elements() == 1, InvalidArgument, "{name} must be a scalar, not shape {shape}");
        }
        let (start, stop) = (ctx.input(0)?.to_scalar::<T>()?, ctx.input(1)?.to_scalar::<T>()?);
        let num = integer(ctx.input(2)?, "num")?;
        ensure!(num > 0, InvalidArgument, "Requires num > 0: {num}");
        let tensor = Tensor::build(Shape::from_signed(&[num])?, |out: &mut [T]| {
            let number = |n: usize| T::from_usize(n).ok_or_else(|| Status::internal("a count is no number"));
            let step = if out.len() > 1 { (stop - start) / number(out.len() - 1)? } else { T::one() };
            first_error(|keep| {
                ctx.loops().chunks_mut(out, 1, 100, |first, out| {
                    keep(out.iter_mut().enumerate().try_for_each(|(i, out)| {
                        *out = start + step * number(first + i)?;
                        Ok(())
                    }));
                });
            })?;
            // The last one is exact, whatever rounding did on the way.
            if let [_, .., last] = out {
                *last = stop;
            }
            Ok(())
        })?;
        ctx.set_output(0, tensor);
        Ok(())
    })))
}

fn fill_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let dy = d.dy(0)?;
    let total = d.total(dy)?;
    d.only(1, total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use tensorfleet_core::Code;

    fn range<T: Element>(start: T, limit: T, delta: T) -> Result<Tensor> {
        let op = test_op("Range").with_shape_check().attr("Tidx", T::DTYPE);
        op.input(start.into()).input(limit.into()).input(delta.into()).run_one()
    }

    #[test]
    fn range_is_half_open_in_both_directions() {
        assert_eq!(range(3, 10, 3).unwrap().as_slice::<i32>().unwrap(), [3, 6, 9]);
        assert_eq!(range(3i64, -3, -2).unwrap().as_slice::<i64>().unwrap(), [3, 1, -1]);
        assert_eq!(range(5, 5, 1).unwrap().num_elements(), 0);
        assert_eq!(range(0.0f32, 1.0, 0.1).unwrap().num_elements(), 10);
        let wide = range(i64::MIN, i64::MAX, 1 << 62).unwrap();
        assert_eq!(wide.as_slice::<i64>().unwrap(), [i64::MIN, -(1 << 62), 0, 1 << 62]);
    }

    #[test]
    fn range_refuses_to_never_arrive() {
        assert!(range(0, 5, 0).unwrap_err().text().contains("Requires delta != 0"));
        assert!(range(5, 0, 1).unwrap_err().text().contains("Requires start <= limit when delta > 0: 5/0"));
        assert!(range(0, 5, -1).unwrap_err().text().contains("Requires start >= limit when delta < 0: 0/5"));
        for limit in [f32::NAN, f32::INFINITY] {
            assert_eq!(range(0.0, limit, 1.0).unwrap_err().code(), Code::InvalidArgument);
        }
        assert!(range(0.0, 1.0, f64::NAN).is_err());
        assert!(range(0i64, i64::MAX, 1).is_err());
    }

    #[test]
    fn lin_space_ends_exactly_at_stop() {
        let lin_space = |start: f32, stop: f32, num: i32| {
            let op = test_op("LinSpace").with_shape_check().attr("T", DType::Float);
            op.input(start.into()).input(stop.into()).input(num.into()).run_one()
        };
        assert_eq!(lin_space(0.0, 1.0, 5).unwrap().as_slice::<f32>().unwrap(), [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert_eq!(lin_space(2.0, 9.0, 1).unwrap().as_slice::<f32>().unwrap(), [2.0]);
        assert!(lin_space(0.0, 1.0, 0).unwrap_err().text().contains("Requires num > 0: 0"));
    }

    #[test]
    fn fill_takes_any_dtype_and_checks_its_dims() {
        let fill = |dims: Tensor, value: Tensor| {
            test_op("Fill").with_shape_check().attr("T", value.dtype()).input(dims).input(value).run_one()
        };
        let dims = || Tensor::vector(&[2i32]).unwrap();
        assert_eq!(fill(dims(), "s".into()).unwrap().as_strings().unwrap(), ["s", "s"]);
        assert_eq!(fill(dims(), true.into()).unwrap().as_slice::<bool>().unwrap(), [true, true]);
        assert!(fill(Tensor::vector::<i32>(&[]).unwrap(), 1.0f32.into()).unwrap().is_scalar());
        let status = fill(Tensor::vector(&[-1i32, 2]).unwrap(), 1.0f32.into()).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(fill(Tensor::from_slice(&[2i32], &[1, 1]).unwrap(), 1.0f32.into()).is_err());
        let huge = fill(Tensor::vector(&[1i32 << 30, 1 << 10]).unwrap(), "s".into()).unwrap_err();
        assert_eq!(huge.code(), Code::ResourceExhausted);
    }

    #[test]
    fn zeros_and_ones_have_the_shape_of_their_input() {
        let x = Tensor::vector(&[2.0f64, f64::NAN]).unwrap();
        let like = |op: &str, x: Tensor| {
            test_op(op).with_shape_check().attr("T", x.dtype()).input(x).run_one().unwrap()
        };
        assert_eq!(like("ZerosLike", x.clone()).as_slice::<f64>().unwrap(), [0.0, 0.0]);
        assert_eq!(like("OnesLike", x.clone()).as_slice::<f64>().unwrap(), [1.0, 1.0]);
        drop(x.clone());
        assert_eq!(like("ZerosLike", x).as_slice::<f64>().unwrap(), [0.0, 0.0]);
        assert_eq!(like("ZerosLike", "abc".into()).as_strings().unwrap(), [""]);
    }
}
