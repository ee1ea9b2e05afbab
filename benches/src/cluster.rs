//! `tensorfleet-benches cluster DIR ROUNDS`: clusters of processes of both kinds, measured by turns.
//!
//! One ps and one worker of TensorFlow, one ps and one worker of ours. Each side is measured with its own client; the
//! TensorFlow client also runs on our servers. Prints a Markdown table.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tensorfleet_cluster::{ConnectOptions, RemoteRunOptions, RemoteSession};
use tensorfleet_core::{Result, Status, Tensor};
use tensorfleet_tests::cluster::{Cluster, Job, Server};
use tensorfleet_tests::python::Interpreter;

use crate::cluster_workloads;
use crate::measure::median;
use crate::workload::{self, Run, Workload};

/// What was measured, in seconds or megabytes, by row.
#[derive(Default)]
struct Row {
    name: String,
    theirs: Vec<f64>,
    ours: Vec<f64>,
    their_client: Vec<f64>,
}

/// Measures everything and prints the table.
pub(crate) fn run(directory: &Path, rounds: usize) -> Result<()> {
    let workloads = cluster_workloads::all()?;
    workload::export(&workloads, directory)?;
    let tensorflow = Interpreter::with_tensorflow_2().map_err(Status::failed_precondition)?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("measure_tensorflow.py");
    let row = |name: &str| Row { name: name.to_string(), ..Row::default() };
    let mut rows: Vec<Row> = workloads.iter().map(|workload| row(&workload.name)).collect();
    let (mut memory, mut start) = (row("memory of an idle ps"), row("process start to first answer"));
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        for is_ours in [true, false] {
            let server = if is_ours { Server::Tensorfleet } else { Server::TensorFlow(tensorflow.clone()) };
            let cluster = start_cluster(&server)?;
            let target = cluster.target(Job::Worker, 0).unwrap_or_default();
            let idle = resident_megabytes(&cluster, Job::Ps);
            let first = first_answer(&server)?;
            if is_ours {
                memory.ours.push(idle);
                start.ours.push(first);
                for (row, workload) in rows.iter_mut().zip(&workloads) {
                    row.ours.push(measure(&target, workload)?.as_secs_f64());
                }
            } else {
                memory.theirs.push(idle);
                start.theirs.push(first);
            }
            let times = measure_tensorflow(tensorflow.program(), &script, directory, &target)?;
            for (row, seconds) in rows.iter_mut().zip(times) {
                if is_ours { row.their_client.push(seconds) } else { row.theirs.push(seconds) }
            }
        }
    }
    print!("{}", table(rows, memory, start));
    Ok(())
}

fn start_cluster(server: &Server) -> Result<Cluster> {
    Cluster::start(std::slice::from_ref(server), std::slice::from_ref(server)).map_err(Status::internal)
}

/// Median seconds of a step with our client.
fn measure(target: &str, workload: &Workload) -> Result<Duration> {
    let session = RemoteSession::create(target, workload.graph.clone(), ConnectOptions::default())?;
    step(&session, &workload.setup)?;
    let time = median(|| step(&session, &workload.step).map(drop))?;
    session.close()?;
    Ok(time)
}

fn step(session: &RemoteSession, run: &Run) -> Result<Vec<Tensor>> {
    let feeds: Vec<(&str, &Tensor)> = run.feeds.iter().map(|(name, value)| (&**name, value)).collect();
    session
        .run(&feeds, &texts(&run.fetches), &texts(&run.targets), &RemoteRunOptions::default())
        .map(|(tensors, _)| tensors)
}

fn texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// Seconds from the start of a server process to the answer of a session's first step on it.
fn first_answer(server: &Server) -> Result<f64> {
    let workload = cluster_workloads::constant();
    let begin = Instant::now();
    let cluster = Cluster::start(&[], std::slice::from_ref(server)).map_err(Status::internal)?;
    let target = cluster.target(Job::Worker, 0).unwrap_or_default();
    let session = RemoteSession::create(&target, workload.graph.clone(), ConnectOptions::default())?;
    step(&session, &workload.step)?;
    let elapsed = begin.elapsed().as_secs_f64();
    session.close()?;
    Ok(elapsed)
}

/// Memory of a task's process, where the system tells.
fn resident_megabytes(cluster: &Cluster, job: Job) -> f64 {
    let status =
        cluster.pid(job, 0).and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/status")).ok());
    let status = status.unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.map_or(f64::NAN, |kilobytes| kilobytes / 1000.0)
}

/// Median seconds of each workload with TensorFlow's client, in order.
fn measure_tensorflow(python: &Path, script: &Path, directory: &Path, target: &str) -> Result<Vec<f64>> {
    let output = Command::new(python)
        .arg(script)
        .arg(directory)
        .env("TENSORFLEET_BENCH_TARGET", target)
        .output()
        .map_err(|error| Status::internal(format!("{}: {error}", script.display())))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let failed = || Status::internal(format!("{text}\n{}", String::from_utf8_lossy(&output.stderr)));
    let seconds = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?["run"].as_f64();
    text.lines().map(|line| seconds(line).ok_or_else(failed)).collect()
}

fn table(rows: Vec<Row>, memory: Row, start: Row) -> String {
    let middle = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    let mut text = String::from(
        "| what | TensorFlow | Tensorfleet | × | TensorFlow's client on Tensorfleet |\n|---|---:|---:|---:|---:|\n",
    );
    let mut line = |row: Row, show: &dyn Fn(f64) -> String| {
        let (theirs, ours, client) = (middle(row.theirs), middle(row.ours), middle(row.their_client));
        let ratio = theirs.zip(ours).map(|(theirs, ours)| format!("{:.1}", theirs / ours));
        let cells =
            [theirs.map(show), ours.map(show), ratio, client.map(show)].map(Option::unwrap_or_default);
        let _ = writeln!(text, "| {} | {} |", row.name, cells.join(" | "));
    };
    for row in rows {
        line(row, &|seconds| match seconds {
            _ if seconds < 0.001 => format!("{:.0} µs", seconds * 1e6),
            _ => format!("{:.1} ms", seconds * 1e3),
        });
    }
    line(memory, &|megabytes| format!("{megabytes:.0} MB"));
    line(start, &|seconds| format!("{seconds:.3} s"));
    text
}
