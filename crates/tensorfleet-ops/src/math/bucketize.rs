//! `Bucketize`: which of some intervals an element lies in.

use num_traits::AsPrimitive;
use tensorfleet_core::{Result, Tensor, ensure};

use crate::kernel::KernelBox;
use crate::node_spec::NodeSpec;
use crate::op::Op;
use crate::shape_context::same_as_input;
use crate::{dispatch, parallel};

/// The family's table.
pub(crate) static OPS: &[Op] = &[Op::new("Bucketize", "input: T -> output: int32")
    .attrs("T: {int32, int64, float, double}; boundaries: list(float)")
    .shape(same_as_input)
    .kernel(bucketize)];

/// The number of boundaries that are not above the element; nan is above all.
fn bucketize(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let boundaries: Vec<f32> = node.attr("boundaries")?;
    ensure!(boundaries.is_sorted(), InvalidArgument, "Expected sorted boundaries");
    dispatch!(node.dtype()?, T in [i32, i64, f32, f64] => Ok(KernelBox::from_fn(move |ctx| {
        let input = ctx.input(0)?;
        let elements = input.as_slice::<T>()?;
        let output = Tensor::build::<i32>(input.shape().clone(), |out| {
            parallel::chunks_mut(out, 1, 1000, |start, out| {
                for (out, &element) in out.iter_mut().zip(&elements[start..]) {
                    let is_below = |&boundary: &f32| f64::from(boundary) <= AsPrimitive::<f64>::as_(element);
                    let is_nan = AsPrimitive::<f64>::as_(element).is_nan();
                    *out = if is_nan { boundaries.len() } else { boundaries.partition_point(is_below) } as i32;
                }
            });
            Ok(())
        })?;
        ctx.set_output(0, output);
        Ok(())
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestOp;

    #[test]
    fn boundaries_belong_to_the_bucket_above_them() {
        let bucketize = |boundaries: &[f32]| {
            let input = Tensor::vector(&[-5.0f32, 0.0, 9.9, 10.0, 1000.0, f32::NAN]).unwrap();
            let op =
                TestOp::new("Bucketize").attr("T", input.dtype()).attr("boundaries", boundaries.to_vec());
            op.input(input).run_one()
        };
        let buckets = bucketize(&[0.0, 10.0, 100.0]).unwrap();
        assert_eq!(buckets.as_slice::<i32>().unwrap(), [0, 1, 1, 2, 3, 3]);
        assert_eq!(bucketize(&[]).unwrap().as_slice::<i32>().unwrap(), [0; 6]);
        assert!(bucketize(&[5.0, 1.0]).unwrap_err().text().contains("sorted"));
    }
}
