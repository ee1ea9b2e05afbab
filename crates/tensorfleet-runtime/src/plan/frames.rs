//! Which frame each node runs in: the loops of a graph, found before it runs.
//!
//! `Enter` leads from a frame into a child frame named by its attribute, `Exit` leads back; everything else stays in
//! the frame of its inputs. All inputs of a node must agree, or values of different iterations would meet. A graph
//! that breaks this is refused here, which the executor's slots rely on.

use rustc_hash::FxHashMap;
use tensorfleet_core::{Graph, NodeId, Result, Status, ensure};
use tensorfleet_kernel::op::Flow;

/// The index of a frame; 0 is the root.
pub(crate) type FrameIndex = u32;

/// A loop of the graph.
pub(crate) struct FrameInfo {
    /// The frame's name, as its `Enter` nodes give it.
    pub(crate) name: String,
    /// The frame around it; the root is its own parent.
    pub(crate) parent: FrameIndex,
    /// How many iterations may be under way at once.
    pub(crate) parallel_iterations: usize,
}

/// The loops of a graph, and where each node runs.
pub(crate) struct Frames {
    pub(crate) infos: Vec<FrameInfo>,
    /// Per node, the frame it runs in.
    pub(crate) runs_in: Vec<FrameIndex>,
    /// Per node, the frame its outputs are in.
    pub(crate) leads_to: Vec<FrameIndex>,
}

/// What an `Enter` node says about its frame.
pub(crate) struct EnterAttrs {
    pub(crate) frame_name: String,
    pub(crate) parallel_iterations: i64,
}

impl Frames {
    /// Finds the frames of `graph`. `flow` tells the part each node plays, `enter` reads an `Enter` node's attributes.
    pub(crate) fn find(
        graph: &Graph,
        flow: impl Fn(NodeId) -> Flow,
        enter: impl Fn(NodeId) -> Result<EnterAttrs>,
    ) -> Result<Frames> {
        let root = FrameInfo { name: String::new(), parent: 0, parallel_iterations: 1 };
        let mut frames =
            Frames { infos: vec![root], runs_in: vec![0; graph.len()], leads_to: vec![0; graph.len()] };
        if !graph.iter().any(|(id, _)| flow(id) == Flow::Enter) {
            let stray = graph.iter().find(|(id, _)| matches!(flow(*id), Flow::Exit | Flow::NextIteration));
            return match stray {
                None => Ok(frames),
                Some((_, node)) => Err(outside_loop(&node.name)),
            };
        }
        let mut children: FxHashMap<String, FrameIndex> = FxHashMap::default();
        for id in forward_order(graph)? {
            let node = graph.node(id);
            let mut runs_in = None;
            for producer in producers(graph, id).filter(|&producer| !graph.node(producer).is_next_iteration())
            {
                let frame = frames.leads_to[producer.index()];
                ensure!(
                    *runs_in.get_or_insert(frame) == frame,
                    InvalidArgument,
                    "The node '{}' has inputs from different frames: input '{}' is in frame '{}'.",
                    node.name,
                    graph.node(producer).name,
                    frames.infos[frame as usize].name
                );
            }
            let runs_in = runs_in.unwrap_or(0);
            frames.runs_in[id.index()] = runs_in;
            frames.leads_to[id.index()] = match flow(id) {
                Flow::Enter => frames.child(&mut children, runs_in, enter(id)?, &node.name)?,
                Flow::Exit | Flow::NextIteration if runs_in == 0 => return Err(outside_loop(&node.name)),
                Flow::Exit => frames.infos[runs_in as usize].parent,
                _ => runs_in,
            };
        }
        frames.check_back_edges(graph, flow)?;
        Ok(frames)
    }

    fn child(
        &mut self,
        children: &mut FxHashMap<String, FrameIndex>,
        parent: FrameIndex,
        attrs: EnterAttrs,
        node: &str,
    ) -> Result<FrameIndex> {
        let parallel_iterations = usize::try_from(attrs.parallel_iterations).unwrap_or(0).max(1);
        let index = *children.entry(attrs.frame_name.clone()).or_insert_with(|| {
            self.infos.push(FrameInfo { name: attrs.frame_name.clone(), parent, parallel_iterations });
            (self.infos.len() - 1) as FrameIndex
        });
        ensure!(
            self.infos[index as usize].parent == parent,
            InvalidArgument,
            "The Enter node '{node}' enters frame '{}' from another frame than the other Enter nodes do.",
            attrs.frame_name
        );
        Ok(index)
    }

    /// A back edge leads to a merge of the same loop.
    fn check_back_edges(&self, graph: &Graph, flow: impl Fn(NodeId) -> Flow) -> Result<()> {
        for (id, node) in graph.iter() {
            for producer in producers(graph, id).filter(|&producer| graph.node(producer).is_next_iteration())
            {
                ensure!(
                    flow(id) == Flow::Merge && self.runs_in[id.index()] == self.leads_to[producer.index()],
                    InvalidArgument,
                    "NextIteration node '{}' must lead to a Merge of its own loop, but leads to '{}'.",
                    graph.node(producer).name,
                    node.name
                );
            }
        }
        Ok(())
    }
}

fn outside_loop(node: &str) -> Status {
    Status::invalid_argument(format!("The node '{node}' belongs in a loop, but no Enter node leads to it."))
}

fn producers(graph: &Graph, id: NodeId) -> impl Iterator<Item = NodeId> {
    let node = graph.node(id);
    node.inputs.iter().map(|input| input.node).chain(node.control_inputs.iter().copied())
}

/// Nodes after their producers, back edges left out.
fn forward_order(graph: &Graph) -> Result<Vec<NodeId>> {
    let consumers = graph.consumers();
    let mut missing: Vec<usize> = graph
        .iter()
        .map(|(id, _)| {
            producers(graph, id).filter(|&producer| !graph.node(producer).is_next_iteration()).count()
        })
        .collect();
    let mut order: Vec<NodeId> =
        graph.iter().map(|(id, _)| id).filter(|id| missing[id.index()] == 0).collect();
    let mut next = 0;
    while let Some(&id) = order.get(next) {
        next += 1;
        if graph.node(id).is_next_iteration() {
            continue;
        }
        for &consumer in &consumers[id.index()] {
            missing[consumer.index()] -= 1;
            if missing[consumer.index()] == 0 {
                order.push(consumer);
            }
        }
    }
    ensure!(order.len() == graph.len(), InvalidArgument, "{} nodes in a cycle", graph.len() - order.len());
    Ok(order)
}
