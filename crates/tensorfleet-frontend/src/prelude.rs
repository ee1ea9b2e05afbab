//! What most programs use, for one `use` at the top of them: `use tensorfleet::prelude::*;`.
//!
//! It holds the types that a program names or constructs, and the traits whose methods it calls. Builders that are only
//! passed through ([`QueueBuilder`](crate::QueueBuilder), …) and things that few programs need stay where they are: in the
//! [crate], in [`train`](crate::train), [`summary`](crate::summary) and [`checkpoint`](crate::checkpoint).
//!
//! ```
//! use tensorfleet::prelude::*;
//!
//! fn main() -> Result<()> {
//!     let g = Graph::new();
//!     let x = g.variable("x", 5.0f32);
//!     let loss = x.value().square()?;
//!     let global_step = g.get_or_create_global_step()?;
//!     let train = GradientDescent::new(0.25).minimize_with(&loss, &MinimizeOptions::counting(&global_step))?;
//!
//!     let session = MonitoredTrainingSession::new(&g).hook(StopAtStepHook::last_step(3)).create()?;
//!     session.train(|session| session.run(&train).map(drop))
//! }
//! ```
//!
//! [`Result`] is the standard library's with [`Status`] as the error unless another one is named, so it may stand for both.

pub use crate::train::{
    Adadelta, Adagrad, Adam, CheckpointSaverHook, Coordinator, Every, Ftrl, GradientDescent,
    LoggingTensorHook, MinimizeOptions, Momentum, MonitoredSession, MonitoredTrainingSession, Optimizer,
    RmsProp, Saver, SessionHook, StopAtStepHook, Supervisor, SyncReplicasOptimizer, average_gradients,
    towers,
};
pub use crate::{
    ClusterSpec, Code, DType, Fetch, Graph, Initializer, IntoTensor, Operand, Operation, Output,
    PartialShape, Result, Server, ServerOptions, Session, SessionOptions, Shape, Status, TaskId, Tensor,
    Variable, replica_device_setter,
};
