//! `tensorfleet launch` with real processes: what tasks are told, what is shown, whose exit code counts, and that nothing is left.
#![allow(clippy::unwrap_used)]

mod command;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use command::{Outcome, Running, assert_gone, run, tensorfleet};

/// Launches a shell script with `options`.
fn script(options: &[&str], script: &str) -> std::process::Command {
    let mut command = tensorfleet(&["launch"]);
    command.args(options).args(["--", "sh", "-c", script, "sh"]);
    command
}

fn launched(options: &[&str], text: &str) -> Outcome {
    Running::start(script(options, text)).finish()
}

/// A parameter server that waits to be stopped; what follows is for workers. `exec` leaves no shell behind.
const PS_WAITS: &str = "case $* in *job_name=ps*) exec sleep 300;; esac; ";

/// The number after `pid ` in a line.
fn pid(line: &str) -> Option<u32> {
    line.split_once("pid ")?.1.trim().parse().ok()
}

#[test]
fn every_task_is_told_its_place_by_flags_and_environment() {
    let outcome = launched(&["--ps", "1", "--workers", "2"], r#"echo "$TF_CONFIG"; echo "$@" >&2"#);
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    for (name, job, index) in [("ps/0    ", "ps", 0), ("worker/0", "worker", 0), ("worker/1", "worker", 1)] {
        let of_task = |text: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} │ ")));
            line.unwrap_or_else(|| panic!("no line of {name} in {text}")).to_string()
        };
        let config: serde_json::Value = serde_json::from_str(&of_task(&outcome.stdout)).unwrap();
        assert_eq!((&config["task"]["type"], &config["task"]["index"]), (&job.into(), &index.into()));
        let ps = config["cluster"]["ps"][0].as_str().unwrap();
        let workers =
            [&config["cluster"]["worker"][0], &config["cluster"]["worker"][1]].map(|w| w.as_str().unwrap());
        let flags = format!(
            "--ps_hosts={ps} --worker_hosts={},{} --job_name={job} --task_index={index}",
            workers[0], workers[1]
        );
        assert_eq!(of_task(&outcome.stderr), flags);
    }
    assert!(outcome.stderr.contains("launch   │ starts ps/0 127.0.0.1:"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains('\x1b'), "no colours without a terminal");
}

#[test]
fn a_program_that_reads_the_environment_gets_no_flags_and_a_cluster_may_have_no_parameter_servers() {
    let outcome = launched(&["--ps", "0", "--workers", "1", "--no-flags"], r#"echo "$# $TF_CONFIG""#);
    let line = outcome.stdout.lines().next().unwrap();
    assert!(line.starts_with(r#"worker/0 │ 0 {"cluster":{"worker":["127.0.0.1:"#), "{line}");
}

#[test]
fn ports_can_be_chosen_and_a_taken_one_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let outcome = launched(&["--ps", "0", "--workers", "1", "--port", &port], "true");
    assert_eq!(outcome.code(), Some(1));
    assert_eq!(
        outcome.stderr,
        format!(
            "error: port {port} for worker/0 is in use: choose another --port, or leave it out to have free ports chosen\n"
        )
    );
    drop(taken);
    let outcome = launched(&["--ps", "0", "--workers", "1", "--port", &port], r#"echo "$@""#);
    assert!(outcome.stdout.contains(&format!("--worker_hosts=127.0.0.1:{port} ")), "{}", outcome.stdout);
}

#[test]
fn the_exit_code_is_the_chiefs() {
    for (end, code, words) in [
        ("exit 0", 0, "the chief is done"),
        ("echo why >&2; exit 7", 7, "worker/0 ended with exit code 7 after 0.0 s: why"),
        ("kill -9 $$", 137, "worker/0 was killed by SIGKILL"),
    ] {
        let text = format!("{PS_WAITS} case $* in *index=0*) {end};; esac; exit 0");
        let outcome = launched(&["--workers", "2"], &text);
        assert_eq!(outcome.code(), Some(code), "{}", outcome.stderr);
        let words = words.split(" after ").next().unwrap();
        assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    }
}

#[test]
fn another_worker_that_fails_is_told_at_once_and_the_chief_goes_on() {
    let text = format!(
        "{PS_WAITS} case $* in *index=1*) echo no luck; exit 3;; esac; read x < $FIFO; echo chief goes on"
    );
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut command = script(&["--workers", "2"], &text);
    command.env("FIFO", &fifo);
    let mut running = Running::start(command);
    let said = |line: &str| line.contains("worker/1 ended with exit code 3 after").then(|| line.to_string());
    let line = running.wait_for_error_line(said);
    assert!(line.ends_with(": no luck"), "{line}");
    std::fs::write(&fifo, "go\n").unwrap();
    let outcome = running.finish();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("worker/0 │ chief goes on"), "{}", outcome.stdout);
}

#[test]
fn the_loss_of_a_parameter_server_ends_the_run_with_a_sentence() {
    let outcome =
        launched(&[], "case $* in *job_name=ps*) echo disk full >&2; exit 4;; esac; exec sleep 300");
    assert_eq!(outcome.code(), Some(1));
    let last = outcome.stderr.lines().last().unwrap();
    assert!(last.starts_with("error: ps/0 ended with exit code 4 after "), "{last}");
    assert!(last.contains(": disk full; ") && last.ends_with("--restart 3"), "{last}");
    assert!(last.contains("see what it printed"), "{last}");

    let outcome = launched(&[], "case $* in *job_name=ps*) exit 4;; esac; exec sleep 300");
    let last = outcome.stderr.lines().last().unwrap();
    assert!(
        last.contains(" and printed nothing; ") && last.contains(": run it by itself to see why"),
        "{last}"
    );
}

#[test]
fn failed_tasks_are_started_again_as_often_as_asked() {
    let directory = tempfile::tempdir().unwrap();
    // The first two starts fail.
    let text = format!("{PS_WAITS} echo start >> $STARTS; test $(wc -l < $STARTS) -ge 3");
    let starts = directory.path().join("starts");
    let with = |restart: &str| {
        let mut command = script(&["--workers", "1", "--restart", restart], &text);
        command.env("STARTS", &starts);
        Running::start(command).finish()
    };
    let outcome = with("1");
    assert_eq!(outcome.code(), Some(1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("it is started again in 1.0 s, 1 of 1 times"), "{}", outcome.stderr);
    std::fs::remove_file(&starts).unwrap();
    let outcome = with("2");
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
}

/// A task that ignores SIGTERM, with a child that does, too: both tell their number.
const STUBBORN: &str = "trap '' TERM; sleep 300 & echo pid $!; echo pid $$; wait; wait; wait";

#[test]
fn tasks_that_ignore_the_request_to_end_are_killed_with_all_they_started() {
    let text = format!("case $* in *job_name=ps*) {STUBBORN};; esac; read x < $FIFO");
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut command = script(&["--workers", "1", "--grace", "0.3"], &text);
    command.env("FIFO", &fifo);
    let mut running = Running::start(command);
    let pids = [running.wait_for(pid), running.wait_for(pid)];
    std::fs::write(&fifo, "go\n").unwrap();
    assert_eq!(running.finish().code(), Some(0));
    assert_gone(&pids);
}

#[test]
fn signals_end_everything_with_the_code_of_the_signal() {
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let mut running = Running::start(script(&["--workers", "2", "--grace", "0.2"], STUBBORN));
        let pids: Vec<u32> = (0..6).map(|_| running.wait_for(pid)).collect();
        running.signal(signal);
        let outcome = running.finish();
        assert_eq!(outcome.code(), Some(code), "{}", outcome.stderr);
        assert_gone(&pids);
    }
}

#[test]
fn a_second_signal_does_not_wait_for_the_grace() {
    let mut running = Running::start(script(&["--workers", "1", "--grace", "300"], STUBBORN));
    let pids: Vec<u32> = (0..4).map(|_| running.wait_for(pid)).collect();
    running.signal("INT");
    running.wait_for_error_line(|line| line.contains("once more").then_some(()));
    let asked = Instant::now();
    running.signal("INT");
    assert_eq!(running.finish().code(), Some(130));
    assert!(asked.elapsed() < Duration::from_secs(30));
    assert_gone(&pids);
}

#[test]
fn tasks_do_not_outlive_a_launcher_that_is_killed() {
    let mut running = Running::start(script(&["--workers", "2"], "echo pid $$; exec sleep 300"));
    let pids: Vec<u32> = (0..3).map(|_| running.wait_for(pid)).collect();
    running.signal("KILL");
    running.finish();
    assert_gone(&pids);
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_run() {
    let mut running = Running::start(script(&["--grace", "0.3"], "echo pid $$; exec yes"));
    let pids: Vec<u32> = (0..3).map(|_| running.wait_for(pid)).collect();
    running.close_stdout();
    assert_eq!(running.finish().code(), Some(141));
    assert_gone(&pids);
}

#[test]
fn mistakes_are_one_sentence_that_says_what_to_do() {
    for (arguments, code, words) in [
        (
            &["launch", "--", "no-such-program"][..],
            1,
            "there is no program 'no-such-program' in your PATH: install it",
        ),
        (&["launch", "--", "./no/such"], 1, "there is no program './no/such': name a file that exists"),
        (&["launch", "--", env!("CARGO_MANIFEST_PATH")], 1, "may not be executed: make it executable"),
        (
            &["launch", "--host", "192.0.2.1", "--", "true"],
            1,
            "--host must be a name or an address of this machine",
        ),
        (&["launch", "--workers", "0", "--", "true"], 2, "use --workers 1 or more"),
        (&["launch", "--", ""], 1, "the name of the program is empty: name what to run"),
        (&["launch", "--ps", "-1", "--", "true"], 2, "--ps"),
        (&["launch", "--ps", "100000", "--", "true"], 2, "expected a whole number from 0 to 256"),
        (&["launch", "--restart", "-1", "--", "true"], 2, "expected a whole number from 0 to"),
        (&["launch"], 2, "PROGRAM"),
    ] {
        let outcome = run(arguments);
        assert_eq!(outcome.code(), Some(code), "{}", outcome.stderr);
        let first = outcome.stderr.lines().next().unwrap();
        assert!(first.starts_with("error: ") && outcome.stderr.contains(words), "{}", outcome.stderr);
        assert!(code == 2 || outcome.stderr.lines().count() == 1, "{}", outcome.stderr);
    }
}
