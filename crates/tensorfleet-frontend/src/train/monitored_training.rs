//! [`MonitoredTrainingSession`]: a monitored session with what distributed training usually needs.

use std::time::Duration;

use tensorfleet_core::Result;

use super::hooks::{CheckpointSaverHook, Every, StepCounterHook, SummarySaverHook};
use super::monitored_session::MonitoredSession;
use super::scaffold::Scaffold;
use super::session_creator::{ChiefSessionCreator, SessionCreator, WorkerSessionCreator};
use super::session_hook::SessionHook;
use super::session_manager::{MAX_WAIT, RECOVERY_WAIT};
use crate::coordinator::STOP_GRACE_PERIOD;
use crate::graph::Graph;
use crate::session::SessionOptions;

/// A training session about to be made.
///
/// The chief restores the newest checkpoint of its directory, or initialises the model; saves it every 600 seconds;
/// records summaries every 100 steps and the speed of training. The other tasks wait for the chief.
///
/// ```
/// use tensorfleet::Graph;
/// use tensorfleet::train::{MonitoredTrainingSession, StopAtStepHook};
///
/// # let directory = tempfile::tempdir().unwrap();
/// # let dir = directory.path().to_str().unwrap();
/// let g = Graph::new();
/// let step = g.get_or_create_global_step()?;
/// let train = step.assign_add(1i64)?;
/// let session = MonitoredTrainingSession::new(&g).checkpoint_dir(dir).hook(StopAtStepHook::last_step(5)).create()?;
/// session.train(|session| session.run(&train).map(|_| ()))?;
///
/// // Another session goes on where this one ended.
/// let session = MonitoredTrainingSession::new(&g).checkpoint_dir(dir).create()?;
/// assert_eq!(session.session()?.run(&step)?.to_scalar::<i64>()?, 5);
/// # session.close()?;
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[must_use = "there is no session before `create`"]
pub struct MonitoredTrainingSession {
    graph: Graph,
    master: String,
    is_chief: bool,
    checkpoint_dir: Option<String>,
    summary_dir: Option<String>,
    scaffold: Scaffold,
    hooks: Vec<Box<dyn SessionHook>>,
    chief_only_hooks: Vec<Box<dyn SessionHook>>,
    save_checkpoint: Option<Every>,
    save_summaries: Option<Every>,
    log_step_count_steps: Option<i64>,
    stop_grace_period: Duration,
    config: SessionOptions,
    max_wait: Duration,
    recovery_wait: Duration,
}

impl MonitoredTrainingSession {
    /// A session of a chief, in this process, without checkpoints.
    pub fn new(graph: &Graph) -> MonitoredTrainingSession {
        MonitoredTrainingSession {
            graph: graph.clone(),
            master: String::new(),
            is_chief: true,
            checkpoint_dir: None,
            summary_dir: None,
            scaffold: Scaffold::new(),
            hooks: Vec::new(),
            chief_only_hooks: Vec::new(),
            save_checkpoint: Some(Every::Secs(600.0)),
            save_summaries: Some(Every::Steps(100)),
            log_step_count_steps: Some(100),
            stop_grace_period: STOP_GRACE_PERIOD,
            config: SessionOptions::default(),
            max_wait: MAX_WAIT,
            recovery_wait: RECOVERY_WAIT,
        }
    }

    /// The server to connect to; empty for this process.
    pub fn master(mut self, master: &str) -> Self {
        self.master = master.to_string();
        self
    }

    /// Whether this task makes the model ready and saves it.
    pub fn is_chief(mut self, is_chief: bool) -> Self {
        self.is_chief = is_chief;
        self
    }

    /// Where checkpoints, and event files unless another place is given, are written and checkpoints restored from. The
    /// parameter servers must see it too.
    pub fn checkpoint_dir(mut self, dir: &str) -> Self {
        self.checkpoint_dir = Some(dir.to_string());
        self
    }

    /// Where event files are written.
    pub fn summary_dir(mut self, dir: &str) -> Self {
        self.summary_dir = Some(dir.to_string());
        self
    }

    /// The parts of the model, where they are not the usual ones.
    pub fn scaffold(mut self, scaffold: &Scaffold) -> Self {
        self.scaffold = scaffold.clone();
        self
    }

    /// Adds a hook.
    pub fn hook(mut self, hook: impl SessionHook + 'static) -> Self {
        self.hooks.push(Box::new(hook));
        self
    }

    /// Adds a hook that the other tasks do without.
    pub fn chief_only_hook(mut self, hook: impl SessionHook + 'static) -> Self {
        self.chief_only_hooks.push(Box::new(hook));
        self
    }

    /// Saves so often; every 600 seconds if nothing is said, never if `None`.
    pub fn save_checkpoint(mut self, every: impl Into<Option<Every>>) -> Self {
        self.save_checkpoint = every.into();
        self
    }

    /// Saves every so many seconds.
    pub fn save_checkpoint_secs(self, secs: f64) -> Self {
        self.save_checkpoint(Every::Secs(secs))
    }

    /// Saves every so many steps.
    pub fn save_checkpoint_steps(self, steps: i64) -> Self {
        self.save_checkpoint(Every::Steps(steps))
    }

    /// Records summaries so often; every 100 steps if nothing is said, never if `None`.
    pub fn save_summaries(mut self, every: impl Into<Option<Every>>) -> Self {
        self.save_summaries = every.into();
        self
    }

    /// Records summaries every so many seconds.
    pub fn save_summaries_secs(self, secs: f64) -> Self {
        self.save_summaries(Every::Secs(secs))
    }

    /// Records summaries every so many steps.
    pub fn save_summaries_steps(self, steps: i64) -> Self {
        self.save_summaries(Every::Steps(steps))
    }

    /// Measures the speed of training so often; every 100 steps if nothing is said, never if `None`.
    pub fn log_step_count_steps(mut self, steps: impl Into<Option<i64>>) -> Self {
        self.log_step_count_steps = steps.into();
        self
    }

    /// How long threads may take to end after a stop; 120 seconds if nothing is said.
    pub fn stop_grace_period(mut self, period: Duration) -> Self {
        self.stop_grace_period = period;
        self
    }

    /// How the session behaves.
    pub fn config(mut self, config: SessionOptions) -> Self {
        self.config = config;
        self
    }

    /// How long to wait for the chief, or for lost tasks to come back; two hours if nothing is said.
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = wait;
        self
    }

    /// The longest time between two looks at a model that is not ready; 30 seconds if nothing is said.
    pub fn recovery_wait(mut self, wait: Duration) -> Self {
        self.recovery_wait = wait;
        self
    }

    /// Opens the session, when the model is ready.
    pub fn create(mut self) -> Result<MonitoredSession> {
        let hooks = if self.is_chief { self.hooks_of_chief()? } else { Vec::new() };
        let hooks = hooks.into_iter().chain(self.hooks).collect();
        let creator: Box<dyn SessionCreator> = match self.is_chief {
            true => {
                let mut creator = ChiefSessionCreator::new(&self.graph);
                creator.scaffold = self.scaffold;
                creator.master = self.master;
                creator.config = self.config;
                creator.checkpoint_dir = self.checkpoint_dir;
                Box::new(creator)
            }
            false => {
                let mut creator = WorkerSessionCreator::new(&self.graph, &self.master);
                creator.scaffold = self.scaffold;
                creator.config = self.config;
                creator.max_wait = self.max_wait;
                creator.recovery_wait = self.recovery_wait;
                Box::new(creator)
            }
        };
        MonitoredSession::with_waits(creator, hooks, self.stop_grace_period, self.max_wait)
    }

    fn hooks_of_chief(&mut self) -> Result<Vec<Box<dyn SessionHook>>> {
        let mut hooks = std::mem::take(&mut self.chief_only_hooks);
        if let Some(dir) = self.summary_dir.as_ref().or(self.checkpoint_dir.as_ref()) {
            if let Some(steps) = self.log_step_count_steps {
                hooks.push(Box::new(StepCounterHook::new(Every::Steps(steps))?.output_dir(dir)));
            }
            if let Some(every) = self.save_summaries {
                hooks.push(Box::new(SummarySaverHook::with_scaffold(every, dir, &self.scaffold)?));
            }
        }
        if let (Some(dir), Some(every)) = (&self.checkpoint_dir, self.save_checkpoint) {
            hooks.push(Box::new(CheckpointSaverHook::with_scaffold(dir, every, &self.scaffold)?));
        }
        Ok(hooks)
    }
}
