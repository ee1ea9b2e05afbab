//! Training: optimizers, replication, checkpoints, supervision.
//!
//! Everything here only builds graph nodes and asks a [`Session`](crate::Session) for runs, so it works on a session of
//! this process, on a cluster, and on servers of TensorFlow alike.

mod global_step;
mod optimizer;

pub use optimizer::{
    Adadelta, Adagrad, Adam, Ftrl, GradientDescent, GradientsAndVariables, Hyperparameter, MinimizeOptions,
    Momentum, Optimizer, OptimizerState, RmsProp, Slots, UpdateRule,
};
