//! Element-wise functions of one operand.
//!
//! A function is a line in `functions!` (what it computes) and a line in the table (what it is called, and for which
//! dtypes it exists).

use std::f64::consts::FRAC_2_SQRT_PI;

use half::{bf16, f16};
use num_complex::Complex;
use tensorfleet_core::{PartialShape, Result, ensure};

use super::elementwise_kernels::{unary_kernel, unary_kernel_to};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{
    Differential, Grads, apply, apply2, conj, number as literal, unary_gradients,
};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, same_as_input};
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::elementwise::{BinaryLoop, BinaryOp, UnaryOp, apply_binary, binary_loop, cost};
use tensorfleet_numeric::number::{Elementary, Field, Floating, Number, Real};
use tensorfleet_numeric::special;
use tensorfleet_numeric::stored::Stored;
use tensorfleet_numeric::vector_math::FlushDenormal;

const FLOATING: &str = "T: {bfloat16, half, float, double}";
const FIELD: &str = "T: {bfloat16, half, float, double, complex64, complex128}";
const SIGNED: &str = "T: {bfloat16, half, float, double, int8, int16, int32, int64, complex64, complex128}";
const SIGNED_REAL: &str = "T: {bfloat16, half, float, double, int8, int16, int32, int64}";
const NUMBER: &str = "T: {bfloat16, half, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, \
                      complex64, complex128}";
const INTEGER: &str = "T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64}";

/// An op `y = f(x)`.
const fn unary(name: &'static str, attrs: &'static str, kernel: tensorfleet_kernel::op::KernelFn) -> Op {
    Op::new(name, "x: T -> y: T").work(Work::Inputs).attrs(attrs).shape(same_as_input).kernel(kernel)
}

/// An op that says something about every element of `x`.
const fn predicate(name: &'static str, kernel: tensorfleet_kernel::op::KernelFn) -> Op {
    Op::new(name, "x: T -> y: bool").work(Work::Inputs).attrs(FLOATING).shape(same_as_input).kernel(kernel)
}

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    unary("Neg", SIGNED, signed::<Neg>).gradient(neg_gradient),
    unary("Square", NUMBER, number::<Square>).gradient(square_gradient),
    unary("Abs", SIGNED_REAL, signed_real::<Abs>).gradient(abs_gradient),
    unary("Sign", SIGNED, sign).gradient(sign_gradient),
    unary("Reciprocal", SIGNED, field::<Reciprocal>).gradient(reciprocal_gradient),
    unary("Inv", SIGNED, field::<Reciprocal>).gradient(reciprocal_gradient),
    unary("Exp", FIELD, field::<Exp>).gradient(exp_gradient),
    unary("Expm1", FIELD, field::<Expm1>).gradient(expm1_gradient),
    unary("Log", FIELD, field::<Log>).gradient(log_gradient),
    unary("Log1p", FIELD, field::<Log1p>).gradient(log1p_gradient),
    unary("Sqrt", FIELD, field::<Sqrt>).gradient(sqrt_gradient),
    unary("Rsqrt", FIELD, field::<Rsqrt>).gradient(rsqrt_gradient),
    unary("Sigmoid", FIELD, field::<Sigmoid>).gradient(sigmoid_gradient),
    unary("Tanh", FIELD, field::<Tanh>).gradient(tanh_gradient),
    unary("Sin", FIELD, field::<Sin>).gradient(sin_gradient),
    unary("Cos", FIELD, field::<Cos>).gradient(cos_gradient),
    unary("Tan", FIELD, field::<Tan>).gradient(tan_gradient),
    unary("Asin", FIELD, field::<Asin>).gradient(asin_gradient),
    unary("Acos", FIELD, field::<Acos>).gradient(acos_gradient),
    unary("Atan", FIELD, field::<Atan>).gradient(atan_gradient),
    unary("Sinh", FIELD, field::<Sinh>).gradient(sinh_gradient),
    unary("Cosh", FIELD, field::<Cosh>).gradient(cosh_gradient),
    unary("Asinh", FIELD, field::<Asinh>).gradient(asinh_gradient),
    unary("Acosh", FIELD, field::<Acosh>).gradient(acosh_gradient),
    unary("Atanh", FIELD, field::<Atanh>).gradient(atanh_gradient),
    unary("Floor", FLOATING, floating::<Floor>).not_differentiable(),
    unary("Ceil", FLOATING, floating::<Ceil>).not_differentiable(),
    unary("Rint", FLOATING, floating::<Round>).not_differentiable(),
    unary("Round", SIGNED, signed_real::<Round>).not_differentiable(),
    unary("Erf", FLOATING, floating::<Erf>).gradient(erf_gradient),
    unary("Erfc", FLOATING, floating::<Erfc>).gradient(erfc_gradient),
    unary("Lgamma", FLOATING, floating::<Lgamma>).gradient(lgamma_gradient),
    unary("Digamma", FLOATING, floating::<Digamma>).gradient(digamma_gradient),
    unary("Invert", INTEGER, integer::<Invert>).not_differentiable(),
    predicate("IsNan", predicates::<IsNan>),
    predicate("IsInf", predicates::<IsInf>),
    predicate("IsFinite", predicates::<IsFinite>),
    Op::new("LogicalNot", "x: bool -> y: bool")
        .work(Work::Inputs)
        .shape(same_as_input)
        .kernel(logical_not)
        .not_differentiable(),
    gradient("SqrtGrad", gradient_kernel::<SqrtGrad>).gradient(sqrt_grad_gradient),
    gradient("RsqrtGrad", gradient_kernel::<RsqrtGrad>).gradient(rsqrt_grad_gradient),
    gradient("ReciprocalGrad", gradient_kernel::<ReciprocalGrad>).gradient(reciprocal_grad_gradient),
    gradient("InvGrad", gradient_kernel::<ReciprocalGrad>).gradient(reciprocal_grad_gradient),
    gradient("SigmoidGrad", gradient_kernel::<SigmoidGrad>).gradient(sigmoid_grad_gradient),
    gradient("TanhGrad", gradient_kernel::<TanhGrad>).gradient(tanh_grad_gradient),
];

/// An op that gives a function's gradient from the function's *output* and the gradient that arrives there.
const fn gradient(name: &'static str, kernel: tensorfleet_kernel::op::KernelFn) -> Op {
    Op::new(name, "y: T, dy: T -> z: T").work(Work::Inputs).attrs(FIELD).shape(same_as_both).kernel(kernel)
}

unary_gradients! {
    neg_gradient: |x, y, dy| -dy;
    square_gradient: |x, y, dy| dy * (literal(2.0) * conj(x));
    abs_gradient: |x, y, dy| dy * apply("Sign", x);
    sign_gradient: |x, y, dy| apply("ZerosLike", dy);
    reciprocal_gradient: |x, y, dy| apply2("ReciprocalGrad", y, dy);
    exp_gradient: |x, y, dy| dy * conj(y);
    expm1_gradient: |x, y, dy| dy * apply("Exp", conj(x));
    log_gradient: |x, y, dy| dy * apply("Reciprocal", conj(x));
    log1p_gradient: |x, y, dy| dy * apply("Reciprocal", literal(1.0) + conj(x));
    sqrt_gradient: |x, y, dy| apply2("SqrtGrad", y, dy);
    rsqrt_gradient: |x, y, dy| apply2("RsqrtGrad", y, dy);
    // The kernels of these two leave the conjugate to the graph.
    sigmoid_gradient: |x, y, dy| apply2("SigmoidGrad", conj(y), dy);
    tanh_gradient: |x, y, dy| apply2("TanhGrad", conj(y), dy);
    sin_gradient: |x, y, dy| dy * apply("Cos", conj(x));
    cos_gradient: |x, y, dy| -dy * apply("Sin", conj(x));
    tan_gradient: |x, y, dy| dy * apply("Square", apply("Reciprocal", apply("Cos", conj(x))));
    asin_gradient: |x, y, dy| dy * apply("Reciprocal", apply("Sqrt", literal(1.0) - apply("Square", conj(x))));
    acos_gradient: |x, y, dy| -dy * apply("Reciprocal", apply("Sqrt", literal(1.0) - apply("Square", conj(x))));
    atan_gradient: |x, y, dy| dy * apply("Reciprocal", literal(1.0) + apply("Square", conj(x)));
    sinh_gradient: |x, y, dy| dy * apply("Cosh", conj(x));
    cosh_gradient: |x, y, dy| dy * apply("Sinh", conj(x));
    asinh_gradient: |x, y, dy| dy / apply("Cosh", conj(y));
    acosh_gradient: |x, y, dy| dy / apply("Sinh", conj(y));
    atanh_gradient: |x, y, dy| dy * apply("Reciprocal", literal(1.0) - apply("Square", conj(x)));
    erf_gradient: |x, y, dy| dy * literal(FRAC_2_SQRT_PI) * apply("Exp", -apply("Square", x));
    erfc_gradient: |x, y, dy| dy * literal(-FRAC_2_SQRT_PI) * apply("Exp", -apply("Square", x));
    lgamma_gradient: |x, y, dy| dy * apply("Digamma", x);
    digamma_gradient: |x, y, dy| dy * apply2("Polygamma", literal(1.0), x);
}

fn sqrt_grad_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (y, z, dz) = (d.x(0)?, d.y(0), d.arriving_at(0)?);
    let quotient = d.share(dz / y)?;
    d.flow([-conj(quotient) * z, literal(0.5) * quotient])
}

fn rsqrt_grad_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (y, dy, dz) = (d.share(conj(d.x(0)?))?, d.x(1)?, d.arriving_at(0)?);
    d.flow([literal(-1.5) * conj(dz) * dy * apply("Square", y), apply2("RsqrtGrad", y, dz)])
}

fn reciprocal_grad_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (y, dy, dz) = (d.share(conj(d.x(0)?))?, d.x(1)?, d.arriving_at(0)?);
    d.flow([conj(dz) * literal(-2.0) * dy * y, apply2("ReciprocalGrad", y, dz)])
}

fn sigmoid_grad_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (y, dy, dz) = (d.share(conj(d.x(0)?))?, d.x(1)?, d.arriving_at(0)?);
    let product = d.share(dz * conj(dy))?;
    d.flow([product - literal(2.0) * product * y, apply2("SigmoidGrad", y, dz)])
}

fn tanh_grad_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (y, dy, dz) = (d.share(conj(d.x(0)?))?, d.x(1)?, d.arriving_at(0)?);
    d.flow([dz * literal(-2.0) * conj(dy) * y, apply2("TanhGrad", y, dz)])
}

/// Shape rule of the gradient ops: they do not broadcast.
fn same_as_both(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(vec![ctx.input(0).merge(ctx.input(1))?])
}

/// Defines functions: name, the trait its operands have, an expression, its cost.
macro_rules! functions {
    ($($name:ident: $kind:path, |$x:ident| $value:expr, $cost:expr;)*) => {$(
        pub(super) struct $name;

        impl<T: $kind> UnaryOp<T> for $name {
            type Out = T;
            const COST: usize = $cost;
            #[inline(always)]
            fn apply($x: T) -> T {
                $value
            }
        }
    )*};
}

functions! {
    Neg: Negate, |x| x.negated(), cost::ARITHMETIC;
    Square: Number, |x| x.times(x), cost::ARITHMETIC;
    SquaredModulus: Number, |x| x.times(x.conjugate()), cost::ARITHMETIC;
    Abs: Real, |x| x.magnitude(), cost::ARITHMETIC;
    SignReal: Real, |x| x.sign(), cost::ARITHMETIC;
    Reciprocal: Field, |x| T::ONE.divided_by(x), cost::VECTOR_FUNCTION;
    Exp: Elementary, |x| x.exp(), cost::VECTOR_FUNCTION;
    Expm1: Elementary, |x| x.exp_minus_1(), cost::SCALAR_FUNCTION;
    Log: Elementary, |x| x.ln(), cost::VECTOR_FUNCTION;
    Log1p: Elementary, |x| x.ln_1_plus(), cost::SCALAR_FUNCTION;
    Sqrt: Elementary, |x| x.sqrt(), cost::VECTOR_FUNCTION;
    Rsqrt: Elementary, |x| T::ONE.divided_by(x.sqrt()), cost::VECTOR_FUNCTION;
    Sigmoid: Elementary, |x| x.sigmoid(), cost::VECTOR_FUNCTION;
    Tanh: Elementary, |x| x.tanh(), cost::VECTOR_FUNCTION;
    Sin: Elementary, |x| x.sin(), cost::SCALAR_FUNCTION;
    Cos: Elementary, |x| x.cos(), cost::SCALAR_FUNCTION;
    Tan: Elementary, |x| x.tan(), cost::SCALAR_FUNCTION;
    Asin: Elementary, |x| x.asin(), cost::SCALAR_FUNCTION;
    Acos: Elementary, |x| x.acos(), cost::SCALAR_FUNCTION;
    Atan: Elementary, |x| x.atan(), cost::SCALAR_FUNCTION;
    Sinh: Elementary, |x| x.sinh(), cost::SCALAR_FUNCTION;
    Cosh: Elementary, |x| x.cosh(), cost::SCALAR_FUNCTION;
    Asinh: Elementary, |x| x.asinh(), cost::SCALAR_FUNCTION;
    Acosh: Elementary, |x| x.acosh(), cost::SCALAR_FUNCTION;
    Atanh: Elementary, |x| x.atanh(), cost::SCALAR_FUNCTION;
    Floor: Floating, |x| x.floor(), cost::ARITHMETIC;
    Ceil: Floating, |x| x.ceil(), cost::ARITHMETIC;
    Round: Real, |x| x.rounded(), cost::ARITHMETIC;
    Erf: Floating, |x| T::from_f64(special::erf(x.to_f64())), cost::SCALAR_FUNCTION;
    Erfc: Floating, |x| T::from_f64(special::erfc(x.to_f64())), cost::SCALAR_FUNCTION;
    Lgamma: Floating, |x| T::from_f64(special::ln_gamma(x.to_f64())), cost::SCALAR_FUNCTION;
    Digamma: Floating, |x| T::from_f64(special::digamma(x.to_f64())), cost::SCALAR_FUNCTION;
    Not: std::ops::Not<Output = T>, |x| !x, cost::ARITHMETIC;
    Invert: std::ops::Not<Output = T>, |x| !x, cost::ARITHMETIC;
}

/// Numbers with a sign.
pub(super) trait Negate: Number {
    fn negated(self) -> Self;
}

macro_rules! negate {
    ($($integer:ident)* ; $($float:ty),*) => {
        $(impl Negate for $integer {
            #[inline(always)]
            fn negated(self) -> $integer {
                self.wrapping_neg()
            }
        })*
        $(impl Negate for $float {
            #[inline(always)]
            fn negated(self) -> $float {
                -self
            }
        })*
    };
}
negate!(i8 i16 i32 i64; f32, f64, Complex<f32>, Complex<f64>);

/// `Sign` of a complex number: the point of the unit circle in its direction.
struct SignComplex;

macro_rules! sign_complex {
    ($($float:ident),*) => {$(
        impl UnaryOp<Complex<$float>> for SignComplex {
            type Out = Complex<$float>;
            #[inline(always)]
            fn apply(x: Complex<$float>) -> Complex<$float> {
                let x = x.flush_denormal();
                if x == Complex::ZERO { x } else { x / x.norm() }
            }
        }
    )*};
}
sign_complex!(f32, f64);

/// Defines predicates of floats.
macro_rules! predicates {
    ($($name:ident: |$x:ident| $value:expr;)*) => {$(
        struct $name;

        impl<T: Floating> UnaryOp<T> for $name {
            type Out = bool;
            #[inline(always)]
            fn apply($x: T) -> bool {
                $value
            }
        }
    )*};
}
predicates! {
    IsNan: |x| x.is_nan();
    IsInf: |x| x.is_infinite();
    IsFinite: |x| !x.is_nan() && !x.is_infinite();
}

super::binary::functions! {
    SqrtGrad: Field, |y, dy| unless_zero(dy, T::constant(0.5).times(dy).divided_by(y.conjugate())), cost::VECTOR_FUNCTION;
    RsqrtGrad: Field, |y, dy| {
        let y = y.conjugate();
        unless_zero(dy, T::constant(-0.5).times(dy).times(y).times(y.times(y)))
    }, cost::ARITHMETIC;
    ReciprocalGrad: Field, |y, dy| {
        let y = y.conjugate();
        unless_zero(dy, T::constant(-1.0).times(dy).times(y).times(y))
    }, cost::ARITHMETIC;
    // Unlike the three above, these two take the output as it is; the graph conjugates it.
    SigmoidGrad: Field, |y, dy| dy.times(y).times(T::ONE.minus(y)), cost::ARITHMETIC;
    TanhGrad: Field, |y, dy| dy.times(T::ONE.minus(y.times(y))), cost::ARITHMETIC;
}

/// No gradient stays no gradient, even where the function's slope is infinite.
#[inline(always)]
fn unless_zero<T: Field>(dy: T, gradient: T) -> T {
    if dy.flush_denormal() == T::ZERO { T::ZERO } else { gradient }
}

/// The kernel of a gradient op: no broadcasting, and the result has the shape of the function's output.
fn gradient_kernel<F>(node: &NodeSpec<'_>) -> Result<KernelBox>
where
    F: BinaryOp<f32, Out = f32>
        + BinaryOp<f64, Out = f64>
        + BinaryOp<Complex<f32>, Out = Complex<f32>>
        + BinaryOp<Complex<f64>, Out = Complex<f64>>,
{
    fn kernel<S: Stored>(run: BinaryLoop<S::Compute, S::Compute>, cost: usize) -> KernelBox {
        KernelBox::from_fn(move |ctx| {
            let (y, dy) = (ctx.take_input(0)?, ctx.take_input(1)?);
            let (count, other) = (y.num_elements(), dy.num_elements());
            ensure!(
                count == other,
                InvalidArgument,
                "The two arguments to a cwise op must have same number of elements, got {count} and {other}"
            );
            let dy = dy.reshaped(y.shape().clone())?;
            ctx.set_output(0, apply_binary::<S>(ctx.loops(), y, dy, &run, cost)?);
            Ok(())
        })
    }
    dispatch!(node.dtype()?, T in [f32, f64, f16, bf16, Complex<f32>, Complex<f64>] => {
        type C = <T as Stored>::Compute;
        Ok(kernel::<T>(binary_loop::<C, F>(), <F as BinaryOp<C>>::COST))
    })
}

/// Defines the kernel maker of functions over a set of dtypes: stored types in brackets, compute types after them.
macro_rules! kernel_makers {
    ($($maker:ident: [$($stored:ty),*] as [$($compute:ty),*];)*) => {$(
        fn $maker<F>(node: &NodeSpec<'_>) -> Result<KernelBox>
        where
            F: $(UnaryOp<$compute, Out = $compute> +)*,
        {
            dispatch!(node.dtype()?, T in [$($stored),*] => Ok(unary_kernel::<T, F>()))
        }
    )*};
}

kernel_makers! {
    floating: [f32, f64, f16, bf16] as [f32, f64];
    field: [f32, f64, f16, bf16, Complex<f32>, Complex<f64>] as [f32, f64, Complex<f32>, Complex<f64>];
    integer: [i8, i16, i32, i64, u8, u16, u32, u64] as [i8, i16, i32, i64, u8, u16, u32, u64];
    signed_real: [f32, f64, f16, bf16, i8, i16, i32, i64] as [f32, f64, i8, i16, i32, i64];
    complex: [Complex<f32>, Complex<f64>] as [Complex<f32>, Complex<f64>];
    signed: [f32, f64, f16, bf16, i8, i16, i32, i64, Complex<f32>, Complex<f64>]
        as [f32, f64, i8, i16, i32, i64, Complex<f32>, Complex<f64>];
    number: [f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, Complex<f32>, Complex<f64>]
        as [f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, Complex<f32>, Complex<f64>];
}

fn sign(node: &NodeSpec<'_>) -> Result<KernelBox> {
    if node.dtype()?.is_complex() { complex::<SignComplex>(node) } else { signed_real::<SignReal>(node) }
}

fn predicates<F>(node: &NodeSpec<'_>) -> Result<KernelBox>
where
    F: UnaryOp<f32, Out = bool> + UnaryOp<f64, Out = bool>,
{
    dispatch!(node.dtype()?, T in floating => Ok(unary_kernel_to::<T, bool, F>()))
}

fn logical_not(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(unary_kernel::<bool, Not>())
}

#[cfg(test)]
mod tests {
    use tensorfleet_core::{Element, Tensor};

    use super::*;
    use crate::testing::test_op;

    fn run(op: &str, x: Tensor) -> Result<Tensor> {
        test_op(op).attr("T", x.dtype()).input(x).run_one()
    }

    fn values<T: Element>(op: &str, x: &[T]) -> Vec<T> {
        run(op, Tensor::vector(x).unwrap()).unwrap().as_slice::<T>().unwrap().to_vec()
    }

    #[test]
    fn functions_are_what_they_are_called() {
        assert_eq!(values("Neg", &[1i32, i32::MIN]), [-1, i32::MIN]);
        assert_eq!(values("Square", &[3u8, 20]), [9, 144]);
        assert_eq!(values("Reciprocal", &[4.0f32, 0.0]), [0.25, f32::INFINITY]);
        assert_eq!(values("Round", &[0.5f32, 1.5, -2.5]), [0.0, 2.0, -2.0]);
        assert_eq!(values("Sign", &[-3i64, 0, 9]), [-1, 0, 1]);
        assert_eq!(values("Sqrt", &[16.0f64]), [4.0]);
        assert_eq!(values("Rsqrt", &[16.0f32]), [0.25]);
        assert_eq!(values("Invert", &[0u8, 255]), [255, 0]);
        let complex = Complex { re: 3.0f32, im: 4.0 };
        assert_eq!(values("Sign", &[complex]), [Complex { re: 0.6, im: 0.8 }]);
        assert_eq!(
            run("IsFinite", Tensor::vector(&[1.0f32, f32::NAN, f32::INFINITY]).unwrap())
                .unwrap()
                .as_slice::<bool>()
                .unwrap(),
            [true, false, false]
        );
    }

    #[test]
    fn many_elements_in_place_and_few_in_a_new_tensor_give_the_same() {
        for count in [3, 5000] {
            let input: Vec<f32> = (0..count).map(|i| i as f32 * 0.01).collect();
            let shared = Tensor::vector(&input).unwrap();
            let fresh = run("Exp", shared.clone()).unwrap();
            let in_place = run("Exp", shared).unwrap();
            assert_eq!(fresh.as_slice::<f32>().unwrap(), in_place.as_slice::<f32>().unwrap());
            let halves: Vec<f16> = input.iter().map(|&x| f16::from_f32(x.min(10.0))).collect();
            let got = values("Exp", &halves);
            let want = halves.iter().map(|x| f16::from_f64(x.to_f64().exp()));
            assert!(
                got.iter()
                    .zip(want)
                    .all(|(got, want)| (got.to_f32() - want.to_f32()).abs() <= want.to_f32() * 1e-3)
            );
        }
    }

    #[test]
    fn dtypes_without_a_kernel_are_refused() {
        assert!(run("Reciprocal", Tensor::scalar(3i32)).unwrap_err().text().contains("No OpKernel"));
    }

    #[test]
    fn gradients_take_the_functions_output_and_do_not_broadcast() {
        let run = |op: &str, y: &[f32], dy: &[f32]| {
            let (y, dy) = (Tensor::vector(y).unwrap(), Tensor::vector(dy).unwrap());
            let output = test_op(op).attr("T", y.dtype()).input(y).input(dy).run_one()?;
            Ok(output.as_slice::<f32>()?.to_vec())
        };
        let inf = f32::INFINITY;
        assert_eq!(run("SqrtGrad", &[2.0, 0.0, 0.0], &[4.0, 1.0, 0.0]), Ok(vec![1.0, inf, 0.0]));
        assert_eq!(run("RsqrtGrad", &[2.0, inf], &[1.0, 0.0]), Ok(vec![-4.0, 0.0]));
        assert_eq!(run("ReciprocalGrad", &[2.0], &[1.0]), Ok(vec![-4.0]));
        assert_eq!(run("SigmoidGrad", &[0.5], &[2.0]), Ok(vec![0.5]));
        assert_eq!(run("TanhGrad", &[0.5], &[2.0]), Ok(vec![1.5]));
        let status: tensorfleet_core::Status = run("TanhGrad", &[1.0, 2.0], &[1.0]).unwrap_err();
        assert!(status.text().contains("same number of elements, got 2 and 1"));
    }
}
