//! Elements of different shapes into batches: each is put into the corner of a row as large as the largest, or as the
//! program says, with a given value around it.

use std::sync::Arc;

use bytes::Bytes;
use tensorfleet_core::{DType, Result, Shape, Status, Tensor, ensure, memory};

use super::batch::gather;
use super::dataset::{
    Cardinality, Dataset, DatasetIterator, Element, ElementSpec, Nesting, input, kernel, positive, scalar,
};
use tensorfleet_kernel::functions::CallContext;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::scalars;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new(
        "PaddedBatchDataset",
        "input_dataset: variant, batch_size: int64, padded_shapes: N * int64, padding_values: Toutput_types -> \
         handle: variant",
    )
    .attrs("Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1; N: int >= 1; metadata: string = ''")
    .not_differentiable()
    .cost(Cost::Trivial)
    .shape(scalars)
    .kernel(padded_batch),
    Op::new(
        "PaddedBatchDatasetV2",
        "input_dataset: variant, batch_size: int64, padded_shapes: N * int64, padding_values: Toutput_types, \
         drop_remainder: bool -> handle: variant",
    )
    .attrs(
        "parallel_copy: bool = false; Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1; \
         N: int >= 1; metadata: string = ''",
    )
    .not_differentiable()
    .cost(Cost::Trivial)
    .shape(scalars)
    .kernel(padded_batch),
];

struct PaddedBatches {
    spec: ElementSpec,
    input: Arc<dyn Dataset>,
    size: u64,
    drops_remainder: bool,
    /// Per component, the dimensions of a row; -1 is the largest of the batch.
    shapes: Vec<Vec<i64>>,
    padding: Vec<Tensor>,
}

fn padded_batch(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = ElementSpec::of(node)?;
    let count: i64 = node.attr("N")?;
    let has_remainder = node.op().name == "PaddedBatchDatasetV2";
    ensure!(
        count == spec.dtypes.len() as i64,
        InvalidArgument,
        "there are {count} padded shapes for {} components",
        spec.dtypes.len()
    );
    let count = spec.dtypes.len();
    kernel(move |ctx| {
        let input = input(ctx, 0)?;
        ensure!(
            input.spec().dtypes == spec.dtypes,
            InvalidArgument,
            "the padding values have the types {:?}, the input's components {:?}",
            spec.dtypes,
            input.spec().dtypes
        );
        let size = positive(ctx, 1, "Batch size")?;
        let mut shapes = Vec::with_capacity(count);
        let mut padding = Vec::with_capacity(count);
        for index in 0..count {
            let shape = ctx.input(2 + index)?;
            ensure!(shape.shape().rank() == 1, InvalidArgument, "All `padded_shapes` must be vectors");
            let dims = shape.as_slice::<i64>()?.to_vec();
            ensure!(
                dims.iter().all(|&dim| dim >= -1),
                InvalidArgument,
                "padded_shapes[{index}] = {dims:?} has a negative dimension"
            );
            shapes.push(dims);
            let value = ctx.input(2 + count + index)?;
            ensure!(value.is_scalar(), InvalidArgument, "All padding values must be scalars");
            padding.push(value.clone());
        }
        let drops_remainder = has_remainder && scalar::<bool>(ctx, 2 + 2 * count, "drop_remainder")?;
        Ok(Arc::new(PaddedBatches { spec: spec.clone(), input, size, drops_remainder, shapes, padding }))
    })
}

impl Dataset for PaddedBatches {
    fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    fn iterate(self: Arc<Self>, nesting: Nesting) -> Result<Box<dyn DatasetIterator>> {
        let input = self.input.clone().iterate(nesting.inner()?)?;
        Ok(Box::new(PaddedBatching { dataset: self, input, has_ended: false }))
    }

    fn cardinality(&self) -> Cardinality {
        self.input.cardinality().map(|count| match self.drops_remainder {
            true => count / self.size,
            false => count.div_ceil(self.size),
        })
    }
}

struct PaddedBatching {
    dataset: Arc<PaddedBatches>,
    input: Box<dyn DatasetIterator>,
    has_ended: bool,
}

impl DatasetIterator for PaddedBatching {
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>> {
        let PaddedBatches { size, drops_remainder, ref shapes, ref padding, .. } = *self.dataset;
        let elements = gather(&mut self.input, ctx, size, &mut self.has_ended)?;
        if elements.is_empty() || (drops_remainder && (elements.len() as u64) < size) {
            return Ok(None);
        }
        let component = |index: usize| {
            let rows: Vec<&Tensor> = elements.iter().filter_map(|element| element.get(index)).collect();
            let row = row_shape(&shapes[index], &rows, index)?;
            pad(&rows, &row, &padding[index])
        };
        (0..shapes.len()).map(component).collect::<Result<_>>().map(Some)
    }

    fn is_ready(&self) -> bool {
        self.input.is_ready()
    }
}

/// The shape of a row that has room for all.
fn row_shape(wanted: &[i64], rows: &[&Tensor], component: usize) -> Result<Shape> {
    let mut dims = Vec::with_capacity(wanted.len());
    for (axis, &dim) in wanted.iter().enumerate() {
        let mut largest = 0;
        for row in rows {
            let shape = row.shape();
            ensure!(
                shape.rank() == wanted.len(),
                InvalidArgument,
                "All elements in a batch must have the same rank as the padded shape for component{component}: expected \
                 rank {} but got element with rank {}",
                wanted.len(),
                shape.rank()
            );
            largest = largest.max(shape[axis]);
        }
        let dim = usize::try_from(dim).unwrap_or(largest);
        ensure!(
            largest <= dim,
            DataLoss,
            "Attempted to pad to a smaller size than the input element: dimension {axis} of component {component} is \
             {largest}, padded to {dim}"
        );
        dims.push(dim);
    }
    for row in rows {
        ensure!(
            row.shape().rank() == wanted.len(),
            InvalidArgument,
            "All elements in a batch must have the same rank as the padded shape for component{component}: expected rank \
             {} but got element with rank {}",
            wanted.len(),
            row.shape().rank()
        );
    }
    Shape::new(&dims)
}

fn pad(rows: &[&Tensor], row: &Shape, padding: &Tensor) -> Result<Tensor> {
    let dims: Vec<usize> = std::iter::once(rows.len()).chain(row.iter().copied()).collect();
    let shape = Shape::new(&dims)?;
    let dtype = padding.dtype();
    if dtype == DType::String {
        let value = padding.to_string_scalar()?;
        let mut out: Vec<Bytes> = memory::vec_of(value.clone(), shape.num_elements())?;
        put_rows(&mut out, rows, row, |tensor| tensor.as_strings())?;
        return Tensor::from_strings(out, &dims);
    }
    ensure!(dtype.is_plain(), InvalidArgument, "{dtype} elements cannot be padded");
    let mut batch = Tensor::allocate(dtype, shape)?;
    tensorfleet_numeric::dispatch!(dtype, T in plain => {
        let value = padding.to_scalar::<T>()?;
        let out = batch.make_mut::<T>()?;
        out.fill(value);
        put_rows(out, rows, row, |tensor| tensor.as_slice::<T>())
    })?;
    Ok(batch)
}

/// Puts each tensor into the corner of its row.
fn put_rows<'a, T: Clone + 'a>(
    out: &mut [T],
    rows: &[&'a Tensor],
    row: &Shape,
    elements: impl Fn(&'a Tensor) -> Result<&'a [T]>,
) -> Result<()> {
    let row_len = row.num_elements();
    for (number, tensor) in rows.iter().enumerate() {
        let (from, to) = (elements(tensor)?, &mut out[number * row_len..][..row_len]);
        let run = tensor.shape().last().copied().unwrap_or(1);
        if run == 0 || from.is_empty() {
            continue;
        }
        for (index, part) in from.chunks_exact(run).enumerate() {
            let start = corner_offset(index, tensor.shape(), row);
            let place = to.get_mut(start..start + run);
            place.ok_or_else(|| Status::internal("a padded element exceeds its row"))?.clone_from_slice(part);
        }
    }
    Ok(())
}

/// Where run `index` of the last dimension of a tensor begins in the larger row.
fn corner_offset(mut index: usize, inner: &Shape, outer: &Shape) -> usize {
    let rank = inner.rank();
    let mut offset = 0;
    let mut stride = outer.last().copied().unwrap_or(1);
    for axis in (0..rank.saturating_sub(1)).rev() {
        offset += (index % inner[axis]) * stride;
        index /= inner[axis];
        stride *= outer[axis];
    }
    offset
}
