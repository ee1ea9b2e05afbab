//! Shuffling with a buffer, in TensorFlow's order for a given seed.
//!
//! The buffer is a ring. While the input has elements the buffer is kept full; each `next` exchanges a random element
//! with the oldest place and gives it. The generator is Philox, keyed by the two seeds. A dataset that reshuffles draws
//! the seeds of each walk from a generator of its own, which goes on from walk to walk.

use std::sync::Arc;

use parking_lot::Mutex;
use tensorfleet_core::memory::Kept;
use tensorfleet_core::{PartialShape, ResourceHandle, Result, Tensor, Variant, ensure, entropy};

use super::dataset::{
    Cardinality, Dataset, DatasetIterator, Element, ElementSpec, Nesting, input, keep, kept_bytes, kernel,
    scalar,
};
use super::sequence::check_wanted;
use tensorfleet_kernel::functions::CallContext;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::resource::Resource;
use tensorfleet_kernel::shape_context::{ShapeContext, scalars};
use tensorfleet_numeric::philox::{Philox, Singles};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    shuffled(
        "ShuffleDataset",
        "input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64 -> handle: variant",
    )
    .attrs(RESHUFFLE)
    .kernel(by_seeds),
    shuffled(
        "ShuffleDatasetV2",
        "input_dataset: variant, buffer_size: int64, seed_generator: resource -> handle: variant",
    )
    .attrs("output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ''")
    .stateful()
    .kernel(by_generator_v2),
    shuffled(
        "ShuffleDatasetV3",
        "input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64, seed_generator: resource -> \
         handle: variant",
    )
    .attrs(RESHUFFLE)
    .stateful()
    .kernel(by_generator_v3),
    shuffled(
        "ShuffleAndRepeatDataset",
        "input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64, count: int64 -> handle: variant",
    )
    .attrs(RESHUFFLE)
    .kernel(and_repeat),
    Op::new("DummySeedGenerator", "-> handle: resource")
        .stateful()
        .not_differentiable()
        .cost(Cost::Trivial)
        .shape(scalars)
        .kernel(dummy),
    Op::new("DummyMemoryCache", "-> handle: resource")
        .stateful()
        .not_differentiable()
        .cost(Cost::Trivial)
        .shape(scalars)
        .kernel(dummy),
    Op::new(
        "AnonymousSeedGenerator",
        "seed: int64, seed2: int64, reshuffle: bool -> handle: resource, deleter: variant",
    )
    .stateful()
    .not_differentiable()
    .cost(Cost::Trivial)
    .shape(scalars)
    .kernel(anonymous_generator),
    Op::new("DeleteSeedGenerator", "handle: resource, deleter: variant")
        .stateful()
        .not_differentiable()
        .cost(Cost::Trivial)
        .shape(nothing)
        .kernel(delete_generator),
];

const RESHUFFLE: &str = "reshuffle_each_iteration: bool = true; output_types: list(type) >= 1; \
                         output_shapes: list(shape) >= 1; metadata: string = ''";

const fn shuffled(name: &'static str, signature: &'static str) -> Op {
    Op::new(name, signature).not_differentiable().cost(Cost::Trivial).shape(scalars)
}

fn nothing(_: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(Vec::new())
}

/// Where walks get their seeds from.
struct SeedGenerator {
    seeds: (u64, u64),
    /// Draws the seeds of each walk; without one they are all the same.
    random: Option<Mutex<Singles>>,
}

impl SeedGenerator {
    /// Two zeros stand for seeds of nobody's choice.
    fn new(seed: i64, seed2: i64, reshuffles: bool) -> Result<SeedGenerator> {
        let seeds = match (seed, seed2) {
            (0, 0) => (entropy::seed()?, entropy::seed()?),
            _ => (seed as u64, seed2 as u64),
        };
        let random = reshuffles.then(|| Mutex::new(Singles::new(Philox::new(seeds.0, seeds.1))));
        Ok(SeedGenerator { seeds, random })
    }

    fn next_seeds(&self) -> (u64, u64) {
        match &self.random {
            None => self.seeds,
            Some(random) => {
                let mut random = random.lock();
                (random.next_u32() as u64, random.next_u32() as u64)
            }
        }
    }
}

impl Resource for SeedGenerator {
    fn kind() -> &'static str {
        "N10tensorflow4data20SeedGeneratorManagerE"
    }
}

struct Shuffled {
    spec: ElementSpec,
    input: Arc<dyn Dataset>,
    buffer_size: u64,
    seeds: Arc<SeedGenerator>,
    /// How often the input is walked along within one walk; `None` is for ever.
    rounds: Option<u64>,
}

fn by_seeds(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let reshuffles = node.attr("reshuffle_each_iteration")?;
    shuffle_kernel(node, move |ctx| own_seeds(ctx, reshuffles))
}

fn own_seeds(ctx: &Context<'_>, reshuffles: bool) -> Result<(Arc<SeedGenerator>, Option<u64>)> {
    let (seed, seed2) = (scalar(ctx, 2, "seed")?, scalar(ctx, 3, "seed2")?);
    Ok((Arc::new(SeedGenerator::new(seed, seed2, reshuffles)?), Some(1)))
}

fn by_generator_v2(node: &NodeSpec<'_>) -> Result<KernelBox> {
    shuffle_kernel(node, |ctx| Ok((ctx.resource::<SeedGenerator>(2)?, Some(1))))
}

/// A dummy in the place of the generator leaves the seeds to count.
fn by_generator_v3(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let reshuffles = node.attr("reshuffle_each_iteration")?;
    shuffle_kernel(node, move |ctx| match ctx.resource::<SeedGenerator>(4) {
        Ok(generator) => Ok((generator, Some(1))),
        Err(_) => own_seeds(ctx, reshuffles),
    })
}

fn and_repeat(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let reshuffles = node.attr("reshuffle_each_iteration")?;
    shuffle_kernel(node, move |ctx| {
        let (seeds, _) = own_seeds(ctx, reshuffles)?;
        Ok((seeds, u64::try_from(scalar::<i64>(ctx, 4, "count")?).ok()))
    })
}

fn shuffle_kernel(
    node: &NodeSpec<'_>,
    seeds: impl Fn(&Context<'_>) -> Result<(Arc<SeedGenerator>, Option<u64>)> + Send + Sync + 'static,
) -> Result<KernelBox> {
    let spec = ElementSpec::of(node)?;
    kernel(move |ctx| {
        let buffer_size = scalar::<i64>(ctx, 1, "buffer_size")?;
        // -1 asks for all elements.
        ensure!(
            buffer_size > 0 || buffer_size == -1,
            InvalidArgument,
            "buffer_size must be greater than zero or UNKNOWN_CARDINALITY, got {buffer_size}"
        );
        let buffer_size = u64::try_from(buffer_size).unwrap_or(u64::MAX);
        let (seeds, rounds) = seeds(ctx)?;
        Ok(Arc::new(Shuffled { spec: spec.clone(), input: input(ctx, 0)?, buffer_size, seeds, rounds }))
    })
}

impl Dataset for Shuffled {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, nesting: Nesting) -> Result<Box<dyn DatasetIterator>> {
        let (seed, seed2) = self.seeds.next_seeds();
        Ok(Box::new(Shuffling {
            input: None,
            rounds_left: self.rounds,
            random: Singles::new(Philox::new(seed, seed2)),
            buffer: std::collections::VecDeque::new(),
            rounds: std::collections::VecDeque::new(),
            has_given: false,
            kept: Kept::default(),
            nesting,
            dataset: self,
        }))
    }

    fn cardinality(&self) -> Cardinality {
        match self.rounds {
            Some(rounds) => self.input.cardinality().map(|count| count.saturating_mul(rounds)),
            None => Cardinality::Infinite,
        }
    }
}

struct Shuffling {
    dataset: Arc<Shuffled>,
    input: Option<Box<dyn DatasetIterator>>,
    /// Rounds not yet begun; `None` is for ever.
    rounds_left: Option<u64>,
    random: Singles,
    /// Elements in order of their places, the oldest first.
    buffer: std::collections::VecDeque<Element>,
    /// How many of them belong to each round: elements of one round all come before those of the next.
    rounds: std::collections::VecDeque<usize>,
    /// Whether the round that is being read has given an element, which may have left the buffer since.
    has_given: bool,
    /// What the buffer takes.
    kept: Kept,
    nesting: Nesting,
}

impl Shuffling {
    fn fill(&mut self, ctx: &CallContext) -> Result<()> {
        let mut is_empty_round = false;
        while (self.buffer.len() as u64) < self.dataset.buffer_size {
            check_wanted(ctx)?;
            if self.input.is_none() {
                if self.rounds_left == Some(0) || is_empty_round {
                    return Ok(());
                }
                self.rounds_left = self.rounds_left.map(|left| left - 1);
                self.input = Some(self.dataset.input.clone().iterate(self.nesting.inner()?)?);
                self.rounds.push_back(0);
                self.has_given = false;
            }
            let Some(input) = &mut self.input else { continue };
            match (input.next(ctx)?, self.rounds.back_mut()) {
                (Some(element), Some(count)) => {
                    keep(&mut self.kept, &element)?;
                    *count += 1;
                    self.has_given = true;
                    self.buffer.push_back(element);
                }
                _ => {
                    is_empty_round = !self.has_given;
                    self.input = None;
                }
            }
        }
        Ok(())
    }
}

impl DatasetIterator for Shuffling {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        self.fill(ctx)?;
        while self.rounds.len() > 1 && self.rounds.front() == Some(&0) {
            self.rounds.pop_front();
        }
        let Some(count) = self.rounds.front_mut().filter(|count| **count > 0) else { return Ok(None) };
        let chosen = self.random.next_u32() as usize % *count;
        *count -= 1;
        // The oldest takes the place of the chosen one.
        self.buffer.swap(0, chosen);
        let element = self.buffer.pop_front();
        self.kept.remove(element.as_ref().map_or(0, kept_bytes));
        Ok(element)
    }

    fn is_ready(&self) -> bool {
        !self.buffer.is_empty() && self.input.as_ref().is_none_or(|input| input.is_ready())
    }
}

fn dummy(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        ctx.set_output(0, Tensor::resource(ResourceHandle::new(&ctx.step.session.device, "", "dummy", "")));
        Ok(())
    }))
}

fn anonymous_generator(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let name = node.name().to_string();
    Ok(KernelBox::from_fn(move |ctx| {
        let generator = SeedGenerator::new(
            scalar(ctx, 0, "seed")?,
            scalar(ctx, 1, "seed2")?,
            scalar(ctx, 2, "reshuffle")?,
        )?;
        let resources = &ctx.step.session.resources;
        let name = resources.private_name(&name);
        resources.get_or_create("", &name, || Ok(generator))?;
        let handle = ResourceHandle::new(
            &ctx.step.session.device,
            resources.container(""),
            &name,
            SeedGenerator::kind(),
        );
        ctx.set_output(0, Tensor::resource(handle));
        ctx.set_output(
            1,
            Tensor::from_variants(vec![Variant::from_object(super::iterator_ops::Deleter)], &[])?,
        );
        Ok(())
    }))
}

fn delete_generator(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let handle = tensorfleet_kernel::kernel::handle_in(ctx.input(0)?)?;
        ctx.step.session.resources.remove::<SeedGenerator>(handle.container(), handle.name());
        Ok(())
    }))
}
