//! [`Worker`]: runs this task's part of other tasks' steps.
//!
//! A master tells it of a session, registers partitions of that session's graphs, and runs them step by step. Peers come
//! for the tensors a step has made here. Nothing is trusted: handles, keys, devices and graphs are checked.

mod awaited;
mod nameless_graphs;
mod rendezvous;
mod rounds;
mod run;
mod session;
mod step_table;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use tensorfleet_core::clock::Clock;
use tensorfleet_core::{DeviceName, RendezvousKey, Result, Status, ensure, memory};
use tensorfleet_kernel::rendezvous::Transfer;
use tensorfleet_kernel::resource::ResourceManager;
use tensorfleet_proto::tensorflow::{DeviceAttributes, GraphDef, ServerDef};
use tensorfleet_rpc::{Connection, ConnectionId, Origin};
use tensorfleet_runtime::Task;

pub(crate) use session::WorkerSessionReport;
pub(crate) use step_table::Arrivals;
use step_table::StepReport;

use crate::client_id::ClientId;
use crate::cluster_spec::ClusterSpec;
use crate::fair_share::Bound;
use crate::numbered_request::AppliedRequests;
use crate::peers::Peers;
use crate::status::StepStatus;
use crate::tasks::Spawner;
use crate::users::Presence;
use crate::wire::fleet_messages::MAX_KEYS;
use crate::wire::recent_requests::RecentRequests;
use crate::worker_api::{MasterId, NewWorkerSession, RunGraph, RunGraphOutput, SessionRef, Waits, WorkerApi};
use session::{Birth, ExpectedGraph, View, WorkerSession};
use step_table::StepTable;

/// How many request numbers a worker remembers at most; as many as TensorFlow's.
const REMEMBERED_REQUESTS: usize = 100_000;
/// Worker sessions at most. A master that leaks them must exhaust neither this task nor what there is for others.
const SESSIONS: Bound = Bound { most: 10_000, what: "worker sessions" };

type Sessions = FxHashMap<Arc<str>, Arc<WorkerSession>>;

/// The worker of one task.
pub(crate) struct Worker {
    task: Arc<Task>,
    peers: Arc<Peers>,
    clock: Clock,
    sessions: RwLock<FxHashMap<Arc<str>, Arc<WorkerSession>>>,
    /// How many sessions there have been.
    sessions_made: AtomicU64,
    steps: Arc<StepTable>,
    recent: RecentRequests,
    applied: AppliedRequests,
}

impl Worker {
    /// The worker of `task`. How long forgotten things are kept is measured by `clock`.
    pub(crate) fn new(task: Arc<Task>, peers: Arc<Peers>, clock: Clock) -> Worker {
        Worker {
            task,
            peers,
            sessions: RwLock::default(),
            sessions_made: AtomicU64::new(0),
            steps: Arc::new(StepTable::new(clock.clone())),
            clock,
            recent: RecentRequests::new(REMEMBERED_REQUESTS),
            applied: AppliedRequests::default(),
        }
    }

    /// The task it works for.
    pub(crate) fn task(&self) -> &Arc<Task> {
        &self.task
    }

    /// What does its work that takes long.
    pub(crate) fn spawner(&self) -> &Spawner {
        self.peers.spawner()
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

    /// A client that opens another session has lost the earlier ones.
    fn drop_superseded(&self, client: &ClientId) {
        let is_superseded = |session: &WorkerSession| {
            session.client.as_ref().is_some_and(|earlier| client.supersedes(earlier))
        };
        let superseded: Vec<Arc<str>> = {
            let sessions = self.sessions.read();
            let superseded = sessions.values().filter(|session| is_superseded(session));
            superseded.map(|session| session.handle.clone()).collect()
        };
        superseded.iter().for_each(|handle| self.delete_session(handle));
    }

    fn session(&self, session: &SessionRef<'_>) -> Result<Arc<WorkerSession>> {
        let found = self.sessions.read().get(&*handle_of(session)).cloned();
        let found = found.ok_or_else(|| self.unknown_session(session.handle))?;
        found.touch(session.connection);
        Ok(found)
    }

    /// The connections of masters that have sessions or graphs here.
    pub(crate) fn connections_in_use(&self) -> impl Iterator<Item = ConnectionId> {
        let sessions: Vec<Arc<WorkerSession>> = self.sessions.read().values().cloned().collect();
        sessions.into_iter().flat_map(|session| session.connections())
    }

    /// Whether whoever comes by this connection may have one more session.
    fn check_share(&self, sessions: &Sessions, connection: Option<&Connection>) -> Result<()> {
        let owners = sessions.values().map(|session| session.owner);
        SESSIONS.check(self.task.device().task_name(), connection.map(Connection::origin), owners)
    }

    #[cold]
    fn unknown_session(&self, handle: &str) -> Status {
        Status::aborted(format!(
            "Session handle is not found: {handle}. Possibly this worker (\"{}\") just restarted; create the session anew",
            self.task.device().task_name()
        ))
    }

    /// The session that a graph is to be registered with: one that its master has made, or else one that begins with its
    /// first graph.
    fn session_for_graph(&self, session: &SessionRef<'_>) -> Result<ExpectedGraph> {
        let handle = handle_of(session);
        // Whoever finds that a session has no graphs holds this lock as well.
        let mut sessions = self.sessions.write();
        if let Some(found) = sessions.get(&*handle) {
            found.touch(session.connection);
            return Ok(found.expect_graph());
        }
        if session.is_created {
            return Err(self.unknown_session(session.handle));
        }
        self.check_share(&sessions, session.connection)?;
        let view = View {
            device: self.task.device().clone(),
            resources: self.task.resources().clone(),
            threads: self.task.threads().clone(),
            peers: self.peers.clone(),
        };
        let connection = session.connection.cloned();
        let new = NewWorkerSession { handle: handle.into_owned(), connection, ..Default::default() };
        let birth = if session.handle.is_empty() { Birth::Nameless } else { Birth::OfGraphs };
        let new = Arc::new(WorkerSession::new(new, view, birth, self.clock.clone()));
        sessions.insert(new.handle.clone(), new.clone());
        self.sessions_made.fetch_add(1, Ordering::Relaxed);
        Ok(new.expect_graph())
    }

    /// Lets a session go that was there for its graphs only, when the last of them has gone.
    fn forget_if_without_graphs(&self, handle: &str) {
        let mut sessions = self.sessions.write();
        let is_over = sessions.get(handle).is_some_and(|session| session.has_outlived_its_graphs());
        let session = is_over.then(|| sessions.remove(handle)).flatten();
        drop(sessions);
        // What its kernels own goes with it, not under the lock.
        if let Some(session) = session {
            session.clear();
        }
    }

    /// Lets go of graphs without a session that a client has too many of.
    fn bound_nameless_graphs(&self, client: Origin) {
        let is_own =
            |session: &WorkerSession| session.birth == Birth::Nameless && session.owner == Some(client);
        let sessions: Vec<Arc<WorkerSession>> = {
            let sessions = self.sessions.read();
            sessions.values().filter(|session| is_own(session)).cloned().collect()
        };
        let graphs = sessions.iter().flat_map(WorkerSession::nameless_graphs).collect();
        let most_bytes = memory::limit_bytes() / nameless_graphs::SHARE_OF_MEMORY;
        for (session, graph) in nameless_graphs::surplus(graphs, nameless_graphs::MOST_GRAPHS, most_bytes) {
            // It may have been deregistered meanwhile.
            if session.deregister(&graph).is_ok() {
                tracing::info!(
                    session = &*session.handle,
                    graph,
                    "too many graphs without a session: one goes"
                );
            }
            self.forget_if_without_graphs(&session.handle);
        }
    }

    /// Makes a session's background work rest until its next step: its user is away.
    pub(crate) fn pause(&self, handle: &str) {
        let Some(session) = self.sessions.read().get(handle).cloned() else { return };
        session.context.background.pause();
        // A step that begins now lets it go on; one that had begun has done so too early.
        if self.steps.has_running(handle) {
            session.context.background.resume();
        }
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
        let looks: Vec<(Arc<str>, Presence)> = {
            let sessions = self.sessions.read();
            let looks = sessions.values().map(|session| (session.handle.clone(), session.look()));
            looks.filter(|(_, presence)| *presence != Presence::Present).collect()
        };
        for (handle, presence) in looks {
            match presence {
                Presence::JustGone => self.pause(&handle),
                Presence::Over => {
                    tracing::info!(session = &*handle, "forgetting a session whose master is gone");
                    self.delete_session(&handle);
                }
                Presence::Present | Presence::Gone => {}
            }
        }
        self.steps.sweep(|session| self.sessions.read().contains_key(session));
    }

    /// Sessions, for `status`.
    pub(crate) fn report_sessions(&self) -> Vec<WorkerSessionReport> {
        let sessions: Vec<Arc<WorkerSession>> = self.sessions.read().values().cloned().collect();
        sessions.iter().map(|session| session.report()).collect()
    }

    /// How many sessions there have been.
    pub(crate) fn sessions_made(&self) -> u64 {
        self.sessions_made.load(Ordering::Relaxed)
    }

    /// How many of them are over.
    pub(crate) fn sessions_ended(&self) -> u64 {
        self.sessions_made().saturating_sub(self.num_sessions() as u64)
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
        if let Some(client) = &new.client {
            self.drop_superseded(client);
        }
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
        let threads = self.task.threads().clone();
        let mut sessions = self.sessions.write();
        let handle: Arc<str> = new.handle.as_str().into();
        if !sessions.contains_key(&handle) {
            self.check_share(&sessions, new.connection.as_ref())?;
        }
        let (view, clock) = (View { device, resources, threads, peers }, self.clock.clone());
        let session = || Arc::new(WorkerSession::new(new, view, Birth::Made, clock));
        sessions.entry(handle).or_insert_with(session);
        self.sessions_made.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn delete_session(&self, handle: &str) {
        let session = self.sessions.write().remove(handle);
        if let Some(session) = session {
            session.end();
            let reason = Status::cancelled(format!("Session {handle} was closed"));
            self.steps.cancel_session(handle, &reason);
            session.clear();
        }
    }

    fn register_graph(&self, session: &SessionRef<'_>, graph: GraphDef) -> Result<String> {
        let expected = self.session_for_graph(session)?;
        let registered = expected.session().register(graph, self.task.constants());
        drop(expected);
        match session.connection.filter(|_| session.handle.is_empty()) {
            _ if registered.is_err() => self.forget_if_without_graphs(&handle_of(session)),
            Some(connection) => self.bound_nameless_graphs(connection.origin()),
            None => {}
        }
        registered
    }

    fn deregister_graph(&self, session: &SessionRef<'_>, graph: &str) -> Result<()> {
        self.session(session)?.deregister(graph)?;
        self.forget_if_without_graphs(&handle_of(session));
        Ok(())
    }

    fn pause_session(&self, handle: &str) {
        self.pause(handle);
    }

    fn run_graph(&self, request: RunGraph) -> BoxFuture<'_, Result<RunGraphOutput>> {
        let run = async move {
            self.recent.note(request.request_id, "RunGraph")?;
            let session = self.session(&SessionRef {
                handle: &request.session,
                is_created: request.session_is_created,
                connection: request.connection.as_ref(),
            })?;
            let applied = request.numbered.map(|numbered| self.applied.of(numbered)).transpose()?;
            let graph = session.graph(&request.graph)?;
            let entry = self.steps.entry(request.step_id)?;
            run::run_graph(session, graph, entry, request, applied, self.peers.spawner()).await
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

    fn waits(&self) -> Waits {
        let step = |step: StepReport| StepStatus {
            step_id: step.id,
            session: step.session,
            age_seconds: step.age.as_secs_f64(),
            state: step.state.to_string(),
            waiting_for: step.waiting_for,
        };
        Waits {
            incarnation: self.task.incarnation(),
            steps: self.steps.report().into_iter().map(step).collect(),
            rounds: rounds::gathered(self.task.resources().rounds()),
        }
    }

    fn cleanup_all(&self, containers: &[String]) {
        if containers.is_empty() {
            self.task.resources().clear("");
        }
        containers.iter().for_each(|container| self.task.resources().clear(container));
    }
}

/// The handle of a session. A master that names none has a session for each of its connections.
fn handle_of<'a>(session: &SessionRef<'a>) -> Cow<'a, str> {
    match (session.handle, session.connection) {
        ("", Some(connection)) => Cow::Owned(format!("of {:?}", connection.id())),
        (handle, _) => Cow::Borrowed(handle),
    }
}

fn has_tasks(server: &ServerDef) -> bool {
    server.cluster.as_ref().is_some_and(|cluster| !cluster.job.is_empty())
}

#[cfg(test)]
mod tests;
