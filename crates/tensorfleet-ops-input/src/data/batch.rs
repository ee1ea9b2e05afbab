//! Elements of one shape into batches, each copied once into its place, and batches into their rows.

use std::sync::Arc;

use tensorfleet_core::memory::Kept;
use tensorfleet_core::{Result, Status, Tensor, ensure};

use super::dataset::{
    Cardinality, Dataset, DatasetIterator, Element, ElementSpec, Nesting, input, keep, kernel, positive,
    scalar,
};
use super::sequence::check_wanted;
use tensorfleet_kernel::functions::CallContext;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::scalars;
use tensorfleet_ops_state::state::queue::stack;

/// The family's table. Copying in parallel is not worth its threads here: `parallel_copy` and `num_parallel_calls`
/// change nothing.
pub(crate) static OPS: &[Op] = &[
    batch_op("BatchDataset", "input_dataset: variant, batch_size: int64 -> handle: variant")
        .attrs("output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ''")
        .kernel(batch),
    batch_op(
        "BatchDatasetV2",
        "input_dataset: variant, batch_size: int64, drop_remainder: bool -> handle: variant",
    )
    .attrs(
        "parallel_copy: bool = false; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; \
         metadata: string = ''",
    )
    .kernel(batch),
    batch_op(
        "ParallelBatchDataset",
        "input_dataset: variant, batch_size: int64, num_parallel_calls: int64, drop_remainder: bool -> \
         handle: variant",
    )
    .attrs(
        "parallel_copy: bool = false; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; \
         deterministic: string = 'default'; metadata: string = ''",
    )
    .kernel(batch),
    batch_op("UnbatchDataset", "input_dataset: variant -> handle: variant")
        .attrs("output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ''")
        .kernel(unbatch),
];

const fn batch_op(name: &'static str, signature: &'static str) -> Op {
    Op::new(name, signature).not_differentiable().cost(Cost::Trivial).shape(scalars)
}

/// Elements are gathered in a vector first; this much is set aside for one batch before any has come.
const MAX_RESERVED: usize = 4096;

struct Batches {
    spec: ElementSpec,
    input: Arc<dyn Dataset>,
    size: u64,
    drops_remainder: bool,
}

fn batch(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = ElementSpec::of(node)?;
    let drop_remainder = node.node().inputs.len().checked_sub(1).filter(|&index| index >= 2);
    kernel(move |ctx| {
        let size = positive(ctx, 1, "Batch size")?;
        let drops_remainder = match drop_remainder {
            Some(index) => scalar::<bool>(ctx, index, "drop_remainder")?,
            None => false,
        };
        Ok(Arc::new(Batches { spec: spec.clone(), input: input(ctx, 0)?, size, drops_remainder }))
    })
}

impl Dataset for Batches {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, nesting: Nesting) -> Result<Box<dyn DatasetIterator>> {
        let input = self.input.clone().iterate(nesting.inner()?)?;
        Ok(Box::new(Batching { dataset: self, input, has_ended: false }))
    }

    fn cardinality(&self) -> Cardinality {
        self.input.cardinality().map(|count| match self.drops_remainder {
            true => count / self.size,
            false => count.div_ceil(self.size),
        })
    }
}

struct Batching {
    dataset: Arc<Batches>,
    input: Box<dyn DatasetIterator>,
    has_ended: bool,
}

/// Up to `size` elements.
pub(super) fn gather(
    input: &mut Box<dyn DatasetIterator>,
    ctx: &CallContext,
    size: u64,
    has_ended: &mut bool,
) -> Result<Vec<Element>> {
    let mut kept = Kept::default();
    let mut elements = Vec::with_capacity(MAX_RESERVED.min(usize::try_from(size).unwrap_or(MAX_RESERVED)));
    while !*has_ended && (elements.len() as u64) < size {
        check_wanted(ctx)?;
        match input.next(ctx)? {
            Some(element) => {
                keep(&mut kept, &element)?;
                elements.push(element);
            }
            None => *has_ended = true,
        }
    }
    Ok(elements)
}

impl DatasetIterator for Batching {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        let Batches { size, drops_remainder, .. } = *self.dataset;
        let elements = gather(&mut self.input, ctx, size, &mut self.has_ended)?;
        if elements.is_empty() || (drops_remainder && (elements.len() as u64) < size) {
            return Ok(None);
        }
        let component = |index: usize| {
            let rows: Vec<&Tensor> = elements.iter().filter_map(|element| element.get(index)).collect();
            let first = rows[0];
            for (number, row) in rows.iter().enumerate() {
                ensure!(
                    row.shape() == first.shape(),
                    InvalidArgument,
                    "Cannot batch tensors with different shapes in component {index}. First element had shape {} and \
                     element {number} had shape {}.",
                    first.shape(),
                    row.shape()
                );
            }
            stack(first.dtype(), first.shape(), &rows)
        };
        (0..elements[0].len()).map(component).collect::<Result<_>>().map(Some)
    }

    fn is_ready(&self) -> bool {
        self.input.is_ready()
    }
}

struct Unbatched {
    spec: ElementSpec,
    input: Arc<dyn Dataset>,
}

fn unbatch(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = ElementSpec::of(node)?;
    kernel(move |ctx| Ok(Arc::new(Unbatched { spec: spec.clone(), input: input(ctx, 0)? })))
}

impl Dataset for Unbatched {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, nesting: Nesting) -> Result<Box<dyn DatasetIterator>> {
        Ok(Box::new(Unbatching {
            input: self.input.clone().iterate(nesting.inner()?)?,
            batch: Vec::new(),
            next: 0,
            count: 0,
        }))
    }
}

struct Unbatching {
    input: Box<dyn DatasetIterator>,
    batch: Element,
    next: usize,
    count: usize,
}

impl DatasetIterator for Unbatching {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        while self.next >= self.count {
            check_wanted(ctx)?;
            let Some(batch) = self.input.next(ctx)? else { return Ok(None) };
            let rows = |tensor: &Tensor| {
                let rows = tensor.shape().first().copied();
                rows.ok_or_else(|| {
                    Status::invalid_argument("Input element must have a non-scalar value in each component.")
                })
            };
            let counts: Vec<usize> = batch.iter().map(rows).collect::<Result<_>>()?;
            let count = counts.first().copied().unwrap_or(0);
            ensure!(
                counts.iter().all(|&other| other == count),
                InvalidArgument,
                "Input element must have the same batch size in each component. Found sizes {counts:?}."
            );
            (self.batch, self.next, self.count) = (batch, 0, count);
        }
        let row = self.next;
        self.next += 1;
        self.batch.iter().map(|tensor| tensor.row(row)).collect::<Result<_>>().map(Some)
    }

    fn is_ready(&self) -> bool {
        self.next < self.count || self.input.is_ready()
    }
}
