//! Watching steps that run for long: says every few seconds for whom they wait, and begins those anew that wait in vain.
//!
//! Asks only the tasks of steps that have run for seconds, so a training whose steps are short costs a look at a list.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tensorfleet_core::clock::Clock;
use tensorfleet_core::{Code, Status, notice};

use super::Master;
use super::running::RunningStep;
use super::session::MasterSession;
use super::waits::{self, LongStep, STALLED_AFTER, TaskWord, Word};
use crate::cluster_spec::TaskId;
use crate::peers::Peers;
use crate::worker_api::Waits;

/// How often steps are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How often the same process says for whom it waits.
const REPORT_EVERY: Duration = Duration::from_secs(4);
/// How long a task may take to say how its steps are.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);

/// What is remembered from one look to the next.
#[derive(Default)]
struct Watch {
    reported: Option<Instant>,
    /// Steps that the last look found waiting in vain.
    lost: Vec<i64>,
}

impl Master {
    /// Looks after long steps. Never ends.
    pub(crate) async fn watch(&self) {
        let mut watch = Watch::default();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            self.look(&mut watch).await;
        }
    }

    async fn look(&self, watch: &mut Watch) {
        let sessions: Vec<_> = self.sessions.read().values().cloned().collect();
        let mut said = waits::notes_of_own_rounds(&self.worker.waits().rounds, self.peers.spec());
        let mut lost = Vec::new();
        for session in &sessions {
            let running = session.running.longer_than(STALLED_AFTER);
            if running.is_empty() {
                session.note_waits(&[]);
                continue;
            }
            let words = ask_all(&session.peers, &running).await;
            let steps: Vec<LongStep> =
                running.iter().map(|step| LongStep { id: step.id, age: step.age }).collect();
            let why = waits::notes(&steps, &words, session.peers.spec());
            session.note_waits(&why);
            said.extend(why);
            for task in waits::restarted(&words, &session.lives.lock()) {
                end_with(session, &running, task);
            }
            let own = self.own.full_name();
            for id in waits::lost(&own, &steps, &words) {
                // Seen twice: what a round has just taken may be on its way.
                match watch.lost.contains(&id) {
                    true => begin_anew(session, id),
                    false => lost.push(id),
                }
            }
        }
        watch.lost = lost;
        said.sort();
        said.dedup();
        let is_due = watch.reported.is_none_or(|at| self.clock.since(at) >= REPORT_EVERY);
        if !said.is_empty() && is_due {
            watch.reported = Some(self.clock.now());
            said.iter().for_each(notice::warn);
        }
    }
}

fn begin_anew(session: &MasterSession, id: i64) {
    session.running.abort(
        id,
        Status::aborted(
            "the round that this step waits for does not have its gradients any more: they have gone with a chief or a session \
             that was lost. Run it again in a new session",
        ),
    );
}

/// Ends the steps that a task had a part in which was restarted since.
fn end_with(session: &MasterSession, running: &[RunningStep], task: &str) {
    let has_part =
        |step: &&RunningStep| step.plan.partitions.iter().any(|part| part.task.to_string() == task);
    for step in running.iter().filter(has_part) {
        session.running.abort(
            step.id,
            Status::aborted(format!(
                "{task} was restarted since this session began, and has forgotten what the step did there. Run it again in a new \
                 session"
            )),
        );
    }
}

/// Asks the tasks of these steps how they are.
async fn ask_all(peers: &Peers, running: &[RunningStep]) -> Vec<TaskWord> {
    let mut tasks: Vec<&TaskId> = Vec::new();
    for partition in running.iter().flat_map(|step| &step.plan.partitions) {
        if !tasks.contains(&&partition.task) {
            tasks.push(&partition.task);
        }
    }
    join_all(tasks.into_iter().map(|task| ask(peers, task))).await
}

async fn ask(peers: &Peers, task: &TaskId) -> TaskWord {
    let silent = |place: &str, reason: &str| (place.to_string(), Word::Silent(reason.to_string()));
    let (place, word) = match peers.worker(task) {
        Err(status) => silent("an unknown address", status.text()),
        Ok(worker) => match worker.waits(Clock::system().now() + ASK_TIMEOUT).await {
            Ok(Waits { incarnation, steps, rounds }) => {
                (worker.place().to_string(), Word::Status { incarnation, steps, rounds })
            }
            Err(status) if status.code() == Code::Unimplemented => {
                (worker.place().to_string(), Word::Foreign)
            }
            Err(status) if status.code() == Code::DeadlineExceeded => silent(worker.place(), "it is silent"),
            Err(status) => silent(worker.place(), status.text()),
        },
    };
    TaskWord { task: task.to_string(), place, word }
}
