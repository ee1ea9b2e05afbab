//! Driving a partial run: its parts are requests to the same tasks, which keep the step in between.

use std::sync::Arc;

use tensorfleet_core::{Result, Status, Tensor};
use tensorfleet_runtime::partial_run::{self, not_set_up, without_repeated_fetches};
use tensorfleet_runtime::plan::Signature;

use super::partial_run::{PartialRun, Underway};
use super::planned_step::{RegisteredPartition, StepOptions};
use super::session::MasterSession;
use super::step::{StepOutput, run_on_all};
use crate::peers::WorkerInterface;
use crate::random;
use crate::worker_api::{Part, RunGraph};

/// The state of a run while one of its calls is under way. If it is not put back, the run is over.
struct Taken<'a> {
    session: &'a MasterSession,
    handle: &'a str,
    underway: Option<Underway>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if self.underway.take().is_some() {
            self.session.partial_runs.lock().remove(self.handle);
        }
    }
}

impl MasterSession {
    /// Prepares a partial run and gives its handle.
    pub(super) async fn set_up_partial_run(
        self: &Arc<Self>,
        signature: Signature,
        handle: String,
    ) -> Result<String> {
        let plan = Arc::new(self.plan_partial(without_repeated_fetches(signature)).await?);
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
        let unknown = || not_set_up(handle);
        let run = self.partial_runs.lock().get(handle).cloned().ok_or_else(unknown)?;
        let _running = self.running.enter(run.step_id, &run.plan)?;
        let mut slot = run.underway.lock().await;
        let part = slot.as_mut().ok_or_else(unknown)?.progress.note(feeds, fetches)?;
        // An error, or a client that goes away in the middle, ends the run.
        let mut taken = Taken { session: self, handle, underway: slot.take() };
        let is_last = taken.underway.as_ref().is_some_and(|underway| underway.progress.is_complete());
        let share = if is_last { Part::Last } else { Part::Some };
        let timeout = options.timeout.or(self.config.operation_timeout);
        let workers = taken.underway.as_ref().map_or(Vec::new(), |underway| underway.cleanup.workers.clone());
        let values = self
            .bounded(Some(run.step_id), timeout, self.run_part_on_all(&run, &workers, &part, share))
            .await?;
        if !is_last {
            *slot = taken.underway.take();
        }
        let values = part.fetches.iter().map(|&index| values[index].clone());
        let values =
            values.map(|value| value.ok_or_else(|| Status::internal("a fetch of a partial run is missing")));
        Ok(StepOutput { fetches: values.collect::<Result<_>>()?, ..StepOutput::default() })
    }

    async fn run_part_on_all(
        &self,
        run: &PartialRun,
        workers: &[WorkerInterface],
        part: &partial_run::Part,
        share: Part,
    ) -> Result<Vec<Option<Tensor>>> {
        let request = |partition: &RegisteredPartition| {
            let fed = partition.feeds.iter().filter_map(|(index, key)| {
                let (_, tensor) = part.feeds.iter().find(|(feed, _)| feed == index)?;
                Some((key.clone(), tensor.clone()))
            });
            let wanted = partition.fetches.iter().filter(|(index, _)| part.fetches.contains(index));
            RunGraph {
                sends: fed.collect(),
                receives: wanted.map(|(_, key)| key.clone()).collect(),
                ..self.request(partition, run.step_id, share)
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
