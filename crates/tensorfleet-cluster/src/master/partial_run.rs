//! [`PartialRun`]: one step whose feeds arrive, and whose fetches are asked for, in several calls; what has been declared,
//! what has been done, and what may be done next.

use std::sync::Arc;

use tensorfleet_core::{NodeId, Result, Status, Tensor, bail, ensure, parse_endpoint};
use tensorfleet_runtime::checked_graph::CheckedGraph;
use tensorfleet_runtime::plan::Signature;

use super::planned_step::{Cleanup, PlannedStep};
use crate::peers::WorkerInterface;

/// A partial run under way.
pub(super) struct PartialRun {
    pub(super) plan: Arc<PlannedStep>,
    pub(super) step_id: i64,
    /// What has been given and taken so far; `None` once the run is over. Calls of one run take turns.
    pub(super) progress: tokio::sync::Mutex<Option<Progress>>,
}

pub(super) struct Progress {
    is_fed: Vec<bool>,
    is_fetched: Vec<bool>,
    /// Dropped when the run is over. Knows the workers that take part.
    pub(super) cleanup: Cleanup,
}

impl Progress {
    pub(super) fn is_complete(&self) -> bool {
        self.is_fed.iter().all(|&done| done) && self.is_fetched.iter().all(|&done| done)
    }
}

/// What one call feeds and fetches, by number.
pub(super) struct PartOfRun {
    pub(super) feeds: Vec<(usize, Tensor)>,
    pub(super) fetches: Vec<usize>,
}

impl PartialRun {
    /// A run of which nothing has been done yet.
    pub(super) fn new(plan: Arc<PlannedStep>, step_id: i64, workers: Vec<WorkerInterface>) -> PartialRun {
        let progress = Progress {
            is_fed: vec![false; plan.signature.feeds.len()],
            is_fetched: vec![false; plan.signature.fetches.len()],
            cleanup: Cleanup { workers, step_id, went_well: false },
        };
        PartialRun { plan, step_id, progress: tokio::sync::Mutex::new(Some(progress)) }
    }

    /// Checks a call against what was declared and done before, and notes it.
    pub(super) fn note(
        &self,
        progress: &mut Progress,
        feeds: Vec<(String, Tensor)>,
        fetches: &[String],
    ) -> Result<PartOfRun> {
        let mut part =
            PartOfRun { feeds: Vec::with_capacity(feeds.len()), fetches: Vec::with_capacity(fetches.len()) };
        let (mut is_fed, mut is_fetched) = (progress.is_fed.clone(), progress.is_fetched.clone());
        for (name, tensor) in feeds {
            let index = find(&self.plan.signature.feeds, &name).ok_or_else(|| {
                Status::invalid_argument(format!("The feed {name} was not specified in partial_run_setup."))
            })?;
            ensure!(!is_fed[index], InvalidArgument, "The feed {name} has already been fed.");
            let (expected, found) = (self.plan.feed_dtypes[index], tensor.dtype());
            ensure!(
                expected == found,
                InvalidArgument,
                "The value fed for '{name}' is a {found} tensor, but the graph expects {expected} there"
            );
            is_fed[index] = true;
            part.feeds.push((index, tensor));
        }
        for name in fetches {
            let index = find(&self.plan.signature.fetches, name).ok_or_else(|| {
                Status::invalid_argument(format!("The fetch {name} was not specified in partial_run_setup."))
            })?;
            ensure!(!is_fetched[index], InvalidArgument, "The fetch {name} has already been fetched.");
            if let Some(&missing) = self.plan.fetch_needs[index].iter().find(|&&feed| !is_fed[feed]) {
                bail!(
                    InvalidArgument,
                    "Fetch {name} can't be computed from the feeds that have been fed so far: {} is missing.",
                    self.plan.signature.feeds[missing]
                );
            }
            is_fetched[index] = true;
            part.fetches.push(index);
        }
        (progress.is_fed, progress.is_fetched) = (is_fed, is_fetched);
        Ok(part)
    }
}

/// A tensor's number among declared names; `x` and `x:0` are the same tensor.
fn find(names: &[String], name: &str) -> Option<usize> {
    let wanted = parse_endpoint(name).ok()?;
    names
        .iter()
        .position(|declared| declared == name || parse_endpoint(declared).is_ok_and(|found| found == wanted))
}

/// For each fetch, the numbers of the feeds it depends on.
pub(super) fn fetch_needs(checked: &CheckedGraph, signature: &Signature) -> Result<Vec<Vec<usize>>> {
    let graph = checked.graph();
    let resolve = |name: &String| {
        let (node, slot) = parse_endpoint(name)?;
        let id = graph.find(node).ok_or_else(|| Status::not_found(format!("{name} is not in the graph")))?;
        Ok::<(NodeId, u32), Status>((id, slot))
    };
    let feeds: Vec<(NodeId, u32)> = signature.feeds.iter().map(resolve).collect::<Result<_>>()?;
    let mut needs = Vec::with_capacity(signature.fetches.len());
    for fetch in &signature.fetches {
        let mut found = Vec::new();
        let mut seen = vec![false; graph.len()];
        let mut stack = vec![resolve(fetch)?.0];
        while let Some(id) = stack.pop() {
            if std::mem::replace(&mut seen[id.index()], true) {
                continue;
            }
            let node = graph.node(id);
            for input in &node.inputs {
                match feeds.iter().position(|&feed| feed == (input.node, input.slot)) {
                    Some(feed) => found.push(feed),
                    None => stack.push(input.node),
                }
            }
            stack.extend(node.control_inputs.iter().copied());
        }
        found.sort_unstable();
        found.dedup();
        needs.push(found);
    }
    Ok(needs)
}
