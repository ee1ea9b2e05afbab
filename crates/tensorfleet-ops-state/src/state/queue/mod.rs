//! [`Queue`]: tuples of tensors that steps hand to each other, with a bound and an end.
//!
//! The queue is a state machine behind one lock; no thread ever waits in it. A request that cannot be served
//! leaves its continuation in a waiting list, and whoever changes the state (puts, takes, closes, gives up) serves
//! everyone whose turn has come and answers them after releasing the lock; where their steps go on it says with the answer.
//!
//! Requests of a kind are served strictly in order of arrival. A waiting `dequeue_many` takes elements as they
//! come, or a batch larger than the capacity could never be filled; if it is given up, they go back to where they
//! were. (TensorFlow 2.21 loses them.) Only a queue by priority waits until there are enough, so that what comes last is not what
//! leaves last. A close waits behind the enqueues that came before it, as in TensorFlow.

mod batch;
mod ops;
mod spec;
mod store;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use parking_lot::Mutex;
use tensorfleet_core::{Result, Status, Tensor, ensure};

use self::store::Store;
use super::waiting::{RequestId, Waiting, WaitingList, Waits, watch};
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::resource::Resource;

pub use self::batch::stack;
pub(crate) use self::ops::OPS;
use self::spec::Kind;
pub use self::spec::QueueSpec;
pub use self::store::Tuple;

/// The continuation of an enqueue or a close.
pub type OnEnqueued = Box<dyn FnOnce(Result<()>, Resume<'_>) + Send>;
/// The continuation of a dequeue; gets the elements in the order in which they left the queue.
pub type OnDequeued = Box<dyn FnOnce(Result<Vec<Tuple>>, Resume<'_>) + Send>;

/// A queue.
pub struct Queue {
    name: String,
    spec: QueueSpec,
    state: Mutex<State>,
}

struct State {
    store: Store,
    enqueues: WaitingList<Enqueue>,
    dequeues: WaitingList<Dequeue>,
    is_closed: bool,
    /// Set when the queue has left its container; all that is left is to say so.
    is_removed: bool,
}

/// A waiting enqueue or close.
struct Enqueue {
    what: Offer,
    done: OnEnqueued,
}

enum Offer {
    Elements(std::vec::IntoIter<Tuple>),
    Close,
}

/// How many elements a dequeue asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Amount {
    /// The number of elements.
    pub count: usize,
    /// Whether a closed queue may give fewer, but at least one.
    pub or_fewer: bool,
}

struct Dequeue {
    amount: Amount,
    taken: Vec<Tuple>,
    done: OnDequeued,
}

/// Answers that became due under the lock and are given after it.
#[derive(Default)]
struct Answers {
    enqueued: Vec<(Waiting<Enqueue>, Result<()>)>,
    dequeued: Vec<(Waiting<Dequeue>, Result<()>)>,
}

impl Answers {
    fn give(self, resume: Resume<'_>) {
        for (waiting, result) in self.enqueued {
            (waiting.release().done)(result, resume);
        }
        for (waiting, result) in self.dequeued {
            let Dequeue { taken, done, .. } = waiting.release();
            done(result.map(|()| taken), resume);
        }
    }
}

impl Queue {
    /// An empty queue.
    pub fn new(name: &str, spec: QueueSpec) -> Result<Queue> {
        let state = State {
            store: spec.new_store()?,
            enqueues: WaitingList::default(),
            dequeues: WaitingList::default(),
            is_closed: false,
            is_removed: false,
        };
        Ok(Queue { name: name.to_string(), spec, state: Mutex::new(state) })
    }

    /// What the queue holds and how.
    pub fn spec(&self) -> &QueueSpec {
        &self.spec
    }

    /// The number of elements in it, without those a waiting dequeue holds.
    pub fn size(&self) -> usize {
        self.state.lock().store.len()
    }

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// Puts one element in, as soon as there is room. Steps whose waits this ends go on where `resume` says.
    pub fn enqueue(
        self: &Arc<Self>,
        tuple: Tuple,
        cancellation: &Arc<Cancellation>,
        done: OnEnqueued,
        resume: Resume<'_>,
    ) {
        match self.spec.check_element(&tuple) {
            Ok(()) => self.offer(Offer::Elements(vec![tuple].into_iter()), cancellation, done, resume),
            Err(status) => done(Err(status), resume),
        }
    }

    /// Puts the rows of a batch in, each as soon as there is room.
    pub fn enqueue_many(
        self: &Arc<Self>,
        batch: &[Tensor],
        cancellation: &Arc<Cancellation>,
        done: OnEnqueued,
        resume: Resume<'_>,
    ) {
        match self.spec.rows_of(batch) {
            Ok(rows) if rows.is_empty() => done(Ok(()), resume),
            Ok(rows) => self.offer(Offer::Elements(rows.into_iter()), cancellation, done, resume),
            Err(status) => done(Err(status), resume),
        }
    }

    /// Closes the queue to enqueues that come later; those that wait already go first, or, if
    /// `cancel_pending`, are cancelled.
    pub fn close(
        self: &Arc<Self>,
        cancel_pending: bool,
        cancellation: &Arc<Cancellation>,
        done: OnEnqueued,
        resume: Resume<'_>,
    ) {
        if !cancel_pending {
            return self.offer(Offer::Close, cancellation, done, resume);
        }
        let mut answers = Answers::default();
        {
            let mut state = self.state.lock();
            state.is_closed = true;
            let cancelled = || Err(Status::cancelled("Enqueue operation was cancelled"));
            answers.enqueued.extend(state.enqueues.drain().map(|waiting| (waiting, cancelled())));
            self.advance(&mut state, &mut answers);
        }
        answers.give(resume);
        done(Ok(()), resume);
    }

    fn offer(
        self: &Arc<Self>,
        what: Offer,
        cancellation: &Arc<Cancellation>,
        done: OnEnqueued,
        resume: Resume<'_>,
    ) {
        let mut answers = Answers::default();
        let (id, waits) = {
            let mut state = self.state.lock();
            let id = state.enqueues.push(cancellation, Enqueue { what, done });
            self.advance(&mut state, &mut answers);
            (id, state.enqueues.contains(id))
        };
        answers.give(resume);
        if waits {
            watch::<Enqueue, _>(self, id, cancellation);
        }
    }

    /// Takes elements out, as soon as there are enough.
    pub fn dequeue(
        self: &Arc<Self>,
        amount: Amount,
        cancellation: &Arc<Cancellation>,
        done: OnDequeued,
        resume: Resume<'_>,
    ) {
        if amount.count == 0 {
            return done(Ok(Vec::new()), resume);
        }
        let mut answers = Answers::default();
        let (id, waits) = {
            let mut state = self.state.lock();
            let id = state.dequeues.push(cancellation, Dequeue { amount, taken: Vec::new(), done });
            self.advance(&mut state, &mut answers);
            (id, state.dequeues.contains(id))
        };
        answers.give(resume);
        if waits {
            watch::<Dequeue, _>(self, id, cancellation);
        }
    }

    /// Serves everyone whose turn has come.
    fn advance(&self, state: &mut State, answers: &mut Answers) {
        if state.is_removed {
            answers.enqueued.extend(state.enqueues.drain().map(|waiting| (waiting, Err(self.removed()))));
            answers.dequeued.extend(state.dequeues.drain().map(|waiting| (waiting, Err(self.removed()))));
            return;
        }
        // What is put in may be taken out, which makes room for more.
        while self.advance_enqueues(state, answers) | self.advance_dequeues(state, answers) {}
    }

    /// Lets in what there is room for; returns whether anything changed.
    fn advance_enqueues(&self, state: &mut State, answers: &mut Answers) -> bool {
        let mut changed = false;
        while let Some(enqueue) = state.enqueues.front() {
            let result = match &mut enqueue.what {
                Offer::Close if state.is_closed => {
                    Err(Status::cancelled(format!("Queue '{}' is already closed.", self.name)))
                }
                Offer::Close => {
                    state.is_closed = true;
                    Ok(())
                }
                Offer::Elements(_) if state.is_closed => {
                    Err(Status::cancelled(format!("{} is closed.", self.title())))
                }
                Offer::Elements(rows) => {
                    while state.store.len() < self.spec.capacity
                        && let Some(tuple) = rows.next()
                    {
                        state.store.put(tuple);
                        changed = true;
                    }
                    if rows.len() > 0 {
                        return changed;
                    }
                    Ok(())
                }
            };
            changed = true;
            answers.enqueued.extend(state.enqueues.pop().map(|waiting| (waiting, result)));
        }
        changed
    }

    /// Lets out what may be taken; returns whether anything changed.
    fn advance_dequeues(&self, state: &mut State, answers: &mut Answers) -> bool {
        let mut changed = false;
        while let Some(Dequeue { amount, taken, .. }) = state.dequeues.front() {
            let held_back = if state.is_closed { 0 } else { self.spec.min_after_dequeue };
            if !state.is_closed && self.waits_for_all(*amount) && state.store.len() < amount.count {
                return changed;
            }
            while taken.len() < amount.count
                && state.store.len() > held_back
                && let Some(element) = state.store.take()
            {
                taken.push(element);
                changed = true;
            }
            let result = if taken.len() == amount.count || (state.is_closed && can_be_fewer(*amount, taken)) {
                Ok(())
            } else if state.is_closed {
                state.store.put_back(std::mem::take(taken));
                Err(Status::out_of_range(format!(
                    "{} is closed and has insufficient elements (requested {}, current size {})",
                    self.title(),
                    amount.count,
                    state.store.len()
                )))
            } else {
                return changed;
            };
            changed = true;
            answers.dequeued.extend(state.dequeues.pop().map(|waiting| (waiting, result)));
        }
        changed
    }

    /// Whether a dequeue leaves the elements in the queue until there are enough. One of more than the queue holds cannot.
    fn waits_for_all(&self, amount: Amount) -> bool {
        self.spec.kind == Kind::Priority && amount.count <= self.spec.capacity
    }

    /// Kind and name, as error messages have them.
    fn title(&self) -> String {
        format!("{} '{}'", self.spec.kind.name(), self.name)
    }

    #[cold]
    fn removed(&self) -> Status {
        Status::aborted(format!("{} was removed from its container.", self.title()))
    }

    /// Checks that a node asks for the queue that is there.
    fn check_same(&self, wanted: &QueueSpec, op: &str) -> Result<()> {
        ensure!(
            self.spec.kind == wanted.kind,
            InvalidArgument,
            "Shared queue '{}' is of another kind: Expected {}, found {op}",
            self.name,
            self.spec.kind.name()
        );
        self.spec.check_same(wanted, &self.name)
    }
}

fn can_be_fewer(amount: Amount, taken: &[Tuple]) -> bool {
    amount.or_fewer && !taken.is_empty()
}

impl Waits<Enqueue> for Queue {
    fn with_list<R>(&self, look: impl FnOnce(&mut WaitingList<Enqueue>) -> R) -> R {
        look(&mut self.state.lock().enqueues)
    }

    /// Rows of the batch that are in already stay in.
    fn withdraw(&self, id: RequestId, reason: Status) {
        let mut answers = Answers::default();
        {
            let mut state = self.state.lock();
            let Some(waiting) = state.enqueues.remove(id) else { return };
            answers.enqueued.push((waiting, Err(reason)));
            self.advance(&mut state, &mut answers);
        }
        answers.give(Resume::OnPool);
    }
}

impl Waits<Dequeue> for Queue {
    fn with_list<R>(&self, look: impl FnOnce(&mut WaitingList<Dequeue>) -> R) -> R {
        look(&mut self.state.lock().dequeues)
    }

    /// What it has taken goes back.
    fn withdraw(&self, id: RequestId, reason: Status) {
        let mut answers = Answers::default();
        {
            let mut state = self.state.lock();
            let Some(mut waiting) = state.dequeues.remove(id) else { return };
            state.store.put_back(std::mem::take(&mut waiting.request.taken));
            answers.dequeued.push((waiting, Err(reason)));
            self.advance(&mut state, &mut answers);
        }
        answers.give(Resume::OnPool);
    }
}

impl Resource for Queue {
    fn kind() -> &'static str {
        "N10tensorflow14QueueInterfaceE"
    }

    fn on_removed(&self) {
        let mut answers = Answers::default();
        {
            let mut state = self.state.lock();
            state.is_removed = true;
            self.advance(&mut state, &mut answers);
        }
        answers.give(Resume::OnPool);
    }
}
