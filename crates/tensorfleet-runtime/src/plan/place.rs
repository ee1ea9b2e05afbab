//! Placement: every node of a session's graph gets a device.
//!
//! Nodes that must stay together form sets ([`ColocationSets`]), each with one merged specification. A set may live on
//! every device that matches; the first candidate is the default. Candidates are in the order of their names (TensorFlow 1.15),
//! or those of the master's own task come before all others (TensorFlow 2.21). Two habits of TensorFlow's save transfers:
//! a node that makes one value from nothing goes to its consumers, if they are all in one place, and `Shape`, `Size`
//! and `Rank` stay with their input.
//!
//! As in TensorFlow the whole graph is placed, not only what a step needs: one node that asks for an impossible
//! device fails every step of its session. Whether a task has a kernel is for that task to say: it may be another
//! implementation with more kernels and other devices. So the only rule about types is that a device that is not a CPU
//! must be asked for by task and type.

use std::io::Write;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tensorfleet_core::{DeviceName, Graph, Node, NodeId, Result, Status};

use super::colocation::{ColocationSets, SpecId};
use super::device::{Device, DeviceIndex};
use crate::checked_graph::CheckedGraph;

/// How nodes are placed.
#[derive(Clone, Debug)]
pub struct PlaceOptions {
    /// Lets nodes that ask for a missing type or index of device have another of the same task.
    pub allow_soft_placement: bool,
    /// The task whose devices come before all others: that of the master. `None`: the order of names is all.
    pub preferred_task: Option<DeviceName>,
}

/// Chooses a device for every node. `fixed` says which nodes have their device already, because their state is there;
/// it may be shorter than the graph.
pub fn place(
    checked: &CheckedGraph,
    devices: &[Device],
    fixed: &[Option<DeviceIndex>],
    options: &PlaceOptions,
) -> Result<Vec<DeviceIndex>> {
    let graph = checked.graph();
    let mut placer = Placer {
        checked,
        sets: ColocationSets::of(checked, devices, fixed, options.allow_soft_placement)?,
        candidates: Candidates::new(devices, options),
        pinned: vec![None; graph.len()],
        placement: vec![None; graph.len()],
    };
    for (&device, slot) in fixed.iter().zip(&mut placer.placement) {
        *slot = device;
    }
    for (id, node) in graph.iter() {
        if placer.placement[id.index()].is_none() && !is_generator(checked, id) {
            let preferred = if checked.types(id).op.reads_shape_only {
                node.inputs.first().and_then(|input| placer.placement[input.node.index()])
            } else {
                None
            };
            placer.assign(id, preferred)?;
        }
    }
    let wishes = wishes_of_consumers(graph, &placer.placement);
    for (id, _) in graph.iter() {
        if placer.placement[id.index()].is_none() {
            placer.assign(id, wishes[id.index()].device())?;
        }
    }
    let missing = || Status::internal("placement left a node out");
    placer.placement.into_iter().map(|device| device.ok_or_else(missing)).collect()
}

/// The lines of `log_device_placement`, in the order in which nodes are placed: those that go to their consumers come
/// last.
pub(super) fn describe<'a>(
    checked: &'a CheckedGraph,
    placement: &'a [DeviceIndex],
    devices: &'a [Device],
) -> impl Iterator<Item = String> + 'a {
    let nodes = |generators: bool| {
        let kind = move |id: &NodeId| is_generator(checked, *id) == generators;
        checked.graph().iter().map(|(id, _)| id).filter(kind)
    };
    nodes(false).chain(nodes(true)).filter_map(move |id| {
        let node = checked.graph().node(id);
        let device = devices.get(placement.get(id.index())?.index())?;
        Some(format!("{}: ({}): {}", node.name, node.op, device.text))
    })
}

/// Prints the lines of `log_device_placement` on standard output, as TensorFlow's masters do. If nobody reads that any
/// more, the session works anyway.
pub fn print_placement(checked: &CheckedGraph, placement: &[DeviceIndex], devices: &[Device]) {
    let mut out = std::io::stdout().lock();
    for line in describe(checked, placement, devices) {
        let _ = writeln!(out, "{line}");
    }
}

struct Placer<'a> {
    checked: &'a CheckedGraph,
    sets: ColocationSets,
    candidates: Candidates<'a>,
    /// Per root of a set, the device its first placed member got.
    pinned: Vec<Option<DeviceIndex>>,
    placement: Vec<Option<DeviceIndex>>,
}

impl Placer<'_> {
    fn assign(&mut self, id: NodeId, preferred: Option<DeviceIndex>) -> Result<()> {
        let root = self.sets.root(id);
        let device = match self.pinned[root] {
            Some(device) => device,
            None => {
                let candidates = self.candidates.of(&self.sets, self.sets.requested(root));
                let chosen = preferred.filter(|device| candidates.contains(device));
                let chosen = chosen.or_else(|| candidates.first().copied());
                chosen.ok_or_else(|| self.impossible(id, root))?
            }
        };
        self.pinned[root] = Some(device);
        self.placement[id.index()] = Some(device);
        Ok(())
    }

    #[cold]
    fn impossible(&self, id: NodeId, root: usize) -> Status {
        let Node { name, op, device, .. } = self.checked.graph().node(id);
        let required = self.sets.spec(self.sets.requested(root));
        let available = self.candidates.names();
        let is_own_wish = device.parse::<DeviceName>().is_ok_and(|own| own == *required);
        let text = if is_own_wish {
            format!(
                "{{{{node {name}}}}} was explicitly assigned to {device} but available devices are [ {available} ]. \
                 Make sure the device specification refers to a valid device."
            )
        } else {
            format!(
                "Could not satisfy explicit device specification '{device}' because the node {{{{colocation_node \
                 {name}}}}} was colocated with a group of nodes that required incompatible device '{required}'. \
                 All available devices [{available}]."
            )
        };
        Status::invalid_argument(format!("Cannot assign a device for operation {name}: {text}"))
            .at_node(name, op, device)
    }
}

/// The devices a specification allows, found once for each specification.
struct Candidates<'a> {
    devices: &'a [Device],
    /// All devices, the most preferred first.
    order: Vec<DeviceIndex>,
    allow_soft_placement: bool,
    known: FxHashMap<SpecId, Arc<[DeviceIndex]>>,
}

impl<'a> Candidates<'a> {
    fn new(devices: &'a [Device], options: &PlaceOptions) -> Candidates<'a> {
        let mut order: Vec<DeviceIndex> = (0..devices.len()).map(DeviceIndex::from_index).collect();
        order.sort_by_key(|index| {
            let device = &devices[index.index()];
            let is_preferred = options.preferred_task.as_ref().is_some_and(|task| task.matches(&device.name));
            (!is_cpu(&device.name), !is_preferred, &device.text)
        });
        Candidates {
            devices,
            order,
            allow_soft_placement: options.allow_soft_placement,
            known: FxHashMap::default(),
        }
    }

    fn of(&mut self, sets: &ColocationSets, id: SpecId) -> Arc<[DeviceIndex]> {
        if let Some(known) = self.known.get(&id) {
            return known.clone();
        }
        let spec = sets.spec(id);
        let mut found = self.matching(spec);
        if found.is_empty() && self.allow_soft_placement {
            found = self.matching(&spec.task_name());
        }
        let found: Arc<[DeviceIndex]> = found.into();
        self.known.insert(id, found.clone());
        found
    }

    fn matching(&self, spec: &DeviceName) -> Vec<DeviceIndex> {
        let by_name = spec.job.is_some() && spec.task.is_some() && spec.device_type.is_some();
        let fits = |name: &DeviceName| spec.matches(name) && (by_name || is_cpu(name));
        self.order.iter().copied().filter(|index| fits(&self.devices[index.index()].name)).collect()
    }

    fn names(&self) -> String {
        /// A cluster of thousands must not drown the message.
        const MAX_NAMES: usize = 64;
        let mut names: Vec<&str> = self.devices.iter().map(|device| &*device.text).collect();
        names.sort_unstable();
        let more = names.len().saturating_sub(MAX_NAMES);
        names.truncate(MAX_NAMES);
        let names = names.join(", ");
        if more == 0 { names } else { format!("{names}, and {more} more") }
    }
}

fn is_cpu(name: &DeviceName) -> bool {
    name.device_type.as_deref() == Some("CPU")
}

/// Whether a node makes one value from nothing, so that it can just as well stand where the value is used.
fn is_generator(checked: &CheckedGraph, id: NodeId) -> bool {
    let types = checked.types(id);
    types.inputs.is_empty() && matches!(types.outputs[..], [edge] if !edge.is_ref)
}

/// Where the consumers of a node are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Consumers {
    Nowhere,
    On(DeviceIndex),
    /// On several devices, or on one that is not known yet.
    Scattered,
}

impl Consumers {
    fn device(self) -> Option<DeviceIndex> {
        match self {
            Consumers::On(device) => Some(device),
            Consumers::Nowhere | Consumers::Scattered => None,
        }
    }

    fn and(self, device: Option<DeviceIndex>) -> Consumers {
        match (self, device) {
            (Consumers::Nowhere, Some(device)) => Consumers::On(device),
            (Consumers::On(one), Some(other)) if one == other => self,
            _ => Consumers::Scattered,
        }
    }
}

/// Per node, where its consumers are, as far as they have been placed.
fn wishes_of_consumers(graph: &Graph, placement: &[Option<DeviceIndex>]) -> Vec<Consumers> {
    let mut wishes = vec![Consumers::Nowhere; graph.len()];
    for (id, node) in graph.iter() {
        let device = placement[id.index()];
        let producers = node.inputs.iter().map(|input| input.node).chain(node.control_inputs.iter().copied());
        for producer in producers {
            let wish = &mut wishes[producer.index()];
            *wish = wish.and(device);
        }
    }
    wishes
}
