//! The flags that programs of a cluster share, as TensorFlow's programs have them: which cluster, and which task of it this
//! process is. Needs the feature `flags`, which brings `clap`.
//!
//! ```
//! use clap::Parser;
//! use tensorfleet::flags::{self, TaskFlags};
//!
//! #[derive(Parser)]
//! struct Flags {
//!     #[command(flatten)]
//!     task: TaskFlags,
//!     /// Wait for the gradients of all workers before each update.
//!     #[arg(long = "sync_replicas", num_args = 0..=1, default_missing_value = "true", default_value = "false",
//!           value_parser = flags::boolean, action = clap::ArgAction::Set)]
//!     sync_replicas: bool,
//! }
//!
//! let flags = Flags::parse_from([
//!     "trainer", "--ps_hosts=localhost:2222", "--worker_hosts=localhost:2223,localhost:2224",
//!     "--job_name=worker", "--task_index=1", "--sync_replicas=True",
//! ]);
//! let (cluster, task) = flags.task.resolve()?;
//! assert_eq!(task.to_string(), "/job:worker/task:1");
//! assert_eq!(cluster.num_tasks("worker")?, 2);
//! assert!(flags.sync_replicas);
//! # Ok::<(), tensorfleet::Status>(())
//! ```

mod help;
mod words;

use std::io::Write;

use clap::{Args, Command, Parser};
use tensorfleet_core::bail;

use tensorfleet_cluster::{ClusterSpec, TaskId, TfConfig};
use tensorfleet_core::{Result, Status};

/// The cluster and the task: `--ps_hosts --worker_hosts --job_name --task_index`, `--cluster` for jobs of other names, or the
/// environment variable `TF_CONFIG`. Dashes do as well as underscores.
///
/// Flags win over `TF_CONFIG`, each for itself: the cluster may come from the environment and the task from flags. Two
/// flags that say the same thing differently are a mistake, not a matter of precedence.
#[derive(Args, Clone, Debug, Default)]
pub struct TaskFlags {
    /// Addresses of the job `ps`, separated by commas.
    #[arg(long = "ps_hosts", alias = "ps-hosts", value_name = "HOST:PORT,…")]
    pub ps_hosts: Option<String>,

    /// Addresses of the job `worker`, separated by commas.
    #[arg(long = "worker_hosts", alias = "worker-hosts", value_name = "HOST:PORT,…")]
    pub worker_hosts: Option<String>,

    /// All jobs with their addresses: JSON, or @FILE for a file with JSON or TOML.
    #[arg(long, value_name = "JSON|@FILE")]
    pub cluster: Option<String>,

    /// The job of this task, e.g. ps.
    #[arg(long = "job_name", alias = "job-name", value_name = "JOB")]
    pub job_name: Option<String>,

    /// The index of this task in its job, from 0.
    #[arg(long = "task_index", alias = "task-index", value_name = "INDEX", allow_negative_numbers = true)]
    pub task_index: Option<u32>,
}

impl TaskFlags {
    /// The cluster and this process's task in it.
    pub fn resolve(&self) -> Result<(ClusterSpec, TaskId)> {
        resolve(self, std::env::var("TF_CONFIG").ok().as_deref())
    }
}

/// Reads the flags of a program, as [`Parser::parse`] does, except that `--steps -5` gives `--steps` a value, which its parser
/// refuses in its own words (clap on its own takes `-5` for a flag that does not exist), and that commands in `--help`, which are
/// indented by four blanks, are not wrapped.
pub fn parse<P: Parser>() -> P {
    let mut lines = help::Lines::default();
    let mut command = lines.take(command::<P>());
    let mut matches = command.clone().try_get_matches().unwrap_or_else(|answer| leave(&answer, &lines));
    P::from_arg_matches_mut(&mut matches).unwrap_or_else(|error| error.format(&mut command).exit())
}

/// Ends the program with what clap has to say: help, a version, or a mistake. Help that cannot be written is a failure, as all lost
/// output; a reader who has seen enough (`| head`) is not.
fn leave(answer: &clap::Error, lines: &help::Lines) -> ! {
    let printed = match lines.print(answer) {
        Some(printed) => printed,
        None if answer.use_stderr() => {
            let text = answer.render().to_string();
            let plain = words::plain(&text);
            if plain == text {
                answer.exit()
            }
            let _ = write!(std::io::stderr(), "{plain}");
            std::process::exit(answer.exit_code())
        }
        None => answer.print().and_then(|()| std::io::stdout().flush()).map(|()| 0),
    };
    let code = match printed {
        Ok(code) => code,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => 0,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: the output cannot be written ({error})");
            1
        }
    };
    std::process::exit(code)
}

/// The command line that [`parse`] reads.
pub fn command<P: Parser>() -> Command {
    with_negative_numbers(P::command())
}

fn with_negative_numbers(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let takes_value = arg.get_action().takes_values() && !arg.is_positional();
        if takes_value { arg.allow_negative_numbers(true) } else { arg }
    });
    // Only as deep as a program's own commands are.
    command.mut_subcommands(with_negative_numbers)
}

/// A flag that is on or off, written as TensorFlow's programs write it: `--sync_replicas=True`, `=false`, `=1`.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "1" => Ok(true),
        "false" | "f" | "no" | "0" => Ok(false),
        _ => Err("expected true or false".to_string()),
    }
}

/// `tf_config` is the value of `TF_CONFIG`, if it is set.
fn resolve(arguments: &TaskFlags, tf_config: Option<&str>) -> Result<(ClusterSpec, TaskId)> {
    let from_flags = cluster_of_flags(arguments)?;
    let (job, index) = (arguments.job_name.as_deref(), arguments.task_index);
    let needs_environment = from_flags.is_none() || (job.is_none() && index.is_none());
    let config = match tf_config.filter(|text| needs_environment && !text.trim().is_empty()) {
        // With a cluster from flags, what the variable says of another cluster is not this command's business.
        Some(_) if from_flags.is_some() => None,
        Some(text) => Some(TfConfig::parse(text)?),
        None => None,
    };
    let (cluster, own_task) = match (from_flags, config) {
        (Some(cluster), _) => (cluster, None),
        (None, Some(config)) => (config.cluster, config.task),
        (None, None) => bail!(
            InvalidArgument,
            "no cluster is given: use --ps_hosts and --worker_hosts, --cluster, or the environment variable TF_CONFIG"
        ),
    };
    let task = match (job, index, own_task) {
        (Some(job), Some(index), _) => TaskId::new(job, index),
        (None, None, Some(task)) => task,
        (None, Some(_), _) => {
            return Err(missing("--job_name is", "which job this task belongs to", &cluster));
        }
        (Some(_), None, _) => {
            return Err(missing("--task_index is", "which task of its job this is", &cluster));
        }
        (None, None, None) => {
            return Err(missing(
                "--job_name and --task_index are",
                "which task of the cluster this is",
                &cluster,
            ));
        }
    };
    cluster.address(&task.job, task.index)?;
    Ok((cluster, task))
}

fn cluster_of_flags(arguments: &TaskFlags) -> Result<Option<ClusterSpec>> {
    let TaskFlags { ps_hosts, worker_hosts, cluster, .. } = arguments;
    match (cluster, ps_hosts, worker_hosts) {
        (None, None, None) => Ok(None),
        (None, ps, workers) => {
            let hosts = |hosts: &Option<String>| hosts.clone().unwrap_or_default();
            ClusterSpec::from_hosts(&hosts(ps), &hosts(workers)).map(Some)
        }
        (Some(cluster), None, None) => match cluster.strip_prefix('@') {
            Some(path) => ClusterSpec::from_file(path).map(Some),
            None => ClusterSpec::from_json(cluster).map_err(|status| status.context("--cluster")).map(Some),
        },
        (Some(_), ps, _) => {
            let other = if ps.is_some() { "--ps_hosts" } else { "--worker_hosts" };
            bail!(InvalidArgument, "--cluster and {other} both describe the cluster: give one of them")
        }
    }
}

fn missing(flags_are: &str, meaning: &str, cluster: &ClusterSpec) -> Status {
    let jobs: Vec<String> = cluster
        .jobs()
        .map(|job| {
            let indices = cluster.task_indices(job).unwrap_or_default();
            let (first, last) = (indices.first().unwrap_or(&0), indices.last().unwrap_or(&0));
            match first == last {
                true => format!("task {first} of job {job}"),
                false => format!("tasks {first}–{last} of job {job}"),
            }
        })
        .collect();
    Status::invalid_argument(format!(
        "{flags_are} missing: say {meaning} (the cluster has {})",
        jobs.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TF_CONFIG: &str =
        r#"{"cluster": {"ps": ["p:1"], "worker": ["w:1"]}, "task": {"type": "worker", "index": 0}}"#;

    fn flags(ps: &str, worker: &str, job: &str, index: u32) -> TaskFlags {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_string());
        TaskFlags {
            ps_hosts: given(ps),
            worker_hosts: given(worker),
            job_name: given(job),
            task_index: Some(index),
            ..Default::default()
        }
    }

    #[track_caller]
    fn assert_refused(arguments: &TaskFlags, tf_config: Option<&str>, words: &str) {
        let status = resolve(arguments, tf_config).unwrap_err();
        assert!(status.text().contains(words), "{status}");
    }

    #[test]
    fn hosts_job_and_index_are_enough() {
        let (cluster, task) = resolve(&flags("a:1,b:1", "c:1", "ps", 1), None).unwrap();
        assert_eq!((cluster.len(), task.to_string().as_str()), (3, "/job:ps/task:1"));
    }

    #[test]
    fn the_environment_is_used_where_flags_are_silent() {
        let (cluster, task) = resolve(&TaskFlags::default(), Some(TF_CONFIG)).unwrap();
        assert_eq!((cluster.len(), task), (2, TaskId::new("worker", 0)));
        // The task from flags, the cluster from the environment.
        let (_, task) = resolve(&flags("", "", "ps", 0), Some(TF_CONFIG)).unwrap();
        assert_eq!(task, TaskId::new("ps", 0));
        // A cluster from flags leaves nothing to the environment, not even nonsense.
        let (cluster, _) = resolve(&flags("x:1", "", "ps", 0), Some("nonsense")).unwrap();
        assert_eq!(cluster.address("ps", 0).unwrap(), "x:1");
    }

    #[test]
    fn a_missing_job_or_index_is_said() {
        let none = TaskFlags::default();
        assert_refused(&none, None, "no cluster is given");
        assert_refused(&none, Some("  "), "no cluster is given");
        let mut arguments = flags("a:1,b:1", "c:1", "", 0);
        assert_refused(&arguments, None, "--job_name is missing");
        assert_refused(&arguments, None, "(the cluster has tasks 0–1 of job ps, task 0 of job worker)");
        arguments.task_index = None;
        assert_refused(&arguments, None, "--job_name and --task_index are missing");
        arguments.job_name = Some("ps".into());
        assert_refused(&arguments, None, "--task_index is missing");
        assert_refused(&none, Some(r#"{"cluster": {"ps": ["a:1"]}}"#), "--job_name and --task_index");
    }

    #[test]
    fn a_task_outside_the_cluster_is_refused() {
        assert_refused(&flags("a:1", "b:1", "ps", 1), None, "No task with index 1 in job 'ps'");
        assert_refused(&flags("a:1", "b:1", "chief", 0), None, "No such job in cluster: 'chief'");
    }

    #[derive(Parser)]
    struct Trainer {
        #[command(subcommand)]
        _what: Option<What>,
        #[arg(long = "steps", value_parser = clap::value_parser!(u32).range(1..))]
        _steps: Option<u32>,
    }

    #[derive(clap::Subcommand)]
    enum What {
        Graph {
            #[arg(long = "batch")]
            _batch: Option<u32>,
        },
    }

    /// clap said that there is no argument '-5', or that it should come after '--'.
    #[test]
    fn a_negative_number_is_a_value_that_the_flag_refuses() {
        for (arguments, words) in [
            (&["t", "--steps", "-5"][..], "-5 is not in 1.."),
            (&["t", "graph", "--batch", "-3"], "-3 is not in 0.."),
        ] {
            let error = command::<Trainer>().try_get_matches_from(arguments).unwrap_err().to_string();
            assert!(error.contains("invalid value") && error.contains(words), "{error}");
        }
        command::<Trainer>().debug_assert();
    }

    #[test]
    fn booleans_are_written_as_in_tensorflow() {
        assert_eq!(["True", "true", "1", "yes"].map(boolean), [const { Ok(true) }; 4]);
        assert_eq!(["False", "false", "0", "no"].map(boolean), [const { Ok(false) }; 4]);
        assert!(boolean("maybe").is_err());
    }

    #[test]
    fn a_cluster_comes_as_json_or_from_a_file_but_not_twice() {
        let mut arguments = flags("", "", "worker", 1);
        arguments.cluster = Some(r#"{"worker": ["a:1", "b:1"]}"#.into());
        assert_eq!(resolve(&arguments, None).unwrap().0.num_tasks("worker").unwrap(), 2);
        arguments.cluster = Some("{".into());
        assert_refused(&arguments, None, "--cluster: the cluster specification is not valid JSON");
        arguments.cluster = Some("@/does/not/exist.toml".into());
        assert_refused(&arguments, None, "cannot read the cluster specification '/does/not/exist.toml'");
        arguments.worker_hosts = Some("a:1".into());
        assert_refused(&arguments, None, "--cluster and --worker_hosts both describe the cluster");
    }
}
