//! Embeddings: rows of tables, which may be divided over parameter servers.
//!
//! Only ids and rows travel: ids are sorted by the part of the table they belong to, each part gathers its rows where it is, and
//! the rows are put into the order of the ids again. Gradients go the same way back and stay
//! sparse ([`IndexedSlices`](crate::IndexedSlices)).

use tensorfleet_core::{DType, Result, Status, ensure};

use crate::graph::{Graph, Operand, Output, SparseTensor, Variable};
use crate::variables::{PartitionedVariable, mod_tables};

/// Which part of a divided table has the row of an id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartitionStrategy {
    /// Rows go round: of 3 parts the first has the ids 0, 3, 6, …; TensorFlow's default.
    ///
    /// The row of an id then depends on the number of parts, and the table as a whole (given values, exports, checkpoints) is not in
    /// the order of ids: a checkpoint that is restored in another number of parts, as with one parameter server more, gives most ids
    /// the rows of others. A restore warns of it. Use [`Div`](PartitionStrategy::Div) unless a table of TensorFlow's is continued.
    #[default]
    Mod,
    /// Rows stay together: of 3 parts of 7 rows the first has the ids 0, 1, 2. The whole of a [`PartitionedVariable`] is
    /// then the table in the order of ids.
    Div,
}

/// How the rows of several ids become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Combiner {
    /// Their weighted sum.
    Sum,
    /// Their weighted sum divided by the sum of the weights.
    #[default]
    Mean,
    /// Their weighted sum divided by the root of the sum of the squares of the weights.
    SqrtN,
}

/// A table whole or in parts: a [`Variable`], several of them, or a [`PartitionedVariable`].
#[derive(Clone, Debug)]
pub struct EmbeddingParams(Vec<Variable>);

impl From<&Variable> for EmbeddingParams {
    fn from(table: &Variable) -> EmbeddingParams {
        EmbeddingParams(vec![table.clone()])
    }
}

impl From<&[Variable]> for EmbeddingParams {
    fn from(parts: &[Variable]) -> EmbeddingParams {
        EmbeddingParams(parts.to_vec())
    }
}

impl From<&Vec<Variable>> for EmbeddingParams {
    fn from(parts: &Vec<Variable>) -> EmbeddingParams {
        EmbeddingParams(parts.clone())
    }
}

impl From<&PartitionedVariable> for EmbeddingParams {
    fn from(table: &PartitionedVariable) -> EmbeddingParams {
        EmbeddingParams(table.parts().to_vec())
    }
}

impl Graph {
    /// The rows of these ids, gathered where the table, or the part of it that has them, is.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Initializer, PartitionStrategy, Partitioner, Session};
    /// let g = Graph::new();
    /// let table = g.get_variable("table").shape([4, 1]).initializer(Initializer::constant([0.0f32, 10.0]));
    /// let table = table.partitioner(Partitioner::fixed_size(2)).build()?;
    /// let rows = g.embedding_lookup(&table, [[3], [0]], PartitionStrategy::Div)?;
    /// assert_eq!(rows.shape()?.to_string(), "[2,1,1]");
    /// let session = Session::new(&g);
    /// session.run(g.global_variables_initializer()?)?;
    /// assert_eq!(session.run(&rows)?.as_slice::<f32>()?, [10.0, 0.0]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn embedding_lookup(
        &self,
        params: impl Into<EmbeddingParams>,
        ids: impl Operand,
        strategy: PartitionStrategy,
    ) -> Result<Output> {
        let EmbeddingParams(parts) = params.into();
        self.name_scope("embedding_lookup", || {
            let ids = ids.into_arg().into_output(self, "ids", None)?;
            match &parts[..] {
                [] => Err(Status::invalid_argument("embedding_lookup needs a table of at least one part")),
                [only] => only.gather(&ids),
                parts => divided_lookup(self, parts, &ids, strategy),
            }
        })
    }

    /// A row for each row of `ids`: the combined rows of its ids. With `weights`, which must have the same indices, they are
    /// weighted. Rows without ids at the end are left out, as in TensorFlow; [`Graph::safe_embedding_lookup_sparse`] is the
    /// one for ids that may be missing.
    ///
    /// ```
    /// # use tensorfleet::{Combiner, Graph, PartitionStrategy, Session, SparseTensor};
    /// let g = Graph::new();
    /// let table = g.variable("table", [[1.0f32, 1.0], [2.0, 4.0], [3.0, 9.0]]);
    /// let words = SparseTensor::new(&g, [[0i64, 0], [0, 1], [1, 0]], [1i64, 2, 0], [2i64, 2])?;
    /// let texts =
    ///     g.embedding_lookup_sparse(&table, &words, None, Combiner::Mean, PartitionStrategy::Mod)?;
    /// let session = Session::new(&g);
    /// session.run(table.initializer())?;
    /// assert_eq!(session.run(&texts)?.as_slice::<f32>()?, [2.5, 6.5, 1.0, 1.0]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn embedding_lookup_sparse(
        &self,
        params: impl Into<EmbeddingParams>,
        ids: &SparseTensor,
        weights: Option<&SparseTensor>,
        combiner: Combiner,
        strategy: PartitionStrategy,
    ) -> Result<Output> {
        let params = params.into();
        self.name_scope("embedding_lookup_sparse", || {
            let segments = ids.indices.index((.., 0))?.cast(DType::Int32)?;
            // An id that comes twice is looked up once.
            let unique = ids.values.op("Unique").build()?;
            let (ids, places) = (unique.output(0), unique.output(1));
            let rows = self.embedding_lookup(params, &ids, strategy)?;
            match weights {
                None => {
                    let op = match combiner {
                        Combiner::Sum => "SparseSegmentSum",
                        Combiner::Mean => "SparseSegmentMean",
                        Combiner::SqrtN => "SparseSegmentSqrtN",
                    };
                    rows.op(op).input(&places).input(&segments).output()
                }
                Some(weights) => weighted(&rows.gather(&places)?, &weights.values, &segments, combiner),
            }
        })
    }

    /// [`Graph::embedding_lookup_sparse`] for a matrix of ids of which some may be missing or negative: these are left out,
    /// as are those with weights of zero or less unless rows are only summed. A row without ids is zero.
    ///
    /// ```
    /// # use tensorfleet::{Combiner, Graph, PartitionStrategy, Session, SparseTensor};
    /// let g = Graph::new();
    /// let table = g.variable("table", [[1.0f32], [2.0], [3.0]]);
    /// let words = SparseTensor::new(&g, [[0i64, 0], [2, 0], [2, 1]], [-1i64, 2, 1], [3i64, 2])?;
    /// let texts =
    ///     g.safe_embedding_lookup_sparse(&table, &words, None, Combiner::Sum, PartitionStrategy::Mod)?;
    /// let session = Session::new(&g);
    /// session.run(table.initializer())?;
    /// assert_eq!(session.run(&texts)?.as_slice::<f32>()?, [0.0, 0.0, 5.0]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn safe_embedding_lookup_sparse(
        &self,
        params: impl Into<EmbeddingParams>,
        ids: &SparseTensor,
        weights: Option<&SparseTensor>,
        combiner: Combiner,
        strategy: PartitionStrategy,
    ) -> Result<Output> {
        let params = params.into();
        self.name_scope("safe_embedding_lookup_sparse", || {
            let mut is_valid = ids.values.greater_equal(0)?;
            if let (Some(weights), Combiner::Mean | Combiner::SqrtN) = (weights, combiner) {
                is_valid = is_valid.logical_and(weights.values.greater(0.0)?)?;
            }
            let retained = |values: &Output, default: f64| -> Result<[Output; 3]> {
                let indices = ids.indices.boolean_mask(&is_valid)?;
                let default = self.literal("default_value", default, values.dtype()?)?;
                let filled = indices.op("SparseFillEmptyRows").input(values.boolean_mask(&is_valid)?);
                let filled = filled.input(&ids.dense_shape).input(default).build()?;
                Ok([filled.output(0), filled.output(1), filled.output(2)])
            };
            let [indices, values, is_empty] = retained(&ids.values, 0.0)?;
            let dense_shape = ids.dense_shape.clone();
            let weights = match weights {
                None => None,
                Some(weights) => {
                    let [indices, values, _] = retained(&weights.values, 1.0)?;
                    Some(SparseTensor { indices, values, dense_shape: dense_shape.clone() })
                }
            };
            let ids = SparseTensor { indices, values, dense_shape };
            let rows = self.embedding_lookup_sparse(params, &ids, weights.as_ref(), combiner, strategy)?;
            let is_empty = is_empty.expand_dims(1)?;
            self.op("SelectV2").input(is_empty).input(rows.zeros_like()?).input(&rows).output()
        })
    }
}

fn divided_lookup(
    graph: &Graph,
    parts: &[Variable],
    ids: &Output,
    strategy: PartitionStrategy,
) -> Result<Output> {
    let flat = ids.reshape([-1])?;
    let (part_of, row_of) = match strategy {
        PartitionStrategy::Mod => {
            mod_tables::note(graph, parts);
            modulo(graph, parts.len(), &flat)?
        }
        PartitionStrategy::Div => divided(graph, parts, &flat)?,
    };
    let part_of = part_of.cast(DType::Int32)?;
    let count = parts.len() as i64;
    let split = |values: &Output| {
        let split = values.op("DynamicPartition").input(&part_of).attr("num_partitions", count);
        split.build()?.outputs()
    };
    let rows_of_parts = split(&row_of)?;
    let places = split(&graph.range(0, flat.size()?, 1)?)?;
    let mut found = Vec::with_capacity(parts.len());
    for (part, rows) in parts.iter().zip(&rows_of_parts) {
        found.push(part.gather(rows)?);
    }
    let rows = graph.op("ParallelDynamicStitch").inputs(places).inputs(found).output()?;
    // The shape of the ids, followed by that of a row.
    let row_shape: Vec<i32> = row_dims(parts)?.iter().map(|&dim| dim as i32).collect();
    let known = ids.shape()?.to_shape().filter(|shape| !shape.is_empty());
    match known {
        Some(shape) => {
            let ids = shape.iter().map(|&dim| dim as i32);
            rows.reshape(ids.chain(row_shape.iter().copied()).collect::<Vec<i32>>())
        }
        None => {
            let shape = graph.concat([ids.shape_tensor()?, graph.constant(row_shape).check()?], 0)?;
            let rows = rows.reshape(shape)?;
            if let Some(dims) = ids.shape()?.dims() {
                let row = row_dims(parts)?;
                let full = dims.iter().copied().chain(row.into_iter().map(Some));
                rows.set_shape(tensorfleet_core::PartialShape::new(full))?;
            }
            Ok(rows)
        }
    }
}

/// The shape of a row, which all parts must agree on.
fn row_dims(parts: &[Variable]) -> Result<Vec<usize>> {
    let mut agreed: Option<Vec<usize>> = None;
    for part in parts {
        let shape = part.shape()?;
        let row =
            shape.to_shape().and_then(|shape| shape.get(1..).map(<[usize]>::to_vec)).ok_or_else(|| {
                Status::invalid_argument(format!(
                    "A part of a table needs rows of known shape: variable '{}' has the shape {shape}",
                    part.name()
                ))
            })?;
        match &agreed {
            Some(agreed) => ensure!(
                *agreed == row,
                InvalidArgument,
                "The parts of a table must have rows of one shape: those of variable '{}' are {row:?}, those before {agreed:?}",
                part.name()
            ),
            None => agreed = Some(row),
        }
    }
    Ok(agreed.unwrap_or_default())
}

/// The part and the row in it of each id, if rows go round.
fn modulo(graph: &Graph, parts: usize, ids: &Output) -> Result<(Output, Output)> {
    let parts = graph.literal("parts", parts as f64, ids.dtype()?)?;
    Ok((ids.floor_mod(&parts)?, ids.floor_div(&parts)?))
}

/// The part and the row in it of each id, if rows stay together: the first parts have one row more if the table does not
/// divide evenly.
fn divided(graph: &Graph, parts: &[Variable], ids: &Output) -> Result<(Output, Output)> {
    let mut total = 0usize;
    for part in parts {
        total += part.shape()?.dim(0).ok_or_else(|| {
            Status::invalid_argument(format!(
                "The strategy Div needs to know the rows of each part: variable '{}' has the shape {}",
                part.name(),
                part.shape().unwrap_or_default()
            ))
        })?;
    }
    let (rows, extras) = (total / parts.len(), total % parts.len());
    ensure!(
        rows > 0,
        InvalidArgument,
        "a table of {total} rows cannot be divided into {} parts",
        parts.len()
    );
    let dtype = ids.dtype()?;
    let number = |name: &str, value: usize| graph.literal(name, value as f64, dtype);
    let (rows, more) = (number("rows", rows)?, number("rows_of_first", rows + 1)?);
    let extras = number("extras", extras)?;
    let later = ids.sub(&extras)?;
    let part_of = ids.floor_div(&more)?.maximum(later.floor_div(&rows)?)?;
    let is_first = part_of.less(&extras)?;
    let row_of = graph.op("SelectV2").input(is_first).input(ids.floor_mod(&more)?);
    Ok((part_of, row_of.input(later.floor_mod(&rows)?).output()?))
}

fn weighted(rows: &Output, weights: &Output, segments: &Output, combiner: Combiner) -> Result<Output> {
    let graph = rows.graph();
    let weights = weights.cast(rows.dtype()?)?;
    let rank = rows.shape()?.rank().ok_or_else(|| {
        Status::invalid_argument("embedding_lookup_sparse with weights needs a table whose rank is known")
    })?;
    let column: Vec<i32> =
        std::iter::once(-1).chain(std::iter::repeat_n(1, rank.saturating_sub(1))).collect();
    let weights = weights.reshape(graph.constant(column))?;
    let summed = |values: &Output| values.op("SegmentSum").input(segments).output();
    let sum = summed(&rows.mul(&weights)?)?;
    match combiner {
        Combiner::Sum => Ok(sum),
        Combiner::Mean => sum.div(summed(&weights)?),
        Combiner::SqrtN => sum.div(summed(&weights.square()?)?.sqrt()?),
    }
}
