//! [`Slots`]: where a node's inputs wait until it runs.

use std::cell::UnsafeCell;

use tensorfleet_ops::kernel::Value;

/// One place per input edge of an iteration's nodes.
///
/// There is no lock: a slot belongs to one edge. Its producer writes it at most once, before it counts the arrival
/// ([`super::counts::Counts`], release), and its consumer takes it after it has seen all its arrivals (acquire). That each
/// edge has one producer which runs once per iteration is established when the graph is compiled
/// ([`super::frames`]); a merge, which may run before all its producers have, only takes the slot that won.
pub(super) struct Slots(Box<[UnsafeCell<Option<Value>>]>);

// SAFETY: `Value` is Send and Sync; access to each cell is ordered by the counters as described above.
unsafe impl Sync for Slots {}

impl Slots {
    pub(super) fn new(count: usize) -> Slots {
        Slots((0..count).map(|_| UnsafeCell::new(None)).collect())
    }

    /// Stores an input.
    ///
    /// # Safety
    /// The caller is the producer of this edge and has not yet counted its arrival in this iteration.
    pub(super) unsafe fn put(&self, slot: u32, value: Value) {
        // SAFETY: by the contract nobody else touches the cell now.
        unsafe { *self.0[slot as usize].get() = Some(value) };
    }

    /// Takes an input out.
    ///
    /// # Safety
    /// The caller runs the consumer of this edge, which became ready with this input among its arrivals.
    pub(super) unsafe fn take(&self, slot: u32) -> Option<Value> {
        // SAFETY: the producer is done with the cell, and there is one consumer.
        unsafe { (*self.0[slot as usize].get()).take() }
    }

    /// Looks at an input.
    ///
    /// # Safety
    /// As for [`Slots::take`]; the reference must be gone before the node runs.
    pub(super) unsafe fn peek(&self, slot: u32) -> Option<&Value> {
        // SAFETY: as for `take`.
        unsafe { (*self.0[slot as usize].get()).as_ref() }
    }
}
