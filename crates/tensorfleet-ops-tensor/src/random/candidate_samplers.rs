//! Candidate samplers: a few classes drawn from many, with how often each was to be expected; for losses that look
//! at a sample of the classes only.

use std::sync::OnceLock;

use rustc_hash::FxHashMap;
use tensorfleet_core::{PartialShape, Result, Status, Tensor, ensure, memory};

use super::range_samplers::{Batch, RangeSampler, WeightedSampler};
use super::stream::Stream;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_numeric::philox::Singles;

pub(super) const SIGNATURE: &str = "true_classes: int64 -> sampled_candidates: int64, true_expected_count: float, sampled_expected_count: float";
pub(super) const ATTRS: &str = "num_true: int >= 1; num_sampled: int >= 1; unique: bool; range_max: int >= 1; seed: int = 0; \
                     seed2: int = 0";

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("UniformCandidateSampler", SIGNATURE).attrs(ATTRS).stateful().shape(sampler_shape).kernel(uniform),
    Op::new("LogUniformCandidateSampler", SIGNATURE)
        .attrs(ATTRS)
        .stateful()
        .shape(sampler_shape)
        .kernel(log_uniform),
    Op::new("FixedUnigramCandidateSampler", SIGNATURE)
        .attrs(
            "num_true: int >= 1; num_sampled: int >= 1; unique: bool; range_max: int >= 1; vocab_file: string = ''; \
             distortion: float = 1.0; num_reserved_ids: int = 0; num_shards: int >= 1 = 1; shard: int >= 0 = 0; \
             unigrams: list(float) = []; seed: int = 0; seed2: int = 0",
        )
        .stateful()
        .shape(sampler_shape)
        .kernel(fixed_unigram),
    Op::new("AllCandidateSampler", SIGNATURE)
        .attrs("num_true: int >= 1; num_sampled: int >= 1; unique: bool; seed: int = 0; seed2: int = 0")
        .stateful()
        .shape(sampler_shape)
        .kernel(all),
    Op::new(
        "ComputeAccidentalHits",
        "true_classes: int64, sampled_candidates: int64 -> indices: int32, ids: int64, weights: float",
    )
    .attrs("num_true: int; seed: int = 0; seed2: int = 0")
    .shape(hits_shape)
    .kernel(accidental_hits),
];

/// TensorFlow's generous estimate of how many numbers a sample needs, redraws included.
pub(super) const U32S_PER_SAMPLE: u64 = 2048;

pub(super) fn sampler_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let true_classes = ctx.input_with_rank(0, 2)?;
    let sampled = PartialShape::vector(usize::try_from(ctx.attr::<i64>("num_sampled")?).ok());
    Ok(vec![sampled.clone(), true_classes, sampled])
}

fn hits_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(0, 2)?;
    ctx.input_with_rank(1, 1)?;
    Ok(vec![PartialShape::vector(None); 3])
}

fn range_max(node: &NodeSpec<'_>) -> Result<u64> {
    Ok(node.attr::<i64>("range_max")? as u64)
}

fn uniform(node: &NodeSpec<'_>) -> Result<KernelBox> {
    sampler_kernel(node, RangeSampler::Uniform { range: range_max(node)? })
}

fn log_uniform(node: &NodeSpec<'_>) -> Result<KernelBox> {
    sampler_kernel(node, RangeSampler::LogUniform { range: range_max(node)? })
}

fn fixed_unigram(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let file: String = node.attr("vocab_file")?;
    let unigrams: Vec<f32> = node.attr("unigrams")?;
    ensure!(
        file.is_empty() != unigrams.is_empty(),
        InvalidArgument,
        "Must provide exactly one of vocab_file and unigrams."
    );
    let distortion: f32 = node.attr("distortion")?;
    let reserved: i64 = node.attr("num_reserved_ids")?;
    let (shards, shard): (i64, i64) = (node.attr("num_shards")?, node.attr("shard")?);
    ensure!(shard < shards, InvalidArgument, "shard ({shard}) should be less than num_shards ({shards})");
    let range = range_max(node)?;
    ensure!(
        (0..=range as i64).contains(&reserved),
        InvalidArgument,
        "num_reserved_ids ({reserved}) must lie between 0 and range_max ({range})"
    );
    let sampler = move |unigrams: &[f32]| {
        // Reserved classes never come up; of the others this shard has every num_shards-th.
        let distorted = unigrams.iter().map(|&weight| weight.powf(distortion));
        let all = std::iter::repeat_n(0.0, reserved as usize).chain(distorted);
        let weights: Vec<f32> = all.skip(shard as usize).step_by(shards as usize).collect();
        ensure!(
            weights.len() as u64 == range,
            InvalidArgument,
            "range is {range} must be equal to weights size {}",
            weights.len()
        );
        Ok(RangeSampler::Weighted(WeightedSampler::new(weights)?))
    };
    if file.is_empty() {
        return sampler_kernel(node, sampler(&unigrams)?);
    }
    // The first step reads the file, since only a step knows which files are allowed.
    let draw = Draw::of_node(node, range)?;
    let in_file: OnceLock<Result<RangeSampler>> = OnceLock::new();
    Ok(KernelBox::from_fn(move |ctx| {
        let read = || {
            let text = String::from_utf8(ctx.file_access().read(&file)?);
            let not_text = |_| Status::invalid_argument(format!("{file} is no text"));
            sampler(&weights_in(&text.map_err(not_text)?)?)
        };
        let sampler = in_file.get_or_init(read).as_ref().map_err(Clone::clone)?;
        draw.run(sampler, ctx)
    }))
}

/// A vocabulary has a word per line; the weight is the last of its fields.
fn weights_in(text: &str) -> Result<Vec<f32>> {
    let weight = |line: &str| {
        let field = line.rsplit(',').next().unwrap_or(line);
        let wrong = |_| Status::invalid_argument(format!("Wrong vocabulary format at line: {line}"));
        field.trim().parse().map_err(wrong)
    };
    text.lines().map(weight).collect()
}

/// The checked input of a sampler.
pub(super) fn true_classes<'a>(ctx: &'a Context<'_>, num_true: i64) -> Result<&'a Tensor> {
    let classes = ctx.input(0)?;
    ensure!(classes.shape().rank() == 2, InvalidArgument, "true_classes must be a matrix");
    let columns = classes.shape()[1];
    ensure!(
        columns as i64 == num_true,
        InvalidArgument,
        "true_classes must have num_true columns, expected: {columns} was: {num_true}"
    );
    Ok(classes)
}

fn sampler_kernel(node: &NodeSpec<'_>, sampler: RangeSampler) -> Result<KernelBox> {
    let draw = Draw::of_node(node, sampler.range())?;
    Ok(KernelBox::from_fn(move |ctx| draw.run(&sampler, ctx)))
}

/// Refuses more samples than there is memory for: the number is the node's, and its lists are not yet tensors.
fn check_room(num_sampled: i64) -> Result<()> {
    let samples = usize::try_from(num_sampled).unwrap_or(usize::MAX);
    memory::check_fits(samples.saturating_mul(size_of::<i64>() + size_of::<f32>()))
}

/// What a node says about its samples.
struct Draw {
    stream: Stream,
    unique: bool,
    num_true: i64,
    num_sampled: i64,
}

impl Draw {
    fn of_node(node: &NodeSpec<'_>, range: u64) -> Result<Draw> {
        let stream = Stream::of_node(node)?;
        let (unique, num_true): (bool, i64) = (node.attr("unique")?, node.attr("num_true")?);
        let num_sampled: i64 = node.attr("num_sampled")?;
        if unique {
            ensure!(num_sampled as u64 <= range, InvalidArgument, "Sampler's range is too small.");
        }
        Ok(Draw { stream, unique, num_true, num_sampled })
    }

    fn run(&self, sampler: &RangeSampler, ctx: &mut Context<'_>) -> Result<()> {
        let classes = true_classes(ctx, self.num_true)?;
        check_room(self.num_sampled)?;
        let numbers = U32S_PER_SAMPLE.wrapping_mul(self.num_sampled as u64);
        let mut singles = Singles::new(self.stream.reserve_u32s(numbers));
        let batch =
            sampler.batch(&ctx.step.cancellation, self.num_sampled as usize, self.unique, &mut singles)?;
        let counts = |classes: &[i64]| {
            memory::collect(classes.iter().map(|&class| sampler.expected_count(class, &batch)))
        };
        let true_counts = Tensor::from_slice(&counts(classes.as_slice::<i64>()?)?, classes.shape())?;
        let sampled_counts = Tensor::vector(&counts(&batch.classes)?)?;
        set_outputs(ctx, &batch, true_counts, sampled_counts)
    }
}

pub(super) fn set_outputs(
    ctx: &mut Context<'_>,
    batch: &Batch,
    true_counts: Tensor,
    sampled_counts: Tensor,
) -> Result<()> {
    ctx.set_output(0, Tensor::vector(&batch.classes)?);
    ctx.set_output(1, true_counts);
    ctx.set_output(2, sampled_counts);
    Ok(())
}

/// `AllCandidateSampler`: every class, once.
fn all(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (num_true, num_sampled): (i64, i64) = (node.attr("num_true")?, node.attr("num_sampled")?);
    Ok(KernelBox::from_fn(move |ctx| {
        let classes = true_classes(ctx, num_true)?;
        let ones = |dims: &[usize], count: usize| Tensor::from_slice(&memory::vec_of(1.0f32, count)?, dims);
        let true_counts = ones(classes.shape(), classes.num_elements())?;
        check_room(num_sampled)?;
        let batch = Batch { classes: memory::collect(0..num_sampled)?, tries: num_sampled as u64 };
        let sampled_counts = ones(&[batch.classes.len()], batch.classes.len())?;
        set_outputs(ctx, &batch, true_counts, sampled_counts)
    }))
}

/// `ComputeAccidentalHits`: where a sampled class is one of the true ones.
fn accidental_hits(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let num_true: i64 = node.attr("num_true")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let classes = true_classes(ctx, num_true)?;
        let sampled = ctx.input(1)?;
        ensure!(
            sampled.shape().rank() == 1,
            InvalidArgument,
            "sampled_candidates must be a vector, which is typically an output from CandidateSampler"
        );
        let places: FxHashMap<i64, i64> = sampled
            .as_slice::<i64>()?
            .iter()
            .enumerate()
            .map(|(place, &class)| (class, place as i64))
            .collect();
        let (mut rows, mut ids) = (Vec::new(), Vec::new());
        let columns = classes.shape()[1].max(1);
        for (row, classes) in classes.as_slice::<i64>()?.chunks(columns).enumerate() {
            for place in classes.iter().filter_map(|class| places.get(class)) {
                memory::append(&mut rows, &[row as i32])?;
                memory::append(&mut ids, &[*place])?;
            }
        }
        ctx.set_output(0, Tensor::vector(&rows)?);
        ctx.set_output(1, Tensor::vector(&ids)?);
        ctx.set_output(2, Tensor::vector(&memory::vec_of(f32::MIN, rows.len())?)?);
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestOp, test_op};
    use tensorfleet_core::Code;

    fn op(name: &str, num_sampled: i64, unique: bool, range_max: i64) -> TestOp {
        let op = test_op(name).attr("num_true", 1i64).attr("num_sampled", num_sampled).attr("unique", unique);
        let op = op.attr("range_max", range_max).attr("seed", 3i64).attr("seed2", 4i64);
        op.input(Tensor::from_slice(&[1i64, 2, 3], &[3, 1]).unwrap())
    }

    fn check(op: TestOp, classes: [&[i64]; 2], true_counts: [&[f32]; 2], last_count: [f32; 2]) {
        let runs = op.run_times(2).unwrap();
        for step in 0..2 {
            assert_eq!(runs[step][0].as_slice::<i64>().unwrap(), classes[step]);
            let close = |a: f32, b: f32| (a - b).abs() < 1e-6;
            let counts = runs[step][1].as_slice::<f32>().unwrap();
            assert!(counts.iter().zip(true_counts[step]).all(|(&a, &b)| close(a, b)), "{counts:?}");
            assert!(close(*runs[step][2].as_slice::<f32>().unwrap().last().unwrap(), last_count[step]));
        }
    }

    #[test]
    fn more_samples_than_memory_are_refused() {
        for name in ["UniformCandidateSampler", "LogUniformCandidateSampler"] {
            let status = op(name, 1 << 50, false, 10).run().unwrap_err();
            assert_eq!(status.code(), Code::ResourceExhausted, "{name}");
        }
        let all = test_op("AllCandidateSampler").attr("num_true", 1i64).attr("num_sampled", 1i64 << 50);
        let all = all.attr("unique", true).input(Tensor::from_slice(&[1i64], &[1, 1]).unwrap());
        assert_eq!(all.run().unwrap_err().code(), Code::ResourceExhausted);
    }

    #[test]
    fn samples_and_expected_counts_are_tensorflows() {
        check(
            op("UniformCandidateSampler", 8, true, 10),
            [&[1, 5, 9, 7, 3, 4, 8, 6], &[4, 0, 3, 1, 9, 5, 6, 7]],
            [&[0.7175705; 3], &[0.91137064; 3]],
            [0.7175705, 0.91137064],
        );
        check(
            op("UniformCandidateSampler", 8, false, 10),
            [&[1, 5, 9, 9, 7, 3, 4, 5], &[4, 0, 4, 3, 1, 4, 9, 3]],
            [&[0.8; 3]; 2],
            [0.8; 2],
        );
        check(
            op("LogUniformCandidateSampler", 8, true, 30),
            [&[2, 6, 1, 18, 0, 7, 14, 20], &[19, 9, 1, 2, 10, 4, 0, 18]],
            [&[0.7489543, 0.6180348, 0.5224429], &[0.7153437, 0.58310986, 0.48925415]],
            [0.13932206, 0.13971908],
        );
        check(
            op("FixedUnigramCandidateSampler", 6, false, 5)
                .attr("unigrams", vec![1.0f32, 0.0, 3.0, 0.0, 2.0]),
            [&[2, 2, 0, 2, 2, 2], &[4, 0, 2, 4, 0, 4]],
            [&[0.0, 3.0, 0.0]; 2],
            [3.0, 2.0],
        );
        let distorted = op("FixedUnigramCandidateSampler", 2, true, 6).attr("distortion", 0.75f32);
        let distorted =
            distorted.attr("num_reserved_ids", 1i64).attr("unigrams", vec![1.0f32, 3.0, 4.0, 7.0, 2.0]);
        check(
            distorted,
            [&[3, 2], &[5, 4]],
            [&[0.1653816, 0.37698853, 0.46776977]; 2],
            [0.37698853, 0.71172243],
        );
    }

    #[test]
    fn a_batch_that_cannot_be_filled_is_refused() {
        let code = |op: TestOp| op.run().unwrap_err().code();
        assert_eq!(code(op("UniformCandidateSampler", 11, true, 10)), Code::InvalidArgument);
        let zeros = op("FixedUnigramCandidateSampler", 3, true, 3).attr("unigrams", vec![1.0f32, 0.0, 1.0]);
        assert_eq!(code(zeros), Code::InvalidArgument);
        let short = op("FixedUnigramCandidateSampler", 1, true, 3).attr("unigrams", vec![1.0f32]);
        assert_eq!(code(short), Code::InvalidArgument);
    }

    #[test]
    fn accidental_hits_name_row_and_place() {
        let op = test_op("ComputeAccidentalHits").attr("num_true", 2i64);
        let op = op.input(Tensor::from_slice(&[1i64, 2, 5, 1], &[2, 2]).unwrap());
        let outputs = op.input(Tensor::vector(&[1i64, 2, 5, 5]).unwrap()).run().unwrap();
        assert_eq!(outputs[0].as_slice::<i32>().unwrap(), [0, 0, 1, 1]);
        assert_eq!(outputs[1].as_slice::<i64>().unwrap(), [0, 1, 3, 0]);
        assert_eq!(outputs[2].as_slice::<f32>().unwrap(), [f32::MIN; 4]);
    }
}
