//! [`RequestLog`]: one line for each request that was refused, and never a flood of them.
//!
//! Whoever sends nonsense gets an error; whoever runs the server should be able to see it too. A client in a loop must
//! not fill the disk, so only a few lines a second are written, and the next one says how many were left out.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tensorfleet_core::clock::Clock;
use tensorfleet_core::{Code, Status};
use tensorfleet_rpc::Peer;

/// A window of time, and how many lines it may have.
const WINDOW: Duration = Duration::from_secs(1);
const LINES_PER_WINDOW: u32 = 5;

/// Writes about refused requests.
pub(crate) struct RequestLog {
    clock: Clock,
    budget: Mutex<Budget>,
}

struct Budget {
    since: Instant,
    written: u32,
    left_out: u64,
}

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Left,
    /// Written, and mentions this many that were not.
    Written(u64),
}

impl RequestLog {
    /// How many lines a second has is measured by `clock`.
    pub(crate) fn new(clock: Clock) -> RequestLog {
        let budget = Budget { since: clock.now(), written: 0, left_out: 0 };
        RequestLog { clock, budget: Mutex::new(budget) }
    }

    /// Notes a call that was answered with an error.
    pub(crate) fn note(&self, method: &str, peer: Peer, status: &Status) {
        if !is_refusal(method, status) {
            tracing::debug!("{method} of {peer} failed: {status}");
            return;
        }
        match self.budget.lock().take(self.clock.now()) {
            Line::Left => {}
            Line::Written(0) => tracing::warn!("{method} of {peer} is refused: {status}"),
            Line::Written(more) => {
                tracing::warn!("{method} of {peer} is refused: {status} (and {more} requests before it)");
            }
        }
    }

    /// Notes a step that failed: its client knows, and knows best what to make of it.
    pub(crate) fn note_failed_step(&self, client: Peer, status: &Status) {
        tracing::debug!("a step of {client} failed: {status}");
    }
}

/// Whether an error means that a request made no sense, or was too much, or met a bug. Requests that were cancelled, that
/// ran out of time or whose step failed elsewhere are everyday life.
fn is_refusal(method: &str, status: &Status) -> bool {
    // A sender's error reaches all who wait for its tensors; its own task reports it.
    let is_relayed = method.ends_with("/RecvTensor") && !matches!(status.code(), Code::ResourceExhausted);
    let is_cause = matches!(
        status.code(),
        Code::InvalidArgument
            | Code::Unimplemented
            | Code::ResourceExhausted
            | Code::Internal
            | Code::Unknown
            | Code::DataLoss
            | Code::Aborted
            | Code::NotFound
            | Code::FailedPrecondition
    );
    is_cause && !is_relayed && !status.is_derived()
}

impl Budget {
    fn take(&mut self, now: Instant) -> Line {
        if now.saturating_duration_since(self.since) >= WINDOW {
            (self.since, self.written) = (now, 0);
        }
        if self.written == LINES_PER_WINDOW {
            self.left_out += 1;
            return Line::Left;
        }
        self.written += 1;
        Line::Written(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_becomes_a_few_lines_and_a_count() {
        let start = Clock::manual().now();
        let mut budget = Budget { since: start, written: 0, left_out: 0 };
        let lines: Vec<Line> = (0..100).map(|_| budget.take(start)).collect();
        assert_eq!(lines.iter().filter(|line| **line == Line::Written(0)).count(), 5);
        assert_eq!(budget.take(start + WINDOW), Line::Written(95));
        assert_eq!(budget.take(start + WINDOW), Line::Written(0));
    }

    #[test]
    fn consequences_and_ends_are_no_refusals() {
        let method = "/tensorflow.MasterService/RunStep";
        assert!(is_refusal(method, &Status::invalid_argument("what?")));
        assert!(!is_refusal(method, &Status::aborted("elsewhere").derived()));
        assert!(!is_refusal(method, &Status::cancelled("enough")));
        assert!(!is_refusal("/tensorflow.WorkerService/RecvTensor", &Status::invalid_argument("bad matrix")));
    }
}
