//! [`SessionCreator`]: how a monitored session gets its sessions, the first one and those after failures.

use std::sync::Arc;
use std::time::Duration;

use tensorfleet_cluster::ClientId;
use tensorfleet_core::Result;

use super::scaffold::Scaffold;
use super::session_manager::{MAX_WAIT, RECOVERY_WAIT};
use crate::graph::Graph;
use crate::session::{Session, SessionOptions};

/// Opens sessions whose model is ready. [`ChiefSessionCreator`] and [`WorkerSessionCreator`] do it for most programs.
///
/// ```
/// use std::sync::Arc;
/// use tensorfleet::train::{MonitoredSession, SessionCreator};
/// use tensorfleet::{Graph, Result, Session};
///
/// /// Sessions of a model without variables: it is always ready.
/// struct Stateless(Graph);
///
/// impl SessionCreator for Stateless {
///     fn graph(&self) -> &Graph {
///         &self.0
///     }
///
///     fn create_session(&mut self) -> Result<Arc<Session>> {
///         Ok(Arc::new(Session::new(&self.0)))
///     }
/// }
///
/// let g = Graph::new();
/// let answer = g.constant(42);
/// let mut session = MonitoredSession::new(Stateless(g.clone()), Vec::new())?;
/// assert_eq!(session.run(&answer)?.to_scalar::<i32>()?, 42);
/// session.close()?;
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub trait SessionCreator: Send {
    /// The graph of the sessions.
    fn graph(&self) -> &Graph;

    /// Opens a session.
    fn create_session(&mut self) -> Result<Arc<Session>>;
}

/// Opens the sessions of the chief: it restores the newest checkpoint, or initialises the model.
///
/// ```
/// use tensorfleet::train::{ChiefSessionCreator, MonitoredSession};
/// # use tensorfleet::Graph;
/// # let directory = tempfile::tempdir().unwrap();
///
/// let g = Graph::new();
/// let v = g.variable("v", 2.0f32);
/// let mut creator = ChiefSessionCreator::new(&g);
/// creator.checkpoint_dir = Some(directory.path().display().to_string());
/// let mut session = MonitoredSession::new(creator, Vec::new())?;
/// assert_eq!(session.run(&v)?.to_scalar::<f32>()?, 2.0); // There is no checkpoint yet.
/// session.close()?;
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone)]
pub struct ChiefSessionCreator {
    graph: Graph,
    /// The parts of the model.
    pub scaffold: Scaffold,
    /// The server to connect to; empty for this process.
    pub master: String,
    /// How sessions behave.
    pub config: SessionOptions,
    /// Where checkpoints are.
    pub checkpoint_dir: Option<String>,
    /// A checkpoint to restore instead of the newest one.
    pub checkpoint_filename_with_path: Option<String>,
    client: Client,
}

impl ChiefSessionCreator {
    /// Sessions in this process, without checkpoints.
    pub fn new(graph: &Graph) -> ChiefSessionCreator {
        ChiefSessionCreator {
            graph: graph.clone(),
            scaffold: Scaffold::new(),
            master: String::new(),
            config: SessionOptions::default(),
            checkpoint_dir: None,
            checkpoint_filename_with_path: None,
            client: Client::new(),
        }
    }
}

impl SessionCreator for ChiefSessionCreator {
    fn graph(&self) -> &Graph {
        &self.graph
    }

    fn create_session(&mut self) -> Result<Arc<Session>> {
        let manager = self.scaffold.manager(&self.graph)?;
        let mut init = self.scaffold.initialization();
        init.checkpoint_dir.clone_from(&self.checkpoint_dir);
        init.checkpoint_filename_with_path.clone_from(&self.checkpoint_filename_with_path);
        manager.prepare_session(&self.master, &init, &next_session(&self.config, &mut self.client))
    }
}

/// Opens the sessions of all other tasks: they wait until the chief has made the model ready.
///
/// ```
/// use tensorfleet::train::{ChiefSessionCreator, SessionCreator, WorkerSessionCreator};
/// use tensorfleet::{Graph, Server};
///
/// let server = Server::local()?;
/// let g = Graph::new();
/// let v = g.variable("v", 2.0f32);
/// let mut chief = ChiefSessionCreator::new(&g);
/// chief.master = server.target();
/// let mut worker = WorkerSessionCreator::new(&g, &server.target());
///
/// chief.create_session()?; // Elsewhere, sooner or later: the worker would wait for it.
/// assert_eq!(worker.create_session()?.run(&v)?.to_scalar::<f32>()?, 2.0);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone)]
pub struct WorkerSessionCreator {
    graph: Graph,
    /// The parts of the model.
    pub scaffold: Scaffold,
    /// The server to connect to; empty for this process.
    pub master: String,
    /// How sessions behave.
    pub config: SessionOptions,
    /// How long to wait for the chief; two hours if nothing is said.
    pub max_wait: Duration,
    /// The longest time between two looks at a model that is not ready; 30 seconds if nothing is said.
    pub recovery_wait: Duration,
    client: Client,
}

impl WorkerSessionCreator {
    /// Sessions on the server `master`.
    pub fn new(graph: &Graph, master: &str) -> WorkerSessionCreator {
        WorkerSessionCreator {
            graph: graph.clone(),
            scaffold: Scaffold::new(),
            master: master.to_string(),
            config: SessionOptions::default(),
            max_wait: MAX_WAIT,
            recovery_wait: RECOVERY_WAIT,
            client: Client::new(),
        }
    }
}

impl SessionCreator for WorkerSessionCreator {
    fn graph(&self) -> &Graph {
        &self.graph
    }

    fn create_session(&mut self) -> Result<Arc<Session>> {
        let manager = self.scaffold.manager(&self.graph)?;
        let manager = manager.max_wait(self.max_wait).recovery_wait(self.recovery_wait);
        manager.wait_for_session(&self.master, &next_session(&self.config, &mut self.client))
    }
}

/// Who the sessions of a creator belong to. A copy of a creator is another client: its sessions stand beside those of the first.
struct Client(ClientId);

impl Client {
    fn new() -> Client {
        Client(ClientId::random())
    }
}

impl Clone for Client {
    fn clone(&self) -> Client {
        Client::new()
    }
}

/// The options of a client's next session, which ends its earlier ones.
fn next_session(config: &SessionOptions, client: &mut Client) -> SessionOptions {
    client.0 = client.0.next();
    SessionOptions { client: Some(client.0), ..config.clone() }
}
