//! [`ControlLoops`]: what a loop needs to run on several tasks.
//!
//! Each task runs its own part of a loop's frame. A part that only receives would not know how many iterations there
//! are, so it gets a loop of its own that computes nothing: an empty value that goes round as long as the real loop's
//! `LoopCond`, received anew in every iteration, says so. Its `Merge` fires once in each iteration, and every receive
//! of that frame on that device waits for it. The loop inside a loop enters from the `Merge` of the one around it.
//!
//! Before that, `Switch` and `Exit` move to their data input, `Enter` and `NextIteration` to their consumer: an edge
//! that leads into, out of or back in a frame must not cross tasks, because a receive belongs to one iteration.

use rustc_hash::FxHashMap;
use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{DType, Endpoint, Graph, Node, NodeId, Result, Status, ensure};
use tensorfleet_kernel::NodeSpec;
use tensorfleet_kernel::op::Flow;

use super::constants::empty_constant;
use super::device::DeviceIndex;
use super::frames::{EnterAttrs, FrameIndex, Frames};
use super::names::Names;
use super::step_graph::{Fetch, StepGraph, StepNode};
use super::tasks::Tasks;

/// The control loops of a step.
#[derive(Default)]
pub(super) struct ControlLoops {
    /// The frames of the original nodes, if there are any but the root.
    frames: Option<Frames>,
    merges: FxHashMap<(FrameIndex, DeviceIndex), NodeId>,
}

impl ControlLoops {
    /// Moves control flow where it belongs and adds control loops for all frames that cross tasks.
    pub(super) fn add(step: &mut StepGraph, tasks: &Tasks, names: &mut Names<'_>) -> Result<ControlLoops> {
        if !spans_tasks(step, tasks) {
            return Ok(ControlLoops::default());
        }
        move_control_flow(step);
        if !step.has_loops() {
            return Ok(ControlLoops::default());
        }
        let frames = find_frames(step, names)?;
        let conditions = loop_conditions(step, &frames);
        let mut builder = Builder { step, names, frames: &frames, conditions, merges: FxHashMap::default() };
        for (frame, device, near) in builder.crossings(tasks) {
            builder.control_loop(frame, device, near)?;
        }
        let merges = builder.merges;
        Ok(ControlLoops { frames: Some(frames), merges })
    }

    /// The node that fires in each iteration in which `device` receives from `source`; none outside loops.
    pub(super) fn merge_for(&self, source: NodeId, device: DeviceIndex) -> Result<Option<NodeId>> {
        let frame = self.frame_after(source);
        if frame == 0 {
            return Ok(None);
        }
        let merge = self.merges.get(&(frame, device)).copied();
        merge.map(Some).ok_or_else(|| Status::internal("a loop that crosses tasks has no control loop"))
    }

    /// Only a value outside loops exists once in a step.
    pub(super) fn check_fetchable(&self, fetch: &Fetch) -> Result<()> {
        ensure!(
            self.frame_after(fetch.source.node) == 0,
            InvalidArgument,
            "{}:{} is inside a loop and cannot be fetched. Fetch what the loop returns instead",
            fetch.boundary.name,
            fetch.boundary.slot
        );
        Ok(())
    }

    fn frame_after(&self, node: NodeId) -> FrameIndex {
        // Nodes added here only pass values on inside their device; `LoopCond`, which they receive, is an original.
        let frames = self.frames.as_ref();
        frames.and_then(|frames| frames.leads_to.get(node.index()).copied()).unwrap_or(0)
    }
}

fn spans_tasks(step: &StepGraph, tasks: &Tasks) -> bool {
    let mut devices = step.iter().filter_map(|(_, node)| node.device);
    let Some(first) = devices.next() else { return false };
    devices.any(|device| !tasks.are_together(first, device))
}

fn move_control_flow(step: &mut StepGraph) {
    // The first consumer of each node's data.
    let mut consumers: Vec<Option<NodeId>> = vec![None; step.nodes.len()];
    for (id, node) in step.iter() {
        for input in &node.node.inputs {
            consumers[input.node.index()].get_or_insert(id);
        }
    }
    let is_moved_forward = |step: &StepGraph, id: NodeId| {
        let node = step.get(id);
        matches!(node.op.flow, Flow::Enter | Flow::NextIteration)
            && !node.outputs.iter().any(|output| output.is_ref)
    };
    for (index, consumer) in consumers.into_iter().enumerate() {
        let Some(consumer) = consumer else { continue };
        if is_moved_forward(step, NodeId::from_index(index)) {
            step.nodes[index].device = step.get(consumer).device;
        }
    }
    // A switch may stand behind a switch. Graphs need not be sorted, so follow each chain to its start.
    let mut chain = Vec::new();
    let mut is_settled = vec![false; step.nodes.len()];
    for start in 0..step.nodes.len() {
        let mut index = start;
        while !is_settled[index] && matches!(step.nodes[index].op.flow, Flow::Switch | Flow::Exit) {
            is_settled[index] = true;
            chain.push(index);
            let Some(input) = step.nodes[index].node.inputs.first() else { break };
            index = input.node.index();
        }
        for index in chain.drain(..).rev() {
            let input = step.nodes[index].node.inputs.first();
            // What is fed is everywhere.
            if let Some(device) = input.and_then(|input| step.get(input.node).device) {
                step.nodes[index].device = Some(device);
            }
        }
    }
}

fn find_frames(step: &StepGraph, names: &Names<'_>) -> Result<Frames> {
    let mut graph = Graph::new();
    // What is gone keeps its place, without edges.
    let node = |index: usize| {
        let StepNode { node, device, is_gone, .. } = &step.nodes[index];
        match device {
            None => Node::new(names.reserved(format!("_feed_{index}")), "Feed"),
            Some(_) if *is_gone => Node::new(node.name.clone(), "NoOp"),
            Some(_) => node.clone(),
        }
    };
    graph.append((0..step.nodes.len()).map(node).collect())?;
    let flow = |id: NodeId| if step.get(id).is_gone { Flow::Plain } else { step.get(id).op.flow };
    let enter = |id: NodeId| {
        let spec = NodeSpec::resolve(&step.get(id).node, step.catalogue)?;
        Ok(EnterAttrs {
            frame_name: spec.attr("frame_name")?,
            parallel_iterations: spec.attr("parallel_iterations")?,
        })
    };
    Frames::find(&graph, flow, enter)
}

/// Per frame, the node that says whether to go on.
fn loop_conditions(step: &StepGraph, frames: &Frames) -> Vec<Option<NodeId>> {
    let mut conditions = vec![None; frames.infos.len()];
    for (id, _) in step.iter().filter(|(_, node)| &*node.node.op == "LoopCond") {
        conditions[frames.runs_in[id.index()] as usize].get_or_insert(id);
    }
    conditions
}

struct Builder<'a, 'b> {
    step: &'a mut StepGraph,
    names: &'a mut Names<'b>,
    frames: &'a Frames,
    conditions: Vec<Option<NodeId>>,
    merges: FxHashMap<(FrameIndex, DeviceIndex), NodeId>,
}

impl Builder<'_, '_> {
    /// The frames that receive from another task, with the device that does and a node there.
    fn crossings(&self, tasks: &Tasks) -> Vec<(FrameIndex, DeviceIndex, NodeId)> {
        let mut found = Vec::new();
        let mut seen = rustc_hash::FxHashSet::default();
        for (id, node) in self.step.iter() {
            let Some(to) = node.device else { continue };
            for producer in node.producers() {
                let frame = self.frames.leads_to[producer.index()];
                let crosses = |from| !tasks.are_together(from, to);
                if frame != 0
                    && self.step.get(producer).device.is_some_and(crosses)
                    && seen.insert((frame, to))
                {
                    found.push((frame, to, id));
                }
            }
        }
        found
    }

    /// Adds the control loop of `frame` on `device`, and those of the frames around it.
    fn control_loop(&mut self, frame: FrameIndex, device: DeviceIndex, near: NodeId) -> Result<()> {
        // From the outermost inwards.
        let mut missing = Vec::new();
        let mut outer = frame;
        while outer != 0 && !self.merges.contains_key(&(outer, device)) {
            missing.push(outer);
            outer = self.frames.infos[outer as usize].parent;
        }
        for frame in missing.into_iter().rev() {
            let merge = self.one_control_loop(frame, device, near)?;
            self.merges.insert((frame, device), merge);
        }
        Ok(())
    }

    fn one_control_loop(&mut self, frame: FrameIndex, device: DeviceIndex, near: NodeId) -> Result<NodeId> {
        let info = &self.frames.infos[frame as usize];
        let condition = self.conditions[frame as usize].ok_or_else(|| {
            Status::invalid_argument(format!(
                "A cross-device loop must have a pivot predicate: the loop '{}' has no LoopCond, but spans tasks",
                info.name
            ))
        })?;
        let near = self.step.get(near).node.name.clone();
        let start = match self.merges.get(&(info.parent, device)) {
            Some(&outer) => outer,
            None => {
                let node = empty_constant(&self.names.fresh(&near))?;
                self.step.add(node, device)?
            }
        };
        let mut enter = self.node(&near, "Enter", &[Endpoint::new(start, 0)]);
        enter.attrs.insert("frame_name".into(), info.name.as_str().into_attr());
        enter.attrs.insert("parallel_iterations".into(), (info.parallel_iterations as i64).into_attr());
        let enter = Endpoint::new(self.step.add(enter, device)?, 0);
        // The second input of the merge is the end of the loop, which does not exist yet.
        let mut merge = self.node(&near, "Merge", &[enter, enter]);
        merge.attrs.insert("N".into(), 2i64.into_attr());
        let merge = self.step.add(merge, device)?;
        let switch = self.node(&near, "Switch", &[Endpoint::new(merge, 0), Endpoint::new(condition, 0)]);
        let switch = self.step.add(switch, device)?;
        let next = self.node(&near, "NextIteration", &[Endpoint::new(switch, 1)]);
        let next = self.step.add(next, device)?;
        self.step.nodes[merge.index()].node.inputs[1] = Endpoint::new(next, 0);
        Ok(merge)
    }

    fn node(&mut self, near: &str, op: &str, inputs: &[Endpoint]) -> Node {
        let mut node = Node::new(self.names.fresh(&format!("_cloop{near}")), op);
        node.attrs.insert("T".into(), DType::Float.into_attr());
        node.inputs = inputs.to_vec();
        node
    }
}
