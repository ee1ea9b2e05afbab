//! `tensorfleet serve`: one task, from its start line to a graceful end.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use tensorfleet_cluster::{Server, ServerOptions};
use tensorfleet_core::{Result, Status, ensure};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::Failure;
use crate::arguments::ServeArguments;

/// How long running steps may go on after a signal if nobody says otherwise. Launchers that kill wait longer than this (Kubernetes: 30 s).
const GRACE: Duration = Duration::from_secs(10);

pub(crate) fn run(arguments: ServeArguments) -> Result<(), Failure> {
    let (cluster, task) = arguments.task.resolve().map_err(Failure::Usage)?;
    for directory in &arguments.allow_files {
        check_directory(directory).map_err(Failure::Usage)?;
    }
    let grace = arguments.grace.unwrap_or(GRACE);
    let mut options = ServerOptions::new(cluster, &task.job, task.index);
    options.bind = arguments.bind;
    options.until_done = arguments.until_done;
    options.file_roots = arguments.allow_files;
    options.peer_timeout = arguments.peer_timeout;
    options.max_pending_bytes = arguments.max_pending_mb.map(|megabytes| (megabytes as usize) << 20);
    options.session_timeout = arguments.session_timeout.unwrap_or(options.session_timeout);
    // Signals are caught from here on, so that none can fall between start and wait.
    let mut signals = Signals::install()?;
    let server = Server::start(options)?;
    // A launcher that does not read must not end the server.
    let _ = writeln!(std::io::stdout(), "{}", start_line(&task.to_string(), &server));
    match signals.wait(&server)? {
        Wake::Ended => Ok(()),
        Wake::Signal => {
            tracing::info!("{task} ends: a signal asks for it");
            signals.exit_on_next();
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
    format!("tensorfleet {version}: {task} is ready at {}; cluster: {}", server.target(), jobs.join(", "))
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

    /// Makes the next signal end the process at once: someone is impatient with the graceful end.
    fn exit_on_next(mut self) {
        std::thread::spawn(move || {
            self.runtime.block_on(async {
                tokio::select! {
                    _ = self.terminate.recv() => {}
                    _ = self.interrupt.recv() => {}
                }
            });
            std::process::exit(1);
        });
    }
}
