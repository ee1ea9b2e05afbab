//! [`NodePool`]: the threads that run nodes.
//!
//! These are not the threads that share one kernel's loop ([`crate::Loops`]), and must not be: a kernel may hold a
//! variable's lock while its loop is being shared, and a thread that waits for the loop picks up other pieces of loops,
//! never another node that could want the same lock.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex};

use crate::start::start_thread;

type Job = Box<dyn FnOnce() + Send>;

/// A fixed number of threads with one queue. They are started for the first job, and end with the pool when the queue is
/// empty.
pub struct NodePool {
    threads: usize,
    hands_over: bool,
    queue: OnceLock<Arc<Queue>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    is_closed: bool,
}

impl NodePool {
    pub(crate) fn new(threads: usize, hands_over: bool) -> NodePool {
        NodePool { threads: threads.max(1), hands_over, queue: OnceLock::new() }
    }

    /// Whether a thread that has several expensive nodes hands some over, so that nodes of one step run at the same time. If
    /// not, nodes come here only when no other thread can run them: after a wait, or from a thread that serves sockets.
    pub fn hands_over(&self) -> bool {
        self.hands_over
    }

    /// Runs a job on some thread of the pool, soon.
    pub fn spawn(&self, job: impl FnOnce() + Send + 'static) {
        let queue = self.queue.get_or_init(|| Queue::start(self.threads));
        queue.state.lock().jobs.push_back(Box::new(job));
        queue.arrived.notify_one();
    }
}

impl Drop for NodePool {
    /// Does not wait: the last to know the pool may be a job on one of its own threads.
    fn drop(&mut self) {
        if let Some(queue) = self.queue.get() {
            queue.state.lock().is_closed = true;
            queue.arrived.notify_all();
        }
    }
}

impl Queue {
    fn start(threads: usize) -> Arc<Queue> {
        let queue = Arc::new(Queue::default());
        for index in 0..threads {
            let queue = queue.clone();
            // Without a single thread the process could not run anything: there is nobody to report to.
            if let Err(error) = start_thread(format!("tensorfleet-node-{index}"), move || queue.serve()) {
                assert!(index > 0, "cannot start a thread to run nodes: {error}");
                break;
            }
        }
        queue
    }

    /// The life of a thread.
    fn serve(&self) {
        while let Some(job) = self.next() {
            // A job handles its own panics; should one slip through, the thread must live on.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
        }
    }

    /// Waits for a job; `None` when there will be no more.
    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            match state.jobs.pop_front() {
                Some(job) => return Some(job),
                None if state.is_closed => return None,
                None => self.arrived.wait(&mut state),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn jobs_run_even_those_left_behind_and_then_the_threads_end() {
        let pool = NodePool::new(2, true);
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
}
