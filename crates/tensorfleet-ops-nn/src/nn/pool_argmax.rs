//! A pool of maxima that also says where they are, and its gradient, which is sent there.
//!
//! A place is the number of an element in its image, or in the whole batch if `include_batch_in_index` says so. Of equal maxima it
//! is the first, in row-major order.

use tensorfleet_core::{DType, PartialShape, Result, Shape, Tensor, ensure};

use super::pool::{Pool, image_in, pool_shape};
use super::window::rank_4;
use tensorfleet_kernel::Work;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::{ShapeContext, integers_of};
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::number::Number;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("MaxPoolWithArgmax", "input: T -> output: T, argmax: Targmax")
        .work(Work::Inputs)
        .attrs(
            "ksize: list(int) >= 4; strides: list(int) >= 4; Targmax: {int32, int64} = int64; \
             padding: {'SAME', 'VALID'}; include_batch_in_index: bool = false; T: real",
        )
        .shape(argmax_shape)
        .kernel(pool)
        .gradient(pool_gradient),
    Op::new("MaxPoolGradWithArgmax", "input: T, grad: T, argmax: Targmax -> output: T")
        .work(Work::Inputs)
        .attrs(
            "ksize: list(int) >= 4; strides: list(int) >= 4; padding: {'SAME', 'VALID'}; \
             include_batch_in_index: bool = false; Targmax: {int32, int64}; T: real",
        )
        .shape(|ctx| Ok(vec![ctx.input_with_rank(0, 4)?]))
        .kernel(pool_grad),
];

/// The attributes that the pool and its gradient share.
const SHARED_ATTRS: &[&str] = &["ksize", "strides", "padding", "include_batch_in_index"];

fn pool_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (x, dy, places) = (d.input(0)?, d.dy(0)?, d.output(1));
    let dx = d.emit(d.with_attrs("MaxPoolGradWithArgmax", &[x, dy, places], SHARED_ATTRS))?;
    d.flow([dx.into()])
}

fn argmax_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let shape = pool_shape(ctx, &Pool::of(ctx.node)?)?;
    Ok([&shape[..], &shape[..]].concat())
}

/// Numbers of elements as the node's `Targmax`.
fn places_as(dtype: DType, places: Tensor) -> Result<Tensor> {
    if dtype == DType::Int64 {
        return Ok(places);
    }
    let (shape, places) = (places.shape().clone(), places.as_slice::<i64>()?);
    Tensor::build::<i32>(shape, |out| {
        // The places of a tensor of more elements than that do not fit, and wrap around, as in TensorFlow.
        out.iter_mut().zip(places).for_each(|(out, &place)| *out = place as i32);
        Ok(())
    })
}

fn pool(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let pool = Pool::of(node)?;
    let (dtype, counts_batch): (DType, bool) = (node.attr("Targmax")?, node.attr("include_batch_in_index")?);
    dispatch!(node.dtype()?, T in real => Ok(KernelBox::from_fn(move |ctx| {
        let image = image_in::<T>(&pool, ctx.input(0)?)?;
        ensure!(!image.shape().contains(&0), InvalidArgument, "tensor_in must not be empty, got shape {}", image.shape());
        let sizes = pool.over(image.shape())?;
        let (pixels, image_len) = (image.as_slice::<T>()?, sizes.image_len());
        let mut places = Tensor::zeros(DType::Int64, sizes.output()?)?;
        sizes.for_each_pixel(ctx.loops(), pixels, places.make_mut::<i64>()?, |image, window, out| {
            for (channel, out) in out.iter_mut().enumerate() {
                let mut sources = window.sources().map(|source| source + channel);
                let Some(mut best) = sources.next() else { continue };
                for place in sources {
                    if image[place] > image[best] {
                        best = place;
                    }
                }
                *out = best as i64;
            }
        });
        let output_len = sizes.output()?.num_elements() / image.shape()[0];
        let output = Tensor::build::<T>(sizes.output()?, |out| {
            let places = places.make_mut::<i64>()?;
            for (number, (out, places)) in out.chunks_mut(output_len.max(1)).zip(places.chunks_mut(output_len.max(1))).enumerate() {
                let image = &pixels[number * image_len..][..image_len];
                for (out, place) in out.iter_mut().zip(places) {
                    *out = image[*place as usize];
                    *place += if counts_batch { (number * image_len) as i64 } else { 0 };
                }
            }
            Ok(())
        })?;
        ctx.set_output(0, output);
        ctx.set_output(1, places_as(dtype, places)?);
        Ok(())
    })))
}

fn pool_grad(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let pool = Pool::of(node)?;
    let counts_batch: bool = node.attr("include_batch_in_index")?;
    dispatch!(node.dtype()?, T in real => Ok(KernelBox::from_fn(move |ctx| {
        let shape = Shape::new(&rank_4(ctx.input(0)?.shape(), "the image of a pool")?)?;
        let sizes = pool.over(&shape)?;
        let expected = sizes.output()?;
        for (index, name) in [(1, "grad"), (2, "argmax")] {
            let found = ctx.input(index)?.shape();
            ensure!(*found == expected, InvalidArgument, "Expected {name} shape to be {expected}, but got {found}");
        }
        let places = integers_of(ctx.input(2)?)?;
        let mut output = Tensor::zeros(ctx.input(0)?.dtype(), shape)?;
        let image_len = if counts_batch { 0 } else { sizes.image_len() };
        let output_len = (places.len() / expected[0].max(1)).max(1);
        send(ctx.input(1)?.as_slice::<T>()?, &places, image_len, output_len, output.make_mut::<T>()?)?;
        ctx.set_output(0, output);
        Ok(())
    })))
}

/// Adds each gradient where its place says; places of image `n` count from `n * image_len`.
fn send<T: Number>(
    gradient: &[T],
    places: &[i64],
    image_len: usize,
    output_len: usize,
    out: &mut [T],
) -> Result<()> {
    let end = if image_len == 0 { out.len() } else { image_len };
    for (at, (&gradient, &place)) in gradient.iter().zip(places).enumerate() {
        let inside = usize::try_from(place).ok().filter(|&place| place < end);
        let target = inside.and_then(|place| out.get_mut(at / output_len * image_len + place));
        let Some(target) = target else { return Err(misplaced(place, end)) };
        *target = target.plus(gradient);
    }
    Ok(())
}

#[cold]
fn misplaced(place: i64, end: usize) -> tensorfleet_core::Status {
    tensorfleet_core::Status::invalid_argument(format!("argmax must be in [0, {end}), but is {place}"))
}

#[cfg(test)]
mod tests {
    use tensorfleet_core::Code;

    use super::*;
    use crate::testing::{TestOp, test_op};

    fn op(name: &str, places: DType, counts_batch: bool) -> TestOp {
        let window = vec![1i64, 2, 2, 1];
        let op = test_op(name).with_shape_check().attr("T", DType::Float).attr("Targmax", places);
        let op = op.attr("ksize", window.clone()).attr("strides", window).attr("padding", "SAME");
        op.attr("include_batch_in_index", counts_batch)
    }

    fn two_images() -> Tensor {
        let values: [f32; 12] = [1.0, 5.0, 5.0, 2.0, 7.0, 1.0, 3.0, f32::NAN, 9.0, 9.0, 0.0, 8.0];
        Tensor::from_slice(&values, &[2, 2, 3, 1]).unwrap()
    }

    #[test]
    fn the_first_maximum_of_each_window_is_named() {
        // What TensorFlow 2.21 gives.
        let found = op("MaxPoolWithArgmax", DType::Int64, false).input(two_images()).run().unwrap();
        assert_eq!(found[0].as_slice::<f32>().unwrap(), [7.0, 5.0, 9.0, 9.0]);
        assert_eq!(found[1].as_slice::<i64>().unwrap(), [4, 2, 3, 2]);
        let found = op("MaxPoolWithArgmax", DType::Int32, true).input(two_images()).run().unwrap();
        assert_eq!(found[1].as_slice::<i32>().unwrap(), [4, 2, 9, 8]);
    }

    #[test]
    fn dtypes_that_only_these_pools_take_are_taken() {
        let image = Tensor::from_slice(&[7u64, u64::MAX, 0, 1], &[1, 2, 2, 1]).unwrap();
        let op = op("MaxPoolWithArgmax", DType::Int64, false).attr("T", DType::UInt64);
        let found = op.input(image).run().unwrap();
        assert_eq!(found[0].as_slice::<u64>().unwrap(), [u64::MAX]);
        assert_eq!(found[1].as_slice::<i64>().unwrap(), [1]);
    }

    #[test]
    fn gradients_are_sent_to_the_named_places() {
        let gradient = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 1, 2, 1]).unwrap();
        let run = |counts_batch, places: [i64; 4]| {
            let op = op("MaxPoolGradWithArgmax", DType::Int64, counts_batch);
            let places = Tensor::from_slice(&places, &[2, 1, 2, 1]).unwrap();
            op.input(two_images()).input(gradient.clone()).input(places).run_one()
        };
        let in_image = run(false, [4, 4, 3, 2]).unwrap();
        assert_eq!(
            in_image.as_slice::<f32>().unwrap(),
            [0.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 4.0, 3.0, 0.0, 0.0]
        );
        assert_eq!(run(true, [4, 4, 9, 8]).unwrap(), in_image);
        for (counts_batch, place) in
            [(false, 6), (false, -1), (true, 12), (true, i64::MIN), (false, i64::MAX)]
        {
            let status = run(counts_batch, [0, 0, 0, place]).unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{place}");
        }
    }
}
