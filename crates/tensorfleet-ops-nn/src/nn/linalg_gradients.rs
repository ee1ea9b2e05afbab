//! Gradients of linear algebra.
//!
//! Matrices come in batches, and may be complex: adjoints, not transposes.

use tensorfleet_core::{Endpoint, Result, Tensor};

use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Formula, Grads, Symbol, apply};

/// `a * b`, of which each may be taken as its adjoint.
fn product(
    d: &mut Differential<'_>,
    (a, adj_a): (Endpoint, bool),
    (b, adj_b): (Endpoint, bool),
) -> Result<Endpoint> {
    d.emit(NewNode::new("BatchMatMulV2").input(a).input(b).attr("adj_x", adj_a).attr("adj_y", adj_b))
}

/// The part of matrices on and below the diagonal, or on and above it.
fn triangle(d: &mut Differential<'_>, matrix: Endpoint, lower: bool) -> Result<Endpoint> {
    let (below, above) = if lower { (-1i64, 0i64) } else { (0, -1) };
    let band = NewNode::new("MatrixBandPart").input(matrix);
    d.emit(band.input(Tensor::scalar(below)).input(Tensor::scalar(above)))
}

/// The adjoint of matrices.
fn adjoint(d: &mut Differential<'_>, matrix: Endpoint) -> Result<Endpoint> {
    let op = if d.dtype(matrix)?.is_complex() { "ConjugateTranspose" } else { "Transpose" };
    let order = match d.shape(matrix)?.rank() {
        Some(rank) => {
            let mut order: Vec<i32> = (0..rank as i32).collect();
            if let [.., rows, columns] = &mut order[..] {
                std::mem::swap(rows, columns);
            }
            d.constant(Tensor::vector(&order)?)?
        }
        None => {
            let rank = Symbol(d.op("Rank", [matrix])?);
            let one = Symbol(d.constant(Tensor::scalar(1i32))?);
            let (zero, two) = (d.constant(Tensor::scalar(0i32))?, Symbol(d.constant(Tensor::scalar(2i32))?));
            let (rows, columns) = (d.build(rank - two)?, d.build(rank - one)?);
            let batch = d.op("Range", [zero, rows, one.0])?;
            let swapped = d.emit(NewNode::new("Pack").input_list([columns, rows]))?;
            d.emit(NewNode::new("ConcatV2").input_list([batch, swapped]).input(zero))?
        }
    };
    d.op(op, [matrix, order])
}

/// A number for each matrix, so that it multiplies all of it.
fn for_each_matrix(d: &mut Differential<'_>, numbers: impl Into<Formula>) -> Result<Symbol> {
    let (numbers, last) = (d.build(numbers)?, d.constant(Tensor::scalar(-1i32))?);
    let rows = d.op("ExpandDims", [numbers, last])?;
    d.op("ExpandDims", [rows, last]).map(Symbol)
}

/// With `L` the factor and `M` the lower triangle of `L* dL`, its diagonal halved: the Hermitian part of `L^-* M L^-1`.
pub(super) fn cholesky_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (factor, dy) = (d.output(0), d.dy(0)?);
    let middle = product(d, (factor, true), (dy, false))?;
    let diagonal = d.op("MatrixDiagPart", [middle])?;
    let half = d.scalar_like(diagonal, 0.5)?;
    let diagonal = d.op("Mul", [diagonal, half])?;
    let middle = d.op("MatrixSetDiag", [middle, diagonal])?;
    let middle = triangle(d, middle, true)?;
    let mut solve = |right: Endpoint| {
        d.emit(NewNode::new("MatrixTriangularSolve").input(factor).input(right).attr("adjoint", true))
    };
    let once = solve(middle)?;
    let turned = adjoint(d, once)?;
    let twice =
        d.emit(NewNode::new("MatrixTriangularSolve").input(factor).input(turned).attr("adjoint", true))?;
    let other = Symbol(adjoint(d, twice)?);
    d.flow([(Symbol(twice) + other) * 0.5])
}

pub(super) fn inverse_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (inverse, dy, is_adjoint): (_, _, bool) = (d.output(0), d.dy(0)?, d.attr("adjoint")?);
    let right = product(d, (dy, is_adjoint), (inverse, !is_adjoint))?;
    let both = product(d, (inverse, !is_adjoint), (right, false))?;
    d.flow([apply("Neg", both)])
}

pub(super) fn determinant_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (y, dy) = (d.y(0), d.arriving_at(0)?);
    spread_over_inverse(d, dy * y)
}

/// Only the logarithm has a gradient, not the sign.
pub(super) fn log_determinant_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let dy = d.arriving_at(1)?;
    spread_over_inverse(d, dy.into())
}

fn spread_over_inverse(d: &mut Differential<'_>, numbers: Formula) -> Result<Grads> {
    let (x, numbers) = (d.input(0)?, for_each_matrix(d, numbers)?);
    let inverse = d.emit(NewNode::new("MatrixInverse").input(x).attr("adjoint", true)).map(Symbol)?;
    d.flow([numbers * inverse])
}

pub(super) fn solve_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (matrix, dy, is_adjoint): (_, _, bool) = (d.input(0)?, d.dy(0)?, d.attr("adjoint")?);
    let right = d.emit(NewNode::new("MatrixSolve").input(matrix).input(dy).attr("adjoint", !is_adjoint))?;
    let matrix = of_matrix(d, right, is_adjoint)?;
    d.flow([apply("Neg", matrix), right.into()])
}

pub(super) fn triangular_solve_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (matrix, right, dy) = (d.input(0)?, d.input(1)?, d.dy(0)?);
    let (is_adjoint, lower): (bool, bool) = (d.attr("adjoint")?, d.attr("lower")?);
    let solve = NewNode::new("MatrixTriangularSolve").input(matrix).input(dy);
    let dright = d.emit(solve.attr("adjoint", !is_adjoint).attr("lower", lower))?;
    let dmatrix = of_matrix(d, dright, is_adjoint)?;
    let dmatrix = d.op("Neg", [dmatrix])?;
    let dmatrix = triangle(d, dmatrix, lower)?;
    let (dmatrix, dright) = d.unbroadcast_batch((matrix, dmatrix), (right, dright))?;
    d.flow([dmatrix.into(), dright.into()])
}

/// The negative gradient of the matrix, from that of the right side.
fn of_matrix(d: &mut Differential<'_>, right: Endpoint, is_adjoint: bool) -> Result<Endpoint> {
    let solution = d.output(0);
    match is_adjoint {
        true => product(d, (solution, false), (right, true)),
        false => product(d, (right, false), (solution, true)),
    }
}
