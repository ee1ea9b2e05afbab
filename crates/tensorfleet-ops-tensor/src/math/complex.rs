//! Taking complex numbers apart and putting them together.

use num_complex::Complex;
use tensorfleet_core::{DType, Endpoint, Result, Tensor};

use super::elementwise_kernels::{binary_kernel_to, unary_kernel, unary_kernel_to};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Formula, Grads, Symbol, apply, apply2, conj as conjugate};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{KernelFn, Op};
use tensorfleet_kernel::shape_context::{broadcast, same_as_input};
use tensorfleet_numeric::dispatch::no_kernel;
use tensorfleet_numeric::elementwise::{BinaryOp, UnaryOp, cost};

const TO_REAL: &str = "T: {complex64, complex128} = complex64; Tout: {float, double} = float";

const fn to_real(name: &'static str, kernel: KernelFn) -> Op {
    Op::new(name, "input: T -> output: Tout")
        .work(Work::Inputs)
        .attrs(TO_REAL)
        .shape(same_as_input)
        .kernel(kernel)
}

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Complex", "real: T, imag: T -> out: Tout")
        .work(Work::Broadcast)
        .attrs("T: {float, double} = float; Tout: {complex64, complex128} = complex64")
        .shape(broadcast)
        .kernel(complex)
        .gradient(complex_gradient),
    to_real("Real", parts::<RealPart>).gradient(real_gradient),
    to_real("Imag", parts::<ImaginaryPart>).gradient(imag_gradient),
    to_real("Angle", parts::<Angle>).gradient(angle_gradient),
    Op::new("ComplexAbs", "x: T -> y: Tout")
        .work(Work::Inputs)
        .attrs(TO_REAL)
        .shape(same_as_input)
        .kernel(parts::<Modulus>)
        .gradient(complex_abs_gradient),
    Op::new("Conj", "input: T -> output: T")
        .work(Work::Inputs)
        .attrs("T: {complex64, complex128, variant} = complex64")
        .shape(same_as_input)
        .kernel(conj)
        .gradient(conj_gradient),
];

/// `re + i * im`, where one of both may be zero.
fn join(d: &mut Differential<'_>, re: impl Into<Formula>, im: impl Into<Formula>) -> Result<Symbol> {
    let (like, re, im) = (d.input(0)?, re.into(), im.into());
    let mut part = |formula| match formula {
        Formula::Number(number) => {
            let dtype = if d.dtype(like)? == DType::Complex128 { DType::Double } else { DType::Float };
            let zero = d.constant(Tensor::scalar(number))?;
            d.cast(zero, dtype)
        }
        other => d.build(other),
    };
    let (re, im) = (part(re)?, part(im)?);
    let dtype = d.dtype(like)?;
    d.emit(NewNode::new("Complex").input(re).input(im).attr("Tout", dtype)).map(Symbol)
}

/// The real or the imaginary part.
fn part(d: &mut Differential<'_>, op: &str, value: Endpoint) -> Result<Symbol> {
    let dtype = if d.dtype(value)? == DType::Complex128 { DType::Double } else { DType::Float };
    d.emit(NewNode::new(op).input(value).attr("Tout", dtype)).map(Symbol)
}

fn complex_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let dz = d.dy(0)?;
    let (re, im) = (part(d, "Real", dz)?, part(d, "Imag", dz)?);
    d.flow_broadcast(re, im)
}

fn real_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let dy = d.arriving_at(0)?;
    let dx = join(d, dy, 0.0)?;
    d.flow([dx.into()])
}

fn imag_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let dy = d.arriving_at(0)?;
    let dx = join(d, 0.0, dy)?;
    d.flow([dx.into()])
}

/// `-dy / (im + i * re)`
fn angle_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (x, dy) = (d.input(0)?, d.arriving_at(0)?);
    let (re, im) = (part(d, "Real", x)?, part(d, "Imag", x)?);
    let (turned, dy) = (join(d, im, re)?, join(d, dy, 0.0)?);
    d.flow([-dy * apply("Reciprocal", turned)])
}

/// In the direction of the number; none at zero.
fn complex_abs_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (x, y, dy) = (d.x(0)?, d.y(0), d.arriving_at(0)?);
    let (dy, modulus) = (join(d, dy, 0.0)?, join(d, y, 0.0)?);
    d.flow([apply2("DivNoNan", dy * x, modulus)])
}

fn conj_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let dy = d.arriving_at(0)?;
    d.flow([conjugate(dy)])
}

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
    use crate::testing::test_op;

    #[test]
    fn numbers_are_put_together_and_taken_apart() {
        let joined =
            test_op("Complex").input(Tensor::vector(&[3.0f32, 0.0]).unwrap()).input(Tensor::scalar(4.0f32));
        let joined = joined.run_one().unwrap();
        let part = |op: &str| {
            test_op(op).input(joined.clone()).run_one().unwrap().as_slice::<f32>().unwrap().to_vec()
        };
        assert_eq!((part("Real"), part("Imag")), (vec![3.0, 0.0], vec![4.0, 4.0]));
        assert_eq!((part("ComplexAbs"), part("Angle")[1]), (vec![5.0, 4.0], std::f32::consts::FRAC_PI_2));
        let conjugate = test_op("Conj").input(joined).run_one().unwrap();
        assert_eq!(conjugate.as_slice::<Complex<f32>>().unwrap()[0], Complex { re: 3.0, im: -4.0 });
    }
}
