//! Reordering axes: Transpose, ConjugateTranspose, InvertPermutation.

use num_complex::Complex;
use smallvec::{SmallVec, smallvec};
use tensorfleet_core::{DType, Dim, Element, PartialShape, Result, Shape, Tensor, bail, ensure};

use super::axes::{Integers, integers, normalized, one};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, same_as_input};
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::strided::{Window, view};
use tensorfleet_threads::Loops;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Transpose", "x: T, perm: Tperm -> y: T")
        .work(Work::Inputs)
        .gradient(transpose_gradient)
        .attrs("T: type; Tperm: {int32, int64} = int32")
        .shape(transpose_shape)
        .kernel(transpose_kernel),
    Op::new("ConjugateTranspose", "x: T, perm: Tperm -> y: T")
        .work(Work::Inputs)
        .gradient(conjugate_transpose_gradient)
        .attrs("T: type; Tperm: {int32, int64} = int32")
        .shape(transpose_shape)
        .kernel(conjugate_transpose_kernel),
    Op::new("InvertPermutation", "x: T -> y: T")
        .work(Work::Inputs)
        .not_differentiable()
        .attrs("T: {int32, int64} = int32")
        .shape(same_as_input)
        .kernel(invert_permutation_kernel),
];

/// `axes` as a permutation of `0..rank`; negative ones count from the end.
fn permutation(axes: &Integers, rank: usize) -> Result<SmallVec<[usize; 8]>> {
    ensure!(
        axes.len() == rank,
        InvalidArgument,
        "transpose expects a vector of size {rank}. But input(1) is a vector of size {}",
        axes.len()
    );
    let mut seen: SmallVec<[bool; 8]> = smallvec![false; rank];
    let mut permutation = SmallVec::new();
    for &axis in axes {
        let Some(axis) = normalized(axis, rank) else {
            bail!(InvalidArgument, "{axis} is out of range [0 .. {rank})")
        };
        seen[axis] = true;
        permutation.push(axis);
    }
    if let Some(missing) = seen.iter().position(|&seen| !seen) {
        let given = axes.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
        bail!(InvalidArgument, "{missing} is missing from {{{given}}}.");
    }
    Ok(permutation)
}

/// `tensor` with its axes in the order of `permutation`; shares the data if no element has to move.
pub(crate) fn transposed(loops: &Loops, tensor: &Tensor, permutation: &[usize]) -> Result<Tensor> {
    let window = Window::whole(tensor.shape()).permuted(permutation);
    let dims: SmallVec<[usize; 8]> = permutation.iter().map(|&axis| tensor.shape()[axis]).collect();
    view(loops, tensor, &window, Shape::new(&dims)?)
}

fn transpose_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(1, 1)?;
    let rank = ctx.input(0).rank().or(ctx.input(1).dim(0));
    let (Some(rank), Some(perm)) = (rank, ctx.integers(1)) else {
        return one(rank.map_or_else(PartialShape::unknown, PartialShape::of_rank));
    };
    let permutation = permutation(&perm.into(), rank)?;
    let dim = |axis: &usize| -> Dim { ctx.input(0).dim(*axis) };
    one(PartialShape::new(permutation.iter().map(dim)))
}

fn run_transpose(loops: &Loops, x: &Tensor, perm: &Tensor) -> Result<Tensor> {
    ensure!(perm.shape().rank() == 1, InvalidArgument, "perm must be rank 1, got shape {}", perm.shape());
    transposed(loops, x, &permutation(&integers(perm)?, x.shape().rank())?)
}

fn transpose_kernel(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let tensor = run_transpose(ctx.loops(), ctx.input(0)?, ctx.input(1)?)?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

fn conjugate<F: num_traits::Num + Copy + std::ops::Neg<Output = F>>(tensor: &mut Tensor) -> Result<()>
where
    Complex<F>: Element,
{
    tensor.make_mut::<Complex<F>>()?.iter_mut().for_each(|z| *z = z.conj());
    Ok(())
}

fn conjugate_transpose_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype = node.dtype()?;
    Ok(KernelBox::from_fn(move |ctx| {
        let mut tensor = run_transpose(ctx.loops(), ctx.input(0)?, ctx.input(1)?)?;
        match dtype {
            DType::Complex64 => conjugate::<f32>(&mut tensor)?,
            DType::Complex128 => conjugate::<f64>(&mut tensor)?,
            _ => {}
        }
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

fn invert_permutation_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in index => Ok(KernelBox::from_fn(|ctx| {
        let x = ctx.input(0)?;
        ensure!(x.shape().rank() == 1, InvalidArgument, "invert_permutation expects a 1D vector.");
        let elements = x.as_slice::<T>()?;
        let count = elements.len();
        let tensor = Tensor::build(x.shape().clone(), |out: &mut [T]| {
            out.fill(-1);
            for (place, &element) in elements.iter().enumerate() {
                let Some(out) = usize::try_from(element).ok().and_then(|index| out.get_mut(index)) else {
                    bail!(InvalidArgument, "{element} is not between 0 and {count}")
                };
                ensure!(*out == -1, InvalidArgument, "{element} is duplicated in the input.");
                *out = place as T;
            }
            Ok(())
        })?;
        ctx.set_output(0, tensor);
        Ok(())
    })))
}

fn transpose_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    transpose_back(d, "Transpose")
}

fn conjugate_transpose_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    transpose_back(d, "ConjugateTranspose")
}

fn transpose_back(d: &mut Differential<'_>, op: &str) -> Result<Grads> {
    let (dy, order) = (d.dy(0)?, d.input(1)?);
    let inverse = d.op("InvertPermutation", [order])?;
    let dx = d.op(op, [dy, inverse])?;
    d.only(0, dx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use proptest::prelude::*;
    use tensorfleet_core::Code;

    fn transpose(x: Tensor, perm: &[i32]) -> Result<Tensor> {
        let op = test_op("Transpose").with_shape_check().attr("T", x.dtype());
        op.input(x).input(Tensor::vector(perm).unwrap()).run_one()
    }

    #[test]
    fn axes_may_count_from_the_end() {
        let x = Tensor::from_slice(&[0i32, 1, 2, 3, 4, 5], &[2, 3]).unwrap();
        let expected = Tensor::from_slice(&[0i32, 3, 1, 4, 2, 5], &[3, 2]).unwrap();
        assert_eq!(transpose(x.clone(), &[1, 0]).unwrap(), expected);
        assert_eq!(transpose(x, &[-1, 0]).unwrap(), expected);
        let words =
            Tensor::from_strings(vec!["a".into(), "b".into(), "c".into(), "d".into()], &[2, 2]).unwrap();
        assert_eq!(transpose(words, &[1, 0]).unwrap().as_strings().unwrap(), ["a", "c", "b", "d"]);
    }

    #[test]
    fn moving_axes_of_size_one_moves_no_element() {
        let x = Tensor::from_slice(&[1.0f32, 2.0], &[1, 2, 1]).unwrap();
        let out = transpose(x.clone(), &[1, 2, 0]).unwrap();
        assert_eq!(out.shape().dims(), [2, 1, 1]);
        assert_eq!(out.as_bytes().unwrap().as_ptr(), x.as_bytes().unwrap().as_ptr());
    }

    #[test]
    fn what_is_no_permutation_is_refused() {
        let text = |perm: &[i32]| {
            let x = Tensor::zeros(DType::Float, Shape::new(&[2, 3]).unwrap()).unwrap();
            let status = transpose(x, perm).unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            status.text().to_string()
        };
        assert!(text(&[0]).contains("expects a vector of size 2. But input(1) is a vector of size 1"));
        assert_eq!(text(&[0, 2]), "2 is out of range [0 .. 2)");
        assert_eq!(text(&[0, 0]), "1 is missing from {0,0}.");
    }

    #[test]
    fn conjugation_comes_with_transposition() {
        let x = Tensor::from_slice(&[Complex::new(1.0f32, 2.0), Complex::new(3.0, -4.0)], &[1, 2]).unwrap();
        let op =
            test_op("ConjugateTranspose").with_shape_check().attr("T", DType::Complex64).input(x.clone());
        let out = op.input(Tensor::vector(&[1, 0]).unwrap()).run_one().unwrap();
        assert_eq!(
            out.as_slice::<Complex<f32>>().unwrap(),
            [Complex::new(1.0, -2.0), Complex::new(3.0, 4.0)]
        );
        assert_eq!(x.as_slice::<Complex<f32>>().unwrap()[0].im, 2.0);
    }

    #[test]
    fn a_permutation_is_inverted_or_refused() {
        let invert = |x: &[i32]| {
            let op = test_op("InvertPermutation").with_shape_check().input(Tensor::vector(x).unwrap());
            op.run_one().map(|tensor| tensor.as_slice::<i32>().unwrap().to_vec())
        };
        assert_eq!(invert(&[2, 0, 1]).unwrap(), [1, 2, 0]);
        assert_eq!(invert(&[0, 3, 1]).unwrap_err().text(), "3 is not between 0 and 3");
        assert_eq!(invert(&[0, -1, 1]).unwrap_err().text(), "-1 is not between 0 and 3");
        assert_eq!(invert(&[0, 0, 1]).unwrap_err().text(), "0 is duplicated in the input.");
    }

    proptest! {
        #[test]
        fn transposing_agrees_with_index_arithmetic(
            dims in prop::collection::vec(1usize..20, 4), perm in Just(vec![0i32, 1, 2, 3]).prop_shuffle(),
        ) {
            let elements: Vec<i64> = (0..dims.iter().product::<usize>() as i64).collect();
            let out = transpose(Tensor::from_slice(&elements, &dims).unwrap(), &perm).unwrap();
            let sizes: Vec<usize> = perm.iter().map(|&axis| dims[axis as usize]).collect();
            prop_assert_eq!(out.shape().dims(), &sizes[..]);
            for (position, &element) in out.as_slice::<i64>().unwrap().iter().enumerate() {
                let (mut rest, mut index) = (position, [0; 4]);
                for k in (0..4).rev() {
                    index[perm[k] as usize] = rest % sizes[k];
                    rest /= sizes[k];
                }
                let from = index.iter().zip(&dims).fold(0, |from, (&i, &dim)| from * dim + i);
                prop_assert_eq!(element, elements[from]);
            }
        }
    }
}
