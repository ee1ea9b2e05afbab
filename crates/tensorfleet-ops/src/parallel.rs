//! Sharing one kernel's work among the threads of the process-wide pool.
//!
//! Handing work to other threads costs some microseconds, so small work stays on the calling thread. Shards are
//! cut by size alone, never by thread count at run time, and each writes its own part of the output: results do
//! not depend on who ran what.

use std::ops::Range;

use rayon::prelude::*;

/// Work below this many nanoseconds (estimated) is not worth another thread.
const WORTH_SHARING_NS: usize = 40_000;
/// A shard should be at least this much work.
const MIN_SHARD_NS: usize = 10_000;

/// How many shards `count` items of about `ns_per_item` (in hundredths of a nanosecond) are worth.
fn shard_len(count: usize, centi_ns_per_item: usize) -> Option<usize> {
    let threads = rayon::current_num_threads();
    let total_ns = count.saturating_mul(centi_ns_per_item) / 100;
    if threads <= 1 || total_ns < WORTH_SHARING_NS {
        return None;
    }
    // A few shards per thread even out differences in speed.
    let shards = (threads * 4).min(total_ns / MIN_SHARD_NS).max(1);
    Some(count.div_ceil(shards).max(1))
}

/// Runs `work` over `0..count` in ranges, in parallel if there is enough to do. `centi_ns_per_item` is the
/// estimated cost of an item in hundredths of a nanosecond: 10 for copying a float, 100 for a handful of
/// arithmetic, 1000 for a transcendental function.
pub fn ranges(count: usize, centi_ns_per_item: usize, work: impl Fn(Range<usize>) + Send + Sync) {
    match shard_len(count, centi_ns_per_item) {
        None => work(0..count),
        Some(len) => (0..count.div_ceil(len)).into_par_iter().for_each(|shard| {
            let start = shard * len;
            work(start..(start + len).min(count));
        }),
    }
}

/// Runs `work` on pieces of `out`, in parallel if there is enough to do. `work` gets the offset of its piece in
/// units of `unit` elements and the piece; pieces are multiples of `unit` elements long. The cost is per unit.
pub fn chunks_mut<T: Send>(
    out: &mut [T],
    unit: usize,
    centi_ns_per_unit: usize,
    work: impl Fn(usize, &mut [T]) + Send + Sync,
) {
    let unit = unit.max(1);
    match shard_len(out.len() / unit, centi_ns_per_unit) {
        None => work(0, out),
        Some(len) => {
            out.par_chunks_mut(len * unit).enumerate().for_each(|(shard, piece)| work(shard * len, piece));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_visited_once_whatever_the_cost() {
        for cost in [1, 1_000_000] {
            let mut out = vec![0u32; 10_007];
            chunks_mut(&mut out, 1, cost, |start, piece| {
                piece.iter_mut().enumerate().for_each(|(i, x)| *x += (start + i) as u32);
            });
            assert!(out.iter().enumerate().all(|(i, &x)| x == i as u32));
            let visited = std::sync::atomic::AtomicUsize::new(0);
            ranges(10_007, cost, |range| {
                visited.fetch_add(range.len(), std::sync::atomic::Ordering::Relaxed);
            });
            assert_eq!(visited.into_inner(), 10_007);
        }
    }
}
