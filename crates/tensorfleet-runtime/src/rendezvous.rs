//! [`LocalRendezvous`]: the meeting place of one step's sends and receives on this task.
//!
//! A key holds either values that wait for a receiver or receivers that wait for a value, in order of arrival; a
//! value is handed out once. Values are handed over by reference. Aborting wakes every receiver with the reason, and
//! whoever comes later gets it too.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tensorfleet_core::memory::Kept;
use tensorfleet_core::{RendezvousKey, Result, Status, bail};
use tensorfleet_kernel::rendezvous::{OnReceived, Rendezvous, Transfer};
use tensorfleet_kernel::variable::Variable;

use crate::sync::Mutex;
use tensorfleet_kernel::continuation::Resume;

/// A rendezvous inside one task.
#[derive(Default)]
pub struct LocalRendezvous {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    aborted: Option<Status>,
    table: FxHashMap<RendezvousKey, Waiting>,
    /// For values that wait: a loop may send in each iteration what nobody takes.
    kept: Kept,
    next_receiver: u64,
}

/// What a place in the table takes, with its key.
const ENTRY_BYTES: usize = 256;

/// Identifies a receiver that may be withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverId(u64);

/// Never both: a value meets a waiting receiver at once.
enum Waiting {
    Values(VecDeque<Sent>),
    Receivers(VecDeque<(ReceiverId, OnReceived)>),
}

/// A value that waits for its receiver.
enum Sent {
    Value(Transfer),
    /// Read when it is received.
    Variable(Arc<Variable>),
}

impl Sent {
    fn kept_bytes(&self) -> usize {
        match self {
            Sent::Value(Some(tensor)) => ENTRY_BYTES + tensor.kept_bytes(),
            _ => ENTRY_BYTES,
        }
    }

    fn into_transfer(self) -> Result<Transfer> {
        match self {
            Sent::Value(value) => Ok(value),
            Sent::Variable(variable) => variable.read().map(Some),
        }
    }
}

impl State {
    /// What was sent under a key. It is read only after the lock is gone: a variable may be busy with a long update.
    fn take_sent(&mut self, key: &RendezvousKey) -> Option<Result<Sent>> {
        if let Some(reason) = &self.aborted {
            return Some(Err(reason.clone()));
        }
        let Some(Waiting::Values(values)) = self.table.get_mut(key) else { return None };
        let value = values.pop_front();
        if values.is_empty() {
            self.table.remove(key);
        }
        self.kept.remove(value.as_ref().map_or(0, Sent::kept_bytes));
        let empty = || Status::internal("a rendezvous key has an empty list of values");
        Some(value.ok_or_else(empty))
    }
}

impl LocalRendezvous {
    /// An empty rendezvous.
    pub fn new() -> LocalRendezvous {
        LocalRendezvous::default()
    }

    /// Ends all waits with `reason`, now and later.
    pub fn abort(&self, reason: Status) {
        let table = {
            let mut state = self.state.lock();
            if state.aborted.is_some() {
                return;
            }
            state.aborted = Some(reason.clone());
            state.kept.clear();
            std::mem::take(&mut state.table)
        };
        for waiting in table.into_values() {
            if let Waiting::Receivers(receivers) = waiting {
                receivers.into_iter().for_each(|(_, receiver)| receiver(Err(reason.clone()), Resume::OnPool));
            }
        }
    }

    /// Like [`Rendezvous::receive`]. If the value is not there yet, gives a number with which the receiver can be
    /// withdrawn.
    pub fn receive_withdrawably(&self, key: RendezvousKey, received: OnReceived) -> Option<ReceiverId> {
        let sent = {
            let mut state = self.state.lock();
            match state.take_sent(&key) {
                Some(sent) => sent,
                None => {
                    let id = ReceiverId(state.next_receiver);
                    state.next_receiver += 1;
                    let waiting =
                        state.table.entry(key).or_insert_with(|| Waiting::Receivers(VecDeque::new()));
                    if let Waiting::Receivers(receivers) = waiting {
                        receivers.push_back((id, received));
                    }
                    return Some(id);
                }
            }
        };
        // Within the call that asks: whoever does goes on by itself.
        received(sent.and_then(Sent::into_transfer), Resume::OnPool);
        None
    }

    /// Takes a receiver off the list, so that it is not called any more. Returns whether it was still there.
    pub fn withdraw(&self, key: &RendezvousKey, id: ReceiverId) -> bool {
        let mut state = self.state.lock();
        let Some(Waiting::Receivers(receivers)) = state.table.get_mut(key) else { return false };
        let before = receivers.len();
        receivers.retain(|(other, _)| *other != id);
        let found = receivers.len() < before;
        if receivers.is_empty() {
            state.table.remove(key);
        }
        found
    }

    /// The value under a key, if it is there; an error after an abort.
    pub fn take(&self, key: &RendezvousKey) -> Option<Result<Transfer>> {
        let sent = self.state.lock().take_sent(key);
        sent.map(|sent| sent.and_then(Sent::into_transfer))
    }

    /// Whether nothing waits here, neither values nor receivers.
    pub fn is_empty(&self) -> bool {
        self.state.lock().table.is_empty()
    }

    /// The keys somebody waits for, so that a stuck step can be explained.
    pub fn awaited_keys(&self) -> Vec<RendezvousKey> {
        let state = self.state.lock();
        let awaited = state.table.iter().filter(|(_, waiting)| matches!(waiting, Waiting::Receivers(_)));
        awaited.map(|(key, _)| key.clone()).collect()
    }
}

impl Rendezvous for LocalRendezvous {
    fn send(&self, key: RendezvousKey, value: Transfer, resume: Resume<'_>) -> Result<()> {
        self.put(key, Sent::Value(value), resume)
    }

    fn send_variable(&self, key: RendezvousKey, variable: Arc<Variable>, resume: Resume<'_>) -> Result<()> {
        self.put(key, Sent::Variable(variable), resume)
    }

    fn receive(&self, key: RendezvousKey, received: OnReceived) {
        self.receive_withdrawably(key, received);
    }
}

impl LocalRendezvous {
    fn put(&self, key: RendezvousKey, value: Sent, resume: Resume<'_>) -> Result<()> {
        let receiver = {
            let mut state = self.state.lock();
            if let Some(reason) = &state.aborted {
                return Err(reason.clone());
            }
            let State { table, kept, .. } = &mut *state;
            match table.get_mut(&key) {
                Some(Waiting::Values(values)) => {
                    kept.add(value.kept_bytes())?;
                    values.push_back(value);
                    return Ok(());
                }
                Some(Waiting::Receivers(receivers)) => {
                    let receiver = receivers.pop_front();
                    if receivers.is_empty() {
                        table.remove(&key);
                    }
                    receiver
                }
                None => {
                    kept.add(value.kept_bytes())?;
                    table.insert(key, Waiting::Values(VecDeque::from([value])));
                    return Ok(());
                }
            }
        };
        match receiver {
            Some((_, receiver)) => {
                receiver(value.into_transfer(), resume);
                Ok(())
            }
            None => bail!(Internal, "a rendezvous key has an empty list of receivers"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use tensorfleet_core::{Code, Tensor};

    fn key(name: &str) -> RendezvousKey {
        format!("/job:a;00ff;/job:b;{name};0:0").parse().unwrap()
    }

    fn receive(rendezvous: &LocalRendezvous, name: &str) -> mpsc::Receiver<Result<Transfer>> {
        let (sender, receiver) = mpsc::channel();
        rendezvous.receive(key(name), Box::new(move |result, _| sender.send(result).unwrap()));
        receiver
    }

    #[test]
    fn values_meet_receivers_in_order_whoever_comes_first() {
        let rendezvous = LocalRendezvous::new();
        rendezvous.send(key("x"), Some(Tensor::scalar(1i32)), Resume::OnPool).unwrap();
        rendezvous.send(key("x"), None, Resume::OnPool).unwrap();
        assert_eq!(receive(&rendezvous, "x").try_recv().unwrap().unwrap(), Some(Tensor::scalar(1i32)));
        assert_eq!(receive(&rendezvous, "x").try_recv().unwrap().unwrap(), None);
        let (first, second) = (receive(&rendezvous, "x"), receive(&rendezvous, "x"));
        assert!(first.try_recv().is_err());
        assert_eq!(rendezvous.awaited_keys(), [key("x")]);
        for value in [7i32, 8] {
            rendezvous.send(key("x"), Some(Tensor::scalar(value)), Resume::OnPool).unwrap();
        }
        assert_eq!(first.try_recv().unwrap().unwrap(), Some(Tensor::scalar(7i32)));
        assert_eq!(second.try_recv().unwrap().unwrap(), Some(Tensor::scalar(8i32)));
        assert!(rendezvous.awaited_keys().is_empty());
    }

    #[test]
    fn an_abort_reaches_waiters_and_latecomers() {
        let rendezvous = LocalRendezvous::new();
        let waiting = receive(&rendezvous, "x");
        rendezvous.abort(Status::aborted("peer restarted"));
        rendezvous.abort(Status::internal("too late to be the reason"));
        for result in [waiting, receive(&rendezvous, "y")] {
            assert_eq!(result.try_recv().unwrap().unwrap_err().code(), Code::Aborted);
        }
        assert_eq!(rendezvous.send(key("x"), None, Resume::OnPool).unwrap_err().code(), Code::Aborted);
    }

    #[test]
    fn a_withdrawn_receiver_leaves_the_value_to_the_next() {
        let rendezvous = LocalRendezvous::new();
        let id =
            rendezvous.receive_withdrawably(key("x"), Box::new(|_, _| panic!("it was withdrawn"))).unwrap();
        assert!(rendezvous.withdraw(&key("x"), id));
        assert!(!rendezvous.withdraw(&key("x"), id));
        assert!(rendezvous.is_empty());
        rendezvous.send(key("x"), Some(Tensor::scalar(1i32)), Resume::OnPool).unwrap();
        assert_eq!(rendezvous.take(&key("x")).unwrap().unwrap(), Some(Tensor::scalar(1i32)));
        assert!(rendezvous.take(&key("x")).is_none());
    }

    #[test]
    fn every_value_arrives_once_under_contention() {
        let rendezvous = Arc::new(LocalRendezvous::new());
        let (sender, receiver) = mpsc::channel();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (rendezvous, sender) = (rendezvous.clone(), sender.clone());
                scope.spawn(move || {
                    for i in 0..500i32 {
                        rendezvous
                            .send(
                                key(&(i % 7).to_string()),
                                Some(Tensor::scalar(thread * 500 + i)),
                                Resume::OnPool,
                            )
                            .unwrap();
                        let sender = sender.clone();
                        let take = move |result: Result<Transfer>, _: Resume<'_>| {
                            sender.send(result.unwrap().unwrap().to_scalar::<i32>().unwrap()).unwrap();
                        };
                        rendezvous.receive(key(&(i % 7).to_string()), Box::new(take));
                    }
                });
            }
        });
        drop(sender);
        let mut values: Vec<i32> = receiver.into_iter().collect();
        values.sort_unstable();
        assert_eq!(values, (0..2000).collect::<Vec<_>>());
    }
}
