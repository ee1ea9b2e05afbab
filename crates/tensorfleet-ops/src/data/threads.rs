//! Threads that may wait: they pull iterators and fill prefetch buffers.
//!
//! A thread that is done waits a while for another job. There are as many as there are jobs at a time, because jobs wait
//! for each other: with a fixed number a consumer could keep its producer from running.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tensorfleet_core::{Result, Status, ensure};

/// Pipelines and steps that pull at the same time. Each thread takes a stack; thousands mean a mistake.
const MAX_THREADS: usize = 4096;

/// How long a thread without work stays.
const PATIENCE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

struct Pool {
    state: Mutex<State>,
    arrived: Condvar,
}

struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

static POOL: Pool =
    Pool { state: Mutex::new(State { jobs: VecDeque::new(), threads: 0, idle: 0 }), arrived: Condvar::new() };

/// Runs a job, now, on a thread that may wait.
pub(super) fn run(job: impl FnOnce() + Send + 'static) -> Result<()> {
    // Under the lock, so that the job is there before the thread that is started for it looks for one.
    let mut state = POOL.state.lock();
    if state.idle <= state.jobs.len() {
        ensure!(
            state.threads < MAX_THREADS,
            ResourceExhausted,
            "{MAX_THREADS} threads are busy with datasets: are steps being started without end?"
        );
        let thread = std::thread::Builder::new().name("tensorfleet-input".into()).spawn(work);
        thread.map_err(|error| {
            Status::resource_exhausted(format!("cannot start a thread for a dataset: {error}"))
        })?;
        state.threads += 1;
    }
    state.jobs.push_back(Box::new(job));
    POOL.arrived.notify_one();
    Ok(())
}

fn work() {
    loop {
        let job = {
            let mut state = POOL.state.lock();
            loop {
                if let Some(job) = state.jobs.pop_front() {
                    break job;
                }
                state.idle += 1;
                let has_waited = POOL.arrived.wait_for(&mut state, PATIENCE).timed_out();
                state.idle -= 1;
                if has_waited && state.jobs.is_empty() {
                    state.threads -= 1;
                    return;
                }
            }
        };
        // A panic is a bug in one link of one pipeline; whoever waits for it learns that its sender is gone.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
    }
}
