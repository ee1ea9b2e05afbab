//! Cuts a planned step at the borders of tasks: distributes its nodes, and puts sends and receives where edges cross.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{
    DType, Endpoint, Graph, Node, NodeId, RendezvousEdge, RendezvousKey, Result, Status, ensure,
};
use tensorfleet_kernel::op::Flow;

use super::constants::empty_constant;
use super::device::{Device, DeviceIndex};
use super::loops::ControlLoops;
use super::names::Names;
use super::partition::{Partition, Terminals};
use super::step_graph::{Boundary, StepGraph};
use super::tasks::Tasks;
use crate::functions::reachable;

/// Cuts `step`, a part of the graph `whole`, into one partition for each task.
pub(super) fn cut(
    mut step: StepGraph,
    whole: &Graph,
    devices: &[Device],
    tasks: Tasks,
    loops: ControlLoops,
    names: Names<'_>,
    terminals: Terminals,
) -> Result<Vec<Partition>> {
    let mut cut = Cut::new(devices, tasks, loops, names);
    if terminals == Terminals::Arguments {
        cut.add_arguments(&step)?;
    }
    cut.distribute(&mut step);
    cut.connect(&step)?;
    match terminals {
        Terminals::Arguments => cut.add_results(&step)?,
        Terminals::Rendezvous => cut.add_fetches(&step)?,
    }
    cut.finish(whole)
}

/// A partition in the making.
struct Draft {
    device: DeviceIndex,
    nodes: Vec<Node>,
    feeds: Vec<(usize, RendezvousKey)>,
    fetches: Vec<(usize, RendezvousKey)>,
}

impl Draft {
    fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId::from_index(self.nodes.len() - 1)
    }
}

/// What a node takes from others, in terms of the step graph.
struct Edges {
    consumer: NodeId,
    device: DeviceIndex,
    inputs: Vec<Endpoint>,
    control_inputs: Vec<NodeId>,
}

/// What crosses from one task to another: an output, or the fact that a node has run.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Signal {
    Value(Endpoint),
    Done(NodeId),
}

struct Cut<'a> {
    devices: &'a [Device],
    tasks: Tasks,
    loops: ControlLoops,
    names: Names<'a>,
    drafts: Vec<Draft>,
    /// Per device that is the first of its task, the draft of that task.
    draft_of: FxHashMap<DeviceIndex, usize>,
    /// Per node of the step graph, its id in its draft. Feeds have none.
    local: Vec<NodeId>,
    edges: Vec<Edges>,
    /// What each device already receives, and from which local node.
    received: FxHashMap<(Signal, DeviceIndex), NodeId>,
    /// Where each draft gets each feed.
    fed: FxHashMap<(NodeId, usize), NodeId>,
}

impl<'a> Cut<'a> {
    fn new(devices: &'a [Device], tasks: Tasks, loops: ControlLoops, names: Names<'a>) -> Cut<'a> {
        Cut {
            devices,
            tasks,
            loops,
            names,
            drafts: Vec::new(),
            draft_of: FxHashMap::default(),
            local: Vec::new(),
            edges: Vec::new(),
            received: FxHashMap::default(),
            fed: FxHashMap::default(),
        }
    }

    /// Adds an argument for every feed, whether it is used or not: they are counted off. They stand first, so that they
    /// run first.
    fn add_arguments(&mut self, step: &StepGraph) -> Result<()> {
        let mut devices = step.iter().filter_map(|(_, node)| node.device);
        let Some(device) = devices.next() else { return Ok(()) };
        ensure!(
            devices.all(|other| self.tasks.are_together(device, other)),
            Internal,
            "only a step of one task takes arguments"
        );
        let draft = self.draft(device);
        for (index, boundary) in step.feeds.iter().enumerate() {
            let node = self.terminal("_Arg", "_arg", boundary, index, device);
            let node = self.drafts[draft].push(node);
            self.fed.insert((NodeId::from_index(index), draft), node);
        }
        Ok(())
    }

    fn add_results(&mut self, step: &StepGraph) -> Result<()> {
        for (index, fetch) in step.fetches.iter().enumerate() {
            let device = step.get(fetch.source.node).device.ok_or_else(feed_is_fetched)?;
            let mut node = self.terminal("_Retval", "_retval", &fetch.boundary, index, device);
            node.inputs.push(Endpoint::new(self.local[fetch.source.node.index()], fetch.source.slot));
            let draft = self.draft(device);
            self.drafts[draft].push(node);
        }
        Ok(())
    }

    fn terminal(
        &self,
        op: &str,
        prefix: &str,
        boundary: &Boundary,
        index: usize,
        device: DeviceIndex,
    ) -> Node {
        let name = format!("{}_{index}", boundary_name(prefix, boundary));
        let mut node = Node::new(self.names.reserved(name), op);
        node.device = self.devices[device.index()].text.clone();
        node.attrs.insert("T".into(), boundary.dtype.into_attr());
        node.attrs.insert("index".into(), (index as i64).into_attr());
        node
    }

    /// Moves every node into the draft of its task. Their edges are drawn when all have their new ids.
    fn distribute(&mut self, step: &mut StepGraph) {
        self.local = vec![NodeId::from_index(0); step.nodes.len()];
        for (index, step_node) in step.nodes.iter_mut().enumerate() {
            let Some(device) = step_node.device.filter(|_| !step_node.is_gone) else { continue };
            // The name stays for those who refer to it.
            let without_edges = Node::new(step_node.node.name.clone(), step_node.node.op.clone());
            let mut node = std::mem::replace(&mut step_node.node, without_edges);
            let (inputs, control_inputs) =
                (std::mem::take(&mut node.inputs), std::mem::take(&mut node.control_inputs));
            node.device = self.devices[device.index()].text.clone();
            let draft = self.draft(device);
            self.local[index] = self.drafts[draft].push(node);
            self.edges.push(Edges { consumer: NodeId::from_index(index), device, inputs, control_inputs });
        }
    }

    fn draft(&mut self, device: DeviceIndex) -> usize {
        let device = self.tasks.first_device(device);
        let drafts = &mut self.drafts;
        *self.draft_of.entry(device).or_insert_with(|| {
            drafts.push(Draft { device, nodes: Vec::new(), feeds: Vec::new(), fetches: Vec::new() });
            drafts.len() - 1
        })
    }

    fn connect(&mut self, step: &StepGraph) -> Result<()> {
        for edges in std::mem::take(&mut self.edges) {
            let Edges { consumer, device, inputs, control_inputs } = edges;
            let mut data = Vec::with_capacity(inputs.len());
            let mut control = Vec::with_capacity(control_inputs.len());
            // Receives of this node's references, and what else the node waits for.
            let (mut reads, mut others) = (Vec::new(), Vec::new());
            for source in inputs {
                let input = self.value_at(step, source, device)?;
                let is_ref = step.get(source.node).outputs[source.slot as usize].is_ref;
                match step.get(source.node).device {
                    Some(from) if is_ref && !self.tasks.are_together(from, device) => reads.push(input.node),
                    _ if is_ref => {}
                    _ => others.push(input.node),
                }
                data.push(input);
            }
            for before in control_inputs {
                let before = self.signal_at(step, before, device)?;
                control.push(before);
                others.push(before);
            }
            let draft = self.draft(device);
            let nodes = &mut self.drafts[draft].nodes;
            // A variable on another task is read as late as its consumer would read it. A merge does not wait for its other
            // inputs.
            if step.get(consumer).op.flow == Flow::Merge {
                reads.clear();
            }
            for read in reads {
                let waits = &mut nodes[read.index()].control_inputs;
                waits.extend(others.iter().copied());
                waits.sort_unstable();
                waits.dedup();
            }
            let node = &mut nodes[self.local[consumer.index()].index()];
            (node.inputs, node.control_inputs) = (data, control);
        }
        Ok(())
    }

    /// An output of the step graph, as a node on `device` gets it.
    fn value_at(&mut self, step: &StepGraph, source: Endpoint, device: DeviceIndex) -> Result<Endpoint> {
        let producer = step.get(source.node);
        let Some(from) = producer.device else {
            return Ok(Endpoint::new(self.feed_at(step, source.node, device)?, 0));
        };
        if self.tasks.are_together(from, device) {
            return Ok(Endpoint::new(self.local[source.node.index()], source.slot));
        }
        let signal = Signal::Value(source);
        if let Some(&known) = self.received.get(&(signal, device)) {
            return Ok(Endpoint::new(known, 0));
        }
        let edge = producer.outputs[source.slot as usize];
        let local = Endpoint::new(self.local[source.node.index()], source.slot);
        let received = self.transfer(step, source.node, local, edge.dtype, from, device)?;
        if !edge.is_ref {
            self.received.insert((signal, device), received);
        }
        Ok(Endpoint::new(received, 0))
    }

    /// A node on `device` that has run when node `before` of the step graph has.
    fn signal_at(&mut self, step: &StepGraph, before: NodeId, device: DeviceIndex) -> Result<NodeId> {
        let producer = step.get(before);
        let Some(from) = producer.device else { return self.feed_at(step, before, device) };
        if self.tasks.are_together(from, device) {
            return Ok(self.local[before.index()]);
        }
        let signal = Signal::Done(before);
        if let Some(&known) = self.received.get(&(signal, device)) {
            return Ok(known);
        }
        let name = &producer.node.name;
        let mut token = empty_constant(&self.names.fresh(&format!("{name}/ctrl")))?;
        token.device = self.devices[from.index()].text.clone();
        token.control_inputs.push(self.local[before.index()]);
        let draft = self.draft(from);
        let token = Endpoint::new(self.drafts[draft].push(token), 0);
        let received = self.transfer(step, before, token, DType::Float, from, device)?;
        let mut arrived = Node::new(self.names.fresh(name), "Identity");
        arrived.device = self.devices[device.index()].text.clone();
        arrived.attrs.insert("T".into(), DType::Float.into_attr());
        arrived.inputs.push(Endpoint::new(received, 0));
        let draft = self.draft(device);
        let arrived = self.drafts[draft].push(arrived);
        self.received.insert((signal, device), arrived);
        Ok(arrived)
    }

    /// A pair of `_Send` and `_Recv` for the local endpoint `value`, which stands for node `source` of the step graph.
    /// Returns the receiving node.
    fn transfer(
        &mut self,
        step: &StepGraph,
        source: NodeId,
        value: Endpoint,
        dtype: DType,
        from: DeviceIndex,
        to: DeviceIndex,
    ) -> Result<NodeId> {
        let name = &step.get(source).node.name;
        let tensor_name = format!("edge_{}_{name}", self.names.next_number());
        let (send_name, receive_name) = (self.names.fresh(name), self.names.fresh(name));
        let mut send = self.transfer_node("_Send", send_name, &tensor_name, from, to);
        send.attrs.insert("T".into(), dtype.into_attr());
        send.inputs.push(value);
        let draft = self.draft(from);
        self.drafts[draft].push(send);
        let mut receive = self.transfer_node("_Recv", receive_name, &tensor_name, from, to);
        receive.attrs.insert("tensor_type".into(), dtype.into_attr());
        if let Some(merge) = self.loops.merge_for(source, to)? {
            receive.control_inputs.push(self.local[merge.index()]);
        }
        let draft = self.draft(to);
        Ok(self.drafts[draft].push(receive))
    }

    fn transfer_node(
        &self,
        op: &str,
        name: String,
        tensor_name: &str,
        from: DeviceIndex,
        to: DeviceIndex,
    ) -> Node {
        let (sender, receiver) = (&self.devices[from.index()], &self.devices[to.index()]);
        let mut node = Node::new(name, op);
        node.device = if op == "_Send" { sender.text.clone() } else { receiver.text.clone() };
        node.attrs.insert("tensor_name".into(), tensor_name.into_attr());
        node.attrs.insert("send_device".into(), (&*sender.text).into_attr());
        // The attribute is a signed integer with the bits of an unsigned one.
        node.attrs.insert("send_device_incarnation".into(), (sender.incarnation as i64).into_attr());
        node.attrs.insert("recv_device".into(), (&*receiver.text).into_attr());
        node.attrs.insert("client_terminated".into(), false.into_attr());
        node
    }

    /// Where the task of `device` gets a feed: at its first device, whichever of them uses it.
    fn feed_at(&mut self, step: &StepGraph, feed: NodeId, device: DeviceIndex) -> Result<NodeId> {
        let draft = self.draft(device);
        if let Some(&known) = self.fed.get(&(feed, draft)) {
            return Ok(known);
        }
        let boundary = &step.feeds[feed.index()];
        let tensor_name = format!("{}:{}", boundary.name, boundary.slot);
        let device = self.tasks.first_device(device);
        let name = self.names.reserved(boundary_name("_recv", boundary));
        let mut node = self.transfer_node("_Recv", name, &tensor_name, device, device);
        node.attrs.insert("tensor_type".into(), boundary.dtype.into_attr());
        node.attrs.insert("client_terminated".into(), true.into_attr());
        let key = self.boundary_key(device, &tensor_name)?;
        let draft_index = draft;
        let draft = &mut self.drafts[draft_index];
        draft.feeds.push((feed.index(), key));
        let node = draft.push(node);
        self.fed.insert((feed, draft_index), node);
        Ok(node)
    }

    fn add_fetches(&mut self, step: &StepGraph) -> Result<()> {
        let mut times: FxHashMap<(Arc<str>, u32), usize> = FxHashMap::default();
        for (index, fetch) in step.fetches.iter().enumerate() {
            let boundary = &fetch.boundary;
            let device = step.get(fetch.source.node).device.ok_or_else(feed_is_fetched)?;
            self.loops.check_fetchable(fetch)?;
            let mut name = boundary_name("_send", boundary);
            let mut tensor_name = format!("{}:{}", boundary.name, boundary.slot);
            let times = times.entry((boundary.name.clone(), boundary.slot)).or_default();
            if *times > 0 {
                // Fetched twice, sent twice: a value in a rendezvous is handed out once.
                name += &format!(".{times}");
                tensor_name += &format!(".{times}");
            }
            *times += 1;
            let name = self.names.reserved(name);
            let mut node = self.transfer_node("_Send", name, &tensor_name, device, device);
            node.attrs.insert("T".into(), boundary.dtype.into_attr());
            node.attrs.insert("client_terminated".into(), true.into_attr());
            node.inputs.push(Endpoint::new(self.local[fetch.source.node.index()], fetch.source.slot));
            let key = self.boundary_key(device, &tensor_name)?;
            let draft = self.draft(device);
            let draft = &mut self.drafts[draft];
            draft.fetches.push((index, key));
            draft.push(node);
        }
        Ok(())
    }

    fn boundary_key(&self, device: DeviceIndex, tensor_name: &str) -> Result<RendezvousKey> {
        let Device { text, incarnation, .. } = &self.devices[device.index()];
        Ok(RendezvousEdge::new(text, *incarnation, text, tensor_name)?.key(0, 0))
    }

    fn finish(self, whole: &Graph) -> Result<Vec<Partition>> {
        let finish = |draft: Draft| {
            let Draft { device, nodes, feeds, fetches } = draft;
            let mut graph = Graph::new();
            if let Some(versions) = whole.versions() {
                graph.set_versions(versions.clone());
            }
            graph.append(nodes)?;
            graph.set_library(reachable(whole.library(), graph.nodes()));
            Ok(Partition { device, graph, feeds, fetches })
        };
        self.drafts.into_iter().map(finish).collect()
    }
}

fn boundary_name(prefix: &str, boundary: &Boundary) -> String {
    format!("{prefix}_{}_{}", boundary.name, boundary.slot)
}

fn feed_is_fetched() -> Status {
    Status::internal("a feed is fetched")
}
