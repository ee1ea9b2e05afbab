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
mod tokens;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use parking_lot::Mutex;
use tensorfleet_core::memory::Kept;
use tensorfleet_core::{Result, Status, Tensor, ensure};

use self::store::Store;
pub(crate) use self::store::kept_bytes;
use super::waiting::{RequestId, Waiting, WaitingList, Waits, watch};
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::resource::Resource;

pub use self::batch::stack;
pub(crate) use self::ops::OPS;
use self::spec::Kind;
pub use self::spec::QueueSpec;
pub use self::store::Tuple;
use self::tokens::{Taker, TokenUse, Tokens};

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
    /// For all elements here: those in the store, those that wait to get in, those that a waiting dequeue holds.
    kept: Kept,
    enqueues: WaitingList<Enqueue>,
    dequeues: WaitingList<Dequeue>,
    is_closed: bool,
    /// Whether anything has ever been put in.
    is_used: bool,
    /// Present if the queue is one of tokens.
    tokens: Option<Box<Tokens>>,
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
    /// The tokens of a round, in place of what is left of the round before.
    Round(Vec<Tuple>),
    Close,
}

impl Offer {
    /// What keeping the elements takes that have not been put in yet.
    fn kept_bytes(&self) -> usize {
        match self {
            Offer::Elements(rows) => bytes_of(rows.as_slice()),
            Offer::Round(rows) => bytes_of(rows),
            Offer::Close => 0,
        }
    }
}

fn bytes_of(elements: &[Tuple]) -> usize {
    elements.iter().map(kept_bytes).fold(0, usize::saturating_add)
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
    /// Who takes, where the queue may have to know.
    taker: Option<Taker>,
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
            kept: Kept::default(),
            enqueues: WaitingList::default(),
            dequeues: WaitingList::default(),
            is_closed: false,
            is_used: false,
            tokens: None,
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
        self.put_many(batch, Offer::from_rows, cancellation, done, resume);
    }

    /// Puts the tokens of a round in, one for each row, in place of what is left of earlier rounds.
    pub(crate) fn enqueue_round(
        self: &Arc<Self>,
        batch: &[Tensor],
        cancellation: &Arc<Cancellation>,
        done: OnEnqueued,
        resume: Resume<'_>,
    ) {
        self.put_many(batch, Offer::Round, cancellation, done, resume);
    }

    fn put_many(
        self: &Arc<Self>,
        batch: &[Tensor],
        offer: impl FnOnce(Vec<Tuple>) -> Offer,
        cancellation: &Arc<Cancellation>,
        done: OnEnqueued,
        resume: Resume<'_>,
    ) {
        match self.spec.rows_of(batch) {
            Ok(rows) if rows.is_empty() => done(Ok(()), resume),
            Ok(rows) => self.offer(offer(rows), cancellation, done, resume),
            Err(status) => done(Err(status), resume),
        }
    }

    /// Begins the queue anew, as a chief that starts does in `epoch`: open, with the rows of `batch` and nothing else. Enqueues
    /// that wait, and dequeues of steps that began before, end with `Aborted`, unless nothing has ever been done with the queue.
    pub(crate) fn begin(&self, batch: &[Tensor], epoch: u64, resume: Resume<'_>) -> Result<()> {
        let rows = self.spec.rows_of(batch)?;
        let mut answers = Answers::default();
        {
            let mut state = self.state.lock();
            state.kept.add(bytes_of(&rows))?;
            let was_used = state.is_used || state.is_closed;
            state.is_closed = false;
            while let Some(left) = state.store.take() {
                state.kept.remove(kept_bytes(&left));
            }
            state.is_used |= !rows.is_empty();
            let tokens = state.tokens.get_or_insert_default();
            if tokens.begin(epoch, was_used) {
                let anew = || Err(tokens::begun_anew());
                let enqueues: Vec<Waiting<Enqueue>> = state.enqueues.drain().collect();
                let dequeues: Vec<Waiting<Dequeue>> = state.dequeues.drain().collect();
                for waiting in enqueues {
                    state.kept.remove(waiting.request.what.kept_bytes());
                    answers.enqueued.push((waiting, anew()));
                }
                for waiting in dequeues {
                    state.kept.remove(bytes_of(&waiting.request.taken));
                    answers.dequeued.push((waiting, anew()));
                }
            }
            rows.into_iter().for_each(|row| state.store.put(row));
            self.advance(&mut state, &mut answers);
        }
        answers.give(resume);
        Ok(())
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
            let pending: Vec<Waiting<Enqueue>> = state.enqueues.drain().collect();
            for waiting in pending {
                state.kept.remove(waiting.request.what.kept_bytes());
                answers.enqueued.push((waiting, cancelled()));
            }
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
            if let Err(status) = state.kept.add(what.kept_bytes()) {
                drop(state);
                return done(Err(status.context(format!("an element of {}", self.title()))), resume);
            }
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
        self.dequeue_for(None, amount, cancellation, done, resume);
    }

    /// The same for somebody whom a queue of tokens knows.
    fn dequeue_for(
        self: &Arc<Self>,
        taker: Option<Taker>,
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
            if taker.as_ref().is_some_and(|taker| taker.token_use == TokenUse::Member) {
                state.tokens.get_or_insert_default();
            }
            if let (Some(tokens), Some(taker)) = (&state.tokens, &taker)
                && let Err(status) = tokens.check(taker)
            {
                drop(state);
                return done(Err(status), resume);
            }
            let id = state.dequeues.push(cancellation, Dequeue { amount, taker, taken: Vec::new(), done });
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
                Offer::Elements(_) | Offer::Round(_) if state.is_closed => {
                    Err(Status::cancelled(format!("{} is closed.", self.title())))
                }
                Offer::Round(rows) => {
                    while let Some(left) = state.store.take() {
                        state.kept.remove(kept_bytes(&left));
                    }
                    state.is_used = true;
                    std::mem::take(rows).into_iter().for_each(|row| state.store.put(row));
                    Ok(())
                }
                Offer::Elements(rows) => {
                    state.is_used = true;
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
            let Some(waiting) = state.enqueues.pop() else { break };
            state.kept.remove(waiting.request.what.kept_bytes());
            answers.enqueued.push((waiting, result));
        }
        changed
    }

    /// Lets out what may be taken; returns whether anything changed.
    fn advance_dequeues(&self, state: &mut State, answers: &mut Answers) -> bool {
        if state.tokens.is_some() {
            return self.advance_takers(state, answers);
        }
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
                state.kept.remove(bytes_of(taken));
                Ok(())
            } else if state.is_closed {
                state.store.put_back(std::mem::take(taken));
                Err(self.too_few(*amount, state.store.len()))
            } else {
                return changed;
            };
            changed = true;
            answers.dequeued.extend(state.dequeues.pop().map(|waiting| (waiting, result)));
        }
        changed
    }

    /// The same for a queue of tokens: in order of arrival, but a member that has its token of a round lets others go first.
    fn advance_takers(&self, state: &mut State, answers: &mut Answers) -> bool {
        let State { store, kept, dequeues, tokens: Some(tokens), is_closed, .. } = state else {
            return false;
        };
        let mut changed = false;
        while let Some(token) = store.front().map(token_of) {
            let may_take =
                |dequeue: &Dequeue| dequeue.taker.as_ref().is_none_or(|taker| tokens.may_take(taker, token));
            let Some(id) = dequeues.find(may_take) else { break };
            let Some(Dequeue { amount, taker, taken, .. }) = dequeues.get_mut(id) else { break };
            taken.extend(store.take());
            changed = true;
            taker.iter().for_each(|taker| tokens.note(taker, token));
            if taken.len() == amount.count {
                kept.remove(bytes_of(taken));
                answers.dequeued.extend(dequeues.remove(id).map(|waiting| (waiting, Ok(()))));
            }
        }
        if *is_closed {
            for waiting in dequeues.drain() {
                let Dequeue { amount, taken, .. } = &waiting.request;
                kept.remove(bytes_of(taken));
                let result = match can_be_fewer(*amount, taken) {
                    true => Ok(()),
                    false => Err(self.too_few(*amount, store.len() + taken.len())),
                };
                answers.dequeued.push((waiting, result));
                changed = true;
            }
        }
        changed
    }

    #[cold]
    fn too_few(&self, amount: Amount, size: usize) -> Status {
        Status::out_of_range(format!(
            "{} is closed and has insufficient elements (requested {}, current size {size})",
            self.title(),
            amount.count,
        ))
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

/// The round of a token; what is no token is newer than any.
fn token_of(tuple: &Tuple) -> i64 {
    let token = tuple.first();
    let wide = token.and_then(|token| token.to_scalar::<i64>().ok());
    let narrow = || token?.to_scalar::<i32>().ok().map(i64::from);
    // Old programs count their steps in floats.
    let float = || token?.to_scalar::<f32>().ok().map(|step| step as i64);
    wide.or_else(narrow).or_else(float).unwrap_or(i64::MAX)
}

impl Offer {
    fn from_rows(rows: Vec<Tuple>) -> Offer {
        Offer::Elements(rows.into_iter())
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
            state.kept.remove(waiting.request.what.kept_bytes());
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
