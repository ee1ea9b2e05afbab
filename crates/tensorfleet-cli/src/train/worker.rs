//! A worker of `train mnist`: serves its part of the cluster, makes steps, and if it is the chief judges the result.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use tensorfleet::summary::FileWriter;
use tensorfleet::train::{MonitoredSession, MonitoredTrainingSession, StopAtStepHook, latest_checkpoint};
use tensorfleet::{ClusterSpec, Code, Result, Server, ServerOptions, SessionOptions, Status, TaskId};
use tensorfleet_core::bail;
use tensorfleet_datasets::{DataSets, mnist};

use super::arguments::{MnistArguments, ReportStyle};
use super::digits_model::DigitsModel;
use super::evaluation::{Evaluation, Validation};
use super::invocation;
use super::log_dir::LogDir;
use super::report::{Outcome, Report, Reporter, TEXT_EVERY};
use super::result_text::{self, Context};
use super::sparkline::Curve;
use crate::Failure;
use crate::local_cluster::{End, short_name};
use crate::signals::Signals;
use crate::terminal;

/// How often loss and accuracy are recorded.
const SUMMARY_STEPS: i64 = 20;
/// How many points the curves of the validation digits have.
const VALIDATIONS: i64 = 20;
/// How long one look for a parameter server may take, and the pause before the next.
const LOOK: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(100);
/// How long threads of the session may take to end; none of ours takes long.
const STOP_GRACE: Duration = Duration::from_secs(5);

pub(super) fn run(arguments: &MnistArguments, cluster: &ClusterSpec, task: &TaskId) -> Result<(), Failure> {
    let is_chief = task.index == 0;
    // The other workers write nothing there.
    let log_dir = match is_chief {
        true => Some(LogDir::for_model(arguments)?),
        false => None,
    };
    let mut data = mnist::open(arguments.data_dir.as_deref())?;
    // Every worker sees the digits in another order.
    data.train.shuffle_with(u64::from(arguments.seed).wrapping_add(u64::from(task.index) << 32));
    let mut options = ServerOptions::new(cluster.clone(), &task.job, task.index);
    options.bind = arguments.bind.clone();
    let server = Server::start(options)?;
    let model = DigitsModel::build(arguments, cluster, task)?;
    let mut reporter = Reporter::new(arguments.report, &short_name(task), arguments.steps.into());
    wait_for_parameter_servers(cluster, arguments.wait, &mut reporter)?;
    if !is_chief {
        reporter.give(&Report::Waiting { what: "worker/0, the chief, to make the model ready".to_string() });
    }
    let first_step = log_dir.as_ref().and_then(LogDir::first_step).unwrap_or(0);
    let mut worker =
        Worker { arguments, data, reporter, log_dir, first_step, next_validation: first_step, is_chief };
    worker.train(model, &server.target(), task.index)
}

/// Waits until all parameter servers accept connections. The session would wait as well, but could not say so well for whom.
fn wait_for_parameter_servers(cluster: &ClusterSpec, limit: Duration, reporter: &mut Reporter) -> Result<()> {
    let started = Instant::now();
    for (job, index, address) in cluster.tasks().filter(|(job, ..)| *job == "ps") {
        let mut said: Option<Instant> = None;
        while let Err(reason) = look(address) {
            if started.elapsed() >= limit {
                bail!(
                    Unavailable,
                    "{job}/{index} at {address} does not answer after {} s ({reason}): start it there with --job_name={job} \
                     --task_index={index}, or correct --ps_hosts",
                    limit.as_secs()
                );
            }
            // The first look may just be too early.
            let is_news =
                started.elapsed() > LOOK && said.is_none_or(|said| said.elapsed() >= 5 * TEXT_EVERY);
            if is_news {
                said = Some(Instant::now());
                reporter.give(&Report::Waiting { what: format!("{job}/{index} at {address}: {reason}") });
            }
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}

fn look(address: &str) -> Result<(), String> {
    let mut reason = "its name leads to no address".to_string();
    for address in address.to_socket_addrs().map_err(|error| error.to_string())? {
        match TcpStream::connect_timeout(&address, LOOK) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                reason = "connection refused".to_string();
            }
            Err(error) => reason = error.to_string(),
        }
    }
    Err(reason)
}

struct Worker<'a> {
    arguments: &'a MnistArguments,
    data: DataSets,
    reporter: Reporter,
    log_dir: Option<LogDir>,
    /// Where the training begins. The other workers may be some steps ahead when the chief looks.
    first_step: i64,
    /// The step from which the validation digits are looked at again.
    next_validation: i64,
    is_chief: bool,
}

/// Why the steps came to an end.
enum LoopEnd {
    Finished,
    Signal(i32),
}

impl Worker<'_> {
    fn train(&mut self, mut model: DigitsModel, target: &str, index: u32) -> Result<(), Failure> {
        let last_step = i64::from(self.arguments.steps);
        let mut session = MonitoredTrainingSession::new(&model.graph)
            .master(target)
            .is_chief(self.is_chief)
            .save_checkpoint_secs(self.arguments.save_every.as_secs_f64())
            .save_summaries_steps(SUMMARY_STEPS)
            .max_wait(self.arguments.wait)
            .stop_grace_period(STOP_GRACE)
            .hook(StopAtStepHook::last_step(last_step))
            .config(SessionOptions {
                device_filters: vec!["/job:ps".to_string(), format!("/job:worker/task:{index}")],
                connect_timeout: self.arguments.wait,
                ..SessionOptions::default()
            });
        if let Some(log_dir) = &self.log_dir {
            session = session.checkpoint_dir(log_dir.path());
        }
        if let Some(hook) = model.sync_hook.take() {
            session = session.hook(hook);
        }
        let session = session.create()?;
        // Until here a signal ends the process at once, and nothing is lost.
        let signals = Signals::catch(|| {})?;
        self.steps(session, &model, &signals)
    }

    fn steps(
        &mut self,
        mut session: MonitoredSession,
        model: &DigitsModel,
        signals: &Signals,
    ) -> Result<(), Failure> {
        let step_now =
            |session: &MonitoredSession| session.session()?.run(&model.global_step)?.to_scalar::<i64>();
        let ready_step = step_now(&session)?;
        self.reporter.give(&Report::Ready { step: ready_step });
        let started = Instant::now();
        let end = match ready_step >= i64::from(self.arguments.steps) {
            true => LoopEnd::Finished,
            false => self.make_steps(&mut session, model, signals, started)?,
        };
        let seconds = started.elapsed().as_secs_f64();
        let step = step_now(&session)?;
        if let LoopEnd::Signal(signal) = end {
            session.close()?;
            if self.is_chief {
                self.reporter.give(&Report::Stopped { step });
            }
            return Err(Failure::Exit(End::Signal(signal).exit_code()));
        }
        if !self.is_chief {
            return Ok(session.close()?);
        }
        self.next_validation = step;
        self.validate(&session, model, step)?;
        let evaluation = Evaluation::make(session.session()?, model, &self.data)?;
        if !evaluation.validation_cross_entropy.is_finite() {
            return Err(self.diverged(step).into());
        }
        session.close()?;
        let checkpoint = match &self.log_dir {
            Some(log_dir) => latest_checkpoint(log_dir.path())?.unwrap_or_default(),
            None => String::new(),
        };
        let outcome = Outcome { first_step: self.first_step, step, seconds, checkpoint, evaluation };
        self.tell(&outcome);
        Ok(())
    }

    /// Makes steps until the last one, or until a signal. A synchronous worker may also find that the chief has ended.
    fn make_steps(
        &mut self,
        session: &mut MonitoredSession,
        model: &DigitsModel,
        signals: &Signals,
        started: Instant,
    ) -> Result<LoopEnd> {
        let batch_size = self.arguments.batch_size as usize;
        let mut local_steps = 0;
        while !session.should_stop() {
            if let Some(signal) = signals.take() {
                return Ok(LoopEnd::Signal(signal));
            }
            let (images, labels) = self.data.train.next_batch(batch_size)?;
            let step = session.feed(&model.images, images).feed(&model.labels, labels);
            // Loss and step cost a little, so only steps that are reported fetch them.
            let values = match self.reporter.is_due() {
                true => step.run((&model.train, &model.loss, &model.global_step)).map(Some),
                false => step.run(&model.train).map(|()| None),
            };
            match values {
                Ok(Some(((), loss, step))) => {
                    let (step, loss) = (step.to_scalar::<i64>()?, loss.to_scalar::<f32>()?);
                    let seconds = started.elapsed().as_secs_f64();
                    let local_steps = local_steps + 1;
                    self.reporter.give(&Report::Progress { step, local_steps, seconds, loss });
                    self.validate(session, model, step)?;
                    if self.is_chief && loss.is_nan() {
                        return Err(self.diverged(step));
                    }
                }
                Ok(None) => {}
                Err(error) if error.code() == Code::OutOfRange && !self.is_chief => break,
                Err(error) => return Err(error),
            }
            local_steps += 1;
        }
        Ok(LoopEnd::Finished)
    }

    /// Records how the network does on digits that it does not learn from, if it is time to.
    fn validate(&mut self, session: &MonitoredSession, model: &DigitsModel, step: i64) -> Result<()> {
        let Some(log_dir) = self.log_dir.as_ref().filter(|_| step >= self.next_validation) else {
            return Ok(());
        };
        self.next_validation = step + (i64::from(self.arguments.steps) / VALIDATIONS).max(SUMMARY_STEPS);
        let validation = match Validation::make(session.session()?, model, &self.data) {
            Ok(validation) => validation,
            // A task was lost. The next step finds that out, and knows what to do.
            Err(status) if matches!(status.code(), Code::Aborted | Code::Unavailable) => return Ok(()),
            Err(status) => return Err(status),
        };
        let events = FileWriter::shared(log_dir.path())?;
        events.add_scalar("validation/loss", validation.cross_entropy, step)?;
        events.add_scalar("validation/accuracy", validation.accuracy, step)
    }

    /// The error of a training whose loss is not a number. Who returns it drops the session instead of closing it, so that
    /// the last save does not make a ruined model the newest checkpoint.
    fn diverged(&mut self, step: i64) -> Status {
        self.reporter.give(&Report::Diverged { step });
        Status::invalid_argument(
            "the loss is not a number any more: train afresh, with a lower --learning_rate and another --log_dir",
        )
    }

    /// Tells the result: to the launcher, to a script, or to people.
    fn tell(&mut self, outcome: &Outcome) {
        if self.arguments.report == ReportStyle::Json {
            self.reporter.give(&Report::Done(Box::new(outcome.clone())));
            return;
        }
        let log_dir = self.log_dir.as_ref().map_or("", LogDir::path);
        let text = match self.arguments.json {
            true => result_text::json(outcome, log_dir),
            false => {
                let steps = u64::from(self.arguments.steps) * 2;
                let resume = invocation::resume(self.arguments, log_dir, steps);
                let curve = &Curve::default();
                result_text::for_stdout(outcome, &Context { curve, log_dir, resume: &resume })
            }
        };
        terminal::print_meanwhile(text.trim_end());
    }
}
