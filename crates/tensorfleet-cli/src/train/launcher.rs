//! The launcher of `train mnist`: starts the cluster, shows its progress, tells the result or what went wrong.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use tensorfleet::{Result, Status, TaskId};
use tensorfleet_datasets::mnist;

use super::arguments::MnistArguments;
use super::invocation::{self, command};
use super::log_dir::LogDir;
use super::progress::{Activity, Progress};
use super::progress_display::{ProgressDisplay, REDRAW_EVERY};
use super::report::{Outcome, Report};
use super::result_text::{self, Context};
use super::task_watch::{TaskWatch, WatchedTask};
use crate::Failure;
use crate::local_cluster::{Addresses, End, Event, LocalCluster, Ports, Program, Stream, short_name};
use crate::terminal;
use crate::units::duration;

/// The cluster is nobody else's business.
const HOST: &str = "127.0.0.1";
/// How often other ports are tried when someone else takes one between our choice and the task's start.
const START_ATTEMPTS: usize = 4;
/// What the chief may take to save the model and all others to end.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// What other workers may take to notice that the last step is done.
const FINISH_GRACE: Duration = Duration::from_secs(5);
/// After a failure there is nothing to save, and nobody likes to wait.
const FAILURE_GRACE: Duration = Duration::from_secs(1);

pub(super) fn run(arguments: &MnistArguments) -> Result<(), Failure> {
    let log_dir = LogDir::for_model(arguments)?;
    let outcome = train(arguments, &log_dir);
    if outcome.is_err() && arguments.log_dir.is_none() {
        log_dir.remove_if_unused();
    }
    outcome
}

fn train(arguments: &MnistArguments, log_dir: &LogDir) -> Result<(), Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Status::internal(format!("this program does not find itself to start it again: {error}"))
    })?;
    if let Some(dir) = &arguments.data_dir {
        // Before anything is said of training; the workers read it again.
        mnist::open(Some(dir))?;
    }
    let mut display = ProgressDisplay::new();
    display.say(&first_line(arguments, log_dir));
    if let Some(warning) = log_dir.warning() {
        display.say(&format!("warning: {warning}"));
    }
    for attempt in 1.. {
        let addresses = Addresses::choose(HOST, Ports::Free, arguments.num_ps(), arguments.num_workers())?;
        let cluster = LocalCluster::start(&addresses, |task| Program {
            program: program.clone().into_os_string(),
            arguments: task_arguments(arguments, &addresses, log_dir, task),
        })?;
        let tasks = addresses
            .iter()
            .map(|(task, address)| WatchedTask { name: short_name(&task), address: address.to_string() });
        let watch = TaskWatch::new(tasks.collect());
        let training = Training::new(arguments, log_dir, cluster, &mut display, watch);
        match training.run() {
            Err(Problem::PortTaken(_)) if attempt < START_ATTEMPTS => {}
            Err(Problem::PortTaken(status) | Problem::Other(Failure::Error(status))) => {
                return Err(status.into());
            }
            Err(Problem::Other(failure)) => return Err(failure),
            Ok(()) => break,
        }
    }
    Ok(())
}

fn first_line(arguments: &MnistArguments, log_dir: &LogDir) -> String {
    let workers = match arguments.num_workers() {
        1 => "1 worker".to_string(),
        count => format!("{count} workers"),
    };
    let mode = if arguments.sync { "synchronous" } else { "asynchronous" };
    let resumed = match log_dir.first_step() {
        Some(step) if step >= i64::from(arguments.steps) => format!(
            "; all {step} steps are made already, so the model is only judged (--steps {} continues)",
            2 * step
        ),
        Some(step) => format!("; resuming at step {step}"),
        None => String::new(),
    };
    format!("Training on {} ps and {workers}, {mode}{resumed}", arguments.num_ps())
}

/// What a task is told: parameter servers only serve, workers train.
fn task_arguments(
    arguments: &MnistArguments,
    addresses: &Addresses,
    log_dir: &LogDir,
    task: &TaskId,
) -> Vec<OsString> {
    let mut all: Vec<OsString> = Vec::new();
    if is_verbose() {
        all.push("-v".into());
    }
    let add = |all: &mut Vec<OsString>, text: String| all.push(text.into());
    match task.job.as_str() {
        "ps" => all.push("serve".into()),
        _ => {
            all.extend(["train", "mnist", "--report=json"].map(OsString::from));
            for (flag, value) in [
                ("steps", arguments.steps.to_string()),
                ("batch_size", arguments.batch_size.to_string()),
                ("learning_rate", arguments.learning_rate.to_string()),
                ("hidden_units", arguments.hidden_units.to_string()),
                ("seed", arguments.seed.to_string()),
                ("wait", arguments.wait.as_secs_f64().to_string()),
                ("save-every", arguments.save_every.as_secs_f64().to_string()),
                ("backup", arguments.backup.to_string()),
                ("log_dir", log_dir.path().to_string()),
            ] {
                add(&mut all, format!("--{flag}={value}"));
            }
            if arguments.sync {
                all.push("--sync".into());
            }
            if let Some(count) = arguments.min_replicas {
                add(&mut all, format!("--min_replicas={count}"));
            }
            if let Some(dir) = &arguments.data_dir {
                all.extend(["--data_dir".into(), dir.into()]);
            }
        }
    }
    add(&mut all, format!("--bind={HOST}"));
    all.extend(addresses.flags(task).map(OsString::from));
    all
}

/// Whether the user wants to see what the tasks log.
fn is_verbose() -> bool {
    tracing::enabled!(tracing::Level::INFO)
}

/// Why a training did not come to its end.
enum Problem {
    /// Someone took a port of the cluster before its task did: another attempt may succeed.
    PortTaken(Status),
    Other(Failure),
}

impl From<Status> for Problem {
    fn from(status: Status) -> Problem {
        Problem::Other(Failure::Error(status))
    }
}

/// What the chief said about its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChiefEnd {
    Unknown,
    /// It has saved the model.
    Saved,
    /// The loss is not a number, so there is nothing worth to go on from.
    Diverged,
}

struct Training<'a> {
    arguments: &'a MnistArguments,
    log_dir: &'a LogDir,
    cluster: LocalCluster,
    display: &'a mut ProgressDisplay,
    watch: TaskWatch,
    progress: Progress,
    outcome: Option<Outcome>,
    end: ChiefEnd,
    /// The last words of each task on standard error.
    last_words: Vec<String>,
    next_redraw: Instant,
}

impl<'a> Training<'a> {
    fn new(
        arguments: &'a MnistArguments,
        log_dir: &'a LogDir,
        cluster: LocalCluster,
        display: &'a mut ProgressDisplay,
        watch: TaskWatch,
    ) -> Training<'a> {
        let num_tasks = arguments.num_ps() + arguments.num_workers();
        Training {
            arguments,
            log_dir,
            cluster,
            display,
            watch,
            progress: Progress::new(arguments.steps.into(), arguments.num_workers()),
            outcome: None,
            end: ChiefEnd::Unknown,
            last_words: vec![String::new(); num_tasks],
            next_redraw: Instant::now(),
        }
    }

    fn run(mut self) -> Result<(), Problem> {
        loop {
            match self.next_event(None) {
                None => {}
                Some(Event::Line { task, stream, text }) => self.hear(task, stream, text),
                Some(Event::Signal(signal)) => return Err(Problem::Other(self.interrupt(signal))),
                Some(Event::Ended { task, end, .. }) if self.is_chief(task) && end.is_success() => {
                    return self.finish();
                }
                Some(Event::Ended { task, end, .. }) => self.judge(task, end)?,
            }
        }
    }

    /// The next event before the deadline; shows progress meanwhile.
    fn next_event(&mut self, deadline: Option<Instant>) -> Option<Event> {
        let now = Instant::now();
        if now >= self.next_redraw {
            self.next_redraw = now + REDRAW_EVERY;
            if let Some(news) = self.watch.look(self.progress.silence(now), now) {
                self.display.say(&news);
            }
            self.display.show(&self.progress, now);
        }
        self.cluster.next(Some(deadline.map_or(self.next_redraw, |deadline| deadline.min(self.next_redraw))))
    }

    fn is_chief(&self, task: usize) -> bool {
        task == self.arguments.num_ps()
    }

    /// The index of a worker, if the task is one.
    fn worker_of(&self, task: usize) -> Option<usize> {
        task.checked_sub(self.arguments.num_ps())
    }

    fn hear(&mut self, task: usize, stream: Stream, text: String) {
        if stream == Stream::Err {
            if is_verbose() {
                self.display.say(&format!("{}: {text}", self.cluster.name(task)));
            }
            // After a mistake in arguments there is one more line, about help.
            let is_better = |words: &String| !words.starts_with("error: ") || text.starts_with("error: ");
            if let Some(words) = self.last_words.get_mut(task).filter(|words| is_better(words)) {
                *words = text;
            }
            return;
        }
        let Some(worker) = self.worker_of(task) else { return };
        let Ok(report) = serde_json::from_str::<Report>(&text) else { return };
        self.progress.take(worker, &report, Instant::now());
        match report {
            Report::Stopped { .. } => self.end = ChiefEnd::Saved,
            Report::Diverged { .. } => self.end = ChiefEnd::Diverged,
            Report::Done(outcome) => {
                self.end = ChiefEnd::Saved;
                self.outcome = Some(*outcome);
            }
            Report::Waiting { .. } | Report::Ready { .. } | Report::Progress { .. } => {}
        }
    }

    /// A task has ended, but not the chief after its work: what does it mean?
    fn judge(&mut self, task: usize, end: End) -> Result<(), Problem> {
        let worker = self.worker_of(task);
        if end.is_success() && worker.is_some() {
            self.progress.set_activity(worker.unwrap_or_default(), Activity::Finished);
            return Ok(());
        }
        let sentence = self.sentence(task, end);
        let was_training = worker
            .and_then(|worker| self.progress.workers.get(worker))
            .is_some_and(|w| w.activity == Activity::Training);
        // Rounds go on as long as no more workers are lost than they need not wait for.
        let lost = self.progress.workers.iter().filter(|worker| worker.activity == Activity::Lost).count();
        let left = self.progress.workers.len().saturating_sub(lost + 1);
        let is_dispensable = !self.arguments.sync
            || lost < self.arguments.backup
            || self.arguments.min_replicas.is_some_and(|count| left >= count);
        let goes_on = was_training && !self.is_chief(task) && is_dispensable;
        if let Some(worker) = worker.filter(|_| goes_on) {
            self.progress.set_activity(worker, Activity::Lost);
            self.display
                .say(&format!("{}: {sentence}; the others continue without it", self.cluster.name(task)));
            return Ok(());
        }
        let is_starting = self.progress.first_step.is_none();
        self.stop(FAILURE_GRACE);
        if is_starting && sentence.contains("is in use") {
            return Err(Problem::PortTaken(Status::unavailable(sentence)));
        }
        let saved = match self.log_dir.saved_step() {
            Some(step) if !is_starting && self.end != ChiefEnd::Diverged => {
                format!("; the model is saved up to step {step}, to resume use {}", self.resume_command())
            }
            _ => String::new(),
        };
        Err(Status::unavailable(format!("{sentence}{saved}")).into())
    }

    /// Why a task ended: its own words if it had any.
    fn sentence(&self, task: usize, end: End) -> String {
        let words = self.last_words.get(task).map_or("", String::as_str);
        if let Some(sentence) = words.strip_prefix("error: ") {
            return sentence.to_string();
        }
        let (name, age) = (self.cluster.name(task), duration(self.cluster.age(task).as_secs_f64()));
        match words.is_empty() {
            true => format!("{name} {end} after {age}"),
            false => format!("{name} {end} after {age}: {words}"),
        }
    }

    /// The chief has judged the model: lets the other workers end, and tells.
    fn finish(mut self) -> Result<(), Problem> {
        let deadline = Instant::now() + FINISH_GRACE;
        while self.cluster.num_running("worker") > 0 && Instant::now() < deadline {
            match self.next_event(Some(deadline)) {
                Some(Event::Line { task, stream, text }) => self.hear(task, stream, text),
                Some(Event::Signal(_)) => break,
                Some(Event::Ended { .. }) | None => {}
            }
        }
        self.stop(FAILURE_GRACE);
        let Some(outcome) = self.outcome.take() else {
            return Err(Status::internal("the chief has ended without a result").into());
        };
        self.display.leave();
        let text = match self.arguments.json {
            true => result_text::json(&outcome, self.log_dir.path()),
            false => {
                let (curve, log_dir) = (&self.progress.curve, self.log_dir.path());
                let resume = invocation::resume(self.arguments, log_dir, u64::from(self.arguments.steps) * 2);
                result_text::for_stdout(&outcome, &Context { curve, log_dir, resume: &resume })
            }
        };
        terminal::print_meanwhile(text.trim_end());
        Ok(())
    }

    /// Someone wants it to end: the chief saves the model, and how to go on is told.
    fn interrupt(mut self, signal: i32) -> Failure {
        let has_started = self.progress.first_step.is_some();
        if has_started {
            self.display.clear();
            self.display.say("Stopping: the chief saves the model (once more kills it)");
        }
        self.stop(if has_started { STOP_GRACE } else { FAILURE_GRACE });
        let interrupted = Interrupted {
            reached: self.progress.first_step.map(|_| self.progress.step),
            total: self.progress.total,
            saved: self.log_dir.saved_step(),
            has_chief_saved: self.end == ChiefEnd::Saved,
        };
        self.display.say(&interrupted.text(&self.resume_command()));
        Failure::Exit(End::Signal(signal).exit_code())
    }

    /// The command that goes on with this training.
    fn resume_command(&self) -> String {
        let words = invocation::resume(self.arguments, self.log_dir.path(), self.arguments.steps.into());
        format!("{} {words}", command())
    }

    /// Ends all tasks; what they still report is heard.
    fn stop(&mut self, grace: Duration) {
        let mut heard = Vec::new();
        self.cluster.stop(grace, |_, event| {
            if let Event::Line { task, stream, text } = event {
                heard.push((task, stream, text));
            }
        });
        for (task, stream, text) in heard {
            self.hear(task, stream, text);
        }
        self.display.clear();
    }
}

/// A training that was stopped before its end.
struct Interrupted {
    /// The last step that was heard of; none if it had not begun.
    reached: Option<i64>,
    total: i64,
    /// The step of the newest checkpoint.
    saved: Option<i64>,
    has_chief_saved: bool,
}

impl Interrupted {
    /// What is there now, and the command that goes on from it.
    fn text(&self, resume: &str) -> String {
        let Interrupted { reached, total, saved, has_chief_saved } = *self;
        match (reached, saved) {
            (None, None) => "Stopped before the first step; nothing was saved".to_string(),
            (None, Some(step)) => format!(
                "Stopped before the first step; the newest checkpoint is of step {step}. To resume: {resume}"
            ),
            (Some(reached), None) => {
                format!("Stopped at about step {reached} of {total}; nothing was saved")
            }
            // Other workers make some steps more while the chief saves.
            (Some(reached), Some(step)) if has_chief_saved || step >= reached => {
                format!("Stopped at step {step} of {total}; the model is saved. To resume: {resume}")
            }
            (Some(reached), Some(step)) => format!(
                "Stopped at about step {reached} of {total}, which the chief could not save any more; the newest checkpoint \
                 is of step {step}. To resume from there: {resume}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_to_be_saved_is() {
        for (reached, saved, has_chief_saved, words) in [
            (Some(1256), Some(1260), true, "Stopped at step 1260 of 6000; the model is saved. To resume: x"),
            (Some(1256), Some(1256), false, "Stopped at step 1256 of 6000; the model is saved. To resume: x"),
            (Some(1256), Some(0), false, "the newest checkpoint is of step 0. To resume from there: x"),
            (Some(1256), None, false, "Stopped at about step 1256 of 6000; nothing was saved"),
            (None, None, false, "Stopped before the first step; nothing was saved"),
            (None, Some(7), false, "the newest checkpoint is of step 7. To resume: x"),
        ] {
            let text = Interrupted { reached, total: 6000, saved, has_chief_saved }.text("x");
            assert!(text.ends_with(words), "{text}");
        }
    }
}
