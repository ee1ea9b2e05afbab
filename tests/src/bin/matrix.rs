//! `cargo xtask matrix`: every cell of the recovery matrix many times, several at once, and the table of what happened.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use clap::Parser;
use parking_lot::Mutex;
use tensorfleet_tests::matrix::{Cell, Client, Faults, Table, run};

/// Tries role × fault × mode with real processes on hosts of their own (network namespaces, so it needs to be root).
#[derive(Parser)]
#[command(name = "cargo xtask matrix")]
struct Flags {
    /// Only cells whose name contains this, such as `rust-sync-ps-frozen`, `-sync-` or `tensorflow-`.
    filter: Option<String>,
    /// How often each cell is tried.
    #[arg(long, default_value_t = 10)]
    runs: u64,
    /// How many trainings run side by side; each takes a tenth of a core, and TensorFlow's more.
    #[arg(long, default_value_t = 6)]
    parallel: usize,
    /// The first seed, which chooses the moment of the fault.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes the table of each client that was tried between its marks in this file.
    #[arg(long)]
    record: Option<PathBuf>,
}

const CLIENTS: [Client; 2] = [Client::Rust, Client::TensorFlow];

fn main() -> ExitCode {
    let flags = Flags::parse();
    match matrix(&flags) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("matrix: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn matrix(flags: &Flags) -> Result<bool, String> {
    let filter = flags.filter.as_deref().unwrap_or_default();
    let cells: Vec<Cell> =
        CLIENTS.into_iter().flat_map(Cell::all).filter(|cell| cell.to_string().contains(filter)).collect();
    if cells.is_empty() {
        return Err(format!("no cell's name contains '{filter}'"));
    }
    // Every cell once, then every cell again: a table that is broken off is a whole one of fewer runs.
    let runs: Vec<(Cell, u64)> =
        (0..flags.runs).flat_map(|run| cells.iter().map(move |cell| (*cell, flags.seed + run))).collect();
    let (next, table, failures) = (AtomicUsize::new(0), Mutex::new(Table::default()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..flags.parallel.max(1) {
            scope.spawn(|| {
                while let Some(&(cell, seed)) = runs.get(next.fetch_add(1, Relaxed)) {
                    match run(cell, &Faults::default(), seed) {
                        Ok(outcome) => {
                            let verdict = cell.verdict(&outcome);
                            println!(
                                "{cell} seed {seed}: {}, stood still {:.1} s, {} steps lost, silent {:.1} s",
                                verdict.as_ref().err().map_or("ok", String::as_str),
                                outcome.standstill.as_secs_f64(),
                                outcome.lost_steps,
                                outcome.silence.as_secs_f64()
                            );
                            table.lock().add(cell, outcome);
                        }
                        Err(reason) => {
                            failures.fetch_add(1, Relaxed);
                            println!("{cell} seed {seed}: not tried: {reason}");
                        }
                    }
                }
            });
        }
    });
    let table = table.into_inner();
    let mut all_kept = failures.into_inner() == 0;
    for client in CLIENTS {
        let (tried, kept) = table.kept(client);
        if tried > 0 {
            all_kept &= tried == kept;
            let promises = format!("{kept} of {tried} cells kept their promise, {client} clients.");
            let text = format!("{promises}\n\n{}", table.markdown(client).trim_end());
            println!("\n{text}");
            if let Some(path) = &flags.record {
                record(path, client, &text)?;
            }
        }
    }
    Ok(all_kept)
}

/// Writes a client's table between its marks: those of others stay as they are.
fn record(path: &PathBuf, client: Client, text: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let old = std::fs::read_to_string(path).map_err(failed)?;
    let (begin, end) =
        (format!("<!-- matrix of {client}: begin -->"), format!("<!-- matrix of {client}: end -->"));
    let parts = old.split_once(&begin).zip(old.split_once(&end));
    let ((before, _), (_, after)) =
        parts.ok_or_else(|| format!("{} has no lines '{begin}' and '{end}'", path.display()))?;
    std::fs::write(path, format!("{before}{begin}\n{text}\n{end}{after}")).map_err(failed)
}
