//! A test that is a Python program on a cluster: runs it, lists its checks and fails with all that is needed to see why.

use std::time::Duration;

use serde_json::Value;

use crate::cluster::{Cluster, Job};
use crate::python::{Check, Interpreter, Program};

/// Runs a program on the cluster; panics unless every check passed.
pub fn assert_checks_pass(
    cluster: &mut Cluster,
    interpreter: &Interpreter,
    name: &str,
    arguments: &[&str],
    limit: Duration,
) {
    let flags = cluster.flags().into_iter().chain(arguments.iter().map(|&argument| argument.to_string()));
    let outcome = Program::start(interpreter, name, flags, limit)
        .and_then(|program| program.finish(|request| obey(cluster, request)));
    assert_passed(cluster, outcome);
}

/// Runs several copies of a program at the same time, each with arguments of its own.
pub fn assert_all_pass_together(
    cluster: &mut Cluster,
    interpreter: &Interpreter,
    name: &str,
    arguments: &[Vec<String>],
    limit: Duration,
) {
    let started: Result<Vec<Program>, String> = arguments
        .iter()
        .map(|own| Program::start(interpreter, name, cluster.flags().into_iter().chain(own.clone()), limit))
        .collect();
    let outcome = started.and_then(|programs| {
        let finished: Result<Vec<Vec<Check>>, String> =
            programs.into_iter().map(|program| program.finish(|request| obey(cluster, request))).collect();
        Ok(finished?.concat())
    });
    assert_passed(cluster, outcome);
}

fn assert_passed(cluster: &Cluster, outcome: Result<Vec<Check>, String>) {
    let checks = outcome.unwrap_or_else(|reason| panic!("{reason}\n{}", cluster.logs()));
    let failed: Vec<&Check> = checks.iter().filter(|check| !check.passed).collect();
    for check in &checks {
        let verdict = if check.passed { "ok" } else { "FAILED" };
        println!("{verdict:<7}{:>7.2} s  {}", check.seconds, check.name);
    }
    let stories: Vec<String> =
        failed.iter().map(|check| format!("── {}\n{}", check.name, check.detail)).collect();
    assert!(
        failed.is_empty(),
        "{} of {} checks failed:\n{}\n{}",
        failed.len(),
        checks.len(),
        stories.join("\n"),
        cluster.logs()
    );
}

/// Does what a program asks for: `{"ask": "restart", "job": "ps", "task": 0}`.
fn obey(cluster: &mut Cluster, request: &Value) -> Result<(), String> {
    let job = match request["job"].as_str() {
        Some("ps") => Job::Ps,
        Some("worker") => Job::Worker,
        _ => return Err(format!("asked for a job that is not there: {request}")),
    };
    let task = request["task"].as_u64().and_then(|task| usize::try_from(task).ok());
    match (request["ask"].as_str(), task) {
        (Some("restart"), Some(task)) => cluster.restart(job, task),
        _ => Err(format!("asked for something unknown: {request}")),
    }
}
