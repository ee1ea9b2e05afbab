//! [`Server`]: one task's membership in a cluster, on one port.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tensorfleet_core::clock::Clock;
use tensorfleet_core::{Result, Status, Tensor, memory};
use tensorfleet_kernel::file_access::FileAccess;
use tensorfleet_proto::tensorflow::ConfigProto;
use tensorfleet_rpc::{ChannelOptions, Handler, Limits, Listener, Network, serve};
use tensorfleet_runtime::Task;
use tensorfleet_threads::ThreadCounts;
use tokio::sync::watch;

use crate::address;
use crate::cluster_spec::{ClusterSpec, TaskId};
use crate::default_placement::DefaultPlacement;
use crate::environment::Environment;
use crate::idle_memory::IdleMemory;
use crate::io;
use crate::listening;
use crate::local_tasks::{Announced, CallableResult, LocalTask, LocalTasks};
use crate::master::{Master, SessionDefaults};
use crate::members::{self, Members};
use crate::numbered_request::NumberedRequest;
use crate::peers::Peers;
use crate::request_log::RequestLog;
use crate::service::{ServerControl, Services};
use crate::status::{self, TaskStatus, Totals, WorkerSessionStatus};
use crate::tasks::TaskOwner;
use crate::worker::Worker;
use crate::worker_api::{Waits, WorkerApi};

/// How often forgotten things are looked for: what the dead leave behind has to rest within a second or two.
const SWEEP_EVERY: Duration = Duration::from_millis(500);
/// How long a new session waits for tasks that are not there yet.
const DEFAULT_SESSION_TIMEOUT: Duration = Duration::from_secs(60);
/// How long calls under way may take after a server was told to stop, whatever was asked for.
const MAX_STOP_TIMEOUT: Duration = Duration::from_secs(3600);
/// How long closing sessions may take when a server ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a server that ends with its sessions looks whether there are any.
const IDLE_CHECK_EVERY: Duration = Duration::from_millis(250);
/// How long calls under way may take after somebody asked the server to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// How a server is started.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// All tasks of the cluster.
    pub cluster: ClusterSpec,
    /// The job of this task.
    pub job: String,
    /// The index of this task in its job.
    pub task: u32,
    /// Where to listen, as `host:port` or `host`. By default on the port the cluster names: on the loopback interface if the cluster
    /// knows this task as `localhost` or another loopback address, else on all interfaces.
    pub bind: Option<String>,
    /// Settings of all sessions on this server; they win over a client's. `intra_op_parallelism_threads` and
    /// `inter_op_parallelism_threads` size the server's own threads: a client's are not asked, as in TensorFlow.
    pub config: ConfigProto,
    /// How long a new session waits for tasks that do not answer.
    pub session_timeout: Duration,
    /// How long a task may be silent, while it owes an answer, before it is given up. `None`: 15 seconds.
    pub peer_timeout: Option<Duration>,
    /// How many bytes the requests under way may take together; more are refused with `ResourceExhausted`. `None`: three
    /// quarters of what the process may take.
    pub max_pending_bytes: Option<usize>,
    /// In this time a message that is being received must have got on, or it is given up. `None`: 30 seconds.
    pub stall_timeout: Option<Duration>,
    /// A connection that has not brought a request by then is closed. `None`: 20 seconds.
    pub first_request_timeout: Option<Duration>,
    /// A connection without requests for this long is closed, unless its client has a session. `None`: ten minutes.
    pub idle_timeout: Option<Duration>,
    /// How many bytes the values, buffers and graphs of this process may take; more are refused with `ResourceExhausted`. It
    /// holds for all servers and sessions of the process. `None`: most of what the system grants (see `docs/fault-tolerance.md`).
    pub max_memory_bytes: Option<usize>,
    /// The directories below which graphs may read and write files. Empty: wherever this process may, as in TensorFlow.
    pub file_roots: Vec<PathBuf>,
    /// Where nodes go that fit several tasks.
    pub default_placement: DefaultPlacement,
    /// Called when the server has been idle for some seconds, or a session has ended and none is at work. For a program that is
    /// nothing but a server, to give back memory of the whole process (`release_freed_memory`), which a library leaves alone.
    pub on_idle: Option<fn()>,
    /// Ends the server by itself once sessions have come and gone, and none has come back for this long.
    pub until_done: Option<Duration>,
}

impl ServerOptions {
    /// Task `task` of job `job` in `cluster`, with nothing else said.
    pub fn new(cluster: ClusterSpec, job: &str, task: u32) -> ServerOptions {
        ServerOptions {
            cluster,
            job: job.to_string(),
            task,
            bind: None,
            config: ConfigProto::default(),
            session_timeout: DEFAULT_SESSION_TIMEOUT,
            peer_timeout: None,
            max_pending_bytes: None,
            stall_timeout: None,
            first_request_timeout: None,
            idle_timeout: None,
            max_memory_bytes: None,
            file_roots: Vec::new(),
            default_placement: DefaultPlacement::default(),
            on_idle: None,
            until_done: None,
        }
    }
}

/// A running server. Dropping it stops it at once.
///
/// ```
/// # use tensorfleet_ops as _; // a program links the ops by depending on `tensorfleet`
/// use tensorfleet_cluster::Server;
///
/// let server = Server::local()?;
/// assert!(server.target().starts_with("grpc://localhost:"));
/// # Ok::<(), tensorfleet_core::Status>(())
/// ```
pub struct Server {
    core: Arc<ServerCore>,
    services: Arc<Services>,
}

/// What all calls to a server share.
pub(crate) struct ServerCore {
    task: TaskId,
    cluster: Arc<ClusterSpec>,
    /// The address the cluster knows it by.
    address: String,
    /// Where it listens.
    listening: SocketAddr,
    worker: Arc<Worker>,
    master: Arc<Master>,
    peers: Arc<Peers>,
    started: Instant,
    clock: Clock,
    stop: watch::Sender<Option<Duration>>,
    ended: watch::Sender<bool>,
    /// The last error of the accept loop.
    failure: Mutex<Option<Status>>,
    /// Present while others of this process may find it.
    announced: Mutex<Option<Announced>>,
    /// What the server sends and drives without being waited for; cancelled with it.
    _tasks: TaskOwner,
}

impl Server {
    /// Starts a server: when this returns, it listens.
    pub fn start(options: ServerOptions) -> Result<Server> {
        Server::start_in(options, Environment::of_process())
    }

    /// Starts a server somewhere else than in this process at large.
    pub fn start_in(options: ServerOptions, environment: Environment) -> Result<Server> {
        let ServerOptions {
            cluster,
            job,
            task,
            bind,
            config,
            session_timeout,
            file_roots,
            until_done,
            on_idle,
            ..
        } = options;
        let counts =
            ThreadCounts::new(config.intra_op_parallelism_threads, config.inter_op_parallelism_threads)?;
        let threads = environment.threads(counts);
        let files = match file_roots.is_empty() {
            true => FileAccess::EVERYWHERE,
            false => FileAccess::below(&file_roots)?,
        };
        let channels =
            options.peer_timeout.map_or_else(ChannelOptions::default, ChannelOptions::with_peer_timeout);
        let channels = ChannelOptions { network: environment.network.clone(), ..channels };
        if let Some(bytes) = options.max_memory_bytes {
            memory::set_limit_bytes(bytes);
        }
        let limits = options.max_pending_bytes.map_or_else(Limits::default, Limits::pending_bytes);
        let limits = Limits {
            stall_timeout: options.stall_timeout.unwrap_or(limits.stall_timeout),
            first_request_timeout: options.first_request_timeout.unwrap_or(limits.first_request_timeout),
            idle_timeout: options.idle_timeout.unwrap_or(limits.idle_timeout),
            ..limits
        };
        let address = cluster.address(&job, task)?.to_string();
        let (host, port) = address::split(&address)?;
        let listener = environment.listen(&listening::bind_address(bind.as_deref(), host, port)?, port)?;
        let (host, listening) = (host.to_string(), listener.address());
        let port = listening.port();
        // A one-task cluster may leave the choice of the port to the system.
        let (address, cluster) = match address.strip_suffix(":0") {
            Some(host) => {
                let address = format!("{host}:{port}");
                (address.clone(), cluster.with_address(&job, task, &address)?)
            }
            None => (address, cluster),
        };
        let cluster = Arc::new(cluster);
        let own = TaskId::new(&job, task);
        let Environment { runtime, network, local_tasks, long_work, .. } = environment;
        let (clock, tasks) = (Clock::system(), TaskOwner::new(runtime.clone()).with_long_work(long_work));
        let spawner = tasks.spawner();
        let introduction = members::introduction(&own.full_name(), &cluster);
        let channels = ChannelOptions { introduction: Arc::new(introduction), ..channels };
        let peers = Peers::new(cluster.clone(), channels, spawner, clock.clone(), local_tasks.clone());
        let peers = Arc::new(peers);
        let task = Task::new(&job, task, files, threads);
        let incarnation = task.incarnation();
        let worker = Arc::new(Worker::new(task, peers.clone(), clock.clone()));
        let master = Master::new(
            own.clone(),
            incarnation,
            worker.clone(),
            peers.clone(),
            SessionDefaults { config, default_placement: options.default_placement },
            session_timeout,
            clock.clone(),
        );
        let core = Arc::new(ServerCore {
            task: own,
            cluster,
            address,
            listening,
            worker,
            master: Arc::new(master),
            peers,
            started: clock.now(),
            clock,
            stop: watch::Sender::new(None),
            ended: watch::Sender::new(false),
            failure: Mutex::default(),
            announced: Mutex::default(),
            _tasks: tasks,
        });
        let services = Arc::new(Services {
            members: Arc::new(Members::new(&core.cluster)),
            worker: core.worker.clone(),
            master: core.master.clone(),
            cluster: core.cluster.clone(),
            request_log: RequestLog::new(core.clock.clone()),
            server: core.clone(),
        });
        core.announce(&local_tasks);
        if bind.is_none() && network.is_none() {
            let task = core.task.clone();
            let warning = async move { listening::warn_of_foreign_address(&task, &host).await };
            core.peers.spawner().spawn(warning);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "not a task of the server's own: it outlives the `Server` by as long as closing the sessions takes"
        )]
        runtime.spawn(run(core.clone(), services.clone(), listener, network, limits, until_done, on_idle));
        Ok(Server { core, services })
    }

    /// A cluster of one task, `/job:local/task:0`, on a free port of the local host.
    pub fn local() -> Result<Server> {
        let cluster = ClusterSpec::new([("local", ["localhost:0"])])?;
        let options = ServerOptions::new(cluster, "local", 0);
        Server::start(ServerOptions { bind: Some("127.0.0.1".to_string()), ..options })
    }

    /// What a client connects to: `grpc://localhost:2222`.
    pub fn target(&self) -> String {
        format!("grpc://{}:{}", listening::host_for_clients(self.core.listening), self.port())
    }

    /// The address other tasks reach this one by.
    pub fn address(&self) -> &str {
        &self.core.address
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.core.listening.port()
    }

    /// Whether it listens on all interfaces of this machine.
    pub fn is_on_all_interfaces(&self) -> bool {
        self.core.listening.ip().is_unspecified()
    }

    /// The cluster, with the port that was chosen if the system chose it.
    pub fn cluster(&self) -> &ClusterSpec {
        &self.core.cluster
    }

    /// Waits until the server has ended: by [`Server::stop`], by a request to end, or by itself
    /// ([`ServerOptions::until_done`]).
    pub fn join(&self) -> Result<()> {
        io::block_on(io::interruptible(self.core.wait_for_end()))
    }

    /// Resolves once the server has ended, like [`Server::join`].
    pub async fn ended(&self) -> Result<()> {
        self.core.wait_for_end().await
    }

    /// Ends the server: no new calls; those under way may finish within `timeout`, then they are cancelled. Frees the port.
    pub fn stop(&self, timeout: Duration) -> Result<()> {
        self.core.stop.send_replace(Some(timeout));
        self.join()
    }

    /// What the server tells about itself.
    pub fn status(&self) -> TaskStatus {
        self.core.status()
    }

    /// What answers the calls that come through the port, for calls that come another way.
    pub fn handler(&self) -> Arc<dyn Handler> {
        self.services.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.core.stop.send_replace(Some(Duration::ZERO));
        self.core.withdraw();
    }
}

impl LocalTask for ServerCore {
    fn worker(&self) -> Arc<dyn WorkerApi> {
        self.worker.clone()
    }

    fn has_session(&self, handle: &str) -> bool {
        self.master.has_session(handle)
    }

    fn is_stopping(&self) -> bool {
        self.stop.borrow().is_some()
    }

    fn run_callable(
        &self,
        session: String,
        callable: i64,
        feeds: Vec<Tensor>,
        numbered: Option<NumberedRequest>,
    ) -> BoxFuture<'_, CallableResult> {
        let run = async move {
            self.master.touch(&session, None);
            self.master.run_callable(&session, callable, feeds, 0, numbered).await
        };
        run.boxed()
    }
}

impl ServerControl for ServerCore {
    fn status(&self) -> TaskStatus {
        ServerCore::status(self)
    }

    fn request_stop(&self) {
        tracing::info!("{} was asked to end", self.task);
        self.stop.send_if_modified(|stop| stop.replace(STOP_TIMEOUT).is_none());
    }
}

impl ServerCore {
    /// Lets others of this process find the server.
    fn announce(self: &Arc<Self>, local_tasks: &LocalTasks) {
        let names = vec![self.address.clone(), format!("localhost:{}", self.listening.port())];
        let task: Arc<dyn LocalTask> = self.clone();
        *self.announced.lock() = Some(local_tasks.announce(&task, names));
    }

    fn withdraw(&self) {
        drop(self.announced.lock().take());
    }

    async fn wait_for_end(&self) -> Result<()> {
        // The sender is part of what is borrowed, so it cannot go away.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
        self.failure.lock().clone().map_or(Ok(()), Err)
    }

    fn status(&self) -> TaskStatus {
        let (steps, failed_steps) = self.master.totals();
        let (bytes_sent, bytes_received) = self.peers.traffic();
        let sessions = self.worker.report_sessions().into_iter().map(|session| WorkerSessionStatus {
            handle: session.handle,
            graphs: session.graphs,
            constant_bytes: session.constant_bytes as u64,
            age_seconds: session.age.as_secs_f64(),
            idle_seconds: session.idle.as_secs_f64(),
            master: session.master,
            orphaned_seconds: session.orphaned.map(|gone| gone.as_secs_f64()),
        });
        let Waits { incarnation, steps: running, rounds } = self.worker.waits();
        TaskStatus {
            task: self.task.full_name(),
            address: self.address.clone(),
            incarnation: format!("{incarnation:016x}"),
            version: env!("CARGO_PKG_VERSION").to_string(),
            pid: std::process::id(),
            uptime_seconds: self.clock.since(self.started).as_secs_f64(),
            memory_bytes: memory::live_bytes() as u64,
            resident_bytes: status::resident_bytes(),
            cluster: ClusterSpec::clone(&self.cluster),
            devices: self.worker.devices().into_iter().map(|device| device.name).collect(),
            master_sessions: self.master.report(),
            worker_sessions: sessions.collect(),
            steps: running,
            rounds,
            totals: Totals { steps, failed_steps, bytes_sent, bytes_received },
        }
    }
}

/// Serves until told to stop, and then until the calls under way are done or the time for that is over. Meanwhile sweeps,
/// and ends the server by itself if that was asked for.
async fn run(
    core: Arc<ServerCore>,
    services: Arc<Services>,
    listener: Listener,
    network: Option<Arc<dyn Network>>,
    limits: Limits,
    until_done: Option<Duration>,
    on_idle: Option<fn()>,
) {
    let members = services.members.clone();
    let stopped = || async {
        let mut stop = core.stop.subscribe();
        // The sender lives as long as the server.
        let timeout = stop.wait_for(Option::is_some).await.map_or(None, |timeout| *timeout);
        core.withdraw();
        timeout.unwrap_or_default()
    };
    let shutdown = async {
        stopped().await;
    };
    let serving = serve(listener, services, limits, shutdown, MAX_STOP_TIMEOUT);
    let too_late = async { tokio::time::sleep(stopped().await).await };
    let done = async {
        match until_done {
            Some(linger) => stop_when_done(&core, linger).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        served = serving => *core.failure.lock() = served.err(),
        () = too_late => tracing::info!("{} ends with calls under way", core.task),
        () = sweep(&core, on_idle) => {}
        () = known(&members, &core.cluster, network.as_deref()) => {}
        () = core.master.watch() => {}
        () = done => {}
    }
    // Sessions whose clients never said goodbye, and those of clients in this process.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, core.master.close_all()).await;
    core.ended.send_replace(true);
}

/// Finds out where the members of the cluster are. Never ends: the server does.
async fn known(members: &Members, cluster: &ClusterSpec, network: Option<&dyn Network>) {
    members.look_up(cluster, network).await;
    std::future::pending().await
}

/// Looks for forgotten things. Never ends.
async fn sweep(core: &ServerCore, on_idle: Option<fn()>) {
    let mut idle = IdleMemory::new(core.clock.now());
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        core.worker.sweep();
        core.master.sweep().await;
        let ended = core.worker.sessions_ended() + core.master.sessions_ended();
        if idle.is_due(memory::block_requests(), ended, core.clock.now()) {
            let release = move || {
                memory::release_freed();
                on_idle.into_iter().for_each(|on_idle| on_idle());
                Ok(())
            };
            // Fails only with the server.
            let _ = core.worker.spawner().do_long_work("giving memory back", release).await;
        }
    }
}

/// Asks the server to end once it has had sessions and has none any more. Never ends itself: the server does.
async fn stop_when_done(core: &ServerCore, linger: Duration) {
    let mut idle = Idleness { sessions_seen: 0, since: core.clock.now() };
    let (made, open) = (|| core.worker.sessions_made(), || core.worker.num_sessions());
    while !idle.is_over(made(), open(), core.clock.now(), linger) {
        tokio::time::sleep(IDLE_CHECK_EVERY).await;
    }
    tracing::info!("{} ends: all sessions that used it are over", core.task);
    core.request_stop();
    std::future::pending().await
}

/// Since when a server has had no sessions.
struct Idleness {
    sessions_seen: u64,
    since: Instant,
}

impl Idleness {
    /// Whether sessions have come and gone, and none has come back for `linger`: looked at now, when `made` have been made
    /// in all and `open` are there.
    fn is_over(&mut self, made: u64, open: usize, now: Instant, linger: Duration) -> bool {
        // Sessions that came and went since the last look count as well.
        if open > 0 || made > self.sessions_seen {
            (self.sessions_seen, self.since) = (made, now);
        }
        self.sessions_seen > 0 && now.saturating_duration_since(self.since) >= linger
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_done_when_sessions_have_come_and_gone_and_none_comes_back() {
        let (hand, linger) = (Clock::manual(), Duration::from_secs(10));
        let mut idle = Idleness { sessions_seen: 0, since: hand.now() };
        hand.advance(linger * 100);
        assert!(!idle.is_over(0, 0, hand.now(), linger), "nobody has come yet");
        assert!(!idle.is_over(1, 1, hand.now(), linger));
        hand.advance(linger);
        assert!(!idle.is_over(1, 1, hand.now(), linger), "it is still there");
        hand.advance(linger - Duration::from_millis(1));
        assert!(!idle.is_over(1, 0, hand.now(), linger));
        assert!(!idle.is_over(2, 0, hand.now(), linger), "another one came and went between two looks");
        hand.advance(linger);
        assert!(idle.is_over(2, 0, hand.now(), linger));
    }
}
