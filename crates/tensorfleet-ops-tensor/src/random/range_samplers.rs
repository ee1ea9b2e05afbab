//! Distributions over 0, 1, …, n - 1 from which candidate samplers draw classes.

use tensorfleet_core::{Result, bail, ensure};
use tensorfleet_kernel::cancellation::Cancellation;

use tensorfleet_numeric::philox::Singles;

/// A distribution over the classes below `range`.
pub(super) enum RangeSampler {
    /// All classes are equally likely.
    Uniform {
        /// The number of classes.
        range: u64,
    },
    /// Class c has the probability log((c + 2) / (c + 1)) / log(range + 1): classes sorted by falling frequency.
    LogUniform {
        /// The number of classes.
        range: u64,
    },
    /// Probabilities in proportion to given weights.
    Weighted(WeightedSampler),
}

impl RangeSampler {
    /// The number of classes.
    pub(super) fn range(&self) -> u64 {
        match self {
            RangeSampler::Uniform { range } | RangeSampler::LogUniform { range } => *range,
            RangeSampler::Weighted(sampler) => sampler.weights.len() as u64,
        }
    }

    /// How many classes can come up at all.
    fn possible(&self) -> u64 {
        match self {
            RangeSampler::Weighted(sampler) => {
                sampler.weights.iter().filter(|&&weight| weight > 0.0).count() as u64
            }
            _ => self.range(),
        }
    }

    fn sample(&self, singles: &mut Singles) -> i64 {
        match self {
            RangeSampler::Uniform { range } => singles.below_u64(*range) as i64,
            RangeSampler::LogUniform { range } => {
                let value = (singles.next_f64() * (*range as f64).ln_1p()).exp() as i64 - 1;
                // Rounding may reach the end of the range.
                value % *range as i64
            }
            RangeSampler::Weighted(sampler) => sampler.sample(singles),
        }
    }

    fn probability(&self, class: i64) -> f32 {
        match self {
            RangeSampler::Uniform { range } => 1.0 / *range as f32,
            RangeSampler::LogUniform { range } => {
                let class = class as f64;
                (((class + 2.0) / (class + 1.0)).ln() / (*range as f64).ln_1p()) as f32
            }
            RangeSampler::Weighted(sampler) => {
                let weight = usize::try_from(class).ok().and_then(|class| sampler.weights.get(class));
                weight.map_or(0.0, |weight| weight / sampler.total)
            }
        }
    }

    /// Draws `count` classes, all different if `unique`.
    pub(super) fn batch(
        &self,
        cancellation: &Cancellation,
        count: usize,
        unique: bool,
        singles: &mut Singles,
    ) -> Result<Batch> {
        if !unique {
            let draws = cancellation.unless_cancelled(0..count);
            let classes = draws.map(|draw| draw.map(|_| self.sample(singles))).collect::<Result<_>>()?;
            return Ok(Batch { classes, tries: count as u64 });
        }
        ensure!(count as u64 <= self.possible(), InvalidArgument, "Sampler's range is too small.");
        let mut seen = rustc_hash::FxHashSet::default();
        let mut classes = Vec::with_capacity(count);
        let mut tries = 0;
        while classes.len() < count {
            cancellation.check()?;
            tries += 1;
            if tries > i32::MAX as u64 {
                bail!(InvalidArgument, "{tries} draws did not give {count} different classes");
            }
            let class = self.sample(singles);
            if seen.insert(class) {
                classes.push(class);
            }
        }
        Ok(Batch { classes, tries })
    }

    /// How often a class was to be expected in a batch.
    pub(super) fn expected_count(&self, class: i64, batch: &Batch) -> f32 {
        expected_count(self.probability(class), batch)
    }
}

/// How often a class of this probability was to be expected in a batch.
pub(super) fn expected_count(probability: f32, batch: &Batch) -> f32 {
    let (probability, tries) = (probability as f64, batch.tries as f64);
    match batch.tries == batch.classes.len() as u64 {
        true => (probability * tries) as f32,
        false => -(tries * (-probability).ln_1p()).exp_m1() as f32,
    }
}

/// Classes that were drawn together.
pub(super) struct Batch {
    /// The classes.
    pub(super) classes: Vec<i64>,
    /// How many draws it took to find them.
    pub(super) tries: u64,
}

/// Draws in constant time by the alias method: a class is picked evenly, and kept or exchanged for its alias.
pub(super) struct WeightedSampler {
    weights: Vec<f32>,
    total: f32,
    buckets: Vec<Bucket>,
}

#[derive(Clone, Copy)]
struct Bucket {
    keep: f32,
    alias: u32,
}

impl WeightedSampler {
    /// A sampler for these weights, which must not be negative.
    pub(super) fn new(weights: Vec<f32>) -> Result<WeightedSampler> {
        ensure!(
            weights.iter().all(|&weight| weight >= 0.0 && weight.is_finite()),
            InvalidArgument,
            "the weights of a sampler must be finite and not negative"
        );
        let total: f32 = weights.iter().sum();
        ensure!(total > 0.0, InvalidArgument, "the weights of a sampler must have a positive sum");
        let buckets = alias_buckets(&weights);
        Ok(WeightedSampler { weights, total, buckets })
    }

    fn sample(&self, singles: &mut Singles) -> i64 {
        let keep = singles.next_f32();
        let index = singles.below_u32(self.buckets.len() as u32);
        let bucket = self.buckets[index as usize];
        if keep < bucket.keep { index as i64 } else { bucket.alias as i64 }
    }
}

/// Pairs classes below the average with classes above it, in TensorFlow's order.
fn alias_buckets(weights: &[f32]) -> Vec<Bucket> {
    let count = weights.len() as f64;
    let sum: f64 = weights.iter().map(|&weight| weight as f64).sum();
    let mut share: Vec<f64> = weights.iter().map(|&weight| weight as f64 * count / sum).collect();
    let mut alias: Vec<usize> = (0..weights.len()).collect();
    let (mut low, mut high): (Vec<usize>, Vec<usize>) =
        (0..weights.len()).partition(|&index| share[index] < 1.0);
    while let (Some(&below), Some(&above)) = (low.last(), high.last()) {
        low.pop();
        high.pop();
        alias[below] = above;
        share[above] -= 1.0 - share[below];
        if share[above] < 1.0 { low.push(above) } else { high.push(above) }
    }
    // What rounding left over is as good as 1.
    for index in low.into_iter().chain(high) {
        share[index] = 1.0;
        alias[index] = index;
    }
    share.iter().zip(alias).map(|(&keep, alias)| Bucket { keep: keep as f32, alias: alias as u32 }).collect()
}
