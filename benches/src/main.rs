//! Measures our side of the comparison with TensorFlow, and writes down the work for the other side.
//!
//! `tensorfleet-benches export DIR` writes every workload as a `GraphDef` with feeds and a list of what to run;
//! `measure_tensorflow.py` runs those very files. `tensorfleet-benches measure [FILTER]` prints one JSON line for
//! each workload with the median time of a step, through `run` and through a prepared callable. `tensorfleet-benches
//! cluster DIR ROUNDS` compares clusters of processes, `tensorfleet-benches checkpoint DIR ROUNDS` saving and restoring,
//! `tensorfleet-benches training DIR ROUNDS` a whole training program.

mod checkpoint;
mod cluster;
mod cluster_workloads;
mod measure;
mod models;
mod training;
mod workload;
mod workloads;

use std::process::ExitCode;

use tensorfleet_core::{Result, Status};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["export", directory] => workloads::all().and_then(|all| workload::export(&all, directory.as_ref())),
        ["measure"] => measure_all(""),
        ["measure", filter] => measure_all(filter),
        [what @ ("cluster" | "checkpoint" | "training"), directory, rounds] => match (what, rounds.parse()) {
            (_, Err(_)) => Err(Status::invalid_argument(format!("'{rounds}' is no number of rounds"))),
            ("cluster", Ok(rounds)) => cluster::run(directory.as_ref(), rounds),
            ("checkpoint", Ok(rounds)) => checkpoint::run(directory.as_ref(), rounds),
            (_, Ok(rounds)) => training::run(rounds),
        },
        ["checkpoint-once", directory, work] => checkpoint::measure_once(directory, work),
        _ => Err(Status::invalid_argument(
            "usage: tensorfleet-benches export DIR | measure [FILTER] | (cluster | checkpoint | training) DIR ROUNDS",
        )),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(status) => {
            eprintln!("{status}");
            ExitCode::FAILURE
        }
    }
}

fn measure_all(filter: &str) -> Result<()> {
    for workload in workloads::all()?.iter().filter(|workload| workload.name.contains(filter)) {
        let line = match measure::measure(workload) {
            Ok(times) => serde_json::json!({
                "name": workload.name, "run": times.run.as_secs_f64(), "callable": times.callable.as_secs_f64(),
            }),
            Err(status) => serde_json::json!({ "name": workload.name, "error": status.message() }),
        };
        println!("{line}");
    }
    Ok(())
}
