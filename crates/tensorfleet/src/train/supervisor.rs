//! [`Supervisor`]: the elder way to supervise training, with threads beside the training loop instead of hooks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tensorfleet_core::{Result, Status, Tensor, ensure};

use super::coordinator::{Coordinator, STOP_GRACE_PERIOD};
use super::graph_file::write_graph;
use super::hooks::step_number;
use super::notice;
use super::queue_runner::QueueRunner;
use super::saver::Saver;
use super::session_manager::{InitFn, Initialization, MAX_WAIT, RECOVERY_WAIT, SessionManager};
use crate::graph::Graph;
use crate::literal::IntoTensor;
use crate::operation::Operation;
use crate::output::Output;
use crate::session::Session;
use crate::session_options::SessionOptions;
use crate::summary::{FileWriter, SessionStatus};
use crate::variable::Variable;

/// Supervises training: the chief restores the newest checkpoint of `logdir` or initialises the model, and saves it and
/// its summaries while training goes on; the others wait for the chief.
///
/// ```
/// use tensorfleet::Graph;
/// use tensorfleet::train::Supervisor;
///
/// # let directory = tempfile::tempdir().unwrap();
/// # let logdir = directory.path().to_str().unwrap();
/// let g = Graph::new();
/// let global_step = g.get_or_create_global_step()?;
/// let train = global_step.assign_add(1i64)?;
/// let supervisor = Supervisor::builder(&g).logdir(logdir).save_model_secs(60).build()?;
/// supervisor.managed_session("", |session| {
///     while !supervisor.should_stop() && session.run(&train)?.to_scalar::<i64>()? < 10 {}
///     supervisor.saver().unwrap().save(session, &format!("{logdir}/model.ckpt"), Some(10))?;
///     Ok(())
/// })?;
///
/// // Another supervisor goes on where this one ended.
/// let supervisor = Supervisor::builder(&g).logdir(logdir).build()?;
/// supervisor.managed_session("", |session| {
///     assert_eq!(session.run(&global_step)?.to_scalar::<i64>()?, 10);
///     Ok(())
/// })?;
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub struct Supervisor {
    graph: Graph,
    is_chief: bool,
    coordinator: Coordinator,
    manager: SessionManager,
    init: Initialization,
    max_wait: Duration,
    stop_grace: Duration,
    config: SessionOptions,
    summary_op: Option<Output>,
    global_step: Option<Variable>,
    /// Only a chief has these: nobody else writes checkpoints and events.
    chief: Option<Chief>,
}

struct Chief {
    logdir: Option<String>,
    save_path: Option<String>,
    writer: Option<FileWriter>,
    save_model: Option<Duration>,
    save_summaries: Option<Duration>,
}

/// A supervisor about to be made.
#[must_use = "there is no supervisor before `build`"]
pub struct SupervisorBuilder {
    graph: Graph,
    is_chief: bool,
    logdir: Option<String>,
    init: Initialization,
    local_init_op: Option<Operation>,
    ready_op: Option<Output>,
    ready_for_local_init_op: Option<Output>,
    summary_op: Choice<Output>,
    saver: Choice<Saver>,
    global_step: Option<Variable>,
    save_model: Option<Duration>,
    save_summaries: Option<Duration>,
    recovery_wait: Duration,
    max_wait: Duration,
    stop_grace: Duration,
    checkpoint_basename: String,
    config: SessionOptions,
    /// The first thing that went wrong, reported by `build`.
    error: Option<Status>,
}

/// Something that has a default, may be given, and may be wanted not at all.
enum Choice<T> {
    Default,
    Given(T),
    Nothing,
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

impl Supervisor {
    /// A supervisor of a model, with TensorFlow's defaults for what is not said.
    pub fn builder(graph: &Graph) -> SupervisorBuilder {
        SupervisorBuilder {
            graph: graph.clone(),
            is_chief: true,
            logdir: None,
            init: Initialization::default(),
            local_init_op: None,
            ready_op: None,
            ready_for_local_init_op: None,
            summary_op: Choice::Default,
            saver: Choice::Default,
            global_step: None,
            save_model: Some(Duration::from_secs(600)),
            save_summaries: Some(Duration::from_secs(120)),
            recovery_wait: RECOVERY_WAIT,
            max_wait: MAX_WAIT,
            stop_grace: STOP_GRACE_PERIOD,
            checkpoint_basename: "model.ckpt".to_string(),
            config: SessionOptions::default(),
            error: None,
        }
    }

    /// Opens a session on `master`, starts the services of the chief and the queue runners, runs `body`, and stops and
    /// closes all of it, whether `body` succeeded or not. The error of `body`, or of the first thread that failed.
    /// `OutOfRange`, the end of an input, is none.
    pub fn managed_session(
        &self,
        master: &str,
        body: impl FnOnce(&Arc<Session>) -> Result<()>,
    ) -> Result<()> {
        let session = self.prepare_or_wait_for_session(master)?;
        if let Err(error) = body(&session) {
            self.request_stop_with(error);
        }
        let stopped = self.stop_session(Some(&session));
        // The servers may be gone.
        let _ = session.close();
        stopped
    }

    /// Opens a session on `master` whose model is ready, and starts the services of the chief and the queue runners. The
    /// caller closes it, after [`Supervisor::stop`].
    pub fn prepare_or_wait_for_session(&self, master: &str) -> Result<Arc<Session>> {
        let session = self.open_session(master)?;
        let start = || -> Result<()> {
            if self.is_chief {
                self.start_standard_services(&session)?;
            }
            self.start_queue_runners(&session, &self.graph.queue_runners())
        };
        match start() {
            Ok(()) => Ok(session),
            Err(error) => {
                self.request_stop_with(error.clone());
                let _ = self.stop_session(Some(&session));
                Err(error)
            }
        }
    }

    /// Opens a session on `master` whose model is ready, and starts nothing.
    pub fn open_session(&self, master: &str) -> Result<Arc<Session>> {
        self.coordinator.clear_stop();
        let Some(chief) = &self.chief else { return self.manager.wait_for_session(master, &self.config) };
        if let Some(writer) = &chief.writer {
            writer.reopen()?;
        }
        let session = self.manager.prepare_session(master, &self.init, &self.config)?;
        if let Some(logdir) = &chief.logdir {
            write_graph(&self.graph, logdir, "graph.pbtxt")?;
        }
        if let Some(writer) = &chief.writer {
            writer.add_graph(&self.graph)?;
        }
        Ok(session)
    }

    /// Starts the threads that save the model and record summaries and speed.
    pub fn start_standard_services(&self, session: &Arc<Session>) -> Result<()> {
        let Some(chief) = &self.chief else {
            return Err(Status::failed_precondition(
                "Only chief supervisor can start standard services. Because only chief supervisors can write events.",
            ));
        };
        let Some(save_path) = &chief.save_path else {
            notice::warn("Standard services need a 'logdir' passed to the Supervisor");
            return Ok(());
        };
        if let (Some(writer), Some(_)) = (&chief.writer, &self.global_step) {
            let step = self.step_now(session)?;
            writer.add_session_log(SessionStatus::Start, "", step)?;
        }
        if let (Some(every), Some(writer)) = (chief.save_summaries, &chief.writer) {
            self.start_summaries(session, every, writer)?;
        }
        if let (Some(every), Some(saver)) = (chief.save_model, self.saver()) {
            self.start_saving(session, every, &saver, save_path, chief.writer.clone())?;
        }
        Ok(())
    }

    fn start_summaries(&self, session: &Arc<Session>, every: Duration, writer: &FileWriter) -> Result<()> {
        if let Some(summary_op) = self.summary_op.clone() {
            let (session, writer, global_step) = (session.clone(), writer.clone(), self.global_step.clone());
            self.coordinator.loop_every("summaries", every, move || {
                let (summary, step) = match &global_step {
                    Some(global_step) => {
                        let (summary, step) = session.run((&summary_op, global_step))?;
                        (summary, step_number(&step)?)
                    }
                    None => (session.run(&summary_op)?, 0),
                };
                writer.add_summary(&summary, step)
            })?;
        }
        let Some(global_step) = self.global_step.clone() else { return Ok(()) };
        let (session, writer) = (session.clone(), writer.clone());
        let tag = format!("{}/sec", global_step.name());
        let mut last: Option<(Instant, i64)> = None;
        self.coordinator.loop_every("step counter", every, move || {
            let step = step_number(&session.run(&global_step)?)?;
            let now = Instant::now();
            if let Some((last_time, last_step)) = last.replace((now, step)) {
                let speed = (step - last_step) as f64 / (now - last_time).as_secs_f64();
                notice::info(format!("{tag}: {speed:.6}"));
                writer.add_scalar(&tag, speed, step)?;
            }
            Ok(())
        })
    }

    fn start_saving(
        &self,
        session: &Arc<Session>,
        every: Duration,
        saver: &Saver,
        save_path: &str,
        writer: Option<FileWriter>,
    ) -> Result<()> {
        let (session, saver, save_path) = (session.clone(), saver.clone(), save_path.to_string());
        let global_step = self.global_step.clone();
        let mut newest = None;
        self.coordinator.loop_every("saver", every, move || {
            let Some(global_step) = &global_step else {
                saver.save(&session, &save_path, None)?;
                return Ok(());
            };
            let step = step_number(&session.run(global_step)?)?;
            // What has not changed since the last save, or since it was restored, is not put at risk by writing it again.
            let path = format!("{save_path}-{step}");
            if newest.as_ref() != Some(&path) && !saver.last_checkpoints().contains(&path) {
                notice::info(format!("Saving checkpoint to path {path}"));
                newest = Some(saver.save(&session, &save_path, Some(step))?);
                if let Some(writer) = &writer {
                    writer.add_session_log(SessionStatus::Checkpoint, &save_path, step)?;
                }
            }
            Ok(())
        })
    }

    /// Starts the threads of these queue runners.
    pub fn start_queue_runners(&self, session: &Arc<Session>, runners: &[QueueRunner]) -> Result<()> {
        runners.iter().try_for_each(|runner| runner.create_threads(session, &self.coordinator))
    }

    /// Does `work` in a thread, every `interval` or all the time if that is zero, until training stops.
    pub fn loop_every(
        &self,
        interval: Duration,
        work: impl FnMut() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        self.coordinator.loop_every("loop", interval, work)
    }

    /// Writes a summary that the program computed itself.
    pub fn summary_computed(&self, session: &Session, summary: &Tensor, step: Option<i64>) -> Result<()> {
        let writer = self.summary_writer().ok_or_else(|| {
            Status::failed_precondition(
                "Writing a summary requires a summary writer: only a chief with a logdir has one",
            )
        })?;
        let step = match step {
            Some(step) => step,
            None => self.step_now(session)?,
        };
        writer.add_summary(summary, step)
    }

    fn step_now(&self, session: &Session) -> Result<i64> {
        match &self.global_step {
            Some(global_step) => step_number(&session.run(global_step)?),
            None => Ok(0),
        }
    }

    /// Whether training should stop: a thread has asked for it, or failed.
    pub fn should_stop(&self) -> bool {
        self.coordinator.should_stop()
    }

    /// Asks all threads to stop.
    pub fn request_stop(&self) {
        self.coordinator.request_stop();
    }

    /// Asks all threads to stop because of an error, which [`Supervisor::stop`] reports.
    pub fn request_stop_with(&self, error: Status) {
        self.coordinator.request_stop_with(error);
    }

    /// Waits until a stop is requested.
    pub fn wait_for_stop(&self) {
        self.coordinator.wait_for_stop();
    }

    /// Stops all threads, waits for them and closes the event file; the error of the first that failed.
    pub fn stop(&self) -> Result<()> {
        self.stop_session(None)
    }

    /// Stops; a session that is known is closed under threads that do not end by themselves.
    fn stop_session(&self, session: Option<&Arc<Session>>) -> Result<()> {
        self.coordinator.request_stop();
        if let Some(session) = session {
            let patience = END_BEFORE_CLOSE.min(self.stop_grace);
            if !self.coordinator.wait_for_threads(patience) {
                let _ = session.close();
            }
        }
        let joined = self.coordinator.join_within(self.stop_grace);
        let closed = match self.summary_writer() {
            Some(writer) if writer.path().is_some() => {
                writer.add_session_log(SessionStatus::Stop, "", 0).and_then(|()| writer.close())
            }
            _ => Ok(()),
        };
        joined.and(closed)
    }

    /// Whether it prepares the model and saves it.
    pub fn is_chief(&self) -> bool {
        self.is_chief
    }

    /// What stops the threads.
    pub fn coordinator(&self) -> &Coordinator {
        &self.coordinator
    }

    /// What opens sessions.
    pub fn session_manager(&self) -> &SessionManager {
        &self.manager
    }

    /// What saves and restores the model.
    pub fn saver(&self) -> Option<Saver> {
        self.init.saver.clone()
    }

    /// The event file; a chief with a directory has one.
    pub fn summary_writer(&self) -> Option<&FileWriter> {
        self.chief.as_ref().and_then(|chief| chief.writer.as_ref())
    }

    /// The summaries that are recorded.
    pub fn summary_op(&self) -> Option<&Output> {
        self.summary_op.as_ref()
    }

    /// The variable that counts steps.
    pub fn global_step(&self) -> Option<&Variable> {
        self.global_step.as_ref()
    }

    /// Where checkpoints are written, before the step is appended; a chief with a directory has it.
    pub fn save_path(&self) -> Option<&str> {
        self.chief.as_ref().and_then(|chief| chief.save_path.as_deref())
    }

    /// How long sessions are waited for.
    pub fn max_wait(&self) -> Duration {
        self.max_wait
    }
}

/// How long threads may take to end by themselves before their session is closed under them.
const END_BEFORE_CLOSE: Duration = Duration::from_secs(5);

impl SupervisorBuilder {
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

    /// Initialises the model if there is no checkpoint; all global variables' initialisers, if nothing is said.
    pub fn init_op(mut self, init_op: &Operation) -> Self {
        self.init.init_op = Some(init_op.clone());
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
    pub fn init_fn(mut self, init_fn: impl Fn(&Session) -> Result<()> + Send + Sync + 'static) -> Self {
        let init_fn: InitFn = Arc::new(init_fn);
        self.init.init_fn = Some(init_fn);
        self
    }

    /// Initialises variables even if they all have values and there is no checkpoint, as TensorFlow does.
    pub fn overwrite(mut self) -> Self {
        self.init.overwrite = true;
        self
    }

    /// Initialises what belongs to this process; all local variables' initialisers, if nothing is said.
    pub fn local_init_op(mut self, local_init_op: &Operation) -> Self {
        self.local_init_op = Some(local_init_op.clone());
        self
    }

    /// Gives the names of what is not ready; uninitialised variables, if nothing is said.
    pub fn ready_op(mut self, ready_op: &Output) -> Self {
        self.ready_op = Some(ready_op.clone());
        self
    }

    /// Gives the names of what the local initialisation has to wait for; it waits for nothing, if nothing is said.
    pub fn ready_for_local_init_op(mut self, ready_op: &Output) -> Self {
        self.ready_for_local_init_op = Some(ready_op.clone());
        self
    }

    /// The summaries to record; all of the graph merged, if nothing is said, none at all if `None`.
    pub fn summary_op<'a>(mut self, summary_op: impl Into<Option<&'a Output>>) -> Self {
        self.summary_op = summary_op.into().map_or(Choice::Nothing, |op| Choice::Given(op.clone()));
        self
    }

    /// Saves and restores the model; a saver of all variables, if nothing is said, none at all if `None`.
    pub fn saver<'a>(mut self, saver: impl Into<Option<&'a Saver>>) -> Self {
        self.saver = saver.into().map_or(Choice::Nothing, |saver| Choice::Given(saver.clone()));
        self
    }

    /// The variable that counts steps; that of the graph, if nothing is said.
    pub fn global_step(mut self, global_step: &Variable) -> Self {
        self.global_step = Some(global_step.clone());
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

    /// The supervisor; what was not given is added to the graph, which should not grow afterwards.
    pub fn build(self) -> Result<Supervisor> {
        if let Some(status) = self.error {
            return Err(status);
        }
        let graph = self.graph;
        let ready_op = match self.ready_op {
            Some(ready_op) => ready_op,
            None => graph.report_uninitialized_variables()?,
        };
        let mut init = self.init;
        if init.init_op.is_none() {
            init.init_op = Some(graph.global_variables_initializer()?);
        }
        let local_init_op = match self.local_init_op {
            Some(local_init_op) => local_init_op,
            None => graph.local_variables_initializer()?,
        };
        init.saver = self.saver.or_default(|| match graph.global_variables().is_empty() {
            true => Ok(None),
            false => Saver::new(&graph).map(Some),
        })?;
        let summary_op = self.summary_op.or_default(|| graph.merge_all_summaries())?;
        let global_step = match self.global_step {
            Some(global_step) => Some(global_step),
            None => graph.get_global_step()?,
        };
        let manager = SessionManager::with_ready_op(&graph, Some(ready_op))?
            .ready_for_local_init_op(self.ready_for_local_init_op)
            .local_init_op(Some(local_init_op))
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
                writer: self.logdir.as_deref().map(FileWriter::shared).transpose()?,
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
            coordinator: Coordinator::new(),
            manager,
            init,
            max_wait: self.max_wait,
            stop_grace: self.stop_grace,
            config: self.config,
            summary_op,
            global_step,
            chief,
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
