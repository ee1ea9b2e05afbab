//! What becomes of a step when the executor itself panics.
//!
//! Kernels are guarded one by one (`node.rs`, `wait.rs`). But between them runs code of the executor, and with it code of others:
//! a value is dropped, an op says what its node costs, somebody is told that the step is given up. Should that panic, the nodes
//! that the thread had would never be retired, and whoever waits for the step would wait for ever.
//!
//! So each outstanding node is in the care of somebody, who retires it or says that it is lost:
//!
//! - a thread at work on the step counts the nodes in its care, and runs all of its job under one guard (`worker.rs`);
//! - nodes on their way to the pool, and a node whose wait is over, say so themselves when they are dropped (`handed_over.rs`,
//!   `wait.rs`); a node that waits is in the care of its kernel, whose `Done` completes it when it is dropped;
//! - whoever starts the step holds one more (`step.rs`).
//!
//! A node that was lost makes nobody ready, so what a panic left half-done is never seen by another node.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tensorfleet_core::Status;

use super::step::Step;

/// Nodes were dropped by those who were to run them.
pub(super) const NEVER_RUN: &str = "the thread that was to go on with the step has dropped it";

impl Step {
    /// Fails the step because something unforeseen happened at `node`, and retires the `count` nodes that will not run for it.
    #[cold]
    pub(super) fn lose(&self, why: &str, node: Option<u32>, count: usize) {
        // Those who are told of the failure may panic as well; the nodes are retired all the same.
        let _ = catch_unwind(AssertUnwindSafe(|| self.fail(self.lost_at(why, node))));
        let _ = catch_unwind(AssertUnwindSafe(|| self.retire_unrun(count)));
    }

    pub(super) fn lost_at(&self, why: &str, node: Option<u32>) -> Status {
        let device = &self.context.session.device;
        match node.and_then(|node| self.executable.nodes.get(node as usize)) {
            Some(item) => Status::internal(why).at_node(&item.name, &item.op, device),
            None => Status::internal(format!("{why} (between two nodes, on {device})")),
        }
    }
}
