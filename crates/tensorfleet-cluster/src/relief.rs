//! Relief for the I/O threads: threads that serve the sockets while all others are kept from them.
//!
//! I/O threads run nodes that are known to be short, decode messages, take locks. Should one of these take long after all, on
//! a small machine nobody would answer any more: not a status, not the other clients, not the peers that then believe the task
//! dead. So the runtime has a few threads more than serve sockets, and these stand by: each is kept asleep inside a task. One
//! of them watches whether the others come round (a task that beats by the runtime's timer tells). If they do not, it goes on
//! from its task into the runtime and serves the sockets, from then on as one of the I/O threads. Until another one has been seen
//! to come round again no I/O thread runs nodes: the thread that relieves the others cannot get stuck as they did.
//!
//! It never goes back to sleep: a task may be waiting in a queue that only this very thread serves. So the last of them, once it
//! has gone into the runtime, runs no nodes for as long as the process lives: whoever else gets stuck, and however often, there
//! is always a thread that runs none, asleep or awake.
//!
//! A thread more in the runtime, awake, would do the same; but to wake a second thread for a message takes as long as a small step.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use parking_lot::Mutex;
use tensorfleet_core::clock::Stopwatch;
use tokio::runtime::Handle;

/// How many threads stand by. One that serves sockets may get stuck as well (a lock, a message that takes long to decode).
pub(crate) const THREADS: usize = 2;
/// How often the I/O threads are seen to come round, if they do.
const BEAT_EVERY: Duration = Duration::from_millis(50);
/// For how long they may not, before they are relieved. Less than what anybody who asks for a status waits.
const PATIENCE: Duration = Duration::from_millis(300);
/// How often a thread that serves sockets looks whether another one has come round.
const LOOK_EVERY: Duration = Duration::from_millis(500);

thread_local! {
    /// Whether this thread is the last that stood by, which never runs nodes.
    static IS_RESERVED: Cell<bool> = const { Cell::new(false) };
}

/// Who serves the sockets of a runtime.
#[derive(Default)]
pub(crate) struct Relief {
    beats: AtomicU64,
    /// How many threads have stood by and do not any more.
    awoken: AtomicUsize,
    /// How many threads that stood by serve sockets now.
    serving: AtomicUsize,
    /// Threads that have come round since the others were relieved.
    came_round: Mutex<HashSet<ThreadId>>,
    /// Held by the thread that watches; the others wait for it.
    watch: Mutex<()>,
}

impl Relief {
    /// Has threads of the runtime stand by. Returns when they do: nothing else has run there before, so nothing that belongs to
    /// one of these threads waits for it to wake up.
    pub(crate) fn begin(&'static self, runtime: &Handle) {
        let (standing_by, ready) = mpsc::sync_channel(THREADS);
        for _ in 0..THREADS {
            let standing_by = standing_by.clone();
            #[expect(clippy::disallowed_methods, reason = "they belong to the process, as its runtime does")]
            runtime.spawn(self.stand_by(standing_by));
            // A task that ends early would mean that the runtime is gone.
            let _ = ready.recv();
        }
        #[expect(clippy::disallowed_methods, reason = "it belongs to the process, as its runtime does")]
        runtime.spawn(self.beat());
    }

    /// Whether this thread, one of the I/O threads, may begin to run nodes. None may while they are relieved.
    pub(crate) fn may_run_nodes(&self) -> bool {
        !self.is_on() && !IS_RESERVED.get()
    }

    fn is_on(&self) -> bool {
        self.serving.load(Relaxed) > 0
    }

    /// To be called by every thread of the runtime before it waits for something to do.
    pub(crate) fn thread_comes_round(&self) {
        if self.is_on() {
            self.came_round.lock().insert(thread::current().id());
        }
    }

    async fn beat(&self) {
        loop {
            tokio::time::sleep(BEAT_EVERY).await;
            self.beats.fetch_add(1, Relaxed);
        }
    }

    async fn stand_by(&self, standing_by: mpsc::SyncSender<()>) {
        // Who asked for it waits for this.
        let _ = standing_by.send(());
        drop(standing_by);
        self.wait_until_stuck();
        // They awake one by one, on their own threads: this task has not waited yet.
        if self.awoken.fetch_add(1, Relaxed) + 1 == THREADS {
            IS_RESERVED.set(true);
        }
        if !self.is_on() {
            self.came_round.lock().clear();
        }
        self.serving.fetch_add(1, Relaxed);
        tracing::info!("the I/O threads are kept from their sockets; a thread that stood by serves them");
        // Those that stood by come round as well. Should another one get stuck again, somebody watches.
        while self.came_round.lock().len() <= self.serving.load(Relaxed) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.serving.fetch_sub(1, Relaxed);
    }

    /// Keeps this thread asleep as long as others serve the sockets.
    fn wait_until_stuck(&self) {
        let _watch = self.watch.lock();
        loop {
            let (before, begin) = (self.beats.load(Relaxed), Stopwatch::start());
            while let Some(left) = PATIENCE.checked_sub(begin.elapsed()).filter(|left| !left.is_zero()) {
                thread::park_timeout(left);
            }
            if self.beats.load(Relaxed) == before {
                return;
            }
        }
    }
}
