//! [`IteratorResource`]: a walk along a dataset that steps share.
//!
//! A step that asks for the next element leaves a continuation. If nothing is to be waited for and elements usually come
//! quickly, it is served on the spot; otherwise on a thread that may wait.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tensorfleet_core::clock::Stopwatch;
use tensorfleet_core::{Result, Status};

use super::dataset::{Dataset, DatasetIterator, Element, ElementSpec, Nesting};
use tensorfleet_kernel::functions::CallContext;
use tensorfleet_kernel::resource::Resource;

/// A step may be kept from other work for so long without asking another thread, whose waking takes about as long.
const BRIEF: Duration = Duration::from_micros(50);

/// The continuation of a request for the next element; `None` at the end.
pub(super) type OnNext = Box<dyn FnOnce(Result<Option<Element>>) + Send>;

/// What an iterator's handle names.
#[derive(Default)]
pub(super) struct IteratorResource {
    /// What elements were announced to be; `None` if nobody has.
    spec: Option<ElementSpec>,
    current: Mutex<Option<Arc<Walk>>>,
}

/// A walk that has begun.
struct Walk {
    state: Mutex<WalkState>,
}

struct WalkState {
    iterator: Box<dyn DatasetIterator>,
    /// How long an element takes, as a moving average.
    usual_time: Option<Duration>,
}

impl Resource for IteratorResource {
    fn kind() -> &'static str {
        "N10tensorflow4data16IteratorResourceE"
    }

    fn on_removed(&self) {
        let walk = self.current.lock().take();
        drop(walk);
    }
}

impl IteratorResource {
    /// An iterator without a dataset.
    pub(super) fn new(spec: Option<ElementSpec>) -> IteratorResource {
        IteratorResource { spec, current: Mutex::default() }
    }

    /// Starts a walk along `dataset`, from its beginning.
    pub(super) fn begin(&self, dataset: Arc<dyn Dataset>) -> Result<()> {
        if let Some(spec) = &self.spec {
            spec.check_dataset(dataset.spec())?;
        }
        let state = WalkState { iterator: dataset.iterate(Nesting::default())?, usual_time: None };
        let old = self.current.lock().replace(Arc::new(Walk { state: Mutex::new(state) }));
        drop(old);
        Ok(())
    }

    /// Whether elements are of these dtypes and may have these shapes, as far as announced.
    pub(super) fn check(&self, expected: &ElementSpec) -> Result<()> {
        self.spec.as_ref().map_or(Ok(()), |spec| expected.check_dataset(spec))
    }

    /// Gives the next element to `done`, on this or another thread.
    pub(super) fn next(&self, ctx: CallContext, done: OnNext) {
        let Some(walk) = self.current.lock().clone() else {
            return done(Err(Status::failed_precondition(
                "GetNext() failed because the iterator has not been initialized. Ensure that you have run the \
                 initializer operation for this iterator before getting the next element.",
            )));
        };
        if let Some(mut state) = walk.state.try_lock()
            && state.is_brief()
        {
            let result = state.next(&ctx);
            drop(state);
            return done(result);
        }
        let done = Arc::new(Mutex::new(Some(done)));
        let answer = done.clone();
        let threads = ctx.session.threads.clone();
        let pull = move || {
            let mut guard = Answer(answer);
            let result = walk.state.lock().next(&ctx);
            guard.give(result);
        };
        if let Err(status) = threads.input().spawn(pull)
            && let Some(done) = done.lock().take()
        {
            done(Err(status));
        }
    }
}

/// The continuation, which is called even if the iterator panics.
struct Answer(Arc<Mutex<Option<OnNext>>>);

impl Answer {
    fn give(&mut self, result: Result<Option<Element>>) {
        let done = self.0.lock().take();
        if let Some(done) = done {
            done(result);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.give(Err(Status::internal(
            "the iterator gave up without a result: this is a bug in Tensorfleet",
        )));
    }
}

impl WalkState {
    fn is_brief(&self) -> bool {
        self.usual_time.is_some_and(|time| time < BRIEF) && self.iterator.is_ready()
    }

    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        let begin = Stopwatch::start();
        let result = self.iterator.next(ctx);
        let time = begin.elapsed();
        self.usual_time = Some(self.usual_time.map_or(time, |usual| (usual * 7 + time) / 8));
        result
    }
}
