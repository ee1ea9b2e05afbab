//! [`Job`]: one loop whose shards several threads take, and the rule by which its closure is used.
//!
//! The closure lives on the caller's stack. A helper may come at any time, even after the loop is over, so it asks
//! first: under the lock it is counted if the job is open, and goes away if not. The caller closes the job and then
//! waits until nobody is counted. So the closure is used only by the caller and by those who are counted, and the caller
//! returns, or unwinds, only when no one else is.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Condvar, Mutex, spin};

/// What a loop takes, by its caller's estimate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Length {
    /// Much more time than to wake a thread.
    Long,
    /// About as much: the caller looks this often whether its helpers are done, before it sleeps.
    Short {
        /// Some microseconds' worth.
        spins: usize,
    },
}

/// The shards of one loop and who works on them.
pub(crate) struct Job {
    shards: usize,
    length: Length,
    /// The next shard that nobody has taken.
    next: AtomicUsize,
    /// Of erased lifetime: valid for whoever is counted in `helpers.working`, and for nobody else.
    work: *const (dyn Fn(usize) + Sync),
    helpers: Mutex<Helpers>,
    left: Condvar,
}

struct Helpers {
    /// Whether a helper may still begin.
    is_open: bool,
    /// Helpers that have begun and not ended.
    working: usize,
    panic: Option<Box<dyn Any + Send>>,
}

// SAFETY: `work` points to a `Sync` closure, which any thread may call; that it is only called while it lives is what the
// count of helpers is for. The other fields are `Send` by themselves.
unsafe impl Send for Job {}
// SAFETY: shared access to `work` is reading a pointer that never changes and calling a `Sync` closure, which any threads
// may call at once, while the count of helpers keeps it alive. The other fields are `Sync` by themselves.
unsafe impl Sync for Job {}

impl Job {
    /// Runs `work` for every shard in `0..shards`, here and on the threads that `enqueue` finds to [`help`](Job::help).
    /// Returns when all shards are done and nobody can use `work` any more. A panic in a shard goes on here.
    pub(crate) fn run(
        shards: usize,
        length: Length,
        work: &(dyn Fn(usize) + Sync),
        enqueue: impl FnOnce(&Arc<Job>),
    ) {
        // SAFETY: only the lifetime changes. `help` calls the closure only while it is counted, and this function returns
        // or unwinds only after `close`, which waits until nobody is counted and lets nobody begin. Nothing between here
        // and there can unwind: the shards run under `catch_unwind`, and if `enqueue` unwinds, `CloseOnUnwind` closes.
        let erased =
            unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), *const (dyn Fn(usize) + Sync)>(work) };
        let job = Arc::new(Job {
            shards,
            length,
            next: AtomicUsize::new(0),
            work: erased,
            helpers: Mutex::new(Helpers { is_open: true, working: 0, panic: None }),
            left: Condvar::new(),
        });
        let guard = CloseOnUnwind(&job);
        enqueue(&job);
        let own = catch_unwind(AssertUnwindSafe(|| job.take_shards(work)));
        std::mem::forget(guard);
        let theirs = job.close();
        if let Some(panic) = own.err().or(theirs) {
            resume_unwind(panic);
        }
    }

    pub(super) fn is_short(&self) -> bool {
        self.length != Length::Long
    }

    /// Takes shards until none is left.
    fn take_shards(&self, work: &(dyn Fn(usize) + Sync)) {
        loop {
            // Relaxed: each number is given out once whatever the order; what shards write is published by the lock.
            let shard = self.next.fetch_add(1, Ordering::Relaxed);
            if shard >= self.shards {
                return;
            }
            work(shard);
        }
    }

    /// What a free thread does for the job; by then the loop may be over.
    pub(crate) fn help(&self) {
        {
            let mut helpers = self.helpers.lock();
            if !helpers.is_open {
                return;
            }
            helpers.working += 1;
        }
        // SAFETY: this helper was counted while the job was open, and `run` does not return, so that the closure lives,
        // before the count is down to zero again.
        let work = unsafe { &*self.work };
        let result = catch_unwind(AssertUnwindSafe(|| self.take_shards(work)));
        let mut helpers = self.helpers.lock();
        helpers.panic = helpers.panic.take().or(result.err());
        helpers.working -= 1;
        self.left.notify_all();
    }

    /// Lets no helper begin any more, and waits for those that have. Gives the panic of one of them.
    fn close(&self) -> Option<Box<dyn Any + Send>> {
        let mut spins = match self.length {
            Length::Long => 0,
            Length::Short { spins } => spins,
        };
        let mut helpers = self.helpers.lock();
        helpers.is_open = false;
        while helpers.working > 0 {
            if spins == 0 {
                self.left.wait(&mut helpers);
                continue;
            }
            spins -= 1;
            drop(helpers);
            spin();
            helpers = self.helpers.lock();
        }
        helpers.panic.take()
    }
}

/// Closes the job if its caller unwinds before it gets there.
struct CloseOnUnwind<'a>(&'a Job);

impl Drop for CloseOnUnwind<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
