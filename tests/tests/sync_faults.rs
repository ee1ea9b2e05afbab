//! Synchronous training while its tasks freeze, vanish, die and come back: it goes on, or says for whom it waits.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use tensorfleet_tests::cluster::{Cluster, Job};
use tensorfleet_tests::program::Program;
use tensorfleet_tests::python::Interpreter;
use tensorfleet_tests::stuck::eventually;
use tensorfleet_tests::trainer::{Hosts, ParameterServer, Trainer};

/// How long the training may stand still after all its tasks are there again, on a machine with other work.
const RECOVERY: Duration = Duration::from_secs(60);
/// Within this time a process that waits says for whom; some more on a machine with other work.
const SAID_BY: Duration = Duration::from_secs(20);
/// More steps than any of these trainings makes.
const NEVER: i64 = 1_000_000;
const WORKERS: usize = 3;

/// A synchronous training: a ps and three workers, the first of them the chief.
struct Training {
    directory: tempfile::TempDir,
    hosts: Hosts,
    ps: ParameterServer,
    last_step: i64,
    more_flags: Vec<String>,
}

impl Training {
    fn new(last_step: i64, more_flags: &[&str]) -> Training {
        let hosts = Hosts::new(1, WORKERS).unwrap();
        Training {
            directory: tempfile::tempdir().unwrap(),
            ps: ParameterServer::start_with(&hosts, 0, &["--peer-timeout=2"]).unwrap(),
            hosts,
            last_step,
            more_flags: more_flags.iter().map(|flag| flag.to_string()).collect(),
        }
    }

    fn start(&self, index: usize) -> Trainer {
        let mut flags = vec![
            format!("--checkpoint_dir={}", self.directory.path().display()),
            "--save_checkpoint_steps=20".to_string(),
            format!("--last_step={}", self.last_step),
            format!("--replicas_to_aggregate={WORKERS}"),
            "--peer_timeout_secs=2".to_string(),
        ];
        flags.extend(self.more_flags.iter().cloned());
        let mut trainer = Trainer::start(&self.hosts, index, &flags).unwrap();
        trainer.allow(NEVER).unwrap();
        trainer
    }

    /// All workers, once the first rounds are made.
    fn start_all(&self) -> Vec<Trainer> {
        let workers: Vec<Trainer> = (0..WORKERS).map(|index| self.start(index)).collect();
        workers[0].wait_for_step(5).unwrap();
        workers
    }
}

#[track_caller]
fn assert_says(trainer: &Trainer, words: &[&str]) {
    eventually("a word about who is missing", SAID_BY, || {
        let log = trainer.log();
        let is_said = |line: &str| words.iter().all(|word| line.contains(word));
        if log.lines().any(is_said) { Ok(()) } else { Err(log) }
    });
}

/// Nobody dies, but the ps does not answer for longer than its peers wait, several times.
#[test]
fn a_ps_that_was_frozen_does_not_stop_the_rounds() {
    let training = Training::new(NEVER, &[]);
    let workers = training.start_all();
    let mut step = workers[0].wait_for_step(10).unwrap();
    for freeze in 0..4 {
        training.ps.signal("STOP").unwrap();
        std::thread::sleep(Duration::from_millis(4000 + 150 * freeze));
        training.ps.signal("CONT").unwrap();
        let thawed = Instant::now();
        let wanted = step + 20;
        step = workers[0].wait_for_step(wanted).unwrap();
        assert!(thawed.elapsed() < RECOVERY, "it took {:?}", thawed.elapsed());
    }
    for worker in &workers {
        worker.wait_for_step(step).unwrap();
    }
}

/// After a clean end the token queue is closed. The next training on the same parameter servers opens it again, also if its
/// workers are there before its chief.
#[test]
fn parameter_servers_serve_one_training_after_the_other() {
    let mut training = Training::new(20, &[]);
    for last_step in [20, 40, 60] {
        training.last_step = last_step;
        let mut others: Vec<Trainer> = (1..WORKERS).map(|index| training.start(index)).collect();
        if last_step > 20 {
            assert_says(&others[0], &["the last training on these parameter servers has ended"]);
        }
        let mut chief = training.start(0);
        assert!(chief.wait_until_done().unwrap() >= last_step);
        assert!(chief.wait_for_end().unwrap().success(), "{}", chief.log());
        for worker in &mut others {
            assert!(worker.wait_for_end().unwrap().success(), "{}", worker.log());
        }
    }
}

/// A chief that is killed at any moment of a round leaves behind accumulators that are half full and workers that wait.
#[test]
fn a_chief_that_is_killed_in_mid_round_ten_times_is_no_loss() {
    const KILLS: i64 = 10;
    let training = Training::new(NEVER, &[]);
    let mut workers = training.start_all();
    let mut chief = workers.remove(0);
    let mut step = chief.wait_for_step(10).unwrap();
    for kill in 0..KILLS {
        chief.wait_for_step(step + kill % 3).unwrap();
        chief.kill();
        let killed = Instant::now();
        chief = training.start(0);
        let (resumed, _) = chief.wait_until_ready().unwrap();
        assert!(resumed >= step, "the living model is kept: {resumed} is older than {step}");
        step = chief.wait_for_step(resumed + 5).unwrap();
        assert!(killed.elapsed() < RECOVERY, "it took {:?}\n{}", killed.elapsed(), chief.log());
    }
    for worker in &workers {
        worker.wait_for_step(step).unwrap();
    }
}

/// All who wait say for whom, and the training goes on when it is back.
#[test]
fn a_worker_that_is_gone_is_said_by_name_by_all_who_wait() {
    let training = Training::new(NEVER, &[]);
    let mut workers = training.start_all();
    let gone = workers.remove(2);
    gone.kill();
    for worker in &workers {
        assert_says(worker, &["has waited for", "/job:worker/task:2", "needs 3 gradients and has 2"]);
    }
    let back = training.start(2);
    let (joined, _) = back.wait_until_ready().unwrap();
    back.wait_for_step(joined + 5).unwrap();
    workers[0].wait_for_step(joined + 5).unwrap();
}

/// The same for a chief: who waits for a token says that nobody applies the round.
#[test]
fn a_chief_that_is_gone_is_said_by_name() {
    let training = Training::new(NEVER, &[]);
    let mut workers = training.start_all();
    workers.remove(0).kill();
    for worker in &workers {
        assert_says(worker, &["the chief, /job:worker/task:0, who applies it, is not there"]);
    }
}

/// With fewer replicas allowed, the rounds wait for a lost worker once, and not again until it is back.
#[test]
fn with_min_replicas_the_rounds_go_on_without_a_lost_worker() {
    let training = Training::new(NEVER, &["--min_replicas=2"]);
    let mut workers = training.start_all();
    workers.remove(2).kill();
    let lost = workers[0].wait_for_step(0).unwrap();
    let started = Instant::now();
    workers[0].wait_for_step(lost + 60).unwrap();
    workers[1].wait_for_step(lost + 60).unwrap();
    assert!(started.elapsed() < RECOVERY, "60 rounds took {:?}", started.elapsed());
    let back = training.start(2);
    let (joined, _) = back.wait_until_ready().unwrap();
    assert!(joined >= lost + 60, "{joined}");
    back.wait_for_step(joined + 20).unwrap();
}

/// Workers of a synchronous training that are unmodified TensorFlow 1.15 programs, on servers of ours.
struct TensorFlowTraining {
    cluster: Cluster,
    interpreter: Interpreter,
    directory: tempfile::TempDir,
}

impl TensorFlowTraining {
    fn start(&self, index: usize, last_step: i64) -> Program {
        let mut command = self.interpreter.command("matrix_trainer.py");
        command.args(self.cluster.flags()).args([
            format!("--task_index={index}"),
            format!("--checkpoint_dir={}", self.directory.path().display()),
            "--save_checkpoint_steps=20".to_string(),
            "--step_ms=10".to_string(),
            format!("--last_step={last_step}"),
            format!("--replicas_to_aggregate={WORKERS}"),
        ]);
        Program::spawn(command).unwrap()
    }

    fn start_all(&self, last_step: i64) -> Vec<Program> {
        (0..WORKERS).map(|index| self.start(index, last_step)).collect()
    }
}

fn wait_for_step(program: &Program, wanted: i64) -> i64 {
    let step = |line: &str| line.strip_prefix("step ")?.parse().ok().filter(|&step: &i64| step >= wanted);
    program.wait_for(step).unwrap()
}

/// TensorFlow's own optimizer and sessions, which know nothing of rounds with members: a frozen ps, a killed chief and a second
/// training on the same parameter servers do not stop them either.
#[test]
fn rounds_of_tensorflow_programs_survive_a_frozen_ps_and_a_killed_chief() {
    let Some(interpreter) = Interpreter::with_tensorflow_1() else { return };
    let cluster = Cluster::start_ours(1, WORKERS, &["--peer-timeout=2"]).unwrap();
    let training = TensorFlowTraining { cluster, interpreter, directory: tempfile::tempdir().unwrap() };
    let mut workers = training.start_all(200);
    let step = wait_for_step(&workers[0], 10);
    training.cluster.signal(Job::Ps, 0, "STOP").unwrap();
    std::thread::sleep(Duration::from_secs(5));
    training.cluster.signal(Job::Ps, 0, "CONT").unwrap();
    // It restores its checkpoint, as TensorFlow does.
    workers[0].wait_for(|line| line.starts_with("ready").then_some(())).unwrap();
    let step = wait_for_step(&workers[0], step + 10);
    workers.remove(0).kill();
    let chief = training.start(0, 200);
    wait_for_step(&chief, step + 10);
    chief.wait_for(|line| line.starts_with("done").then_some(())).unwrap();
    // The others may wait for a token of a chief that has ended, as they do in TensorFlow.
    workers.into_iter().for_each(Program::kill);
    drop(chief);
    let workers = training.start_all(230);
    workers[0].wait_for(|line| line.starts_with("done").then_some(())).unwrap();
}
