//! [`MonitoredSession`]: a session with hooks around its steps, which survives the loss of tasks.

use std::sync::Arc;
use std::time::Duration;

use tensorfleet_core::{Result, Status, Tensor, notice};
use tensorfleet_proto::tensorflow::RunMetadata;

use super::backoff::Backoff;
use super::session_creator::SessionCreator;
use super::session_hook::{RunArgs, RunContext, RunValues, SessionHook};
use super::session_manager::{MAX_WAIT, is_preemption};
use crate::coordinator::{CLOSE_TIMEOUT, Coordinator, STOP_GRACE_PERIOD};
use crate::graph::{Graph, IntoTensor, Output};
use crate::listing::listed;
use crate::session::{Fetch, Session, Step};

/// The longest pause between two attempts to replace a session.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A session with hooks around its steps, for a training loop.
///
/// When a run, or a hook, fails with `Aborted` or `Unavailable`, a task of the cluster was lost. The session is closed and
/// another one made: the chief restores the newest checkpoint, the others wait for it. Hooks are told
/// ([`SessionHook::after_create_session`]), and the run is tried again; to the caller it just took longer. Any other
/// error is returned and leaves the session as it was.
///
/// ```
/// use tensorfleet::Graph;
/// use tensorfleet::train::{ChiefSessionCreator, MonitoredSession, StopAtStepHook};
///
/// let g = Graph::new();
/// let step = g.get_or_create_global_step()?;
/// let train = step.assign_add(1i64)?;
/// let mut session = MonitoredSession::new(ChiefSessionCreator::new(&g), vec![Box::new(StopAtStepHook::last_step(3))])?;
/// while !session.should_stop() {
///     session.run(&train)?;
/// }
/// assert_eq!(session.session()?.run(&step)?.to_scalar::<i64>()?, 3);
/// session.close()?;
/// # Ok::<(), tensorfleet::Status>(())
/// ```
///
/// [`MonitoredSession::close`] ends it and lets hooks finish their work. One that is dropped instead has ended with an
/// error: its threads and its session end, but hooks are not told.
pub struct MonitoredSession {
    creator: Box<dyn SessionCreator>,
    hooks: Vec<Box<dyn SessionHook>>,
    /// Absent after a failure, until there is another one, and after the end.
    current: Option<Current>,
    stop_grace_period: Duration,
    /// How long to try to replace a session.
    max_wait: Duration,
    recovery: Recovery,
    /// Numbers the runs: one that is repeated has the number it had.
    last_run: u64,
}

/// Whether a lost session is replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Recovery {
    Replace,
    Report,
}

struct Current {
    session: Arc<Session>,
    coordinator: Coordinator,
    is_stop_requested: bool,
}

impl MonitoredSession {
    /// Calls the hooks' `begin`, then opens the first session.
    pub fn new(
        creator: impl SessionCreator + 'static,
        hooks: Vec<Box<dyn SessionHook>>,
    ) -> Result<MonitoredSession> {
        MonitoredSession::with_waits(Box::new(creator), hooks, STOP_GRACE_PERIOD, MAX_WAIT)
    }

    /// Like [`MonitoredSession::new`], with another time for threads to end after a stop.
    pub fn with_stop_grace_period(
        creator: Box<dyn SessionCreator>,
        hooks: Vec<Box<dyn SessionHook>>,
        stop_grace_period: Duration,
    ) -> Result<MonitoredSession> {
        MonitoredSession::with_waits(creator, hooks, stop_grace_period, MAX_WAIT)
    }

    /// Like [`MonitoredSession::singular`], with another time for threads to end after a stop.
    pub fn singular_with_stop_grace_period(
        creator: Box<dyn SessionCreator>,
        hooks: Vec<Box<dyn SessionHook>>,
        stop_grace_period: Duration,
    ) -> Result<MonitoredSession> {
        MonitoredSession::open(creator, hooks, stop_grace_period, MAX_WAIT, Recovery::Report)
    }

    /// A session that reports the loss of a task instead of recovering from it.
    pub fn singular(
        creator: impl SessionCreator + 'static,
        hooks: Vec<Box<dyn SessionHook>>,
    ) -> Result<MonitoredSession> {
        MonitoredSession::open(Box::new(creator), hooks, STOP_GRACE_PERIOD, MAX_WAIT, Recovery::Report)
    }

    pub(crate) fn with_waits(
        creator: Box<dyn SessionCreator>,
        hooks: Vec<Box<dyn SessionHook>>,
        stop_grace_period: Duration,
        max_wait: Duration,
    ) -> Result<MonitoredSession> {
        MonitoredSession::open(creator, hooks, stop_grace_period, max_wait, Recovery::Replace)
    }

    fn open(
        creator: Box<dyn SessionCreator>,
        hooks: Vec<Box<dyn SessionHook>>,
        stop_grace_period: Duration,
        max_wait: Duration,
        recovery: Recovery,
    ) -> Result<MonitoredSession> {
        let mut opened = MonitoredSession {
            creator,
            hooks,
            current: None,
            stop_grace_period,
            max_wait,
            recovery,
            last_run: 0,
        };
        let graph = opened.creator.graph().clone();
        opened.hooks.iter_mut().try_for_each(|hook| hook.begin(&graph))?;
        let mut backoff = opened.backoff();
        opened.ensure_session(&mut backoff)?;
        Ok(opened)
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(self.max_wait, LONGEST_PAUSE)
    }

    /// The graph it runs.
    pub fn graph(&self) -> &Graph {
        self.creator.graph()
    }

    /// The session itself; what runs in it does not go through the hooks and is not tried again.
    pub fn session(&self) -> Result<&Arc<Session>> {
        match &self.current {
            Some(current) => Ok(&current.session),
            None => Err(Status::failed_precondition(
                "the session was lost and could not be replaced; the next run tries again",
            )),
        }
    }

    /// Whether the training loop should end: a hook or a thread has asked for it.
    pub fn should_stop(&mut self) -> bool {
        let Some(current) = &self.current else { return false };
        if current.is_stop_requested {
            return true;
        }
        if !current.coordinator.should_stop() {
            return false;
        }
        match current.coordinator.raise_requested_error() {
            // The next run replaces the session.
            Err(error) if self.recovers_from(&error) => false,
            _ => true,
        }
    }

    fn recovers_from(&self, error: &Status) -> bool {
        self.recovery == Recovery::Replace && is_preemption(error)
    }

    /// Runs what `fetch` needs and what hooks ask for, in one run.
    pub fn run<F: Fetch>(&mut self, fetch: F) -> Result<F::Value> {
        self.step().run(fetch)
    }

    /// A run with `value` in place of `output`.
    pub fn feed(&mut self, output: &Output, value: impl IntoTensor) -> MonitoredStep<'_> {
        self.step().feed(output, value)
    }

    /// A run with nothing fed yet.
    pub fn step(&mut self) -> MonitoredStep<'_> {
        MonitoredStep { session: self, feeds: Vec::new(), timeout: None, is_traced: false, error: None }
    }

    /// Runs a step that consists of several runs; the whole step is tried again after the loss of a task.
    ///
    /// ```
    /// # use tensorfleet::Graph;
    /// # use tensorfleet::train::{ChiefSessionCreator, MonitoredSession};
    /// # let g = Graph::new();
    /// # let v = g.variable("v", 1i32);
    /// # let next = v.assign_add(1)?;
    /// let mut session = MonitoredSession::new(ChiefSessionCreator::new(&g), vec![])?;
    /// let sum = session.run_step(|step| {
    ///     let before = step.session().run(&v)?.to_scalar::<i32>()?;
    ///     Ok(before + step.run_with_hooks(&next)?.to_scalar::<i32>()?)
    /// })?;
    /// assert_eq!(sum, 3);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn run_step<R>(&mut self, mut body: impl FnMut(&mut StepContext<'_>) -> Result<R>) -> Result<R> {
        self.recovering(|current, hooks| body(&mut StepContext { current, hooks }))
    }

    /// Runs `body` until the session should stop, then closes it. The end of an input (`OutOfRange`) ends the loop as
    /// well and is no error.
    pub fn train(mut self, mut body: impl FnMut(&mut MonitoredSession) -> Result<()>) -> Result<()> {
        while !self.should_stop() {
            match body(&mut self) {
                Ok(()) => {}
                Err(error) if error.code() == tensorfleet_core::Code::OutOfRange => break,
                Err(error) => return Err(error),
            }
        }
        self.close()
    }

    /// Calls the hooks' `end`, stops the threads and closes the session; the first error of any of these.
    pub fn close(mut self) -> Result<()> {
        let session = self.session()?.clone();
        let mut ended = Ok(());
        for hook in &mut self.hooks {
            // All hooks get the chance to finish their work, also after one that could not.
            ended = ended.and(hook.end(&session));
        }
        ended.and(self.close_current())
    }

    /// Ends it after an error of the program: hooks are not told. The error of the first thread that failed.
    pub fn abandon(mut self) -> Result<()> {
        self.close_current()
    }

    /// Stops the threads and closes the session; the error of the first thread that failed.
    fn close_current(&mut self) -> Result<()> {
        let Some(current) = self.current.take() else { return Ok(()) };
        current.coordinator.request_stop();
        current.coordinator.wait_for_threads(CLOSE_TIMEOUT.min(self.stop_grace_period));
        // What still waits for a queue ends with the session. The servers may be gone, which is no matter here.
        let _ = current.session.close();
        let stragglers = current.coordinator.join_threads(self.stop_grace_period);
        if !stragglers.is_empty() {
            notice::warn(format!("threads still run after the session ended: {}", listed(&stragglers)));
        }
        current.coordinator.raise_requested_error()
    }

    /// Opens a session if there is none, and tells the hooks.
    fn ensure_session(&mut self, backoff: &mut Backoff) -> Result<()> {
        while self.current.is_none() {
            let opened = self.open_session();
            match opened {
                Ok(()) => {}
                Err(error) if self.recovers_from(&error) => {
                    let _ = self.close_current();
                    let what = || format!("a session, which could not be made: {}", error.text());
                    backoff.pause_after(Some(&error), what)?;
                }
                Err(error) => {
                    let _ = self.close_current();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn open_session(&mut self) -> Result<()> {
        let session = self.creator.create_session()?;
        // No error of a thread is a clean end here: the training loop decides.
        let coordinator = Coordinator::with_clean_stop_codes(&[]);
        let current =
            Current { session: session.clone(), coordinator: coordinator.clone(), is_stop_requested: false };
        self.current = Some(current);
        self.graph().clone().start_queue_runners(&session, &coordinator)?;
        self.hooks.iter_mut().try_for_each(|hook| hook.after_create_session(&session, &coordinator))
    }

    /// Does `work`, in other sessions again when tasks are lost.
    fn recovering<R>(
        &mut self,
        mut work: impl FnMut(&mut Current, &mut [Box<dyn SessionHook>]) -> Result<R>,
    ) -> Result<R> {
        let mut backoff = self.backoff();
        loop {
            self.ensure_session(&mut backoff)?;
            let Some(current) = &mut self.current else { continue };
            let error = match work(current, &mut self.hooks) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            // A thread may have noticed the loss first, and this run failed because of that thread's end.
            let cause = match current.coordinator.raise_requested_error() {
                Err(cause) if !is_preemption(&error) && is_preemption(&cause) => cause,
                _ => error,
            };
            if !self.recovers_from(&cause) {
                return Err(cause);
            }
            notice::warn(format!(
                "a run failed, probably because a task of the cluster was lost; the session is closed and another one \
                 made, for at most {} s: {cause}",
                backoff.remaining().as_secs()
            ));
            let _ = self.close_current();
            backoff.pause(|| format!("a session in which the run succeeds: {cause}"))?;
        }
    }
}

impl Drop for MonitoredSession {
    fn drop(&mut self) {
        let _ = self.close_current();
    }
}

/// A run of a [`MonitoredSession`] about to start.
#[must_use = "nothing runs before `run`"]
pub struct MonitoredStep<'a> {
    session: &'a mut MonitoredSession,
    feeds: Vec<(Output, Tensor)>,
    timeout: Option<Duration>,
    is_traced: bool,
    /// The first thing that went wrong, reported by `run`.
    error: Option<Status>,
}

impl MonitoredStep<'_> {
    /// Feeds `value` in place of `output`. A literal takes the dtype of the output.
    pub fn feed(mut self, output: &Output, value: impl IntoTensor) -> Self {
        match output.adapted(value) {
            Ok(tensor) => self.feeds.push((output.clone(), tensor)),
            Err(status) => self.error = self.error.or(Some(status)),
        }
        self
    }

    /// Gives up after this time with `DeadlineExceeded`, or after the longer time that a hook asks for.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Records the run, for the hooks and for [`MonitoredStep::run_recorded`].
    pub fn traced(mut self) -> Self {
        self.is_traced = true;
        self
    }

    /// Runs what `fetch` needs and what hooks ask for, in one run, and gives the values of `fetch`.
    pub fn run<F: Fetch>(self, fetch: F) -> Result<F::Value> {
        self.run_recorded(fetch).map(|(value, _)| value)
    }

    /// Like [`MonitoredStep::run`], with the record of the run if it, or a hook, has asked for one.
    pub fn run_recorded<F: Fetch>(self, fetch: F) -> Result<(F::Value, Option<Arc<RunMetadata>>)> {
        let MonitoredStep { session, feeds, timeout, is_traced, error } = self;
        if let Some(status) = error {
            return Err(status);
        }
        session.last_run += 1;
        let how = How { timeout, is_traced, number: Some(session.last_run) };
        session.recovering(|current, hooks| run_with_hooks(current, hooks, &fetch, &feeds, &how))
    }
}

/// How a run goes, besides what it feeds and fetches.
#[derive(Clone, Copy, Default)]
struct How {
    timeout: Option<Duration>,
    is_traced: bool,
    number: Option<u64>,
}

/// A step of several runs; see [`MonitoredSession::run_step`].
pub struct StepContext<'a> {
    current: &'a mut Current,
    hooks: &'a mut [Box<dyn SessionHook>],
}

impl StepContext<'_> {
    /// The session itself; what runs in it does not go through the hooks.
    pub fn session(&self) -> &Arc<Session> {
        &self.current.session
    }

    /// A run with the hooks.
    pub fn run_with_hooks<F: Fetch>(&mut self, fetch: F) -> Result<F::Value> {
        self.feed_with_hooks(&[], fetch)
    }

    /// A run with the hooks, and with values in place of outputs.
    pub fn feed_with_hooks<F: Fetch>(&mut self, feeds: &[(Output, Tensor)], fetch: F) -> Result<F::Value> {
        run_with_hooks(self.current, self.hooks, &fetch, feeds, &How::default()).map(|(value, _)| value)
    }

    /// Ends the training loop after this step.
    pub fn request_stop(&mut self) {
        self.current.is_stop_requested = true;
    }
}

fn run_with_hooks<F: Fetch>(
    current: &mut Current,
    hooks: &mut [Box<dyn SessionHook>],
    fetch: &F,
    feeds: &[(Output, Tensor)],
    how: &How,
) -> Result<(F::Value, Option<Arc<RunMetadata>>)> {
    if current.is_stop_requested {
        return Err(Status::failed_precondition(
            "Run called even after should_stop requested: ask should_stop before each run",
        ));
    }
    let context = RunContext::new(current.session.clone());
    let args = hooks.iter_mut().map(|hook| hook.before_run(&context)).collect::<Result<Vec<RunArgs>>>()?;
    let mut step = current.session.step();
    if let Some(number) = how.number {
        step = step.number(number);
    }
    if let Some(timeout) = args.iter().map(|args| args.timeout).chain([how.timeout]).max().flatten() {
        step = step.timeout(timeout);
    }
    let mut fed: Vec<&Output> = Vec::new();
    for (output, value) in feeds.iter().chain(args.iter().flat_map(|args| &args.feeds)) {
        step = feed_once(step, &mut fed, output, value)?;
    }
    let is_traced = how.is_traced || args.iter().any(|args| args.is_traced);
    let ((value, mut values), metadata): ((F::Value, Vec<RunValues>), _) = match is_traced {
        true => step.run_traced((fetch, &args)).map(|(values, record)| (values, Some(Arc::new(record))))?,
        false => (step.run((fetch, &args))?, None),
    };
    for (hook, values) in hooks.iter_mut().zip(&mut values) {
        values.metadata.clone_from(&metadata);
        hook.after_run(&context, values)?;
    }
    current.is_stop_requested |= context.stop_requested();
    Ok((value, metadata))
}

fn feed_once<'s, 'f>(
    step: Step<'s>,
    fed: &mut Vec<&'f Output>,
    output: &'f Output,
    value: &Tensor,
) -> Result<Step<'s>> {
    let endpoint = output.endpoint()?;
    if fed.iter().any(|other| other.endpoint() == Ok(endpoint)) {
        return Err(Status::invalid_argument(format!(
            "Same tensor is fed twice, by two hooks or by a hook and the program: {}",
            output.name()
        )));
    }
    fed.push(output);
    Ok(step.feed(output, value))
}
