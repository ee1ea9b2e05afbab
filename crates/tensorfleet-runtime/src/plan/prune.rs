//! Pruning: from the session's graph to the part that one signature needs.
//!
//! A feed takes the place of the tensor it names: an `_Arg` node stands in for it, and whatever only that tensor
//! needed, control inputs included, falls away. A fetch becomes a `_Retval` node. What remains is everything from
//! which a fetch or target can be reached, found iteratively in time linear in its size.

use rustc_hash::FxHashMap;
use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{Endpoint, Graph, Node, NodeId, Result, Status, bail, ensure, parse_endpoint};

use crate::checked_graph::{CheckedGraph, check_edge};
use crate::functions::reachable;

/// What a step is asked for: the key under which its plan is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Signature {
    /// Tensors the caller supplies.
    pub feeds: Vec<String>,
    /// Tensors the caller wants.
    pub fetches: Vec<String>,
    /// Nodes to run for their effects.
    pub targets: Vec<String>,
}

/// The part of `checked` that `signature` needs. Argument `k` is the output of a node with op `_Arg` and attribute
/// `index` k; result `k` is the input of a node with op `_Retval`. Errors are TensorFlow's: an unknown name is
/// NotFound, a bad combination InvalidArgument.
pub fn prune(checked: &CheckedGraph, signature: &Signature) -> Result<Graph> {
    let Demand { feeds, fetches, needed, .. } = Demand::of(checked, signature)?;
    let new_ids = vec![None; checked.graph().len()];
    Rewrite { checked, feeds: &feeds, new_ids, pruned: Graph::new() }.run(&needed, &signature.feeds, &fetches)
}

/// A signature, resolved: what it names and what that takes.
pub(super) struct Demand {
    pub(super) feeds: Feeds,
    pub(super) fetches: Vec<Endpoint>,
    pub(super) targets: Vec<NodeId>,
    /// Per node, whether a fetch or target depends on it.
    pub(super) needed: Vec<bool>,
}

impl Demand {
    pub(super) fn of(checked: &CheckedGraph, signature: &Signature) -> Result<Demand> {
        let graph = checked.graph();
        let feeds = resolve_feeds(checked, &signature.feeds)?;
        let fetches = resolve_fetches(checked, &signature.fetches, &feeds)?;
        let targets = resolve_targets(graph, &signature.targets)?;
        ensure!(
            !(fetches.is_empty() && targets.is_empty()),
            InvalidArgument,
            "Must specify at least one target to fetch or execute."
        );
        let needed = needed_nodes(graph, &feeds, &fetches, &targets);
        Ok(Demand { feeds, fetches, targets, needed })
    }
}

/// The index of each feed, by the tensor it stands in for.
pub(super) type Feeds = FxHashMap<Endpoint, usize>;

fn resolve(graph: &Graph, name: &str, role: &str) -> Result<Endpoint> {
    let (node, slot) = parse_endpoint(name)?;
    let id = graph.find(node).ok_or_else(|| {
        Status::not_found(format!("{role} '{name}' not found: the graph has no node '{node}'"))
    })?;
    Ok(Endpoint::new(id, slot))
}

fn resolve_feeds(checked: &CheckedGraph, names: &[String]) -> Result<Feeds> {
    let mut feeds = Feeds::default();
    for (index, name) in names.iter().enumerate() {
        let endpoint = resolve(checked.graph(), name, "FeedInputs: unable to find feed output")?;
        check_slot(checked, endpoint, name)?;
        ensure!(
            feeds.insert(endpoint, index).is_none(),
            InvalidArgument,
            "Endpoint \"{name}\" fed more than once."
        );
    }
    Ok(feeds)
}

fn resolve_fetches(checked: &CheckedGraph, names: &[String], feeds: &Feeds) -> Result<Vec<Endpoint>> {
    let mut fetches = Vec::with_capacity(names.len());
    for name in names {
        let endpoint = resolve(checked.graph(), name, "FetchOutputs node")?;
        check_slot(checked, endpoint, name)?;
        ensure!(!feeds.contains_key(&endpoint), InvalidArgument, "{name} is both fed and fetched.");
        fetches.push(endpoint);
    }
    Ok(fetches)
}

fn check_slot(checked: &CheckedGraph, endpoint: Endpoint, name: &str) -> Result<()> {
    let count = checked.types(endpoint.node).outputs.len();
    ensure!(
        (endpoint.slot as usize) < count,
        InvalidArgument,
        "Tensor {name} does not exist: node {} has {count} outputs",
        checked.graph().node(endpoint.node).name
    );
    Ok(())
}

fn resolve_targets(graph: &Graph, names: &[String]) -> Result<Vec<NodeId>> {
    names
        .iter()
        .map(|name| resolve(graph, name, "PruneForTargets: target node").map(|found| found.node))
        .collect()
}

/// A fed placeholder need not run even where only its control edges are used.
pub(super) fn is_fed_placeholder(graph: &Graph, id: NodeId, feeds: &Feeds) -> bool {
    matches!(&*graph.node(id).op, "Placeholder" | "PlaceholderV2")
        && feeds.contains_key(&Endpoint::new(id, 0))
}

/// Marks everything that fetches and targets depend on.
fn needed_nodes(graph: &Graph, feeds: &Feeds, fetches: &[Endpoint], targets: &[NodeId]) -> Vec<bool> {
    let mut needed = vec![false; graph.len()];
    let mut stack: Vec<NodeId> = targets.to_vec();
    stack.extend(fetches.iter().map(|fetch| fetch.node));
    while let Some(id) = stack.pop() {
        if std::mem::replace(&mut needed[id.index()], true) {
            continue;
        }
        let node = graph.node(id);
        stack.extend(node.inputs.iter().filter(|input| !feeds.contains_key(input)).map(|input| input.node));
        stack.extend(node.control_inputs.iter().filter(|&&id| !is_fed_placeholder(graph, id, feeds)));
    }
    needed
}

struct Rewrite<'a> {
    checked: &'a CheckedGraph,
    feeds: &'a Feeds,
    new_ids: Vec<Option<NodeId>>,
    pruned: Graph,
}

impl Rewrite<'_> {
    fn run(mut self, needed: &[bool], feed_names: &[String], fetches: &[Endpoint]) -> Result<Graph> {
        let args = self.add_args(feed_names)?;
        let graph = self.checked.graph();
        // Graphs need not be sorted, so ids are given first and edges drawn afterwards.
        let first = self.pruned.len();
        let kept: Vec<NodeId> = graph.iter().map(|(id, _)| id).filter(|id| needed[id.index()]).collect();
        for (offset, &id) in kept.iter().enumerate() {
            self.new_ids[id.index()] = Some(NodeId::from_index(first + offset));
        }
        let mut nodes = Vec::with_capacity(kept.len());
        for &id in &kept {
            nodes.push(self.rewired(id, &args)?);
        }
        self.pruned.append(nodes)?;
        for (index, &fetch) in fetches.iter().enumerate() {
            self.add_retval(index, fetch)?;
        }
        let library = reachable(graph.library(), self.pruned.nodes());
        self.pruned.set_library(library);
        Ok(self.pruned)
    }

    fn add_args(&mut self, feed_names: &[String]) -> Result<Vec<NodeId>> {
        let mut endpoints: Vec<(usize, Endpoint)> =
            self.feeds.iter().map(|(&endpoint, &index)| (index, endpoint)).collect();
        endpoints.sort_unstable();
        let mut args = Vec::with_capacity(endpoints.len());
        for (index, endpoint) in endpoints {
            let Some(edge) = self.checked.output_type(endpoint) else {
                bail!(Internal, "feed {} was resolved to a missing output", feed_names[index])
            };
            let source = &self.checked.graph().node(endpoint.node).name;
            let mut node = Node::new(format!("_arg_{source}_{}_{index}", endpoint.slot), "_Arg");
            node.attrs.insert("T".into(), edge.dtype.into_attr());
            node.attrs.insert("index".into(), (index as i64).into_attr());
            args.push(self.pruned.add(node)?);
        }
        Ok(args)
    }

    /// A copy of node `id` whose edges lead to the new nodes.
    fn rewired(&self, id: NodeId, args: &[NodeId]) -> Result<Node> {
        let graph = self.checked.graph();
        let missing = || Status::internal("pruning dropped a node that is needed");
        let mut node = graph.node(id).clone();
        for (slot, input) in node.inputs.iter_mut().enumerate() {
            if let Some(&index) = self.feeds.get(input) {
                let expected = self.checked.types(id).inputs[slot];
                let mut fed = self.checked.output_type(*input).ok_or_else(missing)?;
                // A fed value is never a reference, whatever the tensor it replaces.
                fed.is_ref = false;
                let source = || format!("{}:0", self.pruned.node(args[index]).name);
                check_edge(&node.name, slot, expected, fed, source)?;
                *input = Endpoint::new(args[index], 0);
            } else {
                input.node = self.new_ids[input.node.index()].ok_or_else(missing)?;
            }
        }
        let mut control_inputs = Vec::with_capacity(node.control_inputs.len());
        for &before in &node.control_inputs {
            if is_fed_placeholder(graph, before, self.feeds) {
                control_inputs.push(args[self.feeds[&Endpoint::new(before, 0)]]);
            } else {
                control_inputs.push(self.new_ids[before.index()].ok_or_else(missing)?);
            }
        }
        node.control_inputs = control_inputs;
        Ok(node)
    }

    fn add_retval(&mut self, index: usize, fetch: Endpoint) -> Result<()> {
        let missing = || Status::internal("pruning dropped a fetched node");
        let edge = self.checked.output_type(fetch).ok_or_else(missing)?;
        let source = &self.checked.graph().node(fetch.node).name;
        let mut node = Node::new(format!("_retval_{source}_{}_{index}", fetch.slot), "_Retval");
        node.inputs.push(Endpoint::new(self.new_ids[fetch.node.index()].ok_or_else(missing)?, fetch.slot));
        node.attrs.insert("T".into(), edge.dtype.into_attr());
        node.attrs.insert("index".into(), (index as i64).into_attr());
        self.pruned.add(node).map(|_| ())
    }
}
