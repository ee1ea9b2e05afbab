//! `tensorfleet-benches embeddings DIR ROUNDS`: training with large embedding tables on clusters of processes of both kinds.
//!
//! The program is `examples/wide_and_deep.rs`, and `wide_and_deep_tensorflow.py`, which is the same in TensorFlow: two ps that have
//! the tables, two workers that ask for rows and send gradients of rows. Then, ours alone, a table of 4 GB. Prints a Markdown table.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tensorfleet_core::{Result, Status};
use tensorfleet_tests::cluster::free_addresses;
use tensorfleet_tests::python::Interpreter;

use crate::processes::{Process, middle};

const PS: usize = 2;
const WORKERS: usize = 2;
/// Lines of the chief, one for each [`Model::report_steps`] steps, before the clock starts.
const WARM_UP_LINES: usize = 2;
/// How long steps count.
const MEASURED: Duration = Duration::from_secs(8);
/// How long a worker may wait for the tables to be filled with random numbers.
const WAIT_SECONDS: usize = 900;
/// Batches that are made at the start and taken in turn.
const REPEATED_BATCHES: usize = 50;

/// What is trained.
#[derive(Clone, Copy)]
struct Model {
    rows: usize,
    embedding_size: usize,
    batch_size: usize,
    report_steps: usize,
}

/// Ten million rows.
const LARGE: Model = Model { rows: 10_000_000, embedding_size: 16, batch_size: 512, report_steps: 20 };
/// 4 GiB of embeddings, and as much again of Adagrad's accumulators.
const HUGE: Model = Model { rows: 16 << 20, embedding_size: 64, batch_size: 512, report_steps: 20 };

impl Model {
    /// Bytes of the tables and their slots: an embedding has one of Adagrad, a weight two of Ftrl.
    fn table_bytes(self) -> f64 {
        (self.rows * (2 * self.embedding_size + 3) * size_of::<f32>()) as f64
    }
}

/// One of the numbers of a run.
type Figure = fn(&Measured) -> f64;

/// What one run of a cluster showed.
struct Measured {
    /// Of both workers together.
    examples_per_second: f64,
    /// Of all four processes.
    processor_seconds_per_example: f64,
    /// Of both ps, when the clock stopped.
    resident_bytes: f64,
    peak_bytes: f64,
}

/// Measures everything and prints the table.
pub(crate) fn run(rounds: usize) -> Result<()> {
    let (ours, theirs) = (Program::ours()?, Program::tensorflow()?);
    let (mut our_runs, mut their_runs) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        our_runs.push(ours.measure(LARGE)?);
        their_runs.push(theirs.measure(LARGE)?);
    }
    let both = |of: Figure| [&their_runs, &our_runs].map(|runs| middle(runs.iter().map(of).collect()));
    let mut text = format!(
        "| {PS} ps, {WORKERS} workers, {} rows of {} floats | TensorFlow | Tensorfleet | × |\n|---|---:|---:|---:|\n",
        LARGE.rows, LARGE.embedding_size
    );
    let [theirs_rate, ours_rate] = both(|run| run.examples_per_second);
    let _ =
        writeln!(text, "| examples/s | {theirs_rate:.0} | {ours_rate:.0} | {:.1} |", ours_rate / theirs_rate);
    let [theirs_cpu, ours_cpu] = both(|run| run.processor_seconds_per_example * 1e6);
    let _ = writeln!(
        text,
        "| processor time per example, µs | {theirs_cpu:.1} | {ours_cpu:.1} | {:.1} |",
        theirs_cpu / ours_cpu
    );
    let of_tables: [(&str, Figure); 2] =
        [("memory", |run| run.resident_bytes), ("peak memory", |run| run.peak_bytes)];
    for (name, of) in of_tables {
        let [theirs, ours] = both(of).map(|bytes| bytes / LARGE.table_bytes());
        let _ = writeln!(
            text,
            "| {name} of the ps, tables and slots = 1 | {theirs:.2} | {ours:.2} | {:.1} |",
            theirs / ours
        );
    }
    // What has been measured is not lost if the machine is too small for the rest.
    print!("{text}");
    text.clear();
    eprintln!("a table of 4 GiB");
    let huge = ours.measure(HUGE)?;
    for (name, of) in of_tables {
        let share = of(&huge) / HUGE.table_bytes();
        let _ = writeln!(
            text,
            "| {name} of the ps with a table of 4 GiB, tables and slots = 1 | | {share:.2} | |"
        );
    }
    print!("{text}");
    Ok(())
}

/// The training program of one side.
struct Program {
    words: Vec<PathBuf>,
    /// Flags that the other side does not know.
    more_flags: Vec<String>,
}

impl Program {
    fn ours() -> Result<Program> {
        let own = std::env::current_exe().map_err(|error| Status::internal(error.to_string()))?;
        let program = own.with_file_name("examples").join("wide_and_deep");
        match program.is_file() {
            true => {
                Ok(Program { words: vec![program], more_flags: vec![format!("--wait_secs={WAIT_SECONDS}")] })
            }
            false => Err(Status::not_found(format!(
                "there is no {}: `cargo xtask bench --embeddings` builds it",
                program.display()
            ))),
        }
    }

    fn tensorflow() -> Result<Program> {
        let python = Interpreter::with_tensorflow_2().map_err(Status::failed_precondition)?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("wide_and_deep_tensorflow.py");
        Ok(Program { words: vec![python.program().to_path_buf(), script], more_flags: Vec::new() })
    }

    fn measure(&self, model: Model) -> Result<Measured> {
        let failed = |error: std::io::Error| Status::internal(format!("the cluster: {error}"));
        let addresses = free_addresses(PS + WORKERS).map_err(failed)?;
        let hosts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let start = |job: &str, index: usize| -> Result<Process> {
            let mut command = Command::new(&self.words[0]);
            command.args(&self.words[1..]);
            command.args([
                format!("--ps_hosts={}", hosts[..PS].join(",")),
                format!("--worker_hosts={}", hosts[PS..].join(",")),
                format!("--job_name={job}"),
                format!("--task_index={index}"),
                format!("--train_steps={}", i32::MAX),
                format!("--batch_size={}", model.batch_size),
                format!("--embedding_size={}", model.embedding_size),
                format!("--rows={}", model.rows),
                format!("--repeat_batches={REPEATED_BATCHES}"),
                format!("--report_steps={}", model.report_steps),
            ]);
            command.args(&self.more_flags);
            let is_read = job == "worker" && index == 0;
            command.stdout(if is_read { Stdio::piped() } else { Stdio::null() });
            command.stdin(Stdio::null()).stderr(Stdio::null());
            command.spawn().map(Process).map_err(failed)
        };
        let mut processes = Vec::new();
        for (job, count) in [("ps", PS), ("worker", WORKERS)] {
            for index in 0..count {
                processes.push(start(job, index)?);
            }
        }
        let output =
            processes[PS].0.stdout.take().ok_or_else(|| Status::internal("the chief has no output"))?;
        let used = |processes: &[Process]| processes.iter().map(Process::processor_seconds).sum::<f64>();
        let mut first = None;
        for (index, step) in BufReader::new(output)
            .lines()
            .map_while(std::io::Result::ok)
            .filter_map(|line| step_of(&line))
            .enumerate()
        {
            match first {
                None if index >= WARM_UP_LINES => first = Some((Instant::now(), step, used(&processes))),
                Some((begin, from, used_before)) if begin.elapsed() >= MEASURED => {
                    let examples = (step - from) * model.batch_size as f64;
                    let of_ps = |line: &str| processes[..PS].iter().map(|ps| ps.memory_bytes(line)).sum();
                    return Ok(Measured {
                        examples_per_second: examples / begin.elapsed().as_secs_f64(),
                        processor_seconds_per_example: (used(&processes) - used_before) / examples,
                        resident_bytes: of_ps("VmRSS"),
                        peak_bytes: of_ps("VmHWM"),
                    });
                }
                _ => {}
            }
        }
        Err(Status::internal("the training program ended before it was measured"))
    }
}

/// The global step that a line such as `Worker 0: step 20 (global step 41), loss of the last 20 = 0.5` tells.
fn step_of(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once("(global step ")?;
    rest.split_once(')')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_off_the_lines_of_both_programs() {
        assert_eq!(step_of("Worker 0: step 20 (global step 41), loss of the last 20 = 0.5"), Some(41.0));
        assert_eq!(step_of("Trained 20 step(s) in 1.00 s"), None);
    }
}
