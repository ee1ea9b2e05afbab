//! Measures our side of the comparison with TensorFlow, and writes down the work for the other side.
//!
//! `tensorfleet-benches export DIR` writes every workload as a `GraphDef` with feeds and a list of what to run;
//! `measure_tensorflow.py` runs those very files. `tensorfleet-benches measure [FILTER]` prints one JSON line for
//! each workload with the median time of a step, through `run` and through a prepared callable, and the processor time of a
//! step; with SECONDS it goes on for so long, for profilers. `tensorfleet-benches
//! cluster DIR ROUNDS` compares clusters of processes, `tensorfleet-benches checkpoint DIR ROUNDS` saving and restoring,
//! `tensorfleet-benches training DIR ROUNDS` a whole training program, `tensorfleet-benches embeddings DIR ROUNDS` one with large
//! tables, `tensorfleet-benches input DIR ROUNDS` input pipelines.

mod checkpoint;
mod cluster;
mod cluster_workloads;
mod embeddings;
mod input;
mod measure;
mod models;
mod processes;
mod training;
mod workload;
mod workloads;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use tensorfleet_core::{Result, Status};

/// What is measured on both sides from here.
const COMPARISONS: [&str; 5] = ["cluster", "checkpoint", "training", "embeddings", "input"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["export", directory] => workloads::all().and_then(|all| workload::export(&all, directory.as_ref())),
        ["measure"] => measure_all("", measure::MEASURED),
        ["measure", filter] => measure_all(filter, measure::MEASURED),
        ["measure", filter, seconds] => match seconds.parse().map(Duration::try_from_secs_f64) {
            Ok(Ok(measured)) => measure_all(filter, measured),
            _ => Err(Status::invalid_argument(format!("'{seconds}' is no number of seconds"))),
        },
        [what, directory, rounds] if COMPARISONS.contains(&what) => match rounds.parse() {
            Ok(rounds) => compare(what, directory.as_ref(), rounds),
            Err(_) => Err(Status::invalid_argument(format!("'{rounds}' is no number of rounds"))),
        },
        ["checkpoint-once", directory, work] => checkpoint::measure_once(directory, work),
        ["input-once", directory] => input::measure_once(directory.as_ref()),
        _ => Err(Status::invalid_argument(format!(
            "usage: tensorfleet-benches export DIR | measure [FILTER [SECONDS]] | ({}) DIR ROUNDS",
            COMPARISONS.join(" | ")
        ))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(status) => {
            eprintln!("{status}");
            ExitCode::FAILURE
        }
    }
}

fn compare(what: &str, directory: &Path, rounds: usize) -> Result<()> {
    std::fs::create_dir_all(directory)
        .map_err(|error| Status::unavailable(format!("{}: {error}", directory.display())))?;
    match what {
        "cluster" => cluster::run(directory, rounds),
        "checkpoint" => checkpoint::run(directory, rounds),
        "training" => training::run(rounds),
        "embeddings" => embeddings::run(rounds),
        _ => input::run(directory, rounds),
    }
}

fn measure_all(filter: &str, measured: Duration) -> Result<()> {
    for workload in workloads::all()?.iter().filter(|workload| workload.name.contains(filter)) {
        let line = match measure::measure(workload, measured) {
            Ok(times) => serde_json::json!({
                "name": workload.name, "run": times.run.as_secs_f64(), "callable": times.callable.as_secs_f64(),
                "processor": times.processor.as_secs_f64(),
            }),
            Err(status) => serde_json::json!({ "name": workload.name, "error": status.message() }),
        };
        println!("{line}");
    }
    Ok(())
}
