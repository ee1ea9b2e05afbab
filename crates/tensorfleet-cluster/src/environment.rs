//! [`Environment`]: what a server takes from the process it runs in.
//!
//! A server that is alone in the world, as all are but those of a simulation, uses the process's: its I/O threads, its
//! sockets, its threads for nodes, and the table in which servers of one process find each other. A simulation has many
//! servers that must know nothing of each other, on one thread, on a network of its own.

use std::fmt;
use std::sync::Arc;

use tensorfleet_core::Result;
use tensorfleet_rpc::{Listener, Network};
use tensorfleet_threads::{ThreadCounts, Threads};
use tokio::runtime::Handle;

use crate::io;
use crate::local_tasks::LocalTasks;
use crate::tasks::LongWork;

/// Where a server runs.
#[derive(Clone)]
pub struct Environment {
    /// Serves connections and runs what the server does by itself.
    pub(crate) runtime: Handle,
    /// Instead of the sockets of this machine.
    pub(crate) network: Option<Arc<dyn Network>>,
    /// Instead of threads of the counts that the server is configured with.
    threads: Option<Arc<Threads>>,
    pub(crate) local_tasks: LocalTasks,
    pub(crate) long_work: LongWork,
}

impl Environment {
    /// That of this process.
    pub fn of_process() -> Environment {
        Environment {
            runtime: io::handle().clone(),
            network: None,
            threads: None,
            local_tasks: LocalTasks::of_process(),
            long_work: LongWork::OnThreads,
        }
    }

    /// A process of its own inside this one: everything happens on `runtime`, nodes on `threads`, and nothing is shared but
    /// what goes through `network`.
    pub fn simulated(runtime: Handle, threads: Arc<Threads>, network: Arc<dyn Network>) -> Environment {
        Environment {
            runtime,
            network: Some(network),
            threads: Some(threads),
            local_tasks: LocalTasks::default(),
            long_work: LongWork::InPlace,
        }
    }

    /// The threads of a server that is configured with these counts.
    pub(crate) fn threads(&self, counts: ThreadCounts) -> Arc<Threads> {
        self.threads.clone().unwrap_or_else(|| Threads::with_counts(counts).for_server())
    }

    /// Listens on `address`, or on its port in a network of one's own.
    pub(crate) fn listen(&self, address: &str, port: u16) -> Result<Listener> {
        match &self.network {
            Some(network) => Listener::on(&**network, port),
            None => Listener::bind(address),
        }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Environment { network, long_work, .. } = self;
        f.debug_struct("Environment").field("network", network).field("long_work", long_work).finish()
    }
}
