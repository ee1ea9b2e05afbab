//! A cluster of processes on this machine: started together, heard through one channel, ended together.
//!
//! `launch` and `train` share it. It decides nothing: what the end of a task means, what is shown and when all should
//! stop is up to them. What it guarantees is that nothing it has started is left running, however the launcher ends.

mod addresses;
mod lines;
mod process;

use std::ffi::OsString;
use std::fmt;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tensorfleet::{Result, Status, TaskId};

pub(crate) use addresses::{Addresses, Ports, short_name};
use process::{Groups, Process};

use crate::signals::Signals;

/// Lines that wait to be shown. A program that writes faster than the terminal waits, as it would without us.
const MAX_PENDING_EVENTS: usize = 1024;
/// How often a wait looks for a signal.
const SIGNAL_POLL: Duration = Duration::from_millis(50);
/// What workers and parameter servers get at least after the tasks before them have used up the grace.
const LEAST_GRACE: Duration = Duration::from_millis(500);
/// How long a killed process may take to be gone: it may have to leave a system call first.
const KILLED: Duration = Duration::from_secs(5);

/// Which output of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Code(i32),
    Signal(i32),
}

impl End {
    pub(crate) fn is_success(self) -> bool {
        self == End::Code(0)
    }

    /// The exit code a shell would give: 128 and the signal for a process that was killed.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            End::Code(code) => (code & 0xff) as u8,
            End::Signal(signal) => (128 + (signal & 0x7f)) as u8,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Code(code) => write!(f, "ended with exit code {code}"),
            End::Signal(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "was killed by {name}"),
                None => write!(f, "was killed by signal {signal}"),
            },
        }
    }
}

fn signal_name(number: i32) -> Option<&'static str> {
    const NAMES: [(Signal, &str); 9] = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::ILL, "SIGILL"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::KILL, "SIGKILL"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::TERM, "SIGTERM"),
    ];
    NAMES.iter().find(|(signal, _)| signal.as_raw() == number).map(|&(_, name)| name)
}

/// What happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// A task wrote a line.
    Line { task: usize, stream: Stream, text: String },
    /// A task's process ended; all its lines came before.
    Ended { task: usize, run: u32, end: End },
    /// The launcher was asked to end, by this signal.
    Signal(i32),
}

/// What a task runs.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
}

/// A running cluster; its processes end with it.
pub(crate) struct LocalCluster {
    tasks: Vec<Task>,
    events: Receiver<Event>,
    sender: SyncSender<Event>,
    signals: Signals,
    groups: Groups,
}

struct Task {
    id: TaskId,
    program: Program,
    tf_config: String,
    /// The process, also when it has ended: until the cluster stops, its group may have members.
    process: Option<Process>,
    /// Counts the starts, so that the end of a process is not taken for that of its successor.
    run: u32,
    is_running: bool,
}

impl LocalCluster {
    /// Starts all tasks, in order. Must be called, and used, by a thread that lives as long as the cluster.
    pub(crate) fn start(
        addresses: &Addresses,
        program_of: impl Fn(&TaskId) -> Program,
    ) -> Result<LocalCluster> {
        let groups = Groups::default();
        let for_second_signal = groups.clone();
        let signals = Signals::catch(move || for_second_signal.kill_all())?;
        let (sender, events) = sync_channel(MAX_PENDING_EVENTS);
        let mut cluster = LocalCluster { tasks: Vec::new(), events, sender, signals, groups };
        for id in addresses.tasks() {
            let (program, tf_config) = (program_of(&id), addresses.tf_config(&id));
            cluster.tasks.push(Task { id, program, tf_config, process: None, run: 0, is_running: false });
            cluster.restart(cluster.tasks.len() - 1)?;
        }
        Ok(cluster)
    }

    /// Starts a task again, or for the first time; what its group has left running is killed.
    pub(crate) fn restart(&mut self, index: usize) -> Result<()> {
        let Some(task) = self.tasks.get_mut(index) else {
            return Err(Status::internal(format!("the cluster has no task number {index}")));
        };
        task.process = None;
        task.run += 1;
        let mut command = Command::new(&task.program.program);
        command.args(&task.program.arguments).env("TF_CONFIG", &task.tf_config);
        // Python keeps what it prints to a pipe for itself until there is a lot of it.
        if std::env::var_os("PYTHONUNBUFFERED").is_none() {
            command.env("PYTHONUNBUFFERED", "1");
        }
        let process = Process::start(command, index, task.run, &self.groups, &self.sender)
            .map_err(|error| not_started(&task.program, &error))?;
        task.process = Some(process);
        task.is_running = true;
        Ok(())
    }

    /// What a task is called.
    pub(crate) fn name(&self, task: usize) -> String {
        self.tasks.get(task).map(|task| short_name(&task.id)).unwrap_or_default()
    }

    /// Which task it is.
    pub(crate) fn id(&self, task: usize) -> Option<&TaskId> {
        self.tasks.get(task).map(|task| &task.id)
    }

    /// How long ago the task was started.
    pub(crate) fn age(&self, task: usize) -> Duration {
        let process = self.tasks.get(task).and_then(|task| task.process.as_ref());
        process.map_or(Duration::ZERO, |process| process.started.elapsed())
    }

    /// How many tasks of a job run.
    pub(crate) fn num_running(&self, job: &str) -> usize {
        self.tasks.iter().filter(|task| task.is_running && task.id.job == job).count()
    }

    /// The next event; none if there is none before the deadline. A signal comes first.
    pub(crate) fn next(&mut self, deadline: Option<Instant>) -> Option<Event> {
        loop {
            if let Some(signal) = self.signals.take() {
                return Some(Event::Signal(signal));
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            match self.events.recv_timeout(left.map_or(SIGNAL_POLL, |left| left.min(SIGNAL_POLL))) {
                Ok(Event::Ended { task, run, end }) => {
                    let Some(state) = self.tasks.get_mut(task).filter(|state| state.run == run) else {
                        continue;
                    };
                    state.is_running = false;
                    return Some(Event::Ended { task, run, end });
                }
                Ok(event) => return Some(event),
                Err(RecvTimeoutError::Timeout) if left.is_none_or(|left| !left.is_zero()) => {}
                // The cluster itself holds a sender, so the channel is never closed.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Ends everything: SIGTERM to the chief, then to the other workers, then to the parameter servers, each when those before
    /// are gone or the grace is over; then SIGKILL for what is left. `on_event` hears what happens meanwhile.
    ///
    /// The chief is first because it can only save the model while the others are there.
    pub(crate) fn stop(&mut self, grace: Duration, mut on_event: impl FnMut(&LocalCluster, Event)) {
        let deadline = Instant::now() + grace;
        let is_chief = |id: &TaskId| id.job != "ps" && id.index == 0;
        let phases: [&dyn Fn(&TaskId) -> bool; 3] =
            [&is_chief, &|id| id.job != "ps" && !is_chief(id), &|id| id.job == "ps"];
        for is_meant in phases {
            let meant = |task: &&Task| is_meant(&task.id);
            let processes = self.tasks.iter().filter(meant).filter_map(|task| task.process.as_ref());
            processes.for_each(|process| process.signal(Signal::TERM));
            let deadline = deadline.max(Instant::now() + LEAST_GRACE.min(grace));
            while self.tasks.iter().filter(meant).any(|task| task.is_running) {
                let Some(event) = self.next(Some(deadline)) else { break };
                on_event(self, event);
            }
        }
        self.groups.kill_all();
        let deadline = Instant::now() + KILLED;
        while self.tasks.iter().any(|task| task.is_running) {
            let Some(event) = self.next(Some(deadline)) else { break };
            on_event(self, event);
        }
        self.tasks.iter_mut().for_each(|task| task.process = None);
        while let Ok(event) = self.events.try_recv() {
            on_event(self, event);
        }
    }
}

fn not_started(program: &Program, error: &std::io::Error) -> Status {
    let name = program.program.to_string_lossy();
    match error.kind() {
        _ if name.is_empty() => Status::invalid_argument(
            "the name of the program is empty: name what to run, e.g. 'tensorfleet launch -- python3 trainer.py'",
        ),
        std::io::ErrorKind::NotFound if name.contains('/') => Status::not_found(format!(
            "there is no program '{name}': name a file that exists, or a command of your PATH"
        )),
        std::io::ErrorKind::NotFound => Status::not_found(format!(
            "there is no program '{name}' in your PATH: install it, or give its path, e.g. ./{name}"
        )),
        std::io::ErrorKind::PermissionDenied => Status::failed_precondition(format!(
            "'{name}' may not be executed: make it executable (chmod +x), or name its interpreter first, e.g. python3 {name}"
        )),
        _ => Status::internal(format!(
            "'{name}' cannot be started: {error}; look at its first line, or name its interpreter"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_as_a_shell_tells_them() {
        assert_eq!(
            (End::Code(3).to_string(), End::Code(3).exit_code()),
            ("ended with exit code 3".into(), 3)
        );
        assert_eq!(
            (End::Signal(9).to_string(), End::Signal(9).exit_code()),
            ("was killed by SIGKILL".into(), 137)
        );
        assert_eq!(End::Signal(63).to_string(), "was killed by signal 63");
        assert!(End::Code(0).is_success() && !End::Code(1).is_success());
    }
}
