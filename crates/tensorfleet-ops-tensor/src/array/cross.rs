//! Small odds of array arithmetic: Cross, UnravelIndex.

use tensorfleet_core::{DType, PartialShape, Result, Status, Tensor, ensure};

use super::axes::{concat_dims, integers, one};
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::number::Number;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Cross", "a: T, b: T -> product: T")
        .gradient(cross_gradient)
        .attrs("T: real")
        .shape(cross_shape)
        .kernel(cross_kernel),
    Op::new("UnravelIndex", "indices: Tidx, dims: Tidx -> output: Tidx")
        .attrs("Tidx: {int32, int64} = int32")
        .shape(unravel_shape)
        .kernel(unravel_kernel),
];

fn cross_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    one(ctx.input(0).merge(ctx.input(1))?)
}

fn cross_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in real => Ok(KernelBox::from_fn(|ctx| {
        let (a, b) = (ctx.input(0)?, ctx.input(1)?);
        ensure!(
            a.shape() == b.shape(),
            InvalidArgument,
            "Both inputs must be of same shape: {} vs. {}",
            a.shape(),
            b.shape()
        );
        ensure!(a.shape().rank() >= 1, InvalidArgument, "Input must be at least 1D");
        ensure!(
            a.shape().last() == Some(&3),
            FailedPrecondition,
            "Cross-products are only defined for 3-element vectors."
        );
        let (x, y) = (a.as_slice::<T>()?, b.as_slice::<T>()?);
        let tensor = Tensor::build(a.shape().clone(), |out: &mut [T]| {
            for ((out, x), y) in out.chunks_exact_mut(3).zip(x.chunks_exact(3)).zip(y.chunks_exact(3)) {
                for (k, out) in out.iter_mut().enumerate() {
                    let (i, j) = ((k + 1) % 3, (k + 2) % 3);
                    *out = x[i].times(y[j]).minus(x[j].times(y[i]));
                }
            }
            Ok(())
        })?;
        ctx.set_output(0, tensor);
        Ok(())
    })))
}

fn unravel_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let dims = ctx.input_with_rank(1, 1)?;
    match ctx.input(0).dims() {
        Some(indices) => one(PartialShape::new([dims.dim(0)].into_iter().chain(indices.iter().copied()))),
        None => one(PartialShape::unknown()),
    }
}

/// `UnravelIndex`: the coordinates of flat indices, one row for each dimension.
fn unravel_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype = node.attr::<DType>("Tidx")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let (indices, sizes) = (ctx.input(0)?, ctx.input(1)?);
        ensure!(
            indices.shape().rank() <= 1,
            InvalidArgument,
            "The indices can only be scalar or vector, got {}",
            indices.shape()
        );
        ensure!(
            sizes.shape().rank() == 1,
            InvalidArgument,
            "The indices can only be 1-D, got {}",
            sizes.shape()
        );
        let dims = integers(sizes)?;
        let mut total = 1i64;
        for (axis, &dim) in dims.iter().enumerate() {
            ensure!(
                dim != 0,
                InvalidArgument,
                "Input dims cannot contain a dim of zero, but dims contains zero at index {axis}"
            );
            let overflow = || Status::invalid_argument("Input dims product is causing integer overflow");
            total = total.checked_mul(dim).filter(|&total| total > 0).ok_or_else(overflow)?;
        }
        let flat = integers(indices)?;
        ensure!(
            flat.iter().all(|&index| index < total),
            InvalidArgument,
            "index is out of bound as with dims"
        );
        let shape = concat_dims(&[&[dims.len()], indices.shape()])?;
        let mut coordinates = vec![0i64; shape.num_elements()];
        for (column, &index) in flat.iter().enumerate() {
            let mut rest = index;
            for (row, &dim) in dims.iter().enumerate().rev() {
                coordinates[row * flat.len() + column] = rest % dim;
                rest /= dim;
            }
        }
        let tensor = match dtype {
            DType::Int64 => Tensor::from_slice(&coordinates, &shape)?,
            _ => Tensor::from_slice(
                &coordinates.iter().map(|&index| index as i32).collect::<Vec<_>>(),
                &shape,
            )?,
        };
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

fn cross_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, a, b) = (d.dy(0)?, d.input(0)?, d.input(1)?);
    let (da, db) = (d.op("Cross", [b, dy])?, d.op("Cross", [dy, a])?);
    d.several([(0, da), (1, db)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use tensorfleet_core::Code;

    #[test]
    fn cross_products_need_three_components() {
        let cross = |a: Tensor, b: Tensor| {
            test_op("Cross").with_shape_check().attr("T", DType::Float).input(a).input(b).run_one()
        };
        let vector = |elements: &[f32]| Tensor::vector(elements).unwrap();
        let out = cross(vector(&[1.0, 2.0, 3.0]), vector(&[4.0, 5.0, 6.0])).unwrap();
        assert_eq!(out.as_slice::<f32>().unwrap(), [-3.0, 6.0, -3.0]);
        let status = cross(vector(&[1.0, 2.0]), vector(&[4.0, 5.0])).unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(
            cross(vector(&[1.0]), vector(&[4.0, 5.0]))
                .unwrap_err()
                .text()
                .contains("same shape: [1] vs. [2]")
        );
    }

    #[test]
    fn flat_indices_become_coordinates() {
        let unravel = |indices: Tensor, dims: &[i32]| {
            test_op("UnravelIndex")
                .with_shape_check()
                .input(indices)
                .input(Tensor::vector(dims).unwrap())
                .run_one()
        };
        let out = unravel(Tensor::vector(&[22, 41]).unwrap(), &[7, 6]).unwrap();
        assert_eq!(out, Tensor::from_slice(&[3, 6, 4, 5], &[2, 2]).unwrap());
        assert_eq!(unravel(22i32.into(), &[7, 6]).unwrap(), Tensor::vector(&[3, 4]).unwrap());
        assert!(unravel(42i32.into(), &[7, 6]).unwrap_err().text().contains("index is out of bound"));
        assert!(unravel(0i32.into(), &[7, 0]).unwrap_err().text().contains("contains zero at index 1"));
    }
}
