//! The threads that run nodes.
//!
//! These are not the threads that share one kernel's loop (`tensorfleet_ops::parallel`), and must not be: a kernel
//! may hold a variable's lock while its loop is being shared, and a thread that waits for the loop picks up other
//! pieces of loops, never another node that could want the same lock.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use parking_lot::{Condvar, Mutex};

type Job = Box<dyn FnOnce() + Send>;

/// A fixed number of threads with one queue.
pub(crate) struct ThreadPool {
    queue: Arc<Queue>,
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    arrived: Condvar,
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
    pub(crate) fn spawn(&self, job: impl FnOnce() + Send + 'static) {
        self.queue.jobs.lock().push_back(Box::new(job));
        self.queue.arrived.notify_one();
    }
}

fn work(queue: &Queue) {
    loop {
        let job = {
            let mut jobs = queue.jobs.lock();
            loop {
                match jobs.pop_front() {
                    Some(job) => break job,
                    None => queue.arrived.wait(&mut jobs),
                }
            }
        };
        // A job handles its own panics; should one slip through, the thread must live on.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
    }
}
