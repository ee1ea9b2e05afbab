//! A sparse matrix times a dense one: SparseTensorDenseMatMul.

use half::{bf16, f16};
use num_complex::Complex;
use tensorfleet_core::{Dim, Endpoint, PartialShape, Result, Shape, Tensor, bail, ensure};

use super::axes::{integers, one};
use super::transpose::transposed;
use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::number::Number;

/// The family's table.
pub(crate) static OPS: &[Op] = &[Op::new(
    "SparseTensorDenseMatMul",
    "a_indices: Tindices, a_values: T, a_shape: int64, b: T -> product: T",
)
.gradient(matmul_gradient)
.attrs("T: type; Tindices: {int32, int64} = int64; adjoint_a: bool = false; adjoint_b: bool = false")
.shape(matmul_shape)
.kernel(matmul_kernel)
.cost(Cost::Heavy)];

fn matmul_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(0, 2)?;
    let (a, b) = (ctx.shape_value(2)?, ctx.input_with_rank(3, 2)?);
    ensure!(a.rank().is_none_or(|rank| rank == 2), InvalidArgument, "Tensor 'a_shape' must have 2 elements");
    let (rows, a_inner) = sides(a.dim(0), a.dim(1), ctx.attr("adjoint_a")?);
    let (b_inner, columns) = sides(b.dim(0), b.dim(1), ctx.attr("adjoint_b")?);
    if let (Some(x), Some(y)) = (a_inner, b_inner) {
        ensure!(
            x == y,
            InvalidArgument,
            "Cannot multiply A and B because inner dimension does not match: {x} vs. {y}."
        );
    }
    one(PartialShape::new([rows, columns]))
}

fn sides(rows: Dim, columns: Dim, adjoint: bool) -> (Dim, Dim) {
    if adjoint { (columns, rows) } else { (rows, columns) }
}

fn matmul_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (adjoint_a, adjoint_b): (bool, bool) = (node.attr("adjoint_a")?, node.attr("adjoint_b")?);
    dispatch!(node.dtype()?, T in [f32, f64, i32, f16, bf16, Complex<f32>, Complex<f64>] => {
        Ok(KernelBox::from_fn(move |ctx| multiply::<T>(ctx, adjoint_a, adjoint_b)))
    })
}

fn multiply<T: Number>(ctx: &mut Context<'_>, adjoint_a: bool, adjoint_b: bool) -> Result<()> {
    let (indices, values, shape) = (ctx.input(0)?, ctx.input(1)?, ctx.input(2)?);
    let b = ctx.input(3)?;
    ensure!(b.shape().rank() == 2, InvalidArgument, "Tensor 'b' is not a matrix");
    ensure!(values.shape().rank() == 1, InvalidArgument, "Tensor 'a_values' is not a vector");
    let &[count, 2] = indices.shape().dims() else {
        bail!(InvalidArgument, "Tensor 'a_indices' must be a matrix with 2 columns, got {}", indices.shape())
    };
    ensure!(
        values.num_elements() == count,
        InvalidArgument,
        "Number of rows of a_indices does not match number of entries in a_values"
    );
    let (rows, columns) = match integers(shape)?[..] {
        [rows, columns] if rows >= 0 && columns >= 0 => (rows as usize, columns as usize),
        _ => bail!(InvalidArgument, "Tensor 'a_shape' must have 2 elements >= 0, got {}", shape.shape()),
    };
    let (out_rows, inner) = if adjoint_a { (columns, rows) } else { (rows, columns) };
    let b = if adjoint_b { transposed(ctx.loops(), b, &[1, 0])? } else { b.clone() };
    let (b_inner, out_columns) = (b.shape()[0], b.shape()[1]);
    ensure!(
        inner == b_inner,
        InvalidArgument,
        "Cannot multiply A and B because inner dimension does not match: {inner} vs. {b_inner}.  Did you forget a transpose?  Dimensions of A: [{rows}, {columns}).  Dimensions of B: {}",
        b.shape()
    );
    let mut tensor = Tensor::zeros(T::DTYPE, Shape::new(&[out_rows, out_columns])?)?;
    let (out, dense, values) = (tensor.make_mut::<T>()?, b.as_slice::<T>()?, values.as_slice::<T>()?);
    let (row_of, inner_of) = if adjoint_a { (1, 0) } else { (0, 1) };
    for (entry, (pair, &value)) in integers(indices)?.chunks_exact(2).zip(values).enumerate() {
        let (m, k) = (pair[row_of], pair[inner_of]);
        ensure!(
            (0..inner as i64).contains(&k),
            InvalidArgument,
            "k ({k}) from index[{entry},{inner_of}] out of bounds (>={inner})"
        );
        ensure!(
            (0..out_rows as i64).contains(&m),
            InvalidArgument,
            "m ({m}) from index[{entry},{row_of}] out of bounds (>={out_rows})"
        );
        let value = if adjoint_a { value.conjugate() } else { value };
        let line = &dense[k as usize * out_columns..][..out_columns];
        let sums = &mut out[m as usize * out_columns..][..out_columns];
        for (sum, &x) in sums.iter_mut().zip(line) {
            let x = if adjoint_b { x.conjugate() } else { x };
            *sum = sum.plus(value.times(x));
        }
    }
    ctx.set_output(0, tensor);
    Ok(())
}

fn matmul_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, indices, values, shape, b) = (d.dy(0)?, d.input(0)?, d.input(1)?, d.input(2)?, d.input(3)?);
    let (adjoint_a, adjoint_b): (bool, bool) = (d.attr("adjoint_a")?, d.attr("adjoint_b")?);
    let db = d.with_attrs("SparseTensorDenseMatMul", &[indices, values, shape, dy], &[]);
    let mut db = d.emit(db.attr("adjoint_a", !adjoint_a))?;
    let is_complex = d.dtype(b)?.is_complex();
    let swap = d.ints(&[1, 0])?;
    let transpose = if is_complex { "ConjugateTranspose" } else { "Transpose" };
    let mut b = b;
    if adjoint_b {
        db = d.op(transpose, [db, swap])?;
        b = d.op(transpose, [b, swap])?;
    }
    // A value at (row, column) met that row of what arrives and that column's row of b.
    let split = d.add(NewNode::new("Unpack").input(indices).attr("num", 2i64).attr("axis", 1i64))?;
    let (row, column) = (Endpoint::new(split, 0), Endpoint::new(split, 1));
    let (row, column) = if adjoint_a { (column, row) } else { (row, column) };
    let (mut from_dy, mut from_b) = (d.rows(dy, row)?, d.rows(b, column)?);
    if is_complex && adjoint_a {
        from_dy = d.op("Conj", [from_dy])?;
    } else if is_complex {
        from_b = d.op("Conj", [from_b])?;
    }
    let products = d.op("Mul", [from_dy, from_b])?;
    let one = d.ints(&[1])?;
    let da = d.op("Sum", [products, one])?;
    d.several([(1, da), (3, db)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use tensorfleet_core::DType;

    fn run(indices: &[i64], values: Tensor, shape: [i64; 2], b: Tensor, adjoint: bool) -> Result<Tensor> {
        let op = test_op("SparseTensorDenseMatMul").with_shape_check().attr("T", b.dtype());
        let op = op.attr("adjoint_a", adjoint).attr("adjoint_b", adjoint);
        let op = op.input(Tensor::from_slice(indices, &[indices.len() / 2, 2]).unwrap()).input(values);
        op.input(Tensor::vector(&shape).unwrap()).input(b).run_one()
    }

    fn dense() -> Tensor {
        Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap()
    }

    #[test]
    fn entries_pick_and_scale_rows() {
        let values = || Tensor::vector(&[1.0f32, 2.0]).unwrap();
        let out = run(&[0, 1, 1, 0], values(), [2, 2], dense(), false).unwrap();
        assert_eq!(out.as_slice::<f32>().unwrap(), [3.0, 4.0, 2.0, 4.0]);
        let text = |indices: &[i64], shape| {
            run(indices, values(), shape, dense(), false).unwrap_err().text().to_string()
        };
        assert_eq!(text(&[0, 1, 1, 5], [2, 2]), "k (5) from index[1,1] out of bounds (>=2)");
        assert_eq!(text(&[7, 1, 1, 0], [2, 2]), "m (7) from index[0,0] out of bounds (>=2)");
        assert!(text(&[0, 1, 1, 0], [2, 3]).contains("inner dimension does not match: 3 vs. 2."));
        assert!(text(&[0, 1], [2, 2]).contains("does not match number of entries in a_values"));
    }

    #[test]
    fn adjoints_are_conjugated() {
        let c = |re: f32, im: f32| Complex::new(re, im);
        let values = Tensor::vector(&[c(1.0, 1.0), c(2.0, 0.0)]).unwrap();
        let b = Tensor::from_slice(&[c(1.0, 0.0), c(0.0, 2.0), c(3.0, 0.0), c(4.0, 0.0)], &[2, 2]).unwrap();
        let out = run(&[0, 1, 1, 0], values, [2, 2], b, true).unwrap();
        assert_eq!(
            out.as_slice::<Complex<f32>>().unwrap(),
            [c(0.0, -4.0), c(8.0, 0.0), c(1.0, -1.0), c(3.0, -3.0)]
        );
        assert_eq!(out.dtype(), DType::Complex64);
    }
}
