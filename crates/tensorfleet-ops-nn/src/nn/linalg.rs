//! Decompositions and solutions of (batches of) square matrices.
//!
//! These are the textbook algorithms, row by row; the sizes that graphs of this age give them are small.

use num_complex::{Complex, ComplexFloat};
use num_traits::{One, Zero};
use tensorfleet_core::{Dim, Element, PartialShape, Result, Shape, Tensor, bail, ensure, memory};

use tensorfleet_kernel::Work;
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, broadcast_shapes};
use tensorfleet_numeric::dispatch;

use super::linalg_gradients::{
    cholesky_gradient, determinant_gradient, inverse_gradient, log_determinant_gradient, solve_gradient,
    triangular_solve_gradient,
};

const TYPES: &str = "T: {double, float, half, complex64, complex128}";

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Cholesky", "input: T -> output: T").work(Work::Inputs).attrs(TYPES).shape(square_shape).kernel(cholesky).cost(Cost::Heavy).gradient(cholesky_gradient),
    Op::new("MatrixInverse", "input: T -> output: T").work(Work::Inputs)
        .attrs("adjoint: bool = false; T: {double, float, half, complex64, complex128}")
        .shape(square_shape)
        .kernel(inverse)
        .cost(Cost::Heavy).gradient(inverse_gradient),
    Op::new("MatrixDeterminant", "input: T -> output: T").work(Work::Inputs)
        .attrs(TYPES)
        .shape(determinant_shape)
        .kernel(determinant)
        .cost(Cost::Heavy).gradient(determinant_gradient),
    Op::new("LogMatrixDeterminant", "input: T -> sign: T, log_abs_determinant: T").work(Work::Inputs)
        .attrs(TYPES)
        .shape(determinant_shape)
        .kernel(log_determinant)
        .cost(Cost::Heavy).gradient(log_determinant_gradient),
    Op::new("MatrixSolve", "matrix: T, rhs: T -> output: T").work(Work::Inputs)
        .attrs("adjoint: bool = false; T: {double, float, half, complex64, complex128}")
        .shape(solve_shape)
        .kernel(solve)
        .cost(Cost::Heavy).gradient(solve_gradient),
    Op::new("MatrixTriangularSolve", "matrix: T, rhs: T -> output: T").work(Work::Inputs)
        .attrs("lower: bool = true; adjoint: bool = false; T: {bfloat16, double, float, half, complex64, complex128}")
        .shape(triangular_shape)
        .kernel(triangular_solve)
        .cost(Cost::Heavy).gradient(triangular_solve_gradient),
];

/// Splits a shape into batch, rows and columns.
fn split(shape: &PartialShape) -> Result<Option<(Vec<Dim>, [Dim; 2])>> {
    match shape.dims() {
        None => Ok(None),
        Some([batch @ .., rows, cols]) => Ok(Some((batch.to_vec(), [*rows, *cols]))),
        Some(dims) => bail!(InvalidArgument, "Shape must be at least rank 2 but is rank {}", dims.len()),
    }
}

/// A square matrix shape, with what one size says about the other.
fn squared(shape: &PartialShape) -> Result<Option<(Vec<Dim>, Dim)>> {
    let Some((batch, [rows, cols])) = split(shape)? else { return Ok(None) };
    Ok(Some((batch, PartialShape::vector(rows).merge(&PartialShape::vector(cols))?.dim(0))))
}

fn square_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let square = squared(ctx.input(0))?;
    Ok(vec![square.map_or(PartialShape::unknown(), |(batch, size)| {
        PartialShape::new(batch.into_iter().chain([size, size]))
    })])
}

fn determinant_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let shape = squared(ctx.input(0))?.map_or(PartialShape::unknown(), |(batch, _)| PartialShape::new(batch));
    Ok(vec![shape; ctx.num_outputs()])
}

fn solve_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    if let (Some((batch, size)), Some((rhs_batch, [rows, _]))) =
        (squared(ctx.input(0))?, split(ctx.input(1))?)
    {
        PartialShape::new(batch).merge(&PartialShape::new(rhs_batch))?;
        PartialShape::vector(size).merge(&PartialShape::vector(rows))?;
    }
    Ok(vec![ctx.input(1).clone()])
}

fn triangular_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let (Some((batch, size)), Some((rhs_batch, [rows, cols]))) =
        (squared(ctx.input(0))?, split(ctx.input(1))?)
    else {
        return Ok(vec![PartialShape::unknown()]);
    };
    let rows = PartialShape::vector(size).merge(&PartialShape::vector(rows))?.dim(0);
    let batch = broadcast_shapes(&PartialShape::new(batch), &PartialShape::new(rhs_batch))?;
    let batch = batch.dims().unwrap_or_default().iter().copied();
    Ok(vec![PartialShape::new(batch.chain([rows, cols]))])
}

/// Numbers that matrices can be inverted over.
trait Scalar: Element + ComplexFloat {
    fn real(x: Self::Real) -> Self;
}

impl Scalar for f32 {
    fn real(x: f32) -> f32 {
        x
    }
}
impl Scalar for f64 {
    fn real(x: f64) -> f64 {
        x
    }
}
impl Scalar for Complex<f32> {
    fn real(x: f32) -> Self {
        x.into()
    }
}
impl Scalar for Complex<f64> {
    fn real(x: f64) -> Self {
        x.into()
    }
}

macro_rules! for_scalars {
    ($node:expr, $T:ident => $body:expr) => {
        dispatch!($node.dtype()?, $T in [f32, f64, Complex<f32>, Complex<f64>] => $body)
    };
}

/// The size of the square matrices in a tensor.
fn square_size(shape: &Shape) -> Result<usize> {
    let &[.., rows, cols] = shape.dims() else {
        bail!(InvalidArgument, "Input tensor 0 must have rank >= 2, got {}", shape.rank())
    };
    ensure!(rows == cols, InvalidArgument, "Input matrix must be square.");
    Ok(rows)
}

/// The factors of `P A = L U`, both in one matrix, with the order of the rows.
struct Factors<T> {
    size: usize,
    elements: Vec<T>,
    order: Vec<usize>,
    /// Whether the permutation is odd.
    is_odd: bool,
}

impl<T: Scalar> Factors<T> {
    /// Gaussian elimination with the largest pivot of each column.
    fn of(matrix: &[T], size: usize, cancellation: &Cancellation) -> Result<Factors<T>> {
        let (elements, order) = (memory::copy_of(matrix)?, memory::collect(0..size)?);
        let mut factors = Factors { size, elements, order, is_odd: false };
        for step in 0..size {
            cancellation.check()?;
            factors.bring_pivot(step);
            let (above, below) = factors.elements.split_at_mut((step + 1) * size);
            let pivot_row = &above[step * size..];
            let pivot = pivot_row[step];
            if pivot == T::zero() {
                continue;
            }
            for row in below.chunks_mut(size) {
                let factor = row[step] / pivot;
                row[step] = factor;
                for (x, &y) in row[step + 1..].iter_mut().zip(&pivot_row[step + 1..]) {
                    *x = *x - factor * y;
                }
            }
        }
        Ok(factors)
    }

    fn bring_pivot(&mut self, step: usize) {
        let size = self.size;
        let mut best = step;
        for row in step + 1..size {
            if self.elements[row * size + step].abs() > self.elements[best * size + step].abs() {
                best = row;
            }
        }
        if best != step {
            for col in 0..size {
                self.elements.swap(step * size + col, best * size + col);
            }
            self.order.swap(step, best);
            self.is_odd = !self.is_odd;
        }
    }

    fn diagonal(&self) -> impl Iterator<Item = T> + '_ {
        (0..self.size).map(|at| self.elements[at * self.size + at])
    }

    /// Fails if the matrix has no inverse.
    fn check(&self, message: &str) -> Result<()> {
        ensure!(self.diagonal().all(|pivot| pivot != T::zero()), InvalidArgument, "{message}");
        Ok(())
    }

    /// Solves `A x = rhs`; both have `cols` columns.
    fn solve(&self, rhs: &[T], cols: usize, out: &mut [T], cancellation: &Cancellation) -> Result<()> {
        for (row, &source) in self.order.iter().enumerate() {
            out[row * cols..][..cols].copy_from_slice(&rhs[source * cols..][..cols]);
        }
        eliminate(&self.elements, self.size, Triangle::LowerUnit, out, cols, cancellation)?;
        eliminate(&self.elements, self.size, Triangle::Upper, out, cols, cancellation)
    }
}

/// Which part of a matrix is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Triangle {
    Lower,
    /// With ones on the diagonal.
    LowerUnit,
    Upper,
}

/// Solves a triangular system in place, row by row.
fn eliminate<T: Scalar>(
    matrix: &[T],
    size: usize,
    triangle: Triangle,
    rhs: &mut [T],
    cols: usize,
    cancellation: &Cancellation,
) -> Result<()> {
    for step in 0..size {
        cancellation.check()?;
        let row = if triangle == Triangle::Upper { size - 1 - step } else { step };
        let known = if triangle == Triangle::Upper { row + 1..size } else { 0..row };
        for other in known {
            let factor = matrix[row * size + other];
            for col in 0..cols {
                rhs[row * cols + col] = rhs[row * cols + col] - factor * rhs[other * cols + col];
            }
        }
        if triangle != Triangle::LowerUnit {
            let pivot = matrix[row * size + row];
            rhs[row * cols..][..cols].iter_mut().for_each(|x| *x = *x / pivot);
        }
    }
    Ok(())
}

/// The conjugate transpose.
fn adjoint<T: Scalar>(matrix: &[T], size: usize) -> Result<Vec<T>> {
    memory::collect((0..size * size).map(|at| matrix[at % size * size + at / size].conj()))
}

fn cholesky(node: &NodeSpec<'_>) -> Result<KernelBox> {
    for_scalars!(node, T => Ok(KernelBox::from_fn(|ctx| {
        let input = ctx.input(0)?;
        let size = square_size(input.shape())?;
        let mut output = input.deep_copy()?;
        if output.num_elements() > 0 {
            let mut matrices = output.make_mut::<T>()?.chunks_mut(size * size);
            matrices.try_for_each(|matrix| factorise(matrix, size, &ctx.step.cancellation))?;
        }
        ctx.set_output(0, output);
        Ok(())
    })))
}

/// Replaces a matrix by its Cholesky factor, reading the lower triangle only. NaN where it is not positive definite.
fn factorise<T: Scalar>(matrix: &mut [T], size: usize, cancellation: &Cancellation) -> Result<()> {
    for row in 0..size {
        cancellation.check()?;
        for col in 0..=row {
            let dot = (0..col)
                .fold(T::zero(), |sum, k| sum + matrix[row * size + k] * matrix[col * size + k].conj());
            let rest = matrix[row * size + col] - dot;
            matrix[row * size + col] = if row == col {
                T::real(num_traits::Float::sqrt(rest.re()))
            } else {
                rest / matrix[col * size + col]
            };
        }
        matrix[row * size + row + 1..(row + 1) * size].fill(T::zero());
    }
    Ok(())
}

fn inverse(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let adjoint_too: bool = node.attr("adjoint")?;
    for_scalars!(node, T => Ok(KernelBox::from_fn(move |ctx| {
        let input = ctx.input(0)?;
        let (size, cancellation) = (square_size(input.shape())?, &ctx.step.cancellation);
        let elements = input.as_slice::<T>()?;
        let identity: Vec<T> = memory::collect((0..size * size).map(|at| if at / size == at % size { T::one() } else { T::zero() }))?;
        let output = Tensor::build::<T>(input.shape().clone(), |out| {
            let count = (size * size).max(1);
            for (matrix, out) in elements.chunks(count).zip(out.chunks_mut(count)) {
                let factors = if adjoint_too { Factors::of(&adjoint(matrix, size)?, size, cancellation)? } else { Factors::of(matrix, size, cancellation)? };
                factors.check("Input is not invertible.")?;
                factors.solve(&identity, size, out, cancellation)?;
            }
            Ok(())
        })?;
        ctx.set_output(0, output);
        Ok(())
    })))
}

/// For each matrix of a batch: the sign of its determinant and the logarithm of its magnitude, and the product.
fn for_each_determinant<T: Scalar>(
    ctx: &Context<'_>,
    mut each: impl FnMut(usize, &Factors<T>),
) -> Result<Shape> {
    let input = ctx.input(0)?;
    let size = square_size(input.shape())?;
    let batch = Shape::new(&input.shape()[..input.shape().rank() - 2])?;
    // Matrices without elements take no memory, their determinants do.
    Tensor::allocate(T::DTYPE, batch.clone())?;
    let elements = input.as_slice::<T>()?;
    for at in 0..batch.num_elements() {
        let matrix = &elements[at * size * size..(at + 1) * size * size];
        each(at, &Factors::of(matrix, size, &ctx.step.cancellation)?);
    }
    Ok(batch)
}

fn determinant(node: &NodeSpec<'_>) -> Result<KernelBox> {
    for_scalars!(node, T => Ok(KernelBox::from_fn(|ctx| {
        let mut values = Vec::new();
        let shape = for_each_determinant::<T>(ctx, |_, factors| {
            let product = factors.diagonal().fold(T::one(), |product, pivot| product * pivot);
            values.push(if factors.is_odd { -product } else { product });
        })?;
        ctx.set_output(0, Tensor::from_slice(&values, &shape)?);
        Ok(())
    })))
}

fn log_determinant(node: &NodeSpec<'_>) -> Result<KernelBox> {
    for_scalars!(node, T => Ok(KernelBox::from_fn(|ctx| {
        let (mut signs, mut logs) = (Vec::new(), Vec::new());
        let shape = for_each_determinant::<T>(ctx, |_, factors| {
            let (mut sign, mut log) = (if factors.is_odd { -T::one() } else { T::one() }, T::zero());
            for pivot in factors.diagonal() {
                let magnitude = T::real(pivot.abs());
                sign *= if pivot == T::zero() { T::zero() } else { pivot / magnitude };
                log += magnitude.ln();
            }
            signs.push(sign);
            logs.push(log);
        })?;
        ctx.set_output(0, Tensor::from_slice(&signs, &shape)?);
        ctx.set_output(1, Tensor::from_slice(&logs, &shape)?);
        Ok(())
    })))
}

/// Rows and columns of the right-hand sides of a system of this size.
fn rhs_size(rhs: &Shape, size: usize) -> Result<usize> {
    match rhs.dims() {
        [.., rows, cols] if *rows == size => Ok(*cols),
        _ => bail!(InvalidArgument, "Input matrix and rhs are incompatible."),
    }
}

fn solve(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let adjoint_too: bool = node.attr("adjoint")?;
    for_scalars!(node, T => Ok(KernelBox::from_fn(move |ctx| {
        let (matrix, rhs) = (ctx.input(0)?, ctx.input(1)?);
        let (size, cancellation) = (square_size(matrix.shape())?, &ctx.step.cancellation);
        let cols = rhs_size(rhs.shape(), size)?;
        let rank = matrix.shape().rank();
        ensure!(
            rhs.shape().rank() == rank && rhs.shape()[..rank - 2] == matrix.shape()[..rank - 2],
            InvalidArgument,
            "All inputs must have the same outer dimensions: {} vs. {}", matrix.shape(), rhs.shape()
        );
        let (matrices, sides) = (matrix.as_slice::<T>()?, rhs.as_slice::<T>()?);
        let output = Tensor::build::<T>(rhs.shape().clone(), |out| {
            if out.is_empty() {
                return Ok(());
            }
            let sides = sides.chunks(size * cols).zip(out.chunks_mut(size * cols));
            for (matrix, (rhs, out)) in matrices.chunks(size * size).zip(sides) {
                let factors = if adjoint_too { Factors::of(&adjoint(matrix, size)?, size, cancellation)? } else { Factors::of(matrix, size, cancellation)? };
                factors.check("Input matrix is not invertible.")?;
                factors.solve(rhs, cols, out, cancellation)?;
            }
            Ok(())
        })?;
        ctx.set_output(0, output);
        Ok(())
    })))
}

fn triangular_solve(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (lower, adjoint_too): (bool, bool) = (node.attr("lower")?, node.attr("adjoint")?);
    for_scalars!(node, T => Ok(KernelBox::from_fn(move |ctx| {
        let (matrix, rhs) = (ctx.input(0)?, ctx.input(1)?);
        let (size, cancellation) = (square_size(matrix.shape())?, &ctx.step.cancellation);
        let cols = rhs_size(rhs.shape(), size)?;
        let batch_of = |shape: &Shape| PartialShape::new(shape[..shape.rank() - 2].iter().map(|&dim| Some(dim)));
        let batch = broadcast_shapes(&batch_of(matrix.shape()), &batch_of(rhs.shape()))?;
        let Some(batch) = batch.to_shape() else { bail!(Internal, "a batch of matrices has a shape") };
        let shape = Shape::new(&[&batch[..], &[size, cols]].concat())?;
        let (matrices, sides) = (matrix.as_slice::<T>()?, rhs.as_slice::<T>()?);
        let output = Tensor::build::<T>(shape, |out| {
            if out.is_empty() {
                return Ok(());
            }
            for (at, out) in out.chunks_mut(size * cols).enumerate() {
                let matrix = &matrices[broadcast_index(at, &batch, matrix.shape()) * size * size..][..size * size];
                out.copy_from_slice(&sides[broadcast_index(at, &batch, rhs.shape()) * size * cols..][..size * cols]);
                let triangle = if lower != adjoint_too { Triangle::Lower } else { Triangle::Upper };
                if adjoint_too {
                    eliminate(&adjoint(matrix, size)?, size, triangle, out, cols, cancellation)?;
                } else {
                    eliminate(matrix, size, triangle, out, cols, cancellation)?;
                }
            }
            Ok(())
        })?;
        ctx.set_output(0, output);
        Ok(())
    })))
}

/// Which matrix of an operand takes part in number `at` of the broadcast batch.
fn broadcast_index(mut at: usize, batch: &Shape, operand: &Shape) -> usize {
    let own = &operand[..operand.rank() - 2];
    let (mut index, mut stride) = (0, 1);
    for (axis, &dim) in batch.iter().enumerate().rev() {
        let position = at % dim;
        at /= dim;
        if let Some(own_dim) = (axis + own.len()).checked_sub(batch.rank()).map(|axis| own[axis]) {
            index += if own_dim == 1 { 0 } else { position * stride };
            stride *= own_dim;
        }
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestOp, test_op};
    use proptest::prelude::*;
    use tensorfleet_core::{Code, DType};

    fn matrix(values: &[f64], dims: &[usize]) -> Tensor {
        Tensor::from_slice(values, dims).unwrap()
    }

    fn run(op: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        inputs.iter().cloned().fold(test_op(op).attr("T", DType::Double), TestOp::input).run()
    }

    #[test]
    fn only_the_lower_triangle_is_read_and_indefinite_matrices_give_nan() {
        let factor = run("Cholesky", &[matrix(&[4.0, 99.0, 2.0, 5.0], &[2, 2])]).unwrap();
        assert_eq!(factor[0].as_slice::<f64>().unwrap(), [2.0, 0.0, 1.0, 2.0]);
        let factor = run("Cholesky", &[matrix(&[1.0, 2.0, 2.0, 1.0], &[2, 2])]).unwrap();
        assert!(factor[0].as_slice::<f64>().unwrap()[3].is_nan());
        assert_eq!(run("Cholesky", &[matrix(&[], &[0, 0])]).unwrap()[0].num_elements(), 0);
    }

    #[test]
    fn singular_and_crooked_matrices_are_refused() {
        let singular = matrix(&[1.0, 2.0, 2.0, 4.0], &[2, 2]);
        for (op, inputs, fragment) in [
            ("MatrixInverse", vec![singular.clone()], "Input is not invertible."),
            ("MatrixSolve", vec![singular.clone(), singular.clone()], "Input matrix is not invertible."),
            ("MatrixInverse", vec![matrix(&[0.0; 6], &[2, 3])], "Input matrix must be square."),
            ("MatrixDeterminant", vec![matrix(&[0.0; 2], &[2])], "must have rank >= 2, got 1"),
            (
                "MatrixSolve",
                vec![singular.clone(), matrix(&[1.0], &[1, 1])],
                "Input matrix and rhs are incompatible.",
            ),
        ] {
            let status = run(op, &inputs).unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            assert!(status.text().contains(fragment), "{op}: {}", status.text());
        }
        let logs = run("LogMatrixDeterminant", &[singular]).unwrap();
        assert_eq!(logs[1].to_scalar::<f64>().unwrap(), f64::NEG_INFINITY);
    }

    #[test]
    fn determinants_of_batches() {
        let found =
            run("MatrixDeterminant", &[matrix(&[1.0, 2.0, 3.0, 4.0, 0.0, 1.0, 1.0, 0.0], &[2, 2, 2])])
                .unwrap();
        assert_eq!(found[0].shape().dims(), [2]);
        let found = found[0].as_slice::<f64>().unwrap();
        assert!((found[0] + 2.0).abs() < 1e-12 && found[1] == -1.0);
        assert_eq!(
            run("MatrixDeterminant", &[matrix(&[], &[0, 0])]).unwrap()[0].to_scalar::<f64>().unwrap(),
            1.0
        );
    }

    #[test]
    fn triangular_systems_ignore_the_other_triangle_and_broadcast() {
        let triangle = matrix(&[2.0, 9.0, 3.0, 4.0], &[2, 2]);
        let found = run("MatrixTriangularSolve", &[triangle.clone(), matrix(&[1.0, 2.0], &[2, 1])]).unwrap();
        assert_eq!(found[0].as_slice::<f64>().unwrap(), [0.5, 0.125]);
        let found = run("MatrixTriangularSolve", &[triangle, matrix(&[1.0; 6], &[3, 2, 1])]).unwrap();
        assert_eq!(found[0].as_slice::<f64>().unwrap(), [0.5, -0.125].repeat(3));
    }

    proptest! {
        #[test]
        fn a_matrix_times_its_solution_is_the_right_hand_side(size in 1usize..8, cols in 1usize..4, seed in 0u64..1000) {
            let number = |i: usize| ((i as u64 * 7919 + seed * 104_729) % 1000) as f64 / 500.0 - 1.0;
            let mut elements: Vec<f64> = (0..size * size).map(number).collect();
            (0..size).for_each(|at| elements[at * size + at] += 4.0 * size as f64);
            let rhs: Vec<f64> = (0..size * cols).map(|i| number(i + 77)).collect();
            let inputs = [matrix(&elements, &[size, size]), matrix(&rhs, &[size, cols])];
            let solution = run("MatrixSolve", &inputs).unwrap();
            let solution = solution[0].as_slice::<f64>().unwrap();
            for row in 0..size {
                for col in 0..cols {
                    let found: f64 = (0..size).map(|k| elements[row * size + k] * solution[k * cols + col]).sum();
                    prop_assert!((found - rhs[row * cols + col]).abs() < 1e-9);
                }
            }
        }
    }
}
