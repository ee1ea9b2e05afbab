//! [`ColocationSets`]: which nodes must share a device, and what they ask for together.
//!
//! Two things tie nodes together. A reference or resource edge does, because the consumer works on the memory behind
//! it; where consumer and producer ask for different devices, the producer's wish counts. And an attribute `_class`
//! with `loc:@G` puts a node into group `G`, to which the node named `G`, if there is one, belongs as well; a conflict
//! there is an error, or with soft placement ends the request. Sets are joined by union-find; specifications are
//! interned, so that a hundred thousand nodes parse and merge a handful of them. As TensorFlow 1.15 and later do it.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use tensorfleet_core::attr::FromAttr;
use tensorfleet_core::{DType, DeviceName, NodeId, Result, Status};

use super::device::{Device, DeviceIndex};
use crate::checked_graph::CheckedGraph;
use crate::functions::CALL_RESULTS;

/// An interned device specification.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct SpecId(u32);

/// No constraint.
const ANY: SpecId = SpecId(0);

/// Specifications, each kept once.
struct Specs {
    list: Vec<DeviceName>,
    ids: FxHashMap<DeviceName, SpecId>,
    by_text: FxHashMap<Arc<str>, SpecId>,
}

impl Specs {
    fn new() -> Specs {
        let any = DeviceName::default();
        Specs {
            list: vec![any.clone()],
            ids: FxHashMap::from_iter([(any, ANY)]),
            by_text: FxHashMap::default(),
        }
    }

    fn get(&self, id: SpecId) -> &DeviceName {
        &self.list[id.0 as usize]
    }

    fn intern(&mut self, name: DeviceName) -> SpecId {
        let next = SpecId(self.list.len() as u32);
        let list = &mut self.list;
        *self.ids.entry(name).or_insert_with_key(|name| {
            list.push(name.clone());
            next
        })
    }

    fn parse(&mut self, text: &Arc<str>) -> Result<SpecId> {
        if text.is_empty() {
            return Ok(ANY);
        }
        if let Some(&id) = self.by_text.get(text) {
            return Ok(id);
        }
        let id = self.intern(text.parse()?);
        self.by_text.insert(text.clone(), id);
        Ok(id)
    }

    fn are_compatible(&self, a: SpecId, b: SpecId) -> bool {
        a == b || a == ANY || b == ANY || self.get(a).is_compatible_with(self.get(b))
    }

    fn merge(&mut self, a: SpecId, b: SpecId, soft: bool) -> Result<SpecId> {
        if a == b || b == ANY {
            return Ok(a);
        }
        if a == ANY {
            return Ok(b);
        }
        let merged = self.get(a).merged_with(self.get(b), soft)?;
        Ok(self.intern(merged))
    }
}

/// What a set asks for.
#[derive(Clone, Copy)]
struct Wish {
    /// The merged specification.
    requested: SpecId,
    /// The part of it that no reference edge overrides: where state already is, or was asked to be.
    firm: SpecId,
}

/// The sets of nodes that share a device.
pub(super) struct ColocationSets {
    /// Union-find: roots are their own parents.
    parents: Vec<u32>,
    sizes: Vec<u32>,
    wishes: Vec<Wish>,
    specs: Specs,
}

impl ColocationSets {
    /// The sets of a whole graph. `fixed` gives the devices of nodes that cannot move any more.
    pub(super) fn of(
        checked: &CheckedGraph,
        devices: &[Device],
        fixed: &[Option<DeviceIndex>],
        allow_soft_placement: bool,
    ) -> Result<ColocationSets> {
        let graph = checked.graph();
        let mut sets = ColocationSets {
            parents: (0..graph.len() as u32).collect(),
            sizes: vec![1; graph.len()],
            wishes: Vec::with_capacity(graph.len()),
            specs: Specs::new(),
        };
        for (id, node) in graph.iter() {
            let fixed = fixed.get(id.index()).copied().flatten().and_then(|index| devices.get(index.index()));
            let wish = match fixed {
                Some(device) => {
                    let spec = sets.specs.intern(device.name.clone());
                    Wish { requested: spec, firm: spec }
                }
                None => {
                    let requested = sets.specs.parse(&node.device)?;
                    let firm = if generates_state(checked, id) { requested } else { ANY };
                    Wish { requested, firm }
                }
            };
            sets.wishes.push(wish);
        }
        sets.join_along_reference_edges(checked, allow_soft_placement)?;
        sets.join_groups(checked, allow_soft_placement)?;
        Ok(sets)
    }

    /// The set of a node, named by one of its members.
    pub(super) fn root(&mut self, id: NodeId) -> usize {
        let mut index = id.index();
        while self.parents[index] as usize != index {
            // Path halving keeps chains short.
            let grandparent = self.parents[self.parents[index] as usize];
            self.parents[index] = grandparent;
            index = grandparent as usize;
        }
        index
    }

    /// What the set with this root asks for.
    pub(super) fn requested(&self, root: usize) -> SpecId {
        self.wishes[root].requested
    }

    /// The specification behind an id.
    pub(super) fn spec(&self, id: SpecId) -> &DeviceName {
        self.specs.get(id)
    }

    fn join_along_reference_edges(&mut self, checked: &CheckedGraph, soft: bool) -> Result<()> {
        for (id, node) in checked.graph().iter() {
            // Handles of several devices may be among the results of a call.
            if node.attrs.contains_key(CALL_RESULTS) {
                continue;
            }
            for (input, edge) in node.inputs.iter().zip(&checked.types(id).inputs) {
                if !edge.is_ref && edge.dtype != DType::Resource {
                    continue;
                }
                let producer = input.node;
                self.yield_to_producer(producer, id)
                    .and_then(|()| self.join(producer, id, soft))
                    .map_err(|status| {
                        let text = format!(
                            "Nodes were connected by a reference or resource connection (requiring them to be on the \
                             same device), but the two nodes were assigned two different devices: {}",
                            status.text()
                        );
                        Status::invalid_argument(text).at_node(&node.name, &node.op, &node.device)
                    })?;
            }
        }
        Ok(())
    }

    /// Where the wishes of two sets contradict each other, the consumer's gives way.
    fn yield_to_producer(&mut self, producer: NodeId, consumer: NodeId) -> Result<()> {
        let (from, to) = (self.root(producer), self.root(consumer));
        let (ours, theirs) = (self.wishes[from], self.wishes[to]);
        let (requested, firm) = (ours.requested, theirs.firm);
        if !self.specs.are_compatible(requested, theirs.requested)
            && self.specs.are_compatible(ours.firm, firm)
        {
            self.wishes[to].requested = self.specs.merge(requested, firm, false)?;
        }
        Ok(())
    }

    fn join_groups(&mut self, checked: &CheckedGraph, soft: bool) -> Result<()> {
        let graph = checked.graph();
        // The first member seen of each group. A node is in the group of its own name.
        let mut groups: FxHashMap<String, NodeId> = FxHashMap::default();
        for (id, node) in graph.iter() {
            let Some(class) = node.attrs.get("_class") else { continue };
            let Ok(entries) = Vec::<String>::from_attr(class) else { continue };
            for group in entries.iter().filter_map(|entry| entry.strip_prefix("loc:@")) {
                let first = match groups.get(group) {
                    Some(&first) => first,
                    None => {
                        let first = graph.find(group).unwrap_or(id);
                        groups.insert(group.to_string(), first);
                        first
                    }
                };
                let Err(status) = self.join(id, first, soft) else { continue };
                if !soft {
                    let text = format!(
                        "Cannot colocate nodes {{{{colocation_node {}}}}} and {{{{colocation_node {}}}}}: {}",
                        node.name,
                        graph.node(first).name,
                        status.text()
                    );
                    return Err(Status::invalid_argument(text).at_node(&node.name, &node.op, &node.device));
                }
            }
        }
        Ok(())
    }

    fn join(&mut self, a: NodeId, b: NodeId, soft: bool) -> Result<()> {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return Ok(());
        }
        let (x, y) = (self.wishes[a], self.wishes[b]);
        let wish = Wish {
            requested: self.specs.merge(x.requested, y.requested, soft)?,
            firm: self.specs.merge(x.firm, y.firm, false)?,
        };
        let (winner, loser) = if self.sizes[a] >= self.sizes[b] { (a, b) } else { (b, a) };
        self.parents[loser] = winner as u32;
        self.sizes[winner] += self.sizes[loser];
        self.wishes[winner] = wish;
        Ok(())
    }
}

/// Whether the node is where state lives: a variable, a queue, a table. Consumers follow it, it follows none.
fn generates_state(checked: &CheckedGraph, id: NodeId) -> bool {
    let types = checked.types(id);
    types.inputs.is_empty()
        && matches!(types.outputs[..], [edge] if edge.is_ref || edge.dtype == DType::Resource)
}
