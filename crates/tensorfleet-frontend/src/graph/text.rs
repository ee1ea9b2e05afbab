//! Strings.

use tensorfleet_core::{DType, Result};

use super::graph::Graph;
use super::operand::{Operand, OperandList};
use super::output::Output;

impl Output {
    /// Numbers as text.
    pub fn as_string(&self) -> Result<Output> {
        self.unary("AsString")
    }

    /// Text as numbers of this dtype.
    ///
    /// ```
    /// # use tensorfleet::{DType, Graph, Session};
    /// let g = Graph::new();
    /// let numbers = g.constant(["1.5", "-2"]).string_to_number(DType::Float)?;
    /// assert_eq!(Session::new(&g).run(&numbers)?.as_slice::<f32>()?, [1.5, -2.0]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn string_to_number(&self, dtype: DType) -> Result<Output> {
        self.op("StringToNumber").attr("out_type", dtype).output()
    }

    /// One of `buckets` numbers for each string, always the same; what becomes of words before an embedding.
    pub fn string_to_hash_bucket_fast(&self, buckets: i64) -> Result<Output> {
        self.op("StringToHashBucketFast").attr("num_buckets", buckets).output()
    }

    /// The number of bytes.
    pub fn string_length(&self) -> Result<Output> {
        self.unary("StringLength")
    }

    /// `length` bytes from `position`.
    pub fn substr(&self, position: impl Operand, length: impl Operand) -> Result<Output> {
        self.op("Substr").input(position).input(length).output()
    }

    /// With every match of a regular expression replaced.
    pub fn regex_replace(&self, pattern: impl Operand, replacement: impl Operand) -> Result<Output> {
        self.op("RegexReplace").input(pattern).input(replacement).output()
    }
}

impl Graph {
    /// Strings joined element by element, with `separator` between them.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let joined = g.string_join((g.constant("a"), g.constant(["b", "c"])), "-")?;
    /// assert_eq!(Session::new(&g).run(&joined)?.to_string(), "['a-b' 'a-c']");
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn string_join(&self, inputs: impl OperandList, separator: &str) -> Result<Output> {
        self.op("StringJoin").inputs(inputs).attr("separator", separator).output()
    }
}
