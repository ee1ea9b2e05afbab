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
    /// Signatures planned.
    pub plans: usize,
    /// Steps under way.
    pub running_steps: usize,
    /// The client's address.
    pub client: String,
}

/// A master session's share in a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerSessionStatus {
    /// Its handle.
    pub handle: String,
    /// Registered partitions.
    pub graphs: usize,
    /// Seconds since it was created.
    pub age_seconds: f64,
    /// Seconds since it was last used.
    pub idle_seconds: f64,
    /// The master's task, if it said so.
    pub master: String,
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
