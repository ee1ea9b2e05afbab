//! Execution of one case: its steps in order, each answer checked, nothing able to hang or crash the run.
//!
//! A case runs on a thread of its own and reports each step it begins. Whoever waits for it gives up when no
//! report comes for [`STEP_LIMIT`]: a step that hangs fails its case, and its thread is left behind after its
//! sessions were told to close. A panic is caught and fails the case, too.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tempfile::TempDir;
use tensorfleet_core::{Result, Status, Tensor};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::GraphDef;

use crate::backend::{Backend, RunRequest, Server, Session};
use crate::case::{
    Background, Case, CheckpointStep, Expect, ExpectedValues, ExtendStep, Mode, RunStep, Step,
};
use crate::check::{Closeness, Verdict, check_error, check_properties, compare, enum_name, expected_error};
use crate::checkpoint::read_checkpoint;
use crate::client::run_as_client;
use crate::summary_check::compare_summaries;

/// How long a step may take before the case counts as hanging. The slowest takes about a second.
pub const STEP_LIMIT: Duration = Duration::from_secs(30);

/// A background step must be waiting after this time, and one that may finish gets this time to do so.
const BLOCKING_WAIT: Duration = Duration::from_millis(300);

/// What came of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Every answer was right.
    Passed,
    /// A step went wrong, and the rest was not tried.
    Failed(Failure),
    /// The backend cannot run it, for this reason.
    Skipped(String),
}

/// The first step of a case that went wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Its index; `None` before the first step.
    pub step: Option<usize>,
    /// What was expected and what came.
    pub wrong: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.step {
            Some(step) => write!(f, "step {step}: {}", self.wrong),
            None => f.write_str(&self.wrong),
        }
    }
}

/// Runs a case to its end, or until a step takes longer than `step_limit`.
pub fn run_case(backend: &Arc<dyn Backend>, case: &Arc<Case>, step_limit: Duration) -> Outcome {
    if let Some(reason) = backend.refusal(case) {
        return Outcome::Skipped(reason);
    }
    let sessions = Sessions::default();
    let (reports, received) = channel();
    let spawned = thread::Builder::new().name(case.name.clone()).spawn({
        let (backend, case, sessions) = (backend.clone(), case.clone(), sessions.clone());
        move || {
            let run = AssertUnwindSafe(|| CaseRun::start(&*backend, &case, &sessions)?.run(&reports));
            let result = catch_unwind(run).unwrap_or_else(|panic| {
                Err(Failure { step: None, wrong: format!("panicked: {}", panic_text(&*panic)) })
            });
            // The receiver is gone only if this case was given up.
            let _ = reports.send(Report::End(result));
        }
    });
    if let Err(error) = spawned {
        return Outcome::Failed(Failure { step: None, wrong: format!("no thread to run it: {error}") });
    }
    await_end(&received, &sessions, step_limit)
}

enum Report {
    Begins(usize),
    End(Result<(), Failure>),
}

type Sessions = Arc<Mutex<BTreeMap<String, Arc<dyn Session>>>>;

fn await_end(received: &Receiver<Report>, sessions: &Sessions, step_limit: Duration) -> Outcome {
    let mut step = None;
    loop {
        match received.recv_timeout(step_limit) {
            Ok(Report::Begins(index)) => step = Some(index),
            Ok(Report::End(Ok(()))) => return Outcome::Passed,
            Ok(Report::End(Err(failure))) => {
                return Outcome::Failed(Failure { step: failure.step.or(step), ..failure });
            }
            Err(RecvTimeoutError::Timeout) => {
                abandon(sessions);
                let wrong = format!("hangs: no answer within {} s", step_limit.as_secs_f32());
                return Outcome::Failed(Failure { step, wrong });
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Outcome::Failed(Failure { step, wrong: "its thread ended without a word".into() });
            }
        }
    }
}

/// Tells the sessions of a hanging case to close, without waiting for them.
fn abandon(sessions: &Sessions) {
    let left: Vec<_> = sessions.lock().values().cloned().collect();
    thread::spawn(move || left.iter().for_each(|session| drop(session.close())));
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("with no message")
}

/// What a run came to.
enum Answer {
    Values(Vec<Tensor>),
    Error(Status),
    Panic(String),
}

impl Answer {
    fn of(run: impl FnOnce() -> Result<Vec<Tensor>>) -> Answer {
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(values)) => Answer::Values(values),
            Ok(Err(status)) => Answer::Error(status),
            Err(panic) => Answer::Panic(panic_text(&*panic).to_string()),
        }
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Answer::Values(values) => write!(f, "it succeeded with {values:?}"),
            Answer::Error(status) => {
                write!(f, "error is {}: {}", status.code().proto_name(), status.message())
            }
            Answer::Panic(text) => write!(f, "panicked: {text}"),
        }
    }
}

fn run_in(mode: Mode, session: &dyn Session, request: &RunRequest) -> Result<Vec<Tensor>> {
    match mode {
        Mode::Session => run_as_client(session, request),
        Mode::Raw => session.run(request),
    }
}

/// A background step that has been started.
struct Started {
    step: usize,
    /// Present if it ended while it was watched.
    answer: Option<Answer>,
    pending: Receiver<Answer>,
}

struct CaseRun<'a> {
    case: &'a Case,
    server: Box<dyn Server>,
    sessions: &'a Sessions,
    scratch: Scratch,
    background: BTreeMap<String, Started>,
    /// The values each step gave, for steps that must differ from earlier ones.
    values: BTreeMap<usize, Vec<Tensor>>,
}

impl<'a> CaseRun<'a> {
    fn start(backend: &dyn Backend, case: &'a Case, sessions: &'a Sessions) -> Result<CaseRun<'a>, Failure> {
        let before = |what: &str, text: String| Failure { step: None, wrong: format!("{what}: {text}") };
        let scratch = Scratch::new(case).map_err(|error| before("scratch directory", error.to_string()))?;
        let server = backend.start(case).map_err(|status| before("server", status.message()))?;
        Ok(CaseRun { case, server, sessions, scratch, background: BTreeMap::new(), values: BTreeMap::new() })
    }

    fn run(mut self, reports: &Sender<Report>) -> Result<(), Failure> {
        for (index, step) in self.case.steps.iter().enumerate() {
            let _ = reports.send(Report::Begins(index));
            self.step(index, step).map_err(|wrong| Failure { step: Some(index), wrong })?;
        }
        self.close_all();
        Ok(())
    }

    fn step(&mut self, index: usize, step: &Step) -> Verdict {
        match step {
            Step::Run(run) => match &run.background {
                Some(background) => self.start_background(index, run, background),
                None => {
                    let mode = self.case.mode;
                    let answer = Answer::of(|| run_in(mode, &*self.session(run)?, &self.request(run)));
                    self.judge(index, run, answer)
                }
            },
            Step::Join(tag) => self.join(tag),
            Step::Sleep(duration) => {
                thread::sleep(*duration);
                Ok(())
            }
            Step::CloseSession(name) => match self.sessions.lock().remove(name) {
                Some(session) => session.close().map_err(|status| format!("closing '{name}': {status}")),
                None => Err(format!("there is no session '{name}' to close")),
            },
            Step::Reset(containers) => {
                self.close_all();
                self.server.reset(containers).map_err(|status| format!("reset: {status}"))
            }
            Step::Extend(extend) => self.extend(extend),
            Step::ReadCheckpoint(checkpoint) => self.read_checkpoint(index, checkpoint),
        }
    }

    fn close_all(&self) {
        let sessions = std::mem::take(&mut *self.sessions.lock());
        // A session that fails to close has nothing more to say about the case.
        sessions.values().for_each(|session| drop(session.close()));
    }

    fn session(&self, step: &RunStep) -> Result<Arc<dyn Session>> {
        self.session_named(&step.session, &step.target)
    }

    /// Sessions are made on first use, each with the whole graph.
    fn session_named(&self, name: &str, target: &str) -> Result<Arc<dyn Session>> {
        if let Some(session) = self.sessions.lock().get(name) {
            return Ok(session.clone());
        }
        let session = self.server.session(target, &self.case.graph, &self.case.config)?;
        self.sessions.lock().insert(name.to_string(), session.clone());
        Ok(session)
    }

    fn request(&self, step: &RunStep) -> RunRequest {
        let feeds = step.feeds.iter().map(|&index| &self.case.feeds[index]);
        RunRequest {
            feeds: feeds.map(|record| (record.name.clone(), self.scratch.filled_in(&record.value))).collect(),
            fetches: step.fetches.clone(),
            targets: step.targets.clone(),
            timeout: step.timeout,
        }
    }

    fn start_background(&mut self, index: usize, step: &RunStep, background: &Background) -> Verdict {
        let (sender, pending) = channel();
        match self.session(step) {
            Ok(session) => {
                let (request, mode) = (self.request(step), self.case.mode);
                let run = move || Answer::of(|| run_in(mode, &*session, &request));
                // The receiver is gone only if the case has failed already.
                thread::spawn(move || drop(sender.send(run())));
            }
            Err(status) => drop(sender.send(Answer::Error(status))),
        }
        let answer = pending.recv_timeout(BLOCKING_WAIT).ok();
        if background.must_block
            && let Some(answer) = &answer
        {
            return Err(format!("'{}' should be waiting, but it has ended: {answer}", background.tag));
        }
        self.background.insert(background.tag.clone(), Started { step: index, answer, pending });
        Ok(())
    }

    fn join(&mut self, tag: &str) -> Verdict {
        let Some(started) = self.background.remove(tag) else {
            return Err(format!("nothing to join as '{tag}'"));
        };
        let Step::Run(step) = &self.case.steps[started.step] else {
            return Err("joined step is no run".into());
        };
        let answer = started.answer.or_else(|| started.pending.recv().ok());
        let answer = answer.ok_or("the background thread ended without a word")?;
        self.judge(started.step, step, answer)
            .map_err(|wrong| format!("'{tag}' of step {}: {wrong}", started.step))
    }

    fn judge(&mut self, index: usize, step: &RunStep, answer: Answer) -> Verdict {
        match (answer, &step.expect) {
            (Answer::Error(status), Expect::Error(want)) => check_error(&status, want),
            (Answer::Values(values), Expect::Values(want)) => {
                self.judge_values(index, &step.fetches, values, want)
            }
            (answer, Expect::Error(want)) => Err(format!("{answer}; expected {}", expected_error(want))),
            (answer, Expect::Values(_)) => Err(format!("{answer}; expected values")),
        }
    }

    fn judge_values(
        &mut self,
        index: usize,
        names: &[String],
        got: Vec<Tensor>,
        want: &ExpectedValues,
    ) -> Verdict {
        if got.len() != names.len() {
            return Err(format!("{} values came back for {} fetches", got.len(), names.len()));
        }
        for (position, (name, value)) in names.iter().zip(&got).enumerate() {
            let verdict = match (want.checks.get(&position), want.values[position]) {
                (Some(check), _) => check_properties(value, check),
                (None, Some(record)) => self.judge_value(value, &self.case.expected[record].value, want),
                (None, None) => Ok(()),
            };
            verdict.map_err(|wrong| format!("'{name}': {wrong}"))?;
        }
        if let Some(earlier) = want.differs_from
            && self.values.get(&earlier).is_some_and(|values| *values == got)
        {
            return Err(format!("the values are those of step {earlier} again"));
        }
        self.values.insert(index, got);
        Ok(())
    }

    fn judge_value(&self, got: &Tensor, want: &Tensor, expected: &ExpectedValues) -> Verdict {
        if expected.parse_summaries {
            return compare_summaries(got, want);
        }
        let mut tolerance = self.case.tolerance.get(&enum_name(want.dtype())).copied();
        if let Some(tolerance) = &mut tolerance {
            tolerance.rtol *= expected.tolerance_factor;
            tolerance.atol *= expected.tolerance_factor;
        }
        let closeness = Closeness { tolerance, atol_times_max: self.case.atol_times_max };
        compare(got, &self.scratch.filled_in(want), closeness)
    }

    fn extend(&self, step: &ExtendStep) -> Verdict {
        let Some(bytes) = self.case.fixtures.get(&step.file) else {
            return Err(format!("the case has no file {}", step.file));
        };
        let graph = GraphDef::decode(bytes.clone()).map_err(|error| format!("{}: {error}", step.file))?;
        let extend = || self.session_named(&step.session, &step.target)?.extend(graph, step.version);
        match (extend(), &step.error) {
            (Ok(()), None) => Ok(()),
            (Ok(()), Some(want)) => Err(format!("the graph was extended; expected {}", expected_error(want))),
            (Err(status), Some(want)) => check_error(&status, want),
            (Err(status), None) => Err(format!("extending failed: {status}")),
        }
    }

    fn read_checkpoint(&mut self, index: usize, step: &CheckpointStep) -> Verdict {
        let prefix = self.scratch.filled_in_text(&step.prefix);
        let values = read_checkpoint(&prefix, &step.tensors)
            .map_err(|status| format!("checkpoint {}: {status}", step.prefix))?;
        self.judge_values(index, &step.tensors, values, &step.expect)
    }
}

/// The directories that `${TMP}` and `${CASE}` stand for in strings.
struct Scratch {
    tmp: String,
    case: String,
    /// Removes both when the case is over.
    _directory: TempDir,
}

impl Scratch {
    fn new(case: &Case) -> std::io::Result<Scratch> {
        let directory = TempDir::with_prefix("tensorfleet-case-")?;
        let at = |name: &str| {
            let path = directory.path().join(name);
            std::fs::create_dir(&path).map(|()| path)
        };
        let (tmp, fixtures) = (at("tmp")?, at("case")?);
        for (name, content) in &case.fixtures {
            std::fs::write(fixtures.join(name), content)?;
        }
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Ok(Scratch { tmp: text(&tmp), case: text(&fixtures), _directory: directory })
    }

    fn filled_in_text(&self, text: &str) -> String {
        text.replace("${TMP}", &self.tmp).replace("${CASE}", &self.case)
    }

    /// A tensor with the directories put into its strings.
    fn filled_in(&self, tensor: &Tensor) -> Tensor {
        let Ok(strings) = tensor.as_strings() else { return tensor.clone() };
        let filled = strings.iter().map(|string| match std::str::from_utf8(string) {
            Ok(text) if text.contains("${") => Bytes::from(self.filled_in_text(text)),
            _ => string.clone(),
        });
        // The shape is that of a tensor with as many strings, so this cannot fail.
        Tensor::from_strings(filled.collect(), tensor.shape().dims()).unwrap_or_else(|_| tensor.clone())
    }
}

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
