//! [`DirectSession`]: a graph on a task of this process, and runs of parts of it.
//!
//! A session of one process takes the road of a cluster's, without the messages: the same planner, for one device; the same
//! cache of plans, checks and errors; and a [`CompiledPartition`](crate::CompiledPartition), which is what a worker runs,
//! too. Feeds and fetches of a whole run are its arguments and results, so no key is made and nothing waits. After the
//! first run of a signature (feeds, fetches, targets) a run is: find the plan, check the feeds, start a step, wait.
//!
//! Kernels belong to the session and are shared by its plans, so that the state some of them have (a random stream, a
//! private queue) is one per node, not one per plan.

mod options;
mod partial_run;
mod running;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tensorfleet_core::{Result, Tensor};
use tensorfleet_proto::tensorflow::{DeviceAttributes, GraphDef, RunMetadata, StepStats};

pub use self::options::{RunOptions, SessionOptions};
use self::partial_run::PartialPlan;
pub use self::partial_run::PartialRun;
use self::state::{Plan, SessionState};
use crate::executor::Trace;
use crate::plan::Signature;
use crate::task::Task;

/// A session on a task of this process.
pub struct DirectSession {
    state: Arc<SessionState>,
}

/// A prepared run: the signature is looked up once.
#[derive(Clone)]
pub struct Callable {
    session: Arc<SessionState>,
    plan: Arc<Plan>,
}

impl DirectSession {
    /// A session with an empty graph.
    pub fn new(task: Arc<Task>, options: SessionOptions) -> DirectSession {
        DirectSession { state: Arc::new(SessionState::new(task, options)) }
    }

    /// Adds nodes to the graph. On an error the graph is unchanged.
    pub fn extend(&self, def: GraphDef) -> Result<()> {
        self.state.extend(def)
    }

    /// Runs what `fetches` and `targets` need, with `feeds` in place of the tensors they name. Returns the fetched
    /// tensors in order.
    pub fn run(
        &self,
        feeds: &[(&str, Tensor)],
        fetches: &[&str],
        targets: &[&str],
        options: &RunOptions,
    ) -> Result<Vec<Tensor>> {
        let feed_names: Vec<&str> = feeds.iter().map(|(name, _)| *name).collect();
        let plan = self.state.plan(&feed_names, fetches, targets)?;
        let arguments = feeds.iter().map(|(_, tensor)| tensor.clone()).collect();
        self.state.run(&plan, arguments, options, None)
    }

    /// Prepares a run that will be repeated.
    pub fn make_callable(&self, feeds: &[&str], fetches: &[&str], targets: &[&str]) -> Result<Callable> {
        let plan = self.state.plan(feeds, fetches, targets)?;
        Ok(Callable { session: self.state.clone(), plan })
    }

    /// Begins a run in parts, which will be fed `feeds` and asked for `fetches`. Targets run as soon as they can. It is
    /// over when everything has been fed and fetched, when something fails, or when it is dropped.
    pub fn begin_partial_run(
        &self,
        feeds: &[&str],
        fetches: &[&str],
        targets: &[&str],
    ) -> Result<PartialRun> {
        let plan = PartialPlan::new(&self.state, Signature::new(feeds, fetches, targets))?;
        Ok(PartialRun::new(self.state.clone(), plan))
    }

    /// Ends the session: running steps are cancelled and waited for, later ones refused. Variables stay.
    pub fn close(&self) -> Result<()> {
        self.state.close();
        Ok(())
    }

    /// The devices nodes can be placed on.
    pub fn list_devices(&self) -> Vec<DeviceAttributes> {
        vec![self.state.task.device_attributes()]
    }
}

impl Callable {
    /// Runs with one tensor for each feed, and returns the fetched tensors, in the order of `make_callable`.
    pub fn run(&self, feeds: Vec<Tensor>, options: &RunOptions) -> Result<Vec<Tensor>> {
        self.session.run(&self.plan, feeds, options, None)
    }

    /// Like [`Callable::run`], with a record of which node ran when and for how long.
    pub fn run_traced(&self, feeds: Vec<Tensor>, options: &RunOptions) -> Result<(Vec<Tensor>, RunMetadata)> {
        let trace = Trace::begin();
        let results = self.session.run(&self.plan, feeds, options, Some(trace.clone()))?;
        let device = self.plan.partition.step_stats(&trace, self.session.task.device_text());
        let step_stats = Some(StepStats { dev_stats: vec![device] });
        Ok((results, RunMetadata { step_stats, ..Default::default() }))
    }
}
