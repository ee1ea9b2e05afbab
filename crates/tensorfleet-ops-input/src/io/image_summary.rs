//! `ImageSummary`: the first images of a batch as PNG files.
//!
//! Bytes are shown as they are. Floats of each image are scaled on their own, as TensorFlow does: without negative
//! values the largest becomes 255; with them 0 becomes 128 and the value farthest from 0 becomes 1 or 255. A pixel
//! with a channel that is not finite is shown in `bad_color`, and plays no part in the scaling. The scaling is done in
//! the tensor's own precision, so that the pixels are those of TensorFlow.

use half::f16;
use num_traits::{AsPrimitive, Float};
use tensorfleet_core::{DType, Result, Shape, Tensor, bail, ensure, memory};
use tensorfleet_proto::tensorflow::summary::{Image, Value, value};

use super::images;
use super::summaries::{set_summary, tag_in, tagged, tagged_shape};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_numeric::dispatch;

/// The family's table.
pub(crate) static OPS: &[Op] = &[Op::new("ImageSummary", "tag: string, tensor: T -> summary: string")
    .attrs("max_images: int >= 1 = 3; T: {uint8, float, half, double} = float; bad_color: tensor = [255, 0, 0, 255]")
    .shape(tagged_shape)
    .kernel(image_summary)];

/// Below this, values count as zero and are not blown up to white.
const ZERO_THRESHOLD: f32 = 1e-6;

fn image_summary(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let max_images: i64 = node.attr("max_images")?;
    let bad_color: Tensor = node.attr("bad_color")?;
    let dtype = bad_color.dtype();
    ensure!(dtype == DType::UInt8, InvalidArgument, "bad_color must be uint8, got {dtype}");
    let shape = bad_color.shape();
    ensure!(shape.rank() == 1, InvalidArgument, "bad_color must be a vector, got shape {shape}");
    Ok(KernelBox::from_fn(move |ctx| {
        let base = tag_in(ctx)?;
        let tensor = ctx.input(1)?;
        let [batch, height, width, channels] = dimensions(tensor.shape())?;
        let color = bad_color.as_slice::<u8>()?;
        ensure!(
            tensor.dtype() == DType::UInt8 || channels <= color.len(),
            InvalidArgument,
            "expected depth <= bad_color.size, got depth = {channels}, bad_color.size = {}",
            color.len()
        );
        let count = batch.min(max_images as usize);
        let mut values = memory::vec_with_room(count)?;
        for index in 0..count {
            let tag = if max_images > 1 { format!("{base}/image/{index}") } else { format!("{base}/image") };
            let range = index * height * width * channels..(index + 1) * height * width * channels;
            let pixels = dispatch!(tensor.dtype(), T in [u8, f32, f16, f64] => {
                let values = tensor.as_slice::<T>()?.get(range).unwrap_or_default();
                T::to_pixels(values, channels, color)
            })?;
            values.push(image(tag, &pixels, [height, width, channels])?);
        }
        set_summary(ctx, values);
        Ok(())
    }))
}

fn dimensions(shape: &Shape) -> Result<[usize; 4]> {
    match shape[..] {
        [batch, height, width, channels @ (1 | 3 | 4)] => {
            ensure!(
                batch == 0 || (height > 0 && width > 0),
                InvalidArgument,
                "input tensor must have non-zero dims. Found: {shape}."
            );
            Ok([batch, height, width, channels])
        }
        _ => bail!(InvalidArgument, "Tensor must be 4-D with last dim 1, 3, or 4, not {shape}"),
    }
}

fn image(tag: String, pixels: &[u8], [height, width, channels]: [usize; 3]) -> Result<Value> {
    let encoded_image_string = images::encode_png(pixels, [height, width, channels])?.into();
    let (height, width, colorspace) = (height as i32, width as i32, channels as i32);
    Ok(tagged(tag, value::Value::Image(Image { height, width, colorspace, encoded_image_string })))
}

/// Elements of images.
trait Pixels: Sized {
    /// The bytes of one image.
    fn to_pixels(values: &[Self], channels: usize, bad_color: &[u8]) -> Result<Vec<u8>>;
}

impl Pixels for u8 {
    fn to_pixels(values: &[u8], _: usize, _: &[u8]) -> Result<Vec<u8>> {
        memory::copy_of(values)
    }
}

macro_rules! scaled_pixels {
    ($($float:ty),*) => {
        $(impl Pixels for $float {
            fn to_pixels(values: &[$float], channels: usize, bad_color: &[u8]) -> Result<Vec<u8>> {
                scaled(values, channels, bad_color)
            }
        })*
    };
}

scaled_pixels!(f16, f32, f64);

fn scaled<F>(values: &[F], channels: usize, bad_color: &[u8]) -> Result<Vec<u8>>
where
    F: Float + AsPrimitive<f32> + AsPrimitive<f64>,
    f32: AsPrimitive<F>,
{
    let is_finite = |pixel: &&[F]| pixel.iter().all(|value| value.is_finite());
    let (mut min, mut max) = (f32::INFINITY, f32::NEG_INFINITY);
    for pixel in values.chunks_exact(channels).filter(is_finite) {
        for value in pixel {
            let value: f32 = value.as_();
            (min, max) = (min.min(value), max.max(value));
        }
    }
    let (brightest, offset) = if min < 0.0 { (127.0, 128.0) } else { (255.0, 0.0) };
    let largest = if min < 0.0 { max.abs().max(min.abs()) } else { max };
    let scale: F = if largest < ZERO_THRESHOLD { F::zero() } else { (brightest / largest).as_() };
    let offset: F = AsPrimitive::<F>::as_(offset);
    let mut pixels = memory::vec_with_room(values.len())?;
    for pixel in values.chunks_exact(channels) {
        if is_finite(&pixel) {
            pixels.extend(pixel.iter().map(|&value| to_byte((value * scale + offset).as_())));
        } else {
            pixels.extend(bad_color.iter().take(channels));
        }
    }
    Ok(pixels)
}

/// The cast of TensorFlow on x86, which shows when half precision overflows: what no integer can hold becomes 0.
fn to_byte(value: f64) -> u8 {
    if value > f64::from(i32::MIN) && value < f64::from(i32::MAX) { value as i32 as u8 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestOp, test_op};
    use prost::Message;
    use tensorfleet_core::Code;
    use tensorfleet_proto::tensorflow::Summary;

    const RED: [u8; 4] = [255, 0, 0, 255];

    fn op(images: Tensor, max_images: i64) -> TestOp {
        let op = test_op("ImageSummary").attr("T", images.dtype()).attr("max_images", max_images);
        op.input(Tensor::string("p")).input(images)
    }

    fn tags(op: TestOp) -> Vec<String> {
        let summary = Summary::decode(op.run_one().unwrap().to_string_scalar().unwrap().clone()).unwrap();
        summary.value.into_iter().map(|value| value.tag).collect()
    }

    fn pixels<T: Pixels>(values: &[T], channels: usize, bad_color: &[u8]) -> Vec<u8> {
        T::to_pixels(values, channels, bad_color).unwrap()
    }

    /// All expected pixels are TensorFlow 2.21's.
    #[test]
    fn floats_are_scaled_as_tensorflow_scales_them() {
        assert_eq!(pixels::<f32>(&[-1.0, 0.0, 0.5, 1.0], 1, &RED), [1, 128, 191, 255]);
        assert_eq!(pixels::<f32>(&[0.1, 0.0, 0.5, 2.0], 1, &RED), [12, 0, 63, 255]);
        assert_eq!(pixels::<f64>(&[0.1, 0.0, 0.5, -2.0], 1, &RED), [134, 128, 159, 1]);
        assert_eq!(pixels::<f64>(&[1e300, 1000.0, -3.0], 1, &RED), [128, 128, 128]);
        assert_eq!(pixels::<f32>(&[1e-7, -1e-7], 1, &RED), [128, 128]);
        assert_eq!(pixels::<f32>(&[1e-6, 9e-7, 0.0], 1, &RED), [255, 229, 0]);
        let half = |values: [f32; 3]| pixels::<f16>(&values.map(f16::from_f32), 1, &RED);
        assert_eq!(half([65504.0, 1000.0, -3.0]), [255, 130, 128]);
        assert_eq!(half([6e-8, 9e-7, 1e-5]), [0, 0, 0]);
        assert_eq!(pixels::<u8>(&[7, 255, 0], 3, &RED), [7, 255, 0]);
    }

    #[test]
    fn pixels_that_are_no_number_have_the_bad_color() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let values = [0.1, nan, 1.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.5, 2.0, inf, -inf];
        assert_eq!(pixels::<f32>(&values, 3, &RED), [255, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0]);
        assert_eq!(pixels::<f32>(&[nan, nan], 1, &[1, 2, 3]), [1, 1]);
    }

    #[test]
    fn images_are_numbered_unless_there_can_be_only_one() {
        let images =
            |count: usize| Tensor::zeros(DType::Float, Shape::new(&[count, 1, 1, 1]).unwrap()).unwrap();
        assert_eq!(tags(op(images(5), 2)), ["p/image/0", "p/image/1"]);
        assert_eq!(tags(op(images(1), 3)), ["p/image/0"]);
        assert_eq!(tags(op(images(5), 1)), ["p/image"]);
        assert!(tags(op(images(0), 3)).is_empty());
    }

    #[test]
    fn tensors_that_are_no_images_are_refused() {
        for dimensions in [vec![1, 2, 2], vec![1, 2, 2, 2], vec![1, 0, 2, 1], vec![1, 2, 0, 3]] {
            let images = Tensor::zeros(DType::UInt8, Shape::new(&dimensions).unwrap()).unwrap();
            assert_eq!(op(images, 3).run().unwrap_err().code(), Code::InvalidArgument);
        }
        let image = || Tensor::zeros(DType::Float, Shape::new(&[1, 1, 1, 3]).unwrap()).unwrap();
        for bad_color in [Tensor::vector(&[1u8, 2]).unwrap(), Tensor::scalar(1u8), Tensor::scalar(1.0f32)] {
            let error = op(image(), 3).attr("bad_color", bad_color).run().unwrap_err();
            assert_eq!(error.code(), Code::InvalidArgument);
        }
    }
}
