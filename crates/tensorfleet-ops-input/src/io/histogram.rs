//! Histograms with TensorBoard's exponential buckets.

use std::sync::LazyLock;

use tensorfleet_proto::tensorflow::HistogramProto;

/// Upper limits of the buckets, ascending: negative ones, 0, positive ones a tenth apart, and the largest double.
static LIMITS: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let mut positive = Vec::new();
    let mut limit = 1e-12;
    while limit < 1e20 {
        positive.push(limit);
        limit *= 1.1;
    }
    positive.push(f64::MAX);
    let negative = positive.iter().rev().map(|limit| -limit);
    negative.chain([0.0]).chain(positive.iter().copied()).collect()
});

/// The histogram of finite values; runs of empty buckets are written as one.
pub(super) fn histogram(values: impl Iterator<Item = f64>) -> HistogramProto {
    let mut counts = vec![0.0; LIMITS.len()];
    let mut proto = HistogramProto { min: f64::MAX, max: f64::MIN, ..Default::default() };
    for value in values {
        let bucket = LIMITS.partition_point(|&limit| limit <= value).min(LIMITS.len() - 1);
        counts[bucket] += 1.0;
        proto.min = proto.min.min(value);
        proto.max = proto.max.max(value);
        proto.num += 1.0;
        proto.sum += value;
        proto.sum_squares += value * value;
    }
    let mut entries: Vec<(f64, f64)> = Vec::new();
    for (&limit, &count) in LIMITS.iter().zip(&counts) {
        match entries.last_mut() {
            Some((end, 0.0)) if count == 0.0 => *end = limit,
            _ => entries.push((limit, count)),
        }
    }
    (proto.bucket_limit, proto.bucket) = entries.into_iter().unzip();
    proto
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_tensorflows() {
        let proto = histogram([-5.0, 0.0, 1.0, 1.0].into_iter());
        assert_eq!(
            (proto.min, proto.max, proto.num, proto.sum, proto.sum_squares),
            (-5.0, 1.0, 4.0, -3.0, 27.0)
        );
        assert_eq!(proto.bucket, [0.0, 1.0, 0.0, 1.0, 0.0, 2.0, 0.0]);
        let limits = [
            -5.099814079160488,
            -4.636194617418625,
            0.0,
            1e-12,
            0.917246389039776,
            1.0089710279437536,
            f64::MAX,
        ];
        assert_eq!(proto.bucket_limit, limits);
        let empty = histogram(std::iter::empty());
        assert_eq!((empty.min, empty.max), (f64::MAX, f64::MIN));
        assert_eq!((empty.bucket_limit, empty.bucket), (vec![f64::MAX], vec![0.0]));
        assert_eq!(histogram([f64::MAX, f64::MIN].into_iter()).num, 2.0);
    }
}
