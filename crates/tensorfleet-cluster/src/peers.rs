//! [`Peers`]: how to reach the other tasks of a cluster.
//!
//! A task whose server lives in this process is called directly, and tensors pass by reference; any other through its
//! channel. Which of the two is decided at each use, because servers of one process may start in any order.

use std::sync::{Arc, LazyLock, Weak};

use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use tensorfleet_core::{DeviceName, RendezvousKey, Result, Status};
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
        self.task_peer(&task.job, task.index)
    }

    fn task_peer(&self, job: &str, index: u32) -> Result<Peer> {
        let address = self.spec.address(job, index)?;
        if let Some(server) = local(address) {
            return Ok(Peer::Local(server.worker().clone()));
        }
        self.remote(address).map(Peer::Remote)
    }

    /// The task a device belongs to.
    pub(crate) fn of_device(&self, device: &DeviceName) -> Result<Peer> {
        match (&device.job, device.replica, device.task) {
            (Some(job), Some(0), Some(index)) => self.task_peer(job, index),
            _ => Err(Status::invalid_argument(format!("'{device}' does not name a task in full"))),
        }
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

impl Peer {
    /// Waits for a tensor of a step on that task.
    pub(crate) async fn recv_tensor(&self, step_id: i64, key: &RendezvousKey) -> Result<Transfer> {
        match self {
            Peer::Local(worker) => worker.recv_tensor(step_id, key.clone(), 0).await,
            Peer::Remote(worker) => worker.recv_tensor(step_id, key).await,
        }
    }
}
