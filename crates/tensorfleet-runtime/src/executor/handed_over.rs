//! [`HandedOver`]: ready nodes on their way to a thread of the node pool.

use std::sync::Arc;

use tensorfleet_kernel::continuation::Resume;

use super::panics::NEVER_RUN;
use super::ready::ReadyList;
use super::step::Step;

/// Ready nodes that another thread is to run. If they are dropped on the way (the pool cannot start a thread, or is gone),
/// their step fails: it would wait for them for ever.
pub(super) struct HandedOver {
    step: Arc<Step>,
    /// Empty once they have arrived.
    nodes: ReadyList,
}

impl HandedOver {
    pub(super) fn new(step: Arc<Step>, nodes: ReadyList) -> HandedOver {
        HandedOver { step, nodes }
    }

    /// Runs them, on this thread.
    pub(super) fn run(mut self) {
        let nodes = std::mem::take(&mut self.nodes);
        self.step.run_nodes(nodes, Resume::OnPool);
    }
}

impl Step {
    /// Has a thread of the node pool run these nodes.
    pub(super) fn run_on_pool(self: &Arc<Step>, nodes: ReadyList) {
        let nodes = HandedOver::new(self.clone(), nodes);
        self.context.session.threads.nodes().spawn(move || nodes.run());
    }
}

impl Drop for HandedOver {
    fn drop(&mut self) {
        if let Some(first) = self.nodes.first() {
            self.step.lose(NEVER_RUN, Some(first.node), self.nodes.len());
        }
    }
}
