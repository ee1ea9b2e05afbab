//! The reduction ops: `Sum`, `Prod`, `Mean`, `Max`, `Min`, `All`, `Any`, `EuclideanNorm`.
//!
//! 16-bit floats are reduced in single precision. Means of integers are summed in 64 bits and truncated; sums and
//! products of integers wrap around in their own width.

use half::{bf16, f16};
use num_complex::Complex;
use tensorfleet_core::{DType, PartialShape, Result, Tensor, memory};

use super::reduce::{Reducer, Reduction, ReductionPlan, resolve_axis};
use super::reduce_gradients::{
    euclidean_norm_gradient, extremum_gradient, mean_gradient, prod_gradient, sum_gradient,
};
use super::unary::{Sqrt, SquaredModulus};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{KernelFn, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, integers_of};
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::elementwise::{apply_unary, cost, unary_loop};
use tensorfleet_numeric::number::{Elementary, Number, Real};
use tensorfleet_numeric::stored::{Stored, build_computed, compute_elements};
use tensorfleet_threads::Loops;

const NUMBER: &str = "keep_dims: bool = false; T: number; Tidx: {int32, int64} = int32";
const REAL: &str = "keep_dims: bool = false; T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, \
                    half, uint32, uint64, qint8, quint8, qint32, qint16, quint16}; Tidx: {int32, int64} = int32";

const fn reduction(name: &'static str, attrs: &'static str, kernel: KernelFn) -> Op {
    Op::new(name, "input: T, reduction_indices: Tidx -> output: T")
        .work(Work::Inputs)
        .attrs(attrs)
        .shape(reduced)
        .kernel(kernel)
}

const fn logic(name: &'static str, kernel: KernelFn) -> Op {
    Op::new(name, "input: bool, reduction_indices: Tidx -> output: bool")
        .work(Work::Inputs)
        .attrs("keep_dims: bool = false; Tidx: {int32, int64} = int32")
        .shape(reduced)
        .kernel(kernel)
}

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    reduction("Sum", NUMBER, sum).gradient(sum_gradient),
    reduction("Prod", NUMBER, prod).gradient(prod_gradient),
    reduction("Mean", NUMBER, mean).gradient(mean_gradient),
    reduction("Max", REAL, max).gradient(extremum_gradient),
    reduction("Min", REAL, min).gradient(extremum_gradient),
    reduction("EuclideanNorm", NUMBER, euclidean_norm).gradient(euclidean_norm_gradient),
    logic("All", all),
    logic("Any", any),
];

/// Shape rule: the input's shape without the reduced axes, if these are known.
fn reduced(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let keep_dims: bool = ctx.attr("keep_dims")?;
    let Some(dims) = ctx.input(0).dims() else { return Ok(vec![PartialShape::unknown()]) };
    let Some(axes) = ctx.value(1) else {
        let shape = if keep_dims { PartialShape::of_rank(dims.len()) } else { PartialShape::unknown() };
        return Ok(vec![shape]);
    };
    let mut is_reduced = vec![false; dims.len()];
    for axis in integers_of(axes)? {
        match resolve_axis(axis, dims.len()) {
            Some(index) => is_reduced[index] = true,
            None => tensorfleet_core::bail!(
                InvalidArgument,
                "Invalid reduction dimension {axis} for input with {} dimensions.",
                dims.len()
            ),
        }
    }
    let mut output = Vec::with_capacity(dims.len());
    for (&dim, is_reduced) in dims.iter().zip(is_reduced) {
        match (is_reduced, keep_dims) {
            (false, _) => output.push(dim),
            (true, true) => output.push(Some(1)),
            (true, false) => {}
        }
    }
    Ok(vec![PartialShape::new(output)])
}

macro_rules! reducers {
    ($($name:ident: $kind:path, $identity:expr, |$a:ident, $b:ident| $value:expr;)*) => {$(
        pub(super) struct $name;

        impl<T: $kind> Reducer<T> for $name {
            const IDENTITY: T = $identity;
            #[inline(always)]
            fn combine($a: T, $b: T) -> T {
                $value
            }
        }
    )*};
}

reducers! {
    Sum: Number, T::ZERO, |a, b| a.plus(b);
    Prod: Number, T::ONE, |a, b| a.times(b);
    Max: Real, T::LOWEST, |a, b| a.max_or_nan(b);
    Min: Real, T::HIGHEST, |a, b| a.min_or_nan(b);
}

struct All;
impl Reducer<bool> for All {
    const IDENTITY: bool = true;
    #[inline(always)]
    fn combine(a: bool, b: bool) -> bool {
        a & b
    }
}

struct Any;
impl Reducer<bool> for Any {
    const IDENTITY: bool = false;
    #[inline(always)]
    fn combine(a: bool, b: bool) -> bool {
        a | b
    }
}

/// What is done to results, knowing how many elements went into each.
type Finish<T> = fn(&mut [T], usize);

fn sum(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in numeric => kernel::<T>(node, Reduction::of::<Sum>(), |_, _| {}))
}

fn prod(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in numeric => kernel::<T>(node, Reduction::of::<Prod>(), |_, _| {}))
}

fn max(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in real => kernel::<T>(node, Reduction::of::<Max>(), |_, _| {}))
}

fn min(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in real => kernel::<T>(node, Reduction::of::<Min>(), |_, _| {}))
}

fn all(node: &NodeSpec<'_>) -> Result<KernelBox> {
    kernel::<bool>(node, Reduction::of::<All>(), |_, _| {})
}

fn any(node: &NodeSpec<'_>) -> Result<KernelBox> {
    kernel::<bool>(node, Reduction::of::<Any>(), |_, _| {})
}

fn kernel<S: Stored>(
    node: &NodeSpec<'_>,
    reduction: Reduction<S::Compute>,
    finish: Finish<S::Compute>,
) -> Result<KernelBox> {
    let keep_dims: bool = node.attr("keep_dims")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let plan = ReductionPlan::new(ctx.input(0)?.shape(), ctx.input(1)?, keep_dims)?;
        if plan.keeps_everything() && plan.count == 1 {
            let output = ctx.take_input(0)?.reshaped(plan.output)?;
            ctx.set_output(0, output);
            return Ok(());
        }
        let output = reduce::<S>(ctx.loops(), ctx.input(0)?, &plan, &reduction, finish)?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

/// Reduces a tensor as planned.
fn reduce<S: Stored>(
    loops: &Loops,
    input: &Tensor,
    plan: &ReductionPlan,
    reduction: &Reduction<S::Compute>,
    finish: Finish<S::Compute>,
) -> Result<Tensor> {
    let elements = compute_elements(input.as_slice::<S>()?)?;
    let output = build_computed::<S>(plan.output.clone(), |out| {
        plan.run(loops, &elements, reduction, out)?;
        finish(out, plan.count);
        Ok(())
    })?;
    output.with_dtype(input.dtype())
}

/// The mean of no complex numbers is zero in TensorFlow; that of no real ones is not a number.
fn divide_complex_by_count<T: Number>(sums: &mut [T], count: usize) {
    divide_by_count(sums, count.max(1));
}

fn divide_by_count<T: Number>(sums: &mut [T], count: usize) {
    let count = T::from_count(count);
    sums.iter_mut().for_each(|sum| *sum = sum.divided_by(count));
}

/// `Mean`.
fn mean(node: &NodeSpec<'_>) -> Result<KernelBox> {
    match node.dtype()?.storage() {
        DType::Int8 => integer_mean::<i8>(node, |x| x as i64, |x| x as i8),
        DType::Int16 => integer_mean::<i16>(node, |x| x as i64, |x| x as i16),
        DType::Int32 => integer_mean::<i32>(node, |x| x as i64, |x| x as i32),
        DType::UInt8 => integer_mean::<u8>(node, |x| x as i64, |x| x as u8),
        DType::UInt16 => integer_mean::<u16>(node, |x| x as i64, |x| x as u16),
        DType::UInt32 => integer_mean::<u32>(node, |x| x as i64, |x| x as u32),
        DType::Complex64 => kernel::<Complex<f32>>(node, Reduction::of::<Sum>(), divide_complex_by_count),
        DType::Complex128 => kernel::<Complex<f64>>(node, Reduction::of::<Sum>(), divide_complex_by_count),
        dtype => dispatch!(dtype, T in [f32, f64, f16, bf16, i64, u64] => {
            kernel::<T>(node, Reduction::of::<Sum>(), divide_by_count)
        }),
    }
}

fn integer_mean<S: Stored>(
    node: &NodeSpec<'_>,
    widen: fn(S) -> i64,
    narrow: fn(i64) -> S,
) -> Result<KernelBox> {
    let keep_dims: bool = node.attr("keep_dims")?;
    Ok(KernelBox::from_fn(move |ctx: &mut Context<'_>| {
        let input = ctx.input(0)?;
        let plan = ReductionPlan::new(input.shape(), ctx.input(1)?, keep_dims)?;
        let wide: Vec<i64> = memory::collect(input.as_slice::<S>()?.iter().map(|&value| widen(value)))?;
        let mut sums = memory::vec_of(0, plan.output.num_elements())?;
        plan.run(ctx.loops(), &wide, &Reduction::of::<Sum>(), &mut sums)?;
        divide_by_count(&mut sums, plan.count);
        let means: Vec<S> = memory::collect(sums.into_iter().map(narrow))?;
        let output = Tensor::from_slice(&means, &plan.output)?.with_dtype(input.dtype())?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

/// `EuclideanNorm` of floats and complex numbers: the root of the sum of squared moduli.
fn euclidean_norm(node: &NodeSpec<'_>) -> Result<KernelBox> {
    fn kernel<S: Stored<Compute: Elementary>>(keep_dims: bool) -> KernelBox {
        KernelBox::from_fn(move |ctx| {
            let plan = ReductionPlan::new(ctx.input(0)?.shape(), ctx.input(1)?, keep_dims)?;
            let squares = apply_unary::<S>(
                ctx.loops(),
                ctx.take_input(0)?,
                &unary_loop::<S::Compute, SquaredModulus>(),
                cost::ARITHMETIC,
            )?;
            let sums = reduce::<S>(ctx.loops(), &squares, &plan, &Reduction::of::<Sum>(), |_, _| {})?;
            let norms = apply_unary::<S>(
                ctx.loops(),
                sums,
                &unary_loop::<S::Compute, Sqrt>(),
                cost::VECTOR_FUNCTION,
            )?;
            ctx.set_output(0, norms);
            Ok(())
        })
    }
    let keep_dims: bool = node.attr("keep_dims")?;
    dispatch!(node.dtype()?, T in [f32, f64, f16, bf16, Complex<f32>, Complex<f64>] => Ok(kernel::<T>(keep_dims)))
}

#[cfg(test)]
mod tests {
    use tensorfleet_core::Element;

    use super::*;
    use crate::testing::test_op;

    fn run(op: &str, input: Tensor, axes: &[i32], keep_dims: bool) -> Result<Tensor> {
        let op = test_op(op).attr("keep_dims", keep_dims);
        let op = if input.dtype() == DType::Bool { op } else { op.attr("T", input.dtype()) };
        op.input(input).input(Tensor::vector(axes).unwrap()).run_one()
    }

    fn whole<T: Element>(op: &str, values: &[T]) -> T {
        run(op, Tensor::vector(values).unwrap(), &[0], false).unwrap().to_scalar::<T>().unwrap()
    }

    #[test]
    fn reductions_are_what_they_are_called() {
        let matrix = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]).unwrap();
        let rows = |op| run(op, matrix.clone(), &[-1], false).unwrap().as_slice::<f32>().unwrap().to_vec();
        assert_eq!(rows("Sum"), [6.0, 15.0]);
        assert_eq!(rows("Prod"), [6.0, 120.0]);
        assert_eq!(rows("Mean"), [2.0, 5.0]);
        assert_eq!(rows("Max"), [3.0, 6.0]);
        assert_eq!(rows("Min"), [1.0, 4.0]);
        assert_eq!(whole("EuclideanNorm", &[3.0f32, 4.0]), 5.0);
        assert!(whole("Any", &[false, true]) && !whole("All", &[false, true]));
        let kept = run("Sum", matrix.clone(), &[0, 1], true).unwrap();
        assert_eq!((kept.shape().dims(), kept.as_slice::<f32>().unwrap()), (&[1, 1][..], &[21.0][..]));
        let none = run("Sum", matrix.clone(), &[], false).unwrap();
        assert_eq!(none.as_slice::<f32>().unwrap(), matrix.as_slice::<f32>().unwrap());
    }

    #[test]
    fn reducing_nothing_gives_the_identity() {
        assert_eq!((whole::<f32>("Sum", &[]), whole::<f32>("Prod", &[])), (0.0, 1.0));
        assert_eq!((whole::<f32>("Max", &[]), whole::<f32>("Min", &[])), (f32::NEG_INFINITY, f32::INFINITY));
        assert_eq!((whole::<i32>("Max", &[]), whole::<i32>("Mean", &[])), (i32::MIN, 0));
        assert!(whole::<f32>("Mean", &[]).is_nan());
        assert_eq!(whole::<Complex<f32>>("Mean", &[]), Complex::new(0.0, 0.0));
        assert_eq!(
            whole("Mean", &[Complex::new(1.0f64, 2.0), Complex::new(3.0, -4.0)]),
            Complex::new(2.0, -1.0)
        );
        let empty_rows = Tensor::from_slice::<f32>(&[], &[2, 0]).unwrap();
        assert_eq!(run("Sum", empty_rows, &[1], false).unwrap().as_slice::<f32>().unwrap(), [0.0, 0.0]);
        let no_rows = Tensor::from_slice::<f32>(&[], &[0, 3]).unwrap();
        assert_eq!(run("Sum", no_rows, &[1], false).unwrap().shape().dims(), [0]);
    }

    #[test]
    fn sums_of_integers_wrap_but_their_means_do_not() {
        assert_eq!((whole("Sum", &[100i8; 5]), whole("Mean", &[100i8; 5])), (-12, 100));
        assert_eq!(whole("Mean", &[i32::MAX; 100]), i32::MAX);
        assert_eq!((whole("Mean", &[-7i32, 2]), whole("Mean", &[250u8, 255])), (-2, 252));
    }

    #[test]
    fn sixteen_bit_floats_are_summed_in_single_precision() {
        assert_eq!(whole("Sum", &[f16::ONE; 5000]).to_f32(), 5000.0);
        assert_eq!(whole("Mean", &[bf16::from_f32(3.0); 999]).to_f32(), 3.0);
    }

    #[test]
    fn nan_is_the_maximum_and_the_minimum_wherever_it_stands() {
        for position in [0, 31, 32, 99] {
            let mut values = [1.0f32; 100];
            values[position] = f32::NAN;
            assert!(whole("Max", &values).is_nan() && whole("Min", &values).is_nan());
        }
    }
}
