//! [`Peers`]: how to reach the tasks of a cluster, and [`WorkerInterface`]: a task's worker, wherever it is.
//!
//! A task whose server lives in this process is called directly, and tensors pass by reference; any other through its
//! channel. Which of the two is decided at the start of each step, because servers of one process may start and stop in
//! any order, and nowhere but here.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, future};
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use tensorfleet_core::clock::Clock;
use tensorfleet_core::{DeviceName, Graph, RendezvousKey, Result, Status};
use tensorfleet_kernel::rendezvous::Transfer;
use tensorfleet_proto::tensorflow::DeviceAttributes;
use tensorfleet_rpc::{Channel, ChannelOptions};

use crate::cluster_spec::{ClusterSpec, TaskId};
use crate::local_tasks::LocalTasks;
use crate::status::TaskStatus;
use crate::tasks::Spawner;
use crate::wire::remote_worker::{RemoteWorker, TensorStream};
use crate::worker_api::{NewWorkerSession, RunGraph, RunGraphOutput, SessionRef, Waits, WorkerApi};

/// The tasks of a cluster as one of them sees them.
pub(crate) struct Peers {
    spec: Arc<ClusterSpec>,
    options: ChannelOptions,
    spawner: Spawner,
    clock: Clock,
    local: LocalTasks,
    workers: RwLock<FxHashMap<String, RemoteWorker>>,
}

impl Peers {
    /// The tasks of `spec`, those in `local` called directly, others through channels with these options. What is sent
    /// without waiting for the answer is sent by `spawner`; how long it may be kept back is measured by `clock`.
    pub(crate) fn new(
        spec: Arc<ClusterSpec>,
        options: ChannelOptions,
        spawner: Spawner,
        clock: Clock,
        local: LocalTasks,
    ) -> Peers {
        Peers { spec, options, spawner, clock, local, workers: RwLock::default() }
    }

    /// The tasks of another cluster, called in the same way.
    pub(crate) fn of_cluster(&self, spec: Arc<ClusterSpec>) -> Peers {
        let (options, spawner, clock) = (self.options.clone(), self.spawner.clone(), self.clock.clone());
        Peers::new(spec, options, spawner, clock, self.local.clone())
    }

    /// The cluster.
    pub(crate) fn spec(&self) -> &Arc<ClusterSpec> {
        &self.spec
    }

    /// What starts futures that nobody waits for.
    pub(crate) fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    /// The worker of a task.
    pub(crate) fn worker(&self, task: &TaskId) -> Result<WorkerInterface> {
        self.worker_of(&task.job, task.index)
    }

    /// The worker of the task that a device belongs to.
    pub(crate) fn worker_with_device(&self, device: &DeviceName) -> Result<WorkerInterface> {
        match (&device.job, device.replica, device.task) {
            (Some(job), Some(0), Some(index)) => self.worker_of(job, index),
            _ => Err(Status::invalid_argument(format!("'{device}' does not name a task in full"))),
        }
    }

    fn worker_of(&self, job: &str, index: u32) -> Result<WorkerInterface> {
        let address = self.spec.address(job, index)?;
        match self.local.worker_at(address) {
            Some(worker) => Ok(WorkerInterface::Local(worker, self.spawner.clone())),
            None => self.remote(address).map(WorkerInterface::Remote),
        }
    }

    fn remote(&self, address: &str) -> Result<RemoteWorker> {
        if let Some(worker) = self.workers.read().get(address) {
            return Ok(worker.clone());
        }
        let channel = Channel::new(address, self.options.clone())?;
        let new = RemoteWorker::new(channel, self.spawner.clone(), self.clock.clone());
        Ok(self.workers.write().entry(address.to_string()).or_insert(new).clone())
    }

    /// Bytes sent to and received from other processes.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        let workers = self.workers.read();
        let traffic = workers.values().map(RemoteWorker::traffic);
        traffic.fold((0, 0), |(sent, received), (more_sent, more_received)| {
            (sent + more_sent, received + more_received)
        })
    }
}

/// A task's worker.
#[derive(Clone)]
pub(crate) enum WorkerInterface {
    /// In this process; what takes long is done by the spawner.
    Local(Arc<dyn WorkerApi>, Spawner),
    Remote(RemoteWorker),
}

/// A call whose answer need not be waited for: a worker of this process has done it when it is given, any other when it
/// completes.
pub(crate) type Notification = BoxFuture<'static, Result<()>>;

/// What a task says when a master introduces itself.
pub(crate) struct Introduction {
    pub(crate) devices: Vec<DeviceAttributes>,
    /// The fingerprint of its cluster specification; a worker of this process and a TensorFlow server give none.
    pub(crate) fingerprint: Option<String>,
}

impl WorkerInterface {
    /// Whether its tensors are in this process's memory.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, WorkerInterface::Local(..))
    }

    /// Where it is, for messages to people.
    pub(crate) fn place(&self) -> &str {
        match self {
            WorkerInterface::Local(..) => "this process",
            WorkerInterface::Remote(worker) => worker.address(),
        }
    }

    /// Asks for its devices. `task` and `fingerprint` tell it who asks, and with which cluster in mind.
    pub(crate) async fn get_status(
        &self,
        task: &str,
        fingerprint: &str,
        deadline: Instant,
    ) -> Result<Introduction> {
        match self {
            WorkerInterface::Local(worker, _) => {
                Ok(Introduction { devices: worker.devices(), fingerprint: None })
            }
            WorkerInterface::Remote(worker) => {
                let (devices, fingerprint) = worker.get_status(task, fingerprint, deadline).await?;
                Ok(Introduction { devices, fingerprint })
            }
        }
    }

    /// The status document of a task that has given a fingerprint.
    pub(crate) async fn status_document(&self, deadline: Instant) -> Result<Bytes> {
        match self {
            WorkerInterface::Local(..) => Err(Status::internal("a task of this process tells no status")),
            WorkerInterface::Remote(worker) => worker.status_document(deadline).await,
        }
    }

    pub(crate) async fn create_session(&self, new: NewWorkerSession) -> Result<()> {
        match self {
            WorkerInterface::Local(worker, _) => worker.create_session(new),
            WorkerInterface::Remote(worker) => worker.create_session(new).await,
        }
    }

    pub(crate) fn delete_session(&self, handle: &str) -> Notification {
        match self {
            WorkerInterface::Local(worker, _) => {
                worker.delete_session(handle);
                future::ok(()).boxed()
            }
            WorkerInterface::Remote(worker) => {
                worker.owe_session_end(handle);
                let (worker, handle) = (worker.clone(), handle.to_string());
                async move { worker.delete_session(handle).await }.boxed()
            }
        }
    }

    /// Lets what a session does there between its steps rest until the next one. A TensorFlow server has no such thing.
    pub(crate) fn pause_session(&self, handle: &str) -> Notification {
        match self {
            WorkerInterface::Local(worker, _) => {
                worker.pause_session(handle);
                future::ok(()).boxed()
            }
            WorkerInterface::Remote(worker) => {
                let (worker, handle) = (worker.clone(), handle.to_string());
                async move { worker.pause_session(handle).await }.boxed()
            }
        }
    }

    /// Registers a partition and gives its handle.
    pub(crate) async fn register_graph(&self, session: &str, graph: Graph) -> Result<String> {
        match self {
            WorkerInterface::Local(worker, spawner) => {
                let (worker, session) = (worker.clone(), session.to_string());
                let register =
                    move || worker.register_graph(&SessionRef::local(&session), graph.to_graph_def());
                // Compiling a big graph takes long; other calls must not wait for it.
                spawner.do_long_work("registering a graph", register).await
            }
            WorkerInterface::Remote(worker) => worker.register_graph(session, graph.to_graph_def()).await,
        }
    }

    pub(crate) fn deregister_graph(&self, session: &str, graph: &str) -> Notification {
        match self {
            WorkerInterface::Local(worker, _) => {
                let done = worker.deregister_graph(&SessionRef::local(session), graph);
                future::ready(done).boxed()
            }
            WorkerInterface::Remote(worker) => {
                let worker = worker.clone();
                let (session, graph) = (session.to_string(), graph.to_string());
                async move { worker.deregister_graph(session, graph).await }.boxed()
            }
        }
    }

    /// Runs a partition there. Dropping the future cancels it.
    pub(crate) async fn run_graph(&self, request: RunGraph) -> Result<RunGraphOutput> {
        match self {
            WorkerInterface::Local(worker, _) => worker.run_graph(request).await,
            WorkerInterface::Remote(worker) => worker.run_graph(request).await,
        }
    }

    /// Sees to it that the worker forgets a step, at once if something of it may still run. Does not wait for it.
    pub(crate) fn cleanup_step(&self, step_id: i64, went_well: bool) {
        match self {
            WorkerInterface::Local(worker, _) => worker.cleanup_step(step_id),
            WorkerInterface::Remote(worker) => worker.cleanup_step(step_id, went_well),
        }
    }

    /// Its steps and rounds, and what they wait for; `Unimplemented` if it is a TensorFlow server.
    pub(crate) async fn waits(&self, deadline: Instant) -> Result<Waits> {
        match self {
            WorkerInterface::Local(worker, _) => Ok(worker.waits()),
            WorkerInterface::Remote(worker) => {
                let document = worker.status_document(deadline).await?;
                let status: TaskStatus = serde_json::from_slice(&document)
                    .map_err(|error| Status::internal(format!("its status cannot be read: {error}")))?;
                let incarnation = u64::from_str_radix(&status.incarnation, 16).unwrap_or_default();
                Ok(Waits { incarnation, steps: status.steps, rounds: status.rounds })
            }
        }
    }

    /// Empties containers; without names the default one.
    pub(crate) async fn cleanup_all(&self, containers: &[String]) -> Result<()> {
        match self {
            WorkerInterface::Local(worker, _) => {
                worker.cleanup_all(containers);
                Ok(())
            }
            WorkerInterface::Remote(worker) => worker.cleanup_all(containers).await,
        }
    }

    /// Waits for a tensor of a step there. Dropping the future withdraws the request.
    pub(crate) async fn recv_tensor(&self, step_id: i64, key: &RendezvousKey) -> Result<Transfer> {
        match self {
            WorkerInterface::Local(worker, _) => worker.recv_tensor(step_id, key.clone(), 0).await,
            WorkerInterface::Remote(worker) => worker.recv_tensor(step_id, key).await,
        }
    }

    /// The address of a worker that gives several tensors at once; a worker of this process need not be asked for more
    /// than one, and a TensorFlow server cannot.
    pub(crate) fn batch_address(&self) -> Option<&str> {
        match self {
            WorkerInterface::Local(..) => None,
            WorkerInterface::Remote(worker) => worker.takes_batches().then(|| worker.address()),
        }
    }

    /// Asks for several tensors of a step there; `Unimplemented` if that is not possible. Dropping what it gives withdraws
    /// the request.
    pub(crate) async fn recv_tensors(
        &self,
        step_id: i64,
        keys: impl Iterator<Item = &RendezvousKey>,
    ) -> Result<TensorStream> {
        match self {
            WorkerInterface::Local(..) => {
                Err(Status::unimplemented("a worker of this process gives one tensor at a time"))
            }
            WorkerInterface::Remote(worker) => worker.recv_tensors(step_id, keys).await,
        }
    }
}
