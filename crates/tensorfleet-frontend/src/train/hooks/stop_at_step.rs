//! [`StopAtStepHook`]: ends training at a step.

use std::sync::Arc;

use tensorfleet_core::{Result, notice};

use super::step::{global_step_or, not_begun, step_now};
use crate::coordinator::Coordinator;
use crate::graph::{Graph, Output};
use crate::session::Session;
use crate::train::global_step::step_number;
use crate::train::session_hook::{RunArgs, RunContext, RunValues, SessionHook};

/// Ends training when the global step has reached a number, or has gone on by one.
///
/// ```
/// use tensorfleet::train::{MonitoredTrainingSession, StopAtStepHook};
/// # use tensorfleet::Graph;
///
/// let g = Graph::new();
/// let step = g.get_or_create_global_step()?;
/// let train = step.assign_add(1i64)?;
/// let mut session = MonitoredTrainingSession::new(&g).hook(StopAtStepHook::num_steps(3)).create()?;
/// let mut last = 0;
/// while !session.should_stop() {
///     last = session.run(&train)?.to_scalar::<i64>()?;
/// }
/// assert_eq!(last, 3);
/// session.close()?;
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub struct StopAtStepHook {
    goal: Goal,
    global_step: Option<Output>,
}

enum Goal {
    LastStep(i64),
    NumSteps(i64),
}

impl StopAtStepHook {
    /// Ends when the global step is `last_step`.
    pub fn last_step(last_step: i64) -> StopAtStepHook {
        StopAtStepHook { goal: Goal::LastStep(last_step), global_step: None }
    }

    /// Ends `num_steps` after the step that the first session begins with.
    pub fn num_steps(num_steps: i64) -> StopAtStepHook {
        StopAtStepHook { goal: Goal::NumSteps(num_steps), global_step: None }
    }

    /// Reads this instead of the graph's global step.
    pub fn global_step(mut self, step: &Output) -> StopAtStepHook {
        self.global_step = Some(step.clone());
        self
    }

    fn step(&self) -> Result<&Output> {
        self.global_step.as_ref().ok_or_else(|| not_begun("StopAtStepHook"))
    }
}

impl SessionHook for StopAtStepHook {
    fn begin(&mut self, graph: &Graph) -> Result<()> {
        self.global_step = Some(global_step_or(self.global_step.take(), graph, "StopAtStepHook")?);
        Ok(())
    }

    fn after_create_session(&mut self, session: &Arc<Session>, _: &Coordinator) -> Result<()> {
        let step = step_now(session, self.step()?)?;
        match self.goal {
            Goal::NumSteps(num_steps) => self.goal = Goal::LastStep(step.saturating_add(num_steps)),
            // As in TensorFlow, which does not look before the first step.
            Goal::LastStep(last) if step >= last => notice::info(format!(
                "the model has made {step} steps already, and its training ends at step {last}: it makes one more and stops; train \
                 on with a higher last step, or anew in another directory"
            )),
            Goal::LastStep(_) => {}
        }
        Ok(())
    }

    fn before_run(&mut self, _: &RunContext) -> Result<RunArgs> {
        Ok(RunArgs::new().fetch(self.step()?))
    }

    fn after_run(&mut self, context: &RunContext, values: &RunValues) -> Result<()> {
        let Goal::LastStep(last_step) = self.goal else { return Ok(()) };
        let reached = step_number(values.tensor(0)?)? + 1 >= last_step;
        // The step that was read may be older than what other workers have reached, or than this run's own.
        if reached && step_now(context.session(), self.step()?)? >= last_step {
            context.request_stop();
        }
        Ok(())
    }
}
