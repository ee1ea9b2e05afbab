//! [`StepRendezvous`]: the rendezvous of a step as its nodes on this task see it.
//!
//! A send only leaves the value here; whoever wants it comes for it. A receive whose sender is on this task looks here;
//! any other asks the sender's task, by reference if that task is in this process, else with `RecvTensor`, or, between our
//! own tasks, for several tensors with one call. The asking is done by the future that runs the step ([`drive`]), so that
//! a step with little to compute never leaves its thread.

use std::sync::Arc;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use rustc_hash::FxHashMap;
use tensorfleet_core::{Code, RendezvousKey, Result, Status};
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::rendezvous::{OnReceived, Rendezvous, Transfer};
use tensorfleet_kernel::variable::Variable;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::awaited::Awaited;
use super::session::WorkerSession;
use super::step_table::StepEntry;
use crate::io;
use crate::peers::WorkerInterface;
use crate::wire::fleet_messages::MAX_KEYS;
use crate::wire::remote_worker::TensorStream;

/// The rendezvous of a step on this task.
pub(super) struct StepRendezvous {
    pub(super) entry: Arc<StepEntry>,
    pub(super) session: Arc<WorkerSession>,
    pub(super) awaited: Arc<Awaited>,
    pub(super) requests: UnboundedSender<Request>,
}

/// A tensor to ask another task for.
pub(super) struct Request {
    number: u64,
    worker: WorkerInterface,
    key: RendezvousKey,
}

impl Rendezvous for StepRendezvous {
    fn send(&self, key: RendezvousKey, value: Transfer, resume: Resume<'_>) -> Result<()> {
        self.entry.rendezvous.send(key, value, resume)
    }

    fn send_variable(&self, key: RendezvousKey, variable: Arc<Variable>, resume: Resume<'_>) -> Result<()> {
        self.entry.rendezvous.send_variable(key, variable, resume)
    }

    fn receive(&self, key: RendezvousKey, received: OnReceived) {
        if self.session.is_own(key.sender()) {
            return self.entry.rendezvous.receive(key, received);
        }
        let worker = match self.session.peers().worker_with_device(key.sender()) {
            Ok(worker) => worker,
            Err(status) => return received(Err(status), Resume::OnPool),
        };
        let Some(number) = self.awaited.add(&key, received) else { return };
        if self.requests.send(Request { number, worker, key }).is_err() {
            let over = Status::cancelled("the step is over").derived();
            self.awaited.complete(number, Err(over), Resume::OnPool);
        }
    }
}

/// An answer of another task.
enum Answer {
    One(u64, Result<Transfer>),
    /// To a request for several: what came, and the rest of the answer.
    Several(Vec<(u64, Transfer)>, Option<Batch>),
    /// To a request for several that failed. They are not asked for again: the other side may have given them away.
    Failed(Vec<Request>, Status),
    /// The other task does not know such requests.
    Refused(Vec<Request>),
}

/// Tensors that were asked for together and have not come yet.
struct Batch {
    stream: TensorStream,
    /// In the order of the request; `None` where the tensor has come.
    open: Vec<Option<Request>>,
}

/// Asks other tasks for tensors as the step's nodes want them. Never comes to an end: it is dropped with the step.
///
/// What the nodes want at the same moment from the same task is asked for with one call. When it has come, the step goes on
/// on this thread, inside this future, with what is cheap ([`io::deliver`]): another thread need not be woken.
pub(super) async fn drive(step_id: i64, mut requests: UnboundedReceiver<Request>, awaited: &Awaited) {
    let mut asked = FuturesUnordered::new();
    let mut is_open = true;
    loop {
        tokio::select! {
            biased;
            request = requests.recv(), if is_open => {
                is_open = request.is_some();
                let mut wanted: Vec<Request> = request.into_iter().collect();
                wanted.extend(std::iter::from_fn(|| requests.try_recv().ok()));
                asked.extend(batches(wanted).into_iter().map(|batch| ask(step_id, batch).boxed()));
            }
            Some(answer) = asked.next(), if !asked.is_empty() => match answer {
                Answer::One(number, result) => io::deliver(|resume| awaited.complete(number, result, resume)),
                Answer::Failed(requests, status) => io::deliver(|resume| {
                    for request in requests {
                        let status = as_seen_from_here(status.clone(), &request.key);
                        awaited.complete(request.number, Err(status), resume);
                    }
                }),
                Answer::Several(came, rest) => {
                    asked.extend(rest.map(|batch| next_of(batch).boxed()));
                    io::deliver(|resume| {
                        came.into_iter().for_each(|(number, value)| awaited.complete(number, Ok(value), resume));
                    });
                }
                Answer::Refused(requests) => {
                    asked.extend(requests.into_iter().map(|request| ask(step_id, vec![request]).boxed()));
                }
            },
            else => std::future::pending().await,
        }
    }
}

/// Requests that are made together.
fn batches(wanted: Vec<Request>) -> Vec<Vec<Request>> {
    let mut batches: Vec<Vec<Request>> = Vec::new();
    let mut open: FxHashMap<String, usize> = FxHashMap::default();
    for request in wanted {
        let Some(address) = request.worker.batch_address() else {
            batches.push(vec![request]);
            continue;
        };
        match open.get(address).filter(|&&index| batches[index].len() < MAX_KEYS) {
            Some(&index) => batches[index].push(request),
            None => {
                open.insert(address.to_string(), batches.len());
                batches.push(vec![request]);
            }
        }
    }
    batches
}

async fn ask(step_id: i64, mut batch: Vec<Request>) -> Answer {
    if let [first, _, ..] = &batch[..] {
        let worker = first.worker.clone();
        return match worker.recv_tensors(step_id, batch.iter().map(|request| &request.key)).await {
            Ok(stream) => next_of(Batch { stream, open: batch.into_iter().map(Some).collect() }).await,
            Err(status) if status.code() == Code::Unimplemented => Answer::Refused(batch),
            Err(status) => Answer::Failed(batch, status),
        };
    }
    let Some(request) = batch.pop() else { return Answer::Several(Vec::new(), None) };
    let result = request.worker.recv_tensor(step_id, &request.key).await;
    Answer::One(request.number, result.map_err(|status| as_seen_from_here(status, &request.key)))
}

/// What comes next of tensors that were asked for together.
async fn next_of(mut batch: Batch) -> Answer {
    let came = match batch.stream.next().await {
        Ok(Some(came)) => came,
        Ok(None) => {
            let status = Status::internal("the other task left out tensors that were asked for");
            return Answer::Failed(batch.open.into_iter().flatten().collect(), status);
        }
        Err(status) => return Answer::Failed(batch.open.into_iter().flatten().collect(), status),
    };
    let answered =
        came.into_iter().filter_map(|(index, value)| Some((batch.open[index].take()?.number, value)));
    let answered = answered.collect();
    // The end of the answer is of no interest once all has come; dropping the stream ends it.
    let rest = batch.open.iter().any(Option::is_some).then_some(batch);
    Answer::Several(answered, rest)
}

/// The failure of a sender is reported by its own task; here it is a consequence. That a task is gone or has been
/// restarted, however, only others can tell.
fn as_seen_from_here(status: Status, key: &RendezvousKey) -> Status {
    match status.code() {
        Code::Unavailable | Code::Aborted => status.context(format!("Receiving from {}", key.sender_text())),
        _ => status.derived(),
    }
}
