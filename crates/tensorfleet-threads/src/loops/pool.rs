//! [`LoopPool`]: the threads that help with loops, and those that share a matrix product.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tensorfleet_core::clock::Stopwatch;

use super::job::Job;
use crate::denormals::FlushDenormals;
use crate::start::start_thread;

/// How long a helper stays awake after a short loop, if the one before came as soon.
const STAY_AWAKE_TIME: Duration = Duration::from_micros(100);

/// Threads for the work inside one kernel. They are started when something is first worth sharing, and end with the pool.
pub struct LoopPool {
    /// Threads beside the one that has the loop.
    helpers: usize,
    queue: OnceLock<Arc<Queue>>,
    /// Threads that run nodes, or are about to.
    at_work: AtomicUsize,
    /// `None` if there is nothing to share a product with.
    gemm: OnceLock<Option<rayon::ThreadPool>>,
}

impl LoopPool {
    /// A pool in which `threads` work on one loop, its own thread among them.
    pub(crate) fn new(threads: usize) -> LoopPool {
        LoopPool {
            helpers: threads.saturating_sub(1),
            queue: OnceLock::new(),
            at_work: AtomicUsize::new(0),
            gemm: OnceLock::new(),
        }
    }

    /// Threads beside the one that has the loop.
    pub(super) fn helpers(&self) -> usize {
        self.helpers
    }

    /// Whether a thread of this process has nothing to do, so that even a short loop may be shared with it.
    pub(super) fn has_idle_cores(&self) -> bool {
        // Relaxed: a guess about the load, which nothing but speed depends on.
        self.at_work.load(Ordering::Relaxed) <= self.helpers
    }

    /// Asks as many as `wanted` threads to help with a job.
    pub(super) fn enqueue(&self, job: &Arc<Job>, wanted: usize) {
        self.queue.get_or_init(|| Queue::start(self.helpers)).enqueue(job, wanted.min(self.helpers));
    }

    /// See [`super::Loops::gemm_pool`].
    pub(super) fn gemm(&self) -> Option<&rayon::ThreadPool> {
        let start = || {
            let threads = rayon::ThreadPoolBuilder::new()
                .num_threads(self.helpers + 1)
                .thread_name(|index| format!("tensorfleet-gemm-{index}"))
                // For as long as the thread lives.
                .start_handler(|_| std::mem::forget(FlushDenormals::begin()));
            threads.build().ok()
        };
        self.gemm.get_or_init(|| (self.helpers > 0).then(start).flatten()).as_ref()
    }
}

impl Drop for LoopPool {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.get() {
            queue.state.lock().is_closed = true;
            queue.arrived.notify_all();
        }
    }
}

/// A thread that runs nodes, or is about to, as long as this lives: short loops are shared with as many others as are not
/// counted.
pub struct AtWork<P: Deref<Target = LoopPool>>(P);

impl<P: Deref<Target = LoopPool>> AtWork<P> {
    pub(super) fn begin(pool: P) -> AtWork<P> {
        pool.at_work.fetch_add(1, Ordering::Relaxed);
        AtWork(pool)
    }
}

impl<P: Deref<Target = LoopPool>> Drop for AtWork<P> {
    fn drop(&mut self) {
        self.0.at_work.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What helpers and those who want them share.
struct Queue {
    state: Mutex<QueueState>,
    /// How many jobs there are, for helpers that are awake.
    pending: AtomicUsize,
    arrived: Condvar,
}

#[derive(Default)]
struct QueueState {
    /// Jobs that would like help, once for each helper they would like.
    jobs: VecDeque<Arc<Job>>,
    is_closed: bool,
}

impl Queue {
    fn start(helpers: usize) -> Arc<Queue> {
        let queue = Arc::new(Queue {
            state: Mutex::default(),
            pending: AtomicUsize::new(0),
            arrived: Condvar::new(),
        });
        for index in 1..=helpers {
            let queue = queue.clone();
            // With fewer threads loops are shared with fewer; with none, the caller does all of it.
            if start_thread(format!("tensorfleet-loop-{index}"), move || queue.serve()).is_err() {
                break;
            }
        }
        queue
    }

    fn enqueue(&self, job: &Arc<Job>, count: usize) {
        {
            let mut state = self.state.lock();
            state.jobs.extend(std::iter::repeat_n(job, count).cloned());
            self.pending.store(state.jobs.len(), Ordering::Relaxed);
        }
        (0..count).for_each(|_| {
            self.arrived.notify_one();
        });
    }

    /// The life of a helper.
    fn serve(&self) {
        let _as_the_caller = FlushDenormals::begin();
        let mut stays_awake = false;
        let mut done = Stopwatch::start();
        let mut state = self.state.lock();
        loop {
            let Some(job) = state.jobs.pop_front() else {
                if state.is_closed {
                    return;
                }
                if std::mem::take(&mut stays_awake) {
                    MutexGuard::unlocked(&mut state, || self.spin_for_work(done));
                } else {
                    self.arrived.wait(&mut state);
                }
                continue;
            };
            self.pending.store(state.jobs.len(), Ordering::Relaxed);
            stays_awake = job.is_short() && done.elapsed() < STAY_AWAKE_TIME;
            MutexGuard::unlocked(&mut state, || job.help());
            // The job is gone before the next one is waited for: it may be the last to know its pool.
            drop(job);
            done = Stopwatch::start();
        }
    }

    /// Waits for a job without sleeping, for a moment from `since` on.
    fn spin_for_work(&self, since: Stopwatch) {
        while self.pending.load(Ordering::Relaxed) == 0 && since.elapsed() < STAY_AWAKE_TIME {
            (0..16).for_each(|_| std::hint::spin_loop());
        }
    }
}

#[cfg(test)]
impl LoopPool {
    /// What the helpers hold as long as they live.
    pub(super) fn threads_alive(&self) -> std::sync::Weak<impl Sized + use<>> {
        self.queue.get().map(Arc::downgrade).unwrap_or_default()
    }
}
