//! A training program for tests to kill: a model of two counters on the parameter servers, trained under a
//! `MonitoredTrainingSession`.
//!
//! It is one worker of a cluster (`--ps_hosts`, `--worker_hosts`, `--task_index`) or, without hosts, trains in this process.
//! Each step adds one to the global step and one to the weight, so a state in which they differ was torn apart. Lines on the
//! standard output tell what happens:
//!
//! ```text
//! ready step=50 weight=50     a session was made, with the model in this state
//! step 51                     a step was made
//! failed RESOURCE_EXHAUSTED   a step failed, and the program goes on
//! done step=100               the end
//! ```
//!
//! It makes no step beyond the number that it read last from the standard input, so that whoever starts it sets the pace;
//! with `--step_ms` it pauses after each step instead. `--replicas_to_aggregate` makes it a worker of a synchronous training.

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tensorfleet::train::{
    Coordinator, GradientDescent, MinimizeOptions, MonitoredTrainingSession, Optimizer, SessionHook,
    StopAtStepHook, SyncReplicasOptimizer,
};
use tensorfleet::{
    ClusterSpec, Code, Graph, Output, Result, Server, ServerOptions, Session, SessionOptions, Status,
    Variable, replica_device_setter,
};

/// Long enough for tasks to come back on a machine with other work, shorter than a test's patience.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a round waits for those who are not among the least that it needs.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many numbers the weight has, so that a checkpoint is large enough to be cut in the middle.
const WEIGHTS: usize = 4096;

#[derive(Parser)]
#[command(rename_all = "snake_case")]
struct Flags {
    #[arg(long, default_value = "")]
    ps_hosts: String,
    #[arg(long, default_value = "")]
    worker_hosts: String,
    #[arg(long, default_value_t = 0)]
    task_index: u32,
    #[arg(long)]
    checkpoint_dir: String,
    #[arg(long, default_value_t = 50)]
    save_checkpoint_steps: i64,
    #[arg(long)]
    last_step: i64,
    /// Reports steps that fail and goes on.
    #[arg(long)]
    keep_going: bool,
    /// Pauses so long after each step, and asks nobody.
    #[arg(long)]
    step_ms: Option<u64>,
    /// Trains synchronously, with the gradients of so many workers in a round.
    #[arg(long)]
    replicas_to_aggregate: Option<usize>,
    /// With how many of them a round goes on when the others do not come.
    #[arg(long)]
    min_replicas: Option<usize>,
    /// After which time without an answer another task counts as gone.
    #[arg(long)]
    peer_timeout_secs: Option<u64>,
}

fn main() -> ExitCode {
    match train(&Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(status) => {
            eprintln!("trainer: {status}");
            ExitCode::FAILURE
        }
    }
}

/// Says a line at once: whoever reads it acts on it.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody listens any more when this fails.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

struct Model {
    global_step: Variable,
    weight: Variable,
    /// Further weights of a synchronous training, each of one number.
    others: Vec<Variable>,
    /// Makes a step, and gives the global step after it.
    train: Output,
    sync: Option<SyncReplicasOptimizer>,
}

fn build(graph: &Graph, flags: &Flags) -> Result<Model> {
    let global_step = graph.get_or_create_global_step()?;
    let weight = graph.new_variable("weight").init(vec![0.0f32; WEIGHTS]);
    let Some(replicas) = flags.replicas_to_aggregate else {
        let grown = weight.assign_add(vec![1.0f32; WEIGHTS])?;
        let train = graph.control_dependencies([&grown], || global_step.assign_add(1i64))?;
        return Ok(Model { global_step, weight, others: Vec::new(), train, sync: None });
    };
    let workers = flags.worker_hosts.split(',').count();
    let mut sync =
        SyncReplicasOptimizer::new(GradientDescent::new(1.0), replicas).total_num_replicas(workers);
    if let Some(enough) = flags.min_replicas {
        sync = sync.min_replicas(enough, PATIENCE);
    }
    // Several, so that a round may be cut off between two of them.
    let others: Vec<Variable> =
        (1..4).map(|number| graph.variable(&format!("weight{number}"), 0.0f32)).collect();
    // The gradient of each weight is -1, so a round adds one to it.
    let mut loss = weight.value().reduce_sum(..)?.neg()?;
    for other in &others {
        loss = loss - other.value();
    }
    let train = sync.minimize_with(&loss, &MinimizeOptions::counting(&global_step))?;
    let local_step = sync.local_step()?;
    let train = graph.control_dependencies([&train], || local_step.read_value())?;
    Ok(Model { global_step, weight, others, train, sync: Some(sync) })
}

/// Tells in which state each session begins.
struct SayReady {
    global_step: Variable,
    weight: Variable,
}

impl SessionHook for SayReady {
    fn after_create_session(&mut self, session: &Arc<Session>, _: &Coordinator) -> Result<()> {
        let (step, weight) = session.run((&self.global_step, &self.weight))?;
        let weight = weight.as_slice::<f32>()?;
        let first = weight.first().copied().unwrap_or_default();
        if weight.iter().any(|&other| other != first) {
            return Err(Status::data_loss("the numbers of the weight differ"));
        }
        say(&format!("ready step={} weight={first}", step.to_scalar::<i64>()?));
        Ok(())
    }
}

/// Waits for permission to go beyond `step`; `None` if there will be none.
fn permission(step: i64, mut allowed: i64) -> Option<i64> {
    let mut input = std::io::stdin().lock();
    while step >= allowed {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        allowed = allowed.max(line.trim().parse().ok()?);
    }
    Some(allowed)
}

fn train(flags: &Flags) -> Result<()> {
    let graph = Graph::new();
    let is_chief = flags.task_index == 0;
    let mut session = MonitoredTrainingSession::new(&graph).is_chief(is_chief);
    let (model, _server) = if flags.worker_hosts.is_empty() {
        (build(&graph, flags)?, None)
    } else {
        let cluster = ClusterSpec::from_hosts(&flags.ps_hosts, &flags.worker_hosts)?;
        let mut options = ServerOptions::new(cluster.clone(), "worker", flags.task_index);
        options.session_timeout = CONNECT_TIMEOUT;
        options.peer_timeout = flags.peer_timeout_secs.map(Duration::from_secs);
        let server = Server::start(options)?;
        let worker = format!("/job:worker/task:{}", flags.task_index);
        let setter = replica_device_setter().cluster(&cluster).worker_device(&worker);
        let model = graph.device(setter, || build(&graph, flags))?;
        session = session.master(&server.target()).config(SessionOptions {
            // A worker needs the parameter servers and itself, and must not wait for other workers.
            device_filters: vec!["/job:ps".to_string(), worker],
            connect_timeout: CONNECT_TIMEOUT,
            ..SessionOptions::default()
        });
        (model, Some(server))
    };
    let say_ready = SayReady { global_step: model.global_step.clone(), weight: model.weight.clone() };
    session = session
        .checkpoint_dir(&flags.checkpoint_dir)
        .save_checkpoint_steps(flags.save_checkpoint_steps)
        .log_step_count_steps(None)
        .save_summaries(None)
        .max_wait(CONNECT_TIMEOUT)
        .hook(say_ready)
        .hook(StopAtStepHook::last_step(flags.last_step));
    if let Some(sync) = &model.sync {
        session = session.hook(sync.make_session_hook(is_chief)?);
    }
    let mut session = session.create()?;
    let (mut step, mut allowed) = (0, 0);
    while !session.should_stop() {
        match flags.step_ms {
            // A pace, not a wait for anything.
            Some(pause) => std::thread::sleep(Duration::from_millis(pause)),
            None => match permission(step, allowed) {
                Some(now_allowed) => allowed = now_allowed,
                None => break,
            },
        }
        match session.run(&model.train) {
            Ok(now) => {
                step = now.to_scalar::<i64>()?;
                say(&format!("step {step}"));
            }
            // The chief has ended the training.
            Err(status) if model.sync.is_some() && status.code() == Code::OutOfRange => break,
            Err(status) if flags.keep_going => {
                eprintln!("trainer goes on after: {status}");
                say(&format!("failed {}", status.code().proto_name()));
                step += 1;
            }
            Err(status) => return Err(status),
        }
    }
    let others: Vec<&Variable> = model.others.iter().collect();
    let (step, others) = session.session()?.run((&model.global_step, others))?;
    let step = step.to_scalar::<i64>()?;
    for other in &others {
        eprintln!("weight {} at step {step}", other.to_scalar::<f32>()?);
    }
    session.close()?;
    say(&format!("done step={step}"));
    Ok(())
}
