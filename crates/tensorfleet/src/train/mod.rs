//! Training: optimizers, replication, checkpoints, supervision.
//!
//! Everything here only builds graph nodes and asks a [`Session`](crate::Session) for runs, so it works on a session of
//! this process, on a cluster, and on servers of TensorFlow alike.

mod checkpoint_state;
mod clip;
mod coordinator;
mod global_step;
mod graph_file;
mod hooks;
mod learning_rate;
mod looper;
mod monitored_session;
mod monitored_training;
mod moving_average;
mod notice;
mod optimizer;
mod queue_runner;
mod saver;
mod scaffold;
mod session_creator;
mod session_hook;
mod session_manager;
mod supervisor;
mod sync_replicas;
mod towers;

pub use checkpoint_state::{
    CheckpointState, checkpoint_exists, get_checkpoint_state, latest_checkpoint, update_checkpoint_state,
};
pub use coordinator::{Coordinator, STOP_GRACE_PERIOD};
pub use graph_file::write_graph;
pub use hooks::{
    CheckpointSaverHook, CheckpointSaverListener, Every, FeedFnHook, FinalOpsHook, GlobalStepWaiterHook,
    LoggingTensorHook, NanTensorHook, StepCounterHook, StopAtStepHook, SummarySaverHook,
};
pub use learning_rate::{Decay, PolynomialDecay};
pub use monitored_session::{MonitoredSession, MonitoredStep, StepContext};
pub use monitored_training::MonitoredTrainingSession;
pub use moving_average::ExponentialMovingAverage;
pub use optimizer::{
    Adadelta, Adagrad, Adam, Ftrl, GradientDescent, GradientsAndVariables, Hyperparameter, MinimizeOptions,
    Momentum, Optimizer, OptimizerState, RmsProp, Slots, UpdateRule,
};
pub use queue_runner::{QueueRunner, QueueRunnerBuilder};
pub use saver::{SaveOptions, SavedVariable, Saver, SaverBuilder};
pub use scaffold::Scaffold;
pub use session_creator::{ChiefSessionCreator, SessionCreator, WorkerSessionCreator};
pub use session_hook::{RunArgs, RunContext, RunValues, SessionHook};
pub use session_manager::{InitFn, Initialization, MAX_WAIT, RECOVERY_WAIT, SessionManager};
pub use supervisor::{Supervisor, SupervisorBuilder};
pub use sync_replicas::{SyncReplicasHook, SyncReplicasOptimizer};
pub use towers::{average_gradients, towers};

pub(crate) use queue_runner::Parts as QueueRunnerParts;
