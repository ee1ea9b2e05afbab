//! What the command line accepts, and the help that teaches it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use tensorfleet::flags::TaskFlags;

use crate::bench::{self, BenchArguments};
use crate::checkpoint::{self, CheckpointArguments};
use crate::completions::{self, CompletionsArguments};
use crate::graph::{self, GraphArguments};
use crate::launch::{LAUNCH_HELP, LaunchArguments};
use crate::train::{TRAIN_HELP, TrainArguments};

/// Distributed TensorFlow in one program: train on clusters, run them, look at them and at what they leave behind.
#[derive(Parser, Debug)]
#[command(name = "tensorfleet", version, arg_required_else_help = true, after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Say more: once for what changes, twice for why (RUST_LOG says it in detail).
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
First steps:
  A cluster trains before your eyes:
    tensorfleet train mnist
  A parameter server and a worker, each in its own shell:
    tensorfleet serve --ps_hosts=localhost:2222 --worker_hosts=localhost:2223 --job_name=ps --task_index=0
    tensorfleet serve --ps_hosts=localhost:2222 --worker_hosts=localhost:2223 --job_name=worker --task_index=0
  What they are doing, and their end:
    tensorfleet status localhost:2222 --watch
    tensorfleet stop localhost:2222
  What a training has saved, and its graph as a picture:
    tensorfleet checkpoint show logs
    tensorfleet graph logs --svg graph.svg
  What this machine can do:
    tensorfleet bench

Every command has examples in its --help.

Exit codes: 0 done, 1 an error, 2 a mistake in the arguments, 128 and a signal's number if it ended a run (130 is Ctrl-C).";

/// What to do.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Train a model on a cluster of processes on this machine, and watch it.
    #[command(after_help = TRAIN_HELP)]
    Train(TrainArguments),
    /// Run any training program as a cluster on this machine.
    #[command(after_help = LAUNCH_HELP)]
    Launch(LaunchArguments),
    /// Run one task of a cluster.
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArguments),
    /// Show the tasks of a cluster, their devices, and what running steps wait for.
    #[command(after_help = STATUS_HELP)]
    Status(StatusArguments),
    /// End all tasks of a cluster.
    #[command(after_help = STOP_HELP)]
    Stop(StopArguments),
    /// Look into checkpoints: list, show, compare, export to numpy.
    #[command(after_help = checkpoint::HELP)]
    Checkpoint(CheckpointArguments),
    /// Summarize a graph, or draw it.
    #[command(after_help = graph::HELP)]
    Graph(GraphArguments),
    /// Measure this machine: steps, matrices, tensors between processes.
    #[command(after_help = bench::HELP)]
    Bench(BenchArguments),
    /// Print a script that teaches a shell to complete this command's words.
    #[command(after_help = completions::HELP)]
    Completions(CompletionsArguments),
}

const STOP_HELP: &str = "\
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

const SERVE_HELP: &str = "\
Every task is started with the same cluster and its own --job_name and --task_index, in any order. TensorFlow programs and \
`tensorfleet` programs connect to any of them: Session(\"grpc://localhost:2222\").

Examples:
  tensorfleet serve --ps_hosts=a:2222,b:2222 --worker_hosts=c:2222 --job_name=ps --task_index=1
  tensorfleet serve --cluster='{\"ps\": [\"a:2222\"], \"worker\": [\"b:2222\", \"c:2222\"]}' --job_name=worker --task_index=0
  tensorfleet serve --cluster=@cluster.toml --job_name=chief --task_index=0
  TF_CONFIG='{\"cluster\": {\"ps\": [\"a:2222\"]}, \"task\": {\"type\": \"ps\", \"index\": 0}}' tensorfleet serve

SIGTERM or Ctrl-C ends it: running steps get a few seconds, then the exit code is 0. A second one ends it at once.";

/// Arguments of `serve`. Flags have the names they have in TensorFlow programs; dashes do as well as underscores.
#[derive(Args, Debug, Default)]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    pub(crate) task: TaskFlags,

    /// Where to listen, if not on all interfaces at the port the cluster names.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) bind: Option<String>,

    /// End with exit code 0 once sessions have used this task, all have ended, and none has come back for some seconds.
    #[arg(
        long = "until-done",
        alias = "until_done",
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "5",
        value_parser = seconds
    )]
    pub(crate) until_done: Option<Duration>,

    /// How long a new session waits for tasks of the cluster that do not answer.
    #[arg(long = "session-timeout", alias = "session_timeout", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) session_timeout: Option<Duration>,

    /// How long another task that owes an answer may be silent before it counts as gone (default: 15).
    #[arg(long = "peer-timeout", alias = "peer_timeout", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) peer_timeout: Option<Duration>,

    /// How long running steps may go on after SIGTERM (default: 10; a launcher that kills should wait longer).
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) grace: Option<Duration>,

    /// How much memory requests under way may take before more are refused (default: three quarters of the machine's).
    #[arg(
        long = "max-pending-mb",
        alias = "max_pending_mb",
        value_name = "MB",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) max_pending_mb: Option<u32>,

    /// Let graphs read and write files below this directory, and nowhere else; may be given several times (default: graphs may touch
    /// whatever this process may).
    #[arg(long = "allow-files", alias = "allow_files", value_name = "DIR")]
    pub(crate) allow_files: Vec<PathBuf>,
}

const STATUS_HELP: &str = "\
Any task of the cluster will do: it knows the others, and all are asked. With --watch, STEPS/S are the steps that sessions \
on that task run, and MB/S what it sends to and fetches from others; NO_COLOR turns colours off.

Examples:
  tensorfleet status grpc://localhost:2222
  tensorfleet status localhost:2222 --watch
  tensorfleet status localhost:2222 --json | jq '.tasks[].status.steps'";

/// Arguments of `status`.
#[derive(Args, Debug)]
pub(crate) struct StatusArguments {
    /// A task of the cluster: grpc://HOST:PORT, or HOST:PORT.
    pub(crate) target: String,

    /// Everything the tasks say, as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    /// Show it again every two seconds, until Ctrl-C.
    #[arg(long)]
    pub(crate) watch: bool,
}

/// A time in seconds, possibly with a fraction.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| format!("'{text}' is not a number of seconds"))?;
    Duration::try_from_secs_f64(number).map_err(|_| format!("{text} s is not a time to wait"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn serve(arguments: &[&str]) -> Result<ServeArguments, clap::Error> {
        let all = ["tensorfleet", "serve"].iter().chain(arguments);
        match Arguments::try_parse_from(all)?.command {
            Command::Serve(serve) => Ok(serve),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definitions_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn underscores_and_dashes_are_the_same() {
        for arguments in [
            ["--ps_hosts=a:1", "--worker_hosts=b:1", "--job_name=ps", "--task_index=0"],
            ["--ps-hosts=a:1", "--worker-hosts=b:1", "--job-name=ps", "--task-index=0"],
        ] {
            let task = serve(&arguments).unwrap().task;
            assert_eq!((task.ps_hosts.as_deref(), task.worker_hosts.as_deref()), (Some("a:1"), Some("b:1")));
            assert_eq!((task.job_name.as_deref(), task.task_index), (Some("ps"), Some(0)));
        }
    }

    #[test]
    fn until_done_has_a_default_time() {
        assert_eq!(serve(&[]).unwrap().until_done, None);
        assert_eq!(serve(&["--until-done"]).unwrap().until_done, Some(Duration::from_secs(5)));
        assert_eq!(serve(&["--until-done=0.5"]).unwrap().until_done, Some(Duration::from_millis(500)));
        assert!(serve(&["--until-done=-1"]).is_err());
        assert!(serve(&["--until-done=soon"]).is_err());
    }

    #[test]
    fn an_index_that_is_no_index_is_a_mistake_in_the_arguments() {
        for index in ["--task_index=-1", "--task_index=x", "--task_index=1.5"] {
            let error = serve(&[index]).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains("--task_index"), "{error}");
        }
    }
}
