//! Prefetching: a thread of its own walks along the input and keeps a buffer full.
//!
//! What is read ahead is bounded twice: by the number of elements that the program asks for, and by their bytes, because
//! programs ask for far more than they need and reading further ahead makes nothing faster. While the session's user is
//! away the thread rests.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use tensorfleet_core::memory::Kept;
use tensorfleet_core::{Result, Status, Tensor, ensure};

use super::dataset::{
    Cardinality, Dataset, DatasetIterator, Element, ElementSpec, Nesting, input, kept_bytes, kernel, scalar,
};
use super::sequence::check_wanted;
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::functions::CallContext;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::scalars;

/// The family's table.
pub(crate) static OPS: &[Op] =
    &[Op::new("PrefetchDataset", "input_dataset: variant, buffer_size: int64 -> handle: variant")
        .attrs(
            "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; slack_period: int = 0; \
     legacy_autotune: bool = true; buffer_size_min: int = 0; metadata: string = ''",
        )
        .not_differentiable()
        .cost(Cost::Trivial)
        .shape(scalars)
        .kernel(prefetch)];

/// The buffer of a pipeline that leaves its size open. More than the number of elements that are in the making at a time
/// does not make a pipeline faster, it only evens out differences between them.
const USUAL_BUFFER: usize = 8;

/// A buffer with so many bytes counts as full, however many elements were asked for: enough to even out any differences
/// between elements, and little beside what a task may hold.
const MAX_BUFFER_BYTES: usize = 256 << 20;

struct Prefetched {
    spec: ElementSpec,
    input: Arc<dyn Dataset>,
    buffer_size: usize,
}

fn prefetch(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = ElementSpec::of(node)?;
    kernel(move |ctx| {
        let input = input(ctx, 0)?;
        let size = scalar::<i64>(ctx, 1, "buffer_size")?;
        ensure!(
            size >= -1,
            InvalidArgument,
            "buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning"
        );
        Ok(match usize::try_from(size) {
            Ok(0) => input,
            size => {
                let buffer_size = size.unwrap_or(USUAL_BUFFER);
                Arc::new(Prefetched { spec: spec.clone(), input, buffer_size })
            }
        })
    })
}

impl Dataset for Prefetched {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, nesting: Nesting) -> Result<Box<dyn DatasetIterator>> {
        Ok(Box::new(Prefetching::new(self.input.clone().iterate(nesting.inner()?)?, self.buffer_size)))
    }

    fn cardinality(&self) -> Cardinality {
        self.input.cardinality()
    }
}

struct Shared {
    state: Mutex<State>,
    /// Signals that the buffer has got or lost an element, or that somebody gives up.
    changed: Condvar,
    /// Tells the thread, and the functions it calls, that the iterator is gone.
    cancellation: Arc<Cancellation>,
    buffer_size: usize,
}

#[derive(Default)]
struct State {
    buffer: VecDeque<Result<Element>>,
    /// What the elements in the buffer take.
    bytes: usize,
    /// For that, and for what keeping them takes besides.
    kept: Kept,
    has_ended: bool,
}

impl State {
    fn push(&mut self, element: Result<Element>) {
        self.bytes += byte_size(&element);
        self.buffer.push_back(element);
    }

    fn pop(&mut self) -> Option<Result<Element>> {
        let element = self.buffer.pop_front()?;
        self.bytes -= byte_size(&element);
        Some(element)
    }

    fn is_full(&self, buffer_size: usize) -> bool {
        self.buffer.len() >= buffer_size || self.bytes >= MAX_BUFFER_BYTES
    }
}

fn byte_size(element: &Result<Element>) -> usize {
    element.as_ref().map_or(0, |tensors| tensors.iter().map(Tensor::byte_size).sum())
}

/// Says that nothing more will come, however its thread ends.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.state.lock().has_ended = true;
        self.0.changed.notify_all();
    }
}

/// What an element, or the error in its place, takes in the buffer.
fn buffered_bytes(element: &Result<Element>) -> usize {
    match element {
        Ok(element) => kept_bytes(element),
        Err(status) => size_of::<Status>() + status.text().len(),
    }
}

impl Shared {
    fn fill(self: Arc<Self>, mut input: Box<dyn DatasetIterator>, ctx: &CallContext) {
        let _ending = Ending(self.clone());
        while check_wanted(ctx).is_ok() {
            let element = match input.next(ctx) {
                Ok(Some(element)) => Ok(element),
                Ok(None) => return,
                Err(status) => Err(status),
            };
            let mut state = self.state.lock();
            let bytes = buffered_bytes(&element);
            // While there is no memory for it the buffer is as good as full. Only a buffer that is empty cannot wait for room.
            let mut room = state.kept.add(bytes);
            while room.is_err() && !state.buffer.is_empty() && !self.cancellation.is_cancelled() {
                self.changed.wait(&mut state);
                room = state.kept.add(bytes);
            }
            state.push(room.and(element));
            self.changed.notify_all();
            while state.is_full(self.buffer_size) && !self.cancellation.is_cancelled() {
                self.changed.wait(&mut state);
            }
        }
    }
}

/// A walk whose elements another thread brings.
pub(super) struct Prefetching {
    shared: Arc<Shared>,
    /// The input, before the thread has it.
    input: Option<Box<dyn DatasetIterator>>,
}

impl Prefetching {
    pub(super) fn new(input: Box<dyn DatasetIterator>, buffer_size: usize) -> Prefetching {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            cancellation: Arc::new(Cancellation::new()),
            buffer_size,
        });
        Prefetching { shared, input: Some(input) }
    }

    /// Starts the thread, if it does not run yet. The first `next` does it as well.
    pub(super) fn start(&mut self, ctx: &CallContext) -> Result<()> {
        let Some(input) = self.input.take() else { return Ok(()) };
        let shared = &self.shared;
        let (producer, context) = (shared.clone(), ctx.cancelled_by(shared.cancellation.clone()));
        ctx.session.threads.input().spawn(move || producer.fill(input, &context))
    }
}

impl DatasetIterator for Prefetching {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        self.start(ctx)?;
        let shared = &self.shared;
        let mut waiting = None;
        let result = loop {
            let mut state = shared.state.lock();
            if let Some(element) = state.pop() {
                state.kept.remove(buffered_bytes(&element));
                shared.changed.notify_all();
                break element.map(Some);
            }
            if state.has_ended {
                break Ok(None);
            }
            if waiting.is_none() {
                drop(state);
                let wakes = shared.clone();
                let wake = move |_: Status| {
                    // Whoever waits either sees the cancellation or holds no lock yet.
                    drop(wakes.state.lock());
                    wakes.changed.notify_all();
                };
                match ctx.cancellation.register(wake) {
                    Ok(token) => waiting = Some(token),
                    Err(reason) => break Err(reason),
                }
                continue;
            }
            if let Some(reason) = ctx.cancellation.reason() {
                break Err(reason);
            }
            shared.changed.wait(&mut state);
        };
        if let Some(token) = waiting {
            ctx.cancellation.deregister(token);
        }
        result
    }

    fn is_ready(&self) -> bool {
        let state = self.shared.state.lock();
        !state.buffer.is_empty() || state.has_ended
    }
}

impl Drop for Prefetching {
    fn drop(&mut self) {
        self.shared.cancellation.cancel(Status::cancelled("the iterator is gone"));
        drop(self.shared.state.lock());
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::{DType, Shape};
    use tensorfleet_kernel::testing::test_step;

    /// Numbers from zero on, without end.
    struct Numbers {
        next: i64,
        _is_there: Arc<()>,
    }

    impl DatasetIterator for Numbers {
        fn next(&mut self, _: &CallContext) -> Result<Option<Element>> {
            self.next += 1;
            Ok(Some(vec![Tensor::scalar(self.next - 1)]))
        }

        fn is_ready(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_buffer_is_full_when_it_has_as_many_elements_or_bytes() {
        let mut state = State::default();
        state.push(Ok(vec![Tensor::scalar(1i64)]));
        assert!(state.is_full(1) && !state.is_full(2));
        let large = Tensor::zeros(DType::UInt8, Shape::new(&[MAX_BUFFER_BYTES / 2]).unwrap()).unwrap();
        state.push(Ok(vec![large.clone()]));
        assert!(!state.is_full(usize::MAX));
        state.push(Ok(vec![large]));
        assert!(state.is_full(usize::MAX));
        while state.pop().is_some() {}
        assert_eq!(state.bytes, 0);
    }

    #[test]
    fn nothing_is_read_ahead_while_the_sessions_user_is_away() {
        let ctx = CallContext::of_step(&test_step());
        let is_there = Arc::new(());
        let numbers = Numbers { next: 0, _is_there: is_there.clone() };
        let mut ahead = Prefetching::new(Box::new(numbers), usize::MAX);
        ctx.session.background.pause();
        ahead.start(&ctx).unwrap();
        assert_eq!(ahead.shared.state.lock().buffer.len(), 0);
        ctx.session.background.resume();
        let first = ahead.next(&ctx).unwrap().unwrap();
        assert_eq!(first[0], Tensor::scalar(0i64));
        ctx.session.background.pause();
        // Its thread ends and lets go of the input, although nobody comes back.
        drop(ahead);
        let begun = tensorfleet_core::clock::Stopwatch::start();
        while Arc::strong_count(&is_there) > 1 {
            assert!(begun.elapsed().as_secs() < 30, "the thread still waits");
            std::thread::yield_now();
        }
    }
}
