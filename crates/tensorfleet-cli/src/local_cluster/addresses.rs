//! Where the tasks of a local cluster listen, and how a task is told: by flags and by `TF_CONFIG`.

use std::net::TcpListener;

use serde_json::json;
use tensorfleet::{Result, Status, TaskId};

/// The addresses of all tasks, parameter servers first.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    ps: Vec<String>,
    workers: Vec<String>,
}

/// How ports are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ports {
    /// Free ones of the system's choice.
    Free,
    /// This one and those that follow, parameter servers first.
    From(u16),
}

impl Addresses {
    /// Addresses on `host` that are free now. Between this look and the task's start another program may take one; the
    /// task says so then, and whoever started it can only try again.
    pub(crate) fn choose(host: &str, ports: Ports, ps: usize, workers: usize) -> Result<Addresses> {
        // All are held until all are chosen, so that no port comes twice.
        let mut held = Vec::new();
        let mut ps_addresses = Vec::new();
        for (index, task) in tasks(ps, workers).iter().enumerate() {
            let port = match ports {
                Ports::Free => 0,
                Ports::From(first) => {
                    let number = u16::try_from(index).ok().and_then(|index| first.checked_add(index));
                    number.ok_or_else(|| {
                        Status::invalid_argument(format!(
                            "there is no port for {}: {} tasks from port {first} on go beyond 65535; choose a lower --port",
                            short_name(task),
                            ps + workers
                        ))
                    })?
                }
            };
            let listener =
                TcpListener::bind((host, port)).map_err(|error| unusable(host, port, task, &error))?;
            let port = listener.local_addr().map_err(|error| unusable(host, port, task, &error))?.port();
            held.push(listener);
            let shown_host = if host.contains(':') { format!("[{host}]") } else { host.to_string() };
            ps_addresses.push(format!("{shown_host}:{port}"));
        }
        let workers = ps_addresses.split_off(ps);
        Ok(Addresses { ps: ps_addresses, workers })
    }

    /// All tasks, parameter servers first.
    pub(crate) fn tasks(&self) -> Vec<TaskId> {
        tasks(self.ps.len(), self.workers.len())
    }

    /// The tasks with their addresses, in the order of [`Addresses::tasks`].
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TaskId, &str)> {
        self.tasks().into_iter().zip(self.ps.iter().chain(&self.workers).map(String::as_str))
    }

    /// The flags that tell a program of TensorFlow's tutorials its cluster and its task. Without parameter servers their
    /// list is empty but there: the program's own default would name other machines.
    pub(crate) fn flags(&self, task: &TaskId) -> [String; 4] {
        [
            format!("--ps_hosts={}", self.ps.join(",")),
            format!("--worker_hosts={}", self.workers.join(",")),
            format!("--job_name={}", task.job),
            format!("--task_index={}", task.index),
        ]
    }

    /// The same as the value of the environment variable `TF_CONFIG`.
    pub(crate) fn tf_config(&self, task: &TaskId) -> String {
        let mut cluster = serde_json::Map::new();
        for (job, addresses) in [("ps", &self.ps), ("worker", &self.workers)] {
            if !addresses.is_empty() {
                cluster.insert(job.to_string(), json!(addresses));
            }
        }
        json!({ "cluster": cluster, "task": { "type": task.job, "index": task.index } }).to_string()
    }
}

/// `worker/0`: short enough to stand before every line.
pub(crate) fn short_name(task: &TaskId) -> String {
    format!("{}/{}", task.job, task.index)
}

fn tasks(ps: usize, workers: usize) -> Vec<TaskId> {
    // Counts are bounded by the arguments, far below the range of an index.
    let of_job =
        |job: &'static str, count: usize| (0..count).map(move |index| TaskId::new(job, index as u32));
    of_job("ps", ps).chain(of_job("worker", workers)).collect()
}

fn unusable(host: &str, port: u16, task: &TaskId, error: &std::io::Error) -> Status {
    let task = short_name(task);
    match error.kind() {
        std::io::ErrorKind::AddrInUse => Status::already_exists(format!(
            "port {port} for {task} is in use: choose another --port, or leave it out to have free ports chosen"
        )),
        std::io::ErrorKind::PermissionDenied => Status::failed_precondition(format!(
            "port {port} for {task} is reserved for the system: choose a --port from 1024 on"
        )),
        _ => Status::invalid_argument(format!(
            "{task} cannot listen on '{host}' ({error}): --host must be a name or an address of this machine"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet::TfConfig;

    #[test]
    fn flags_and_environment_tell_the_same() {
        let addresses = Addresses::choose("127.0.0.1", Ports::Free, 1, 2).unwrap();
        let task = TaskId::new("worker", 1);
        let config = TfConfig::parse(&addresses.tf_config(&task)).unwrap();
        assert_eq!(config.task, Some(task.clone()));
        let [ps, workers, job, index] = addresses.flags(&task);
        assert_eq!(ps, format!("--ps_hosts={}", config.cluster.address("ps", 0).unwrap()));
        assert_eq!(workers.split(',').count(), 2);
        assert_eq!([job, index], ["--job_name=worker", "--task_index=1"]);
    }

    #[test]
    fn without_parameter_servers_the_environment_has_no_such_job() {
        let addresses = Addresses::choose("127.0.0.1", Ports::Free, 0, 1).unwrap();
        let [ps, ..] = addresses.flags(&TaskId::new("worker", 0));
        assert_eq!(ps, "--ps_hosts=");
        assert!(!addresses.tf_config(&TaskId::new("worker", 0)).contains("ps"));
    }

    #[test]
    fn ports_that_are_taken_or_do_not_exist_are_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let text =
            |host, port| Addresses::choose(host, Ports::From(port), 0, 2).unwrap_err().text().to_string();
        assert!(text("127.0.0.1", port).contains(&format!("port {port} for worker/0 is in use")));
        assert!(text("127.0.0.1", 65535).contains("65535"), "{}", text("127.0.0.1", 65535));
        assert!(text("192.0.2.1", 0).contains("--host"), "{}", text("192.0.2.1", 0));
    }
}
