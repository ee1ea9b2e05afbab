//! `vectors`: conformance cases against a session in this process or on servers, with a table of
//! what passed.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use tensorfleet_tests::backend::Backend;
use tensorfleet_tests::case::Case;
use tensorfleet_tests::direct::Direct;
use tensorfleet_tests::fleet::Fleet;
use tensorfleet_tests::packed;
use tensorfleet_tests::runner::Outcome as CaseOutcome;
use tensorfleet_tests::suite::{CaseResult, Filter, load_directory, run_all, shortened};

use crate::Outcome;

/// Which cases to run, and where.
#[derive(Args)]
pub(crate) struct Options {
    /// A directory of cases; by default those of the repository.
    directory: Option<PathBuf>,
    /// Only this tier.
    #[arg(long)]
    tier: Option<u32>,
    /// Only this family.
    #[arg(long)]
    family: Option<String>,
    /// Only cases whose name contains this.
    #[arg(long)]
    case: Option<String>,
    /// On servers, nodes spread over two tasks; needs the `tensorfleet` program of the same profile.
    #[arg(long)]
    grpc: bool,
    /// Name every case, not only the failed ones.
    #[arg(long)]
    verbose: bool,
}

/// The command.
pub(crate) fn run(options: Options) -> Outcome {
    let Options { directory, tier, family, case, grpc, verbose } = options;
    let filter = Filter { tier, family, name: case };
    let backend: Arc<dyn Backend> = if grpc { Arc::new(Fleet) } else { Arc::new(Direct) };
    let cases = match &directory {
        Some(directory) => load_directory(directory),
        None => packed::cases(),
    };
    let cases = cases.map_err(|status| status.message())?;
    let chosen: Vec<Arc<Case>> = cases.into_iter().filter(|case| filter.admits(case)).map(Arc::new).collect();
    if chosen.is_empty() {
        return Err("no case fits the options".to_string());
    }
    let begin = Instant::now();
    let mut progress =
        Progress { total: chosen.len(), done: 0, verbose, terminal: std::io::stderr().is_terminal() };
    let report = run_all(backend, chosen, |result| progress.report(result));
    progress.clear();

    println!("{}", report.table());
    print!("{}{}", report.skips(), report.failures());
    println!("in {:.1} s", begin.elapsed().as_secs_f64());
    let counts = report.counts();
    println!("{counts}");
    Ok(if counts.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A line that rewrites itself while cases run, or one line for each case.
struct Progress {
    total: usize,
    done: usize,
    verbose: bool,
    terminal: bool,
}

impl Progress {
    fn report(&mut self, result: &CaseResult) {
        self.done += 1;
        let name = &result.case.name;
        if self.verbose {
            let verdict = match &result.outcome {
                CaseOutcome::Passed => "ok".to_string(),
                CaseOutcome::Failed(failure) => format!("FAILED {}", shortened(&failure.to_string())),
                CaseOutcome::Skipped(reason) => format!("skipped: {reason}"),
            };
            println!("{name:<60} {:>7.3} s  {verdict}", result.duration.as_secs_f64());
        } else if self.terminal {
            eprint!("\r\x1b[K{}/{} {name}", self.done, self.total);
            // A line of progress that cannot be shown is no reason to stop.
            let _ = std::io::stderr().flush();
        }
    }

    fn clear(&self) {
        if self.terminal && !self.verbose {
            eprint!("\r\x1b[K");
        }
    }
}
