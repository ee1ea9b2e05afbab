//! Whole training programs in Rust on clusters of processes, ours and TensorFlow's.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Barrier};
use std::time::Duration;

use tensorfleet::checkpoint::CheckpointReader;
use tensorfleet::train::{
    Adagrad, Adam, GradientDescent, MinimizeOptions, MonitoredSession, MonitoredTrainingSession, Optimizer,
    StopAtStepHook, SyncReplicasOptimizer, latest_checkpoint,
};
use tensorfleet::{
    ClusterSpec, DType, Graph, Operation, Output, PartialShape, Result, SessionOptions, Variable,
    replica_device_setter,
};
use tensorfleet_datasets::mnist;
use tensorfleet_tests::cluster::{Cluster, Job, Server};
use tensorfleet_tests::python::Interpreter;
use tensorfleet_tests::seed_models::cross_entropy;

/// Several times what the slowest wait takes on a busy machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(120);

fn ours(workers: usize) -> Cluster {
    Cluster::start_ours(1, workers, &[]).unwrap()
}

/// A cluster of TensorFlow 2 servers.
fn tensorflow_2(workers: usize) -> Cluster {
    let server = Server::TensorFlow(Interpreter::with_tensorflow_2().unwrap());
    Cluster::start(std::slice::from_ref(&server), &vec![server.clone(); workers]).unwrap()
}

/// A cluster of TensorFlow 1.15 servers, where there is a Python for it.
fn tensorflow_1() -> Option<Cluster> {
    let server = Server::TensorFlow(Interpreter::with_tensorflow_1()?);
    Some(Cluster::start(std::slice::from_ref(&server), std::slice::from_ref(&server)).unwrap())
}

/// Builds a worker's part of a model: variables on the ps, the rest on the worker.
fn on_worker<R>(cluster: &Cluster, g: &Graph, index: usize, build: impl FnOnce() -> Result<R>) -> R {
    let flags = cluster.flags();
    let hosts: Vec<&str> = flags.iter().map(|flag| flag.split_once('=').unwrap().1).collect();
    let spec = ClusterSpec::from_hosts(hosts[0], hosts[1]).unwrap();
    let setter = replica_device_setter().cluster(&spec).worker_device(&format!("/job:worker/task:{index}"));
    g.device(setter, build).unwrap()
}

fn session(cluster: &Cluster, g: &Graph, index: usize) -> MonitoredTrainingSession {
    MonitoredTrainingSession::new(g)
        .master(&cluster.target(Job::Worker, index).unwrap())
        .is_chief(index == 0)
        .max_wait(CONNECT_TIMEOUT)
        .config(SessionOptions {
            device_filters: vec!["/job:ps".to_string(), format!("/job:worker/task:{index}")],
            connect_timeout: CONNECT_TIMEOUT,
            ..SessionOptions::default()
        })
}

fn counted(global_step: &Variable) -> MinimizeOptions {
    MinimizeOptions { global_step: Some(global_step.clone()), ..MinimizeOptions::default() }
}

/// Seed 001: a line through 11 points, one point at a time.
fn fits_a_line(cluster: &Cluster) {
    let g = Graph::new();
    let (x, y, w, b, train) = on_worker(cluster, &g, 0, || {
        let x = g.placeholder_named("X", DType::Float, PartialShape::unknown());
        let y = g.placeholder_named("Y", DType::Float, PartialShape::unknown());
        let (w, b) = (g.variable("b0", -1.0f32), g.variable("b1", -2.0f32));
        let loss = (&y - (x.mul(&w)? + &b)).pow(2.0)?;
        let global_step = g.get_or_create_global_step()?;
        let train = Adagrad::new(0.8).minimize_with(&loss, &counted(&global_step))?;
        Ok((x, y, w, b, train))
    });
    let points: Vec<(f32, f32)> =
        (0..11).map(|i| -1.0 + 0.2 * i as f32).map(|x| (x, 2.0 * x + 0.2)).collect();
    let mut session = session(cluster, &g, 0).hook(StopAtStepHook::last_step(440)).create().unwrap();
    let mut next = points.iter().cycle();
    while !session.should_stop() {
        let &(px, py) = next.next().unwrap();
        session.feed(&x, px).feed(&y, py).run(&train).unwrap();
    }
    let (w, b) = session.session().unwrap().run((&w, &b)).unwrap();
    session.close().unwrap();
    let (w, b) = (w.to_scalar::<f32>().unwrap(), b.to_scalar::<f32>().unwrap());
    assert!((w - 2.0).abs() < 0.15 && (b - 0.2).abs() < 0.15, "w = {w}, b = {b}");
}

/// Seed 004: one hidden layer, trained on the embedded digits, judged by those set aside.
fn learns_digits(cluster: &Cluster) {
    const STEPS: i64 = 200;
    let mut digits = mnist::embedded().unwrap();
    let g = Graph::new();
    let (x, y_, train, accuracy) = on_worker(cluster, &g, 0, || {
        let global_step = g.get_or_create_global_step()?;
        let (x, y_) = (g.placeholder(DType::Float, [-1, 784]), g.placeholder(DType::Float, [-1, 10]));
        g.set_random_seed(7);
        let hid_w = g.variable("hid_w", g.truncated_normal([784, 100], 0.0, 1.0 / 28.0)?);
        let hid_b = g.variable("hid_b", g.zeros(DType::Float, [100])?);
        let sm_w = g.variable("sm_w", g.truncated_normal([100, 10], 0.0, 0.1)?);
        let sm_b = g.variable("sm_b", g.zeros(DType::Float, [10])?);
        let loss = cross_entropy(&x, &y_, [&hid_w, &hid_b, &sm_w, &sm_b])?;
        let train = Adam::new(0.01).minimize_with(&loss, &counted(&global_step))?;
        let hidden = x.xw_plus_b(&hid_w, &hid_b)?.relu()?;
        let guess = hidden.xw_plus_b(&sm_w, &sm_b)?.argmax(1)?;
        let accuracy = guess.equal(y_.argmax(1)?)?.cast(DType::Float)?.reduce_mean(..)?;
        Ok((x, y_, train, accuracy))
    });
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    let mut session = session(cluster, &g, 0)
        .checkpoint_dir(dir)
        .save_checkpoint_steps(100)
        .hook(StopAtStepHook::last_step(STEPS))
        .create()
        .unwrap();
    while !session.should_stop() {
        let (images, labels) = digits.train.next_batch(100).unwrap();
        session.feed(&x, images).feed(&y_, labels).run(&train).unwrap();
    }
    let (images, labels) = (digits.validation.images().unwrap(), digits.validation.labels().unwrap());
    let accuracy = session.session().unwrap().feed(&x, images).feed(&y_, labels).run(&accuracy).unwrap();
    session.close().unwrap();
    let accuracy = accuracy.to_scalar::<f32>().unwrap();
    assert!(accuracy > 0.88, "accuracy {accuracy}");

    // The servers wrote the checkpoint; our reader reads it, slots included.
    let newest = latest_checkpoint(dir).unwrap().unwrap();
    assert!(newest.ends_with(&format!("model.ckpt-{STEPS}")), "{newest}");
    let reader = CheckpointReader::open(&newest).unwrap();
    assert_eq!(reader.tensor("global_step").unwrap().to_scalar::<i64>().unwrap(), STEPS);
    for name in ["hid_w", "hid_w/Adam", "hid_w/Adam_1", "sm_b/Adam", "beta1_power"] {
        assert!(reader.tensor(name).is_ok(), "{name} was not saved");
    }
}

#[test]
fn seed_models_train_on_tensorflow_2_servers() {
    let cluster = tensorflow_2(1);
    fits_a_line(&cluster);
    learns_digits(&cluster);
}

#[test]
fn seed_models_train_on_tensorflow_1_servers() {
    if let Some(cluster) = tensorflow_1() {
        fits_a_line(&cluster);
        learns_digits(&cluster);
    }
}

#[test]
fn seed_models_train_on_our_servers() {
    let cluster = ours(1);
    fits_a_line(&cluster);
    learns_digits(&cluster);
}

/// One worker of a synchronous training in which the gradient of `w` is whatever is fed.
struct Replica {
    g: Graph,
    gradient: Output,
    w: Variable,
    global_step: Variable,
    train: Operation,
    optimizer: SyncReplicasOptimizer,
}

fn replica(cluster: &Cluster, index: usize, aggregated: usize, total: usize) -> Replica {
    let g = Graph::new();
    let (gradient, w, global_step, train, optimizer) = on_worker(cluster, &g, index, || {
        let gradient = g.placeholder(DType::Float, ());
        let w = g.variable("w", 0.0f32);
        let global_step = g.get_or_create_global_step()?;
        let optimizer =
            SyncReplicasOptimizer::new(GradientDescent::new(1.0), aggregated).total_num_replicas(total);
        let train = optimizer.minimize_with(&(&gradient * &w), &counted(&global_step))?;
        Ok((gradient, w, global_step, train, optimizer))
    });
    Replica { g, gradient, w, global_step, train, optimizer }
}

impl Replica {
    fn open(&self, cluster: &Cluster, index: usize) -> MonitoredSession {
        let hook = self.optimizer.make_session_hook(index == 0).unwrap();
        session(cluster, &self.g, index).hook(hook).create().unwrap()
    }

    /// The variable and the number of rounds.
    fn state(&self, session: &MonitoredSession) -> (f32, i64) {
        let (w, step) = session.session().unwrap().run((&self.w, &self.global_step)).unwrap();
        (w.to_scalar::<f32>().unwrap(), step.to_scalar::<i64>().unwrap())
    }
}

/// Three workers give one gradient each to each of five rounds: the variable moves by the mean of each round.
fn rounds_apply_the_mean(cluster: Cluster) {
    const ROUNDS: usize = 5;
    let cluster = Arc::new(cluster);
    let gradient_of = |index: usize, round: usize| (index * 10 + round) as f32;
    // A round is over for all before the next begins, so that the chief sees each state.
    let barrier = Arc::new(Barrier::new(3));
    let workers: Vec<_> = (0..3)
        .map(|index| {
            let (cluster, barrier) = (cluster.clone(), barrier.clone());
            std::thread::spawn(move || {
                let replica = replica(&cluster, index, 3, 3);
                let mut session = replica.open(&cluster, index);
                let mut states = Vec::new();
                for round in 0..ROUNDS {
                    session.feed(&replica.gradient, gradient_of(index, round)).run(&replica.train).unwrap();
                    barrier.wait();
                    states.push(replica.state(&session));
                    barrier.wait();
                }
                session.close().unwrap();
                states
            })
        })
        .collect();
    for worker in workers {
        let states = worker.join().unwrap();
        let mut w = 0.0;
        for (round, state) in states.iter().enumerate() {
            w -= (0..3).map(|index| gradient_of(index, round)).sum::<f32>() / 3.0;
            assert_eq!(state.1, round as i64 + 1, "three gradients make one round");
            assert!((state.0 - w).abs() < 1e-4, "round {round}: {} instead of {w}", state.0);
        }
    }
}

#[test]
fn synchronous_rounds_apply_the_mean_of_all_workers() {
    rounds_apply_the_mean(ours(3));
}

#[test]
fn synchronous_rounds_work_on_tensorflow_servers() {
    rounds_apply_the_mean(tensorflow_2(3));
}

/// Two of three gradients make a round. A worker that slept while two others made three rounds comes with a gradient of the
/// first: it must be dropped, or the variable would jump.
#[test]
fn stale_gradients_of_a_slow_worker_are_dropped() {
    let cluster = Arc::new(ours(3));
    let [chief, fast, slow] = [0, 1, 2].map(|index| replica(&cluster, index, 2, 3));
    let mut chief_session = chief.open(&cluster, 0);
    let mut fast_session = fast.open(&cluster, 1);
    // The slow worker has read the model at step 0, and falls asleep.
    let mut slow_session = slow.open(&cluster, 2);

    let (w, rounds) = std::thread::scope(|scope| {
        // All fresh gradients are the same, so every mean is 2, whichever gradients make a round. The fast worker ends when
        // the chief has closed the token queue.
        scope.spawn(|| while fast_session.feed(&fast.gradient, 2.0).run(&fast.train).is_ok() {});
        let mut one_step = || {
            chief_session.feed(&chief.gradient, 2.0).run(&chief.train).unwrap();
            chief.state(&chief_session)
        };
        while one_step().1 < 3 {}
        let woken = scope.spawn(|| slow_session.feed(&slow.gradient, 1000.0).run(&slow.train));
        while !woken.is_finished() {
            one_step();
        }
        woken.join().unwrap().unwrap();
        // Rounds that follow show that nothing of it was kept.
        let end = one_step().1 + 2;
        let last = loop {
            let state = one_step();
            if state.1 >= end {
                break state;
            }
        };
        chief_session.close().unwrap();
        last
    });
    assert!(rounds >= 5);
    // The variable is read beside the counter, a round may end in between.
    let moved = -w / 2.0 - rounds as f32;
    assert!((-1.0..=1.0).contains(&moved), "w = {w} after {rounds} rounds: a stale gradient was applied");
}
