//! Imports a `GraphDef` into a graph under construction: all of it or nothing.
//!
//! The definition may list nodes in any order and contain loops. Types come from attributes alone, so they are
//! resolved first, for all nodes; shapes follow in an order where producers come before consumers, with nothing
//! assumed about what comes back from a loop's previous iteration.

use tensorfleet_core::attr::{FromAttr, IntoAttr};
use tensorfleet_core::{EdgeType, Graph, GraphLimits, NodeId, PartialShape, Result, bail};
use tensorfleet_proto::tensorflow::GraphDef;

use super::GraphBuilder;
use super::facts::{self, NodeFacts, OutputFacts};
use crate::catalogue::Catalogue;
use crate::node_spec::{EdgeTypes, NodeSpec};
use crate::shape_context::InputShape;

impl GraphBuilder {
    /// Adds the nodes of `def`, with `prefix/` before their names unless the prefix is empty. Names must be free.
    pub fn import(&mut self, mut def: GraphDef, prefix: &str) -> Result<Vec<NodeId>> {
        if !prefix.is_empty() {
            add_prefix(&mut def, prefix);
        }
        let imported = Graph::from_graph_def(def.clone())?;
        let facts = infer_all(&imported, self.catalogue)?;
        let first = self.graph.len();
        self.graph.extend(def, &GraphLimits::default())?;
        self.facts.extend(facts);
        self.flows.resize(self.graph.len(), None);
        for node in imported.nodes() {
            self.names.mark(&node.name);
        }
        if !prefix.is_empty() {
            self.names.mark(prefix);
        }
        Ok((first..self.graph.len()).map(NodeId::from_index).collect())
    }
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
