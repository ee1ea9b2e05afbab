//! How far a training is, from what its workers report. Knows no terminal and no clock: times are given.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::report::Report;
use super::sparkline::Curve;

/// Speed is measured over this time: short enough to follow, long enough not to flicker.
const WINDOW: Duration = Duration::from_secs(3);
/// Workers report ten times a second; when nothing comes for so long, the time counts as one without steps.
const PAUSE: Duration = Duration::from_secs(1);

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    Starting,
    Training,
    Finished,
    Lost,
}

/// One worker.
#[derive(Clone, Debug)]
pub(super) struct WorkerProgress {
    pub(super) name: String,
    pub(super) activity: Activity,
    pub(super) loss: Option<f32>,
    /// Its own steps.
    speed: Speed,
    /// When it reported last.
    heard: Option<Instant>,
}

impl WorkerProgress {
    pub(super) fn steps_per_second(&self, now: Instant) -> Option<f64> {
        self.speed.per_second(now)
    }
}

/// The whole training.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    pub(super) total: i64,
    pub(super) step: i64,
    /// The step the training began with; none while it starts.
    pub(super) first_step: Option<i64>,
    pub(super) workers: Vec<WorkerProgress>,
    pub(super) curve: Curve,
    pub(super) waits_for: Option<String>,
    speed: Speed,
}

impl Progress {
    pub(super) fn new(total: i64, workers: usize) -> Progress {
        let worker = |index: usize| WorkerProgress {
            name: format!("worker/{index}"),
            activity: Activity::Starting,
            loss: None,
            speed: Speed::default(),
            heard: None,
        };
        Progress {
            total,
            step: 0,
            first_step: None,
            workers: (0..workers).map(worker).collect(),
            curve: Curve::default(),
            waits_for: None,
            speed: Speed::default(),
        }
    }

    /// Takes what a worker reports at `now`.
    pub(super) fn take(&mut self, worker: usize, report: &Report, now: Instant) {
        let Some(worker) = self.workers.get_mut(worker) else { return };
        worker.heard = Some(now);
        match *report {
            Report::Waiting { ref what } => self.waits_for = Some(what.clone()),
            Report::Ready { step } => {
                worker.activity = Activity::Training;
                self.first_step = Some(self.first_step.map_or(step, |first| first.min(step)));
                self.step = self.step.max(step);
                self.waits_for = None;
            }
            Report::Progress { step, local_steps, loss, .. } => {
                worker.loss = Some(loss);
                worker.speed.note(now, local_steps as f64);
                self.curve.push(step, loss);
                self.step = self.step.max(step);
                self.speed.note(now, self.step as f64);
            }
            Report::Stopped { step } | Report::Diverged { step } => self.step = step,
            Report::Done(ref outcome) => {
                worker.activity = Activity::Finished;
                self.step = outcome.step;
            }
        }
    }

    pub(super) fn set_activity(&mut self, worker: usize, activity: Activity) {
        if let Some(worker) = self.workers.get_mut(worker) {
            worker.activity = activity;
        }
    }

    pub(super) fn steps_per_second(&self, now: Instant) -> Option<f64> {
        self.speed.per_second(now)
    }

    /// How long the worker that is silent for the longest time has not reported, of those that should.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        let training = self.workers.iter().filter(|worker| worker.activity == Activity::Training);
        let silences = training.filter_map(|worker| Some(now.saturating_duration_since(worker.heard?)));
        silences.max().unwrap_or_default()
    }

    /// How long the rest will take at the present speed.
    pub(super) fn time_left(&self, now: Instant) -> Option<Duration> {
        let speed = self.steps_per_second(now).filter(|&speed| speed > 0.0)?;
        Duration::try_from_secs_f64((self.total - self.step).max(0) as f64 / speed).ok()
    }

    /// The part that is done, from 0 to 1.
    pub(super) fn fraction(&self) -> f64 {
        (self.step as f64 / self.total.max(1) as f64).clamp(0.0, 1.0)
    }
}

/// The speed of a counter over the last seconds.
#[derive(Clone, Debug, Default)]
struct Speed {
    notes: VecDeque<(Instant, f64)>,
}

impl Speed {
    fn note(&mut self, now: Instant, count: f64) {
        while self.notes.front().is_some_and(|&(at, _)| now.saturating_duration_since(at) > WINDOW) {
            self.notes.pop_front();
        }
        self.notes.push_back((now, count));
    }

    fn per_second(&self, now: Instant) -> Option<f64> {
        let (&(from, before), &(last, after)) = (self.notes.front()?, self.notes.back()?);
        let to = match now.saturating_duration_since(last) {
            pause if pause > WINDOW => return Some(0.0),
            pause if pause > PAUSE => now,
            _ => last,
        };
        let seconds = to.saturating_duration_since(from).as_secs_f64();
        (seconds > 0.0).then(|| (after - before) / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_and_time_left_follow_the_last_seconds() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let report =
            |step: i64, local_steps: u64| Report::Progress { step, local_steps, seconds: 0.0, loss: 0.5 };
        let mut progress = Progress::new(2000, 2);
        progress.take(0, &Report::Ready { step: 100 }, at(0));
        assert_eq!((progress.first_step, progress.time_left(at(0))), (Some(100), None));
        // Slow at first, which is forgotten after some seconds.
        progress.take(0, &report(101, 1), at(0));
        progress.take(1, &report(110, 1), at(4000));
        progress.take(0, &report(610, 251), at(5000));
        assert_eq!(progress.steps_per_second(at(5100)), Some(500.0));
        assert_eq!(progress.time_left(at(5100)), Some(Duration::from_secs_f64(1390.0 / 500.0)));
        // A late report of an earlier step does not turn the counter back.
        progress.take(1, &report(600, 2), at(5000));
        assert_eq!(progress.step, 610);
        assert_eq!(progress.fraction(), 0.305);
    }

    /// A frozen cluster was shown with the speed it had before.
    #[test]
    fn silence_slows_down() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let report = |step: i64| Report::Progress { step, local_steps: 1, seconds: 0.0, loss: 0.5 };
        let mut progress = Progress::new(2000, 2);
        progress.take(0, &Report::Ready { step: 0 }, at(0));
        assert_eq!(progress.silence(at(700)), Duration::from_millis(700));
        progress.take(0, &report(0), at(1000));
        progress.take(0, &report(300), at(2000));
        assert_eq!(progress.steps_per_second(at(2900)), Some(300.0));
        assert_eq!(progress.steps_per_second(at(4000)), Some(100.0));
        assert_eq!((progress.steps_per_second(at(9000)), progress.time_left(at(9000))), (Some(0.0), None));
        // Who is starting or has ended need not report.
        assert_eq!(progress.silence(at(9000)), Duration::from_secs(7));
        progress.set_activity(0, Activity::Finished);
        assert_eq!(progress.silence(at(9000)), Duration::ZERO);
    }

    #[test]
    fn reports_of_unknown_workers_are_ignored() {
        let mut progress = Progress::new(10, 1);
        progress.take(7, &Report::Ready { step: 5 }, Instant::now());
        assert_eq!(progress.first_step, None);
    }
}
