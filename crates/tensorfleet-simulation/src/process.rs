//! [`Process`]: a simulated process: a server, programs beside it, and the runtime that all of it runs on.
//!
//! The runtime has one thread, this one, and only while the process has its turn: it runs until nothing is left to do at
//! this moment. Between turns it stands still, so a process that gets no turn is a process that is stopped; one that is
//! dropped is one that was killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Poll, Waker};

use parking_lot::Mutex;
use tensorfleet_cluster::{Environment, Server, ServerOptions, TaskStatus};
use tensorfleet_core::{Result, Status};
use tensorfleet_rpc::Network;
use tensorfleet_threads::{RunJob, Threads};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// A process. Dropping it ends it without a word.
pub(crate) struct Process {
    idle: Arc<Idle>,
    server: Option<Server>,
    programs: JoinSet<()>,
    runtime: Option<Runtime>,
}

/// Notices when a runtime has nothing left to do.
#[derive(Default)]
struct Idle {
    /// How often it was about to sleep.
    times: AtomicUsize,
    turn: Mutex<Option<Waker>>,
}

impl Process {
    /// A process with nothing but a server, if it is to have one.
    pub(crate) fn start(network: Arc<dyn Network>, server: Option<ServerOptions>) -> Result<Process> {
        let idle = Arc::<Idle>::default();
        let noticing = idle.clone();
        let about_to_sleep = move || {
            noticing.times.fetch_add(1, Relaxed);
            noticing.turn.lock().take().into_iter().for_each(Waker::wake);
        };
        let runtime = Builder::new_current_thread().enable_time().on_thread_park(about_to_sleep).build();
        let runtime =
            runtime.map_err(|error| Status::internal(format!("a runtime cannot be made: {error}")))?;
        let handle = runtime.handle().clone();
        #[expect(clippy::disallowed_methods, reason = "it ends with the runtime, which the process owns")]
        let run_job: RunJob = Arc::new(move |job| drop(handle.spawn(async move { job() })));
        let threads = Threads::run_by(run_job);
        let server = {
            let _context = runtime.enter();
            let environment = Environment::simulated(runtime.handle().clone(), threads, network);
            server.map(|options| Server::start_in(options, environment)).transpose()?
        };
        Ok(Process { idle, server, programs: JoinSet::new(), runtime: Some(runtime) })
    }

    /// Runs a program in the process.
    pub(crate) fn spawn(&mut self, program: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            self.programs.spawn_on(program, runtime.handle());
        }
    }

    /// Lets the process do all it can do at this moment.
    pub(crate) fn take_turn(&mut self) {
        let Some(runtime) = &self.runtime else { return };
        let begun = self.idle.times.load(Relaxed);
        runtime.block_on(std::future::poll_fn(|context| {
            // When it is idle for the first time it looks for timers that are due; those have been seen to the second time.
            if self.idle.times.load(Relaxed) >= begun + 2 {
                return Poll::Ready(());
            }
            *self.idle.turn.lock() = Some(context.waker().clone());
            Poll::Pending
        }));
        while self.programs.try_join_next().is_some() {}
    }

    /// What its server tells about itself.
    pub(crate) fn status(&self) -> Option<TaskStatus> {
        let _context = self.runtime.as_ref().map(Runtime::enter);
        self.server.as_ref().map(Server::status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            {
                let _context = runtime.enter();
                drop(self.server.take());
                self.programs.abort_all();
            }
            // Drops what is unfinished, wherever it is.
            runtime.shutdown_background();
        }
    }
}
