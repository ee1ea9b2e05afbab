//! Datasets out of datasets that a function makes for each element: flat map and interleave.
//!
//! In the parallel forms other threads walk along the datasets of the cycle, as many at a time as asked for, each with a
//! small buffer. Elements come in the order of the form that is not parallel, also where any order would do.

use std::sync::Arc;

use tensorfleet_core::{DType, Result, Status, ensure};

use super::captured::{Captured, CapturedSpec};
use super::dataset::{
    Dataset, DatasetIterator, Element, ElementSpec, Nesting, from_tensor, input, kernel, positive, scalar,
};
use super::functional::check_results;
use super::prefetch::Prefetching;
use super::sequence::check_wanted;
use tensorfleet_kernel::functions::CallContext;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::scalars;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    interleaved("FlatMapDataset", "input_dataset: variant, other_arguments: Targuments -> handle: variant")
        .attrs(
            "f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; \
             metadata: string = ''",
        )
        .kernel(flat_map),
    interleaved(
        "InterleaveDataset",
        "input_dataset: variant, other_arguments: Targuments, cycle_length: int64, block_length: int64 -> \
         handle: variant",
    )
    .attrs(
        "f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; \
         metadata: string = ''",
    )
    .kernel(interleave),
    interleaved(
        "ParallelInterleaveDatasetV2",
        "input_dataset: variant, other_arguments: Targuments, cycle_length: int64, block_length: int64, \
         num_parallel_calls: int64 -> handle: variant",
    )
    .attrs(
        "f: func; Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; \
         sloppy: bool = false; metadata: string = ''",
    )
    .kernel(interleave),
    interleaved(
        "ParallelInterleaveDatasetV3",
        "input_dataset: variant, other_arguments: Targuments, cycle_length: int64, block_length: int64, \
         num_parallel_calls: int64 -> handle: variant",
    )
    .attrs(
        "f: func; deterministic: string = 'default'; Targuments: list(type) >= 0; output_types: list(type) >= 1; \
         output_shapes: list(shape) >= 1; metadata: string = ''",
    )
    .kernel(interleave),
    interleaved(
        "ParallelInterleaveDatasetV4",
        "input_dataset: variant, other_arguments: Targuments, cycle_length: int64, block_length: int64, \
         buffer_output_elements: int64, prefetch_input_elements: int64, num_parallel_calls: int64 -> handle: variant",
    )
    .attrs(
        "f: func; deterministic: string = 'default'; Targuments: list(type) >= 0; output_types: list(type) >= 1; \
         output_shapes: list(shape) >= 1; metadata: string = ''",
    )
    .kernel(interleave),
];

const fn interleaved(name: &'static str, signature: &'static str) -> Op {
    Op::new(name, signature).not_differentiable().cost(Cost::Trivial).shape(scalars)
}

/// Datasets walked along at the same time.
const MAX_CYCLE: u64 = 1 << 16;

struct Interleaved {
    spec: ElementSpec,
    input: Arc<dyn Dataset>,
    function: Arc<Captured>,
    cycle: usize,
    block: u64,
    /// How many datasets of the cycle have a thread of their own.
    threads: usize,
    /// How many elements such a thread keeps ready.
    buffer: usize,
}

/// Elements that a thread keeps ready at least.
const MIN_BUFFER: u64 = 2;
/// Elements that it keeps ready at most, however long blocks are: they take memory.
const MAX_BUFFER: u64 = 64;
/// Threads of one parallel interleave.
const MAX_INTERLEAVE_THREADS: u64 = 64;

fn flat_map(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (spec, function) = (ElementSpec::of(node)?, CapturedSpec::of(node, "f", 1)?);
    kernel(move |ctx| {
        let input = input(ctx, 0)?;
        let function = function.bind(ctx, &input.spec().dtypes)?;
        check_results(&function, &[DType::Variant])?;
        Ok(Arc::new(Interleaved {
            spec: spec.clone(),
            input,
            function,
            cycle: 1,
            block: 1,
            threads: 0,
            buffer: 0,
        }))
    })
}

fn interleave(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (spec, function) = (ElementSpec::of(node)?, CapturedSpec::of(node, "f", 1)?);
    // The number of threads is the last input of all parallel forms.
    let is_parallel = node.op().name != "InterleaveDataset";
    kernel(move |ctx| {
        let input = input(ctx, 0)?;
        let first = function.end();
        // -1 leaves the choice to the runtime; TensorFlow takes the number of cores.
        let cycle = match scalar::<i64>(ctx, first, "cycle_length")? {
            -1 => std::thread::available_parallelism().map_or(2, |cores| cores.get()) as u64,
            _ => positive(ctx, first, "cycle_length")?,
        };
        ensure!(cycle <= MAX_CYCLE, InvalidArgument, "cycle_length must be at most {MAX_CYCLE}, got {cycle}");
        let block = positive(ctx, first + 1, "block_length")?;
        let function = function.bind(ctx, &input.spec().dtypes)?;
        check_results(&function, &[DType::Variant])?;
        let last = ctx.num_inputs() - 1;
        let threads = match is_parallel {
            false => 0,
            true if scalar::<i64>(ctx, last, "num_parallel_calls")? == -1 => cycle,
            true => positive(ctx, last, "num_parallel_calls")?,
        };
        let threads = threads.min(MAX_INTERLEAVE_THREADS);
        let (cycle, threads) = (cycle as usize, threads as usize);
        let buffer = block.clamp(MIN_BUFFER, MAX_BUFFER) as usize;
        Ok(Arc::new(Interleaved { spec: spec.clone(), input, function, cycle, block, threads, buffer }))
    })
}

impl Dataset for Interleaved {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, nesting: Nesting) -> Result<Box<dyn DatasetIterator>> {
        let input = self.input.clone().iterate(nesting.inner()?)?;
        Ok(Box::new(Interleaving {
            dataset: self,
            input,
            has_ended: false,
            open: Vec::new(),
            place: 0,
            taken: 0,
            busy: 0,
            nesting,
        }))
    }
}

struct Interleaving {
    dataset: Arc<Interleaved>,
    input: Box<dyn DatasetIterator>,
    has_ended: bool,
    /// The datasets of the cycle; a place whose dataset has ended is empty until the cycle comes round to it.
    open: Vec<Option<Open>>,
    place: usize,
    /// How many elements of the present block have been taken.
    taken: u64,
    /// How many datasets of the cycle have a thread of their own.
    busy: usize,
    nesting: Nesting,
}

/// A dataset of the cycle.
enum Open {
    /// Walked along by whoever asks.
    Here(Box<dyn DatasetIterator>),
    /// Walked along by another thread.
    Elsewhere(Prefetching),
}

impl Open {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        match self {
            Open::Here(walk) => walk.next(ctx),
            Open::Elsewhere(walk) => walk.next(ctx),
        }
    }
}

impl Interleaving {
    fn advance(&mut self) {
        self.place = (self.place + 1) % self.dataset.cycle;
        self.taken = 0;
    }

    fn open_next(&mut self, ctx: &CallContext) -> Result<Option<Open>> {
        let Some(element) = self.input.next(ctx)? else {
            self.has_ended = true;
            return Ok(None);
        };
        let results = self.dataset.function.call(ctx, element)?;
        let [result] = &results[..] else {
            return Err(Status::internal("the function was checked to return one dataset"));
        };
        let dataset = from_tensor(result)?;
        self.dataset.spec.check_dataset(dataset.spec())?;
        let walk = dataset.iterate(self.nesting.inner()?)?;
        if self.busy >= self.dataset.threads {
            return Ok(Some(Open::Here(walk)));
        }
        let mut walk = Prefetching::new(walk, self.dataset.buffer);
        walk.start(ctx)?;
        self.busy += 1;
        Ok(Some(Open::Elsewhere(walk)))
    }

    /// Opens the first cycle at once, so that its threads have begun before the first element is asked for. Places get
    /// the datasets that they would get one after the other.
    fn open_first_cycle(&mut self, ctx: &CallContext) -> Result<()> {
        let wanted = self.dataset.cycle.min(self.dataset.threads);
        while self.open.len() < wanted && !self.has_ended {
            let next = self.open_next(ctx)?;
            if next.is_some() {
                self.open.push(next);
            }
        }
        Ok(())
    }

    /// Leaves a place empty, and its thread to others.
    fn close(&mut self, place: usize) {
        if let Some(Open::Elsewhere(_)) = self.open[place].take() {
            self.busy -= 1;
        }
    }
}

impl DatasetIterator for Interleaving {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        if self.open.is_empty() {
            self.open_first_cycle(ctx)?;
        }
        loop {
            check_wanted(ctx)?;
            if self.has_ended && self.open.iter().all(Option::is_none) {
                return Ok(None);
            }
            if self.open.len() <= self.place {
                self.open.push(None);
            }
            if self.open[self.place].is_none() {
                if !self.has_ended {
                    self.open[self.place] = self.open_next(ctx)?;
                }
                if self.open[self.place].is_none() {
                    self.advance();
                    continue;
                }
            }
            let Some(inner) = &mut self.open[self.place] else { continue };
            match inner.next(ctx)? {
                Some(element) => {
                    self.taken += 1;
                    if self.taken == self.dataset.block {
                        self.advance();
                    }
                    return Ok(Some(element));
                }
                None => {
                    self.close(self.place);
                    self.advance();
                }
            }
        }
    }

    fn is_ready(&self) -> bool {
        false
    }
}
