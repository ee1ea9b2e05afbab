//! `tensorfleet launch`: any training program as a cluster on this machine.
//!
//! Every task is a process of the same program, told its place by flags and by `TF_CONFIG`. The run is the chief's: when it
//! ends, all ends, with its exit code.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use tensorfleet::{Result, Status, TaskId};

use crate::Failure;
use crate::gutter::Gutter;
use crate::local_cluster::{Addresses, End, Event, LocalCluster, Ports, Program, Stream, short_name};
use crate::python;
use crate::terminal;
use crate::units::duration;
use crate::units::seconds;

/// How much of a task's last line is repeated when it fails.
const LAST_LINE_CHARS: usize = 200;
/// How many addresses the first line lists.
const MAX_ADDRESSES: usize = 8;
/// A task that ran for so long before it failed is started again at once: what ended it came later than its start.
const HEALTHY: Duration = Duration::from_secs(10);
/// The pause before a task that failed soon is started again; twice as long each time. A port that is not free yet, or a file
/// server that is away for a moment, must not use up all attempts.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

pub(crate) const LAUNCH_HELP: &str = "\
PROGRAM is started once for each task, with its arguments and --ps_hosts, --worker_hosts, --job_name and --task_index after \
them; TF_CONFIG in its environment says the same. Lines it prints are shown with the task's name before them, stdout on \
stdout and stderr on stderr. worker/0 is the chief: when it has ended, the others get a moment to finish and are stopped, and \
its exit code is the launcher's (128 and the signal's number if it was killed). Ctrl-C stops all tasks; a second one kills them.

With --restart, a task that failed within 10 seconds of its start is started again after a pause: 1 second, then 2, 4, up to 30.

Examples:
  A trainer of yours with a parameter server and two workers:
    tensorfleet launch -- target/release/examples/mnist_replica --train_steps=1000
  A TensorFlow script in Python, as it is; its `import tensorflow` gives tensorfleet, as with `tensorfleet run`:
    tensorfleet launch --ps 2 --workers 3 -- trainer.py --log_dir=/tmp/run
  The same with the TensorFlow that is installed:
    tensorfleet launch --ps 2 --workers 3 -- python3 trainer.py --log_dir=/tmp/run
  One that knows TF_CONFIG only, with tasks that are started again when they fail:
    tensorfleet launch --workers 4 --no-flags --restart 3 -- python3 trainer.py
  What every task is told:
    tensorfleet launch -- sh -c 'echo $TF_CONFIG; echo \"$@\"' sh";

/// Arguments of `launch`.
#[derive(Args, Debug)]
pub(crate) struct LaunchArguments {
    /// How many parameter servers; 0 for a cluster of workers alone.
    #[arg(long, value_name = "N", default_value = "1", value_parser = num_ps)]
    pub(crate) ps: usize,

    /// How many workers, the first of which is the chief.
    #[arg(long, value_name = "M", default_value = "2", value_parser = num_workers)]
    pub(crate) workers: usize,

    /// Append no flags to the program's arguments: it reads TF_CONFIG.
    #[arg(long = "no-flags", alias = "no_flags")]
    pub(crate) no_flags: bool,

    /// Start a task that fails again, up to N times each.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) restart: u32,

    /// How long other workers may take to finish after the chief, and all tasks to end when they are asked to.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub(crate) grace: Duration,

    /// The first of consecutive ports, parameter servers first; free ones are chosen otherwise.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,

    /// The name or address of this machine that the tasks know each other by.
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) host: String,

    /// The program and its arguments.
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) program: Vec<OsString>,
}

/// More processes than this on one machine are a slip of the finger.
const MAX_TASKS: usize = 256;

/// A number of parameter servers.
pub(crate) fn num_ps(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if count <= MAX_TASKS => Ok(count),
        // Whether there may be none is up to the command.
        _ => Err(format!("expected a whole number from 0 to {MAX_TASKS}")),
    }
}

/// A number of workers.
pub(crate) fn num_workers(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => {
            Err("the first worker is the chief, so there must be one; use --workers 1 or more".to_string())
        }
        Ok(count) if count <= MAX_TASKS => Ok(count),
        _ => Err(format!("expected a whole number from 1 to {MAX_TASKS}")),
    }
}

pub(crate) fn run(arguments: LaunchArguments) -> Result<(), Failure> {
    let ports = arguments.port.map_or(Ports::Free, Ports::From);
    let addresses = Addresses::choose(&arguments.host, ports, arguments.ps, arguments.workers)?;
    let names: Vec<String> = addresses.tasks().iter().map(short_name).collect();
    let gutter = Gutter::new(&names);
    let interpreter = match arguments.program.first() {
        Some(program) if python::is_script(program) => Some(python::interpreter(None)?),
        _ => None,
    };
    let program = |task: &TaskId| program_of(&arguments, interpreter.as_deref(), &addresses, task);
    let cluster = LocalCluster::start(&addresses, program)?;
    // Nothing the tasks print is shown before.
    gutter.say(&first_line(&addresses));
    let tasks = names.iter().map(|_| TaskState::default()).collect();
    Launch { cluster, gutter, tasks, restart: arguments.restart, grace: arguments.grace }.run()
}

/// A script in Python is run by `interpreter`, as `tensorfleet run` does.
fn program_of(
    arguments: &LaunchArguments,
    interpreter: Option<&Path>,
    addresses: &Addresses,
    task: &TaskId,
) -> Program {
    let mut words = match interpreter {
        None => arguments.program.clone(),
        Some(interpreter) => {
            let rest = python::arguments(arguments.program.iter().cloned());
            [interpreter.into()].into_iter().chain(rest).collect()
        }
    }
    .into_iter();
    // clap insists on one word at least.
    let program = words.next().unwrap_or_default();
    let flags = addresses.flags(task).map(OsString::from);
    let arguments = match arguments.no_flags {
        true => words.collect(),
        false => words.chain(flags).collect(),
    };
    Program { program, arguments }
}

fn first_line(addresses: &Addresses) -> String {
    let named = |(place, (task, address)): (usize, (TaskId, &str))| {
        let role = if task == TaskId::new("worker", 0) { " (chief)" } else { "" };
        // The host is the same for all.
        let port = address.rfind(':').and_then(|colon| address.get(colon..)).filter(|_| place > 0);
        format!("{}{role} {}", short_name(&task), port.unwrap_or(address))
    };
    let all: Vec<String> = addresses.iter().enumerate().map(named).collect();
    let shown = all.get(..MAX_ADDRESSES).unwrap_or(&all).join(", ");
    match all.len().saturating_sub(MAX_ADDRESSES) {
        0 => format!("starts {shown}"),
        more => format!("starts {shown} and {more} more"),
    }
}

/// What is remembered of a task.
#[derive(Default)]
struct TaskState {
    restarts: u32,
    /// How often in a row it failed soon after its start.
    early_failures: u32,
    /// When it is started again.
    due: Option<Instant>,
    last_line: String,
    /// The last line that says what went wrong.
    last_error: String,
}

impl TaskState {
    fn note(&mut self, line: String) {
        if names_error(&line) {
            self.last_error = line.clone();
        }
        self.last_line = line;
    }

    /// How long to wait before the next start of a task that ran for `age`.
    fn pause(&mut self, age: Duration) -> Duration {
        if age >= HEALTHY {
            self.early_failures = 0;
            return Duration::ZERO;
        }
        let pause = FIRST_PAUSE.saturating_mul(2u32.saturating_pow(self.early_failures)).min(LONGEST_PAUSE);
        self.early_failures += 1;
        pause
    }

    /// The line that tells most about its end: an advice to read the help is rarely that.
    fn last_words(&self) -> &str {
        let is_advice = self.last_line.to_lowercase().contains("--help");
        match is_advice && !self.last_error.is_empty() {
            true => self.last_error.trim(),
            false => self.last_line.trim(),
        }
    }
}

fn names_error(line: &str) -> bool {
    let line = line.to_lowercase();
    line.contains("error") || line.contains("unrecognized") || line.contains("invalid")
}

/// What the end of a task means for the run.
enum Verdict {
    /// Nothing: it was done, or the others can do without it.
    GoOn,
    /// The chief has ended.
    Done(End),
    /// Training cannot go on.
    Lost(Status),
}

struct Launch {
    cluster: LocalCluster,
    gutter: Gutter,
    tasks: Vec<TaskState>,
    restart: u32,
    grace: Duration,
}

impl Launch {
    fn run(mut self) -> Result<(), Failure> {
        loop {
            self.start_due()?;
            let Some(event) = self.cluster.next(self.next_start()) else { continue };
            let verdict = match event {
                Event::Line { task, stream, text } => match self.show(task, stream, text) {
                    Ok(()) => Verdict::GoOn,
                    Err(error) => {
                        self.stop();
                        return Err(match terminal::lost(&error) {
                            Some(status) => Failure::Error(status),
                            // Whoever read the output has seen enough (`| head`): the end that a shell's pipe brings.
                            None => {
                                let pipe = rustix::process::Signal::PIPE.as_raw();
                                Failure::Exit(End::Signal(pipe).exit_code())
                            }
                        });
                    }
                },
                Event::Ended { task, end, .. } => self.judge(task, end)?,
                Event::Signal(signal) => {
                    self.gutter.say("stops all tasks; once more kills them");
                    self.stop();
                    return Err(Failure::Exit(End::Signal(signal).exit_code()));
                }
            };
            match verdict {
                Verdict::GoOn => {}
                Verdict::Done(end) => return self.finish(end),
                Verdict::Lost(status) => {
                    self.stop();
                    return Err(Failure::Error(status));
                }
            }
        }
    }

    /// When the next task that rests is to be started again.
    fn next_start(&self) -> Option<Instant> {
        self.tasks.iter().filter_map(|state| state.due).min()
    }

    fn start_due(&mut self) -> Result<()> {
        let now = Instant::now();
        for (task, state) in self.tasks.iter_mut().enumerate() {
            if state.due.is_some_and(|due| due <= now) {
                state.due = None;
                self.cluster.restart(task)?;
            }
        }
        Ok(())
    }

    fn show(&mut self, task: usize, stream: Stream, text: String) -> std::io::Result<()> {
        self.gutter.line(task, stream, &text)?;
        if let Some(state) = self.tasks.get_mut(task).filter(|_| !text.trim().is_empty()) {
            state.note(text);
        }
        Ok(())
    }

    fn judge(&mut self, task: usize, end: End) -> Result<Verdict> {
        let is_chief = self.cluster.id(task).is_some_and(|id| id.job != "ps" && id.index == 0);
        let is_ps = self.cluster.id(task).is_some_and(|id| id.job == "ps");
        if end.is_success() {
            return Ok(if is_chief { Verdict::Done(end) } else { Verdict::GoOn });
        }
        let (obituary, age) = (self.obituary(task, end), self.cluster.age(task));
        let Some(state) = self.tasks.get_mut(task) else { return Ok(Verdict::GoOn) };
        if state.restarts < self.restart {
            state.restarts += 1;
            let (count, pause) = (state.restarts, state.pause(age));
            let when = match pause.is_zero() {
                true => String::new(),
                false => format!(" in {}", duration(pause.as_secs_f64())),
            };
            state.due = Some(Instant::now() + pause);
            let most = self.restart;
            self.gutter.say(&format!("{obituary}; it is started again{when}, {count} of {most} times"));
            return Ok(Verdict::GoOn);
        }
        if is_ps {
            let look = match state.last_line.is_empty() {
                true => "run it by itself to see why",
                false => "see what it printed",
            };
            let advice = match self.restart {
                0 => "have it started again with --restart 3".to_string(),
                1 => "have it started again more often than once".to_string(),
                most => format!("have it started again more often than {most} times"),
            };
            return Ok(Verdict::Lost(Status::unavailable(format!(
                "{obituary}; training cannot go on without its variables, so all tasks were stopped: {look}, or {advice}"
            ))));
        }
        self.gutter.say(&obituary);
        Ok(if is_chief { Verdict::Done(end) } else { Verdict::GoOn })
    }

    /// How a task ended, and its last words.
    fn obituary(&self, task: usize, end: End) -> String {
        let (name, age) = (self.cluster.name(task), duration(self.cluster.age(task).as_secs_f64()));
        let last_line = self.tasks.get(task).map_or("", TaskState::last_words);
        if last_line.is_empty() {
            return format!("{name} {end} after {age} and printed nothing");
        }
        let shown: String = last_line.chars().take(LAST_LINE_CHARS).collect();
        let cut = if shown.len() < last_line.len() { "…" } else { "" };
        format!("{name} {end} after {age}: {shown}{cut}")
    }

    /// The chief is done: lets other workers finish, then stops what is left.
    fn finish(mut self, end: End) -> Result<(), Failure> {
        // After a failure the others wait for a chief that does not come.
        let grace = if end.is_success() { self.grace } else { Duration::ZERO };
        let deadline = Instant::now() + grace;
        let mut signal = None;
        while self.cluster.num_running("worker") > 0 && signal.is_none() {
            match self.cluster.next(Some(deadline)) {
                None => break,
                Some(Event::Line { task, stream, text }) => {
                    let _ = self.show(task, stream, text);
                }
                Some(Event::Ended { task, end, .. }) if !end.is_success() => {
                    self.gutter.say(&self.obituary(task, end));
                }
                Some(Event::Ended { .. }) => {}
                Some(Event::Signal(number)) => signal = Some(number),
            }
        }
        let left = match (self.cluster.num_running("worker"), grace.is_zero()) {
            (0, _) | (_, true) => String::new(),
            (1, _) => format!("; a worker still runs {} later and is stopped", duration(grace.as_secs_f64())),
            (count, _) => {
                format!("; {count} workers still run {} later and are stopped", duration(grace.as_secs_f64()))
            }
        };
        if end.is_success() {
            let age = duration(self.cluster.age(self.chief()).as_secs_f64());
            self.gutter.say(&format!("the chief is done after {age}{left}"));
        }
        self.stop();
        match (signal, end.is_success()) {
            (Some(signal), _) => Err(Failure::Exit(End::Signal(signal).exit_code())),
            (None, true) => Ok(()),
            (None, false) => Err(Failure::Exit(end.exit_code())),
        }
    }

    fn chief(&self) -> usize {
        let is_chief =
            |&task: &usize| self.cluster.id(task).is_some_and(|id| id.job != "ps" && id.index == 0);
        (0..self.tasks.len()).find(is_chief).unwrap_or_default()
    }

    /// Ends all tasks, whose last lines are still shown; how they end is no news any more.
    fn stop(&mut self) {
        let gutter = &self.gutter;
        self.cluster.stop(self.grace, |_, event| {
            if let Event::Line { task, stream, text } = event {
                let _ = gutter.line(task, stream, &text);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_at_once_rests_longer_each_time_and_what_ran_does_not_rest() {
        let mut state = TaskState::default();
        let seconds = |state: &mut TaskState| state.pause(Duration::from_millis(5)).as_secs();
        assert_eq!([(); 7].map(|()| seconds(&mut state)), [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(state.pause(HEALTHY), Duration::ZERO);
        assert_eq!(seconds(&mut state), 1);
    }

    #[test]
    fn the_error_is_quoted_rather_than_the_advice_below_it() {
        let last_words = |lines: &[&str]| {
            let mut state = TaskState::default();
            lines.iter().for_each(|line| state.note((*line).to_string()));
            state.last_words().to_string()
        };
        let of_clap = ["error: unexpected argument '--x' found", "", "For more information, try '--help'."];
        assert_eq!(last_words(&of_clap), "error: unexpected argument '--x' found");
        assert_eq!(
            last_words(&["ls: unrecognized option '--x'", "Try 'ls --help'."]),
            "ls: unrecognized option '--x'"
        );
        assert_eq!(last_words(&["an error was handled", "disk full"]), "disk full");
    }
}
