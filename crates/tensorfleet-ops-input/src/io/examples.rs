//! Parsing `tf.Example` records into tensors: dense ones of a known shape, sparse and ragged ones of any length.

use bytes::Bytes;
use tensorfleet_core::{DType, PartialShape, Result, Shape, Status, Tensor, bail, ensure, memory};

use super::checkpoints::text;
use super::example_wire::{ExampleView, FeatureView};
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_numeric::dispatch::no_kernel;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new(
        "ParseExample",
        "serialized: string, names: string, sparse_keys: Nsparse * string, dense_keys: Ndense * string, \
         dense_defaults: Tdense -> sparse_indices: Nsparse * int64, sparse_values: sparse_types, \
         sparse_shapes: Nsparse * int64, dense_values: Tdense",
    )
    .attrs(
        "Nsparse: int >= 0; Ndense: int >= 0; sparse_types: list({float, int64, string}) >= 0; \
         Tdense: list({float, int64, string}) >= 0; dense_shapes: list(shape) >= 0",
    )
    .shape(batch_shape)
    .kernel(parse_example),
    Op::new(
        "ParseExampleV2",
        "serialized: string, names: string, sparse_keys: string, dense_keys: string, ragged_keys: string, \
         dense_defaults: Tdense -> sparse_indices: num_sparse * int64, sparse_values: sparse_types, \
         sparse_shapes: num_sparse * int64, dense_values: Tdense, ragged_values: ragged_value_types, \
         ragged_row_splits: ragged_split_types",
    )
    .attrs(
        "Tdense: list({float, int64, string}) >= 0; num_sparse: int >= 0; \
         sparse_types: list({float, int64, string}) >= 0; ragged_value_types: list({float, int64, string}) >= 0; \
         ragged_split_types: list({int32, int64}) >= 0; dense_shapes: list(shape) >= 0",
    )
    .shape(batch_shape)
    .kernel(parse_example_v2),
    Op::new(
        "ParseSingleExample",
        "serialized: string, dense_defaults: Tdense -> sparse_indices: num_sparse * int64, \
         sparse_values: sparse_types, sparse_shapes: num_sparse * int64, dense_values: Tdense",
    )
    .attrs(
        "num_sparse: int >= 0; sparse_keys: list(string) >= 0; dense_keys: list(string) >= 0; \
         sparse_types: list({float, int64, string}) >= 0; Tdense: list({float, int64, string}) >= 0; \
         dense_shapes: list(shape) >= 0",
    )
    .shape(batch_shape)
    .kernel(parse_single_example),
];

/// The shapes that follow from the attributes; sparse and ragged values have any length.
fn batch_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let rank = if ctx.node.op().name == "ParseSingleExample" { Some(0) } else { ctx.input(0).rank() };
    let (Some(rank), sparse) = (rank, ctx.attr::<Vec<DType>>("sparse_types")?.len()) else {
        return Ok(vec![PartialShape::unknown(); ctx.num_outputs()]);
    };
    ensure!(rank <= 1, InvalidArgument, "serialized examples must be a scalar or a vector, got rank {rank}");
    let batch = if rank == 0 { &[][..] } else { ctx.input(0).dims().unwrap_or(&[]) };
    let mut shapes = vec![PartialShape::new([None, Some(rank + 1)]); sparse];
    shapes.extend(vec![PartialShape::vector(None); sparse]);
    shapes.extend(vec![PartialShape::vector(Some(rank + 1)); sparse]);
    for dense in ctx.attr::<Vec<PartialShape>>("dense_shapes")? {
        let dims = dense.dims().map(|dims| PartialShape::new(batch.iter().chain(dims).copied()));
        shapes.push(dims.unwrap_or_default());
    }
    shapes.resize(ctx.num_outputs(), PartialShape::vector(None));
    Ok(shapes)
}

/// What is to be parsed, as attributes say it; keys may be inputs.
struct Layout {
    sparse_types: Vec<DType>,
    dense_types: Vec<DType>,
    dense_shapes: Vec<PartialShape>,
    ragged_types: Vec<DType>,
    split_types: Vec<DType>,
}

impl Layout {
    fn of_node(node: &NodeSpec<'_>) -> Result<Layout> {
        let ragged = node.op().name == "ParseExampleV2";
        let types = |name: &str| if ragged { node.attr(name) } else { Ok(Vec::new()) };
        let layout = Layout {
            sparse_types: node.attr("sparse_types")?,
            dense_types: node.attr("Tdense")?,
            dense_shapes: node.attr("dense_shapes")?,
            ragged_types: types("ragged_value_types")?,
            split_types: types("ragged_split_types")?,
        };
        ensure!(
            layout.dense_shapes.len() == layout.dense_types.len(),
            InvalidArgument,
            "len(dense_shapes) != len(Tdense): {} vs. {}",
            layout.dense_shapes.len(),
            layout.dense_types.len()
        );
        ensure!(
            layout.ragged_types.len() == layout.split_types.len(),
            InvalidArgument,
            "len(ragged_value_types) != len(ragged_split_types)"
        );
        Ok(layout)
    }

    fn check_keys(&self, keys: &Keys) -> Result<()> {
        for (what, keys, types) in [
            ("sparse", &keys.sparse, &self.sparse_types),
            ("dense", &keys.dense, &self.dense_types),
            ("ragged", &keys.ragged, &self.ragged_types),
        ] {
            ensure!(
                keys.len() == types.len(),
                InvalidArgument,
                "len({what}_keys) != len({what}_types): {} vs. {}",
                keys.len(),
                types.len()
            );
        }
        Ok(())
    }
}

#[derive(Default)]
struct Keys {
    sparse: Vec<String>,
    dense: Vec<String>,
    ragged: Vec<String>,
}

fn parse_example(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let layout = Layout::of_node(node)?;
    let (sparse, dense): (i64, i64) = (node.attr("Nsparse")?, node.attr("Ndense")?);
    let (sparse, dense) = (sparse as usize, dense as usize);
    ensure!(
        sparse == layout.sparse_types.len() && dense == layout.dense_types.len(),
        InvalidArgument,
        "Nsparse and Ndense must be the lengths of sparse_types and Tdense"
    );
    Ok(KernelBox::from_fn(move |ctx| {
        let key = |index: usize| text(ctx.input(index)?.to_string_scalar()?, "key");
        let keys = Keys {
            sparse: (2..2 + sparse).map(key).collect::<Result<_>>()?,
            dense: (2 + sparse..2 + sparse + dense).map(key).collect::<Result<_>>()?,
            ragged: Vec::new(),
        };
        ensure!(ctx.input(0)?.shape().rank() == 1, InvalidArgument, "Expected serialized to be a vector");
        let names = names_in(ctx)?;
        run(ctx, &layout, &keys, &names, 2 + sparse + dense)
    }))
}

fn parse_example_v2(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let layout = Layout::of_node(node)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let texts = |index: usize| -> Result<Vec<String>> {
            ctx.input(index)?.as_strings()?.iter().map(|bytes| text(bytes, "key")).collect()
        };
        let keys = Keys { sparse: texts(2)?, dense: texts(3)?, ragged: texts(4)? };
        layout.check_keys(&keys)?;
        let names = names_in(ctx)?;
        run(ctx, &layout, &keys, &names, 5)
    }))
}

fn parse_single_example(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let layout = Layout::of_node(node)?;
    let keys =
        Keys { sparse: node.attr("sparse_keys")?, dense: node.attr("dense_keys")?, ragged: Vec::new() };
    layout.check_keys(&keys)?;
    Ok(KernelBox::from_fn(move |ctx| {
        ensure!(ctx.input(0)?.is_scalar(), InvalidArgument, "serialized must be a scalar");
        run(ctx, &layout, &keys, &[], 1)
    }))
}

/// Names of the examples for messages: one for each, or none.
fn names_in(ctx: &Context<'_>) -> Result<Vec<Bytes>> {
    let (names, serialized) = (ctx.input(1)?, ctx.input(0)?);
    ensure!(
        names.num_elements() == 0 || names.num_elements() == serialized.num_elements(),
        InvalidArgument,
        "Expected len(names) == len(serialized), but got: {} vs. {}",
        names.num_elements(),
        serialized.num_elements()
    );
    Ok(names.as_strings()?.to_vec())
}

/// Parses all examples and sets all outputs; defaults of dense features start at input `first_default`.
fn run(
    ctx: &mut Context<'_>,
    layout: &Layout,
    keys: &Keys,
    names: &[Bytes],
    first_default: usize,
) -> Result<()> {
    let serialized = ctx.take_input(0)?;
    ensure!(
        serialized.shape().rank() <= 1,
        InvalidArgument,
        "serialized examples must be a scalar or a vector, got shape {}",
        serialized.shape()
    );
    let cancellation = &ctx.step.cancellation;
    let batch = Batch {
        cancellation,
        examples: look_into_all(cancellation, serialized.as_strings()?)?,
        names,
        is_batched: serialized.shape().rank() == 1,
    };
    let mut outputs = Vec::new();
    let sparse: Vec<SparseColumn> = (keys.sparse.iter().zip(&layout.sparse_types))
        .map(|(key, &dtype)| batch.sparse(key, dtype))
        .collect::<Result<_>>()?;
    outputs.extend(sparse.iter().map(|column| column.indices.clone()));
    outputs.extend(sparse.iter().map(|column| column.values.clone()));
    outputs.extend(sparse.iter().map(|column| column.shape.clone()));
    for (index, key) in keys.dense.iter().enumerate() {
        let default = ctx.input(first_default + index)?;
        outputs.push(batch.dense(key, layout.dense_types[index], &layout.dense_shapes[index], default)?);
    }
    let ragged: Vec<(Tensor, Tensor)> =
        (keys.ragged.iter().zip(&layout.ragged_types).zip(&layout.split_types))
            .map(|((key, &dtype), &splits)| batch.ragged(key, dtype, splits))
            .collect::<Result<_>>()?;
    outputs.extend(ragged.iter().map(|(values, _)| values.clone()));
    outputs.extend(ragged.iter().map(|(_, splits)| splits.clone()));
    for (index, output) in outputs.into_iter().enumerate() {
        ctx.set_output(index, output);
    }
    Ok(())
}

fn look_into_all<'a>(cancellation: &Cancellation, serialized: &'a [Bytes]) -> Result<Vec<ExampleView<'a>>> {
    let look =
        |(row, record): (usize, Result<&'a Bytes>)| ExampleView::of(record?).ok_or_else(|| unreadable(row));
    cancellation.unless_cancelled(serialized).enumerate().map(look).collect()
}

#[cold]
fn unreadable(row: usize) -> Status {
    Status::invalid_argument(format!("Could not parse example input, record {row}"))
}

/// Elements for which room is made before they have come.
const MAX_RESERVED: usize = 1 << 16;

/// The values of a feature, gathered over examples.
enum Values {
    Floats(Vec<f32>),
    Integers(Vec<i64>),
    Strings(Vec<Bytes>),
}

impl Values {
    fn new(dtype: DType) -> Result<Values> {
        Values::with_capacity(dtype, 0)
    }

    fn with_capacity(dtype: DType, count: usize) -> Result<Values> {
        match dtype {
            DType::Float => memory::vec_with_room(count).map(Values::Floats),
            DType::Int64 => memory::vec_with_room(count).map(Values::Integers),
            DType::String => memory::vec_with_room(count).map(Values::Strings),
            other => Err(no_kernel(other)),
        }
    }

    fn len(&self) -> usize {
        match self {
            Values::Floats(values) => values.len(),
            Values::Integers(values) => values.len(),
            Values::Strings(values) => values.len(),
        }
    }

    fn dtype(&self) -> DType {
        match self {
            Values::Floats(_) => DType::Float,
            Values::Integers(_) => DType::Int64,
            Values::Strings(_) => DType::String,
        }
    }

    /// Appends a feature's values, which are of the same type; `None` if they cannot be read.
    fn extend(&mut self, feature: &FeatureView<'_>) -> Result<Option<()>> {
        let more = feature.max_len();
        Ok(match self {
            Values::Floats(values) => {
                memory::make_room(values, more)?;
                feature.floats(values)
            }
            Values::Integers(values) => {
                memory::make_room(values, more)?;
                feature.integers(values)
            }
            Values::Strings(values) => {
                memory::make_room(values, more)?;
                feature.strings(values)
            }
        })
    }

    fn extend_from_tensor(&mut self, tensor: &Tensor) -> Result<()> {
        match self {
            Values::Floats(values) => memory::append(values, tensor.as_slice()?),
            Values::Integers(values) => memory::append(values, tensor.as_slice()?),
            Values::Strings(values) => memory::append(values, tensor.as_strings()?),
        }
    }

    fn into_tensor(self, dims: &[usize]) -> Result<Tensor> {
        match self {
            Values::Floats(values) => Tensor::from_slice(&values, dims),
            Values::Integers(values) => Tensor::from_slice(&values, dims),
            Values::Strings(values) => Tensor::from_strings(values, dims),
        }
    }
}

struct SparseColumn {
    indices: Tensor,
    values: Tensor,
    shape: Tensor,
}

/// Decoded examples.
struct Batch<'a> {
    cancellation: &'a Cancellation,
    examples: Vec<ExampleView<'a>>,
    names: &'a [Bytes],
    /// Whether the examples are a batch, even of one.
    is_batched: bool,
}

impl<'a> Batch<'a> {
    fn feature(&self, row: usize, key: &str) -> Result<Option<FeatureView<'a>>> {
        let feature = self.examples[row].feature(key);
        feature.map(|feature| feature.ok_or_else(|| unreadable(row))).transpose()
    }

    fn name(&self, row: usize) -> String {
        self.names.get(row).map_or("<unknown>".into(), |name| String::from_utf8_lossy(name).into_owned())
    }

    /// Appends the values of a feature; says whether it is there.
    fn append(&self, values: &mut Values, row: usize, key: &str) -> Result<bool> {
        self.cancellation.check()?;
        let Some(feature) = self.feature(row, key)? else { return Ok(false) };
        let (dtype, found) = (values.dtype(), feature.dtype());
        ensure!(
            found == dtype,
            InvalidArgument,
            "Name: {}, Key: {key}, Index: {row}.  Data types don't match. Expected type: {dtype}, got: {found}",
            self.name(row)
        );
        values.extend(&feature)?.ok_or_else(|| unreadable(row))?;
        Ok(true)
    }

    /// All values of a feature, and how many each example has.
    fn gather(&self, key: &str, dtype: DType) -> Result<(Values, Vec<usize>)> {
        let mut values = Values::new(dtype)?;
        let mut lengths = memory::vec_with_room(self.examples.len())?;
        for row in 0..self.examples.len() {
            let before = values.len();
            self.append(&mut values, row, key)?;
            lengths.push(values.len() - before);
        }
        Ok((values, lengths))
    }

    fn sparse(&self, key: &str, dtype: DType) -> Result<SparseColumn> {
        let (values, lengths) = self.gather(key, dtype)?;
        let widest = lengths.iter().copied().max().unwrap_or(0) as i64;
        let mut indices = memory::vec_with_room(values.len() * (1 + usize::from(self.is_batched)))?;
        for (row, &length) in lengths.iter().enumerate() {
            for column in 0..length as i64 {
                if self.is_batched {
                    indices.push(row as i64);
                }
                indices.push(column);
            }
        }
        let (count, rank) = (values.len(), 1 + self.is_batched as usize);
        let shape = if self.is_batched { vec![lengths.len() as i64, widest] } else { vec![widest] };
        Ok(SparseColumn {
            indices: Tensor::from_slice(&indices, &[count, rank])?,
            values: values.into_tensor(&[count])?,
            shape: Tensor::vector(&shape)?,
        })
    }

    fn ragged(&self, key: &str, dtype: DType, split_type: DType) -> Result<(Tensor, Tensor)> {
        ensure!(self.is_batched, Unimplemented, "ragged features of a single example (key {key})");
        let (values, lengths) = self.gather(key, dtype)?;
        let mut splits = memory::vec_with_room(lengths.len() + 1)?;
        splits.push(0i64);
        for length in lengths {
            splits.push(splits[splits.len() - 1] + length as i64);
        }
        let count = values.len();
        let splits = match split_type {
            DType::Int32 => Tensor::vector(&memory::collect(splits.iter().map(|&split| split as i32))?)?,
            _ => Tensor::vector(&splits)?,
        };
        Ok((values.into_tensor(&[count])?, splits))
    }

    /// A dense feature has the same shape in every example, or is filled up along an unknown first dimension.
    fn dense(&self, key: &str, dtype: DType, shape: &PartialShape, default: &Tensor) -> Result<Tensor> {
        let Some(dims) = shape.dims() else { bail!(InvalidArgument, "dense_shapes of {key} has no rank") };
        let batch = if self.is_batched { &[self.examples.len()][..] } else { &[] };
        let inner: Option<Vec<usize>> = dims.iter().copied().collect();
        match (inner, dims) {
            (Some(inner), _) => self.fixed(key, dtype, &inner, batch, default),
            (None, [None, rest @ ..]) if rest.iter().all(Option::is_some) => {
                let rest: Vec<usize> = rest.iter().copied().flatten().collect();
                self.padded(key, dtype, &rest, batch, default)
            }
            _ => bail!(
                InvalidArgument,
                "only the first dimension of dense feature {key} may be unknown: {shape}"
            ),
        }
    }

    fn fixed(
        &self,
        key: &str,
        dtype: DType,
        inner: &[usize],
        batch: &[usize],
        default: &Tensor,
    ) -> Result<Tensor> {
        let shape = Shape::new(inner)?;
        // As much as there is if all is well, but not more for a shape that no example fills.
        let expected = shape.num_elements().saturating_mul(self.examples.len());
        let mut values = Values::with_capacity(dtype, expected.min(MAX_RESERVED))?;
        for row in 0..self.examples.len() {
            let before = values.len();
            if !self.append(&mut values, row, key)? {
                ensure!(
                    default.num_elements() > 0 || shape.num_elements() == 0,
                    InvalidArgument,
                    "Name: {}, Feature: {key} (data type: {dtype}) is required but could not be found.",
                    self.name(row)
                );
                values.extend_from_tensor(default)?;
            }
            let found = values.len() - before;
            ensure!(
                found == shape.num_elements(),
                InvalidArgument,
                "Name: {}, Key: {key}, Index: {row}.  Number of {dtype} values != expected.  values size: {found} \
                 but output shape: {shape}",
                self.name(row)
            );
        }
        values.into_tensor(&[batch, inner].concat())
    }

    fn padded(
        &self,
        key: &str,
        dtype: DType,
        rest: &[usize],
        batch: &[usize],
        default: &Tensor,
    ) -> Result<Tensor> {
        let stride = Shape::new(rest)?.num_elements().max(1);
        let (_, lengths) = self.gather(key, dtype)?;
        let longest = lengths.iter().copied().max().unwrap_or(0);
        ensure!(
            default.num_elements() == 1 || lengths.iter().all(|&length| length == longest),
            InvalidArgument,
            "the default of feature {key}, which has no fixed length, must be a scalar"
        );
        let mut values = Values::new(dtype)?;
        for (row, &length) in lengths.iter().enumerate() {
            ensure!(
                length.is_multiple_of(stride),
                InvalidArgument,
                "Name: {}, Key: {key}, Index: {row}.  Number of {dtype} values is not a multiple of stride length. \
                 Saw {length} values but output shape is: {rest:?}",
                self.name(row)
            );
            self.append(&mut values, row, key)?;
            for _ in length..longest {
                values.extend_from_tensor(default)?;
            }
        }
        values.into_tensor(&[batch, &[longest / stride], rest].concat())
    }
}

#[cfg(test)]
#[path = "examples_tests.rs"]
mod tests;
