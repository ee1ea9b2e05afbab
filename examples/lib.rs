//! Programs that train on clusters, to read and to start from. Each is one file; what several of them need stands here.
//!
//! | program | shows |
//! | --- | --- |
//! | `line_fit` | a graph, gradients, a session in this process |
//! | `hello` | a server that is a cluster of its own, and a session on it |
//! | `five_servers` | five servers in one process; binding nodes to tasks by hand and by `replica_device_setter` |
//! | `placement` | a model over two parameter servers and a worker, and where each node ran |
//! | `linear_regression` | a `Supervisor` that saves checkpoints and resumes from them |
//! | `partial_results` | workers that train the same variables and tell how far they are |
//! | `trainer` | the skeleton of a trainer: `MonitoredTrainingSession`, `StopAtStepHook`, a lost parameter server |
//! | `mnist_replica` | MNIST, asynchronously or synchronously, with all the flags of the well-known program |
//! | `towers` | in-graph replication: one client, a copy of the model per worker, averaged gradients |
//! | `lenet` | a convolutional network, in-graph replication over the workers of a cluster |
//! | `wide_and_deep` | clicks: embeddings partitioned over parameter servers, sparse gradients, a streaming AUC |
//! | `word2vec` | words that are alike: noise-contrastive estimation (NCE) over partitioned embeddings |
//! | `char_lstm` | an RNN that learns to write: a `while_loop`, trained |
//!
//! How to start them, and what they print, is in `README.md` beside this file.

#[cfg(doctest)]
mod guides;
pub mod text;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use clap::Args;
use tempfile::TempDir;
use tensorfleet::flags::TaskFlags;
use tensorfleet::{
    ClusterSpec, Graph, Result, RunMetadata, Server, ServerOptions, Session, SessionOptions, Status, TaskId,
    Tensor,
};

/// How long a parameter server of [`ClusterFlags::serve_until_done`] stays when no worker uses it any more: long enough to
/// start a worker again by hand.
const LINGER: Duration = Duration::from_secs(10);

/// Prints a line. When nobody reads it any more, training continues.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout().lock(), $($text)*);
    }};
}

/// The flags of a program that is one task of a cluster.
#[derive(Args, Clone, Debug)]
pub struct ClusterFlags {
    #[command(flatten)]
    task: TaskFlags,

    /// Timeout in seconds for tasks that do not answer, and for the chief.
    #[arg(
        long = "wait_secs",
        alias = "wait-secs",
        value_name = "SECONDS",
        default_value_t = 120,
        value_parser = whole_number
    )]
    pub wait_secs: u64,
}

/// A flag that is a whole number. For small numbers clap's ranges do; their error for a negative large one speaks of digits.
pub fn whole_number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("expected a whole number from 0 to {}", u64::MAX))
}

/// A flag that is a learning rate.
pub fn learning_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "expected a number above 0, e.g. 0.01".to_string())
}

impl ClusterFlags {
    /// The cluster and this process's task in it.
    pub fn resolve(&self) -> Result<(ClusterSpec, TaskId)> {
        let (cluster, task) = self.task.resolve()?;
        for job in ["ps", "worker"] {
            cluster.num_tasks(job)?;
        }
        match task.job.as_str() {
            "ps" | "worker" => Ok((cluster, task)),
            other => Err(Status::invalid_argument(format!(
                "--job_name={other} has no part in this program: say ps or worker"
            ))),
        }
    }

    /// Starts the server of this task. A parameter server serves until it is stopped.
    pub fn serve(&self, cluster: &ClusterSpec, task: &TaskId) -> Result<Server> {
        Server::start(self.server_options(cluster, task))
    }

    /// Starts the server of this task. A parameter server ends by itself when the workers are done.
    pub fn serve_until_done(&self, cluster: &ClusterSpec, task: &TaskId) -> Result<Server> {
        let until_done = (task.job == "ps").then_some(LINGER);
        Server::start(ServerOptions { until_done, ..self.server_options(cluster, task) })
    }

    /// This process's place in the cluster that the flags or `TF_CONFIG` describe; if they describe none, a cluster of so many
    /// tasks in this process, whose first worker it is.
    pub fn place(&self, local_ps: usize, local_workers: usize) -> Result<Place> {
        if !self.is_given() {
            let servers = start_local_cluster(local_ps, local_workers)?;
            let worker =
                servers.get(local_ps).ok_or_else(|| Status::invalid_argument("there is no worker"))?;
            let (cluster, target) = (worker.cluster().clone(), worker.target());
            return Ok(Place { cluster, task: TaskId::new("worker", 0), target, servers });
        }
        let (cluster, task) = self.resolve()?;
        let options = self.server_options(&cluster, &task);
        let server = Server::start(ServerOptions { until_done: Some(LINGER), ..options })?;
        Ok(Place { cluster, target: server.target(), task, servers: vec![server] })
    }

    /// Whether a cluster is described.
    fn is_given(&self) -> bool {
        let TaskFlags { ps_hosts, worker_hosts, cluster, job_name, task_index } = &self.task;
        let by_flags = [ps_hosts, worker_hosts, cluster, job_name].iter().any(|flag| flag.is_some());
        let by_environment = std::env::var("TF_CONFIG").is_ok_and(|config| !config.trim().is_empty());
        by_flags || task_index.is_some() || by_environment
    }

    fn server_options(&self, cluster: &ClusterSpec, task: &TaskId) -> ServerOptions {
        let options = ServerOptions::new(cluster.clone(), &task.job, task.index);
        ServerOptions { session_timeout: Duration::from_secs(self.wait_secs), ..options }
    }

    /// How the session of a worker behaves: it needs the parameter servers and itself, and waits for no other worker.
    pub fn session_options(&self, worker: &TaskId) -> SessionOptions {
        SessionOptions {
            device_filters: vec!["/job:ps".to_string(), worker.to_string()],
            connect_timeout: Duration::from_secs(self.wait_secs),
            ..SessionOptions::default()
        }
    }
}

/// A process's place in a cluster, with its server or, in a cluster inside this process, all servers.
pub struct Place {
    /// The cluster.
    pub cluster: ClusterSpec,
    /// The task of this process.
    pub task: TaskId,
    /// What its session connects to.
    pub target: String,
    servers: Vec<Server>,
}

impl Place {
    /// Whether this is the worker that initialises the model.
    pub fn is_chief(&self) -> bool {
        self.task.job == "worker" && self.task.index == 0
    }

    /// Serves until the program's work is done.
    pub fn serve(self) -> Result<()> {
        self.servers.first().map_or(Ok(()), Server::join)
    }
}

/// How fast a training goes.
pub struct Pace {
    begin: Instant,
}

impl Pace {
    /// Begins to measure.
    pub fn begin() -> Pace {
        Pace { begin: Instant::now() }
    }

    /// Prints how long so many steps of this process took, `examples` in each of them.
    pub fn report(&self, steps: u64, examples: usize) {
        let seconds = self.begin.elapsed().as_secs_f64().max(f64::EPSILON);
        let rate = steps as f64 / seconds;
        let examples = rate * examples as f64;
        say!("Trained {steps} step(s) in {seconds:.2} s: {rate:.1} steps/s, {examples:.0} examples/s");
    }
}

/// Addresses of this machine for `count` tasks: on ports from `base_port` on, or on free ones.
pub fn local_addresses(count: usize, base_port: Option<u16>) -> Result<Vec<String>> {
    let Some(base_port) = base_port else { return free_addresses(count) };
    let address = |index: usize| {
        let port = u16::try_from(index).ok().and_then(|index| base_port.checked_add(index));
        port.map(|port| format!("127.0.0.1:{port}"))
    };
    (0..count).map(address).collect::<Option<_>>().ok_or_else(|| {
        Status::invalid_argument(format!(
            "{count} tasks need as many ports from {base_port} on, and ports end at {}",
            u16::MAX
        ))
    })
}

/// Held together for a moment, so that they differ.
fn free_addresses(count: usize) -> Result<Vec<String>> {
    let listen = || -> std::io::Result<Vec<String>> {
        let listeners =
            (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<std::io::Result<Vec<_>>>()?;
        listeners.iter().map(|listener| Ok(listener.local_addr()?.to_string())).collect()
    };
    listen().map_err(|error| Status::unavailable(format!("no free port is to be had: {error}")))
}

/// Starts one task of a cluster on this machine, for nobody outside.
pub fn start_local(cluster: &ClusterSpec, job: &str, task: u32) -> Result<Server> {
    let options = ServerOptions::new(cluster.clone(), job, task);
    Server::start(ServerOptions { bind: Some("127.0.0.1".to_string()), ..options })
}

/// A cluster of so many tasks in this process; it ends with the servers.
pub fn start_local_cluster(ps: usize, workers: usize) -> Result<Vec<Server>> {
    let mut ps_hosts = free_addresses(ps + workers)?;
    let worker_hosts = ps_hosts.split_off(ps);
    let cluster = ClusterSpec::new([("ps", ps_hosts), ("worker", worker_hosts)])?;
    cluster.tasks().map(|(job, task, _)| start_local(&cluster, job, task)).collect()
}

/// A directory for checkpoints and event files.
pub struct LogDir {
    path: String,
    /// Removes it at the end.
    _temporary: Option<TempDir>,
}

impl LogDir {
    /// The directory that is given, or a temporary one.
    pub fn new(given: Option<&str>) -> Result<LogDir> {
        if let Some(path) = given {
            return Ok(LogDir { path: path.to_string(), _temporary: None });
        }
        let temporary = tempfile::tempdir().map_err(|error| {
            Status::unavailable(format!(
                "no temporary directory can be made: {error}; give one with --log_dir"
            ))
        })?;
        Ok(LogDir { path: temporary.path().to_string_lossy().into_owned(), _temporary: Some(temporary) })
    }

    /// Where it is.
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// On which device each node ran, by its name.
pub fn devices_of_nodes(record: &RunMetadata) -> BTreeMap<String, String> {
    let devices = record.step_stats.iter().flat_map(|stats| &stats.dev_stats);
    let nodes = devices.flat_map(|device| {
        device.node_stats.iter().map(|node| (node.node_name.clone(), device.device.clone()))
    });
    nodes.collect()
}

/// The numbers of tensors that have one each.
pub fn numbers<const N: usize>(tensors: [Tensor; N]) -> Result<[f32; N]> {
    let mut numbers = [0.0; N];
    for (number, tensor) in numbers.iter_mut().zip(&tensors) {
        *number = tensor.to_scalar()?;
    }
    Ok(numbers)
}

/// `count` points on a line from x = -1 to 1, moved up and down by normally distributed noise; the same for the same seed.
pub fn noisy_line(
    count: usize,
    [slope, intercept]: [f32; 2],
    noise: f32,
    seed: i64,
) -> Result<Vec<(f32, f32)>> {
    let g = Graph::new();
    g.set_random_seed(seed);
    let length = i32::try_from(count).map_err(|_| Status::invalid_argument("too many points"))?;
    let noise = Session::new(&g).run(g.random_normal([length], 0.0, noise)?)?;
    let step = 2.0 / (count.max(2) - 1) as f32;
    let point = |(index, noise): (usize, &f32)| {
        let x = -1.0 + step * index as f32;
        (x, slope * x + intercept + noise)
    };
    Ok(noise.as_slice::<f32>()?.iter().enumerate().map(point).collect())
}

/// Random numbers that are the same for the same seed, on every machine.
pub struct Random {
    state: u64,
}

impl Random {
    /// The numbers that belong to a seed.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// 64 random bits; SplitMix64 (Steele, Lea and Flood, 2014).
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A whole number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.bits() % limit.max(1) as u64) as usize
    }

    /// A number from 0 up to but without 1.
    pub fn uniform(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 24) as f32
    }

    /// A normally distributed number; the method of Box and Muller.
    pub fn normal(&mut self) -> f32 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f32::consts::TAU * self.uniform()).cos()
    }
}

/// Puts items into another order, which depends on nothing but their number.
pub fn shuffle<T>(items: &mut [T]) {
    // A linear congruential generator with Knuth's constants is random enough for this.
    let mut state = 0u64;
    for last in (1..items.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        items.swap(last, (state >> 33) as usize % (last + 1));
    }
}
