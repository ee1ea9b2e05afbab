//! Partial runs: one step whose feeds arrive, and whose fetches are asked for, in several calls.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use tensorfleet_core::{NodeId, Result, Status, Tensor, bail, ensure, parse_endpoint};
use tensorfleet_runtime::checked_graph::CheckedGraph;
use tensorfleet_runtime::plan::Signature;

use super::session::{MasterSession, PlannedStep};
use super::step::{Cleanup, StepOptions, StepOutput, place_fetches};
use crate::random;
use crate::worker::{Part, RunGraph};

/// A partial run under way.
pub(super) struct PartialRun {
    plan: Arc<PlannedStep>,
    step_id: i64,
    /// What has been given and taken so far; `None` once the run is over. Calls of one run take turns.
    progress: tokio::sync::Mutex<Option<Progress>>,
}

struct Progress {
    is_fed: Vec<bool>,
    is_fetched: Vec<bool>,
    /// Dropped when the run is over.
    _cleanup: Cleanup,
}

impl Progress {
    fn is_complete(&self) -> bool {
        self.is_fed.iter().all(|&done| done) && self.is_fetched.iter().all(|&done| done)
    }
}

/// The progress of a run while one of its calls is under way. If it is not put back, the run is over.
struct TakenProgress<'a> {
    session: &'a MasterSession,
    handle: &'a str,
    progress: Option<Progress>,
}

impl Drop for TakenProgress<'_> {
    fn drop(&mut self) {
        if self.progress.take().is_some() {
            self.session.partial_runs.lock().remove(self.handle);
        }
    }
}

impl MasterSession {
    /// Prepares a partial run and gives its handle.
    pub(super) async fn set_up_partial_run(
        self: &Arc<Self>,
        mut signature: Signature,
        handle: String,
    ) -> Result<String> {
        // A tensor named twice is fetched once; counted twice, the run would never be complete.
        let mut seen = FxHashSet::default();
        signature.fetches.retain(|name| match parse_endpoint(name) {
            Ok((node, slot)) => seen.insert((node.to_string(), slot)),
            // Planning will say what is wrong with it.
            Err(_) => true,
        });
        let plan = Arc::new(self.plan_partial(signature).await?);
        let step_id = random::step_id();
        let progress = Progress {
            is_fed: vec![false; plan.signature.feeds.len()],
            is_fetched: vec![false; plan.signature.fetches.len()],
            _cleanup: Cleanup { peers: self.peers.clone(), plan: plan.clone(), step_id, went_well: false },
        };
        let run = PartialRun { plan, step_id, progress: tokio::sync::Mutex::new(Some(progress)) };
        self.partial_runs.lock().insert(handle.clone(), Arc::new(run));
        Ok(handle)
    }

    /// One call of a partial run.
    pub(super) async fn run_part(
        &self,
        handle: &str,
        feeds: Vec<(String, Tensor)>,
        fetches: &[String],
        options: &StepOptions,
    ) -> Result<StepOutput> {
        let unknown = || {
            Status::invalid_argument(format!("Must run 'setup' before performing partial runs: '{handle}'"))
        };
        let run = self.partial_runs.lock().get(handle).cloned().ok_or_else(unknown)?;
        let _running = self.running.enter()?;
        let mut slot = run.progress.lock().await;
        let step = run.note(slot.as_mut().ok_or_else(unknown)?, feeds, fetches)?;
        // An error, or a client that goes away in the middle, ends the run.
        let mut taken = TakenProgress { session: self, handle, progress: slot.take() };
        let is_last = taken.progress.as_ref().is_some_and(Progress::is_complete);
        let part = if is_last { Part::Last } else { Part::Some };
        let timeout = options.timeout.or(self.config.operation_timeout);
        let values = self.bounded(timeout, self.run_part_on_all(&run, &step, part)).await?;
        if !is_last {
            *slot = taken.progress.take();
        }
        let values = step.fetches.iter().map(|&index| values[index].clone());
        let values =
            values.map(|value| value.ok_or_else(|| Status::internal("a fetch of a partial run is missing")));
        Ok(StepOutput { fetches: values.collect::<Result<_>>()?, ..StepOutput::default() })
    }

    async fn run_part_on_all(
        &self,
        run: &PartialRun,
        step: &PartOfRun,
        part: Part,
    ) -> Result<Vec<Option<Tensor>>> {
        let request = |partition: &super::session::RegisteredPartition| {
            let fed = partition.feeds.iter().filter_map(|(index, key)| {
                let (_, tensor) = step.feeds.iter().find(|(feed, _)| feed == index)?;
                Some((key.clone(), tensor.clone()))
            });
            let wanted = partition.fetches.iter().filter(|(index, _)| step.fetches.contains(index));
            RunGraph {
                sends: fed.collect(),
                receives: wanted.map(|(_, key)| key.clone()).collect(),
                ..self.request(partition, run.step_id, part)
            }
        };
        let outputs = self.run_on_all(&run.plan, request).await?;
        let mut values = vec![None; run.plan.signature.fetches.len()];
        for (partition, output) in run.plan.partitions.iter().zip(outputs) {
            place_fetches(partition, output.received, &mut values)?;
        }
        Ok(values)
    }
}

/// What one call feeds and fetches, by number.
struct PartOfRun {
    feeds: Vec<(usize, Tensor)>,
    fetches: Vec<usize>,
}

impl PartialRun {
    /// Checks a call against what was declared and done before, and notes it.
    fn note(
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
