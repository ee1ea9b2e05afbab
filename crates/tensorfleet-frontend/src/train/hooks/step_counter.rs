//! [`StepCounterHook`]: how fast training goes.

use tensorfleet_core::{Result, notice};

use super::step::{due_step, global_step_or, not_begun};
use super::timer::{Every, Timer};
use crate::graph::{Graph, Output};
use crate::summary::FileWriter;
use crate::train::session_hook::{RunArgs, RunContext, RunValues, SessionHook};

/// Logs the steps per second, and records them as `global_step/sec` if it has a directory.
///
/// ```
/// use tensorfleet::train::{Every, MonitoredTrainingSession, StepCounterHook, StopAtStepHook};
/// # use tensorfleet::Graph;
///
/// let g = Graph::new();
/// let train = g.get_or_create_global_step()?.assign_add(1i64)?;
/// let session = MonitoredTrainingSession::new(&g)
///     .hook(StepCounterHook::new(Every::Steps(10))?)
///     .hook(StopAtStepHook::last_step(20))
///     .create()?;
/// session.train(|session| session.run(&train).map(drop))?;
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub struct StepCounterHook {
    timer: Timer,
    output_dir: Option<String>,
    writer: Option<FileWriter>,
    global_step: Option<Output>,
}

impl StepCounterHook {
    /// Measures this often; without a directory to record in.
    pub fn new(every: Every) -> Result<StepCounterHook> {
        let timer = Timer::new(every.check("StepCounterHook")?);
        Ok(StepCounterHook { timer, output_dir: None, writer: None, global_step: None })
    }

    /// Records in the event file of this directory.
    pub fn output_dir(mut self, dir: &str) -> StepCounterHook {
        self.output_dir = Some(dir.to_string());
        self
    }

    /// Reads this instead of the graph's global step.
    pub fn global_step(mut self, step: &Output) -> StepCounterHook {
        self.global_step = Some(step.clone());
        self
    }

    fn step(&self) -> Result<&Output> {
        self.global_step.as_ref().ok_or_else(|| not_begun("StepCounterHook"))
    }
}

/// So many as say something of a speed, as TensorFlow logs it.
fn six_digits(number: f64) -> String {
    let whole = number.abs().log10().floor();
    let digits = if whole.is_finite() { (5.0 - whole).clamp(0.0, 12.0) as usize } else { 0 };
    let text = format!("{number:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

impl SessionHook for StepCounterHook {
    fn begin(&mut self, graph: &Graph) -> Result<()> {
        self.global_step = Some(global_step_or(self.global_step.take(), graph, "StepCounterHook")?);
        self.writer = self.output_dir.as_deref().map(FileWriter::shared).transpose()?;
        Ok(())
    }

    fn before_run(&mut self, _: &RunContext) -> Result<RunArgs> {
        Ok(RunArgs::new().fetch(self.step()?))
    }

    fn after_run(&mut self, context: &RunContext, values: &RunValues) -> Result<()> {
        let Some(step) = due_step(&self.timer, context, values, self.step()?)? else { return Ok(()) };
        let Some((time, steps)) = self.timer.act(step) else { return Ok(()) };
        let speed = steps as f64 / time.as_secs_f64();
        notice::info(format!("global_step/sec: {}", six_digits(speed)));
        match &self.writer {
            Some(writer) => writer.add_scalar("global_step/sec", speed, step),
            None => Ok(()),
        }
    }
}
