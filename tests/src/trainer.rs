//! The `trainer` program as a process, and servers for its parameters: started, paced, killed and started again by tests.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::cluster;
use crate::python;

/// How long anything may take on a machine with other work.
const LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(5);

/// The addresses of a cluster's tasks.
pub struct Hosts {
    ps: Vec<SocketAddr>,
    workers: Vec<SocketAddr>,
}

impl Hosts {
    /// Free addresses for so many tasks.
    pub fn new(ps: usize, workers: usize) -> Result<Hosts, String> {
        let mut ps_addresses = cluster::free_addresses(ps + workers).map_err(|error| error.to_string())?;
        let workers = ps_addresses.split_off(ps);
        Ok(Hosts { ps: ps_addresses, workers })
    }

    fn flags(&self) -> [String; 2] {
        let list = |all: &[SocketAddr]| all.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",");
        [format!("--ps_hosts={}", list(&self.ps)), format!("--worker_hosts={}", list(&self.workers))]
    }
}

/// A parameter server; killed with the value.
pub struct ParameterServer {
    process: Process,
    address: SocketAddr,
    command: Vec<String>,
}

impl ParameterServer {
    /// Starts task `index` of the job `ps`.
    pub fn start(hosts: &Hosts, index: usize) -> Result<ParameterServer, String> {
        let address = *hosts.ps.get(index).ok_or("there is no such task")?;
        let mut command = vec!["serve".to_string()];
        command.extend(hosts.flags());
        command.extend(["--job_name=ps".to_string(), format!("--task_index={index}")]);
        let process = spawn_server(&command)?;
        let mut server = ParameterServer { process, address, command };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        self.process.end();
    }

    /// Kills it if it runs, and starts it again at the same address.
    pub fn restart(&mut self) -> Result<(), String> {
        self.process.end();
        self.process = spawn_server(&self.command)?;
        self.wait_until_ready()
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + LIMIT;
        while TcpStream::connect_timeout(&self.address, POLL).is_err() {
            if let Ok(Some(status)) = self.process.child.try_wait() {
                return Err(format!("the parameter server ended: {status}"));
            }
            if Instant::now() > deadline {
                return Err(format!("the parameter server does not answer after {LIMIT:?}"));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

fn spawn_server(arguments: &[String]) -> Result<Process, String> {
    let mut command = Command::new(cluster::tensorfleet_program()?);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().map_err(|error| format!("tensorfleet serve: {error}"))?;
    Ok(Process { child })
}

/// A trainer; killed with the value.
pub struct Trainer {
    process: Process,
    input: ChildStdin,
    lines: Receiver<String>,
    log: tempfile::NamedTempFile,
}

impl Trainer {
    /// Starts worker `index` of the cluster.
    pub fn start(hosts: &Hosts, index: usize, flags: &[String]) -> Result<Trainer, String> {
        let mut command = Command::new(program()?);
        command.args(hosts.flags()).arg(format!("--task_index={index}")).args(flags);
        Trainer::spawn(command)
    }

    /// Starts one that trains by itself, in a mount namespace of its own where `dir` is a file system of `bytes`.
    pub fn start_on_small_disk(dir: &str, bytes: usize, flags: &[String]) -> Result<Trainer, String> {
        let mount = format!("mount -t tmpfs -o size={bytes} tmpfs '{dir}' && exec \"$@\"");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &mount, "sh"]).arg(program()?).args(flags);
        Trainer::spawn(command)
    }

    fn spawn(mut command: Command) -> Result<Trainer, String> {
        let failed = |error: std::io::Error| format!("starting the trainer: {error}");
        let log = tempfile::NamedTempFile::new().map_err(failed)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log.reopen().map_err(failed)?);
        let mut child = command.spawn().map_err(failed)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let process = Process { child };
        let (input, output) = input.zip(output).ok_or("the trainer has no pipes")?;
        let (sender, lines) = std::sync::mpsc::channel();
        // Ends with the trainer, whose output it reads.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { break };
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Trainer { process, input, lines, log })
    }

    /// Lets it make steps up to this one.
    pub fn allow(&mut self, step: i64) -> Result<(), String> {
        writeln!(self.input, "{step}").and_then(|()| self.input.flush()).map_err(|error| error.to_string())
    }

    /// The next line it says.
    pub fn next_line(&self) -> Result<String, String> {
        match self.lines.recv_timeout(LIMIT) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => Err(format!("no word for {LIMIT:?}\n{}", self.log())),
            Err(RecvTimeoutError::Disconnected) => Err(format!("the trainer has ended\n{}", self.log())),
        }
    }

    /// Reads lines until `found` gives something for one.
    pub fn wait_for<T>(&self, mut found: impl FnMut(&str) -> Option<T>) -> Result<T, String> {
        loop {
            let line = self.next_line()?;
            if let Some(value) = found(&line) {
                return Ok(value);
            }
        }
    }

    /// Waits for the next session; the step and the weight that it begins with.
    pub fn wait_until_ready(&self) -> Result<(i64, i64), String> {
        self.wait_for(ready)
    }

    /// Waits until it has made a step of at least this number.
    pub fn wait_for_step(&self, wanted: i64) -> Result<i64, String> {
        self.wait_for(|line| {
            let step: i64 = line.strip_prefix("step ")?.parse().ok()?;
            (step >= wanted).then_some(step)
        })
    }

    /// Waits until it is done; its last step.
    pub fn wait_until_done(&self) -> Result<i64, String> {
        self.wait_for(|line| line.strip_prefix("done step=")?.parse().ok())
    }

    /// Kills it with SIGKILL.
    pub fn kill(mut self) {
        self.process.end();
    }

    /// Waits until the process has ended by itself.
    pub fn wait_for_end(&mut self) -> Result<ExitStatus, String> {
        let deadline = Instant::now() + LIMIT;
        loop {
            match self.process.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if Instant::now() > deadline => {
                    return Err(format!("it still runs after {LIMIT:?}\n{}", self.log()));
                }
                Ok(None) => std::thread::sleep(POLL),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// The path of one of its files, as seen from outside its mount namespace.
    pub fn file(&self, path: &str) -> String {
        format!("/proc/{}/root{path}", self.process.child.id())
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap_or_default()
    }
}

/// The state a session begins with, if this line tells it.
pub fn ready(line: &str) -> Option<(i64, i64)> {
    let (step, weight) = line.strip_prefix("ready step=")?.split_once(" weight=")?;
    Some((step.parse().ok()?, weight.parse().ok()?))
}

fn program() -> Result<std::path::PathBuf, String> {
    let program = python::profile_directory().ok_or("this test does not know where it lies")?.join("trainer");
    match program.exists() {
        true => Ok(program),
        false => Err(format!("{} is not built; run cargo test --workspace", program.display())),
    }
}

/// A child that is killed and reaped when dropped.
struct Process {
    child: Child,
}

impl Process {
    fn end(&mut self) {
        // Both fail only for a child that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
