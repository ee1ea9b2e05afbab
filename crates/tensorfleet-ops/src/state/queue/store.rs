//! [`Store`]: the elements of a queue in the order in which they come out — first in first out, shuffled, or by
//! priority.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use smallvec::SmallVec;
use tensorfleet_core::{Result, Status, Tensor};

use crate::random::philox::Singles;

/// One element of a queue: a tensor for each component.
pub(crate) type Tuple = SmallVec<[Tensor; 2]>;

/// Elements and the rule by which they leave.
pub(super) enum Store {
    /// In order of arrival.
    Fifo(VecDeque<Tuple>),
    /// At random, in TensorFlow's order for the seeds.
    Shuffled { elements: Vec<Tuple>, random: Singles },
    /// Smallest first component first; among equals, in order of arrival.
    ByPriority { elements: BinaryHeap<Reverse<Ranked>>, arrivals: u64 },
}

/// An element that has left and may come back.
pub(super) struct Taken {
    pub(super) tuple: Tuple,
    arrival: u64,
}

pub(super) struct Ranked {
    priority: i64,
    arrival: u64,
    tuple: Tuple,
}

impl Store {
    pub(super) fn len(&self) -> usize {
        match self {
            Store::Fifo(elements) => elements.len(),
            Store::Shuffled { elements, .. } => elements.len(),
            Store::ByPriority { elements, .. } => elements.len(),
        }
    }

    pub(super) fn put(&mut self, tuple: Tuple) {
        match self {
            Store::Fifo(elements) => elements.push_back(tuple),
            Store::Shuffled { elements, .. } => elements.push(tuple),
            Store::ByPriority { elements, arrivals } => {
                elements.push(Reverse(Ranked { priority: priority_of(&tuple), arrival: *arrivals, tuple }));
                *arrivals += 1;
            }
        }
    }

    pub(super) fn take(&mut self) -> Option<Taken> {
        match self {
            Store::Fifo(elements) => elements.pop_front().map(|tuple| Taken { tuple, arrival: 0 }),
            Store::Shuffled { elements, random } => {
                if elements.is_empty() {
                    return None;
                }
                let chosen = random.next_u32() as usize % elements.len();
                Some(Taken { tuple: elements.swap_remove(chosen), arrival: 0 })
            }
            Store::ByPriority { elements, .. } => {
                let Reverse(Ranked { arrival, tuple, .. }) = elements.pop()?;
                Some(Taken { tuple, arrival })
            }
        }
    }

    /// Puts elements back where they were taken from; `taken` is in the order of taking.
    pub(super) fn put_back(&mut self, taken: Vec<Taken>) {
        for Taken { tuple, arrival } in taken.into_iter().rev() {
            match self {
                Store::Fifo(elements) => elements.push_front(tuple),
                Store::Shuffled { elements, .. } => elements.push(tuple),
                Store::ByPriority { elements, .. } => {
                    elements.push(Reverse(Ranked { priority: priority_of(&tuple), arrival, tuple }));
                }
            }
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

impl Ord for Ranked {
    fn cmp(&self, other: &Ranked) -> std::cmp::Ordering {
        (self.priority, self.arrival).cmp(&(other.priority, other.arrival))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Ranked) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Ranked) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}
