//! What a task tells about itself, as the document that `status` shows and other tasks compare.

use serde::{Deserialize, Serialize};

use crate::cluster_spec::ClusterSpec;

/// One task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskStatus {
    /// The full name: `/job:ps/replica:0/task:0`.
    pub task: String,
    /// Where it listens.
    pub address: String,
    /// Tells this life of the task from earlier ones; hexadecimal.
    pub incarnation: String,
    /// The program's version.
    pub version: String,
    /// The process.
    pub pid: u32,
    /// Seconds since the server started.
    pub uptime_seconds: f64,
    /// Bytes in tensors.
    pub memory_bytes: u64,
    /// Bytes of the process in memory, where the system tells.
    pub resident_bytes: u64,
    /// The cluster as the task knows it.
    pub cluster: ClusterSpec,
    /// Full names of its devices.
    pub devices: Vec<String>,
    /// Sessions that clients have here.
    pub master_sessions: Vec<MasterSessionStatus>,
    /// Sessions of any master that this task takes part in.
    pub worker_sessions: Vec<WorkerSessionStatus>,
    /// Steps this task takes part in.
    pub steps: Vec<StepStatus>,
    /// Rounds of gradients that are collected here, those of accumulators that stand alike together.
    #[serde(default)]
    pub rounds: Vec<RoundStatus>,
    /// What has happened since the start.
    pub totals: Totals,
}

/// A session on a task's master.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MasterSessionStatus {
    /// Its handle.
    pub handle: String,
    /// Seconds since it was created.
    pub age_seconds: f64,
    /// Seconds since it was last used.
    pub idle_seconds: f64,
    /// Nodes in its graph.
    pub graph_nodes: usize,
    /// Bytes in constants of its graph.
    #[serde(default)]
    pub constant_bytes: u64,
    /// Signatures planned.
    pub plans: usize,
    /// Steps under way.
    pub running_steps: usize,
    /// The client's address.
    pub client: String,
    /// For whom its steps wait, in words, if they have for seconds.
    #[serde(default)]
    pub waits: Vec<String>,
    /// How long ago it was noticed that the client is gone, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orphaned_seconds: Option<f64>,
}

/// A master session's share in a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerSessionStatus {
    /// Its handle.
    pub handle: String,
    /// Registered partitions.
    pub graphs: usize,
    /// Bytes in constants of these, each counted once.
    #[serde(default)]
    pub constant_bytes: u64,
    /// Seconds since it was created.
    pub age_seconds: f64,
    /// Seconds since it was last used.
    pub idle_seconds: f64,
    /// The master's task, if it said so.
    pub master: String,
    /// How long ago it was noticed that the master is gone, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orphaned_seconds: Option<f64>,
}

/// A step on a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepStatus {
    /// Its number.
    pub step_id: i64,
    /// The session it belongs to, if it has begun here.
    pub session: String,
    /// Seconds since the task first heard of it.
    pub age_seconds: f64,
    /// How far it is.
    pub state: String,
    /// What it waits for.
    pub waiting_for: Vec<String>,
}

/// A round of a synchronous training, as accumulators of a task see it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundStatus {
    /// The global step that its gradients are computed at.
    pub step: i64,
    /// Gradients that have come.
    pub count: usize,
    /// Gradients that the chief waits for; nothing if nobody waits.
    pub required: Option<usize>,
    /// Workers whose gradients have come.
    pub given: Vec<String>,
    /// Workers that have given to an earlier round and not to this one.
    pub missing: Vec<String>,
    /// Who took the last round: the chief.
    pub taker: Option<String>,
    /// Seconds for which nothing has changed.
    pub quiet_seconds: f64,
    /// How many accumulators stand like this.
    pub accumulators: usize,
}

/// Counts since the start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Steps that this task's master has driven.
    pub steps: u64,
    /// Of these, how many failed.
    pub failed_steps: u64,
    /// Bytes sent to other tasks in calls this task made.
    pub bytes_sent: u64,
    /// Bytes received in answers to calls this task made.
    pub bytes_received: u64,
}

/// Bytes of this process in memory, where the system tells.
pub(crate) fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    // Linux reports pages, which are of 4 KiB wherever this matters.
    pages.unwrap_or(0) * 4096
}
