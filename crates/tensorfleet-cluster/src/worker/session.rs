//! [`WorkerSession`]: a master session's share in this task: its graphs, its kernels, its view of the cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tensorfleet_core::clock::Clock;
use tensorfleet_core::{DeviceName, GraphLimits, Result, Status, ensure};
use tensorfleet_kernel::resource::ResourceManager;
use tensorfleet_proto::tensorflow::GraphDef;
use tensorfleet_rpc::Connection;
use tensorfleet_runtime::checked_graph::CheckedGraph;
use tensorfleet_runtime::{CompiledPartition, Kernels, catalogue, compile_partition};

use crate::graph_version;
use crate::peers::Peers;
use crate::worker_api::MasterId;

/// What a session has on this task.
pub(crate) struct WorkerSession {
    pub(super) handle: Arc<str>,
    device: DeviceName,
    pub(super) device_text: Arc<str>,
    /// `/job:ps/replica:0/task:0/`: how the task's devices begin.
    task_prefix: String,
    pub(super) resources: Arc<ResourceManager>,
    peers: Arc<Peers>,
    kernels: Kernels,
    graphs: Mutex<FxHashMap<String, Arc<RegisteredGraph>>>,
    next_graph: AtomicU64,
    pub(super) master: MasterId,
    clock: Clock,
    created: Instant,
    usage: Mutex<Usage>,
}

struct Usage {
    last: Instant,
    connection: Option<Connection>,
}

/// A partition, compiled.
pub(crate) struct RegisteredGraph {
    pub(super) partition: CompiledPartition,
    graph: CheckedGraph,
}

impl RegisteredGraph {
    /// The partition as a graph.
    pub(super) fn to_graph_def(&self) -> GraphDef {
        self.graph.graph().to_graph_def()
    }
}

impl WorkerSession {
    pub(super) fn new(
        handle: &str,
        device: DeviceName,
        resources: Arc<ResourceManager>,
        peers: Arc<Peers>,
        master: MasterId,
        connection: Option<Connection>,
        clock: Clock,
    ) -> WorkerSession {
        let now = clock.now();
        WorkerSession {
            handle: handle.into(),
            device_text: device.to_string().into(),
            task_prefix: format!("{}/", device.task_name()),
            device,
            resources,
            peers,
            kernels: Kernels::for_foreign_graphs(),
            graphs: Mutex::default(),
            next_graph: AtomicU64::new(1),
            master,
            clock,
            created: now,
            usage: Mutex::new(Usage { last: now, connection }),
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
    pub(super) fn register(&self, def: GraphDef) -> Result<String> {
        graph_version::check(&def)?;
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
        self.graphs.lock().insert(handle.clone(), Arc::new(RegisteredGraph { partition, graph }));
        Ok(handle)
    }

    /// A partition may only use this task's device, by its full or one of its short names.
    fn check_device(&self, name: &str) -> Result<()> {
        let is_known = name == &*self.device_text
            || matches!(name, "/device:CPU:0" | "CPU:0")
            || (name.starts_with(&self.task_prefix)
                && name.parse::<DeviceName>().is_ok_and(|device| device == self.device));
        ensure!(
            is_known,
            InvalidArgument,
            "'{name}' is an unknown device: this task has {}",
            self.device_text
        );
        Ok(())
    }

    pub(super) fn graph(&self, handle: &str) -> Result<Arc<RegisteredGraph>> {
        self.graphs.lock().get(handle).cloned().ok_or_else(|| {
            Status::aborted(format!(
                "Graph handle is not found: {handle}. Possibly, this worker ({}) was restarted; create the session anew",
                self.device_text
            ))
        })
    }

    pub(super) fn deregister(&self, handle: &str) -> Result<()> {
        let graph = self.graph(handle)?;
        self.graphs.lock().remove(handle);
        drop(graph);
        Ok(())
    }

    /// Drops graphs and kernels; what belongs to kernels, such as private queues, goes with them.
    pub(super) fn clear(&self) {
        self.graphs.lock().clear();
        self.kernels.clear();
    }

    /// Notes that the session is in use, and by whom.
    pub(super) fn touch(&self, connection: Option<&Connection>) {
        let mut usage = self.usage.lock();
        usage.last = self.clock.now();
        if let Some(connection) = connection {
            usage.connection = Some(connection.clone());
        }
    }

    /// Whether whoever made the session is gone: its connection is closed, and has been for a while.
    pub(super) fn is_orphaned(&self, timeout: Duration) -> bool {
        let usage = self.usage.lock();
        self.clock.since(usage.last) > timeout
            && usage.connection.as_ref().is_some_and(|connection| !connection.is_open())
    }

    pub(crate) fn report(&self) -> WorkerSessionReport {
        WorkerSessionReport {
            handle: self.handle.to_string(),
            graphs: self.graphs.lock().len(),
            age: self.clock.since(self.created),
            idle: self.clock.since(self.usage.lock().last),
            master: self.master.task.clone(),
        }
    }
}

/// A session as `status` shows it.
pub(crate) struct WorkerSessionReport {
    pub(crate) handle: String,
    pub(crate) graphs: usize,
    pub(crate) age: Duration,
    pub(crate) idle: Duration,
    pub(crate) master: String,
}
