//! Linear algebra and neural-network ops: matrix products, biases, activations, softmax, convolutions.

mod activations;
mod batch_norm;
mod batch_norm_gradients;
mod bias;
mod conv;
#[cfg(test)]
mod conv_tests;
mod convolve;
mod depthwise;
mod einsum;
mod einsum_gradient;
mod linalg;
mod linalg_gradients;
mod lrn;
mod matmul;
mod pool;
mod pool_argmax;
mod pool_by_input;
mod pool_depth;
mod pool_twice;
mod resize;
mod softmax;
mod window;

use tensorfleet_kernel::op::Op;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[
    matmul::OPS,
    bias::OPS,
    activations::OPS,
    softmax::OPS,
    lrn::OPS,
    conv::OPS,
    depthwise::OPS,
    pool::OPS,
    pool_twice::OPS,
    pool_by_input::OPS,
    pool_argmax::OPS,
    batch_norm::OPS,
    resize::OPS,
    linalg::OPS,
    einsum::OPS,
];
