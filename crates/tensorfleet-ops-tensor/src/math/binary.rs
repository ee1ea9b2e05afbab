//! Element-wise arithmetic of two operands, with broadcasting.
//!
//! A function is a line in `functions!` (what it computes) and a line in the table (what it is called, and for which
//! dtypes it exists).

use half::{bf16, f16};
use num_complex::Complex;
use tensorfleet_core::{DType, Result, StringsBuilder, Tensor, ensure};

use crate::strings::joined;

use super::elementwise_kernels::binary_kernel;
use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{
    Differential, Formula, Grad, Grads, Symbol, apply, apply2, apply3, binary_gradients, conj,
    number as literal,
};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{KernelFn, Op};
use tensorfleet_kernel::shape_context::broadcast;
use tensorfleet_numeric::broadcast::Broadcast;
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::elementwise::{BinaryOp, cost};
use tensorfleet_numeric::number::{Elementary, Field, Floating, Number, Power, Real};
use tensorfleet_numeric::special;

const FIELD: &str = "T: {bfloat16, half, float, double, complex64, complex128}";
const FLOATING: &str = "T: {bfloat16, half, float, double}";
const FLOAT_OR_DOUBLE: &str = "T: {float, double}";
const REAL: &str =
    "T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, uint64}";
const NUMBER: &str = "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, uint32, uint64, int64, \
                      complex64, complex128}";
const INTEGER: &str = "T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64}";

/// An op `z = f(x, y)`.
const fn binary(name: &'static str, attrs: &'static str, kernel: KernelFn) -> Op {
    Op::new(name, "x: T, y: T -> z: T").work(Work::Broadcast).attrs(attrs).shape(broadcast).kernel(kernel)
}

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    binary(
        "Add",
        "T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128, string}",
        add,
    )
    .gradient(add_gradient),
    binary("AddV2", NUMBER, number::<Plus>).gradient(add_gradient),
    binary("Sub", NUMBER, number::<Minus>).gradient(sub_gradient),
    binary("Mul", NUMBER, number::<Times>).gradient(mul_gradient),
    binary("Div", NUMBER, number::<Divide>).gradient(div_gradient),
    binary("RealDiv", NUMBER, field::<Divide>).gradient(div_gradient),
    binary("FloorDiv", NUMBER, floor_div).not_differentiable(),
    binary("FloorMod", REAL, real::<FloorMod>).gradient(floor_mod_gradient),
    binary("TruncateDiv", NUMBER, truncate_div).not_differentiable(),
    binary("TruncateMod", "T: {int32, int64, bfloat16, half, float, double}", real::<TruncateMod>),
    binary("Mod", "T: {int32, int64, half, bfloat16, float, double}", real::<Modulo>),
    binary(
        "Pow",
        "T: {bfloat16, float, half, double, int8, int16, int32, int64, complex64, complex128}",
        power,
    )
    .gradient(pow_gradient),
    binary("Maximum", REAL, real::<Maximum>).gradient(maximum_gradient),
    binary("Minimum", REAL, real::<Minimum>).gradient(minimum_gradient),
    binary(
        "SquaredDifference",
        "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}",
        number::<SquaredDifference>,
    )
    .gradient(squared_difference_gradient),
    binary("DivNoNan", FIELD, field::<DivNoNan>).gradient(div_no_nan_gradient),
    binary("MulNoNan", FIELD, field::<MulNoNan>).gradient(mul_no_nan_gradient),
    binary("Xdivy", FIELD, field::<Xdivy>).gradient(xdivy_gradient),
    binary("Xlogy", FIELD, field::<Xlogy>).gradient(xlogy_gradient),
    binary("Xlog1py", FIELD, field::<Xlog1py>).gradient(xlog1py_gradient),
    Op::new("Atan2", "y: T, x: T -> z: T")
        .work(Work::Broadcast)
        .attrs(FLOATING)
        .shape(broadcast)
        .kernel(floating::<Atan2>)
        .gradient(atan2_gradient),
    Op::new("Polygamma", "a: T, x: T -> z: T")
        .attrs(FLOAT_OR_DOUBLE)
        .shape(broadcast)
        .kernel(float_or_double::<Polygamma>)
        .gradient(polygamma_gradient),
    Op::new("Zeta", "x: T, q: T -> z: T")
        .attrs(FLOAT_OR_DOUBLE)
        .shape(broadcast)
        .kernel(float_or_double::<Zeta>)
        .gradient(zeta_gradient),
    Op::new("Igamma", "a: T, x: T -> z: T")
        .attrs(FLOATING)
        .shape(broadcast)
        .kernel(float_or_double::<Igamma>)
        .gradient(igamma_gradient),
    Op::new("Igammac", "a: T, x: T -> z: T")
        .attrs(FLOATING)
        .shape(broadcast)
        .kernel(float_or_double::<Igammac>)
        .gradient(igammac_gradient),
    Op::new("IgammaGradA", "a: T, x: T -> z: T")
        .attrs(FLOAT_OR_DOUBLE)
        .shape(broadcast)
        .kernel(float_or_double::<IgammaGradA>),
    Op::new("RandomGammaGrad", "alpha: T, sample: T -> output: T")
        .attrs(FLOAT_OR_DOUBLE)
        .shape(broadcast)
        .kernel(float_or_double::<RandomGammaGrad>),
    binary("BitwiseAnd", INTEGER, integer::<And>).not_differentiable(),
    binary("BitwiseOr", INTEGER, integer::<Or>).not_differentiable(),
    binary("BitwiseXor", INTEGER, integer::<Xor>).not_differentiable(),
    binary("LeftShift", INTEGER, integer::<LeftShift>).not_differentiable(),
    binary("RightShift", INTEGER, integer::<RightShift>).not_differentiable(),
];

binary_gradients! {
    add_gradient: |x, y, z, dz| (dz, dz);
    mul_gradient: |x, y, z, dz| (dz * conj(y), conj(x) * dz);
    div_gradient: |x, y, z, dz| (dz / conj(y), dz * ((-conj(x) / conj(y)) / conj(y)));
    floor_mod_gradient: |x, y, z, dz| (dz, dz * -apply2("FloorDiv", x, y));
    div_no_nan_gradient: |x, y, z, dz| (
        apply2("DivNoNan", dz, conj(y)),
        dz * apply2("DivNoNan", apply2("DivNoNan", -conj(x), conj(y)), conj(y))
    );
    mul_no_nan_gradient: |x, y, z, dz| (apply2("MulNoNan", dz, conj(y)), apply2("MulNoNan", conj(x), dz));
}

fn sub_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (x, y, dz) = (d.input(0)?, d.input(1)?, d.dy(0)?);
    let (dx, dy) = d.unbroadcast((x, dz), (y, dz))?;
    // What is summed is smaller than what was not: the sign changes last.
    d.flow([dx.into(), apply("Neg", dy)])
}

fn squared_difference_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (x, y, dz) = (d.x(0)?, d.x(1)?, d.arriving_at(0)?);
    let twice = d.build(literal(2.0) * dz * (x - y))?;
    let (dx, dy) = d.unbroadcast((x.0, twice), (y.0, twice))?;
    d.flow([dx.into(), apply("Neg", dy)])
}

fn maximum_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    choice_gradient(d, "GreaterEqual")
}

fn minimum_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    choice_gradient(d, "LessEqual")
}

/// All flows to the first operand where it was chosen, or could have been; else to the second.
fn choice_gradient(d: &mut Differential<'_>, first_is_chosen: &'static str) -> Result<Grads> {
    let (x, y, dz) = (d.x(0)?, d.x(1)?, d.arriving_at(0)?);
    let chosen = d.share(apply2(first_is_chosen, x, y))?;
    let zero = Symbol(d.scalar_like(dz.0, 0.0)?);
    d.flow_broadcast(apply3("SelectV2", chosen, dz, zero), apply3("SelectV2", chosen, zero, dz))
}

/// Where the base is not positive, the slope with respect to the exponent counts as zero.
fn pow_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (x, y, z, dz) = (d.x(0)?, d.x(1)?, d.y(0), d.arriving_at(0)?);
    let (x, y) = (d.share(conj(x))?, d.share(conj(y))?);
    let zero = Symbol(d.scalar_like(x.0, 0.0)?);
    let has_logarithm = if d.dtype(x.0)?.is_complex() { "NotEqual" } else { "Greater" };
    let logarithm = apply3("SelectV2", apply2(has_logarithm, x, zero), apply("Log", x), zero);
    d.flow_broadcast(dz * y * apply2("Pow", x, y - literal(1.0)), dz * conj(z) * logarithm)
}

/// 1 where the first operand is not zero, else 0.
fn is_not_zero(d: &mut Differential<'_>) -> Result<Symbol> {
    let x = d.input(0)?;
    let zero = d.scalar_like(x, 0.0)?;
    let not_zero = d.op("NotEqual", [x, zero])?;
    let dtype = d.dtype(x)?;
    d.cast(not_zero, dtype).map(Symbol)
}

fn xdivy_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (x, y, dz, not_zero) = (d.x(0)?, d.x(1)?, d.arriving_at(0)?, is_not_zero(d)?);
    d.flow_broadcast(dz * apply2("Xdivy", not_zero, y), dz * apply2("Xdivy", -x, apply("Square", y)))
}

fn xlogy_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (x, y, dz, not_zero) = (d.x(0)?, d.x(1)?, d.arriving_at(0)?, is_not_zero(d)?);
    d.flow_broadcast(dz * apply2("Xlogy", not_zero, y), dz * apply2("Xdivy", x, y))
}

fn xlog1py_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (x, y, dz, not_zero) = (d.x(0)?, d.x(1)?, d.arriving_at(0)?, is_not_zero(d)?);
    d.flow_broadcast(dz * apply2("Xlog1py", not_zero, y), dz * apply2("Xdivy", x, y + literal(1.0)))
}

fn atan2_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (y, x, dz) = (d.x(0)?, d.x(1)?, d.arriving_at(0)?);
    let share = d.share(dz / (apply("Square", x) + apply("Square", y)))?;
    d.flow_broadcast(x * share, -y * share)
}

/// Only the argument has a gradient, not the order.
fn polygamma_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (a, x, dz) = (d.x(0)?, d.x(1)?, d.arriving_at(0)?);
    second_only(d, dz * apply2("Polygamma", a + literal(1.0), x))
}

/// Only the offset has a gradient, not the exponent.
fn zeta_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (x, q, dz) = (d.x(0)?, d.x(1)?, d.arriving_at(0)?);
    second_only(d, dz * (-x * apply2("Zeta", x + literal(1.0), q)))
}

fn igamma_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (da, dx) = incomplete_gamma_slopes(d)?;
    let dz = d.arriving_at(0)?;
    d.flow_broadcast(dz * da, dz * dx)
}

/// The slopes of what is left to 1 are the negative ones.
fn igammac_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (da, dx) = incomplete_gamma_slopes(d)?;
    let dz = d.arriving_at(0)?;
    let dz = d.share(-dz)?;
    d.flow_broadcast(dz * da, dz * dx)
}

fn incomplete_gamma_slopes(d: &mut Differential<'_>) -> Result<(Formula, Formula)> {
    let (a, x) = (d.x(0)?, d.x(1)?);
    let density = apply("Exp", (a - 1.0) * apply("Log", x) - x - apply("Lgamma", a));
    Ok((apply2("IgammaGradA", a, x), density))
}

fn second_only(d: &mut Differential<'_>, formula: Formula) -> Result<Grads> {
    let (x, y, dz, dy) = (d.input(0)?, d.input(1)?, d.dy(0)?, d.build(formula)?);
    let (_, dy) = d.unbroadcast((x, dz), (y, dy))?;
    Ok(vec![None, Some(Grad::Dense(dy))])
}

/// Defines functions of two operands: name, the trait they have, an expression, its cost, and a check of the second
/// operand if there is one.
macro_rules! functions {
    ($($name:ident: $kind:path, |$x:ident, $y:ident| $value:expr, $cost:expr $(, $check:ident)?;)*) => {$(
        pub(super) struct $name;

        impl<T: $kind> tensorfleet_numeric::elementwise::BinaryOp<T> for $name {
            type Out = T;
            const COST: usize = $cost;
            #[inline(always)]
            fn apply($x: T, $y: T) -> T {
                $value
            }
            $(fn check(second: &[T]) -> tensorfleet_core::Result<()> {
                $check(second)
            })?
        }
    )*};
}
pub(super) use functions;

functions! {
    Plus: Number, |x, y| x.plus(y), cost::ARITHMETIC;
    Minus: Number, |x, y| x.minus(y), cost::ARITHMETIC;
    Times: Number, |x, y| x.times(y), cost::ARITHMETIC;
    Divide: Divisible, |x, y| x.divided_by(y), cost::VECTOR_FUNCTION, no_zero;
    FloorDiv: DivisibleReal, |x, y| x.floor_div(y), cost::VECTOR_FUNCTION, no_zero;
    FloorMod: DivisibleReal, |x, y| x.floor_mod(y), cost::SCALAR_FUNCTION, no_zero;
    TruncateDiv: DivisibleReal, |x, y| x.truncate_div(y), cost::VECTOR_FUNCTION, no_zero_unchecked_by_tensorflow;
    TruncateMod: DivisibleReal, |x, y| x.truncate_mod(y), cost::SCALAR_FUNCTION, no_zero_unchecked_by_tensorflow;
    Modulo: DivisibleReal, |x, y| x.truncate_mod(y), cost::SCALAR_FUNCTION, no_zero;
    FloorDivOfHalf: Floating, |x, y| T::from_f64(f16::from_f64(x.divided_by(y).to_f64()).to_f64()).floor(), cost::SCALAR_FUNCTION;
    FloorDivOfBrain: Floating, |x, y| T::from_f64(bf16::from_f64(x.divided_by(y).to_f64()).to_f64()).floor(), cost::SCALAR_FUNCTION;
    TruncateDivOfHalf: Floating, |x, y| toward_zero(T::from_f64(f16::from_f64(x.divided_by(y).to_f64()).to_f64())),
        cost::SCALAR_FUNCTION;
    TruncateDivOfBrain: Floating, |x, y| toward_zero(T::from_f64(bf16::from_f64(x.divided_by(y).to_f64()).to_f64())),
        cost::SCALAR_FUNCTION;
    Maximum: Real, |x, y| x.max_or_nan(y), cost::ARITHMETIC;
    Minimum: Real, |x, y| x.min_or_nan(y), cost::ARITHMETIC;
    PowerOf: Power, |x, y| x.power(y), cost::SCALAR_FUNCTION;
    IntegerPower: RealPower, |x, y| x.power(y), cost::VECTOR_FUNCTION, no_negative;
    SquaredDifference: Number, |x, y| {
        let difference = x.minus(y);
        difference.times(difference.conjugate())
    }, cost::ARITHMETIC;
    DivNoNan: Field, |x, y| if y.flush_denormal() == T::ZERO { T::ZERO } else { x.divided_by(y) }, cost::VECTOR_FUNCTION;
    MulNoNan: Field, |x, y| if y.flush_denormal() == T::ZERO { T::ZERO } else { x.times(y) }, cost::ARITHMETIC;
    Xdivy: Field, |x, y| if x.flush_denormal() == T::ZERO { T::ZERO } else { x.divided_by(y) }, cost::VECTOR_FUNCTION;
    Xlogy: Elementary, |x, y| if x.flush_denormal() == T::ZERO { T::ZERO } else { x.times(y.flush_denormal().ln()) }, cost::SCALAR_FUNCTION;
    Xlog1py: Elementary, |x, y| if x.flush_denormal() == T::ZERO { T::ZERO } else { x.times(y.flush_denormal().ln_1_plus()) },
        cost::SCALAR_FUNCTION;
    Atan2: Floating, |y, x| y.atan2(x), cost::SCALAR_FUNCTION;
    Polygamma: Floating, |order, x| T::from_f64(special::polygamma(order.to_f64(), x.to_f64())), cost::SCALAR_FUNCTION;
    Zeta: Floating, |x, q| T::from_f64(special::zeta(x.to_f64(), q.to_f64())), cost::SCALAR_FUNCTION;
    Igamma: Floating, |a, x| T::from_f64(special::igamma(a.to_f64(), x.to_f64())), cost::SCALAR_FUNCTION;
    Igammac: Floating, |a, x| T::from_f64(special::igammac(a.to_f64(), x.to_f64())), cost::SCALAR_FUNCTION;
    IgammaGradA: Floating, |a, x| T::from_f64(special::igamma_slope(a.to_f64(), x.to_f64())), cost::SCALAR_FUNCTION;
    RandomGammaGrad: Floating, |a, x| T::from_f64(special::gamma_sample_slope(a.to_f64(), x.to_f64())), cost::SCALAR_FUNCTION;
    And: std::ops::BitAnd<Output = T>, |x, y| x & y, cost::ARITHMETIC;
    Or: std::ops::BitOr<Output = T>, |x, y| x | y, cost::ARITHMETIC;
    Xor: std::ops::BitXor<Output = T>, |x, y| x ^ y, cost::ARITHMETIC;
    LeftShift: Shift, |x, y| x.shifted_left(y), cost::ARITHMETIC;
    RightShift: Shift, |x, y| x.shifted_right(y), cost::ARITHMETIC;
}

/// Numbers, knowing whether dividing by zero is an error.
pub(super) trait Divisible: Number {
    const ZERO_IS_REFUSED: bool;
}

/// Ordered numbers, knowing whether dividing by zero is an error.
pub(super) trait DivisibleReal: Divisible + Real {}
impl<T: Divisible + Real> DivisibleReal for T {}

/// Integers that can be exponents.
pub(super) trait RealPower: Real + Power {}
impl<T: Real + Power> RealPower for T {}

macro_rules! divisible {
    ($refused:literal: $($type:ty),*) => {
        $(impl Divisible for $type {
            const ZERO_IS_REFUSED: bool = $refused;
        })*
    };
}
divisible!(true: i8, i16, i32, i64, u8, u16, u32, u64);
divisible!(false: f32, f64, Complex<f32>, Complex<f64>);

fn no_zero<T: Divisible>(divisors: &[T]) -> Result<()> {
    let has_zero = T::ZERO_IS_REFUSED && divisors.contains(&T::ZERO);
    ensure!(!has_zero, InvalidArgument, "Integer division by zero");
    Ok(())
}

/// The quotients that TensorFlow computes without a look at the divisor; its kernel then fails (observed in 2.21).
fn no_zero_unchecked_by_tensorflow<T: Divisible>(divisors: &[T]) -> Result<()> {
    let has_zero = T::ZERO_IS_REFUSED && divisors.contains(&T::ZERO);
    ensure!(!has_zero, Internal, "Integer division by zero");
    Ok(())
}

fn no_negative<T: Real>(exponents: &[T]) -> Result<()> {
    let has_negative = exponents.iter().any(|exponent| *exponent < T::ZERO);
    ensure!(!has_negative, InvalidArgument, "Integers to negative integer powers are not allowed");
    Ok(())
}

/// Integers whose bits can be shifted; distances outside `0..bits` are clamped, as TensorFlow does.
pub(super) trait Shift: Copy {
    fn shifted_left(self, distance: Self) -> Self;
    fn shifted_right(self, distance: Self) -> Self;
}

macro_rules! shift {
    ($($type:ident)*) => {$(
        #[allow(clippy::unnecessary_cast, reason = "i64 and u64 are their own widest types")]
        impl Shift for $type {
            #[inline(always)]
            fn shifted_left(self, distance: $type) -> $type {
                self << (distance as i64).clamp(0, $type::BITS as i64 - 1)
            }
            #[inline(always)]
            fn shifted_right(self, distance: $type) -> $type {
                self >> (distance as i64).clamp(0, $type::BITS as i64 - 1)
            }
        }
    )*};
}
shift!(i8 i16 i32 i64 u8 u16 u32 u64);

/// Defines the kernel maker of functions over a set of dtypes: stored types in brackets, compute types after them.
macro_rules! kernel_makers {
    ($($maker:ident: [$($stored:ty),*] as [$($compute:ty),*];)*) => {$(
        pub(super) fn $maker<F>(node: &NodeSpec<'_>) -> Result<KernelBox>
        where
            F: $(BinaryOp<$compute, Out = $compute> +)*,
        {
            dispatch!(node.dtype()?, T in [$($stored),*] => Ok(binary_kernel::<T, F>()))
        }
    )*};
}

kernel_makers! {
    float_or_double: [f32, f64] as [f32, f64];
    floating: [f32, f64, f16, bf16] as [f32, f64];
    field: [f32, f64, f16, bf16, Complex<f32>, Complex<f64>] as [f32, f64, Complex<f32>, Complex<f64>];
    integer: [i8, i16, i32, i64, u8, u16, u32, u64] as [i8, i16, i32, i64, u8, u16, u32, u64];
    real: [f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64]
        as [f32, f64, i8, i16, i32, i64, u8, u16, u32, u64];
    number: [f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, Complex<f32>, Complex<f64>]
        as [f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, Complex<f32>, Complex<f64>];
}

#[inline(always)]
fn toward_zero<T: Floating>(x: T) -> T {
    T::from_f64(x.to_f64().trunc())
}

/// Quotients of 16-bit floats are rounded to 16 bits before they are rounded to an integer, which makes a difference where the
/// first rounding reaches it.
fn floor_div(node: &NodeSpec<'_>) -> Result<KernelBox> {
    match node.dtype()? {
        DType::Half => floating::<FloorDivOfHalf>(node),
        DType::BFloat16 => floating::<FloorDivOfBrain>(node),
        _ => real::<FloorDiv>(node),
    }
}

fn truncate_div(node: &NodeSpec<'_>) -> Result<KernelBox> {
    match node.dtype()? {
        DType::Half => floating::<TruncateDivOfHalf>(node),
        DType::BFloat16 => floating::<TruncateDivOfBrain>(node),
        _ => real::<TruncateDiv>(node),
    }
}

fn power(node: &NodeSpec<'_>) -> Result<KernelBox> {
    if node.dtype()?.is_integer() { integer::<IntegerPower>(node) } else { field::<PowerOf>(node) }
}

/// `Add`, which also concatenates strings.
fn add(node: &NodeSpec<'_>) -> Result<KernelBox> {
    if node.dtype()? != DType::String {
        return number::<Plus>(node);
    }
    Ok(KernelBox::from_fn(|ctx| {
        let sum = add_strings(ctx.input(0)?, ctx.input(1)?)?;
        ctx.set_output(0, sum);
        Ok(())
    }))
}

fn add_strings(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let broadcast = Broadcast::of_two(a.shape(), b.shape())?;
    let (a, b) = (broadcast.strings(0, a)?, broadcast.strings(1, b)?);
    let mut sums = StringsBuilder::new(a.len())?;
    for (a, b) in a.into_iter().zip(b) {
        sums.push(joined([&a[..], &b[..]].into_iter(), b"")?)?;
    }
    sums.finish(broadcast.shape())
}

#[cfg(test)]
mod tests {
    use tensorfleet_core::{Code, Element};

    use super::*;
    use crate::testing::test_op;
    use bytes::Bytes;

    fn run(op: &str, x: Tensor, y: Tensor) -> Result<Tensor> {
        test_op(op).attr("T", x.dtype()).input(x).input(y).run_one()
    }

    fn vectors<T: Element>(op: &str, x: &[T], y: &[T]) -> Result<Vec<T>> {
        let output = run(op, Tensor::vector(x).unwrap(), Tensor::vector(y).unwrap())?;
        Ok(output.as_slice::<T>()?.to_vec())
    }

    #[test]
    fn an_operand_that_nobody_else_holds_becomes_the_result() {
        let large = Tensor::from_slice(&[2.0f32; 4096], &[4096]).unwrap();
        let address = large.as_slice::<f32>().unwrap().as_ptr();
        let result = run("RealDiv", Tensor::scalar(1.0f32), large).unwrap();
        assert_eq!(result.as_slice::<f32>().unwrap().as_ptr(), address);
        assert!(result.as_slice::<f32>().unwrap().iter().all(|&x| x == 0.5));
        let kept = result.clone();
        let sum = run("AddV2", result, Tensor::scalar(1.0f32)).unwrap();
        assert_eq!((kept.as_slice::<f32>().unwrap()[0], sum.as_slice::<f32>().unwrap()[0]), (0.5, 1.5));
    }

    #[test]
    fn integers_wrap_around() {
        assert_eq!(vectors("AddV2", &[i32::MAX, i32::MIN], &[1, -1]).unwrap(), [i32::MIN, i32::MAX]);
        assert_eq!(vectors("Mul", &[200u8], &[2]).unwrap(), [144]);
        assert_eq!(vectors("Div", &[i64::MIN, 7, -7], &[-1, 2, 2]).unwrap(), [i64::MIN, 3, -3]);
    }

    #[test]
    fn dividing_an_integer_by_zero_is_an_error_unless_there_is_nothing_to_divide() {
        for op in ["Div", "FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod", "Mod"] {
            let status = vectors(op, &[4i32, 4], &[2, 0]).unwrap_err();
            let code = if op.starts_with("Truncate") { Code::Internal } else { Code::InvalidArgument };
            assert_eq!((status.code(), status.text()), (code, "Integer division by zero"), "{op}");
            assert_eq!(vectors::<i32>(op, &[], &[0]).unwrap(), []);
        }
        assert_eq!(vectors("RealDiv", &[1.0f32, -1.0], &[0.0]).unwrap(), [f32::INFINITY, f32::NEG_INFINITY]);
    }

    #[test]
    fn integers_have_no_negative_powers() {
        assert_eq!(vectors("Pow", &[2i32, 3, 0], &[10, 3, 0]).unwrap(), [1024, 27, 1]);
        let status = vectors("Pow", &[2i32, 3], &[2, -1]).unwrap_err();
        assert!(status.text().contains("negative integer powers"));
        assert_eq!(vectors("Pow", &[2.0f64, 4.0], &[-1.0, 0.5]).unwrap(), [0.5, 2.0]);
    }

    #[test]
    fn clashing_shapes_are_named_before_anything_else() {
        let status = vectors("FloorMod", &[1i32, 2], &[0, 1, 2]).unwrap_err();
        assert_eq!(status.text(), "Incompatible shapes: [2] vs. [3]");
    }

    #[test]
    fn sixteen_bit_floats_are_rounded_once_per_op() {
        let half = |x: f32| f16::from_f32(x);
        assert_eq!(
            vectors("AddV2", &[half(2048.0), half(0.1)], &[half(1.0)]).unwrap(),
            [half(2048.0), half(1.1)]
        );
        let brain = |x: f32| bf16::from_f32(x);
        assert_eq!(
            vectors("Mul", &[brain(3.0)], &[brain(0.5), brain(2.0)]).unwrap(),
            [brain(1.5), brain(6.0)]
        );
    }

    #[test]
    fn quotients_of_sixteen_bit_floats_are_rounded_before_they_lose_their_fraction() {
        // In single precision the quotients are just below 3 and just above -3; TensorFlow 2.21 gives 3.
        let (x, y) = ([bf16::from_f32(5.96875), bf16::from_f32(-5.96875)], [bf16::from_f32(1.992_187_5)]);
        assert_eq!(vectors("TruncateDiv", &x, &y).unwrap(), [bf16::from_f32(3.0), bf16::from_f32(-3.0)]);
        assert_eq!(vectors("FloorDiv", &x, &y).unwrap(), [bf16::from_f32(3.0), bf16::from_f32(-3.0)]);
        let (x, y) = ([f16::from_f32(4095.0)], [f16::from_f32(2.0)]);
        assert_eq!(vectors("TruncateDiv", &x, &y).unwrap(), [f16::from_f32(2048.0)]);
        assert_eq!(vectors("FloorDiv", &x, &y).unwrap(), [f16::from_f32(2048.0)]);
    }

    #[test]
    fn denormal_divisors_count_as_zero() {
        let tiny = f32::from_bits(1);
        assert!(vectors("RealDiv", &[0.0f32], &[tiny]).unwrap()[0].is_nan());
        assert_eq!(vectors("DivNoNan", &[1.0f32, 3.0], &[tiny, 2.0]).unwrap(), [0.0, 1.5]);
    }

    #[test]
    fn strings_are_concatenated_and_broadcast() {
        let x = Tensor::from_strings(vec![Bytes::from("a"), Bytes::from("b")], &[2]).unwrap();
        let sum = run("Add", x, Tensor::string("!")).unwrap();
        assert_eq!(sum.as_strings().unwrap(), [Bytes::from("a!"), Bytes::from("b!")]);
    }

    #[test]
    fn products_without_nan_ignore_what_zero_meets() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        assert_eq!(vectors("MulNoNan", &[nan, inf, 2.0], &[0.0, 0.0, 3.0]).unwrap(), [0.0, 0.0, 6.0]);
        assert_eq!(vectors("Xlogy", &[0.0f32, 0.0, 2.0], &[0.0, nan, 1.0]).unwrap(), [0.0, 0.0, 0.0]);
        assert_eq!(vectors("Xdivy", &[0.0f32, 1.0], &[0.0, 2.0]).unwrap(), [0.0, 0.5]);
    }

    #[test]
    fn shift_distances_are_clamped() {
        assert_eq!(vectors("LeftShift", &[1i8, 1, -8], &[9, -1, 1]).unwrap(), [-128, 1, -16]);
        assert_eq!(vectors("RightShift", &[1u8, 255, -0i8 as u8], &[200, 1, 1]).unwrap(), [0, 127, 0]);
    }
}
