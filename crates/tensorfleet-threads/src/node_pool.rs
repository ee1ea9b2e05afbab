//! [`NodePool`]: the threads that run nodes.
//!
//! These are not the threads that share one kernel's loop ([`crate::Loops`]), and must not be: a kernel may hold a
//! variable's lock while its loop is being shared, and a thread that waits for the loop picks up other pieces of loops,
//! never another node that could want the same lock.
//!
//! There are as many as are to run at a time. But a node may take minutes, and those of other steps, most of them short, must
//! not wait for it: whatever has waited for [`PATIENCE`] gets a thread of its own, which ends when nothing waits any more.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tensorfleet_core::clock::Clock;

use crate::start::start_thread;
use crate::timer::{Alarm, Timer};

/// How long a job waits before the pool grows for it: longer than most nodes take, and short for somebody who waits for an answer.
const PATIENCE: Duration = Duration::from_millis(200);
/// Threads beyond the configured number. Each takes a stack; who has as many nodes that take long is alone with them.
const MAX_EXTRA_THREADS: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs soon, one after the other, for somebody who has threads of another kind.
pub type RunJob = Arc<dyn Fn(Job) + Send + Sync>;

/// Threads with one queue: a fixed number, and more while all of them are busy for long. They are started for the first job,
/// and end with the pool when the queue is empty.
pub struct NodePool {
    workers: Workers,
    hands_over: bool,
}

enum Workers {
    Threads { count: usize, timer: Arc<Timer>, queue: OnceLock<Arc<Queue>> },
    Lent(RunJob),
}

struct Queue {
    /// The configured number of threads.
    base: usize,
    timer: Arc<Timer>,
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    /// With the time they came.
    jobs: VecDeque<(Instant, Job)>,
    threads: usize,
    idle: usize,
    /// Goes off when the oldest job has waited too long; there is one whenever there are more jobs than idle threads.
    watch: Option<Alarm>,
    is_closed: bool,
}

impl NodePool {
    pub(crate) fn new(threads: usize, hands_over: bool, timer: Arc<Timer>) -> NodePool {
        let workers = Workers::Threads { count: threads.max(1), timer, queue: OnceLock::new() };
        NodePool { workers, hands_over }
    }

    /// No threads of its own: `run` runs the jobs.
    pub(crate) fn run_by(run: RunJob) -> NodePool {
        NodePool { workers: Workers::Lent(run), hands_over: false }
    }

    /// Whether a thread that has several expensive nodes hands some over, so that nodes of one step run at the same time. If
    /// not, nodes come here only when no other thread can run them: after a wait, or from a thread that serves sockets.
    pub fn hands_over(&self) -> bool {
        self.hands_over
    }

    /// Runs a job on some thread of the pool, soon.
    pub fn spawn(&self, job: impl FnOnce() + Send + 'static) {
        match &self.workers {
            Workers::Threads { count, timer, queue } => {
                queue.get_or_init(|| Queue::start(*count, timer.clone())).add(Box::new(job));
            }
            Workers::Lent(run) => run(Box::new(job)),
        }
    }
}

impl Drop for NodePool {
    /// Does not wait: the last to know the pool may be a job on one of its own threads.
    fn drop(&mut self) {
        let Workers::Threads { queue, .. } = &self.workers else { return };
        if let Some(queue) = queue.get() {
            queue.state.lock().is_closed = true;
            queue.arrived.notify_all();
        }
    }
}

impl Queue {
    fn start(threads: usize, timer: Arc<Timer>) -> Arc<Queue> {
        let (state, arrived) = (Mutex::default(), Condvar::new());
        let queue = Arc::new(Queue { base: threads, timer, state, arrived });
        let mut state = queue.state.lock();
        while state.threads < threads {
            // Without a single thread the process could not run anything: there is nobody to report to.
            if let Err(error) = queue.start_thread(&mut state) {
                assert!(state.threads > 0, "cannot start a thread to run nodes: {error}");
                break;
            }
        }
        drop(state);
        queue
    }

    fn start_thread(self: &Arc<Queue>, state: &mut State) -> std::io::Result<()> {
        let queue = self.clone();
        start_thread(format!("tensorfleet-node-{}", state.threads), move || queue.serve())?;
        state.threads += 1;
        Ok(())
    }

    fn add(self: &Arc<Queue>, job: Job) {
        let mut state = self.state.lock();
        state.jobs.push_back((Clock::system().now(), job));
        if state.idle < state.jobs.len() && state.watch.is_none() {
            state.watch = Some(self.watch_in(PATIENCE));
        }
        drop(state);
        self.arrived.notify_one();
    }

    fn watch_in(self: &Arc<Queue>, delay: Duration) -> Alarm {
        let queue: Weak<Queue> = Arc::downgrade(self);
        self.timer.after(delay, move || {
            if let Some(queue) = queue.upgrade() {
                queue.grow();
            }
        })
    }

    /// Starts a thread for each job that has waited too long, and sees to it that the next is looked after.
    fn grow(self: &Arc<Queue>) {
        let now = Clock::system().now();
        let waits = |&(since, _): &(Instant, Job)| now.saturating_duration_since(since);
        let mut state = self.state.lock();
        let overdue = state.jobs.iter().take_while(|job| waits(job) >= PATIENCE).count();
        // Threads that are idle have been told of a job each.
        for _ in state.idle..overdue {
            if state.threads >= self.base + MAX_EXTRA_THREADS || self.start_thread(&mut state).is_err() {
                break;
            }
        }
        let next = state.jobs.iter().map(waits).find(|&waited| waited < PATIENCE);
        let is_empty = state.jobs.is_empty();
        state.watch = (!is_empty).then(|| self.watch_in(next.map_or(PATIENCE, |waited| PATIENCE - waited)));
    }

    /// The life of a thread.
    fn serve(&self) {
        while let Some(job) = self.next() {
            // A job handles its own panics; should one slip through, the thread must live on.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
        }
    }

    /// Waits for a job; `None` when there will be no more for this thread.
    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if let Some((_, job)) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.is_closed || state.threads > self.base {
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            self.arrived.wait(&mut state);
            state.idle -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn pool(threads: usize) -> NodePool {
        NodePool::new(threads, true, Arc::default())
    }

    #[test]
    fn jobs_run_even_those_left_behind_and_then_the_threads_end() {
        let pool = pool(2);
        let (sender, receiver) = mpsc::channel();
        for number in 0..100 {
            let sender = sender.clone();
            pool.spawn(move || sender.send(number).unwrap());
        }
        pool.spawn(|| panic!("a job's own business"));
        drop((pool, sender));
        // The senders go with the jobs: an end that comes is proof that all have run.
        let mut numbers: Vec<i32> = receiver.iter().collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_job_does_not_wait_for_those_that_take_for_ever() {
        let pool = pool(1);
        let (release, (sender, receiver)) = (Arc::new(Mutex::new(())), mpsc::channel());
        let held = release.lock();
        for _ in 0..5 {
            let release = release.clone();
            pool.spawn(move || drop(release.lock()));
        }
        pool.spawn(move || sender.send(()).unwrap());
        receiver.recv_timeout(Duration::from_secs(60)).expect("the pool has grown");
        let Workers::Threads { queue, .. } = &pool.workers else { unreachable!("it has threads of its own") };
        let queue = queue.get().unwrap().clone();
        assert!(queue.state.lock().threads > 1);
        drop(held);
        let begin = tensorfleet_core::clock::Stopwatch::start();
        while queue.state.lock().threads > 1 {
            assert!(begin.elapsed() < Duration::from_secs(60), "threads beyond the configured number end");
            std::thread::yield_now();
        }
    }
}
