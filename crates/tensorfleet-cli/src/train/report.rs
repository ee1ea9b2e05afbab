//! What a worker tells: as lines for people, or as lines of JSON for the launcher.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::arguments::ReportStyle;
use super::evaluation::Evaluation;
use crate::terminal;

/// A worker reports not more often to the launcher; eyes do not see more.
const JSON_EVERY: Duration = Duration::from_millis(100);
/// Nor to people.
pub(super) const TEXT_EVERY: Duration = Duration::from_secs(2);

/// A piece of news.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Report {
    /// It waits for something.
    Waiting { what: String },
    /// The model is ready, at this step.
    Ready { step: i64 },
    /// How far it is.
    Progress { step: i64, local_steps: u64, seconds: f64, loss: f32 },
    /// The chief ended the training because it was asked to; the model is saved.
    Stopped { step: i64 },
    /// The chief ended the training because the loss is not a number; the model of this step is not saved.
    Diverged { step: i64 },
    /// The chief has trained and judged the model.
    Done(Box<Outcome>),
}

/// What a training has led to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) first_step: i64,
    pub(super) step: i64,
    /// How long the steps took.
    pub(super) seconds: f64,
    pub(super) checkpoint: String,
    pub(super) evaluation: Evaluation,
}

impl Outcome {
    pub(super) fn steps_per_second(&self) -> f64 {
        let steps = self.step.saturating_sub(self.first_step).max(0) as f64;
        if self.seconds > 0.0 { steps / self.seconds } else { 0.0 }
    }
}

/// Gives the reports of a worker.
pub(super) struct Reporter {
    style: ReportStyle,
    /// What lines for people begin with.
    name: String,
    total_steps: i64,
    last: Option<Instant>,
    last_steps: (u64, f64),
}

impl Reporter {
    pub(super) fn new(style: ReportStyle, name: &str, total_steps: i64) -> Reporter {
        Reporter { style, name: name.to_string(), total_steps, last: None, last_steps: (0, 0.0) }
    }

    /// Whether progress should be reported now.
    pub(super) fn is_due(&self) -> bool {
        let every = match self.style {
            ReportStyle::Json => JSON_EVERY,
            ReportStyle::Text => TEXT_EVERY,
        };
        self.last.is_none_or(|last| last.elapsed() >= every)
    }

    pub(super) fn give(&mut self, report: &Report) {
        if let Report::Progress { .. } = report {
            self.last = Some(Instant::now());
        }
        let line = match self.style {
            ReportStyle::Json => serde_json::to_string(report).ok(),
            ReportStyle::Text => self.text(report),
        };
        if let Some(line) = line {
            terminal::print_meanwhile(&line);
        }
    }

    fn text(&mut self, report: &Report) -> Option<String> {
        let name = &self.name;
        Some(match *report {
            Report::Waiting { ref what } => format!("{name}: waits for {what}"),
            Report::Ready { step } => format!("{name}: starts at step {step} of {}", self.total_steps),
            Report::Progress { step, local_steps, seconds, loss } => {
                let (before, since) = std::mem::replace(&mut self.last_steps, (local_steps, seconds));
                let speed = local_steps.saturating_sub(before) as f64 / (seconds - since).max(1e-3);
                format!(
                    "{name}: step {step} of {}, loss {loss:.3}, {speed:.0} steps/s here",
                    self.total_steps
                )
            }
            Report::Stopped { step } => format!("{name}: stopped at step {step}; the model is saved"),
            // The result has a text of its own, and so has the error.
            Report::Diverged { .. } | Report::Done(_) => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_survive_the_way_to_the_launcher() {
        let outcome = Outcome {
            first_step: 0,
            step: 10,
            seconds: 2.0,
            checkpoint: "model.ckpt-10".into(),
            evaluation: Evaluation::default(),
        };
        assert_eq!(outcome.steps_per_second(), 5.0);
        for report in [
            Report::Waiting { what: "ps/0".into() },
            Report::Progress { step: 3, local_steps: 2, seconds: 0.5, loss: 0.25 },
            Report::Diverged { step: 7 },
            Report::Done(outcome.into()),
        ] {
            let line = serde_json::to_string(&report).unwrap();
            let back: Report = serde_json::from_str(&line).unwrap();
            assert_eq!(format!("{back:?}"), format!("{report:?}"));
        }
    }
}
