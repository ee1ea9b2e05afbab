//! Loops at run time: frames, their iterations, and when they are over.
//!
//! A [`Frame`] comes into being when the first `Enter` leads into it from one iteration of its parent. It holds the
//! iterations under way, oldest first. An iteration is over when nothing in it runs or can run any more and all earlier
//! ones are over; the frame is over when its last iteration is, and then every `Exit` that has not passed on a value
//! passes on deadness, so that nobody outside waits in vain.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tensorfleet_core::{Result, ensure};
use tensorfleet_kernel::kernel::{FrameIteration, Value};

use super::counts::Counts;
use super::executable::FrameLayout;
use super::ready::{ReadyList, Values};
use super::slots::Slots;
use super::step::Step;
use crate::plan::FrameIndex;

/// An iteration; `None` is the root's only one.
pub(super) type IterationRef = Option<Arc<Iteration>>;

/// Counters and slots for one pass over a frame's nodes.
pub(super) struct Iteration {
    pub(super) slots: Slots<Value>,
    pub(super) counts: Counts,
    /// Loops entered from this iteration.
    children: Mutex<Vec<(FrameIndex, Arc<Frame>)>>,
    /// Ready or running nodes, and loops under way. Not kept for the root, which ends with the step.
    outstanding: AtomicUsize,
    /// The loop this is an iteration of; `None` for the root.
    home: Option<(Arc<Frame>, u64)>,
}

/// One execution of a loop.
pub(super) struct Frame {
    index: FrameIndex,
    /// The iteration the loop was entered from.
    parent: IterationRef,
    /// TensorFlow's number for the frame in rendezvous keys.
    id: u64,
    state: Mutex<FrameState>,
}

struct FrameState {
    /// Iterations under way; consecutive, oldest first.
    live: VecDeque<Arc<Iteration>>,
    /// The number of the newest iteration.
    newest: u64,
    /// `Enter` nodes that have not run yet.
    missing_enters: usize,
    /// Values of invariants, for iterations to come.
    invariants: Vec<(u32, Values)>,
    /// Values for the next iteration, which may not begin before an earlier one is over.
    deferred: Vec<(u32, Values)>,
    /// `Exit` nodes that have passed on a value.
    exited: Vec<u32>,
}

impl Iteration {
    pub(super) fn root(layout: &FrameLayout) -> Iteration {
        Iteration::new(layout, None)
    }

    fn new(layout: &FrameLayout, home: Option<(Arc<Frame>, u64)>) -> Iteration {
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

impl Step {
    /// A value enters a loop.
    pub(super) fn enter(
        &self,
        node: u32,
        from: &IterationRef,
        outputs: &mut Values,
        is_dead: bool,
        ready: &mut ReadyList,
    ) {
        let item = &self.executable.nodes[node as usize];
        let frame = self.child_frame(from, item.child_frame);
        let mut state = frame.state.lock();
        if item.is_invariant {
            for iteration in &state.live {
                self.activate(node, &Some(iteration.clone()), &mut outputs.clone(), is_dead, ready);
            }
            state.invariants.push((node, std::mem::take(outputs)));
        } else if let Some(first) = state.live.front().cloned() {
            // The first iteration cannot be over while an Enter is missing.
            self.activate(node, &Some(first), outputs, is_dead, ready);
        }
        state.missing_enters -= 1;
        self.retire_iterations(&frame, state, ready);
    }

    /// A live value leaves a loop.
    pub(super) fn exit(
        &self,
        node: u32,
        from: &IterationRef,
        outputs: &mut Values,
        ready: &mut ReadyList,
    ) -> Result<()> {
        let Some((frame, _)) = from.as_ref().and_then(|iteration| iteration.home.as_ref()) else {
            return Ok(());
        };
        {
            let mut state = frame.state.lock();
            let is_first = !state.exited.contains(&node);
            ensure!(
                is_first,
                InvalidArgument,
                "the loop's exit has passed on a value before: it must follow a Switch"
            );
            state.exited.push(node);
        }
        self.activate(node, &frame.parent, outputs, false, ready);
        Ok(())
    }

    /// A live value goes on to the next iteration.
    pub(super) fn next_iteration(
        &self,
        node: u32,
        from: &IterationRef,
        outputs: &mut Values,
        ready: &mut ReadyList,
    ) {
        let Some((frame, index)) = from.as_ref().and_then(|iteration| iteration.home.as_ref()) else {
            return;
        };
        let mut state = frame.state.lock();
        if *index == state.newest {
            if state.live.len() >= self.executable.frames[frame.index as usize].parallel_iterations {
                state.deferred.push((node, std::mem::take(outputs)));
                return;
            }
            self.begin_iteration(frame, &mut state, ready);
        }
        let oldest = state.newest + 1 - state.live.len() as u64;
        if let Some(next) = state.live.get((index + 1 - oldest) as usize).cloned() {
            self.activate(node, &Some(next), outputs, false, ready);
        }
    }

    /// A node of `iteration` has run and its consequences are recorded.
    pub(super) fn node_finished(&self, iteration: &IterationRef, ready: &mut ReadyList) {
        let Some(iteration) = iteration else { return };
        if iteration.outstanding.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some((frame, _)) = &iteration.home
        {
            self.retire_iterations(frame, frame.state.lock(), ready);
        }
    }

    fn child_frame(&self, from: &IterationRef, index: FrameIndex) -> Arc<Frame> {
        let parent = self.iteration(from);
        let mut children = parent.children.lock();
        if let Some((_, frame)) = children.iter().find(|(child, _)| *child == index) {
            return frame.clone();
        }
        let layout = &self.executable.frames[index as usize];
        let around = parent.frame_iteration();
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
        parent.add_outstanding();
        children.push((index, frame.clone()));
        frame
    }

    fn begin_iteration(&self, frame: &Arc<Frame>, state: &mut FrameState, ready: &mut ReadyList) {
        state.newest += 1;
        let layout = &self.executable.frames[frame.index as usize];
        let iteration = Arc::new(Iteration::new(layout, Some((frame.clone(), state.newest))));
        state.live.push_back(iteration.clone());
        let iteration = Some(iteration);
        for (node, outputs) in &state.invariants {
            let is_dead = outputs.iter().all(Option::is_none);
            self.activate(*node, &iteration, &mut outputs.clone(), is_dead, ready);
        }
    }

    /// Drops iterations that are over, begins one that was deferred, and ends the frame, and then perhaps the one
    /// around it, after the last.
    fn retire_iterations<'a>(
        &self,
        frame: &'a Arc<Frame>,
        state: MutexGuard<'a, FrameState>,
        ready: &mut ReadyList,
    ) {
        let mut ended = self.retire_in(frame, state, ready);
        let mut current = frame.clone();
        while ended {
            let exited = std::mem::take(&mut current.state.lock().exited);
            for &exit in &self.executable.frames[current.index as usize].exits {
                if !exited.contains(&exit) {
                    self.activate(exit, &current.parent, &mut vec![None], true, ready);
                }
            }
            let parent = self.iteration(&current.parent);
            parent.children.lock().retain(|(_, child)| !Arc::ptr_eq(child, &current));
            let was_last = parent.outstanding.fetch_sub(1, Ordering::AcqRel) == 1;
            let Some((around, _)) = parent.home.as_ref().filter(|_| was_last) else { return };
            let around = around.clone();
            ended = self.retire_in(&around, around.state.lock(), ready);
            current = around;
        }
    }

    /// Returns whether the frame is over.
    fn retire_in(
        &self,
        frame: &Arc<Frame>,
        mut state: MutexGuard<'_, FrameState>,
        ready: &mut ReadyList,
    ) -> bool {
        while let Some(oldest) = state.live.front() {
            let is_over = oldest.outstanding.load(Ordering::Acquire) == 0 && state.missing_enters == 0;
            if !is_over {
                return false;
            }
            state.live.pop_front();
            if !state.deferred.is_empty() {
                let deferred = std::mem::take(&mut state.deferred);
                self.begin_iteration(frame, &mut state, ready);
                let newest = state.live.back().cloned();
                for (node, mut outputs) in deferred {
                    self.activate(node, &newest, &mut outputs, false, ready);
                }
            } else if state.live.is_empty() {
                return true;
            }
        }
        false
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
