//! [`PartialRun`]: one step on the tasks of a cluster whose feeds arrive, and whose fetches are asked for, in several calls.

use std::sync::Arc;

use tensorfleet_runtime::partial_run::Progress;

use super::planned_step::{Cleanup, PlannedStep};
use crate::peers::WorkerInterface;

/// A partial run under way.
pub(super) struct PartialRun {
    pub(super) plan: Arc<PlannedStep>,
    pub(super) step_id: i64,
    /// `None` once the run is over. Calls of one run take turns.
    pub(super) underway: tokio::sync::Mutex<Option<Underway>>,
}

/// What a partial run has until it is over.
pub(super) struct Underway {
    /// What has been given and taken so far.
    pub(super) progress: Progress,
    /// Dropped when the run is over. Knows the workers that take part.
    pub(super) cleanup: Cleanup,
}

impl PartialRun {
    /// A run of which nothing has been done yet.
    pub(super) fn new(plan: Arc<PlannedStep>, step_id: i64, workers: Vec<WorkerInterface>) -> PartialRun {
        let progress =
            Progress::new(plan.signature.clone(), plan.feed_dtypes.clone(), plan.fetch_needs.clone());
        let underway = Underway { progress, cleanup: Cleanup { workers, step_id, went_well: false } };
        PartialRun { plan, step_id, underway: tokio::sync::Mutex::new(Some(underway)) }
    }
}
