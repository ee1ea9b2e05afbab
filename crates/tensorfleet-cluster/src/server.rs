//! [`Server`]: one task's membership in a cluster, on one port.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tensorfleet_core::{Result, Status, Tensor, ensure, memory};
use tensorfleet_kernel::file_access::FileAccess;
use tensorfleet_proto::tensorflow::{ConfigProto, RunMetadata};
use tensorfleet_rpc::{ChannelOptions, Limits, Listener, serve};
use tensorfleet_runtime::Task;
use tensorfleet_threads::{ThreadCounts, Threads};
use tokio::sync::watch;

use crate::address;
use crate::cluster_spec::{ClusterSpec, TaskId};
use crate::io;
use crate::master::Master;
use crate::peers::{self, Peers};
use crate::request_log::RequestLog;
use crate::service;
use crate::status::{StepStatus, TaskStatus, Totals, WorkerSessionStatus};
use crate::worker::Worker;

/// How often forgotten things are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// How long a new session waits for tasks that are not there yet.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(60);
/// How long calls under way may take after a server was told to stop, whatever was asked for.
const MAX_GRACE: Duration = Duration::from_secs(3600);
/// How long closing sessions may take when a server ends.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);
/// How often a server that ends with its sessions looks whether there are any.
const IDLE_CHECK_EVERY: Duration = Duration::from_millis(250);

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
    /// How long a task that does not say a word, while it owes an answer, is believed to be alive. `None`: 15 seconds.
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
            session_timeout: DEFAULT_PATIENCE,
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
    stop: watch::Sender<Option<Duration>>,
    ended: watch::Sender<bool>,
    /// The last error of the accept loop.
    failure: Mutex<Option<Status>>,
    request_log: RequestLog,
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
            options.peer_timeout.map_or_else(ChannelOptions::default, ChannelOptions::believing_for);
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
        let peers = Arc::new(Peers::new(cluster.clone(), channels));
        let worker = Arc::new(Worker::new(Task::new(&job, task, files, threads), peers.clone()));
        let master = Master::new(own.clone(), worker.clone(), peers.clone(), config, session_timeout);
        let core = Arc::new(ServerCore {
            task: own,
            cluster,
            address,
            port,
            worker,
            master: Arc::new(master),
            peers,
            started: Instant::now(),
            stop: watch::Sender::new(None),
            ended: watch::Sender::new(false),
            failure: Mutex::default(),
            request_log: RequestLog::new(),
        });
        peers::announce(&core);
        io::handle().spawn(run(core.clone(), listener, limits));
        io::handle().spawn(sweep(core.clone()));
        if let Some(linger) = until_done {
            io::handle().spawn(end_when_done(core.clone(), linger));
        }
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

    /// Comes when the server has ended, like [`Server::join`].
    pub async fn ended(&self) -> Result<()> {
        self.core.wait_for_end().await
    }

    /// Ends the server: no new calls; those under way may finish within `grace`, then they are cancelled. Frees the port.
    pub fn stop(&self, grace: Duration) -> Result<()> {
        self.core.stop.send_replace(Some(grace));
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
        peers::withdraw(&self.core);
    }
}

impl ServerCore {
    pub(crate) fn worker(&self) -> &Arc<Worker> {
        &self.worker
    }

    pub(crate) fn master(&self) -> &Arc<Master> {
        &self.master
    }

    pub(crate) fn request_log(&self) -> &RequestLog {
        &self.request_log
    }

    /// The names by which this process knows the server.
    pub(crate) fn local_addresses(&self) -> [String; 2] {
        [self.address.clone(), format!("localhost:{}", self.port)]
    }

    pub(crate) fn cluster(&self) -> &ClusterSpec {
        &self.cluster
    }

    /// Begins the end: a call that asks for it is answered first.
    pub(crate) fn request_stop(&self) {
        tracing::info!("{} was asked to end", self.task);
        self.stop.send_if_modified(|stop| stop.replace(Duration::from_secs(5)).is_none());
    }

    /// Whether the server has been told to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.borrow().is_some()
    }

    /// Runs a callable for a client in this process.
    pub(crate) async fn run_callable(
        &self,
        session: &str,
        callable: i64,
        feeds: Vec<Tensor>,
    ) -> Result<(Vec<Tensor>, RunMetadata)> {
        self.master.touch(session, None);
        self.master.run_callable(session, callable, feeds, 0).await
    }

    async fn wait_for_end(&self) -> Result<()> {
        // The sender is part of what is borrowed, so it cannot go away.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
        self.failure.lock().clone().map_or(Ok(()), Err)
    }

    pub(crate) fn status_json(&self) -> Vec<u8> {
        serde_json::to_vec(&self.status()).unwrap_or_default()
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
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            memory_bytes: memory::live_bytes() as u64,
            resident_bytes: crate::status::resident_bytes(),
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

/// Serves until told to stop, and then until the calls under way are done or the time for that is over.
async fn run(core: Arc<ServerCore>, listener: Listener, limits: Limits) {
    let stopped = || async {
        let mut stop = core.stop.subscribe();
        // The sender lives as long as the server.
        let grace = stop.wait_for(Option::is_some).await.map_or(None, |grace| *grace);
        peers::withdraw(&core);
        grace.unwrap_or_default()
    };
    let shutdown = async {
        stopped().await;
    };
    let serving = serve(listener, service::handler(core.clone()), limits, shutdown, MAX_GRACE);
    let too_late = async { tokio::time::sleep(stopped().await).await };
    tokio::select! {
        served = serving => *core.failure.lock() = served.err(),
        () = too_late => tracing::info!("{} ends with calls under way", core.task),
    }
    // Sessions whose clients never said goodbye, and those of clients in this process.
    let _ = tokio::time::timeout(CLOSE_PATIENCE, core.master.close_all()).await;
    core.ended.send_replace(true);
}

/// Looks for forgotten things as long as the server lives.
async fn sweep(core: Arc<ServerCore>) {
    let mut ended = core.ended.subscribe();
    loop {
        tokio::select! {
            _ = ended.wait_for(|ended| *ended) => return,
            () = tokio::time::sleep(SWEEP_EVERY) => {}
        }
        core.worker.sweep();
        core.master.sweep().await;
    }
}

/// Ends the server once it has had sessions and has none any more.
async fn end_when_done(core: Arc<ServerCore>, linger: Duration) {
    let mut ended = core.ended.subscribe();
    let (mut sessions_seen, mut idle_since) = (0, Instant::now());
    loop {
        // Sessions that came and went since the last look count as well.
        let made = core.worker.sessions_made();
        if core.worker.num_sessions() > 0 || made > sessions_seen {
            (sessions_seen, idle_since) = (made, Instant::now());
        }
        if sessions_seen > 0 && idle_since.elapsed() >= linger {
            tracing::info!("{} ends: all sessions that used it are over", core.task);
            core.request_stop();
            return;
        }
        tokio::select! {
            _ = ended.wait_for(|ended| *ended) => return,
            () = tokio::time::sleep(IDLE_CHECK_EVERY) => {}
        }
    }
}
