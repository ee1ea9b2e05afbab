//! The download of MNIST's files, by `curl` or `wget`: nearly every machine has one of them, and with them come TLS, proxies
//! and certificates as the machine's owner has set them up.
//!
//! A file is fetched under a temporary name in its directory, read and counted, and only then given its name. So a file with
//! the right name is always whole, whatever interrupts the download.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tensorfleet_core::{Result, Status, ensure};

use crate::idx::{self, Kind};

/// Where TensorFlow's `input_data` fetches from.
pub(crate) const BASE: &str = "https://storage.googleapis.com/cvdf-datasets/mnist/";

/// A file to fetch.
pub(crate) struct Part {
    /// Without `.gz`.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// How many images or labels it must hold.
    pub(crate) count: usize,
}

/// A program that fetches an address into a file, and the arguments that come before these two. They bound the time of
/// connecting and that of standing still, but not that of a slow line.
pub(crate) struct Program {
    name: &'static str,
    arguments: &'static [&'static str],
}

pub(crate) const PROGRAMS: &[Program] = &[
    Program {
        name: "curl",
        arguments: &[
            "--fail",
            "--location",
            "--silent",
            "--show-error",
            "--connect-timeout",
            "20",
            "--speed-limit",
            "1",
            "--speed-time",
            "30",
            "--output",
        ],
    },
    Program { name: "wget", arguments: &["--no-verbose", "--tries=1", "--timeout=30", "--output-document"] },
];

/// Fetches those of `parts` which are not in `dir`, gzipped or plain. A file that is there and is damaged is replaced.
pub(crate) fn fetch(base: &str, parts: &[Part], programs: &[Program], dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(|error| {
        Status::failed_precondition(format!(
            "the directory {} cannot be made: {error}; give one that can",
            dir.display()
        ))
    })?;
    for part in parts {
        let target = dir.join(format!("{}.gz", part.name));
        if is_there(dir, part) {
            notice(&format!("{} is there", part.name));
            continue;
        }
        fetch_part(base, part, programs, &target).map_err(|status| {
            let copy = "without a network, copy the four files of MNIST into";
            let without = "or leave --data_dir away to use the embedded digits";
            Status::new(status.code(), format!("{}; {copy} {}, {without}", status.text(), dir.display()))
        })?;
    }
    Ok(())
}

/// Any file that can be read as what it should be is good enough: it may well be of another data set.
fn is_there(dir: &Path, part: &Part) -> bool {
    let zipped = dir.join(format!("{}.gz", part.name));
    // The reader of data sets looks for the zipped one first, so a plain one does not help if that is damaged.
    let path = if zipped.exists() { zipped } else { dir.join(part.name) };
    idx::read_file(&path, part.kind).is_ok()
}

fn fetch_part(base: &str, part: &Part, programs: &[Program], target: &Path) -> Result<()> {
    let url = format!("{base}{}.gz", part.name);
    notice(&format!("fetching {url}"));
    let temporary = Temporary::beside(target);
    let (program, output) = run_first(programs, &temporary.path, &url)?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        // The last line has the reason; those before it are redirections and the like.
        let reason = text.trim().lines().last().unwrap_or_default().trim();
        let reason =
            if reason.is_empty() { format!("{program}: {}", output.status) } else { reason.to_string() };
        return Err(Status::unavailable(format!("{url} cannot be fetched ({reason})")));
    }
    let content = idx::read_file(&temporary.path, part.kind).map_err(|status| {
        Status::new(status.code(), format!("{url} gave a wrong file: {}", status.text()))
    })?;
    let found = content.len() / part.kind.example_bytes();
    ensure!(
        found == part.count,
        DataLoss,
        "{url} gave {found} {} instead of {}",
        part.kind.name(),
        part.count
    );
    fs::rename(&temporary.path, target).map_err(|error| {
        Status::failed_precondition(format!("{} cannot be written: {error}", target.display()))
    })
}

/// The name and the output of the first program that this machine has.
fn run_first<'a>(programs: &'a [Program], file: &Path, url: &str) -> Result<(&'a str, Output)> {
    for Program { name, arguments } in programs {
        let mut command = Command::new(name);
        command.args(*arguments).arg(file).arg(url).stdin(Stdio::null());
        match command.output() {
            Ok(output) => return Ok((name, output)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(Status::unavailable(format!(
                    "{url} cannot be fetched: {name} does not start ({error})"
                )));
            }
        }
    }
    let names: Vec<&str> = programs.iter().map(|program| program.name).collect();
    Err(Status::not_found(format!(
        "{url} cannot be fetched: this machine has no program {} to do it; install one",
        names.join(" or ")
    )))
}

/// A name in the directory of the target that only this process uses, removed in the end whatever happens.
struct Temporary {
    path: PathBuf,
}

impl Temporary {
    fn beside(target: &Path) -> Temporary {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        Temporary { path: target.with_file_name(format!(".{name}.{}.part", std::process::id())) }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After the rename there is nothing left to remove.
        let _ = fs::remove_file(&self.path);
    }
}

/// A line of progress on the error output; a closed one does not stop the download.
fn notice(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
#[path = "download_tests.rs"]
mod tests;
