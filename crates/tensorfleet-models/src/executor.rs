//! The executor: a node fires once, and sees what all its producers wrote; one that waits goes on once.

#[path = "../../tensorfleet-runtime/src/executor/async_call.rs"]
mod async_call;
#[allow(dead_code, reason = "compiled from another crate, which uses more of it")]
#[path = "../../tensorfleet-runtime/src/executor/counts.rs"]
mod counts;
#[path = "../../tensorfleet-runtime/src/executor/slots.rs"]
mod slots;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use self::async_call::AsyncCall;
use self::counts::{Arrival, Counts, MergeInput};
use self::slots::Slots;
use crate::check;

/// One node with its slots, and how often it has run.
struct Node {
    counts: Counts,
    slots: Slots<u32>,
    runs: AtomicUsize,
}

impl Node {
    fn new(initial: u64, slots: usize) -> Arc<Node> {
        Arc::new(Node {
            counts: Counts::new(&[initial]),
            slots: Slots::new(slots),
            runs: AtomicUsize::new(0),
        })
    }

    /// What the producer of one edge does: puts its value, counts, and runs the node if it has become ready.
    fn produce(&self, slot: u32, value: Option<u32>, consume: impl FnOnce(&Node, bool)) {
        if let Some(value) = value {
            // SAFETY: each thread of these models produces for a slot of its own, once, and counts it below.
            unsafe { self.slots.put(slot, value) };
        }
        self.ran(self.counts.arrive(0, value.is_none()), consume);
    }

    /// The same for a merge of `data_inputs`.
    fn produce_for_merge(&self, data_inputs: u32, input: MergeInput, consume: impl FnOnce(&Node, bool)) {
        if let MergeInput::Live(slot) = input {
            // SAFETY: each thread of these models produces for a slot of its own, once, and counts it below.
            unsafe { self.slots.put(slot, slot + 10) };
        }
        self.ran(self.counts.arrive_at_merge(0, data_inputs, input), consume);
    }

    fn ran(&self, arrival: Arrival, consume: impl FnOnce(&Node, bool)) {
        if let Arrival::Ready { is_dead } = arrival {
            self.runs.fetch_add(1, Ordering::Relaxed);
            consume(self, is_dead);
        }
    }
}

/// Takes the value of the input that made a merge ready.
fn take_winner(node: &Node, is_dead: bool) -> Option<u32> {
    let winner = node.counts.merge_winner(0);
    assert_eq!(winner.is_none(), is_dead);
    // SAFETY: the merge is ready and has this input as its winner; it is taken by the thread that saw that, only.
    winner.map(|slot| unsafe { node.slots.take(slot) }.expect("the winner's value is there"))
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().expect("a model's thread ends well"));
}

/// Three producers, the node runs on the thread of whichever counts last.
///
/// Finds, in `Counts::arrive`: `Release` or `Acquire` alone instead of `AcqRel` (the slots are then read while another
/// thread may still be writing them); and a counter that is loaded and stored instead of added to (nobody, or two, see
/// the last arrival).
pub fn a_node_runs_once_and_sees_all_its_inputs() {
    check(|| {
        let node = Node::new(Counts::initial(3), 3);
        let consume = |node: &Node, is_dead: bool| {
            assert!(!is_dead);
            for slot in 0..3 {
                // SAFETY: the node is ready, and only the thread that saw that comes here.
                unsafe {
                    assert_eq!(node.slots.peek(slot), Some(&(slot + 10)));
                    assert_eq!(node.slots.take(slot), Some(slot + 10));
                }
            }
        };
        let produce = |slot: u32| {
            let node = node.clone();
            thread::spawn(move || node.produce(slot, Some(slot + 10), consume))
        };
        let threads = [produce(0), produce(1)];
        node.produce(2, Some(12), consume);
        join(threads);
        assert_eq!(node.runs.load(Ordering::Relaxed), 1);
    });
}

/// A dead input makes the node dead, whichever comes last.
///
/// Finds, in `Counts::arrive`: deadness told from the value before the addition (the last arrival's own is missed).
pub fn a_dead_input_is_never_overlooked() {
    check(|| {
        let node = Node::new(Counts::initial(2), 2);
        let consume = |_: &Node, is_dead: bool| assert!(is_dead);
        let other = node.clone();
        let thread = thread::spawn(move || other.produce(0, None, consume));
        node.produce(1, Some(11), consume);
        join([thread]);
        assert_eq!(node.runs.load(Ordering::Relaxed), 1);
    });
}

/// Two live inputs and a control input race to a merge: it runs once, with the value of one of them, while the other
/// producer may still be writing its own.
///
/// Finds, in `Counts::arrive_at_merge`: no look at whether it was ready before (it runs twice); and an exchange that does
/// not release when it succeeds (the winner's slot is read while it is written).
pub fn a_merge_runs_once_with_the_value_that_won() {
    check(|| {
        let node = Node::new(Counts::initial_merge(1), 2);
        let consume = |node: &Node, is_dead: bool| {
            let value = take_winner(node, is_dead).expect("a live input came");
            assert!(value == 10 || value == 11);
        };
        let produce = |input: MergeInput| {
            let node = node.clone();
            thread::spawn(move || node.produce_for_merge(2, input, consume))
        };
        let threads = [produce(MergeInput::Live(0)), produce(MergeInput::Live(1))];
        node.produce_for_merge(2, MergeInput::Control, consume);
        join(threads);
        assert_eq!(node.runs.load(Ordering::Relaxed), 1);
    });
}

/// A live and a dead input race to a merge: it runs once, and is not dead.
///
/// Finds, in `is_merge_ready`: one dead input that is enough.
pub fn a_merge_is_alive_if_one_input_is() {
    check(|| {
        let node = Node::new(Counts::initial_merge(0), 2);
        let consume = |node: &Node, is_dead: bool| assert_eq!(take_winner(node, is_dead), Some(11));
        let other = node.clone();
        let thread = thread::spawn(move || other.produce_for_merge(2, MergeInput::Dead, consume));
        node.produce_for_merge(2, MergeInput::Live(1), consume);
        join([thread]);
        assert_eq!(node.runs.load(Ordering::Relaxed), 1);
    });
}

/// Two dead inputs and a control input race to a merge: it runs once, dead.
///
/// Finds, in `Counts::arrive_at_merge`: a counter that is stored instead of exchanged (a death is lost, and with it the
/// run).
pub fn a_merge_of_dead_inputs_runs_once_and_is_dead() {
    check(|| {
        let node = Node::new(Counts::initial_merge(1), 2);
        let consume = |node: &Node, is_dead: bool| assert_eq!(take_winner(node, is_dead), None);
        let produce = |input: MergeInput| {
            let node = node.clone();
            thread::spawn(move || node.produce_for_merge(2, input, consume))
        };
        let threads = [produce(MergeInput::Dead), produce(MergeInput::Dead)];
        node.produce_for_merge(2, MergeInput::Control, consume);
        join(threads);
        assert_eq!(node.runs.load(Ordering::Relaxed), 1);
    });
}

/// A kernel's result comes while its `start` returns: one of the two threads goes on with it, never both or none. The one that
/// brings it finds the node noted as waiting.
///
/// Finds: `complete` or `returned` that look at the state under one lock and change it under another (the result is lost, or
/// used twice), and `wait` called after the lock is let go.
pub fn a_node_goes_on_once_whoever_is_first() {
    check(|| {
        let call = Arc::new(AsyncCall::new());
        let (went_on, noted) = (Arc::new(AtomicUsize::new(0)), Arc::new(UnsafeCell::new(false)));
        let thread = thread::spawn({
            let (call, went_on, noted) = (call.clone(), went_on.clone(), noted.clone());
            move || {
                if let Some(result) = call.complete(7) {
                    assert_eq!(result, 7);
                    // SAFETY: loom checks that the other thread is done with it, which is what the model is about.
                    assert!(noted.with(|noted| unsafe { *noted }), "the node waits before it goes on");
                    went_on.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        // SAFETY: as above.
        if let Some(result) = call.returned(|| noted.with_mut(|noted| unsafe { *noted = true })) {
            assert_eq!(result, 7);
            went_on.fetch_add(1, Ordering::Relaxed);
        }
        join([thread]);
        assert_eq!(went_on.load(Ordering::Relaxed), 1);
    });
}
