//! Datasets whose next element is chosen: from several datasets by another (`DirectedInterleaveDataset`), at random
//! (`RandomDataset`), or because it is no error (`IgnoreErrorsDataset`).

use std::sync::Arc;

use tensorfleet_core::{Result, Tensor, ensure, entropy};

use super::dataset::{
    Cardinality, Dataset, DatasetIterator, Element, ElementSpec, Nesting, input, kernel, scalar,
};
use super::sequence::check_wanted;
use tensorfleet_kernel::functions::CallContext;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::scalars;
use tensorfleet_numeric::philox::{Philox, Singles};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    dataset(
        "DirectedInterleaveDataset",
        "selector_input_dataset: variant, data_input_datasets: N * variant -> handle: variant",
    )
    .attrs("output_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: int >= 1")
    .kernel(directed),
    dataset("RandomDataset", "seed: int64, seed2: int64 -> handle: variant")
        .attrs("output_types: list(type) >= 1; output_shapes: list(shape) >= 1")
        .stateful()
        .kernel(random),
    dataset("IgnoreErrorsDataset", "input_dataset: variant -> handle: variant")
        .attrs("output_types: list(type) >= 1; output_shapes: list(shape) >= 1")
        .kernel(ignoring),
];

const fn dataset(name: &'static str, signature: &'static str) -> Op {
    Op::new(name, signature).not_differentiable().cost(Cost::Trivial).shape(scalars)
}

struct Directed {
    spec: ElementSpec,
    selector: Arc<dyn Dataset>,
    inputs: Vec<Arc<dyn Dataset>>,
}

fn directed(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = ElementSpec::of(node)?;
    kernel(move |ctx| {
        let inputs = (1..ctx.num_inputs()).map(|index| input(ctx, index)).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(Directed { spec: spec.clone(), selector: input(ctx, 0)?, inputs }))
    })
}

impl Dataset for Directed {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, nesting: Nesting) -> Result<Box<dyn DatasetIterator>> {
        let inner = nesting.inner()?;
        let selector = self.selector.clone().iterate(inner)?;
        let inputs =
            self.inputs.iter().map(|input| input.clone().iterate(inner).map(Some)).collect::<Result<_>>()?;
        Ok(Box::new(Choosing { selector, inputs }))
    }
}

struct Choosing {
    selector: Box<dyn DatasetIterator>,
    /// `None` for those that have ended.
    inputs: Vec<Option<Box<dyn DatasetIterator>>>,
}

impl DatasetIterator for Choosing {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        while self.inputs.iter().any(Option::is_some) {
            check_wanted(ctx)?;
            let Some(choice) = self.selector.next(ctx)? else {
                self.inputs.clear();
                break;
            };
            let number: i64 = choice.first().map_or(Ok(-1), Tensor::to_scalar)?;
            let count = self.inputs.len();
            let chosen = usize::try_from(number).ok().and_then(|number| self.inputs.get_mut(number));
            ensure!(chosen.is_some(), InvalidArgument, "Selector index out of range: {number} >= {count}");
            if let Some(slot) = chosen
                && let Some(input) = slot
            {
                match input.next(ctx)? {
                    Some(element) => return Ok(Some(element)),
                    None => *slot = None,
                }
            }
        }
        Ok(None)
    }

    fn is_ready(&self) -> bool {
        false
    }
}

struct Random {
    spec: ElementSpec,
    seeds: (u64, u64),
}

fn random(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = ElementSpec::of(node)?;
    kernel(move |ctx| {
        let seeds = (scalar::<i64>(ctx, 0, "seed")?, scalar::<i64>(ctx, 1, "seed2")?);
        let seeds = match seeds {
            (0, 0) => (entropy::seed()?, entropy::seed()?),
            (seed, seed2) => (seed as u64, seed2 as u64),
        };
        Ok(Arc::new(Random { spec: spec.clone(), seeds }))
    })
}

impl Dataset for Random {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, _: Nesting) -> Result<Box<dyn DatasetIterator>> {
        Ok(Box::new(Drawing(Singles::new(Philox::new(self.seeds.0, self.seeds.1)))))
    }

    fn cardinality(&self) -> Cardinality {
        Cardinality::Infinite
    }
}

struct Drawing(Singles);

impl DatasetIterator for Drawing {
    fn next(&mut self, _: &CallContext) -> Result<Option<Element>> {
        Ok(Some(vec![Tensor::scalar(i64::from(self.0.next_u32()))]))
    }

    fn is_ready(&self) -> bool {
        true
    }
}

struct Ignoring {
    spec: ElementSpec,
    input: Arc<dyn Dataset>,
}

fn ignoring(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = ElementSpec::of(node)?;
    kernel(move |ctx| Ok(Arc::new(Ignoring { spec: spec.clone(), input: input(ctx, 0)? })))
}

impl Dataset for Ignoring {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, nesting: Nesting) -> Result<Box<dyn DatasetIterator>> {
        Ok(Box::new(Going(self.input.clone().iterate(nesting.inner()?)?)))
    }
}

struct Going(Box<dyn DatasetIterator>);

impl DatasetIterator for Going {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        loop {
            check_wanted(ctx)?;
            if let Ok(element) = self.0.next(ctx) {
                return Ok(element);
            }
        }
    }

    fn is_ready(&self) -> bool {
        self.0.is_ready()
    }
}
