//! Training: optimizers, replication, checkpoints, supervision.
//!
//! Everything here only builds graph nodes and asks a [`Session`](crate::Session) for runs, so it works on a session of
//! this process, on a cluster, and on servers of TensorFlow alike.

mod clip;
mod coordinator;
mod global_step;
mod learning_rate;
mod moving_average;
mod notice;
mod optimizer;
mod queue_runner;
mod session_hook;
mod towers;

pub use coordinator::{Coordinator, STOP_GRACE_PERIOD};
pub use learning_rate::{Decay, PolynomialDecay};
pub use moving_average::ExponentialMovingAverage;
pub use optimizer::{
    Adadelta, Adagrad, Adam, Ftrl, GradientDescent, GradientsAndVariables, Hyperparameter, MinimizeOptions,
    Momentum, Optimizer, OptimizerState, RmsProp, Slots, UpdateRule,
};
pub use queue_runner::{QueueRunner, QueueRunnerBuilder};
pub use session_hook::{RunArgs, RunContext, RunValues, SessionHook};
pub use towers::{average_gradients, towers};

pub(crate) use queue_runner::Parts as QueueRunnerParts;
