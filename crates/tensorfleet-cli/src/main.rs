//! The `tensorfleet` command.

mod arguments;
mod bench;
mod checkpoint;
mod completions;
mod graph;
mod gutter;
mod launch;
mod live_lines;
mod local_cluster;
mod python;
mod run;
mod serve;
mod signals;
mod status;
mod status_table;
mod stop;
mod table;
mod terminal;
mod train;
mod units;

use std::process::ExitCode;

use clap::CommandFactory as _;
use tensorfleet_core::Status;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use arguments::{Arguments, Command};

/// Why a command did not do what it was asked.
#[derive(Debug)]
enum Failure {
    /// It could not.
    Error(Status),
    /// It was asked for something that makes no sense.
    Usage(Status),
    /// It could not, and 1 means something else.
    Trouble(Status),
    /// It has said what there is to say, and this is its exit code.
    Exit(u8),
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure::Error(status)
    }
}

fn main() -> ExitCode {
    let arguments: Arguments = tensorfleet::flags::parse();
    start_log(arguments.verbose);
    tensorfleet_cluster::keep_freed_memory();
    tensorfleet_core::memory::save_address_space();
    let outcome = match arguments.command {
        Command::Serve(arguments) => serve::run(arguments).map_err(|failure| (failure, "serve")),
        Command::Stop(arguments) => stop::run(&arguments).map_err(|failure| (failure, "stop")),
        Command::Run(arguments) => run::run(arguments).map_err(|failure| (failure, "run")),
        Command::Launch(arguments) => launch::run(arguments).map_err(|failure| (failure, "launch")),
        Command::Train(arguments) => train::run(arguments).map_err(|failure| (failure, "train mnist")),
        Command::Checkpoint(arguments) => {
            checkpoint::run(&arguments).map_err(|failure| (failure, "checkpoint"))
        }
        Command::Graph(arguments) => graph::run(&arguments).map_err(|status| (status.into(), "graph")),
        Command::Bench(arguments) => bench::run(&arguments).map_err(|status| (status.into(), "bench")),
        Command::Completions(arguments) => {
            completions::run(&arguments, &mut Arguments::command());
            Ok(())
        }
        Command::Status(arguments) => status::run(&arguments).map_err(|failure| (failure, "status")),
    };
    match outcome {
        // It has been said already.
        Ok(()) if terminal::has_lost_lines() => ExitCode::from(1),
        Ok(()) => ExitCode::SUCCESS,
        Err((Failure::Error(status), _)) => {
            terminal::tell(&format!("error: {}", status.text()));
            ExitCode::from(1)
        }
        Err((Failure::Usage(status), command)) => {
            let text = status.text();
            terminal::tell(&format!("error: {text}\nFor examples try 'tensorfleet {command} --help'."));
            ExitCode::from(2)
        }
        Err((Failure::Trouble(status), _)) => {
            terminal::tell(&format!("error: {}", status.text()));
            ExitCode::from(2)
        }
        Err((Failure::Exit(code), _)) => ExitCode::from(code),
    }
}

/// Warnings and errors only, unless asked for more.
fn start_log(verbose: u8) {
    let default = match verbose {
        0 => "warn",
        // Names of crates, or what they begin with.
        1 => "warn,tensorfleet=info",
        _ => "info,tensorfleet=debug",
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false)
        // It would say so on the same stream, and panic when that fails, too.
        .log_internal_errors(false);
    let asked = std::env::var("RUST_LOG").ok().filter(|_| verbose == 0).map(|asked| asked.parse::<Targets>());
    let (filter, misread) = match asked {
        Some(Ok(filter)) => (filter, None),
        other => (default.parse().unwrap_or_default(), other.and_then(Result::err)),
    };
    tracing_subscriber::registry().with(lines).with(filter).init();
    if let Some(error) = misread {
        tracing::warn!("RUST_LOG is not used: {error}; it is like '{default}'");
    }
}
