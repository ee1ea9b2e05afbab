//! [`Threads`]: the threads of a process, as one value that is handed down.

use std::sync::{Arc, LazyLock};

use crate::counts::ThreadCounts;
use crate::input_pool::InputPool;
use crate::loops::{LoopPool, Loops};
use crate::node_pool::NodePool;
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
        Arc::new(Threads {
            nodes: Arc::new(NodePool::new(counts.of_nodes(), counts.hands_nodes_over())),
            loops: Loops::new(Arc::new(LoopPool::new(counts.of_loops())), true),
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
