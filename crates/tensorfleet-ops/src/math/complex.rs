//! Taking complex numbers apart and putting them together.

use num_complex::Complex;
use tensorfleet_core::{DType, Result};

use super::elementwise::{BinaryOp, UnaryOp, binary_kernel_to, cost, unary_kernel, unary_kernel_to};
use crate::dispatch::no_kernel;
use crate::kernel::KernelBox;
use crate::node_spec::NodeSpec;
use crate::op::{KernelFn, Op};
use crate::shape_context::{broadcast, same_as_input};

const TO_REAL: &str = "T: {complex64, complex128} = complex64; Tout: {float, double} = float";

const fn to_real(name: &'static str, kernel: KernelFn) -> Op {
    Op::new(name, "input: T -> output: Tout").attrs(TO_REAL).shape(same_as_input).kernel(kernel)
}

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Complex", "real: T, imag: T -> out: Tout")
        .attrs("T: {float, double} = float; Tout: {complex64, complex128} = complex64")
        .shape(broadcast)
        .kernel(complex),
    to_real("Real", parts::<RealPart>),
    to_real("Imag", parts::<ImaginaryPart>),
    to_real("Angle", parts::<Angle>),
    Op::new("ComplexAbs", "x: T -> y: Tout").attrs(TO_REAL).shape(same_as_input).kernel(parts::<Modulus>),
    Op::new("Conj", "input: T -> output: T")
        .attrs("T: {complex64, complex128, variant} = complex64")
        .shape(same_as_input)
        .kernel(conj),
];

struct Join;
struct RealPart;
struct ImaginaryPart;
struct Angle;
struct Modulus;
struct Conjugate;

macro_rules! complex_ops {
    ($($float:ident)*) => {$(
        impl BinaryOp<$float> for Join {
            type Out = Complex<$float>;
            #[inline(always)]
            fn apply(re: $float, im: $float) -> Complex<$float> {
                Complex { re, im }
            }
        }
        impl UnaryOp<Complex<$float>> for Conjugate {
            type Out = Complex<$float>;
            #[inline(always)]
            fn apply(x: Complex<$float>) -> Complex<$float> {
                x.conj()
            }
        }
        complex_ops!(@part $float RealPart cost::ARITHMETIC, |x| x.re);
        complex_ops!(@part $float ImaginaryPart cost::ARITHMETIC, |x| x.im);
        complex_ops!(@part $float Angle cost::SCALAR_FUNCTION, |x| x.arg());
        complex_ops!(@part $float Modulus cost::SCALAR_FUNCTION, |x| x.norm());
    )*};
    (@part $float:ident $name:ident $cost:expr, |$x:ident| $value:expr) => {
        impl UnaryOp<Complex<$float>> for $name {
            type Out = $float;
            const COST: usize = $cost;
            #[inline(always)]
            fn apply($x: Complex<$float>) -> $float {
                $value
            }
        }
    };
}
complex_ops!(f32 f64);

fn complex(node: &NodeSpec<'_>) -> Result<KernelBox> {
    match (node.input_dtype(0)?, node.output_dtype(0)?) {
        (DType::Float, DType::Complex64) => Ok(binary_kernel_to::<f32, Complex<f32>, Join>()),
        (DType::Double, DType::Complex128) => Ok(binary_kernel_to::<f64, Complex<f64>, Join>()),
        (_, other) => Err(no_kernel(other)),
    }
}

fn parts<F>(node: &NodeSpec<'_>) -> Result<KernelBox>
where
    F: UnaryOp<Complex<f32>, Out = f32> + UnaryOp<Complex<f64>, Out = f64>,
{
    match (node.input_dtype(0)?, node.output_dtype(0)?) {
        (DType::Complex64, DType::Float) => Ok(unary_kernel_to::<Complex<f32>, f32, F>()),
        (DType::Complex128, DType::Double) => Ok(unary_kernel_to::<Complex<f64>, f64, F>()),
        (_, other) => Err(no_kernel(other)),
    }
}

fn conj(node: &NodeSpec<'_>) -> Result<KernelBox> {
    match node.dtype()? {
        DType::Complex64 => Ok(unary_kernel::<Complex<f32>, Conjugate>()),
        DType::Complex128 => Ok(unary_kernel::<Complex<f64>, Conjugate>()),
        other => Err(no_kernel(other)),
    }
}

#[cfg(test)]
mod tests {
    use tensorfleet_core::Tensor;

    use super::*;
    use crate::testing::TestOp;

    #[test]
    fn numbers_are_put_together_and_taken_apart() {
        let joined = TestOp::new("Complex")
            .input(Tensor::vector(&[3.0f32, 0.0]).unwrap())
            .input(Tensor::scalar(4.0f32));
        let joined = joined.run_one().unwrap();
        let part = |op: &str| {
            TestOp::new(op).input(joined.clone()).run_one().unwrap().as_slice::<f32>().unwrap().to_vec()
        };
        assert_eq!((part("Real"), part("Imag")), (vec![3.0, 0.0], vec![4.0, 4.0]));
        assert_eq!((part("ComplexAbs"), part("Angle")[1]), (vec![5.0, 4.0], std::f32::consts::FRAC_PI_2));
        let conjugate = TestOp::new("Conj").input(joined).run_one().unwrap();
        assert_eq!(conjugate.as_slice::<Complex<f32>>().unwrap()[0], Complex { re: 3.0, im: -4.0 });
    }
}
