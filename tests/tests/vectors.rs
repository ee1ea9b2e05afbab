//! Every packed conformance case, run once on sessions in this process; the tests below judge the results.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use tensorfleet_tests::direct::Direct;
use tensorfleet_tests::packed;
use tensorfleet_tests::runner::Outcome;
use tensorfleet_tests::suite::{CaseResult, Report, run_all};

static REPORT: LazyLock<Report> = LazyLock::new(|| {
    let cases = packed::cases().unwrap().into_iter().map(Arc::new).collect();
    run_all(Arc::new(Direct), cases, |_| {})
});

/// Families that must pass in every tier.
const COMPLETE_FAMILIES: &[&str] = &["control_flow", "random_seeded"];

fn results(chosen: impl Fn(&CaseResult) -> bool) -> Report {
    Report { results: REPORT.results.iter().filter(|result| chosen(result)).cloned().collect() }
}

fn assert_all_passed(report: &Report) {
    println!("{}{}", report.table(), report.skips());
    let counts = report.counts();
    assert!(counts.passed > 0, "there are no such cases");
    assert_eq!(counts.failed, 0, "{counts}\n{}", report.failures());
}

#[test]
fn every_tier_one_case_passes() {
    assert_all_passed(&results(|result| result.case.tier == 1));
}

#[test]
fn control_flow_and_random_streams_pass_entirely() {
    assert_all_passed(&results(|result| COMPLETE_FAMILIES.contains(&&*result.case.family)));
}

#[test]
fn only_cases_that_need_other_processes_are_skipped() {
    let skipped = results(|result| matches!(result.outcome, Outcome::Skipped(_)));
    let families: BTreeSet<&str> = skipped.results.iter().map(|result| &*result.case.family).collect();
    assert_eq!(families.into_iter().collect::<Vec<_>>(), ["distributed", "protocol"]);
}

/// Keeps the list of known failures true: a case that begins to fail or to pass must be taken on or off it.
#[test]
fn tier_two_cases_fail_exactly_as_recorded() {
    let path = packed::data_directory().join("tier2_expected_failures.txt");
    let text = std::fs::read_to_string(&path).unwrap();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let recorded: BTreeSet<&str> = lines.collect();

    let report =
        results(|result| result.case.tier == 2 && !COMPLETE_FAMILIES.contains(&&*result.case.family));
    println!("{}{}{}\n{}", report.table(), report.skips(), report.failures(), report.counts());
    let failed: BTreeSet<&str> = report.failed_names().into_iter().collect();
    let begun: Vec<_> = failed.difference(&recorded).collect();
    let ended: Vec<_> = recorded.difference(&failed).collect();
    assert!(
        begun.is_empty() && ended.is_empty(),
        "{} is out of date.\nThese cases fail and are not on it; mend them, or add them: {begun:#?}\n\
         These cases are on it and do not fail; take them off: {ended:#?}\n{}",
        path.display(),
        report.failures()
    );
}
