//! [`Iteration`] and [`Frame`]: what a loop has at run time.
//!
//! A frame comes into being when the first `Enter` leads into it from one iteration of its parent. It holds the iterations
//! under way, oldest first, each with counters and slots of its own. What happens to them is told in `loops.rs`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tensorfleet_kernel::kernel::{FrameIteration, Value};

use super::counts::Counts;
use super::executable::FrameLayout;
use super::slots::Slots;
use crate::plan::FrameIndex;

/// Values on their way into or out of a kernel; `None` is dead.
pub(super) type Values = Vec<Option<Value>>;

/// An iteration; `None` is the root's only one.
pub(super) type IterationRef = Option<Arc<Iteration>>;

/// Counters and slots for one pass over a frame's nodes.
pub(super) struct Iteration {
    pub(super) slots: Slots<Value>,
    pub(super) counts: Counts,
    /// Loops entered from this iteration.
    pub(super) children: Mutex<Vec<(FrameIndex, Arc<Frame>)>>,
    /// Ready or running nodes, and loops under way. Not kept for the root, which ends with the step.
    pub(super) outstanding: AtomicUsize,
    /// The loop this is an iteration of; `None` for the root.
    pub(super) home: Option<(Arc<Frame>, u64)>,
}

/// One execution of a loop.
pub(super) struct Frame {
    pub(super) index: FrameIndex,
    /// The iteration the loop was entered from.
    pub(super) parent: IterationRef,
    /// TensorFlow's number for the frame in rendezvous keys.
    id: u64,
    pub(super) state: Mutex<FrameState>,
}

pub(super) struct FrameState {
    /// Iterations under way; consecutive, oldest first.
    pub(super) live: VecDeque<Arc<Iteration>>,
    /// The number of the newest iteration.
    pub(super) newest: u64,
    /// `Enter` nodes that have not run yet.
    pub(super) missing_enters: usize,
    /// Values of invariants, for iterations to come.
    pub(super) invariants: Vec<(u32, Values)>,
    /// Values for the next iteration, which may not begin before an earlier one is over.
    pub(super) deferred: Vec<(u32, Values)>,
    /// `Exit` nodes that have passed on a value.
    pub(super) exited: Vec<u32>,
}

impl Iteration {
    pub(super) fn root(layout: &FrameLayout) -> Iteration {
        Iteration::new(layout, None)
    }

    pub(super) fn new(layout: &FrameLayout, home: Option<(Arc<Frame>, u64)>) -> Iteration {
        Iteration {
            slots: Slots::new(layout.num_slots),
            counts: Counts::new(&layout.initial_counts),
            children: Mutex::default(),
            outstanding: AtomicUsize::new(0),
            home,
        }
    }

    pub(super) fn frame_iteration(&self) -> FrameIteration {
        self.home.as_ref().map_or(FrameIteration::default(), |(frame, index)| FrameIteration {
            frame_id: frame.id,
            iteration: *index,
        })
    }

    pub(super) fn add_outstanding(&self) {
        self.outstanding.fetch_add(1, Ordering::Relaxed);
    }

    /// Breaks the cycle between frames and their iterations once the step is over.
    pub(super) fn dismantle(&self) {
        let mut frames = std::mem::take(&mut *self.children.lock());
        while let Some((_, frame)) = frames.pop() {
            for iteration in frame.state.lock().live.drain(..) {
                frames.append(&mut iteration.children.lock());
            }
        }
    }
}

impl Frame {
    /// A loop that is entered from an iteration, with its first iteration.
    pub(super) fn begin(
        layout: &FrameLayout,
        index: FrameIndex,
        from: &IterationRef,
        around: FrameIteration,
    ) -> Arc<Frame> {
        let frame = Arc::new(Frame {
            index,
            parent: from.clone(),
            id: combine(around.frame_id, combine(around.iteration, hash64(layout.name.as_bytes()))),
            state: Mutex::new(FrameState {
                live: VecDeque::new(),
                newest: 0,
                missing_enters: layout.num_enters,
                invariants: Vec::new(),
                deferred: Vec::new(),
                exited: Vec::new(),
            }),
        });
        frame.state.lock().live.push_back(Arc::new(Iteration::new(layout, Some((frame.clone(), 0)))));
        frame
    }
}

/// How TensorFlow 2.x mixes two numbers of a frame's identity.
fn combine(a: u64, b: u64) -> u64 {
    a ^ b.wrapping_add(0x9e37_79b9_7f4a_7800).wrapping_add(a << 10).wrapping_add(a >> 4)
}

/// TensorFlow's 64-bit hash of a byte string: MurmurHash64A with its own seed.
fn hash64(bytes: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut hash = 0xDE_CAFC_AFFE ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut k = u64::from_le_bytes(*word).wrapping_mul(M);
        k = (k ^ (k >> R)).wrapping_mul(M);
        hash = (hash ^ k).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0u64, |tail, &byte| tail << 8 | u64::from(byte));
        hash = (hash ^ tail).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> R)).wrapping_mul(M);
    hash ^ (hash >> R)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_ids_are_those_a_tensorflow_2_server_uses() {
        let child = |parent: u64, iteration: u64, name: &str| {
            combine(parent, combine(iteration, hash64(name.as_bytes())))
        };
        assert_eq!(child(0, 0, "lp/while_context"), 2414045154581136951);
        let outer = child(0, 0, "outer/while_context");
        assert_eq!(outer, 16151483404557480959);
        assert_eq!(child(outer, 0, "outer/inner/while_context"), 10647713286725882191);
        assert_eq!(child(outer, 2, "outer/inner/while_context"), 10647713286725884237);
    }
}
