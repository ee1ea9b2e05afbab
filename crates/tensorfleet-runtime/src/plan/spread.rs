//! Small constants stand wherever they are used, instead of travelling in every step.
//!
//! A program's constants are on the task that its nodes are on by default: with a replica device setter, the learning
//! rate of an optimizer is on the worker, and what uses it is on the parameter server. To ask for a value that never
//! changes, in each step, costs more than the value.

use rustc_hash::FxHashMap;
use tensorfleet_core::{Endpoint, NodeId, Result};
use tensorfleet_proto::Message;

use super::constants::is_constant;
use super::device::DeviceIndex;
use super::names::Names;
use super::step_graph::StepGraph;
use super::tasks::Tasks;

/// Bigger ones travel: who put them on a task may have meant their memory.
const MAX_BYTES: usize = 4 << 10;

/// Gives each task that uses a small constant of another task a copy of it.
pub(super) fn spread_constants(step: &mut StepGraph, tasks: &Tasks, names: &mut Names<'_>) -> Result<()> {
    let mut copies: FxHashMap<(NodeId, DeviceIndex), NodeId> = FxHashMap::default();
    for index in 0..step.nodes.len() {
        let Some(device) = step.nodes[index].device.filter(|_| !step.nodes[index].is_gone) else { continue };
        for slot in 0..step.nodes[index].node.inputs.len() {
            let source = step.nodes[index].node.inputs[slot].node;
            if !is_small_and_elsewhere(step, source, device, tasks) {
                continue;
            }
            let copy = match copies.get(&(source, device)) {
                Some(&copy) => copy,
                None => {
                    let mut node = step.get(source).node.clone();
                    node.name = names.fresh(&node.name).into();
                    let copy = step.add(node, device)?;
                    copies.insert((source, device), copy);
                    copy
                }
            };
            step.nodes[index].node.inputs[slot] = Endpoint::new(copy, 0);
        }
    }
    Ok(())
}

fn is_small_and_elsewhere(step: &StepGraph, source: NodeId, device: DeviceIndex, tasks: &Tasks) -> bool {
    let source = step.get(source);
    let is_elsewhere = source.device.is_some_and(|from| !tasks.are_together(from, device));
    is_elsewhere
        && is_constant(source)
        && source.node.attrs.get("value").is_some_and(|value| value.encoded_len() <= MAX_BYTES)
}
