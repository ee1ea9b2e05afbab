//! [`RecentRequests`]: refuses a request that arrives twice.
//!
//! TensorFlow 1.15 repeats a call after a broken connection with the same bytes. An update must not be applied twice,
//! so both services remember the numbers of the latest requests.

use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use tensorfleet_core::{Result, bail};

/// The numbers of the latest requests.
pub(crate) struct RecentRequests {
    generation: usize,
    seen: Mutex<Seen>,
}

/// Two generations: when the younger one is full, the older one is forgotten as a whole. That takes a third of the memory
/// of a set with an order, and none of its removals.
#[derive(Default)]
struct Seen {
    younger: FxHashSet<i64>,
    older: FxHashSet<i64>,
}

impl RecentRequests {
    /// Remembers this many at most, and at least half of them.
    pub(crate) fn new(capacity: usize) -> RecentRequests {
        RecentRequests { generation: capacity.div_ceil(2), seen: Mutex::default() }
    }

    /// Notes a request; `Aborted` if it has been here. Zero means that the sender does not number its requests.
    pub(crate) fn note(&self, number: i64, method: &str) -> Result<()> {
        if number == 0 {
            return Ok(());
        }
        let mut seen = self.seen.lock();
        let Seen { younger, older } = &mut *seen;
        if older.contains(&number) || younger.contains(&number) {
            bail!(
                Aborted,
                "{method} request {number} was received twice: the sender repeated it after a broken connection, and it \
                 is not run again"
            );
        }
        if younger.len() >= self.generation {
            std::mem::swap(younger, older);
            younger.clear();
        }
        younger.insert(number);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::Code;

    #[test]
    fn a_repeated_request_is_refused_until_it_is_forgotten() {
        let recent = RecentRequests::new(4);
        let note = |number| recent.note(number, "RunGraph").map_err(|status| status.code());
        assert_eq!((note(1), note(1)), (Ok(()), Err(Code::Aborted)));
        assert_eq!((note(0), note(0)), (Ok(()), Ok(())));
        assert_eq!((note(2), note(3)), (Ok(()), Ok(())));
        // Two are remembered at least, whenever the older ones go.
        assert_eq!((note(2), note(3)), (Err(Code::Aborted), Err(Code::Aborted)));
        assert_eq!((note(4), note(5)), (Ok(()), Ok(())));
        assert_eq!((note(3), note(4)), (Err(Code::Aborted), Err(Code::Aborted)));
        assert_eq!((note(1), note(2)), (Ok(()), Ok(())));
    }

    /// A server that had had many requests was larger by three megabytes than one that had had few.
    #[test]
    fn never_more_are_kept_than_asked_for() {
        let recent = RecentRequests::new(1000);
        (1..100_000).for_each(|number| recent.note(number, "RunGraph").unwrap());
        let seen = recent.seen.lock();
        assert!(seen.younger.len() + seen.older.len() <= 1000);
        assert!(seen.younger.capacity() + seen.older.capacity() < 2000);
    }
}
