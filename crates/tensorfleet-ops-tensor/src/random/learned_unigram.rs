//! `LearnedUnigramCandidateSampler`: classes in proportion to how often each was true so far, counted from one.
//!
//! The counts belong to the kernel and grow from step to step. A step draws with the counts it finds and adds its own
//! true classes afterwards; steps take turns, so a draw sees whole steps only.

use parking_lot::Mutex;
use tensorfleet_core::{Result, Tensor, bail, ensure, memory};

use super::candidate_samplers::{
    ATTRS, SIGNATURE, U32S_PER_SAMPLE, sampler_shape, set_outputs, true_classes,
};
use super::range_samplers::{Batch, expected_count};
use super::stream::Stream;
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_numeric::philox::Singles;

/// The family's table.
pub(crate) static OPS: &[Op] = &[Op::new("LearnedUnigramCandidateSampler", SIGNATURE)
    .attrs(ATTRS)
    .stateful()
    .shape(sampler_shape)
    .kernel(learned_unigram)];

/// Counts, with sums over stretches of them (a Fenwick tree), so that drawing and counting take logarithmic time.
struct Counts {
    counts: Vec<u32>,
    /// At place `i`, counted from one, the sum of the `lowest bit of i` counts that end there.
    sums: Vec<u64>,
    total: u64,
}

impl Counts {
    /// One for each class.
    fn new(range: usize) -> Result<Counts> {
        memory::check_fits(range.saturating_mul(12))?;
        let sums =
            (0..=range).map(|place| if place == 0 { 0 } else { 1u64 << place.trailing_zeros() }).collect();
        Ok(Counts { counts: vec![1; range], sums, total: range as u64 })
    }

    fn add(&mut self, class: usize) {
        let Some(count) = self.counts.get_mut(class) else { return };
        *count = count.saturating_add(1);
        self.total += 1;
        let mut place = class + 1;
        while let Some(sum) = self.sums.get_mut(place) {
            *sum += 1;
            place += place & place.wrapping_neg();
        }
    }

    /// The class in whose stretch `at` lies, if the counts stand one behind the other.
    fn class_at(&self, mut at: u64) -> usize {
        let mut class = 0;
        let mut step = self.counts.len().next_power_of_two();
        while step > 0 {
            if let Some(&sum) = self.sums.get(class + step)
                && sum <= at
            {
                at -= sum;
                class += step;
            }
            step /= 2;
        }
        class.min(self.counts.len().saturating_sub(1))
    }

    fn draw(&self, singles: &mut Singles) -> Result<i64> {
        let Ok(total) = u32::try_from(self.total) else {
            bail!(OutOfRange, "the counts of a learned sampler add up to more than 32 bits hold")
        };
        Ok(self.class_at(singles.below_u32(total).into()) as i64)
    }

    fn batch(
        &self,
        cancellation: &Cancellation,
        count: usize,
        unique: bool,
        singles: &mut Singles,
    ) -> Result<Batch> {
        let mut seen = rustc_hash::FxHashSet::default();
        let (mut classes, mut tries) = (Vec::with_capacity(count), 0u64);
        while classes.len() < count {
            cancellation.check()?;
            tries += 1;
            ensure!(
                tries <= i32::MAX as u64,
                InvalidArgument,
                "{tries} draws did not give {count} different classes"
            );
            let class = self.draw(singles)?;
            if !unique || seen.insert(class) {
                classes.push(class);
            }
        }
        Ok(Batch { classes, tries })
    }

    fn expected(&self, class: i64, batch: &Batch) -> f32 {
        let count = usize::try_from(class).ok().and_then(|class| self.counts.get(class));
        expected_count(count.copied().unwrap_or_default() as f32 / self.total as f32, batch)
    }
}

fn learned_unigram(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let stream = Stream::of_node(node)?;
    let (unique, num_true): (bool, i64) = (node.attr("unique")?, node.attr("num_true")?);
    let (num_sampled, range): (i64, i64) = (node.attr("num_sampled")?, node.attr("range_max")?);
    ensure!(!unique || num_sampled <= range, InvalidArgument, "Sampler's range is too small.");
    ensure!(
        range <= i32::MAX as i64,
        InvalidArgument,
        "range_max of a learned sampler must be less than 2^31, got {range}"
    );
    let counts = Mutex::new(Counts::new(range as usize)?);
    Ok(KernelBox::from_fn(move |ctx| {
        let classes = true_classes(ctx, num_true)?;
        let numbers = classes.as_slice::<i64>()?;
        if let Some(strange) = numbers.iter().find(|class| !(0..range).contains(*class)) {
            bail!(InvalidArgument, "`true_candidate` out of range [0, {range}), received {strange}");
        }
        let mut singles = Singles::new(stream.reserve_u32s(U32S_PER_SAMPLE.wrapping_mul(num_sampled as u64)));
        let mut counts = counts.lock();
        let batch = counts.batch(&ctx.step.cancellation, num_sampled as usize, unique, &mut singles)?;
        let expected = |classes: &[i64]| -> Vec<f32> {
            classes.iter().map(|&class| counts.expected(class, &batch)).collect()
        };
        let true_counts = Tensor::from_slice(&expected(numbers), classes.shape())?;
        let sampled_counts = Tensor::vector(&expected(&batch.classes))?;
        numbers.iter().for_each(|&class| counts.add(class as usize));
        drop(counts);
        set_outputs(ctx, &batch, true_counts, sampled_counts)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestOp, test_op};
    use tensorfleet_core::Code;

    fn op(unique: bool, classes: &[i64]) -> TestOp {
        let op = test_op("LearnedUnigramCandidateSampler").attr("num_true", 2i64).attr("num_sampled", 4i64);
        let op = op.attr("unique", unique).attr("range_max", 6i64).attr("seed", 3i64).attr("seed2", 4i64);
        op.input(Tensor::from_slice(classes, &[classes.len() / 2, 2]).unwrap())
    }

    #[test]
    fn draws_and_expectations_are_tensorflows_from_step_to_step() {
        let expected: [[&[i64]; 4]; 2] = [
            [&[3, 4, 5, 2], &[4, 5, 3, 1], &[2, 1, 3, 4], &[2, 1, 3, 0]],
            [&[3, 4, 5, 2], &[4, 5, 3, 5], &[2, 1, 3, 2], &[2, 2, 2, 1]],
        ];
        let firsts = [
            [0.666_666_7, 0.831_930_04, 0.929_419_16, 0.968_169_7],
            [0.666_666_7, 1.2, 1.428_571_5, 1.555_555_6],
        ];
        for ((unique, expected), firsts) in [true, false].into_iter().zip(expected).zip(firsts) {
            let runs = op(unique, &[1, 2, 3, 1]).run_times(4).unwrap();
            for ((run, classes), first) in runs.iter().zip(expected).zip(firsts) {
                assert_eq!(run[0].as_slice::<i64>().unwrap(), classes);
                let found = run[1].as_slice::<f32>().unwrap()[0];
                assert!((found - first).abs() < 1e-6, "{found} instead of {first}");
            }
            let last = *runs[3][2].as_slice::<f32>().unwrap().last().unwrap();
            assert!((last - if unique { 0.329_752_95 } else { 1.555_555_6 }).abs() < 1e-6, "{last}");
        }
    }

    #[test]
    fn classes_outside_the_range_are_refused() {
        for classes in [[1, 6], [-1, 2]] {
            assert_eq!(op(false, &classes).run().unwrap_err().code(), Code::InvalidArgument);
        }
    }

    #[test]
    fn every_place_belongs_to_one_class() {
        for range in [1usize, 2, 5, 8, 13] {
            let mut counts = Counts::new(range).unwrap();
            for class in (0..range).flat_map(|class| std::iter::repeat_n(class, class % 3)) {
                counts.add(class);
            }
            let places: Vec<usize> = (0..counts.total).map(|at| counts.class_at(at)).collect();
            let expected: Vec<usize> =
                (0..range).flat_map(|class| std::iter::repeat_n(class, 1 + class % 3)).collect();
            assert_eq!(places, expected);
        }
    }
}
