//! The command as users have it: real processes, exit codes, and what they print.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use tensorfleet::{Graph, Session};

fn tensorfleet(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tensorfleet"));
    command.args(arguments).env_remove("TF_CONFIG").env_remove("RUST_LOG");
    command
}

fn free_address() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// A server process; killed if the test fails.
struct Serving {
    child: Child,
    start_line: String,
}

impl Serving {
    fn start(arguments: &[&str]) -> Serving {
        let mut child = tensorfleet(&["serve", "--bind=127.0.0.1"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut start_line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut start_line).unwrap();
        Serving { child, start_line }
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Waits for the end, which must come soon.
    fn wait(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(started.elapsed() < Duration::from_secs(30), "the server did not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn assert_usage_error(output: &Output, words: &str) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.starts_with("error: ") && text.contains(words) && text.contains("--help"), "{text}");
}

#[test]
fn a_server_says_where_it_is_and_ends_gracefully_on_a_signal() {
    for signal in ["-TERM", "-INT"] {
        let address = free_address();
        let hosts = format!("--ps_hosts={address}");
        let mut server = Serving::start(&[&hosts, "--job_name=ps", "--task_index=0"]);
        let port = address.rsplit(':').next().unwrap();
        let words = format!("/job:ps/task:0 is ready at grpc://localhost:{port}; cluster: 1 ps");
        assert!(server.start_line.contains(&words), "{}", server.start_line);
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0));
    }
}

/// Where a process listens at this port, as the system has it: addresses in hexadecimal.
fn listeners(port: &str) -> Vec<String> {
    const LISTENING: &str = "0A";
    let port = format!("{:04X}", port.parse::<u16>().unwrap());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let local = table.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (address, state) = (fields.next()?, fields.nth(1)?);
        let (host, own_port) = address.split_once(':')?;
        (own_port == port && state == LISTENING).then(|| host.to_string())
    });
    local.collect()
}

/// Graphs may do what the server may; a cluster of this machine's own is nothing for the network.
#[test]
fn a_task_known_as_localhost_listens_on_loopback_and_others_say_that_they_do_not() {
    let serve = |host: &str| {
        let port = free_address().rsplit(':').next().unwrap().to_string();
        let cluster = format!(r#"--cluster={{"ps": [], "worker": ["{host}: {port}"]}}"#);
        let mut child = tensorfleet(&["serve", &cluster, "--job_name=worker", "--task_index=0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut start_line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut start_line).unwrap();
        (Serving { child, start_line }, port)
    };
    for host in ["localhost", "127.0.0.1"] {
        let (server, port) = serve(host);
        let words = format!("/job:worker/task:0 is ready at grpc://localhost:{port}; cluster: 1 worker");
        assert!(server.start_line.contains(&words), "{}", server.start_line);
        assert_eq!(listeners(&port), ["0100007F"]);
    }
    // An address of the documentation; no machine has it.
    let (mut server, port) = serve("192.0.2.1");
    let words = format!("is ready at grpc://localhost:{port}, on all interfaces; cluster: 1 worker");
    assert!(server.start_line.contains(&words), "{}", server.start_line);
    assert_eq!(listeners(&port), ["00000000"]);
    let mut warning = String::new();
    BufReader::new(server.child.stderr.take().unwrap()).read_line(&mut warning).unwrap();
    for words in ["WARN", "/job:worker/task:0 at 192.0.2.1", "no address of this machine"] {
        assert!(warning.contains(words), "{warning}");
    }
}

#[test]
fn status_shows_every_task() {
    let (ps, worker) = (free_address(), free_address());
    let (ps_hosts, worker_hosts) = (format!("--ps-hosts={ps}"), format!("--worker-hosts={worker}"));
    let _server = Serving::start(&[&ps_hosts, &worker_hosts, "--job-name=ps", "--task-index=0"]);
    let output = tensorfleet(&["status", &format!("grpc://{ps}")]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let line = |task: &str| text.lines().find(|line| line.starts_with(task)).unwrap_or_default().to_string();
    assert!(line("/job:ps/task:0").contains(" up "), "{text}");
    assert!(line("/job:worker/task:0").contains(" refused "), "{text}");
    assert!(text.contains("DEVICES\n/job:ps/replica:0/task:0/device:CPU:0"), "{text}");
    let output = tensorfleet(&["status", &ps, "--json"]).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["tasks"][0]["status"]["task"], "/job:ps/replica:0/task:0");
    assert_eq!(document["tasks"][1]["state"], "refused");
}

#[test]
fn a_server_until_done_ends_after_its_last_session() {
    let address = free_address();
    let cluster = format!(r#"--cluster={{"worker": ["{address}"]}}"#);
    let mut server = Serving::start(&[&cluster, "--job_name=worker", "--task_index=0", "--until-done=0.5"]);
    let g = Graph::new();
    let one = g.constant(1.0f32);
    let session = Session::connect(&address, &g).unwrap();
    session.run(&one).unwrap();
    session.close().unwrap();
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn the_environment_names_cluster_and_task() {
    let address = free_address();
    let config =
        format!(r#"{{"cluster": {{"chief": ["{address}"]}}, "task": {{"type": "chief", "index": 0}}}}"#);
    let mut child = tensorfleet(&["serve"]).env("TF_CONFIG", config).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let mut server = Serving { child, start_line: line };
    assert!(server.start_line.contains("/job:chief/task:0"), "{}", server.start_line);
    server.signal("-TERM");
    assert!(server.wait().success());
}

#[test]
fn mistakes_in_the_arguments_are_explained() {
    let serve = |arguments: &[&str]| tensorfleet(&["serve"]).args(arguments).output().unwrap();
    assert_usage_error(&serve(&[]), "no cluster is given");
    assert_usage_error(&serve(&["--ps_hosts=a:1", "--task_index=0"]), "--job_name is missing");
    assert_usage_error(&serve(&["--ps_hosts=a:1", "--job_name=ps"]), "--task_index is missing");
    assert_usage_error(
        &serve(&["--ps_hosts=a:1", "--job_name=ps", "--task_index=1"]),
        "No task with index 1",
    );
    assert_usage_error(
        &serve(&["--ps_hosts=a", "--job_name=ps", "--task_index=0"]),
        "/job:ps/task:0: malformed address 'a'",
    );
    let status = tensorfleet(&["status", "http://x:1"]).output().unwrap();
    assert_usage_error(&status, "grpc://HOST:PORT");
    let status = tensorfleet(&["status", "nonsense"]).output().unwrap();
    assert_usage_error(
        &status,
        "error: cannot connect to 'nonsense': it has no port; expected HOST:PORT or grpc://HOST:PORT\n",
    );
    // What cannot be connected to is no address of a cluster's either.
    assert_usage_error(&tensorfleet(&["status", "ü:1"]).output().unwrap(), "character 'ü'");
    let hosts = ["--ps_hosts=höst.inväl:1", "--job_name=ps", "--task_index=0"];
    assert_usage_error(&serve(&hosts), "character 'ö'");
    let train = tensorfleet(&["train", "mnist", "--steps", "-5"]).output().unwrap();
    assert_usage_error(&train, "invalid value '-5' for '--steps <N>'");
    let train = tensorfleet(&["train", "cifar"]).output().unwrap();
    assert_usage_error(&train, "there is no 'cifar' here, only mnist: 'tensorfleet launch -- PROGRAM'");
    let port = tensorfleet(&["launch", "--port", "70000", "--", "true"]).output().unwrap();
    assert_usage_error(&port, "expected a whole number from 1 to 65535");
    let hosts = ["--worker_hosts=a:1 b:1", "--job_name=worker", "--task_index=0"];
    assert_usage_error(&serve(&hosts), "addresses are separated by commas");
    let junk = tensorfleet(&["serve"]).env("TF_CONFIG", "junk").output().unwrap();
    assert_usage_error(&junk, "error: TF_CONFIG: ");
    let one = ["--ps_hosts=a:1", "--job_name=ps", "--task_index=0"];
    let serve_one = |argument: &str| serve(&[&one[..], &[argument]].concat());
    assert_usage_error(&serve_one("--max-pending-mb=0"), "--max-pending-mb");
    assert_usage_error(
        &serve_one("--allow-files=no/such/dir"),
        "--allow-files: there is no directory no/such/dir",
    );
    let file = format!("--allow-files={}", env!("CARGO_MANIFEST_PATH"));
    assert_usage_error(&serve_one(&file), "is no directory");
}

#[test]
fn errors_are_one_line_that_names_the_cause() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let port = address.rsplit(':').next().unwrap();
    let hosts = format!("--ps_hosts={address}");
    let arguments = ["serve", "--bind=127.0.0.1", &hosts, "--job_name=ps", "--task_index=0"];
    for (arguments, words) in [(&arguments[..], port), (&["status", &free_address()][..], "refused")] {
        let output = tensorfleet(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.starts_with("error: ") && text.contains(words) && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn stop_ends_all_tasks_of_a_cluster_with_code_zero() {
    let (ps, worker, absent) = (free_address(), free_address(), free_address());
    let cluster = format!(r#"--cluster={{"ps": ["{ps}"], "worker": ["{worker}", "{absent}"]}}"#);
    let mut servers = ["ps", "worker"]
        .map(|job| Serving::start(&[&cluster, &format!("--job_name={job}"), "--task_index=0"]));
    let output = tensorfleet(&["stop", &format!("grpc://{worker}")]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for (address, words) in [(&ps, "ends"), (&worker, "ends"), (&absent, "does not run")] {
        assert!(text.lines().any(|line| line.contains(&**address) && line.ends_with(words)), "{text}");
    }
    servers.iter_mut().for_each(|server| assert!(server.wait().success()));
}

/// A frozen task was said not to run, with exit code 0, and went on when it was thawed.
#[test]
fn stop_does_not_take_a_frozen_task_for_one_that_does_not_run() {
    let (ps, worker) = (free_address(), free_address());
    let cluster = format!(r#"--cluster={{"ps": ["{ps}"], "worker": ["{worker}"]}}"#);
    let [frozen, mut server] = ["ps", "worker"]
        .map(|job| Serving::start(&[&cluster, &format!("--job_name={job}"), "--task_index=0"]));
    frozen.signal("-STOP");
    let output = tensorfleet(&["stop", &worker]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.starts_with(&format!("error: /job:ps/task:0 at {ps} does not answer; it may still run")),
        "{text}"
    );
    assert!(server.wait().success(), "the other one ends all the same");
}

/// Whoever cannot be told gets the exit code all the same; it was that of a panic.
#[test]
fn an_error_that_cannot_be_written_keeps_its_exit_code() {
    for (arguments, code) in [(&["status", &free_address()][..], 1), (&["status", "nonsense"], 2)] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let status = tensorfleet(arguments).stderr(full).status().unwrap();
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}

/// The first commands of the help were broken in two, and could not be pasted.
#[test]
fn commands_in_help_stand_on_one_line() {
    let help = |arguments: &[&str]| {
        let output = tensorfleet(arguments).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let hosts = "--ps_hosts=localhost:2222 --worker_hosts=localhost:2223";
    let command = format!("    tensorfleet serve {hosts} --job_name=worker --task_index=0");
    for arguments in [&["--help"][..], &["help"], &[]] {
        let text = help(arguments);
        assert!(text.lines().any(|line| line == command), "{text}");
        assert!(!text.contains('⟦'), "{text}");
    }
    let text = help(&["status", "--help"]);
    assert!(
        text.lines().any(|line| line.starts_with("  tensorfleet status ") && line.contains("| jq ")),
        "{text}"
    );
}
