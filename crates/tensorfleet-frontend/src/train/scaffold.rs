//! [`Scaffold`]: the parts of a model that supervision needs, with defaults for those not given.

use std::sync::Arc;

use parking_lot::Mutex;
use tensorfleet_core::{Result, Status, Tensor};

use super::saver::Saver;
use super::session_manager::{InitFn, Initialization, SessionManager};
use crate::graph::{Graph, IntoTensor, Operation, Output};
use crate::session::Session;

/// The parts of a model that supervision needs: how it is initialised, when it is ready, how it is saved and summarised.
/// What is not given gets the default of TensorFlow when the session is made. A handle: clones are the same scaffold.
///
/// ```
/// use tensorfleet::Graph;
/// use tensorfleet::train::{MonitoredTrainingSession, Scaffold};
///
/// let g = Graph::new();
/// let v = g.variable("v", 1.0f32);
/// let triple = v.assign(&v * 3.0)?;
/// let scaffold = Scaffold::new().init_fn(move |session| session.run(&triple).map(|_| ()));
/// let mut session = MonitoredTrainingSession::new(&g).scaffold(&scaffold).create()?;
/// assert_eq!(session.run(&v)?.to_scalar::<f32>()?, 3.0);
/// session.close()?;
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone, Default)]
pub struct Scaffold(Arc<Mutex<Parts>>);

#[derive(Clone, Default)]
struct Parts {
    init: Initialization,
    ready_op: Option<Output>,
    ready_for_local_init_op: Option<Output>,
    local_init_op: Option<Operation>,
    local_init_feeds: Vec<(Output, Tensor)>,
    summary_op: Option<Output>,
    manager: Option<SessionManager>,
    /// The first thing that went wrong, reported by `finalize`.
    error: Option<Status>,
}

impl Scaffold {
    /// A scaffold with nothing given yet.
    pub fn new() -> Scaffold {
        Scaffold::default()
    }

    fn with(self, set: impl FnOnce(&mut Parts)) -> Scaffold {
        set(&mut self.0.lock());
        self
    }

    /// Initialises the model if there is no checkpoint; all global variables' initialisers, if nothing is said.
    pub fn init_op(self, init_op: &Operation) -> Scaffold {
        self.with(|parts| parts.init.init_op = Some(init_op.clone()))
    }

    /// Fed to the init operation.
    pub fn init_feed(self, output: &Output, value: impl IntoTensor) -> Scaffold {
        self.with(|parts| match value.into_tensor().0 {
            Ok(tensor) => parts.init.init_feeds.push((output.clone(), tensor)),
            Err(status) => parts.error = parts.error.take().or(Some(status)),
        })
    }

    /// Called after the init operation.
    pub fn init_fn(self, init_fn: impl Fn(&Arc<Session>) -> Result<()> + Send + Sync + 'static) -> Scaffold {
        let init_fn: InitFn = Arc::new(init_fn);
        self.with(|parts| parts.init.init_fn = Some(init_fn))
    }

    /// Gives the names of what is not ready; uninitialised variables, if nothing is said.
    pub fn ready_op(self, ready_op: &Output) -> Scaffold {
        self.with(|parts| parts.ready_op = Some(ready_op.clone()))
    }

    /// Gives the names of what the local initialisation has to wait for; uninitialised global variables, if nothing is
    /// said.
    pub fn ready_for_local_init_op(self, ready_op: &Output) -> Scaffold {
        self.with(|parts| parts.ready_for_local_init_op = Some(ready_op.clone()))
    }

    /// Initialises what belongs to this process; all local variables' initialisers, if nothing is said.
    pub fn local_init_op(self, local_init_op: &Operation) -> Scaffold {
        self.with(|parts| parts.local_init_op = Some(local_init_op.clone()))
    }

    /// Saves and restores the model; a sharded saver of all variables, if nothing is said.
    pub fn saver(self, saver: &Saver) -> Scaffold {
        self.with(|parts| parts.init.saver = Some(saver.clone()))
    }

    /// The summaries to record; all of the graph merged, if nothing is said.
    pub fn summary_op(self, summary_op: &Output) -> Scaffold {
        self.with(|parts| parts.summary_op = Some(summary_op.clone()))
    }

    /// Initialises variables even if they all have values and there is no checkpoint, as TensorFlow does.
    pub fn overwrite(self) -> Scaffold {
        self.with(|parts| parts.init.overwrite = true)
    }

    /// Builds what was not given. Happens by itself when a session is made; once.
    pub fn finalize(&self, graph: &Graph) -> Result<()> {
        let mut parts = self.0.lock();
        if parts.manager.is_some() {
            return Ok(());
        }
        if let Some(status) = &parts.error {
            return Err(status.clone());
        }
        if parts.init.init_op.is_none() {
            parts.init.init_op = Some(graph.global_variables_initializer()?);
        }
        if parts.ready_op.is_none() {
            parts.ready_op = Some(graph.report_uninitialized_variables()?);
        }
        if parts.ready_for_local_init_op.is_none() {
            let globals = graph.global_variables();
            parts.ready_for_local_init_op = Some(graph.report_uninitialized_variables_of(&globals)?);
        }
        if parts.local_init_op.is_none() {
            parts.local_init_op = Some(graph.local_variables_initializer()?);
        }
        if parts.summary_op.is_none() {
            parts.summary_op = graph.merge_all_summaries()?;
        }
        if parts.init.saver.is_none() && !graph.global_variables().is_empty() {
            // As in TensorFlow, each parameter server writes its own part.
            parts.init.saver = Some(Saver::builder(graph).sharded(true).build()?);
        }
        let manager = SessionManager::with_ready_op(graph, parts.ready_op.clone())
            .ready_for_local_init_op(parts.ready_for_local_init_op.clone())
            .local_init_op(parts.local_init_op.clone())
            .local_init_feeds(parts.local_init_feeds.clone());
        parts.manager = Some(manager);
        Ok(())
    }

    pub(crate) fn manager(&self, graph: &Graph) -> Result<SessionManager> {
        self.finalize(graph)?;
        match self.0.lock().manager.clone() {
            Some(manager) => Ok(manager),
            None => SessionManager::new(graph),
        }
    }

    pub(crate) fn initialization(&self) -> Initialization {
        self.0.lock().init.clone()
    }

    /// The saver, once there is one.
    pub fn get_saver(&self) -> Option<Saver> {
        self.0.lock().init.saver.clone()
    }

    /// The summaries to record, if there are any.
    pub fn get_summary_op(&self) -> Option<Output> {
        self.0.lock().summary_op.clone()
    }
}
