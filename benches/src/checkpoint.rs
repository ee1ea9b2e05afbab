//! `tensorfleet-benches checkpoint DIR ROUNDS`: saving and restoring a gibibyte of variables, ours and TensorFlow's by turns.
//!
//! Every measurement is a process of its own: `tensorfleet-benches checkpoint-once DIR save|restore`, and
//! `checkpoint_tensorflow.py` for the other side. Each prints one line of JSON. Prints a Markdown table.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};
use tensorfleet::train::Saver;
use tensorfleet::{Graph, Result, Session, Status};
use tensorfleet_tests::python::Interpreter;

/// As in `checkpoint_tensorflow.py`.
const VARIABLES: usize = 64;
const ROWS: i32 = 4096;
const COLUMNS: i32 = 1024;
const MODEL_BYTES: f64 = (VARIABLES * ROWS as usize * COLUMNS as usize * 4) as f64;

/// Seconds, and megabytes of memory beyond the variables.
#[derive(Default)]
struct Samples {
    seconds: Vec<f64>,
    more_megabytes: Vec<f64>,
}

/// Measures everything and prints the table.
pub(crate) fn run(directory: &Path, rounds: usize) -> Result<()> {
    let tensorflow = Interpreter::with_tensorflow_2().map_err(Status::failed_precondition)?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("checkpoint_tensorflow.py");
    let ourselves = std::env::current_exe().map_err(|error| Status::internal(error.to_string()))?;
    let works = ["save", "restore"];
    let mut samples: [[Samples; 2]; 2] = Default::default();
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        for (work, samples) in works.iter().zip(&mut samples) {
            for (side, samples) in ["theirs", "ours"].iter().zip(samples) {
                let directory = directory.join("checkpoints").join(side);
                let mut command = match *side {
                    "ours" => Command::new(&ourselves),
                    _ => Command::new(tensorflow.program()),
                };
                match *side {
                    "ours" => command.arg("checkpoint-once"),
                    _ => command.arg(&script),
                };
                let measured = measured(command.arg(&directory).arg(work))?;
                samples.seconds.push(measured["seconds"].as_f64().unwrap_or(f64::NAN));
                samples.more_megabytes.push(measured["more_bytes"].as_f64().unwrap_or(f64::NAN) / 1e6);
            }
        }
    }
    // A gibibyte is not left behind for each side; if it cannot be removed, it is in the way of nobody.
    let _ = std::fs::remove_dir_all(directory.join("checkpoints"));
    println!(
        "| 1 GiB of variables | TensorFlow | Tensorfleet | × | TensorFlow, more memory | Tensorfleet, more memory |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    for (work, [theirs, ours]) in works.iter().zip(&mut samples) {
        let speed = |samples: &mut Samples| MODEL_BYTES / 1e6 / median(&mut samples.seconds);
        let (their_speed, our_speed) = (speed(theirs), speed(ours));
        println!(
            "| {work} | {their_speed:.0} MB/s | {our_speed:.0} MB/s | {:.1} | {:.0} MB | {:.0} MB |",
            our_speed / their_speed,
            median(&mut theirs.more_megabytes),
            median(&mut ours.more_megabytes)
        );
    }
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn measured(command: &mut Command) -> Result<Value> {
    let output = command.output().map_err(|error| Status::internal(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().rev().find_map(|line| serde_json::from_str(line).ok());
    line.ok_or_else(|| Status::internal(format!("{text}{}", String::from_utf8_lossy(&output.stderr))))
}

/// Saves or restores once, and prints how long it took and how much memory.
pub(crate) fn measure_once(directory: &str, work: &str) -> Result<()> {
    let graph = Graph::new();
    for number in 0..VARIABLES {
        let value = graph.fill(graph.constant([ROWS, COLUMNS]), number as f32)?;
        graph.variable(&format!("v{number:02}"), value);
    }
    let saver = Saver::new(&graph)?;
    let initialise = graph.global_variables_initializer()?;
    let session = Session::new(&graph);
    let prefix = format!("{directory}/model");
    let variables = match work {
        "save" => {
            session.run(&initialise)?;
            0.0
        }
        _ => MODEL_BYTES,
    };
    reset_peak()?;
    let before = resident_bytes("VmRSS:")?;
    let start = Instant::now();
    match work {
        "save" => drop(saver.save(&session, &prefix, None)?),
        "restore" => saver.restore(&session, &prefix)?,
        other => return Err(Status::invalid_argument(format!("'{other}' is neither save nor restore"))),
    }
    let seconds = start.elapsed().as_secs_f64();
    let more = resident_bytes("VmHWM:")? - before - variables;
    println!("{}", json!({ "seconds": seconds, "more_bytes": more }));
    Ok(())
}

/// Lets the peak of the resident memory begin anew.
fn reset_peak() -> Result<()> {
    let reset = std::fs::OpenOptions::new().write(true).open("/proc/self/clear_refs");
    reset.and_then(|mut file| file.write_all(b"5")).map_err(|error| Status::internal(error.to_string()))
}

fn resident_bytes(field: &str) -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    Ok(kib.ok_or_else(|| Status::internal(format!("/proc/self/status has no {field}")))? * 1024.0)
}
