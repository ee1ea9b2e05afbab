//! Graphs to and from `GraphDef`, with all structural checks and TensorFlow's answers to broken graphs.
//!
//! Import is all or nothing: the new nodes are resolved and checked beside the graph and appended at the end.
//! There is no recursion, and the cost is linear in nodes and edges.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use tensorfleet_proto::tensorflow::{FunctionDefLibrary, GraphDef, NodeDef};

use crate::graph::{Endpoint, Graph, Node, NodeId, check_name};
use crate::status::{Result, Status};
use crate::{bail, ensure};

/// Bounds on what a graph from outside may contain.
#[derive(Clone, Debug)]
pub struct GraphLimits {
    /// Nodes in the whole graph. Large client graphs have some hundred thousand.
    pub max_nodes: usize,
    /// Data and control inputs of one node.
    pub max_inputs: usize,
}

impl Default for GraphLimits {
    fn default() -> GraphLimits {
        GraphLimits { max_nodes: 10_000_000, max_inputs: 1_000_000 }
    }
}

impl Graph {
    /// Imports a graph.
    pub fn from_graph_def(def: GraphDef) -> Result<Graph> {
        let mut graph = Graph::new();
        graph.extend(def, &GraphLimits::default())?;
        Ok(graph)
    }

    /// Adds the nodes and functions of `def`, whose inputs may name nodes of either. On an error the graph is
    /// unchanged.
    pub fn extend(&mut self, def: GraphDef, limits: &GraphLimits) -> Result<()> {
        self.extend_checked(def, limits, |_, _| Ok(()))
    }

    /// Like [`Graph::extend`], with a further check of the new nodes before they become part of the graph. The
    /// check gets the graph without them, and the nodes, whose ids go on where the graph's end.
    pub fn extend_checked<T>(
        &mut self,
        def: GraphDef,
        limits: &GraphLimits,
        check: impl FnOnce(&Graph, &[Node]) -> Result<T>,
    ) -> Result<T> {
        let count = self.nodes.len().saturating_add(def.node.len());
        ensure!(
            count <= limits.max_nodes,
            ResourceExhausted,
            "the graph would have {count} nodes, the limit is {}",
            limits.max_nodes
        );
        let new_names = self.index_new_names(&def.node)?;
        let find = |name: &str| new_names.get(name).or_else(|| self.by_name.get(name)).copied();
        let mut interned = Interner::default();
        let mut nodes = Vec::with_capacity(def.node.len());
        for node in def.node {
            nodes.push(import_node(node, find, limits, &mut interned)?);
        }
        check_acyclic(&nodes, self.nodes.len())?;
        let library = merged_library(self.library.as_ref(), def.library)?;
        let checked = check(self, &nodes)?;

        self.by_name.extend(
            nodes
                .iter()
                .enumerate()
                .map(|(offset, node)| (node.name.clone(), NodeId::from_index(self.nodes.len() + offset))),
        );
        self.nodes.extend(nodes);
        self.library = library;
        self.versions = self.versions.take().or(def.versions);
        self.debug_info = self.debug_info.take().or(def.debug_info);
        Ok(checked)
    }

    fn index_new_names(&self, defs: &[NodeDef]) -> Result<FxHashMap<Arc<str>, NodeId>> {
        let mut names = FxHashMap::default();
        names.reserve(defs.len());
        for (offset, def) in defs.iter().enumerate() {
            check_name(&def.name)?;
            let id = NodeId::from_index(self.nodes.len() + offset);
            let taken =
                names.insert(Arc::from(&*def.name), id).is_some() || self.by_name.contains_key(&*def.name);
            ensure!(!taken, InvalidArgument, "Node '{}' is not unique", def.name);
        }
        Ok(names)
    }

    /// Exports the graph, nodes in the order they were added.
    pub fn to_graph_def(&self) -> GraphDef {
        GraphDef {
            node: (0..self.nodes.len()).map(|index| self.node_def(NodeId::from_index(index))).collect(),
            versions: self.versions.clone(),
            library: self.library.clone(),
            debug_info: self.debug_info.clone(),
            ..Default::default()
        }
    }

    /// Exports one node: data inputs in slot order, then control inputs.
    pub fn node_def(&self, id: NodeId) -> NodeDef {
        let node = self.node(id);
        let data = node.inputs.iter().map(|&input| self.endpoint_name(input));
        let control = node.control_inputs.iter().map(|&input| format!("^{}", self.node(input).name));
        NodeDef {
            name: node.name.to_string(),
            op: node.op.to_string(),
            input: data.chain(control).collect(),
            device: node.device.to_string(),
            attr: node.attrs.clone(),
            experimental_debug_info: node.debug_info.clone(),
            experimental_type: node.full_type.clone(),
        }
    }

    fn endpoint_name(&self, endpoint: Endpoint) -> String {
        let name = &self.node(endpoint.node).name;
        if endpoint.slot == 0 { name.to_string() } else { format!("{name}:{}", endpoint.slot) }
    }
}

/// Splits a tensor name into node name and output slot; `node` alone means slot 0.
pub fn parse_endpoint(name: &str) -> Result<(&str, u32)> {
    match name.rsplit_once(':') {
        None => Ok((name, 0)),
        Some((node, slot)) => {
            let digits = !slot.is_empty() && slot.bytes().all(|byte| byte.is_ascii_digit());
            let slot = digits.then(|| slot.parse().ok()).flatten();
            let slot = slot.ok_or_else(|| {
                Status::invalid_argument(format!("'{name}' is not a tensor name: expected NODE or NODE:SLOT"))
            })?;
            Ok((node, slot))
        }
    }
}

/// Op and device names repeat thousands of times; each is stored once.
#[derive(Default)]
struct Interner(FxHashMap<String, Arc<str>>);

impl Interner {
    fn intern(&mut self, text: String) -> Arc<str> {
        self.0.entry(text).or_insert_with_key(|text| Arc::from(&**text)).clone()
    }
}

fn import_node(
    def: NodeDef,
    find: impl Fn(&str) -> Option<NodeId>,
    limits: &GraphLimits,
    interned: &mut Interner,
) -> Result<Node> {
    let name = &def.name;
    ensure!(
        def.input.len() <= limits.max_inputs,
        ResourceExhausted,
        "Node '{name}' has {} inputs, the limit is {}",
        def.input.len(),
        limits.max_inputs
    );
    ensure!(!def.op.is_empty(), InvalidArgument, "Node '{name}' does not name an op");
    let mut inputs = Vec::with_capacity(def.input.len());
    let mut control_inputs = Vec::new();
    for input in &def.input {
        let resolve = |producer: &str| {
            find(producer).ok_or_else(|| {
                Status::invalid_argument(format!("Node '{name}': Unknown input node '{input}'"))
            })
        };
        if let Some(producer) = input.strip_prefix('^') {
            control_inputs.push(resolve(producer)?);
        } else {
            if !control_inputs.is_empty() {
                bail!(
                    InvalidArgument,
                    "Node '{name}': Control dependencies must come after regular dependencies"
                );
            }
            let (producer, slot) =
                parse_endpoint(input).map_err(|status| status.context(format!("Node '{name}'")))?;
            inputs.push(Endpoint::new(resolve(producer)?, slot));
        }
    }
    Ok(Node {
        op: interned.intern(def.op),
        device: interned.intern(def.device),
        name: def.name.into(),
        inputs,
        control_inputs,
        attrs: def.attr,
        debug_info: def.experimental_debug_info,
        full_type: def.experimental_type,
    })
}

/// Cycles may only run through `NextIteration`. Earlier nodes cannot depend on new ones, so only the new
/// ones need a look: repeatedly remove nodes whose producers are gone; what stays is in a cycle.
fn check_acyclic(nodes: &[Node], first: usize) -> Result<()> {
    let producers = |node: &Node| -> Vec<usize> {
        let all = node.inputs.iter().map(|input| input.node).chain(node.control_inputs.iter().copied());
        all.filter_map(|id| id.index().checked_sub(first))
            .filter(|&producer| !nodes[producer].is_next_iteration())
            .collect()
    };
    let mut waiting_for: Vec<u32> = vec![0; nodes.len()];
    let mut consumers: Vec<Vec<u32>> = vec![Vec::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        for producer in producers(node) {
            waiting_for[index] += 1;
            consumers[producer].push(index as u32);
        }
    }
    let mut ready: Vec<usize> = (0..nodes.len()).filter(|&index| waiting_for[index] == 0).collect();
    let mut removed = 0;
    while let Some(index) = ready.pop() {
        removed += 1;
        for &consumer in &consumers[index] {
            let consumer = consumer as usize;
            waiting_for[consumer] -= 1;
            if waiting_for[consumer] == 0 {
                ready.push(consumer);
            }
        }
    }
    if removed == nodes.len() {
        return Ok(());
    }
    let stuck = nodes.iter().zip(&waiting_for).filter(|&(_, &count)| count > 0).map(|(node, _)| &*node.name);
    let shown: Vec<&str> = stuck.take(5).collect();
    bail!(InvalidArgument, "{} nodes in a cycle, among them {}", nodes.len() - removed, shown.join(", "))
}

fn merged_library(
    old: Option<&FunctionDefLibrary>,
    new: Option<FunctionDefLibrary>,
) -> Result<Option<FunctionDefLibrary>> {
    let Some(new) = new else { return Ok(old.cloned()) };
    let Some(old) = old else { return Ok(Some(new)) };
    let name_of = |signature: &Option<tensorfleet_proto::tensorflow::OpDef>| {
        signature.as_ref().map_or("", |signature| &signature.name).to_string()
    };
    let mut merged = old.clone();
    let known: FxHashMap<String, usize> = merged
        .function
        .iter()
        .enumerate()
        .map(|(index, function)| (name_of(&function.signature), index))
        .collect();
    for function in new.function {
        match known.get(&name_of(&function.signature)) {
            Some(&index) if merged.function[index] == function => {}
            Some(_) => bail!(
                InvalidArgument,
                "Function '{}' is already defined with another body",
                name_of(&function.signature)
            ),
            None => merged.function.push(function),
        }
    }
    for gradient in new.gradient {
        if !merged.gradient.contains(&gradient) {
            merged.gradient.push(gradient);
        }
    }
    Ok(Some(merged))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;
    use proptest::prelude::*;
    use tensorfleet_proto::tensorflow::{AttrValue, attr_value::Value};

    fn def(nodes: &[(&str, &str, &[&str])]) -> GraphDef {
        let node = nodes
            .iter()
            .map(|(name, op, inputs)| NodeDef {
                name: name.to_string(),
                op: op.to_string(),
                input: inputs.iter().map(|input| input.to_string()).collect(),
                ..Default::default()
            })
            .collect();
        GraphDef { node, ..Default::default() }
    }

    fn refusal(nodes: &[(&str, &str, &[&str])]) -> Status {
        Graph::from_graph_def(def(nodes)).unwrap_err()
    }

    #[test]
    fn broken_graphs_are_refused_with_the_node_named() {
        for (nodes, fragment) in [
            (&[("a", "X", &[][..]), ("a", "X", &[])][..], "Node 'a' is not unique"),
            (&[("b", "X", &["a"])], "Node 'b': Unknown input node 'a'"),
            (&[("b", "X", &["^a"])], "Node 'b': Unknown input node '^a'"),
            (&[("a", "X", &["b"]), ("b", "X", &["^a"])], "2 nodes in a cycle"),
            (&[("", "X", &[])], "Illegal op name ''"),
            (&[("a b", "X", &[])], "Illegal op name 'a b'"),
            (&[("a", "", &[])], "does not name an op"),
            (&[("a", "X", &[]), ("b", "X", &["^a", "a"])], "Control dependencies must come after"),
            (&[("a", "X", &[]), ("b", "X", &["a:x"])], "not a tensor name"),
            (&[("a", "X", &[]), ("b", "X", &["a:99999999999"])], "not a tensor name"),
        ] {
            let status = refusal(nodes);
            assert_eq!(status.code(), Code::InvalidArgument);
            assert!(status.message().contains(fragment), "{status} should contain {fragment}");
        }
    }

    #[test]
    fn loops_through_next_iteration_are_legal() {
        let nodes: &[(&str, &str, &[&str])] =
            &[("e", "Enter", &[]), ("m", "Merge", &["e", "n"]), ("n", "NextIteration", &["m"])];
        assert_eq!(Graph::from_graph_def(def(nodes)).unwrap().len(), 3);
    }

    #[test]
    fn a_refused_extension_leaves_the_graph_as_it_was() {
        let mut graph = Graph::from_graph_def(def(&[("a", "X", &[])])).unwrap();
        let before = graph.to_graph_def();
        for bad in
            [def(&[("b", "X", &["a"]), ("a", "X", &[])]), def(&[("b", "X", &["a"]), ("c", "X", &["nope"])])]
        {
            assert!(graph.extend(bad, &GraphLimits::default()).is_err());
            assert_eq!(graph.to_graph_def(), before);
            assert!(graph.find("b").is_none());
        }
        graph.extend(def(&[("b", "X", &["a:1", "^a"])]), &GraphLimits::default()).unwrap();
        assert_eq!(graph.to_graph_def().node[1].input, ["a:1", "^a"]);
    }

    #[test]
    fn too_many_nodes_exhaust_the_limit() {
        let limits = GraphLimits { max_nodes: 1, ..Default::default() };
        let status = Graph::new().extend(def(&[("a", "X", &[]), ("b", "X", &[])]), &limits).unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
    }

    #[test]
    fn a_chain_of_a_hundred_thousand_nodes_needs_no_stack() {
        let mut nodes = vec![NodeDef { name: "n0".into(), op: "X".into(), ..Default::default() }];
        for i in 1..100_000 {
            let input = vec![format!("n{}", i - 1)];
            nodes.push(NodeDef { name: format!("n{i}"), op: "X".into(), input, ..Default::default() });
        }
        nodes.reverse();
        let graph = Graph::from_graph_def(GraphDef { node: nodes, ..Default::default() }).unwrap();
        assert_eq!(graph.len(), 100_000);
    }

    proptest! {
        #[test]
        fn export_after_import_gives_the_same_graph(
            nodes in proptest::collection::vec(
                (proptest::collection::vec((any::<proptest::sample::Index>(), 0..3u32, any::<bool>()), 0..4), any::<i64>(), "(/job:[a-z]{1,3})?"),
                1..30,
            ),
        ) {
            let mut def = GraphDef::default();
            for (index, (inputs, value, device)) in nodes.into_iter().enumerate() {
                let mut data = Vec::new();
                let mut control = Vec::new();
                for (which, slot, is_control) in inputs {
                    if index == 0 { continue }
                    let producer = which.index(index);
                    match (is_control, slot) {
                        (true, _) => control.push(format!("^n{producer}")),
                        (false, 0) => data.push(format!("n{producer}")),
                        (false, slot) => data.push(format!("n{producer}:{slot}")),
                    }
                }
                data.extend(control);
                let attr = [("v".to_string(), AttrValue { value: Some(Value::I(value)) })].into();
                def.node.push(NodeDef { name: format!("n{index}"), op: "X".into(), input: data, device, attr, ..Default::default() });
            }
            let graph = Graph::from_graph_def(def.clone()).unwrap();
            prop_assert_eq!(graph.to_graph_def(), def);
        }
    }
}
