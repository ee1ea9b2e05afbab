//! `cargo xtask fuzz`: builds the fuzzers, runs one after the other, and keeps count of what they have tried.
//!
//! Building and instrumenting is `cargo fuzz`'s work; the programs it builds are libFuzzer's, and are run directly. A program
//! begins with the inputs that the repository keeps and adds what it finds to a directory below `target`; `--keep` makes a
//! small archive of those that reach something. Nothing is installed: what is missing is named.

mod counts;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::Outcome;
use crate::arguments::Arguments;
use counts::{Counts, Run};

const DEFAULT_SECONDS: u32 = 60;
/// An input that takes longer is a finding.
const TIMEOUT_SECONDS: u32 = 25;
/// A process that is larger is a finding: its tensors may take 128 MB, and what it keeps of the corpus little.
const MEMORY_MB: u32 = 2500;
/// Longer inputs reach nothing that shorter ones do not, and take longer.
const MAX_INPUT_BYTES: u32 = 4096;
/// The same for inputs that are names.
const MAX_NAME_BYTES: u32 = 200;
const NAMES: [&str; 3] = ["device_name", "rendezvous_key", "slice_spec"];

/// What was asked for.
struct Options {
    extent: Extent,
    sanitizer: String,
    is_built: bool,
    keeps: bool,
}

/// How long each target runs.
#[derive(Clone, Copy)]
enum Extent {
    Seconds(u32),
    Runs(u32),
}

/// Where things are.
struct Places {
    root: PathBuf,
    /// Instrumented builds, apart from all others.
    builds: PathBuf,
    /// Corpora in use, logs, files that inputs make.
    work: PathBuf,
}

/// The command.
pub(crate) fn run(mut arguments: Arguments, root: &Path) -> Outcome {
    let (seconds, runs) = (arguments.number("--seconds")?, arguments.number("--runs")?);
    let options = Options {
        extent: match (seconds, runs) {
            (Some(_), Some(_)) => return Err("--seconds and --runs exclude each other".to_string()),
            (None, Some(runs)) => Extent::Runs(runs),
            (seconds, None) => Extent::Seconds(seconds.unwrap_or(DEFAULT_SECONDS)),
        },
        sanitizer: arguments.option("--sanitizer")?.unwrap_or_else(|| "none".to_string()),
        is_built: arguments.flag("--as-built"),
        keeps: arguments.flag("--keep"),
    };
    let known = targets(root)?;
    let mut chosen = Vec::new();
    while let Some(name) = arguments.positional() {
        if !known.contains(&name) {
            return Err(format!("there is no target '{name}'; there are {}", known.join(", ")));
        }
        chosen.push(name);
    }
    arguments.finish()?;
    let chosen = if chosen.is_empty() { known } else { chosen };
    let builds = std::env::var_os("TENSORFLEET_FUZZ_TARGET_DIR").map(PathBuf::from);
    let places = Places {
        root: root.to_path_buf(),
        builds: builds.unwrap_or_else(|| root.join("target/fuzz/build")),
        work: root.join("target/fuzz"),
    };
    if !options.is_built {
        build(&places, &chosen, &options)?;
    }
    let mut counts = Counts::read(root)?;
    let mut found = 0;
    for target in &chosen {
        let run = fuzz(&places, target, &options)?;
        found += run.findings;
        counts.add(target, &run);
        counts.write(root)?;
        if options.keeps && run.findings == 0 {
            keep(&places, target)?;
        }
    }
    print!("{}", counts.table(&chosen));
    Ok(if found == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The targets, one for each program.
fn targets(root: &Path) -> Result<Vec<String>, String> {
    let directory = root.join("fuzz/fuzz_targets");
    let entries = directory.read_dir().map_err(|error| format!("{}: {error}", directory.display()))?;
    let names =
        entries.filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn build(places: &Places, chosen: &[String], options: &Options) -> Result<(), String> {
    let version = cargo().args(["fuzz", "--version"]).output();
    if !version.is_ok_and(|output| output.status.success()) {
        return Err(
            "cargo-fuzz is not installed: `cargo install cargo-fuzz` (it needs a C++ compiler later on)"
                .into(),
        );
    }
    // `cargo fuzz` builds one target or all of them.
    let only = if let [one] = chosen { Some(one.as_str()) } else { None };
    let mut command = cargo();
    command.args(["fuzz", "build", "--sanitizer", &options.sanitizer]).args(only);
    command.arg("--target-dir").arg(&places.builds).current_dir(&places.root);
    // Sanitizers are behind a flag that only nightly compilers take, or those that are told to.
    if options.sanitizer != "none" {
        command.env("RUSTC_BOOTSTRAP", "1");
    }
    succeed(command)
}

/// Runs a target once.
fn fuzz(places: &Places, target: &str, options: &Options) -> Result<Run, String> {
    let corpus = places.work.join("corpus").join(target);
    if !corpus.is_dir() {
        conformance(places, "unpack-corpus", target, &corpus)?;
    }
    let artifacts = places.root.join("fuzz/artifacts").join(target);
    let files = places.work.join("files").join(target);
    for directory in [&artifacts, &files, &places.work.join("logs")] {
        fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    let log = places.work.join("logs").join(format!("{target}.log"));
    let output = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let errors = output.try_clone().map_err(|error| format!("{}: {error}", log.display()))?;
    let extent = match options.extent {
        Extent::Seconds(seconds) => format!("-max_total_time={seconds}"),
        Extent::Runs(runs) => format!("-runs={runs}"),
    };
    let mut command = program(places, target);
    command.arg(&corpus).arg(extent).arg("-print_final_stats=1");
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    command.args([format!("-timeout={TIMEOUT_SECONDS}"), format!("-rss_limit_mb={MEMORY_MB}")]);
    let max_bytes = if NAMES.contains(&target) { MAX_NAME_BYTES } else { MAX_INPUT_BYTES };
    command.arg(format!("-max_len={max_bytes}"));
    command.stdout(output).stderr(errors).env("TMPDIR", &files);
    let status = command
        .status()
        .map_err(|error| format!("{target} cannot be run ({error}): without --as-built it is built first"))?;
    let _ = fs::remove_dir_all(&files);
    let text = fs::read(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let mut run = Run::from_log(&String::from_utf8_lossy(&text));
    run.findings = u32::from(!status.success());
    if !status.success() {
        eprintln!(
            "{target} has found something: {} tells what, the input is in {}. Mend it, and keep the input as \
             fuzz/crashes/{target}/NAME",
            log.display(),
            artifacts.display()
        );
    }
    Ok(run)
}

fn program(places: &Places, target: &str) -> Command {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    Command::new(places.builds.join(triple).join("release").join(target))
}

/// Leaves out inputs that reach nothing new, and packs the others into the repository.
fn keep(places: &Places, target: &str) -> Result<(), String> {
    let corpus = places.work.join("corpus").join(target);
    let small = places.work.join("small").join(target);
    let _ = fs::remove_dir_all(&small);
    fs::create_dir_all(&small).map_err(|error| format!("{}: {error}", small.display()))?;
    let files = places.work.join("files").join(target);
    fs::create_dir_all(&files).map_err(|error| format!("{}: {error}", files.display()))?;
    let mut command = program(places, target);
    command.arg("-merge=1").arg(&small).arg(&corpus).env("TMPDIR", &files);
    let output = command.output().map_err(|error| format!("{target}: {error}"))?;
    let _ = fs::remove_dir_all(&files);
    if !output.status.success() {
        return Err(format!("{target}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    fs::remove_dir_all(&corpus).map_err(|error| format!("{}: {error}", corpus.display()))?;
    fs::rename(&small, &corpus).map_err(|error| format!("{}: {error}", small.display()))?;
    conformance(places, "pack-corpus", target, &corpus)
}

/// Archives are packed and unpacked by the program that has the other ones.
fn conformance(places: &Places, command: &str, target: &str, directory: &Path) -> Result<(), String> {
    let mut cargo = cargo();
    cargo.args(["run", "--quiet", "--package", "tensorfleet-tests", "--bin", "conformance", "--", command]);
    cargo.arg(target).arg(directory).current_dir(&places.root);
    succeed(cargo)
}

fn succeed(mut command: Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("{name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} has failed")) }
}
