//! [`StepTable`]: the steps this task takes part in, and the rendezvous of each.
//!
//! A step's entry comes into being with whatever arrives first, a `RunGraph` or a peer's `RecvTensor`, and stays until
//! the master cleans up: tensors that peers have not fetched yet are kept although the partition has run.
//!
//! Calls overtake each other. A master that gives a step up cancels its `RunGraph` and cleans up in the same breath, so
//! the cleanup may be handled first; the run, which comes late, must not leave an entry that nobody will ever remove.
//! Therefore a cleanup that finds nothing to clean up is remembered for a while.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tensorfleet_core::clock::Clock;
use tensorfleet_core::{RendezvousKey, Result, Status, ensure};
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::rendezvous::Transfer;
use tensorfleet_rpc::Connection;
use tensorfleet_runtime::executor::Step;
use tensorfleet_runtime::{LocalRendezvous, ReceiverId};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;

use super::awaited::Awaited;

/// Steps are spread over this many locks.
const SHARDS: usize = 16;
/// A step that has ended and that nobody cleans up is forgotten after this time.
const KEEP_TIMEOUT: Duration = Duration::from_secs(60);
/// The same for a step that has failed and whose master's connection is closed, and for any whose session is over: there is
/// nothing left to come for, except the error.
const KEEP_LOST_TIMEOUT: Duration = Duration::from_secs(5);

/// A step that went well and whose master is there is kept this long for peers that have not come for its tensors.
const KEEP_FINISHED_TIMEOUT: Duration = Duration::from_secs(3600);

/// How many cleanups that came too early each lock remembers. A run that is late is late by milliseconds.
const EARLY_CLEANUPS: usize = 64;

/// Steps by number.
pub(super) struct StepTable {
    clock: Clock,
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Default)]
struct Shard {
    steps: FxHashMap<i64, Arc<StepEntry>>,
    /// The latest steps that were cleaned up before this task's part had begun.
    cleaned_early: VecDeque<i64>,
}

/// A step on this task.
pub(super) struct StepEntry {
    pub(super) id: i64,
    pub(super) rendezvous: Arc<LocalRendezvous>,
    clock: Clock,
    created: Instant,
    state: Mutex<StepState>,
}

/// How far this task's part of the step is.
#[derive(Default)]
enum StepState {
    /// Only peers have asked for its tensors so far.
    #[default]
    Awaited,
    Running(RunningStep),
    Ended {
        at: Instant,
        /// Unknown if it was over before it began.
        session: Option<Arc<str>>,
        connection: Option<Connection>,
        has_failed: bool,
        outcome: Option<Outcome>,
    },
}

/// How a partial run has ended, once it has.
pub(super) type Outcome = watch::Receiver<Option<Result<()>>>;

/// What is known about a part that runs.
#[derive(Clone)]
pub(super) struct RunningStep {
    pub(super) session: Arc<str>,
    pub(super) cancellation: Arc<Cancellation>,
    /// Where the request came from; `None` for a master in this process.
    pub(super) connection: Option<Connection>,
    pub(super) step: Weak<Step>,
    /// Tensors it has asked other tasks for.
    pub(super) awaited: Arc<Awaited>,
    /// For a partial run: how the whole will have ended.
    pub(super) outcome: Option<Outcome>,
}

/// A step as `status` shows it.
pub(crate) struct StepReport {
    pub(crate) id: i64,
    pub(crate) session: String,
    pub(crate) age: Duration,
    pub(crate) state: &'static str,
    pub(crate) waiting_for: Vec<String>,
}

impl StepTable {
    /// An empty table. How long steps are kept is measured by `clock`.
    pub(super) fn new(clock: Clock) -> StepTable {
        StepTable { clock, shards: Default::default() }
    }

    fn shard(&self, id: i64) -> &Mutex<Shard> {
        &self.shards[id.unsigned_abs() as usize % SHARDS]
    }

    /// The entry of a step, made now if it is new; an error if the step is over.
    pub(super) fn entry(&self, id: i64) -> Result<Arc<StepEntry>> {
        let mut shard = self.shard(id).lock();
        if shard.cleaned_early.contains(&id) {
            return Err(over(id));
        }
        let new = || {
            Arc::new(StepEntry {
                id,
                rendezvous: Arc::new(LocalRendezvous::new()),
                clock: self.clock.clone(),
                created: self.clock.now(),
                state: Mutex::default(),
            })
        };
        Ok(shard.steps.entry(id).or_insert_with(new).clone())
    }

    /// Forgets a step. What still runs of it is cancelled; whoever still waits for one of its tensors is told.
    pub(super) fn remove(&self, id: i64) {
        let entry = {
            let mut shard = self.shard(id).lock();
            let entry = shard.steps.remove(&id);
            if entry.as_ref().is_none_or(|entry| entry.is_new()) {
                shard.cleaned_early.push_back(id);
                if shard.cleaned_early.len() > EARLY_CLEANUPS {
                    shard.cleaned_early.pop_front();
                }
            }
            entry
        };
        if let Some(entry) = entry {
            if let Some(running) = entry.running() {
                running.cancellation.cancel(over(id));
            }
            entry.rendezvous.abort(over(id));
        }
    }

    /// Waits for a tensor of a step. Dropping the future withdraws the request.
    pub(super) async fn receive(self: &Arc<Self>, id: i64, key: RendezvousKey) -> Result<Transfer> {
        let mut arrivals = self.receive_all(id, vec![key])?;
        let (_, value) = arrivals.next().await.unwrap_or_else(|| Err(given_up(id)))?;
        Ok(value)
    }

    /// Asks for tensors of a step. Dropping what it gives withdraws the request.
    pub(super) fn receive_all(self: &Arc<Self>, id: i64, keys: Vec<RendezvousKey>) -> Result<Arrivals> {
        let mut visit = Visit { table: self.clone(), entry: Some(self.entry(id)?), waiting: Vec::new() };
        let Some(entry) = &visit.entry else { return Err(over(id)) };
        let (sender, receiver) = unbounded_channel();
        let open = keys.len();
        for (index, key) in keys.into_iter().enumerate() {
            let sender = sender.clone();
            let answer = Box::new(move |result: Result<Transfer>, _: Resume<'_>| {
                // The requester may have gone; then nobody wants the value.
                let _ = sender.send(result.map(|value| (index, value)));
            });
            let waiting = entry.rendezvous.receive_withdrawably(key.clone(), answer);
            visit.waiting.extend(waiting.map(|receiver| (key, receiver)));
        }
        Ok(Arrivals { receiver, open, _visit: visit })
    }

    /// Gives back an entry, and drops it from the table if only requests for its tensors had made it and this was the
    /// last of them.
    fn release(&self, entry: Arc<StepEntry>) {
        let mut shard = self.shard(entry.id).lock();
        let id = entry.id;
        // Entries are handed out under the lock, so under the lock the count tells whether anybody else has this one.
        drop(entry);
        if shard.steps.get(&id).is_some_and(is_idle) {
            shard.steps.remove(&id);
        }
    }

    /// Forgets steps that have ended and whose master is gone, or their session.
    pub(super) fn sweep(&self, has_session: impl Fn(&str) -> bool) {
        let now = self.clock.now();
        let is_forgotten = |entry: &Arc<StepEntry>| match &*entry.state.lock() {
            StepState::Ended { at, session, connection, has_failed, .. } => {
                let is_lost = connection.as_ref().is_some_and(|connection| !connection.is_open());
                let kept = match session {
                    Some(session) if !has_session(session) => KEEP_LOST_TIMEOUT,
                    _ => keep_timeout(is_lost, *has_failed),
                };
                now.saturating_duration_since(*at) > kept
            }
            // A partial run outlives its calls, but not its master.
            StepState::Running(running) => {
                let is_lost = running.connection.as_ref().is_some_and(|connection| !connection.is_open());
                running.outcome.is_some() && is_lost
            }
            StepState::Awaited => false,
        };
        for shard in &self.shards {
            let forgotten: Vec<i64> = {
                let mut shard = shard.lock();
                // Somebody looked at the entry in the very moment in which its last request went away.
                shard.steps.retain(|_, entry| !is_idle(entry));
                let steps = shard.steps.values();
                steps.filter(|entry| is_forgotten(entry)).map(|entry| entry.id).collect()
            };
            forgotten.into_iter().for_each(|id| self.remove(id));
        }
    }

    /// Cancels all running parts of a session.
    pub(super) fn cancel_session(&self, session: &str, reason: &Status) {
        for entry in self.entries() {
            if let Some(running) = entry.running().filter(|running| &*running.session == session) {
                running.cancellation.cancel(reason.clone());
            }
        }
    }

    /// Whether a part of a session runs here.
    pub(super) fn has_running(&self, session: &str) -> bool {
        let runs = |entry: &Arc<StepEntry>| match &*entry.state.lock() {
            StepState::Running(running) => &*running.session == session,
            _ => false,
        };
        self.shards.iter().any(|shard| shard.lock().steps.values().any(runs))
    }

    fn entries(&self) -> Vec<Arc<StepEntry>> {
        self.shards
            .iter()
            .flat_map(|shard| shard.lock().steps.values().cloned().collect::<Vec<_>>())
            .collect()
    }

    /// All steps, for `status`.
    pub(super) fn report(&self) -> Vec<StepReport> {
        self.entries().iter().map(|entry| entry.report()).collect()
    }
}

impl StepEntry {
    /// Notes that this task's part has begun. A step has one part per task.
    pub(super) fn begin(&self, running: RunningStep) -> Result<()> {
        let mut state = self.state.lock();
        ensure!(
            matches!(*state, StepState::Awaited),
            Aborted,
            "Step {} has been run on this task already",
            self.id
        );
        *state = StepState::Running(running);
        Ok(())
    }

    /// The part that runs, if it does.
    pub(super) fn running(&self) -> Option<RunningStep> {
        match &*self.state.lock() {
            StepState::Running(running) => Some(running.clone()),
            _ => None,
        }
    }

    /// How this task's part of a partial run ends, also if it has ended.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        match &*self.state.lock() {
            StepState::Running(running) => running.outcome.clone(),
            StepState::Ended { outcome, .. } => outcome.clone(),
            StepState::Awaited => None,
        }
    }

    /// Whether this task's part has not begun.
    pub(super) fn is_new(&self) -> bool {
        matches!(*self.state.lock(), StepState::Awaited)
    }

    /// Notes that this task's part is over. After a failure, peers that wait for its tensors get the error.
    pub(super) fn end(&self, failure: Option<&Status>) {
        let mut state = self.state.lock();
        let (at, has_failed) = (self.clock.now(), failure.is_some());
        *state = match std::mem::take(&mut *state) {
            StepState::Running(RunningStep { session, connection, outcome, .. }) => {
                StepState::Ended { at, session: Some(session), connection, has_failed, outcome }
            }
            StepState::Ended { session, .. } => {
                StepState::Ended { at, session, connection: None, has_failed, outcome: None }
            }
            StepState::Awaited => {
                StepState::Ended { at, session: None, connection: None, has_failed, outcome: None }
            }
        };
        drop(state);
        if let Some(status) = failure {
            self.rendezvous.abort(status.clone());
        }
    }

    fn report(&self) -> StepReport {
        let (session, state, mut waiting_for) = match &*self.state.lock() {
            StepState::Awaited => (String::new(), "not started here", Vec::new()),
            StepState::Running(running) => {
                let nodes = running.step.upgrade().map_or(Vec::new(), |step| step.waiting());
                let nodes = nodes.iter().filter(|(_, op)| !matches!(&**op, "_Recv" | "_HostRecv"));
                let nodes = nodes.map(|(name, op)| format!("node {name} ({op})"));
                let tensors = running.awaited.keys().into_iter().map(|key| describe(&key));
                (running.session.to_string(), "running", nodes.chain(tensors).collect())
            }
            StepState::Ended { session, .. } => {
                let session = session.as_deref().unwrap_or_default().to_string();
                (session, "over, not yet cleaned up", Vec::new())
            }
        };
        let asked = self.rendezvous.awaited_keys().into_iter();
        // Another task has asked for it: that its part of the step stands still is explained here.
        waiting_for.extend(asked.map(|key| format!("{}, which is still to be made here", describe(&key))));
        StepReport { id: self.id, session, age: self.clock.since(self.created), state, waiting_for }
    }
}

/// `tensor edge_4_v/read from /job:ps/… to /job:worker/…` for a rendezvous key.
fn describe(key: &RendezvousKey) -> String {
    format!("tensor {} from {} to {}", key.edge_name(), key.sender_text(), key.receiver_text())
}

/// How long a step is kept after its end.
fn keep_timeout(is_lost: bool, has_failed: bool) -> Duration {
    match (is_lost, has_failed) {
        (true, true) => KEEP_LOST_TIMEOUT,
        (false, false) => KEEP_FINISHED_TIMEOUT,
        _ => KEEP_TIMEOUT,
    }
}

/// Whether an entry of the table is of no use: nobody else has it, this task's part has not begun, and nothing waits in
/// it.
fn is_idle(entry: &Arc<StepEntry>) -> bool {
    Arc::strong_count(entry) == 1 && entry.is_new() && entry.rendezvous.is_empty()
}

#[cold]
fn over(id: i64) -> Status {
    Status::aborted(format!("Step {id} is over and cleaned up")).derived()
}

#[cold]
fn given_up(id: i64) -> Status {
    Status::aborted(format!("Step {id} was given up")).derived()
}

/// Tensors that were asked for, as they come. Dropping it withdraws the request for those that have not come.
pub(crate) struct Arrivals {
    receiver: UnboundedReceiver<Result<(usize, Transfer)>>,
    /// How many are still to come.
    open: usize,
    _visit: Visit,
}

impl Arrivals {
    /// The next one, with its place in the request; `None` after the last.
    pub(crate) async fn next(&mut self) -> Option<Result<(usize, Transfer)>> {
        if self.open == 0 {
            return None;
        }
        self.open -= 1;
        self.receiver.recv().await
    }

    /// The next one, if it is there already.
    pub(crate) fn next_ready(&mut self) -> Option<Result<(usize, Transfer)>> {
        let next = self.receiver.try_recv().ok()?;
        self.open = self.open.saturating_sub(1);
        Some(next)
    }
}

/// A request for tensors; withdrawn when it is dropped.
struct Visit {
    table: Arc<StepTable>,
    /// Present until the end.
    entry: Option<Arc<StepEntry>>,
    /// What it waits for.
    waiting: Vec<(RendezvousKey, ReceiverId)>,
}

impl Drop for Visit {
    fn drop(&mut self) {
        let Some(entry) = self.entry.take() else { return };
        for (key, receiver) in self.waiting.drain(..) {
            entry.rendezvous.withdraw(&key, receiver);
        }
        if entry.is_new() {
            self.table.release(entry);
        }
    }
}

#[cfg(test)]
#[path = "step_table_tests.rs"]
mod tests;
