//! `RandomGamma`: samples of gamma distributions, by Marsaglia and Tsang's rejection.
//!
//! Every sample has its own stretch of the stream, so that it does not matter who draws it.

use half::f16;
use num_traits::AsPrimitive;
use tensorfleet_core::{Element, PartialShape, Result, Shape, Tensor};

use super::distributions::normal_pair_f64;
use super::fills::shape_in;
use super::stream::Stream;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_numeric::dispatch;
use tensorfleet_numeric::philox::{Philox, unit_f64};

/// The family's table.
pub(crate) static OPS: &[Op] = &[Op::new("RandomGamma", "shape: S, alpha: T -> output: T")
    .attrs("seed: int = 0; seed2: int = 0; S: {int32, int64}; T: {half, float, double}")
    .random()
    .shape(gamma_shape)
    .kernel(gamma)
    .gradient(gamma_gradient)
    .cost(Cost::Heavy)];

/// Each sample moves with the shape of its distribution such that its quantile stays; the samples of one distribution
/// add up.
fn gamma_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (shape, alpha, sample, dy) = (d.input(0)?, d.input(1)?, d.output(0), d.dy(0)?);
    let slope = d.op("RandomGammaGrad", [alpha, sample])?;
    let product = d.op("Mul", [dy, slope])?;
    let (first, step) = (d.int(0)?, d.int(1)?);
    let rank = d.op("Size", [shape])?;
    let axes = d.op("Range", [first, rank, step])?;
    let total = d.op("Sum", [product, axes])?;
    let total = d.reshape_like(total, alpha)?;
    d.only(1, total)
}

/// How far apart the samples lie in the stream: room for many rejections.
const STRIDE: u64 = 256;
/// Estimated cost of a sample, in hundredths of a nanosecond.
const COST: usize = 10_000;

fn gamma_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let samples = ctx.shape_value(0)?;
    let (Some(samples), Some(alpha)) = (samples.dims(), ctx.input(1).dims()) else {
        return Ok(vec![PartialShape::unknown()]);
    };
    Ok(vec![PartialShape::new(samples.iter().chain(alpha).copied())])
}

fn gamma(node: &NodeSpec<'_>) -> Result<KernelBox> {
    dispatch!(node.dtype()?, T in [f32, f64, f16] => gamma_kernel::<T>(node))
}

fn gamma_kernel<T: Element + AsPrimitive<f64>>(node: &NodeSpec<'_>) -> Result<KernelBox>
where
    f64: AsPrimitive<T>,
{
    let stream = Stream::of_node(node)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let samples = shape_in(ctx.input(0)?)?;
        let alphas = ctx.input(1)?;
        let shape = Shape::new(&[&samples[..], &alphas.shape()[..]].concat())?;
        let (num_samples, num_alphas) = (samples.num_elements(), alphas.num_elements());
        let alphas = alphas.as_slice::<T>()?;
        let base = stream.reserve_outputs(shape.num_elements() as u64);
        let output = Tensor::build::<T>(shape, |out| {
            // A row holds one sample of each distribution, but the stream has all samples of one in a row.
            ctx.loops().chunks_mut(out, num_alphas, COST.saturating_mul(num_alphas), |first, piece| {
                for (row, values) in piece.chunks_mut(num_alphas.max(1)).enumerate() {
                    for (index, (value, alpha)) in values.iter_mut().zip(alphas).enumerate() {
                        let mut philox = base;
                        philox.skip(STRIDE * (index * num_samples + first + row) as u64);
                        *value = draw(alpha.as_(), philox).as_();
                    }
                }
            });
            Ok(())
        })?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

/// Values that come in pairs, the second one first.
struct Pairs {
    pair: [f64; 2],
    left: usize,
}

impl Pairs {
    fn next(&mut self, refill: impl FnOnce() -> [f64; 2]) -> f64 {
        if self.left == 0 {
            self.pair = refill();
            self.left = 2;
        }
        self.left -= 1;
        self.pair[self.left]
    }
}

fn draw(alpha: f64, mut philox: Philox) -> f64 {
    let mut uniforms = Pairs { pair: [0.0; 2], left: 0 };
    let mut normals = Pairs { pair: [0.0; 2], left: 0 };
    let uniform_pair = |philox: &mut Philox| {
        let [a, b, c, d] = philox.next_sample();
        [unit_f64(a, b), unit_f64(c, d)]
    };
    if alpha == 1.0 {
        return -(-uniforms.next(|| uniform_pair(&mut philox))).ln_1p();
    }
    // For shapes below 1 a sample of shape + 1 is scaled down.
    let small = alpha < 1.0;
    let d = alpha + if small { 2.0 / 3.0 } else { -1.0 / 3.0 };
    let c = 1.0 / 3.0 / d.sqrt();
    loop {
        let x = normals.next(|| normal_pair_f64(philox.next_sample()));
        let v = 1.0 + c * x;
        if v <= 0.0 {
            continue;
        }
        let v = v * v * v;
        let u = uniforms.next(|| uniform_pair(&mut philox));
        let surely = u < 1.0 - 0.0331 * (x * x) * (x * x);
        // Not a number compares false with everything, so a bad shape would never be accepted.
        if surely || u.ln() < 0.5 * x * x + d * (1.0 - v + v.ln()) || d.is_nan() || c.is_nan() {
            let scale =
                if small { uniforms.next(|| uniform_pair(&mut philox)).powf(1.0 / alpha) } else { 1.0 };
            return d * v * scale;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;
    use tensorfleet_core::DType;

    fn run(alphas: &[f64], runs: usize) -> Vec<Vec<f64>> {
        let op = test_op("RandomGamma").attr("T", DType::Double).attr("S", DType::Int32);
        let op = op.attr("seed", 5i64).attr("seed2", 2i64).input(Tensor::vector(&[4i32]).unwrap());
        let runs = op.input(Tensor::vector(alphas).unwrap()).run_times(runs).unwrap();
        runs.iter().map(|run| run[0].as_slice::<f64>().unwrap().to_vec()).collect()
    }

    #[test]
    fn samples_are_tensorflows() {
        let runs = run(&[0.5, 1.0, 3.0], 2);
        let first = [0.04640188101570922, 0.988943004625528, 3.6147403025862457, 2.0170446408813145];
        let second = [0.675922415373035, 0.22509532816638264, 2.373561574478091];
        let close = |got: &[f64], want: &[f64]| got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(close(&runs[0][..4], &first) && close(&runs[1][9..], &second), "{runs:?}");
    }

    #[test]
    fn bad_shapes_of_the_distribution_end() {
        assert!(run(&[f64::NAN, -5.0], 1)[0].iter().all(|x| x.is_nan()));
        assert_eq!(run(&[], 1)[0].len(), 0);
    }
}
