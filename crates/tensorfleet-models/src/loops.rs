//! Shared loops: every shard runs once, and nobody uses the closure after its caller has returned.

#[allow(dead_code, reason = "compiled from another crate, which uses more of it")]
#[path = "../../tensorfleet-threads/src/loops/job.rs"]
mod job;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread::{self, JoinHandle};

use self::job::{Job, Length};
use crate::check;

/// What the shards of a loop write, each its own place. Loom sees two accesses that no order lies between.
struct Places(Vec<UnsafeCell<usize>>);

// SAFETY: that accesses of several threads are in order is what loom checks; it panics before one that is not.
unsafe impl Sync for Places {}

impl Places {
    fn new(shards: usize) -> Arc<Places> {
        Arc::new(Places((0..shards).map(|_| UnsafeCell::new(0)).collect()))
    }

    fn write(&self, shard: usize) {
        self.0[shard].with_mut(|place| {
            // SAFETY: loom checks that no other thread accesses the place meanwhile, which is what the model is about.
            unsafe { *place += shard + 1 };
        });
    }

    fn read(&self) -> Vec<usize> {
        // SAFETY: loom checks that no other thread writes the place meanwhile, which is what the model is about.
        self.0.iter().map(|place| place.with(|place| unsafe { *place })).collect()
    }
}

/// A helper for a job, on a thread of its own, that may come at any time.
fn help(job: &Arc<Job>) -> JoinHandle<()> {
    let job = job.clone();
    thread::spawn(move || job.help())
}

fn run_with_helpers(shards: usize, length: Length, helpers: usize) {
    check(move || {
        let places = Places::new(shards);
        let mut threads = Vec::new();
        Job::run(shards, length, &|shard| places.write(shard), |job| {
            threads.extend((0..helpers).map(|_| help(job)));
        });
        // Without waiting for the helpers: one that still writes now, or begins to, races with this.
        assert_eq!(places.read(), (1..=shards).collect::<Vec<_>>());
        threads.into_iter().for_each(|thread| thread.join().expect("helpers end well"));
    });
}

/// A helper comes before, during or after a loop of two shards.
///
/// Finds: `close` that does not wait for `working`, and a helper that wakes the caller before it is counted out (the caller
/// sleeps for ever).
pub fn a_loop_is_done_when_it_returns_whenever_its_helper_comes() {
    run_with_helpers(2, Length::Long, 1);
}

/// Two helpers share what the caller leaves, and go in any order.
///
/// Finds the same with two helpers, of which the first to leave must not wake the caller for good.
pub fn two_helpers_leave_a_loop_in_any_order() {
    run_with_helpers(2, Length::Long, 2);
}

/// The caller of a short loop looks a few times before it sleeps.
///
/// Finds: a look that goes on without the lock.
pub fn the_caller_of_a_short_loop_sleeps_in_the_end() {
    run_with_helpers(2, Length::Short { spins: 1 }, 1);
}

/// The first shard panics, on whichever thread it runs: the caller gets the panic, and nobody is at work then or begins to. If it
/// was the caller's own, the second shard may be left over, and a helper that comes late must not take it.
///
/// Finds: a panic of the caller's own shard that leaves at once, a helper's that is dropped, `close` that leaves the job open, and
/// `help` that counts itself after it has let the lock go.
pub fn a_panic_reaches_the_caller_when_nobody_works_any_more() {
    check(|| {
        let (places, ended) = (Places::new(2), Arc::new(AtomicUsize::new(0)));
        let mut helper = None;
        let work = |shard| {
            places.write(shard);
            ended.fetch_add(1, Ordering::Relaxed);
            if shard == 0 {
                // Without the hook's report, which would come once for each of thousands of executions.
                resume_unwind(Box::new("the first shard"));
            }
        };
        let run = || Job::run(2, Length::Long, &work, |job| helper = Some(help(job)));
        let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("the panic reaches the caller");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"the first shard"));
        let seen = places.read();
        // A caller that panicked itself leaves what nobody has taken; what was taken is done.
        assert_eq!(seen.iter().filter(|&&place| place != 0).count(), ended.load(Ordering::Relaxed));
        helper.into_iter().for_each(|thread| thread.join().expect("the helper's panic is the caller's"));
    });
}
