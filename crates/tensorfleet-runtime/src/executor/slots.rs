//! [`Slots`]: where a node's inputs wait until it runs.

use crate::sync::UnsafeCell;

/// One place per input edge of an iteration's nodes.
///
/// There is no lock: a slot belongs to one edge. Its producer writes it at most once, before it counts the arrival
/// ([`super::counts::Counts`], release), and its consumer takes it after it has seen all its arrivals (acquire). That each
/// edge has one producer which runs once per iteration is established when the graph is compiled
/// ([`super::frames`]); a merge, which may run before all its producers have, only takes the slot that won.
pub(super) struct Slots<T>(Box<[UnsafeCell<Option<T>>]>);

// SAFETY: a slot is written by one thread and emptied by another, which moves a `T` between them (`T: Send`), and looked
// into by reference (`T: Sync`). No two accesses of a slot happen at once: that is the contract of the three functions
// below, which the counters keep as described above and the models of `tensorfleet-models` check.
unsafe impl<T: Send + Sync> Sync for Slots<T> {}

impl<T> Slots<T> {
    pub(super) fn new(count: usize) -> Slots<T> {
        Slots((0..count).map(|_| UnsafeCell::new(None)).collect())
    }

    /// Stores an input.
    ///
    /// # Safety
    /// The caller is the producer of this edge and has not yet counted its arrival in this iteration.
    pub(super) unsafe fn put(&self, slot: u32, value: T) {
        // SAFETY: the caller is the edge's only producer, and its consumer does not touch the slot before the arrival is
        // counted, which the caller has still to do: so nobody else accesses the cell now.
        self.0[slot as usize].with_mut(|cell| unsafe { *cell = Some(value) });
    }

    /// Takes an input out.
    ///
    /// # Safety
    /// The caller runs the consumer of this edge, which became ready with this input among its arrivals.
    pub(super) unsafe fn take(&self, slot: u32) -> Option<T> {
        // SAFETY: the arrival of this input was counted, so its producer is done with the cell and what it wrote is
        // visible; an edge has one consumer, which runs once, and the caller is it: so nobody else accesses the cell now.
        self.0[slot as usize].with_mut(|cell| unsafe { (*cell).take() })
    }

    /// Looks at an input.
    ///
    /// # Safety
    /// The caller holds the consumer of this edge, which became ready with this input among its arrivals, and the
    /// reference is gone before the consumer runs.
    pub(super) unsafe fn peek(&self, slot: u32) -> Option<&T> {
        // SAFETY: the arrival of this input was counted, so its producer is done with the cell and what it wrote is
        // visible; only the consumer changes the cell from now on, when it runs, and then the reference is gone.
        self.0[slot as usize].with(|cell| unsafe { (*cell).as_ref() })
    }
}
