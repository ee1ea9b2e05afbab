//! `tensorfleet status --watch` where nobody has a terminal: one look after the other, until a signal ends it.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tensorfleet::{ClusterSpec, Server, ServerOptions};

/// A watch; killed if the test fails.
struct Watch {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Watch {
    fn start(target: &str, arguments: &[&str]) -> Watch {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tensorfleet"));
        command.args(["status", target, "--watch"]).args(arguments).env_remove("RUST_LOG");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Watch { child, lines }
    }

    fn next(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    fn interrupt(&mut self) -> Option<i32> {
        let status = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn server() -> Server {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let cluster = ClusterSpec::new([("worker", [format!("127.0.0.1:{port}")])]).unwrap();
    let options = ServerOptions::new(cluster, "worker", 0);
    Server::start(ServerOptions { bind: Some("127.0.0.1".into()), ..options }).unwrap()
}

#[test]
fn looks_are_appended_in_plain_text_and_an_interrupt_is_a_normal_end() {
    let server = server();
    let mut watch = Watch::start(&server.target(), &[]);
    let mut rates = Vec::new();
    while rates.len() < 2 {
        let line = watch.next();
        assert!(!line.contains('\x1b'), "{line:?}");
        if line.starts_with("/job:worker/task:0") {
            rates.push(line.split_whitespace().rev().take(2).map(str::to_string).collect::<Vec<_>>());
        }
    }
    assert_eq!(rates, [["-", "-"], ["0", "0"]], "rates need two looks");
    assert_eq!(watch.interrupt(), Some(0));
}

#[test]
fn a_watch_for_scripts_is_a_line_of_json_for_each_look() {
    let server = server();
    let mut watch = Watch::start(&server.target(), &["--json"]);
    for _ in 0..2 {
        let document: Value = serde_json::from_str(&watch.next()).unwrap();
        assert_eq!(document["tasks"][0]["state"], "up");
    }
    assert_eq!(watch.interrupt(), Some(0));
}
