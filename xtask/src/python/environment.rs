//! Python environments under `target/python`, each made once.
//!
//! `tf2` has TensorFlow 2.x and must succeed; `tf1` has TensorFlow 1.15.5, the last of its kind, where a Python 3.7 is at hand
//! (with `CI` set it must be). `build` has what makes the wheel, `package` numpy and nothing of TensorFlow, for the tests of the Python
//! package. A stamp with the pinned versions is written last, so an environment that was broken off or is pinned otherwise is
//! made anew.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// An environment as it should be.
pub(super) struct Environment {
    name: &'static str,
    /// Names an interpreter to use instead.
    variable: &'static str,
    packages: &'static [&'static str],
    /// Versions of Python that the packages exist for, in the order of preference.
    pub(super) versions: &'static [(u32, u32)],
    /// What it must be able to import.
    module: &'static str,
}

pub(super) const TF2: Environment = Environment {
    name: "tf2",
    variable: "TENSORFLEET_TF2_PYTHON",
    packages: &["tensorflow-cpu==2.21.*", "tensorboard==2.21.*"],
    versions: &[(3, 11), (3, 12), (3, 13), (3, 10)],
    module: "tensorflow",
};

/// The limits are those of the time of 1.15.5; later packages no longer fit it.
pub(super) const TF1: Environment = Environment {
    name: "tf1",
    variable: "TENSORFLEET_TF1_PYTHON",
    packages: &["tensorflow==1.15.5", "protobuf<3.21", "numpy<1.19"],
    versions: &[(3, 7)],
    module: "tensorflow",
};

/// What builds the wheel.
pub(super) const BUILD: Environment = Environment {
    name: "build",
    variable: "TENSORFLEET_BUILD_PYTHON",
    packages: &["maturin==1.16.*"],
    versions: &[(3, 11), (3, 12), (3, 13), (3, 10), (3, 9)],
    module: "maturin",
};

/// Where the tests of the Python package run: what the package depends on, and TensorFlow nowhere.
pub(super) const PACKAGE: Environment = Environment {
    name: "package",
    variable: "TENSORFLEET_PACKAGE_PYTHON",
    packages: &["numpy"],
    versions: &[(3, 11), (3, 12), (3, 13), (3, 10), (3, 9)],
    module: "numpy",
};

/// Why there is no such environment.
pub(super) enum Failure {
    NoPython(String),
    Installation(String),
}

impl Failure {
    pub(super) fn reason(self) -> String {
        match self {
            Failure::NoPython(reason) | Failure::Installation(reason) => reason,
        }
    }
}

/// The interpreter of an environment, installed if necessary.
pub(super) fn provide(environment: &Environment) -> Result<PathBuf, Failure> {
    if let Some(python) = std::env::var_os(environment.variable).filter(|python| !python.is_empty()) {
        return Ok(python.into());
    }
    let directory = environments().map_err(Failure::Installation)?.join(environment.name);
    let python = directory.join("bin/python");
    let stamp = directory.join("complete");
    let pinned = environment.packages.join("\n");
    if python.exists() && std::fs::read_to_string(&stamp).is_ok_and(|found| found == pinned) {
        return Ok(python);
    }
    let base = base_python(environment.versions).map_err(Failure::NoPython)?;
    install(environment, &base, &directory).map_err(Failure::Installation)?;
    std::fs::write(&stamp, pinned)
        .map_err(|error| Failure::Installation(format!("{}: {error}", stamp.display())))?;
    Ok(python)
}

/// Beside the directory of this program's own build profile, where the tests look for it as well.
pub(super) fn environments() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| format!("this program's own path: {error}"))?;
    let target = program.parent().and_then(Path::parent).ok_or("this program lies in no target directory")?;
    Ok(target.join("python"))
}

fn install(environment: &Environment, base: &Path, directory: &Path) -> Result<(), String> {
    let begin = Instant::now();
    let packages = environment.packages.join(" ");
    println!("installing {packages} with {} into {}", base.display(), directory.display());
    let python = fresh(base, directory)?;
    checked(pip_install(&python).args(environment.packages), PIP)?;
    let import = format!("import {}", environment.module);
    checked(Command::new(&python).args(["-c", &import]), &import)?;
    println!("installed in {:.0} s", begin.elapsed().as_secs_f64());
    Ok(())
}

/// A new environment in this place, whatever was there; its interpreter.
pub(super) fn fresh(base: &Path, directory: &Path) -> Result<PathBuf, String> {
    if directory.exists() {
        std::fs::remove_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    checked(Command::new(base).args(["-m", "venv"]).arg(directory), "making the environment")?;
    Ok(directory.join("bin/python"))
}

/// What is said to have failed if pip did.
pub(super) const PIP: &str = "pip, which needs a package index within reach,";

pub(super) fn pip_install(python: &Path) -> Command {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--quiet"]);
    pip
}

/// Runs a command silently; its output is shown if it failed.
pub(super) fn checked(command: &mut Command, what: &str) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{what} failed: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{what} failed: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// A Python of one of these versions: on the path, or among those that pyenv installed.
pub(super) fn base_python(versions: &[(u32, u32)]) -> Result<PathBuf, String> {
    let named = versions.iter().map(|(major, minor)| PathBuf::from(format!("python{major}.{minor}")));
    let mut candidates: Vec<PathBuf> = std::iter::once(PathBuf::from("python3")).chain(named).collect();
    candidates.extend(pyenv_pythons());
    let fits = |candidate: &PathBuf| version(candidate).is_some_and(|found| versions.contains(&found));
    candidates.into_iter().find(fits).ok_or_else(|| {
        let wanted: Vec<String> = versions.iter().map(|(major, minor)| format!("{major}.{minor}")).collect();
        format!("there is no Python {} on the path or in pyenv", wanted.join(" or "))
    })
}

fn pyenv_pythons() -> Vec<PathBuf> {
    let root = std::env::var_os("PYENV_ROOT")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv")));
    let Some(entries) = root.and_then(|root| root.join("versions").read_dir().ok()) else {
        return Vec::new();
    };
    let mut pythons: Vec<PathBuf> = entries.flatten().map(|entry| entry.path().join("bin/python")).collect();
    pythons.sort();
    pythons
}

/// Asked rather than read off the name: a shim may stand for any version, or for none.
fn version(python: &Path) -> Option<(u32, u32)> {
    let script = "import sys, venv, ensurepip; print(*sys.version_info[:2])";
    let output =
        Command::new(python).args(["-c", script]).output().ok().filter(|output| output.status.success())?;
    parse_version(&String::from_utf8_lossy(&output.stdout))
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(' ')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_anything_else_is_no_version() {
        assert_eq!(parse_version("3 11\n"), Some((3, 11)));
        assert_eq!(parse_version("pyenv: python3.7: command not found"), None);
        assert_eq!(parse_version(""), None);
    }

    #[test]
    fn a_program_that_is_not_there_has_no_version() {
        assert_eq!(version(Path::new("no-such-python-anywhere")), None);
    }

    #[test]
    fn a_missing_python_is_named() {
        assert!(base_python(&[(2, 1)]).unwrap_err().contains("Python 2.1"));
    }
}
