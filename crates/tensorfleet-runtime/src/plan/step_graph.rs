//! [`StepGraph`]: what one step needs of a session's graph, while it is being planned.
//!
//! Every node has its device. A feed is a node without one: it stands wherever it is used, so that the master can hand
//! its value to each task that needs it. Nodes may be changed, added at the end, or marked as gone; ids stay valid.

use smallvec::SmallVec;
use tensorfleet_core::{DType, Endpoint, Node, NodeId, Result, Status, ensure};
use tensorfleet_kernel::node_spec::EdgeTypes;
use tensorfleet_kernel::op::{Flow, Op};
use tensorfleet_kernel::{Catalogue, NodeSpec};

use super::device::DeviceIndex;
use super::signature::{Demand, Feeds, Signature, is_fed_placeholder};
use crate::checked_graph::{CheckedGraph, check_edge};

/// A node of a [`StepGraph`].
pub(super) struct StepNode {
    /// The node; its edges lead to nodes of the step graph.
    pub(super) node: Node,
    pub(super) op: &'static Op,
    pub(super) outputs: EdgeTypes,
    /// Where it runs; `None` for a feed.
    pub(super) device: Option<DeviceIndex>,
    /// Whether it has been simplified away.
    pub(super) is_gone: bool,
}

impl StepNode {
    /// A new node on a device.
    pub(super) fn new(node: Node, device: DeviceIndex, catalogue: &'static Catalogue) -> Result<StepNode> {
        let spec = NodeSpec::resolve(&node, catalogue)?;
        let (op, outputs) = (spec.op(), spec.outputs);
        Ok(StepNode { node, op, outputs, device: Some(device), is_gone: false })
    }

    /// The nodes it takes data or control from.
    pub(super) fn producers(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.node.inputs.iter().map(|input| input.node).chain(self.node.control_inputs.iter().copied())
    }
}

/// A tensor that enters or leaves a step: output `slot` of the node with this name in the session's graph.
pub(super) struct Boundary {
    pub(super) name: std::sync::Arc<str>,
    pub(super) slot: u32,
    pub(super) dtype: DType,
}

/// A tensor the step returns.
pub(super) struct Fetch {
    pub(super) boundary: Boundary,
    /// What the step graph returns for it.
    pub(super) source: Endpoint,
}

/// The nodes of a step.
pub(super) struct StepGraph {
    pub(super) catalogue: &'static Catalogue,
    /// The first nodes are the feeds, in their order.
    pub(super) nodes: Vec<StepNode>,
    pub(super) feeds: Vec<Boundary>,
    pub(super) fetches: Vec<Fetch>,
    /// Nodes that run for their effects.
    pub(super) targets: Vec<NodeId>,
}

impl StepGraph {
    /// The part of `checked` that `signature` needs.
    pub(super) fn cut_out(
        checked: &CheckedGraph,
        placement: &[DeviceIndex],
        signature: &Signature,
    ) -> Result<StepGraph> {
        let demand = Demand::of(checked, signature)?;
        let graph = checked.graph();
        ensure!(placement.len() == graph.len(), Internal, "the placement is of another graph");
        let feeds = feed_boundaries(checked, &demand.feeds)?;
        let kept: Vec<NodeId> =
            graph.iter().map(|(id, _)| id).filter(|id| demand.needed[id.index()]).collect();
        let mut new_ids = vec![None; graph.len()];
        for (offset, id) in kept.iter().enumerate() {
            new_ids[id.index()] = Some(NodeId::from_index(feeds.len() + offset));
        }
        let cut = Cut { checked, feeds: &demand.feeds, new_ids };
        let mut nodes = Vec::with_capacity(feeds.len() + kept.len());
        for feed in &feeds {
            nodes.push(feed_node(feed));
        }
        for id in kept {
            let types = checked.types(id);
            nodes.push(StepNode {
                node: cut.rewired(id)?,
                op: types.op,
                outputs: types.outputs.clone(),
                device: Some(placement[id.index()]),
                is_gone: false,
            });
        }
        let fetches = demand.fetches.iter().map(|&fetch| cut.fetch(fetch)).collect::<Result<_>>()?;
        let targets = demand.targets.iter().map(|&target| cut.new_id(target)).collect::<Result<_>>()?;
        Ok(StepGraph { catalogue: checked.catalogue(), nodes, feeds, fetches, targets })
    }

    /// The node with this id.
    pub(super) fn get(&self, id: NodeId) -> &StepNode {
        &self.nodes[id.index()]
    }

    /// Adds a node on a device.
    pub(super) fn add(&mut self, node: Node, device: DeviceIndex) -> Result<NodeId> {
        self.nodes.push(StepNode::new(node, device, self.catalogue)?);
        Ok(NodeId::from_index(self.nodes.len() - 1))
    }

    /// The nodes that are still there, feeds included.
    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeId, &StepNode)> {
        let all = self.nodes.iter().enumerate();
        all.filter(|(_, node)| !node.is_gone).map(|(index, node)| (NodeId::from_index(index), node))
    }

    /// Nodes after their producers; edges back from the end of a loop do not count.
    pub(super) fn forward_order(&self) -> Vec<NodeId> {
        let mut consumers: Vec<SmallVec<[NodeId; 2]>> = vec![SmallVec::new(); self.nodes.len()];
        let mut missing = vec![0u32; self.nodes.len()];
        for (id, node) in self.iter() {
            for producer in node.producers().filter(|&producer| !self.get(producer).node.is_next_iteration())
            {
                consumers[producer.index()].push(id);
                missing[id.index()] += 1;
            }
        }
        let mut order: Vec<NodeId> =
            self.iter().map(|(id, _)| id).filter(|id| missing[id.index()] == 0).collect();
        let mut next = 0;
        while let Some(&id) = order.get(next) {
            next += 1;
            for &consumer in &consumers[id.index()] {
                missing[consumer.index()] -= 1;
                if missing[consumer.index()] == 0 {
                    order.push(consumer);
                }
            }
        }
        order
    }

    /// Whether there are loops.
    pub(super) fn has_loops(&self) -> bool {
        self.iter().any(|(_, node)| node.op.flow == Flow::Enter)
    }
}

struct Cut<'a> {
    checked: &'a CheckedGraph,
    feeds: &'a Feeds,
    new_ids: Vec<Option<NodeId>>,
}

impl Cut<'_> {
    /// A copy of node `id` whose edges lead to the new nodes.
    fn rewired(&self, id: NodeId) -> Result<Node> {
        let graph = self.checked.graph();
        let mut node = graph.node(id).clone();
        for (slot, input) in node.inputs.iter_mut().enumerate() {
            if let Some(&feed) = self.feeds.get(input) {
                let expected = self.checked.types(id).inputs[slot];
                let mut fed = self.checked.output_type(*input).ok_or_else(missing)?;
                // A fed value is never a reference, whatever the tensor it replaces.
                fed.is_ref = false;
                let source = || format!("the feed of {}:{}", graph.node(input.node).name, input.slot);
                check_edge(&node.name, slot, expected, fed, source)?;
                *input = Endpoint::new(NodeId::from_index(feed), 0);
            } else {
                input.node = self.new_id(input.node)?;
            }
        }
        for before in &mut node.control_inputs {
            *before = if is_fed_placeholder(self.checked, *before, self.feeds) {
                NodeId::from_index(self.feeds[&Endpoint::new(*before, 0)])
            } else {
                self.new_id(*before)?
            };
        }
        Ok(node)
    }

    fn fetch(&self, fetch: Endpoint) -> Result<Fetch> {
        let source = Endpoint::new(self.new_id(fetch.node)?, fetch.slot);
        Ok(Fetch { boundary: boundary(self.checked, fetch)?, source })
    }

    fn new_id(&self, old: NodeId) -> Result<NodeId> {
        self.new_ids[old.index()].ok_or_else(missing)
    }
}

fn missing() -> Status {
    Status::internal("planning dropped a node that is needed")
}

fn boundary(checked: &CheckedGraph, endpoint: Endpoint) -> Result<Boundary> {
    let name = checked.graph().node(endpoint.node).name.clone();
    let dtype = checked.output_type(endpoint).ok_or_else(missing)?.dtype;
    Ok(Boundary { name, slot: endpoint.slot, dtype })
}

fn feed_boundaries(checked: &CheckedGraph, feeds: &Feeds) -> Result<Vec<Boundary>> {
    let mut in_order: Vec<(usize, Endpoint)> =
        feeds.iter().map(|(&endpoint, &index)| (index, endpoint)).collect();
    in_order.sort_unstable();
    in_order.into_iter().map(|(_, endpoint)| boundary(checked, endpoint)).collect()
}

/// The node that stands for a feed until the graph is partitioned.
fn feed_node(feed: &Boundary) -> StepNode {
    /// Never runs and is in no table: it only has an output, and effects that must not be optimised away.
    static FEED: Op = Op::new("Feed", "-> value: T").stateful();
    let outputs = EdgeTypes::from_slice(&[tensorfleet_core::EdgeType { dtype: feed.dtype, is_ref: false }]);
    let node = Node::new(format!("{}:{}", feed.name, feed.slot), "Feed");
    StepNode { node, op: &FEED, outputs, device: None, is_gone: false }
}
