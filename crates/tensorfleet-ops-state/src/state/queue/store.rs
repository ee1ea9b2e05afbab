//! [`Store`]: the elements of a queue in the order in which they come out — first in first out, shuffled, or by
//! priority.

use std::collections::VecDeque;

use smallvec::SmallVec;
use tensorfleet_core::{Result, Status, Tensor};

use tensorfleet_numeric::philox::Singles;

/// One element of a queue: a tensor for each component.
pub type Tuple = SmallVec<[Tensor; 2]>;

/// What keeping an element takes, beyond what is charged for its tensors' data.
pub(crate) fn kept_bytes(tuple: &Tuple) -> usize {
    tuple.iter().fold(size_of::<Tuple>(), |sum, tensor| sum.saturating_add(tensor.kept_bytes()))
}

/// Elements and the rule by which they leave.
pub(super) enum Store {
    /// In order of arrival.
    Fifo(VecDeque<Tuple>),
    /// At random, in TensorFlow's order for the seeds.
    Shuffled { elements: Vec<Tuple>, random: Singles },
    /// Smallest first component first.
    ByPriority(Heap),
}

impl Store {
    pub(super) fn len(&self) -> usize {
        match self {
            Store::Fifo(elements) => elements.len(),
            Store::Shuffled { elements, .. } => elements.len(),
            Store::ByPriority(heap) => heap.elements.len(),
        }
    }

    pub(super) fn put(&mut self, tuple: Tuple) {
        match self {
            Store::Fifo(elements) => elements.push_back(tuple),
            Store::Shuffled { elements, .. } => elements.push(tuple),
            Store::ByPriority(heap) => heap.push(tuple),
        }
    }

    /// The element that leaves next, where that is known before it does.
    pub(super) fn front(&self) -> Option<&Tuple> {
        match self {
            Store::Fifo(elements) => elements.front(),
            Store::Shuffled { elements, .. } => elements.last(),
            Store::ByPriority(heap) => heap.elements.first().map(|ranked| &ranked.tuple),
        }
    }

    pub(super) fn take(&mut self) -> Option<Tuple> {
        match self {
            Store::Fifo(elements) => elements.pop_front(),
            Store::Shuffled { elements, random } => {
                if elements.is_empty() {
                    return None;
                }
                let chosen = random.next_u32() as usize % elements.len();
                Some(elements.swap_remove(chosen))
            }
            Store::ByPriority(heap) => heap.pop(),
        }
    }

    /// Puts elements back where they were taken from; `taken` is in the order of taking.
    pub(super) fn put_back(&mut self, taken: Vec<Tuple>) {
        for tuple in taken.into_iter().rev() {
            match self {
                Store::Fifo(elements) => elements.push_front(tuple),
                Store::Shuffled { elements, .. } => elements.push(tuple),
                Store::ByPriority(heap) => heap.push(tuple),
            }
        }
    }
}

/// A heap with the smallest priority at its top.
///
/// Which of several equal priorities comes first follows from how the elements are moved. TensorFlow's queue is the
/// `std::priority_queue` of the GNU C++ library, so this one moves them the same way: a hole goes down to a leaf past the smaller
/// children (the right one of two equals), and the last element comes up from there. Observed with TensorFlow 2.21.
#[derive(Default)]
pub(super) struct Heap {
    elements: Vec<Ranked>,
}

struct Ranked {
    priority: i64,
    tuple: Tuple,
}

impl Heap {
    fn push(&mut self, tuple: Tuple) {
        self.elements.push(Ranked { priority: priority_of(&tuple), tuple });
        self.rise(self.elements.len() - 1);
    }

    fn pop(&mut self) -> Option<Tuple> {
        let last = self.elements.len().checked_sub(1)?;
        self.elements.swap(0, last);
        let top = self.elements.pop()?;
        // What was last stands at the top now; it follows the hole down, and rises from the leaf.
        let (len, mut hole) = (self.elements.len(), 0);
        loop {
            let (left, right) = (2 * hole + 1, 2 * hole + 2);
            let child = if right < len && self.elements[right].priority <= self.elements[left].priority {
                right
            } else {
                left
            };
            if child >= len {
                break;
            }
            self.elements.swap(hole, child);
            hole = child;
        }
        self.rise(hole);
        Some(top.tuple)
    }

    /// Moves an element up while it is smaller than what is above it.
    fn rise(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            match (self.elements.get(parent), self.elements.get(at)) {
                (Some(above), Some(own)) if above.priority > own.priority => self.elements.swap(parent, at),
                _ => return,
            }
            at = parent;
        }
    }
}

/// Checks that an element of a priority queue says its priority, before it is let in.
pub(super) fn check_priority(tuple: &Tuple) -> Result<()> {
    let priority = tuple.first().ok_or_else(|| Status::invalid_argument("an element without a priority"))?;
    priority.to_scalar::<i64>().map(drop)
}

fn priority_of(tuple: &Tuple) -> i64 {
    // Checked when it was offered.
    tuple.first().and_then(|priority| priority.to_scalar().ok()).unwrap_or(0)
}
