//! [`KernelStats`]: how long a node took so far.
//!
//! Whether a node is worth another thread is guessed from the size of its inputs first. The guess has to be careful, and
//! so calls many nodes expensive that take less time than it takes to wake a thread. Nodes it calls expensive are timed,
//! and from then on their own time decides.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// What is known from earlier runs of a node.
#[derive(Default)]
pub(super) struct KernelStats {
    /// The usual time; 0 as long as it is unknown.
    nanos: AtomicU32,
    /// The size of the inputs of the last run.
    bytes: AtomicUsize,
}

impl KernelStats {
    /// How long the node usually takes with inputs of this size, if that is known.
    pub(super) fn usual_time(&self, bytes: usize) -> Option<Duration> {
        let nanos = self.nanos.load(Relaxed);
        let has_known_size = bytes / 2 <= self.bytes.load(Relaxed);
        (nanos != 0 && has_known_size).then(|| Duration::from_nanos(nanos.into()))
    }

    /// Learns from a run: quickly that it takes less time, slowly that it takes more, because on a busy machine a slow run
    /// is mostly one during which the thread had to pause. Threads that learn at the same time may lose a lesson; nothing
    /// depends on it.
    pub(super) fn add(&self, time: Duration, bytes: usize) {
        let new = u32::try_from(time.as_nanos()).unwrap_or(u32::MAX).max(1);
        let known = match self.bytes.swap(bytes, Relaxed) {
            old if bytes / 2 <= old => self.nanos.load(Relaxed),
            _ => 0,
        };
        let usual = match known {
            0 => new,
            old if new < old => old - (old - new) / 2,
            old => old + (new - old).min(old) / 16,
        };
        self.nanos.store(usual.max(1), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICRO: Duration = Duration::from_micros(1);

    #[test]
    fn nothing_is_known_before_the_first_run_nor_of_bigger_inputs() {
        let node = KernelStats::default();
        assert_eq!(node.usual_time(100), None);
        node.add(MICRO * 10, 100);
        assert_eq!(
            [100, 200, 300].map(|bytes| node.usual_time(bytes)),
            [Some(MICRO * 10), Some(MICRO * 10), None]
        );
        node.add(MICRO * 90, 300);
        assert_eq!(node.usual_time(300), Some(MICRO * 90));
    }

    #[test]
    fn one_slow_run_changes_little_and_many_change_the_mind() {
        let node = KernelStats::default();
        let usual_micros = || node.usual_time(100).unwrap().as_micros();
        node.add(MICRO * 16, 100);
        node.add(MICRO * 1_000_000, 100);
        assert_eq!(usual_micros(), 17);
        (0..100).for_each(|_| node.add(MICRO * 100, 100));
        assert!((90..=100).contains(&usual_micros()));
        (0..40).for_each(|_| node.add(Duration::ZERO, 100));
        assert_eq!(usual_micros(), 0);
    }
}
