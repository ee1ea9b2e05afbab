//! Element-wise arithmetic of two operands, with broadcasting.
//!
//! A function is a line in `functions!` (what it computes) and a line in the table (what it is called, and for which
//! dtypes it exists).

use bytes::{Bytes, BytesMut};
use half::{bf16, f16};
use num_complex::Complex;
use tensorfleet_core::{DType, Result, Tensor, ensure};

use super::broadcast::Broadcast;
use super::elementwise::{BinaryOp, binary_kernel, cost};
use super::number::{Elementary, Field, Floating, Number, Power, Real};
use super::special;
use crate::dispatch;
use crate::kernel::KernelBox;
use crate::node_spec::NodeSpec;
use crate::op::{KernelFn, Op};
use crate::shape_context::broadcast;

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
    Op::new(name, "x: T, y: T -> z: T").attrs(attrs).shape(broadcast).kernel(kernel)
}

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    binary(
        "Add",
        "T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128, string}",
        add,
    ),
    binary("AddV2", NUMBER, number::<Plus>),
    binary("Sub", NUMBER, number::<Minus>),
    binary("Mul", NUMBER, number::<Times>),
    binary("Div", NUMBER, number::<Divide>),
    binary("RealDiv", NUMBER, field::<Divide>),
    binary("FloorDiv", NUMBER, real::<FloorDiv>),
    binary("FloorMod", REAL, real::<FloorMod>),
    binary("TruncateDiv", NUMBER, real::<TruncateDiv>),
    binary("TruncateMod", "T: {int32, int64, bfloat16, half, float, double}", real::<TruncateMod>),
    binary("Mod", "T: {int32, int64, half, bfloat16, float, double}", real::<TruncateMod>),
    binary(
        "Pow",
        "T: {bfloat16, float, half, double, int8, int16, int32, int64, complex64, complex128}",
        power,
    ),
    binary("Maximum", REAL, real::<Maximum>),
    binary("Minimum", REAL, real::<Minimum>),
    binary(
        "SquaredDifference",
        "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}",
        number::<SquaredDifference>,
    ),
    binary("DivNoNan", FIELD, field::<DivNoNan>),
    binary("MulNoNan", FIELD, field::<MulNoNan>),
    binary("Xdivy", FIELD, field::<Xdivy>),
    binary("Xlogy", FIELD, field::<Xlogy>),
    binary("Xlog1py", FIELD, field::<Xlog1py>),
    Op::new("Atan2", "y: T, x: T -> z: T").attrs(FLOATING).shape(broadcast).kernel(floating::<Atan2>),
    Op::new("Polygamma", "a: T, x: T -> z: T")
        .attrs(FLOAT_OR_DOUBLE)
        .shape(broadcast)
        .kernel(float_or_double::<Polygamma>),
    Op::new("Zeta", "x: T, q: T -> z: T")
        .attrs(FLOAT_OR_DOUBLE)
        .shape(broadcast)
        .kernel(float_or_double::<Zeta>),
    Op::new("Igamma", "a: T, x: T -> z: T")
        .attrs(FLOATING)
        .shape(broadcast)
        .kernel(float_or_double::<Igamma>),
    Op::new("Igammac", "a: T, x: T -> z: T")
        .attrs(FLOATING)
        .shape(broadcast)
        .kernel(float_or_double::<Igammac>),
    binary("BitwiseAnd", INTEGER, integer::<And>),
    binary("BitwiseOr", INTEGER, integer::<Or>),
    binary("BitwiseXor", INTEGER, integer::<Xor>),
    binary("LeftShift", INTEGER, integer::<LeftShift>),
    binary("RightShift", INTEGER, integer::<RightShift>),
];

/// Defines functions of two operands: name, the trait they have, an expression, its cost, and a check of the second
/// operand if there is one.
macro_rules! functions {
    ($($name:ident: $kind:path, |$x:ident, $y:ident| $value:expr, $cost:expr $(, $check:ident)?;)*) => {$(
        pub(super) struct $name;

        impl<T: $kind> $crate::math::elementwise::BinaryOp<T> for $name {
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
    TruncateDiv: DivisibleReal, |x, y| x.truncate_div(y), cost::VECTOR_FUNCTION, no_zero;
    TruncateMod: DivisibleReal, |x, y| x.truncate_mod(y), cost::SCALAR_FUNCTION, no_zero;
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
    Xlogy: Elementary, |x, y| if x.flush_denormal() == T::ZERO { T::ZERO } else { x.times(y.ln()) }, cost::SCALAR_FUNCTION;
    Xlog1py: Elementary, |x, y| if x.flush_denormal() == T::ZERO { T::ZERO } else { x.times(y.ln_1_plus()) },
        cost::SCALAR_FUNCTION;
    Atan2: Floating, |y, x| y.atan2(x), cost::SCALAR_FUNCTION;
    Polygamma: Floating, |order, x| T::from_f64(special::polygamma(order.to_f64(), x.to_f64())), cost::SCALAR_FUNCTION;
    Zeta: Floating, |x, q| T::from_f64(special::zeta(x.to_f64(), q.to_f64())), cost::SCALAR_FUNCTION;
    Igamma: Floating, |a, x| T::from_f64(special::igamma(a.to_f64(), x.to_f64())), cost::SCALAR_FUNCTION;
    Igammac: Floating, |a, x| T::from_f64(special::igammac(a.to_f64(), x.to_f64())), cost::SCALAR_FUNCTION;
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
    let join = |(a, b): (&Bytes, &Bytes)| {
        let mut sum = BytesMut::with_capacity(a.len() + b.len());
        sum.extend_from_slice(a);
        sum.extend_from_slice(b);
        sum.freeze()
    };
    Tensor::from_strings(a.into_iter().zip(b).map(join).collect(), broadcast.shape())
}
