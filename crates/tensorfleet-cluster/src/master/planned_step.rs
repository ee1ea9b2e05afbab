//! [`PlannedStep`]: a signature, cut into partitions that their tasks have accepted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tensorfleet_core::{DType, RendezvousKey, Result, Status, Tensor};
use tensorfleet_runtime::plan::Signature;

use crate::cluster_spec::TaskId;
use crate::numbered_request::NumberedRequest;
use crate::peers::{Peers, WorkerInterface};

/// How one step is to be run.
#[derive(Clone, Debug, Default)]
pub(super) struct StepOptions {
    pub(super) timeout: Option<Duration>,
    pub(super) wants_trace: bool,
    pub(super) wants_graphs: bool,
    /// Its number, if its client repeats runs.
    pub(super) numbered: Option<NumberedRequest>,
}

/// A signature, planned and registered with the tasks that take part.
pub(super) struct PlannedStep {
    pub(super) signature: Signature,
    pub(super) feed_dtypes: Vec<DType>,
    pub(super) partitions: Vec<RegisteredPartition>,
    /// About how much its tasks keep for it.
    pub(super) bytes: usize,
    /// For each fetch, the feeds it depends on; only kept for partial runs.
    pub(super) fetch_needs: Vec<Vec<usize>>,
}

impl PlannedStep {
    /// The workers of the partitions, in their order: who is in this process and who is not, for one step.
    pub(super) fn workers(&self, peers: &Peers) -> Result<Vec<WorkerInterface>> {
        let worker = |partition: &RegisteredPartition| {
            peers.worker(&partition.task).map_err(|status| from_task(&partition.task, status))
        };
        self.partitions.iter().map(worker).collect()
    }
}

/// A prepared run.
#[derive(Clone)]
pub(super) struct Callable {
    pub(super) plan: Arc<PlannedStep>,
    pub(super) options: StepOptions,
}

/// A partition that its task has accepted. The task forgets it when nobody needs the plan any more.
pub(super) struct RegisteredPartition {
    pub(super) task: TaskId,
    pub(super) graph: String,
    /// Feeds it takes: number and rendezvous key.
    pub(super) feeds: Vec<(usize, RendezvousKey)>,
    /// Fetches it makes: number and rendezvous key.
    pub(super) fetches: Vec<(usize, RendezvousKey)>,
    pub(super) session: String,
    pub(super) peers: Arc<Peers>,
    /// Whether the session is over: then its tasks forget everything anyway.
    pub(super) is_over: Arc<AtomicBool>,
}

impl RegisteredPartition {
    /// Sorts the partition's values into the fetches they answer.
    pub(super) fn place_fetches(
        &self,
        received: Vec<(RendezvousKey, Tensor)>,
        fetches: &mut [Option<Tensor>],
    ) -> Result<()> {
        for (position, (key, tensor)) in received.into_iter().enumerate() {
            // Our own workers answer in the order of the request.
            let expected = self.fetches.get(position).filter(|(_, expected)| *expected == key);
            let found = expected.or_else(|| self.fetches.iter().find(|(_, expected)| *expected == key));
            let (index, _) = found.ok_or_else(|| {
                Status::internal(format!("{} returned a value nobody asked for: {key}", self.task))
            })?;
            fetches[*index] = Some(tensor);
        }
        Ok(())
    }
}

impl Drop for RegisteredPartition {
    /// Does not wait for the task: one that is gone has forgotten already.
    fn drop(&mut self) {
        if self.is_over.load(Ordering::Acquire) {
            return;
        }
        let Ok(worker) = self.peers.worker(&self.task) else { return };
        let (deregistered, task) = (worker.deregister_graph(&self.session, &self.graph), self.task.clone());
        self.peers.spawner().spawn(async move {
            if let Err(status) = deregistered.await {
                tracing::debug!("forgetting a graph on {task}: {status}");
            }
        });
    }
}

/// Cleans up after a step on all tasks that took part, however it ended.
pub(super) struct Cleanup {
    pub(super) workers: Vec<WorkerInterface>,
    pub(super) step_id: i64,
    /// Whether nothing of the step is left to be stopped, so that there is no hurry.
    pub(super) went_well: bool,
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        self.workers.iter().for_each(|worker| worker.cleanup_step(self.step_id, self.went_well));
    }
}

/// Names the task an error came from, in the form TensorFlow uses.
pub(super) fn from_task(task: &TaskId, status: Status) -> Status {
    let named = Status::new(status.code(), format!("From {}:\n{}", task.full_name(), status.message()));
    if status.is_derived() { named.derived() } else { named }
}
