//! `cargo xtask bench`: the same graphs measured here and in TensorFlow, by turns, and one table of both.
//!
//! The two sides take turns several times, so that whatever else the machine does disturbs both alike; the median
//! over the turns counts. TensorFlow lives in a virtual environment that `cargo xtask python` makes; where there
//! is no Python, our side is measured alone. `TENSORFLEET_BENCH_PYTHON` names an interpreter that has TensorFlow.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::arguments::Arguments;
use crate::marked_text::write_between;
use crate::{Outcome, python};

const DEFAULT_ROUNDS: u32 = 5;
/// The table stands between these lines of `benches/README.md`.
const BEGIN: &str = "<!-- measured: begin -->";
const END: &str = "<!-- measured: end -->";
/// Comparisons that `tensorfleet-benches` makes itself, and between which lines of the file their tables stand.
const COMPARISONS: [(&str, [&str; 2]); 5] = [
    ("cluster", ["<!-- clusters: begin -->", "<!-- clusters: end -->"]),
    ("checkpoint", ["<!-- checkpoints: begin -->", "<!-- checkpoints: end -->"]),
    ("training", ["<!-- training: begin -->", "<!-- training: end -->"]),
    ("embeddings", ["<!-- embeddings: begin -->", "<!-- embeddings: end -->"]),
    ("input", ["<!-- input: begin -->", "<!-- input: end -->"]),
];

/// The same for the comparison of the Python packages, which is a Python program.
const PYTHON_MARKS: [&str; 2] = ["<!-- python: begin -->", "<!-- python: end -->"];

/// The command.
pub(crate) fn run(mut arguments: Arguments, root: &Path) -> Outcome {
    let rounds = arguments.number("--rounds")?.unwrap_or(DEFAULT_ROUNDS).max(1);
    let record = arguments.flag("--record");
    let comparison = COMPARISONS.into_iter().find(|(name, _)| arguments.flag(&format!("--{name}")));
    let is_python = arguments.flag("--python");
    let filter = arguments.positional().unwrap_or_default();
    arguments.finish()?;
    if is_python {
        return compare_packages(root, rounds, &filter, record);
    }

    build(root)?;
    let ours = root.join("target/dist/tensorfleet-benches");
    let files = root.join("target/bench");
    std::fs::create_dir_all(&files).map_err(|error| format!("{}: {error}", files.display()))?;
    if let Some((name, marks)) = comparison {
        return compare(root, &ours, &files, name, rounds, record.then_some(marks));
    }
    output(Command::new(&ours).arg("export").arg(&files))?;
    let python = match python_with_tensorflow() {
        Ok(python) => Some(python),
        Err(reason) => {
            eprintln!("TensorFlow is not measured: {reason}");
            None
        }
    };

    let mut samples = Samples::default();
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        samples.add(Side::Ours, &output(Command::new(&ours).arg("measure").arg(&filter))?)?;
        if let Some(python) = &python {
            let script = root.join("benches/measure_tensorflow.py");
            samples
                .add(Side::TensorFlow, &output(Command::new(python).arg(script).arg(&files).arg(&filter))?)?;
        }
    }
    let table = samples.table();
    print!("{table}");
    if record {
        let how = format!(
            "`cargo xtask bench --record --rounds {rounds}` on {}; medians of {rounds} rounds",
            machine()
        );
        write_between(&root.join("benches/README.md"), BEGIN, END, &format!("{how}.\n\n{table}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A comparison that `tensorfleet-benches` makes itself, since it starts processes of both sides. The table is written
/// between the marks, if there are any.
fn compare(
    root: &Path,
    ours: &Path,
    files: &Path,
    what: &str,
    rounds: u32,
    marks: Option<[&str; 2]>,
) -> Outcome {
    let python = python_with_tensorflow()?;
    let mut command = Command::new(ours);
    command.arg(what).arg(files).arg(rounds.to_string()).env("TENSORFLEET_TF2_PYTHON", python);
    let table = output(command.stderr(std::process::Stdio::inherit()))?;
    print!("{table}");
    if let Some([begin, end]) = marks {
        let how = format!("`cargo xtask bench --{what} --record --rounds {rounds}` on {}", machine());
        write_between(&root.join("benches/README.md"), begin, end, &format!("{how}.\n\n{table}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The Python packages of both, Python on both sides, with ours as it is shipped. A filtered table is not recorded.
fn compare_packages(root: &Path, rounds: u32, filter: &str, record: bool) -> Outcome {
    let (ours, theirs) = (python::bench_environment(root)?, python_with_tensorflow()?);
    let mut command = Command::new(&ours);
    command.arg(root.join("benches/python_package.py")).args(["--rounds", &rounds.to_string()]);
    command.arg("--ours").arg(&ours).arg("--tensorflow").arg(theirs).args(["--only", filter]);
    if let Some(old) = python::tensorflow_1()? {
        command.arg("--tensorflow1").arg(old);
    }
    let table = output(command.stderr(std::process::Stdio::inherit()))?;
    print!("{table}");
    if record && filter.is_empty() {
        let how = format!("`cargo xtask bench --python --record --rounds {rounds}` on {}", machine());
        let [begin, end] = PYTHON_MARKS;
        write_between(&root.join("benches/README.md"), begin, end, &format!("{how}.\n\n{table}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn build(root: &Path) -> Result<(), String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args([
            "build",
            "--profile",
            "dist",
            "--package",
            "tensorfleet-benches",
            "--package",
            "tensorfleet-cli",
        ])
        .args(["--package", "tensorfleet-examples", "--lib", "--bins", "--example", "mnist_replica"])
        .args(["--example", "wide_and_deep"])
        .current_dir(root);
    match cargo.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the build failed: {status}")),
        Err(error) => Err(format!("cargo: {error}")),
    }
}

fn output(command: &mut Command) -> Result<String, String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{shown}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{shown}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn python_with_tensorflow() -> Result<PathBuf, String> {
    match std::env::var_os("TENSORFLEET_BENCH_PYTHON") {
        Some(python) => Ok(python.into()),
        None => python::tensorflow_2(),
    }
}

/// Who was measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Ours,
    TensorFlow,
}

/// Seconds per step, of every round, by workload, side and way to run (`run` or `callable`).
#[derive(Default)]
struct Samples {
    order: Vec<String>,
    seconds: BTreeMap<(String, Side, &'static str), Vec<f64>>,
    errors: BTreeMap<String, String>,
}

impl Samples {
    fn add(&mut self, side: Side, lines: &str) -> Result<(), String> {
        for line in lines.lines() {
            let value: serde_json::Value = serde_json::from_str(line)
                .map_err(|error| format!("a line that is no measurement: {line}: {error}"))?;
            let name = value["name"].as_str().ok_or_else(|| format!("a measurement has no name: {line}"))?;
            if !self.order.iter().any(|known| known == name) {
                self.order.push(name.to_string());
            }
            if let Some(error) = value["error"].as_str() {
                self.errors.insert(name.to_string(), error.to_string());
            }
            for way in ["run", "callable"] {
                if let Some(seconds) = value[way].as_f64() {
                    self.seconds.entry((name.to_string(), side, way)).or_default().push(seconds);
                }
            }
        }
        Ok(())
    }

    fn median(&self, name: &str, side: Side, way: &'static str) -> Option<f64> {
        let mut seconds = self.seconds.get(&(name.to_string(), side, way))?.clone();
        seconds.sort_by(f64::total_cmp);
        seconds.get(seconds.len() / 2).copied()
    }

    /// A Markdown table, TensorFlow's time over ours in the columns `×`.
    fn table(&self) -> String {
        let mut text = String::from(
            "| step | TensorFlow run | ours run | × | TensorFlow callable | ours callable | × |\n|---|---:|---:|---:|---:|---:|---:|\n",
        );
        for name in &self.order {
            let _ = write!(text, "| {name} |");
            for way in ["run", "callable"] {
                let theirs = self.median(name, Side::TensorFlow, way);
                let ours = self.median(name, Side::Ours, way);
                let ratio = theirs.zip(ours).map(|(theirs, ours)| format!("{:.2}", theirs / ours));
                let cells = [theirs.map(duration), ours.map(duration), ratio].map(Option::unwrap_or_default);
                let _ = write!(text, " {} | {} | {} |", cells[0], cells[1], cells[2]);
            }
            text.push('\n');
        }
        for (name, error) in &self.errors {
            let first = error.lines().next().unwrap_or_default();
            let _ = writeln!(text, "\n`{name}` does not run here: {first}");
        }
        text
    }
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

/// The processor's name and how many there are.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name));
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{count} × {}", model.unwrap_or("unknown processor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_both_sides_meet_in_one_row() {
        let mut samples = Samples::default();
        for seconds in ["0.001", "0.009", "0.002"] {
            samples
                .add(Side::Ours, &format!(r#"{{"name": "a", "run": {seconds}, "callable": 0.001}}"#))
                .unwrap();
            samples.add(Side::TensorFlow, r#"{"name": "a", "run": 0.004, "callable": 0.003}"#).unwrap();
        }
        let table = samples.table();
        assert!(table.contains("| a | 4.00 ms | 2.00 ms | 2.00 | 3.00 ms | 1.00 ms | 3.00 |"), "{table}");
    }

    #[test]
    fn a_side_that_was_not_measured_leaves_its_cells_empty() {
        let mut samples = Samples::default();
        samples.add(Side::Ours, r#"{"name": "a", "run": 0.0000015, "callable": 0.000001}"#).unwrap();
        samples.add(Side::Ours, r#"{"name": "b", "error": "no such op\nmore"}"#).unwrap();
        let table = samples.table();
        assert!(
            table.contains("| a |  | 1.5 µs |  |") && table.contains("`b` does not run here: no such op\n"),
            "{table}"
        );
        assert!(samples.add(Side::Ours, "nonsense").is_err());
    }
}
