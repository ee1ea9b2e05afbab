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
    run_ranges(count, centi_ns_per_item, &work);
}

/// The pool's machinery is large; behind a `dyn` it is compiled once instead of for every kernel.
fn run_ranges(count: usize, centi_ns_per_item: usize, work: &(dyn Fn(Range<usize>) + Send + Sync)) {
    match shard_len(count, centi_ns_per_item) {
        None => work(0..count),
        Some(len) => (0..count.div_ceil(len)).into_par_iter().for_each(|shard| {
            let start = shard * len;
            work(start..(start + len).min(count));
        }),
    }
}

/// Runs `work` on pieces of `out`, in parallel if there is enough to do. `work` gets the offset of its piece in
/// units of `unit` elements and the piece; pieces are multiples of `unit` elements long (the last one may be
/// shorter). The cost is per unit.
pub fn chunks_mut<T: Send>(
    out: &mut [T],
    unit: usize,
    centi_ns_per_unit: usize,
    work: impl Fn(usize, &mut [T]) + Send + Sync,
) {
    let (unit, len) = (unit.max(1), out.len());
    let units = len.div_ceil(unit);
    if shard_len(units, centi_ns_per_unit).is_none() {
        return work(0, out);
    }
    let start = Start(out.as_mut_ptr());
    run_ranges(units, centi_ns_per_unit, &move |range: Range<usize>| {
        let (from, to) = (range.start * unit, (range.end * unit).min(len));
        // SAFETY: ranges are disjoint and lie in `0..units`, so pieces are disjoint and lie in `out`, which is
        // borrowed mutably until all of them are done. `T: Send` lets other threads write them.
        let piece = unsafe { std::slice::from_raw_parts_mut(start.get().add(from), to - from) };
        work(range.start, piece);
    });
}

/// The start of a slice that several threads write different parts of.
struct Start<T>(*mut T);

// SAFETY: see its only use.
unsafe impl<T: Send> Send for Start<T> {}
// SAFETY: see its only use.
unsafe impl<T: Send> Sync for Start<T> {}

impl<T> Start<T> {
    fn get(&self) -> *mut T {
        self.0
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
