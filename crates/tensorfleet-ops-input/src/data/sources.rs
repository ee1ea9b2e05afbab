//! Datasets out of tensors and numbers.

use std::sync::Arc;

use tensorfleet_core::{DType, Result, Status, Tensor, ensure};

use super::dataset::{Cardinality, Dataset, DatasetIterator, Element, ElementSpec, Nesting, kernel, scalar};
use tensorfleet_kernel::functions::CallContext;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::scalars;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("TensorDataset", "components: Toutput_types -> handle: variant")
        .attrs("Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ''")
        .stateful()
        .not_differentiable()
        .cost(Cost::Trivial)
        .shape(scalars)
        .kernel(tensor),
    Op::new("TensorSliceDataset", "components: Toutput_types -> handle: variant")
        .attrs(
            "Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1; is_files: bool = false; \
             metadata: string = ''; replicate_on_split: bool = false",
        )
        .stateful()
        .not_differentiable()
        .cost(Cost::Trivial)
        .shape(scalars)
        .kernel(slices),
    Op::new("RangeDataset", "start: int64, stop: int64, step: int64 -> handle: variant")
        .attrs(
            "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ''; \
             replicate_on_split: bool = false",
        )
        .stateful()
        .not_differentiable()
        .cost(Cost::Trivial)
        .shape(scalars)
        .kernel(range),
];

fn components(ctx: &Context<'_>) -> Result<Vec<Tensor>> {
    (0..ctx.num_inputs()).map(|index| ctx.input(index)?.clone().kept()).collect()
}

/// One element.
struct TensorDataset {
    spec: ElementSpec,
    element: Element,
}

fn tensor(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = ElementSpec::of(node)?;
    kernel(move |ctx| {
        let element = components(ctx)?;
        spec.check_element(&element)?;
        Ok(Arc::new(TensorDataset { spec: spec.clone(), element }))
    })
}

impl Dataset for TensorDataset {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, _: Nesting) -> Result<Box<dyn DatasetIterator>> {
        Ok(Box::new(Once(Some(self.element.clone()))))
    }

    fn cardinality(&self) -> Cardinality {
        Cardinality::Finite(1)
    }
}

struct Once(Option<Element>);

impl DatasetIterator for Once {
    fn next(&mut self, _: &CallContext) -> Result<Option<Element>> {
        Ok(self.0.take())
    }

    fn is_ready(&self) -> bool {
        true
    }
}

/// The rows of tensors. Rows of plain tensors share their memory.
struct Slices {
    spec: ElementSpec,
    tensors: Vec<Tensor>,
    count: usize,
}

fn slices(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = ElementSpec::of(node)?;
    kernel(move |ctx| {
        let tensors = components(ctx)?;
        let mut count = None;
        for (index, tensor) in tensors.iter().enumerate() {
            let Some(&rows) = tensor.shape().first() else {
                return Err(Status::invalid_argument(format!(
                    "All components must be at least 1-dimensional, component {index} is a scalar"
                )));
            };
            let expected = *count.get_or_insert(rows);
            ensure!(
                rows == expected,
                InvalidArgument,
                "All components must have the same size in the 0th dimension: component 0 has {expected}, component \
                 {index} has {rows}"
            );
        }
        Ok(Arc::new(Slices { spec: spec.clone(), tensors, count: count.unwrap_or(0) }))
    })
}

impl Dataset for Slices {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, _: Nesting) -> Result<Box<dyn DatasetIterator>> {
        Ok(Box::new(SliceIterator { dataset: self, next: 0 }))
    }

    fn cardinality(&self) -> Cardinality {
        Cardinality::Finite(self.count as u64)
    }
}

struct SliceIterator {
    dataset: Arc<Slices>,
    next: usize,
}

impl DatasetIterator for SliceIterator {
    fn next(&mut self, _: &CallContext) -> Result<Option<Element>> {
        if self.next >= self.dataset.count {
            return Ok(None);
        }
        let row = self.next;
        self.next += 1;
        self.dataset.tensors.iter().map(|tensor| tensor.row(row)).collect::<Result<_>>().map(Some)
    }

    fn is_ready(&self) -> bool {
        true
    }
}

/// Numbers from `start`, in steps, before `stop`.
struct Range {
    spec: ElementSpec,
    start: i64,
    step: i64,
    count: u64,
}

fn range(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = ElementSpec::of(node)?;
    ensure!(
        matches!(spec.dtypes[..], [DType::Int32 | DType::Int64 | DType::Float | DType::Double]),
        Unimplemented,
        "a RangeDataset gives int32, int64, float or double, not {:?}",
        spec.dtypes
    );
    kernel(move |ctx| {
        let start = scalar::<i64>(ctx, 0, "start")?;
        let stop = scalar::<i64>(ctx, 1, "stop")?;
        let step = scalar::<i64>(ctx, 2, "step")?;
        ensure!(step != 0, InvalidArgument, "step must be a non-zero integer.");
        let distance = if step > 0 { stop as i128 - start as i128 } else { start as i128 - stop as i128 };
        let count = distance.max(0).unsigned_abs().div_ceil(step.unsigned_abs() as u128);
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        Ok(Arc::new(Range { spec: spec.clone(), start, step, count }))
    })
}

impl Dataset for Range {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, _: Nesting) -> Result<Box<dyn DatasetIterator>> {
        Ok(Box::new(RangeIterator { dataset: self, position: 0 }))
    }

    fn cardinality(&self) -> Cardinality {
        Cardinality::Finite(self.count)
    }
}

struct RangeIterator {
    dataset: Arc<Range>,
    position: u64,
}

impl DatasetIterator for RangeIterator {
    fn next(&mut self, _: &CallContext) -> Result<Option<Element>> {
        let Range { start, step, count, ref spec } = *self.dataset;
        if self.position >= count {
            return Ok(None);
        }
        // Lies between start and stop, though the product alone may not fit.
        let value = start.wrapping_add((self.position as i64).wrapping_mul(step));
        self.position += 1;
        Ok(Some(vec![match spec.dtypes[0] {
            DType::Int32 => Tensor::scalar(value as i32),
            DType::Float => Tensor::scalar(value as f32),
            DType::Double => Tensor::scalar(value as f64),
            _ => Tensor::scalar(value),
        }]))
    }

    fn is_ready(&self) -> bool {
        true
    }
}
