//! The project's own commands, as `cargo xtask COMMAND`. Everything a person or a machine runs on the repository
//! starts here, so that both run the same.

mod arguments;
mod bench;
mod check_all;
mod features;
mod fuzz;
mod marked_text;
mod python;
mod simulate;
/// The rule is that of the tests themselves.
#[path = "../../tests/src/skipping.rs"]
#[allow(dead_code, unreachable_pub)]
mod skipping;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use arguments::Arguments;
use check_all::Extent;

const HELP: &str = "\
cargo xtask COMMAND

  test                        tidy, features, format, lints, docs and all tests; what a change must pass
      --quick                 without docs, clusters of processes and Python: unit tests and vectors, a few minutes
  python                      make the Python environments with TensorFlow that tests need, in target/python
  wheel                       build the Python package as a wheel, into target/wheels
      --profile NAME          how it is built (default release)
  dist                        what is given to others: wheel, command and checksums, into target/dist-files
  api                         which of TensorFlow 1.15's names the Python package offers; writes docs/python-api.md
      --check                 only say whether that is up to date
  package                     the tests of the Python package, as `test` runs them
  simulate                    play clusters on a simulated network and clock, with faults drawn from seeds
      --seeds N               how many seeds (default 100)
      --from N                the first of them (default 1)
      --seed N                only this one, and tell what happened if it goes wrong
      --verbose               tell it as it happens
  features                    whether every choice of packages is built with the same features
  proto                       write the messages that proto/ describes, for Rust and for Python
  tidy                        the tidy check alone: files, and cycles of modules
      --graph [dot]           instead, which crates and modules need which, as text or for Graphviz
  vectors [DIR] [OPTIONS]     run conformance vectors (default: those of the repository)
      --tier N                only this tier
      --family F              only this family
      --case TEXT             only cases whose name contains this
      --grpc                  on servers, nodes spread over two tasks (needs `cargo build --workspace`)
      --verbose               name every case, not only the failed ones
  ops [--tier N] [--missing]  which ops have signature, shape rule, kernel, gradient and passing vectors
  bench [FILTER] [OPTIONS]    measure the same graphs here and in TensorFlow, and compare
      --rounds N              how often the two take turns (default 5)
      --cluster               instead, clusters of processes of both kinds
      --checkpoint            instead, saving and restoring a gibibyte of variables
      --training              instead, an MNIST trainer with one ps and two workers
      --python                instead, our Python package and TensorFlow's, Python on both sides
      --record                write the table into benches/README.md
  matrix [FILTER] [OPTIONS]   kill, freeze and cut off every role of a training, many times; `--help` has the options
  soak [PART] [OPTIONS]       train a million steps and let clients come and go, and watch the servers' memory; `--help` has more
  fuzz [TARGET…] [OPTIONS]    throw bytes at everything that reads bytes, guided by what they reach (needs `cargo fuzz`)
      --seconds N             how long each target runs (default 60)
      --runs N                instead, how many inputs each tries
      --keep                  pack the inputs that reach something into fuzz/corpus
      --sanitizer NAME        build with it: address, memory, thread (default none)
      --as-built              run what was built before
  pack-vectors DIR            pack DIR/vectors, DIR/graphs and DIR/inventory.json into tests/data
";

/// What a command comes to: done, done with findings, or a reason why it could not be done.
type Outcome = Result<ExitCode, String>;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_environment();
    let outcome = match arguments.positional().as_deref() {
        Some("test") => {
            let extent = if arguments.flag("--quick") { Extent::Quick } else { Extent::Whole };
            arguments.finish().and_then(|()| check_all::run(&workspace_root(), extent))
        }
        Some("tidy") => tidy::run(arguments, &workspace_root()),
        Some("simulate") => simulate::run(arguments, &workspace_root()),
        Some("features") => arguments.finish().and_then(|()| features::run(&workspace_root())),
        Some("proto") => arguments.finish().and_then(|()| write_messages(&workspace_root())),
        Some("python") => arguments.finish().and_then(|()| python::run()),
        Some("wheel") => python::wheel(arguments, &workspace_root()),
        Some("dist") => python::dist(arguments, &workspace_root()),
        Some("api") => python::api(arguments, &workspace_root()),
        Some("package") => {
            arguments.finish().and_then(|()| Ok(exit_code(python::package(&workspace_root())?)))
        }
        Some(command @ ("vectors" | "ops" | "pack-vectors")) => {
            conformance(command, arguments, &workspace_root())
        }
        Some("matrix") => with_processes("matrix", "dev", arguments, &workspace_root()),
        Some("soak") => with_processes("soak", "release", arguments, &workspace_root()),
        Some("fuzz") => fuzz::run(arguments, &workspace_root()),
        Some("bench") => bench::run(arguments, &workspace_root()),
        Some("help") | None => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        Some(other) => Err(format!("there is no command '{other}'; `cargo xtask help` lists them")),
    };
    outcome.unwrap_or_else(|reason| {
        eprintln!("xtask: {reason}");
        ExitCode::FAILURE
    })
}

fn exit_code(passed: bool) -> ExitCode {
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn workspace_root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_path_buf()
}

/// The compiler of Protocol Buffers is a test's, so that nobody else has to build it.
fn write_messages(root: &Path) -> Outcome {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "--quiet", "--package", "tensorfleet-tests", "--test", "generated_messages"]);
    let status = cargo.env("TENSORFLEET_WRITE_PROTO", "1").current_dir(root).status();
    let status = status.map_err(|error| format!("cargo test: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// These commands run ops, so they live in a program that takes longer to build than this one.
fn conformance(command: &str, arguments: Arguments, root: &Path) -> Outcome {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--package", "tensorfleet-tests", "--bin", "conformance", "--", command]);
    let status = cargo.args(arguments.rest()).current_dir(root).status();
    let status = status.map_err(|error| format!("cargo run: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A program of the tests that starts others, which must be built first.
fn with_processes(program: &str, profile: &str, arguments: Arguments, root: &Path) -> Outcome {
    let cargo = || Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let mut build = cargo();
    build.args(["build", "--profile", profile, "--package", "tensorfleet-tests"]).args([
        "--package",
        "tensorfleet-cli",
        "--bins",
    ]);
    let mut run = cargo();
    run.args([
        "run",
        "--quiet",
        "--profile",
        profile,
        "--package",
        "tensorfleet-tests",
        "--bin",
        program,
        "--",
    ])
    .args(arguments.rest());
    for command in [&mut build, &mut run] {
        let status = command.current_dir(root).status().map_err(|error| format!("cargo: {error}"))?;
        if !status.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}
