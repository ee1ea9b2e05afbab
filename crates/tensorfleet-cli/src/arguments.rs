//! What the command line accepts, and the help that teaches it.

use clap::{Parser, Subcommand};

use crate::bench::{self, BenchArguments};
use crate::checkpoint::{self, CheckpointArguments};
use crate::completions::{self, CompletionsArguments};
use crate::graph::{self, GraphArguments};
use crate::launch::{LAUNCH_HELP, LaunchArguments};
use crate::run::{self, RunArguments};
use crate::serve::{self, ServeArguments};
use crate::status::{self, StatusArguments};
use crate::stop::{self, StopArguments};
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
  A TensorFlow 1.x script in Python, as it is, alone or as a cluster:
    tensorfleet run script.py
    tensorfleet launch --ps 1 --workers 2 -- script.py
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
    /// Run a TensorFlow 1.x script in Python, unmodified.
    #[command(after_help = run::HELP)]
    Run(RunArguments),
    /// Run any training program as a cluster on this machine.
    #[command(after_help = LAUNCH_HELP)]
    Launch(LaunchArguments),
    /// Run one task of a cluster.
    #[command(after_help = serve::HELP)]
    Serve(ServeArguments),
    /// Show the tasks of a cluster, their devices, and what running steps wait for.
    #[command(after_help = status::HELP)]
    Status(StatusArguments),
    /// End all tasks of a cluster.
    #[command(after_help = stop::HELP)]
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
    fn every_shell_gets_a_script_that_knows_the_commands() {
        for &shell in clap::ValueEnum::value_variants() {
            let script = completions::script(shell, &mut Arguments::command());
            for word in ["checkpoint", "export", "serve", "completions"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
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
