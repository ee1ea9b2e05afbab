//! Loops at run time: values enter, leave and go round, and iterations end.
//!
//! An iteration is over when nothing in it runs or can run any more and all earlier ones are over; the frame is over when
//! its last iteration is, and then every `Exit` that has not passed on a value passes on deadness, so that nobody outside
//! waits in vain.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;
use tensorfleet_core::{Result, ensure, memory};

use super::executable::FrameLayout;
use super::iteration::{Frame, FrameState, Iteration, IterationRef, Values};
use super::ready::ReadyList;
use super::step::Step;
use crate::plan::FrameIndex;

/// Fewer iterations at a time are let in without a look at memory. Most loops say ten.
const FEW_ITERATIONS: usize = 64;

/// Whether a loop that lets any number of iterations run at a time has so many that they should not become more.
fn is_crowded(layout: &FrameLayout, live: usize) -> bool {
    live >= FEW_ITERATIONS && memory::check_fits(layout.iteration_bytes().saturating_mul(live)).is_err()
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
            let layout = &self.executable.frames[frame.index as usize];
            if state.live.len() >= layout.parallel_iterations || is_crowded(layout, state.live.len()) {
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
        let frame = Frame::begin(layout, index, from, parent.frame_iteration());
        parent.add_outstanding();
        children.push((index, frame.clone()));
        frame
    }

    fn begin_iteration(&self, frame: &Arc<Frame>, state: &mut FrameState, ready: &mut ReadyList) {
        let layout = &self.executable.frames[frame.index as usize];
        let iteration = Arc::new(Iteration::new(layout, Some((frame.clone(), state.newest + 1))));
        // Both or none, whatever panics: by these two numbers others find the slots of an iteration.
        state.live.push_back(iteration.clone());
        state.newest += 1;
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
