//! `cargo xtask soak`: a training of a million steps, and many clients, on servers whose memory is watched.
//!
//! Servers are processes of their own; the clients are threads of this one. What a server takes is looked at every
//! tenth of the way, and must stay within two megabytes of what it took after the first tenth.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use tensorfleet::train::{
    GradientDescent, MinimizeOptions, MonitoredTrainingSession, Optimizer, StopAtStepHook,
    SyncReplicasOptimizer,
};
use tensorfleet::{
    ClusterSpec, Code, Graph, Result, Session, SessionOptions, Status, Variable, replica_device_setter,
};
use tensorfleet_tests::cluster::{Cluster, Job};

const WORKERS: u32 = 2;
const MEGABYTE: u64 = 1 << 20;
/// How much more than after the first tenth a server may take.
const GROWTH: u64 = 2 * MEGABYTE;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Trains for a long time, and lets many clients come and go; fails if servers grow.
#[derive(Parser)]
#[command(name = "cargo xtask soak")]
struct Flags {
    /// Only this part.
    part: Option<Part>,
    /// The global step at which a training ends.
    #[arg(long, default_value_t = 1_000_000)]
    steps: i64,
    /// How many clients come one after the other.
    #[arg(long, default_value_t = 1000)]
    in_turn: usize,
    /// How many are there at once.
    #[arg(long, default_value_t = 200)]
    at_once: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Async,
    Sync,
    Clients,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let mut is_flat = true;
    for part in [Part::Async, Part::Sync, Part::Clients] {
        if flags.part.is_some_and(|only| only != part) {
            continue;
        }
        let outcome = match part {
            Part::Async => training(flags.steps, false),
            Part::Sync => training(flags.steps, true),
            Part::Clients => clients(&flags),
        };
        match outcome {
            Ok(flat) => is_flat &= flat,
            Err(reason) => {
                eprintln!("soak: {reason}");
                return ExitCode::FAILURE;
            }
        }
    }
    if is_flat { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What each server takes: the parameter server first.
fn resident(cluster: &Cluster) -> std::result::Result<Vec<u64>, String> {
    Ok(cluster.statuses()?.iter().map(|status| status.resident_bytes).collect())
}

fn megabytes(bytes: &[u64]) -> String {
    let megabytes = bytes.iter().map(|bytes| format!("{:6.1}", *bytes as f64 / MEGABYTE as f64));
    megabytes.collect::<Vec<_>>().join(" ")
}

/// Whether servers have stayed within their bounds, and says so.
fn verdict(what: &str, before: &[u64], after: &[u64]) -> bool {
    let grown = before.iter().zip(after).map(|(before, after)| after.saturating_sub(*before)).max();
    let grown = grown.unwrap_or_default();
    let is_flat = grown <= GROWTH;
    let word = if is_flat { "flat" } else { "NOT flat" };
    println!("{what}: {word}, {:.2} MB more at most", grown as f64 / MEGABYTE as f64);
    is_flat
}

/// One parameter server, two workers, a model of a few numbers.
fn training(steps: i64, is_sync: bool) -> std::result::Result<bool, String> {
    let cluster = Cluster::start_ours(1, WORKERS as usize, &[])?;
    let what = if is_sync { "synchronous" } else { "asynchronous" };
    println!("{what} training, {steps} steps; MB of ps and workers\n      step  seconds");
    let (begin, is_over) = (Instant::now(), AtomicBool::new(false));
    let (mut after_a_tenth, mut most) = (Vec::new(), Vec::new());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|task| {
                let (cluster, is_over) = (&cluster, &is_over);
                scope.spawn(move || {
                    let ended = work(cluster, task, steps, is_sync);
                    is_over.store(true, Relaxed);
                    ended
                })
            })
            .collect();
        let watch = watching(&cluster, steps, &is_over, |step, bytes| {
            println!("{step:10} {:8.1} {}", begin.elapsed().as_secs_f64(), megabytes(&bytes));
            if after_a_tenth.is_empty() {
                (after_a_tenth, most) = (bytes.clone(), bytes);
            } else {
                most.iter_mut().zip(bytes).for_each(|(most, bytes)| *most = bytes.max(*most));
            }
        });
        for worker in workers {
            let ended = worker.join().map_err(|_| "a worker panicked".to_string())?;
            ended.map_err(|status| format!("a worker: {status}"))?;
        }
        watch
    })?;
    let seconds = begin.elapsed().as_secs_f64();
    println!("{:.0} steps/s", steps as f64 / seconds);
    if after_a_tenth.is_empty() {
        return Err("the training was over before anybody looked".to_string());
    }
    Ok(verdict(what, &after_a_tenth, &most))
}

/// Calls `look` with what the servers take at every tenth of the way.
fn watching(
    cluster: &Cluster,
    steps: i64,
    is_over: &AtomicBool,
    mut look: impl FnMut(i64, Vec<u64>),
) -> std::result::Result<(), String> {
    let tenth = (steps / 10).max(1);
    let mut next = tenth;
    let graph = Graph::new();
    let target = cluster.target(Job::Ps, 0).ok_or("there is no ps")?;
    let step = graph.device("/job:ps/task:0", || graph.new_variable("global_step").init(0i64));
    let session = Session::connect(&target, &graph).map_err(|status| status.to_string())?;
    while !is_over.load(Relaxed) {
        // Until the chief has initialised it there is none.
        let now = session.run(&step).and_then(|step| step.to_scalar::<i64>()).unwrap_or(0);
        if now >= next {
            look(now, resident(cluster)?);
            next = (now / tenth + 1) * tenth;
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

fn work(cluster: &Cluster, task: u32, steps: i64, is_sync: bool) -> Result<()> {
    let graph = Graph::new();
    let is_chief = task == 0;
    let target = cluster.target(Job::Worker, task as usize).unwrap_or_default();
    let [ps, workers] = cluster.flags();
    let hosts = |flag: &str| flag.split('=').next_back().unwrap_or_default().to_string();
    let spec = ClusterSpec::from_hosts(&hosts(&ps), &hosts(&workers))?;
    let worker = format!("/job:worker/task:{task}");
    let setter = replica_device_setter().cluster(&spec).worker_device(&worker);
    let (train, sync) = graph.device(setter, || {
        let global_step = graph.get_or_create_global_step()?;
        let weight: Variable = graph.new_variable("weight").init(vec![0.0f32; 64]);
        let loss = weight.value().reduce_sum(..)?.neg()?;
        let options = MinimizeOptions::counting(&global_step);
        if is_sync {
            let sync = SyncReplicasOptimizer::new(GradientDescent::new(1e-6), WORKERS as usize);
            let train = sync.minimize_with(&loss, &options)?;
            return Ok::<_, Status>((train, Some(sync)));
        }
        Ok((GradientDescent::new(1e-6).minimize_with(&loss, &options)?, None))
    })?;
    let mut session = MonitoredTrainingSession::new(&graph)
        .is_chief(is_chief)
        .master(&target)
        .config(SessionOptions {
            device_filters: vec!["/job:ps".to_string(), worker],
            ..SessionOptions::default()
        })
        .log_step_count_steps(None)
        .save_summaries(None)
        .hook(StopAtStepHook::last_step(steps));
    if let Some(sync) = &sync {
        session = session.hook(sync.make_session_hook(is_chief)?);
    }
    let mut session = session.create()?;
    while !session.should_stop() {
        match session.run(&train) {
            Ok(_) => {}
            // The chief has ended the training.
            Err(status) if sync.is_some() && status.code() == Code::OutOfRange => break,
            Err(status) => return Err(status),
        }
    }
    session.close()
}

/// Clients that come, compute on both tasks and go; and many that are there together.
fn clients(flags: &Flags) -> std::result::Result<bool, String> {
    let cluster = Cluster::start_ours(1, 1, &[])?;
    let target = cluster.target(Job::Worker, 0).ok_or("there is no worker")?;
    let begin = Instant::now();
    let mut after_a_tenth = Vec::new();
    println!("{} clients in turn; MB of ps and worker\n    client  seconds", flags.in_turn);
    for number in 0..=flags.in_turn {
        if number % (flags.in_turn / 10).max(1) == 0 {
            let bytes = resident(&cluster)?;
            println!("{number:10} {:8.1} {}", begin.elapsed().as_secs_f64(), megabytes(&bytes));
            if number > 0 && after_a_tenth.is_empty() {
                after_a_tenth = bytes;
            }
        }
        visit(&target, number as f32).map_err(|status| format!("client {number}: {status}"))?;
    }
    let is_flat = verdict("clients in turn", &after_a_tenth, &resident(&cluster)?);
    let begin = Instant::now();
    thread::scope(|scope| {
        let all: Vec<_> = (0..flags.at_once)
            .map(|number| {
                scope.spawn({
                    let target = &target;
                    move || visit(target, number as f32)
                })
            })
            .collect();
        all.into_iter().try_for_each(|client| match client.join() {
            Ok(outcome) => outcome.map_err(|status| status.to_string()),
            Err(_) => Err("a client panicked".to_string()),
        })
    })?;
    let bytes = resident(&cluster)?;
    println!(
        "{} clients at once: {:.1} s; {}",
        flags.at_once,
        begin.elapsed().as_secs_f64(),
        megabytes(&bytes)
    );
    Ok(is_flat)
}

/// What one client does: a variable on the ps, a product on the worker, ten steps.
fn visit(target: &str, number: f32) -> Result<()> {
    let graph = Graph::new();
    let variable = graph.device("/job:ps/task:0", || graph.new_variable("v").init(vec![number; 16]));
    let doubled = graph.device("/job:worker/task:0", || variable.value() * 2.0f32);
    let session = Session::connect(target, &graph)?;
    session.run(&graph.global_variables_initializer()?)?;
    for _ in 0..10 {
        session.run(&doubled)?;
    }
    session.close()
}
