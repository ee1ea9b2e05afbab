//! Conformance with TensorFlow, from the command line: `cargo xtask vectors`, `ops` and `pack-vectors` come here, and
//! `cargo xtask fuzz` with its archives.
//!
//! A program of its own, so that `cargo xtask` itself is built in a moment.

mod op_table;
mod record;
mod vectors;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tensorfleet_tests::fuzzing::corpora;

/// What a command comes to: done, done with findings, or a reason why it could not be done.
type Outcome = Result<ExitCode, String>;

/// Conformance with TensorFlow.
#[derive(Parser)]
#[command(name = "cargo xtask")]
enum Command {
    /// Run conformance vectors, with a table of what passed.
    Vectors(vectors::Options),
    /// Show which ops have signature, shape rule, kernel, gradient and passing vectors.
    Ops(op_table::Options),
    /// Pack DIR/vectors, DIR/graphs and DIR/inventory.json into tests/data.
    PackVectors {
        /// The directory with the loose files.
        directory: PathBuf,
    },
    /// Write the inputs that are kept for a fuzz target into DIR.
    UnpackCorpus {
        /// The target.
        target: String,
        /// The directory for the loose files.
        directory: PathBuf,
    },
    /// Serve a task of a cluster until standard input ends, and keep the calls that clients make as inputs of the fuzzers.
    RecordCalls(record::Options),
    /// Keep the files in DIR as the inputs of a fuzz target.
    PackCorpus {
        /// The target.
        target: String,
        /// The directory with the loose files.
        directory: PathBuf,
    },
}

fn main() -> ExitCode {
    let outcome = match Command::parse() {
        Command::Vectors(options) => vectors::run(options),
        Command::Ops(options) => op_table::run(&options),
        Command::PackVectors { directory } => pack(&directory),
        Command::UnpackCorpus { target, directory } => corpora::unpack(&target, &directory)
            .map(|()| ExitCode::SUCCESS)
            .map_err(|status| status.text().to_string()),
        Command::RecordCalls(options) => record::run(options),
        Command::PackCorpus { target, directory } => corpora::pack(&target, &directory)
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| format!("packing {}: {error}", directory.display())),
    };
    outcome.unwrap_or_else(|reason| {
        eprintln!("{reason}");
        ExitCode::FAILURE
    })
}

fn pack(source: &std::path::Path) -> Outcome {
    let destination = tensorfleet_tests::packed::data_directory();
    tensorfleet_tests::packed::pack(source, &destination)
        .map_err(|error| format!("packing {}: {error}", source.display()))?;
    println!("packed {} into {}", source.display(), destination.display());
    Ok(ExitCode::SUCCESS)
}
