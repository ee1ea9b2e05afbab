//! Notices tasks that run but do nothing: a process that was stopped, or a machine that hangs.
//!
//! A task that has ended is known at once; of one that is frozen there is only silence, and the workers that wait for it are
//! just as silent. So when a worker has not reported for some seconds, all tasks are asked for their status, in a thread
//! of its own, and those that do not answer are named. Tasks that make long steps answer, and nothing is said.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tensorfleet_cluster::{TaskState, survey};
use tensorfleet_core::Unreachable;

/// A silence that makes us ask. Workers report ten times a second, and a save takes less.
const SILENCE: Duration = Duration::from_secs(5);
/// How long a task may take to answer.
const SURVEY_TIMEOUT: Duration = Duration::from_secs(2);
/// How often the tasks are asked while a silence lasts.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// A task, as the watch knows it.
#[derive(Clone, Debug)]
pub(super) struct WatchedTask {
    pub(super) name: String,
    pub(super) address: String,
}

/// Watches the tasks of a cluster.
pub(super) struct TaskWatch {
    tasks: Vec<WatchedTask>,
    /// The thread that asks. It ends by itself, after [`SURVEY_TIMEOUT`] per task at most.
    asking: Option<JoinHandle<Vec<String>>>,
    asked: Option<Instant>,
    /// Those that have been named in this silence.
    named: Vec<String>,
}

impl TaskWatch {
    pub(super) fn new(tasks: Vec<WatchedTask>) -> TaskWatch {
        TaskWatch { tasks, asking: None, asked: None, named: Vec::new() }
    }

    /// What there is to say at `now`, when a worker has not reported for `silence`.
    pub(super) fn look(&mut self, silence: Duration, now: Instant) -> Option<String> {
        if silence < SILENCE {
            self.named.clear();
        }
        if let Some(asking) = self.asking.take_if(|asking| asking.is_finished()) {
            // A thread that has failed knows nothing.
            let mute = asking.join().unwrap_or_default();
            return if silence < SILENCE { None } else { self.news(mute, silence) };
        }
        let is_time = self.asked.is_none_or(|asked| now.saturating_duration_since(asked) >= ASK_EVERY);
        if silence >= SILENCE && self.asking.is_none() && is_time {
            self.asked = Some(now);
            let tasks = self.tasks.clone();
            // Without a thread nobody is asked this time.
            self.asking = std::thread::Builder::new().spawn(move || mute_tasks(&tasks)).ok();
        }
        None
    }

    /// A sentence about those that were not named yet.
    fn news(&mut self, mute: Vec<String>, silence: Duration) -> Option<String> {
        let new: Vec<String> = mute.into_iter().filter(|name| !self.named.contains(name)).collect();
        if new.is_empty() {
            return None;
        }
        let seconds = silence.as_secs();
        let text = match new.as_slice() {
            [name] => format!(
                "{name} has not answered for {seconds} s: its process is stopped or hangs; whoever waits for it continues when it \
                 answers, Ctrl-C ends the training"
            ),
            names => format!(
                "{} have not answered for {seconds} s: their processes are stopped or hang; whoever waits for them continues when \
                 they answer, Ctrl-C ends the training",
                names.join(", ")
            ),
        };
        self.named.extend(new);
        Some(text)
    }
}

/// The tasks that do not answer. Any that answers tells about all others.
fn mute_tasks(tasks: &[WatchedTask]) -> Vec<String> {
    let mut mute: Vec<&str> = Vec::new();
    for task in tasks {
        match survey(&task.address, SURVEY_TIMEOUT) {
            Ok(findings) => {
                let silent = findings.iter().filter(|finding| finding.state == TaskState::Silent);
                let addresses: Vec<&str> =
                    mute.into_iter().chain(silent.map(|finding| finding.address.as_str())).collect();
                return names(tasks, &addresses);
            }
            // A process that has ended is none that hangs, and is told about otherwise.
            Err(status) if status.unreachable() == Some(Unreachable::Refused) => {}
            Err(_) => mute.push(&task.address),
        }
    }
    names(tasks, &mute)
}

/// The names of the tasks at these addresses, each once.
fn names(tasks: &[WatchedTask], addresses: &[&str]) -> Vec<String> {
    let meant = tasks.iter().filter(|task| addresses.contains(&task.address.as_str()));
    meant.map(|task| task.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_named_once_per_silence() {
        let mut watch = TaskWatch::new(Vec::new());
        let mute = || vec!["ps/0".to_string()];
        let text = watch.news(mute(), Duration::from_secs(7)).unwrap();
        assert!(text.starts_with("ps/0 has not answered for 7 s: its process is "), "{text}");
        assert_eq!(watch.news(mute(), Duration::from_secs(12)), None);
        assert_eq!(watch.look(Duration::ZERO, Instant::now()), None);
        assert!(watch.news(mute(), Duration::from_secs(7)).is_some());
    }
}
