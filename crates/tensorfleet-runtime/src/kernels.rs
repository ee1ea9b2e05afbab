//! [`Kernels`]: the kernels of a session, by node name.
//!
//! The state some kernels have (a random stream, a private queue) is one per node of the session, not one per plan: an
//! enqueue in one step and a dequeue in another meet in the same queue. So kernels of stateful ops are kept.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tensorfleet_core::{Node, Result};
use tensorfleet_kernel::NodeSpec;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::op::Flow;

use crate::executor::KernelSource;

/// Kernels by node name.
pub struct Kernels {
    keeps: Keeps,
    kept: Mutex<FxHashMap<Arc<str>, Kept>>,
}

/// Which kernels are kept from plan to plan.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    All,
    Stateful,
}

struct Kept {
    node: Node,
    kernel: Arc<KernelBox>,
}

impl Kernels {
    /// For plans that are all cut from one graph: a name always means the same node, so every kernel is kept, and a big
    /// constant is there once.
    pub fn for_one_graph() -> Kernels {
        Kernels { keeps: Keeps::All, kept: Mutex::default() }
    }

    /// For graphs that a master sends. It may have rewritten stateless nodes differently each time.
    pub fn for_foreign_graphs() -> Kernels {
        Kernels { keeps: Keeps::Stateful, kept: Mutex::default() }
    }

    /// Forgets all; resources that belong to kernels, such as private queues, go with them.
    pub fn clear(&self) {
        let kept = std::mem::take(&mut *self.kept.lock());
        drop(kept);
    }

    fn is_kept(&self, node: &NodeSpec<'_>) -> bool {
        match self.keeps {
            Keeps::All => true,
            // Sends and receives count as stateful, but have no state of their own.
            Keeps::Stateful => node.op().stateful && node.op().flow != Flow::Transfer,
        }
    }
}

impl KernelSource for Kernels {
    fn kernel(&self, spec: &NodeSpec<'_>) -> Result<Arc<KernelBox>> {
        let node = spec.node();
        if !self.is_kept(spec) {
            return spec.kernel().map(Arc::new);
        }
        let is_same = |kept: &Kept| kept.node.op == node.op && kept.node.attrs == node.attrs;
        if let Some(kept) = self.kept.lock().get(&*node.name).filter(|kept| is_same(kept)) {
            return Ok(kept.kernel.clone());
        }
        let kernel = Arc::new(spec.kernel()?);
        let mut kept = self.kept.lock();
        let entry = kept.entry(node.name.clone()).or_insert_with(|| {
            let mut node = node.clone();
            (node.inputs, node.control_inputs) = Default::default();
            Kept { node, kernel: kernel.clone() }
        });
        // Another node of the same name has kept its place: this one gets a kernel of its own.
        Ok(if is_same(entry) { entry.kernel.clone() } else { kernel })
    }
}
