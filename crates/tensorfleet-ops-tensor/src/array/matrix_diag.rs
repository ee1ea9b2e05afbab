//! Bands of diagonals of matrices: MatrixDiag, MatrixDiagPart, MatrixSetDiag in all versions.
//!
//! A band is stored as a matrix with one row per diagonal, the highest first. Diagonals differ in length, so
//! shorter ones are aligned to the left or right of their row, superdiagonals and subdiagonals each in its way.

use smallvec::SmallVec;
use tensorfleet_core::{Dim, Element, Endpoint, PartialShape, Result, Shape, Status, Tensor, bail, ensure};

use super::axes::{at_least_rank, concat_dims, integer, integers, one};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, same_as_input};
use tensorfleet_numeric::rearrange::{Movement, rearrange, update};
use tensorfleet_threads::Loops;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("MatrixDiag", "diagonal: T -> output: T")
        .gradient(diag_gradient)
        .attrs("T: type")
        .shape(diag_shape)
        .kernel(diag_kernel),
    Op::new(
        "MatrixDiagV2",
        "diagonal: T, k: int32, num_rows: int32, num_cols: int32, padding_value: T -> output: T",
    )
    .gradient(diag_gradient)
    .attrs("T: type")
    .shape(diag_shape)
    .kernel(diag_kernel),
    Op::new(
        "MatrixDiagV3",
        "diagonal: T, k: int32, num_rows: int32, num_cols: int32, padding_value: T -> output: T",
    )
    .gradient(diag_gradient)
    .attrs("T: type; align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = 'RIGHT_LEFT'")
    .shape(diag_shape)
    .kernel(diag_kernel),
    Op::new("MatrixDiagPart", "input: T -> diagonal: T")
        .work(Work::Inputs)
        .gradient(diag_part_gradient)
        .attrs("T: type")
        .shape(diag_part_shape)
        .kernel(diag_part_kernel),
    Op::new("MatrixDiagPartV2", "input: T, k: int32, padding_value: T -> diagonal: T")
        .gradient(diag_part_gradient)
        .attrs("T: type")
        .shape(diag_part_shape)
        .kernel(diag_part_kernel),
    Op::new("MatrixDiagPartV3", "input: T, k: int32, padding_value: T -> diagonal: T")
        .gradient(diag_part_gradient)
        .attrs("T: type; align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = 'RIGHT_LEFT'")
        .shape(diag_part_shape)
        .kernel(diag_part_kernel),
    Op::new("MatrixSetDiag", "input: T, diagonal: T -> output: T")
        .work(Work::Inputs)
        .gradient(set_diag_gradient)
        .attrs("T: type")
        .shape(set_diag_shape)
        .kernel(set_diag_kernel),
    Op::new("MatrixSetDiagV2", "input: T, diagonal: T, k: int32 -> output: T")
        .gradient(set_diag_gradient)
        .attrs("T: type")
        .shape(set_diag_shape)
        .kernel(set_diag_kernel),
    Op::new("MatrixSetDiagV3", "input: T, diagonal: T, k: int32 -> output: T")
        .gradient(set_diag_gradient)
        .attrs("T: type; align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = 'RIGHT_LEFT'")
        .shape(set_diag_shape)
        .kernel(set_diag_kernel),
];

/// To which side shorter diagonals are aligned.
#[derive(Clone, Copy)]
struct Align {
    super_left: bool,
    sub_left: bool,
}

impl Align {
    /// The first versions knew the left side only.
    fn of(node: &NodeSpec<'_>) -> Result<Align> {
        if node.signature()?.attr("align").is_none() {
            return Ok(Align { super_left: true, sub_left: true });
        }
        let align: String = node.attr("align")?;
        Ok(Align { super_left: align.starts_with("LEFT"), sub_left: align.ends_with("LEFT") })
    }
}

/// A band of diagonals of a matrix, numbered from below to above, 0 being the main one.
#[derive(Clone, Copy)]
struct Band {
    rows: i64,
    columns: i64,
    lower: i64,
    upper: i64,
    /// The length of a row in the band's storage.
    width: i64,
    align: Align,
}

impl Band {
    fn count(&self) -> i64 {
        self.upper - self.lower + 1
    }

    /// The dimensions of the band's storage: one diagonal is a vector, several are a matrix.
    fn dims(&self) -> SmallVec<[usize; 2]> {
        let mut dims = SmallVec::new();
        if self.lower < self.upper {
            dims.push(self.count() as usize);
        }
        dims.push(self.width as usize);
        dims
    }

    /// Calls `visit` for every element of the band, in each of `batches` matrices, with its place in the matrices
    /// and in the storage.
    fn walk(&self, batches: usize, mut visit: impl FnMut(usize, usize)) {
        let (matrix_len, band_len) = (self.rows * self.columns, self.count() * self.width);
        for batch in 0..batches as i64 {
            for diagonal in self.lower..=self.upper {
                let len = (self.rows + diagonal.min(0)).min(self.columns - diagonal.max(0));
                let left = (diagonal >= 0 && self.align.super_left) || (diagonal <= 0 && self.align.sub_left);
                let shift = if left { 0 } else { self.width - len };
                let stored = batch * band_len + (self.upper - diagonal) * self.width + shift;
                let place = batch * matrix_len + (-diagonal).max(0) * self.columns + diagonal.max(0);
                for i in 0..len {
                    visit((place + i * (self.columns + 1)) as usize, (stored + i) as usize);
                }
            }
        }
    }
}

/// The lowest and the highest diagonal that input `k` names.
fn diagonals(k: Option<&Tensor>) -> Result<(i64, i64)> {
    let Some(k) = k else { return Ok((0, 0)) };
    let (lower, upper) = match integers(k)?[..] {
        [only] => (only, only),
        [lower, upper] => (lower, upper),
        _ => bail!(
            InvalidArgument,
            "diag_index must have only one or two elements, received shape: {}",
            k.shape()
        ),
    };
    ensure!(
        lower <= upper,
        InvalidArgument,
        "lower_diag_index must not be larger than upper_diag_index: {lower} > {upper}"
    );
    Ok((lower, upper))
}

/// The band of a matrix of known size.
fn band_of(rows: usize, columns: usize, (lower, upper): (i64, i64), align: Align) -> Result<Band> {
    let (rows, columns) = (rows as i64, columns as i64);
    for (index, name) in [(lower, "lower_diag_index"), (upper, "upper_diag_index")] {
        ensure!(
            index == 0 || (-rows < index && index < columns),
            InvalidArgument,
            "{name} is out of bound: {index}. It must be between {} and {columns}",
            -rows
        );
    }
    let width = (rows + upper.min(0)).min(columns - lower.max(0));
    Ok(Band { rows, columns, lower, upper, width, align })
}

fn split_matrix(input: &Shape) -> Result<(&[usize], usize, usize)> {
    match input.dims() {
        [batch @ .., rows, columns] => Ok((batch, *rows, *columns)),
        _ => bail!(InvalidArgument, "input must be at least 2-dim, received shape: {input}"),
    }
}

/// Out is a padding, and then whatever the band brings.
struct MoveBand {
    band: Band,
    batches: usize,
    direction: Direction,
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    /// From matrices to the storage of their bands.
    Out,
    /// From the storage into matrices of padding.
    In,
    /// From the storage into matrices that are there.
    Over,
}

impl Movement for MoveBand {
    fn run<T: Element>(&self, _: &Loops, sources: &[&[T]], out: &mut [T]) -> Result<()> {
        let Some(source) = sources.first() else {
            return Err(Status::internal("a band comes from somewhere"));
        };
        if self.direction != Direction::Over {
            out.fill(sources.get(1).and_then(|padding| padding.first()).copied().unwrap_or_default());
        }
        self.band.walk(self.batches, |place, stored| match self.direction {
            Direction::Out => out[stored] = source[place],
            Direction::In | Direction::Over => out[place] = source[stored],
        });
        Ok(())
    }
}

/// Input `index`, if the op's version has it; `what` it is must be a scalar.
fn optional_scalar<'a>(ctx: &'a Context<'_>, index: usize, what: &str) -> Result<Option<&'a Tensor>> {
    if index >= ctx.num_inputs() {
        return Ok(None);
    }
    let tensor = ctx.input(index)?;
    ensure!(
        tensor.num_elements() == 1,
        InvalidArgument,
        "{what} must have only one element, received shape: {}",
        tensor.shape()
    );
    Ok(Some(tensor))
}

fn optional<'a>(ctx: &'a Context<'_>, index: usize) -> Result<Option<&'a Tensor>> {
    if index < ctx.num_inputs() { ctx.input(index).map(Some) } else { Ok(None) }
}

fn diag_part_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    at_least_rank(ctx, 0, 2)?;
    let k = if ctx.num_inputs() > 1 { ctx.value(1).map(|k| diagonals(Some(k))) } else { Some(Ok((0, 0))) };
    let (Some(dims), Some(k)) = (ctx.input(0).dims(), k.transpose()?) else {
        return one(PartialShape::unknown());
    };
    let [batch @ .., rows, columns] = dims else { return one(PartialShape::unknown()) };
    let mut out: SmallVec<[Dim; 8]> = SmallVec::from_slice(batch);
    if k.0 < k.1 {
        out.push(usize::try_from(k.1 - k.0 + 1).ok());
    }
    let align = Align { super_left: true, sub_left: true };
    let band = rows.zip(*columns).map(|(rows, columns)| band_of(rows, columns, k, align)).transpose()?;
    out.push(band.map(|band| band.width as usize));
    one(PartialShape::new(out))
}

/// `MatrixDiagPart` in all versions.
fn diag_part_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let align = Align::of(node)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let input = ctx.input(0)?;
        let (batch, rows, columns) = split_matrix(input.shape())?;
        let band = band_of(rows, columns, diagonals(optional(ctx, 1)?)?, align)?;
        let padding = optional_scalar(ctx, 2, "padding_value")?;
        let shape = concat_dims(&[batch, &band.dims()])?;
        let sources: SmallVec<[&Tensor; 2]> = [input].into_iter().chain(padding).collect();
        let movement = MoveBand { band, batches: batch.iter().product(), direction: Direction::Out };
        let tensor = rearrange(ctx.loops(), input.dtype(), shape, &sources, &movement)?;
        drop(sources);
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

/// The size of the matrices whose band has rows of `width`, as far as it is not given (-1).
fn matrix_size(width: i64, (lower, upper): (i64, i64), rows: i64, columns: i64) -> Result<(usize, usize)> {
    let (min_rows, min_columns) = (width - upper.min(0), width + lower.max(0));
    let (rows, columns) = match (rows, columns) {
        (-1, -1) => (min_rows.max(min_columns), min_rows.max(min_columns)),
        (-1, columns) => (min_rows, columns),
        (rows, -1) => (rows, min_columns),
        both => both,
    };
    ensure!(rows >= min_rows, InvalidArgument, "The number of rows is too small.");
    ensure!(columns >= min_columns, InvalidArgument, "The number of columns is too small.");
    ensure!(
        rows == min_rows || columns == min_columns,
        InvalidArgument,
        "The number of rows or columns is not consistent with the specified d_lower, d_upper, and diagonal."
    );
    Ok((rows as usize, columns as usize))
}

fn diag_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    at_least_rank(ctx, 0, 1)?;
    let Some(dims) = ctx.input(0).dims() else { return one(PartialShape::unknown()) };
    let Some((&width, outer)) = dims.split_last() else { return one(PartialShape::unknown()) };
    if ctx.num_inputs() == 1 {
        return one(PartialShape::new(outer.iter().copied().chain([width, width])));
    }
    let Some(k) = ctx.value(1).map(|k| diagonals(Some(k))).transpose()? else {
        return one(PartialShape::unknown());
    };
    let batch = if k.0 < k.1 { outer.split_last().map_or(outer, |(_, batch)| batch) } else { outer };
    let (Some(width), Some(rows), Some(columns)) = (width, ctx.integer(2), ctx.integer(3)) else {
        return one(PartialShape::new(batch.iter().copied().chain([None, None])));
    };
    let (rows, columns) = matrix_size(width as i64, k, rows, columns)?;
    one(PartialShape::new(batch.iter().copied().chain([Some(rows), Some(columns)])))
}

/// `MatrixDiag` in all versions.
fn diag_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let align = Align::of(node)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let diagonal = ctx.input(0)?;
        let k = diagonals(optional(ctx, 1)?)?;
        let size = |index, what| -> Result<i64> {
            optional_scalar(ctx, index, what)?.map_or(Ok(-1), |tensor| integer(tensor, what))
        };
        let (rows, columns) = (size(2, "num_rows")?, size(3, "num_cols")?);
        let padding = optional_scalar(ctx, 4, "padding_value")?;
        let Some((&width, outer)) = diagonal.shape().split_last() else {
            bail!(InvalidArgument, "diagonal must be at least 1-dim, received shape: []")
        };
        let batch = match outer {
            _ if k.0 == k.1 => outer,
            [batch @ .., count] if *count as i64 == k.1 - k.0 + 1 => batch,
            _ => bail!(
                InvalidArgument,
                "The number of diagonals provided in the input does not match the lower_diag_index and upper_diag_index range."
            ),
        };
        let (rows, columns) = matrix_size(width as i64, k, rows, columns)?;
        let band = Band { width: width as i64, ..band_of(rows, columns, k, align)? };
        let shape = concat_dims(&[batch, &[rows, columns]])?;
        let sources: SmallVec<[&Tensor; 2]> = [diagonal].into_iter().chain(padding).collect();
        let movement = MoveBand { band, batches: batch.iter().product(), direction: Direction::In };
        let tensor = rearrange(ctx.loops(), diagonal.dtype(), shape, &sources, &movement)?;
        drop(sources);
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

fn set_diag_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    at_least_rank(ctx, 0, 2)?;
    at_least_rank(ctx, 1, 1)?;
    same_as_input(ctx)
}

/// `MatrixSetDiag` in all versions.
fn set_diag_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let align = Align::of(node)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let k = diagonals(optional(ctx, 2)?)?;
        let input = ctx.take_input(0)?;
        let diagonal = ctx.input(1)?;
        let (batch, rows, columns) = split_matrix(input.shape())?;
        let band = band_of(rows, columns, k, align)?;
        let expected = concat_dims(&[batch, &band.dims()])?;
        ensure!(
            *diagonal.shape() == expected,
            InvalidArgument,
            "Either first dimensions of diagonal don't match input.shape[:-2], or diagonal.shape[:-1] is not equal to the longests diagonal in range [lower_diag_index:upper_diag_index].\nInput shape: {}\nDiagonal shape: {}\nExpected diagonal shape: {expected}",
            input.shape(),
            diagonal.shape()
        );
        let movement = MoveBand { band, batches: batch.iter().product(), direction: Direction::Over };
        let tensor = update(ctx.loops(), input, &[diagonal], &movement)?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

/// The op of the same version as the node: those after the first take the band's diagonals `k` as an input, and the
/// third says how they are aligned.
fn of_same_version(d: &Differential<'_>, op: &str, inputs: &[Endpoint], k: usize) -> Result<NewNode> {
    let op = match d.node().op.split_once('V') {
        Some((_, version)) => format!("{op}V{version}"),
        None => return Ok(d.with_attrs(op, inputs, &[])),
    };
    Ok(d.with_attrs(&op, inputs, &["align"]).input(d.input(k)?))
}

fn diagonals_of(d: &mut Differential<'_>, matrices: Endpoint, k: usize) -> Result<Endpoint> {
    let mut part = of_same_version(d, "MatrixDiagPart", &[matrices], k)?;
    if part.op_type() != "MatrixDiagPart" {
        part = part.input(d.scalar_like(matrices, 0.0)?);
    }
    d.emit(part)
}

fn diag_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let dy = d.dy(0)?;
    let diagonals = diagonals_of(d, dy, 1)?;
    d.only(0, diagonals)
}

fn diag_part_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, x) = (d.dy(0)?, d.input(0)?);
    let zeros = d.op("ZerosLike", [x])?;
    let dx = of_same_version(d, "MatrixSetDiag", &[zeros, dy], 1)?;
    let dx = d.emit(dx)?;
    d.only(0, dx)
}

fn set_diag_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, diagonals) = (d.dy(0)?, d.input(1)?);
    let zeros = d.op("ZerosLike", [diagonals])?;
    let rest = of_same_version(d, "MatrixSetDiag", &[dy, zeros], 2)?;
    let rest = d.emit(rest)?;
    let set = diagonals_of(d, dy, 2)?;
    d.several([(0, rest), (1, set)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use tensorfleet_core::DType;

    fn matrix() -> Tensor {
        Tensor::from_slice(&(1..=12).collect::<Vec<i32>>(), &[3, 4]).unwrap()
    }

    fn ints(elements: &[i32], dims: &[usize]) -> Tensor {
        Tensor::from_slice(elements, dims).unwrap()
    }

    fn part(k: Tensor, align: &str) -> Result<Tensor> {
        let op = test_op("MatrixDiagPartV3").with_shape_check().attr("T", DType::Int32).attr("align", align);
        op.input(matrix()).input(k).input(99i32.into()).run_one()
    }

    fn diag(diagonal: Tensor, k: Tensor, rows: i32, columns: i32, align: &str) -> Result<Tensor> {
        let op = test_op("MatrixDiagV3").with_shape_check().attr("T", DType::Int32).attr("align", align);
        op.input(diagonal).input(k).input(rows.into()).input(columns.into()).input(9i32.into()).run_one()
    }

    #[test]
    fn bands_are_read_with_either_alignment() {
        let k = || Tensor::vector(&[-1i32, 2]).unwrap();
        let left_right = part(k(), "LEFT_RIGHT").unwrap();
        assert_eq!(left_right, ints(&[3, 8, 99, 2, 7, 12, 1, 6, 11, 99, 5, 10], &[4, 3]));
        let right_left = part(k(), "RIGHT_LEFT").unwrap();
        assert_eq!(right_left, ints(&[99, 3, 8, 2, 7, 12, 1, 6, 11, 5, 10, 99], &[4, 3]));
        let first = test_op("MatrixDiagPart").with_shape_check().attr("T", DType::Int32).input(matrix());
        assert_eq!(first.run_one().unwrap().as_slice::<i32>().unwrap(), [1, 6, 11]);
        let text = |k: Tensor| part(k, "RIGHT_LEFT").unwrap_err().text().to_string();
        assert!(
            text(5i32.into()).contains("lower_diag_index is out of bound: 5. It must be between -3 and 4")
        );
        assert!(text(Tensor::vector(&[1i32, 0]).unwrap()).contains("must not be larger than"));
    }

    #[test]
    fn bands_are_written_into_padding() {
        let stored = || ints(&[1, 2, 0, 4, 5, 6], &[2, 3]);
        let k = || Tensor::vector(&[0i32, 1]).unwrap();
        assert_eq!(
            diag(stored(), k(), -1, -1, "LEFT_RIGHT").unwrap(),
            ints(&[4, 1, 9, 9, 5, 2, 9, 9, 6], &[3, 3])
        );
        assert_eq!(
            diag(stored(), k(), -1, -1, "RIGHT_LEFT").unwrap(),
            ints(&[4, 2, 9, 9, 5, 0, 9, 9, 6], &[3, 3])
        );
        let vector = || Tensor::vector(&[1i32, 2]).unwrap();
        assert_eq!(
            diag(vector(), 1i32.into(), -1, -1, "LEFT_LEFT").unwrap(),
            ints(&[9, 1, 9, 9, 9, 2, 9, 9, 9], &[3, 3])
        );
        assert_eq!(
            diag(vector(), 0i32.into(), 2, 3, "LEFT_LEFT").unwrap(),
            ints(&[1, 9, 9, 9, 2, 9], &[2, 3])
        );
        let text = |diagonal: Tensor, k: Tensor, rows, columns| {
            diag(diagonal, k, rows, columns, "LEFT_LEFT").unwrap_err().text().to_string()
        };
        assert!(text(vector(), 0i32.into(), 5, 5).contains("is not consistent with the specified d_lower"));
        assert!(text(vector(), 0i32.into(), 1, -1).contains("The number of rows is too small."));
        assert!(text(vector(), k(), -1, -1).contains("The number of diagonals provided"));
        let first = test_op("MatrixDiag").with_shape_check().attr("T", DType::Int32).input(vector());
        assert_eq!(first.run_one().unwrap(), ints(&[1, 0, 0, 2], &[2, 2]));
    }

    #[test]
    fn a_diagonal_is_replaced_in_place() {
        let set = |diagonal: Tensor, k: Tensor| {
            let op = test_op("MatrixSetDiagV3").with_shape_check().attr("T", DType::Int32).input(matrix());
            op.input(diagonal).input(k).run_one()
        };
        let out = set(ints(&[7, 8, 9, 1, 2, 3], &[2, 3]), Tensor::vector(&[0i32, 1]).unwrap()).unwrap();
        assert_eq!(out, ints(&[1, 7, 3, 4, 5, 2, 8, 8, 9, 10, 3, 9], &[3, 4]));
        assert!(
            set(ints(&[7, 8], &[2]), 0i32.into())
                .unwrap_err()
                .text()
                .contains("Expected diagonal shape: [3]")
        );
        let first = test_op("MatrixSetDiag").with_shape_check().attr("T", DType::Int32).input(matrix());
        let out = first.input(ints(&[0, 0, 0], &[3])).run_one().unwrap();
        assert_eq!(out.as_slice::<i32>().unwrap(), [0, 2, 3, 4, 5, 0, 7, 8, 9, 10, 0, 12]);
    }
}
