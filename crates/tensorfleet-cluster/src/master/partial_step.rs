//! Driving a partial run: its parts are requests to the same tasks, which keep the step in between.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use tensorfleet_core::{Result, Status, Tensor, parse_endpoint};
use tensorfleet_runtime::plan::Signature;

use super::partial_run::{PartOfRun, PartialRun, Progress};
use super::planned_step::{RegisteredPartition, StepOptions};
use super::session::MasterSession;
use super::step::{StepOutput, run_on_all};
use crate::peers::WorkerInterface;
use crate::random;
use crate::worker_api::{Part, RunGraph};

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
        let workers = plan.workers(&self.peers)?;
        let run = PartialRun::new(plan, random::step_id(), workers);
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
        let workers = taken.progress.as_ref().map_or(Vec::new(), |progress| progress.cleanup.workers.clone());
        let values = self.bounded(timeout, self.run_part_on_all(&run, &workers, &step, part)).await?;
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
        workers: &[WorkerInterface],
        step: &PartOfRun,
        part: Part,
    ) -> Result<Vec<Option<Tensor>>> {
        let request = |partition: &RegisteredPartition| {
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
        let outputs = run_on_all(&run.plan, workers, request).await?;
        let mut values = vec![None; run.plan.signature.fetches.len()];
        for (partition, output) in run.plan.partitions.iter().zip(outputs) {
            partition.place_fetches(output.received, &mut values)?;
        }
        Ok(values)
    }
}
