//! [`Pace`]: whether a message that is being received gets on.
//!
//! A client that stops in the middle of a message, or sends a byte now and then, holds the memory of what it has sent. So
//! a message has a least rate, by what it holds: looked at from window to window, it must have got on by a little, and by
//! more if it holds much. A window is long enough for a client, or a network, that was frozen for a while.

use std::time::{Duration, Instant};

use tensorfleet_core::{Result, bail};

/// Every message gets on by this much in a window, unless it is over before.
const LEAST_BYTES: usize = 32 << 10;
/// One that holds much gets on by this part of it. With windows of 30 s the biggest message, 2 GiB, needs half a megabyte
/// per second: less than any network that such messages are sent through.
const LEAST_PART: usize = 128;

/// Watches one message.
pub(super) struct Pace {
    window: Duration,
    ends: Instant,
    /// Bytes that have arrived in this window.
    arrived: usize,
}

impl Pace {
    /// A message whose rest is waited for from `now` on.
    pub(super) fn new(window: Duration, now: Instant) -> Pace {
        Pace { window, ends: now + window, arrived: 0 }
    }

    /// How long until the next look.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.ends.saturating_duration_since(now)
    }

    /// Notes that bytes have arrived.
    pub(super) fn advanced(&mut self, bytes: usize, now: Instant) {
        if now >= self.ends {
            // Nobody looked at the end of the window: this process was late, not the client.
            *self = Pace::new(self.window, now);
        }
        self.arrived = self.arrived.saturating_add(bytes);
    }

    /// Looks at the end of a window: an error if the message, which holds `held` bytes, has not got on.
    pub(super) fn look(&mut self, held: usize, now: Instant) -> Result<()> {
        let least = LEAST_BYTES.max(held / LEAST_PART);
        if self.arrived < least {
            let (arrived, seconds) = (self.arrived, self.window.as_secs_f64());
            bail!(
                DeadlineExceeded,
                "only {arrived} bytes of a message came in {seconds} s, fewer than the {least} that it must get on by: the \
                 client has stopped sending, or the network is too slow"
            );
        }
        *self = Pace::new(self.window, now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::Code;
    use tensorfleet_core::clock::Clock;

    const WINDOW: Duration = Duration::from_secs(30);

    #[test]
    fn a_message_that_gets_on_may_take_as_long_as_it_likes() {
        let hand = Clock::manual();
        let mut pace = Pace::new(WINDOW, hand.now());
        for _ in 0..1000 {
            pace.advanced(LEAST_BYTES, hand.now());
            hand.advance(WINDOW);
            pace.look(4 << 20, hand.now()).unwrap();
        }
    }

    #[test]
    fn a_message_that_trickles_is_ended() {
        let hand = Clock::manual();
        let mut pace = Pace::new(WINDOW, hand.now());
        pace.advanced(LEAST_BYTES - 1, hand.now());
        hand.advance(WINDOW);
        assert_eq!(pace.look(0, hand.now()).unwrap_err().code(), Code::DeadlineExceeded);
    }

    #[test]
    fn one_that_holds_much_must_get_on_by_more() {
        let hand = Clock::manual();
        let mut pace = Pace::new(WINDOW, hand.now());
        pace.advanced(LEAST_BYTES, hand.now());
        hand.advance(WINDOW);
        assert!(pace.look(1 << 30, hand.now()).is_err());
    }

    #[test]
    fn a_server_that_was_frozen_itself_gives_the_message_another_window() {
        let hand = Clock::manual();
        let mut pace = Pace::new(WINDOW, hand.now());
        hand.advance(WINDOW * 3);
        pace.advanced(1, hand.now());
        assert_eq!(pace.left(hand.now()), WINDOW);
    }
}
