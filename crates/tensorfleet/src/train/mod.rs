//! Training: optimizers, replication, checkpoints, supervision.
//!
//! Everything here only builds graph nodes and asks a [`Session`](crate::Session) for runs, so it works on a session of
//! this process, on a cluster, and on servers of TensorFlow alike.

mod coordinator;
mod global_step;
mod notice;
mod optimizer;
mod queue_runner;
mod session_hook;

pub use coordinator::{Coordinator, STOP_GRACE_PERIOD};
pub use optimizer::{
    Adadelta, Adagrad, Adam, Ftrl, GradientDescent, GradientsAndVariables, Hyperparameter, MinimizeOptions,
    Momentum, Optimizer, OptimizerState, RmsProp, Slots, UpdateRule,
};
pub use queue_runner::{QueueRunner, QueueRunnerBuilder};
pub use session_hook::{RunArgs, RunContext, RunValues, SessionHook};

pub(crate) use queue_runner::Parts as QueueRunnerParts;
