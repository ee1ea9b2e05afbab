//! Comparisons and logic of two operands, with broadcasting.

use bytes::Bytes;
use tensorfleet_core::{DType, PartialShape, Result, Tensor, memory};

use super::elementwise_kernels::{binary_kernel, binary_kernel_to};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{KernelFn, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, broadcast};
use tensorfleet_numeric::broadcast::Broadcast;
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::elementwise::{BinaryLoop, BinaryOp, binary_loop, cost, zip_to_new};
use tensorfleet_numeric::number::{Number, Real};
use tensorfleet_numeric::stored::Stored;
use tensorfleet_numeric::vector_math::FlushDenormal;

/// An op that orders `x` and `y`.
const fn ordering(name: &'static str, kernel: KernelFn) -> Op {
    Op::new(name, "x: T, y: T -> z: bool")
        .work(Work::Broadcast)
        .attrs("T: real")
        .shape(broadcast)
        .kernel(kernel)
        .not_differentiable()
}

/// An op that tells whether `x` and `y` are equal.
const fn equality(name: &'static str, kernel: KernelFn) -> Op {
    Op::new(name, "x: T, y: T -> z: bool")
        .work(Work::Broadcast)
        .attrs("T: type; incompatible_shape_error: bool = true")
        .shape(equality_shape)
        .kernel(kernel)
        .not_differentiable()
}

const fn logic(name: &'static str, kernel: KernelFn) -> Op {
    Op::new(name, "x: bool, y: bool -> z: bool")
        .work(Work::Broadcast)
        .shape(broadcast)
        .kernel(kernel)
        .not_differentiable()
}

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    ordering("Greater", orderings::<Greater>),
    ordering("GreaterEqual", orderings::<GreaterEqual>),
    ordering("Less", orderings::<Less>),
    ordering("LessEqual", orderings::<LessEqual>),
    equality("Equal", equal),
    equality("NotEqual", not_equal),
    logic("LogicalAnd", logical::<And>),
    logic("LogicalOr", logical::<Or>),
    Op::new("ApproximateEqual", "x: T, y: T -> z: bool")
        .work(Work::Broadcast)
        .attrs("T: number; tolerance: float = 1e-05")
        .shape(same_shape)
        .kernel(approximate_equal)
        .not_differentiable(),
];

/// Defines comparisons: name, the trait of the operands, an expression.
macro_rules! comparisons {
    ($($name:ident: $kind:path, |$x:ident, $y:ident| $value:expr;)*) => {$(
        struct $name;

        impl<T: $kind> BinaryOp<T> for $name {
            type Out = bool;
            #[inline(always)]
            fn apply($x: T, $y: T) -> bool {
                $value
            }
        }
    )*};
}

comparisons! {
    Greater: Real, |x, y| x.flush_denormal() > y.flush_denormal();
    GreaterEqual: Real, |x, y| x.flush_denormal() >= y.flush_denormal();
    Less: Real, |x, y| x.flush_denormal() < y.flush_denormal();
    LessEqual: Real, |x, y| x.flush_denormal() <= y.flush_denormal();
    Equal: Comparable, |x, y| x.flush_denormal() == y.flush_denormal();
    NotEqual: Comparable, |x, y| x.flush_denormal() != y.flush_denormal();
    And: Logical, |x, y| x.and(y);
    Or: Logical, |x, y| x.or(y);
}

/// Elements that can be equal.
trait Comparable: FlushDenormal + PartialEq {}
impl<T: FlushDenormal + PartialEq> Comparable for T {}

/// Truth values. Both operands are always looked at: a branch would cost more.
trait Logical {
    fn and(self, other: Self) -> bool;
    fn or(self, other: Self) -> bool;
}

impl Logical for bool {
    #[inline(always)]
    fn and(self, other: bool) -> bool {
        self & other
    }
    #[inline(always)]
    fn or(self, other: bool) -> bool {
        self | other
    }
}

fn orderings<F>(node: &NodeSpec<'_>) -> Result<KernelBox>
where
    F: BinaryOp<f32, Out = bool>
        + BinaryOp<f64, Out = bool>
        + BinaryOp<i8, Out = bool>
        + BinaryOp<i16, Out = bool>
        + BinaryOp<i32, Out = bool>
        + BinaryOp<i64, Out = bool>
        + BinaryOp<u8, Out = bool>
        + BinaryOp<u16, Out = bool>
        + BinaryOp<u32, Out = bool>
        + BinaryOp<u64, Out = bool>,
{
    dispatch!(node.dtype()?, T in real => Ok(binary_kernel_to::<T, bool, F>()))
}

fn logical<F: BinaryOp<bool, Out = bool>>(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(binary_kernel::<bool, F>())
}

/// Shape rule of `Equal` and `NotEqual`: without `incompatible_shape_error`, shapes that clash give a scalar.
fn equality_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    if ctx.attr("incompatible_shape_error")? {
        return broadcast(ctx);
    }
    let known = ctx.input(0).to_shape().zip(ctx.input(1).to_shape());
    let Some((x, y)) = known else { return Ok(vec![PartialShape::unknown()]) };
    let shape = Broadcast::new(&[&x, &y]).map(|broadcast| broadcast.shape().into());
    Ok(vec![shape.unwrap_or(PartialShape::scalar())])
}

fn equal(node: &NodeSpec<'_>) -> Result<KernelBox> {
    match node.dtype()? {
        DType::String => string_equality(node, false),
        dtype => dispatch!(dtype, T in plain => {
            equality_kernel::<T>(node, binary_loop::<<T as Stored>::Compute, Equal>(), false)
        }),
    }
}

fn not_equal(node: &NodeSpec<'_>) -> Result<KernelBox> {
    match node.dtype()? {
        DType::String => string_equality(node, true),
        dtype => dispatch!(dtype, T in plain => {
            equality_kernel::<T>(node, binary_loop::<<T as Stored>::Compute, NotEqual>(), true)
        }),
    }
}

/// How operands of clashing shapes compare: an error, or the answer that differing things give.
fn broadcast_or_clash(x: &Tensor, y: &Tensor, clash_is_error: bool) -> Result<Option<Broadcast>> {
    match Broadcast::of_two(x.shape(), y.shape()) {
        Ok(broadcast) => Ok(Some(broadcast)),
        Err(status) if clash_is_error => Err(status),
        Err(_) => Ok(None),
    }
}

fn equality_kernel<S: Stored>(
    node: &NodeSpec<'_>,
    run: BinaryLoop<S::Compute, bool>,
    if_clash: bool,
) -> Result<KernelBox> {
    let clash_is_error: bool = node.attr("incompatible_shape_error")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let (x, y) = (ctx.input(0)?, ctx.input(1)?);
        let output = match broadcast_or_clash(x, y, clash_is_error)? {
            Some(broadcast) => zip_to_new::<S, bool>(ctx.loops(), &broadcast, x, y, &run, cost::ARITHMETIC)?,
            None => Tensor::scalar(if_clash),
        };
        ctx.set_output(0, output);
        Ok(())
    }))
}

fn string_equality(node: &NodeSpec<'_>, is_negated: bool) -> Result<KernelBox> {
    let clash_is_error: bool = node.attr("incompatible_shape_error")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let (x, y) = (ctx.input(0)?, ctx.input(1)?);
        let output = match broadcast_or_clash(x, y, clash_is_error)? {
            Some(broadcast) => {
                let pairs = broadcast.strings(0, x)?.into_iter().zip(broadcast.strings(1, y)?);
                let answers = memory::collect(pairs.map(|(x, y): (&Bytes, &Bytes)| (x == y) != is_negated))?;
                Tensor::from_slice(&answers, broadcast.shape())?
            }
            None => Tensor::scalar(is_negated),
        };
        ctx.set_output(0, output);
        Ok(())
    }))
}

fn same_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(vec![ctx.input(0).merge(ctx.input(1))?])
}

/// `ApproximateEqual`: |x - y| < tolerance; shapes must be equal.
fn approximate_equal(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let tolerance: f32 = node.attr("tolerance")?;
    dispatch!(node.dtype()?, T in [f32, f64] => Ok(KernelBox::from_fn(move |ctx| {
        let (x, y) = (ctx.input(0)?, ctx.input(1)?);
        tensorfleet_core::ensure!(
            x.shape() == y.shape(),
            InvalidArgument,
            "x and y must be of the same shape. x shape: {}. y shape: {}", x.shape(), y.shape()
        );
        let pairs = x.as_slice::<T>()?.iter().zip(y.as_slice::<T>()?);
        let answers = memory::collect(pairs.map(|(x, y)| x.minus(*y).magnitude() < tolerance as T))?;
        let output = Tensor::from_slice(&answers, x.shape())?;
        ctx.set_output(0, output);
        Ok(())
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;

    fn run(op: &str, x: Tensor, y: Tensor) -> Result<Vec<bool>> {
        let output = test_op(op).attr("T", x.dtype()).input(x).input(y).run_one()?;
        Ok(output.as_slice::<bool>()?.to_vec())
    }

    #[test]
    fn nan_equals_nothing_and_denormal_numbers_are_zero() {
        let x = Tensor::vector(&[f32::NAN, 0.0, 1.0]).unwrap();
        let y = Tensor::vector(&[f32::NAN, f32::from_bits(1), 2.0]).unwrap();
        assert_eq!(run("Equal", x.clone(), y.clone()).unwrap(), [false, true, false]);
        assert_eq!(run("NotEqual", x.clone(), y.clone()).unwrap(), [true, false, true]);
        assert_eq!(run("Less", x.clone(), y.clone()).unwrap(), [false, false, true]);
        assert_eq!(run("GreaterEqual", x, y).unwrap(), [false, true, false]);
    }

    #[test]
    fn strings_and_truth_values_compare_too() {
        let strings = |list: &[&'static str]| {
            Tensor::from_strings(list.iter().map(|text| Bytes::from(*text)).collect(), &[list.len()]).unwrap()
        };
        assert_eq!(run("Equal", strings(&["a", "b"]), strings(&["b"])).unwrap(), [false, true]);
        assert_eq!(run("NotEqual", strings(&["a", "b"]), strings(&["b"])).unwrap(), [true, false]);
        let bits = Tensor::vector(&[true, false]).unwrap();
        assert_eq!(run("Equal", bits.clone(), Tensor::scalar(true)).unwrap(), [true, false]);
        let both = test_op("LogicalAnd").input(bits.clone()).input(Tensor::scalar(true)).run_one().unwrap();
        assert_eq!(both.as_slice::<bool>().unwrap(), [true, false]);
        let either = test_op("LogicalOr").input(bits).input(Tensor::scalar(true)).run_one().unwrap();
        assert_eq!(either.as_slice::<bool>().unwrap(), [true, true]);
    }

    #[test]
    fn clashing_shapes_may_be_an_answer_instead_of_an_error() {
        let (x, y) = (Tensor::vector(&[1i32, 2]).unwrap(), Tensor::vector(&[1i32, 2, 3]).unwrap());
        assert!(run("Equal", x.clone(), y.clone()).unwrap_err().text().contains("Incompatible shapes"));
        for (op, answer) in [("Equal", false), ("NotEqual", true)] {
            let op = test_op(op).attr("T", x.dtype()).attr("incompatible_shape_error", false);
            let output = op.input(x.clone()).input(y.clone()).run_one().unwrap();
            assert_eq!(output.to_scalar::<bool>(), Ok(answer));
        }
    }
}
