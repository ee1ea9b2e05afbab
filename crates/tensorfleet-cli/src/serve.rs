//! `tensorfleet serve`: one task, from its start line to a graceful end.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use tensorfleet::flags::TaskFlags;
use tensorfleet_cluster::{DefaultPlacement, Server, ServerOptions};
use tensorfleet_core::{Result, Status, ensure};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::units::seconds;
use crate::{Failure, terminal};

pub(crate) const HELP: &str = "\
Every task is started with the same cluster and its own --job_name and --task_index, in any order. TensorFlow programs and \
`tensorfleet` programs connect to any of them: Session(\"grpc://localhost:2222\").

Examples:
  tensorfleet serve --ps_hosts=a:2222,b:2222 --worker_hosts=c:2222 --job_name=ps --task_index=1
  tensorfleet serve --cluster='{\"ps\": [\"a:2222\"], \"worker\": [\"b:2222\", \"c:2222\"]}' --job_name=worker --task_index=0
  tensorfleet serve --cluster=@cluster.toml --job_name=chief --task_index=0
  TF_CONFIG='{\"cluster\": {\"ps\": [\"a:2222\"]}, \"task\": {\"type\": \"ps\", \"index\": 0}}' tensorfleet serve

SIGTERM or Ctrl-C ends it: running steps get a few seconds, then the exit code is 0. A second one ends it at once.";

/// Arguments of `serve`. Flags have the names they have in TensorFlow programs; dashes do as well as underscores.
#[derive(Args, Debug, Default)]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    pub(crate) task: TaskFlags,

    /// Where to listen. By default at the port the cluster names: on the loopback interface if the cluster knows this task as localhost
    /// or another loopback address, else on all interfaces.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) bind: Option<String>,

    /// End with exit code 0 once sessions have used this task, all have ended, and none has come back for some seconds.
    #[arg(
        long = "until-done",
        alias = "until_done",
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "5",
        value_parser = seconds
    )]
    pub(crate) until_done: Option<Duration>,

    /// How long a new session waits for tasks of the cluster that do not answer.
    #[arg(long = "session-timeout", alias = "session_timeout", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) session_timeout: Option<Duration>,

    /// How long another task that owes an answer may be silent before it counts as gone (default: 15).
    #[arg(long = "peer-timeout", alias = "peer_timeout", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) peer_timeout: Option<Duration>,

    /// How long running steps may go on after SIGTERM (default: 3; a launcher that kills should wait some seconds longer).
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) grace: Option<Duration>,

    /// How much memory values, buffers and graphs may take before more are refused (default: four fifths of what the machine or
    /// its control group has, or three quarters of a limit of address space).
    #[arg(
        long = "max-memory-mb",
        alias = "max_memory_mb",
        value_name = "MB",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) max_memory_mb: Option<u32>,

    /// How much of it requests under way may take before more are refused (default: three quarters).
    #[arg(
        long = "max-pending-mb",
        alias = "max_pending_mb",
        value_name = "MB",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) max_pending_mb: Option<u32>,

    /// How long a message that is being sent to this task may take to get on before it is given up (default: 30).
    #[arg(long = "stall-timeout", alias = "stall_timeout", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) stall_timeout: Option<Duration>,

    /// How long a connection may take to bring its first request before it is closed (default: 20).
    #[arg(
        long = "first-request-timeout",
        alias = "first_request_timeout",
        value_name = "SECONDS",
        value_parser = seconds
    )]
    pub(crate) first_request_timeout: Option<Duration>,

    /// How long a connection without a session may be idle before it is closed (default: 600).
    #[arg(long = "idle-timeout", alias = "idle_timeout", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) idle_timeout: Option<Duration>,

    /// Let graphs read and write files below this directory, and nowhere else; may be given several times (default: graphs may touch
    /// whatever this process may).
    #[arg(long = "allow-files", alias = "allow_files", value_name = "DIR")]
    pub(crate) allow_files: Vec<PathBuf>,

    /// Where nodes go whose device names fit several tasks: client (as the TensorFlow that made the graph places them: 1.x on the first
    /// task by name, 2.x on the session's own), own-task or first-task.
    #[arg(
        long = "default-placement",
        alias = "default_placement",
        value_name = "WHERE",
        default_value = "client"
    )]
    pub(crate) default_placement: DefaultPlacementFlag,
}

/// The value of `--default-placement`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DefaultPlacementFlag(DefaultPlacement);

impl FromStr for DefaultPlacementFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<DefaultPlacementFlag, String> {
        text.parse().map(DefaultPlacementFlag).map_err(|status: Status| status.text().to_string())
    }
}

/// How long running steps may go on after a signal if nobody says otherwise. With what follows, a task is gone after five
/// seconds, whatever it was doing; launchers that kill wait longer than this (Kubernetes: 30 s).
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
/// How long sessions may take to be closed after that. A server does so in a second, unless something is wrong with it.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(1500);

pub(crate) fn run(arguments: ServeArguments) -> Result<(), Failure> {
    let (cluster, task) = arguments.task.resolve().map_err(Failure::Usage)?;
    for directory in &arguments.allow_files {
        check_directory(directory).map_err(Failure::Usage)?;
    }
    let grace = arguments.grace.unwrap_or(SHUTDOWN_TIMEOUT);
    let mut options = ServerOptions::new(cluster, &task.job, task.index);
    options.bind = arguments.bind;
    options.until_done = arguments.until_done;
    // This process is nothing but a server.
    options.on_idle = Some(tensorfleet_cluster::release_freed_memory);
    options.file_roots = arguments.allow_files;
    options.default_placement = arguments.default_placement.0;
    options.peer_timeout = arguments.peer_timeout;
    options.max_memory_bytes = arguments.max_memory_mb.map(|megabytes| (megabytes as usize) << 20);
    options.max_pending_bytes = arguments.max_pending_mb.map(|megabytes| (megabytes as usize) << 20);
    options.stall_timeout = arguments.stall_timeout;
    options.first_request_timeout = arguments.first_request_timeout;
    options.idle_timeout = arguments.idle_timeout;
    options.session_timeout = arguments.session_timeout.unwrap_or(options.session_timeout);
    // Signals are caught from here on, so that none can fall between start and wait.
    let mut signals = Signals::install()?;
    let server = Server::start(options)?;
    terminal::print(&format!("{}\n", start_line(&task.to_string(), &server)));
    match signals.wait(&server)? {
        Wake::Ended => Ok(()),
        Wake::Signal => {
            tracing::info!("{task} ends: a signal asks for it");
            signals.exit_on_next(grace.saturating_add(CLOSE_TIMEOUT));
            server.stop(grace)?;
            Ok(())
        }
    }
}

/// One that does not exist cannot be resolved, so that nothing would confine graphs to it.
fn check_directory(directory: &Path) -> Result<()> {
    let shown = directory.display();
    ensure!(
        directory.exists(),
        InvalidArgument,
        "--allow-files: there is no directory {shown}; create it first, or name another"
    );
    ensure!(
        directory.is_dir(),
        InvalidArgument,
        "--allow-files: {shown} is no directory; name the one that its files are in"
    );
    Ok(())
}

fn start_line(task: &str, server: &Server) -> String {
    let jobs: Vec<String> = server
        .cluster()
        .jobs()
        .map(|job| format!("{} {job}", server.cluster().num_tasks(job).unwrap_or_default()))
        .collect();
    let version = env!("CARGO_PKG_VERSION");
    let interfaces = if server.is_on_all_interfaces() { ", on all interfaces" } else { "" };
    let (target, jobs) = (server.target(), jobs.join(", "));
    format!("tensorfleet {version}: {task} is ready at {target}{interfaces}; cluster: {jobs}")
}

enum Wake {
    Ended,
    Signal,
}

/// SIGTERM and SIGINT, caught.
struct Signals {
    runtime: Runtime,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn install() -> Result<Signals> {
        let failed = |error| Status::internal(format!("cannot catch signals: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (terminate, interrupt) = {
            let _in_runtime = runtime.enter();
            (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        };
        Ok(Signals { runtime, terminate: terminate.map_err(failed)?, interrupt: interrupt.map_err(failed)? })
    }

    /// Waits until the server has ended or a signal asks for it.
    fn wait(&mut self, server: &Server) -> Result<Wake> {
        self.runtime.block_on(async {
            tokio::select! {
                ended = server.ended() => ended.map(|()| Wake::Ended),
                _ = self.terminate.recv() => Ok(Wake::Signal),
                _ = self.interrupt.recv() => Ok(Wake::Signal),
            }
        })
    }

    /// Makes the next signal end the process at once: someone is impatient with the graceful end. And ends it after `limit`:
    /// what has not ended by then is stuck, and nobody waits for threads that are.
    fn exit_on_next(mut self, limit: Duration) {
        std::thread::spawn(move || {
            let code = self.runtime.block_on(async {
                tokio::select! {
                    _ = self.terminate.recv() => 1,
                    _ = self.interrupt.recv() => 1,
                    () = tokio::time::sleep(limit) => {
                        tracing::warn!("it does not end by itself within {:.1} s: it is ended", limit.as_secs_f64());
                        0
                    }
                }
            });
            std::process::exit(code);
        });
    }
}
