//! [`PartialRun`]: one step of a session of this process whose feeds arrive, and whose fetches are asked for, in several
//! calls.
//!
//! Its plan takes feeds from the step's rendezvous and leaves fetches there. The first call starts the step; what lacks a
//! feed waits. Each call puts its feeds in and waits for its fetches, the last one also for the end of the step.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use rustc_hash::FxHashMap;
use tensorfleet_core::{RendezvousKey, Result, Status, Tensor};
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::rendezvous::{Rendezvous, Transfer};

use super::options::RunOptions;
use super::state::SessionState;
use crate::executor::Caller;
use crate::function_library::compile_partition;
use crate::partial_run::{Part, Progress, fetch_needs, not_set_up, without_repeated_fetches};
use crate::partition::CompiledPartition;
use crate::plan::{PlanOptions, Signature, Terminals};
use crate::rendezvous::LocalRendezvous;
use crate::step_errors::dead_fetch;

/// A run in parts; see [`DirectSession::begin_partial_run`](super::DirectSession::begin_partial_run).
pub struct PartialRun {
    session: Arc<SessionState>,
    step_id: i64,
    /// `None` once the run is over. Calls of one run take turns.
    state: Mutex<Option<Underway>>,
}

/// What a partial run was set up for, planned.
pub(super) struct PartialPlan {
    progress: Progress,
    partition: CompiledPartition,
    /// By number in the signature, the rendezvous keys of the feeds that something depends on.
    feeds: FxHashMap<usize, RendezvousKey>,
    /// By number in the signature, the rendezvous keys of the fetches.
    fetches: FxHashMap<usize, RendezvousKey>,
}

impl PartialPlan {
    pub(super) fn new(session: &SessionState, signature: Signature) -> Result<PartialPlan> {
        let signature = without_repeated_fetches(signature);
        // A partial run is cut where the client says, not where it would be simplest.
        let options = PlanOptions { simplify: false, terminals: Terminals::Rendezvous };
        let ((partition, feed_dtypes), needs) =
            session.plan_step(&signature, &options, |checked| fetch_needs(checked, &signature))?;
        Ok(PartialPlan {
            partition: compile_partition(&partition.graph, session.task.catalogue(), &session.kernels)?,
            feeds: partition.feeds.into_iter().collect(),
            fetches: partition.fetches.into_iter().collect(),
            progress: Progress::new(signature, feed_dtypes, needs),
        })
    }
}

struct Underway {
    plan: PartialPlan,
    rendezvous: Arc<LocalRendezvous>,
    cancellation: Arc<Cancellation>,
    /// Once the step has been started.
    arrivals: Option<Arc<Arrivals>>,
}

impl Drop for Underway {
    /// A run that is given up would wait for its feeds for ever.
    fn drop(&mut self) {
        self.cancellation.cancel(Status::cancelled("the partial run was given up").derived());
    }
}

impl PartialRun {
    pub(super) fn new(session: Arc<SessionState>, plan: PartialPlan) -> PartialRun {
        let (rendezvous, cancellation) = (Arc::new(LocalRendezvous::new()), Arc::new(Cancellation::new()));
        let aborts = rendezvous.clone();
        // Nobody can have cancelled it yet.
        let _ = cancellation.register(move |reason| aborts.abort(reason.derived()));
        let step_id = session.task.new_step_id();
        let state = Underway { plan, rendezvous, cancellation, arrivals: None };
        PartialRun { session, step_id, state: Mutex::new(Some(state)) }
    }

    /// Feeds some of what was declared, and waits for the values of some fetches, in order. A call that contradicts what
    /// was declared, or comes too early, changes nothing; any other error ends the run.
    pub fn run(
        &self,
        feeds: &[(&str, Tensor)],
        fetches: &[&str],
        options: &RunOptions,
    ) -> Result<Vec<Tensor>> {
        self.session.running.check_open()?;
        let mut slot = self.state.lock();
        let is_over = || not_set_up(&format!("partial_run_{}", self.step_id));
        let state = slot.as_mut().ok_or_else(is_over)?;
        let feeds = feeds.iter().map(|(name, tensor)| (*name, tensor.clone()));
        let part = state.plan.progress.note(feeds, fetches)?;
        let mut state = slot.take().ok_or_else(is_over)?;
        let results = self.run_part(&mut state, part, options)?;
        // Only a run that can go on keeps its state.
        if !state.plan.progress.is_complete() {
            *slot = Some(state);
        }
        Ok(results)
    }

    fn run_part(&self, state: &mut Underway, part: Part, options: &RunOptions) -> Result<Vec<Tensor>> {
        let _alarm = self.session.alarm(options, &state.cancellation);
        for (index, tensor) in part.feeds {
            if let Some(key) = state.plan.feeds.get(&index) {
                state.rendezvous.send(key.clone(), Some(tensor), Resume::OnPool)?;
            }
        }
        let arrivals = match &state.arrivals {
            Some(arrivals) => arrivals.clone(),
            None => state.arrivals.insert(self.start(state)?).clone(),
        };
        let names = &state.plan.progress.signature().fetches;
        let mut results = Vec::with_capacity(part.fetches.len());
        for index in part.fetches {
            let never_sent = || Status::internal(format!("nothing in the step sends {}", names[index]));
            let key = state.plan.fetches.get(&index).ok_or_else(never_sent)?;
            let value = arrivals.fetch(&state.rendezvous, key)?.ok_or_else(never_sent)?;
            results.push(value.ok_or_else(|| dead_fetch(&names[index]))?);
        }
        if state.plan.progress.is_complete() {
            arrivals.wait_for_end()?;
        }
        Ok(results)
    }

    /// Starts the step, on this thread as far as the feeds go.
    fn start(&self, state: &Underway) -> Result<Arc<Arrivals>> {
        let arrivals = Arc::new(Arrivals::default());
        self.session.running.enter(self.step_id, state.cancellation.clone())?;
        let services =
            self.session.services(self.step_id, state.rendezvous.clone(), state.cancellation.clone());
        let (session, step_id, ended) = (self.session.clone(), self.step_id, arrivals.clone());
        let on_done = Box::new(move |result: Result<Vec<Option<Tensor>>>| {
            session.running.leave(step_id);
            ended.end(result.map(drop));
        });
        if let Some(step) = state.plan.partition.step(services, Vec::new(), None, on_done) {
            step.run(Caller::Waits);
        }
        Ok(arrivals)
    }
}

/// What the step of a partial run has given so far.
#[derive(Default)]
struct Arrivals {
    state: Mutex<ArrivalState>,
    changed: Condvar,
}

#[derive(Default)]
struct ArrivalState {
    /// The fetch that is waited for, once it is there.
    value: Option<Result<Transfer>>,
    end: Option<Result<()>>,
}

impl Arrivals {
    fn end(&self, result: Result<()>) {
        self.state.lock().end = Some(result);
        self.changed.notify_all();
    }

    /// Waits for the value under a key; `None` if the step has ended without it.
    fn fetch(
        self: &Arc<Self>,
        rendezvous: &LocalRendezvous,
        key: &RendezvousKey,
    ) -> Result<Option<Transfer>> {
        let arrivals = self.clone();
        let received = Box::new(move |value, _: Resume<'_>| {
            arrivals.state.lock().value = Some(value);
            arrivals.changed.notify_all();
        });
        rendezvous.receive(key.clone(), received);
        let mut state = self.state.lock();
        loop {
            match (state.value.take(), &state.end) {
                (Some(Ok(value)), _) => return Ok(Some(value)),
                (Some(Err(consequence)), _) => {
                    drop(state);
                    // The rendezvous was aborted. The step knows why.
                    return Err(self.wait_for_end().err().unwrap_or(consequence));
                }
                (None, Some(end)) => return end.clone().map(|()| None),
                (None, None) => self.changed.wait(&mut state),
            }
        }
    }

    fn wait_for_end(&self) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            match &state.end {
                Some(end) => return end.clone(),
                None => self.changed.wait(&mut state),
            }
        }
    }
}
