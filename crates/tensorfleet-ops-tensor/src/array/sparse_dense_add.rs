//! A sparse and a dense tensor, added: SparseTensorDenseAdd.

use tensorfleet_core::{Result, Tensor, bail, ensure};

use super::axes::{Integers, integers, one};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::number::Number;

/// The family's table.
pub(crate) static OPS: &[Op] = &[Op::new(
    "SparseTensorDenseAdd",
    "a_indices: Tindices, a_values: T, a_shape: Tindices, b: T -> output: T",
)
.work(Work::Inputs)
.attrs("T: number; Tindices: {int32, int64}")
.shape(|ctx| one(ctx.input(3).clone()))
.kernel(kernel)
.gradient(gradient)];

/// The coordinates, checked to belong to as many values, and to lie inside the dense tensor.
fn coordinates(indices: &Tensor, values: &Tensor, sizes: &Tensor, dense: &Tensor) -> Result<Integers> {
    let &[count, rank] = indices.shape().dims() else {
        bail!(InvalidArgument, "Input a_indices should be a matrix but received shape: {}", indices.shape())
    };
    ensure!(
        values.shape().rank() == 1 && sizes.shape().rank() == 1,
        InvalidArgument,
        "Inputs a_values and a_shape should be vectors but received shapes: {} and {}",
        values.shape(),
        sizes.shape()
    );
    let (found, sizes) = (values.num_elements(), integers(sizes)?);
    ensure!(found == count, InvalidArgument, "Dimensions {count} and {found} are not compatible");
    for other in [sizes.len(), dense.shape().rank()] {
        ensure!(other == rank, InvalidArgument, "Dimensions {rank} and {other} are not compatible");
    }
    for (axis, (&sparse, &dense)) in sizes.iter().zip(dense.shape().iter()).enumerate() {
        ensure!(
            usize::try_from(sparse) == Ok(dense),
            InvalidArgument,
            "Dimension {axis} does not equal (no broadcasting is supported): sparse side {sparse} vs dense side {dense}"
        );
    }
    let indices = integers(indices)?;
    for (position, &index) in indices.iter().enumerate() {
        let (row, axis) = (position / rank, position % rank);
        ensure!(
            usize::try_from(index).is_ok_and(|index| index < dense.shape()[axis]),
            InvalidArgument,
            "Sparse tensor has an invalid index on dimension {axis}: a_indices({row},{axis}) = {index}, dense tensor shape: {}",
            dense.shape()
        );
    }
    Ok(indices)
}

fn kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in numeric => Ok(KernelBox::from_fn(move |ctx| {
        let mut sum = ctx.take_input(3)?;
        let (indices, values) = (ctx.input(0)?, ctx.input(1)?);
        let coordinates = coordinates(indices, values, ctx.input(2)?, &sum)?;
        let (shape, rank) = (sum.shape().clone(), sum.shape().rank());
        let elements = sum.make_mut::<T>()?;
        for (row, &value) in values.as_slice::<T>()?.iter().enumerate() {
            let coordinate = &coordinates[row * rank..(row + 1) * rank];
            let place = coordinate.iter().zip(shape.iter()).fold(0, |place, (&index, &dim)| place * dim + index as usize);
            elements[place] = elements[place].plus(value);
        }
        ctx.set_output(0, sum);
        Ok(())
    })))
}

fn gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, indices) = (d.dy(0)?, d.input(0)?);
    let values = d.op("GatherNd", [dy, indices])?;
    d.several([(1, values), (3, dy)])
}

#[cfg(test)]
mod tests {
    use tensorfleet_core::DType;

    use super::*;
    use crate::testing::test_op;

    fn add(
        indices: &[i64],
        shape: &[usize],
        values: &[f32],
        sizes: &[i64],
        dense: &[usize],
    ) -> Result<Tensor> {
        let dense = Tensor::from_slice(&vec![1.0f32; dense.iter().product()], dense)?;
        let op = test_op("SparseTensorDenseAdd").with_shape_check();
        let op = op.attr("T", DType::Float).attr("Tindices", DType::Int64);
        let op = op.input(Tensor::from_slice(indices, shape)?).input(Tensor::vector(values)?);
        op.input(Tensor::vector(sizes)?).input(dense).run_one()
    }

    #[test]
    fn values_are_added_at_their_places_also_twice() {
        let sum = add(&[0, 1, 0, 1, 1, 0], &[3, 2], &[1.0, 2.0, 3.0], &[2, 2], &[2, 2]).unwrap();
        assert_eq!(sum, Tensor::from_slice(&[1.0f32, 4.0, 4.0, 1.0], &[2, 2]).unwrap());
        assert_eq!(add(&[], &[0, 1], &[], &[0], &[0]).unwrap().num_elements(), 0);
    }

    #[test]
    fn triples_that_contradict_each_other_are_refused_as_tensorflow_does() {
        let text = |indices: &[i64], shape: &[usize], values: &[f32], sizes: &[i64]| {
            add(indices, shape, values, sizes, &[2, 2]).unwrap_err().text().to_string()
        };
        assert!(text(&[0, 1], &[1, 2], &[1.0], &[2, 3]).contains("Dimension 1 does not equal"));
        assert!(text(&[0, 1], &[1, 2], &[1.0], &[2]).contains("Dimensions 2 and 1 are not compatible"));
        assert!(text(&[0, 5], &[1, 2], &[1.0], &[2, 2]).contains("a_indices(0,1) = 5"));
        assert!(text(&[0, -1], &[1, 2], &[1.0], &[2, 2]).contains("a_indices(0,1) = -1"));
        assert!(text(&[0, 1], &[2], &[1.0], &[2, 2]).contains("should be a matrix"));
        assert!(text(&[0, 1], &[1, 2], &[1.0, 2.0], &[2, 2]).contains("Dimensions 1 and 2"));
    }
}
