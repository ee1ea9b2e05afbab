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
mod task_watch;
mod worker;

use std::path::Path;

use tensorfleet::{Result, Status};
use tensorfleet_datasets::mnist;

pub(crate) use arguments::{TRAIN_HELP, TrainArguments};

use arguments::TrainCommand;

use crate::Failure;
use crate::serve::{self, ServeArguments};
use crate::terminal;

pub(crate) fn run(arguments: TrainArguments) -> Result<(), Failure> {
    let arguments = match arguments.what {
        TrainCommand::Mnist(arguments) => *arguments,
        TrainCommand::Other(words) => {
            let name = words.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            return Err(Failure::Usage(Status::invalid_argument(format!(
                "there is no '{name}' here, only mnist: 'tensorfleet launch -- PROGRAM' runs a training program of your own"
            ))));
        }
    };
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
        "worker" => worker::run(&arguments, &cluster, &task).map_err(in_one_line),
        other => Err(Failure::Usage(Status::invalid_argument(format!(
            "--job_name is '{other}', but this training has parameter servers and workers: use ps or worker"
        )))),
    }
}

/// Errors of a step name the task and the node they come from in lines of their own; the launcher and people want the sentence.
fn in_one_line(failure: Failure) -> Failure {
    let Failure::Error(status) = failure else { return failure };
    let lines = status.text().lines().map(str::trim);
    let is_origin = |line: &str| line.starts_with("From /job:") || line.starts_with("[[");
    let sentence: Vec<&str> = lines.filter(|line| !line.is_empty() && !is_origin(line)).collect();
    match sentence.is_empty() {
        true => Failure::Error(status),
        false => Failure::Error(Status::new(status.code(), sentence.join(" "))),
    }
}

fn download(data_dir: Option<&Path>) -> Result<(), Failure> {
    let dir = data_dir.ok_or_else(|| {
        Failure::Usage(Status::invalid_argument("--download_only needs to know where to: add --data_dir=DIR"))
    })?;
    mnist::download(dir)?;
    terminal::print(&format!("The four files of MNIST are in {}\n", dir.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_steps_become_sentences() {
        let of = |text: &str| match in_one_line(Failure::Error(Status::internal(text))) {
            Failure::Error(status) => status.text().to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(of("plain"), "plain");
        assert_eq!(
            of("From /job:worker/replica:0/task:0:\nthe disk\nis full\n\t [[{{node save}}]]"),
            "the disk is full"
        );
        assert_eq!(of("From /job:worker/task:0:\n"), "From /job:worker/task:0:\n");
    }
}
