//! The hooks that come with the library.

mod checkpoint_saver;
mod feed_fn;
mod final_ops;
mod global_step_waiter;
mod logging_tensor;
mod nan_tensor;
mod step;
mod step_counter;
mod stop_at_step;
mod summary_saver;
mod timer;

pub use checkpoint_saver::{CheckpointSaverHook, CheckpointSaverListener};
pub use feed_fn::FeedFnHook;
pub use final_ops::FinalOpsHook;
pub use global_step_waiter::GlobalStepWaiterHook;
pub use logging_tensor::LoggingTensorHook;
pub use nan_tensor::NanTensorHook;
pub use step_counter::StepCounterHook;
pub use stop_at_step::StopAtStepHook;
pub use summary_saver::SummarySaverHook;
pub use timer::Every;
