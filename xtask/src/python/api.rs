//! `cargo xtask api`: how many of TensorFlow 1.15's names the Python package offers, per module, and which not, and why.
//!
//! The names and their signatures were read off TensorFlow 1.15.5 (`python/tests/data/tf115_api.json.gz`); a script compares
//! them with what the package exports, and this puts its table into the guide.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use super::build;
use crate::Outcome;
use crate::arguments::Arguments;
use crate::marked_text::write_between;

const GUIDE: &str = "docs/python-api.md";
const BEGIN: &str = "<!-- names: begin -->";
const END: &str = "<!-- names: end -->";

/// The command: prints the table and writes it into the guide, or with `--check` only says whether it stands there.
pub(crate) fn run(mut arguments: Arguments, root: &Path) -> Outcome {
    let only_check = arguments.flag("--check");
    arguments.finish()?;
    let python = build::for_tests(root)?;
    let table = table(root, &python)?;
    if only_check {
        return Ok(if is_current(root, &table)? { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    print!("{table}");
    write_between(&root.join(GUIDE), BEGIN, END, &table)?;
    Ok(ExitCode::SUCCESS)
}

/// The table as Markdown, made with this interpreter.
pub(super) fn table(root: &Path, python: &Path) -> Result<String, String> {
    let mut command = Command::new(python);
    command.arg(root.join("python/tests/api_table.py")).current_dir(root).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("{}: {error}", python.display()))?;
    if !output.status.success() {
        return Err(format!("api_table.py: {}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("api_table.py: {error}"))
}

/// Says so if the guide has another table than this one.
pub(super) fn is_current(root: &Path, table: &str) -> Result<bool, String> {
    let path = root.join(GUIDE);
    let guide = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let is_current = guide.contains(&format!("{BEGIN}\n{table}{END}"));
    if !is_current {
        println!("{GUIDE}: the table of names is not that of the package; `cargo xtask api` writes it");
    }
    Ok(is_current)
}
