//! Main diagonals and bands: Diag, DiagPart, MatrixBandPart, BatchMatrixBandPart.

use smallvec::SmallVec;
use tensorfleet_core::{Dim, Element, PartialShape, Result, Shape, Status, ensure};

use super::axes::{at_least_rank, concat_dims, integer, one};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, same_as_input};
use tensorfleet_kernel::work::NodeInputs;
use tensorfleet_numeric::rearrange::{Movement, rearrange, update};
use tensorfleet_numeric::strided::{Axis, Window, WriteThrough};
use tensorfleet_threads::Loops;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Diag", "diagonal: T -> output: T")
        .work(Work::Values(squared))
        .gradient(diag_gradient)
        .attrs("T: {bfloat16, half, float, double, int32, int64, complex64, complex128}")
        .shape(diag_shape)
        .kernel(diag_kernel),
    Op::new("DiagPart", "input: T -> diagonal: T")
        .work(Work::Inputs)
        .gradient(diag_part_gradient)
        .attrs("T: {bfloat16, half, float, double, int32, int64, complex64, complex128}")
        .shape(diag_part_shape)
        .kernel(diag_part_kernel),
    Op::new("MatrixBandPart", "input: T, num_lower: Tindex, num_upper: Tindex -> band: T")
        .work(Work::Inputs)
        .gradient(band_part_gradient)
        .attrs("T: type; Tindex: {int32, int64} = int64")
        .shape(same_as_input)
        .kernel(band_part_kernel),
    Op::new("BatchMatrixBandPart", "input: T, num_lower: int64, num_upper: int64 -> band: T")
        .work(Work::Inputs)
        .attrs("T: type")
        .shape(same_as_input)
        .kernel(band_part_kernel),
];

/// The diagonal of a square matrix with `len` rows.
fn main_diagonal(len: usize) -> Window {
    Window::new(0, [Axis { len, stride: len as isize + 1 }])
}

/// A vector becomes the diagonal of a matrix.
fn squared(inputs: &dyn NodeInputs) -> Option<usize> {
    let elements = inputs.tensor(0)?.num_elements();
    Some(elements.saturating_mul(elements))
}

fn diag_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    at_least_rank(ctx, 0, 1)?;
    match ctx.input(0).dims() {
        Some(dims) => one(PartialShape::new(dims.iter().chain(dims).copied())),
        None => one(PartialShape::unknown()),
    }
}

/// `Diag`: a tensor of twice the rank, zero off the diagonal.
fn diag_kernel(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let diagonal = ctx.input(0)?;
        ensure!(diagonal.shape().rank() >= 1, InvalidArgument, "Input must be at least rank 1, got 0");
        let shape = concat_dims(&[diagonal.shape(), diagonal.shape()])?;
        let window = main_diagonal(diagonal.num_elements());
        let tensor = rearrange(
            ctx.loops(),
            diagonal.dtype(),
            shape,
            &[diagonal],
            &WriteThrough { window: &window, clear: true },
        )?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

fn half_of<D: Copy>(
    dims: &[D],
    matches: impl Fn(D, D) -> bool,
    shape: &dyn std::fmt::Display,
) -> Result<usize> {
    ensure!(
        !dims.is_empty() && dims.len().is_multiple_of(2),
        InvalidArgument,
        "The rank of the tensor should be even and positive, got shape {shape}"
    );
    let half = dims.len() / 2;
    for axis in 0..half {
        ensure!(
            matches(dims[axis], dims[half + axis]),
            InvalidArgument,
            "Invalid shape {shape}: dimensions {axis} and {} do not match.",
            half + axis
        );
    }
    Ok(half)
}

fn diag_part_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let Some(dims) = ctx.input(0).dims() else { return one(PartialShape::unknown()) };
    let half = half_of(dims, |a: Dim, b: Dim| a.is_none() || b.is_none() || a == b, ctx.input(0))?;
    one(PartialShape::new((0..half).map(|axis| dims[axis].or(dims[half + axis]))))
}

fn diag_part_kernel(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let input = ctx.input(0)?;
        let half = half_of(input.shape(), |a, b| a == b, input.shape())?;
        let shape = Shape::new(&input.shape()[..half])?;
        let window = main_diagonal(shape.num_elements());
        let tensor = rearrange(ctx.loops(), input.dtype(), shape, &[input], &window)?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

/// Clears what lies further from the diagonal than `lower` below or `upper` above it.
struct Band {
    rows: usize,
    columns: usize,
    lower: usize,
    upper: usize,
}

impl Movement for Band {
    fn run<T: Element>(&self, _: &Loops, _: &[&[T]], out: &mut [T]) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        for (position, line) in out.chunks_exact_mut(self.columns).enumerate() {
            let row = position % self.rows;
            let start = row.saturating_sub(self.lower).min(self.columns);
            let end = row.saturating_add(self.upper).saturating_add(1).clamp(start, self.columns);
            line[..start].fill(T::default());
            line[end..].fill(T::default());
        }
        Ok(())
    }
}

fn band_part_kernel(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let lower = integer(ctx.input(1)?, "num_lower")?;
        let upper = integer(ctx.input(2)?, "num_upper")?;
        let input = ctx.take_input(0)?;
        let dims: SmallVec<[usize; 8]> = SmallVec::from_slice(input.shape());
        let [.., rows, columns] = dims[..] else {
            return Err(Status::invalid_argument(format!(
                "input must be at least 2-dim, received shape: {}",
                input.shape()
            )));
        };
        ensure!(
            lower <= rows as i64,
            InvalidArgument,
            "num_lower must be negative or less or equal to number of rows ({rows}) got: {lower}"
        );
        ensure!(
            upper <= columns as i64,
            InvalidArgument,
            "num_upper must be negative or less or equal to number of columns ({columns}) got: {upper}"
        );
        // A negative number keeps the whole triangle.
        let width = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
        let band = Band { rows, columns, lower: width(lower), upper: width(upper) };
        ctx.set_output(0, update(ctx.loops(), input, &[], &band)?);
        Ok(())
    }))
}

fn diag_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let dy = d.dy(0)?;
    let dx = d.op("DiagPart", [dy])?;
    d.only(0, dx)
}

fn diag_part_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let dy = d.dy(0)?;
    let dx = d.op("Diag", [dy])?;
    d.only(0, dx)
}

fn band_part_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, lower, upper) = (d.dy(0)?, d.input(1)?, d.input(2)?);
    let dx = d.op("MatrixBandPart", [dy, lower, upper])?;
    d.only(0, dx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use tensorfleet_core::{DType, Tensor};

    fn run(op: &str, input: Tensor) -> Result<Tensor> {
        test_op(op).with_shape_check().attr("T", input.dtype()).input(input).run_one()
    }

    #[test]
    fn a_diagonal_is_laid_out_and_read_back() {
        let vector = Tensor::vector(&[1.0f32, 2.0]).unwrap();
        let matrix = run("Diag", vector.clone()).unwrap();
        assert_eq!(matrix, Tensor::from_slice(&[1.0f32, 0.0, 0.0, 2.0], &[2, 2]).unwrap());
        assert_eq!(run("DiagPart", matrix).unwrap(), vector);
        let pairs = Tensor::from_slice(&(0..16).collect::<Vec<i32>>(), &[2, 2, 2, 2]).unwrap();
        assert_eq!(run("DiagPart", pairs).unwrap(), Tensor::from_slice(&[0, 5, 10, 15], &[2, 2]).unwrap());
        assert!(run("Diag", 3i32.into()).is_err());
        let flat = run("DiagPart", Tensor::from_slice(&[0i32; 6], &[2, 3]).unwrap()).unwrap_err();
        assert!(flat.text().contains("Invalid shape [2,3]: dimensions 0 and 1 do not match."));
        assert!(run("DiagPart", vector).unwrap_err().text().contains("even and positive"));
    }

    #[test]
    fn a_band_keeps_what_is_near_the_diagonal() {
        let run = |lower: i64, upper: i64| {
            let input = Tensor::from_slice(&(1..=12).collect::<Vec<i32>>(), &[3, 4]).unwrap();
            let op = test_op("MatrixBandPart").with_shape_check().attr("T", DType::Int32).input(input);
            let out = op.input(lower.into()).input(upper.into()).run_one()?;
            Ok::<_, Status>(out.as_slice::<i32>().unwrap().to_vec())
        };
        assert_eq!(run(3, 0).unwrap(), [1, 0, 0, 0, 5, 6, 0, 0, 9, 10, 11, 0]);
        assert_eq!(run(1, -1).unwrap(), [1, 2, 3, 4, 5, 6, 7, 8, 0, 10, 11, 12]);
        assert_eq!(run(-7, -1).unwrap(), (1..=12).collect::<Vec<i32>>());
        assert!(run(4, 0).unwrap_err().text().contains("number of rows (3) got: 4"));
        assert!(run(0, 5).unwrap_err().text().contains("number of columns (4) got: 5"));
    }
}
