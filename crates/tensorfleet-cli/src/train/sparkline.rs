//! A curve in one line of text.

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Points that are kept; more are thinned out.
const MAX_POINTS: usize = 2048;
/// Losses below this look like this: their logarithm must not squeeze the rest.
const SMALLEST: f32 = 1e-3;

/// The loss over the steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Curve {
    points: Vec<(i64, f32)>,
}

impl Curve {
    pub(super) fn push(&mut self, step: i64, loss: f32) {
        if !loss.is_finite() {
            return;
        }
        if self.points.len() >= MAX_POINTS {
            let mut is_kept = false;
            self.points.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
        }
        self.points.push((step, loss));
    }

    pub(super) fn first(&self) -> Option<f32> {
        self.points.first().map(|&(_, loss)| loss)
    }

    /// The mean of the last few points: one batch alone tells little.
    pub(super) fn last(&self) -> Option<f32> {
        let tail = &self.points[self.points.len().saturating_sub(8)..];
        (!tail.is_empty()).then(|| tail.iter().map(|&(_, loss)| loss).sum::<f32>() / tail.len() as f32)
    }

    /// The curve in at most `width` characters, on a logarithmic scale. Each stands for as many steps as the others.
    pub(super) fn line(&self, width: usize) -> String {
        let steps = self.points.iter().map(|&(step, _)| step);
        let (Some(low), Some(high)) = (steps.clone().min(), steps.max()) else { return String::new() };
        let width = width.min(self.points.len());
        let mut sums = vec![(0.0f32, 0u32); width];
        for &(step, loss) in &self.points {
            let place = (step - low) as f64 / (high - low + 1) as f64 * width as f64;
            if let Some((sum, count)) = sums.get_mut(place as usize) {
                *sum += loss.max(SMALLEST).ln();
                *count += 1;
            }
        }
        let means: Vec<Option<f32>> =
            sums.iter().map(|&(sum, count)| (count > 0).then(|| sum / count as f32)).collect();
        let (bottom, top) =
            means.iter().flatten().fold((f32::INFINITY, f32::NEG_INFINITY), |(bottom, top), &mean| {
                (bottom.min(mean), top.max(mean))
            });
        let scale = if top > bottom { (BARS.len() - 1) as f32 / (top - bottom) } else { 0.0 };
        // A place without a point looks like the one before it.
        let mut last = top;
        let bars = means.iter().map(|mean| {
            last = mean.unwrap_or(last);
            let height = ((last - bottom) * scale).round() as usize;
            BARS.get(height).copied().unwrap_or(' ')
        });
        bars.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: impl IntoIterator<Item = (i64, f32)>) -> Curve {
        let mut curve = Curve::default();
        points.into_iter().for_each(|(step, loss)| curve.push(step, loss));
        curve
    }

    #[test]
    fn a_falling_loss_falls() {
        let curve = curve((0..8).map(|step| (step, 2.0f32.powi(-step as i32))));
        assert_eq!(curve.line(8), "█▇▆▅▄▃▂▁");
        assert_eq!(curve.line(4).chars().count(), 4);
        assert_eq!(curve.line(80).chars().count(), 8);
    }

    #[test]
    fn odd_curves_are_no_trouble() {
        assert_eq!(Curve::default().line(10), "");
        assert_eq!((Curve::default().first(), Curve::default().last()), (None, None));
        assert_eq!(curve([(5, 1.0)]).line(10), "▁");
        assert_eq!(curve([(0, f32::NAN), (1, 0.0), (2, 1.0)]).line(10), "▁█");
        assert_eq!(curve([(0, 1.0), (0, 1.0), (100, 1.0)]).line(3), "▁▁▁");
        assert!(curve((0..10_000).map(|step| (step, 1.0))).points.len() <= MAX_POINTS);
    }
}
