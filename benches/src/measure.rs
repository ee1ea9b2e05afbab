//! Measurement of one workload: the median over many steps, after some that do not count.

use std::time::{Duration, Instant};

use tensorfleet_core::{Result, Tensor};
use tensorfleet_runtime::{DirectSession, RunOptions, SessionOptions, Task};

use crate::processes::own_processor_seconds;
use crate::workload::{Run, Workload};

/// How long steps run before they count, and how long they count. `measure_tensorflow.py` has the same numbers.
const WARM_UP: Duration = Duration::from_millis(200);
pub(crate) const MEASURED: Duration = Duration::from_millis(500);
/// At least this many steps count, however long they take.
const LEAST_STEPS: usize = 5;

/// Median times of a step.
pub(crate) struct Times {
    /// Through `DirectSession::run`, which looks the step up by its names.
    pub(crate) run: Duration,
    /// Through a prepared callable.
    pub(crate) callable: Duration,
    /// Processor time of all threads for a step of `run`: what remains comparable on a machine with other work.
    pub(crate) processor: Duration,
}

/// Prepares a workload and measures its step both ways.
pub(crate) fn measure(workload: &Workload, measured: Duration) -> Result<Times> {
    let session = DirectSession::new(Task::local(), SessionOptions::default());
    session.extend(workload.graph.clone())?;
    let options = RunOptions::default();
    run(&session, &workload.setup, &options)?;
    let step = &workload.step;
    let (mut steps, used) = (0u32, own_processor_seconds());
    let run_time = median_of(measured, || {
        steps += 1;
        run(&session, step, &options).map(drop)
    })?;
    let used = (own_processor_seconds() - used) / f64::from(steps.max(1));

    let strs = |names: &'_ [String]| names.to_vec();
    let feeds: Vec<String> = step.feeds.iter().map(|(name, _)| name.clone()).collect();
    let (fetches, targets) = (strs(&step.fetches), strs(&step.targets));
    let callable = session.make_callable(&as_strs(&feeds), &as_strs(&fetches), &as_strs(&targets))?;
    let values: Vec<Tensor> = step.feeds.iter().map(|(_, value)| value.clone()).collect();
    let callable_time = median_of(measured, || callable.run(values.clone(), &options).map(drop))?;
    session.close()?;
    let processor = Duration::try_from_secs_f64(used).unwrap_or_default();
    Ok(Times { run: run_time, callable: callable_time, processor })
}

fn as_strs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

fn run(session: &DirectSession, run: &Run, options: &RunOptions) -> Result<Vec<Tensor>> {
    let feeds: Vec<(&str, Tensor)> = run.feeds.iter().map(|(name, value)| (&**name, value.clone())).collect();
    session.run(&feeds, &as_strs(&run.fetches), &as_strs(&run.targets), options)
}

/// The median time of a step, after some that do not count.
pub(crate) fn median(step: impl FnMut() -> Result<()>) -> Result<Duration> {
    median_of(MEASURED, step)
}

/// The median time of the steps in so much time, after some that do not count.
fn median_of(measured: Duration, mut step: impl FnMut() -> Result<()>) -> Result<Duration> {
    let begin = Instant::now();
    while begin.elapsed() < WARM_UP {
        step()?;
    }
    let mut times = Vec::new();
    let begin = Instant::now();
    while times.len() < LEAST_STEPS || begin.elapsed() < measured {
        let before = Instant::now();
        step()?;
        times.push(before.elapsed());
    }
    times.sort();
    Ok(times[times.len() / 2])
}
