//! [`SupervisorBuilder`]: what a supervisor is told, and the defaults of what it is not.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tensorfleet_core::{Result, Status, Tensor, ensure};

use super::{Chief, StepCounter, Supervisor};
use crate::coordinator::{Coordinator, STOP_GRACE_PERIOD};
use crate::graph::{Graph, IntoTensor, Operation, Output, Variable};
use crate::session::{Session, SessionOptions};
use crate::summary::FileWriter;
use crate::train::saver::Saver;
use crate::train::session_manager::{InitFn, Initialization, MAX_WAIT, RECOVERY_WAIT, SessionManager};

/// A supervisor about to be made; see the example of [`Supervisor`].
#[must_use = "there is no supervisor before `build`"]
pub struct SupervisorBuilder {
    graph: Graph,
    is_chief: bool,
    logdir: Option<String>,
    init: Initialization,
    init_op: Choice<Operation>,
    local_init_op: Choice<Operation>,
    ready_op: Choice<Output>,
    ready_for_local_init_op: Option<Output>,
    local_init_feeds: Vec<(Output, Tensor)>,
    summary_op: Choice<Output>,
    saver: Choice<Saver>,
    global_step: Choice<Variable>,
    counter: Option<StepCounter>,
    save_model: Option<Duration>,
    save_summaries: Option<Duration>,
    recovery_wait: Duration,
    max_wait: Duration,
    stop_grace: Duration,
    checkpoint_basename: String,
    config: SessionOptions,
    coordinator: Option<Coordinator>,
    writer: Choice<FileWriter>,
    /// The first thing that went wrong, reported by `build`.
    error: Option<Status>,
}

/// Something that has a default, may be given, and may be wanted not at all.
enum Choice<T> {
    Default,
    Given(T),
    Nothing,
}

impl<T: Clone> From<Option<&T>> for Choice<T> {
    fn from(given: Option<&T>) -> Choice<T> {
        given.map_or(Choice::Nothing, |value| Choice::Given(value.clone()))
    }
}

impl<T> Choice<T> {
    fn or_default(self, default: impl FnOnce() -> Result<Option<T>>) -> Result<Option<T>> {
        match self {
            Choice::Default => default(),
            Choice::Given(value) => Ok(Some(value)),
            Choice::Nothing => Ok(None),
        }
    }
}

impl SupervisorBuilder {
    pub(super) fn new(graph: &Graph) -> SupervisorBuilder {
        SupervisorBuilder {
            graph: graph.clone(),
            is_chief: true,
            logdir: None,
            init: Initialization::default(),
            init_op: Choice::Default,
            local_init_op: Choice::Default,
            ready_op: Choice::Default,
            ready_for_local_init_op: None,
            local_init_feeds: Vec::new(),
            summary_op: Choice::Default,
            saver: Choice::Default,
            global_step: Choice::Default,
            counter: None,
            save_model: Some(Duration::from_secs(600)),
            save_summaries: Some(Duration::from_secs(120)),
            recovery_wait: RECOVERY_WAIT,
            max_wait: MAX_WAIT,
            stop_grace: STOP_GRACE_PERIOD,
            checkpoint_basename: "model.ckpt".to_string(),
            config: SessionOptions::default(),
            coordinator: None,
            writer: Choice::Default,
            error: None,
        }
    }

    /// Whether this task prepares the model and saves it; yes, if nothing is said.
    pub fn is_chief(mut self, is_chief: bool) -> Self {
        self.is_chief = is_chief;
        self
    }

    /// Where checkpoints and event files are. The parameter servers must see it too.
    pub fn logdir(mut self, logdir: &str) -> Self {
        self.logdir = Some(logdir.to_string());
        self
    }

    /// Initialises the model if there is no checkpoint; all global variables' initialisers, if nothing is said, nothing if
    /// `None`.
    pub fn init_op<'a>(mut self, init_op: impl Into<Option<&'a Operation>>) -> Self {
        self.init_op = Choice::from(init_op.into());
        self
    }

    /// Fed to the init operation.
    pub fn init_feed(mut self, output: &Output, value: impl IntoTensor) -> Self {
        match value.into_tensor().0 {
            Ok(tensor) => self.init.init_feeds.push((output.clone(), tensor)),
            Err(status) => self.error = self.error.or(Some(status)),
        }
        self
    }

    /// Called after the init operation.
    pub fn init_fn(mut self, init_fn: impl Fn(&Arc<Session>) -> Result<()> + Send + Sync + 'static) -> Self {
        let init_fn: InitFn = Arc::new(init_fn);
        self.init.init_fn = Some(init_fn);
        self
    }

    /// Initialises variables even if they all have values and there is no checkpoint, as TensorFlow does.
    pub fn overwrite(mut self) -> Self {
        self.init.overwrite = true;
        self
    }

    /// Initialises what belongs to this process; all local variables' initialisers, if nothing is said, nothing if `None`.
    pub fn local_init_op<'a>(mut self, local_init_op: impl Into<Option<&'a Operation>>) -> Self {
        self.local_init_op = Choice::from(local_init_op.into());
        self
    }

    /// Fed to the local initialisation.
    pub fn local_init_feeds(mut self, feeds: Vec<(Output, Tensor)>) -> Self {
        self.local_init_feeds = feeds;
        self
    }

    /// Gives the names of what is not ready; uninitialised variables, if nothing is said; the model is always ready if `None`.
    pub fn ready_op<'a>(mut self, ready_op: impl Into<Option<&'a Output>>) -> Self {
        self.ready_op = Choice::from(ready_op.into());
        self
    }

    /// Gives the names of what the local initialisation has to wait for; it waits for nothing, if nothing is said.
    pub fn ready_for_local_init_op(mut self, ready_op: &Output) -> Self {
        self.ready_for_local_init_op = Some(ready_op.clone());
        self
    }

    /// The summaries to record; all of the graph merged, if nothing is said, none at all if `None`.
    pub fn summary_op<'a>(mut self, summary_op: impl Into<Option<&'a Output>>) -> Self {
        self.summary_op = Choice::from(summary_op.into());
        self
    }

    /// Saves and restores the model; a saver of all variables, if nothing is said, none at all if `None`.
    pub fn saver<'a>(mut self, saver: impl Into<Option<&'a Saver>>) -> Self {
        self.saver = Choice::from(saver.into());
        self
    }

    /// The variable that counts steps; that of the graph, if nothing is said, none if `None`.
    pub fn global_step<'a>(mut self, global_step: impl Into<Option<&'a Variable>>) -> Self {
        self.global_step = Choice::from(global_step.into());
        self
    }

    /// Any value that counts steps, instead of a variable; the speed of training is recorded as `NAME/sec`.
    pub fn step_output(mut self, step: &Output, name: &str) -> Self {
        self.global_step = Choice::Nothing;
        self.counter = Some(StepCounter { step: step.clone(), tag: format!("{name}/sec") });
        self
    }

    /// Saves the model every so many seconds; 600 if nothing is said, never if 0.
    pub fn save_model_secs(mut self, secs: u64) -> Self {
        self.save_model = (secs > 0).then(|| Duration::from_secs(secs));
        self
    }

    /// Saves the model this often.
    pub fn save_model_every(mut self, every: Duration) -> Self {
        self.save_model = Some(every);
        self
    }

    /// Records summaries every so many seconds; 120 if nothing is said, never if 0.
    pub fn save_summaries_secs(mut self, secs: u64) -> Self {
        self.save_summaries = (secs > 0).then(|| Duration::from_secs(secs));
        self
    }

    /// Records summaries this often.
    pub fn save_summaries_every(mut self, every: Duration) -> Self {
        self.save_summaries = Some(every);
        self
    }

    /// The longest time, in seconds, between two looks at a model that is not ready; 30 if nothing is said. The first looks
    /// come much sooner.
    pub fn recovery_wait_secs(mut self, secs: u64) -> Self {
        self.recovery_wait = Duration::from_secs(secs);
        self
    }

    /// How long to wait for the chief, in seconds; two hours if nothing is said.
    pub fn max_wait_secs(mut self, secs: u64) -> Self {
        self.max_wait = Duration::from_secs(secs);
        self
    }

    /// How long threads may take to end, in seconds; 120 if nothing is said.
    pub fn stop_grace_secs(mut self, secs: u64) -> Self {
        self.stop_grace = Duration::from_secs(secs);
        self
    }

    /// What checkpoints are called, before the step; `model.ckpt` if nothing is said.
    pub fn checkpoint_basename(mut self, name: &str) -> Self {
        self.checkpoint_basename = name.to_string();
        self
    }

    /// How sessions behave.
    pub fn config(mut self, config: SessionOptions) -> Self {
        self.config = config;
        self
    }

    /// What stops the threads; one of its own, if nothing is said.
    pub fn coordinator(mut self, coordinator: &Coordinator) -> Self {
        self.coordinator = Some(coordinator.clone());
        self
    }

    /// Where a chief records events; the event file of its directory, if nothing is said, nowhere if `None`.
    pub fn summary_writer<'a>(mut self, writer: impl Into<Option<&'a FileWriter>>) -> Self {
        self.writer = Choice::from(writer.into());
        self
    }

    /// The supervisor; what was not given is added to the graph, which should not grow afterwards.
    pub fn build(self) -> Result<Supervisor> {
        if let Some(status) = self.error {
            return Err(status);
        }
        let graph = self.graph;
        let ready_op = self.ready_op.or_default(|| graph.report_uninitialized_variables().map(Some))?;
        let mut init = self.init;
        init.init_op = self.init_op.or_default(|| graph.global_variables_initializer().map(Some))?;
        let local_init_op =
            self.local_init_op.or_default(|| graph.local_variables_initializer().map(Some))?;
        init.saver = self.saver.or_default(|| match graph.global_variables().is_empty() {
            true => Ok(None),
            false => Saver::new(&graph).map(Some),
        })?;
        let summary_op = self.summary_op.or_default(|| graph.merge_all_summaries())?;
        let global_step = self.global_step.or_default(|| graph.get_global_step())?;
        let counter = self.counter.or_else(|| {
            let counted = global_step.as_ref()?;
            Some(StepCounter { step: counted.snapshot(), tag: format!("{}/sec", counted.name()) })
        });
        let manager = SessionManager::with_ready_op(&graph, ready_op)
            .ready_for_local_init_op(self.ready_for_local_init_op)
            .local_init_op(local_init_op)
            .local_init_feeds(self.local_init_feeds)
            .recovery_wait(self.recovery_wait)
            .max_wait(self.max_wait);
        if !self.is_chief {
            check_devices(&graph)?;
        }
        let chief = match self.is_chief {
            true => Some(Chief {
                save_path: self
                    .logdir
                    .as_ref()
                    .map(|dir| format!("{}/{}", dir.trim_end_matches('/'), self.checkpoint_basename)),
                writer: self
                    .writer
                    .or_default(|| self.logdir.as_deref().map(FileWriter::shared).transpose())?,
                logdir: self.logdir.clone(),
                save_model: self.save_model,
                save_summaries: self.save_summaries,
            }),
            false => None,
        };
        init.checkpoint_dir = self.logdir;
        Ok(Supervisor {
            graph,
            is_chief: self.is_chief,
            coordinator: self.coordinator.unwrap_or_default(),
            manager,
            init,
            max_wait: self.max_wait,
            stop_grace: self.stop_grace,
            config: self.config,
            summary_op,
            global_step,
            counter,
            chief,
            session: Mutex::new(Weak::new()),
        })
    }
}

/// A variable of a replica that says not where it is would be another one for each replica.
fn check_devices(graph: &Graph) -> Result<()> {
    for variable in graph.global_variables() {
        ensure!(
            !variable.device().is_empty(),
            InvalidArgument,
            "When using replicas, all Variables must have their device set: '{}' has none. Build the model inside \
             replica_device_setter",
            variable.name()
        );
    }
    Ok(())
}
