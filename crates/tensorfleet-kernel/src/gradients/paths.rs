//! [`Paths`]: the nodes between what is differentiated and what it is differentiated by, level by level.

use rustc_hash::{FxHashMap, FxHashSet};
use tensorfleet_core::{DType, Endpoint, NodeId, Result, Status};

use super::branches::loop_without_context;
use crate::builder::{FlowId, GraphBuilder};

/// Where gradients are taken: in the body of a loop, or outside all.
pub(super) type Level = Option<FlowId>;

/// What gradients arrive at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Unit {
    /// A node.
    Node(NodeId),
    /// A loop on the level below.
    Loop(FlowId),
}

/// The nodes on paths from `xs` to `ys` along which gradients can flow.
pub(super) struct Paths {
    /// Where the `ys` are.
    base: Level,
    /// The loop that is the base, and those around it.
    around: FxHashSet<FlowId>,
    nodes: FxHashSet<NodeId>,
    /// The nodes of each level, in the order of the graph.
    levels: FxHashMap<Level, Vec<NodeId>>,
    /// The loops directly below each level, in the order of the graph.
    loops: FxHashMap<Level, Vec<FlowId>>,
}

impl Paths {
    pub(super) fn between(builder: &GraphBuilder, xs: &[Endpoint], ys: &[Endpoint]) -> Result<Paths> {
        let base = builder.current_loop();
        let mut around = FxHashSet::default();
        let mut cursor = base;
        while let Some(flow) = cursor {
            around.insert(flow);
            cursor = builder.outer_loop(flow);
        }
        let nodes = nodes_between(builder, xs, ys);
        let mut paths =
            Paths { base, around, nodes, levels: FxHashMap::default(), loops: FxHashMap::default() };
        for endpoint in ys.iter().chain(xs) {
            if paths.level(builder, endpoint.node) != base {
                let name = &builder.node(endpoint.node).name;
                return Err(Status::invalid_argument(format!(
                    "'{name}:{}' is inside a while loop: gradients of and by values of a loop's body exist only in that \
                     body; take the gradient there, or of what the loop gives",
                    endpoint.slot
                )));
            }
        }
        let mut sorted: Vec<NodeId> = paths.nodes.iter().copied().collect();
        sorted.sort_by_key(|node| node.index());
        let mut known: FxHashSet<FlowId> = FxHashSet::default();
        for node in sorted {
            // A loop without a context is a cycle in which every node waits for the next.
            if builder.node(node).is_next_iteration() && builder.enclosing_loop(node).is_none() {
                return Err(loop_without_context(builder.node(node)));
            }
            let level = paths.level(builder, node);
            paths.levels.entry(level).or_default().push(node);
            let mut inner = level.filter(|_| level != base);
            while let Some(flow) = inner.filter(|&flow| known.insert(flow)) {
                let outer = paths.outer(builder, flow);
                paths.loops.entry(outer).or_default().push(flow);
                inner = outer.filter(|_| outer != base);
            }
        }
        Ok(paths)
    }

    /// Where the `ys` are.
    pub(super) fn base(&self) -> Level {
        self.base
    }

    /// Whether gradients flow to this output.
    pub(super) fn contains(&self, builder: &GraphBuilder, endpoint: Endpoint) -> bool {
        self.nodes.contains(&endpoint.node) && carries_gradients(builder, endpoint)
    }

    /// Whether the node is on a path.
    pub(super) fn contains_node(&self, node: NodeId) -> bool {
        self.nodes.contains(&node)
    }

    /// The level of a node. Loops around the place where gradients are taken are no loops to it.
    fn level(&self, builder: &GraphBuilder, node: NodeId) -> Level {
        match builder.enclosing_loop(node) {
            Some(flow) if !self.around.contains(&flow) => Some(flow),
            _ => self.base,
        }
    }

    fn outer(&self, builder: &GraphBuilder, flow: FlowId) -> Level {
        builder.outer_loop(flow).filter(|outer| !self.around.contains(outer)).or(self.base)
    }

    /// The unit of `level` that a node is or belongs to; `None` if it is no part of the level.
    pub(super) fn unit(&self, builder: &GraphBuilder, level: Level, node: NodeId) -> Option<Unit> {
        let own = self.level(builder, node);
        if own == level {
            return Some(Unit::Node(node));
        }
        let flow = own?;
        (self.outer(builder, flow) == level).then_some(Unit::Loop(flow))
    }

    /// The units of `level` but for those of `edge`, each with the number of edges on which a gradient may come to it.
    pub(super) fn waiting(
        &self,
        builder: &GraphBuilder,
        level: Level,
        edge: &FxHashSet<NodeId>,
    ) -> FxHashMap<Unit, usize> {
        let nodes = self.levels.get(&level).into_iter().flatten().copied();
        let nodes: Vec<NodeId> = nodes.filter(|node| !edge.contains(node)).collect();
        let loops = self.loops.get(&level).map_or(&[][..], Vec::as_slice);
        let units =
            nodes.iter().map(|&node| Unit::Node(node)).chain(loops.iter().map(|&flow| Unit::Loop(flow)));
        let mut waiting: FxHashMap<Unit, usize> = units.map(|unit| (unit, 0)).collect();
        let inner = loops.iter().flat_map(|&flow| self.entries(builder, flow));
        for node in nodes.iter().copied().chain(inner) {
            for &input in &builder.node(node).inputs {
                if !self.contains(builder, input) {
                    continue;
                }
                let unit = self.unit(builder, level, input.node);
                if let Some(count) = unit.and_then(|unit| waiting.get_mut(&unit)) {
                    *count += 1;
                }
            }
        }
        waiting
    }

    /// The nodes on a path through which values enter a loop: its variables first, then what it uses unchanged.
    pub(super) fn entries(&self, builder: &GraphBuilder, flow: FlowId) -> Vec<NodeId> {
        let variables = builder.loop_parts(flow).map_or(&[][..], |parts| parts.variables.as_slice());
        let enters = variables.iter().filter_map(|variable| builder.node(variable.merge.node).inputs.first());
        let enters = enters.map(|enter| enter.node).chain(builder.loop_captures(flow));
        enters.filter(|node| self.nodes.contains(node)).collect()
    }
}

/// Whether gradients flow along an edge: only along numbers that are not integers, and along the handles of variables.
pub(super) fn carries_gradients(builder: &GraphBuilder, endpoint: Endpoint) -> bool {
    builder.dtype(endpoint).is_ok_and(|dtype| {
        dtype.is_floating() || dtype.is_complex() || matches!(dtype, DType::Resource | DType::Variant)
    })
}

fn nodes_between(builder: &GraphBuilder, xs: &[Endpoint], ys: &[Endpoint]) -> FxHashSet<NodeId> {
    let graph = builder.graph();
    let inputs = |node: NodeId| {
        graph
            .node(node)
            .inputs
            .iter()
            .filter(|&&input| carries_gradients(builder, input))
            .map(|input| input.node)
    };
    // Backwards from the ys; what they do not need is no business of ours.
    let mut needed: FxHashSet<NodeId> = FxHashSet::default();
    let mut stack: Vec<NodeId> = ys.iter().map(|y| y.node).collect();
    while let Some(node) = stack.pop() {
        if needed.insert(node) {
            stack.extend(inputs(node));
        }
    }
    // Forwards from the xs, among those.
    let mut consumers: FxHashMap<NodeId, Vec<NodeId>> = FxHashMap::default();
    for &node in &needed {
        for producer in inputs(node) {
            consumers.entry(producer).or_default().push(node);
        }
    }
    let mut between: FxHashSet<NodeId> = FxHashSet::default();
    let sources = xs.iter().filter(|&&x| carries_gradients(builder, x)).map(|x| x.node);
    let mut stack: Vec<NodeId> = sources.filter(|node| needed.contains(node)).collect();
    while let Some(node) = stack.pop() {
        if between.insert(node) {
            stack.extend(consumers.get(&node).into_iter().flatten());
        }
    }
    between
}
