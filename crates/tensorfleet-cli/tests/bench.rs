//! `tensorfleet bench` and `completions` as users have them: numbers, and no process that stays.
#![allow(clippy::unwrap_used)]

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn tensorfleet(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tensorfleet"));
    command.args(arguments).env_remove("RUST_LOG").env_remove("TF_CONFIG");
    command
}

/// The processes that a process has started, as the system tells.
fn children(of: &Child) -> Vec<String> {
    let mut found = Vec::new();
    for thread in std::fs::read_dir(format!("/proc/{}/task", of.id())).into_iter().flatten().flatten() {
        let listed = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(listed.split_whitespace().map(str::to_string));
    }
    found
}

fn is_running(pid: &str) -> bool {
    // A process that has ended but was not waited for has no command line.
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{what} in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn measurements_have_values_and_units() {
    let output = tensorfleet(&["bench", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = document["measurements"].as_array().unwrap();
    assert_eq!(all.len(), 9);
    for one in all {
        let value = one["value"].as_f64().unwrap();
        assert!(value > 0.0 && value.is_finite(), "{one}");
        assert!(["s", "B/s", "FLOP/s", "B"].contains(&one["unit"].as_str().unwrap()), "{one}");
    }
}

#[test]
fn a_filter_chooses_and_one_that_fits_nothing_tells_the_names() {
    let output = tensorfleet(&["bench", "IN THIS PROCESS"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains("step of one constant"), "{text}");
    let output = tensorfleet(&["bench", "nothing"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.starts_with("error: ") && text.contains("constant over grpc"), "{text}");
}

#[test]
fn an_interrupted_benchmark_leaves_no_server_behind() {
    for signal in ["-INT", "-TERM"] {
        let mut child =
            tensorfleet(&["bench", "100 MB"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("waited for two servers", || children(&child).len() == 2);
        let servers = children(&child);
        let status = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(status.success());
        wait_until("waited for the end", || child.try_wait().unwrap().is_some());
        assert_eq!(child.wait().unwrap().code(), Some(130));
        wait_until("waited for the servers' end", || !servers.iter().any(|pid| is_running(pid)));
    }
}

#[test]
fn completions_are_scripts_of_their_shell() {
    for (shell, words) in
        [("bash", "complete -F"), ("zsh", "#compdef tensorfleet"), ("fish", "complete -c tensorfleet")]
    {
        let output = tensorfleet(&["completions", shell]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains(words) && text.contains("checkpoint"), "{shell}");
    }
    assert_eq!(tensorfleet(&["completions", "cmd"]).output().unwrap().status.code(), Some(2));
}
