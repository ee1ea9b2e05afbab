//! Clusters of real processes on loopback, for tests: started on free ports, restarted on request, gone when dropped.
//!
//! A task may be served by Tensorfleet or by TensorFlow, so the same code makes clusters of ours, mixed clusters and,
//! with [`Server::under_test`], clusters of TensorFlow alone, which tell whether a test is right.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tensorfleet_cluster::TaskStatus;

use crate::python::{self, Interpreter};

/// TensorFlow needs most of this, on a machine with other work.
const START_LIMIT: Duration = Duration::from_secs(90);
/// How often ports are chosen anew, when someone else took one between our look and the server's.
const START_ATTEMPTS: usize = 4;
/// How long a task may take to tell its status.
const STATUS_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);

/// Whose server runs a task.
#[derive(Clone, Debug)]
pub enum Server {
    /// `tensorfleet serve`.
    Tensorfleet,
    /// `tensorfleet serve` in a process that may map so many bytes.
    WithAddressSpace(u64),
    /// A TensorFlow server, in a Python process.
    TensorFlow(Interpreter),
}

impl Server {
    /// Ours; with `TENSORFLEET_TEST_SERVERS=tensorflow` those of the client's own TensorFlow, to test the tests.
    pub fn under_test(client: &Interpreter) -> Result<Server, String> {
        match std::env::var("TENSORFLEET_TEST_SERVERS").as_deref() {
            Ok("tensorflow") => Ok(Server::TensorFlow(client.clone())),
            Ok("" | "tensorfleet") | Err(_) => Ok(Server::Tensorfleet),
            Ok(other) => {
                Err(format!("TENSORFLEET_TEST_SERVERS is '{other}', neither 'tensorfleet' nor 'tensorflow'"))
            }
        }
    }

    fn command(&self) -> Result<Command, String> {
        match self {
            Server::Tensorfleet => {
                let mut command = Command::new(tensorfleet_program()?);
                command.arg("serve");
                Ok(command)
            }
            Server::WithAddressSpace(bytes) => {
                let mut command = Command::new("sh");
                command.arg("-c").arg(format!("ulimit -v {}; exec \"$0\" \"$@\"", bytes / 1024));
                command.arg(tensorfleet_program()?).arg("serve");
                Ok(command)
            }
            Server::TensorFlow(interpreter) => Ok(interpreter.command("tf_server.py")),
        }
    }
}

/// The `tensorfleet` program of the same build as the running test.
pub fn tensorfleet_program() -> Result<PathBuf, String> {
    let program =
        python::profile_directory().ok_or("this test does not know where it lies")?.join("tensorfleet");
    if program.is_file() {
        return Ok(program);
    }
    Err(format!(
        "there is no {}: `cargo test --workspace` builds it, `cargo build --package tensorfleet-cli` does so alone",
        program.display()
    ))
}

/// The jobs of a test cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Parameter servers.
    Ps,
    /// Workers.
    Worker,
}

impl Job {
    /// The job's name in a cluster specification.
    pub fn name(self) -> &'static str {
        match self {
            Job::Ps => "ps",
            Job::Worker => "worker",
        }
    }
}

/// A running cluster; its processes end with it.
pub struct Cluster {
    tasks: Vec<Task>,
    /// Flags that all servers get besides the cluster.
    more_flags: Vec<String>,
}

struct Task {
    job: Job,
    index: usize,
    server: Server,
    address: SocketAddr,
    /// Absent only while a restart is under way.
    process: Option<Process>,
    log: tempfile::NamedTempFile,
}

impl Cluster {
    /// Starts the servers and waits until all of them accept connections.
    pub fn start(ps: &[Server], workers: &[Server]) -> Result<Cluster, String> {
        Cluster::start_with(ps, workers, &[])
    }

    /// Starts servers of ours with more flags than those that describe the cluster.
    pub fn start_ours(ps: usize, workers: usize, flags: &[&str]) -> Result<Cluster, String> {
        let servers = |count| vec![Server::Tensorfleet; count];
        Cluster::start_with(&servers(ps), &servers(workers), flags)
    }

    fn start_with(ps: &[Server], workers: &[Server], flags: &[&str]) -> Result<Cluster, String> {
        let mut failure = String::new();
        for _ in 0..START_ATTEMPTS {
            match Cluster::try_start(ps, workers, flags) {
                Ok(cluster) => return Ok(cluster),
                Err(StartFailure::PortTaken(reason)) => failure = reason,
                Err(StartFailure::Other(reason)) => return Err(reason),
            }
        }
        Err(failure)
    }

    fn try_start(ps: &[Server], workers: &[Server], flags: &[&str]) -> Result<Cluster, StartFailure> {
        let failed = |error: std::io::Error| StartFailure::Other(error.to_string());
        let addresses = free_addresses(ps.len() + workers.len()).map_err(failed)?;
        let jobs = (0..ps.len())
            .map(|index| (Job::Ps, index))
            .chain((0..workers.len()).map(|index| (Job::Worker, index)));
        let more_flags = flags.iter().map(|flag| flag.to_string()).collect();
        let mut cluster = Cluster { tasks: Vec::new(), more_flags };
        for (((job, index), server), address) in jobs.zip(ps.iter().chain(workers)).zip(addresses) {
            let log = tempfile::NamedTempFile::new().map_err(failed)?;
            cluster.tasks.push(Task { job, index, server: server.clone(), address, process: None, log });
        }
        let flags = cluster.all_flags();
        for task in &mut cluster.tasks {
            task.spawn(&flags).map_err(StartFailure::Other)?;
        }
        for task in &mut cluster.tasks {
            task.wait_until_ready()?;
        }
        Ok(cluster)
    }

    /// The flags that tell a program the cluster: `--ps_hosts=… --worker_hosts=…`.
    pub fn flags(&self) -> [String; 2] {
        [format!("--ps_hosts={}", self.hosts(Job::Ps)), format!("--worker_hosts={}", self.hosts(Job::Worker))]
    }

    fn all_flags(&self) -> Vec<String> {
        self.flags().into_iter().chain(self.more_flags.iter().cloned()).collect()
    }

    fn hosts(&self, job: Job) -> String {
        let hosts: Vec<String> =
            self.tasks.iter().filter(|task| task.job == job).map(|task| task.address.to_string()).collect();
        hosts.join(",")
    }

    /// The target of a session on a task's master, if there is such a task.
    pub fn target(&self, job: Job, index: usize) -> Option<String> {
        self.task(job, index).ok().map(|task| format!("grpc://{}", task.address))
    }

    /// The address of a task.
    pub fn address(&self, job: Job, index: usize) -> Result<SocketAddr, String> {
        self.task(job, index).map(|task| task.address)
    }

    fn task(&self, job: Job, index: usize) -> Result<&Task, String> {
        let mut found = self.tasks.iter().filter(|task| task.job == job && task.index == index);
        found.next().ok_or_else(|| format!("there is no task {index} of job {}", job.name()))
    }

    fn task_mut(&mut self, job: Job, index: usize) -> Result<&mut Task, String> {
        let mut found = self.tasks.iter_mut().filter(|task| task.job == job && task.index == index);
        found.next().ok_or_else(|| format!("there is no task {index} of job {}", job.name()))
    }

    /// Kills a task with SIGKILL and reaps it. [`Cluster::restart`] brings it back.
    pub fn kill(&mut self, job: Job, index: usize) -> Result<(), String> {
        self.task_mut(job, index)?.process = None;
        Ok(())
    }

    /// Sends a task a signal: `TERM`, `STOP`, `CONT`.
    pub fn signal(&self, job: Job, index: usize, signal: &str) -> Result<(), String> {
        let process = self.task(job, index)?.process.as_ref().ok_or("the task does not run")?;
        let mut kill = Command::new("kill");
        let sent = kill.args(["-s", signal, &process.child.id().to_string()]).status();
        match sent {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("kill -s {signal}: {status}")),
            Err(error) => Err(format!("kill -s {signal}: {error}")),
        }
    }

    /// Waits until a task has ended by itself.
    pub fn wait_for_end(&mut self, job: Job, index: usize, limit: Duration) -> Result<ExitStatus, String> {
        let process = self.task_mut(job, index)?.process.as_mut().ok_or("the task does not run")?;
        let deadline = Instant::now() + limit;
        loop {
            match process.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if Instant::now() > deadline => {
                    return Err(format!("it still runs after {limit:?}"));
                }
                Ok(None) => std::thread::sleep(POLL),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// What a task of ours says about itself.
    pub fn status(&self, job: Job, index: usize) -> Result<TaskStatus, String> {
        status_of(self.task(job, index)?.address)
    }

    /// All tasks of ours, as they describe themselves.
    pub fn statuses(&self) -> Result<Vec<TaskStatus>, String> {
        self.tasks.iter().map(|task| status_of(task.address)).collect()
    }

    /// All that a task has logged.
    pub fn log(&self, job: Job, index: usize) -> Result<String, String> {
        std::fs::read_to_string(self.task(job, index)?.log.path()).map_err(|error| error.to_string())
    }

    /// The process of a task, if it runs.
    pub fn pid(&self, job: Job, index: usize) -> Option<u32> {
        let task = self.tasks.iter().find(|task| task.job == job && task.index == index)?;
        task.process.as_ref().map(|process| process.child.id())
    }

    /// Kills a task and starts it again at the same address.
    pub fn restart(&mut self, job: Job, index: usize) -> Result<(), String> {
        let flags = self.all_flags();
        let task = self.task_mut(job, index)?;
        for _ in 0..START_ATTEMPTS {
            // The old process is reaped before the new one asks for its port.
            task.process = None;
            task.spawn(&flags)?;
            match task.wait_until_ready() {
                Ok(()) => return Ok(()),
                Err(StartFailure::PortTaken(_)) => {}
                Err(StartFailure::Other(reason)) => return Err(reason),
            }
        }
        Err(format!("{} is taken by someone else", task.address))
    }

    /// The last lines that each server logged, for people.
    pub fn logs(&self) -> String {
        let sections = self.tasks.iter().map(|task| {
            let log = python::end_of_log(task.log.path());
            format!("── log of /job:{}/task:{}\n{log}", task.job.name(), task.index)
        });
        sections.collect::<Vec<_>>().join("\n")
    }
}

enum StartFailure {
    PortTaken(String),
    Other(String),
}

impl Task {
    fn spawn(&mut self, flags: &[String]) -> Result<(), String> {
        let failed =
            |error: std::io::Error| format!("starting /job:{}/task:{}: {error}", self.job.name(), self.index);
        let output = self.log.reopen().map_err(failed)?;
        let errors = output.try_clone().map_err(failed)?;
        let child = self
            .server
            .command()?
            .args(flags)
            .arg(format!("--job_name={}", self.job.name()))
            .arg(format!("--task_index={}", self.index))
            // TensorFlow's server ends when this end of its input is gone, even if the test dies without a word.
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(failed)?;
        self.process = Some(Process { child });
        Ok(())
    }

    fn wait_until_ready(&mut self) -> Result<(), StartFailure> {
        let Some(process) = &mut self.process else {
            return Err(StartFailure::Other("the task was not started".to_string()));
        };
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let ended = process.child.try_wait().map_err(|error| StartFailure::Other(error.to_string()))?;
            if let Some(status) = ended {
                let log = python::end_of_log(self.log.path());
                let story = format!("/job:{}/task:{} ended: {status}\n{log}", self.job.name(), self.index);
                let taken = log.contains("in use") || log.contains("Could not start gRPC server");
                return Err(if taken { StartFailure::PortTaken(story) } else { StartFailure::Other(story) });
            }
            if TcpStream::connect_timeout(&self.address, POLL).is_ok() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let log = python::end_of_log(self.log.path());
                let task = format!("/job:{}/task:{}", self.job.name(), self.index);
                return Err(StartFailure::Other(format!(
                    "{task} does not answer after {START_LIMIT:?}\n{log}"
                )));
            }
            std::thread::sleep(POLL);
        }
    }
}

/// A child that is killed and reaped when dropped.
struct Process {
    child: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only for a child that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the task of ours at `address` says about itself, asked as a browser would.
pub fn status_of(address: SocketAddr) -> Result<TaskStatus, String> {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, STATUS_LIMIT)?;
        stream.set_read_timeout(Some(STATUS_LIMIT))?;
        stream.write_all(b"GET /status HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = ask().map_err(|error| format!("no status of {address}: {error}"))?;
    let (_, document) = answer.split_once("\r\n\r\n").ok_or("the status has no body")?;
    serde_json::from_str(document).map_err(|error| format!("the status of {address}: {error}: {answer}"))
}

/// Addresses nobody listens on at the moment. They are below those that the system gives to whoever asks for any port, and
/// this process names none twice, so that nobody takes one before it is used.
pub fn free_addresses(count: usize) -> std::io::Result<Vec<SocketAddr>> {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    // Processes that run at the same time begin at different places.
    static NEXT: LazyLock<AtomicU32> = LazyLock::new(|| AtomicU32::new(std::process::id().wrapping_mul(997)));
    let mut found = Vec::with_capacity(count);
    for _ in 0..COUNT {
        if found.len() == count {
            return Ok(found);
        }
        let port = (FIRST + NEXT.fetch_add(1, Relaxed) % COUNT) as u16;
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            found.push(listener.local_addr()?);
        }
    }
    Err(std::io::Error::other("no port is free"))
}
