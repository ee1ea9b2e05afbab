//! [`StepRendezvous`]: the rendezvous of a step as its nodes on this task see it.
//!
//! A send only leaves the value here; whoever wants it comes for it. A receive whose sender is on this task looks here;
//! any other asks the sender's task, by reference if that task is in this process, else with `RecvTensor`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tensorfleet_core::{Code, Result, Status};
use tensorfleet_ops::cancellation::Cancellation;
use tensorfleet_ops::rendezvous::{OnReceived, Rendezvous, Transfer};

use super::session::WorkerSession;
use super::step_table::StepEntry;
use crate::io;
use crate::peers::Peer;

/// The rendezvous of a step on this task.
pub(super) struct StepRendezvous {
    pub(super) entry: Arc<StepEntry>,
    pub(super) session: Arc<WorkerSession>,
    pub(super) cancellation: Arc<Cancellation>,
    pub(super) awaited: Arc<Awaited>,
    /// Present if the step is traced.
    pub(super) transfers: Option<Arc<Transfers>>,
}

/// Tensors asked of other tasks that have not come yet.
#[derive(Default)]
pub(super) struct Awaited {
    next: AtomicU64,
    keys: Mutex<FxHashMap<u64, Arc<str>>>,
}

impl Awaited {
    fn add(&self, key: &Arc<str>) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.keys.lock().insert(number, key.clone());
        number
    }

    fn remove(&self, number: u64) {
        self.keys.lock().remove(&number);
    }

    pub(super) fn keys(&self) -> Vec<Arc<str>> {
        self.keys.lock().values().cloned().collect()
    }
}

/// What came from where, and how long it took.
#[derive(Default)]
pub(super) struct Transfers(Mutex<Vec<TransferRecord>>);

pub(super) struct TransferRecord {
    pub(super) key: Arc<str>,
    pub(super) bytes: usize,
    pub(super) asked: Instant,
    pub(super) took: Duration,
}

impl Transfers {
    pub(super) fn take(&self) -> Vec<TransferRecord> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Rendezvous for StepRendezvous {
    fn send(&self, key: String, value: Transfer) -> Result<()> {
        self.entry.rendezvous.send(key, value)
    }

    fn receive(&self, key: String, received: OnReceived) {
        if self.session.is_own_device(&key) {
            return self.entry.rendezvous.receive(key, received);
        }
        match self.session.peers().of_device(&key) {
            Ok(peer) => self.receive_from(peer, key.into(), received),
            Err(status) => received(Err(status)),
        }
    }
}

impl StepRendezvous {
    fn receive_from(&self, peer: Peer, key: Arc<str>, received: OnReceived) {
        let number = self.awaited.add(&key);
        let (awaited, transfers, asked) = (self.awaited.clone(), self.transfers.clone(), Instant::now());
        let pending = Arc::new(Mutex::new(Some(received)));
        let complete = {
            let (pending, key) = (pending.clone(), key.clone());
            move |result: Result<Transfer>| {
                // Whoever comes first answers, the transfer or the step's cancellation.
                let Some(received) = pending.lock().take() else { return };
                awaited.remove(number);
                if let (Some(transfers), Ok(Some(tensor))) = (&transfers, &result) {
                    let record =
                        TransferRecord { key, bytes: tensor.byte_size(), asked, took: asked.elapsed() };
                    transfers.0.lock().push(record);
                }
                received(result);
            }
        };
        let (step_id, cancellation) = (self.entry.id, self.cancellation.clone());
        let on_cancelled = complete.clone();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let registration = cancellation.register(move |reason| {
            drop(stop);
            on_cancelled(Err(reason.derived()));
        });
        let token = match registration {
            Ok(token) => token,
            Err(reason) => return complete(Err(reason.derived())),
        };
        io::handle().spawn(async move {
            let transfer = async {
                let result = peer.recv_tensor(step_id, &key).await;
                cancellation.deregister(token);
                complete(result.map_err(|status| as_seen_from_here(status, &key)));
            };
            tokio::select! {
                biased;
                () = transfer => {}
                _ = stopped => {}
            }
        });
    }
}

/// The failure of a sender is reported by its own task; here it is a consequence. That a task is gone or has been
/// restarted, however, only others can tell.
fn as_seen_from_here(status: Status, key: &str) -> Status {
    let sender = key.split(';').next().unwrap_or_default();
    match status.code() {
        Code::Unavailable | Code::Aborted => status.context(format!("Receiving from {sender}")),
        _ => status.derived(),
    }
}
