//! `tensorfleet bench`: what this machine does in a few seconds, in process and between processes.
//!
//! The servers are this very program, started with `serve`, so that sockets, processes and schedulers are those of a real
//! cluster. The workloads are those of `benches/`, which compares them with TensorFlow.

mod measure;
mod servers;
mod workloads;

use clap::Args;
use serde_json::{Value, json};
use tensorfleet_core::{Result, Status, ensure};

use crate::live_lines::LiveLines;
use crate::table::{Column, Table, shortened};
use crate::terminal::{self, Terminal};
use servers::Servers;
use workloads::{Bench, Unit};

pub(crate) const HELP: &str = "\
Takes about five seconds and needs no TensorFlow. A parameter server and a worker run as processes of their own on free ports \
of this machine, and are ended afterwards. Times are medians. Build with --release for numbers that mean something.

Examples:
  tensorfleet bench
  tensorfleet bench matmul
  tensorfleet bench '100 MB' --json

In the repository, `cargo xtask bench` runs the same workloads in TensorFlow, too, and compares.";

/// Arguments of `bench`.
#[derive(Args, Debug)]
pub(crate) struct BenchArguments {
    /// Only measurements whose name contains this.
    #[arg(value_name = "NAME")]
    filter: Option<String>,

    /// The numbers as JSON.
    #[arg(long)]
    json: bool,
}

/// What came out.
struct Measured {
    name: &'static str,
    value: f64,
    unit: Unit,
}

pub(crate) fn run(arguments: &BenchArguments) -> Result<()> {
    let filter = arguments.filter.as_deref().unwrap_or_default().to_lowercase();
    let chosen: Vec<&Bench> =
        workloads::ALL.iter().filter(|bench| bench.name.to_lowercase().contains(&filter)).collect();
    ensure!(
        !chosen.is_empty(),
        InvalidArgument,
        "nothing that is measured has '{filter}' in its name; there are: {}",
        workloads::ALL.iter().map(|bench| bench.name).collect::<Vec<_>>().join(", ")
    );
    if cfg!(debug_assertions) {
        terminal::tell("note: this is a development build; one with --release is faster");
    }
    let mut progress = Progress::new(chosen.len());
    let needs_servers = chosen.iter().any(|bench| bench.needs_servers());
    let servers = match needs_servers {
        true => {
            progress.show("starting a ps and a worker");
            Some(Servers::start()?)
        }
        false => None,
    };
    let mut measured = Vec::new();
    for bench in chosen {
        progress.show(bench.name);
        let value = bench.measure(servers.as_ref()).map_err(|status| {
            Status::new(status.code(), format!("'{}' could not be measured: {}", bench.name, status.text()))
        })?;
        progress.advance();
        measured.push(Measured { name: bench.name, value, unit: bench.unit });
    }
    progress.end();
    drop(servers);
    terminal::print(&match arguments.json {
        true => format!("{:#}\n", document(&measured)),
        false => table(&measured).render(&Terminal::of_stdout()),
    });
    Ok(())
}

fn table(measured: &[Measured]) -> Table {
    let mut table = Table::new([Column::text("WHAT").cut(), Column::number("MEASURED")]);
    for one in measured {
        table.row([one.name.to_string(), one.unit.text(one.value)]);
    }
    table
}

fn document(measured: &[Measured]) -> Value {
    let list: Vec<Value> = measured
        .iter()
        .map(|one| json!({ "name": one.name, "value": one.value, "unit": one.unit.name() }))
        .collect();
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
    json!({ "measurements": list, "cores": cores, "version": env!("CARGO_PKG_VERSION") })
}

/// A line on a terminal that says what is being measured, and nothing elsewhere.
struct Progress {
    lines: LiveLines,
    columns: Option<usize>,
    done: usize,
    count: usize,
}

impl Progress {
    fn new(count: usize) -> Progress {
        let columns = Terminal::of(&std::io::stderr()).width();
        Progress { lines: LiveLines::default(), columns, done: 0, count }
    }

    fn show(&mut self, what: &str) {
        if let Some(columns) = self.columns {
            let line = format!("{}/{} {what}", self.done, self.count);
            self.lines.show(vec![shortened(&line, columns - 1)], columns);
        }
    }

    fn advance(&mut self) {
        self.done += 1;
    }

    fn end(&mut self) {
        if let Some(columns) = self.columns.take() {
            self.lines.show(Vec::new(), columns);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}
