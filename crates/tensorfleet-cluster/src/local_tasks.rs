//! The tasks of this process, by the addresses their clusters know them by.
//!
//! Servers of one process may start and stop in any order and know nothing of each other; they meet here, so that a
//! master reaches a worker beside it, and a client its own server, without a socket. The table is the process's, as its
//! ports are; whoever pretends to be several processes has several.

use std::sync::{Arc, LazyLock, Weak};

use futures_util::future::BoxFuture;
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use tensorfleet_core::{Result, Tensor};
use tensorfleet_proto::tensorflow::RunMetadata;

use crate::numbered_request::NumberedRequest;
use crate::worker_api::WorkerApi;

/// A task whose server is in this process.
pub(crate) trait LocalTask: Send + Sync {
    /// Its worker.
    fn worker(&self) -> Arc<dyn WorkerApi>;

    /// Whether its master has such a session.
    fn has_session(&self, handle: &str) -> bool;

    /// Whether it has been told to end.
    fn is_stopping(&self) -> bool;

    /// Runs a callable of a session of its master.
    fn run_callable(
        &self,
        session: String,
        callable: i64,
        feeds: Vec<Tensor>,
        numbered: Option<NumberedRequest>,
    ) -> BoxFuture<'_, CallableResult>;
}

/// What running a callable gives: the fetches in order, and what was recorded.
pub(crate) type CallableResult = Result<(Vec<Tensor>, RunMetadata)>;

/// A table of tasks. Clones are the same table.
#[derive(Clone, Default)]
pub(crate) struct LocalTasks(Arc<RwLock<FxHashMap<String, Weak<dyn LocalTask>>>>);

impl LocalTasks {
    /// That of this process.
    pub(crate) fn of_process() -> LocalTasks {
        static OF_PROCESS: LazyLock<LocalTasks> = LazyLock::new(LocalTasks::default);
        OF_PROCESS.clone()
    }

    /// Makes a task known under some addresses, for as long as what this gives lives.
    pub(crate) fn announce(&self, task: &Arc<dyn LocalTask>, addresses: Vec<String>) -> Announced {
        let mut tasks = self.0.write();
        for address in &addresses {
            tasks.insert(address.clone(), Arc::downgrade(task));
        }
        Announced { tasks: self.clone(), task: Arc::downgrade(task), addresses }
    }

    /// The worker of this process at an address.
    pub(crate) fn worker_at(&self, address: &str) -> Option<Arc<dyn WorkerApi>> {
        let task = self.0.read().get(address)?.upgrade()?;
        Some(task.worker())
    }

    /// The task of this process whose master has a session; nothing if the session is elsewhere. Handles are random, so no
    /// other master has one like it.
    pub(crate) fn with_session(&self, handle: &str) -> Option<Weak<dyn LocalTask>> {
        let tasks: Vec<Arc<dyn LocalTask>> = self.0.read().values().filter_map(Weak::upgrade).collect();
        let found = tasks.iter().find(|task| task.has_session(handle));
        found.map(Arc::downgrade)
    }
}

/// A task that others of this process can find. Dropping it withdraws the task.
pub(crate) struct Announced {
    tasks: LocalTasks,
    task: Weak<dyn LocalTask>,
    addresses: Vec<String>,
}

impl Drop for Announced {
    fn drop(&mut self) {
        let mut tasks = self.tasks.0.write();
        for address in &self.addresses {
            // Another server may have taken the address since.
            if tasks.get(address).is_some_and(|known| known.ptr_eq(&self.task)) {
                tasks.remove(address);
            }
        }
    }
}
