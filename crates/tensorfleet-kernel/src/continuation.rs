//! Where a step goes on when what one of its nodes waited for has come: [`Resume`], said by whoever ends the wait.
//!
//! A node that waits (dequeues, receives, takes a gradient) leaves a continuation with what it waits for. Whoever ends the
//! wait is busy with something else: an enqueue is in the middle of its own kernel, the thread that received a message in
//! the middle of a poll. It cannot let the other step run below itself, with its own locks held and its own stack in use.
//! So it hands the [`Continuation`] to a [`Resume`], a value that it was given by the one who runs it: on most threads that
//! is the pool of nodes. A thread that serves sockets, which keeps no node for long, collects them in a [`Deferred`] list and
//! goes on with them itself when it is through, because to wake another thread takes longer than most of what the waiting
//! step has left to do.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tensorfleet_threads::Threads;

/// The rest of a step, from a node whose wait is over.
pub trait Continuation: Send {
    /// The threads the step belongs to.
    fn threads(&self) -> &Arc<Threads>;

    /// Goes on, on this thread. What the step's own nodes resume goes where `resume` says; and with that the step knows
    /// what kind of thread it is on.
    fn go_on(self: Box<Self>, resume: Resume<'_>);
}

/// Where steps go on whose waits are ended here.
#[derive(Clone, Copy)]
pub enum Resume<'a> {
    /// On a thread of their node pool, at once.
    OnPool,
    /// On this thread, which serves sockets, when it is through with what it does.
    Here(&'a Deferred),
}

impl Resume<'_> {
    /// Has a step go on.
    pub fn resume(self, continuation: Box<dyn Continuation>) {
        match self {
            Resume::OnPool => on_pool(continuation),
            Resume::Here(deferred) => deferred.waiting.lock().push_back(continuation),
        }
    }
}

/// Continuations that a thread has taken upon itself. What it does not get to goes to the pool when this is dropped, so
/// that none is ever lost.
#[derive(Default)]
pub struct Deferred {
    /// A lock, because the threads that share a kernel's loop see its context, too.
    waiting: Mutex<VecDeque<Box<dyn Continuation>>>,
}

impl Deferred {
    /// Nothing is deferred yet.
    pub fn new() -> Deferred {
        Deferred::default()
    }

    /// Goes on with the one that has waited longest; `false` if there is none.
    pub fn run_next(&self) -> bool {
        let next = self.waiting.lock().pop_front();
        next.map(|continuation| continuation.go_on(Resume::Here(self))).is_some()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        self.waiting.get_mut().drain(..).for_each(on_pool);
    }
}

fn on_pool(continuation: Box<dyn Continuation>) {
    let threads = continuation.threads().clone();
    threads.nodes().spawn(move || continuation.go_on(Resume::OnPool));
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::{self, ThreadId};

    use super::*;

    /// Reports the thread it goes on on, and then ends the wait of another step, if there is one.
    struct Report {
        to: mpsc::Sender<ThreadId>,
        then: Option<Box<Report>>,
    }

    impl Report {
        fn new(to: &mpsc::Sender<ThreadId>, then: Option<Box<Report>>) -> Box<Report> {
            Box::new(Report { to: to.clone(), then })
        }
    }

    impl Continuation for Report {
        fn threads(&self) -> &Arc<Threads> {
            Threads::of_process()
        }

        fn go_on(self: Box<Self>, resume: Resume<'_>) {
            self.to.send(thread::current().id()).unwrap();
            if let Some(then) = self.then {
                resume.resume(then);
            }
        }
    }

    #[test]
    fn a_thread_that_defers_goes_on_with_what_comes_up_until_nothing_does() {
        let (to, ran) = mpsc::channel();
        let deferred = Deferred::new();
        Resume::Here(&deferred).resume(Report::new(&to, Some(Report::new(&to, None))));
        assert!(ran.try_recv().is_err(), "it waits until the thread is through with its own work");
        while deferred.run_next() {}
        drop((deferred, to));
        assert_eq!(ran.iter().collect::<Vec<_>>(), [thread::current().id(); 2]);
    }

    #[test]
    fn the_pool_goes_on_with_the_rest_even_after_a_panic() {
        let (to, ran) = mpsc::channel();
        Resume::OnPool.resume(Report::new(&to, None));
        let panics = thread::spawn({
            let to = to.clone();
            move || {
                let deferred = Deferred::new();
                Resume::Here(&deferred).resume(Report::new(&to, None));
                panic!("before it gets to what it has deferred");
            }
        });
        let panicked = panics.thread().id();
        assert!(panics.join().is_err());
        drop(to);
        let on: Vec<ThreadId> = ran.iter().collect();
        assert!(on.len() == 2 && on.iter().all(|&on| on != panicked && on != thread::current().id()));
    }
}
