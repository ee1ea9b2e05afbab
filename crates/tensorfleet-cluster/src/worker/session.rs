//! [`WorkerSession`]: a master session's share in this task: its graphs, its kernels, its view of the cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use tensorfleet_core::clock::Clock;
use tensorfleet_core::{DeviceName, GraphLimits, Result, Status, ensure};
use tensorfleet_kernel::kernel::{SessionContext, StepOrigin};
use tensorfleet_kernel::resource::ResourceManager;
use tensorfleet_proto::tensorflow::GraphDef;
use tensorfleet_rpc::{Connection, ConnectionId, Origin};
use tensorfleet_runtime::checked_graph::CheckedGraph;
use tensorfleet_runtime::{
    CompiledPartition, Kernels, SharedConstants, catalogue, compile_partition, constant_places,
};
use tensorfleet_threads::Threads;

use crate::client_id::ClientId;
use crate::graph_version;
use crate::peers::Peers;
use crate::users::{Patience, Presence, Users};
use crate::worker::nameless_graphs::NamelessGraph;
use crate::worker_api::{MasterId, NewWorkerSession};

/// How long a session is kept whose master is gone. A master that lives tells when a session ends, so there is no hurry
/// unless it is dead; and one that has lost a connection may have nothing to say for a while.
pub(super) const PATIENCE: Patience = Patience {
    after_closing: Duration::from_secs(30),
    after_silence: Duration::from_secs(30),
    after_own_closing: Duration::from_secs(300),
};

/// How a session came about, which says how it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Birth {
    /// A master made it and deletes it: `CreateWorkerSession`.
    Made,
    /// A graph was registered under its handle. TensorFlow's masters make no worker sessions unless they have to; the
    /// state of their kernels is kept by the handle of the session for as long as one of its graphs is registered.
    OfGraphs,
    /// The same without a handle: its graphs are those that a connection has registered under none.
    Nameless,
}

/// Counts the uses of nameless graphs, to tell which was used least recently.
static USES: AtomicU64 = AtomicU64::new(0);

/// The task as a session sees it.
pub(super) struct View {
    pub(super) device: DeviceName,
    pub(super) resources: Arc<ResourceManager>,
    pub(super) threads: Arc<Threads>,
    pub(super) peers: Arc<Peers>,
}

/// What a session has on this task.
pub(crate) struct WorkerSession {
    pub(super) handle: Arc<str>,
    device: DeviceName,
    /// What its steps share. What kernels do between steps is paused while the user is away.
    pub(super) context: Arc<SessionContext>,
    /// `/job:ps/replica:0/task:0/`: how the task's devices begin.
    task_prefix: String,
    peers: Arc<Peers>,
    kernels: Kernels,
    graphs: Mutex<FxHashMap<String, Arc<RegisteredGraph>>>,
    next_graph: AtomicU64,
    /// Whose share it counts to; nobody's, if its master is in this process.
    pub(super) owner: Option<Origin>,
    pub(super) master: MasterId,
    /// Whose session it is, if the client has said so.
    pub(super) client: Option<ClientId>,
    /// Set before its steps are cancelled: one that begins in this very moment ends by itself.
    is_over: AtomicBool,
    pub(super) birth: Birth,
    /// Graphs that are being compiled: the session must not be taken for one without graphs.
    registering: AtomicUsize,
    clock: Clock,
    created: Instant,
    users: Users,
}

/// A partition, compiled.
pub(crate) struct RegisteredGraph {
    pub(super) partition: CompiledPartition,
    graph: CheckedGraph,
    /// Where its large constants are, and their lengths.
    constants: Vec<(usize, usize)>,
    /// The number of its last use, if it is nameless.
    last_use: AtomicU64,
}

impl RegisteredGraph {
    fn note_use(&self) {
        self.last_use.store(USES.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The partition as a graph.
    pub(super) fn to_graph_def(&self) -> GraphDef {
        self.graph.graph().to_graph_def()
    }
}

impl WorkerSession {
    /// The session that `new` describes, on this device, with these resources, threads and peers.
    pub(super) fn new(
        new: NewWorkerSession,
        View { device, resources, threads, peers }: View,
        birth: Birth,
        clock: Clock,
    ) -> WorkerSession {
        let NewWorkerSession { handle, master, client, connection, .. } = new;
        let handle: Arc<str> = handle.into();
        let origin = StepOrigin {
            owner: master.task.as_str().into(),
            incarnation: master.incarnation as u64,
            session: handle.clone(),
        };
        let context = SessionContext {
            origin: Arc::new(origin),
            device: device.to_string().into(),
            resources,
            threads,
            background: Arc::default(),
        };
        WorkerSession {
            handle,
            context: Arc::new(context),
            task_prefix: format!("{}/", device.task_name()),
            device,
            peers,
            kernels: Kernels::for_foreign_graphs(),
            graphs: Mutex::default(),
            next_graph: AtomicU64::new(1),
            owner: connection.as_ref().map(Connection::origin),
            master,
            client,
            is_over: AtomicBool::new(false),
            birth,
            registering: AtomicUsize::new(0),
            created: clock.now(),
            users: Users::new(connection, PATIENCE, clock.clone()),
            clock,
        }
    }

    /// Whether a device is one of this task.
    pub(super) fn is_own(&self, device: &DeviceName) -> bool {
        let task = |device: &DeviceName| (device.task, device.replica);
        task(device) == task(&self.device) && device.job == self.device.job
    }

    pub(super) fn peers(&self) -> &Arc<Peers> {
        &self.peers
    }

    /// Compiles a partition and gives its handle.
    pub(super) fn register(&self, mut def: GraphDef, constants: &SharedConstants) -> Result<String> {
        graph_version::check(&def)?;
        constants.share(&mut def)?;
        for node in &def.node {
            self.check_device(&node.device)
                .map_err(|status| status.at_node(&node.name, &node.op, &node.device))?;
        }
        let mut graph = CheckedGraph::new(catalogue::linked());
        graph.extend(def, &GraphLimits::default())?;
        let partition = compile_partition(graph.graph(), graph.catalogue(), &self.kernels)?;
        ensure!(
            !partition.has_arguments_or_results(),
            InvalidArgument,
            "a registered graph takes its inputs from the rendezvous: it may not contain _Arg and _Retval"
        );
        let handle = format!("{:016x}", self.next_graph.fetch_add(1, Ordering::Relaxed));
        let constants = constant_places(graph.graph());
        let registered = RegisteredGraph { partition, graph, constants, last_use: AtomicU64::new(0) };
        registered.note_use();
        self.graphs.lock().insert(handle.clone(), Arc::new(registered));
        Ok(handle)
    }

    /// A partition may only use this task's device, by its full or one of its short names.
    fn check_device(&self, name: &str) -> Result<()> {
        let is_known = name == &*self.context.device
            || matches!(name, "/device:CPU:0" | "CPU:0")
            || (name.starts_with(&self.task_prefix)
                && name.parse::<DeviceName>().is_ok_and(|device| device == self.device));
        ensure!(
            is_known,
            InvalidArgument,
            "'{name}' is an unknown device: this task has {}",
            self.context.device
        );
        Ok(())
    }

    pub(super) fn graph(&self, handle: &str) -> Result<Arc<RegisteredGraph>> {
        let graph = self.graphs.lock().get(handle).cloned().ok_or_else(|| {
            Status::aborted(format!(
                "Graph handle is not found: {handle}. Possibly, this worker ({}) was restarted; create the session anew",
                self.context.device
            ))
        })?;
        if self.birth == Birth::Nameless {
            graph.note_use();
        }
        Ok(graph)
    }

    pub(super) fn deregister(&self, handle: &str) -> Result<()> {
        let graph = self.graph(handle)?;
        self.graphs.lock().remove(handle);
        drop(graph);
        if self.birth == Birth::Nameless {
            // No graph to come can mean one of these: between graphs there is no session that would keep it.
            self.kernels.forget_unused();
        }
        Ok(())
    }

    /// Its graphs, by handle.
    pub(super) fn nameless_graphs(self: &Arc<Self>) -> Vec<NamelessGraph<(Arc<WorkerSession>, String)>> {
        let graphs = self.graphs.lock();
        let nameless = |(handle, graph): (&String, &Arc<RegisteredGraph>)| NamelessGraph {
            graph: (self.clone(), handle.clone()),
            last_use: graph.last_use.load(Ordering::Relaxed),
            bytes: graph.graph.charged_bytes(),
            constants: graph.constants.clone(),
        };
        graphs.iter().map(nameless).collect()
    }

    /// Lets no step begin any more.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Announces a graph that is about to be registered, for as long as what this gives lives.
    pub(super) fn expect_graph(self: &Arc<Self>) -> ExpectedGraph {
        self.registering.fetch_add(1, Ordering::Relaxed);
        ExpectedGraph(self.clone())
    }

    /// Whether it came about for its graphs, and none is left or about to come. Asked, like graphs are announced, under the
    /// lock of the table of sessions.
    pub(super) fn has_outlived_its_graphs(&self) -> bool {
        self.birth != Birth::Made
            && self.registering.load(Ordering::Relaxed) == 0
            && self.graphs.lock().is_empty()
    }

    /// Drops graphs and kernels; what belongs to kernels, such as private queues, goes with them.
    pub(super) fn clear(&self) {
        self.graphs.lock().clear();
        self.kernels.clear();
    }

    /// Notes that the session is in use, and by whom.
    pub(super) fn touch(&self, connection: Option<&Connection>) {
        self.users.touch(connection);
        self.context.background.resume();
    }

    /// The connections of its master.
    pub(super) fn connections(&self) -> Vec<ConnectionId> {
        self.users.connections()
    }

    /// How many kernels are kept from graph to graph.
    #[cfg(test)]
    pub(super) fn num_kernels(&self) -> usize {
        self.kernels.len()
    }

    /// Looks whether its master is there.
    pub(super) fn look(&self) -> Presence {
        self.users.look()
    }

    pub(crate) fn report(&self) -> WorkerSessionReport {
        let (graphs, constants): (usize, FxHashSet<(usize, usize)>) = {
            let graphs = self.graphs.lock();
            (graphs.len(), graphs.values().flat_map(|graph| graph.constants.iter().copied()).collect())
        };
        WorkerSessionReport {
            handle: self.handle.to_string(),
            graphs,
            constant_bytes: constants.iter().map(|(_, bytes)| bytes).sum(),
            age: self.clock.since(self.created),
            idle: self.users.idle(),
            master: self.master.task.clone(),
            orphaned: self.users.gone_for(),
        }
    }
}

/// A session as `status` shows it.
pub(crate) struct WorkerSessionReport {
    pub(crate) handle: String,
    pub(crate) graphs: usize,
    /// What the constants of its graphs take together.
    pub(crate) constant_bytes: usize,
    pub(crate) age: Duration,
    pub(crate) idle: Duration,
    pub(crate) master: String,
    /// How long its master has been gone, if it is.
    pub(crate) orphaned: Option<Duration>,
}

/// A graph that a session is about to get.
pub(super) struct ExpectedGraph(Arc<WorkerSession>);

impl ExpectedGraph {
    /// The session.
    pub(super) fn session(&self) -> &WorkerSession {
        &self.0
    }
}

impl Drop for ExpectedGraph {
    fn drop(&mut self) {
        self.0.registering.fetch_sub(1, Ordering::Relaxed);
    }
}
