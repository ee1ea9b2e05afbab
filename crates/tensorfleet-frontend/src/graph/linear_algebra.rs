//! Matrices: products, diagonals, inverses.

use tensorfleet_core::{DType, Result};

use super::graph::Graph;
use super::operand::{Operand, OperandList};
use super::output::Output;

/// Which operand of [`Output::matmul_with`] is turned first.
///
/// ```
/// # use tensorfleet::{Graph, MatMulOptions, Session};
/// let g = Graph::new();
/// let x = g.constant([[1.0f32, 2.0]]);
/// let square = x.matmul_with(&x, MatMulOptions { transpose_b: true, ..Default::default() })?;
/// assert_eq!(Session::new(&g).run(&square)?.as_slice::<f32>()?, [5.0]);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct MatMulOptions {
    /// The first matrix is transposed.
    pub transpose_a: bool,
    /// The second matrix is transposed.
    pub transpose_b: bool,
}

impl Output {
    /// The matrix product of operands that may be transposed.
    pub fn matmul_with(&self, other: impl Operand, options: MatMulOptions) -> Result<Output> {
        let MatMulOptions { transpose_a, transpose_b } = options;
        let is_batch = self.shape()?.rank().is_some_and(|rank| rank > 2);
        let (op, names) = match is_batch {
            true => ("BatchMatMulV2", ["adj_x", "adj_y"]),
            false => ("MatMul", ["transpose_a", "transpose_b"]),
        };
        let node = self.op(op).input(other).name("MatMul");
        node.attr(names[0], transpose_a).attr(names[1], transpose_b).output()
    }

    /// Matrices, or what is called so, with this on the diagonal and zeros elsewhere.
    pub fn matrix_diag(&self) -> Result<Output> {
        self.unary("MatrixDiag")
    }

    /// The diagonals of matrices.
    pub fn matrix_diag_part(&self) -> Result<Output> {
        self.unary("MatrixDiagPart")
    }

    /// Matrices with zeros outside `lower` diagonals below the main one and `upper` above it; -1 keeps all of a side.
    pub fn matrix_band_part(&self, lower: impl Operand, upper: impl Operand) -> Result<Output> {
        self.op("MatrixBandPart").input(lower).input(upper).output()
    }

    /// The inverse of square matrices.
    pub fn matrix_inverse(&self) -> Result<Output> {
        self.unary("MatrixInverse")
    }

    /// The determinant of square matrices.
    pub fn matrix_determinant(&self) -> Result<Output> {
        self.unary("MatrixDeterminant")
    }

    /// The `x` for which this matrix times `x` is `right`.
    pub fn matrix_solve(&self, right: impl Operand) -> Result<Output> {
        self.binary("MatrixSolve", right)
    }

    /// The lower triangle whose product with its transpose is this matrix.
    pub fn cholesky(&self) -> Result<Output> {
        self.unary("Cholesky")
    }
}

impl Graph {
    /// Products and sums over named axes, as Einstein wrote them.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let (a, b) = (g.constant([[1.0f32, 2.0]]), g.constant([[3.0f32, 4.0]]));
    /// let dot = g.einsum("ij,ij->i", (&a, &b))?;
    /// assert_eq!(Session::new(&g).run(&dot)?.as_slice::<f32>()?, [11.0]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn einsum(&self, equation: &str, inputs: impl OperandList) -> Result<Output> {
        self.op("Einsum").inputs(inputs).attr("equation", equation).name("einsum").output()
    }

    /// The identity matrix (float) of so many rows.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// assert_eq!(Session::new(&g).run(g.eye(2)?)?.to_string(), "[[1. 0.]\n [0. 1.]]");
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn eye(&self, rows: i64) -> Result<Output> {
        self.name_scope("eye", || self.ones(DType::Float, [rows])?.op("MatrixDiag").name("diag").output())
    }
}
