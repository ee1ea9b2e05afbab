//! Kernels that write a variable, at most once for each request that is numbered; see [`crate::applied_updates`].

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;
use tensorfleet_core::Result;

use super::NodeSpec;
use crate::kernel::{Context, FrameIteration, Kernel, KernelBox};

/// A kernel that writes a variable, at most once for each request that says which one it is.
struct Once {
    /// The node, whichever session it is in.
    node: u64,
    kernel: Box<dyn Kernel>,
}

impl Kernel for Once {
    fn compute(&self, ctx: &mut Context<'_>) -> Result<()> {
        let Some(applied) = ctx.step.applied.clone() else { return self.kernel.compute(ctx) };
        let update = update_in(self.node, ctx.frame);
        if applied.claim(update) {
            return self.kernel.compute(ctx).inspect_err(|_| applied.withdraw(update));
        }
        if !ctx.outputs.is_empty() {
            ctx.forward(0, 0);
        }
        Ok(())
    }
}

/// The kernel of a node as it is run: one that writes a variable does so once for each request.
pub(super) fn once_per_request(node: &NodeSpec<'_>, kernel: KernelBox) -> KernelBox {
    match kernel {
        KernelBox::Sync(kernel) if node.op().writes_variable => {
            let mut hasher = FxHasher::default();
            node.name().hash(&mut hasher);
            KernelBox::new(Once { node: hasher.finish(), kernel })
        }
        kernel => kernel,
    }
}

/// In a loop a node writes once in each iteration.
fn update_in(node: u64, frame: FrameIteration) -> u64 {
    if frame == FrameIteration::default() {
        return node;
    }
    let mut hasher = FxHasher::default();
    (node, frame.frame_id, frame.iteration).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_in_a_loop_makes_another_update_in_each_iteration() {
        let frame = FrameIteration { frame_id: 1, iteration: 2 };
        assert_ne!(update_in(7, frame), update_in(7, FrameIteration::default()));
    }
}
