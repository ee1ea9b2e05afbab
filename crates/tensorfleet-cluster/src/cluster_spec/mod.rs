//! [`ClusterSpec`]: which tasks a cluster has, and where they listen.
//!
//! Every task of a cluster and every client that places nodes has the same specification. It is checked as a whole
//! when it is made, so that whoever holds one may rely on it; errors name the entry they are about. Jobs are kept in
//! the order of their names and tasks in the order of their indices, whatever order they came in.

mod text;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use tensorfleet_core::{Result, Status, ensure, excerpt};
use tensorfleet_proto::tensorflow::{ClusterDef, JobDef};

use crate::address;

pub use text::TfConfig;

/// Largest task index. A dense listing ([`ClusterSpec::job_tasks`]) has an entry for every index below the largest, so
/// a stranger's index must not choose how much memory that takes. No job has a million tasks.
const MAX_TASK_INDEX: u32 = 999_999;

/// The tasks of a cluster, grouped in jobs, with their addresses.
///
/// ```
/// use tensorfleet_cluster::ClusterSpec;
///
/// let cluster = ClusterSpec::new([("ps", vec!["ps0:2222"]), ("worker", vec!["w0:2222", "w1:2222"])])?;
/// assert_eq!(cluster.address("worker", 1)?, "w1:2222");
/// assert_eq!(cluster.jobs().collect::<Vec<_>>(), ["ps", "worker"]);
/// assert_eq!(cluster, ClusterSpec::from_hosts("ps0:2222", "w0:2222,w1:2222")?);
/// # Ok::<(), tensorfleet_core::Status>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ClusterSpec {
    /// At least one job, and in each at least one task.
    jobs: BTreeMap<String, BTreeMap<u32, String>>,
}

/// A task's name: its job and its index there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskId {
    /// The job, e.g. `worker`.
    pub job: String,
    /// The index in the job.
    pub index: u32,
}

impl TaskId {
    /// The task with this index in this job.
    pub fn new(job: impl Into<String>, index: u32) -> TaskId {
        TaskId { job: job.into(), index }
    }

    /// The name as device names have it: `/job:worker/replica:0/task:1`.
    pub fn full_name(&self) -> String {
        format!("/job:{}/replica:0/task:{}", self.job, self.index)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/job:{}/task:{}", self.job, self.index)
    }
}

/// How to make one.
impl ClusterSpec {
    /// A cluster from each job's addresses in the order of the tasks.
    ///
    /// The port 0 means that a task listens on any free port when it starts. As others could not know it, only a
    /// cluster of one task may have it.
    pub fn new<J, A>(jobs: impl IntoIterator<Item = (J, A)>) -> Result<ClusterSpec>
    where
        J: Into<String>,
        A: IntoIterator<Item: Into<String>>,
    {
        ClusterSpec::sparse(jobs.into_iter().map(|(job, addresses)| (job, (0..).zip(addresses))))
    }

    /// A cluster from each job's indices and addresses; indices may have gaps. A task that knows only some others is
    /// given such a specification.
    pub fn sparse<J, A, T>(jobs: impl IntoIterator<Item = (J, T)>) -> Result<ClusterSpec>
    where
        J: Into<String>,
        A: Into<String>,
        T: IntoIterator<Item = (u32, A)>,
    {
        let mut draft = Draft::default();
        for (job, tasks) in jobs {
            let job = draft.add_job(job.into())?;
            for (index, address) in tasks {
                draft.add_task(&job, i64::from(index), address.into())?;
            }
        }
        draft.finish()
    }

    /// A cluster of jobs `ps` and `worker` from their addresses, separated by commas, as the flags `--ps_hosts` and
    /// `--worker_hosts` have them. A job without addresses is left out.
    pub fn from_hosts(ps_hosts: &str, worker_hosts: &str) -> Result<ClusterSpec> {
        let mut draft = Draft::default();
        for (job, hosts) in [("ps", ps_hosts), ("worker", worker_hosts)] {
            if hosts.trim().is_empty() {
                continue;
            }
            let job = draft.add_job(job.to_string())?;
            for (index, address) in (0..).zip(hosts.split(',')) {
                draft.add_task(&job, index, address.trim().to_string())?;
            }
        }
        draft.finish()
    }

    /// A cluster from its wire form.
    pub fn from_cluster_def(def: &ClusterDef) -> Result<ClusterSpec> {
        let mut draft = Draft::default();
        for JobDef { name, tasks } in &def.job {
            let job = draft.add_job(name.clone())?;
            for (&index, address) in tasks {
                draft.add_task(&job, i64::from(index), address.clone())?;
            }
        }
        draft.finish()
    }

    /// This cluster with another address for one of its tasks: what became of port 0.
    pub fn with_address(&self, job: &str, index: u32, address: &str) -> Result<ClusterSpec> {
        self.address(job, index)?;
        let mut jobs = self.jobs.clone();
        jobs.entry(job.to_string()).or_default().insert(index, address.to_string());
        ClusterSpec::sparse(jobs)
    }
}

/// What one can ask.
impl ClusterSpec {
    /// The names of the jobs, sorted.
    pub fn jobs(&self) -> impl Iterator<Item = &str> {
        self.jobs.keys().map(String::as_str)
    }

    /// Whether there is such a job.
    pub fn has_job(&self, job: &str) -> bool {
        self.jobs.contains_key(job)
    }

    /// The indices of a job's tasks, ascending.
    pub fn task_indices(&self, job: &str) -> Result<Vec<u32>> {
        Ok(self.job(job)?.keys().copied().collect())
    }

    /// The number of tasks that a job has an address for.
    pub fn num_tasks(&self, job: &str) -> Result<usize> {
        Ok(self.job(job)?.len())
    }

    /// The addresses of a job by index, with `None` where an index has no task.
    pub fn job_tasks(&self, job: &str) -> Result<Vec<Option<&str>>> {
        let tasks = self.job(job)?;
        let end = tasks.last_key_value().map_or(0, |(&last, _)| last + 1);
        Ok((0..end).map(|index| tasks.get(&index).map(String::as_str)).collect())
    }

    /// The address of a task.
    pub fn address(&self, job: &str, index: u32) -> Result<&str> {
        let tasks = self.job(job)?;
        tasks.get(&index).map(String::as_str).ok_or_else(|| {
            let known: Vec<u32> = tasks.keys().copied().collect();
            Status::not_found(format!(
                "No task with index {index} in job '{job}': its indices are {}",
                listed(&known)
            ))
        })
    }

    /// All tasks with their addresses, by job, then by index.
    pub fn tasks(&self) -> impl Iterator<Item = (&str, u32, &str)> {
        let tasks_of = |(job, tasks)| {
            let tasks: &BTreeMap<u32, String> = tasks;
            let job: &String = job;
            tasks.iter().map(move |(&index, address)| (job.as_str(), index, address.as_str()))
        };
        self.jobs.iter().flat_map(tasks_of)
    }

    /// The number of tasks of all jobs.
    pub fn len(&self) -> usize {
        self.jobs.values().map(BTreeMap::len).sum()
    }

    /// Always false: a cluster has at least one task.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// All tasks as job → index → address.
    pub fn as_map(&self) -> &BTreeMap<String, BTreeMap<u32, String>> {
        &self.jobs
    }

    /// The wire form, with jobs and tasks in order.
    pub fn as_cluster_def(&self) -> ClusterDef {
        let job = self.jobs.iter().map(|(name, tasks)| JobDef {
            name: name.clone(),
            tasks: tasks.iter().map(|(&index, address)| (index as i32, address.clone())).collect(),
        });
        ClusterDef { job: job.collect() }
    }

    /// The canonical text: JSON without spaces, jobs and indices in order, a list where the indices of a job have no
    /// gaps and an object from index to address where they do.
    pub fn as_json(&self) -> String {
        // Serialising maps with text keys into memory cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// A hash of the canonical text, the same in every process and version (64-bit FNV-1a): tasks compare it to learn
    /// whether they were started with the same specification.
    pub fn fingerprint(&self) -> u64 {
        const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let text = self.as_json();
        text.bytes().fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
    }

    /// The first entry in which another specification differs from this one, in words.
    pub fn differences(&self, there: &ClusterSpec) -> Option<String> {
        let find = |spec: &ClusterSpec, job: &str, index| {
            spec.jobs.get(job).and_then(|tasks| tasks.get(&index)).cloned()
        };
        let mut tasks: Vec<(&str, u32)> =
            self.tasks().chain(there.tasks()).map(|(job, index, _)| (job, index)).collect();
        tasks.sort_unstable();
        tasks.into_iter().find_map(|(job, index)| {
            let task = TaskId::new(job, index);
            match (find(self, job, index), find(there, job, index)) {
                (Some(here), Some(there)) if here != there => {
                    Some(format!("{task} is '{here}' here and '{there}' there"))
                }
                (Some(here), None) => Some(format!("{task} is '{here}' here and missing there")),
                (None, Some(there)) => Some(format!("{task} is missing here and '{there}' there")),
                _ => None,
            }
        })
    }

    fn job(&self, job: &str) -> Result<&BTreeMap<u32, String>> {
        self.jobs.get(job).ok_or_else(|| {
            let known: Vec<String> = self.jobs().map(|job| format!("'{job}'")).collect();
            Status::not_found(format!("No such job in cluster: '{job}'; it has {}", listed(&known)))
        })
    }
}

/// The first few of a list, and how many there are if there are more.
fn listed<T: ToString>(items: &[T]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = items.iter().take(SHOWN).map(T::to_string).collect();
    let rest = if items.len() > SHOWN { format!(", … ({} in all)", items.len()) } else { String::new() };
    shown.join(", ") + &rest
}

/// A specification while it is being checked.
#[derive(Default)]
pub(crate) struct Draft {
    jobs: BTreeMap<String, BTreeMap<u32, String>>,
    /// The task at each address.
    owners: HashMap<(String, u16), TaskId>,
}

impl Draft {
    /// Adds a job and gives its name back for adding tasks.
    pub(crate) fn add_job(&mut self, job: String) -> Result<String> {
        let mut bytes = job.bytes();
        let well_formed = bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        ensure!(
            well_formed,
            InvalidArgument,
            "malformed job name '{}' in the cluster specification: expected a letter, then letters, digits or '_'",
            excerpt(&job)
        );
        ensure!(
            !self.jobs.contains_key(&job),
            InvalidArgument,
            "the cluster specification has job '{job}' twice"
        );
        self.jobs.insert(job.clone(), BTreeMap::new());
        Ok(job)
    }

    pub(crate) fn add_task(&mut self, job: &str, index: i64, address: String) -> Result<()> {
        ensure!(
            (0..=i64::from(MAX_TASK_INDEX)).contains(&index),
            InvalidArgument,
            "task index {index} of job '{job}' in the cluster specification is not in 0..={MAX_TASK_INDEX}"
        );
        let task = TaskId::new(job, index as u32);
        let (host, port) = address::split(&address)
            .map_err(|status| Status::invalid_argument(format!("{task}: {}", status.text())))?;
        let here = address::normalised(host, port);
        if let Some(other) = self.owners.insert(here, task.clone()) {
            return Err(Status::invalid_argument(match other == task {
                true => format!("the cluster specification has {task} twice"),
                false => {
                    format!("{other} and {task} have the same address '{address}': each task needs its own")
                }
            }));
        }
        let tasks = self.jobs.entry(job.to_string()).or_default();
        let twice = tasks.insert(task.index, address::without_blanks(&address)).is_some();
        ensure!(!twice, InvalidArgument, "the cluster specification has {task} twice");
        Ok(())
    }

    /// The specification. A job without tasks, which TensorFlow allows, is left out: nobody can ask it for anything.
    pub(crate) fn finish(mut self) -> Result<ClusterSpec> {
        self.jobs.retain(|_, tasks| !tasks.is_empty());
        ensure!(
            !self.jobs.is_empty(),
            InvalidArgument,
            "the cluster specification is empty: name at least one job with one address"
        );
        let on_any_port = self.owners.iter().find(|((_, port), _)| *port == 0);
        if let (Some((_, task)), true) = (on_any_port, self.owners.len() > 1) {
            return Err(Status::invalid_argument(format!(
                "{task} has port 0, a free port that the other tasks could not know: give it a port from 1 to 65535"
            )));
        }
        Ok(ClusterSpec { jobs: self.jobs })
    }
}

impl Serialize for ClusterSpec {
    /// As in [`ClusterSpec::as_json`].
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Tasks<'a> {
            Dense(Vec<&'a String>),
            Sparse(&'a BTreeMap<u32, String>),
        }
        serializer.collect_map(self.jobs.iter().map(|(job, tasks)| {
            let dense = (0..).zip(tasks.keys()).all(|(position, &index): (u32, _)| position == index);
            let tasks = if dense { Tasks::Dense(tasks.values().collect()) } else { Tasks::Sparse(tasks) };
            (job, tasks)
        }))
    }
}

impl fmt::Display for ClusterSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.as_json())
    }
}

impl fmt::Debug for ClusterSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterSpec({self})")
    }
}

#[cfg(test)]
mod tests;
