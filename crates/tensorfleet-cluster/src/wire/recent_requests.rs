//! [`RecentRequests`]: refuses a request that arrives twice.
//!
//! TensorFlow 1.15 repeats a call after a broken connection with the same bytes. An update must not be applied twice,
//! so both services remember the numbers of the latest requests.

use std::collections::VecDeque;

use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use tensorfleet_core::{Result, bail};

/// The numbers of the latest requests.
pub(crate) struct RecentRequests {
    capacity: usize,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    numbers: FxHashSet<i64>,
    in_order: VecDeque<i64>,
}

impl RecentRequests {
    /// Remembers this many.
    pub(crate) fn new(capacity: usize) -> RecentRequests {
        RecentRequests { capacity, seen: Mutex::default() }
    }

    /// Notes a request; `Aborted` if it has been here. Zero means that the sender does not number its requests.
    pub(crate) fn note(&self, number: i64, method: &str) -> Result<()> {
        if number == 0 {
            return Ok(());
        }
        let mut seen = self.seen.lock();
        if !seen.numbers.insert(number) {
            bail!(
                Aborted,
                "{method} request {number} was received twice: the sender repeated it after a broken connection, and it \
                 is not run again"
            );
        }
        seen.in_order.push_back(number);
        if seen.in_order.len() > self.capacity
            && let Some(oldest) = seen.in_order.pop_front()
        {
            seen.numbers.remove(&oldest);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::Code;

    #[test]
    fn a_repeated_request_is_refused_until_it_is_forgotten() {
        let recent = RecentRequests::new(2);
        recent.note(1, "RunGraph").unwrap();
        assert_eq!(recent.note(1, "RunGraph").unwrap_err().code(), Code::Aborted);
        recent.note(0, "RunGraph").unwrap();
        recent.note(0, "RunGraph").unwrap();
        recent.note(2, "RunGraph").unwrap();
        recent.note(3, "RunGraph").unwrap();
        recent.note(1, "RunGraph").unwrap();
    }
}
