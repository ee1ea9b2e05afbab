//! `cargo xtask test`: every check there is, in order of how quickly it fails, with the time each one took; with `--quick`
//! those that a person waits for before every commit.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::{Outcome, features, python, simulate, tidy};

struct Stage {
    name: &'static str,
    passed: bool,
    duration: Duration,
}

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// What takes minutes: no clusters of processes, no Python, no doc examples.
    Quick,
    Whole,
}

/// Runs all stages, also after one has failed, so that one run shows everything that is wrong.
pub(crate) fn run(root: &Path, extent: Extent) -> Outcome {
    require_component(root, "rustfmt", &["fmt", "--version"])?;
    require_component(root, "clippy", &["clippy", "--version"])?;
    let mut stages = Vec::new();
    let mut stage = |name: &'static str, passes: &dyn Fn() -> Result<bool, String>| {
        println!("── {name}");
        let begin = Instant::now();
        let passed = passes().unwrap_or_else(|reason| {
            println!("{reason}");
            false
        });
        stages.push(Stage { name, passed, duration: begin.elapsed() });
    };
    stage("tidy", &|| Ok(tidy::report(root)));
    stage("features", &|| features::report(root));
    stage("format", &|| cargo(root, &["fmt", "--all", "--check"]));
    stage("lints", &|| cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]));
    match extent {
        Extent::Quick => {
            stage("tests", &|| cargo(root, &["test", "--workspace", "--lib", "--bins", "--no-fail-fast"]));
            stage("vectors", &|| {
                cargo(root, &["test", "--package", "tensorfleet-tests", "--test", "vectors"])
            });
        }
        Extent::Whole => {
            stage("docs", &|| docs(root));
            stage("python", &python::report);
            stage("models", &|| models(root));
            stage("simulation", &|| simulate::report(root));
            stage("tests", &|| cargo(root, &["test", "--workspace", "--no-fail-fast"]));
            stage("package", &|| python::package(root));
        }
    }

    println!("── summary");
    for Stage { name, passed, duration } in &stages {
        let verdict = if *passed { "ok" } else { "FAILED" };
        println!("{name:<12}{verdict:<8}{:>7.1} s", duration.as_secs_f64());
    }
    let total: Duration = stages.iter().map(|stage| stage.duration).sum();
    let failed = stages.iter().filter(|stage| !stage.passed).count();
    println!("{} of {} stages passed in {:.0} s", stages.len() - failed, stages.len(), total.as_secs_f64());
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn cargo_command(root: &Path, arguments: &[&str]) -> Command {
    // The cargo that runs this program, so that a toolchain chosen with `+` stays chosen.
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root);
    command
}

/// Not among the tests of the workspace: what they depend on would change what everybody else is built with.
fn models(root: &Path) -> Result<bool, String> {
    let models = ["-p", "tensorfleet-models", "--features", "loom", "--test", "models"];
    let lints = cargo(root, &[&["clippy"], &models[..], &["--", "-D", "warnings"]].concat())?;
    Ok(cargo(root, &[&["test"], &models[..]].concat())? && lints)
}

/// Links in the documentation lead somewhere.
fn docs(root: &Path) -> Result<bool, String> {
    let mut command = cargo_command(root, &["doc", "--workspace", "--no-deps", "--quiet"]);
    let status = command.env("RUSTDOCFLAGS", "--deny warnings").status();
    Ok(status.map_err(|error| format!("cargo doc: {error}"))?.success())
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<bool, String> {
    let status = cargo_command(root, arguments).status();
    Ok(status.map_err(|error| format!("cargo {}: {error}", arguments.join(" ")))?.success())
}

fn require_component(root: &Path, name: &str, probe: &[&str]) -> Result<(), String> {
    let quiet = cargo_command(root, probe).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match quiet {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("{name} is missing from this toolchain; `rustup component add {name}` installs it")),
    }
}
