//! The threads that run nodes.
//!
//! These are not the threads that share one kernel's loop (`tensorfleet_ops::parallel`), and must not be: a kernel
//! may hold a variable's lock while its loop is being shared, and a thread that waits for the loop picks up other
//! pieces of loops, never another node that could want the same lock.

use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

type Job = Box<dyn FnOnce() + Send>;

/// What a thread does when a job is done and there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lingers {
    /// It sleeps: the core may be another process's.
    No,
    /// It looks around for [`LINGER`], because the next job is likely to come soon, and to be woken takes long.
    Briefly,
}

/// How long a thread looks around for the next job: a little longer than the nodes between two that are worth a thread take.
const LINGER: Duration = Duration::from_micros(150);

/// A fixed number of threads with one queue.
pub(crate) struct ThreadPool {
    queue: Arc<Queue>,
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    arrived: Condvar,
    /// How many jobs there are, for those who look without the lock.
    count: AtomicUsize,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<(Job, Lingers)>,
    /// Threads that look around. They take the lock before they sleep, so what they would miss they find then.
    looking: usize,
}

/// The pool of this process, one thread per core, started on first use.
pub(crate) fn shared() -> &'static ThreadPool {
    static SHARED: LazyLock<ThreadPool> = LazyLock::new(|| {
        let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get());
        ThreadPool::new(cores)
    });
    &SHARED
}

impl ThreadPool {
    fn new(threads: usize) -> ThreadPool {
        let queue = Arc::new(Queue::default());
        for index in 0..threads {
            let queue = queue.clone();
            let thread = std::thread::Builder::new().name(format!("tensorfleet-node-{index}"));
            // Without a single thread the process could not run anything: there is nobody to report to.
            if let Err(error) = thread.spawn(move || work(&queue)) {
                assert!(index > 0, "cannot start a thread to run nodes: {error}");
                break;
            }
        }
        ThreadPool { queue }
    }

    /// Runs a job on some thread of the pool, soon.
    pub(crate) fn spawn(&self, lingers: Lingers, job: impl FnOnce() + Send + 'static) {
        let mut jobs = self.queue.jobs.lock();
        jobs.waiting.push_back((Box::new(job), lingers));
        self.queue.count.store(jobs.waiting.len(), Relaxed);
        if jobs.waiting.len() > jobs.looking {
            drop(jobs);
            self.queue.arrived.notify_one();
        }
    }
}

fn work(queue: &Queue) {
    let mut lingers = Lingers::No;
    loop {
        let mut jobs = queue.jobs.lock();
        if lingers == Lingers::Briefly && jobs.waiting.is_empty() {
            jobs.looking += 1;
            drop(jobs);
            let end = Instant::now() + LINGER;
            while queue.count.load(Relaxed) == 0 && Instant::now() < end {
                std::hint::spin_loop();
            }
            jobs = queue.jobs.lock();
            jobs.looking -= 1;
        }
        let job = loop {
            match jobs.waiting.pop_front() {
                Some((job, then)) => {
                    lingers = then;
                    break job;
                }
                None => queue.arrived.wait(&mut jobs),
            }
        };
        queue.count.store(jobs.waiting.len(), Relaxed);
        drop(jobs);
        // A job handles its own panics; should one slip through, the thread must live on.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn every_job_runs_whether_threads_sleep_or_look_around() {
        let pool = ThreadPool::new(3);
        let (done, all) = mpsc::channel();
        for round in 0..2000 {
            for (index, lingers) in [Lingers::Briefly, Lingers::No].into_iter().enumerate() {
                let done = done.clone();
                pool.spawn(lingers, move || done.send(2 * round + index).unwrap());
            }
            if round % 50 == 0 {
                // Now and then they have time to fall asleep.
                std::thread::sleep(LINGER * 2);
            }
        }
        drop(done);
        let mut ran: Vec<usize> = all.iter().collect();
        ran.sort_unstable();
        assert_eq!(ran, (0..4000).collect::<Vec<_>>());
    }
}
