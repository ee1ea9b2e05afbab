//! Partitioning: from a session's graph to one graph for each task that takes part in a step.
//!
//! An edge from one task to another becomes a `_Send` where the value is made and a `_Recv` where it is used; all
//! consumers of a value on one device share a pair. A control edge sends an empty tensor. An edge from a reference is
//! not shared: each consumer is to see the variable as it is when it asks.
//!
//! Feeds and fetches are the same nodes with both ends on one device (`client_terminated`). TensorFlow's masters have
//! them all enter and leave at their own device; here a feed enters at every task that uses it, and a fetch leaves
//! where it is made. So a step is one message to each task, with its feeds inside and its fetches in the answer, and no
//! tensor takes a detour through the master.
//!
//! `_Send` and `_Recv` count as stateful, so a worker may keep their kernels by name for as long as the session lives.
//! Names are therefore chosen such that, on one device, equal names mean equal attributes.

use rustc_hash::FxHashMap;
use tensorfleet_core::{DType, Graph, RendezvousKey, Result};

use super::cut::cut;
use super::device::{Device, DeviceIndex};
use super::loops::ControlLoops;
use super::names::Names;
use super::prune::Signature;
use super::simplify::simplify;
use super::step_graph::StepGraph;
use crate::checked_graph::CheckedGraph;

/// How steps are planned.
#[derive(Clone, Copy, Debug)]
pub struct PlanOptions {
    /// Whether constant parts are computed in advance and superfluous ones left out.
    pub simplify: bool,
}

/// A step, cut into the parts that tasks run.
#[derive(Debug)]
pub struct StepPlan {
    /// One part for each task that takes part.
    pub partitions: Vec<Partition>,
    /// The dtypes of the feeds, in the order of the signature.
    pub feed_dtypes: Vec<DType>,
}

/// What one task runs.
#[derive(Debug)]
pub struct Partition {
    /// The first device of the task.
    pub device: DeviceIndex,
    /// The nodes; each has the full name of a device of the task.
    pub graph: Graph,
    /// The feeds the task needs: number in the signature, and the rendezvous key under which it is expected.
    pub feeds: Vec<(usize, RendezvousKey)>,
    /// The fetches the task makes: number in the signature, and the rendezvous key under which it is left. No key
    /// comes twice.
    pub fetches: Vec<(usize, RendezvousKey)>,
}

/// Plans a step of a placed graph. `counter` numbers the nodes this adds; it belongs to the session, and two plans must
/// not be made from the same value.
pub fn plan_step(
    checked: &CheckedGraph,
    placement: &[DeviceIndex],
    devices: &[Device],
    signature: &Signature,
    counter: &mut u64,
    options: &PlanOptions,
) -> Result<StepPlan> {
    let mut step = StepGraph::cut_out(checked, placement, signature)?;
    let mut names = Names::new(checked.graph(), counter);
    let tasks = Tasks::of(devices);
    if options.simplify {
        simplify(&mut step, &tasks, &mut names)?;
    }
    let loops = ControlLoops::add(&mut step, &tasks, &mut names)?;
    let feed_dtypes = step.feeds.iter().map(|feed| feed.dtype).collect();
    let partitions = cut(step, checked.graph(), devices, tasks, loops, names)?;
    Ok(StepPlan { partitions, feed_dtypes })
}

/// Which devices belong to one task.
pub(super) struct Tasks {
    /// Per device, the first device of its task.
    first: Vec<DeviceIndex>,
}

impl Tasks {
    fn of(devices: &[Device]) -> Tasks {
        let mut known = FxHashMap::default();
        let first = devices.iter().enumerate().map(|(index, device)| {
            let task = (device.name.job.as_deref(), device.name.replica, device.name.task);
            *known.entry(task).or_insert(DeviceIndex::from_index(index))
        });
        Tasks { first: first.collect() }
    }

    /// The first device of the device's task.
    pub(super) fn first_device(&self, device: DeviceIndex) -> DeviceIndex {
        self.first[device.index()]
    }

    /// Whether both devices belong to one task.
    pub(super) fn are_together(&self, a: DeviceIndex, b: DeviceIndex) -> bool {
        self.first_device(a) == self.first_device(b)
    }
}
