//! Getting in touch with the tasks of a session: who is there, with which devices, in which life.
//!
//! Tasks may start in any order, so a master waits for those it needs, says every few seconds for whom and why, and
//! gives up with the whole picture. A task that answers but is another one than expected, or that has another idea of
//! the cluster, is a mistake that waiting does not cure: it is reported at once.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use parking_lot::Mutex;
use tensorfleet_core::clock::{Clock, Stopwatch};
use tensorfleet_core::{Code, DeviceName, Result, Status, bail, notice};
use tensorfleet_proto::tensorflow::DeviceAttributes;

use crate::cluster_spec::{ClusterSpec, TaskId};
use crate::peers::Peers;
use crate::status::TaskStatus;

/// Pause between two attempts at a task that is not there.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// How often a waiting master says for whom it waits.
const REPORT_EVERY: Duration = Duration::from_secs(3);
/// How long one attempt may take before it counts as silence.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// A task that has answered.
#[derive(Clone, Debug)]
pub(super) struct Contacted {
    pub(super) task: TaskId,
    pub(super) devices: Vec<DeviceAttributes>,
}

/// Who asks, for the other side to know and to compare.
pub(super) struct Asker<'a> {
    pub(super) task: &'a TaskId,
    pub(super) peers: &'a Peers,
    /// Whether tasks may answer under other names, because the session has a cluster of its own.
    pub(super) renames: bool,
}

/// One task's state while it is waited for.
#[derive(Default)]
struct Attempt {
    answered: bool,
    reason: Option<String>,
}

/// Asks all `tasks` for their devices, and waits up to `timeout` for those that do not answer.
pub(super) async fn contact(
    asker: &Asker<'_>,
    tasks: &[TaskId],
    timeout: Duration,
) -> Result<Vec<Contacted>> {
    let started = Stopwatch::start();
    let attempts: Vec<Mutex<Attempt>> = tasks.iter().map(|_| Mutex::default()).collect();
    let all =
        try_join_all(tasks.iter().zip(&attempts).map(|(task, attempt)| keep_asking(asker, task, attempt)));
    tokio::pin!(all);
    let deadline = tokio::time::sleep(timeout);
    tokio::pin!(deadline);
    let mut report = tokio::time::interval_at((started.started() + REPORT_EVERY).into(), REPORT_EVERY);
    loop {
        tokio::select! {
            biased;
            result = &mut all => return result,
            () = &mut deadline => return Err(gave_up(asker, tasks, &attempts, timeout)),
            _ = report.tick() => {
                for text in waiting(asker, tasks, &attempts) {
                    notice::warn(format!("waiting for {text}, {} s", started.elapsed().as_secs()));
                }
            }
        }
    }
}

/// Asks all `tasks` once; those that do not answer in time are left out.
pub(super) async fn contact_present(
    asker: &Asker<'_>,
    tasks: &[TaskId],
    timeout: Duration,
) -> Vec<Result<Contacted>> {
    join_all(tasks.iter().map(|task| async move {
        let asked = tokio::time::timeout(timeout, ask(asker, task)).await;
        asked.unwrap_or_else(|_| Err(Status::unavailable(format!("{task} did not answer in time"))))
    }))
    .await
}

async fn keep_asking(asker: &Asker<'_>, task: &TaskId, attempt: &Mutex<Attempt>) -> Result<Contacted> {
    loop {
        match ask(asker, task).await {
            Ok(contacted) => {
                attempt.lock().answered = true;
                return Ok(contacted);
            }
            // Not there yet, or not listening yet.
            Err(status) if matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded) => {
                attempt.lock().reason = Some(status.text().to_string());
            }
            Err(status) => return Err(status),
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

async fn ask(asker: &Asker<'_>, task: &TaskId) -> Result<Contacted> {
    let worker = asker.peers.worker(task)?;
    let (spec, own) = (asker.peers.spec(), asker.task.full_name());
    let ours = format!("{:016x}", spec.fingerprint());
    let introduction = worker.get_status(&own, &ours, Clock::system().now() + ATTEMPT_TIMEOUT).await?;
    let devices = check_names(asker, task, introduction.devices, worker.place())?;
    let is_other = introduction.fingerprint.is_some_and(|theirs| theirs != ours);
    if is_other && !asker.renames {
        let document = worker.status_document(Clock::system().now() + ATTEMPT_TIMEOUT).await?;
        if let Ok(status) = serde_json::from_slice::<TaskStatus>(&document)
            && let Some(difference) = contradiction(spec, &status.cluster)
        {
            bail!(
                FailedPrecondition,
                "{task} at {} was started with another cluster specification: {difference}. Start all tasks with \
                 the same one",
                worker.place()
            );
        }
    }
    Ok(Contacted { task: task.clone(), devices })
}

/// Checks that the task that answered is the one that was meant.
fn check_names(
    asker: &Asker<'_>,
    task: &TaskId,
    mut devices: Vec<DeviceAttributes>,
    place: &str,
) -> Result<Vec<DeviceAttributes>> {
    let expected: DeviceName = task.full_name().parse()?;
    if devices.is_empty() {
        bail!(FailedPrecondition, "{task} at {place} has no devices");
    }
    for device in &mut devices {
        let mut name: DeviceName = device.name.parse()?;
        if name.task_name() != expected {
            if !asker.renames {
                bail!(
                    FailedPrecondition,
                    "{place} should be {task}, but says it is {}: check the addresses, and the --job_name and \
                     --task_index that task was started with",
                    name.task_name()
                );
            }
            name = DeviceName { device_type: name.device_type, index: name.index, ..expected.clone() };
            device.name = name.to_string();
        }
    }
    Ok(devices)
}

/// The first task whose address two specifications disagree about. Tasks that only one of them knows do not matter, nor
/// do different names for the local host.
fn contradiction(here: &ClusterSpec, there: &ClusterSpec) -> Option<String> {
    here.tasks().find_map(|(job, index, ours)| {
        let theirs = there.address(job, index).ok()?;
        is_other_place(ours, theirs)
            .then(|| format!("{} is '{ours}' here and '{theirs}' there", TaskId::new(job, index)))
    })
}

fn is_other_place(ours: &str, theirs: &str) -> bool {
    let is_local =
        |host: &str| host == "localhost" || host == "0.0.0.0" || host == "[::1]" || host.starts_with("127.");
    match (ours.rsplit_once(':'), theirs.rsplit_once(':')) {
        (Some((our_host, our_port)), Some((their_host, their_port))) => {
            our_port != their_port || (our_host != their_host && !is_local(our_host) && !is_local(their_host))
        }
        _ => ours != theirs,
    }
}

/// The tasks that have not answered, with addresses and reasons.
fn waiting(asker: &Asker<'_>, tasks: &[TaskId], attempts: &[Mutex<Attempt>]) -> Vec<String> {
    let describe = |(task, attempt): (&TaskId, &Mutex<Attempt>)| {
        let attempt = attempt.lock();
        let address = asker.peers.spec().address(&task.job, task.index).unwrap_or("?");
        let reason = attempt.reason.as_deref().unwrap_or("silent: no answer so far");
        (!attempt.answered).then(|| format!("{task} at {address} ({reason})"))
    };
    tasks.iter().zip(attempts).filter_map(describe).collect()
}

fn gave_up(asker: &Asker<'_>, tasks: &[TaskId], attempts: &[Mutex<Attempt>], timeout: Duration) -> Status {
    let missing = waiting(asker, tasks, attempts);
    let answered: Vec<String> = tasks
        .iter()
        .zip(attempts)
        .filter(|(_, attempt)| attempt.lock().answered)
        .map(|(task, _)| task.to_string())
        .collect();
    let answered = if answered.is_empty() { "nobody".to_string() } else { answered.join(", ") };
    Status::unavailable(format!(
        "Gave up after {:.1} s waiting for {}; answered: {answered}. Start the missing tasks, or set device_filters so \
         that the session does not need them",
        timeout.as_secs_f64(),
        missing.join(", ")
    ))
}

/// Peers as a list, for messages and calls to all.
pub(super) fn all_tasks(spec: &Arc<ClusterSpec>) -> Vec<TaskId> {
    spec.tasks().map(|(job, index, _)| TaskId::new(job, index)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_real_contradictions_between_specifications_count() {
        let spec = |worker: &str| ClusterSpec::from_hosts("ps0:1", worker).unwrap();
        let here = spec("a:1,b:2");
        assert_eq!(contradiction(&here, &spec("a:1,b:2")), None);
        assert_eq!(contradiction(&here, &spec("a:1")), None, "a task may know fewer others");
        assert_eq!(contradiction(&here, &spec("a:1,localhost:2")), None, "everybody is localhost to himself");
        let difference = contradiction(&here, &spec("a:1,c:2")).unwrap();
        assert_eq!(difference, "/job:worker/task:1 is 'b:2' here and 'c:2' there");
        assert!(contradiction(&here, &spec("a:1,localhost:3")).is_some());
    }
}
