//! A program as a process whose words tests wait for: started, paced, killed, and gone when dropped.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::python;

/// How long anything may take on a machine with other work.
const LIMIT: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(5);

/// A running program; killed with the value.
pub struct Program {
    process: Process,
    input: ChildStdin,
    lines: Receiver<String>,
    log: tempfile::NamedTempFile,
}

impl Program {
    /// Starts a command. Its standard output is read line by line, its error output kept.
    pub fn spawn(mut command: Command) -> Result<Program, String> {
        let name = PathBuf::from(command.get_program()).display().to_string();
        let failed = |error: std::io::Error| format!("starting {name}: {error}");
        let log = tempfile::NamedTempFile::new().map_err(failed)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log.reopen().map_err(failed)?);
        let mut child = command.spawn().map_err(failed)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let process = Process { child };
        let (input, output) = input.zip(output).ok_or("the program has no pipes")?;
        let (sender, lines) = std::sync::mpsc::channel();
        // Ends with the program, whose output it reads.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { break };
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Program { process, input, lines, log })
    }

    /// Writes a line to its standard input.
    pub fn tell(&mut self, line: &str) -> Result<(), String> {
        writeln!(self.input, "{line}").and_then(|()| self.input.flush()).map_err(|error| error.to_string())
    }

    /// The next line it says.
    pub fn next_line(&self) -> Result<String, String> {
        match self.lines.recv_timeout(LIMIT) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => Err(format!("no word for {LIMIT:?}\n{}", self.log())),
            Err(RecvTimeoutError::Disconnected) => Err(format!("the program has ended\n{}", self.log())),
        }
    }

    /// Reads lines until `found` gives something for one.
    pub fn wait_for<T>(&self, mut found: impl FnMut(&str) -> Option<T>) -> Result<T, String> {
        loop {
            let line = self.next_line()?;
            if let Some(value) = found(&line) {
                return Ok(value);
            }
        }
    }

    /// Waits until the process has ended by itself.
    pub fn wait_for_end(&mut self) -> Result<ExitStatus, String> {
        let deadline = Instant::now() + LIMIT;
        loop {
            match self.process.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if Instant::now() > deadline => {
                    return Err(format!("it still runs after {LIMIT:?}\n{}", self.log()));
                }
                Ok(None) => std::thread::sleep(POLL),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Waits until it has ended well; the lines that were not read before.
    pub fn wait_for_success(mut self) -> Result<Vec<String>, String> {
        let status = self.wait_for_end()?;
        let lines: Vec<String> = self.lines.iter().collect();
        match status.success() {
            true => Ok(lines),
            false => Err(format!("{status}\n{}\n{}", lines.join("\n"), self.log())),
        }
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.process.child.try_wait(), Ok(None))
    }

    /// Kills it with SIGKILL.
    pub fn kill(mut self) {
        self.process.end();
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.process.child.id()
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap_or_default()
    }
}

/// The example of this name, of the same build as the running test.
pub fn example(name: &str) -> Result<PathBuf, String> {
    built(&["examples", name])
}

/// A program of the same build as the running test, by its place in the directory of the profile.
pub(crate) fn built(place: &[&str]) -> Result<PathBuf, String> {
    let mut program = python::profile_directory().ok_or("this test does not know where it lies")?;
    program.extend(place);
    match program.is_file() {
        true => Ok(program),
        false => {
            Err(format!("{} is not built; `cargo test --workspace` without more does so", program.display()))
        }
    }
}

/// A child that is killed and reaped when dropped.
pub(crate) struct Process {
    pub(crate) child: Child,
}

impl Process {
    pub(crate) fn end(&mut self) {
        // Both fail only for a child that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
