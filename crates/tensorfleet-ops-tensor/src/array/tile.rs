//! Repeating a tensor along its axes: Tile.

use smallvec::SmallVec;
use tensorfleet_core::{DType, Dim, PartialShape, Result, Shape, ensure};

use super::axes::{integers, one};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_kernel::work::{NodeInputs, elements_of_shape};
use tensorfleet_numeric::strided::{Axis, Window, view};

/// The family's table.
pub(crate) static OPS: &[Op] = &[Op::new("Tile", "input: T, multiples: Tmultiples -> output: T")
    .work(Work::Values(tiled_elements))
    .gradient(tile_gradient)
    .attrs("T: type; Tmultiples: {int32, int64} = int32")
    .shape(tile_shape)
    .kernel(tile_kernel)];

fn tiled_elements(inputs: &dyn NodeInputs) -> Option<usize> {
    Some(inputs.tensor(0)?.num_elements().saturating_mul(elements_of_shape::<1>(inputs)?))
}

fn tile_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let multiples = ctx.shape_value(1)?;
    let (Some(dims), Some(multiples)) = (ctx.input(0).dims(), multiples.dims()) else {
        let rank = ctx.input(0).rank().or(multiples.rank());
        return one(rank.map_or_else(PartialShape::unknown, PartialShape::of_rank));
    };
    check_count(dims.len(), multiples.len())?;
    let tiled = |(&dim, &multiple): (&Dim, &Dim)| match (dim, multiple) {
        (Some(0), _) | (_, Some(0)) => Some(0),
        (dim, multiple) => dim?.checked_mul(multiple?),
    };
    one(PartialShape::new(dims.iter().zip(multiples).map(tiled)))
}

fn check_count(rank: usize, multiples: usize) -> Result<()> {
    ensure!(
        rank == multiples,
        InvalidArgument,
        "Expected multiples argument to be a vector of length {rank} but got length {multiples}"
    );
    Ok(())
}

fn tile_kernel(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let (input, multiples) = (ctx.input(0)?, ctx.input(1)?);
        ensure!(
            multiples.shape().rank() == 1,
            InvalidArgument,
            "Expected multiples to be 1-D, but got shape {}",
            multiples.shape()
        );
        let multiples = integers(multiples)?;
        check_count(input.shape().rank(), multiples.len())?;
        let mut dims: SmallVec<[usize; 8]> = SmallVec::new();
        let mut axes: SmallVec<[Axis; 8]> = SmallVec::new();
        for (index, (axis, &multiple)) in
            Window::whole(input.shape()).axes().iter().zip(&multiples).enumerate()
        {
            ensure!(multiple >= 0, InvalidArgument, "Expected multiples[{index}] >= 0, but got {multiple}");
            // Repeating is walking an axis that leads nowhere.
            axes.extend([Axis { len: multiple as usize, stride: 0 }, *axis]);
            dims.push(axis.len.saturating_mul(multiple as usize));
        }
        let tensor = view(ctx.loops(), input, &Window::new(0, axes), Shape::new(&dims)?)?;
        ctx.set_output(0, tensor);
        Ok(())
    }))
}

/// The sum over the copies: what arrives is seen as `[copies, size]` for each axis.
fn tile_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, x, copies) = (d.dy(0)?, d.input(0)?, d.input(1)?);
    let copies = d.cast(copies, DType::Int32)?;
    let sizes = d.shape_of(x)?;
    let split = d.emit(NewNode::new("Pack").input_list([copies, sizes]).attr("axis", 1i64))?;
    let split = d.flat(split)?;
    let dy = d.op("Reshape", [dy, split])?;
    let axes = d.axes_of(x)?;
    let two = d.int(2)?;
    let axes = d.op("Mul", [axes, two])?;
    let dx = d.op("Sum", [dy, axes])?;
    // The sum knows no shape where the copies are not constant.
    let dx = d.op("Reshape", [dx, sizes])?;
    d.only(0, dx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use proptest::prelude::*;
    use tensorfleet_core::{Code, Tensor};

    fn tile(input: Tensor, multiples: &[i32]) -> Result<Tensor> {
        let op = test_op("Tile").with_shape_check().attr("T", input.dtype());
        op.input(input).input(Tensor::vector(multiples).unwrap()).run_one()
    }

    #[test]
    fn tiling_repeats_along_each_axis() {
        let row = Tensor::from_slice(&[1i32, 2], &[1, 2]).unwrap();
        assert_eq!(tile(row.clone(), &[2, 2]).unwrap().as_slice::<i32>().unwrap(), [1, 2, 1, 2, 1, 2, 1, 2]);
        assert_eq!(tile(row.clone(), &[0, 2]).unwrap().shape().dims(), [0, 4]);
        assert_eq!(tile(Tensor::scalar(3.0f32), &[]).unwrap(), Tensor::scalar(3.0f32));
        assert_eq!(
            tile(Tensor::vector(&[true]).unwrap(), &[3]).unwrap(),
            Tensor::vector(&[true; 3]).unwrap()
        );
        let words = Tensor::from_strings(vec!["a".into(), "b".into()], &[2]).unwrap();
        assert_eq!(tile(words, &[2]).unwrap().as_strings().unwrap(), ["a", "b", "a", "b"]);
        let same = tile(row.clone(), &[1, 1]).unwrap();
        assert_eq!(same.as_bytes().unwrap().as_ptr(), row.as_bytes().unwrap().as_ptr());
    }

    #[test]
    fn wrong_multiples_are_refused() {
        let text = |multiples: &[i32]| {
            let status = tile(Tensor::vector(&[1.0f32]).unwrap(), multiples).unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            status.text().to_string()
        };
        assert!(text(&[1, 2]).contains("vector of length 1 but got length 2"));
        assert!(text(&[-1]).contains("Expected multiples[0] >= 0, but got -1"));
    }

    proptest! {
        #[test]
        fn every_element_is_that_of_the_input_modulo_its_size(
            dims in prop::collection::vec(0usize..4, 3), multiples in prop::collection::vec(0i32..4, 3),
        ) {
            let elements: Vec<i32> = (0..dims.iter().product::<usize>() as i32).collect();
            let out = tile(Tensor::from_slice(&elements, &dims).unwrap(), &multiples).unwrap();
            let mut expected = Vec::new();
            for i in 0..dims[0] * multiples[0] as usize {
                for j in 0..dims[1] * multiples[1] as usize {
                    for k in 0..dims[2] * multiples[2] as usize {
                        expected.push(elements[(i % dims[0] * dims[1] + j % dims[1]) * dims[2] + k % dims[2]]);
                    }
                }
            }
            prop_assert_eq!(out.as_slice::<i32>().unwrap(), &expected[..]);
        }
    }
}
