//! [`Worker`]: runs this task's part of other tasks' steps.
//!
//! A master tells it of a session, registers partitions of that session's graphs, and runs them step by step. Peers come
//! for the tensors a step has made here. Nothing is trusted: handles, keys, devices and graphs are checked.

mod awaited;
mod rendezvous;
mod run;
mod session;
mod step_table;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use tensorfleet_core::clock::Clock;
use tensorfleet_core::{DeviceName, RendezvousKey, Result, Status, ensure};
use tensorfleet_kernel::rendezvous::Transfer;
use tensorfleet_kernel::resource::ResourceManager;
use tensorfleet_proto::tensorflow::{DeviceAttributes, GraphDef, ServerDef};
use tensorfleet_runtime::Task;

pub(crate) use session::WorkerSessionReport;
pub(crate) use step_table::{Arrivals, StepReport};

use crate::cluster_spec::ClusterSpec;
use crate::peers::Peers;
use crate::wire::fleet_messages::MAX_KEYS;
use crate::wire::recent_requests::RecentRequests;
use crate::worker_api::{MasterId, NewWorkerSession, RunGraph, RunGraphOutput, SessionRef, WorkerApi};
use session::WorkerSession;
use step_table::StepTable;

/// How many request numbers a worker remembers; as many as TensorFlow's.
const REMEMBERED_REQUESTS: usize = 100_000;
/// Worker sessions at most. A master that leaks them must not exhaust this task.
const MAX_SESSIONS: usize = 10_000;
/// How long a session whose master's connection is closed is kept.
const ORPHAN_TIMEOUT: Duration = Duration::from_secs(60);

/// The worker of one task.
pub(crate) struct Worker {
    task: Arc<Task>,
    peers: Arc<Peers>,
    clock: Clock,
    /// For masters that do not make worker sessions.
    default_session: Arc<WorkerSession>,
    sessions: RwLock<FxHashMap<Arc<str>, Arc<WorkerSession>>>,
    /// How many sessions there have been.
    sessions_made: AtomicU64,
    steps: Arc<StepTable>,
    recent: RecentRequests,
}

impl Worker {
    /// The worker of `task`. How long forgotten things are kept is measured by `clock`.
    pub(crate) fn new(task: Arc<Task>, peers: Arc<Peers>, clock: Clock) -> Worker {
        let session = WorkerSession::new(
            "",
            task.device().clone(),
            task.resources().clone(),
            peers.clone(),
            MasterId::default(),
            None,
            clock.clone(),
        );
        Worker {
            task,
            peers,
            default_session: Arc::new(session),
            sessions: RwLock::default(),
            sessions_made: AtomicU64::new(0),
            steps: Arc::new(StepTable::new(clock.clone())),
            clock,
            recent: RecentRequests::new(REMEMBERED_REQUESTS),
        }
    }

    /// The task it works for.
    pub(crate) fn task(&self) -> &Arc<Task> {
        &self.task
    }

    /// A session's own view of the cluster: this task under another name, and other peers.
    fn view_of(&self, server: &ServerDef) -> Result<(DeviceName, Arc<Peers>)> {
        let cluster = server.cluster.clone().unwrap_or_default();
        let cluster = ClusterSpec::from_cluster_def(&cluster)?;
        let index = u32::try_from(server.task_index)
            .map_err(|_| Status::invalid_argument(format!("task index {} is negative", server.task_index)))?;
        cluster.address(&server.job_name, index)?;
        let device = DeviceName::full(&server.job_name, index, "CPU", 0);
        Ok((device, Arc::new(self.peers.of_cluster(Arc::new(cluster)))))
    }

    /// A restarted master does not know its sessions any more.
    fn drop_earlier_lives(&self, master: &MasterId) {
        if master.task.is_empty() || master.incarnation == 0 {
            return;
        }
        let is_stale = |session: &WorkerSession| {
            session.master.task == master.task && session.master.incarnation != master.incarnation
        };
        let stale: Vec<Arc<str>> = {
            let sessions = self.sessions.read();
            sessions
                .values()
                .filter(|session| is_stale(session))
                .map(|session| session.handle.clone())
                .collect()
        };
        stale.iter().for_each(|handle| self.delete_session(handle));
    }

    fn session(&self, session: &SessionRef<'_>) -> Result<Arc<WorkerSession>> {
        if !session.is_created {
            return Ok(self.default_session.clone());
        }
        let found = self.sessions.read().get(session.handle).cloned().ok_or_else(|| {
            Status::aborted(format!(
                "Session handle is not found: {}. Possibly this worker (\"{}\") just restarted; create the session anew",
                session.handle,
                self.task.device().task_name()
            ))
        })?;
        found.touch(session.connection);
        Ok(found)
    }

    /// Asks for tensors of a step; they come as soon as they are there. Dropping what it gives withdraws the request.
    pub(crate) fn recv_tensors(&self, step_id: i64, keys: Vec<RendezvousKey>) -> Result<Arrivals> {
        ensure!(keys.len() <= MAX_KEYS, InvalidArgument, "{} keys are more than {MAX_KEYS}", keys.len());
        keys.iter().try_for_each(|key| self.check_key(key))?;
        self.steps.receive_all(step_id, keys)
    }

    /// A key is only good here if it names this task's device in its present life.
    fn check_key(&self, key: &RendezvousKey) -> Result<()> {
        let device = key.sender();
        ensure!(
            device.device_type.as_deref() == Some("CPU") && device.index == Some(0),
            InvalidArgument,
            "{device} is an unknown device: this task has {}",
            self.task.device_text()
        );
        ensure!(
            key.incarnation() == self.task.incarnation(),
            Aborted,
            "RecvTensor expects a different device incarnation: {:016x} vs. {:016x}. Your worker job \
             (\"{}\") was probably restarted. Check your worker job for the reason why it was restarted.",
            key.incarnation(),
            self.task.incarnation(),
            self.task.device().task_name()
        );
        Ok(())
    }

    /// Forgets what nobody will come back for.
    pub(crate) fn sweep(&self) {
        self.steps.sweep();
        let orphaned: Vec<Arc<str>> = {
            let sessions = self.sessions.read();
            let orphaned = sessions.values().filter(|session| session.is_orphaned(ORPHAN_TIMEOUT));
            orphaned.map(|session| session.handle.clone()).collect()
        };
        for handle in orphaned {
            tracing::info!(session = &*handle, "forgetting a session whose master is gone");
            self.delete_session(&handle);
        }
    }

    /// Sessions, for `status`.
    pub(crate) fn report_sessions(&self) -> Vec<WorkerSessionReport> {
        self.sessions.read().values().map(|session| session.report()).collect()
    }

    /// Steps, for `status`.
    pub(crate) fn report_steps(&self) -> Vec<StepReport> {
        self.steps.report()
    }

    /// How many sessions there have been.
    pub(crate) fn sessions_made(&self) -> u64 {
        self.sessions_made.load(Ordering::Relaxed)
    }

    /// How many sessions there are.
    pub(crate) fn num_sessions(&self) -> usize {
        self.sessions.read().len()
    }
}

impl WorkerApi for Worker {
    fn devices(&self) -> Vec<DeviceAttributes> {
        vec![self.task.device_attributes()]
    }

    fn create_session(&self, new: NewWorkerSession) -> Result<()> {
        ensure!(!new.handle.is_empty(), InvalidArgument, "a worker session needs a session handle");
        self.drop_earlier_lives(&new.master);
        let (device, peers) = match new.server.as_ref().filter(|server| has_tasks(server)) {
            None => (self.task.device().clone(), self.peers.clone()),
            Some(server) => self.view_of(server)?,
        };
        let resources = match new.isolate_state {
            true => {
                let own = ResourceManager::new(device.job.as_deref().unwrap_or_default());
                Arc::new(own.with_file_access(self.task.resources().file_access().clone()))
            }
            false => self.task.resources().clone(),
        };
        let mut sessions = self.sessions.write();
        ensure!(
            sessions.len() < MAX_SESSIONS,
            ResourceExhausted,
            "this task has {MAX_SESSIONS} worker sessions; close sessions that are not used"
        );
        let session = |handle: &str| {
            let clock = self.clock.clone();
            Arc::new(WorkerSession::new(handle, device, resources, peers, new.master, new.connection, clock))
        };
        sessions.entry(new.handle.as_str().into()).or_insert_with(|| session(&new.handle));
        self.sessions_made.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn delete_session(&self, handle: &str) {
        let session = self.sessions.write().remove(handle);
        if let Some(session) = session {
            let reason = Status::cancelled(format!("Session {handle} was closed"));
            self.steps.cancel_session(handle, &reason);
            session.clear();
        }
    }

    fn register_graph(&self, session: &SessionRef<'_>, graph: GraphDef) -> Result<String> {
        self.session(session)?.register(graph)
    }

    fn deregister_graph(&self, session: &SessionRef<'_>, graph: &str) -> Result<()> {
        self.session(session)?.deregister(graph)
    }

    fn run_graph(&self, request: RunGraph) -> BoxFuture<'_, Result<RunGraphOutput>> {
        let run = async move {
            self.recent.note(request.request_id, "RunGraph")?;
            let session = self.session(&SessionRef {
                handle: &request.session,
                is_created: request.session_is_created,
                connection: request.connection.as_ref(),
            })?;
            let graph = session.graph(&request.graph)?;
            let entry = self.steps.entry(request.step_id)?;
            let (threads, spawner) = (self.task.threads(), self.peers.spawner());
            run::run_graph(threads, session, graph, entry, request, spawner).await
        };
        run.boxed()
    }

    fn recv_tensor(
        &self,
        step_id: i64,
        key: RendezvousKey,
        request_id: i64,
    ) -> BoxFuture<'_, Result<Transfer>> {
        let receive = async move {
            self.recent.note(request_id, "RecvTensor")?;
            self.check_key(&key)?;
            self.steps.receive(step_id, key).await
        };
        receive.boxed()
    }

    fn cleanup_step(&self, step_id: i64) {
        self.steps.remove(step_id);
    }

    fn cleanup_all(&self, containers: &[String]) {
        if containers.is_empty() {
            self.task.resources().clear("");
        }
        containers.iter().for_each(|container| self.task.resources().clear(container));
    }
}

fn has_tasks(server: &ServerDef) -> bool {
    server.cluster.as_ref().is_some_and(|cluster| !cluster.job.is_empty())
}

#[cfg(test)]
mod tests {
    use tensorfleet_rpc::{ChannelOptions, Connection, Peer};
    use tokio::runtime::Handle;

    use super::*;
    use crate::tasks::TaskOwner;

    fn worker(clock: &Clock) -> Worker {
        let cluster = Arc::new(ClusterSpec::new([("worker", ["localhost:1"])]).unwrap());
        let spawner = TaskOwner::new(Handle::current()).spawner();
        let peers = Peers::new(cluster, ChannelOptions::default(), spawner, clock.clone());
        Worker::new(Task::local(), Arc::new(peers), clock.clone())
    }

    fn open(worker: &Worker, handle: &str, connection: Option<Connection>) {
        let new = NewWorkerSession { handle: handle.to_string(), connection, ..Default::default() };
        worker.create_session(new).unwrap();
    }

    #[tokio::test]
    async fn a_session_is_kept_for_a_while_after_its_master_is_gone() {
        let hand = Clock::manual();
        let worker = worker(&hand.clock());
        let (connection, guard) = Connection::new(Peer::Process(None));
        open(&worker, "by wire", Some(connection));
        open(&worker, "in process", None);
        hand.advance(ORPHAN_TIMEOUT * 100);
        worker.sweep();
        assert_eq!(worker.num_sessions(), 2, "a master that is silent is not gone");
        let in_use = SessionRef { handle: "by wire", is_created: true, connection: None };
        worker.session(&in_use).unwrap();
        drop(guard);
        hand.advance(ORPHAN_TIMEOUT);
        worker.sweep();
        assert_eq!(worker.num_sessions(), 2, "its master may come back");
        hand.advance(Duration::from_millis(1));
        worker.sweep();
        let left: Vec<String> = worker.report_sessions().into_iter().map(|session| session.handle).collect();
        assert_eq!(left, ["in process"]);
    }

    #[tokio::test]
    async fn a_master_that_has_restarted_loses_the_sessions_of_its_earlier_life() {
        let worker = worker(&Clock::system());
        let of = |handle: &str, incarnation| NewWorkerSession {
            handle: handle.to_string(),
            master: MasterId { task: "/job:worker/replica:0/task:0".to_string(), incarnation },
            ..Default::default()
        };
        worker.create_session(of("first", 1)).unwrap();
        worker.create_session(of("second", 1)).unwrap();
        assert_eq!(worker.num_sessions(), 2);
        worker.create_session(of("third", 2)).unwrap();
        assert_eq!((worker.num_sessions(), worker.sessions_made()), (1, 3));
    }
}
