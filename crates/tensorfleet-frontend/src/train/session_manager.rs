//! [`SessionManager`]: opens sessions whose model is ready.
//!
//! One task, the chief, makes the model ready: it restores the newest checkpoint, or initialises the variables if there is
//! none. All others wait until it has. TensorFlow's manager is the model of this one; it differs in five points:
//!
//! - Who waits keeps its session and polls with it, soon at first. TensorFlow opens a session per poll and sleeps 30 seconds
//!   in between, so that short jobs are over before a worker wakes up.
//! - Waiting says what for, since when, until when and who must act.
//! - A chief that finds a model on the parameter servers that is at least as new as its checkpoint keeps it: it has been away while
//!   the others trained on ([`LivingModel`]).
//! - A chief that finds no checkpoint, but variables that all have values, takes them as they are: it has been restarted
//!   while the parameter servers lived on, and initialising would throw away everybody's work. (If some have values
//!   and some do not, the model is lost, and it is initialised as a whole.) [`Initialization::overwrite`] asks for the
//!   behaviour of TensorFlow, which always initialises.
//! - A newest checkpoint that is damaged is passed over for the one before it, and a damaged state file for what is in its
//!   directory, with a warning.

use std::sync::Arc;
use std::time::Duration;

use tensorfleet_core::{Code, Result, Status, Tensor, notice};

use super::backoff::Backoff;
use super::checkpoint_state::{
    Candidate, Candidates, STATE_FILE, checkpoint_exists, missing, unnamed_checkpoints,
};
use super::living_model::LivingModel;
use super::saver::Saver;
use crate::checkpoint::CheckpointReader;
use crate::graph::{Graph, Operation, Output};
use crate::listing::listed;
use crate::session::{Session, SessionOptions};

/// The longest time between two checks of a model that is not ready, as in TensorFlow.
pub(crate) const RECOVERY_WAIT: Duration = Duration::from_secs(30);
/// How long to wait for a model to become ready, as in TensorFlow.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(7200);

/// How long a check of a model may take before its tasks count as stuck.
const READINESS_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection that has less time than this is no news about the cluster when it fails.
const SHORTEST_CONNECT: Duration = Duration::from_secs(1);

/// A function that initialises what an operation cannot; see [`Initialization`].
pub type InitFn = Arc<dyn Fn(&Arc<Session>) -> Result<()> + Send + Sync>;

/// How a chief makes a model ready; see [`SessionManager::prepare_session`].
#[derive(Clone, Default)]
pub struct Initialization {
    /// Run if there is no checkpoint.
    pub init_op: Option<Operation>,
    /// Fed to `init_op`.
    pub init_feeds: Vec<(Output, Tensor)>,
    /// Called after `init_op`.
    pub init_fn: Option<InitFn>,
    /// Restores the newest checkpoint.
    pub saver: Option<Saver>,
    /// Where checkpoints are.
    pub checkpoint_dir: Option<String>,
    /// A checkpoint to restore instead of the newest one of the directory.
    pub checkpoint_filename_with_path: Option<String>,
    /// Waits for a checkpoint to appear instead of initialising.
    pub wait_for_checkpoint: bool,
    /// Restores or initialises even variables that have values, as TensorFlow does.
    pub overwrite: bool,
}

/// Opens sessions whose model is ready.
///
/// ```
/// use tensorfleet::train::{Initialization, SessionManager};
/// use tensorfleet::{Graph, SessionOptions};
///
/// let g = Graph::new();
/// let v = g.variable("v", 2.0f32);
/// let init_op = g.global_variables_initializer()?;
/// let manager = SessionManager::new(&g)?;
/// let init = Initialization { init_op: Some(init_op), ..Initialization::default() };
/// let session = manager.prepare_session("", &init, &SessionOptions::default())?;
/// assert_eq!(session.run(&v)?.to_scalar::<f32>()?, 2.0);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone)]
pub struct SessionManager {
    graph: Graph,
    ready_op: Option<Output>,
    ready_for_local_init_op: Option<Output>,
    local_init_op: Option<Operation>,
    local_init_feeds: Vec<(Output, Tensor)>,
    recovery_wait: Duration,
    max_wait: Duration,
}

impl SessionManager {
    /// A manager of a model that is ready when all its variables are initialised.
    pub fn new(graph: &Graph) -> Result<SessionManager> {
        let ready = graph.report_uninitialized_variables()?;
        Ok(SessionManager::with_ready_op(graph, Some(ready)))
    }

    /// A manager of a model that is ready when `ready_op` gives no name; always, if there is none.
    pub fn with_ready_op(graph: &Graph, ready_op: Option<Output>) -> SessionManager {
        SessionManager {
            graph: graph.clone(),
            ready_op,
            ready_for_local_init_op: None,
            local_init_op: None,
            local_init_feeds: Vec::new(),
            recovery_wait: RECOVERY_WAIT,
            max_wait: MAX_WAIT,
        }
    }

    /// Gives the names of what must be ready before the local initialisation may run.
    pub fn ready_for_local_init_op(mut self, ready: Option<Output>) -> SessionManager {
        self.ready_for_local_init_op = ready;
        self
    }

    /// Run in every new session: it initialises what belongs to this process alone.
    pub fn local_init_op(mut self, local_init: Option<Operation>) -> SessionManager {
        self.local_init_op = local_init;
        self
    }

    /// Fed to the local initialisation.
    pub fn local_init_feeds(mut self, feeds: Vec<(Output, Tensor)>) -> SessionManager {
        self.local_init_feeds = feeds;
        self
    }

    /// The longest time between two checks of a model that is not ready; 30 seconds if nothing is said. The first looks
    /// come much sooner.
    pub fn recovery_wait(mut self, wait: Duration) -> SessionManager {
        self.recovery_wait = wait;
        self
    }

    /// How long to wait for a model, or a checkpoint; two hours if nothing is said.
    pub fn max_wait(mut self, wait: Duration) -> SessionManager {
        self.max_wait = wait;
        self
    }

    /// A session of the chief, which makes the model ready: restored from the newest checkpoint, or initialised.
    pub fn prepare_session(
        &self,
        master: &str,
        init: &Initialization,
        options: &SessionOptions,
    ) -> Result<Arc<Session>> {
        let session = self.connect(master, options)?;
        let living = || LivingModel::find(&self.graph, master, options);
        let restored = self.restore(&session, init, &living)?;
        if matches!(restored, Restored::Nothing) {
            self.initialize(&session, init, &living)?;
        }
        let origin = || match &restored {
            Restored::From(path) => format!("restoring {path}"),
            Restored::Living => "keeping the living model".to_string(),
            Restored::Nothing => "the init operation".to_string(),
        };
        let ready = match self.try_local_init(&session)? {
            Readiness::Ready => self.readiness(&session, self.ready_op.as_ref())?,
            not_ready => not_ready,
        };
        match ready {
            Readiness::Ready => Ok(session),
            Readiness::NotReady(why) => Err(Status::failed_precondition(format!(
                "Init operations did not make model ready: after {} {why}. Initialise them in the init operation, or make \
                 them local variables",
                origin()
            ))),
        }
    }

    /// A session restored from the newest checkpoint, and whether it is ready; without a checkpoint, a session as it is.
    pub fn recover_session(
        &self,
        master: &str,
        init: &Initialization,
        options: &SessionOptions,
    ) -> Result<(Arc<Session>, bool)> {
        let session = self.connect(master, options)?;
        let restored = self.restore(&session, init, &|| LivingModel::find(&self.graph, master, options))?;
        let local = self.try_local_init(&session)?;
        let path = match restored {
            Restored::From(path) => path,
            Restored::Living => "the living model".to_string(),
            Restored::Nothing => return Ok((session, false)),
        };
        let ready = match local {
            Readiness::Ready => self.readiness(&session, self.ready_op.as_ref())?,
            not_ready => not_ready,
        };
        if let Readiness::NotReady(why) = &ready {
            notice::warn(format!("restoring {path} did not make the model ready: {why}"));
        }
        Ok((session, matches!(ready, Readiness::Ready)))
    }

    /// A session of a task that is not the chief: waits until the chief has made the model ready.
    pub fn wait_for_session(&self, master: &str, options: &SessionOptions) -> Result<Arc<Session>> {
        let mut backoff = Backoff::new(self.max_wait, self.recovery_wait);
        let mut session: Option<Arc<Session>> = None;
        let mut lost: Option<Status> = None;
        loop {
            let is_short = backoff.remaining() < SHORTEST_CONNECT;
            let why = match self.check_ready(&mut session, master, options, &backoff) {
                Ok(Readiness::Ready) => {
                    if let Some(session) = session {
                        return Ok(session);
                    }
                    "no session".to_string()
                }
                Ok(Readiness::NotReady(why)) => {
                    lost = None;
                    why
                }
                Err(error) if is_preemption(&error) || error.code() == Code::DeadlineExceeded => {
                    // A session that has lost a task stays broken.
                    if let Some(broken) = session.take() {
                        let _ = broken.close();
                    }
                    let error = lost.take().filter(|_| is_short).unwrap_or(error);
                    let why = format!("the cluster is not complete: {}", error.text());
                    lost = Some(error);
                    why
                }
                Err(error) => return Err(error),
            };
            // Who has not even reached the cluster says just that.
            backoff.pause_after(lost.as_ref(), || {
                format!(
                    "the model to be ready; the chief must initialise or restore it, and has not yet: {why}"
                )
            })?;
        }
    }

    /// Checks the model once, in the session there is or in a new one.
    fn check_ready(
        &self,
        session: &mut Option<Arc<Session>>,
        master: &str,
        options: &SessionOptions,
        backoff: &Backoff,
    ) -> Result<Readiness> {
        let session = match session {
            Some(session) => session,
            None => {
                let connect_timeout = options.connect_timeout.min(backoff.remaining());
                let options = SessionOptions { connect_timeout, ..options.clone() };
                session.insert(self.connect(master, &options)?)
            }
        };
        match self.try_local_init(session)? {
            Readiness::Ready => self.readiness(session, self.ready_op.as_ref()),
            not_ready => Ok(not_ready),
        }
    }

    fn connect(&self, master: &str, options: &SessionOptions) -> Result<Arc<Session>> {
        Ok(Arc::new(Session::connect_with(master, &self.graph, options.clone())?))
    }

    /// Restores the newest checkpoint that can be, unless the model that is there is as new.
    fn restore(&self, session: &Session, init: &Initialization, living: FindModel<'_>) -> Result<Restored> {
        let Some(saver) = &init.saver else { return Ok(Restored::Nothing) };
        if let Some(path) = &init.checkpoint_filename_with_path {
            saver.restore(session, path)?;
            return Ok(Restored::From(path.clone()));
        }
        let Some(dir) = &init.checkpoint_dir else { return Ok(Restored::Nothing) };
        let mut backoff = Backoff::new(self.max_wait, self.recovery_wait);
        let mut candidates = loop {
            match Candidates::of(dir, STATE_FILE)? {
                Some(candidates) => break candidates,
                None if init.wait_for_checkpoint => backoff.pause(|| format!("a checkpoint in {dir}"))?,
                None => {
                    unnamed_checkpoints(dir).into_iter().for_each(notice::warn);
                    return Ok(Restored::Nothing);
                }
            }
        };
        if !init.overwrite
            && let Some(model) = living()?
            && model.is_newest(&candidates)
        {
            saver.recover_last_checkpoints(&candidates.own());
            return Ok(Restored::Living);
        }
        while let Some(Candidate { path, is_named }) = candidates.next() {
            match restore_from(saver, session, &path) {
                Ok(()) => {
                    candidates.warning(Some(&path)).into_iter().for_each(notice::warn);
                    notice::info(format!("Restoring parameters from {path}"));
                    saver.recover_last_checkpoints(&candidates.own());
                    return Ok(Restored::From(path));
                }
                // What nobody has named may be of another model.
                Err(error) if is_damage(&error, &path) || (!is_named && !is_preemption(&error)) => {
                    candidates.pass_over(path, error);
                }
                Err(error) => return Err(error),
            }
        }
        match candidates.failure() {
            Some(error) => Err(error),
            None => {
                candidates.warning(None).into_iter().for_each(notice::warn);
                Ok(Restored::Nothing)
            }
        }
    }

    fn initialize(&self, session: &Arc<Session>, init: &Initialization, living: FindModel<'_>) -> Result<()> {
        if init.init_op.is_none() && init.init_fn.is_none() && self.local_init_op.is_none() {
            return Err(Status::failed_precondition(
                "Model is not initialized and no init_op or init_fn or local_init_op was given",
            ));
        }
        if !init.overwrite && living()?.is_some() {
            notice::warn(
                "no checkpoint was found, but all variables have values: a chief before this one has initialised them, \
                 and they are taken as they are. To start afresh, restart the parameter servers or reset them \
                 (Session::reset)",
            );
            return Ok(());
        }
        if let Some(init_op) = &init.init_op {
            feed_all(session, &init.init_feeds).run(init_op)?;
        }
        match &init.init_fn {
            Some(init_fn) => init_fn(session),
            None => Ok(()),
        }
    }

    fn try_local_init(&self, session: &Session) -> Result<Readiness> {
        let Some(local_init) = &self.local_init_op else { return Ok(Readiness::Ready) };
        let ready = self.readiness(session, self.ready_for_local_init_op.as_ref())?;
        if matches!(ready, Readiness::Ready) {
            feed_all(session, &self.local_init_feeds).run(local_init)?;
        }
        Ok(ready)
    }

    fn readiness(&self, session: &Session, op: Option<&Output>) -> Result<Readiness> {
        let Some(op) = op else { return Ok(Readiness::Ready) };
        let names = match session.step().timeout(READINESS_TIMEOUT).run(op) {
            Ok(names) => names,
            Err(error) if is_uninitialized(&error) => {
                return Ok(Readiness::NotReady(error.text().to_string()));
            }
            Err(error) => return Err(error),
        };
        // As in TensorFlow, an answer that is not a list of names means that all is well.
        match names.as_strings() {
            Ok([]) | Err(_) => Ok(Readiness::Ready),
            Ok(names) => {
                let count = names.len();
                let names: Vec<String> =
                    names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
                Ok(Readiness::NotReady(format!("Variables not initialized ({count}): {}", listed(&names))))
            }
        }
    }
}

/// Whether a run failed because a variable has no value yet. A status has a code and a text, on the wire as well, and the code
/// is that of other mistakes, too; the word is in the texts of this library and of TensorFlow, in either case.
fn is_uninitialized(error: &Status) -> bool {
    error.code() == Code::FailedPrecondition && error.text().contains("ninitialized")
}

/// Looks for the model that the servers have.
type FindModel<'a> = &'a dyn Fn() -> Result<Option<LivingModel>>;

/// Where a model has come from.
enum Restored {
    /// A checkpoint.
    From(String),
    /// It was there, and newer than any checkpoint.
    Living,
    Nothing,
}

enum Readiness {
    Ready,
    NotReady(String),
}

/// Whether an error means that a task of the cluster was lost, so that a new session may help.
pub(crate) fn is_preemption(error: &Status) -> bool {
    matches!(error.code(), Code::Aborted | Code::Unavailable)
}

/// Whether a restore failed because the files of the checkpoint are not whole.
fn is_damage(error: &Status, path: &str) -> bool {
    let has_holes = || CheckpointReader::open(path).and_then(|reader| reader.check_files()).is_err();
    error.code() == Code::DataLoss || (!is_preemption(error) && has_holes())
}

fn restore_from(saver: &Saver, session: &Session, path: &str) -> Result<()> {
    if !checkpoint_exists(path) {
        return Err(missing());
    }
    saver.restore(session, path)
}

fn feed_all<'a>(session: &'a Session, feeds: &[(Output, Tensor)]) -> crate::session::Step<'a> {
    feeds.iter().fold(session.step(), |step, (output, value)| step.feed(output, value))
}
