//! Planning a step: from a session's graph to one graph for each task that takes part.
//!
//! What the step needs is cut out of the session's graph ([`StepGraph`]), simplified, and cut at the borders of tasks
//! ([`cut`]). A session of one process is the case of one device ([`plan_on`]): nothing crosses, one partition is left.
//!
//! An edge from one task to another becomes a `_Send` where the value is made and a `_Recv` where it is used; all
//! consumers of a value on one device share a pair. A control edge sends an empty tensor. An edge from a reference is
//! not shared: each consumer is to see the variable as it is when it asks.
//!
//! In a cluster feeds and fetches are the same nodes with both ends on one device (`client_terminated`). TensorFlow's masters have
//! them all enter and leave at their own device; here a feed enters at every task that uses it, and a fetch leaves
//! where it is made. So a step is one message to each task, with its feeds inside and its fetches in the answer, and no
//! tensor takes a detour through the master.
//!
//! `_Send` and `_Recv` count as stateful, so a worker may keep their kernels by name for as long as the session lives.
//! Names are therefore chosen such that, on one device, equal names mean equal attributes.

use tensorfleet_core::{DType, Result, bail};

use super::cut::cut;
use super::device::{Device, DeviceIndex};
use super::loops::ControlLoops;
use super::names::Names;
use super::partition::{Partition, Terminals};
use super::signature::Signature;
use super::simplify::simplify;
use super::step_graph::StepGraph;
use super::tasks::Tasks;
use crate::checked_graph::CheckedGraph;

/// How steps are planned.
#[derive(Clone, Copy, Debug)]
pub struct PlanOptions {
    /// Whether constant parts are computed in advance and superfluous ones left out.
    pub simplify: bool,
    /// How feeds enter and fetches leave.
    pub terminals: Terminals,
}

/// A step, cut into the parts that tasks run.
#[derive(Debug)]
pub struct StepPlan {
    /// One part for each task that takes part.
    pub partitions: Vec<Partition>,
    /// The dtypes of the feeds, in the order of the signature.
    pub feed_dtypes: Vec<DType>,
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
    let partitions = cut(step, checked.graph(), devices, tasks, loops, names, options.terminals)?;
    Ok(StepPlan { partitions, feed_dtypes })
}

/// Plans a step that runs on `device` as a whole, whatever devices its nodes ask for.
pub fn plan_on(
    device: &Device,
    checked: &CheckedGraph,
    signature: &Signature,
    counter: &mut u64,
    options: &PlanOptions,
) -> Result<(Partition, Vec<DType>)> {
    let placement = vec![DeviceIndex::from_index(0); checked.graph().len()];
    let devices = std::slice::from_ref(device);
    let StepPlan { mut partitions, feed_dtypes } =
        plan_step(checked, &placement, devices, signature, counter, options)?;
    match (partitions.pop(), partitions.len()) {
        (Some(partition), 0) => Ok((partition, feed_dtypes)),
        (_, more) => bail!(Internal, "a step on one device has {more} more partitions"),
    }
}
