//! [`Ready`]: a node that may run now.

use super::iteration::IterationRef;

/// A node that may run now.
pub(super) struct Ready {
    pub(super) node: u32,
    pub(super) iteration: IterationRef,
    pub(super) is_dead: bool,
    /// Whether it counts as expensive work of the thread that holds it.
    pub(super) is_expensive: bool,
    /// The size of its inputs, if that makes it possible that it is expensive: then its time is of interest.
    pub(super) weight_bytes: Option<usize>,
}

impl Ready {
    pub(super) fn new(node: u32, iteration: IterationRef, is_dead: bool) -> Ready {
        Ready { node, iteration, is_dead, is_expensive: false, weight_bytes: None }
    }
}

/// Nodes that became ready and are not yet given to a thread.
pub(super) type ReadyList = Vec<Ready>;
