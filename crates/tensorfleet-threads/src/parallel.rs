//! The loops of the process's own threads, for callers that are not handed any yet.

use std::ops::Range;

pub use crate::loops::first_error;
use crate::threads::Threads;

/// See [`crate::Loops::shard_len`].
pub fn shard_len(count: usize, centi_ns_per_item: usize) -> Option<usize> {
    Threads::of_process().loops().shard_len(count, centi_ns_per_item)
}

/// See [`crate::Loops::ranges`].
pub fn ranges(count: usize, centi_ns_per_item: usize, work: impl Fn(Range<usize>) + Send + Sync) {
    Threads::of_process().loops().ranges(count, centi_ns_per_item, work);
}

/// See [`crate::Loops::chunks_mut`].
pub fn chunks_mut<T: Send>(
    out: &mut [T],
    unit: usize,
    centi_ns_per_unit: usize,
    work: impl Fn(usize, &mut [T]) + Send + Sync,
) {
    Threads::of_process().loops().chunks_mut(out, unit, centi_ns_per_unit, work);
}

/// See [`crate::Loops::short_chunks_mut`].
pub fn short_chunks_mut<T: Send>(out: &mut [T], len: usize, work: impl Fn(usize, &mut [T]) + Send + Sync) {
    Threads::of_process().loops().short_chunks_mut(out, len, work);
}

/// See [`crate::Loops::each`].
pub fn each<P: Send>(pieces: impl Iterator<Item = P>, work: impl Fn(P) + Send + Sync) {
    Threads::of_process().loops().each(pieces, work);
}
