//! [`GlobalStepWaiterHook`]: lets a worker start later than others.

use std::sync::Arc;
use std::time::Duration;

use tensorfleet_core::{Result, Status, interrupt, notice};

use super::step::{global_step_or, not_begun, step_now};
use crate::coordinator::Coordinator;
use crate::graph::{Graph, Output};
use crate::session::Session;
use crate::train::session_hook::{RunArgs, RunContext, SessionHook};

/// The first look at the step comes after this time, later ones more slowly, ...
const FIRST_POLL: Duration = Duration::from_millis(10);
/// ... up to the pause that TensorFlow makes.
const SLOWEST_POLL: Duration = Duration::from_millis(500);
/// How many steps pass between two reports.
const REPORT_STEPS: i64 = 1000;

/// Delays the first run until others have reached a global step.
///
/// ```
/// use tensorfleet::train::{GlobalStepWaiterHook, MonitoredTrainingSession};
/// # use tensorfleet::Graph;
///
/// # let g = Graph::new();
/// let worker = 2;
/// // Each worker starts a hundred steps after the one before it.
/// let session = MonitoredTrainingSession::new(&g).hook(GlobalStepWaiterHook::new(100 * worker));
/// # drop(session);
/// ```
pub struct GlobalStepWaiterHook {
    wait_until_step: i64,
    global_step: Option<Output>,
    coordinator: Option<Coordinator>,
    is_started: bool,
}

impl GlobalStepWaiterHook {
    /// Waits for this global step.
    pub fn new(wait_until_step: i64) -> GlobalStepWaiterHook {
        GlobalStepWaiterHook { wait_until_step, global_step: None, coordinator: None, is_started: false }
    }

    /// Reads this instead of the graph's global step.
    pub fn global_step(mut self, step: &Output) -> GlobalStepWaiterHook {
        self.global_step = Some(step.clone());
        self
    }
}

impl SessionHook for GlobalStepWaiterHook {
    fn begin(&mut self, graph: &Graph) -> Result<()> {
        self.is_started = self.wait_until_step <= 0;
        self.global_step = Some(global_step_or(self.global_step.take(), graph, "GlobalStepWaiterHook")?);
        Ok(())
    }

    fn after_create_session(&mut self, _: &Arc<Session>, coordinator: &Coordinator) -> Result<()> {
        self.coordinator = Some(coordinator.clone());
        Ok(())
    }

    fn before_run(&mut self, context: &RunContext) -> Result<RunArgs> {
        let waiting = || not_begun("GlobalStepWaiterHook");
        let (step, coordinator) =
            (self.global_step.as_ref().ok_or_else(waiting)?, self.coordinator.as_ref().ok_or_else(waiting)?);
        let mut pause = FIRST_POLL;
        let mut reported = None;
        while !self.is_started {
            interrupt::check()?;
            let now = step_now(context.session(), step)?;
            if now >= self.wait_until_step {
                notice::info(format!("Done waiting: the global step is {now}"));
                self.is_started = true;
                break;
            }
            if reported.is_none_or(|reported| now - reported > REPORT_STEPS) {
                reported = Some(now);
                notice::info(format!(
                    "Waiting for global step {} before starting training; it is {now}, and other workers must raise it",
                    self.wait_until_step
                ));
            }
            if coordinator.wait_for_stop_within(pause) {
                coordinator.raise_requested_error()?;
                return Err(Status::cancelled(
                    "training was stopped while a worker waited for its first step",
                ));
            }
            pause = (pause * 2).min(SLOWEST_POLL);
        }
        Ok(RunArgs::new())
    }
}
