//! `Cross`: products of vectors with three components.

use tensorfleet_core::{PartialShape, Result, Tensor, ensure};

use super::axes::one;
use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::number::Number;

/// The family's table.
pub(crate) static OPS: &[Op] = &[Op::new("Cross", "a: T, b: T -> product: T")
    .work(Work::Inputs)
    .gradient(cross_gradient)
    .attrs("T: real")
    .shape(cross_shape)
    .kernel(cross_kernel)];

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

fn cross_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, a, b) = (d.dy(0)?, d.input(0)?, d.input(1)?);
    let (da, db) = (d.op("Cross", [b, dy])?, d.op("Cross", [dy, a])?);
    d.several([(0, da), (1, db)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use tensorfleet_core::{Code, DType};

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
}
