//! [`Peers`]: how to reach the other tasks of a cluster.
//!
//! A task whose server lives in this process is called directly, and tensors pass by reference; any other through its
//! channel. Which of the two is decided at each use, because servers of one process may start in any order.

use std::sync::{Arc, LazyLock, Weak};

use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use tensorfleet_core::{Result, Status};
use tensorfleet_kernel::rendezvous::Transfer;
use tensorfleet_rpc::{Channel, ChannelOptions};

use crate::cluster_spec::{ClusterSpec, TaskId};
use crate::remote_worker::RemoteWorker;
use crate::server::ServerCore;
use crate::worker::Worker;

/// The tasks of a cluster as one of them sees them.
pub(crate) struct Peers {
    spec: Arc<ClusterSpec>,
    options: ChannelOptions,
    workers: RwLock<FxHashMap<String, RemoteWorker>>,
}

/// Another task, or this one.
#[derive(Clone)]
pub(crate) enum Peer {
    /// In this process.
    Local(Arc<Worker>),
    Remote(RemoteWorker),
}

/// The servers of this process by the address their cluster knows them by.
static LOCAL: LazyLock<RwLock<FxHashMap<String, Weak<ServerCore>>>> = LazyLock::new(RwLock::default);

/// Makes a server known inside the process.
pub(crate) fn announce(server: &Arc<ServerCore>) {
    let mut local = LOCAL.write();
    for address in server.local_addresses() {
        local.insert(address, Arc::downgrade(server));
    }
}

/// Withdraws a server.
pub(crate) fn withdraw(server: &ServerCore) {
    let mut local = LOCAL.write();
    for address in server.local_addresses() {
        // Another server may have taken the address since.
        local.retain(|other, known| *other != address || !std::ptr::eq(known.as_ptr(), server));
    }
}

/// The server of this process at an address.
pub(crate) fn local(address: &str) -> Option<Arc<ServerCore>> {
    LOCAL.read().get(address).and_then(Weak::upgrade)
}

/// The server of this process that has a session; nothing if the session is elsewhere. Handles are random, so no other
/// server has one like it.
pub(crate) fn local_with_session(handle: &str) -> Weak<ServerCore> {
    let servers: Vec<Arc<ServerCore>> = LOCAL.read().values().filter_map(Weak::upgrade).collect();
    let found = servers.iter().find(|server| server.master().has_session(handle));
    found.map(Arc::downgrade).unwrap_or_default()
}

impl Peers {
    /// The tasks of `spec`, called through channels with these options.
    pub(crate) fn new(spec: Arc<ClusterSpec>, options: ChannelOptions) -> Peers {
        Peers { spec, options, workers: RwLock::default() }
    }

    /// The tasks of another cluster, called in the same way.
    pub(crate) fn of_cluster(&self, spec: Arc<ClusterSpec>) -> Peers {
        Peers::new(spec, self.options.clone())
    }

    /// The cluster.
    pub(crate) fn spec(&self) -> &Arc<ClusterSpec> {
        &self.spec
    }

    /// The task with this name.
    pub(crate) fn peer(&self, task: &TaskId) -> Result<Peer> {
        let address = self.spec.address(&task.job, task.index)?;
        if let Some(server) = local(address) {
            return Ok(Peer::Local(server.worker().clone()));
        }
        self.remote(address).map(Peer::Remote)
    }

    /// The task a device belongs to. What follows the task's name (the rest of a rendezvous key) does not matter.
    pub(crate) fn of_device(&self, device: &str) -> Result<Peer> {
        let task = task_of(device).ok_or_else(|| {
            Status::invalid_argument(format!("'{device}' does not begin with the full name of a task"))
        })?;
        self.peer(&task)
    }

    fn remote(&self, address: &str) -> Result<RemoteWorker> {
        if let Some(worker) = self.workers.read().get(address) {
            return Ok(worker.clone());
        }
        let new = RemoteWorker::new(Channel::new(address, self.options.clone())?);
        Ok(self.workers.write().entry(address.to_string()).or_insert(new).clone())
    }

    /// Bytes sent to and received from other processes.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        let workers = self.workers.read();
        let traffic = workers.values().map(RemoteWorker::traffic);
        traffic.fold((0, 0), |(sent, received), (more_sent, more_received)| {
            (sent + more_sent, received + more_received)
        })
    }
}

/// The task at the start of `/job:ps/replica:0/task:1/…`.
fn task_of(device: &str) -> Option<TaskId> {
    let rest = device.strip_prefix("/job:")?;
    let (job, rest) = rest.split_once("/replica:0/task:")?;
    let index = rest.split(['/', ';']).next()?;
    Some(TaskId::new(job, index.parse().ok()?))
}

impl Peer {
    /// Waits for a tensor of a step on that task.
    pub(crate) async fn recv_tensor(&self, step_id: i64, key: &str) -> Result<Transfer> {
        match self {
            Peer::Local(worker) => worker.recv_tensor(step_id, key, 0).await,
            Peer::Remote(worker) => worker.recv_tensor(step_id, key).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_task_is_found_at_the_start_of_a_key() {
        let key =
            "/job:ps/replica:0/task:12/device:CPU:0;00ff;/job:worker/replica:0/task:0/device:CPU:0;x;0:0";
        assert_eq!(task_of(key), Some(TaskId::new("ps", 12)));
        for bad in
            ["", "/job:ps/task:1/device:CPU:0", "/job:ps/replica:0/task:x/cpu:0", "job:ps/replica:0/task:1"]
        {
            assert_eq!(task_of(bad), None, "{bad}");
        }
    }
}
