//! `UnravelIndex`: from flat indices to coordinates.

use tensorfleet_core::{DType, PartialShape, Result, Status, Tensor, ensure, memory};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;

use super::axes::{concat_dims, integers, one};

/// The family's table.
pub(crate) static OPS: &[Op] = &[Op::new("UnravelIndex", "indices: Tidx, dims: Tidx -> output: Tidx")
    .work(Work::Inputs)
    .attrs("Tidx: {int32, int64} = int32")
    .shape(unravel_shape)
    .kernel(unravel_kernel)];

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
        let mut coordinates = memory::vec_of(0i64, shape.num_elements())?;
        for (column, &index) in flat.iter().enumerate() {
            let mut rest = index;
            for (row, &dim) in dims.iter().enumerate().rev() {
                coordinates[row * flat.len() + column] = rest % dim;
                rest /= dim;
            }
        }
        let tensor = match dtype {
            DType::Int64 => Tensor::from_slice(&coordinates, &shape)?,
            _ => {
                Tensor::from_slice(&memory::collect(coordinates.iter().map(|&index| index as i32))?, &shape)?
            }
        };
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;

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
