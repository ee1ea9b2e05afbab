//! `tensorfleet train`: trainings that need no program of the user's.
//!
//! `train mnist` is three programs in one. Without a cluster in its arguments it is the launcher ([`launcher`]): it starts
//! itself as the tasks of a cluster on this machine, shows their progress and tells the result. With one it is a task:
//! a parameter server, or a worker ([`worker`]), on whatever machines the cluster names.

mod arguments;
mod digits_model;
mod evaluation;
mod invocation;
mod launcher;
mod log_dir;
mod progress;
mod progress_display;
mod report;
mod result_text;
mod sparkline;
mod worker;

use std::path::Path;

use tensorfleet::{Result, Status};
use tensorfleet_datasets::mnist;

pub(crate) use arguments::{TRAIN_HELP, TrainArguments};

use arguments::TrainCommand;

use crate::Failure;
use crate::arguments::ServeArguments;
use crate::serve;

pub(crate) fn run(arguments: TrainArguments) -> Result<(), Failure> {
    let TrainCommand::Mnist(arguments) = arguments.what;
    arguments.check().map_err(Failure::Usage)?;
    if arguments.download_only {
        return download(arguments.data_dir.as_deref());
    }
    if !arguments.is_task() {
        return launcher::run(&arguments);
    }
    let (cluster, task) = arguments.task.resolve().map_err(Failure::Usage)?;
    for job in ["ps", "worker"] {
        if !cluster.has_job(job) {
            return Err(Failure::Usage(Status::invalid_argument(format!(
                "the cluster has no job '{job}': name its tasks with --{job}_hosts"
            ))));
        }
    }
    match task.job.as_str() {
        "ps" => {
            let task = arguments.task.clone();
            serve::run(ServeArguments { task, bind: arguments.bind, ..ServeArguments::default() })
        }
        "worker" => worker::run(&arguments, &cluster, &task),
        other => Err(Failure::Usage(Status::invalid_argument(format!(
            "--job_name is '{other}', but this training has parameter servers and workers: use ps or worker"
        )))),
    }
}

fn download(data_dir: Option<&Path>) -> Result<(), Failure> {
    let dir = data_dir.ok_or_else(|| {
        Failure::Usage(Status::invalid_argument("--download_only needs to know where to: add --data_dir=DIR"))
    })?;
    mnist::download(dir)?;
    println!("The four files of MNIST are in {}", dir.display());
    Ok(())
}
