//! [`Liveness`]: when the silence of a peer is probed, and when it is too long.

use std::time::{Duration, Instant};

/// Watches the silence of one connection.
pub(super) struct Liveness {
    probe_after: Duration,
    probe_timeout: Duration,
    /// When the probe that has not been answered was sent.
    probed: Option<Instant>,
}

/// What to do about a peer's silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    Bearable,
    /// A probe is to be sent now.
    NeedsProbe,
    /// The peer is gone: not a byte has come for this long.
    TooLong(Duration),
}

impl Liveness {
    /// While calls are pending, silence of `probe_after` is answered with a probe; if it goes on for `probe_timeout` after
    /// that, the peer is gone.
    pub(super) fn new(probe_after: Duration, probe_timeout: Duration) -> Liveness {
        Liveness { probe_after, probe_timeout, probed: None }
    }

    /// Looks at the silence: bytes came `last`, and calls are pending or not.
    pub(super) fn look(&mut self, now: Instant, last: Instant, is_waiting: bool) -> Silence {
        let silence = now.saturating_duration_since(last);
        if let Some(probed) = self.probed {
            if last <= probed {
                let is_gone = now.saturating_duration_since(probed) >= self.probe_timeout;
                return if is_gone { Silence::TooLong(silence) } else { Silence::Bearable };
            }
            self.probed = None;
        }
        if is_waiting && silence >= self.probe_after {
            self.probed = Some(now);
            return Silence::NeedsProbe;
        }
        Silence::Bearable
    }
}

#[cfg(test)]
mod tests {
    use tensorfleet_core::clock::Clock;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_silent_peer_is_probed_once_and_given_up_if_nothing_comes() {
        let hand = Clock::manual();
        let (mut liveness, opened) = (Liveness::new(5 * SECOND, 10 * SECOND), hand.now());
        hand.advance(4 * SECOND);
        assert_eq!(liveness.look(hand.now(), opened, true), Silence::Bearable);
        hand.advance(SECOND);
        assert_eq!(liveness.look(hand.now(), opened, true), Silence::NeedsProbe);
        hand.advance(9 * SECOND);
        assert_eq!(liveness.look(hand.now(), opened, true), Silence::Bearable, "one probe is enough");
        hand.advance(SECOND);
        assert_eq!(liveness.look(hand.now(), opened, true), Silence::TooLong(15 * SECOND));
    }

    #[test]
    fn any_byte_after_the_probe_is_a_sign_of_life() {
        let hand = Clock::manual();
        let (mut liveness, opened) = (Liveness::new(5 * SECOND, 10 * SECOND), hand.now());
        hand.advance(5 * SECOND);
        assert_eq!(liveness.look(hand.now(), opened, true), Silence::NeedsProbe);
        hand.advance(SECOND);
        let answered = hand.now();
        hand.advance(4 * SECOND);
        assert_eq!(liveness.look(hand.now(), answered, true), Silence::Bearable);
        hand.advance(SECOND);
        assert_eq!(
            liveness.look(hand.now(), answered, true),
            Silence::NeedsProbe,
            "and then it is silent again"
        );
    }

    #[test]
    fn nobody_asks_after_a_peer_that_owes_nothing() {
        let hand = Clock::manual();
        let (mut liveness, opened) = (Liveness::new(5 * SECOND, 10 * SECOND), hand.now());
        hand.advance(3600 * SECOND);
        assert_eq!(liveness.look(hand.now(), opened, false), Silence::Bearable);
        assert_eq!(liveness.look(hand.now(), opened, true), Silence::NeedsProbe);
    }
}
