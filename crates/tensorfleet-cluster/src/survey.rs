//! A survey of a cluster from outside: one task is asked, then all others it knows, at the same time.
//!
//! Every task gets the same short time, so that a cluster with dead tasks is surveyed as quickly as a healthy one. A
//! stock TensorFlow server does not know the status method; it is asked for its devices instead.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use serde::Serialize;
use tensorfleet_core::{Code, Result, Status, Unreachable, clock};
use tensorfleet_proto::tensorflow::{GetStatusRequest, GetStatusResponse};
use tensorfleet_rpc::{CallOptions, Channel, ChannelOptions, Parts};

use crate::cluster_spec::TaskId;
use crate::status::TaskStatus;
use crate::wire::fleet_messages::{SHUTDOWN_METHOD, STATUS_METHOD};
use crate::{address, io};

/// What a survey found at one address.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The task that the cluster has at this address; unknown for a stock TensorFlow server that was asked first.
    pub task: Option<String>,
    /// The address.
    pub address: String,
    /// How the task is.
    pub state: TaskState,
    /// What the task says, if it is one of ours.
    pub status: Option<TaskStatus>,
    /// Its devices, as far as known.
    pub devices: Vec<String>,
    /// Why there is no answer.
    pub error: Option<String>,
}

/// How a task is, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// It answers.
    Up,
    /// It answers, but is a stock TensorFlow server, which tells only its devices.
    TensorFlow,
    /// Another task answers at its address.
    Another,
    /// It answers, but was started with another cluster specification.
    Differs,
    /// Nothing listens there.
    Refused,
    /// Its name does not resolve.
    Unresolved,
    /// No answer in time.
    Silent,
    /// Something else is wrong; the error says what.
    Failed,
}

/// Asks the server at `target`, then all other tasks of its cluster. Each gets `timeout`. An error means that the
/// first one did not answer.
pub fn survey(target: &str, timeout: Duration) -> Result<Vec<Finding>> {
    let address = address::from_target(target)?;
    io::block_on(async {
        let first = ask(&address, timeout).await?;
        let Answer::Ours(status) = first else { return Ok(vec![finding(None, &address, Ok(first))]) };
        let others: Vec<(TaskId, String)> = status
            .cluster
            .tasks()
            .map(|(job, index, address)| (TaskId::new(job, index), address.to_string()))
            .collect();
        let asked = others.into_iter().map(|(task, address)| {
            let status = &status;
            async move {
                // The task that was asked first may be known by another name from outside.
                let answer = match task.full_name() == status.task {
                    true => Ok(Answer::Ours(status.clone())),
                    false => ask(&address, timeout).await,
                };
                let mut finding = finding(Some(&task), &address, answer);
                let differs =
                    finding.status.as_ref().and_then(|found| status.cluster.differences(&found.cluster));
                if let (Some(difference), TaskState::Up) = (differs, finding.state) {
                    finding.state = TaskState::Differs;
                    finding.error = Some(format!("seen from {}: {difference}", status.task));
                }
                finding
            }
        });
        Ok(join_all(asked).await)
    })
}

/// Asks the server at `address` to end: running calls may finish, then its process exits. A stock TensorFlow server does not
/// know how to.
pub fn request_stop(address: &str, timeout: Duration) -> Result<()> {
    let options = ChannelOptions { connect_timeout: timeout, ..ChannelOptions::default() };
    let channel = Channel::new(address, options)?;
    let options = CallOptions { deadline: clock::deadline_in(timeout), ..CallOptions::default() };
    io::block_on(channel.call(SHUTDOWN_METHOD, Parts::empty(), options)).map(|_| ())
}

enum Answer {
    Ours(Box<TaskStatus>),
    /// Names of a stock server's devices.
    Devices(Vec<String>),
}

async fn ask(address: &str, timeout: Duration) -> Result<Answer> {
    let channel =
        Channel::new(address, ChannelOptions { connect_timeout: timeout, ..ChannelOptions::default() })?;
    let options = CallOptions { deadline: clock::deadline_in(timeout), ..CallOptions::default() };
    match channel.call(STATUS_METHOD, Parts::empty(), options).await {
        Ok(response) => {
            let document: Bytes = response.message.decode()?;
            let status = serde_json::from_slice(&document).map_err(|error| {
                Status::internal(format!(
                    "{address} answers with a status that cannot be read, perhaps of another version: {error}"
                ))
            })?;
            Ok(Answer::Ours(Box::new(status)))
        }
        Err(status) if status.code() == Code::Unimplemented => {
            let request = Parts::from_message(&GetStatusRequest {});
            let response = channel.call("/tensorflow.WorkerService/GetStatus", request, options).await?;
            let response: GetStatusResponse = response.message.decode()?;
            Ok(Answer::Devices(response.device_attributes.into_iter().map(|device| device.name).collect()))
        }
        Err(status) => Err(status),
    }
}

fn finding(task: Option<&TaskId>, address: &str, answer: Result<Answer>) -> Finding {
    let task = task.map(TaskId::full_name);
    let mut finding = Finding {
        task: task.clone(),
        address: address.to_string(),
        state: TaskState::Up,
        status: None,
        devices: Vec::new(),
        error: None,
    };
    match answer {
        Ok(Answer::Ours(status)) => {
            if task.is_some_and(|task| task != status.task) {
                finding.state = TaskState::Another;
                finding.error = Some(format!("{} answers at its address", status.task));
            }
            finding.devices = status.devices.clone();
            finding.status = Some(*status);
        }
        Ok(Answer::Devices(devices)) => {
            finding.state = TaskState::TensorFlow;
            finding.devices = devices;
        }
        Err(status) => {
            finding.state = state_of(&status);
            finding.error = Some(status.text().to_string());
        }
    }
    finding
}

fn state_of(status: &Status) -> TaskState {
    match (status.unreachable(), status.code()) {
        (Some(Unreachable::Refused), _) => TaskState::Refused,
        (Some(Unreachable::Unresolved), _) => TaskState::Unresolved,
        (Some(Unreachable::Silent), _) | (None, Code::DeadlineExceeded) => TaskState::Silent,
        _ => TaskState::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClusterSpec, Server, ServerOptions};

    const TIMEOUT: Duration = Duration::from_secs(2);

    #[test]
    fn a_server_that_is_not_there_is_an_error_with_its_address() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let status = survey(&format!("grpc://127.0.0.1:{port}"), TIMEOUT).unwrap_err();
        assert!(status.text().contains(&port.to_string()) && status.text().contains("refused"), "{status}");
        assert!(survey("http://x:1", TIMEOUT).is_err());
    }

    #[test]
    fn every_task_of_the_cluster_is_found_in_its_state() {
        let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        // One that is up, one that is gone, one that accepts and says nothing.
        let (up, gone, silent) = (free(), free(), free());
        let port = |listener: &std::net::TcpListener| listener.local_addr().unwrap().port();
        let hosts = [&up, &gone, &silent].map(|listener| format!("127.0.0.1:{}", port(listener)));
        let cluster = ClusterSpec::new([("worker", hosts.clone())]).unwrap();
        drop((up, gone));
        let options = ServerOptions::new(cluster, "worker", 0);
        let server = Server::start(ServerOptions { bind: Some("127.0.0.1".into()), ..options }).unwrap();
        let findings = survey(&server.target(), TIMEOUT).unwrap();
        let states: Vec<TaskState> = findings.iter().map(|finding| finding.state).collect();
        assert_eq!(states, [TaskState::Up, TaskState::Refused, TaskState::Silent]);
        assert_eq!(findings[0].devices, ["/job:worker/replica:0/task:0/device:CPU:0"]);
        assert_eq!(findings[1].task.as_deref(), Some("/job:worker/replica:0/task:1"));
        assert!(findings[2].error.as_deref().is_some_and(|error| error.contains(&hosts[2])));
        server.stop(Duration::ZERO).unwrap();
    }
}
