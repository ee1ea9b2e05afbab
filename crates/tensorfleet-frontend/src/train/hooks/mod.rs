//! The hooks that come with the library.

mod checkpoint_saver;
mod feed_fn;
mod final_ops;
mod global_step_waiter;
mod logging_tensor;
mod nan_tensor;
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

use tensorfleet_core::{DType, Result, Status, Tensor};

use crate::graph::{Graph, Output};
use crate::session::Session;

/// The value of the graph's global step, for a hook that counts.
///
/// It is read in the same run as the steps that change it, so it may be the value before or after; hooks take it for the
/// former and look again when it matters.
fn global_step_of(graph: &Graph, hook: &str) -> Result<Output> {
    let step = graph.get_global_step()?.ok_or_else(|| {
        Status::failed_precondition(format!(
            "Global step should be created to use {hook}: call get_or_create_global_step before the session is made"
        ))
    })?;
    step.value().check()
}

/// The number that a read of the global step gave.
pub(crate) fn step_number(tensor: &Tensor) -> Result<i64> {
    match tensor.dtype() {
        DType::Int32 => tensor.to_scalar::<i32>().map(i64::from),
        _ => tensor.to_scalar::<i64>(),
    }
}

/// The global step as it is now.
fn step_now(session: &Session, global_step: &Output) -> Result<i64> {
    step_number(&session.run(global_step)?)
}

/// What `begin` should have set.
fn not_begun(hook: &str) -> Status {
    Status::failed_precondition(format!("{hook} was used before its begin was called"))
}
