//! Training: optimizers, replication, checkpoints, supervision.
//!
//! Everything here only builds graph nodes and asks a [`Session`](crate::Session) for runs, so it works on a session of
//! this process, on a cluster, and on servers of TensorFlow alike.
//!
//! ```
//! use tensorfleet::prelude::*;
//!
//! let g = Graph::new();
//! let w = g.variable("w", 0.0f32);
//! let loss = (w.value() - 3.0).square()?;
//! let global_step = g.get_or_create_global_step()?;
//! let train = Adam::new(0.1).minimize_with(&loss, &MinimizeOptions::counting(&global_step))?;
//!
//! let mut session = MonitoredTrainingSession::new(&g).hook(StopAtStepHook::last_step(200)).create()?;
//! let mut last = f32::INFINITY;
//! while !session.should_stop() {
//!     last = session.run((&train, &loss))?.1.to_scalar()?;
//! }
//! assert!(last < 0.1);
//! session.close()?;
//! # Ok::<(), Status>(())
//! ```
//!
//! What there is, by task:
//!
//! - **Changing variables**: the trait [`Optimizer`] with [`GradientDescent`], [`Momentum`], [`Adagrad`], [`Adadelta`],
//!   [`RmsProp`], [`Adam`], [`Ftrl`], [`AdagradDa`], [`ProximalGradientDescent`] and [`ProximalAdagrad`]; [`MinimizeOptions`];
//!   [`UpdateRule`] for one of your own. Rates that change:
//!   [`Graph::exponential_decay`](crate::Graph::exponential_decay) and its siblings. [`ExponentialMovingAverage`] of variables.
//! - **Replication**: [`SyncReplicasOptimizer`] for workers in step, [`towers`] and [`average_gradients`] for several devices in
//!   one graph. Workers at their own pace need nothing but
//!   [`replica_device_setter`](crate::replica_device_setter()).
//! - **Supervision**: [`MonitoredTrainingSession`] with hooks, or the older [`Supervisor`] with threads. Both restore the newest
//!   checkpoint, wait for the chief and survive the loss of tasks. [`Scaffold`], [`SessionCreator`] and [`SessionManager`]
//!   are what they are made of.
//! - **Hooks**: [`StopAtStepHook`], [`LoggingTensorHook`], [`CheckpointSaverHook`], [`SummarySaverHook`], [`StepCounterHook`],
//!   [`NanTensorHook`], [`FeedFnHook`], [`FinalOpsHook`], [`GlobalStepWaiterHook`]; [`SessionHook`] for one of your own.
//! - **Checkpoints**: [`Saver`], [`latest_checkpoint`], [`restore_point`], [`get_checkpoint_state`];
//!   [`CheckpointReader`](crate::checkpoint::CheckpointReader) looks into one.
//! - **Threads**: [`Coordinator`] ends several together, [`QueueRunner`] keeps a queue filled.

mod backoff;
mod checkpoint_state;
mod clip;
mod global_step;
mod graph_pbtxt;
mod hooks;
mod import_meta_graph;
mod learning_rate;
mod living_model;
mod meta_graph;
mod monitored_session;
mod monitored_training;
mod moving_average;
mod optimizer;
mod replica_device_setter;
mod saver;
mod scaffold;
mod session_creator;
mod session_hook;
mod session_manager;
mod supervisor;
mod sync_replicas;
mod towers;

pub use crate::coordinator::Coordinator;
pub use crate::input::{QueueRunner, QueueRunnerBuilder, RunnerThread};
pub use checkpoint_state::{
    CheckpointState, RestorePoint, checkpoint_exists, get_checkpoint_state, get_checkpoint_state_of,
    latest_checkpoint, latest_checkpoint_of, restore_point, update_checkpoint_state, write_checkpoint_state,
};
pub use graph_pbtxt::write_graph;
pub use hooks::{
    CheckpointSaverHook, CheckpointSaverListener, Every, FeedFnHook, FinalOpsHook, GlobalStepWaiterHook,
    LoggingTensorHook, NanTensorHook, StepCounterHook, StopAtStepHook, SummarySaverHook,
};
pub use import_meta_graph::{MetaGraph, import_meta_graph};
pub use learning_rate::{Decay, PolynomialDecay};
pub use meta_graph::MetaGraphSource;
pub use monitored_session::{MonitoredSession, MonitoredStep, StepContext};
pub use monitored_training::MonitoredTrainingSession;
pub use moving_average::ExponentialMovingAverage;
pub use optimizer::{
    Adadelta, Adagrad, AdagradDa, Adam, Ftrl, GradientDescent, GradientsAndVariables, Hyperparameter,
    MinimizeOptions, Momentum, Optimizer, OptimizerState, ProximalAdagrad, ProximalGradientDescent, RmsProp,
    Slots, UpdateRule,
};
pub use replica_device_setter::{PsStrategy, ReplicaDeviceSetter, replica_device_setter};
pub use saver::{SaveOptions, SavedVariable, Saver, SaverBuilder, remove_checkpoint};
pub use scaffold::Scaffold;
pub use session_creator::{ChiefSessionCreator, SessionCreator, WorkerSessionCreator};
pub use session_hook::{RunArgs, RunContext, RunValues, SessionHook};
pub use session_manager::{InitFn, Initialization, SessionManager};
pub use supervisor::{OpenOptions, Supervisor, SupervisorBuilder};
pub use sync_replicas::{SyncReplicasHook, SyncReplicasOptimizer};
pub use towers::{average_gradients, towers};
