//! `tensorfleet stop`: ends the tasks of a cluster.

use std::time::Duration;

use clap::Args;
use tensorfleet_cluster::{Finding, TaskState, address, request_stop, survey};
use tensorfleet_core::{Result, Status};

use crate::Failure;
use crate::status::unreachable;
use crate::terminal;

pub(crate) const HELP: &str = "\
Every task of ours in the cluster lets running steps finish for a few seconds and exits with code 0. If one that may still run \
cannot be told to end, the others are, and the exit code is 1.

Examples:
  tensorfleet stop grpc://localhost:2222
  tensorfleet stop localhost:2223 --only";

/// What `stop` is told.
#[derive(Args, Debug)]
pub(crate) struct StopArguments {
    /// Any task of the cluster: grpc://HOST:PORT, or HOST:PORT.
    pub(crate) target: String,
    /// Only the named task, not the others of its cluster.
    #[arg(long)]
    pub(crate) only: bool,
}

/// How long each task may take to answer.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) fn run(arguments: &StopArguments) -> Result<(), Failure> {
    let named = address::from_target(&arguments.target).map_err(Failure::Usage)?;
    if arguments.only {
        request_stop(&named, STOP_TIMEOUT).map_err(unreachable)?;
        terminal::print(&format!("{named} ends\n"));
        return Ok(());
    }
    let findings = survey(&arguments.target, STOP_TIMEOUT).map_err(unreachable)?;
    // A task that cannot be ended must not keep the others running.
    let failures: Vec<Status> = findings.iter().filter_map(|finding| stop(finding).err()).collect();
    failures.iter().for_each(|status| terminal::tell(&format!("error: {}", status.text())));
    match failures.is_empty() {
        true => Ok(()),
        false => Err(Failure::Exit(1)),
    }
}

fn stop(finding: &Finding) -> Result<()> {
    let task =
        finding.task.as_deref().map_or("the server".to_string(), |task| task.replace("/replica:0", ""));
    let address = &finding.address;
    let outcome = match finding.state {
        TaskState::Up | TaskState::Differs => {
            request_stop(address, STOP_TIMEOUT).map_err(|status| {
                let text = status.text();
                Status::new(
                    status.code(),
                    format!("{task} at {address} could not be told to end: {text}; try again"),
                )
            })?;
            "ends"
        }
        TaskState::TensorFlow => "is a TensorFlow server, which can only be ended with its process",
        TaskState::Another => "is left alone: another task answers there",
        TaskState::Refused => "does not run",
        // Frozen, cut off or busy: whoever is told that it does not run would not look for its process.
        TaskState::Silent => {
            return Err(Status::unavailable(format!(
                "{task} at {address} does not answer; it may still run: look for its process, or try again"
            )));
        }
        TaskState::Unresolved | TaskState::Failed => {
            let why = finding.error.as_deref().unwrap_or("it does not answer");
            return Err(Status::unavailable(format!(
                "{task} at {address} could not be told to end and may still run: {why}"
            )));
        }
    };
    terminal::print(&format!("{task} at {address} {outcome}\n"));
    Ok(())
}
