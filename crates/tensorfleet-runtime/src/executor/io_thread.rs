//! Steps on a thread that serves sockets: what it may do itself, and what it leaves to the node pool.
//!
//! A message has just come that some node waited for, or that starts a step. To hand the nodes over to another thread, and
//! their results back, takes about as long as a step of a small model. So the thread that has the message runs the nodes, as
//! long as that does not keep it from its sockets: a bounded number of nodes, expensive ones for a bounded time. And what
//! these nodes bring about (an element reaches a queue, and somewhere a dequeue's wait is over) it goes on with when it is
//! through with them, for as long again.

use std::time::Duration;

use tensorfleet_core::clock::Stopwatch;
use tensorfleet_kernel::continuation::{Deferred, Resume};

/// Nodes that one continuation may run on a thread that serves sockets, before the rest goes to the pool.
pub(super) const IO_THREAD_NODES: usize = 4096;
/// How long expensive nodes may keep such a thread from its sockets at a time, and deferred continuations once more.
pub(super) const IO_THREAD_TIME: Duration = Duration::from_millis(2);

/// Runs `deliver` on a thread that serves sockets and has received what some nodes waited for. Their steps go on on this
/// thread afterwards, with what is cheap; and then, for a moment, those whose waits they end. What is left goes to the node
/// pool.
pub fn on_io_thread(deliver: impl FnOnce(Resume<'_>)) {
    let deferred = Deferred::new();
    deliver(Resume::Here(&deferred));
    (0..deferred.len()).for_each(|_| {
        deferred.run_next();
    });
    run_deferred(&deferred);
}

/// Runs nodes on a thread that serves sockets, and then, for a moment, goes on with the steps whose waits they ended.
pub(super) fn run_nodes_on_io_thread(run_nodes: impl FnOnce(Resume<'_>)) {
    let deferred = Deferred::new();
    run_nodes(Resume::Here(&deferred));
    run_deferred(&deferred);
}

fn run_deferred(deferred: &Deferred) {
    if deferred.is_empty() {
        return;
    }
    let begin = Stopwatch::start();
    while begin.elapsed() < IO_THREAD_TIME && deferred.run_next() {}
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::thread::{self, ThreadId};

    use tensorfleet_kernel::continuation::Continuation;
    use tensorfleet_threads::Threads;

    use super::*;

    /// Takes all the time there is, reports the thread it goes on on, and ends the wait of as many others as are left.
    struct Takes {
        time: Duration,
        left: usize,
        to: mpsc::Sender<ThreadId>,
    }

    impl Continuation for Takes {
        fn threads(&self) -> &Arc<Threads> {
            Threads::of_process()
        }

        fn go_on(self: Box<Self>, resume: Resume<'_>) {
            let begin = Stopwatch::start();
            while begin.elapsed() < self.time {
                thread::yield_now();
            }
            self.to.send(thread::current().id()).unwrap();
            if let Some(left) = self.left.checked_sub(1) {
                resume.resume(Box::new(Takes { left, ..*self }));
            }
        }
    }

    #[test]
    fn what_has_arrived_runs_here_and_what_comes_up_as_long_as_there_is_time() {
        let own = thread::current().id();
        let (to, ran) = mpsc::channel();
        let takes = |time: Duration, left: usize| Box::new(Takes { time, left, to: to.clone() });
        let on = |count: usize| (0..count).map(|_| ran.recv().unwrap()).collect::<Vec<ThreadId>>();
        on_io_thread(|resume| (0..2).for_each(|_| resume.resume(takes(IO_THREAD_TIME, 0))));
        assert_eq!(on(2), [own, own], "what has arrived is not bounded by time");
        on_io_thread(|resume| resume.resume(takes(Duration::ZERO, 3)));
        assert_eq!(on(4), [own; 4]);
        on_io_thread(|resume| resume.resume(takes(IO_THREAD_TIME, 2)));
        let [arrived, came_up, too_late] = on(3)[..] else { unreachable!("three have run") };
        assert_eq!([arrived, came_up], [own, own], "what arrived does not count against what comes up");
        assert_ne!(too_late, own, "the time is used up");
        run_nodes_on_io_thread(|resume| resume.resume(takes(IO_THREAD_TIME, 1)));
        let [came_up, too_late] = on(2)[..] else { unreachable!("two have run") };
        assert!(came_up == own && too_late != own, "what nodes bring about has that time and no more");
    }
}
