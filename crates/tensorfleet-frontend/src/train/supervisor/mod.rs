//! [`Supervisor`]: the elder way to supervise training, with threads beside the training loop instead of hooks.

mod builder;

pub use builder::SupervisorBuilder;

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tensorfleet_core::clock::Stopwatch;
use tensorfleet_core::{Result, Status, Tensor, notice};

use crate::coordinator::{CLOSE_TIMEOUT, Coordinator};
use crate::graph::{Graph, Output, Variable};
use crate::input::QueueRunner;
use crate::session::{Session, SessionOptions};
use crate::summary::{FileWriter, SessionStatus};
use crate::train::global_step::step_number;
use crate::train::graph_pbtxt::write_graph;
use crate::train::meta_graph;
use crate::train::saver::Saver;
use crate::train::session_manager::{Initialization, SessionManager};

/// How a supervisor opens a session; see [`Supervisor::open_session_with`].
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// How the session behaves.
    pub config: SessionOptions,
    /// How long to wait for the chief, or for a checkpoint.
    pub max_wait: Duration,
    /// Waits for a checkpoint instead of initialising.
    pub wait_for_checkpoint: bool,
}

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
    counter: Option<StepCounter>,
    /// Only a chief has these: nobody else writes checkpoints and events.
    chief: Option<Chief>,
    /// The session that the threads use, as long as the program has it.
    session: Mutex<Weak<Session>>,
}

/// What counts steps.
#[derive(Clone)]
struct StepCounter {
    step: Output,
    /// Under which its speed is recorded.
    tag: String,
}

struct Chief {
    logdir: Option<String>,
    save_path: Option<String>,
    writer: Option<FileWriter>,
    save_model: Option<Duration>,
    save_summaries: Option<Duration>,
}

impl Supervisor {
    /// A supervisor of a model, with TensorFlow's defaults for what is not said.
    pub fn builder(graph: &Graph) -> SupervisorBuilder {
        SupervisorBuilder::new(graph)
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
        *self.session.lock() = Arc::downgrade(&session);
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
        self.open_session_with(master, &OpenOptions { config: self.config.clone(), ..self.open_options() })
    }

    /// What [`Supervisor::open_session`] does if nothing else is said.
    pub fn open_options(&self) -> OpenOptions {
        OpenOptions { config: self.config.clone(), max_wait: self.max_wait, wait_for_checkpoint: false }
    }

    /// Like [`Supervisor::open_session`], with options.
    pub fn open_session_with(&self, master: &str, options: &OpenOptions) -> Result<Arc<Session>> {
        self.coordinator.clear_stop();
        let manager = self.manager.clone().max_wait(options.max_wait);
        let Some(chief) = &self.chief else { return manager.wait_for_session(master, &options.config) };
        if let Some(writer) = &chief.writer {
            writer.reopen()?;
        }
        let init = Initialization { wait_for_checkpoint: options.wait_for_checkpoint, ..self.init.clone() };
        let session = manager.prepare_session(master, &init, &options.config)?;
        self.write_graph()?;
        Ok(session)
    }

    /// Writes the graph to the directory and the event file of a chief, as [`Supervisor::open_session`] does.
    pub fn write_graph(&self) -> Result<()> {
        let Some(chief) = &self.chief else { return Ok(()) };
        if let Some(logdir) = &chief.logdir {
            write_graph(&self.graph, logdir, "graph.pbtxt")?;
        }
        if let Some(writer) = &chief.writer {
            writer.add_graph(&self.graph)?;
            let saver = self.init.saver.as_ref().map(Saver::saver_def);
            writer.add_meta_graph(&meta_graph::with_shapes(&self.graph, saver)?, 0)?;
        }
        Ok(())
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
        if let (Some(writer), Some(_)) = (&chief.writer, &self.counter) {
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
            let (session, writer, counter) = (session.clone(), writer.clone(), self.counter.clone());
            self.coordinator.loop_every("summaries", every, move || {
                let (summary, step) = match &counter {
                    Some(StepCounter { step, .. }) => {
                        let (summary, step) = session.run((&summary_op, step))?;
                        (summary, step_number(&step)?)
                    }
                    None => (session.run(&summary_op)?, 0),
                };
                writer.add_summary(&summary, step)
            })?;
        }
        let Some(StepCounter { step: global_step, tag }) = self.counter.clone() else { return Ok(()) };
        let (session, writer) = (session.clone(), writer.clone());
        let mut last: Option<(Stopwatch, i64)> = None;
        self.coordinator.loop_every("step counter", every, move || {
            let step = step_number(&session.run(&global_step)?)?;
            if let Some((since, last_step)) = last.replace((Stopwatch::start(), step)) {
                let speed = (step - last_step) as f64 / since.elapsed().as_secs_f64();
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
        let global_step = self.counter.as_ref().map(|counter| counter.step.clone());
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
        match &self.counter {
            Some(counter) => step_number(&session.run(&counter.step)?),
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

    /// Stops all threads, waits for them and closes the event file; the error of the first that failed. The session is
    /// closed under threads that do not end by themselves.
    pub fn stop(&self) -> Result<()> {
        let session = self.session.lock().upgrade();
        self.stop_session(session.as_ref())
    }

    /// Stops; a session that is known is closed under threads that do not end by themselves.
    fn stop_session(&self, session: Option<&Arc<Session>>) -> Result<()> {
        let joined = self.stop_threads(session);
        joined.and(self.close_writer())
    }

    /// Closes the event file of a chief, which says that training stopped.
    pub fn close_writer(&self) -> Result<()> {
        match self.summary_writer() {
            Some(writer) if writer.path().is_some() => {
                writer.add_session_log(SessionStatus::Stop, "", 0).and_then(|()| writer.close())
            }
            _ => Ok(()),
        }
    }

    /// Stops all threads and waits for them; the error of the first that failed.
    fn stop_threads(&self, session: Option<&Arc<Session>>) -> Result<()> {
        self.coordinator.request_stop();
        if let Some(session) = session {
            let timeout = CLOSE_TIMEOUT.min(self.stop_grace);
            if !self.coordinator.wait_for_threads(timeout) {
                let _ = session.close();
            }
        }
        self.coordinator.join_within(self.stop_grace)
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
