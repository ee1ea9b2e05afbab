//! The median time of a step, after some that do not count.

use std::time::{Duration, Instant};

use tensorfleet_core::Result;

/// How long steps run before they count, and how long they count: all of them together are to take a few seconds.
const WARM_UP: Duration = Duration::from_millis(200);
const MEASURED: Duration = Duration::from_millis(500);
/// At least this many steps count, however long they take.
const LEAST_STEPS: usize = 5;

/// Median seconds of a step.
pub(super) fn median(mut step: impl FnMut() -> Result<()>) -> Result<f64> {
    let begin = Instant::now();
    while begin.elapsed() < WARM_UP {
        step()?;
    }
    let mut times = Vec::new();
    let begin = Instant::now();
    while times.len() < LEAST_STEPS || begin.elapsed() < MEASURED {
        let before = Instant::now();
        step()?;
        times.push(before.elapsed());
    }
    times.sort();
    Ok(times[times.len() / 2].as_secs_f64())
}
