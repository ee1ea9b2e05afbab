//! The `tensorfleet` command as a process of a test: its lines while it runs, signals, and what it leaves behind.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long anything may take on a machine with other work.
const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);

pub(crate) fn tensorfleet(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tensorfleet"));
    command.args(arguments).env_remove("TF_CONFIG").env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// What a command that has ended left.
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }
}

/// Runs a command to its end.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    Running::start(tensorfleet(arguments)).finish()
}

/// A command that runs; killed if the test fails.
pub(crate) struct Running {
    child: Child,
    stdout: Option<Lines>,
    stderr: Option<Lines>,
}

struct Lines {
    lines: Receiver<String>,
    seen: String,
}

impl Lines {
    fn of(pipe: impl Read + Send + 'static) -> Lines {
        let (sender, lines) = channel();
        // Ends with the output of the command, which is killed with its value at the latest.
        std::thread::spawn(move || {
            BufReader::new(pipe).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Lines { lines, seen: String::new() }
    }

    fn next(&mut self, limit: Duration) -> Option<String> {
        let line = self.lines.recv_timeout(limit).ok()?;
        self.seen.push_str(&line);
        self.seen.push('\n');
        Some(line)
    }
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().map(Lines::of);
        let stderr = child.stderr.take().map(Lines::of);
        Running { child, stdout, stderr }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reads lines of standard output until `found` gives something for one.
    #[track_caller]
    pub(crate) fn wait_for<T>(&mut self, mut found: impl FnMut(&str) -> Option<T>) -> T {
        let lines = self.stdout.as_mut().unwrap();
        while let Some(line) = lines.next(LIMIT) {
            if let Some(value) = found(&line) {
                return value;
            }
        }
        panic!("what was waited for is not in:\n{}", lines.seen);
    }

    /// The same for standard error.
    #[track_caller]
    pub(crate) fn wait_for_error_line<T>(&mut self, mut found: impl FnMut(&str) -> Option<T>) -> T {
        let lines = self.stderr.as_mut().unwrap();
        while let Some(line) = lines.next(LIMIT) {
            if let Some(value) = found(&line) {
                return value;
            }
        }
        panic!("what was waited for is not in:\n{}", lines.seen);
    }

    /// Reads no more, as a pipe whose reader has gone.
    pub(crate) fn close_stdout(&mut self) {
        self.stdout = None;
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Waits for the end, which must come soon.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Outcome {
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "the command did not end:\n{}", rest(&mut self.stderr));
            std::thread::sleep(POLL);
        };
        Outcome { status, stdout: rest(&mut self.stdout), stderr: rest(&mut self.stderr) }
    }
}

/// All there was and is.
fn rest(lines: &mut Option<Lines>) -> String {
    let Some(lines) = lines else { return String::new() };
    while lines.next(Duration::from_secs(1)).is_some() {}
    std::mem::take(&mut lines.seen)
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until none of the processes runs. One that nobody has reaped has ended, too.
#[track_caller]
pub(crate) fn assert_gone(pids: &[u32]) {
    let runs = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    while pids.iter().any(runs) {
        assert!(Instant::now() < deadline, "of {pids:?} some still run");
        std::thread::sleep(POLL);
    }
}
