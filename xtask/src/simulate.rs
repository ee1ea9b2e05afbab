//! `cargo xtask simulate`: plays clusters with faults drawn from seeds, each in a process of its own, and says which went
//! wrong.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::arguments::Arguments;

/// How many seeds every change is tried with.
pub(crate) const SEEDS_OF_A_CHANGE: u64 = 100;
/// A simulation takes a fraction of a second. One that takes this long does something without end at one moment.
const LONGEST: Duration = Duration::from_secs(120);
/// Every so many seeds one is played twice: both times the same must happen.
const TWICE_EVERY: u64 = 25;
/// How many failures are shown whole; the others are named.
const SHOWN: usize = 3;

/// The command.
pub(crate) fn run(mut arguments: Arguments, root: &Path) -> Outcome {
    let (seed, seeds) = (arguments.number("--seed")?, arguments.number("--seeds")?);
    let first = arguments.number("--from")?.unwrap_or(1);
    let is_verbose = arguments.flag("--verbose");
    arguments.finish()?;
    let simulator = build(root)?;
    if let Some(seed) = seed {
        let mut command = Command::new(simulator);
        command.args(["--seed", &seed.to_string()]).args(is_verbose.then_some("--verbose"));
        let status = command.status().map_err(|error| format!("the simulation: {error}"))?;
        return Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let seeds = seeds.map_or(SEEDS_OF_A_CHANGE, u64::from);
    Ok(if play(&simulator, u64::from(first), seeds)? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The stage of `cargo xtask test`.
pub(crate) fn report(root: &Path) -> Result<bool, String> {
    play(&build(root)?, 1, SEEDS_OF_A_CHANGE)
}

/// Builds the simulator; where it is.
fn build(root: &Path) -> Result<PathBuf, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", "tensorfleet-simulation", "--message-format", "json"]);
    let output = cargo.current_dir(root).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo build: {error}"))?;
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut program = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let program = message["executable"].as_str()?;
        (message["target"]["name"] == "simulate").then(|| PathBuf::from(program))
    });
    program
        .next_back()
        .filter(|_| output.status.success())
        .ok_or_else(|| "the simulator cannot be built".to_string())
}

/// Plays seeds on all cores; whether all went well.
fn play(simulator: &Path, first: u64, seeds: u64) -> Result<bool, String> {
    let (next, failed) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    let begin = Instant::now();
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= first.saturating_add(seeds) {
                        return;
                    }
                    if let Err(reason) = play_one(simulator, seed) {
                        let mut failed = failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        if failed.len() < SHOWN {
                            println!("{reason}");
                        }
                        failed.push(seed);
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    failed.sort_unstable();
    println!(
        "{} of {seeds} simulations went well, seeds {first} to {}, in {:.0} s",
        seeds - failed.len() as u64,
        first.saturating_add(seeds).saturating_sub(1),
        begin.elapsed().as_secs_f64()
    );
    if !failed.is_empty() {
        println!("failed: {failed:?}; `cargo xtask simulate --seed N` plays one of them again");
    }
    Ok(failed.is_empty())
}

fn play_one(simulator: &Path, seed: u64) -> Result<(), String> {
    let (went_well, told) = output_of(simulator, seed)?;
    if !went_well {
        return Err(told);
    }
    if seed.is_multiple_of(TWICE_EVERY) && output_of(simulator, seed)?.1 != told {
        return Err(format!("seed {seed}: two runs differ: something in it is not of the simulation"));
    }
    Ok(())
}

/// Plays a seed; whether it went well, and what it told.
fn output_of(simulator: &Path, seed: u64) -> Result<(bool, String), String> {
    let mut command = Command::new(simulator);
    command.args(["--seed", &seed.to_string()]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("seed {seed}: {error}"))?;
    let Some(mut pipe) = child.stdout.take() else { return Err("a child without a pipe".into()) };
    let reader = std::thread::spawn(move || {
        let mut told = String::new();
        pipe.read_to_string(&mut told).map(|_| told)
    });
    let begin = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| format!("seed {seed}: {error}"))? {
            Some(status) => break status,
            None if begin.elapsed() > LONGEST => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("seed {seed}: no end after {} s", LONGEST.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let told = reader.join().map_err(|_| format!("seed {seed}: its output cannot be read"))?;
    Ok((status.success(), told.map_err(|error| format!("seed {seed}: {error}"))?))
}
