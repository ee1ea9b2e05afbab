//! [`SessionHook`]: what can watch and extend the steps of a monitored session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tensorfleet_core::{Result, Status, Tensor};
use tensorfleet_proto::tensorflow::RunMetadata;

use crate::coordinator::Coordinator;
use crate::graph::{Graph, IntoTensor, Operation, Output};
use crate::session::{Fetch, Request, Results, Session};

/// Something that happens around the steps of a [`MonitoredSession`](crate::train::MonitoredSession).
///
/// What a hook fetches goes into the same run as what the program asked for. All methods do nothing unless they are
/// written; they are called by the thread that runs the steps.
///
/// ```
/// use tensorfleet::train::{RunArgs, RunContext, RunValues, SessionHook};
/// use tensorfleet::{Output, Result};
///
/// /// Stops when the loss is small enough.
/// struct GoodEnough {
///     loss: Output,
///     limit: f32,
/// }
///
/// impl SessionHook for GoodEnough {
///     fn before_run(&mut self, _: &RunContext) -> Result<RunArgs> {
///         Ok(RunArgs::new().fetch(&self.loss))
///     }
///
///     fn after_run(&mut self, context: &RunContext, values: &RunValues) -> Result<()> {
///         if values.tensor(0)?.to_scalar::<f32>()? < self.limit {
///             context.request_stop();
///         }
///         Ok(())
///     }
/// }
/// ```
#[doc(alias = "SessionRunHook")]
pub trait SessionHook: Send {
    /// Called once, before there is a session: the last chance to add to the graph.
    fn begin(&mut self, graph: &Graph) -> Result<()> {
        let _ = graph;
        Ok(())
    }

    /// Called when there is a session whose model is ready: the first one, and each that replaces one after a failure.
    fn after_create_session(&mut self, session: &Arc<Session>, coordinator: &Coordinator) -> Result<()> {
        let _ = (session, coordinator);
        Ok(())
    }

    /// Called before each run; says what else is to be fed, fetched and run.
    fn before_run(&mut self, context: &RunContext) -> Result<RunArgs> {
        let _ = context;
        Ok(RunArgs::new())
    }

    /// Called after each run that succeeded, with what [`SessionHook::before_run`] asked for.
    fn after_run(&mut self, context: &RunContext, values: &RunValues) -> Result<()> {
        let _ = (context, values);
        Ok(())
    }

    /// Called when the session ends without an error.
    fn end(&mut self, session: &Arc<Session>) -> Result<()> {
        let _ = session;
        Ok(())
    }
}

impl<H: SessionHook + ?Sized> SessionHook for Box<H> {
    fn begin(&mut self, graph: &Graph) -> Result<()> {
        (**self).begin(graph)
    }

    fn after_create_session(&mut self, session: &Arc<Session>, coordinator: &Coordinator) -> Result<()> {
        (**self).after_create_session(session, coordinator)
    }

    fn before_run(&mut self, context: &RunContext) -> Result<RunArgs> {
        (**self).before_run(context)
    }

    fn after_run(&mut self, context: &RunContext, values: &RunValues) -> Result<()> {
        (**self).after_run(context, values)
    }

    fn end(&mut self, session: &Arc<Session>) -> Result<()> {
        (**self).end(session)
    }
}

/// What a hook adds to a run; see the example of [`SessionHook`].
#[doc(alias = "SessionRunArgs")]
#[derive(Clone, Debug, Default)]
#[must_use = "a hook's arguments count only if it returns them"]
pub struct RunArgs {
    pub(crate) fetches: Vec<Output>,
    pub(crate) targets: Vec<Operation>,
    pub(crate) feeds: Vec<(Output, Tensor)>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) is_traced: bool,
    /// The first thing that went wrong, reported before the run.
    pub(crate) error: Option<Status>,
}

impl RunArgs {
    /// Nothing.
    pub fn new() -> RunArgs {
        RunArgs::default()
    }

    /// Fetches a value, which [`RunValues`] gives in the order of these calls.
    pub fn fetch(mut self, output: &Output) -> RunArgs {
        self.fetches.push(output.clone());
        self
    }

    /// Fetches several values.
    pub fn fetch_all<'a>(mut self, outputs: impl IntoIterator<Item = &'a Output>) -> RunArgs {
        self.fetches.extend(outputs.into_iter().cloned());
        self
    }

    /// Runs an operation.
    pub fn target(mut self, operation: &Operation) -> RunArgs {
        self.targets.push(operation.clone());
        self
    }

    /// Gives the run at least this time, if it is limited at all.
    pub fn timeout(mut self, timeout: Duration) -> RunArgs {
        self.timeout = self.timeout.max(Some(timeout));
        self
    }

    /// Records the run; [`RunValues::metadata`] has the record.
    pub fn traced(mut self) -> RunArgs {
        self.is_traced = true;
        self
    }

    /// Feeds `value` in place of `output`. A literal takes the dtype of the output.
    pub fn feed(mut self, output: &Output, value: impl IntoTensor) -> RunArgs {
        match output.adapted(value) {
            Ok(tensor) => self.feeds.push((output.clone(), tensor)),
            Err(status) => self.error = self.error.or(Some(status)),
        }
        self
    }
}

/// What the hook asked for.
impl Fetch for RunArgs {
    type Value = RunValues;

    fn request(&self, request: &mut Request<'_>) -> Result<()> {
        if let Some(status) = &self.error {
            return Err(status.clone());
        }
        self.fetches.iter().try_for_each(|output| request.fetch(output))?;
        self.targets.iter().try_for_each(|operation| request.target(operation))
    }

    fn take(&self, results: &mut Results) -> Result<RunValues> {
        let tensors = self.fetches.iter().map(|_| results.next_tensor()).collect::<Result<_>>()?;
        Ok(RunValues { tensors, metadata: None })
    }
}

/// The tensors that a hook asked for, in the order it did; see the example of [`SessionHook`].
#[doc(alias = "SessionRunValues")]
#[derive(Clone, Debug, Default)]
pub struct RunValues {
    tensors: Vec<Tensor>,
    pub(crate) metadata: Option<Arc<RunMetadata>>,
}

impl RunValues {
    /// All of them.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The record of the run, if somebody asked for it.
    pub fn metadata(&self) -> Option<&RunMetadata> {
        self.metadata.as_deref()
    }

    /// The one that was asked for as number `index`.
    pub fn tensor(&self, index: usize) -> Result<&Tensor> {
        self.tensors.get(index).ok_or_else(|| {
            Status::out_of_range(format!(
                "value {index} of a hook was asked for, but it fetched {}",
                self.tensors.len()
            ))
        })
    }
}

/// The run that a hook is called around; see the example of [`SessionHook`].
#[doc(alias = "SessionRunContext")]
pub struct RunContext {
    session: Arc<Session>,
    is_stop_requested: AtomicBool,
}

impl RunContext {
    pub(crate) fn new(session: Arc<Session>) -> RunContext {
        RunContext { session, is_stop_requested: AtomicBool::new(false) }
    }

    /// The session itself; what runs in it does not go through the hooks.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Ends the training loop after this run.
    pub fn request_stop(&self) {
        self.is_stop_requested.store(true, Ordering::Release);
    }

    /// Whether a hook has requested the end.
    pub fn stop_requested(&self) -> bool {
        self.is_stop_requested.load(Ordering::Acquire)
    }
}
