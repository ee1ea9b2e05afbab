//! `ops`: what is known of every op, and how many conformance cases with it pass.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use tensorfleet_ops::catalogue;
use tensorfleet_tests::direct::Direct;
use tensorfleet_tests::packed;
use tensorfleet_tests::runner::Outcome as CaseOutcome;
use tensorfleet_tests::suite::run_all;

use crate::Outcome;

/// Ops that no program in the inventory uses, but the catalogue has.
const EXTRA: u32 = 3;

/// What is known of one op.
#[derive(Clone, Copy, Default)]
struct Row {
    tier: u32,
    signature: bool,
    shape: bool,
    kernel: bool,
    gradient: bool,
    vectors_passed: usize,
    vectors_run: usize,
}

impl Row {
    fn is_complete(&self) -> bool {
        self.signature && self.shape && self.kernel && self.vectors_passed == self.vectors_run
    }
}

/// Which ops to show.
#[derive(Args)]
pub(crate) struct Options {
    /// Only this tier.
    #[arg(long)]
    tier: Option<u32>,
    /// Only ops that lack something.
    #[arg(long)]
    missing: bool,
}

/// The command.
pub(crate) fn run(options: &Options) -> Outcome {
    let (tier, only_missing) = (options.tier, options.missing);
    let rows = collect()?;
    let shown = rows.iter().filter(|(_, row)| tier.is_none_or(|tier| row.tier == tier));
    println!(
        "{:<36}{:>6}{:>11}{:>7}{:>8}{:>10}{:>10}",
        "op", "tier", "signature", "shape", "kernel", "gradient", "vectors"
    );
    for (name, row) in shown.filter(|(_, row)| !only_missing || !row.is_complete()) {
        println!(
            "{name:<36}{:>6}{:>11}{:>7}{:>8}{:>10}{:>10}",
            tier_name(row.tier),
            mark(row.signature),
            mark(row.shape),
            mark(row.kernel),
            mark(row.gradient),
            format!("{}/{}", row.vectors_passed, row.vectors_run)
        );
    }
    println!();
    for tier in [1, 2, EXTRA] {
        print_totals(tier, rows.values().filter(|row| row.tier == tier));
    }
    Ok(ExitCode::SUCCESS)
}

fn mark(is_there: bool) -> &'static str {
    if is_there { "yes" } else { "-" }
}

fn tier_name(tier: u32) -> String {
    if tier == EXTRA { "extra".to_string() } else { tier.to_string() }
}

fn print_totals<'a>(tier: u32, rows: impl Iterator<Item = &'a Row>) {
    let rows: Vec<&Row> = rows.collect();
    let count = |has: fn(&Row) -> bool| rows.iter().filter(|row| has(row)).count();
    println!(
        "tier {}: {} ops; signature {}, shape rule {}, kernel {}, gradient {}, all vectors passed {} of {} that have any",
        tier_name(tier),
        rows.len(),
        count(|row| row.signature),
        count(|row| row.shape),
        count(|row| row.kernel),
        count(|row| row.gradient),
        count(|row| row.vectors_run > 0 && row.vectors_passed == row.vectors_run),
        count(|row| row.vectors_run > 0),
    );
}

fn collect() -> Result<BTreeMap<String, Row>, String> {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    let inventory = packed::inventory().map_err(|status| status.message())?;
    for op in inventory["ops"].as_array().ok_or("the inventory lists no ops")? {
        let (Some(name), Some(tier)) = (op["op"].as_str(), op["tier"].as_u64()) else {
            return Err(format!("an op of the inventory has no name or tier: {op}"));
        };
        rows.insert(name.to_string(), Row { tier: tier as u32, ..Row::default() });
    }
    for op in catalogue().all() {
        let row = rows.entry(op.name.to_string()).or_insert(Row { tier: EXTRA, ..Row::default() });
        row.signature = true;
        row.shape = op.shape.is_some();
        row.kernel = op.kernel.is_some();
        row.gradient = has_gradient(op);
    }
    let cases = packed::cases().map_err(|status| status.message())?;
    let report = run_all(Arc::new(Direct), cases.into_iter().map(Arc::new).collect(), |_| {});
    for result in &report.results {
        if matches!(result.outcome, CaseOutcome::Skipped(_)) {
            continue;
        }
        for op in &result.case.ops {
            let row = rows.entry(op.clone()).or_insert(Row { tier: EXTRA, ..Row::default() });
            row.vectors_run += 1;
            row.vectors_passed += usize::from(result.outcome == CaseOutcome::Passed);
        }
    }
    Ok(rows)
}

/// Whether somebody has said how the op is differentiated, be it that nothing flows back.
fn has_gradient(op: &tensorfleet_kernel::Op) -> bool {
    !matches!(op.gradient, tensorfleet_kernel::op::Gradient::Unknown)
}
