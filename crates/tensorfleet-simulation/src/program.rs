//! [`Client`]: what the clients of every training do, and [`Tally`]: what has come of it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tensorfleet_core::{Code, Result, Status, Tensor};
use tensorfleet_proto::tensorflow::GraphDef;
use tensorfleet_rpc::Network;

use crate::journal::Journal;
use crate::machine::{self, Random};
use crate::schedule::Schedule;
use crate::session::{Run, Session};

/// The longest pause before a client tries another session, or looks again whether it can begin.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How many steps a client makes after the last fault.
const STEPS_IN_CALM: u64 = 4;

/// A client of a training. Made anew each time its process starts.
pub(crate) struct Client {
    /// The name it has in the journal.
    pub(crate) name: String,
    /// Which one it is; 0 is the chief.
    pub(crate) index: usize,
    /// The server that it has its session on.
    pub(crate) address: String,
    pub(crate) network: Arc<dyn Network>,
    pub(crate) journal: Journal,
    pub(crate) schedule: Arc<Schedule>,
    pub(crate) tally: Arc<Tally>,
    /// Its own choices.
    pub(crate) random: Mutex<Random>,
}

/// What has come of a training, over all lives of all clients: only an onlooker knows.
pub(crate) struct Tally {
    clients: Vec<Mutex<Progress>>,
}

/// What has come of one client's work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) answered: u64,
    /// Those among them since the last fault was over.
    pub(crate) answered_in_calm: u64,
    pub(crate) failed: u64,
    pub(crate) sessions: u64,
    pub(crate) is_done: bool,
}

impl Tally {
    /// Nothing has happened yet.
    pub(crate) fn new(clients: usize) -> Tally {
        Tally { clients: (0..clients).map(|_| Mutex::default()).collect() }
    }

    /// The progress of one client.
    pub(crate) fn of(&self, client: usize) -> Progress {
        *self.clients[client].lock()
    }

    /// That of all; done when all are.
    pub(crate) fn total(&self) -> Progress {
        let all = self.clients.iter().map(|client| *client.lock());
        all.fold(Progress { is_done: true, ..Progress::default() }, |sum, client| Progress {
            answered: sum.answered + client.answered,
            answered_in_calm: sum.answered_in_calm + client.answered_in_calm,
            failed: sum.failed + client.failed,
            sessions: sum.sessions + client.sessions,
            is_done: sum.is_done && client.is_done,
        })
    }
}

impl Client {
    pub(crate) fn is_chief(&self) -> bool {
        self.index == 0
    }

    fn progress(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.tally.clients[self.index].lock());
    }

    /// Whether it has made all steps that it should.
    pub(crate) fn has_done_enough(&self) -> bool {
        let progress = self.tally.of(self.index);
        progress.answered >= self.schedule.steps && progress.answered_in_calm >= STEPS_IN_CALM
    }

    pub(crate) fn note(&self, what: &str) {
        self.journal.note(&self.name, what);
    }

    pub(crate) fn fail(&self, reason: &str) {
        self.journal.fail(&self.name, reason);
    }

    /// A pause of at most this long.
    pub(crate) async fn pause(&self, longest: Duration) {
        let pause = self.random.lock().millis(0, longest.as_millis() as u64);
        tokio::time::sleep(pause).await;
    }

    /// A pause before it looks again for what it waits for.
    pub(crate) async fn look_again(&self) {
        self.pause(LOOK_AGAIN).await;
    }

    /// Does `work`, and lets others know meanwhile what it waits for.
    pub(crate) async fn waiting<F: Future>(&self, what: &str, work: F) -> F::Output {
        self.journal.waiting(&self.name, what, work).await
    }

    /// Whether the next request is sent twice.
    pub(crate) fn sends_twice(&self) -> bool {
        self.random.lock().permille(self.schedule.twice_permille)
    }

    /// Opens a session. It fails if tasks are missing for long.
    pub(crate) async fn open_session(&self, graph: GraphDef) -> Result<Session> {
        let created = Session::create(&self.network, &self.address, graph);
        let session = self.waiting("a session", created).await?;
        self.progress(|progress| progress.sessions += 1);
        self.note("has a session");
        Ok(session)
    }

    /// Closes a session, if the server is there to hear it.
    pub(crate) async fn close_session(&self, session: Session) {
        if let Err(status) = self.waiting("the end of its session", session.close()).await {
            self.note(&format!("could not close its session: {status}"));
        }
    }

    /// Has lost its session, or did not get one, and will try again.
    pub(crate) async fn lost_session(&self, status: &Status) {
        self.note(&format!("lost its session: {status}"));
        self.look_again().await;
    }

    /// Is at its end.
    pub(crate) fn done(&self) {
        self.note("done");
        self.progress(|progress| progress.is_done = true);
    }

    /// Runs something. An error must be one that a training survives.
    pub(crate) async fn run(&self, session: &Session, what: &str, run: Run<'_>) -> Result<Vec<Tensor>> {
        let result = self.waiting(what, session.run(run)).await;
        if let Err(status) = &result {
            self.check_survivable(what, status);
        }
        result
    }

    /// The chief sets what `missing` tells to be without a value; the others wait for it. `set` gives the values, `targets` take them.
    pub(crate) async fn make_ready(
        &self,
        session: &Session,
        missing: &[String],
        targets: &[String],
        set: impl Fn() -> Vec<(String, Tensor)>,
    ) -> Result<()> {
        loop {
            let look = Run { fetches: missing, ..Run::default() };
            let missing = self.run(session, "what is missing", look).await?;
            if missing.iter().all(|names| names.num_elements() == 0) {
                return Ok(());
            }
            if self.is_chief() {
                let run = Run { feeds: &set(), targets, ..Run::default() };
                self.run(session, "the values to be set", run).await?;
            } else {
                self.look_again().await;
            }
        }
    }

    /// Makes a step of the training.
    pub(crate) async fn step(&self, session: &Session, run: Run<'_>) -> Result<Vec<Tensor>> {
        let result = self.waiting("a step", session.run(run)).await;
        self.made_step(result)
    }

    /// Counts a step.
    pub(crate) fn made_step(&self, result: Result<Vec<Tensor>>) -> Result<Vec<Tensor>> {
        let is_calm = u64::from(machine::now() > self.schedule.calm_from());
        self.progress(|progress| match &result {
            Ok(_) => {
                progress.answered += 1;
                progress.answered_in_calm += is_calm;
            }
            Err(status) => {
                self.check_survivable("a step", status);
                progress.failed += 1;
            }
        });
        result
    }

    /// A training goes on in another session after these two errors; any other would end it. And if nothing was wrong for
    /// long there is no reason for either.
    fn check_survivable(&self, what: &str, status: &Status) {
        if !matches!(status.code(), Code::Unavailable | Code::Aborted) {
            self.fail(&format!("{what}: {status}: a training ends with this error"));
        } else if self.schedule.is_bearable() {
            self.fail(&format!("{what}: {status}: although nothing was wrong for long"));
        }
    }
}
