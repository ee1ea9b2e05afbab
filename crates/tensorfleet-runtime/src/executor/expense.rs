//! What a node will cost, before it runs: whether it is worth another thread, and whether a thread that serves sockets may run it.
//!
//! The two are not the same. A thread that has all the time gives a node away if that is likely to pay, so it asks for the size
//! of the inputs and, where that is known, for the time such a node took. A thread that serves sockets runs what is *known* to be
//! short: what its op says of itself ([`Work`]) must bound it, by the size of inputs and result, or by times measured elsewhere.
//! What nobody knows goes to the node pool, however small it looks.

use std::time::Duration;

use tensorfleet_core::{DType, Tensor};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::Value;
use tensorfleet_kernel::op::{Cost, Flow};
use tensorfleet_kernel::work::{NodeInputs, broadcast};

use super::executable::{Body, ExecNode};
use super::ready::Ready;
use super::slots::Slots;
use super::step::Step;

/// Inputs or results of a `Linear` node above this size are worth another thread, as long as nothing is known about its time.
const EXPENSIVE_LINEAR_BYTES: usize = 256 << 10;
/// The same for a `Heavy` node.
const EXPENSIVE_HEAVY_BYTES: usize = 16 << 10;
/// What a string weighs besides its bytes: touching one takes about as long as this many bytes of numbers.
const STRING_BYTES: usize = 32;

/// What is known of a node's cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Expense {
    /// It is short.
    Short,
    /// It may be worth another thread.
    Expensive,
    /// Nothing, though it may well be short.
    Unknown,
}

impl Step {
    /// What a node costs, if one is expensive that takes `from` or more.
    pub(super) fn expense(&self, ready: &mut Ready, from: Duration) -> Expense {
        let item = &self.executable.nodes[ready.node as usize];
        if item.waits_for_disk {
            return Expense::Expensive;
        }
        if ready.is_dead || matches!(item.body, Body::Argument(_) | Body::Result(_)) {
            return Expense::Short;
        }
        let inputs = Peek { item, slots: &self.iteration(&ready.iteration).slots };
        // A merge may run before its other producers have: nobody looks at its inputs.
        if item.references.is_some() && item.flow != Flow::Merge && inputs.must_wait() {
            return Expense::Unknown;
        }
        let limit = match item.cost {
            Cost::Trivial => return Expense::Short,
            _ if item.flow != Flow::Plain => return Expense::Short,
            Cost::Linear => EXPENSIVE_LINEAR_BYTES,
            Cost::Heavy => EXPENSIVE_HEAVY_BYTES,
        };
        let elements = match item.work {
            Work::Unknown | Work::Inputs | Work::Measured => Some(0),
            Work::Broadcast => broadcast(&inputs),
            Work::Values(elements) => elements(&inputs),
        };
        let result = elements.map(|elements| elements.saturating_mul(size_of::<f32>()));
        let bytes = inputs.bytes(limit).max(result.unwrap_or(0));
        let usual_time = item.stats.usual_time(bytes);
        let is_measured = matches!(item.work, Work::Measured);
        if bytes >= limit || is_measured {
            ready.weight_bytes = Some(bytes);
        }
        if bytes >= limit && usual_time.is_none_or(|time| time >= from) {
            return Expense::Expensive;
        }
        match item.work {
            Work::Measured => match usual_time {
                Some(time) if time >= from => Expense::Expensive,
                Some(_) => Expense::Short,
                None => Expense::Unknown,
            },
            Work::Unknown => Expense::Unknown,
            _ if result.is_none() => Expense::Unknown,
            _ => Expense::Short,
        }
    }

    /// How long a node takes that has been weighed, if that is known.
    pub(super) fn usual_time(&self, ready: &Ready) -> Option<Duration> {
        let item = &self.executable.nodes[ready.node as usize];
        match item.work {
            Work::Unknown => None,
            _ => item.stats.usual_time(ready.weight_bytes?),
        }
    }
}

/// The inputs of a node that is ready.
struct Peek<'a> {
    item: &'a ExecNode,
    slots: &'a Slots<Value>,
}

impl<'a> Peek<'a> {
    fn value(&self, index: usize) -> Option<&'a Value> {
        let index = u32::try_from(index).ok().filter(|&index| index < self.item.num_inputs)?;
        // SAFETY: the node is ready and not running: all its producers are done, and only this thread has it.
        unsafe { self.slots.peek(self.item.first_slot + index) }
    }

    fn values(&self) -> impl Iterator<Item = &'a Value> {
        (0..self.count()).filter_map(|index| self.value(index))
    }

    /// Whether it reads a variable that somebody is writing.
    fn must_wait(&self) -> bool {
        self.values().any(|value| matches!(value, Value::Ref(variable) if variable.is_being_written()))
    }

    /// The size of all inputs; it is not counted much beyond `enough`.
    fn bytes(&self, enough: usize) -> usize {
        self.values().map(|value| self.bytes_of(value, enough)).fold(0, usize::saturating_add)
    }

    fn bytes_of(&self, value: &Value, enough: usize) -> usize {
        match value {
            Value::Tensor(tensor) => tensor_bytes(tensor, enough),
            // A node that looks at a variable, or updates rows of it, does not walk over the whole: the other inputs tell.
            Value::Ref(_) if self.item.touches_rows => 0,
            // No snapshot: a writer that comes meanwhile would copy the value.
            Value::Ref(variable) => {
                variable.inspect(|tensor| Ok(tensor_bytes(tensor, enough))).unwrap_or_default()
            }
        }
    }
}

impl NodeInputs for Peek<'_> {
    fn count(&self) -> usize {
        self.item.num_inputs as usize
    }

    fn tensor(&self, index: usize) -> Option<&Tensor> {
        match self.value(index)? {
            Value::Tensor(tensor) => Some(tensor),
            Value::Ref(_) => None,
        }
    }
}

/// The size of a tensor, strings included. Counting stops once there is `enough`.
fn tensor_bytes(tensor: &Tensor, enough: usize) -> usize {
    if tensor.dtype() != DType::String {
        return if tensor.dtype().is_plain() { tensor.byte_size() } else { 0 };
    }
    let mut bytes = 0;
    for string in tensor.as_strings().unwrap_or_default() {
        bytes += STRING_BYTES + string.len();
        if bytes >= enough {
            break;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_weigh_what_is_in_them_as_far_as_it_matters() {
        let weight = |strings: &[&'static str]| {
            let texts = strings.iter().map(|&string| string.into()).collect();
            tensor_bytes(&Tensor::from_strings(texts, &[strings.len()]).unwrap(), 1000)
        };
        assert_eq!(weight(&["ab", ""]), 2 + 2 * STRING_BYTES);
        assert!((1000..1100).contains(&weight(&["x"; 100_000])));
        assert_eq!(tensor_bytes(&Tensor::vector(&[1f32; 100]).unwrap(), 10), 400);
    }
}
