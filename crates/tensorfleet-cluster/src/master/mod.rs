//! [`Master`]: the sessions that clients have on this task.
//!
//! A session's graph may use every task of the cluster. The master contacts those it needs, places the graph, cuts each
//! step into partitions and drives them. It is reached through the master service, or directly by clients in the same
//! process.

mod config;
mod contact;
mod partial_run;
mod partial_step;
mod planned_step;
mod running;
mod session;
mod step;
mod waits;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use tensorfleet_core::clock::Clock;
use tensorfleet_core::{DeviceName, Result, Status, Tensor, ensure};
use tensorfleet_proto::tensorflow::run_options::TraceLevel;
use tensorfleet_proto::tensorflow::{
    CallableOptions, ConfigProto, DeviceAttributes, GraphDef, RunMetadata, RunOptions,
};
use tensorfleet_rpc::{self as rpc, Connection, ConnectionId};
use tensorfleet_runtime::plan::Signature;

use crate::client_id::ClientId;
use crate::cluster_spec::TaskId;
use crate::fair_share::Bound;
use crate::numbered_request::NumberedRequest;
use crate::peers::Peers;
use crate::random;
use crate::status::MasterSessionStatus;
use crate::users::Presence;
use crate::wire::recent_requests::RecentRequests;
use crate::worker_api::{MasterId, WorkerApi};
pub(crate) use config::SessionDefaults;
use config::{SessionConfig, millis};
use contact::Asker;
use planned_step::{Callable, StepOptions};
use session::{MasterSession, Origin};

/// How many request numbers a master remembers; as many as TensorFlow's.
const REMEMBERED_REQUESTS: usize = 10_000;
/// Sessions at most; a client that leaks them must exhaust neither this task nor what there is for others.
const SESSIONS: Bound = Bound { most: 1_000, what: "sessions" };
/// Callables and partial runs at most, per session.
const MAX_PREPARED: usize = 10_000;
/// How long before a client gives up it gets its answer, so that the answer arrives.
const ANSWER_MARGIN: Duration = Duration::from_millis(500);
/// How long tasks are asked for their devices when nobody needs the answer to go on.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// The master of one task.
pub(crate) struct Master {
    own: TaskId,
    /// The life of the own task.
    incarnation: u64,
    worker: Arc<dyn WorkerApi>,
    peers: Arc<Peers>,
    /// What the server says of all its sessions.
    defaults: SessionDefaults,
    /// How long a new session waits for tasks.
    contact_timeout: Duration,
    clock: Clock,
    sessions: RwLock<Sessions>,
    next_handle: AtomicI64,
    recent: RecentRequests,
    totals: Totals,
}

/// By their handles.
type Sessions = FxHashMap<String, Arc<MasterSession>>;

/// What has happened since the start.
#[derive(Default)]
struct Totals {
    sessions: AtomicU64,
    steps: AtomicU64,
    failed_steps: AtomicU64,
}

/// A request to run a step.
#[derive(Default)]
pub(crate) struct RunStep {
    pub(crate) session: String,
    pub(crate) feeds: Vec<(String, Tensor)>,
    pub(crate) fetches: Vec<String>,
    pub(crate) targets: Vec<String>,
    pub(crate) options: RunOptions,
    pub(crate) partial_run: String,
    pub(crate) request_id: i64,
    /// Its number, if its client repeats runs.
    pub(crate) numbered: Option<NumberedRequest>,
}

/// Whose session is to be made.
#[derive(Default)]
pub(crate) struct SessionClient {
    /// Who it is, if it has said so: its earlier sessions end.
    pub(crate) id: Option<ClientId>,
    /// How it is connected, if it is not in this process.
    pub(crate) connection: Option<Connection>,
}

/// Fetched tensors in the order of the request, without repetitions, and what was recorded.
pub(crate) struct RunStepOutput {
    pub(crate) fetches: Vec<(String, Tensor)>,
    pub(crate) metadata: RunMetadata,
}

impl Master {
    /// The master of the task `own`, which is in the life `incarnation` and has this worker.
    pub(crate) fn new(
        own: TaskId,
        incarnation: u64,
        worker: Arc<dyn WorkerApi>,
        peers: Arc<Peers>,
        defaults: SessionDefaults,
        contact_timeout: Duration,
        clock: Clock,
    ) -> Master {
        Master {
            own,
            incarnation,
            worker,
            peers,
            defaults,
            contact_timeout,
            clock,
            sessions: RwLock::default(),
            next_handle: AtomicI64::new(0),
            recent: RecentRequests::new(REMEMBERED_REQUESTS),
            totals: Totals::default(),
        }
    }

    fn id(&self) -> MasterId {
        MasterId { task: self.own.full_name(), incarnation: self.incarnation as i64 }
    }

    /// Opens a session and gives its handle. A client that gives up at `deadline` is told before that for whom the session
    /// has waited.
    pub(crate) async fn create_session(
        &self,
        graph: GraphDef,
        config: Option<ConfigProto>,
        target: &str,
        client: SessionClient,
        deadline: Option<Instant>,
    ) -> Result<String> {
        if let Some(id) = client.id {
            self.end_superseded(&id).await;
        }
        let config = SessionConfig::read(config, &self.defaults)?;
        let owner = client.connection.as_ref().map(Connection::origin);
        self.check_share(owner, &self.sessions.read())?;
        let (own, peers) = match &config.cluster {
            None => (self.own.clone(), self.peers.clone()),
            Some(cluster) => {
                (config.own_task(cluster, target)?, Arc::new(self.peers.of_cluster(cluster.clone())))
            }
        };
        let handle = random::session_handle();
        let left = deadline.map(|deadline| deadline.saturating_duration_since(self.clock.now()));
        let left = left.map_or(Duration::MAX, |left| left - (left / 4).min(ANSWER_MARGIN));
        let contact_timeout = config.operation_timeout.unwrap_or(self.contact_timeout).min(left);
        let clock = self.clock.clone();
        let origin = Origin { own, peers, master: self.id(), contact_timeout, client, clock };
        let session = MasterSession::create(handle.clone(), graph, config, origin).await?;
        let mut sessions = self.sessions.write();
        // Others may have come while this one waited for its tasks.
        self.check_share(owner, &sessions)?;
        sessions.insert(handle.clone(), Arc::new(session));
        drop(sessions);
        self.totals.sessions.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(session = handle, "session created");
        Ok(handle)
    }

    fn check_share(&self, owner: Option<rpc::Origin>, sessions: &Sessions) -> Result<()> {
        SESSIONS.check(&self.own, owner, sessions.values().map(|session| session.owner))
    }

    /// The connections of clients that have sessions.
    pub(crate) fn connections_in_use(&self) -> impl Iterator<Item = ConnectionId> {
        let sessions: Vec<Arc<MasterSession>> = self.sessions.read().values().cloned().collect();
        sessions.into_iter().flat_map(|session| session.connections())
    }

    /// Ends the sessions that a client has lost and replaces, with all their steps.
    async fn end_superseded(&self, client: &ClientId) {
        let superseded: Vec<Arc<MasterSession>> = {
            let mut sessions = self.sessions.write();
            let is_superseded = |session: &MasterSession| {
                session.client_id.as_ref().is_some_and(|earlier| client.supersedes(earlier))
            };
            let handles: Vec<String> = sessions
                .values()
                .filter(|session| is_superseded(session))
                .map(|session| session.handle.clone())
                .collect();
            handles.iter().filter_map(|handle| sessions.remove(handle)).collect()
        };
        for session in &superseded {
            tracing::info!(session = session.handle, "its client opens another session: this one ends");
        }
        futures_util::future::join_all(superseded.iter().map(|session| session.close())).await;
    }

    fn session(&self, handle: &str) -> Result<Arc<MasterSession>> {
        self.sessions.read().get(handle).cloned().ok_or_else(|| {
            Status::aborted(format!(
                "Session {handle} is not found. Possibly, this master ({}) has restarted, or the session was reset; \
                 create the session anew",
                self.own
            ))
        })
    }

    /// How many sessions are over.
    pub(crate) fn sessions_ended(&self) -> u64 {
        let open = self.sessions.read().len() as u64;
        self.totals.sessions.load(Ordering::Relaxed).saturating_sub(open)
    }

    /// Whether there is such a session.
    pub(crate) fn has_session(&self, handle: &str) -> bool {
        self.sessions.read().contains_key(handle)
    }

    /// Notes that a session is in use, by a connection if its client is not in this process.
    pub(crate) fn touch(&self, handle: &str, client: Option<&Connection>) {
        if let Some(session) = self.sessions.read().get(handle) {
            session.touch(client);
        }
    }

    /// Adds nodes to a session's graph and gives the new version.
    pub(crate) async fn extend_session(&self, handle: &str, graph: GraphDef, version: i64) -> Result<i64> {
        self.session(handle)?.extend(graph, version).await
    }

    /// Runs a step, or a part of a partial run. Dropping the future cancels it on all tasks.
    pub(crate) async fn run_step(&self, request: RunStep) -> Result<RunStepOutput> {
        self.recent.note(request.request_id, "RunStep")?;
        let session = self.session(&request.session)?;
        let options = StepOptions { numbered: request.numbered, ..step_options(&request.options) };
        let mut fetches = request.fetches;
        let mut seen = rustc_hash::FxHashSet::default();
        fetches.retain(|fetch| seen.insert(fetch.clone()));
        drop(seen);
        let result = if request.partial_run.is_empty() {
            let (names, values): (Vec<String>, Vec<Tensor>) = request.feeds.into_iter().unzip();
            let (feeds, targets) = (texts(&names), texts(&request.targets));
            let plan = session.plan(&feeds, &texts(&fetches), &targets, options.timeout).await?;
            session.run(&plan, values, &options).await
        } else {
            session.run_part(&request.partial_run, request.feeds, &fetches, &options).await
        };
        self.count(result.is_ok());
        let output = result?;
        Ok(RunStepOutput {
            fetches: fetches.into_iter().zip(output.fetches).collect(),
            metadata: output.metadata,
        })
    }

    fn count(&self, succeeded: bool) {
        self.totals.steps.fetch_add(1, Ordering::Relaxed);
        self.totals.failed_steps.fetch_add(u64::from(!succeeded), Ordering::Relaxed);
    }

    /// Prepares a partial run and gives its handle.
    pub(crate) async fn set_up_partial_run(
        &self,
        handle: &str,
        signature: Signature,
        request_id: i64,
    ) -> Result<String> {
        self.recent.note(request_id, "PartialRunSetup")?;
        let session = self.session(handle)?;
        ensure!(
            session.partial_runs.lock().len() < MAX_PREPARED,
            ResourceExhausted,
            "the session has {MAX_PREPARED} partial runs under way"
        );
        let run = self.next_handle.fetch_add(1, Ordering::Relaxed).to_string();
        session.set_up_partial_run(signature, run).await
    }

    /// Prepares a signature and gives its handle.
    pub(crate) async fn make_callable(
        &self,
        handle: &str,
        options: &CallableOptions,
        request_id: i64,
    ) -> Result<i64> {
        self.recent.note(request_id, "MakeCallable")?;
        ensure!(
            options.tensor_connection.is_empty(),
            Unimplemented,
            "callables with tensor connections are not supported: feed and fetch the tensors instead"
        );
        let session = self.session(handle)?;
        let (feeds, fetches) = (texts(&options.feed), texts(&options.fetch));
        let plan = session.plan(&feeds, &fetches, &texts(&options.target), None).await?;
        let number = self.next_handle.fetch_add(1, Ordering::Relaxed);
        let mut callables = session.callables.lock();
        ensure!(
            callables.len() < MAX_PREPARED,
            ResourceExhausted,
            "the session has {MAX_PREPARED} callables"
        );
        callables.insert(number, Callable { plan, options: step_options_of(options) });
        Ok(number)
    }

    /// Runs a prepared signature with its feeds in order, and gives its fetches in order.
    pub(crate) async fn run_callable(
        &self,
        handle: &str,
        callable: i64,
        feeds: Vec<Tensor>,
        request_id: i64,
        numbered: Option<NumberedRequest>,
    ) -> Result<(Vec<Tensor>, RunMetadata)> {
        self.recent.note(request_id, "RunCallable")?;
        let session = self.session(handle)?;
        let prepared = session.callables.lock().get(&callable).cloned();
        let prepared =
            prepared.ok_or_else(|| Status::invalid_argument(format!("No such callable: {callable}")))?;
        let options = StepOptions { numbered, ..prepared.options.clone() };
        let result = session.run(&prepared.plan, feeds, &options).await;
        self.count(result.is_ok());
        result.map(|output| (output.fetches, output.metadata))
    }

    /// Forgets a prepared signature; forgetting it twice is fine.
    pub(crate) fn release_callable(&self, handle: &str, callable: i64) -> Result<()> {
        self.session(handle)?.callables.lock().remove(&callable);
        Ok(())
    }

    /// Closes a session.
    pub(crate) async fn close_session(&self, handle: &str) -> Result<()> {
        let session = self.session(handle)?;
        self.sessions.write().remove(handle);
        session.close().await;
        Ok(())
    }

    /// The devices of a session; without one, the master's own and those of the other tasks.
    pub(crate) async fn list_devices(
        &self,
        handle: &str,
    ) -> Result<(Vec<DeviceAttributes>, Vec<DeviceAttributes>)> {
        if !handle.is_empty() {
            let session = self
                .session(handle)
                .map_err(|status| Status::invalid_argument(format!("ListDevices: {}", status.text())))?;
            return Ok((session.list_devices().await, Vec::new()));
        }
        let others: Vec<TaskId> =
            contact::all_tasks(self.peers.spec()).into_iter().filter(|task| *task != self.own).collect();
        let asker = Asker { task: &self.own, peers: &self.peers, renames: false };
        let present = contact::contact_present(&asker, &others, LIST_TIMEOUT).await;
        let remote = present.into_iter().flatten().flat_map(|contacted| contacted.devices).collect();
        Ok((self.worker.devices(), remote))
    }

    /// Closes all sessions and empties containers on all tasks, or on those that the filters admit.
    pub(crate) async fn reset(&self, containers: &[String], filters: &[String]) -> Result<()> {
        let filters: Vec<DeviceName> = filters.iter().map(|filter| filter.parse()).collect::<Result<_>>()?;
        let sessions: Vec<Arc<MasterSession>> =
            self.sessions.write().drain().map(|(_, session)| session).collect();
        let tasks = contact::all_tasks(self.peers.spec()).into_iter().filter(|task| {
            let name = task.full_name().parse::<DeviceName>();
            *task == self.own
                || filters.is_empty()
                || name.is_ok_and(|name| filters.iter().any(|filter| filter.is_compatible_with(&name)))
        });
        let cleared = tasks.map(|task| async move {
            let Ok(worker) = self.peers.worker(&task) else { return };
            // A task that cannot be reached has no state that anybody could see.
            if let Err(status) = worker.cleanup_all(containers).await {
                tracing::warn!("resetting {task}: {status}");
            }
        });
        futures_util::future::join_all(cleared).await;
        futures_util::future::join_all(sessions.iter().map(|session| session.close())).await;
        Ok(())
    }

    /// Lets sessions rest whose clients are gone, and closes those whose clients have not come back in time.
    pub(crate) async fn sweep(&self) {
        let sessions: Vec<Arc<MasterSession>> = self.sessions.read().values().cloned().collect();
        let mut over = Vec::new();
        for session in sessions {
            match session.look() {
                Presence::JustGone => session.pause(),
                Presence::Over => over.push(session),
                Presence::Present | Presence::Gone => {}
            }
        }
        for session in &over {
            self.sessions.write().remove(&session.handle);
            tracing::info!(session = session.handle, "closing a session whose client is gone");
        }
        futures_util::future::join_all(over.iter().map(|session| session.close())).await;
    }

    /// Closes all sessions.
    pub(crate) async fn close_all(&self) {
        let sessions: Vec<Arc<MasterSession>> =
            self.sessions.write().drain().map(|(_, session)| session).collect();
        futures_util::future::join_all(sessions.iter().map(|session| session.close())).await;
    }

    /// Sessions, for `status`.
    pub(crate) fn report(&self) -> Vec<MasterSessionStatus> {
        self.sessions.read().values().map(|session| session.report()).collect()
    }

    /// Steps run and steps failed since the start.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.totals.steps.load(Ordering::Relaxed), self.totals.failed_steps.load(Ordering::Relaxed))
    }
}

fn texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

fn step_options(options: &RunOptions) -> StepOptions {
    StepOptions {
        timeout: millis(options.timeout_in_ms),
        wants_trace: options.trace_level != TraceLevel::NoTrace as i32,
        wants_graphs: options.output_partition_graphs,
        numbered: None,
    }
}

fn step_options_of(callable: &CallableOptions) -> StepOptions {
    callable.run_options.as_ref().map(step_options).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tensorfleet_rpc::{ChannelOptions, Peer};
    use tensorfleet_runtime::Task;
    use tokio::runtime::Handle;

    use super::*;
    use crate::cluster_spec::ClusterSpec;
    use crate::local_tasks::{CallableResult, LocalTask, LocalTasks};
    use crate::tasks::TaskOwner;
    use crate::worker::Worker;

    /// A task that others of this process find, without a server.
    struct Beside(Arc<Worker>);

    impl LocalTask for Beside {
        fn worker(&self) -> Arc<dyn WorkerApi> {
            self.0.clone()
        }

        fn has_session(&self, _: &str) -> bool {
            false
        }

        fn is_stopping(&self) -> bool {
            false
        }

        fn run_callable(
            &self,
            _: String,
            _: i64,
            _: Vec<Tensor>,
            _: Option<NumberedRequest>,
        ) -> futures_util::future::BoxFuture<'_, CallableResult> {
            Box::pin(async { Err(Status::unimplemented("it has no master")) })
        }
    }

    #[tokio::test]
    async fn a_session_is_closed_a_while_after_its_client_is_gone() {
        let (hand, owner) = (Clock::manual(), TaskOwner::new(Handle::current()));
        let address = "a-session-is-closed:1";
        let cluster = Arc::new(ClusterSpec::new([("localhost", [address])]).unwrap());
        let local = LocalTasks::default();
        let options = ChannelOptions::default();
        let peers = Arc::new(Peers::new(cluster, options, owner.spawner(), hand.clock(), local.clone()));
        let worker = Arc::new(Worker::new(Task::local(), peers.clone(), hand.clock()));
        let task: Arc<dyn LocalTask> = Arc::new(Beside(worker.clone()));
        let _announced = local.announce(&task, vec![address.to_string()]);
        let own = TaskId::new("localhost", 0);
        let timeout = Duration::from_secs(60);
        let master =
            Master::new(own, 7, worker.clone(), peers, SessionDefaults::default(), timeout, hand.clock());
        let (client, guard) = Connection::new(Peer::Process(None));
        let created = {
            let client = SessionClient { id: None, connection: Some(client) };
            master.create_session(GraphDef::default(), None, "", client, None).await
        };
        let handle = created.unwrap();
        hand.advance(session::PATIENCE.after_silence * 100);
        master.sweep().await;
        assert!(master.has_session(&handle), "a client that thinks is not gone");
        drop(guard);
        master.sweep().await;
        hand.advance(session::PATIENCE.after_closing - Duration::from_millis(1));
        master.sweep().await;
        assert!(master.has_session(&handle));
        assert_eq!(worker.num_sessions(), 1);
        assert!(master.report()[0].orphaned_seconds.is_some_and(|seconds| seconds > 4.0));
        hand.advance(Duration::from_millis(1));
        master.sweep().await;
        assert!(!master.has_session(&handle));
        assert_eq!(worker.num_sessions(), 0, "its tasks have been told");
    }
}
