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
//! It makes no step beyond the number that it read last from the standard input, so that whoever starts it sets the pace.

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tensorfleet::train::{Coordinator, MonitoredTrainingSession, SessionHook, StopAtStepHook};
use tensorfleet::{
    ClusterSpec, Graph, Output, Result, Server, ServerOptions, Session, SessionOptions, Status, Variable,
    replica_device_setter,
};

/// Long enough for tasks to come back on a machine with other work, shorter than a test's patience.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
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
    /// Makes a step, and gives the global step after it.
    train: Output,
}

fn build(graph: &Graph) -> Result<Model> {
    let global_step = graph.get_or_create_global_step()?;
    let weight = graph.new_variable("weight").init(vec![0.0f32; WEIGHTS]);
    let grown = weight.assign_add(vec![1.0f32; WEIGHTS])?;
    let train = graph.control_dependencies([&grown], || global_step.assign_add(1i64))?;
    Ok(Model { global_step, weight, train })
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
        (build(&graph)?, None)
    } else {
        let cluster = ClusterSpec::from_hosts(&flags.ps_hosts, &flags.worker_hosts)?;
        let mut options = ServerOptions::new(cluster.clone(), "worker", flags.task_index);
        options.session_timeout = CONNECT_TIMEOUT;
        let server = Server::start(options)?;
        let worker = format!("/job:worker/task:{}", flags.task_index);
        let setter = replica_device_setter().cluster(&cluster).worker_device(&worker);
        let model = graph.device(setter, || build(&graph))?;
        session = session.master(&server.target()).config(SessionOptions {
            // A worker needs the parameter servers and itself, and must not wait for other workers.
            device_filters: vec!["/job:ps".to_string(), worker],
            connect_timeout: CONNECT_TIMEOUT,
            ..SessionOptions::default()
        });
        (model, Some(server))
    };
    let say_ready = SayReady { global_step: model.global_step.clone(), weight: model.weight.clone() };
    let mut session = session
        .checkpoint_dir(&flags.checkpoint_dir)
        .save_checkpoint_steps(flags.save_checkpoint_steps)
        .log_step_count_steps(None)
        .save_summaries(None)
        .max_wait(CONNECT_TIMEOUT)
        .hook(say_ready)
        .hook(StopAtStepHook::last_step(flags.last_step))
        .create()?;
    let (mut step, mut allowed) = (0, 0);
    while !session.should_stop() {
        let Some(now_allowed) = permission(step, allowed) else { break };
        allowed = now_allowed;
        match session.run(&model.train) {
            Ok(now) => {
                step = now.to_scalar::<i64>()?;
                say(&format!("step {step}"));
            }
            Err(status) if flags.keep_going => {
                eprintln!("trainer goes on after: {status}");
                say(&format!("failed {}", status.code().proto_name()));
                step += 1;
            }
            Err(status) => return Err(status),
        }
    }
    let step = session.session()?.run(&model.global_step)?.to_scalar::<i64>()?;
    session.close()?;
    say(&format!("done step={step}"));
    Ok(())
}
