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
use tensorfleet_proto::tensorflow::AttrValue;

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

    /// Forgets those that no plan has any more, with the resources that belong to them.
    pub fn forget_unused(&self) {
        let mut unused = Vec::new();
        self.kept.lock().retain(|_, kept| {
            let is_used = Arc::strong_count(&kept.kernel) > 1;
            if !is_used {
                unused.push(kept.kernel.clone());
            }
            is_used
        });
        // What they own goes here, not under the lock.
        drop(unused);
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.kept.lock().len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn is_kept(&self, node: &NodeSpec<'_>) -> bool {
        match self.keeps {
            Keeps::All => true,
            // Sends and receives count as stateful, but have no state of their own.
            Keeps::Stateful => node.op().stateful && node.op().flow != Flow::Transfer,
        }
    }
}

/// Whether two nodes have the same attributes. Those with an underscore in front are a master's notes, such as the shapes
/// it has inferred; they differ from graph to graph and say nothing to a kernel.
fn have_equal_attrs(one: &Node, other: &Node) -> bool {
    let of_kernel = |(name, _): &(&String, &AttrValue)| !name.starts_with('_');
    one.attrs.iter().filter(of_kernel).eq(other.attrs.iter().filter(of_kernel))
}

impl KernelSource for Kernels {
    fn kernel(&self, spec: &NodeSpec<'_>) -> Result<Arc<KernelBox>> {
        let node = spec.node();
        if !self.is_kept(spec) {
            return spec.kernel().map(Arc::new);
        }
        let is_same = |kept: &Kept| kept.node.op == node.op && have_equal_attrs(&kept.node, node);
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
