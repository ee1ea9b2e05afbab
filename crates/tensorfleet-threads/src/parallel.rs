//! Sharing one kernel's work among the threads of the process.
//!
//! Handing work to other threads costs some microseconds, so small work stays on the calling thread. Shards are
//! cut by size alone, never by thread count at run time, and each writes its own part of the output: results do
//! not depend on who ran what.
//!
//! The calling thread works through the shards itself; threads of the crew that happen to be free help. It
//! never picks up foreign work while it waits (as rayon's own scopes do), so a kernel may hold a lock, such as
//! that of the variable it updates, around a parallel loop: nothing that wants the same lock can start below it.
//! And the crew sleeps when there is nothing to do, where rayon's threads look around for a while: a parameter server
//! makes many short loops, and on a machine that it shares with workers the looking around took a quarter of its time.
//!
//! The exception are loops so short that to wake a thread takes as long ([`short_chunks_mut`]), as they follow one another in a
//! recurrent network. They are shared where cores of this process have nothing else to do, and helpers then stay awake for a
//! moment, to be there for the next. A process that serves others does neither ([`leave_cores_to_others`]).

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tensorfleet_core::Result;

use crate::denormals::FlushDenormals;

/// Work below this many nanoseconds (estimated) is not worth another thread.
const WORTH_SHARING_NS: usize = 100_000;
/// A shard should be at least this much work.
const MIN_SHARD_NS: usize = 20_000;

/// How long a helper stays awake after a short loop, if the one before came as soon.
const STAY_AWAKE: Duration = Duration::from_micros(100);
/// How often the caller of a short loop looks whether its helpers are done, before it sleeps: some microseconds.
const LOOKS: usize = 200;

/// How many items a shard has, if `count` items of about `centi_ns_per_item` (hundredths of a nanosecond) are
/// worth sharing at all.
pub fn shard_len(count: usize, centi_ns_per_item: usize) -> Option<usize> {
    let threads = CREW.helpers + 1;
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
        Some(len) => share(count.div_ceil(len), Length::Long, &|shard| {
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
    let Some(len) = shard_len(out.len() / unit, centi_ns_per_unit) else { return work(0, out) };
    share_slice(out, len * unit, Length::Long, &|shard, piece| work(shard * len, piece));
}

/// Runs `work` on pieces of `out` of `len` elements, in parallel if cores are idle. For loops of some ten microseconds whose
/// results do not depend on how they are cut. `work` gets the offset of its piece, which may be all of `out`, and the piece.
pub fn short_chunks_mut<T: Send>(out: &mut [T], len: usize, work: impl Fn(usize, &mut [T]) + Send + Sync) {
    let is_alone =
        || !SERVES_OTHERS.load(Ordering::Relaxed) && AT_WORK.load(Ordering::Relaxed) <= CREW.helpers;
    if out.len() <= len || CREW.helpers == 0 || !is_alone() {
        return work(0, out);
    }
    share_slice(out, len, Length::Short, &|shard, piece| work(shard * len, piece));
}

/// Runs `work` with the number of each piece of `out`, `len` elements or the rest, and the piece.
fn share_slice<T: Send>(out: &mut [T], len: usize, length: Length, work: &(dyn Fn(usize, &mut [T]) + Sync)) {
    // One slice is cut by arithmetic instead of into a list of pieces: this is instantiated for every kernel and
    // dtype, and so has to be little code.
    let (start, total) = (SliceStart(out.as_mut_ptr()), out.len());
    share(total.div_ceil(len), length, &|shard| {
        let (from, to) = (shard * len, ((shard + 1) * len).min(total));
        // SAFETY: `from..to` lies in `out`, differs for every shard, and `share` runs every shard once and returns
        // only when all are done; `T: Send` lets other threads write the elements.
        let piece = unsafe { std::slice::from_raw_parts_mut(start.get().add(from), to - from) };
        work(shard, piece);
    });
}

/// Threads that run nodes, or are about to.
static AT_WORK: AtomicUsize = AtomicUsize::new(0);
static SERVES_OTHERS: AtomicBool = AtomicBool::new(false);

/// A thread that runs nodes, as long as this lives. Short loops are shared with as many others as are not counted.
#[derive(Debug)]
pub struct AtWork(());

impl AtWork {
    /// Counts a thread.
    pub fn begin() -> AtWork {
        AT_WORK.fetch_add(1, Ordering::Relaxed);
        AtWork(())
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        AT_WORK.fetch_sub(1, Ordering::Relaxed);
    }
}

/// From now on short loops are not shared: this process is a server, and others on the machine need its cores, too.
pub fn leave_cores_to_others() {
    SERVES_OTHERS.store(true, Ordering::Relaxed);
}

/// Where a slice begins whose parts are written by several threads.
struct SliceStart<T>(*mut T);

// SAFETY: the pointer is only used as `chunks_mut` says, for disjoint parts.
unsafe impl<T: Send> Sync for SliceStart<T> {}

impl<T> SliceStart<T> {
    fn get(&self) -> *mut T {
        self.0
    }
}

/// Runs `work` once for each piece, pieces in parallel. For pieces that are whole shards, cut by [`shard_len`].
pub fn each<P: Send>(pieces: impl Iterator<Item = P>, work: impl Fn(P) + Send + Sync) {
    let pieces: Vec<Mutex<Option<P>>> = pieces.map(|piece| Mutex::new(Some(piece))).collect();
    share(pieces.len(), Length::Long, &|shard| {
        if let Some(piece) = pieces[shard].lock().take() {
            work(piece);
        }
    });
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

/// What a loop takes, by its caller's estimate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    /// Much more time than to wake a thread.
    Long,
    /// About as much.
    Short,
}

/// The shards of one loop and who works on them.
struct Team {
    shards: usize,
    length: Length,
    next: AtomicUsize,
    /// Erased lifetime: valid while `helpers.open`, or while a helper is counted.
    work: *const (dyn Fn(usize) + Sync),
    helpers: Mutex<Helpers>,
    left: Condvar,
}

struct Helpers {
    open: bool,
    working: usize,
    panic: Option<Box<dyn std::any::Any + Send>>,
}

// SAFETY: `work` points to a `Sync` closure; the protocol in `share` and `help` bounds when it is used.
unsafe impl Send for Team {}
// SAFETY: as above; all else in a team is `Sync` by itself.
unsafe impl Sync for Team {}

impl Team {
    /// Takes shards until none is left.
    fn run(&self, work: &(dyn Fn(usize) + Sync)) {
        loop {
            let shard = self.next.fetch_add(1, Ordering::Relaxed);
            if shard >= self.shards {
                return;
            }
            work(shard);
        }
    }

    /// What a free thread of the crew does; by then the loop may be over.
    fn help(&self) {
        {
            let mut helpers = self.helpers.lock();
            if !helpers.open {
                return;
            }
            helpers.working += 1;
        }
        // SAFETY: this helper was counted while the team was open, and `share` does not return, so that the
        // closure lives, before the count is down to zero again.
        let work = unsafe { &*self.work };
        let result = catch_unwind(AssertUnwindSafe(|| self.run(work)));
        let mut helpers = self.helpers.lock();
        helpers.panic = helpers.panic.take().or(result.err());
        helpers.working -= 1;
        self.left.notify_all();
    }
}

/// The threads that help. They live as long as the process.
struct Crew {
    helpers: usize,
    /// Teams that would like help, once for each helper they would like.
    invitations: Mutex<VecDeque<Arc<Team>>>,
    /// How many there are, for helpers that are awake.
    pending: AtomicUsize,
    invited: Condvar,
}

static CREW: LazyLock<Crew> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let start = |index: usize| {
        let thread = std::thread::Builder::new().name(format!("tensorfleet-crew-{index}"));
        thread.spawn(|| CREW.serve()).is_ok()
    };
    // Without threads loops are not shared, and nothing else changes.
    let helpers = (1..cores).take_while(|&index| start(index)).count();
    Crew { helpers, invitations: Mutex::default(), pending: AtomicUsize::new(0), invited: Condvar::new() }
});

impl Crew {
    fn invite(&self, team: &Arc<Team>, wanted: usize) {
        let wanted = wanted.min(self.helpers);
        {
            let mut invitations = self.invitations.lock();
            invitations.extend(std::iter::repeat_n(team, wanted).cloned());
            self.pending.store(invitations.len(), Ordering::Relaxed);
        }
        (0..wanted).for_each(|_| {
            self.invited.notify_one();
        });
    }

    fn serve(&self) {
        let _as_the_caller = FlushDenormals::begin();
        let mut stays_awake = false;
        let mut done = Instant::now();
        let mut invitations = self.invitations.lock();
        loop {
            let Some(team) = invitations.pop_front() else {
                if std::mem::take(&mut stays_awake) {
                    parking_lot::MutexGuard::unlocked(&mut invitations, || self.look_around(done));
                } else {
                    self.invited.wait(&mut invitations);
                }
                continue;
            };
            self.pending.store(invitations.len(), Ordering::Relaxed);
            stays_awake = team.length == Length::Short && done.elapsed() < STAY_AWAKE;
            parking_lot::MutexGuard::unlocked(&mut invitations, || team.help());
            done = Instant::now();
        }
    }

    /// Waits for an invitation without sleeping, for a moment from `since` on.
    fn look_around(&self, since: Instant) {
        while self.pending.load(Ordering::Relaxed) == 0 && since.elapsed() < STAY_AWAKE {
            (0..16).for_each(|_| std::hint::spin_loop());
        }
    }
}

/// Runs `work` for every shard in `0..shards`, on this thread and on threads of the crew that are free.
fn share(shards: usize, length: Length, work: &(dyn Fn(usize) + Sync)) {
    // SAFETY: only the lifetime changes. Helpers dereference the pointer only while they are counted, and this
    // function returns (or unwinds) only after the team is closed and nobody is counted.
    let erased =
        unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), *const (dyn Fn(usize) + Sync)>(work) };
    let team = Arc::new(Team {
        shards,
        length,
        next: AtomicUsize::new(0),
        work: erased,
        helpers: Mutex::new(Helpers { open: true, working: 0, panic: None }),
        left: Condvar::new(),
    });
    CREW.invite(&team, shards.saturating_sub(1));
    let own = catch_unwind(AssertUnwindSafe(|| team.run(work)));
    let mut helpers = team.helpers.lock();
    helpers.open = false;
    let mut looks = if length == Length::Short { LOOKS } else { 0 };
    while helpers.working > 0 {
        if looks == 0 {
            team.left.wait(&mut helpers);
            continue;
        }
        looks -= 1;
        parking_lot::MutexGuard::unlocked(&mut helpers, || (0..8).for_each(|_| std::hint::spin_loop()));
    }
    let panic = own.err().or(helpers.panic.take());
    drop(helpers);
    if let Some(panic) = panic {
        resume_unwind(panic);
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
            let visited = AtomicUsize::new(0);
            ranges(10_007, cost, |range| {
                visited.fetch_add(range.len(), Ordering::Relaxed);
            });
            assert_eq!(visited.into_inner(), 10_007);
        }
    }

    #[test]
    fn short_loops_one_after_another_visit_every_item_once() {
        for round in 0..300u32 {
            let mut out = vec![round; 1003];
            short_chunks_mut(&mut out, 250, |start, piece| {
                assert!(piece.len() <= 250 || start == 0);
                piece.iter_mut().enumerate().for_each(|(i, x)| *x += (start + i) as u32);
            });
            assert!(out.iter().enumerate().all(|(i, &x)| x == round + i as u32));
        }
    }

    #[test]
    fn a_short_loop_stays_on_its_thread_while_all_cores_are_at_work() {
        let _all: Vec<AtWork> = (0..=CREW.helpers).map(|_| AtWork::begin()).collect();
        let pieces = AtomicUsize::new(0);
        short_chunks_mut(&mut [0u8; 100], 10, |_, piece| {
            pieces.fetch_add(1, Ordering::Relaxed);
            assert_eq!(piece.len(), 100);
        });
        assert_eq!(pieces.into_inner(), 1);
    }

    #[test]
    fn a_lock_held_around_a_loop_cannot_be_waited_for_below_it() {
        // Many jobs on other threads want one lock and hold it around parallel loops. If a waiting loop picked up
        // another such job, that job would wait for its own thread.
        let (lock, done) = (Arc::new(Mutex::new(0u64)), Arc::new(AtomicUsize::new(0)));
        for _ in 0..64 {
            let (lock, done) = (lock.clone(), done.clone());
            std::thread::spawn(move || {
                let mut total = lock.lock();
                let sum = AtomicUsize::new(0);
                ranges(1000, 1_000_000, |range| {
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
        each(std::iter::empty::<u8>(), |_| panic!("there is no piece"));
        ranges(0, 1_000_000, |range| assert!(range.is_empty()));
    }

    #[test]
    fn a_panic_in_a_shard_reaches_the_caller() {
        let result =
            catch_unwind(|| ranges(100, 1_000_000, |range| assert!(!range.contains(&77), "shard 77")));
        assert!(result.is_err());
    }
}
