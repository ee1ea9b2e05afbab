//! `tensorfleet stop`: ends the tasks of a cluster.

use std::time::Duration;

use tensorfleet_cluster::{TaskState, address, request_stop, survey};
use tensorfleet_core::Result;

use crate::Failure;
use crate::arguments::StopArguments;

/// How long each task may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn run(arguments: &StopArguments) -> Result<(), Failure> {
    let named = address::from_target(&arguments.target).map_err(Failure::Usage)?;
    if arguments.only {
        request_stop(named, PATIENCE)?;
        println!("{named} ends");
        return Ok(());
    }
    for finding in survey(&arguments.target, PATIENCE)? {
        let task = finding.task.as_deref().unwrap_or("the server");
        let address = &finding.address;
        match finding.state {
            TaskState::Up | TaskState::Differs => {
                request_stop(address, PATIENCE)?;
                println!("{task} at {address} ends");
            }
            TaskState::TensorFlow => {
                println!("{task} at {address} is a TensorFlow server, which has no way to end")
            }
            TaskState::Another => println!("{task} at {address} is left alone: another task answers there"),
            _ => println!("{task} at {address} does not run"),
        }
    }
    Ok(())
}
