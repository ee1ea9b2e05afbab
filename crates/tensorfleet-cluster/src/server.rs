//! [`Server`]: one task's membership in a cluster, on one port.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tensorfleet_core::clock::Clock;
use tensorfleet_core::{Result, Status, Tensor, ensure, memory};
use tensorfleet_kernel::file_access::FileAccess;
use tensorfleet_proto::tensorflow::ConfigProto;
use tensorfleet_rpc::{ChannelOptions, Limits, Listener, serve};
use tensorfleet_runtime::Task;
use tensorfleet_threads::{ThreadCounts, Threads};
use tokio::sync::watch;

use crate::address;
use crate::cluster_spec::{ClusterSpec, TaskId};
use crate::io;
use crate::local_tasks::{self, Announced, CallableResult, LocalTask};
use crate::master::Master;
use crate::peers::Peers;
use crate::request_log::RequestLog;
use crate::service::{ServerControl, Services};
use crate::status::{self, StepStatus, TaskStatus, Totals, WorkerSessionStatus};
use crate::tasks::TaskOwner;
use crate::worker::Worker;
use crate::worker_api::WorkerApi;

/// How often forgotten things are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// How long a new session waits for tasks that are not there yet.
const DEFAULT_SESSION_TIMEOUT: Duration = Duration::from_secs(60);
/// How long calls under way may take after a server was told to stop, whatever was asked for.
const MAX_STOP_TIMEOUT: Duration = Duration::from_secs(3600);
/// How long closing sessions may take when a server ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
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
    /// Where to listen, as `host:port` or `host`; by default all interfaces, on the port the cluster names.
    pub bind: Option<String>,
    /// Settings of all sessions on this server; they win over a client's. `intra_op_parallelism_threads` and
    /// `inter_op_parallelism_threads` size the server's own threads: a client's are not asked, as in TensorFlow.
    pub config: ConfigProto,
    /// How long a new session waits for tasks that do not answer.
    pub session_timeout: Duration,
    /// How long a task may be silent, while it owes an answer, before it is given up. `None`: 15 seconds.
    pub peer_timeout: Option<Duration>,
    /// How many bytes the requests under way may take together; more are refused with `ResourceExhausted`. `None`: most of
    /// the machine's memory.
    pub max_pending_bytes: Option<usize>,
    /// The directories below which graphs may read and write files. Empty: wherever this process may, as in TensorFlow.
    pub file_roots: Vec<PathBuf>,
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
            file_roots: Vec::new(),
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
}

/// What all calls to a server share.
pub(crate) struct ServerCore {
    task: TaskId,
    cluster: Arc<ClusterSpec>,
    /// The address the cluster knows it by.
    address: String,
    port: u16,
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
        let ServerOptions {
            cluster, job, task, bind, config, session_timeout, file_roots, until_done, ..
        } = options;
        let counts =
            ThreadCounts::new(config.intra_op_parallelism_threads, config.inter_op_parallelism_threads)?;
        let threads = Threads::with_counts(counts).for_server();
        let files = match file_roots.is_empty() {
            true => FileAccess::EVERYWHERE,
            false => FileAccess::below(&file_roots)?,
        };
        let channels =
            options.peer_timeout.map_or_else(ChannelOptions::default, ChannelOptions::with_peer_timeout);
        let limits = options.max_pending_bytes.map_or_else(Limits::default, Limits::pending_bytes);
        let address = cluster.address(&job, task)?.to_string();
        let (_, port) = address::split(&address)?;
        let listener = Listener::bind(&bind_address(bind.as_deref(), port)?)?;
        let port = listener.address().port();
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
        let (clock, tasks) = (Clock::system(), TaskOwner::new(io::handle().clone()));
        let peers = Arc::new(Peers::new(cluster.clone(), channels, tasks.spawner(), clock.clone()));
        let task = Task::new(&job, task, files, threads);
        let incarnation = task.incarnation();
        let worker = Arc::new(Worker::new(task, peers.clone(), clock.clone()));
        let master = Master::new(
            own.clone(),
            incarnation,
            worker.clone(),
            peers.clone(),
            config,
            session_timeout,
            clock.clone(),
        );
        let core = Arc::new(ServerCore {
            task: own,
            cluster,
            address,
            port,
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
        core.announce();
        #[expect(
            clippy::disallowed_methods,
            reason = "not a task of the server's own: it outlives the `Server` by as long as closing the sessions takes"
        )]
        io::handle().spawn(run(core.clone(), listener, limits, until_done));
        Ok(Server { core })
    }

    /// A cluster of one task, `/job:local/task:0`, on a free port of the local host.
    pub fn local() -> Result<Server> {
        let cluster = ClusterSpec::new([("local", ["localhost:0"])])?;
        let options = ServerOptions::new(cluster, "local", 0);
        Server::start(ServerOptions { bind: Some("127.0.0.1".to_string()), ..options })
    }

    /// What a client connects to: `grpc://localhost:2222`.
    pub fn target(&self) -> String {
        format!("grpc://localhost:{}", self.core.port)
    }

    /// The address other tasks reach this one by.
    pub fn address(&self) -> &str {
        &self.core.address
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.core.port
    }

    /// The cluster, with the port that was chosen if the system chose it.
    pub fn cluster(&self) -> &ClusterSpec {
        &self.core.cluster
    }

    /// Waits until the server has ended: by [`Server::stop`], by a request to end, or by itself
    /// ([`ServerOptions::until_done`]).
    pub fn join(&self) -> Result<()> {
        io::block_on(self.core.wait_for_end())
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
    ) -> BoxFuture<'_, CallableResult> {
        let run = async move {
            self.master.touch(&session, None);
            self.master.run_callable(&session, callable, feeds, 0).await
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
    fn announce(self: &Arc<Self>) {
        let names = vec![self.address.clone(), format!("localhost:{}", self.port)];
        let task: Arc<dyn LocalTask> = self.clone();
        *self.announced.lock() = Some(local_tasks::announce(&task, names));
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
            age_seconds: session.age.as_secs_f64(),
            idle_seconds: session.idle.as_secs_f64(),
            master: session.master,
        });
        let running = self.worker.report_steps().into_iter().map(|step| StepStatus {
            step_id: step.id,
            session: step.session,
            age_seconds: step.age.as_secs_f64(),
            state: step.state.to_string(),
            waiting_for: step.waiting_for,
        });
        TaskStatus {
            task: self.task.full_name(),
            address: self.address.clone(),
            incarnation: format!("{:016x}", self.worker.task().incarnation()),
            version: env!("CARGO_PKG_VERSION").to_string(),
            pid: std::process::id(),
            uptime_seconds: self.clock.since(self.started).as_secs_f64(),
            memory_bytes: memory::live_bytes() as u64,
            resident_bytes: status::resident_bytes(),
            cluster: ClusterSpec::clone(&self.cluster),
            devices: self.worker.devices().into_iter().map(|device| device.name).collect(),
            master_sessions: self.master.report(),
            worker_sessions: sessions.collect(),
            steps: running.collect(),
            totals: Totals { steps, failed_steps, bytes_sent, bytes_received },
        }
    }
}

/// TensorFlow listens on all interfaces, whatever host the cluster names; so do we, unless told otherwise.
fn bind_address(bind: Option<&str>, port: u16) -> Result<String> {
    match bind {
        None => Ok(format!("0.0.0.0:{port}")),
        Some(bind) => match address::split(bind) {
            Ok(_) => Ok(bind.to_string()),
            Err(_) => {
                ensure!(!bind.is_empty(), InvalidArgument, "the address to listen on is empty");
                Ok(format!("{bind}:{port}"))
            }
        },
    }
}

/// Serves until told to stop, and then until the calls under way are done or the time for that is over. Meanwhile sweeps,
/// and ends the server by itself if that was asked for.
async fn run(core: Arc<ServerCore>, listener: Listener, limits: Limits, until_done: Option<Duration>) {
    let services = Services {
        worker: core.worker.clone(),
        master: core.master.clone(),
        cluster: core.cluster.clone(),
        request_log: RequestLog::new(core.clock.clone()),
        server: core.clone(),
    };
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
    let serving = serve(listener, Arc::new(services), limits, shutdown, MAX_STOP_TIMEOUT);
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
        () = sweep(&core) => {}
        () = done => {}
    }
    // Sessions whose clients never said goodbye, and those of clients in this process.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, core.master.close_all()).await;
    core.ended.send_replace(true);
}

/// Looks for forgotten things. Never ends.
async fn sweep(core: &ServerCore) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        core.worker.sweep();
        core.master.sweep().await;
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
