//! Activations and their gradients.
//!
//! Non-finite values follow TensorFlow: `Relu` lets NaN through, and a gradient is *multiplied* by the
//! derivative, so that an infinite one meets 0 as NaN.

use tensorfleet_core::{PartialShape, Result, bail, ensure};

use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{Differential, Grads, Symbol, apply, apply2, apply3, unary_gradients};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, same_as_input};
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::elementwise::{BinaryFn, UnaryFn, apply_binary, apply_unary, binary_fn, unary_fn};
use tensorfleet_numeric::number::{Floating, Real};
use tensorfleet_numeric::stored::Stored;

const SELU_SCALE: f64 = 1.0507009873554805;
const SELU_ALPHA: f64 = 1.6732632423543772;

/// Cost of an element in hundredths of a nanosecond: arithmetic alone, or an exponential.
const SIMPLE: usize = 30;
const ELABORATE: usize = 150;

const RELU_TYPES: &str =
    "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8}";

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Relu", "features: T -> activations: T")
        .work(Work::Inputs)
        .attrs(RELU_TYPES)
        .shape(same_as_input)
        .kernel(relu)
        .gradient(relu_gradient),
    gradient("ReluGrad", "gradients: T, features: T -> backprops: T", "T: real")
        .kernel(relu_grad)
        .gradient(relu_grad_gradient),
    Op::new("Relu6", "features: T -> activations: T")
        .work(Work::Inputs)
        .attrs("T: real")
        .shape(same_as_input)
        .kernel(relu6)
        .gradient(relu6_gradient),
    gradient("Relu6Grad", "gradients: T, features: T -> backprops: T", "T: real")
        .kernel(relu6_grad)
        .gradient(relu6_grad_gradient),
    activation("LeakyRelu", "alpha: float = 0.2; T: floating = float")
        .kernel(leaky_relu)
        .gradient(leaky_relu_gradient),
    gradient(
        "LeakyReluGrad",
        "gradients: T, features: T -> backprops: T",
        "alpha: float = 0.2; T: floating = float",
    )
    .kernel(leaky_relu_grad)
    .gradient(leaky_relu_grad_gradient),
    activation("Elu", "T: floating").kernel(smooth).gradient(elu_gradient),
    gradient("EluGrad", "gradients: T, outputs: T -> backprops: T", "T: floating")
        .kernel(smooth_grad)
        .gradient(elu_grad_gradient),
    activation("Selu", "T: floating").kernel(smooth).gradient(selu_gradient),
    gradient("SeluGrad", "gradients: T, outputs: T -> backprops: T", "T: floating")
        .kernel(smooth_grad)
        .gradient(selu_grad_gradient),
    activation("Softplus", "T: floating").kernel(smooth).gradient(softplus_gradient),
    gradient("SoftplusGrad", "gradients: T, features: T -> backprops: T", "T: floating")
        .kernel(smooth_grad)
        .gradient(softplus_grad_gradient),
    activation("Softsign", "T: floating").kernel(smooth).gradient(softsign_gradient),
    gradient("SoftsignGrad", "gradients: T, features: T -> backprops: T", "T: floating").kernel(smooth_grad),
];

unary_gradients! {
    relu_gradient: |x, y, dy| apply2("ReluGrad", dy, y);
    relu6_gradient: |x, y, dy| apply2("Relu6Grad", dy, y);
    elu_gradient: |x, y, dy| apply2("EluGrad", dy, y);
    selu_gradient: |x, y, dy| apply2("SeluGrad", dy, y);
    softplus_gradient: |x, y, dy| dy * apply("Sigmoid", x);
    softsign_gradient: |x, y, dy| apply2("SoftsignGrad", dy, x);
}

fn leaky_relu_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (x, dy) = (d.input(0)?, d.dy(0)?);
    let dx = d.emit(d.with_attrs("LeakyReluGrad", &[dy, x], &["alpha"]))?;
    d.flow([dx.into()])
}

fn relu_grad_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    piecewise_linear(d, "ReluGrad")
}

fn relu6_grad_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    piecewise_linear(d, "Relu6Grad")
}

fn leaky_relu_grad_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    piecewise_linear(d, "LeakyReluGrad")
}

/// The gradient of the gradient of a function without curvature.
fn piecewise_linear(d: &mut Differential<'_>, op: &str) -> Result<Grads> {
    let (x, dz) = (d.input(1)?, d.dy(0)?);
    let first = d.emit(d.with_attrs(op, &[dz, x], &["alpha"]))?;
    d.flow([first.into(), apply("ZerosLike", x)])
}

fn elu_grad_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    curved_below_zero(d, "EluGrad")
}

fn selu_grad_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    curved_below_zero(d, "SeluGrad")
}

fn curved_below_zero(d: &mut Differential<'_>, op: &'static str) -> Result<Grads> {
    let (dy, y, dz) = (d.x(0)?, d.x(1)?, d.arriving_at(0)?);
    let zero = Symbol(d.scalar_like(y.0, 0.0)?);
    d.flow([apply2(op, dz, y), apply3("SelectV2", apply2("Less", y, zero), dz * dy, zero)])
}

fn softplus_grad_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, x, dz) = (d.x(0)?, d.x(1)?, d.arriving_at(0)?);
    let curvature = apply("Exp", -x) + 2.0 + apply("Exp", x);
    d.flow([apply2("SoftplusGrad", dz, x), dz * dy / curvature])
}

const fn activation(name: &'static str, attrs: &'static str) -> Op {
    Op::new(name, "features: T -> activations: T").work(Work::Inputs).attrs(attrs).shape(same_as_input)
}

const fn gradient(name: &'static str, signature: &'static str, attrs: &'static str) -> Op {
    Op::new(name, signature).work(Work::Inputs).attrs(attrs).shape(same_shapes)
}

/// Shape rule: two inputs of one shape give one output of that shape.
fn same_shapes(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(vec![ctx.input(0).merge(ctx.input(1))?])
}

/// `max(x, 0)`, with NaN kept.
#[inline(always)]
fn rectified<T: Real>(x: T) -> T {
    let positive = if x > T::ZERO { x } else { T::ZERO };
    keep_nan(x, positive)
}

/// `result`, or `x` if that is NaN.
#[inline(always)]
#[allow(clippy::eq_op)] // Integers are never NaN; the comparison costs them nothing.
fn keep_nan<T: Real>(x: T, result: T) -> T {
    if x != x { x } else { result }
}

/// 1 if the condition holds, else 0.
#[inline(always)]
fn indicator<T: Real>(condition: bool) -> T {
    if condition { T::ONE } else { T::ZERO }
}

/// The kernel of an activation, in place if possible.
fn unary_kernel<S: Stored>(function: Box<UnaryFn<S::Compute, S::Compute>>, cost: usize) -> KernelBox {
    KernelBox::from_fn(move |ctx| {
        let output = apply_unary::<S>(ctx.loops(), ctx.take_input(0)?, &*function, cost)?;
        ctx.set_output(0, output);
        Ok(())
    })
}

/// The kernel of a gradient op from its rule `(gradient, feature or output) -> backprop`.
fn gradient_kernel<S: Stored>(
    node: &NodeSpec<'_>,
    rule: Box<BinaryFn<S::Compute, S::Compute>>,
    cost: usize,
) -> KernelBox {
    let (op, name) = (node.op().name, node.name().to_string());
    KernelBox::from_fn(move |ctx| {
        let (gradient, x) = (ctx.take_input(0)?, ctx.take_input(1)?);
        ensure!(
            gradient.shape() == x.shape(),
            InvalidArgument,
            "Inputs to operation {name} of type {op} must have the same size and shape.  Input 0: {} != input 1: {}",
            gradient.shape(),
            x.shape()
        );
        ctx.set_output(0, apply_binary::<S>(ctx.loops(), gradient, x, &*rule, cost)?);
        Ok(())
    })
}

fn relu(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in real => Ok(unary_kernel::<T>(unary_fn(rectified), SIMPLE)))
}

fn relu6(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in real => Ok(unary_kernel::<T>(clipped_at_six(), SIMPLE)))
}

fn clipped_at_six<T: Real>() -> Box<UnaryFn<T, T>> {
    let six = T::from_count(6);
    unary_fn(move |x| rectified(if x > six { six } else { x }))
}

fn relu_grad(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in real => Ok(gradient_kernel::<T>(node, where_positive(), SIMPLE)))
}

fn where_positive<T: Real>() -> Box<BinaryFn<T, T>> {
    binary_fn(|gradient: T, x| gradient.times(indicator(x > T::ZERO)))
}

fn relu6_grad(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in real => Ok(gradient_kernel::<T>(node, where_below_six(), SIMPLE)))
}

fn where_below_six<T: Real>() -> Box<BinaryFn<T, T>> {
    let six = T::from_count(6);
    binary_fn(move |gradient: T, x| gradient.times(indicator(x > T::ZERO && x < six)))
}

fn leaky_relu(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let activation = Activation::LeakyRelu { alpha: node.attr("alpha")? };
    activation_kernel(node, activation)
}

fn leaky_relu_grad(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let alpha: f32 = node.attr("alpha")?;
    dispatch!(node.dtype()?, T in floating => Ok(gradient_kernel::<T>(node, leaky(alpha), SIMPLE)))
}

fn leaky<T: Floating>(alpha: f32) -> Box<BinaryFn<T, T>> {
    let alpha = T::constant(alpha as f64);
    binary_fn(move |gradient, x| if x > T::ZERO { gradient } else { gradient * alpha })
}

fn smooth(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let activation = Activation::named(node.op().name, 0.0)?;
    activation_kernel(node, activation)
}

fn activation_kernel(node: &NodeSpec<'_>, activation: Activation) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in floating =>
        Ok(unary_kernel::<T>(activation.drive(OverSlices), activation.cost())))
}

fn smooth_grad(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let op = node.op().name;
    let cost = if op == "SoftplusGrad" { ELABORATE } else { SIMPLE };
    dispatch!(node.dtype()?, T in floating => Ok(gradient_kernel::<T>(node, smooth_rule(op)?, cost)))
}

/// The gradient of a smooth activation.
fn smooth_rule<T: Floating>(op: &str) -> Result<Box<BinaryFn<T, T>>> {
    Ok(match op {
        "EluGrad" => binary_fn(|gradient: T, y: T| {
            let below = (y + T::ONE) * gradient;
            if y < T::ZERO { below } else { gradient }
        }),
        "SeluGrad" => {
            let (scale, floor) = (T::constant(SELU_SCALE), T::constant(SELU_SCALE * SELU_ALPHA));
            binary_fn(move |gradient: T, y: T| {
                let below = gradient * (y + floor);
                if y < T::ZERO { below } else { gradient * scale }
            })
        }
        "SoftplusGrad" => binary_fn(|gradient: T, x: T| gradient / ((-x).exp() + T::ONE)),
        "SoftsignGrad" => binary_fn(|gradient: T, x: T| {
            let denominator = x.magnitude() + T::ONE;
            gradient / (denominator * denominator)
        }),
        op => bail!(Internal, "{op} is no gradient of a smooth activation"),
    })
}

/// An activation that can follow another computation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Activation {
    /// Nothing.
    Identity,
    Relu,
    Relu6,
    LeakyRelu {
        /// The slope below zero.
        alpha: f32,
    },
    Elu,
    Selu,
    Softplus,
    Softsign,
    Tanh,
    Sigmoid,
}

/// A loop that applies a function, compiled once for each activation.
pub(crate) trait Loop<T> {
    /// What the loop makes.
    type Output;
    /// Runs the loop with an activation's function.
    fn run(self, function: impl Fn(T) -> T + Copy + Send + Sync + 'static) -> Self::Output;
}

impl Activation {
    /// The activation that TensorFlow calls `name`.
    pub(crate) fn named(name: &str, alpha: f32) -> Result<Activation> {
        Ok(match name {
            "Relu" => Activation::Relu,
            "Relu6" => Activation::Relu6,
            "LeakyRelu" => Activation::LeakyRelu { alpha },
            "Elu" => Activation::Elu,
            "Selu" => Activation::Selu,
            "Softplus" => Activation::Softplus,
            "Softsign" => Activation::Softsign,
            "Tanh" => Activation::Tanh,
            "Sigmoid" => Activation::Sigmoid,
            _ => bail!(Unimplemented, "Fusion is not implemented: [BiasAdd,{name}]"),
        })
    }

    /// Runs `applying` with this activation's function.
    pub(crate) fn drive<T: Floating, L: Loop<T>>(self, applying: L) -> L::Output {
        match self {
            Activation::Identity => applying.run(|x| x),
            Activation::Relu => applying.run(rectified),
            Activation::Relu6 => {
                let six = T::constant(6.0);
                applying.run(move |x| rectified(if x > six { six } else { x }))
            }
            Activation::LeakyRelu { alpha } => {
                let alpha = T::constant(alpha as f64);
                applying.run(move |x| if x > T::ZERO { x } else { x * alpha })
            }
            Activation::Elu => applying.run(|x: T| {
                let below = x.exp() - T::ONE;
                if x < T::ZERO { below } else { x }
            }),
            Activation::Selu => {
                let (scale, floor) = (T::constant(SELU_SCALE), T::constant(SELU_SCALE * SELU_ALPHA));
                applying.run(move |x: T| {
                    let below = floor * (x.exp() - T::ONE);
                    if x < T::ZERO { below } else { scale * x }
                })
            }
            Activation::Softplus => {
                // Beyond the threshold, exp(x) or its reciprocal vanishes against one.
                let threshold = T::constant(T::EPSILON.to_f64().ln() + 2.0);
                applying.run(move |x: T| {
                    let power = x.exp();
                    let middle = power.ln_1_plus();
                    let below = if x < threshold { power } else { middle };
                    if x > -threshold { x } else { below }
                })
            }
            Activation::Softsign => applying.run(|x: T| x / (x.magnitude() + T::ONE)),
            Activation::Tanh => applying.run(T::tanh),
            Activation::Sigmoid => applying.run(|x: T| T::ONE / (T::ONE + (-x).exp())),
        }
    }

    /// Estimated cost of an element in hundredths of a nanosecond.
    pub(crate) fn cost(self) -> usize {
        match self {
            Activation::Identity | Activation::Relu | Activation::Relu6 | Activation::LeakyRelu { .. } => {
                SIMPLE
            }
            _ => ELABORATE,
        }
    }
}

/// The element-wise loop of an activation.
struct OverSlices;

impl<T: Floating> Loop<T> for OverSlices {
    type Output = Box<UnaryFn<T, T>>;
    fn run(self, function: impl Fn(T) -> T + Copy + Send + Sync + 'static) -> Box<UnaryFn<T, T>> {
        unary_fn(function)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::test_op;
    use tensorfleet_core::{Code, DType, Tensor};

    const NAN: f32 = f32::NAN;
    const INF: f32 = f32::INFINITY;

    fn assert_close(op: &str, found: &Tensor, expected: &[f32]) {
        let found = found.as_slice::<f32>().unwrap();
        assert_eq!(found.len(), expected.len());
        for (&x, &y) in found.iter().zip(expected) {
            let near = (x - y).abs() <= 1e-6 + 1e-6 * y.abs();
            assert!(x == y || near || (x.is_nan() && y.is_nan()), "{op}: {found:?} instead of {expected:?}");
        }
    }

    #[test]
    fn activations_of_ordinary_and_extreme_values_are_tensorflows() {
        let x = [NAN, -INF, INF, -1.0, 0.0, 2.0, 7.0];
        for (op, expected) in [
            ("Relu", [NAN, 0.0, INF, 0.0, 0.0, 2.0, 7.0]),
            ("Relu6", [NAN, 0.0, 6.0, 0.0, 0.0, 2.0, 6.0]),
            ("Elu", [NAN, -1.0, INF, -0.632_120_55, 0.0, 2.0, 7.0]),
            ("Selu", [NAN, -1.758_099_3, INF, -1.111_330_7, 0.0, 2.101_402, 7.354_907]),
            ("LeakyRelu", [NAN, -INF, INF, -0.2, 0.0, 2.0, 7.0]),
            ("Softplus", [NAN, 0.0, INF, 0.313_261_7, std::f32::consts::LN_2, 2.126_928, 7.000_911_7]),
            ("Softsign", [NAN, NAN, NAN, -0.5, 0.0, 0.666_666_7, 0.875]),
        ] {
            let run = test_op(op).attr("T", DType::Float).input(Tensor::vector(&x).unwrap());
            assert_close(op, &run.run_one().unwrap(), &expected);
        }
    }

    #[test]
    fn gradients_are_multiplied_by_the_derivative() {
        let x = [NAN, -INF, INF, -1.0, 0.0, 2.0, 7.0];
        for (op, gradient, expected) in [
            ("ReluGrad", 3.0, [0.0, 0.0, 3.0, 0.0, 0.0, 3.0, 3.0]),
            ("ReluGrad", INF, [NAN, NAN, INF, NAN, NAN, INF, INF]),
            ("Relu6Grad", 3.0, [0.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0]),
            ("EluGrad", 3.0, [3.0, -INF, 3.0, 0.0, 3.0, 3.0, 3.0]),
            ("SeluGrad", 3.0, [3.152_103, -INF, 3.152_103, 2.274_298, 3.152_103, 3.152_103, 3.152_103]),
            ("LeakyReluGrad", 3.0, [0.6, 0.6, 3.0, 0.6, 0.6, 3.0, 3.0]),
            ("SoftplusGrad", 3.0, [NAN, 0.0, 3.0, 0.806_824_27, 1.5, 2.642_391_2, 2.997_267]),
            ("SoftsignGrad", 3.0, [NAN, 0.0, 0.0, 0.75, 3.0, 0.333_333_34, 0.046_875]),
        ] {
            let run = test_op(op).attr("T", DType::Float);
            let run = run.input(Tensor::vector(&[gradient; 7]).unwrap()).input(Tensor::vector(&x).unwrap());
            assert_close(op, &run.run_one().unwrap(), &expected);
        }
    }

    #[test]
    fn integers_and_halves_have_relus() {
        let run =
            test_op("Relu").attr("T", DType::Int32).input(Tensor::vector(&[-3i32, 4, i32::MIN]).unwrap());
        assert_eq!(run.run_one().unwrap().as_slice::<i32>().unwrap(), [0, 4, 0]);
        let run = test_op("Relu6").attr("T", DType::UInt8).input(Tensor::vector(&[3u8, 40]).unwrap());
        assert_eq!(run.run_one().unwrap().as_slice::<u8>().unwrap(), [3, 6]);
        let halves = [-1.0, 2.5].map(half::f16::from_f32);
        let run = test_op("Relu").attr("T", DType::Half).input(Tensor::vector(&halves).unwrap());
        assert_eq!(run.run_one().unwrap().as_slice::<half::f16>().unwrap()[1].to_f32(), 2.5);
    }

    #[test]
    fn a_gradient_of_another_shape_is_refused() {
        let run = test_op("ReluGrad").attr("T", DType::Float);
        let run =
            run.input(Tensor::vector(&[1.0f32; 2]).unwrap()).input(Tensor::vector(&[1.0f32; 3]).unwrap());
        let status = run.run_one().unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.text().contains("must have the same size and shape.  Input 0: [2] != input 1: [3]"));
    }
}
