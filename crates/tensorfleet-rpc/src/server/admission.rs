//! [`Limits`] and [`Admission`]: how much the requests under way may take, all together.
//!
//! A request costs memory from the moment its length is announced until it is answered, and a request that waits for a
//! tensor may wait for long. Without a bound, a server with too many clients, or one hostile one, grows until the system
//! kills it and everything that it holds is lost. With a bound the request that is too much is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tensorfleet_core::{Result, Status};

use crate::frame::MAX_STREAMS;

/// What a call costs besides its message: its stream, its task and what the handler holds. Measured: a server with 8 000
/// calls that wait is 125 MB bigger than without.
const CALL_BYTES: usize = 16 << 10;
/// A connection may have this many calls open however little memory there is: all receives of a small step.
const MIN_STREAMS: u32 = 128;
/// What requests may take if nobody says otherwise and the system does not tell how much memory there is.
const DEFAULT_BYTES: usize = 8 << 30;
/// Longer than any network is silent between two packets of a message that is still being sent.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Bounds of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes that the requests under way may take together.
    pub max_pending_bytes: usize,
    /// How long the rest of a message may take to show any progress. A client that stops in the middle would otherwise hold
    /// the memory of the whole message.
    pub stall_timeout: Duration,
}

impl Limits {
    /// Requests under way may take this many bytes together.
    pub fn pending_bytes(max_pending_bytes: usize) -> Limits {
        Limits { max_pending_bytes, stall_timeout: STALL_TIMEOUT }
    }

    /// How many calls one connection may have open. A call takes memory before it is admitted, so the bound on bytes holds only
    /// with one on calls: as many as are admitted, and as many again on their way to being refused, so that those never wait for
    /// each other.
    pub(super) fn max_streams(self) -> u32 {
        let admitted = self.max_pending_bytes / CALL_BYTES;
        u32::try_from(admitted.saturating_mul(2)).unwrap_or(u32::MAX).clamp(MIN_STREAMS, MAX_STREAMS)
    }
}

impl Default for Limits {
    /// Three quarters of the machine's memory: beyond that, refusing is better than being killed.
    fn default() -> Limits {
        let table = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total = table.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kilobytes = total.and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok());
        let bytes = kilobytes.and_then(|number| number.checked_mul(1024));
        Limits::pending_bytes(bytes.map_or(DEFAULT_BYTES, |bytes| bytes / 4 * 3))
    }
}

/// Counts what the requests under way take.
pub(super) struct Admission {
    limits: Limits,
    pending_bytes: AtomicUsize,
}

impl Admission {
    pub(super) fn new(limits: Limits) -> Arc<Admission> {
        Arc::new(Admission { limits, pending_bytes: AtomicUsize::new(0) })
    }

    /// A call whose message is not known yet.
    pub(super) fn begin(&self) -> Result<Admitted<'_>> {
        let mut admitted = Admitted { admission: self, bytes: 0 };
        admitted.grow(CALL_BYTES)?;
        Ok(admitted)
    }
}

/// What one request takes; given back when dropped.
pub(super) struct Admitted<'a> {
    admission: &'a Admission,
    bytes: usize,
}

impl Admitted<'_> {
    pub(super) fn stall_timeout(&self) -> Duration {
        self.admission.limits.stall_timeout
    }

    /// Takes more.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<()> {
        let (pending, limit) = (&self.admission.pending_bytes, self.admission.limits.max_pending_bytes);
        let fits = |taken: usize| taken.checked_add(bytes).filter(|&sum| sum <= limit);
        let taken = pending.fetch_update(Relaxed, Relaxed, fits).map_err(|taken| {
            Status::resource_exhausted(format!(
                "the server has no room for {bytes} bytes more: the requests under way take {taken} of the {limit} bytes \
                 they may; try again later, or start the server with a higher limit (--max-pending-mb of `tensorfleet serve`)"
            ))
        });
        taken.map(|_| self.bytes += bytes)
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.admission.pending_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::Code;

    #[test]
    fn what_is_too_much_is_refused_until_something_is_given_back() {
        let admission = Admission::new(Limits::pending_bytes(2 * CALL_BYTES + 100));
        let mut first = admission.begin().unwrap();
        first.grow(100).unwrap();
        let second = admission.begin().unwrap();
        assert_eq!(first.grow(1).unwrap_err().code(), Code::ResourceExhausted);
        assert!(admission.begin().is_err());
        assert!(first.grow(usize::MAX).is_err());
        drop(second);
        assert!(admission.begin().is_ok());
        drop(first);
        assert_eq!(admission.pending_bytes.load(Relaxed), 0);
    }

    #[test]
    fn a_connection_has_room_for_calls_that_are_refused_beside_those_that_are_not() {
        let limits = Limits::pending_bytes(1000 * CALL_BYTES);
        assert_eq!(limits.max_streams(), 2000);
        assert_eq!(Limits::pending_bytes(0).max_streams(), MIN_STREAMS);
        assert_eq!(Limits::pending_bytes(usize::MAX).max_streams(), MAX_STREAMS);
    }

    #[test]
    fn the_default_leaves_room_for_big_tensors() {
        assert!(Limits::default().max_pending_bytes >= 512 << 20);
    }
}
