//! A set of cases: choosing some, running them side by side, and tabulating what came of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use tensorfleet_core::{Result, Status};

use crate::backend::Backend;
use crate::case::Case;
use crate::runner::{Outcome, STEP_LIMIT, run_case};

/// Which cases to run; everything unset lets all pass.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only this tier.
    pub tier: Option<u32>,
    /// Only this family.
    pub family: Option<String>,
    /// Only names that contain this.
    pub name: Option<String>,
}

impl Filter {
    /// Whether a case passes.
    pub fn admits(&self, case: &Case) -> bool {
        self.tier.is_none_or(|tier| case.tier == tier)
            && self.family.as_ref().is_none_or(|family| case.family == *family)
            && self.name.as_ref().is_none_or(|part| case.name.contains(&**part))
    }
}

/// Reads all cases in `FAMILY/CASE` directories below `root`, by name. `root` may also be one family or one case.
pub fn load_directory(root: &Path) -> Result<Vec<Case>> {
    let mut found = Vec::new();
    let mut levels = vec![root.to_path_buf()];
    for _ in 0..3 {
        let mut below = Vec::new();
        for directory in levels {
            if directory.join("case.json").is_file() {
                found.push(directory);
                continue;
            }
            let context = |error| Status::not_found(format!("{}: {error}", directory.display()));
            for entry in directory.read_dir().map_err(context)? {
                let path = entry.map_err(context)?.path();
                below.extend(path.is_dir().then_some(path));
            }
        }
        levels = below;
    }
    found.sort();
    found.iter().map(|directory| Case::load(directory)).collect()
}

/// What came of one case.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// The case.
    pub case: Arc<Case>,
    /// What came of it.
    pub outcome: Outcome,
    /// How long it took.
    pub duration: Duration,
}

/// What came of many cases, by name.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// One result for each case.
    pub results: Vec<CaseResult>,
}

/// Runs cases on a few threads and tells `progress` about each one that ends.
///
/// Many cases mostly wait for a step to block, so there are a few more threads than processors.
pub fn run_all(
    backend: Arc<dyn Backend>,
    cases: Vec<Arc<Case>>,
    mut progress: impl FnMut(&CaseResult),
) -> Report {
    let threads = thread::available_parallelism().map_or(2, usize::from) + 2;
    let next = AtomicUsize::new(0);
    let (sender, received) = channel();
    let mut results = thread::scope(|scope| {
        for _ in 0..threads.min(cases.len()) {
            let (sender, next, cases, backend) = (sender.clone(), &next, &cases, &backend);
            scope.spawn(move || {
                while let Some(case) = cases.get(next.fetch_add(1, Relaxed)) {
                    let begin = Instant::now();
                    let outcome = run_case(backend, case, STEP_LIMIT);
                    let result = CaseResult { case: case.clone(), outcome, duration: begin.elapsed() };
                    if sender.send(result).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut results = Vec::with_capacity(cases.len());
        for result in received {
            progress(&result);
            results.push(result);
        }
        results
    });
    results.sort_by(|a, b| a.case.name.cmp(&b.case.name));
    Report { results }
}

/// How many cases passed, failed and were skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cases with every answer right.
    pub passed: usize,
    /// Cases with a wrong answer.
    pub failed: usize,
    /// Cases the backend cannot run.
    pub skipped: usize,
}

impl Counts {
    fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Skipped(_) => self.skipped += 1,
        }
    }
}

impl std::fmt::Display for Counts {
    /// `12 passed, 1 failed`, and how many were skipped if any were.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 { write!(f, ", {} skipped", self.skipped) } else { Ok(()) }
    }
}

impl Report {
    /// The sums over all cases.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.results.iter().for_each(|result| counts.add(&result.outcome));
        counts
    }

    /// The names of the cases that failed.
    pub fn failed_names(&self) -> Vec<&str> {
        let failed = self.results.iter().filter(|result| matches!(result.outcome, Outcome::Failed(_)));
        failed.map(|result| &*result.case.name).collect()
    }

    /// One line for each failed case: step, expected and got.
    pub fn failures(&self) -> String {
        let mut text = String::new();
        for result in &self.results {
            if let Outcome::Failed(failure) = &result.outcome {
                let _ = writeln!(text, "FAILED {}: {}", result.case.name, shortened(&failure.to_string()));
            }
        }
        text
    }

    /// One line for each reason cases were skipped for.
    pub fn skips(&self) -> String {
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for result in &self.results {
            if let Outcome::Skipped(reason) = &result.outcome {
                *reasons.entry(reason).or_default() += 1;
            }
        }
        reasons.iter().map(|(reason, count)| format!("skipped {count}: {reason}\n")).collect()
    }

    /// A table of family × tier.
    pub fn table(&self) -> String {
        let mut rows: BTreeMap<(&str, u32), Counts> = BTreeMap::new();
        for result in &self.results {
            rows.entry((&result.case.family, result.case.tier)).or_default().add(&result.outcome);
        }
        let mut text =
            format!("{:<22}{:>5}{:>8}{:>8}{:>9}\n", "family", "tier", "passed", "failed", "skipped");
        for ((family, tier), counts) in rows {
            let Counts { passed, failed, skipped } = counts;
            let _ = writeln!(text, "{family:<22}{tier:>5}{passed:>8}{failed:>8}{skipped:>9}");
        }
        text
    }
}

/// One line of bounded length, for a table or a log.
pub fn shortened(text: &str) -> String {
    const LONGEST: usize = 400;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::Failure;

    #[test]
    fn the_closing_line_names_skips_only_if_there_are_any() {
        let mut counts = Counts::default();
        counts.add(&Outcome::Passed);
        assert_eq!(counts.to_string(), "1 passed, 0 failed");
        counts.add(&Outcome::Skipped("why".into()));
        counts.add(&Outcome::Failed(Failure { step: None, wrong: String::new() }));
        assert_eq!(counts.to_string(), "1 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn long_messages_become_one_short_line() {
        assert_eq!(shortened("a\n\t b"), "a b");
        assert_eq!(shortened(&"é".repeat(1000)).chars().count(), 401);
    }
}
