//! Whether a node is worth another thread: by the size of its inputs, until its own time is known.

use std::time::Duration;

use tensorfleet_core::Tensor;
use tensorfleet_kernel::kernel::Value;
use tensorfleet_kernel::op::{Cost, Flow};

use super::executable::ExecNode;
use super::ready::Ready;
use super::step::Step;

/// Inputs of a `Linear` node above this size are worth another thread, as long as nothing is known about its time.
const EXPENSIVE_LINEAR_BYTES: usize = 256 << 10;
/// The same for a `Heavy` node.
const EXPENSIVE_HEAVY_BYTES: usize = 16 << 10;

impl Step {
    /// Whether a node may be worth another thread, as one is that takes `from` or more.
    pub(super) fn is_expensive(&self, ready: &mut Ready, from: Duration) -> bool {
        let item = &self.executable.nodes[ready.node as usize];
        if item.waits_for_disk {
            return true;
        }
        ready.weight_bytes = self.weight(item, ready);
        let may_be_long = |bytes| item.stats.usual_time(bytes).is_none_or(|time| time >= from);
        ready.weight_bytes.is_some_and(may_be_long)
    }

    /// How long a node takes that has been weighed, if that is known.
    pub(super) fn usual_time(&self, ready: &Ready) -> Option<Duration> {
        self.executable.nodes[ready.node as usize].stats.usual_time(ready.weight_bytes?)
    }

    /// The size of a node's inputs, if that makes it possible that it is expensive.
    fn weight(&self, item: &ExecNode, ready: &Ready) -> Option<usize> {
        let limit = match item.cost {
            Cost::Trivial => return None,
            Cost::Linear | Cost::Shaped => EXPENSIVE_LINEAR_BYTES,
            Cost::Heavy => EXPENSIVE_HEAVY_BYTES,
        };
        if ready.is_dead || item.flow != Flow::Plain {
            return None;
        }
        let slots = &self.iteration(&ready.iteration).slots;
        if item.cost == Cost::Shaped {
            // SAFETY: the node is ready and not running: all its producers are done, and only this thread has it.
            let bytes = match unsafe { slots.peek(item.first_slot) } {
                Some(Value::Tensor(shape)) => shaped_bytes(shape),
                _ => 0,
            };
            return (bytes >= limit).then_some(bytes);
        }
        let bytes = |slot: u32| {
            // SAFETY: the node is ready and not running: all its producers are done, and only this thread has it.
            match unsafe { slots.peek(slot) } {
                Some(Value::Tensor(tensor)) if tensor.dtype().is_plain() => tensor.byte_size(),
                // A node that looks at a variable, or updates rows of it, does not walk over the whole: the other inputs tell.
                Some(Value::Ref(_)) if item.touches_rows => 0,
                // No snapshot: a writer that comes meanwhile would copy the value.
                Some(Value::Ref(variable)) => {
                    variable.inspect(|tensor| Ok(tensor.byte_size())).unwrap_or_default()
                }
                _ => 0,
            }
        };
        let total = (0..item.num_inputs).map(|input| bytes(item.first_slot + input)).sum::<usize>();
        (total >= limit).then_some(total)
    }
}

/// About how many bytes a tensor of the shape has that another one describes.
fn shaped_bytes(shape: &Tensor) -> usize {
    let product = |dims: &mut dyn Iterator<Item = i64>| {
        dims.fold(size_of::<f32>(), |bytes, dim| bytes.saturating_mul(usize::try_from(dim).unwrap_or(0)))
    };
    match (shape.as_slice::<i32>(), shape.as_slice::<i64>()) {
        (Ok(dims), _) => product(&mut dims.iter().map(|&dim| i64::from(dim))),
        (_, Ok(dims)) => product(&mut dims.iter().copied()),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fill_weighs_what_it_fills_and_not_what_describes_it() {
        let weight = |shape: Tensor| shaped_bytes(&shape);
        assert_eq!(weight(Tensor::vector(&[1000i32, 64]).unwrap()), 256_000);
        assert_eq!(weight(Tensor::vector(&[1i64 << 40, 1 << 40]).unwrap()), usize::MAX);
        assert_eq!(weight(Tensor::vector(&[-1i32, 5]).unwrap()), 0);
        assert_eq!(weight(Tensor::vector(&[1.5f32]).unwrap()), 0);
    }
}
