//! [`Patience`]: how long a call that is refused for now is made again.
//!
//! A server that is out of room says so before it looks at a request ([`Status::busy`]), and one that closes a connection
//! says which calls it has not looked at. Such a call is sent again after a pause; pauses grow, and differ from caller to
//! caller, so that those who were refused together do not all come back together.

use std::time::{Duration, Instant};

use tensorfleet_core::{Result, Status, entropy};

/// The first pause, ...
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// ... and the longest: a server with thousands of refused calls is asked a few thousand times a second.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What is left of a caller's patience.
pub(super) struct Patience {
    timeout: Duration,
    deadline: Option<Instant>,
    /// Since when the call has been refused, and how often.
    refused: Option<(Instant, u32)>,
}

impl Patience {
    /// For a call that is given up after `timeout` of refusals, or at its own deadline.
    pub(super) fn new(timeout: Duration, deadline: Option<Instant>) -> Patience {
        Patience { timeout, deadline, refused: None }
    }

    /// Whether the call has been refused before.
    pub(super) fn was_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// How long to wait before the next attempt, after one has failed at `now`. The error if there is to be none.
    pub(super) fn pause(&mut self, status: Status, now: Instant) -> Result<Duration> {
        if !status.is_busy() {
            return Err(status);
        }
        let (since, times) = self.refused.unwrap_or((now, 0));
        self.refused = Some((since, times + 1));
        let grown = FIRST_PAUSE.saturating_mul(1 << times.min(10)).min(LONGEST_PAUSE);
        // Between half of it and all of it.
        let pause = grown / 2 + grown.mul_f64((entropy::nonce() % 1024) as f64 / 2048.0);
        let waited = now.saturating_duration_since(since);
        let is_late = self.deadline.is_some_and(|deadline| now + pause >= deadline);
        if waited + pause > self.timeout || is_late {
            let waited = waited.as_secs_f64();
            let status = status.not_busy();
            return Err(match times {
                0 => status,
                _ => status.context(format_args!("refused for {waited:.1} s")),
            });
        }
        Ok(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::Code;
    use tensorfleet_core::clock::Clock;

    fn busy() -> Status {
        Status::resource_exhausted("no room").busy()
    }

    #[test]
    fn a_refused_call_is_made_again_with_longer_and_longer_pauses_until_patience_ends() {
        let hand = Clock::manual();
        let mut patience = Patience::new(Duration::from_secs(60), None);
        let (started, mut pauses) = (hand.now(), Vec::new());
        let status = loop {
            match patience.pause(busy(), hand.now()) {
                Ok(pause) => {
                    hand.advance(pause);
                    pauses.push(pause);
                }
                Err(status) => break status,
            }
        };
        assert!(pauses[0] <= FIRST_PAUSE && pauses.iter().all(|pause| *pause <= LONGEST_PAUSE));
        assert!((60..200).contains(&pauses.len()), "{} attempts", pauses.len());
        assert!(hand.now() - started > Duration::from_secs(58));
        assert!(!status.is_busy() && status.text().contains(" s: no room"), "{status}");
        assert_eq!(status.code(), Code::ResourceExhausted);
    }

    #[test]
    fn a_deadline_ends_patience_and_other_errors_need_none() {
        let now = Clock::manual().now();
        let deadline = now + Duration::from_millis(10);
        let mut patience = Patience::new(Duration::from_secs(60), Some(deadline));
        assert_eq!(patience.pause(busy(), now).unwrap_err().code(), Code::ResourceExhausted);
        let mut patience = Patience::new(Duration::from_secs(60), None);
        assert_eq!(patience.pause(Status::internal("no"), now).unwrap_err().code(), Code::Internal);
        assert!(!patience.was_refused());
    }
}
