//! [`SummarySaverHook`]: records summaries.

use std::sync::Arc;

use tensorfleet_core::Result;

use super::step::{global_step_or, not_begun, step_now};
use super::timer::{Every, Timer};
use crate::graph::{Graph, Output};
use crate::session::Session;
use crate::summary::{FileWriter, SessionStatus};
use crate::train::global_step::step_number;
use crate::train::scaffold::Scaffold;
use crate::train::session_hook::{RunArgs, RunContext, RunValues, SessionHook};

/// Records summaries every so many steps or seconds, the first time at the first step.
///
/// ```
/// use tensorfleet::train::{Every, MonitoredTrainingSession, StopAtStepHook, SummarySaverHook};
/// use tensorfleet::{Graph, summary};
/// # let directory = tempfile::tempdir().unwrap();
/// # let dir = directory.path().to_str().unwrap();
///
/// let g = Graph::new();
/// let train = g.get_or_create_global_step()?.assign_add(1i64)?;
/// let loss = g.scalar_summary("loss", g.constant(0.25f32))?;
/// let session = MonitoredTrainingSession::new(&g)
///     .hook(SummarySaverHook::new(Every::Steps(5), dir, &loss)?)
///     .hook(StopAtStepHook::last_step(10))
///     .create()?;
/// session.train(|session| session.run(&train).map(drop))?;
///
/// let events = summary::events(dir)?.collect::<Result<Vec<_>, _>>()?;
/// let summaries = events.iter().filter(|event| matches!(event.what, Some(summary::What::Summary(_))));
/// assert_eq!(summaries.map(|event| event.step).collect::<Vec<_>>(), [1, 6]);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub struct SummarySaverHook {
    timer: Timer,
    output_dir: String,
    source: Source,
    writer: Option<FileWriter>,
    global_step: Option<Output>,
    /// The number that the next step probably has; none before the first.
    next_step: Option<i64>,
    /// The run under way fetches the summaries.
    is_requested: bool,
}

/// Where the summaries come from.
enum Source {
    Op(Output),
    Scaffold(Scaffold),
    By(Box<dyn Fn() -> Result<Option<Output>> + Send>),
}

impl SummarySaverHook {
    /// Records what `summary_op` gives in the event file of `output_dir`.
    pub fn new(every: Every, output_dir: &str, summary_op: &Output) -> Result<SummarySaverHook> {
        SummarySaverHook::from_source(every, output_dir, Source::Op(summary_op.clone()))
    }

    /// Records the summaries of a scaffold; nothing, if it has none.
    pub fn with_scaffold(every: Every, output_dir: &str, scaffold: &Scaffold) -> Result<SummarySaverHook> {
        SummarySaverHook::from_source(every, output_dir, Source::Scaffold(scaffold.clone()))
    }

    /// Records what a function names, which is asked before each run that records; nothing, if it names nothing.
    pub fn with_summary_by(
        every: Every,
        output_dir: &str,
        summary_op: impl Fn() -> Result<Option<Output>> + Send + 'static,
    ) -> Result<SummarySaverHook> {
        SummarySaverHook::from_source(every, output_dir, Source::By(Box::new(summary_op)))
    }

    fn from_source(every: Every, output_dir: &str, source: Source) -> Result<SummarySaverHook> {
        Ok(SummarySaverHook {
            timer: Timer::new(every.check("SummarySaverHook")?),
            output_dir: output_dir.to_string(),
            source,
            writer: None,
            global_step: None,
            next_step: None,
            is_requested: false,
        })
    }

    /// Reads this instead of the graph's global step.
    pub fn global_step(mut self, step: &Output) -> SummarySaverHook {
        self.global_step = Some(step.clone());
        self
    }

    fn step(&self) -> Result<&Output> {
        self.global_step.as_ref().ok_or_else(|| not_begun("SummarySaverHook"))
    }

    fn writer(&self) -> Result<&FileWriter> {
        self.writer.as_ref().ok_or_else(|| not_begun("SummarySaverHook"))
    }
}

impl SessionHook for SummarySaverHook {
    fn begin(&mut self, graph: &Graph) -> Result<()> {
        self.global_step = Some(global_step_or(self.global_step.take(), graph, "SummarySaverHook")?);
        self.writer = Some(FileWriter::shared(&self.output_dir)?);
        Ok(())
    }

    fn before_run(&mut self, _: &RunContext) -> Result<RunArgs> {
        self.is_requested = self.next_step.is_none_or(|step| self.timer.is_due(step));
        let args = RunArgs::new().fetch(self.step()?);
        if !self.is_requested {
            return Ok(args);
        }
        let summaries = match &self.source {
            Source::Op(summary_op) => Some(summary_op.clone()),
            Source::Scaffold(scaffold) => scaffold.get_summary_op(),
            Source::By(summary_op) => summary_op()?,
        };
        match summaries {
            Some(summaries) => Ok(args.fetch(&summaries)),
            None => Ok(args),
        }
    }

    fn after_run(&mut self, context: &RunContext, values: &RunValues) -> Result<()> {
        let mut step = step_number(values.tensor(0)?)? + 1;
        if self.next_step.is_none() || self.is_requested {
            step = step_now(context.session(), self.step()?)?;
        }
        if self.next_step.is_none() {
            self.writer()?.add_session_log(SessionStatus::Start, "", step)?;
        }
        if self.is_requested {
            self.timer.act(step);
            if let Some(summaries) = values.tensors().get(1) {
                self.writer()?.add_summary(summaries, step)?;
            }
        }
        self.next_step = Some(step + 1);
        Ok(())
    }

    fn end(&mut self, _: &Arc<Session>) -> Result<()> {
        self.writer()?.flush()
    }
}
