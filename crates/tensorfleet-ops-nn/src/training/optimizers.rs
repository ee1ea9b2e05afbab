//! The optimizers: one table of ops, and one rule for each, shared by its dense, sparse, reference and resource
//! forms.
//!
//! Rules are written in the order of operations that TensorFlow uses, so that low-precision types round alike.

use num_traits::{Float, One};
use tensorfleet_core::Result;

use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::number::Field;

use super::update::{update_kernel, update_shape};

/// Writes the table: each line is an optimizer's name, the variable and its slots, the remaining inputs of the
/// dense form, then optionally those of the sparse form, its own attributes, and its kernel.
macro_rules! optimizers {
    (@slots $kind:literal, $($slot:literal)+) => { concat!($($slot, ": ", $kind, ", "),+) };
    (@ref $name:expr, [$($slot:literal)+], $inputs:literal, $attrs:expr, $kernel:ident) => {
        Op::new($name, concat!(optimizers!(@slots "Ref(T)", $($slot)+), $inputs, " -> out: Ref(T)"))
            .attrs($attrs).work(Work::Inputs).writes_variable().shape(update_shape).kernel($kernel)
    };
    (@resource $name:expr, [$($slot:literal)+], $inputs:literal, $attrs:expr, $kernel:ident) => {
        Op::new($name, concat!(optimizers!(@slots "resource", $($slot)+), $inputs))
            .attrs($attrs).work(Work::Inputs).stateful().writes_variable().shape(update_shape).kernel($kernel)
    };
    (
        $(dense $dense:literal $dense_slots:tt $dense_inputs:literal $dense_attrs:literal $dense_kernel:ident;)*
        $(sparse $sparse:literal $sparse_slots:tt $sparse_inputs:literal $sparse_attrs:literal $sparse_kernel:ident;)*
        $(only_resource $only_resource:literal $only_resource_slots:tt $only_resource_inputs:literal $only_resource_attrs:literal $only_resource_kernel:ident $($only_resource_fact:ident)?;)*
    ) => {
        pub(crate) static OPS: &[Op] = &[
            $(optimizers!(@ref concat!("Apply", $dense), $dense_slots, $dense_inputs,
                concat!("T: number; use_locking: bool = false; ", $dense_attrs), $dense_kernel),
            optimizers!(@resource concat!("ResourceApply", $dense), $dense_slots, $dense_inputs,
                concat!("T: number; use_locking: bool = false; ", $dense_attrs), $dense_kernel),)*
            $(optimizers!(@ref concat!("SparseApply", $sparse), $sparse_slots, $sparse_inputs,
                concat!("T: number; Tindices: {int32, int64}; use_locking: bool = false; ", $sparse_attrs), $sparse_kernel)
                .touches_rows(),
            optimizers!(@resource concat!("ResourceSparseApply", $sparse), $sparse_slots, $sparse_inputs,
                concat!("T: number; Tindices: {int32, int64}; use_locking: bool = false; ", $sparse_attrs), $sparse_kernel)
                .touches_rows(),)*
            $(optimizers!(@resource concat!("Resource", $only_resource), $only_resource_slots, $only_resource_inputs,
                concat!("T: number; use_locking: bool = false; ", $only_resource_attrs), $only_resource_kernel)
                $(.$only_resource_fact())?,)*
        ];
    };
}

optimizers! {
    dense "GradientDescent" ["var"] "alpha: T, delta: T" "" gradient_descent;
    dense "ProximalGradientDescent" ["var"] "alpha: T, l1: T, l2: T, delta: T" "" proximal_gradient_descent;
    dense "Momentum" ["var" "accum"] "lr: T, grad: T, momentum: T" "use_nesterov: bool = false" momentum;
    dense "Adagrad" ["var" "accum"] "lr: T, grad: T" "update_slots: bool = true" adagrad;
    dense "AdagradV2" ["var" "accum"] "lr: T, epsilon: T, grad: T" "update_slots: bool = true" adagrad_v2;
    dense "AdagradDA" ["var" "gradient_accumulator" "gradient_squared_accumulator"]
        "grad: T, lr: T, l1: T, l2: T, global_step: int64" "" adagrad_da;
    dense "ProximalAdagrad" ["var" "accum"] "lr: T, l1: T, l2: T, grad: T" "" proximal_adagrad;
    dense "Adadelta" ["var" "accum" "accum_update"] "lr: T, rho: T, epsilon: T, grad: T" "" adadelta;
    dense "RMSProp" ["var" "ms" "mom"] "lr: T, rho: T, momentum: T, epsilon: T, grad: T" "" rms_prop;
    dense "CenteredRMSProp" ["var" "mg" "ms" "mom"] "lr: T, rho: T, momentum: T, epsilon: T, grad: T" "" centered_rms_prop;
    dense "Ftrl" ["var" "accum" "linear"] "grad: T, lr: T, l1: T, l2: T, lr_power: T"
        "multiply_linear_by_lr: bool = false" ftrl;
    dense "FtrlV2" ["var" "accum" "linear"] "grad: T, lr: T, l1: T, l2: T, l2_shrinkage: T, lr_power: T"
        "multiply_linear_by_lr: bool = false" ftrl_v2;
    dense "Adam" ["var" "m" "v"] "beta1_power: T, beta2_power: T, lr: T, beta1: T, beta2: T, epsilon: T, grad: T"
        "use_nesterov: bool = false" adam;
    dense "AdaMax" ["var" "m" "v"] "beta1_power: T, lr: T, beta1: T, beta2: T, epsilon: T, grad: T" "" ada_max;
    dense "AddSign" ["var" "m"] "lr: T, alpha: T, sign_decay: T, beta: T, grad: T" "" add_sign;
    dense "PowerSign" ["var" "m"] "lr: T, logbase: T, sign_decay: T, beta: T, grad: T" "" power_sign;

    sparse "ProximalGradientDescent" ["var"] "alpha: T, l1: T, l2: T, grad: T, indices: Tindices" "" proximal_gradient_descent;
    sparse "Momentum" ["var" "accum"] "lr: T, grad: T, indices: Tindices, momentum: T" "use_nesterov: bool = false" momentum;
    sparse "Adagrad" ["var" "accum"] "lr: T, grad: T, indices: Tindices" "update_slots: bool = true" adagrad;
    sparse "AdagradV2" ["var" "accum"] "lr: T, epsilon: T, grad: T, indices: Tindices" "update_slots: bool = true" adagrad_v2;
    sparse "AdagradDA" ["var" "gradient_accumulator" "gradient_squared_accumulator"]
        "grad: T, indices: Tindices, lr: T, l1: T, l2: T, global_step: int64" "" adagrad_da;
    sparse "ProximalAdagrad" ["var" "accum"] "lr: T, l1: T, l2: T, grad: T, indices: Tindices" "" proximal_adagrad;
    sparse "Adadelta" ["var" "accum" "accum_update"] "lr: T, rho: T, epsilon: T, grad: T, indices: Tindices" "" adadelta;
    sparse "RMSProp" ["var" "ms" "mom"] "lr: T, rho: T, momentum: T, epsilon: T, grad: T, indices: Tindices" "" rms_prop;
    sparse "CenteredRMSProp" ["var" "mg" "ms" "mom"]
        "lr: T, rho: T, momentum: T, epsilon: T, grad: T, indices: Tindices" "" centered_rms_prop;
    sparse "Ftrl" ["var" "accum" "linear"] "grad: T, indices: Tindices, lr: T, l1: T, l2: T, lr_power: T"
        "multiply_linear_by_lr: bool = false" ftrl;
    sparse "FtrlV2" ["var" "accum" "linear"]
        "grad: T, indices: Tindices, lr: T, l1: T, l2: T, l2_shrinkage: T, lr_power: T"
        "multiply_linear_by_lr: bool = false" ftrl_v2;

    only_resource "ApplyKerasMomentum" ["var" "accum"] "lr: T, grad: T, momentum: T" "use_nesterov: bool = false" keras_momentum;
    only_resource "SparseApplyKerasMomentum" ["var" "accum"] "lr: T, grad: T, indices: Tindices, momentum: T"
        "Tindices: {int32, int64}; use_nesterov: bool = false" keras_momentum touches_rows;
    only_resource "ApplyAdamWithAmsgrad" ["var" "m" "v" "vhat"]
        "beta1_power: T, beta2_power: T, lr: T, beta1: T, beta2: T, epsilon: T, grad: T" "" adam_with_amsgrad;
}

/// Runs a generic rule for real and complex dtypes.
macro_rules! for_fields {
    ($node:expr, $T:ident => $body:expr) => {
        dispatch!($node.dtype()?, $T in [f32, f64, half::f16, half::bf16, num_complex::Complex<f32>, num_complex::Complex<f64>] => $body)
    };
}

fn gradient_descent(node: &NodeSpec<'_>) -> Result<KernelBox> {
    for_fields!(node, T => update_kernel(node, |[alpha]: [T; 1]| move |[var], delta: T| [var - delta * alpha]))
}

fn momentum(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let nesterov: bool = node.attr("use_nesterov")?;
    for_fields!(node, T => if nesterov {
        update_kernel(node, |[lr, momentum]: [T; 2]| move |[var, accum], grad| {
            let accum = accum * momentum + grad;
            [var - (grad * lr + accum * momentum * lr), accum]
        })
    } else {
        update_kernel(node, |[lr, momentum]: [T; 2]| move |[var, accum], grad| {
            let accum = accum * momentum + grad;
            [var - accum * lr, accum]
        })
    })
}

fn keras_momentum(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let nesterov: bool = node.attr("use_nesterov")?;
    for_fields!(node, T => update_kernel(node, move |[lr, momentum]: [T; 2]| move |[var, accum], grad| {
        let accum = accum * momentum - grad * lr;
        [var + if nesterov { accum * momentum - grad * lr } else { accum }, accum]
    }))
}

fn adagrad(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let update_slots: bool = node.attr("update_slots")?;
    for_fields!(node, T => update_kernel(node, move |[lr]: [T; 1]| move |[var, accum], grad| {
        let accum = if update_slots { accum + grad.squared() } else { accum };
        [var - grad * lr / accum.root(), accum]
    }))
}

fn adagrad_v2(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let update_slots: bool = node.attr("update_slots")?;
    for_fields!(node, T => update_kernel(node, move |[lr, epsilon]: [T; 2]| move |[var, accum], grad| {
        let accum = if update_slots { accum + grad.squared() } else { accum };
        [var - grad * lr / (accum.root() + epsilon), accum]
    }))
}

fn adadelta(node: &NodeSpec<'_>) -> Result<KernelBox> {
    for_fields!(node, T => update_kernel(node, |[lr, rho, epsilon]: [T; 3]| {
        let fresh = T::one() - rho;
        move |[var, accum, accum_update]: [T; 3], grad| {
            let accum = accum * rho + grad.squared() * fresh;
            let update = (accum_update + epsilon).root() / (accum + epsilon).root() * grad;
            [var - update * lr, accum, accum_update * rho + update.squared() * fresh]
        }
    }))
}

fn rms_prop(node: &NodeSpec<'_>) -> Result<KernelBox> {
    for_fields!(node, T => update_kernel(node, |[lr, rho, momentum, epsilon]: [T; 4]| {
        let fresh = T::one() - rho;
        move |[var, ms, mom], grad| {
            let ms = ms + (grad.squared() - ms) * fresh;
            let mom = mom * momentum + (grad * lr) / (ms + epsilon).root();
            [var - mom, ms, mom]
        }
    }))
}

fn centered_rms_prop(node: &NodeSpec<'_>) -> Result<KernelBox> {
    for_fields!(node, T => update_kernel(node, |[lr, rho, momentum, epsilon]: [T; 4]| {
        let fresh = T::one() - rho;
        move |[var, mg, ms, mom], grad| {
            let ms = ms + (grad.squared() - ms) * fresh;
            let mg = mg + (grad - mg) * fresh;
            let mom = mom * momentum + (grad * lr) / ((ms - mg.squared()) + epsilon).root();
            [var - mom, mg, ms, mom]
        }
    }))
}

fn adam(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let nesterov: bool = node.attr("use_nesterov")?;
    for_fields!(node, T => if nesterov {
        update_kernel(node, |[beta1_power, beta2_power, lr, beta1, beta2, epsilon]: [T; 6]| {
            let rate = lr * (T::one() - beta2_power).root() / (T::one() - beta1_power);
            let (fresh1, fresh2) = (T::one() - beta1, T::one() - beta2);
            move |[var, m, v]: [T; 3], grad| {
                let m = m + (grad - m) * fresh1;
                let v = v + (grad.squared() - v) * fresh2;
                [var - ((grad * fresh1 + m * beta1) * rate) / (v.root() + epsilon), m, v]
            }
        })
    } else {
        update_kernel(node, |[beta1_power, beta2_power, lr, beta1, beta2, epsilon]: [T; 6]| {
            let rate = lr * (T::one() - beta2_power).root() / (T::one() - beta1_power);
            let (fresh1, fresh2) = (T::one() - beta1, T::one() - beta2);
            move |[var, m, v]: [T; 3], grad| {
                let m = m + (grad - m) * fresh1;
                let v = v + (grad.squared() - v) * fresh2;
                [var - (m * rate) / (v.root() + epsilon), m, v]
            }
        })
    })
}

fn adam_with_amsgrad(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in floating =>
    update_kernel(node, |[beta1_power, beta2_power, lr, beta1, beta2, epsilon]: [T; 6]| {
        let rate = lr * (T::one() - beta2_power).root() / (T::one() - beta1_power);
        let (fresh1, fresh2) = (T::one() - beta1, T::one() - beta2);
        move |[var, m, v, vhat]: [T; 4], grad| {
            let m = m + (grad - m) * fresh1;
            let v = v + (grad.squared() - v) * fresh2;
            let vhat = Float::max(vhat, v);
            [var - (m * rate) / (vhat.root() + epsilon), m, v, vhat]
        }
    }))
}

fn ada_max(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in floating =>
    update_kernel(node, |[beta1_power, lr, beta1, beta2, epsilon]: [T; 5]| {
        let (rate, fresh1) = (lr / (T::one() - beta1_power), T::one() - beta1);
        move |[var, m, v]: [T; 3], grad| {
            let m = m + (grad - m) * fresh1;
            let v = Float::max(beta2 * v, Float::abs(grad));
            [var - rate * (m / (v + epsilon)), m, v]
        }
    }))
}

fn add_sign(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in floating =>
    update_kernel(node, |[lr, alpha, sign_decay, beta]: [T; 4]| {
        let fresh = T::one() - beta;
        move |[var, m]: [T; 2], grad: T| {
            let m = m * beta + grad * fresh;
            let agreement = sign(grad) * sign(m);
            [var - (agreement * sign_decay + alpha) * grad * lr, m]
        }
    }))
}

fn power_sign(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in floating =>
    update_kernel(node, |[lr, logbase, sign_decay, beta]: [T; 4]| {
        let fresh = T::one() - beta;
        move |[var, m]: [T; 2], grad: T| {
            let m = m * beta + grad * fresh;
            let agreement = sign(grad) * sign(m);
            [var - Float::exp(agreement * (logbase * sign_decay)) * grad * lr, m]
        }
    }))
}

fn adagrad_da(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in [f32, f64] =>
    update_kernel(node, |[lr, l1, l2, global_step]: [T; 4]| {
        let (threshold, weight) = (l1 * global_step, l2 * global_step * lr);
        move |[_, sum, squares]: [T; 3], grad: T| {
            let (sum, squares) = (sum + grad, squares + grad.squared());
            [-lr * shrunk(sum, threshold) / (weight + squares.root()), sum, squares]
        }
    }))
}

fn proximal_adagrad(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in [f32, f64] =>
    update_kernel(node, |[lr, l1, l2]: [T; 3]| move |[var, accum]: [T; 2], grad: T| {
        let accum = accum + grad.squared();
        let rate = lr / accum.root();
        [shrunk(var - grad * rate, rate * l1) / (T::one() + l2 * rate), accum]
    }))
}

fn proximal_gradient_descent(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in [f32, f64] =>
    update_kernel(node, |[alpha, l1, l2]: [T; 3]| move |[var]: [T; 1], delta: T| {
        [shrunk(var - delta * alpha, alpha * l1) / (T::one() + l2 * alpha)]
    }))
}

/// -1, 0 or 1; NaN stays NaN. (`Float::signum` has no zero.)
#[inline(always)]
fn sign<T: Field + PartialOrd>(x: T) -> T {
    if x > T::ZERO {
        T::ONE
    } else if x < T::ZERO {
        -T::ONE
    } else {
        x
    }
}

/// `x` moved towards zero by `threshold`, at most to zero; as it is if the threshold is not positive.
#[inline(always)]
fn shrunk<T: Field + Float>(x: T, threshold: T) -> T {
    if threshold > T::zero() { sign(x) * Float::max(Float::abs(x) - threshold, T::zero()) } else { x }
}

fn ftrl(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let scaled: bool = node.attr("multiply_linear_by_lr")?;
    dispatch!(node.dtype()?, T in floating =>
    update_kernel(node, move |[lr, l1, l2, lr_power]: [T; 4]| {
        let rule = Ftrl::new(scaled, lr, l1, l2, lr_power);
        move |[var, accum, linear]: [T; 3], grad: T| rule.step(var, accum, linear, grad, grad)
    }))
}

fn ftrl_v2(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let scaled: bool = node.attr("multiply_linear_by_lr")?;
    dispatch!(node.dtype()?, T in floating =>
    update_kernel(node, move |[lr, l1, l2, l2_shrinkage, lr_power]: [T; 5]| {
        let rule = Ftrl::new(scaled, lr, l1, l2, lr_power);
        let shrinkage = l2_shrinkage + l2_shrinkage;
        move |[var, accum, linear]: [T; 3], grad: T| {
            rule.step(var, accum, linear, grad, grad + shrinkage * var)
        }
    }))
}

/// "Follow the regularised leader". With `multiply_linear_by_lr` the linear slot carries a factor `lr`.
#[derive(Clone, Copy)]
struct Ftrl<T> {
    /// Factor of the gradient in the linear slot: 1, or the learning rate.
    gain: T,
    /// Divisor of the accumulator's powers: the learning rate, or 1.
    lr: T,
    l1: T,
    l2: T,
    power: T,
    is_root: bool,
}

impl<T: Field + Float> Ftrl<T> {
    fn new(scaled: bool, lr: T, l1: T, l2: T, lr_power: T) -> Ftrl<T> {
        let two = T::one() + T::one();
        let is_root = -lr_power * two == T::one();
        if scaled {
            Ftrl { gain: lr, lr: T::one(), l1: l1 * lr, l2: l2 * lr * two, power: -lr_power, is_root }
        } else {
            Ftrl { gain: T::one(), lr, l1, l2: l2 * two, power: -lr_power, is_root }
        }
    }

    #[inline(always)]
    fn step(self, var: T, accum: T, linear: T, grad: T, pull: T) -> [T; 3] {
        let raised = |x: T| if self.is_root { x.root() } else { Float::powf(x, self.power) };
        let new_accum = accum + grad.squared();
        let (old_power, new_power) = (raised(accum), raised(new_accum));
        let linear = linear + (pull * self.gain - (new_power - old_power) / self.lr * var);
        let var = if Float::abs(linear) > self.l1 {
            (self.l1 * sign(linear) - linear) / (new_power / self.lr + self.l2)
        } else {
            T::zero()
        };
        [var, new_accum, linear]
    }
}
