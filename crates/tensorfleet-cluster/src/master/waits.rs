//! Why steps wait, in words: what a process says that waits for a round, or for a task that does not answer.
//!
//! Pure: it is given what the tasks of the steps have said about themselves, or that they have said nothing, and gives sentences,
//! and the steps that wait for a round that no longer has their gradients.

use std::time::Duration;

use crate::cluster_spec::{ClusterSpec, TaskId};
use crate::status::{RoundStatus, StepStatus};

/// A round, or a task, that has not moved for this long is talked about.
pub(super) const STALLED_AFTER: Duration = Duration::from_secs(4);
/// A step that waits this long for a round without its gradients is begun anew.
const LOST_AFTER: Duration = Duration::from_secs(6);
/// The token queue of a synchronous training, as every TensorFlow program calls it.
const TOKEN_QUEUE: &str = "sync_token_q";

/// A step that runs for long.
#[derive(Clone, Debug)]
pub(super) struct LongStep {
    pub(super) id: i64,
    pub(super) age: Duration,
}

/// What a task that takes part in such steps says.
#[derive(Clone, Debug)]
pub(super) struct TaskWord {
    /// `/job:ps/task:0`.
    pub(super) task: String,
    /// Where it is.
    pub(super) place: String,
    pub(super) word: Word,
}

#[derive(Clone, Debug)]
pub(super) enum Word {
    /// Its life, steps and rounds.
    Status { incarnation: u64, steps: Vec<StepStatus>, rounds: Vec<RoundStatus> },
    /// Why there was no answer.
    Silent(String),
    /// It is not one of ours, and says nothing of the kind.
    Foreign,
}

/// The sentences to say about steps that run for long.
pub(super) fn notes(steps: &[LongStep], words: &[TaskWord], cluster: &ClusterSpec) -> Vec<String> {
    let Some(age) = steps.iter().map(|step| step.age).max() else { return Vec::new() };
    let mut notes = Vec::new();
    for TaskWord { task, place, word } in words {
        match word {
            Word::Silent(reason) => notes.push(format!(
                "a step has waited for {} s: {task} at {place} does not answer ({reason})",
                age.as_secs()
            )),
            Word::Status { rounds, .. } => {
                notes.extend(
                    rounds.iter().filter_map(|round| stalled(round, waits_for_token(steps, words), cluster)),
                );
            }
            Word::Foreign => {}
        }
    }
    notes.sort();
    notes.dedup();
    notes
}

/// The rounds of this task that stand still although somebody waits for them, in words.
pub(super) fn notes_of_own_rounds(rounds: &[RoundStatus], cluster: &ClusterSpec) -> Vec<String> {
    let mut notes: Vec<String> =
        rounds.iter().filter_map(|round| stalled(round, Vec::new(), cluster)).collect();
    notes.sort();
    notes.dedup();
    notes
}

/// The steps that wait for a token although a round that somebody waits for does not have the gradients of `own`: they are gone.
pub(super) fn lost(own: &str, steps: &[LongStep], words: &[TaskWord]) -> Vec<i64> {
    let is_missed = words.iter().any(|word| match &word.word {
        Word::Status { rounds, .. } => rounds.iter().any(|round| {
            round.required.is_some()
                && round.quiet_seconds >= LOST_AFTER.as_secs_f64()
                && round.missing.iter().any(|member| member == own)
        }),
        _ => false,
    });
    if !is_missed {
        return Vec::new();
    }
    let waiting = waits_for_token(steps, words);
    let is_old = |id: &i64| steps.iter().any(|step| step.id == *id && step.age >= LOST_AFTER);
    waiting.into_iter().filter(is_old).collect()
}

/// The tasks that are in another life than the one in which they joined the session. A step that they had a part in may wait for
/// ever for what they knew: nobody is told of their end if their part was over.
pub(super) fn restarted<'a>(words: &'a [TaskWord], joined: &[(TaskId, u64)]) -> Vec<&'a str> {
    let is_other = |word: &&TaskWord| match word.word {
        Word::Status { incarnation, .. } if incarnation != 0 => {
            joined.iter().any(|(task, life)| task.to_string() == word.task && *life != incarnation)
        }
        _ => false,
    };
    words.iter().filter(is_other).map(|word| &*word.task).collect()
}

/// Those of the steps that wait for a token.
fn waits_for_token(steps: &[LongStep], words: &[TaskWord]) -> Vec<i64> {
    let reported = words.iter().flat_map(|word| match &word.word {
        Word::Status { steps, .. } => &steps[..],
        _ => &[],
    });
    let waiting = reported.filter(|step| step.waiting_for.iter().any(|what| what.contains(TOKEN_QUEUE)));
    waiting.map(|step| step.step_id).filter(|id| steps.iter().any(|step| step.id == *id)).collect()
}

/// A sentence about a round that stands still; nothing if it moves, or nobody waits for it.
fn stalled(round: &RoundStatus, waiting: Vec<i64>, cluster: &ClusterSpec) -> Option<String> {
    if round.quiet_seconds < STALLED_AFTER.as_secs_f64() {
        return None;
    }
    let seconds = round.quiet_seconds as u64;
    let given = listed(&round.given);
    let Some(required) = round.required else {
        let chief = round
            .taker
            .as_deref()
            .map_or("the chief".to_string(), |chief| format!("the chief, {}", short(chief)));
        return (!waiting.is_empty() && round.count > 0).then(|| {
            format!(
                "round {} has stood still for {seconds} s: {chief}, who applies it, is not there (gradients have come from {given})",
                round.step
            )
        });
    };
    let missing = missing(round, cluster);
    let missing =
        if missing.is_empty() { "a worker that has not come yet".to_string() } else { missing.join(", ") };
    (round.count < required).then(|| {
        format!(
            "round {} has waited for {seconds} s for {missing}: it needs {required} gradients and has {} (from {given})",
            round.step, round.count
        )
    })
}

/// Who has not given its gradient: members of earlier rounds, and tasks of the same jobs that have never been members.
fn missing(round: &RoundStatus, cluster: &ClusterSpec) -> Vec<String> {
    let mut missing: Vec<String> = round.missing.iter().map(|member| short(member)).collect();
    let given: Vec<String> = round.given.iter().map(|member| short(member)).collect();
    let job_of =
        |task: &str| task.strip_prefix("/job:").and_then(|rest| rest.split('/').next().map(String::from));
    let jobs: Vec<String> = missing.iter().chain(&given).filter_map(|task| job_of(task)).collect();
    for (job, index, _) in cluster.tasks() {
        let task = format!("/job:{job}/task:{index}");
        if jobs.iter().any(|known| known == job) && !given.contains(&task) && !missing.contains(&task) {
            missing.push(task);
        }
    }
    missing.sort();
    missing
}

/// `/job:worker/task:1` for `/job:worker/replica:0/task:1`.
fn short(task: &str) -> String {
    task.replace("/replica:0", "")
}

fn listed(members: &[String]) -> String {
    match members {
        [] => "nobody".to_string(),
        members => members.iter().map(|member| short(member)).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(index: usize) -> String {
        format!("/job:worker/replica:0/task:{index}")
    }

    fn round(given: &[usize], missing: &[usize], required: Option<usize>) -> RoundStatus {
        RoundStatus {
            step: 7,
            count: given.len(),
            required,
            given: given.iter().map(|&index| member(index)).collect(),
            missing: missing.iter().map(|&index| member(index)).collect(),
            taker: Some(member(0)),
            quiet_seconds: 9.0,
            accumulators: 4,
        }
    }

    fn ps(rounds: Vec<RoundStatus>, waiting: &[i64]) -> TaskWord {
        let step = |&step_id: &i64| StepStatus {
            step_id,
            session: "s".into(),
            age_seconds: 9.0,
            state: "running".into(),
            waiting_for: vec!["node sync_token_q_Dequeue (QueueDequeueV2)".into()],
        };
        let word = Word::Status { incarnation: 7, steps: waiting.iter().map(step).collect(), rounds };
        TaskWord { task: "/job:ps/task:0".into(), place: "ps0:1".into(), word }
    }

    fn step() -> LongStep {
        LongStep { id: 1, age: Duration::from_secs(9) }
    }

    fn cluster() -> ClusterSpec {
        ClusterSpec::from_hosts("ps0:1", "w0:1,w1:1,w2:1").unwrap()
    }

    #[test]
    fn a_task_in_another_life_is_noticed_and_one_that_does_not_tell_is_not() {
        let words = [ps(Vec::new(), &[])];
        let joined = |life| [(TaskId::new("ps", 0), life), (TaskId::new("ps", 1), 1)];
        assert_eq!(restarted(&words, &joined(6)), ["/job:ps/task:0"]);
        assert!(restarted(&words, &joined(7)).is_empty());
        let silent = TaskWord { word: Word::Silent("gone".into()), ..words[0].clone() };
        assert!(restarted(&[silent], &joined(6)).is_empty());
    }

    #[test]
    fn a_missing_worker_is_said_by_name() {
        let said = |words| notes(&[step()], &[words], &cluster()).join("\n");
        let note = said(ps(vec![round(&[0, 1], &[2], Some(3))], &[1]));
        assert_eq!(
            note,
            "round 7 has waited for 9 s for /job:worker/task:2: it needs 3 gradients and has 2 (from /job:worker/task:0, \
             /job:worker/task:1)"
        );
        let note = said(ps(vec![round(&[0], &[], Some(3))], &[1]));
        assert!(note.contains("for /job:worker/task:1, /job:worker/task:2:"), "they have never come: {note}");
        let note = said(ps(vec![round(&[1, 2], &[0], None)], &[1]));
        assert!(note.contains("the chief, /job:worker/task:0, who applies it, is not there"), "{note}");
        assert!(
            said(ps(vec![round(&[1, 2], &[0], None)], &[])).is_empty(),
            "what is left of an ended training"
        );
        let mut quick = round(&[0, 1], &[2], Some(3));
        quick.quiet_seconds = 1.0;
        assert!(said(ps(vec![quick], &[1])).is_empty());
    }

    #[test]
    fn a_silent_task_is_said_and_a_foreign_one_is_not() {
        let word = |word| TaskWord { task: "/job:ps/task:0".into(), place: "ps0:1".into(), word };
        let said = |words: TaskWord| notes(&[step()], &[words], &cluster());
        assert_eq!(
            said(word(Word::Silent("no answer in 2 s".into()))),
            ["a step has waited for 9 s: /job:ps/task:0 at ps0:1 does not answer (no answer in 2 s)"]
        );
        assert!(said(word(Word::Foreign)).is_empty());
        assert!(notes(&[], &[], &cluster()).is_empty());
    }

    #[test]
    fn a_step_whose_gradients_are_gone_is_begun_anew() {
        let lost = |words| lost(&member(1), &[step()], &[words]);
        assert_eq!(lost(ps(vec![round(&[0, 2], &[1], Some(3))], &[1])), [1]);
        assert!(lost(ps(vec![round(&[0, 1], &[2], Some(3))], &[1])).is_empty(), "it waits for another one");
        assert!(lost(ps(vec![round(&[0, 2], &[1], Some(3))], &[])).is_empty(), "it is still at work");
        assert!(lost(ps(vec![round(&[0, 2], &[1], None)], &[1])).is_empty(), "nobody would take them");
    }
}
