//! A ps and a worker as processes of their own, ended whatever happens to us short of a kill.

use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tensorfleet::{Graph, Session};
use tensorfleet_core::{Result, Status};
use tokio::signal::unix::{SignalKind, signal};

/// Ports are free when they are chosen, but another process may be faster.
const ATTEMPTS: usize = 3;
/// What the shell says of a process that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// Two servers that run.
pub(super) struct Servers {
    /// Where sessions connect: the worker.
    pub(super) target: String,
    /// From the start of the processes to the answer of the first step.
    pub(super) first_answer: Duration,
    /// Memory of the ps before it had anything to do.
    pub(super) idle_ps_bytes: Option<u64>,
    processes: Processes,
}

/// Shared with the thread that waits for Ctrl-C.
#[derive(Clone, Default)]
struct Processes(Arc<Mutex<Vec<Child>>>);

impl Servers {
    pub(super) fn start() -> Result<Servers> {
        let mut last = Status::internal("no servers could be started");
        for _ in 0..ATTEMPTS {
            match Servers::try_start() {
                Ok(servers) => return Ok(servers),
                Err(status) => last = status,
            }
        }
        Err(last)
    }

    fn try_start() -> Result<Servers> {
        let (ps, worker) = free_addresses()?;
        let cluster = format!(r#"--cluster={{"ps": ["{ps}"], "worker": ["{worker}"]}}"#);
        let processes = Processes::default();
        processes.end_on_signals()?;
        let mut servers = Servers {
            target: format!("grpc://{worker}"),
            first_answer: Duration::ZERO,
            idle_ps_bytes: None,
            processes,
        };
        let begin = Instant::now();
        let outputs = ["ps", "worker"].map(|job| servers.processes.start(job, &cluster));
        for output in outputs {
            wait_until_ready(output?)?;
        }
        let idle_since = begin.elapsed();
        servers.idle_ps_bytes = servers.processes.first_resident_bytes();
        let measured = begin.elapsed() - idle_since;
        let g = Graph::new();
        let one = g.device("/job:worker/task:0", || g.constant(1.0f32));
        let session = Session::connect(&servers.target, &g)?;
        session.run(&one)?;
        servers.first_answer = begin.elapsed().saturating_sub(measured);
        session.close()?;
        Ok(servers)
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        end(&mut self.processes.lock());
    }
}

impl Processes {
    /// Starts a task; its output tells when it is ready.
    fn start(&self, job: &str, cluster: &str) -> Result<impl Read + use<>> {
        let failed = |error: std::io::Error| {
            Status::internal(format!("this program cannot be started again as a server: {error}"))
        };
        let program = std::env::current_exe().map_err(failed)?;
        // The lock is held while the process starts, so that none is started behind the back of Ctrl-C.
        let mut children = self.lock();
        let mut child = Command::new(program)
            .args([
                "serve",
                "--bind=127.0.0.1",
                "--grace=0",
                cluster,
                &format!("--job_name={job}"),
                "--task_index=0",
            ])
            .env_remove("TF_CONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let output = child.stdout.take();
        children.push(child);
        output.ok_or_else(|| Status::internal("a server has no output"))
    }

    /// The list is whole whatever panicked while it was locked.
    fn lock(&self) -> MutexGuard<'_, Vec<Child>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ctrl-C and SIGTERM end the servers before they end us.
    fn end_on_signals(&self) -> Result<()> {
        let failed = |error: std::io::Error| Status::internal(format!("cannot catch signals: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (mut interrupt, mut terminate) = {
            let _in_runtime = runtime.enter();
            (
                signal(SignalKind::interrupt()).map_err(failed)?,
                signal(SignalKind::terminate()).map_err(failed)?,
            )
        };
        let processes = self.clone();
        std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            });
            // Kept until the process is gone: nothing more is started.
            let mut children = processes.lock();
            end(&mut children);
            // The spinner's line and the cursor it hid.
            if std::io::stderr().is_terminal() {
                let _ = std::io::stderr().write_all(b"\r\x1b[K\x1b[?25h");
            }
            std::process::exit(INTERRUPTED);
        });
        Ok(())
    }

    fn first_resident_bytes(&self) -> Option<u64> {
        let pid = self.lock().first()?.id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kilobytes * 1024)
    }
}

/// Kills what was started. There is nothing to save: the servers hold made-up numbers.
fn end(children: &mut Vec<Child>) {
    for mut child in children.drain(..) {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Waits for the line with which a server says where it is.
fn wait_until_ready(output: impl Read) -> Result<()> {
    let mut line = String::new();
    let read = BufReader::new(output).read_line(&mut line);
    match read {
        Ok(_) if line.contains(" is ready ") => Ok(()),
        _ => Err(Status::unavailable(
            "a server on this machine ended at once; 'tensorfleet serve --cluster \
             '{\"ps\": [\"localhost:2222\"]}' --job_name=ps --task_index=0' says why",
        )),
    }
}

/// Two addresses of this machine with ports that nobody uses. Both are held until both are known, so that they differ.
fn free_addresses() -> Result<(String, String)> {
    let failed =
        |error: std::io::Error| Status::unavailable(format!("this machine gives no free port: {error}"));
    let listen = || std::net::TcpListener::bind("127.0.0.1:0").map_err(failed);
    let (ps, worker) = (listen()?, listen()?);
    let address = |listener: &std::net::TcpListener| Ok(listener.local_addr().map_err(failed)?.to_string());
    Ok((address(&ps)?, address(&worker)?))
}
