//! [`Threads`]: the threads of a process, as one value that is handed down.

use std::sync::{Arc, LazyLock};

use crate::counts::ThreadCounts;
use crate::input_pool::InputPool;
use crate::loops::{LoopPool, Loops};
use crate::node_pool::{NodePool, RunJob};
use crate::timer::Timer;

/// The threads that a task's steps run on. Each kind is started when it is first needed, and ends when the last who knows
/// this value, or one [derived](Threads::for_server) from it, is gone.
///
/// A task has one, a step carries its task's, and kernels find it in their context. Sockets are served by threads of the
/// cluster's own: only it knows of sockets.
pub struct Threads {
    nodes: Arc<NodePool>,
    loops: Loops,
    input: Arc<InputPool>,
    timer: Arc<Timer>,
}

impl Threads {
    /// Threads of one's own.
    pub fn new(counts: ThreadCounts) -> Arc<Threads> {
        let timer: Arc<Timer> = Arc::default();
        Arc::new(Threads {
            nodes: Arc::new(NodePool::new(counts.of_nodes(), counts.hands_nodes_over(), timer.clone())),
            loops: Loops::new(Arc::new(LoopPool::new(counts.of_loops())), true),
            input: Arc::default(),
            timer,
        })
    }

    /// Nodes and loops without threads of their own: jobs are run by `run`, loops by whoever has them. So what runs when is
    /// decided by whoever makes this, as a simulation must. Input pipelines and alarms still have threads.
    pub fn run_by(run: RunJob) -> Arc<Threads> {
        Arc::new(Threads {
            nodes: Arc::new(NodePool::run_by(run)),
            loops: Loops::new(Arc::new(LoopPool::new(1)), false),
            input: Arc::default(),
            timer: Arc::default(),
        })
    }

    /// The threads of those in this process who say nothing: one for each core.
    pub fn of_process() -> &'static Arc<Threads> {
        static OF_PROCESS: LazyLock<Arc<Threads>> = LazyLock::new(|| Threads::new(ThreadCounts::default()));
        &OF_PROCESS
    }

    /// Threads of these counts: of one's own if something was said, else those of the process.
    pub fn with_counts(counts: ThreadCounts) -> Arc<Threads> {
        match counts == ThreadCounts::default() {
            true => Threads::of_process().clone(),
            false => Threads::new(counts),
        }
    }

    /// The same threads as a server uses them: it shares the machine with others, so its short loops stay on the thread that
    /// has them.
    pub fn for_server(&self) -> Arc<Threads> {
        Arc::new(Threads {
            nodes: self.nodes.clone(),
            loops: Loops::new(self.loops.pool().clone(), false),
            input: self.input.clone(),
            timer: self.timer.clone(),
        })
    }

    /// Those that run nodes.
    pub fn nodes(&self) -> &NodePool {
        &self.nodes
    }

    /// Those that share the work of one kernel.
    pub fn loops(&self) -> &Loops {
        &self.loops
    }

    /// Those that may wait, for input pipelines.
    pub fn input(&self) -> &InputPool {
        &self.input
    }

    /// The one that waits for points in time.
    pub fn timer(&self) -> &Timer {
        &self.timer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    #[test]
    fn who_says_nothing_shares_the_threads_of_the_process() {
        let quiet = Threads::with_counts(ThreadCounts::default());
        assert!(Arc::ptr_eq(&quiet, Threads::of_process()));
        let own = Threads::with_counts(ThreadCounts::new(3, 2).unwrap());
        assert!(!Arc::ptr_eq(&own.nodes, &quiet.nodes));
        assert_eq!(own.loops().threads(), 3);
    }

    #[test]
    fn lent_threads_run_every_job_and_no_other_is_started() {
        let queue = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let jobs = queue.clone();
        let threads = Threads::run_by(Arc::new(move |job| jobs.lock().push(job)));
        let ran_on = Arc::new(parking_lot::Mutex::new(Vec::new()));
        for _ in 0..3 {
            let ran_on = ran_on.clone();
            threads.nodes().spawn(move || ran_on.lock().push(std::thread::current().id()));
        }
        assert!(ran_on.lock().is_empty(), "whoever lends them says when");
        drop(threads);
        std::mem::take(&mut *queue.lock()).into_iter().for_each(|job| job());
        assert_eq!(*ran_on.lock(), [std::thread::current().id(); 3]);
    }

    #[test]
    fn a_server_has_the_same_threads_but_its_way_with_short_loops_is_its_own() {
        let threads = Threads::new(ThreadCounts::new(2, 2).unwrap());
        let server = threads.for_server();
        assert!(Arc::ptr_eq(&server.nodes, &threads.nodes));
        let pieces = |loops: &Loops| {
            let pieces = AtomicUsize::new(0);
            let count = |_, _: &mut [u8]| {
                pieces.fetch_add(1, Relaxed);
            };
            loops.short_chunks_mut(&mut [0u8; 100], 10, count);
            pieces.into_inner()
        };
        assert_eq!((pieces(server.loops()), pieces(threads.loops())), (1, 10));
        drop(server);
        assert_eq!(pieces(threads.loops()), 10, "nothing lasts");
    }
}
