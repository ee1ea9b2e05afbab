//! Simplifying a step before it is cut: fewer nodes, fewer transfers, the same results.
//!
//! One pass over the nodes, producers first. Each node first has its edges led to what its producers became; then
//! control edges go that order nothing; then it is computed, if it is constant ([`Folder`]), or gives way to an equal
//! node on its device. Then small constants are copied to where they are used ([`spread_constants`]), and what nothing
//! needs any more falls away.
//!
//! Only what cannot change a result is touched. Nodes with state, control flow, and whatever passes a variable on stay
//! as they are, because when they run, how often and with what deadness is part of the program. No edge is dropped
//! that an effect waits for: an edge on `Identity` becomes one on its input, an edge on a constant waits for nothing.

use rustc_hash::FxHashMap;
use tensorfleet_core::{Endpoint, NodeId, Result};
use tensorfleet_kernel::op::Flow;
use tensorfleet_proto::Message;

use super::constants::is_constant;
use super::fold::Folder;
use super::names::Names;
use super::spread::spread_constants;
use super::step_graph::{StepGraph, StepNode};
use super::tasks::Tasks;

/// Nodes with bigger attributes are not compared: they are constants, and rarely equal.
const MAX_COMPARED_BYTES: usize = 4 << 10;

/// How far a control edge is followed through identities.
const MAX_CHAIN: usize = 64;

/// Simplifies `step` in place.
pub(super) fn simplify(step: &mut StepGraph, tasks: &Tasks, names: &mut Names<'_>) -> Result<()> {
    let order = step.forward_order();
    let mut pass = Pass {
        folder: Folder::default(),
        equals: FxHashMap::default(),
        moved: FxHashMap::default(),
        same_as: vec![None; step.nodes.len()],
        passes_variable: vec![false; step.nodes.len()],
    };
    for id in order {
        pass.visit(step, id, names)?;
    }
    for fetch in &mut step.fetches {
        fetch.source = pass.endpoint(fetch.source);
    }
    for target in &mut step.targets {
        *target = pass.node(*target);
    }
    spread_constants(step, tasks, names)?;
    drop_unneeded(step);
    Ok(())
}

struct Pass {
    folder: Folder,
    /// Nodes by all that determines their outputs.
    equals: FxHashMap<Vec<u8>, NodeId>,
    /// Outputs that another node has now.
    moved: FxHashMap<Endpoint, Endpoint>,
    /// Per original node, the equal one that stands in for it.
    same_as: Vec<Option<NodeId>>,
    /// Per original node, whether its output is, or may be, a variable itself.
    passes_variable: Vec<bool>,
}

impl Pass {
    fn visit(&mut self, step: &mut StepGraph, id: NodeId, names: &Names<'_>) -> Result<()> {
        self.passes_variable[id.index()] = self.is_variable(step, id);
        self.redirect(step, id);
        if step.get(id).op.flow != Flow::Plain || step.get(id).device.is_none() {
            return Ok(());
        }
        self.tidy_control_inputs(step, id);
        if let Some(outputs) = self.folder.fold(step, id, names)? {
            for (slot, output) in outputs.into_iter().enumerate() {
                let old = Endpoint::new(id, slot as u32);
                if old != output {
                    self.moved.insert(old, output);
                }
            }
        }
        if let Some(key) = self.key(step, id) {
            let first = *self.equals.entry(key).or_insert(id);
            if first != id {
                self.same_as[id.index()] = Some(first);
                step.nodes[id.index()].is_gone = true;
            }
        }
        Ok(())
    }

    fn endpoint(&self, endpoint: Endpoint) -> Endpoint {
        let endpoint = self.moved.get(&endpoint).copied().unwrap_or(endpoint);
        Endpoint::new(self.node(endpoint.node), endpoint.slot)
    }

    fn node(&self, node: NodeId) -> NodeId {
        // Nodes that this pass added have no equals.
        self.same_as.get(node.index()).copied().flatten().unwrap_or(node)
    }

    fn redirect(&self, step: &mut StepGraph, id: NodeId) {
        let node = &mut step.nodes[id.index()].node;
        for input in &mut node.inputs {
            *input = self.endpoint(*input);
        }
        for before in &mut node.control_inputs {
            *before = self.node(*before);
        }
    }

    /// Whether the node hands on a variable: by declaration, or as an `Identity` of one, which shares its memory.
    fn is_variable(&self, step: &StepGraph, id: NodeId) -> bool {
        let node = step.get(id);
        let takes_variable = || node.node.inputs.iter().any(|input| self.passes_variable[input.node.index()]);
        node.outputs.iter().any(|output| output.is_ref) || (node.op.passes_through && takes_variable())
    }

    /// Drops control edges that the node would not notice.
    fn tidy_control_inputs(&self, step: &mut StepGraph, id: NodeId) {
        if step.get(id).node.control_inputs.is_empty() {
            return;
        }
        let mut control_inputs = std::mem::take(&mut step.nodes[id.index()].node.control_inputs);
        for before in &mut control_inputs {
            *before = self.what_it_waits_for(step, *before);
        }
        let node = step.get(id);
        control_inputs.retain(|&before| {
            let producer = step.get(before);
            let is_input = || node.node.inputs.iter().any(|input| input.node == before);
            // A feed is there before the step starts. A plain node that also gives data has run when that comes.
            let is_idle = producer.device.is_none() || is_constant(producer);
            let is_implied = producer.op.flow == Flow::Plain && is_input();
            !is_idle && !is_implied
        });
        control_inputs.sort_unstable();
        control_inputs.dedup();
        step.nodes[id.index()].node.control_inputs = control_inputs;
    }

    /// The node that must have run for `before` to be able to. An identity adds nothing to its input, unless that is
    /// one side of a switch, which may be dead where the switch is not, or a variable, which it reads.
    fn what_it_waits_for(&self, step: &StepGraph, mut before: NodeId) -> NodeId {
        for _ in 0..MAX_CHAIN {
            let node = step.get(before);
            let ([input], []) = (&node.node.inputs[..], &node.node.control_inputs[..]) else { break };
            let reads = self.passes_variable.get(input.node.index()).copied().unwrap_or(false);
            if !node.op.passes_through || reads || step.get(input.node).op.flow != Flow::Plain {
                break;
            }
            before = input.node;
        }
        before
    }

    /// What determines the outputs of a node, if an equal node could take its place.
    fn key(&self, step: &StepGraph, id: NodeId) -> Option<Vec<u8>> {
        let StepNode { node, op, device, .. } = step.get(id);
        let has_one_meaning = !op.stateful
            && !op.never_merged
            && !self.passes_variable[id.index()]
            && !node.inputs.iter().any(|input| self.takes_variable(input.node));
        if !has_one_meaning
            || node.attrs.values().map(Message::encoded_len).sum::<usize>() > MAX_COMPARED_BYTES
        {
            return None;
        }
        let mut key = Vec::with_capacity(128);
        let mut part = |bytes: &[u8]| {
            key.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            key.extend_from_slice(bytes);
        };
        part(op.name.as_bytes());
        part(&(device.as_ref()?.index() as u64).to_le_bytes());
        part(&(node.inputs.len() as u64).to_le_bytes());
        for input in &node.inputs {
            part(&(input.node.index() as u64).to_le_bytes());
            part(&input.slot.to_le_bytes());
        }
        let mut control_inputs = node.control_inputs.clone();
        control_inputs.sort_unstable();
        part(&(control_inputs.len() as u64).to_le_bytes());
        control_inputs.iter().for_each(|before| part(&(before.index() as u64).to_le_bytes()));
        // Attributes with an underscore are notes, on placement and shapes for instance.
        for (name, value) in node.attrs.iter().filter(|(name, _)| !name.starts_with('_')) {
            part(name.as_bytes());
            part(&value.encode_to_vec());
        }
        Some(key)
    }

    fn takes_variable(&self, producer: NodeId) -> bool {
        self.passes_variable.get(producer.index()).copied().unwrap_or(false)
    }
}

/// Marks as gone what no fetch and no target needs.
fn drop_unneeded(step: &mut StepGraph) {
    let mut is_needed = vec![false; step.nodes.len()];
    let mut stack: Vec<NodeId> = step.targets.clone();
    stack.extend(step.fetches.iter().map(|fetch| fetch.source.node));
    while let Some(id) = stack.pop() {
        if !std::mem::replace(&mut is_needed[id.index()], true) {
            stack.extend(step.get(id).producers());
        }
    }
    for (node, is_needed) in step.nodes.iter_mut().zip(is_needed) {
        node.is_gone |= !is_needed && node.device.is_some();
    }
}
