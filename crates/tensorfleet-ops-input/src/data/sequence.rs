//! Datasets that change which elements come and how often: take, skip, repeat, concatenate, zip, shard, cache. And those
//! that only carry options, which change nothing here.

use std::sync::Arc;

use parking_lot::Mutex;
use tensorfleet_core::{Result, Status, ensure, memory};

use super::dataset::{
    Cardinality, Dataset, DatasetIterator, Element, ElementSpec, Nesting, SliceIterator, input, keep, kernel,
    positive, scalar,
};
use super::file_cache::FileCached;
use tensorfleet_kernel::functions::CallContext;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::scalars;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    sequence("TakeDataset", "input_dataset: variant, count: int64 -> handle: variant").attrs(PLAIN).kernel(take),
    sequence("SkipDataset", "input_dataset: variant, count: int64 -> handle: variant").attrs(PLAIN).kernel(skip),
    sequence("RepeatDataset", "input_dataset: variant, count: int64 -> handle: variant")
        .attrs(PLAIN)
        .kernel(repeat),
    sequence("ConcatenateDataset", "input_dataset: variant, another_dataset: variant -> handle: variant")
        .attrs(PLAIN)
        .kernel(concatenate),
    sequence("ZipDataset", "input_datasets: N * variant -> handle: variant")
        .attrs(
            "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: int >= 1; metadata: string = ''",
        )
        .kernel(zip),
    sequence("ShardDataset", "input_dataset: variant, num_shards: int64, index: int64 -> handle: variant")
        .attrs(
            "require_non_empty: bool = false; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; \
             metadata: string = ''",
        )
        .kernel(shard),
    sequence("CacheDataset", "input_dataset: variant, filename: string -> handle: variant")
        .attrs(PLAIN)
        .kernel(cache),
    sequence("CacheDatasetV2", "input_dataset: variant, filename: string, cache: resource -> handle: variant")
        .attrs(PLAIN)
        .stateful()
        .kernel(cache),
    sequence("OptionsDataset", "input_dataset: variant -> handle: variant")
        .attrs(
            "serialized_options: string; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; \
             metadata: string = ''",
        )
        .kernel(same),
    sequence("ModelDataset", "input_dataset: variant -> handle: variant")
        .attrs(
            "algorithm: int = 0; cpu_budget: int = 0; ram_budget: int = 0; output_types: list(type) >= 1; \
             output_shapes: list(shape) >= 1",
        )
        .kernel(same),
    sequence("OptimizeDataset", "input_dataset: variant, optimizations: string -> handle: variant")
        .attrs(
            "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; \
             optimization_configs: list(string) = []",
        )
        .kernel(same),
    sequence(
        "OptimizeDatasetV2",
        "input_dataset: variant, optimizations_enabled: string, optimizations_disabled: string, \
         optimizations_default: string -> handle: variant",
    )
    .attrs(
        "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; optimization_configs: list(string) = []",
    )
    .kernel(same),
    sequence("FinalizeDataset", "input_dataset: variant -> handle: variant")
        .attrs(
            "has_captured_ref: bool = false; output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
        )
        .kernel(same),
    sequence(
        "MaxIntraOpParallelismDataset",
        "input_dataset: variant, max_intra_op_parallelism: int64 -> handle: variant",
    )
    .attrs("output_types: list(type) >= 1; output_shapes: list(shape) >= 1")
    .kernel(same),
    sequence("PrivateThreadPoolDataset", "input_dataset: variant, num_threads: int64 -> handle: variant")
        .attrs("output_types: list(type) >= 1; output_shapes: list(shape) >= 1")
        .kernel(same),
    sequence("AssertCardinalityDataset", "input_dataset: variant, cardinality: int64 -> handle: variant")
        .attrs("output_types: list(type) >= 1; output_shapes: list(shape) >= 1")
        .kernel(assert_cardinality),
];

const PLAIN: &str = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ''";

const fn sequence(name: &'static str, signature: &'static str) -> Op {
    Op::new(name, signature).not_differentiable().cost(Cost::Trivial).shape(scalars)
}

/// A dataset that is its input.
fn same(_: &NodeSpec<'_>) -> Result<KernelBox> {
    kernel(|ctx| input(ctx, 0))
}

/// What is done with the elements of an input.
#[derive(Clone, Copy)]
enum Change {
    /// The first ones; `None` is all.
    Take(Option<u64>),
    /// All but the first ones; `None` is nothing.
    Skip(Option<u64>),
    /// So many times; `None` is for ever.
    Repeat(Option<u64>),
    /// Every `of`th element, from `index` on.
    Shard { of: u64, index: u64 },
    /// All, and there must be so many.
    Count(u64),
}

struct Changed {
    spec: ElementSpec,
    input: Arc<dyn Dataset>,
    change: Change,
}

fn changed(
    node: &NodeSpec<'_>,
    change: impl Fn(i64) -> Result<Change> + Send + Sync + 'static,
) -> Result<KernelBox> {
    let spec = ElementSpec::of(node)?;
    kernel(move |ctx| {
        let change = change(scalar(ctx, 1, "count")?)?;
        Ok(Arc::new(Changed { spec: spec.clone(), input: input(ctx, 0)?, change }))
    })
}

fn non_negative(count: i64) -> Option<u64> {
    u64::try_from(count).ok()
}

fn take(node: &NodeSpec<'_>) -> Result<KernelBox> {
    changed(node, |count| Ok(Change::Take(non_negative(count))))
}

fn skip(node: &NodeSpec<'_>) -> Result<KernelBox> {
    changed(node, |count| Ok(Change::Skip(non_negative(count))))
}

fn repeat(node: &NodeSpec<'_>) -> Result<KernelBox> {
    changed(node, |count| Ok(Change::Repeat(non_negative(count))))
}

fn assert_cardinality(node: &NodeSpec<'_>) -> Result<KernelBox> {
    changed(node, |count| Ok(non_negative(count).map_or(Change::Take(None), Change::Count)))
}

fn shard(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = ElementSpec::of(node)?;
    kernel(move |ctx| {
        let of = positive(ctx, 1, "Number of shards")?;
        let index = scalar::<i64>(ctx, 2, "index")?;
        let index = u64::try_from(index).ok().filter(|&index| index < of).ok_or_else(|| {
            Status::invalid_argument(format!(
                "Index must be between 0 and {} (currently index = {index}).",
                of - 1
            ))
        })?;
        Ok(Arc::new(Changed {
            spec: spec.clone(),
            input: input(ctx, 0)?,
            change: Change::Shard { of, index },
        }))
    })
}

impl Dataset for Changed {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, nesting: Nesting) -> Result<Box<dyn DatasetIterator>> {
        let input = self.input.clone().iterate(nesting.inner()?)?;
        Ok(match self.change {
            Change::Take(None) | Change::Skip(Some(0)) => input,
            Change::Skip(None) => Box::new(Taking { input, left: 0 }),
            Change::Take(Some(left)) => Box::new(Taking { input, left }),
            Change::Skip(Some(left)) => Box::new(Skipping { input, left }),
            Change::Repeat(rounds) => Box::new(Repeating {
                dataset: self.input.clone(),
                nesting,
                input,
                left: rounds.map_or(u64::MAX, |rounds| rounds),
                is_endless: rounds.is_none(),
                is_fresh: true,
            }),
            Change::Shard { of, index } => Box::new(Sharding { input, of, skipped: index }),
            Change::Count(expected) => Box::new(Counting { input, expected, found: 0 }),
        })
    }

    fn cardinality(&self) -> Cardinality {
        let input = self.input.cardinality();
        match self.change {
            Change::Take(None) => input,
            Change::Take(Some(count)) => match input {
                Cardinality::Infinite => Cardinality::Finite(count),
                other => other.map(|found| found.min(count)),
            },
            Change::Skip(None) => Cardinality::Finite(0),
            Change::Skip(Some(count)) => input.map(|found| found.saturating_sub(count)),
            Change::Repeat(Some(0)) => Cardinality::Finite(0),
            Change::Repeat(Some(rounds)) => input.map(|found| found.saturating_mul(rounds)),
            Change::Repeat(None) => match input {
                Cardinality::Finite(0) => input,
                _ => Cardinality::Infinite,
            },
            Change::Shard { of, index } => input.map(|found| found.saturating_sub(index).div_ceil(of)),
            Change::Count(expected) => Cardinality::Finite(expected),
        }
    }
}

struct Taking {
    input: Box<dyn DatasetIterator>,
    left: u64,
}

impl DatasetIterator for Taking {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        if self.left == 0 {
            return Ok(None);
        }
        let element = self.input.next(ctx)?;
        self.left = if element.is_some() { self.left - 1 } else { 0 };
        Ok(element)
    }

    fn is_ready(&self) -> bool {
        self.left == 0 || self.input.is_ready()
    }
}

struct Skipping {
    input: Box<dyn DatasetIterator>,
    left: u64,
}

impl DatasetIterator for Skipping {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        while self.left > 0 {
            check_wanted(ctx)?;
            if self.input.next(ctx)?.is_none() {
                self.left = 0;
                return Ok(None);
            }
            self.left -= 1;
        }
        self.input.next(ctx)
    }

    fn is_ready(&self) -> bool {
        self.left == 0 && self.input.is_ready()
    }
}

/// Loops over elements that nobody gets to see end when nobody waits for the next any more, and rest while the session's
/// user is away.
pub(super) fn check_wanted(ctx: &CallContext) -> Result<()> {
    ctx.session.background.wait_while_paused(&ctx.cancellation);
    if !ctx.cancellation.is_cancelled() {
        return Ok(());
    }
    Err(ctx.cancellation.reason().unwrap_or_else(|| Status::cancelled("the iteration was cancelled")))
}

struct Repeating {
    dataset: Arc<dyn Dataset>,
    nesting: Nesting,
    input: Box<dyn DatasetIterator>,
    left: u64,
    is_endless: bool,
    /// Whether the present round has given nothing yet.
    is_fresh: bool,
}

impl DatasetIterator for Repeating {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        while self.left > 0 {
            if let Some(element) = self.input.next(ctx)? {
                self.is_fresh = false;
                return Ok(Some(element));
            }
            // An empty round means that there will be nothing in the others either.
            self.left = if self.is_fresh { 0 } else { self.left - u64::from(!self.is_endless) };
            if self.left > 0 {
                self.input = self.dataset.clone().iterate(self.nesting.inner()?)?;
                self.is_fresh = true;
            }
        }
        Ok(None)
    }

    fn is_ready(&self) -> bool {
        self.left == 0 || self.input.is_ready()
    }
}

struct Sharding {
    input: Box<dyn DatasetIterator>,
    of: u64,
    skipped: u64,
}

impl DatasetIterator for Sharding {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        for _ in 0..self.skipped {
            check_wanted(ctx)?;
            if self.input.next(ctx)?.is_none() {
                return Ok(None);
            }
        }
        self.skipped = self.of - 1;
        self.input.next(ctx)
    }

    fn is_ready(&self) -> bool {
        self.input.is_ready()
    }
}

struct Counting {
    input: Box<dyn DatasetIterator>,
    expected: u64,
    found: u64,
}

impl DatasetIterator for Counting {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        let element = self.input.next(ctx)?;
        self.found += u64::from(element.is_some());
        let is_wrong =
            if element.is_some() { self.found > self.expected } else { self.found < self.expected };
        ensure!(
            !is_wrong,
            FailedPrecondition,
            "Input dataset was expected to contain {} elements but contained {}.",
            self.expected,
            if element.is_some() { format!("at least {}", self.found) } else { self.found.to_string() }
        );
        Ok(element)
    }

    fn is_ready(&self) -> bool {
        self.input.is_ready()
    }
}

/// One dataset after another.
struct Concatenated {
    spec: ElementSpec,
    parts: [Arc<dyn Dataset>; 2],
}

fn concatenate(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = ElementSpec::of(node)?;
    kernel(move |ctx| {
        let parts = [input(ctx, 0)?, input(ctx, 1)?];
        ensure!(
            parts[0].spec().dtypes == parts[1].spec().dtypes,
            InvalidArgument,
            "input dataset and another dataset have different output types: {:?} and {:?}",
            parts[0].spec().dtypes,
            parts[1].spec().dtypes
        );
        Ok(Arc::new(Concatenated { spec: spec.clone(), parts }))
    })
}

impl Dataset for Concatenated {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, nesting: Nesting) -> Result<Box<dyn DatasetIterator>> {
        let [first, second] = self.parts.clone();
        Ok(Box::new(Concatenating { input: first.iterate(nesting.inner()?)?, second: Some(second), nesting }))
    }

    fn cardinality(&self) -> Cardinality {
        match (self.parts[0].cardinality(), self.parts[1].cardinality()) {
            (Cardinality::Infinite, _) | (_, Cardinality::Infinite) => Cardinality::Infinite,
            (Cardinality::Finite(a), Cardinality::Finite(b)) => Cardinality::Finite(a.saturating_add(b)),
            _ => Cardinality::Unknown,
        }
    }
}

struct Concatenating {
    input: Box<dyn DatasetIterator>,
    second: Option<Arc<dyn Dataset>>,
    nesting: Nesting,
}

impl DatasetIterator for Concatenating {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        if let Some(element) = self.input.next(ctx)? {
            return Ok(Some(element));
        }
        let Some(second) = self.second.take() else { return Ok(None) };
        self.input = second.iterate(self.nesting.inner()?)?;
        self.input.next(ctx)
    }

    fn is_ready(&self) -> bool {
        self.input.is_ready()
    }
}

/// Datasets side by side, as long as all have elements.
struct Zipped {
    spec: ElementSpec,
    parts: Vec<Arc<dyn Dataset>>,
}

fn zip(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = ElementSpec::of(node)?;
    kernel(move |ctx| {
        let parts = (0..ctx.num_inputs()).map(|index| input(ctx, index)).collect::<Result<_>>()?;
        Ok(Arc::new(Zipped { spec: spec.clone(), parts }))
    })
}

impl Dataset for Zipped {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, nesting: Nesting) -> Result<Box<dyn DatasetIterator>> {
        let inner = nesting.inner()?;
        let inputs = self.parts.iter().map(|part| part.clone().iterate(inner)).collect::<Result<_>>()?;
        Ok(Box::new(Zipping { inputs, has_ended: false }))
    }

    fn cardinality(&self) -> Cardinality {
        let mut all = Cardinality::Infinite;
        for part in &self.parts {
            all = match (all, part.cardinality()) {
                (Cardinality::Unknown, _) | (_, Cardinality::Unknown) => return Cardinality::Unknown,
                (Cardinality::Infinite, other) | (other, Cardinality::Infinite) => other,
                (Cardinality::Finite(a), Cardinality::Finite(b)) => Cardinality::Finite(a.min(b)),
            };
        }
        all
    }
}

struct Zipping {
    inputs: Vec<Box<dyn DatasetIterator>>,
    has_ended: bool,
}

impl DatasetIterator for Zipping {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        let mut element = Vec::new();
        for input in &mut self.inputs {
            match input.next(ctx)? {
                Some(part) if !self.has_ended => element.extend(part),
                _ => {
                    self.has_ended = true;
                    return Ok(None);
                }
            }
        }
        Ok(Some(element))
    }

    fn is_ready(&self) -> bool {
        self.inputs.iter().all(|input| input.is_ready())
    }
}

/// The elements of a complete walk.
struct Kept {
    elements: Arc<[Element]>,
    _charge: memory::Kept,
}

/// Keeps the elements of the first complete walk for those that follow.
struct Cached {
    spec: ElementSpec,
    input: Arc<dyn Dataset>,
    kept: Mutex<Option<Kept>>,
}

fn cache(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = ElementSpec::of(node)?;
    kernel(move |ctx| {
        let filename = ctx.input(1)?.to_string_scalar()?;
        let filename = String::from_utf8(filename.to_vec())
            .map_err(|_| Status::invalid_argument("the name of a cache is not valid UTF-8"))?;
        let (spec, input) = (spec.clone(), input(ctx, 0)?);
        Ok(match filename.as_str() {
            "" => Arc::new(Cached { spec, input, kept: Mutex::default() }),
            _ => Arc::new(FileCached::new(spec, input, filename, ctx.file_access().clone())?),
        })
    })
}

impl Dataset for Cached {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, nesting: Nesting) -> Result<Box<dyn DatasetIterator>> {
        let kept = self.kept.lock().as_ref().map(|kept| kept.elements.clone());
        Ok(match kept {
            Some(elements) => Box::new(SliceIterator::new(elements)),
            None => {
                let input = self.input.clone().iterate(nesting.inner()?)?;
                Box::new(Caching {
                    dataset: self,
                    input,
                    seen: Vec::new(),
                    charge: memory::Kept::default(),
                    has_ended: false,
                })
            }
        })
    }

    fn cardinality(&self) -> Cardinality {
        self.input.cardinality()
    }
}

struct Caching {
    dataset: Arc<Cached>,
    input: Box<dyn DatasetIterator>,
    seen: Vec<Element>,
    /// For what was seen.
    charge: memory::Kept,
    has_ended: bool,
}

impl DatasetIterator for Caching {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        if self.has_ended {
            return Ok(None);
        }
        let element = self.input.next(ctx)?;
        match &element {
            Some(element) => {
                keep(&mut self.charge, element)?;
                self.seen.push(element.clone());
            }
            None => {
                self.has_ended = true;
                let elements = std::mem::take(&mut self.seen).into();
                let _charge = std::mem::take(&mut self.charge);
                *self.dataset.kept.lock() = Some(Kept { elements, _charge });
            }
        }
        Ok(element)
    }

    fn is_ready(&self) -> bool {
        self.input.is_ready()
    }
}
