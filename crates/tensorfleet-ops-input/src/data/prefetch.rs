//! Prefetching: a thread of its own walks along the input and keeps a buffer full.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use tensorfleet_core::{Result, Status, ensure};

use super::dataset::{Cardinality, Dataset, DatasetIterator, Element, ElementSpec, input, kernel, scalar};
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

    fn iterate(self: Arc<Self>) -> Result<Box<dyn DatasetIterator>> {
        Ok(Box::new(Prefetching::new(self.input.clone().iterate()?, self.buffer_size)))
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
    has_ended: bool,
}

/// Says that nothing more will come, however its thread ends.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.state.lock().has_ended = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn fill(self: Arc<Self>, mut input: Box<dyn DatasetIterator>, ctx: &CallContext) {
        let _ending = Ending(self.clone());
        while !self.cancellation.is_cancelled() {
            let element = match input.next(ctx) {
                Ok(Some(element)) => Ok(element),
                Ok(None) => return,
                Err(status) => Err(status),
            };
            let mut state = self.state.lock();
            state.buffer.push_back(element);
            self.changed.notify_all();
            while state.buffer.len() >= self.buffer_size && !self.cancellation.is_cancelled() {
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
        ctx.threads.input().spawn(move || producer.fill(input, &context))
    }
}

impl DatasetIterator for Prefetching {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        self.start(ctx)?;
        let shared = &self.shared;
        let mut waiting = None;
        let result = loop {
            let mut state = shared.state.lock();
            if let Some(element) = state.buffer.pop_front() {
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
