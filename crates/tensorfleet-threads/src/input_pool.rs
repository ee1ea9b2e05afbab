//! [`InputPool`]: threads that may wait. They pull iterators and fill prefetch buffers.
//!
//! A thread that is done waits a while for another job. There are as many as there are jobs at a time, because jobs wait
//! for each other: with a fixed number a consumer could keep its producer from running.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tensorfleet_core::memory::Charge;
use tensorfleet_core::{Result, Status, ensure};

use crate::start::start_thread;

/// Pipelines and steps that pull at the same time. Each thread takes a stack; thousands mean a mistake.
const MAX_THREADS: usize = 4096;

/// What a thread is charged: the part of its stack that a deep pipeline touches, and heaps of its own. It maps twice as much.
const THREAD_BYTES: usize = 1 << 20;

/// How long a thread without work stays.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// As many threads as there are jobs.
#[derive(Default)]
pub struct InputPool {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl InputPool {
    /// Runs a job, now, on a thread that may wait.
    pub fn spawn(&self, job: impl FnOnce() + Send + 'static) -> Result<()> {
        // Under the lock, so that the job is there before the thread that is started for it looks for one.
        let mut state = self.shared.state.lock();
        if state.idle <= state.jobs.len() {
            ensure!(
                state.threads < MAX_THREADS,
                ResourceExhausted,
                "{MAX_THREADS} threads are busy with datasets: are steps being started without end?"
            );
            let charge = Charge::new(THREAD_BYTES).map_err(|status| {
                status.context(format!("one more thread for datasets, of which there are {}", state.threads))
            })?;
            let shared = self.shared.clone();
            let work = move || {
                let _charge = charge;
                shared.serve();
            };
            start_thread("tensorfleet-input".into(), work).map_err(|error| {
                Status::resource_exhausted(format!("cannot start a thread for a dataset: {error}"))
            })?;
            state.threads += 1;
        }
        state.jobs.push_back(Box::new(job));
        self.shared.arrived.notify_one();
        Ok(())
    }
}

impl Drop for InputPool {
    /// Does not wait: the last to know the pool may be a job on one of its own threads.
    fn drop(&mut self) {
        self.shared.state.lock().is_closed = true;
        self.shared.arrived.notify_all();
    }
}

impl Shared {
    /// The life of a thread.
    fn serve(&self) {
        while let Some(job) = self.next() {
            // A panic is a bug in one link of one pipeline; whoever waits for it learns that its sender is gone.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
        }
    }

    /// Waits for a job, but not for ever.
    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.is_closed {
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            let has_waited = self.arrived.wait_for(&mut state, IDLE_TIMEOUT).timed_out();
            state.idle -= 1;
            if has_waited && state.jobs.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn jobs_that_wait_for_each_other_all_get_a_thread() {
        let pool = InputPool::default();
        let (last, mut wait_for) = mpsc::channel::<()>();
        for _ in 0..20 {
            let (next, receiver) = mpsc::channel();
            let before = std::mem::replace(&mut wait_for, receiver);
            pool.spawn(move || {
                let _ = before.recv();
                drop(next);
            })
            .unwrap();
        }
        drop(last);
        assert!(wait_for.recv().is_err(), "all jobs are through");
    }
}
