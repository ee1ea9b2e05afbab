//! Indices as rows of zeros with a one: OneHot.

use smallvec::SmallVec;
use tensorfleet_core::{DType, Dim, Element, PartialShape, Result, Shape, Status, bail, ensure};

use super::axes::{integer, one};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_kernel::work::{NodeInputs, elements_of_shape};
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::rearrange::{Movement, rearrange};
use tensorfleet_threads::Loops;

/// The family's table.
pub(crate) static OPS: &[Op] =
    &[Op::new("OneHot", "indices: TI, depth: int32, on_value: T, off_value: T -> output: T")
        .work(Work::Values(one_hot_elements))
        .not_differentiable()
        .attrs("axis: int = -1; T: type; TI: {uint8, int8, int32, int64} = int64")
        .shape(one_hot_shape)
        .kernel(one_hot_kernel)];

/// The sources are the value at an index and the value elsewhere. Out is `[outer, depth, inner]`.
struct Marks<'a, I> {
    /// For every outer and inner place, which element of the depth is marked; those outside mark none.
    indices: &'a [I],
    depth: usize,
    inner: usize,
}

impl<I: Copy + Into<i64>> Movement for Marks<'_, I> {
    fn run<T: Element>(&self, _: &Loops, sources: &[&[T]], out: &mut [T]) -> Result<()> {
        let [[on], [off]] = sources else { return Err(Status::internal("a mark is on or off")) };
        out.fill(*off);
        for (position, &index) in self.indices.iter().enumerate() {
            let index: i64 = index.into();
            if (0..self.depth as i64).contains(&index) {
                let (outer, inner) = (position / self.inner, position % self.inner);
                out[(outer * self.depth + index as usize) * self.inner + inner] = *on;
            }
        }
        Ok(())
    }
}

fn depth_axis(axis: i64, rank: usize) -> Result<usize> {
    match usize::try_from(axis) {
        Ok(axis) if axis <= rank => Ok(axis),
        Err(_) if axis == -1 => Ok(rank),
        _ => bail!(
            InvalidArgument,
            "Expected axis to be -1 or between [0, {}).  But received: {axis}",
            rank + 1
        ),
    }
}

fn one_hot_elements(inputs: &dyn NodeInputs) -> Option<usize> {
    Some(inputs.tensor(0)?.num_elements().saturating_mul(elements_of_shape::<1>(inputs)?))
}

fn one_hot_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(1, 0)?;
    ctx.input_with_rank(2, 0)?;
    ctx.input_with_rank(3, 0)?;
    let Some(dims) = ctx.input(0).dims() else { return one(PartialShape::unknown()) };
    let depth = ctx.integer(1);
    ensure!(
        depth.is_none_or(|depth| depth >= 0),
        InvalidArgument,
        "depth must be non-negative, got: {}",
        depth.unwrap_or_default()
    );
    let mut dims: SmallVec<[Dim; 8]> = SmallVec::from_slice(dims);
    dims.insert(depth_axis(ctx.attr("axis")?, dims.len())?, depth.map(|depth| depth as usize));
    one(PartialShape::new(dims))
}

fn one_hot_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let axis: i64 = node.attr("axis")?;
    dispatch!(node.attr::<DType>("TI")?, I in [u8, i8, i32, i64] => Ok(KernelBox::from_fn(move |ctx| {
        let (indices, on, off) = (ctx.input(0)?, ctx.input(2)?, ctx.input(3)?);
        for (tensor, name) in [(ctx.input(1)?, "depth"), (on, "on_value"), (off, "off_value")] {
            ensure!(tensor.is_scalar(), InvalidArgument, "{name} must be a scalar, but got: {}", tensor.shape());
        }
        let depth = integer(ctx.input(1)?, "depth")?;
        let axis = depth_axis(axis, indices.shape().rank())?;
        ensure!(depth >= 0, InvalidArgument, "depth must be non-negative, got: {depth}");
        let depth = depth as usize;
        let mut dims: SmallVec<[usize; 8]> = SmallVec::from_slice(indices.shape());
        dims.insert(axis, depth);
        let inner = indices.shape()[axis..].iter().product();
        let marks = Marks { indices: indices.as_slice::<I>()?, depth, inner };
        let tensor = rearrange(ctx.loops(), on.dtype(), Shape::new(&dims)?, &[on, off], &marks)?;
        ctx.set_output(0, tensor);
        Ok(())
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use tensorfleet_core::Tensor;

    fn one_hot(indices: Tensor, depth: i32, on: Tensor, off: Tensor, axis: i64) -> Result<Tensor> {
        let op = test_op("OneHot").with_shape_check().attr("T", on.dtype()).attr("TI", indices.dtype());
        op.attr("axis", axis).input(indices).input(depth.into()).input(on).input(off).run_one()
    }

    #[test]
    fn indices_outside_the_depth_mark_nothing() {
        let indices = Tensor::vector(&[0i32, 2, -1, 5]).unwrap();
        let out = one_hot(indices.clone(), 3, 5.0f32.into(), (-1.0f32).into(), -1).unwrap();
        let expected = [5.0, -1.0, -1.0, -1.0, -1.0, 5.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0];
        assert_eq!((out.shape().dims(), out.as_slice::<f32>().unwrap()), (&[4, 3][..], &expected[..]));
        let out = one_hot(indices, 2, true.into(), false.into(), 0).unwrap();
        assert_eq!(out.shape().dims(), [2, 4]);
        assert_eq!(out.as_slice::<bool>().unwrap(), [true, false, false, false, false, false, false, false]);
        let scalar = one_hot(Tensor::scalar(1u8), 3, "on".into(), "off".into(), -1).unwrap();
        assert_eq!(scalar.as_strings().unwrap(), ["off", "on", "off"]);
        assert_eq!(
            one_hot(Tensor::scalar(1i64), 0, 1i32.into(), 0i32.into(), -1).unwrap().shape().dims(),
            [0]
        );
    }

    #[test]
    fn wrong_arguments_are_refused() {
        let run =
            |depth, on: Tensor, axis| one_hot(Tensor::vector(&[0i64]).unwrap(), depth, on, 0i32.into(), axis);
        assert!(run(-1, 1i32.into(), -1).unwrap_err().text().contains("depth must be non-negative, got: -1"));
        assert!(run(2, 1i32.into(), 3).unwrap_err().text().contains("between [0, 2).  But received: 3"));
        let pair = Tensor::vector(&[1i32, 2]).unwrap();
        assert!(run(2, pair, -1).unwrap_err().text().contains("on_value must be a scalar, but got: [2]"));
    }
}
