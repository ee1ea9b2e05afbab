//! Mapping with several calls at a time, their results in the order of the elements.
//!
//! Whoever asks for an element starts calls until enough are under way, and waits for the first. To hand a call to
//! another thread takes some microseconds, so a function that has proved to be quicker than that is called on the spot.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tensorfleet_core::clock::Stopwatch;
use tensorfleet_core::{Result, Status, ensure};

use super::captured::{Captured, CapturedSpec};
use super::dataset::{
    Cardinality, Dataset, DatasetIterator, Element, ElementSpec, Nesting, input, kernel, scalar,
};
use super::functional::check_results;
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::functions::{CallContext, CallResult, wait_unless_cancelled};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::scalars;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new(
        "ParallelMapDataset",
        "input_dataset: variant, other_arguments: Targuments, num_parallel_calls: int32 -> handle: variant",
    )
    .attrs(
        "f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; \
         use_inter_op_parallelism: bool = true; sloppy: bool = false; preserve_cardinality: bool = false; \
         metadata: string = ''",
    )
    .not_differentiable()
    .cost(Cost::Trivial)
    .shape(scalars)
    .kernel(parallel_map),
    Op::new(
        "ParallelMapDatasetV2",
        "input_dataset: variant, other_arguments: Targuments, num_parallel_calls: int64 -> handle: variant",
    )
    .attrs(
        "f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; \
         use_inter_op_parallelism: bool = true; deterministic: string = 'default'; \
         preserve_cardinality: bool = false; use_unbounded_threadpool: bool = false; metadata: string = ''",
    )
    .not_differentiable()
    .cost(Cost::Trivial)
    .shape(scalars)
    .kernel(parallel_map),
];

/// Calls that take less than this are made on the spot.
const QUICK: Duration = Duration::from_micros(20);

/// After so many calls on other threads one is made on the spot, to see whether the function has become quick.
const PROBE_AFTER: usize = 256;

/// Calls under way at a time: results that nobody has asked for yet take memory.
const MAX_CALLS: i64 = 1024;

struct ParallelMap {
    spec: ElementSpec,
    input: Arc<dyn Dataset>,
    function: Arc<Captured>,
    calls: usize,
}

fn parallel_map(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (spec, function) = (ElementSpec::of(node)?, CapturedSpec::of(node, "f", 1)?);
    let is_wide = node.op().name == "ParallelMapDatasetV2";
    kernel(move |ctx| {
        let input = input(ctx, 0)?;
        let calls = match is_wide {
            true => scalar::<i64>(ctx, function.end(), "num_parallel_calls")?,
            false => scalar::<i32>(ctx, function.end(), "num_parallel_calls")? as i64,
        };
        ensure!(calls > 0 || calls == -1, InvalidArgument, "num_parallel_calls must be greater than zero.");
        let calls = match calls {
            -1 => std::thread::available_parallelism().map_or(2, |cores| cores.get()),
            calls => calls.min(MAX_CALLS) as usize,
        };
        let function = function.bind(ctx, &input.spec().dtypes)?;
        check_results(&function, &spec.dtypes)?;
        Ok(Arc::new(ParallelMap { spec: spec.clone(), input, function, calls }))
    })
}

impl Dataset for ParallelMap {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, nesting: Nesting) -> Result<Box<dyn DatasetIterator>> {
        let input = self.input.clone().iterate(nesting.inner()?)?;
        Ok(Box::new(Mapping {
            dataset: self,
            input,
            under_way: VecDeque::new(),
            has_ended: false,
            usual_time: None,
            handed_out: 0,
            cancellation: Arc::new(Cancellation::new()),
        }))
    }

    fn cardinality(&self) -> Cardinality {
        self.input.cardinality()
    }
}

struct Mapping {
    dataset: Arc<ParallelMap>,
    input: Box<dyn DatasetIterator>,
    under_way: VecDeque<Arc<CallResult>>,
    has_ended: bool,
    /// How long a call on the spot takes.
    usual_time: Option<Duration>,
    /// Calls on other threads since the last one on the spot.
    handed_out: usize,
    /// Calls outlive the step that started them, but not the iterator.
    cancellation: Arc<Cancellation>,
}

impl Mapping {
    fn is_quick(&self) -> bool {
        self.usual_time.is_none_or(|time| time < QUICK)
    }

    fn call_here(&mut self, ctx: &CallContext, element: Element) -> Result<Element> {
        let begin = Stopwatch::start();
        let result = self.dataset.function.call(ctx, element);
        let time = begin.elapsed();
        // No call is quicker than the function is, but many are slower: the first one prepares things, and on a busy machine the
        // thread has to pause now and then. So more time counts little.
        self.usual_time = Some(match self.usual_time {
            Some(usual) if time > usual => usual + (time - usual).min(usual) / 16,
            _ => time,
        });
        self.handed_out = 0;
        result
    }

    /// Starts calls until enough are under way. An error of the input takes the place of its element.
    fn start_calls(&mut self, ctx: &CallContext) {
        let calls_ctx = ctx.cancelled_by(self.cancellation.clone());
        while !self.has_ended && self.under_way.len() < self.dataset.calls {
            let outcome = Arc::new(CallResult::default());
            match self.input.next(ctx) {
                Ok(Some(element)) => {
                    let setter = outcome.clone();
                    let done = Box::new(move |result| setter.set(result));
                    self.dataset.function.call_elsewhere(&calls_ctx, element, done);
                }
                Ok(None) => {
                    self.has_ended = true;
                    return;
                }
                Err(status) => {
                    outcome.set(Err(status));
                    self.under_way.push_back(outcome);
                    return;
                }
            }
            self.under_way.push_back(outcome);
            self.handed_out += 1;
        }
    }
}

impl DatasetIterator for Mapping {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        let is_probe_due = self.handed_out >= PROBE_AFTER;
        if self.under_way.is_empty() && (self.is_quick() || is_probe_due) {
            if self.has_ended {
                return Ok(None);
            }
            let Some(element) = self.input.next(ctx)? else {
                self.has_ended = true;
                return Ok(None);
            };
            return self.call_here(ctx, element).map(Some);
        }
        if !is_probe_due {
            self.start_calls(ctx);
        }
        let Some(first) = self.under_way.front() else { return Ok(None) };
        // If this is given up, the call stays first for whoever comes next.
        let result = wait_unless_cancelled(first, &ctx.cancellation)?;
        self.under_way.pop_front();
        result.map(Some)
    }

    fn is_ready(&self) -> bool {
        false
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.cancellation.cancel(Status::cancelled("the iterator is gone"));
    }
}
