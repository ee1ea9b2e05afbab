//! [`Counts`]: what the fuzzers have tried so far, as the table in `fuzz/README.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The table stands between these lines.
const BEGIN: &str = "<!-- counts: begin -->";
const END: &str = "<!-- counts: end -->";

/// What one run of a fuzzer came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) inputs: u64,
    pub(super) edges: u64,
    pub(super) features: u64,
    pub(super) findings: u32,
}

impl Run {
    /// From what libFuzzer prints.
    pub(super) fn from_log(text: &str) -> Run {
        let mut run = Run::default();
        for line in text.lines() {
            if let Some(inputs) = line.strip_prefix("stat::number_of_executed_units:") {
                run.inputs = inputs.trim().parse().unwrap_or(run.inputs);
            } else if line.starts_with('#') {
                run.edges = number_after(line, "cov: ").unwrap_or(run.edges);
                run.features = number_after(line, "ft: ").unwrap_or(run.features);
                // What ends without its statistics has tried at least this many.
                run.inputs = run.inputs.max(number_after(line, "#").unwrap_or(0));
            }
        }
        run
    }
}

fn number_after(line: &str, word: &str) -> Option<u64> {
    let rest = &line[line.find(word)? + word.len()..];
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// A row of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Row {
    inputs: u64,
    edges: u64,
    features: u64,
    findings: u32,
}

/// All runs so far, by target.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Counts(BTreeMap<String, Row>);

impl Counts {
    /// From the table.
    pub(super) fn read(root: &Path) -> Result<Counts, String> {
        let (_, table, _) = parts(&text(root)?)?;
        Ok(Counts::parse(&table))
    }

    fn parse(table: &str) -> Counts {
        let row = |line: &str| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, target, inputs, edges, features, findings, _] = cells[..] else { return None };
            let number = |cell: &str| cell.replace(' ', "").parse::<u64>().ok();
            let row = Row {
                inputs: number(inputs)?,
                edges: number(edges)?,
                features: number(features)?,
                findings: u32::try_from(number(findings)?).ok()?,
            };
            (target != "all").then(|| (target.trim_matches('`').to_string(), row))
        };
        Counts(table.lines().filter_map(row).collect())
    }

    /// Counts a run.
    pub(super) fn add(&mut self, target: &str, run: &Run) {
        let row = self.0.entry(target.to_string()).or_default();
        row.inputs += run.inputs;
        row.findings += run.findings;
        // A run that ends early has not seen all of its corpus.
        row.edges = row.edges.max(run.edges);
        row.features = row.features.max(run.features);
    }

    /// The rows of these targets.
    pub(super) fn table(&self, targets: &[String]) -> String {
        let mut table =
            String::from("| target | inputs | edges | features | findings |\n|---|---:|---:|---:|---:|\n");
        for (target, row) in self.0.iter().filter(|(target, _)| targets.contains(target)) {
            put_row(&mut table, &format!("`{target}`"), row);
        }
        table
    }

    /// Writes the table of all targets, with their sum.
    pub(super) fn write(&self, root: &Path) -> Result<(), String> {
        let (before, _, after) = parts(&text(root)?)?;
        let mut table = self.table(&self.0.keys().cloned().collect::<Vec<_>>());
        let mut all = Row::default();
        for row in self.0.values() {
            all.inputs += row.inputs;
            all.edges += row.edges;
            all.features += row.features;
            all.findings += row.findings;
        }
        put_row(&mut table, "all", &all);
        let path = readme(root);
        fs::write(&path, format!("{before}{BEGIN}\n{table}{END}{after}"))
            .map_err(|error| format!("{}: {error}", path.display()))
    }
}

fn put_row(table: &mut String, name: &str, row: &Row) {
    let Row { inputs, edges, features, findings } = row;
    // Writing to a string does not fail.
    let _ = writeln!(
        table,
        "| {name} | {} | {} | {} | {findings} |",
        spaced(*inputs),
        spaced(*edges),
        spaced(*features)
    );
}

/// Digits in groups of three.
fn spaced(number: u64) -> String {
    let digits = number.to_string();
    let mut spaced = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            spaced.push(' ');
        }
        spaced.push(digit);
    }
    spaced
}

fn readme(root: &Path) -> PathBuf {
    root.join("fuzz/README.md")
}

fn text(root: &Path) -> Result<String, String> {
    let path = readme(root);
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// What is before the table, the table, and what is after it.
fn parts(text: &str) -> Result<(String, String, String), String> {
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (table, after) = rest.split_once(END)?;
        Some((before.to_string(), table.to_string(), after.to_string()))
    });
    parts.ok_or_else(|| format!("fuzz/README.md has no lines {BEGIN} and {END}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_and_the_statistics_of_a_run_count() {
        let log = "#2\tINITED cov: 9 ft: 10 corp: 1/1b\n#70\tNEW    cov: 11 ft: 12 corp: 2/5b lim: 4\n\
                   stat::number_of_executed_units: 1000\n";
        assert_eq!(Run::from_log(log), Run { inputs: 1000, edges: 11, features: 12, findings: 0 });
        assert_eq!(Run::from_log("#70\tNEW    cov: 11 ft: 12").inputs, 70);
        assert_eq!(Run::from_log("nothing"), Run::default());
    }

    #[test]
    fn runs_are_added_to_the_table_they_are_read_from() {
        let mut counts = Counts::parse("| `a` | 1 234 567 | 8 | 9 | 1 |\n| all | 1 234 567 | 8 | 9 | 1 |\n");
        counts.add("a", &Run { inputs: 1_000_000, edges: 7, features: 20, findings: 0 });
        counts.add("b", &Run { inputs: 5, edges: 1, features: 1, findings: 1 });
        let table = counts.table(&["a".to_string(), "b".to_string()]);
        assert!(table.contains("| `a` | 2 234 567 | 8 | 20 | 1 |"), "{table}");
        assert_eq!(Counts::parse(&table), counts);
    }
}
