//! `tensorfleet-benches input DIR ROUNDS`: pipelines of tf.data, the same graphs in a session of ours and of TensorFlow.
//!
//! `input_tensorflow.py` builds the graphs, since TensorFlow's own library is what writes such pipelines. An element is taken by
//! running the node that takes it, for nothing but its effect: neither side pays for handing tensors to a program. Prints a
//! Markdown table.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tensorfleet_core::{Result, Status};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::GraphDef;
use tensorfleet_runtime::{DirectSession, RunOptions, SessionOptions, Task};
use tensorfleet_tests::python::Interpreter;

use crate::processes::{middle, own_processor_seconds};

/// How long elements are taken before they count, and how long they count. `input_tensorflow.py` has the same numbers.
const WARM_UP: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(3);

/// Measures everything and prints the table.
pub(crate) fn run(directory: &Path, rounds: usize) -> Result<()> {
    let python = Interpreter::with_tensorflow_2().map_err(Status::failed_precondition)?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("input_tensorflow.py");
    let tensorflow = |what: &str| lines(Command::new(python.program()).arg(&script).arg(what).arg(directory));
    let own = std::env::current_exe().map_err(|error| Status::internal(error.to_string()))?;
    tensorflow("build")?;
    let mut rounds_of = [Vec::new(), Vec::new()];
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        rounds_of[1].push(lines(Command::new(&own).arg("input-once").arg(directory))?);
        rounds_of[0].push(tensorflow("measure")?);
    }
    print!("{}", table(&rounds_of));
    Ok(())
}

fn table([theirs, ours]: &[Vec<Vec<Value>>; 2]) -> String {
    let mut text = String::from(
        "| records/s | TensorFlow | Tensorfleet | × | processor time per record: TensorFlow | Tensorfleet | × |\n\
         |---|---:|---:|---:|---:|---:|---:|\n",
    );
    for line in ours.first().into_iter().flatten() {
        let name = line["name"].as_str().unwrap_or_default();
        let of = |side: &[Vec<Value>], what: &str| {
            let lines = side.iter().flatten().filter(|line| line["name"] == name);
            middle(lines.filter_map(|line| line[what].as_f64()).collect())
        };
        let [theirs_rate, ours_rate] = [theirs, ours].map(|side| of(side, "records_per_second"));
        let [theirs_cpu, ours_cpu] =
            [theirs, ours].map(|side| of(side, "processor_seconds_per_record") * 1e6);
        let _ = writeln!(
            text,
            "| {name} | {theirs_rate:.0} | {ours_rate:.0} | {:.2} | {theirs_cpu:.2} µs | {ours_cpu:.2} µs | {:.2} |",
            ours_rate / theirs_rate,
            theirs_cpu / ours_cpu
        );
    }
    text
}

/// The JSON lines that a program prints.
fn lines(command: &mut Command) -> Result<Vec<Value>> {
    let shown = format!("{command:?}");
    let failed = |error: &dyn std::fmt::Display| Status::internal(format!("{shown}: {error}"));
    let output = command.output().map_err(|error| failed(&error))?;
    if !output.status.success() {
        return Err(failed(&String::from_utf8_lossy(&output.stderr)));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).map_err(|error| failed(&error))).collect()
}

/// Measures our side once: one JSON line for each pipeline.
pub(crate) fn measure_once(directory: &Path) -> Result<()> {
    let read = |name: &str| {
        let path = directory.join(name);
        std::fs::read(&path).map_err(|error| Status::not_found(format!("{}: {error}", path.display())))
    };
    let bad = |what: String| Status::data_loss(format!("input.json: {what}"));
    let listed: Vec<Value> =
        serde_json::from_slice(&read("input.json")?).map_err(|error| bad(error.to_string()))?;
    for entry in &listed {
        let text = |key: &str| entry[key].as_str().ok_or_else(|| bad(format!("an entry has no '{key}'")));
        let graph = GraphDef::decode(&read(text("graph")?)?[..]).map_err(|error| bad(error.to_string()))?;
        let records =
            entry["records"].as_u64().ok_or_else(|| bad("an entry has no 'records'".to_string()))?;
        let session = DirectSession::new(Task::local(), SessionOptions::default());
        session.extend(graph)?;
        let options = RunOptions::default();
        session.run(&[], &[], &[text("init")?], &options)?;
        let next = session.make_callable(&[], &[], &[text("next")?])?;
        let steps = |duration: Duration| -> Result<(u64, f64)> {
            let (begin, mut count) = (Instant::now(), 0);
            while begin.elapsed() < duration {
                next.run(Vec::new(), &options)?;
                count += 1;
            }
            Ok((count, begin.elapsed().as_secs_f64()))
        };
        steps(WARM_UP)?;
        let used = own_processor_seconds();
        let (count, seconds) = steps(MEASURED)?;
        let used = own_processor_seconds() - used;
        let records = (count * records) as f64;
        println!(
            "{}",
            json!({
                "name": text("name")?,
                "records_per_second": records / seconds,
                "processor_seconds_per_record": used / records,
            })
        );
        session.close()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rates_of_both_sides_meet_in_one_row() {
        let line = |rate: f64| {
            vec![
                json!({ "name": "a", "records_per_second": rate, "processor_seconds_per_record": 2.0 / rate }),
            ]
        };
        let table = table(&[vec![line(1e6)], vec![line(3e6), line(2e6), line(2e6)]]);
        assert!(table.contains("| a | 1000000 | 2000000 | 2.00 | 2.00 µs | 1.00 µs | 2.00 |"), "{table}");
    }
}
