//! [`Signature`]: what a step is asked for, and which nodes that takes.
//!
//! A feed takes the place of the tensor it names, and whatever only that tensor needed, control inputs included, falls
//! away. What remains is everything from which a fetch or target can be reached, found iteratively in time linear in its
//! size. Errors are TensorFlow's: an unknown name is NotFound, a bad combination InvalidArgument.

use rustc_hash::FxHashMap;
use tensorfleet_core::{Endpoint, Graph, NodeId, Result, Status, ensure, parse_endpoint};

use crate::checked_graph::CheckedGraph;

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

impl Signature {
    /// What a caller names.
    pub fn new(feeds: &[&str], fetches: &[&str], targets: &[&str]) -> Signature {
        let owned = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
        Signature { feeds: owned(feeds), fetches: owned(fetches), targets: owned(targets) }
    }
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
        let needed = needed_nodes(checked, &feeds, &fetches, &targets);
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
pub(super) fn is_fed_placeholder(checked: &CheckedGraph, id: NodeId, feeds: &Feeds) -> bool {
    checked.types(id).op.is_placeholder && feeds.contains_key(&Endpoint::new(id, 0))
}

/// Marks everything that fetches and targets depend on.
fn needed_nodes(
    checked: &CheckedGraph,
    feeds: &Feeds,
    fetches: &[Endpoint],
    targets: &[NodeId],
) -> Vec<bool> {
    let graph = checked.graph();
    let mut needed = vec![false; graph.len()];
    let mut stack: Vec<NodeId> = targets.to_vec();
    stack.extend(fetches.iter().map(|fetch| fetch.node));
    while let Some(id) = stack.pop() {
        if std::mem::replace(&mut needed[id.index()], true) {
            continue;
        }
        let node = graph.node(id);
        stack.extend(node.inputs.iter().filter(|input| !feeds.contains_key(input)).map(|input| input.node));
        stack.extend(node.control_inputs.iter().filter(|&&id| !is_fed_placeholder(checked, id, feeds)));
    }
    needed
}
