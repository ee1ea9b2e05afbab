//! [`Accumulator`]: where the gradients of several workers meet before one update.
//!
//! It holds a sum, a count and a step. A gradient computed for an older step is dropped; any other is added. A take
//! waits until enough gradients are in, gets their mean (or sum), and moves the step on. Waiting takes are served in
//! order of arrival. The sum is made in place in the first gradient's own memory where nobody else holds that.

use std::sync::Arc;

use parking_lot::Mutex;
use tensorfleet_core::{DType, PartialShape, Result, Status, Tensor, ensure};

use super::sparse_gradient::{SparseGradient, SparseSum};
use super::waiting::{RequestId, Waiting, WaitingList, Waits, watch};
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::resource::Resource;
use tensorfleet_numeric::assign::add_assign;
use tensorfleet_threads::Loops;

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
    state: Mutex<State>,
}

struct State {
    /// Gradients for steps before this one are stale.
    step: i64,
    count: usize,
    sum: Option<Sum>,
    takes: WaitingList<Take>,
    is_removed: bool,
}

enum Sum {
    Dense(Tensor),
    Sparse(SparseSum),
}

struct Take {
    required: usize,
    done: OnTaken,
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
        let state = State { step: 0, count: 0, sum: None, takes: WaitingList::default(), is_removed: false };
        Accumulator {
            name: name.to_string(),
            layout,
            dtype,
            shape,
            reduction,
            loops,
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
        self.state.lock().count
    }

    /// Sets the step. Going backwards is odd but allowed.
    pub(crate) fn set_step(&self, step: i64) {
        self.state.lock().step = step;
    }

    /// Adds a gradient, unless it is stale. The step that gets the sum goes on where `resume` says.
    pub(crate) fn apply_dense(&self, local_step: i64, gradient: Tensor, resume: Resume<'_>) -> Result<()> {
        self.check_use(Layout::Dense, gradient.dtype())?;
        self.apply(local_step, resume, |sum| {
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

    /// Adds a sparse gradient, unless it is stale.
    pub(crate) fn apply_sparse(
        &self,
        local_step: i64,
        gradient: SparseGradient,
        resume: Resume<'_>,
    ) -> Result<()> {
        self.check_use(Layout::Sparse, gradient.values.dtype())?;
        self.apply(local_step, resume, |sum| {
            gradient.check(&self.shape)?;
            match sum {
                Some(Sum::Sparse(sum)) => sum.add(&self.loops, &gradient)?,
                _ => *sum = Some(Sum::Sparse(SparseSum::new(gradient)?)),
            }
            Ok(())
        })
    }

    fn apply(
        &self,
        local_step: i64,
        resume: Resume<'_>,
        add: impl FnOnce(&mut Option<Sum>) -> Result<()>,
    ) -> Result<()> {
        let due = {
            let mut state = self.state.lock();
            if state.is_removed {
                return Err(self.removed());
            }
            if local_step < state.step {
                return Ok(());
            }
            add(&mut state.sum)?;
            state.count += 1;
            self.serve(&mut state)
        };
        self.answer(due, resume);
        Ok(())
    }

    /// Takes the mean or sum out, as soon as `required` gradients are in.
    pub(crate) fn take(
        self: &Arc<Self>,
        required: usize,
        cancellation: &Arc<Cancellation>,
        done: OnTaken,
        resume: Resume<'_>,
    ) {
        let (id, due, waits) = {
            let mut state = self.state.lock();
            let id = state.takes.push(cancellation, Take { required, done });
            let due = self.serve(&mut state);
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
        while let Some(take) = state.takes.front()
            && take.required <= state.count
            && let Some(sum) = state.sum.take()
        {
            let count = std::mem::take(&mut state.count);
            state.step = state.step.saturating_add(1);
            due.extend(state.takes.pop().map(|waiting| (waiting, Ok((sum, count)))));
        }
        due
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
