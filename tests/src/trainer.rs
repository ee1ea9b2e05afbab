//! The `trainer` program as a process, and servers for its parameters: started, paced, killed and started again by tests.

use std::net::{SocketAddr, TcpStream};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::cluster;
use crate::program::{Process, Program, built};

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

    /// The address of a parameter server.
    pub fn ps(&self, index: usize) -> Option<SocketAddr> {
        self.ps.get(index).copied()
    }

    /// The flags that tell a program the cluster: `--ps_hosts=… --worker_hosts=…`.
    pub fn flags(&self) -> [String; 2] {
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
        ParameterServer::start_with(hosts, index, &[])
    }

    /// Starts task `index` of the job `ps` with more flags.
    pub fn start_with(hosts: &Hosts, index: usize, flags: &[&str]) -> Result<ParameterServer, String> {
        let address = *hosts.ps.get(index).ok_or("there is no such task")?;
        let mut command = vec!["serve".to_string()];
        command.extend(hosts.flags());
        command.extend(["--job_name=ps".to_string(), format!("--task_index={index}")]);
        command.extend(flags.iter().map(|flag| flag.to_string()));
        let process = spawn_server(&command)?;
        let mut server = ParameterServer { process, address, command };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        self.process.end();
    }

    /// Sends it a signal: `STOP`, `CONT`.
    pub fn signal(&self, signal: &str) -> Result<(), String> {
        signal_process(self.process.child.id(), signal)
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
    program: Program,
}

impl Trainer {
    /// Starts worker `index` of the cluster.
    pub fn start(hosts: &Hosts, index: usize, flags: &[String]) -> Result<Trainer, String> {
        let mut command = Command::new(built(&["trainer"])?);
        command.args(hosts.flags()).arg(format!("--task_index={index}")).args(flags);
        Ok(Trainer { program: Program::spawn(command)? })
    }

    /// Starts one that trains by itself, in a mount namespace of its own where `dir` is a file system of `bytes`.
    pub fn start_on_small_disk(dir: &str, bytes: usize, flags: &[String]) -> Result<Trainer, String> {
        let mount = format!("mount -t tmpfs -o size={bytes} tmpfs '{dir}' && exec \"$@\"");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &mount, "sh"]).arg(built(&["trainer"])?).args(flags);
        Ok(Trainer { program: Program::spawn(command)? })
    }

    /// Lets it make steps up to this one.
    pub fn allow(&mut self, step: i64) -> Result<(), String> {
        self.program.tell(&step.to_string())
    }

    /// Reads lines until `found` gives something for one.
    pub fn wait_for<T>(&self, found: impl FnMut(&str) -> Option<T>) -> Result<T, String> {
        self.program.wait_for(found)
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
    pub fn kill(self) {
        self.program.kill();
    }

    /// Sends it a signal: `STOP`, `CONT`.
    pub fn signal(&self, signal: &str) -> Result<(), String> {
        signal_process(self.program.pid(), signal)
    }

    /// Waits until the process has ended by itself.
    pub fn wait_for_end(&mut self) -> Result<ExitStatus, String> {
        self.program.wait_for_end()
    }

    /// The path of one of its files, as seen from outside its mount namespace.
    pub fn file(&self, path: &str) -> String {
        format!("/proc/{}/root{path}", self.program.pid())
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        self.program.log()
    }
}

fn signal_process(pid: u32, signal: &str) -> Result<(), String> {
    match Command::new("kill").args(["-s", signal, &pid.to_string()]).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("kill -s {signal}: {status}")),
        Err(error) => Err(format!("kill -s {signal}: {error}")),
    }
}

/// The state a session begins with, if this line tells it.
pub fn ready(line: &str) -> Option<(i64, i64)> {
    let (step, weight) = line.strip_prefix("ready step=")?.split_once(" weight=")?;
    Some((step.parse().ok()?, weight.parse().ok()?))
}
