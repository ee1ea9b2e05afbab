//! Driving a step: one message to each participating task, in parallel; the first real error ends them all.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tensorfleet_core::{Code, RendezvousKey, Result, Status, Tensor, ensure};
use tensorfleet_proto::tensorflow::{RunMetadata, StepStats};

use super::session::{MasterSession, PlannedStep, RegisteredPartition};
use crate::cluster_spec::TaskId;
use crate::io;
use crate::peers::{Peer, Peers};
use crate::random;
use crate::worker::{Part, RunGraph, RunGraphOutput};

/// After an error that is only a consequence, how long the cause may take to arrive.
const CAUSE_GRACE: Duration = Duration::from_secs(1);

/// A task that is too busy to hear that a step is over is told again.
const CLEANUP_ATTEMPTS: usize = 3;

/// How one step is to be run.
#[derive(Clone, Debug, Default)]
pub(super) struct StepOptions {
    pub(super) timeout: Option<Duration>,
    pub(super) wants_trace: bool,
    pub(super) wants_graphs: bool,
}

/// What a step gave.
#[derive(Default)]
pub(super) struct StepOutput {
    /// In the order of the signature.
    pub(super) fetches: Vec<Tensor>,
    pub(super) metadata: RunMetadata,
}

/// Cleans up after a step on all tasks that took part, however it ended.
pub(super) struct Cleanup {
    pub(super) peers: Arc<Peers>,
    pub(super) plan: Arc<PlannedStep>,
    pub(super) step_id: i64,
    /// Whether nothing of the step is left to be stopped, so that there is no hurry.
    pub(super) went_well: bool,
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        for partition in &self.plan.partitions {
            match self.peers.peer(&partition.task) {
                Ok(Peer::Local(worker)) => worker.cleanup_step(self.step_id),
                Ok(Peer::Remote(worker)) if self.went_well && worker.cleanup_soon(self.step_id) => {}
                Ok(Peer::Remote(worker)) => {
                    let (step_id, task) = (self.step_id, partition.task.clone());
                    io::handle().spawn(async move {
                        for _ in 0..CLEANUP_ATTEMPTS {
                            match worker.cleanup_step(step_id).await {
                                Ok(()) => return,
                                // A task that is gone has forgotten the step.
                                Err(status) if status.code() == Code::Unavailable => return,
                                Err(status) => {
                                    tracing::debug!("cleaning up step {step_id} on {task}: {status}")
                                }
                            }
                        }
                    });
                }
                Err(_) => {}
            }
        }
    }
}

impl MasterSession {
    /// Runs a planned step. Dropping the future cancels it on all tasks.
    pub(super) async fn run(
        &self,
        plan: &Arc<PlannedStep>,
        feeds: Vec<Tensor>,
        options: &StepOptions,
    ) -> Result<StepOutput> {
        check_feeds(plan, &feeds)?;
        let _running = self.running.enter()?;
        let step_id = random::step_id();
        let mut cleanup =
            Cleanup { peers: self.peers.clone(), plan: plan.clone(), step_id, went_well: false };
        let timeout = options.timeout.or(self.config.operation_timeout);
        let outputs = self.bounded(timeout, self.run_partitions(plan, step_id, &feeds, options)).await?;
        cleanup.went_well = true;
        drop(cleanup);
        gather(plan, outputs)
    }

    /// Waits for `work`, but not beyond its time-out or the session's end.
    pub(super) async fn bounded<T>(
        &self,
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
            reason = self.running.closed() => Err(reason),
            () = deadline => Err(Status::new(
                Code::DeadlineExceeded,
                format!("Deadline Exceeded: the step did not finish within {} ms", timeout.unwrap_or_default().as_millis()),
            )),
        }
    }

    async fn run_partitions(
        &self,
        plan: &PlannedStep,
        step_id: i64,
        feeds: &[Tensor],
        options: &StepOptions,
    ) -> Result<Vec<RunGraphOutput>> {
        let request = |partition: &RegisteredPartition| RunGraph {
            sends: partition.feeds.iter().map(|(index, key)| (key.clone(), feeds[*index].clone())).collect(),
            receives: partition.fetches.iter().map(|(_, key)| key.clone()).collect(),
            wants_trace: options.wants_trace,
            wants_graph: options.wants_graphs,
            ..self.request(partition, step_id, Part::Whole)
        };
        self.run_on_all(plan, request).await
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

    /// Sends each partition its request, waits for all, and gives the answers in the order of the partitions.
    pub(super) async fn run_on_all(
        &self,
        plan: &PlannedStep,
        request: impl Fn(&RegisteredPartition) -> RunGraph,
    ) -> Result<Vec<RunGraphOutput>> {
        if let [partition] = &plan.partitions[..] {
            let output = self.run_on(partition, request(partition)).await;
            return output.map(|output| vec![output]).map_err(|status| from_task(&partition.task, status));
        }
        let mut outputs: Vec<RunGraphOutput> =
            plan.partitions.iter().map(|_| RunGraphOutput::default()).collect();
        let mut running = FuturesUnordered::new();
        let (local, remote): (Vec<_>, Vec<_>) = plan
            .partitions
            .iter()
            .enumerate()
            .partition(|(_, partition)| matches!(self.peers.peer(&partition.task), Ok(Peer::Local(_))));
        // Messages to others go out before this process begins its own share.
        for (index, partition) in remote.into_iter().chain(local) {
            let run = self.run_on(partition, request(partition));
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
                    consequence.get_or_insert_with(|| (status, Instant::now() + CAUSE_GRACE));
                }
                None => return consequence.map_or(Ok(outputs), |(status, _)| Err(status)),
            }
        }
    }

    async fn run_on(&self, partition: &RegisteredPartition, request: RunGraph) -> Result<RunGraphOutput> {
        match self.peers.peer(&partition.task)? {
            Peer::Local(worker) => worker.run_graph(request).await,
            Peer::Remote(worker) => worker.run_graph(request).await,
        }
    }
}

fn check_feeds(plan: &PlannedStep, feeds: &[Tensor]) -> Result<()> {
    let (expected, found) = (plan.feed_dtypes.len(), feeds.len());
    ensure!(expected == found, InvalidArgument, "the step takes {expected} feeds, got {found}");
    for ((tensor, &expected), name) in feeds.iter().zip(&plan.feed_dtypes).zip(&plan.signature.feeds) {
        ensure!(
            tensor.dtype() == expected,
            InvalidArgument,
            "The value fed for '{name}' is a {} tensor, but the graph expects {expected} there",
            tensor.dtype()
        );
    }
    Ok(())
}

/// Puts the partitions' answers together.
fn gather(plan: &PlannedStep, outputs: Vec<RunGraphOutput>) -> Result<StepOutput> {
    let mut fetches: Vec<Option<Tensor>> = vec![None; plan.signature.fetches.len()];
    let mut metadata = RunMetadata::default();
    for (partition, output) in plan.partitions.iter().zip(outputs) {
        place_fetches(partition, output.received, &mut fetches)?;
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

/// Sorts a partition's values into the fetches they answer.
pub(super) fn place_fetches(
    partition: &RegisteredPartition,
    received: Vec<(RendezvousKey, Tensor)>,
    fetches: &mut [Option<Tensor>],
) -> Result<()> {
    for (position, (key, tensor)) in received.into_iter().enumerate() {
        // Our own workers answer in the order of the request.
        let expected = partition.fetches.get(position).filter(|(_, expected)| *expected == key);
        let found = expected.or_else(|| partition.fetches.iter().find(|(_, expected)| *expected == key));
        let (index, _) = found.ok_or_else(|| {
            Status::internal(format!("{} returned a value nobody asked for: {key}", partition.task))
        })?;
        fetches[*index] = Some(tensor);
    }
    Ok(())
}

/// Names the task an error came from, in the form TensorFlow uses.
pub(super) fn from_task(task: &TaskId, status: Status) -> Status {
    let named = Status::new(status.code(), format!("From {}:\n{}", task.full_name(), status.message()));
    if status.is_derived() { named.derived() } else { named }
}
