//! `tensorfleet-benches training DIR ROUNDS`: a whole training program on clusters of processes of both kinds, by turns.
//!
//! The program is `examples/mnist_replica.rs`, and `mnist_tensorflow.py`, which is the same in TensorFlow: one ps and two
//! workers, each a process, asynchronous and synchronous. The rate is read off the lines that worker 0 prints for each step.
//! Prints a Markdown table.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};

use tensorfleet_core::{Result, Status};
use tensorfleet_tests::cluster::free_addresses;
use tensorfleet_tests::python::Interpreter;

use crate::processes::{Process, middle};

/// Global steps of a run: ten seconds or less on either side.
const THEIR_STEPS: u32 = 2_000;
const OUR_STEPS: u32 = 10_000;
/// Steps of worker 0 before the clock starts: plans are made, variables and buffers warm.
const WARM_UP: usize = 100;

/// Measures everything and prints the table.
pub(crate) fn run(rounds: usize) -> Result<()> {
    let ours = Program::ours()?;
    let theirs = Program::tensorflow()?;
    let mut text = String::from("| 1 ps, 2 workers | TensorFlow | Tensorfleet | × |\n|---|---:|---:|---:|\n");
    for (name, sync) in [("asynchronous, steps/s", false), ("synchronous, rounds/s", true)] {
        let (mut their_rates, mut our_rates) = (Vec::new(), Vec::new());
        for round in 1..=rounds {
            eprintln!("{name}: round {round} of {rounds}");
            our_rates.push(ours.measure(OUR_STEPS, sync)?);
            their_rates.push(theirs.measure(THEIR_STEPS, sync)?);
        }
        let (theirs, ours) = (middle(their_rates), middle(our_rates));
        let _ = writeln!(text, "| {name} | {theirs:.0} | {ours:.0} | {:.1} |", ours / theirs);
    }
    print!("{text}");
    Ok(())
}

/// The training program of one side.
struct Program {
    words: Vec<PathBuf>,
}

impl Program {
    fn ours() -> Result<Program> {
        let own = std::env::current_exe().map_err(|error| Status::internal(error.to_string()))?;
        let program = own.with_file_name("examples").join("mnist_replica");
        match program.is_file() {
            true => Ok(Program { words: vec![program] }),
            false => Err(Status::not_found(format!(
                "there is no {}: `cargo xtask bench --training` builds it",
                program.display()
            ))),
        }
    }

    fn tensorflow() -> Result<Program> {
        let python = Interpreter::with_tensorflow_2().map_err(Status::failed_precondition)?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("mnist_tensorflow.py");
        Ok(Program { words: vec![python.program().to_path_buf(), script] })
    }

    /// Global steps per second of a cluster, as its worker 0 sees them.
    fn measure(&self, steps: u32, sync: bool) -> Result<f64> {
        let failed = |error: std::io::Error| Status::internal(format!("the cluster: {error}"));
        let hosts: Vec<String> = free_addresses(3).map_err(failed)?.iter().map(ToString::to_string).collect();
        let start = |job: &str, index: usize| -> Result<Process> {
            let mut command = Command::new(&self.words[0]);
            command.args(&self.words[1..]);
            command.args([
                format!("--ps_hosts={}", hosts[0]),
                format!("--worker_hosts={},{}", hosts[1], hosts[2]),
                format!("--job_name={job}"),
                format!("--task_index={index}"),
                format!("--train_steps={steps}"),
                format!("--sync_replicas={sync}"),
                format!(
                    "--data_dir={}",
                    Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/mnist").display()
                ),
            ]);
            let is_read = job == "worker" && index == 0;
            command.stdout(if is_read { Stdio::piped() } else { Stdio::null() });
            command.stdin(Stdio::null()).stderr(Stdio::null());
            command.spawn().map(Process).map_err(failed)
        };
        let _ps = start("ps", 0)?;
        let _other = start("worker", 1)?;
        let mut chief = start("worker", 0)?;
        let output = chief.0.stdout.take().ok_or_else(|| Status::internal("the chief has no output"))?;
        rate(output)
    }
}

/// Steps per second from lines like `1700000000.25: Worker 0: training step 7 done (global step: 12)`.
fn rate(output: ChildStdout) -> Result<f64> {
    let (mut first, mut last) = (None, None);
    let lines = BufReader::new(output).lines().map_while(std::io::Result::ok);
    for (index, line) in lines.filter_map(|line| step_of(&line)).enumerate() {
        if index == WARM_UP {
            first = Some(line);
        }
        last = Some(line);
    }
    match (first, last) {
        (Some((begin, from)), Some((end, to))) if end > begin => Ok((to - from) / (end - begin)),
        _ => Err(Status::internal("the training program made too few steps to measure")),
    }
}

/// The time and the global step that a line tells.
fn step_of(line: &str) -> Option<(f64, f64)> {
    let (time, rest) = line.split_once(": Worker ")?;
    let (_, step) = rest.split_once("(global step: ")?;
    Some((time.parse().ok()?, step.trim_end_matches(')').parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_steps_are_read_off_the_lines_of_both_programs() {
        let line = "1700000000.25: Worker 0: training step 7 done (global step: 12)";
        assert_eq!(step_of(line), Some((1700000000.25, 12.0)));
        assert_eq!(step_of("Training begins @ 1700000000.25"), None);
    }
}
