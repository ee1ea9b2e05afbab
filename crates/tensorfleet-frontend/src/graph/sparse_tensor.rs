//! [`SparseTensor`]: a tensor of which few elements are given.

use tensorfleet_core::{DType, Result};

use super::graph::Graph;
use super::operand::Operand;
use super::output::Output;

/// A tensor of which few elements are given, in the order of rows.
///
/// ```
/// # use tensorfleet::{Graph, Session, SparseTensor};
/// let g = Graph::new();
/// // Two words in the first text, one in the second.
/// let texts = SparseTensor::new(&g, [[0i64, 0], [0, 1], [1, 0]], [12i64, 7, 3], [2i64, 2])?;
/// let dense = texts.to_dense(-1i64)?;
/// assert_eq!(Session::new(&g).run(&dense)?.as_slice::<i64>()?, [12, 7, 3, -1]);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone, Debug)]
pub struct SparseTensor {
    /// A row of int64 for each element that is given: where it stands.
    pub indices: Output,
    /// The elements.
    pub values: Output,
    /// The shape, an int64 vector.
    pub dense_shape: Output,
}

impl SparseTensor {
    /// Puts three values, of which literals become constants, together.
    pub fn new(
        graph: &Graph,
        indices: impl Operand,
        values: impl Operand,
        dense_shape: impl Operand,
    ) -> Result<SparseTensor> {
        Ok(SparseTensor {
            indices: indices.into_arg().into_output(graph, "indices", Some(DType::Int64))?,
            values: values.into_arg().into_output(graph, "values", None)?,
            dense_shape: dense_shape.into_arg().into_output(graph, "dense_shape", Some(DType::Int64))?,
        })
    }

    /// Three values to be fed, for a matrix.
    ///
    /// ```
    /// # use tensorfleet::{DType, Graph, SparseTensor};
    /// let g = Graph::new();
    /// let words = SparseTensor::placeholder(&g, DType::Int64);
    /// assert_eq!(words.values.dtype()?, DType::Int64);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn placeholder(graph: &Graph, dtype: DType) -> SparseTensor {
        SparseTensor {
            indices: graph.placeholder(DType::Int64, [-1, 2]),
            values: graph.placeholder(dtype, [-1]),
            dense_shape: graph.placeholder(DType::Int64, [2]),
        }
    }

    /// All elements: those that are not given are `default`.
    pub fn to_dense(&self, default: impl Operand) -> Result<Output> {
        let dense = self.indices.op("SparseToDense").input(&self.dense_shape).input(&self.values);
        dense.input(default).output()
    }
}
