//! Recognises handwritten digits with a convolutional network in the manner of LeNet-5. In-graph replication: worker 0 builds
//! one graph with a copy of the network (a tower) on each worker and the variables on the parameter servers; each step takes a
//! batch per tower and applies the mean of their gradients. The other tasks only serve.
//!
//! Started without flags it is a cluster of one parameter server and two workers in one process.

use std::path::PathBuf;

use clap::Parser;
use tensorfleet::data::Dataset;
use tensorfleet::train::{Adam, MinimizeOptions, Optimizer, PolynomialDecay, average_gradients, towers};
use tensorfleet::{
    DType, DeviceScope, Graph, Operation, Output, Padding, Result, Session, SessionOptions,
    replica_device_setter,
};
use tensorfleet_datasets::{DataSet, mnist};
use tensorfleet_examples::{ClusterFlags, Pace, Place, learning_rate, say};

/// Batches that are prefetched.
const AHEAD: usize = 8;
/// Batch size of the evaluation.
const TEST_BATCH: usize = 500;

/// Recognises digits (or clothes) with convolutions, a copy of the network on each worker.
#[derive(Parser)]
#[command(rename_all = "snake_case")]
struct Flags {
    #[command(flatten)]
    cluster: ClusterFlags,

    /// Directory of the four files of MNIST or Fashion-MNIST; the digits that are built in, if nothing is said.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// How many workers a cluster inside this process has, if no cluster is given.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    num_towers: u32,

    /// How many steps to train.
    #[arg(long, default_value_t = 1000)]
    train_steps: u32,

    /// Images per tower and step.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    batch_size: u32,

    /// Learning rate at the start; it falls to nothing at the end.
    #[arg(long, default_value_t = 0.003, value_parser = learning_rate)]
    learning_rate: f64,
}

fn main() -> Result<()> {
    let flags: Flags = tensorfleet::flags::parse();
    let place = flags.cluster.place(1, flags.num_towers as usize)?;
    match place.is_chief() {
        true => train(&flags, &place),
        false => place.serve(),
    }
}

fn train(flags: &Flags, place: &Place) -> Result<()> {
    let mut data = mnist::open(flags.data_dir.as_deref())?;
    data.train.shuffle_with(1);
    let workers = place.cluster.task_indices("worker")?;
    let workers: Vec<String> = workers.iter().map(|task| format!("/job:worker/task:{task}")).collect();

    let g = Graph::new();
    g.set_random_seed(1);
    let model = build(flags, &g, place, &workers)?;
    let init = g.global_variables_initializer()?;
    let options = SessionOptions {
        connect_timeout: std::time::Duration::from_secs(flags.cluster.wait_secs),
        ..SessionOptions::default()
    };
    let session = Session::connect_with(&place.target, &g, options)?;
    session.run(&init)?;
    say!("{} tower(s), {} training images", model.towers.len(), data.train.len());

    let (mut train, size) = (data.train, flags.batch_size as usize);
    let mut batches =
        Dataset::of_results(std::iter::repeat_with(move || train.next_batch(size))).prefetch(AHEAD);
    let pace = Pace::begin();
    for step in 1..=flags.train_steps {
        let mut run = session.step();
        for tower in &model.towers {
            let Some((images, labels)) = batches.next().transpose()? else { break };
            run = run.feed(&tower.images, images).feed(&tower.labels, labels);
        }
        let ((), loss) = run.run((&model.train_op, &model.loss))?;
        if step % 100 == 0 || step == flags.train_steps {
            say!("training step {step} done, loss = {}", loss.to_scalar::<f32>()?);
        }
    }
    pace.report(flags.train_steps.into(), flags.batch_size as usize * model.towers.len());
    let accuracy = accuracy(&session, &model, &data.test)?;
    say!("After {} training step(s), test accuracy = {accuracy:.4}", flags.train_steps);
    session.close()
}

struct Model {
    towers: Vec<Tower>,
    train_op: Operation,
    /// The mean of the towers' losses.
    loss: Output,
}

/// A copy of the network.
struct Tower {
    images: Output,
    labels: Output,
    loss: Output,
    /// How many images of the batch were recognised.
    hits: Output,
}

fn build(flags: &Flags, g: &Graph, place: &Place, workers: &[String]) -> Result<Model> {
    let devices: Vec<&str> = workers.iter().map(String::as_str).collect();
    // Variables go to the parameter servers in turn, whichever tower asks for them.
    let variables = DeviceScope::from(replica_device_setter().worker_device("").cluster(&place.cluster));
    let global_step = g.device("/job:ps/task:0", || g.get_or_create_global_step())?;
    let steps = i64::from(flags.train_steps.max(1));
    let to_zero = PolynomialDecay { end_learning_rate: 0.0, ..PolynomialDecay::default() };
    let rate = g.polynomial_decay(flags.learning_rate, &global_step, steps, to_zero)?;
    let optimizer = Adam::new(rate);
    // The first tower makes the variables, the others find them.
    let built = towers(g, &devices, |_| {
        g.device(variables.clone(), || {
            let images = g.placeholder(DType::Float, [-1, 784]);
            let labels = g.placeholder(DType::Float, [-1, 10]);
            let logits = lenet(g, &images)?;
            let loss = logits.softmax_cross_entropy(&labels)?.reduce_mean(..)?;
            let gradients = optimizer.compute_gradients(&loss, &MinimizeOptions::default())?;
            let hits = logits.argmax(1)?.equal(labels.argmax(1)?)?.cast(DType::Float)?.reduce_sum(..)?;
            Ok((Tower { images, labels, loss, hits }, gradients))
        })
    })?;
    let (towers, gradients): (Vec<Tower>, Vec<_>) = built.into_iter().unzip();
    let train_op = optimizer.apply_gradients(&average_gradients(&gradients)?, Some(&global_step))?;
    let losses: Vec<Output> = towers.iter().map(|tower| tower.loss.clone()).collect();
    Ok(Model { loss: g.stack(&losses)?.reduce_mean(..)?, towers, train_op })
}

/// Two convolutions, each followed by max pooling, and three fully connected layers.
fn lenet(g: &Graph, images: &Output) -> Result<Output> {
    let images = images.reshape([-1, 28, 28, 1])?;
    let edges =
        g.conv2d(6, 5).name("conv1").padding(Padding::Same).activation(Output::relu).build(&images)?;
    let edges = g.max_pool2d(2, 2).build(&edges)?;
    let shapes = g.conv2d(16, 5).name("conv2").activation(Output::relu).build(&edges)?;
    let shapes = g.max_pool2d(2, 2).build(&shapes)?;
    let hidden = g.dense(120).name("fc3").activation(Output::relu).build(&g.flatten(&shapes)?)?;
    let hidden = g.dense(84).name("fc4").activation(Output::relu).build(&hidden)?;
    g.dense(10).name("logits").build(&hidden)
}

/// The part of the test images that is recognised. The towers share the variables, so the first evaluates alone.
fn accuracy(session: &Session, model: &Model, test: &DataSet) -> Result<f64> {
    let (images, labels) = (test.images()?, test.labels()?);
    let Some(tower) = model.towers.first() else { return Ok(0.0) };
    let mut hits = 0.0;
    for start in (0..test.len()).step_by(TEST_BATCH) {
        let count = TEST_BATCH.min(test.len() - start);
        let feed = session.feed(&tower.images, images.rows(start, count)?);
        let batch = feed.feed(&tower.labels, labels.rows(start, count)?).run(&tower.hits)?;
        hits += f64::from(batch.to_scalar::<f32>()?);
    }
    Ok(hits / test.len().max(1) as f64)
}
