//! `tensorfleet run`: which Python is started, and with what. A shell script stands for Python: the package has its own tests.
#![allow(clippy::unwrap_used)]

mod command;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use command::{Outcome, Running, tensorfleet};
use tempfile::TempDir;

/// An environment whose Python says which one it is and what it was told, but for the words it is started with.
fn environment(name: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    let python = python_of(folder.path());
    let text = format!("#!/bin/sh\nshift 2\necho {name} \"$@\"\n");
    std::fs::write(&python, text).unwrap();
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn python_of(environment: &Path) -> PathBuf {
    environment.join("bin/python")
}

fn outcome(arguments: &[&str], active: Option<&Path>) -> Outcome {
    let mut command = tensorfleet(arguments);
    command.env_remove("VIRTUAL_ENV").env_remove("CONDA_PREFIX");
    if let Some(active) = active {
        command.env("VIRTUAL_ENV", active);
    }
    Running::start(command).finish()
}

#[test]
fn a_script_gets_its_own_arguments_from_the_python_of_the_environment() {
    let active = environment("active");
    let run = outcome(&["run", "script.py", "--job_name=ps", "-v", "x"], Some(active.path()));
    assert_eq!(
        (run.code(), run.stdout.as_str()),
        (Some(0), "active script.py --job_name=ps -v x\n"),
        "{}",
        run.stderr
    );
    let module = outcome(&["run", "--", "-m", "my.trainer", "--steps=1"], Some(active.path()));
    assert_eq!(module.stdout, "active -m my.trainer --steps=1\n");
    let check = outcome(&["run", "--check", "script.py"], Some(active.path()));
    assert_eq!(check.stdout, "active --check script.py\n");
}

#[test]
fn a_python_that_is_asked_for_comes_first() {
    let (active, asked) = (environment("active"), environment("asked"));
    let python = python_of(asked.path());
    let run = outcome(&["run", "--python", python.to_str().unwrap(), "script.py"], Some(active.path()));
    assert_eq!(run.stdout, "asked script.py\n");
    let absent = outcome(&["run", "--python", "/nowhere/python", "script.py"], Some(active.path()));
    assert_eq!(absent.code(), Some(1));
    assert!(absent.stderr.contains("/nowhere/python cannot be started"), "{}", absent.stderr);
}

#[test]
fn a_python_without_the_package_says_what_to_do() {
    let empty = tempfile::tempdir().unwrap();
    // Any Python will do if it is kept from its packages; where there is none, there is nothing to show.
    let mut command = tensorfleet(&["run", "script.py"]);
    command.env_remove("VIRTUAL_ENV").env_remove("CONDA_PREFIX").env("PYTHONPATH", empty.path());
    let run = Running::start(command).finish();
    let is_installed = run.stderr.contains("can't open file");
    let is_absent = run.stderr.contains("there is no python3 in the path");
    assert!(is_installed || is_absent || run.stderr.contains("is not installed in"), "{}", run.stderr);
    assert_ne!(run.code(), Some(0));
}

#[test]
fn a_cluster_of_a_script_runs_with_python_too() {
    let active = environment("active");
    let script = active.path().join("script.py");
    std::fs::write(&script, "").unwrap();
    let script = script.to_str().unwrap();
    let launched =
        outcome(&["launch", "--ps", "0", "--workers", "1", "--", script, "--steps=3"], Some(active.path()));
    assert_eq!(launched.code(), Some(0), "{}", launched.stderr);
    let expected = format!("active {script} --steps=3 --");
    assert!(launched.stdout.contains(&expected), "{}", launched.stdout);
}
