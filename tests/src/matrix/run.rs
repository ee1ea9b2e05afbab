//! One run of a cell: four hosts, a training on them, a fault, and what became of it.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::observation::{Line, Outcome, Times, restored, step};
use super::{Cell, Client, Fault, Mode, Promise, Role};
use crate::cluster;
use crate::network::Network;
use crate::program::{Process, built};
use crate::python::{self, Interpreter};

/// Workers save so often.
pub(super) const SAVE_STEPS: i64 = 50;
const WORKERS: usize = 3;
const PS_HOST: usize = 0;
/// Every host has the port to itself.
const PORT: u16 = 2222;
/// A worker pauses so long after a step, so that many runs fit on a machine.
const STEP_MS: u64 = 30;
/// The fault comes after this many steps, and up to [`MOMENTS`] later.
const STEPS_BEFORE: i64 = 100;
const MOMENTS: u64 = 500;
const POLL: Duration = Duration::from_millis(20);
/// From the start of the processes to the steps before the fault; TensorFlow imports itself meanwhile.
const START_LIMIT: Duration = Duration::from_secs(120);
/// From the end of the fault to the end of the training.
const RECOVERY_LIMIT: Duration = Duration::from_secs(150);
/// How long a wait for a task that stays dead is listened to.
const LISTENING: Duration = Duration::from_secs(35);

/// How long the faults last, and after which time without an answer a task counts as gone.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// From a kill to the new start.
    pub restart_after: Duration,
    /// From SIGSTOP to SIGCONT.
    pub frozen: Duration,
    /// From link down to link up.
    pub cut_off: Duration,
    /// The `--peer-timeout` of all tasks.
    pub peer_timeout: Duration,
}

impl Default for Faults {
    /// Longer than the default peer timeout of 15 s.
    fn default() -> Faults {
        Faults {
            restart_after: Duration::from_secs(2),
            frozen: Duration::from_secs(20),
            cut_off: Duration::from_secs(25),
            peer_timeout: Duration::from_secs(15),
        }
    }
}

/// Tries a cell once. The seed chooses the moment of the fault. An error is one of the test's machinery.
pub fn run(cell: Cell, faults: &Faults, seed: u64) -> Result<Outcome, String> {
    let mut training = Training::start(cell, faults)?;
    training.wait_for_steps()?;
    std::thread::sleep(Duration::from_millis(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % MOMENTS));
    let fault = Instant::now();
    let healed = training.hit(faults)?;
    let unfinished = training.wait_for_end(healed)?;
    let times = Times { fault, healed, end: Instant::now() };
    let hosts: Vec<usize> = (1..=WORKERS).filter(|&host| training.hosts[host].is_in_use()).collect();
    let lines = training.lines.lock().clone();
    let outcome = Outcome::of(&lines, &times, &hosts, training.victim, unfinished);
    training.keep_log(seed, cell.verdict(&outcome), &lines, &times);
    Ok(outcome)
}

/// The processes of one host: a server, a trainer, or both.
#[derive(Default)]
struct Host {
    server: Option<Process>,
    trainer: Option<Process>,
}

impl Host {
    fn is_in_use(&self) -> bool {
        self.server.is_some() || self.trainer.is_some()
    }

    fn signal(&self, signal: &str) -> Result<(), String> {
        for process in self.server.iter().chain(&self.trainer) {
            let sent = Command::new("kill").args(["-s", signal, &process.child.id().to_string()]).status();
            match sent {
                Ok(status) if status.success() => {}
                Ok(status) => return Err(format!("kill -s {signal}: {status}")),
                Err(error) => return Err(format!("kill -s {signal}: {error}")),
            }
        }
        Ok(())
    }
}

struct Training {
    cell: Cell,
    network: Network,
    hosts: Vec<Host>,
    victim: usize,
    peer_timeout: Duration,
    directory: tempfile::TempDir,
    lines: Arc<Mutex<Vec<Line>>>,
}

impl Training {
    fn start(cell: Cell, faults: &Faults) -> Result<Training, String> {
        let victim = match cell.role {
            Role::Ps => PS_HOST,
            Role::Chief => 1,
            Role::Worker => 2,
            Role::Backup => 3,
        };
        let mut training = Training {
            cell,
            network: Network::new(1 + WORKERS)?,
            hosts: (0..=WORKERS).map(|_| Host::default()).collect(),
            victim,
            peer_timeout: faults.peer_timeout,
            directory: tempfile::tempdir().map_err(|error| error.to_string())?,
            lines: Arc::default(),
        };
        for host in 0..=WORKERS {
            training.start_host(host)?;
        }
        Ok(training)
    }

    fn start_host(&mut self, host: usize) -> Result<(), String> {
        let serves = host == PS_HOST || self.cell.client == Client::TensorFlow;
        let server = if serves { Some(self.spawn(host, self.server_command(host)?)?) } else { None };
        let trainer =
            if host != PS_HOST { Some(self.spawn(host, self.trainer_command(host)?)?) } else { None };
        self.hosts[host] = Host { server, trainer };
        Ok(())
    }

    fn cluster_flags(&self) -> [String; 2] {
        let address = |host| format!("{}:{PORT}", self.network.address(host));
        let workers: Vec<String> = (1..=WORKERS).map(address).collect();
        [format!("--ps_hosts={}", address(PS_HOST)), format!("--worker_hosts={}", workers.join(","))]
    }

    fn server_command(&self, host: usize) -> Result<Command, String> {
        let mut command = self.network.command(host, cluster::tensorfleet_program()?);
        command.arg("serve").args(self.cluster_flags());
        match host {
            PS_HOST => command.args(["--job_name=ps", "--task_index=0"]),
            worker => command.args(["--job_name=worker", &format!("--task_index={}", worker - 1)]),
        };
        command.arg(format!("--peer-timeout={}", self.peer_timeout.as_secs()));
        Ok(command)
    }

    fn trainer_command(&self, host: usize) -> Result<Command, String> {
        let mut command = match self.cell.client {
            Client::Rust => {
                let mut command = self.network.command(host, built(&["trainer"])?);
                command.arg(format!("--peer_timeout_secs={}", self.peer_timeout.as_secs()));
                command
            }
            Client::TensorFlow => {
                let python = Interpreter::with_tensorflow_1_if_any();
                let python = python
                    .ok_or("there is no Python with TensorFlow 1.15: `cargo xtask python` makes one")?;
                let script = python.command("matrix_trainer.py");
                let mut command = self.network.command(host, script.get_program());
                command.args(script.get_args());
                for (name, value) in script.get_envs() {
                    if let Some(value) = value {
                        command.env(name, value);
                    }
                }
                command
            }
        };
        command.args(self.cluster_flags());
        command.arg(format!("--task_index={}", host - 1));
        command.arg(format!("--checkpoint_dir={}", self.directory.path().display()));
        command.arg(format!("--save_checkpoint_steps={SAVE_STEPS}"));
        command.arg(format!("--step_ms={STEP_MS}"));
        command.arg(format!("--last_step={}", last_step(self.cell)));
        if self.cell.client == Client::TensorFlow {
            command.arg(format!("--start_file={}", self.start_file().display()));
        }
        if self.cell.mode == Mode::Synchronous {
            command.arg(format!("--replicas_to_aggregate={}", self.cell.replicas_to_aggregate()));
        }
        Ok(command)
    }

    /// Starts a process of a host, and threads that note what it says; they end with it.
    fn spawn(&self, host: usize, mut command: Command) -> Result<Process, String> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let outputs = [
            child.stdout.take().map(|output| Box::new(output) as Box<dyn Read + Send>),
            child.stderr.take().map(|output| Box::new(output) as Box<dyn Read + Send>),
        ];
        for output in outputs.into_iter().flatten() {
            let lines = self.lines.clone();
            std::thread::spawn(move || {
                for text in BufReader::new(output).lines() {
                    let Ok(text) = text else { break };
                    lines.lock().push(Line { at: Instant::now(), host, text });
                }
            });
        }
        Ok(Process { child })
    }

    /// TensorFlow's workers wait for this file.
    fn start_file(&self) -> PathBuf {
        self.directory.path().join("start")
    }

    /// Waits until every worker has made a step, and all together enough of them. Workers that wait for each other begin when
    /// all have a session.
    fn wait_for_steps(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            {
                let lines = self.lines.lock();
                let is_ready =
                    |host| lines.iter().any(|line| line.host == host && restored(&line.text).is_some());
                if (1..=WORKERS).all(is_ready) {
                    std::fs::write(self.start_file(), "").map_err(|error| error.to_string())?;
                }
                let newest = lines.iter().filter_map(|line| step(&line.text)).max().unwrap_or(0);
                let all = (1..=WORKERS)
                    .all(|host| lines.iter().any(|line| line.host == host && step(&line.text).is_some()));
                if all && newest >= STEPS_BEFORE {
                    return Ok(());
                }
                if Instant::now() > deadline {
                    let said: Vec<String> =
                        lines.iter().rev().take(20).map(|line| line.text.clone()).collect();
                    return Err(format!(
                        "{}: no {STEPS_BEFORE} steps in {START_LIMIT:?}; last lines: {said:#?}",
                        self.cell
                    ));
                }
            }
            std::thread::sleep(POLL);
        }
    }

    /// Does what the cell says to its victim; when it was over.
    fn hit(&mut self, faults: &Faults) -> Result<Instant, String> {
        let victim = self.victim;
        match self.cell.fault {
            Fault::StaysDead => self.hosts[victim] = Host::default(),
            Fault::Restarted => {
                self.hosts[victim] = Host::default();
                std::thread::sleep(faults.restart_after);
                self.start_host(victim)?;
            }
            Fault::Frozen => {
                self.hosts[victim].signal("STOP")?;
                std::thread::sleep(faults.frozen);
                self.hosts[victim].signal("CONT")?;
            }
            Fault::CutOff => {
                self.network.cut(victim)?;
                std::thread::sleep(faults.cut_off);
                self.network.heal(victim)?;
            }
        }
        Ok(Instant::now())
    }

    /// Waits until all trainers have ended well; the reason if they have not.
    fn wait_for_end(&mut self, healed: Instant) -> Result<Option<String>, String> {
        let limit = match self.cell.promise() {
            Promise::ReachesTheEnd { .. } => RECOVERY_LIMIT,
            Promise::WaitsAloud => LISTENING,
        };
        loop {
            let mut running = Vec::new();
            for (host, processes) in self.hosts.iter_mut().enumerate() {
                let Some(trainer) = &mut processes.trainer else { continue };
                match trainer.child.try_wait() {
                    Ok(Some(status)) if status.success() => {}
                    Ok(Some(status)) => {
                        return Ok(Some(format!("the trainer of host {host} ended: {status}")));
                    }
                    Ok(None) => running.push(host),
                    Err(error) => return Err(error.to_string()),
                }
            }
            if running.is_empty() {
                return Ok(None);
            }
            if healed.elapsed() > limit {
                return Ok(Some(format!("{limit:?} later the trainers of hosts {running:?} still ran")));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Writes down what was said in a run, for whoever looks for the reason if it broke its promise.
    fn keep_log(&self, seed: u64, verdict: Result<(), String>, lines: &[Line], times: &Times) {
        let Some(directory) = python::profile_directory().map(|profile| profile.join("matrix-logs")) else {
            return;
        };
        let reason = verdict.as_ref().err().map_or("ok", String::as_str);
        let begin = lines.first().map_or(times.fault, |line| line.at);
        let mut text = format!(
            "{reason}\nfault at {:.2}, healed at {:.2}\n",
            seconds(begin, times.fault),
            seconds(begin, times.healed)
        );
        for line in lines {
            text.push_str(&format!("{:8.2} host {} {}\n", seconds(begin, line.at), line.host, line.text));
        }
        let path = directory.join(format!("{}-{seed}.log", self.cell));
        let written = std::fs::create_dir_all(&directory).and_then(|()| std::fs::write(&path, text));
        match written {
            Ok(()) if verdict.is_ok() => {}
            Ok(()) => eprintln!("{}: {reason}; see {}", self.cell, path.display()),
            Err(error) => eprintln!("{}: {reason}; {}: {error}", self.cell, path.display()),
        }
    }
}

fn seconds(begin: Instant, at: Instant) -> f64 {
    at.saturating_duration_since(begin).as_secs_f64()
}

/// A training that is longer than the fault: steps of three workers without one another, or rounds.
fn last_step(cell: Cell) -> i64 {
    let goes_on = cell.role == Role::Backup || (cell.mode == Mode::Asynchronous && cell.role != Role::Ps);
    let is_long = matches!(cell.fault, Fault::Frozen | Fault::CutOff);
    match (cell.mode, goes_on && is_long) {
        (Mode::Asynchronous, true) => 3500,
        (Mode::Asynchronous, false) => 900,
        (Mode::Synchronous, true) => 1200,
        (Mode::Synchronous, false) => 400,
    }
}
