//! Imports a `GraphDef` into a graph under construction: all of it or nothing.
//!
//! The definition may list nodes in any order and contain loops. Types come from attributes alone, so they are
//! resolved first, for all nodes; shapes follow in an order where producers come before consumers, with nothing
//! assumed about what comes back from a loop's previous iteration.

use rustc_hash::{FxHashMap, FxHashSet};
use tensorfleet_core::attr::{FromAttr, IntoAttr};
use tensorfleet_core::{EdgeType, Endpoint, Graph, GraphLimits, NodeId, PartialShape, Result, bail};
use tensorfleet_proto::tensorflow::{FunctionDefLibrary, GraphDef, NodeDef};

use super::GraphBuilder;
use super::facts::{self, NodeFacts, OutputFacts};
use crate::catalogue::Catalogue;
use crate::node_spec::{EdgeTypes, NodeSpec};
use crate::shape_context::InputShape;

impl GraphBuilder {
    /// Adds the nodes of `def`, with `prefix/` before their names unless the prefix is empty. Names must be free.
    pub fn import(&mut self, def: GraphDef, prefix: &str) -> Result<Vec<NodeId>> {
        self.import_mapped(def, prefix, &[])
    }

    /// Adds the nodes of `def` with some of its inputs taken from this graph: each pair is a name as nodes of `def` write
    /// it (`node`, `node:1`, `^node`) and what stands in its place here. The device scopes around hold for nodes that are not
    /// colocated with others.
    pub fn import_mapped(
        &mut self,
        mut def: GraphDef,
        prefix: &str,
        input_map: &[(String, Endpoint)],
    ) -> Result<Vec<NodeId>> {
        let mut stand_ins = StandIns::new(&def, input_map);
        let own: FxHashSet<String> = def.node.iter().map(|node| node.name.clone()).collect();
        if !prefix.is_empty() {
            add_prefix(&mut def, prefix);
        }
        // Types and shapes are found for the definition alone, with placeholders where inputs are mapped.
        let mut alone = def.clone();
        stand_ins.put_into(&mut alone, prefix, |endpoint| self.stand_in(endpoint))?;
        let imported = Graph::from_graph_def(alone)?;
        let mut facts = infer_all(&imported, self.catalogue)?;
        facts.truncate(def.node.len());
        stand_ins.replace(&mut def, prefix, |endpoint| self.node(endpoint.node).name.to_string());
        let first = self.graph.len();
        self.graph.extend(def, &GraphLimits::default())?;
        self.facts.extend(facts);
        self.flows.resize(self.graph.len(), None);
        let added: Vec<NodeId> = (first..self.graph.len()).map(NodeId::from_index).collect();
        for &id in &added {
            let mut node = self.node(id).clone();
            self.names.mark(&node.name);
            if !node.attrs.contains_key("_class") {
                let device = self.scopes.device_for(&mut node)?;
                self.graph.node_mut(id).set_device(device.to_string());
            }
        }
        if !prefix.is_empty() && !own.is_empty() {
            self.names.mark(prefix);
        }
        Ok(added)
    }

    /// A placeholder of the type and shape of an output.
    fn stand_in(&self, endpoint: Endpoint) -> Result<NodeDef> {
        let facts = self.facts(endpoint)?;
        let mut node = NodeDef { op: "Placeholder".to_string(), ..Default::default() };
        node.attr.insert("dtype".to_string(), facts.edge.dtype.into_attr());
        node.attr.insert("shape".to_string(), facts.shape.clone().into_attr());
        Ok(node)
    }

    /// Adds functions that nodes may call. Equal ones may be there already.
    pub fn add_functions(&mut self, library: FunctionDefLibrary) -> Result<()> {
        let def = GraphDef { library: Some(library), ..Default::default() };
        self.graph.extend(def, &GraphLimits::default())
    }
}

/// Inputs of a definition that come from the graph it is imported into.
struct StandIns<'a> {
    /// By the name that the definition's nodes write, without `:0`.
    mapped: FxHashMap<&'a str, Endpoint>,
    /// The name of the placeholder of each, unlike all names of the definition.
    names: FxHashMap<&'a str, String>,
}

impl<'a> StandIns<'a> {
    fn new(def: &GraphDef, input_map: &'a [(String, Endpoint)]) -> StandIns<'a> {
        let mapped: FxHashMap<&str, Endpoint> =
            input_map.iter().map(|(name, endpoint)| (plain(name), *endpoint)).collect();
        let longest = def.node.iter().map(|node| node.name.len()).max().unwrap_or(0);
        let name = |(index, (&key, _)): (usize, (&&'a str, &Endpoint))| {
            (key, format!("{}{index}", "m".repeat(longest + 1)))
        };
        let names = mapped.iter().enumerate().map(name).collect();
        StandIns { mapped, names }
    }

    /// Adds placeholders, and leads the mapped inputs to them.
    fn put_into(
        &mut self,
        def: &mut GraphDef,
        prefix: &str,
        stand_in: impl Fn(Endpoint) -> Result<NodeDef>,
    ) -> Result<()> {
        for node in &mut def.node {
            for input in &mut node.input {
                if let Some((key, is_control)) = self.key(input, prefix) {
                    let name = &self.names[key];
                    *input = if is_control { format!("^{name}") } else { name.clone() };
                }
            }
        }
        for (key, &endpoint) in &self.mapped {
            def.node.push(NodeDef { name: self.names[key].clone(), ..stand_in(endpoint)? });
        }
        Ok(())
    }

    /// Leads the mapped inputs to the graph's own nodes.
    fn replace(&self, def: &mut GraphDef, prefix: &str, name_of: impl Fn(Endpoint) -> String) {
        for node in &mut def.node {
            for input in &mut node.input {
                if let Some((key, is_control)) = self.key(input, prefix) {
                    let endpoint = self.mapped[key];
                    let name = name_of(endpoint);
                    *input =
                        if is_control { format!("^{name}") } else { format!("{name}:{}", endpoint.slot) };
                }
            }
        }
    }

    /// The mapped name that an input, which has the prefix, is.
    fn key(&self, input: &str, prefix: &str) -> Option<(&'a str, bool)> {
        let (name, is_control) = match input.strip_prefix('^') {
            Some(name) => (name, true),
            None => (input, false),
        };
        let name = match prefix.is_empty() {
            true => name,
            false => name.strip_prefix(prefix)?.strip_prefix('/')?,
        };
        let name = if is_control { format!("^{name}") } else { plain(name).to_string() };
        let (&key, _) = self.mapped.get_key_value(name.as_str())?;
        Some((key, is_control))
    }
}

/// The first output of a node is also written without its number.
fn plain(name: &str) -> &str {
    name.strip_suffix(":0").unwrap_or(name)
}

fn add_prefix(def: &mut GraphDef, prefix: &str) {
    for node in &mut def.node {
        node.name = format!("{prefix}/{}", node.name);
        for input in &mut node.input {
            *input = match input.strip_prefix('^') {
                Some(control) => format!("^{prefix}/{control}"),
                None => format!("{prefix}/{input}"),
            };
        }
        let class = node.attr.get_mut("_class");
        if let Some(class) = class
            && let Ok(groups) = Vec::<String>::from_attr(class)
        {
            let renamed = groups.iter().map(|group| match group.strip_prefix("loc:@") {
                Some(name) => format!("loc:@{prefix}/{name}"),
                None => group.clone(),
            });
            *class = renamed.collect::<Vec<String>>().into_attr();
        }
    }
}

/// Types and shapes of all outputs.
fn infer_all(graph: &Graph, catalogue: &'static Catalogue) -> Result<Vec<NodeFacts>> {
    let mut input_types: Vec<EdgeTypes> = Vec::with_capacity(graph.len());
    let mut facts: Vec<NodeFacts> = Vec::with_capacity(graph.len());
    for node in graph.nodes() {
        let spec = NodeSpec::resolve(node, catalogue)?;
        let unknown = |&edge: &EdgeType| OutputFacts {
            edge,
            shape: PartialShape::unknown(),
            value: None,
            as_shape: None,
        };
        facts.push(spec.outputs.iter().map(unknown).collect());
        input_types.push(spec.inputs);
    }
    check_edges(graph, &input_types, &facts)?;
    for id in producers_first(graph) {
        let node = graph.node(id);
        let inputs: Vec<InputShape> = node
            .inputs
            .iter()
            .map(|input| facts[input.node.index()][input.slot as usize].as_input())
            .collect();
        facts[id.index()] = facts::infer(&NodeSpec::resolve(node, catalogue)?, &inputs)
            .map_err(|status| status.at_node(&node.name, &node.op, &node.device))?;
    }
    Ok(facts)
}

/// Every edge must start at an output that exists and has the type its end expects.
fn check_edges(graph: &Graph, expected: &[EdgeTypes], facts: &[NodeFacts]) -> Result<()> {
    for (id, node) in graph.iter() {
        for (index, (input, expected)) in node.inputs.iter().zip(&expected[id.index()]).enumerate() {
            let producer = &graph.node(input.node).name;
            let Some(fact) = facts[input.node.index()].get(input.slot as usize) else {
                bail!(
                    InvalidArgument,
                    "Node '{}': Connecting to invalid output {} of source node {producer} which has {} outputs.",
                    node.name,
                    input.slot,
                    facts[input.node.index()].len()
                )
            };
            // A reference may be read where a value is expected, but not the other way round.
            if fact.edge.dtype != expected.dtype || (expected.is_ref && !fact.edge.is_ref) {
                bail!(
                    InvalidArgument,
                    "Input {index} of node {} was passed {} from {producer}:{} incompatible with expected {expected}.",
                    node.name,
                    fact.edge,
                    input.slot
                );
            }
        }
    }
    Ok(())
}

/// All nodes, each after those it takes data from, but for the back edges of loops.
fn producers_first(graph: &Graph) -> Vec<NodeId> {
    let is_back_edge = |producer: NodeId| graph.node(producer).is_next_iteration();
    let mut waiting: Vec<usize> = graph
        .nodes()
        .iter()
        .map(|node| node.inputs.iter().filter(|input| !is_back_edge(input.node)).count())
        .collect();
    let mut consumers: Vec<Vec<NodeId>> = vec![Vec::new(); graph.len()];
    for (id, node) in graph.iter() {
        for input in node.inputs.iter().filter(|input| !is_back_edge(input.node)) {
            consumers[input.node.index()].push(id);
        }
    }
    let mut order: Vec<NodeId> = Vec::with_capacity(graph.len());
    order.extend(graph.iter().map(|(id, _)| id).filter(|id| waiting[id.index()] == 0));
    let mut next = 0;
    while let Some(&id) = order.get(next) {
        next += 1;
        for &consumer in &consumers[id.index()] {
            waiting[consumer.index()] -= 1;
            if waiting[consumer.index()] == 0 {
                order.push(consumer);
            }
        }
    }
    order
}
