//! Conformance with TensorFlow, from the command line: `cargo xtask vectors`, `ops` and `pack-vectors` come here.
//!
//! A program of its own, so that `cargo xtask` itself is built in a moment.

mod op_table;
mod vectors;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

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
}

fn main() -> ExitCode {
    let outcome = match Command::parse() {
        Command::Vectors(options) => vectors::run(options),
        Command::Ops(options) => op_table::run(&options),
        Command::PackVectors { directory } => pack(&directory),
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
