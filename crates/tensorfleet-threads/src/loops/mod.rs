//! [`Loops`]: sharing one kernel's work among the threads of its process.
//!
//! Handing work to other threads costs some microseconds, so small work stays on the calling thread. Shards are
//! cut by size and by how many threads there may be, never by how many are free, and each writes its own part of the
//! output: results do not depend on who ran what.
//!
//! The calling thread works through the shards itself; threads of the pool that happen to be free help. It
//! never picks up foreign work while it waits (as rayon's own scopes do), so a kernel may hold a lock, such as
//! that of the variable it updates, around a parallel loop: nothing that wants the same lock can start below it.
//! And the pool sleeps when there is nothing to do, where rayon's threads look around for a while: a parameter server
//! makes many short loops, and on a machine that it shares with workers the looking around took a quarter of its time.
//!
//! The exception are loops so short that to wake a thread takes as long ([`Loops::short_chunks_mut`]), as they follow one
//! another in a recurrent network. They are shared where cores of this process have nothing else to do, and helpers then stay
//! awake for a moment, to be there for the next. The loops of a server do neither
//! ([`Threads::for_server`](crate::Threads::for_server)): others on the machine need the cores, too.
//!
//! A loop may be given up ([`Loops::until`]): then the shards that nobody has begun are left out, and what the loop was to
//! write is of no use to anybody. So long loops are cut into shards of some milliseconds, even for a single thread.

pub(crate) mod job;
mod pool;

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use tensorfleet_core::Result;

use self::job::{Job, Length};
pub use self::pool::{AtWork, LoopPool};

/// Work below this many nanoseconds (estimated) is not worth another thread.
const WORTH_SHARING_NS: usize = 100_000;
/// A shard should be at least this much work.
const MIN_SHARD_NS: usize = 20_000;
/// A shard should be no more than this, so that a loop that is given up ends soon.
const MAX_SHARD_NS: usize = 10_000_000;
/// How often the caller of a short loop looks whether its helpers are done, before it sleeps: some microseconds.
const SHORT_LOOP_SPINS: usize = 200;

/// Knows whether work that is under way is still wanted.
pub trait GivenUp: Send + Sync {
    /// Whether nobody wants the work any more. Asked before every shard, so it must be cheap.
    fn is_given_up(&self) -> bool;
}

/// The threads that share one kernel's loops and products, and how they do it.
#[derive(Clone)]
pub struct Loops {
    pool: Arc<LoopPool>,
    shares_short_loops: bool,
    given_up: Option<Arc<dyn GivenUp>>,
}

impl Loops {
    pub(crate) fn new(pool: Arc<LoopPool>, shares_short_loops: bool) -> Loops {
        Loops { pool, shares_short_loops, given_up: None }
    }

    /// The same threads, for loops that end early once they are given up. They then have left out any of their shards, so
    /// whoever says `given_up` must throw away all that is computed with them from then on.
    pub fn until(&self, given_up: Arc<dyn GivenUp>) -> Loops {
        Loops { given_up: Some(given_up), ..self.clone() }
    }

    /// Whether what is computed here is thrown away: for long work that is not a loop, such as a matrix product.
    pub fn are_given_up(&self) -> bool {
        self.given_up.as_deref().is_some_and(GivenUp::is_given_up)
    }

    pub(crate) fn pool(&self) -> &Arc<LoopPool> {
        &self.pool
    }

    /// How many threads may work on one loop.
    pub fn threads(&self) -> usize {
        self.pool.helpers() + 1
    }

    /// The threads for matrix products that the `gemm` library shares, if there are several. The library knows no other
    /// threads than rayon's: it packs one operand together and then shares the tiles, which it could not if it were called
    /// once for each part of the output.
    pub fn gemm_pool(&self) -> Option<&rayon::ThreadPool> {
        self.pool.gemm()
    }

    /// Counts the calling thread as one that runs nodes.
    pub fn at_work(&self) -> AtWork<&LoopPool> {
        AtWork::begin(&self.pool)
    }

    /// Counts a thread that is about to run nodes.
    pub fn about_to_work(&self) -> AtWork<Arc<LoopPool>> {
        AtWork::begin(self.pool.clone())
    }

    /// How many items a shard has, if `count` items of about `centi_ns_per_item` (hundredths of a nanosecond) are
    /// worth sharing at all.
    pub fn shard_len(&self, count: usize, centi_ns_per_item: usize) -> Option<usize> {
        let (threads, total_ns) = (self.threads(), total_ns(count, centi_ns_per_item));
        if threads <= 1 || total_ns < WORTH_SHARING_NS {
            return None;
        }
        // A few shards per thread even out differences in speed.
        let shards = (threads * 4).min(total_ns / MIN_SHARD_NS).max(1);
        Some(count.div_ceil(shards).max(1))
    }

    /// The same for loops whose shards cost nothing by themselves: none is long.
    fn short_shard_len(&self, count: usize, centi_ns_per_item: usize) -> Option<usize> {
        let shards = total_ns(count, centi_ns_per_item) / MAX_SHARD_NS;
        let longest = (shards > 1).then(|| count.div_ceil(shards).max(1));
        let shared = self.shard_len(count, centi_ns_per_item);
        shared.map(|len| longest.map_or(len, |longest| longest.min(len))).or(longest)
    }

    /// Runs `work` over `0..count` in ranges, in parallel if there is enough to do. `centi_ns_per_item` is the
    /// estimated cost of an item in hundredths of a nanosecond: 10 for copying a float, 100 for a handful of
    /// arithmetic, 1000 for a transcendental function.
    pub fn ranges(&self, count: usize, centi_ns_per_item: usize, work: impl Fn(Range<usize>) + Send + Sync) {
        match self.short_shard_len(count, centi_ns_per_item) {
            None => work(0..count),
            Some(len) => self.share(count.div_ceil(len), Length::Long, &|shard| {
                let start = shard * len;
                work(start..(start + len).min(count));
            }),
        }
    }

    /// Runs `work` on pieces of `out`, in parallel if there is enough to do. `work` gets the offset of its piece in
    /// units of `unit` elements and the piece; pieces are multiples of `unit` elements long. The cost is per unit.
    pub fn chunks_mut<T: Send>(
        &self,
        out: &mut [T],
        unit: usize,
        centi_ns_per_unit: usize,
        work: impl Fn(usize, &mut [T]) + Send + Sync,
    ) {
        let unit = unit.max(1);
        let Some(len) = self.short_shard_len(out.len() / unit, centi_ns_per_unit) else {
            return work(0, out);
        };
        self.share_slice(out, len * unit, Length::Long, &|shard, piece| work(shard * len, piece));
    }

    /// Runs `work` on pieces of `out` of `len` elements, in parallel if cores are idle. For loops of some ten microseconds
    /// whose results do not depend on how they are cut. `work` gets the offset of its piece, which may be all of `out`, and
    /// the piece.
    pub fn short_chunks_mut<T: Send>(
        &self,
        out: &mut [T],
        len: usize,
        work: impl Fn(usize, &mut [T]) + Send + Sync,
    ) {
        if out.len() <= len || self.threads() == 1 || !self.shares_short_loops || !self.pool.has_idle_cores()
        {
            return work(0, out);
        }
        let length = Length::Short { spins: SHORT_LOOP_SPINS };
        self.share_slice(out, len, length, &|shard, piece| work(shard * len, piece));
    }

    /// Runs `work` once for each piece, pieces in parallel. For pieces that are whole shards, cut by [`Loops::shard_len`]; in a
    /// long one, `work` asks now and then whether the [loops are given up](Loops::are_given_up).
    pub fn each<P: Send>(&self, pieces: impl Iterator<Item = P>, work: impl Fn(P) + Send + Sync) {
        let pieces: Vec<Mutex<Option<P>>> = pieces.map(|piece| Mutex::new(Some(piece))).collect();
        self.share(pieces.len(), Length::Long, &|shard| {
            if let Some(piece) = pieces[shard].lock().take() {
                work(piece);
            }
        });
    }

    /// Runs both, at the same time if a thread is free for the second, even if the loops are given up.
    pub fn join<A: Send, B: Send>(
        &self,
        first: impl FnOnce() -> A + Send,
        second: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        enum Half<F, R> {
            ToDo(F),
            Running,
            Done(R),
        }
        fn run<F: FnOnce() -> R, R>(half: &Mutex<Half<F, R>>) {
            let mut half = half.lock();
            if let Half::ToDo(work) = std::mem::replace(&mut *half, Half::Running) {
                *half = Half::Done(work());
            }
        }
        let (first, second) = (Mutex::new(Half::ToDo(first)), Mutex::new(Half::ToDo(second)));
        self.share_all(2, Length::Long, &|shard| match shard {
            0 => run(&first),
            _ => run(&second),
        });
        match (first.into_inner(), second.into_inner()) {
            (Half::Done(first), Half::Done(second)) => (first, second),
            _ => unreachable!("a loop has run all its shards, or has unwound"),
        }
    }

    /// Runs `work` with the number of each piece of `out`, `len` elements or the rest, and the piece.
    fn share_slice<T: Send>(
        &self,
        out: &mut [T],
        len: usize,
        length: Length,
        work: &(dyn Fn(usize, &mut [T]) + Sync),
    ) {
        // One slice is cut by arithmetic instead of into a list of pieces: this is instantiated for every kernel and
        // dtype, and so has to be little code.
        let (start, total) = (SliceStart(out.as_mut_ptr()), out.len());
        self.share(total.div_ceil(len), length, &|shard| {
            let (from, to) = (shard * len, ((shard + 1) * len).min(total));
            // SAFETY: `from..to` lies in `out`, differs for every shard, and `share` runs every shard once and returns
            // only when all are done; `T: Send` lets other threads write the elements.
            let piece = unsafe { std::slice::from_raw_parts_mut(start.get().add(from), to - from) };
            work(shard, piece);
        });
    }

    /// Runs `work` for every shard in `0..shards`, on this thread and on threads of the pool that are free.
    fn share(&self, shards: usize, length: Length, work: &(dyn Fn(usize) + Sync)) {
        match self.given_up.as_deref() {
            None => self.share_all(shards, length, work),
            Some(given_up) => self.share_all(shards, length, &|shard| {
                if !given_up.is_given_up() {
                    work(shard);
                }
            }),
        }
    }

    fn share_all(&self, shards: usize, length: Length, work: &(dyn Fn(usize) + Sync)) {
        if shards <= 1 || self.threads() == 1 {
            return (0..shards).for_each(work);
        }
        Job::run(shards, length, work, |job| self.pool.enqueue(job, shards - 1));
    }
}

fn total_ns(count: usize, centi_ns_per_item: usize) -> usize {
    count.saturating_mul(centi_ns_per_item) / 100
}

/// Where a slice begins whose parts are written by several threads.
struct SliceStart<T>(*mut T);

// SAFETY: the pointer is only used as `share_slice` says, for disjoint parts; `T: Send` lets other threads write them.
unsafe impl<T: Send> Sync for SliceStart<T> {}

impl<T> SliceStart<T> {
    fn get(&self) -> *mut T {
        self.0
    }
}

/// Runs loops of fallible work, which hand their results to the function they are given, and keeps an error.
pub fn first_error(run: impl FnOnce(&(dyn Fn(Result<()>) + Sync))) -> Result<()> {
    let failure = Mutex::new(None);
    run(&|result| {
        if let Err(status) = result {
            failure.lock().get_or_insert(status);
        }
    });
    failure.into_inner().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Loops shared by four threads, however many cores this machine has.
    fn loops() -> Loops {
        Loops::new(Arc::new(LoopPool::new(4)), true)
    }

    #[test]
    fn every_item_is_visited_once_whatever_the_cost() {
        let loops = loops();
        for cost in [1, 1_000_000] {
            let mut out = vec![0u32; 10_007];
            loops.chunks_mut(&mut out, 1, cost, |start, piece| {
                piece.iter_mut().enumerate().for_each(|(i, x)| *x += (start + i) as u32);
            });
            assert!(out.iter().enumerate().all(|(i, &x)| x == i as u32));
            let visited = AtomicUsize::new(0);
            loops.ranges(10_007, cost, |range| {
                visited.fetch_add(range.len(), Ordering::Relaxed);
            });
            assert_eq!(visited.into_inner(), 10_007);
        }
    }

    #[test]
    fn short_loops_one_after_another_visit_every_item_once() {
        let loops = loops();
        for round in 0..300u32 {
            let mut out = vec![round; 1003];
            loops.short_chunks_mut(&mut out, 250, |start, piece| {
                assert!(piece.len() <= 250 || start == 0);
                piece.iter_mut().enumerate().for_each(|(i, x)| *x += (start + i) as u32);
            });
            assert!(out.iter().enumerate().all(|(i, &x)| x == round + i as u32));
        }
    }

    #[test]
    fn a_short_loop_stays_on_its_thread_while_all_cores_are_at_work() {
        let loops = loops();
        let _all: Vec<_> = (0..loops.threads()).map(|_| loops.at_work()).collect();
        let pieces = AtomicUsize::new(0);
        loops.short_chunks_mut(&mut [0u8; 100], 10, |_, piece| {
            pieces.fetch_add(1, Ordering::Relaxed);
            assert_eq!(piece.len(), 100);
        });
        assert_eq!(pieces.into_inner(), 1);
    }

    #[test]
    fn a_lock_held_around_a_loop_cannot_be_waited_for_below_it() {
        // Many jobs on other threads want one lock and hold it around parallel loops. If a waiting loop picked up
        // another such job, that job would wait for its own thread.
        let loops = loops();
        let (lock, done) = (Arc::new(Mutex::new(0u64)), Arc::new(AtomicUsize::new(0)));
        for _ in 0..64 {
            let (lock, done, loops) = (lock.clone(), done.clone(), loops.clone());
            std::thread::spawn(move || {
                let mut total = lock.lock();
                let sum = AtomicUsize::new(0);
                loops.ranges(1000, 1_000_000, |range| {
                    sum.fetch_add(range.sum::<usize>(), Ordering::Relaxed);
                });
                *total += sum.into_inner() as u64;
                done.fetch_add(1, Ordering::Release);
            });
        }
        let start = std::time::Instant::now();
        while done.load(Ordering::Acquire) < 64 {
            assert!(start.elapsed().as_secs() < 30, "deadlock");
            std::thread::yield_now();
        }
        assert_eq!(*lock.lock(), 64 * 499_500);
    }

    #[test]
    fn nothing_to_do_is_done_at_once() {
        let loops = loops();
        loops.each(std::iter::empty::<u8>(), |_| panic!("there is no piece"));
        loops.ranges(0, 1_000_000, |range| assert!(range.is_empty()));
    }

    #[test]
    fn a_panic_in_a_shard_reaches_the_caller() {
        let loops = loops();
        let run = || loops.ranges(100, 1_000_000, |range| assert!(!range.contains(&77), "shard 77"));
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        let run = || loops.join(|| 1, || panic!("the second half"));
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    }

    #[test]
    fn two_things_are_joined_however_many_threads_there_are() {
        let text = String::from("first");
        for loops in [loops(), Loops::new(Arc::new(LoopPool::new(1)), true)] {
            let mut written = Vec::new();
            let (first, second) = loops.join(|| written.push(text.len()), || text.to_uppercase());
            assert_eq!((first, &*second), ((), "FIRST"));
            assert_eq!(written, [5]);
        }
    }

    #[test]
    fn a_server_keeps_short_loops_to_the_thread_that_has_them() {
        let own = Loops::new(Arc::new(LoopPool::new(4)), false);
        own.short_chunks_mut(&mut [0u8; 100], 10, |_, piece| assert_eq!(piece.len(), 100));
    }

    #[test]
    fn helpers_end_with_their_pool() {
        let loops = loops();
        loops.each(0..8, |_| ());
        let alive = loops.pool.threads_alive();
        drop(loops);
        while alive.strong_count() > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_loop_that_is_given_up_leaves_out_what_nobody_has_begun() {
        struct After(AtomicUsize);
        impl GivenUp for After {
            fn is_given_up(&self) -> bool {
                self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
            }
        }
        for threads in [1, 4] {
            let all = Loops::new(Arc::new(LoopPool::new(threads)), true);
            let loops = all.until(Arc::new(After(AtomicUsize::new(3))));
            let visited = AtomicUsize::new(0);
            // A second's worth: a shard is a hundredth of it at most.
            loops.ranges(1000, 100_000_000, |range| {
                assert!(range.len() <= 10);
                visited.fetch_add(range.len(), Ordering::Relaxed);
            });
            assert!((1..=30).contains(&visited.load(Ordering::Relaxed)), "three shards on {threads} threads");
            assert_eq!(loops.join(|| 1, || 2), (1, 2), "two halves are no loop");
            assert!(loops.are_given_up() && !all.are_given_up());
        }
    }
}
