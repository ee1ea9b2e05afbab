//! What `train mnist` is told.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use tensorfleet::Result;
use tensorfleet::flags::TaskFlags;
use tensorfleet_core::ensure;

use crate::launch::num_workers;
use crate::units::seconds;

pub(crate) const TRAIN_HELP: &str = "\
Example:
  tensorfleet train mnist";

/// Arguments of `train`.
#[derive(Args, Debug)]
#[command(arg_required_else_help = true)]
pub(crate) struct TrainArguments {
    #[command(subcommand)]
    pub(crate) what: TrainCommand,
}

/// What to train.
#[derive(Subcommand, Debug)]
pub(crate) enum TrainCommand {
    /// Teach a small network to read handwritten digits.
    #[command(after_help = MNIST_HELP)]
    Mnist(Box<MnistArguments>),
    /// Anything else, which there is not.
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

pub(crate) const MNIST_HELP: &str = "\
Starts a cluster of processes on this machine, trains a network with one hidden layer on it and shows how well it reads \
digits it has never seen. Needs no files: a part of MNIST is built in.

Checkpoints and event files are written into --log_dir, by default a new directory tensorfleet-mnist-N among the system's \
temporary files. A run with the --log_dir of an earlier one resumes where that one ended, up to --steps in all. Ctrl-C saves \
the model and stops. TensorBoard shows loss and accuracy of the digits it learns from, and validation/loss and validation/accuracy of \
others: where those get worse, it learns by heart.

Examples:
  tensorfleet train mnist
  Both workers in step, and more of everything:
    tensorfleet train mnist --sync --ps 2 --workers 4 --steps 5000
  All of MNIST, kept where you like:
    tensorfleet train mnist --data_dir=mnist --download_only
    tensorfleet train mnist --data_dir=mnist --log_dir=runs/first --steps 10000
  A checkpoint every second, so that a killed parameter server costs no more:
    tensorfleet train mnist --steps 20000 --save-every 1
  For a script:
    tensorfleet train mnist --json | jq .accuracy
  On three machines, with a log directory that all of them see:
    ALL='--ps_hosts=a:2222 --worker_hosts=b:2222,c:2222 --log_dir=/shared/run'
    tensorfleet train mnist $ALL --job_name=ps --task_index=0      # on a
    tensorfleet train mnist $ALL --job_name=worker --task_index=0  # on b, the chief
    tensorfleet train mnist $ALL --job_name=worker --task_index=1  # on c
    tensorfleet stop a:2222 --only                                 # the ps serves until then";

/// How many steps a training takes if nothing is said: enough to recognise 95 of 100 digits, and over before one gets bored.
const DEFAULT_STEPS: &str = "3000";

/// Arguments of `train mnist`. Flags of tutorials have the names they have there; dashes do as well as underscores.
#[derive(Args, Clone, Debug)]
pub(crate) struct MnistArguments {
    /// How many parameter servers to start here [default: 1]
    #[arg(long, value_name = "N", value_parser = num_ps)]
    pub(crate) ps: Option<usize>,

    /// How many workers to start here [default: 2]
    #[arg(long, value_name = "M", value_parser = num_workers)]
    pub(crate) workers: Option<usize>,

    /// Average the gradients of all workers before each step, instead of applying each as it comes.
    #[arg(long, alias = "sync_replicas")]
    pub(crate) sync: bool,

    /// With --sync: do not wait for this many of the workers, whichever are slowest.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) backup: usize,

    /// With --sync: if a worker is gone for more than 10 seconds, go on with the others, if so many are left.
    #[arg(long = "min_replicas", alias = "min-replicas", value_name = "N")]
    pub(crate) min_replicas: Option<usize>,

    /// Train until the model has made so many steps in all.
    #[arg(long, alias = "train_steps", value_name = "N", default_value = DEFAULT_STEPS, value_parser = positive)]
    pub(crate) steps: u32,

    /// Digits per step and worker.
    #[arg(long = "batch_size", alias = "batch-size", value_name = "N", default_value = "100", value_parser = moderate)]
    pub(crate) batch_size: u32,

    /// How far each step goes.
    #[arg(long = "learning_rate", alias = "learning-rate", value_name = "RATE", default_value = "0.002", value_parser = rate)]
    pub(crate) learning_rate: f64,

    /// Units of the hidden layer.
    #[arg(long = "hidden_units", alias = "hidden-units", value_name = "N", default_value = "100", value_parser = moderate)]
    pub(crate) hidden_units: u32,

    /// Train on the four files of MNIST (or Fashion-MNIST) in this directory, gzipped or not, not on the digits built in.
    #[arg(long = "data_dir", alias = "data-dir", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Fetch the files of MNIST that are missing in --data_dir, and do no more.
    #[arg(long = "download_only", alias = "download-only")]
    pub(crate) download_only: bool,

    /// Where checkpoints and event files go, and a checkpoint to resume from is looked for.
    #[arg(long = "log_dir", alias = "log-dir", value_name = "DIR")]
    pub(crate) log_dir: Option<PathBuf>,

    /// How often the chief saves the model: what a crash may cost.
    #[arg(long = "save-every", alias = "save_every", value_name = "SECONDS", default_value = "10", value_parser = interval)]
    pub(crate) save_every: Duration,

    /// Decides the initial weights and the order of the digits.
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = any_number)]
    pub(crate) seed: u32,

    /// Print the result as JSON, and nothing else on standard output.
    #[arg(long)]
    pub(crate) json: bool,

    /// How long a task waits for the others of its cluster.
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    pub(crate) wait: Duration,

    #[command(flatten, next_help_heading = "One task of a cluster on several machines")]
    pub(crate) task: TaskFlags,

    /// How a worker reports; the launcher understands JSON.
    #[arg(long, hide = true, value_enum, default_value_t = ReportStyle::Text)]
    pub(crate) report: ReportStyle,

    /// Where a task listens, as in `tensorfleet serve`.
    #[arg(long, hide = true)]
    pub(crate) bind: Option<String>,
}

/// For whom a worker reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportStyle {
    /// For people.
    Text,
    /// For the launcher.
    Json,
}

impl MnistArguments {
    /// Whether this process is a task of a cluster that the arguments or the environment describe.
    pub(crate) fn is_task(&self) -> bool {
        let TaskFlags { ps_hosts, worker_hosts, cluster, job_name, task_index } = &self.task;
        [ps_hosts, worker_hosts, cluster, job_name].iter().any(|flag| flag.is_some())
            || task_index.is_some()
            || std::env::var("TF_CONFIG").is_ok_and(|config| !config.trim().is_empty())
    }

    /// What no single flag is to blame for.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(
            !self.is_task() || (self.ps.is_none() && self.workers.is_none()),
            InvalidArgument,
            "--ps and --workers start a cluster here, but --job_name, --ps_hosts and the like (or TF_CONFIG) make this a task of \
             one that runs elsewhere: give either"
        );
        ensure!(
            self.backup == 0 || self.sync,
            InvalidArgument,
            "--backup is about workers that a synchronous step does not wait for: add --sync"
        );
        ensure!(
            self.min_replicas.is_none() || self.sync,
            InvalidArgument,
            "--min_replicas is about workers that a synchronous step waits for: add --sync"
        );
        let waited_for = self.num_workers().saturating_sub(self.backup);
        ensure!(
            self.is_task() || self.min_replicas.is_none_or(|count| (1..=waited_for).contains(&count)),
            InvalidArgument,
            "--min_replicas must be between 1 and the {waited_for} workers that a step waits for"
        );
        ensure!(
            self.is_task() || self.backup < self.num_workers(),
            InvalidArgument,
            "--backup {} leaves none of {} workers to wait for: use a lower number, or more --workers",
            self.backup,
            self.num_workers()
        );
        Ok(())
    }

    pub(crate) fn num_ps(&self) -> usize {
        self.ps.unwrap_or(1)
    }

    pub(crate) fn num_workers(&self) -> usize {
        self.workers.unwrap_or(2)
    }
}

fn num_ps(text: &str) -> Result<usize, String> {
    match crate::launch::num_ps(text)? {
        0 => {
            Err("the network lives on parameter servers, so there must be one; use --ps 1 or more"
                .to_string())
        }
        count => Ok(count),
    }
}

/// A number that must not be 0, and may be an `i32`.
fn positive(text: &str) -> Result<u32, String> {
    const MOST: u32 = i32::MAX as u32;
    match text.parse() {
        Ok(number @ 1..=MOST) => Ok(number),
        _ => Err(format!("expected a whole number from 1 to {MOST}")),
    }
}

/// A number of things that all stand in memory at once.
fn moderate(text: &str) -> Result<u32, String> {
    const MOST: u32 = 100_000;
    match positive(text) {
        Ok(number) if number <= MOST => Ok(number),
        _ => Err(format!("expected a whole number from 1 to {MOST}")),
    }
}

/// A time after which something is done again.
fn interval(text: &str) -> Result<Duration, String> {
    match seconds(text) {
        Ok(time) if time < Duration::from_millis(100) => Err("expected 0.1 seconds or more".to_string()),
        parsed => parsed,
    }
}

fn any_number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("expected a whole number from 0 to {}", u32::MAX))
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate.is_finite() => Ok(rate),
        _ => Err("expected a number above 0, e.g. 0.01".to_string()),
    }
}
