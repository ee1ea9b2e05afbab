//! Matrix products: `MatMul`, batches of them, and the product fused with bias and activation that TensorFlow's
//! graph rewriter makes.

use tensorfleet_core::{Dim, Endpoint, PartialShape, Result, Shape, Tensor, bail, ensure};

use tensorfleet_kernel::Work;
use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Grads, conj};
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, broadcast_shapes};
use tensorfleet_numeric::dispatch;
use tensorfleet_threads::{Loops, first_error};

use super::activations::{Activation, Loop};
use tensorfleet_numeric::gemm::{Matrix, Multiply, Output, Threads, multiply};
use tensorfleet_numeric::number::Floating;
use tensorfleet_numeric::stored::{Stored, compute_elements, update_computed};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("MatMul", "a: T, b: T -> product: T").work(Work::Inputs)
        .attrs(
            "transpose_a: bool = false; transpose_b: bool = false; T: {bfloat16, half, float, double, int32, int64, \
             uint8, uint16, uint32, uint64, complex64, complex128}; grad_a: bool = false; grad_b: bool = false",
        )
        .shape(matmul_shape)
        .kernel(matmul)
        .cost(Cost::Heavy).gradient(matmul_gradient),
    Op::new("_FusedMatMul", "a: T, b: T, args: num_args * T -> product: T").work(Work::Inputs)
        .attrs(
            "transpose_a: bool = false; transpose_b: bool = false; T: {bfloat16, half, float}; num_args: int >= 0; \
             fused_ops: list(string) = []; epsilon: float = 0.0001; leakyrelu_alpha: float = 0.2",
        )
        .shape(matmul_shape)
        .kernel(fused_matmul)
        .cost(Cost::Heavy),
    Op::new("BatchMatMul", "x: T, y: T -> output: T").work(Work::Inputs)
        .attrs(
            "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}; adj_x: bool = false; \
             adj_y: bool = false; grad_x: bool = false; grad_y: bool = false",
        )
        .shape(batch_matmul_shape)
        .kernel(batch_matmul)
        .cost(Cost::Heavy).gradient(batch_matmul_gradient),
    Op::new("BatchMatMulV2", "x: T, y: T -> output: T").work(Work::Inputs)
        .attrs(
            "T: {bfloat16, half, float, double, int16, int32, int64, uint8, uint16, uint32, uint64, complex64, \
             complex128}; adj_x: bool = false; adj_y: bool = false; grad_x: bool = false; grad_y: bool = false",
        )
        .shape(batch_matmul_shape)
        .kernel(batch_matmul)
        .cost(Cost::Heavy).gradient(batch_matmul_gradient),
];

fn matmul_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (transpose_a, transpose_b): (bool, bool) = (d.attr("transpose_a")?, d.attr("transpose_b")?);
    let (a, b, dy) = (d.share(conj(d.x(0)?))?.0, d.share(conj(d.x(1)?))?.0, d.dy(0)?);
    let mut product = |x: Endpoint, y: Endpoint, transpose_x: bool, transpose_y: bool| {
        let product = NewNode::new("MatMul").input(x).input(y);
        d.emit(product.attr("transpose_a", transpose_x).attr("transpose_b", transpose_y))
    };
    // Never a transposition of a whole: the order of the factors and the flags do it.
    let da = match transpose_a {
        false => product(dy, b, false, !transpose_b)?,
        true => product(b, dy, transpose_b, true)?,
    };
    let db = match transpose_b {
        false => product(a, dy, !transpose_a, false)?,
        true => product(dy, a, true, transpose_a)?,
    };
    d.flow([da.into(), db.into()])
}

/// Adjoints conjugate by themselves. Batches that were broadcast are summed up.
fn batch_matmul_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (adj_x, adj_y): (bool, bool) = (d.attr("adj_x")?, d.attr("adj_y")?);
    let (x, y, dz, op) = (d.input(0)?, d.input(1)?, d.dy(0)?, d.node().op.to_string());
    let mut product = |a: Endpoint, b: Endpoint, adj_a: bool, adj_b: bool| {
        d.emit(NewNode::new(op.as_str()).input(a).input(b).attr("adj_x", adj_a).attr("adj_y", adj_b))
    };
    let dx = match adj_x {
        false => product(dz, y, false, !adj_y)?,
        true => product(y, dz, adj_y, true)?,
    };
    let dy = match adj_y {
        false => product(x, dz, !adj_x, false)?,
        true => product(dz, x, true, adj_x)?,
    };
    let (dx, dy) = d.unbroadcast_batch((x, dx), (y, dy))?;
    d.flow([dx.into(), dy.into()])
}

/// Runs a generic expression for the dtypes that have products.
macro_rules! for_products {
    ($dtype:expr, $T:ident => $body:expr) => {
        dispatch!($dtype, $T in [f32, f64, half::f16, half::bf16, i32, i64, i16, num_complex::Complex<f32>,
            num_complex::Complex<f64>] => $body)
    };
}

fn matmul_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let (a, b) = (ctx.input_with_rank(0, 2)?, ctx.input_with_rank(1, 2)?);
    let (ta, tb): (bool, bool) = (ctx.attr("transpose_a")?, ctx.attr("transpose_b")?);
    check_inner(a.dim(!ta as usize), b.dim(tb as usize), &a, &b)?;
    Ok(vec![PartialShape::new([a.dim(ta as usize), b.dim(!tb as usize)])])
}

fn check_inner(x: Dim, y: Dim, a: &PartialShape, b: &PartialShape) -> Result<()> {
    if let (Some(x), Some(y)) = (x, y) {
        ensure!(
            x == y,
            InvalidArgument,
            "Dimensions must be equal, but are {x} and {y} for shapes {a} and {b}"
        );
    }
    Ok(())
}

fn batch_matmul_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let (x, y) = (ctx.input(0), ctx.input(1));
    let (Some(x_dims), Some(y_dims)) = (x.dims(), y.dims()) else { return Ok(vec![PartialShape::unknown()]) };
    let ([x_batch @ .., x_rows, x_cols], [y_batch @ .., y_rows, y_cols]) = (x_dims, y_dims) else {
        bail!(InvalidArgument, "Shape must be at least rank 2, but shapes are {x} and {y}")
    };
    let swapped = |condition, rows: &Dim, cols: &Dim| if condition { (*cols, *rows) } else { (*rows, *cols) };
    let (rows, x_inner) = swapped(ctx.attr("adj_x")?, x_rows, x_cols);
    let (y_inner, cols) = swapped(ctx.attr("adj_y")?, y_rows, y_cols);
    check_inner(x_inner, y_inner, x, y)?;
    let batch = broadcast_shapes(&PartialShape::new(x_batch.to_vec()), &PartialShape::new(y_batch.to_vec()))?;
    let batch = batch.dims().unwrap_or_default().iter().copied();
    Ok(vec![PartialShape::new(batch.chain([rows, cols]))])
}

fn matmul(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (ta, tb) = (node.attr("transpose_a")?, node.attr("transpose_b")?);
    for_products!(node.dtype()?, T => Ok(KernelBox::from_fn(move |ctx| {
        let product = product_of::<T>(ctx.loops(), ctx.input(0)?, ctx.input(1)?, ta, tb)?;
        ctx.set_output(0, product);
        Ok(())
    })))
}

fn product_of<T: Multiply>(loops: &Loops, a: &Tensor, b: &Tensor, ta: bool, tb: bool) -> Result<Tensor> {
    let (left, right) = (matrix_in::<T>(a, 0, ta)?, matrix_in::<T>(b, 1, tb)?);
    ensure!(
        left.cols() == right.rows(),
        InvalidArgument,
        "Matrix size-incompatible: In[0]: {}, In[1]: {}",
        a.shape(),
        b.shape()
    );
    let shape = Shape::new(&[left.rows(), right.cols()])?;
    Tensor::build::<T>(shape, |out| multiply(left, right, out, Output::Overwrite, Threads::Many(loops)))
}

fn matrix_in<T: Multiply>(tensor: &Tensor, index: usize, transposed: bool) -> Result<Matrix<'_, T>> {
    let [rows, cols] = **tensor.shape() else {
        bail!(
            InvalidArgument,
            "In[{index}] is not a matrix: its ndims must be 2, its shape is {}",
            tensor.shape()
        )
    };
    Ok(Matrix::new(tensor.as_slice::<T>()?, rows, cols)?.transposed_if(transposed))
}

/// `_FusedMatMul`: bias and activation are applied to the product while it is in the cache.
fn fused_matmul(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (ta, tb) = (node.attr("transpose_a")?, node.attr("transpose_b")?);
    let fused: Vec<String> = node.attr("fused_ops")?;
    let names: Vec<&str> = fused.iter().map(String::as_str).collect();
    let activation = match names[..] {
        ["BiasAdd"] => Activation::Identity,
        ["BiasAdd", name] => Activation::named(name, node.attr("leakyrelu_alpha")?)?,
        _ => bail!(Unimplemented, "Fusion is not implemented: [{}]", names.join(",")),
    };
    ensure!(node.attr::<i64>("num_args")? == 1, InvalidArgument, "Fused MatMul with BiasAdd needs one bias");
    dispatch!(node.dtype()?, T in [f32, half::f16, half::bf16] => Ok(KernelBox::from_fn(move |ctx| {
        let mut product = product_of::<T>(ctx.loops(), ctx.input(0)?, ctx.input(1)?, ta, tb)?;
        let bias = ctx.input(2)?;
        let cols = product.shape()[1];
        ensure!(bias.shape().rank() == 1 && bias.num_elements() == cols, InvalidArgument,
            "Must provide as many biases as the last dimension of the product: {} vs. {}", bias.shape(), product.shape());
        add_bias_and_activate(ctx.loops(), product.make_mut::<T>()?, bias.as_slice::<T>()?, activation)?;
        ctx.set_output(0, product);
        Ok(())
    })))
}

/// The end of a fused computation: `activation(value + bias)` for rows as long as `bias`.
pub(super) fn add_bias_and_activate<S: Stored<Compute: Floating>>(
    loops: &Loops,
    values: &mut [S],
    bias: &[S],
    activation: Activation,
) -> Result<()> {
    let bias = compute_elements(bias)?;
    update_computed(values, |values| {
        activation.drive(BiasThen { loops, values, bias: &bias, cost: activation.cost() });
    })
}

struct BiasThen<'a, T> {
    loops: &'a Loops,
    values: &'a mut [T],
    bias: &'a [T],
    cost: usize,
}

impl<T: Floating> Loop<T> for BiasThen<'_, T> {
    type Output = ();
    fn run(self, function: impl Fn(T) -> T + Copy + Send + Sync + 'static) {
        let cols = self.bias.len();
        if cols == 0 {
            return;
        }
        self.loops.chunks_mut(self.values, cols, cols * self.cost, |_, piece| {
            finish_rows(piece, self.bias, &move |x: T, bias: T| function(x + bias));
        });
    }
}

tensorfleet_numeric::simd_dispatch! {
    fn finish_rows[T: Copy, F: Fn(T, T) -> T](rows: &mut [T], bias: &[T], finish: &F) {
        for row in rows.chunks_mut(bias.len()) {
            for (x, &bias) in row.iter_mut().zip(bias) {
                *x = finish(*x, bias);
            }
        }
    }
}

fn batch_matmul(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (adj_x, adj_y) = (node.attr("adj_x")?, node.attr("adj_y")?);
    let broadcasts = node.op().name != "BatchMatMul";
    for_products!(node.dtype()?, T => Ok(KernelBox::from_fn(move |ctx| {
        batch_product::<T>(ctx, adj_x, adj_y, broadcasts)
    })))
}

/// The sizes of a batch of products.
struct Batch {
    /// Shape of the output.
    output: Shape,
    /// The number of products.
    count: usize,
    /// Batch dimensions of `x`, `y` and the output, brought to one rank.
    x_dims: Vec<usize>,
    y_dims: Vec<usize>,
    dims: Vec<usize>,
    /// Rows and columns of each `x` and each `y`, as stored.
    x: [usize; 2],
    y: [usize; 2],
}

fn batch_product<T: Multiply>(
    ctx: &mut Context<'_>,
    adj_x: bool,
    adj_y: bool,
    broadcasts: bool,
) -> Result<()> {
    let (x, y, loops) = (ctx.input(0)?, ctx.input(1)?, ctx.loops());
    let batch = Batch::of(x.shape(), y.shape(), adj_x, adj_y, broadcasts)?;
    let (xs, ys) = (x.as_slice::<T>()?, y.as_slice::<T>()?);
    let [.., rows, cols] = *batch.output else { bail!(Internal, "a product has rows and columns") };
    let (x_len, y_len) = (batch.x[0] * batch.x[1], batch.y[0] * batch.y[1]);
    let one_y = y_len == ys.len() && !adj_x && batch.count > 1;
    let output = Tensor::build::<T>(batch.output.clone(), |out| {
        if out.is_empty() {
            return Ok(());
        }
        let right = |at: usize| {
            Ok(Matrix::new(&ys[at * y_len..(at + 1) * y_len], batch.y[0], batch.y[1])?.adjoint_if(adj_y))
        };
        if one_y {
            // All products share the right operand: the left ones, stacked, are one matrix.
            let left = Matrix::new(xs, batch.count * rows, batch.x[1])?;
            return multiply(left, right(0)?, out, Output::Overwrite, Threads::Many(loops));
        }
        let one = |at: usize, out: &mut [T], threads| {
            let (x_at, y_at) = batch.operands(at);
            let left = Matrix::new(&xs[x_at * x_len..(x_at + 1) * x_len], batch.x[0], batch.x[1])?;
            multiply(left.adjoint_if(adj_x), right(y_at)?, out, Output::Overwrite, threads)
        };
        if batch.count == 1 {
            return one(0, out, Threads::Many(loops));
        }
        let cost = x_len.saturating_mul(cols).saturating_mul(4);
        first_error(|keep| {
            loops.chunks_mut(out, rows * cols, cost, |first, piece| {
                for (at, out) in piece.chunks_mut(rows * cols).enumerate() {
                    keep(one(first + at, out, Threads::One));
                }
            });
        })
    })?;
    ctx.set_output(0, output);
    Ok(())
}

impl Batch {
    fn of(x: &Shape, y: &Shape, adj_x: bool, adj_y: bool, broadcasts: bool) -> Result<Batch> {
        let ranks = [x.rank(), y.rank()];
        ensure!(
            broadcasts || ranks[0] == ranks[1],
            InvalidArgument,
            "In[0] and In[1] has different ndims: {x} vs. {y}"
        );
        for (index, rank) in ranks.into_iter().enumerate() {
            ensure!(rank >= 2, InvalidArgument, "In[{index}] ndims must be >= 2: {rank}");
        }
        let (x_batch, x_matrix) = x.split_at(ranks[0] - 2);
        let (y_batch, y_matrix) = y.split_at(ranks[1] - 2);
        for (axis, (x_dim, y_dim)) in x_batch.iter().zip(y_batch).enumerate().filter(|_| !broadcasts) {
            ensure!(
                x_dim == y_dim,
                InvalidArgument,
                "In[0].dim({axis}) and In[1].dim({axis}) must be the same: {x} vs {y}"
            );
        }
        let (x_matrix, y_matrix) = ([x_matrix[0], x_matrix[1]], [y_matrix[0], y_matrix[1]]);
        ensure!(
            x_matrix[!adj_x as usize] == y_matrix[adj_y as usize],
            InvalidArgument,
            "Matrix size-incompatible: In[0]: {x}, In[1]: {y}"
        );
        let rank = x_batch.len().max(y_batch.len());
        let (x_dims, y_dims) = (aligned(x_batch, rank), aligned(y_batch, rank));
        let mut dims = Vec::with_capacity(rank);
        for (&x_dim, &y_dim) in x_dims.iter().zip(&y_dims) {
            dims.push(match (x_dim, y_dim) {
                (1, other) | (other, 1) => other,
                (same, other) if same == other => same,
                _ => bail!(
                    InvalidArgument,
                    "In[0] and In[1] must have compatible batch dimensions: {x} vs. {y}"
                ),
            });
        }
        let matrix = [x_matrix[adj_x as usize], y_matrix[!adj_y as usize]];
        let output = Shape::new(&[&dims[..], &matrix].concat())?;
        let count = dims.iter().product();
        Ok(Batch { output, count, x_dims, y_dims, dims, x: x_matrix, y: y_matrix })
    }

    /// Where the operands of product `at` are found in `x` and `y`.
    fn operands(&self, mut at: usize) -> (usize, usize) {
        let (mut x_at, mut y_at) = (0, 0);
        let (mut x_stride, mut y_stride) = (1, 1);
        for axis in (0..self.dims.len()).rev() {
            let i = at % self.dims[axis];
            at /= self.dims[axis];
            x_at += if self.x_dims[axis] == 1 { 0 } else { i * x_stride };
            y_at += if self.y_dims[axis] == 1 { 0 } else { i * y_stride };
            x_stride *= self.x_dims[axis];
            y_stride *= self.y_dims[axis];
        }
        (x_at, y_at)
    }
}

/// Batch dimensions with leading ones added up to `rank`.
fn aligned(dims: &[usize], rank: usize) -> Vec<usize> {
    std::iter::repeat_n(1, rank - dims.len()).chain(dims.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestOp, test_op};
    use num_complex::Complex;
    use tensorfleet_core::{Code, DType};

    fn zeros(dims: &[usize]) -> Tensor {
        Tensor::zeros(DType::Float, Shape::new(dims).unwrap()).unwrap()
    }

    fn binary(op: &str, a: Tensor, b: Tensor) -> TestOp {
        test_op(op).attr("T", a.dtype()).input(a).input(b)
    }

    #[test]
    fn sizes_that_do_not_fit_are_told_in_tensorflows_words() {
        for (op, a, b, fragment) in [
            ("MatMul", &[2, 3][..], &[4, 5][..], "Matrix size-incompatible: In[0]: [2,3], In[1]: [4,5]"),
            ("MatMul", &[2, 3, 1], &[4, 5], "In[0] is not a matrix"),
            (
                "BatchMatMulV2",
                &[2, 2, 3],
                &[2, 4, 5],
                "Matrix size-incompatible: In[0]: [2,2,3], In[1]: [2,4,5]",
            ),
            (
                "BatchMatMulV2",
                &[2, 2, 3],
                &[3, 3, 5],
                "In[0] and In[1] must have compatible batch dimensions",
            ),
            ("BatchMatMulV2", &[2], &[2, 2], "In[0] ndims must be >= 2: 1"),
            ("BatchMatMul", &[2, 2, 3], &[1, 3, 5], "In[0].dim(0) and In[1].dim(0) must be the same"),
            ("BatchMatMul", &[2, 2, 3], &[3, 5], "In[0] and In[1] has different ndims"),
        ] {
            let status = binary(op, zeros(a), zeros(b)).run_one().unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            assert!(status.text().contains(fragment), "{op}: {}", status.text());
        }
    }

    #[test]
    fn empty_inner_dimensions_give_zeros_and_empty_outer_ones_nothing() {
        let product = binary("MatMul", zeros(&[2, 0]), zeros(&[0, 3])).run_one().unwrap();
        assert_eq!(product.as_slice::<f32>().unwrap(), [0.0; 6]);
        assert_eq!(
            binary("MatMul", zeros(&[0, 2]), zeros(&[2, 3])).run_one().unwrap().shape().dims(),
            [0, 3]
        );
        let batch = binary("BatchMatMulV2", zeros(&[2, 1, 0]), zeros(&[2, 0, 2])).run_one().unwrap();
        assert_eq!(batch.as_slice::<f32>().unwrap(), [0.0; 4]);
        assert_eq!(
            binary("BatchMatMulV2", zeros(&[0, 2, 3]), zeros(&[1, 3, 2])).run_one().unwrap().shape().dims(),
            [0, 2, 2]
        );
    }

    #[test]
    fn batches_broadcast_and_adjoints_conjugate() {
        let x = Tensor::from_slice(&(0..12).map(|i| i as f64).collect::<Vec<_>>(), &[2, 1, 2, 3]).unwrap();
        let y =
            Tensor::from_slice(&(0..18).map(|i| (i * i % 7) as f64).collect::<Vec<_>>(), &[3, 2, 3]).unwrap();
        let output = binary("BatchMatMulV2", x.clone(), y.clone()).attr("adj_y", true).run_one().unwrap();
        assert_eq!(output.shape().dims(), [2, 3, 2, 2]);
        let (xs, ys, out) =
            (x.as_slice::<f64>().unwrap(), y.as_slice::<f64>().unwrap(), output.as_slice::<f64>().unwrap());
        for (at, &found) in out.iter().enumerate() {
            let (b, c, row, col) = (at / 12, at / 4 % 3, at / 2 % 2, at % 2);
            let expected: f64 = (0..3).map(|k| xs[b * 6 + row * 3 + k] * ys[c * 6 + col * 3 + k]).sum();
            assert_eq!(found, expected);
        }
        let one = |re, im| Tensor::from_slice(&[Complex::new(re, im)], &[1, 1]).unwrap();
        let product =
            binary("BatchMatMulV2", one(1.0f32, 2.0), one(1.0, 1.0)).attr("adj_x", true).run_one().unwrap();
        assert_eq!(product.as_slice::<Complex<f32>>().unwrap(), [Complex::new(3.0, -1.0)]);
        let product =
            binary("MatMul", one(1.0f32, 2.0), one(1.0, 1.0)).attr("transpose_a", true).run_one().unwrap();
        assert_eq!(product.as_slice::<Complex<f32>>().unwrap(), [Complex::new(-1.0, 3.0)]);
    }

    #[test]
    fn one_right_operand_serves_the_whole_batch() {
        let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 1, 2]).unwrap();
        let y = Tensor::from_slice(&[1.0f32, 10.0], &[2, 1]).unwrap();
        let output = binary("BatchMatMulV2", x, y).run_one().unwrap();
        assert_eq!(output.shape().dims(), [2, 1, 1]);
        assert_eq!(output.as_slice::<f32>().unwrap(), [21.0, 43.0]);
    }

    #[test]
    fn integer_products_wrap() {
        let one = |x: i32| Tensor::from_slice(&[x], &[1, 1]).unwrap();
        assert_eq!(binary("MatMul", one(1 << 30), one(4)).run_one().unwrap().to_scalar::<i32>().unwrap(), 0);
    }

    #[test]
    fn a_fused_product_adds_the_bias_and_activates() {
        let a = Tensor::from_slice(&[1.0f32, 2.0], &[1, 2]).unwrap();
        let b = Tensor::from_slice(&[1.0f32, -1.0, 1.0, -1.0], &[2, 2]).unwrap();
        let bias = Tensor::vector(&[0.5f32, 1.0]).unwrap();
        let fused = |ops: &[&str]| {
            let ops: Vec<String> = ops.iter().map(|op| op.to_string()).collect();
            let run =
                test_op("_FusedMatMul").attr("T", DType::Float).attr("num_args", 1i64).attr("fused_ops", ops);
            run.input(a.clone()).input(b.clone()).input(bias.clone()).run_one()
        };
        assert_eq!(fused(&["BiasAdd"]).unwrap().as_slice::<f32>().unwrap(), [3.5, -2.0]);
        assert_eq!(fused(&["BiasAdd", "Relu"]).unwrap().as_slice::<f32>().unwrap(), [3.5, 0.0]);
        assert_eq!(fused(&["BiasAdd", "LeakyRelu"]).unwrap().as_slice::<f32>().unwrap(), [3.5, -0.4]);
        let tanh = fused(&["BiasAdd", "Tanh"]).unwrap();
        assert!((tanh.as_slice::<f32>().unwrap()[1] + 0.964_027_6).abs() < 1e-6);
        assert_eq!(fused(&["FusedBatchNorm"]).unwrap_err().code(), Code::Unimplemented);
    }
}
