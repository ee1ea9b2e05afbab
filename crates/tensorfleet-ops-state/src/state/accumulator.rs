//! [`Accumulator`]: where the gradients of several workers meet before one update.
//!
//! It holds a sum, a count and a step. A gradient computed for an older step is dropped; any other is added. A take
//! waits until enough gradients are in, gets their mean (or sum), and moves the step on. Waiting takes are served in
//! order of arrival. The sum is made in place in the first gradient's own memory where nobody else holds that. Whose gradients
//! they are, and which count, is the business of [`Round`].

use std::sync::Arc;

use parking_lot::Mutex;
use tensorfleet_core::clock::Clock;
use tensorfleet_core::{DType, PartialShape, Result, Status, Tensor, ensure};

use super::round::{Offer, Patience, Round, Verdict};
use super::sparse_gradient::{SparseGradient, SparseSum};
use super::waiting::{RequestId, Waiting, WaitingList, Waits, watch};
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::kernel::StepOrigin;
use tensorfleet_kernel::resource::{Resource, RoundReport};
use tensorfleet_numeric::assign::add_assign;
use tensorfleet_threads::{Alarm, Loops, Threads};

/// What a take gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reduction {
    /// The sum divided by the number of gradients.
    Mean,
    /// The sum.
    Sum,
}

/// What gradients look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// One tensor.
    Dense,
    /// Rows of a tensor, with their indices.
    Sparse,
}

/// The tensors of a taken gradient: one if dense; indices, values and shape if sparse.
pub(crate) type Taken = Vec<Tensor>;
/// The continuation of a take.
pub(crate) type OnTaken = Box<dyn FnOnce(Result<Taken>, Resume<'_>) + Send>;

/// A conditional accumulator.
pub(crate) struct Accumulator {
    name: String,
    layout: Layout,
    dtype: DType,
    shape: PartialShape,
    reduction: Reduction,
    /// The threads of the task that it belongs to.
    loops: Loops,
    clock: Clock,
    state: Mutex<State>,
}

struct State {
    round: Round,
    sum: Option<Sum>,
    takes: WaitingList<Take>,
    is_removed: bool,
    /// Looks again when the patience of a take may be over.
    alarm: Option<Alarm>,
}

enum Sum {
    Dense(Tensor),
    Sparse(SparseSum),
}

struct Take {
    asked: Asked,
    done: OnTaken,
}

/// What a take asks for.
#[derive(Clone)]
pub(crate) struct Asked {
    /// So many gradients.
    pub(crate) required: usize,
    /// When fewer will do.
    pub(crate) patience: Option<Patience>,
    /// By whom.
    pub(crate) origin: Arc<StepOrigin>,
    /// Where its patience is timed.
    pub(crate) threads: Arc<Threads>,
}

/// A take whose turn has come, with what it gets.
type Due = (Waiting<Take>, Result<(Sum, usize)>);

impl Accumulator {
    /// An empty accumulator at step 0.
    pub(crate) fn new(
        name: &str,
        layout: Layout,
        dtype: DType,
        shape: PartialShape,
        reduction: Reduction,
        loops: Loops,
    ) -> Accumulator {
        let state = State {
            round: Round::default(),
            sum: None,
            takes: WaitingList::default(),
            is_removed: false,
            alarm: None,
        };
        Accumulator {
            name: name.to_string(),
            layout,
            dtype,
            shape,
            reduction,
            loops,
            clock: Clock::system(),
            state: Mutex::new(state),
        }
    }

    /// Checks that a node handles gradients of the accumulator's kind.
    pub(crate) fn check_use(&self, layout: Layout, dtype: DType) -> Result<()> {
        ensure!(
            layout == self.layout && dtype == self.dtype,
            InvalidArgument,
            "accumulator {} holds {:?} {} gradients, not {layout:?} {dtype} ones",
            self.name,
            self.layout,
            self.dtype
        );
        Ok(())
    }

    /// How many gradients are in the sum.
    pub(crate) fn count(&self) -> usize {
        self.state.lock().round.count()
    }

    /// Sets the step. Going backwards is odd but allowed.
    pub(crate) fn set_step(&self, step: i64) {
        self.state.lock().round.set_step(step);
    }

    /// Begins the round of `step`, as a chief that starts does: gradients of other rounds go, and so do takes that still wait.
    pub(crate) fn begin(&self, step: i64) {
        let withdrawn: Vec<Waiting<Take>> = {
            let mut state = self.state.lock();
            if state.round.begin(step, self.clock.now()) {
                state.sum = None;
            }
            state.takes.drain().collect()
        };
        for waiting in withdrawn {
            (waiting.release().done)(Err(self.begun_anew(step)), Resume::OnPool);
        }
    }

    /// Adds a gradient, unless it is stale or its member has given one. The step that gets the sum goes on where `resume` says.
    pub(crate) fn apply_dense(
        self: &Arc<Self>,
        offer: &Offer,
        gradient: Tensor,
        resume: Resume<'_>,
    ) -> Result<()> {
        self.check_use(Layout::Dense, gradient.dtype())?;
        self.apply(offer, resume, |sum| {
            let expected = match &sum {
                Some(Sum::Dense(sum)) => PartialShape::from(sum.shape()),
                _ => self.shape.clone(),
            };
            ensure!(
                expected.admits(gradient.shape()),
                InvalidArgument,
                "Shape mismatch: expected {expected}, got {}",
                gradient.shape()
            );
            match sum {
                Some(Sum::Dense(sum)) => add_assign(&self.loops, sum, &gradient)?,
                _ => *sum = Some(Sum::Dense(gradient)),
            }
            Ok(())
        })
    }

    /// Adds a sparse gradient, like [`Accumulator::apply_dense`].
    pub(crate) fn apply_sparse(
        self: &Arc<Self>,
        offer: &Offer,
        gradient: SparseGradient,
        resume: Resume<'_>,
    ) -> Result<()> {
        self.check_use(Layout::Sparse, gradient.values.dtype())?;
        self.apply(offer, resume, |sum| {
            gradient.check(&self.shape)?;
            match sum {
                Some(Sum::Sparse(sum)) => sum.add(&self.loops, &gradient)?,
                _ => *sum = Some(Sum::Sparse(SparseSum::new(gradient)?)),
            }
            Ok(())
        })
    }

    fn apply(
        self: &Arc<Self>,
        offer: &Offer,
        resume: Resume<'_>,
        add: impl FnOnce(&mut Option<Sum>) -> Result<()>,
    ) -> Result<()> {
        let due = {
            let mut state = self.state.lock();
            if state.is_removed {
                return Err(self.removed());
            }
            if state.round.judge(offer) != Verdict::Counts {
                return Ok(());
            }
            add(&mut state.sum)?;
            state.round.note(offer, self.clock.now());
            let due = self.serve(&mut state);
            self.arm(&mut state);
            due
        };
        self.answer(due, resume);
        Ok(())
    }

    /// Takes the mean or sum out, as soon as as many gradients are in as are asked for.
    pub(crate) fn take(
        self: &Arc<Self>,
        asked: Asked,
        cancellation: &Arc<Cancellation>,
        done: OnTaken,
        resume: Resume<'_>,
    ) {
        let (id, due, waits) = {
            let mut state = self.state.lock();
            let id = state.takes.push(cancellation, Take { asked, done });
            let due = self.serve(&mut state);
            self.arm(&mut state);
            (id, due, state.takes.contains(id))
        };
        self.answer(due, resume);
        if waits {
            watch(self, id, cancellation);
        }
    }

    /// Serves the takes whose turn has come. At most one gets a sum, since that empties it.
    fn serve(&self, state: &mut State) -> Vec<Due> {
        if state.is_removed {
            return state.takes.drain().map(|take| (take, Err(self.removed()))).collect();
        }
        let mut due = Vec::new();
        let now = self.clock.now();
        while let Some(Take { asked, .. }) = state.takes.front()
            && state.round.is_complete(asked.required, asked.patience, now)
            && let Some(sum) = state.sum.take()
        {
            let count = state.round.take(&asked.origin, asked.required, now);
            due.extend(state.takes.pop().map(|waiting| (waiting, Ok((sum, count)))));
        }
        due
    }

    /// Looks again when the patience of the take whose turn it is may be over.
    fn arm(self: &Arc<Self>, state: &mut State) {
        state.alarm = match state.takes.front() {
            Some(Take { asked: Asked { patience: Some(patience), threads, .. }, .. })
                if state.round.count() > 0 =>
            {
                let accumulator = Arc::downgrade(self);
                let look = move || accumulator.upgrade().into_iter().for_each(|it| it.look_again());
                Some(threads.timer().after(patience.wait, look))
            }
            _ => None,
        };
    }

    /// Serves a take whose patience is over.
    fn look_again(self: &Arc<Self>) {
        let due = {
            let mut state = self.state.lock();
            let due = self.serve(&mut state);
            self.arm(&mut state);
            due
        };
        self.answer(due, Resume::OnPool);
    }

    /// Divides and hands over, outside the lock.
    fn answer(&self, due: Vec<Due>, resume: Resume<'_>) {
        for (waiting, result) in due {
            let take = waiting.release();
            let taken = result.and_then(|(sum, count)| match sum {
                Sum::Dense(sum) => Ok(vec![self.reduced(sum, count)?]),
                Sum::Sparse(sum) => sum.finish(&self.shape, self.reduction == Reduction::Mean),
            });
            (take.done)(taken, resume);
        }
    }

    fn reduced(&self, mut sum: Tensor, count: usize) -> Result<Tensor> {
        if self.reduction == Reduction::Mean && count > 1 {
            tensorfleet_numeric::dispatch!(self.dtype, T in [f32, f64, half::f16] => {
                let count: T = num_traits::NumCast::from(count).ok_or_else(too_many)?;
                self.loops.chunks_mut(sum.make_mut::<T>()?, 1, 20, |_, piece| {
                    piece.iter_mut().for_each(|x| *x /= count);
                });
                Ok(())
            })?;
        }
        Ok(sum)
    }

    #[cold]
    fn begun_anew(&self, step: i64) -> Status {
        Status::aborted(format!(
            "accumulator '{}': another chief has begun round {step} anew, so nobody takes the one before",
            self.name
        ))
    }

    #[cold]
    fn removed(&self) -> Status {
        Status::aborted(format!("accumulator '{}' was removed from its container.", self.name))
    }
}

#[cold]
fn too_many() -> Status {
    Status::internal("more gradients than the dtype can count")
}

impl Waits<Take> for Accumulator {
    fn with_list<R>(&self, look: impl FnOnce(&mut WaitingList<Take>) -> R) -> R {
        look(&mut self.state.lock().takes)
    }

    fn withdraw(&self, id: RequestId, reason: Status) {
        let (withdrawn, due) = {
            let mut state = self.state.lock();
            let Some(withdrawn) = state.takes.remove(id) else { return };
            // The one behind it may need fewer gradients.
            (withdrawn, self.serve(&mut state))
        };
        (withdrawn.release().done)(Err(reason), Resume::OnPool);
        self.answer(due, Resume::OnPool);
    }
}

impl Resource for Accumulator {
    fn kind() -> &'static str {
        "N10tensorflow26ConditionalAccumulatorBaseE"
    }

    fn round(&self) -> Option<RoundReport> {
        let mut state = self.state.lock();
        let required = state.takes.front().map(|take| take.asked.required);
        Some(RoundReport { required, ..state.round.report(self.clock.now()) })
    }

    fn on_removed(&self) {
        let due = {
            let mut state = self.state.lock();
            state.is_removed = true;
            self.serve(&mut state)
        };
        self.answer(due, Resume::OnPool);
    }
}

#[cfg(test)]
#[path = "accumulator_tests.rs"]
mod tests;
