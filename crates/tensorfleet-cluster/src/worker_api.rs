//! What a worker can be asked for: TensorFlow's worker interface, as messages between a master, a worker and its peers.
//!
//! [`WorkerApi`] is the interface as a worker of this process offers it. Whether a task is in this process or in another
//! is known to [`WorkerInterface`](crate::peers::WorkerInterface) alone.

use futures_util::future::BoxFuture;
use tensorfleet_core::{RendezvousKey, Result, Tensor};
use tensorfleet_kernel::rendezvous::Transfer;
use tensorfleet_proto::tensorflow::{DeviceAttributes, GraphDef, ServerDef, StepStats};
use tensorfleet_rpc::Connection;

use crate::client_id::ClientId;
use crate::numbered_request::NumberedRequest;
use crate::status::{RoundStatus, StepStatus};

/// A worker that can be called directly.
pub(crate) trait WorkerApi: Send + Sync {
    /// The task's devices.
    fn devices(&self) -> Vec<DeviceAttributes>;

    /// Makes a session. Making it again changes nothing.
    fn create_session(&self, new: NewWorkerSession) -> Result<()>;

    /// Forgets a session and its graphs, and cancels what it still runs.
    fn delete_session(&self, handle: &str);

    /// Lets what a session does between its steps rest until the next one: its user is away, and may come back.
    fn pause_session(&self, handle: &str);

    /// Compiles a partition and gives its handle. Takes long for a big one.
    fn register_graph(&self, session: &SessionRef<'_>, graph: GraphDef) -> Result<String>;

    /// Forgets a partition.
    fn deregister_graph(&self, session: &SessionRef<'_>, graph: &str) -> Result<()>;

    /// Runs a partition. Dropping the future cancels it.
    fn run_graph(&self, request: RunGraph) -> BoxFuture<'_, Result<RunGraphOutput>>;

    /// Waits for a tensor of a step. Dropping the future withdraws the request.
    fn recv_tensor(
        &self,
        step_id: i64,
        key: RendezvousKey,
        request_id: i64,
    ) -> BoxFuture<'_, Result<Transfer>>;

    /// Forgets a step.
    fn cleanup_step(&self, step_id: i64);

    /// Empties containers; without names the default one.
    fn cleanup_all(&self, containers: &[String]);

    /// Its steps and rounds, and what they wait for.
    fn waits(&self) -> Waits;
}

/// Steps and rounds of a task, and what they wait for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    /// The task's life; zero if it cannot be told.
    pub(crate) incarnation: u64,
    pub(crate) steps: Vec<StepStatus>,
    pub(crate) rounds: Vec<RoundStatus>,
}

/// A master, in one of its lives.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct MasterId {
    /// The task, where the master says so.
    pub(crate) task: String,
    /// The life of the task, where the master says so.
    pub(crate) incarnation: i64,
}

/// What a master says about a session.
#[derive(Clone, Default)]
pub(crate) struct NewWorkerSession {
    pub(crate) handle: String,
    /// The cluster as the session is to see it, if not as the server does.
    pub(crate) server: Option<ServerDef>,
    pub(crate) isolate_state: bool,
    pub(crate) master: MasterId,
    /// Whose session it is, if the client has said so: its earlier ones end.
    pub(crate) client: Option<ClientId>,
    pub(crate) connection: Option<Connection>,
}

/// Names a session: the handle, and whether the master has made a worker session for it.
pub(crate) struct SessionRef<'a> {
    pub(crate) handle: &'a str,
    pub(crate) is_created: bool,
    pub(crate) connection: Option<&'a Connection>,
}

impl SessionRef<'_> {
    /// A session that a master of this process has made.
    pub(crate) fn local(handle: &str) -> SessionRef<'_> {
        SessionRef { handle, is_created: true, connection: None }
    }
}

/// One partition's share of a step.
#[derive(Default)]
pub(crate) struct RunGraph {
    pub(crate) session: String,
    /// Whether the master has made a worker session.
    pub(crate) session_is_created: bool,
    pub(crate) graph: String,
    pub(crate) step_id: i64,
    /// Values to put into the rendezvous before it starts.
    pub(crate) sends: Vec<(RendezvousKey, Tensor)>,
    /// Keys whose values to take out and give back.
    pub(crate) receives: Vec<RendezvousKey>,
    pub(crate) part: Part,
    pub(crate) wants_trace: bool,
    pub(crate) wants_graph: bool,
    pub(crate) request_id: i64,
    /// Its number, if its client repeats runs.
    pub(crate) numbered: Option<NumberedRequest>,
    pub(crate) connection: Option<Connection>,
}

/// How much of a step a `RunGraph` is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Part {
    #[default]
    Whole,
    /// A part of a partial run, and not the last.
    Some,
    Last,
}

/// What running a partition gave.
#[derive(Default)]
pub(crate) struct RunGraphOutput {
    /// Values under the keys asked for, in the order of the request.
    pub(crate) received: Vec<(RendezvousKey, Tensor)>,
    pub(crate) step_stats: Option<StepStats>,
    pub(crate) graphs: Vec<GraphDef>,
}
