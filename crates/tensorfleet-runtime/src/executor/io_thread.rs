//! Errands: steps that go on because of what a node of another step did.
//!
//! A gradient completes an accumulator, an element reaches a queue, and somewhere a node's wait is over. The thread at
//! hand is in the middle of a kernel, so it cannot go on there. To wake another one takes longer than most of what the
//! waiting step has left to do. So a thread that serves sockets, which keeps no node for long, does the errand itself when
//! it is through with its own nodes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Instant;

use super::step::{BORROWED_THREAD_NODES, BORROWED_THREAD_TIME};
use tensorfleet_threads::Threads;

/// Lets a step go on, with a budget of nodes on a thread that has other duties.
type Errand = Box<dyn FnOnce(Option<usize>) + Send>;

thread_local! {
    /// What this thread has taken upon itself; `None` if it takes nothing.
    static OWN: RefCell<Option<VecDeque<Errand>>> = const { RefCell::new(None) };
}

/// Has a step go on: here when this thread is free, or on a thread of the pool.
pub(super) fn run_soon(errand: impl FnOnce(Option<usize>) + Send + 'static) {
    let errand: Errand = Box::new(errand);
    let left = OWN.with_borrow_mut(|own| match own {
        Some(own) => {
            own.push_back(errand);
            None
        }
        None => Some(errand),
    });
    left.into_iter().for_each(hand_over);
}

/// Runs nodes on a thread with other duties, and then the errands that came up.
pub(super) fn run_after(nodes: impl FnOnce()) {
    if OWN.with_borrow(Option::is_some) {
        // Inside an errand: the loop below sees to what comes up.
        return nodes();
    }
    /// Even a panic must not leave errands undone.
    struct TakeNoMore;
    impl Drop for TakeNoMore {
        fn drop(&mut self) {
            OWN.take().into_iter().flatten().for_each(hand_over);
        }
    }
    OWN.set(Some(VecDeque::new()));
    let _take_no_more = TakeNoMore;
    nodes();
    let begin = Instant::now();
    while begin.elapsed() < BORROWED_THREAD_TIME
        && let Some(errand) = OWN.with_borrow_mut(|own| own.as_mut().and_then(VecDeque::pop_front))
    {
        errand(Some(BORROWED_THREAD_NODES));
    }
}

/// Runs nodes on a thread that will wait for them: an errand of theirs may be what it waits for, so the pool does it.
pub(super) fn run_without(nodes: impl FnOnce()) {
    struct Restore(Option<VecDeque<Errand>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            OWN.set(self.0.take());
        }
    }
    let _restore = Restore(OWN.take());
    nodes();
}

fn hand_over(errand: Errand) {
    Threads::of_process().nodes().spawn(move || errand(None));
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::{self, ThreadId};

    use super::*;

    /// Where errands ran that came up while `run` did.
    fn threads(run: impl FnOnce(&mpsc::Sender<ThreadId>)) -> Vec<ThreadId> {
        let (ran, on) = mpsc::channel();
        run(&ran);
        drop(ran);
        on.iter().collect()
    }

    fn report(ran: &mpsc::Sender<ThreadId>) -> impl FnOnce(Option<usize>) + Send + use<> {
        let ran = ran.clone();
        move |_| ran.send(thread::current().id()).unwrap()
    }

    #[test]
    fn a_thread_with_other_duties_does_errands_when_it_is_through() {
        let own = thread::current().id();
        let on = threads(|ran| {
            run_after(|| {
                let (first, second) = (report(ran), report(ran));
                run_soon(move |budget| {
                    first(budget);
                    run_soon(second);
                });
            });
        });
        assert_eq!(on, [own, own]);
    }

    #[test]
    fn other_threads_and_full_ones_leave_them_to_the_pool() {
        let own = thread::current().id();
        let on = threads(|ran| run_soon(report(ran)));
        assert!(on.len() == 1 && on[0] != own);
        let on = threads(|ran| {
            run_after(|| {
                run_soon(|_| thread::sleep(BORROWED_THREAD_TIME * 2));
                run_soon(report(ran));
            });
        });
        assert!(on.len() == 1 && on[0] != own);
        assert!(OWN.with_borrow(Option::is_none));
        // A kernel may call a function and wait for it.
        let on = threads(|ran| run_after(|| run_without(|| run_soon(report(ran)))));
        assert!(on.len() == 1 && on[0] != own);
    }
}
