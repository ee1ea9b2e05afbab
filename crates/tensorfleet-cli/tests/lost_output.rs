//! Output that cannot be written is never lost in silence, whatever the command: one line says so, and the exit code is 1. A reader who
//! has seen enough is no failure.
#![allow(clippy::unwrap_used)]

use std::fs::OpenOptions;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tensorfleet::train::Saver;
use tensorfleet::{Graph, Session};

/// No command here takes more than a few seconds.
const LIMIT: Duration = Duration::from_secs(120);

fn tensorfleet(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tensorfleet"));
    command.args(arguments).env_remove("TF_CONFIG").env_remove("RUST_LOG").stderr(Stdio::piped());
    command
}

/// What a command ends with whose standard output is this; it must end.
fn outcome(arguments: &[&str], stdout: Stdio) -> Output {
    let mut child = tensorfleet(arguments).stdout(stdout).spawn().unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > LIMIT {
            let _ = child.kill();
            panic!("{arguments:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

#[track_caller]
fn assert_lost(arguments: &[&str]) {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = outcome(arguments, full.into());
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
    let lines = text.lines().filter(|line| line.starts_with("error: the output cannot be written"));
    assert_eq!(lines.count(), 1, "{arguments:?}: {text}");
}

/// A checkpoint, and the directory it is in.
fn saved() -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("model").to_str().unwrap().to_string();
    let g = Graph::new();
    g.variable("v", [1.0f32, 2.0]);
    let saver = Saver::new(&g).unwrap();
    let initialise = g.global_variables_initializer().unwrap();
    let session = Session::new(&g);
    session.run(&initialise).unwrap();
    saver.save(&session, &prefix, None).unwrap();
    (directory, prefix)
}

#[test]
fn a_full_disk_is_an_error_of_every_command() {
    let (directory, prefix) = saved();
    let log_dir = directory.path().to_str().unwrap();
    let meta = format!("{prefix}.meta");
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["serve", "--help"],
        &["completions", "bash"],
        &["checkpoint", "ls", log_dir],
        &["checkpoint", "show", &prefix],
        &["checkpoint", "diff", &prefix, &prefix],
        &["graph", &meta],
        &["graph", &meta, "--json"],
    ] {
        assert_lost(arguments);
    }
}

#[test]
fn a_server_that_cannot_say_that_it_is_ready_ends() {
    assert_lost(&["serve", r#"--cluster={"local": ["localhost:0"]}"#, "--job_name=local", "--task_index=0"]);
}

#[test]
fn status_and_stop_of_a_cluster_say_when_they_cannot_be_read() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let cluster = format!(r#"--cluster={{"ps": ["{address}"]}}"#);
    let mut server = tensorfleet(&["serve", &cluster, "--job_name=ps", "--task_index=0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(server.stdout.take().unwrap()), &mut line)
        .unwrap();
    assert_lost(&["status", &address]);
    assert_lost(&["status", &address, "--json"]);
    assert_lost(&["status", &address, "--watch"]);
    assert_lost(&["stop", &address]);
    let started = Instant::now();
    while server.try_wait().unwrap().is_none() && started.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = server.kill();
    assert_eq!(server.wait().unwrap().code(), Some(0), "{line}");
}

#[test]
fn what_a_launched_program_prints_is_not_lost_either() {
    assert_lost(&["launch", "--ps", "0", "--workers", "1", "--no-flags", "--", "echo", "hello"]);
}

#[test]
fn a_training_goes_on_without_its_log_and_fails_in_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let log_dir = directory.path().join("run").to_str().unwrap().to_string();
    assert_lost(&["train", "mnist", "--log_dir", &log_dir, "--steps", "20"]);
    assert!(tensorfleet::train::latest_checkpoint(&log_dir).unwrap().is_some(), "the model was saved");
}

#[test]
fn a_reader_who_has_seen_enough_is_no_error() {
    let (_directory, prefix) = saved();
    for arguments in [&["completions", "bash"][..], &["checkpoint", "show", &prefix], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = outcome(arguments, writer.into());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.is_empty(), "{arguments:?}: {text}");
    }
}
