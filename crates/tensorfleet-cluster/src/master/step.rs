//! Driving a step: one message to each participating task, in parallel; the first real error ends them all.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tensorfleet_core::clock::Clock;
use tensorfleet_core::{Result, Status, Tensor};
use tensorfleet_proto::tensorflow::{RunMetadata, StepStats};
use tensorfleet_runtime::step_errors::{check_feeds, deadline_exceeded};

use super::planned_step::{Cleanup, PlannedStep, RegisteredPartition, StepOptions, from_task};
use super::session::MasterSession;
use crate::peers::WorkerInterface;
use crate::random;
use crate::worker_api::{Part, RunGraph, RunGraphOutput};

/// After an error that is only a consequence, how long the cause may take to arrive.
const CAUSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What a step gave.
#[derive(Default)]
pub(super) struct StepOutput {
    /// In the order of the signature.
    pub(super) fetches: Vec<Tensor>,
    pub(super) metadata: RunMetadata,
}

impl MasterSession {
    /// Runs a planned step. Dropping the future cancels it on all tasks.
    pub(super) async fn run(
        &self,
        plan: &Arc<PlannedStep>,
        feeds: Vec<Tensor>,
        options: &StepOptions,
    ) -> Result<StepOutput> {
        check_feeds(&plan.signature.feeds, &plan.feed_dtypes, &feeds)?;
        let step_id = random::step_id();
        let _running = self.running.enter(step_id, plan)?;
        let mut cleanup = Cleanup { workers: plan.workers(&self.peers)?, step_id, went_well: false };
        let timeout = options.timeout.or(self.config.operation_timeout);
        let work = self.run_partitions(plan, &cleanup.workers, step_id, &feeds, options);
        let outputs = self.bounded(Some(step_id), timeout, work).await?;
        cleanup.went_well = true;
        drop(cleanup);
        gather(plan, outputs)
    }

    /// Waits for `work`, but not beyond its time-out, the session's end, or the end of its step.
    pub(super) async fn bounded<T>(
        &self,
        step: Option<i64>,
        timeout: Option<Duration>,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let deadline = async {
            match timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            result = work => result,
            reason = self.running.closed(step) => Err(reason),
            () = deadline => Err(deadline_exceeded(timeout.unwrap_or_default())),
        }
    }

    async fn run_partitions(
        &self,
        plan: &PlannedStep,
        workers: &[WorkerInterface],
        step_id: i64,
        feeds: &[Tensor],
        options: &StepOptions,
    ) -> Result<Vec<RunGraphOutput>> {
        let request = |partition: &RegisteredPartition| RunGraph {
            sends: partition.feeds.iter().map(|(index, key)| (key.clone(), feeds[*index].clone())).collect(),
            receives: partition.fetches.iter().map(|(_, key)| key.clone()).collect(),
            wants_trace: options.wants_trace,
            wants_graph: options.wants_graphs,
            numbered: options.numbered,
            ..self.request(partition, step_id, Part::Whole)
        };
        run_on_all(plan, workers, request).await
    }

    pub(super) fn request(&self, partition: &RegisteredPartition, step_id: i64, part: Part) -> RunGraph {
        RunGraph {
            session: self.handle.clone(),
            session_is_created: true,
            graph: partition.graph.clone(),
            step_id,
            part,
            ..RunGraph::default()
        }
    }
}

/// Sends each partition its request, waits for all, and gives the answers in the order of the partitions.
pub(super) async fn run_on_all(
    plan: &PlannedStep,
    workers: &[WorkerInterface],
    request: impl Fn(&RegisteredPartition) -> RunGraph,
) -> Result<Vec<RunGraphOutput>> {
    if let ([partition], [worker]) = (&plan.partitions[..], workers) {
        let output = worker.run_graph(request(partition)).await;
        return output.map(|output| vec![output]).map_err(|status| from_task(&partition.task, status));
    }
    let mut outputs: Vec<RunGraphOutput> =
        plan.partitions.iter().map(|_| RunGraphOutput::default()).collect();
    let mut running = FuturesUnordered::new();
    let (local, remote): (Vec<_>, Vec<_>) =
        workers.iter().enumerate().partition(|(_, worker)| worker.is_local());
    // Messages to others go out before this process begins its own share.
    for (index, worker) in remote.into_iter().chain(local) {
        let run = worker.run_graph(request(&plan.partitions[index]));
        running.push(async move { (index, run.await) });
    }
    let mut consequence: Option<(Status, Instant)> = None;
    loop {
        let next = match &consequence {
            None => running.next().await,
            Some((status, deadline)) => {
                match tokio::time::timeout_at((*deadline).into(), running.next()).await {
                    Ok(next) => next,
                    Err(_) => return Err(status.clone()),
                }
            }
        };
        match next {
            Some((index, Ok(output))) => outputs[index] = output,
            Some((index, Err(status))) => {
                let status = from_task(&plan.partitions[index].task, status);
                if !status.is_derived() {
                    return Err(status);
                }
                consequence.get_or_insert_with(|| (status, Clock::system().now() + CAUSE_TIMEOUT));
            }
            None => return consequence.map_or(Ok(outputs), |(status, _)| Err(status)),
        }
    }
}

/// Puts the partitions' answers together.
fn gather(plan: &PlannedStep, outputs: Vec<RunGraphOutput>) -> Result<StepOutput> {
    let mut fetches: Vec<Option<Tensor>> = vec![None; plan.signature.fetches.len()];
    let mut metadata = RunMetadata::default();
    for (partition, output) in plan.partitions.iter().zip(outputs) {
        partition.place_fetches(output.received, &mut fetches)?;
        if let Some(stats) = output.step_stats {
            metadata.step_stats.get_or_insert_with(StepStats::default).dev_stats.extend(stats.dev_stats);
        }
        metadata.partition_graphs.extend(output.graphs);
    }
    let names = plan.signature.fetches.iter();
    let fetches = fetches.into_iter().zip(names).map(|(tensor, name)| {
        tensor.ok_or_else(|| Status::internal(format!("no task returned a value for {name}")))
    });
    Ok(StepOutput { fetches: fetches.collect::<Result<_>>()?, metadata })
}
