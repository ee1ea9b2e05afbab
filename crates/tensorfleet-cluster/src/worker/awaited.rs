//! [`Awaited`]: tensors that a step has asked other tasks for and that have not come yet.

use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tensorfleet_core::clock::Stopwatch;
use tensorfleet_core::{RendezvousKey, Result, Status};
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::rendezvous::{OnReceived, Transfer};

/// Tensors asked of other tasks, with the receives that wait for them.
#[derive(Default)]
pub(super) struct Awaited {
    state: Mutex<AwaitedState>,
    /// Present if the step is traced.
    transfers: Option<Mutex<Vec<TransferRecord>>>,
}

#[derive(Default)]
struct AwaitedState {
    next: u64,
    cancelled: Option<Status>,
    pending: FxHashMap<u64, Pending>,
}

struct Pending {
    key: RendezvousKey,
    asked: Stopwatch,
    received: OnReceived,
}

/// What came from where, and how long it took.
pub(super) struct TransferRecord {
    pub(super) key: RendezvousKey,
    pub(super) bytes: usize,
    pub(super) asked: Stopwatch,
    pub(super) took: Duration,
}

impl Awaited {
    pub(super) fn new(is_traced: bool) -> Awaited {
        Awaited { state: Mutex::default(), transfers: is_traced.then(Mutex::default) }
    }

    /// Notes a receive; its number, unless the step is cancelled, which answers it.
    pub(super) fn add(&self, key: &RendezvousKey, received: OnReceived) -> Option<u64> {
        let mut state = self.state.lock();
        if let Some(reason) = state.cancelled.clone() {
            drop(state);
            received(Err(reason), Resume::OnPool);
            return None;
        }
        let number = state.next;
        state.next += 1;
        state.pending.insert(number, Pending { key: key.clone(), asked: Stopwatch::start(), received });
        Some(number)
    }

    /// Answers a receive. Its step goes on where `resume` says.
    pub(super) fn complete(&self, number: u64, result: Result<Transfer>, resume: Resume<'_>) {
        // A cancelled step has answered already.
        let Some(Pending { key, asked, received }) = self.state.lock().pending.remove(&number) else {
            return;
        };
        if let (Some(transfers), Ok(Some(tensor))) = (&self.transfers, &result) {
            let record = TransferRecord { key, bytes: tensor.byte_size(), asked, took: asked.elapsed() };
            transfers.lock().push(record);
        }
        received(result, resume);
    }

    /// Ends all waits, now and later.
    pub(super) fn cancel(&self, reason: &Status) {
        let pending = {
            let mut state = self.state.lock();
            state.cancelled = Some(reason.clone());
            std::mem::take(&mut state.pending)
        };
        pending.into_values().for_each(|pending| (pending.received)(Err(reason.clone()), Resume::OnPool));
    }

    /// What is waited for.
    pub(super) fn keys(&self) -> Vec<RendezvousKey> {
        self.state.lock().pending.values().map(|pending| pending.key.clone()).collect()
    }

    /// What has come, if the step is traced.
    pub(super) fn take_transfers(&self) -> Vec<TransferRecord> {
        self.transfers.as_ref().map(|transfers| std::mem::take(&mut *transfers.lock())).unwrap_or_default()
    }
}
