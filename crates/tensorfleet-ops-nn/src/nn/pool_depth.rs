//! Pools of maxima over neighbouring channels instead of neighbouring pixels: `MaxPool` with a window of more than one channel.
//!
//! As in TensorFlow 2.21 such a window covers one pixel, moves by its own size, divides the channels, and has no gradient; strides
//! along height and width are not looked at.

use tensorfleet_core::{DType, PartialShape, Result, Shape, Tensor, ensure};

use super::window::{Layout, partial_4, rank_4};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_numeric::dispatch;

/// A pool over channels.
#[derive(Clone, Copy)]
pub(super) struct DepthPool {
    layout: Layout,
    window: usize,
}

impl DepthPool {
    /// The pool over channels that this window asks for, if it does.
    pub(super) fn of(layout: Layout, ksize: [i64; 4], strides: [i64; 4]) -> Result<Option<DepthPool>> {
        let [batch, rows, cols, depth] = layout.read(ksize);
        if depth <= 1 {
            return Ok(None);
        }
        ensure!(batch == 1, Unimplemented, "Pooling is not yet supported on the batch dimension.");
        ensure!(
            rows == 1 && cols == 1,
            Unimplemented,
            "MaxPooling supports exactly one of pooling across depth or pooling across width/height."
        );
        let [.., stride] = layout.read(strides);
        ensure!(
            stride == depth,
            Unimplemented,
            "Depthwise max pooling requires the depth window to equal the depth stride, got {depth} and {stride}"
        );
        Ok(Some(DepthPool { layout, window: depth as usize }))
    }

    fn output_depth(&self, depth: usize) -> Result<usize> {
        ensure!(
            depth.is_multiple_of(self.window),
            Unimplemented,
            "Depthwise max pooling requires the depth window to evenly divide the input depth, got {} and {depth}",
            self.window
        );
        Ok(depth / self.window)
    }

    pub(super) fn shape(&self, ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
        let [batch, rows, cols, depth] = self.layout.read(partial_4(&ctx.input_with_rank(0, 4)?));
        let depth = depth.map(|depth| self.output_depth(depth)).transpose()?;
        Ok(vec![PartialShape::new(self.layout.write([batch, rows, cols, depth]))])
    }

    pub(super) fn kernel(self, dtype: DType) -> Result<KernelBox> {
        dispatch!(dtype, T in real => Ok(KernelBox::from_fn(move |ctx| {
            let image = ctx.input(0)?;
            rank_4(image.shape(), "tensor_in")?;
            let image = self.layout.to_channels_last::<T>(image)?;
            let [batch, rows, cols, depth] = rank_4(image.shape(), "tensor_in")?;
            let shape = Shape::new(&[batch, rows, cols, self.output_depth(depth)?])?;
            let channels = image.as_slice::<T>()?;
            let output = Tensor::build::<T>(shape, |out| {
                for (out, window) in out.iter_mut().zip(channels.chunks_exact(self.window)) {
                    *out = window.iter().copied().fold(window[0], |max, x| if x > max { x } else { max });
                }
                Ok(())
            })?;
            ctx.set_output(0, self.layout.restored::<T>(output)?);
            Ok(())
        })))
    }
}

#[cfg(test)]
mod tests {
    use tensorfleet_core::{Code, DType};

    use super::*;
    use crate::testing::test_op;

    fn pool(op: &str, ksize: [i64; 4], strides: [i64; 4]) -> Result<Tensor> {
        let values: Vec<i32> = [3, 1, 2, 7, 0, -1, -5, -2].to_vec();
        let image = Tensor::from_slice(&values, &[1, 1, 2, 4])?;
        let op = test_op(op).with_shape_check().attr("T", DType::Int32).attr("padding", "VALID").input(image);
        op.attr("ksize", ksize.to_vec()).attr("strides", strides.to_vec()).run_one()
    }

    #[test]
    fn windows_of_channels_are_reduced_to_their_maxima() {
        let found = pool("MaxPool", [1, 1, 1, 2], [1, 1, 1, 2]).unwrap();
        assert_eq!(
            (found.shape().dims(), found.as_slice::<i32>().unwrap()),
            (&[1, 1, 2, 2][..], &[3, 7, 0, -2][..])
        );
        let found = pool("MaxPool", [1, 1, 1, 4], [1, 1, 2, 4]).unwrap();
        assert_eq!(found.as_slice::<i32>().unwrap(), [7, 0]);
    }

    #[test]
    fn what_tensorflow_does_not_pool_is_refused() {
        let code = |ksize, strides| pool("MaxPool", ksize, strides).unwrap_err().code();
        assert_eq!(code([1, 1, 2, 2], [1, 1, 1, 2]), Code::Unimplemented);
        assert_eq!(code([1, 1, 1, 2], [1, 1, 1, 1]), Code::Unimplemented);
        assert_eq!(code([1, 1, 1, 3], [1, 1, 1, 3]), Code::Unimplemented);
        assert_eq!(code([2, 1, 1, 2], [1, 1, 1, 2]), Code::Unimplemented);
    }
}
