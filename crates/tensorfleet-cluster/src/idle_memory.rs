//! [`IdleMemory`]: when a server gives back memory that it keeps for its next steps.
//!
//! Freed blocks are kept, because the next step of a training wants the same ones again and fresh pages are slow. A server
//! that computes nothing needs none of them, and others on its machine may. So they go when none has been asked for in a
//! while; and soon after a session has ended, whose sizes need not be the next one's.
//!
//! Not all that a session leaves is free by then: its graph is dropped by whoever has it last, its connections end later, and
//! what takes memory need not be a session at all (calls that fail, connections that bring nothing). None of that tells when it
//! is over. So memory is given back again and again while nothing is computed, at growing distances: to do so when there is
//! nothing to give back takes some microseconds.

use std::time::{Duration, Instant};

/// A server that has asked for no block for so long does not compute.
const QUIET: Duration = Duration::from_secs(10);
/// The same after the end of a session. Long enough to see that no other session is at work.
const QUIET_AFTER_SESSION: Duration = Duration::from_secs(1);
/// A server that does nothing gives memory back this often.
const LONGEST: Duration = Duration::from_secs(60);

/// What was seen last.
pub(crate) struct IdleMemory {
    requests: u64,
    sessions_ended: u64,
    /// When a block was asked for or memory was given back, whatever came last.
    since: Instant,
    /// How long after that memory is given back.
    distance: Duration,
}

impl IdleMemory {
    /// Of a server that has just started.
    pub(crate) fn new(now: Instant) -> IdleMemory {
        IdleMemory { requests: 0, sessions_ended: 0, since: now, distance: QUIET }
    }

    /// Whether memory is to be given back: looked at now, when so many blocks have been asked for in all, and so many
    /// sessions have ended.
    pub(crate) fn is_due(&mut self, requests: u64, sessions_ended: u64, now: Instant) -> bool {
        if requests != self.requests {
            (self.requests, self.since) = (requests, now);
            // What the end of a session left is still there to be given back, soon after the others rest.
            if self.distance != QUIET_AFTER_SESSION {
                self.distance = QUIET;
            }
        }
        if sessions_ended != self.sessions_ended {
            (self.sessions_ended, self.distance) = (sessions_ended, QUIET_AFTER_SESSION);
        }
        let is_due = now.saturating_duration_since(self.since) >= self.distance;
        if is_due {
            (self.since, self.distance) = (now, (self.distance * 2).min(LONGEST));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::clock::Clock;

    #[test]
    fn memory_is_given_back_when_nothing_has_been_asked_for_in_a_while_and_then_again_ever_more_seldom() {
        let hand = Clock::manual();
        let mut idle = IdleMemory::new(hand.now());
        for requests in 1..100 {
            assert!(!idle.is_due(requests, 0, hand.now()), "it computes");
            hand.advance(QUIET - Duration::from_millis(1));
        }
        assert!(!idle.is_due(99, 0, hand.now()));
        hand.advance(Duration::from_millis(1));
        assert!(idle.is_due(99, 0, hand.now()));
        for distance in [QUIET * 2, QUIET * 4, LONGEST, LONGEST, LONGEST] {
            hand.advance(distance - Duration::from_millis(1));
            assert!(!idle.is_due(99, 0, hand.now()), "it has been given back");
            hand.advance(Duration::from_millis(1));
            assert!(idle.is_due(99, 0, hand.now()), "something may have been freed after {distance:?}");
        }
        assert!(!idle.is_due(100, 0, hand.now()), "it computes again");
        hand.advance(QUIET);
        assert!(idle.is_due(100, 0, hand.now()));
    }

    #[test]
    fn what_a_session_leaves_behind_goes_sooner_unless_others_are_at_work() {
        let hand = Clock::manual();
        let mut idle = IdleMemory::new(hand.now());
        for requests in 0..100 {
            assert!(!idle.is_due(requests, 1, hand.now()), "another session computes");
            hand.advance(QUIET_AFTER_SESSION / 2);
        }
        hand.advance(QUIET_AFTER_SESSION / 2);
        assert!(idle.is_due(99, 1, hand.now()));
        assert!(!idle.is_due(99, 1, hand.now()));
        hand.advance(QUIET_AFTER_SESSION * 2);
        assert!(idle.is_due(99, 1, hand.now()), "its last parts may have gone since");
        hand.advance(QUIET * 10);
        assert!(idle.is_due(99, 2, hand.now()), "a session that had ended in silence");
    }
}
