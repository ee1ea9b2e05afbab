//! The global step, as hooks read it.

use tensorfleet_core::{Result, Status};

use super::timer::Timer;
use crate::graph::{Graph, Output};
use crate::session::Session;
use crate::train::global_step::step_number;
use crate::train::session_hook::{RunContext, RunValues};

/// The value of the graph's global step, for a hook that counts.
///
/// It is read in the same run as the steps that change it, so it may be the value before or after; hooks take it for the
/// former and look again when it matters.
pub(super) fn global_step_of(graph: &Graph, hook: &str) -> Result<Output> {
    let step = graph.get_global_step()?.ok_or_else(|| {
        Status::failed_precondition(format!(
            "Global step should be created to use {hook}: call get_or_create_global_step before the session is made"
        ))
    })?;
    step.value().check()
}

/// The step that a hook was told to read, or that of the graph.
pub(super) fn global_step_or(told: Option<Output>, graph: &Graph, hook: &str) -> Result<Output> {
    match told {
        Some(step) => Ok(step),
        None => global_step_of(graph, hook),
    }
}

/// The global step as it is now.
pub(super) fn step_now(session: &Session, global_step: &Output) -> Result<i64> {
    step_number(&session.run(global_step)?)
}

/// The global step, if it is time for a hook that acts after a run. The run itself read it before or after the step that it
/// counts, so a step that may be due is read again; asking first spares most runs the second read.
pub(super) fn due_step(
    timer: &Timer,
    context: &RunContext,
    values: &RunValues,
    global_step: &Output,
) -> Result<Option<i64>> {
    if !timer.is_due(step_number(values.tensor(0)?)? + 1) {
        return Ok(None);
    }
    let step = step_now(context.session(), global_step)?;
    Ok(timer.is_due(step).then_some(step))
}

/// What `begin` should have set.
pub(super) fn not_begun(hook: &str) -> Status {
    Status::failed_precondition(format!("{hook} was used before its begin was called"))
}
