//! Python programs that check something and say so: starts one, reads its lines, keeps to a time limit.
//!
//! The programs in `tests/python` are unmodified TensorFlow clients. Importing TensorFlow takes seconds, so each
//! program makes many checks and prints one line of JSON for each; this module turns the lines into [`Check`]s. A
//! program may also ask for something only its caller can do, such as to restart a server, and waits for the answer.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::skipping::skip;

/// How much of a log is shown; the end tells what went wrong.
const SHOWN_LOG_BYTES: usize = 4000;

/// A Python interpreter that can import a TensorFlow.
#[derive(Clone, Debug)]
pub struct Interpreter {
    program: PathBuf,
}

impl Interpreter {
    /// The one with TensorFlow 2.x, from `TENSORFLEET_TF2_PYTHON` or made by `cargo xtask python`.
    pub fn with_tensorflow_2() -> Result<Interpreter, String> {
        find("TENSORFLEET_TF2_PYTHON", "tf2").ok_or_else(|| {
            "no Python with TensorFlow 2.x: run `cargo xtask python` (as `cargo xtask test` does), or name an \
             interpreter in TENSORFLEET_TF2_PYTHON"
                .to_string()
        })
    }

    /// The one with TensorFlow 1.15. Without it the calling test is [left out](skip), as far as that is allowed.
    pub fn with_tensorflow_1() -> Option<Interpreter> {
        let found = Interpreter::with_tensorflow_1_if_any();
        if found.is_none() {
            skip(
                "there is no Python with TensorFlow 1.15",
                "`cargo xtask python` makes one where there is a Python 3.7 (`pyenv install 3.7`)",
            );
        }
        found
    }

    /// The one with TensorFlow 1.15, for a test that has another way.
    pub fn with_tensorflow_1_if_any() -> Option<Interpreter> {
        find("TENSORFLEET_TF1_PYTHON", "tf1")
    }

    /// The interpreter.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// A command that runs a program of `tests/python`.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("-B").arg(program_directory().join(program));
        command
    }
}

fn find(variable: &str, environment: &str) -> Option<Interpreter> {
    if let Some(program) = std::env::var_os(variable).filter(|program| !program.is_empty()) {
        return Some(Interpreter { program: program.into() });
    }
    let directory = target_directory()?.join("python").join(environment);
    let program = directory.join("bin/python");
    // The stamp is written last, so its absence marks an installation that was broken off.
    (directory.join("complete").exists() && program.exists()).then_some(Interpreter { program })
}

/// Where cargo builds: the test executable lies in `<target>/<profile>/deps`.
fn target_directory() -> Option<PathBuf> {
    Some(profile_directory()?.parent()?.to_path_buf())
}

/// Where cargo puts the programs of the profile that this one was built with; tests lie one level deeper.
pub(crate) fn profile_directory() -> Option<PathBuf> {
    let executable = std::env::current_exe().ok()?;
    let directory = executable.parent()?;
    let is_test = directory.file_name().is_some_and(|name| name == "deps");
    Some(if is_test { directory.parent()? } else { directory }.to_path_buf())
}

fn program_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("python")
}

/// What a program said about one check.
#[derive(Clone, Debug)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// Whether it passed.
    pub passed: bool,
    /// How long it took.
    pub seconds: f64,
    /// What the program adds: figures, or a traceback.
    pub detail: String,
}

/// A program that runs.
pub struct Program {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: tempfile::NamedTempFile,
    deadline: Instant,
    limit: Duration,
}

impl Program {
    /// Starts a program of `tests/python`, which must have ended after `limit`.
    pub fn start(
        interpreter: &Interpreter,
        name: &str,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
        limit: Duration,
    ) -> Result<Program, String> {
        let failed =
            |error: std::io::Error| format!("{name} with {}: {error}", interpreter.program.display());
        let errors = tempfile::NamedTempFile::new().map_err(failed)?;
        let mut child = interpreter
            .command(name)
            .args(arguments.into_iter().map(Into::into))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.reopen().map_err(failed)?)
            .spawn()
            .map_err(failed)?;
        let input = child.stdin.take();
        let (sender, lines) = channel();
        if let Some(output) = child.stdout.take() {
            // Ends with the output of the child, which `Drop` ends at the latest.
            std::thread::spawn(move || {
                BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
            });
        }
        let deadline = Instant::now() + limit;
        Ok(Program { name: name.to_string(), child, input, lines, errors, deadline, limit })
    }

    /// Reads all checks until the program ends; `answer` does what the program asks for.
    pub fn finish(
        mut self,
        mut answer: impl FnMut(&Value) -> Result<(), String>,
    ) -> Result<Vec<Check>, String> {
        let mut checks = Vec::new();
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.read(&line, &mut checks, &mut answer)?,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let last = checks.last().map_or("any check", |check: &Check| &check.name);
                    return Err(
                        self.story(&format!("had not ended after {:?}, hangs after {last}", self.limit))
                    );
                }
            }
        }
        let status = self.child.wait().map_err(|error| self.story(&error.to_string()))?;
        self.judge(status, checks)
    }

    fn read(
        &mut self,
        line: &str,
        checks: &mut Vec<Check>,
        answer: &mut impl FnMut(&Value) -> Result<(), String>,
    ) -> Result<(), String> {
        // Other lines come from TensorFlow itself.
        let Ok(value) = serde_json::from_str::<Value>(line) else { return Ok(()) };
        if value["ask"].is_string() {
            answer(&value).map_err(|reason| self.story(&reason))?;
            let answered = self.input.as_mut().map_or(Ok(()), |input| input.write_all(b"done\n"));
            return answered.map_err(|error| self.story(&error.to_string()));
        }
        if let Some(name) = value["check"].as_str() {
            let detail = value["detail"].as_str().map_or_else(|| value["detail"].to_string(), str::to_string);
            checks.push(Check {
                name: name.to_string(),
                passed: value["ok"] == true,
                seconds: value["seconds"].as_f64().unwrap_or_default(),
                detail,
            });
        }
        Ok(())
    }

    fn judge(&self, status: ExitStatus, checks: Vec<Check>) -> Result<Vec<Check>, String> {
        if checks.is_empty() {
            return Err(self.story(&format!("made no check: {status}")));
        }
        if !status.success() && checks.iter().all(|check| check.passed) {
            return Err(self.story(&format!("broke off after {} checks: {status}", checks.len())));
        }
        Ok(checks)
    }

    fn story(&self, what: &str) -> String {
        format!("{} {what}\n{}", self.name, end_of_log(self.errors.path()))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only for a child that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The last lines of a log, for people.
pub(crate) fn end_of_log(path: &Path) -> String {
    let mut text = Vec::new();
    if File::open(path).and_then(|mut file| std::io::Read::read_to_end(&mut file, &mut text)).is_err() {
        return String::new();
    }
    let end = &text[text.len().saturating_sub(SHOWN_LOG_BYTES)..];
    String::from_utf8_lossy(end).into_owned()
}
