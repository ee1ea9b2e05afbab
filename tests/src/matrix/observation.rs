//! What the processes of a training said, and what follows from it: did it end, how long did it stand still, how many steps
//! were lost, who was silent.

use std::time::{Duration, Instant};

/// A line that a host said.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) at: Instant,
    pub(super) host: usize,
    pub(super) text: String,
}

/// What TensorFlow's programs say before a pause that is their own: they import it; or they have found no model, and look again
/// after the `recovery_wait_secs` of their `SessionManager`.
const ANNOUNCED: [&str; 2] = ["imports TensorFlow", "Waiting for model to be ready"];
/// How long such a pause takes.
const ANNOUNCED_PAUSE: Duration = Duration::from_secs(30);

/// How a run went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Why the survivors did not reach the last step, if they did not.
    pub unfinished: Option<String>,
    /// The longest time in which nobody made a step, from the fault on.
    pub standstill: Duration,
    /// How far the model went back.
    pub lost_steps: i64,
    /// The longest time in which a host that should have spoken said nothing.
    pub silence: Duration,
    /// Which one.
    pub silent_host: String,
}

/// When what happened.
pub(super) struct Times {
    pub(super) fault: Instant,
    /// When the task was back, or could be; the end, for one that stays dead.
    pub(super) healed: Instant,
    pub(super) end: Instant,
}

/// The number in `step 51`.
pub(super) fn step(text: &str) -> Option<i64> {
    text.strip_prefix("step ")?.parse().ok()
}

/// The step in `ready step=50 weight=50`.
pub(super) fn restored(text: &str) -> Option<i64> {
    text.strip_prefix("ready step=")?.split(' ').next()?.parse().ok()
}

impl Outcome {
    /// Looks at all that was said. `worker_hosts` are the hosts of workers, `victim` the one that was hit; it need not speak
    /// while it cannot.
    pub(super) fn of(
        lines: &[Line],
        times: &Times,
        worker_hosts: &[usize],
        victim: usize,
        unfinished: Option<String>,
    ) -> Outcome {
        let (mut standstill, mut last_step_at) = (Duration::ZERO, times.fault);
        let (mut newest, mut lost_steps) = (0, 0);
        for line in lines {
            if let Some(step) = step(&line.text) {
                newest = newest.max(step);
                if line.at > times.fault {
                    standstill = standstill.max(line.at - last_step_at);
                    last_step_at = line.at;
                }
            }
            if let Some(step) = restored(&line.text).filter(|_| line.at > times.fault) {
                lost_steps = lost_steps.max(newest - step);
                newest = step;
            }
        }
        if unfinished.is_some() {
            standstill = standstill.max(times.end.saturating_duration_since(last_step_at));
        }
        let (silence, silent_host) = worker_hosts
            .iter()
            .map(|&host| {
                let from = if host == victim { times.healed } else { times.fault };
                (longest_silence(lines, host, from, times.end), host)
            })
            .max()
            .unwrap_or_default();
        let silent_host = format!("host {silent_host}");
        Outcome { unfinished, standstill, lost_steps, silence, silent_host }
    }
}

/// The longest pause between lines of a host, until it said that it is done. A pause that was announced is none.
fn longest_silence(lines: &[Line], host: usize, from: Instant, end: Instant) -> Duration {
    let (mut longest, mut last) = (Duration::ZERO, from);
    for line in lines.iter().filter(|line| line.host == host && line.at > from) {
        longest = longest.max(line.at.saturating_duration_since(last));
        last = line.at;
        if ANNOUNCED.iter().any(|announcement| line.text.contains(announcement)) {
            last += ANNOUNCED_PAUSE;
        }
        if line.text.starts_with("done ") {
            return longest;
        }
    }
    longest.max(end.saturating_duration_since(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(said: &[(u64, usize, &str)], begin: Instant) -> Vec<Line> {
        let line = |&(second, host, text): &(u64, usize, &str)| Line {
            at: begin + Duration::from_secs(second),
            host,
            text: text.to_string(),
        };
        said.iter().map(line).collect()
    }

    #[test]
    fn a_model_that_went_back_and_a_host_that_said_nothing_are_seen() {
        let begin = Instant::now();
        let at = |second| begin + Duration::from_secs(second);
        let said = [
            (1, 1, "step 10"),
            (2, 2, "step 11"),
            (10, 1, "waiting for /job:ps/task:0"),
            (19, 1, "waiting for /job:ps/task:0"),
            (20, 1, "ready step=5 weight=5"),
            (21, 1, "step 6"),
            (22, 1, "done step=6"),
            (22, 2, "done step=6"),
        ];
        let times = Times { fault: at(3), healed: at(18), end: at(40) };
        let outcome = Outcome::of(&lines(&said, begin), &times, &[1, 2], 0, None);
        assert_eq!(outcome.lost_steps, 6);
        assert_eq!(outcome.standstill, Duration::from_secs(18));
        assert_eq!((outcome.silence, outcome.silent_host.as_str()), (Duration::from_secs(19), "host 2"));
    }

    #[test]
    fn a_host_that_was_hit_need_not_speak_until_it_is_back() {
        let begin = Instant::now();
        let at = |second| begin + Duration::from_secs(second);
        let said = [(1, 1, "step 1"), (20, 1, "step 2"), (21, 1, "done step=2")];
        let times = Times { fault: at(2), healed: at(19), end: at(21) };
        let outcome = Outcome::of(&lines(&said, begin), &times, &[1], 1, None);
        assert_eq!(outcome.silence, Duration::from_secs(1));
    }
}
