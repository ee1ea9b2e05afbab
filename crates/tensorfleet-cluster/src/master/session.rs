//! [`MasterSession`]: a client's graph, where its nodes are, and the plans of its steps.
//!
//! The graph is placed as a whole when it arrives. The first run of a signature plans it: cut down, simplified, cut at
//! the borders of tasks, registered with each. After that a run is one message to each participating task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use tensorfleet_core::clock::Clock;
use tensorfleet_core::{DeviceName, GraphLimits, Result, Status, ensure};
use tensorfleet_proto::tensorflow::{DeviceAttributes, GraphDef, ServerDef};
use tensorfleet_rpc::{self as rpc, Connection, ConnectionId};
use tensorfleet_runtime::checked_graph::CheckedGraph;
use tensorfleet_runtime::plan::{self, Device, DeviceIndex, PlaceOptions, PlanOptions, Signature, Terminals};
use tensorfleet_runtime::{PlanBounds, PlanCache, catalogue, constant_places, partial_run, plan_bytes};

use super::config::SessionConfig;
use super::contact::{self, Asker, Contacted};
use super::partial_run::PartialRun;
use super::planned_step::{Callable, PlannedStep, RegisteredPartition, from_task};
use super::running::RunningSteps;
use super::{SessionClient, texts};
use crate::client_id::ClientId;
use crate::cluster_spec::TaskId;
use crate::graph_version;
use crate::peers::Peers;
use crate::status::MasterSessionStatus;
use crate::users::{Patience, Presence, Users};
use crate::worker_api::{MasterId, NewWorkerSession};

/// How long a session is kept whose client is gone. A client that lives and whose connection was closed hears of it at
/// once, and connects anew with its next call.
pub(super) const PATIENCE: Patience = Patience {
    after_closing: Duration::from_secs(5),
    after_silence: Duration::from_secs(30),
    after_own_closing: Duration::from_secs(300),
};

/// Plans kept per session; a client that never repeats a signature must not exhaust memory. Callables and whoever runs a
/// plan hold it by themselves.
const PLAN_BOUNDS: PlanBounds = PlanBounds { plans: 1024, bytes: 512 << 20, at_least: 16 };

/// How long closing waits for tasks to acknowledge it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A session.
pub(super) struct MasterSession {
    pub(super) handle: String,
    pub(super) config: SessionConfig,
    /// Whose share it counts to; nobody's, if its client is in this process.
    pub(super) owner: Option<rpc::Origin>,
    /// Whose session it is, if the client has said so.
    pub(super) client_id: Option<ClientId>,
    /// The master's own task, as the session's cluster names it.
    own: TaskId,
    master: MasterId,
    pub(super) peers: Arc<Peers>,
    /// How long to wait for tasks that the graph needs.
    contact_timeout: Duration,
    state: RwLock<Arc<SessionState>>,
    extending: tokio::sync::Mutex<()>,
    plans: PlanCache<PlannedStep>,
    /// Numbers the nodes that partitioning adds; held while a plan is made.
    next_name: tokio::sync::Mutex<u64>,
    /// Tasks that have been asked for a worker session and not yet been told that it is over. Not the same as the
    /// members: a session that fails half way has the one and not the other.
    joined: Mutex<Vec<TaskId>>,
    /// In which life each member was when it joined.
    pub(super) lives: Mutex<Vec<(TaskId, u64)>>,
    pub(super) running: RunningSteps,
    is_over: Arc<AtomicBool>,
    pub(super) partial_runs: Mutex<FxHashMap<String, Arc<PartialRun>>>,
    pub(super) callables: Mutex<FxHashMap<i64, Callable>>,
    clock: Clock,
    created: Instant,
    users: Users,
    /// For whom its steps wait, in words.
    waits: Mutex<Vec<String>>,
}

/// The graph and where it is; replaced as a whole when the graph grows.
#[derive(Clone)]
struct SessionState {
    checked: CheckedGraph,
    placement: Vec<DeviceIndex>,
    devices: Vec<Device>,
    attributes: Vec<DeviceAttributes>,
    /// Tasks that have a worker session.
    members: Vec<TaskId>,
    version: i64,
    /// What the constants of the graph take.
    constant_bytes: usize,
}

impl Default for SessionState {
    fn default() -> SessionState {
        SessionState {
            checked: CheckedGraph::new(catalogue::linked()),
            placement: Vec::new(),
            devices: Vec::new(),
            attributes: Vec::new(),
            members: Vec::new(),
            version: 0,
            constant_bytes: 0,
        }
    }
}

/// What a plan is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    Whole,
    Partial,
}

/// Where a session comes from.
pub(super) struct Origin {
    pub(super) own: TaskId,
    pub(super) peers: Arc<Peers>,
    pub(super) master: MasterId,
    pub(super) contact_timeout: Duration,
    pub(super) client: SessionClient,
    pub(super) clock: Clock,
}

impl MasterSession {
    /// A session with this graph. Waits for the tasks the graph needs.
    pub(super) async fn create(
        handle: String,
        graph: GraphDef,
        config: SessionConfig,
        origin: Origin,
    ) -> Result<MasterSession> {
        let session = MasterSession {
            handle,
            owner: origin.client.connection.as_ref().map(Connection::origin),
            contact_timeout: origin.contact_timeout,
            config,
            client_id: origin.client.id,
            own: origin.own,
            master: origin.master,
            peers: origin.peers,
            state: RwLock::default(),
            extending: tokio::sync::Mutex::default(),
            plans: PlanCache::new(PLAN_BOUNDS),
            next_name: tokio::sync::Mutex::default(),
            joined: Mutex::default(),
            lives: Mutex::default(),
            running: RunningSteps::new(origin.clock.clone()),
            is_over: Arc::default(),
            partial_runs: Mutex::default(),
            callables: Mutex::default(),
            created: origin.clock.now(),
            users: Users::new(origin.client.connection, PATIENCE, origin.clock.clone()),
            clock: origin.clock,
            waits: Mutex::default(),
        };
        // If this fails or is given up, dropping the session tells those that have joined.
        let state = session.grow(graph).await?;
        *session.state.write() = Arc::new(state);
        Ok(session)
    }

    /// Adds nodes. On an error the session is as before.
    pub(super) async fn extend(&self, graph: GraphDef, version: i64) -> Result<i64> {
        let _one_at_a_time = self.extending.lock().await;
        let current = self.state().version;
        ensure!(
            version == current,
            Aborted,
            "Current version is {current}, but the caller believes it is {version}: the session was extended by somebody else"
        );
        let mut state = self.grow(graph).await?;
        state.version += 1;
        let version = state.version;
        *self.state.write() = Arc::new(state);
        Ok(version)
    }

    fn state(&self) -> Arc<SessionState> {
        self.state.read().clone()
    }

    /// The state with `graph` added: checked, its tasks contacted, placed.
    async fn grow(&self, graph: GraphDef) -> Result<SessionState> {
        graph_version::check(&graph)?;
        let old = self.state();
        let mut state = self
            .peers
            .spawner()
            .do_long_work("planning", move || {
                let mut state = SessionState::clone(&old);
                state.checked.extend(graph, &GraphLimits::default())?;
                Ok(state)
            })
            .await?;
        let missing = self.missing_tasks(&state)?;
        self.join(&mut state, &missing).await?;
        let options = PlaceOptions {
            allow_soft_placement: self.config.allow_soft_placement,
            preferred_task: match self.prefers_own_task(&state) {
                true => Some(self.own.full_name().parse()?),
                false => None,
            },
        };
        let state = self
            .peers
            .spawner()
            .do_long_work("planning", move || {
                // Stateful nodes keep the device they have: their state is there.
                let placed = state.placement.iter().enumerate();
                let fixed: Vec<Option<DeviceIndex>> = placed
                    .map(|(index, &device)| state.checked.is_stateful(index).then_some(device))
                    .chain(std::iter::repeat(None))
                    .take(state.checked.graph().len())
                    .collect();
                state.placement = plan::place(&state.checked, &state.devices, &fixed, &options)?;
                state.constant_bytes =
                    constant_places(state.checked.graph()).iter().map(|(_, bytes)| bytes).sum();
                Ok(state)
            })
            .await?;
        if self.config.log_device_placement {
            plan::print_placement(&state.checked, &state.placement, &state.devices);
        }
        Ok(state)
    }

    fn prefers_own_task(&self, state: &SessionState) -> bool {
        self.config.default_placement.prefers_own_task(state.checked.graph().versions())
    }

    /// The tasks that the graph needs and that are not members yet.
    fn missing_tasks(&self, state: &SessionState) -> Result<Vec<TaskId>> {
        let mut visible = Vec::new();
        let mut names = Vec::new();
        for task in contact::all_tasks(self.peers.spec()) {
            let name: DeviceName = task.full_name().parse()?;
            if task == self.own || self.config.admits(&name) {
                visible.push(task);
                names.push(name);
            }
        }
        let (own, is_preferred) = (self.own.full_name().parse()?, self.prefers_own_task(state));
        let required = plan::required_tasks(state.checked.graph(), &names, &own, is_preferred)?;
        let required = required.into_iter().map(|index| visible[index].clone());
        Ok(required.filter(|task| !state.members.contains(task)).collect())
    }

    /// Makes tasks members: waits for their answer, takes their devices, makes worker sessions.
    async fn join(&self, state: &mut SessionState, tasks: &[TaskId]) -> Result<()> {
        let asker = self.asker();
        let contacted = contact::contact(&asker, tasks, self.contact_timeout).await?;
        self.joined.lock().extend(tasks.iter().cloned());
        let sessions = contacted.iter().map(|contacted| self.create_worker_session(&contacted.task));
        try_join_all(sessions).await?;
        for Contacted { task, devices } in contacted {
            let life = devices.first().map(|device| (task.clone(), device.incarnation));
            self.lives.lock().extend(life);
            for attributes in devices {
                let name: DeviceName = attributes.name.parse()?;
                if task == self.own || self.config.admits(&name) {
                    state.devices.push(Device::new(name, attributes.incarnation));
                    state.attributes.push(attributes);
                }
            }
            state.members.push(task);
        }
        Ok(())
    }

    fn asker(&self) -> Asker<'_> {
        Asker { task: &self.own, peers: &self.peers, renames: self.config.cluster.is_some() }
    }

    async fn create_worker_session(&self, task: &TaskId) -> Result<()> {
        let server = ServerDef {
            cluster: self.config.cluster.as_ref().map(|cluster| cluster.as_cluster_def()),
            job_name: task.job.clone(),
            task_index: task.index as i32,
            protocol: "grpc".to_string(),
            ..Default::default()
        };
        let new = NewWorkerSession {
            handle: self.handle.clone(),
            server: Some(server),
            isolate_state: self.config.isolate_state,
            master: self.master.clone(),
            client: self.client_id,
            connection: None,
        };
        self.peers.worker(task)?.create_session(new).await
    }

    /// Tells the tasks that have joined that the session is over. Resolves once every task has acknowledged, but need not be
    /// waited for.
    fn leave(&self) -> impl Future<Output = ()> + use<> {
        self.is_over.store(true, Ordering::Release);
        let mut told = Vec::new();
        for task in std::mem::take(&mut *self.joined.lock()) {
            let Ok(worker) = self.peers.worker(&task) else { continue };
            let (deleted, handle) = (worker.delete_session(&self.handle), self.handle.clone());
            told.push(async move {
                if let Err(status) = deleted.await {
                    tracing::debug!("closing session {handle} on {task}: {status}");
                }
            });
        }
        let told = self.peers.spawner().run(async move {
            join_all(told).await;
            Ok(())
        });
        async move {
            // Fails only with the server.
            let _ = told.await;
        }
    }

    /// Ends the session: running steps are cancelled and waited for, later ones refused. Variables stay. A task that
    /// does not answer is not waited for long; it is told as soon as it listens.
    pub(super) async fn close(&self) {
        self.running.close().await;
        self.is_over.store(true, Ordering::Release);
        self.plans.clear();
        self.callables.lock().clear();
        self.partial_runs.lock().clear();
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.leave()).await;
    }

    /// The session's devices, those of the master's own task first. A graph that has not needed a task yet has not met it:
    /// such tasks are asked now, and left out if they do not answer.
    pub(super) async fn list_devices(&self) -> Vec<DeviceAttributes> {
        let state = self.state();
        let mut devices = state.attributes.clone();
        let others: Vec<TaskId> = contact::all_tasks(self.peers.spec())
            .into_iter()
            .filter(|task| !state.members.contains(task))
            .filter(|task| task.full_name().parse().is_ok_and(|name| self.config.admits(&name)))
            .collect();
        for contacted in contact::contact_present(&self.asker(), &others, self.contact_timeout).await {
            devices.extend(contacted.into_iter().flat_map(|contacted| contacted.devices));
        }
        let prefix = format!("{}/", self.own.full_name());
        devices.sort_by_key(|device| (!device.name.starts_with(&prefix), device.name.clone()));
        devices
    }

    /// The plan for a signature, made now if it is new.
    ///
    /// Making it does not stop when the caller goes away: what tasks have registered meanwhile would be of no use to
    /// anybody, and whoever comes back for it finds it done.
    pub(super) async fn plan(
        self: &Arc<Self>,
        feeds: &[&str],
        fetches: &[&str],
        targets: &[&str],
        timeout: Option<Duration>,
    ) -> Result<Arc<PlannedStep>> {
        if let Some(plan) = self.plans.find(feeds, fetches, targets) {
            return Ok(plan);
        }
        let signature = Signature::new(feeds, fetches, targets);
        let session = self.clone();
        let made = self.peers.spawner().run(async move { session.add_plan(signature).await });
        self.bounded(None, timeout.or(self.config.operation_timeout), made).await
    }

    async fn add_plan(&self, signature: Signature) -> Result<Arc<PlannedStep>> {
        let mut next_name = self.next_name.lock().await;
        let known = {
            let Signature { feeds, fetches, targets } = &signature;
            self.plans.find(&texts(feeds), &texts(fetches), &texts(targets))
        };
        if let Some(plan) = known {
            return Ok(plan);
        }
        self.running.check_open()?;
        let plan = Arc::new(self.make_plan(signature, &mut next_name, Run::Whole).await?);
        let bytes = plan.bytes;
        Ok(self.plans.insert(plan.signature.clone(), plan, bytes))
    }

    /// A plan for one partial run, whose state is its own.
    pub(super) async fn plan_partial(self: &Arc<Self>, signature: Signature) -> Result<PlannedStep> {
        self.running.check_open()?;
        let session = self.clone();
        let made = self.peers.spawner().run(async move {
            let mut next_name = session.next_name.lock().await;
            session.make_plan(signature, &mut next_name, Run::Partial).await
        });
        made.await
    }

    /// Plans a signature and registers its partitions.
    async fn make_plan(&self, signature: Signature, next_name: &mut u64, run: Run) -> Result<PlannedStep> {
        let state = self.state();
        let mut next = *next_name;
        // A partial run is cut where the client says, not where it would be simplest.
        let options = PlanOptions {
            simplify: self.config.simplify && run == Run::Whole,
            terminals: Terminals::Rendezvous,
        };
        let (plan, signature, fetch_needs, next) = self
            .peers
            .spawner()
            .do_long_work("planning", move || {
                let (placement, devices) = (&state.placement, &state.devices);
                let plan =
                    plan::plan_step(&state.checked, placement, devices, &signature, &mut next, &options)?;
                let needs = match run {
                    Run::Partial => partial_run::fetch_needs(&state.checked, &signature)?,
                    Run::Whole => Vec::new(),
                };
                let bytes = plan_bytes(plan.partitions.iter().map(|partition| &partition.graph));
                let mut partitions = Vec::with_capacity(plan.partitions.len());
                for partition in plan.partitions {
                    let device = &devices[partition.device.index()].name;
                    let task =
                        TaskId::new(device.job.clone().unwrap_or_default(), device.task.unwrap_or_default());
                    partitions.push((task, partition.graph, partition.feeds, partition.fetches));
                }
                Ok(((partitions, plan.feed_dtypes, bytes), signature, needs, next))
            })
            .await?;
        *next_name = next;
        let (partitions, feed_dtypes, bytes) = plan;
        let registrations = partitions.into_iter().map(|(task, graph, feeds, fetches)| async move {
            let registered = self.peers.worker(&task)?.register_graph(&self.handle, graph).await;
            let graph = registered.map_err(|status| from_task(&task, status))?;
            let (session, peers, is_over) = (self.handle.clone(), self.peers.clone(), self.is_over.clone());
            Ok::<_, Status>(RegisteredPartition { task, graph, feeds, fetches, session, peers, is_over })
        });
        let (mut partitions, mut failure) = (Vec::new(), None);
        for registered in join_all(registrations).await {
            match registered {
                Ok(partition) => partitions.push(partition),
                Err(status) => failure = failure.or(Some(status)),
            }
        }
        if let Some(status) = failure {
            return Err(status);
        }
        Ok(PlannedStep { signature, feed_dtypes, partitions, fetch_needs, bytes })
    }

    /// Notes that the session is in use, and by whom.
    pub(super) fn touch(&self, client: Option<&Connection>) {
        self.users.touch(client);
    }

    /// Looks whether the client is there. One that has a step under way is, however it asked for it.
    pub(super) fn look(&self) -> Presence {
        match self.users.look() {
            Presence::Over if self.running.count() > 0 => Presence::Gone,
            presence => presence,
        }
    }

    /// The connections of its client.
    pub(super) fn connections(&self) -> Vec<ConnectionId> {
        self.users.connections()
    }

    /// Lets what its tasks do between steps rest until the next one. Does not wait for them.
    pub(super) fn pause(&self) {
        for task in self.joined.lock().iter() {
            let Ok(worker) = self.peers.worker(task) else { continue };
            let (paused, handle, task) =
                (worker.pause_session(&self.handle), self.handle.clone(), task.clone());
            self.peers.spawner().spawn(async move {
                if let Err(status) = paused.await {
                    tracing::debug!("pausing session {handle} on {task}: {status}");
                }
            });
        }
    }

    /// Notes for whom its steps wait, for whoever asks.
    pub(super) fn note_waits(&self, waits: &[String]) {
        *self.waits.lock() = waits.to_vec();
    }

    pub(super) fn report(&self) -> MasterSessionStatus {
        MasterSessionStatus {
            handle: self.handle.clone(),
            age_seconds: self.clock.since(self.created).as_secs_f64(),
            idle_seconds: self.users.idle().as_secs_f64(),
            graph_nodes: self.state.read().checked.graph().len(),
            constant_bytes: self.state.read().constant_bytes as u64,
            plans: self.plans.len(),
            running_steps: self.running.count(),
            waits: self.waits.lock().clone(),
            client: self.users.last(),
            orphaned_seconds: self.users.gone_for().map(|gone| gone.as_secs_f64()),
        }
    }
}

impl Drop for MasterSession {
    /// A session that never came about, or was never closed.
    fn drop(&mut self) {
        if !self.joined.lock().is_empty() {
            drop(self.leave());
        }
    }
}
