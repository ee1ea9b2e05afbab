//! In-graph replication: one client builds one graph, with a copy of the model (a tower) on each worker and the variables on a
//! parameter server. Each step takes a batch per tower and applies the mean of their gradients, so it is synchronous by
//! construction.

use clap::Parser;
use tensorfleet::train::{Adam, MinimizeOptions, Optimizer, average_gradients, towers};
use tensorfleet::{DType, Graph, Initializer, Output, Result, Session, Variable};
use tensorfleet_datasets::mnist;
use tensorfleet_examples::{say, start_local_cluster};

/// Recognises digits with a copy of the model on each of several workers.
#[derive(Parser)]
#[command(rename_all = "snake_case")]
struct Flags {
    /// Any task of a cluster with a parameter server and enough workers, e.g. grpc://localhost:2222; without it, a cluster is
    /// started in this process.
    #[arg(long)]
    master: Option<String>,

    /// How many copies of the model, each on a worker of its own.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    num_towers: u32,

    /// How many steps to train.
    #[arg(long, default_value_t = 500)]
    train_steps: u32,

    /// Digits per tower and step.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    batch_size: u32,
}

fn main() -> Result<()> {
    let flags: Flags = tensorfleet::flags::parse();
    let mut mnist = mnist::embedded()?;
    let g = Graph::new();
    let optimizer = Adam::new(0.005);
    let workers: Vec<String> = (0..flags.num_towers).map(|task| format!("/job:worker/task:{task}")).collect();
    let devices: Vec<&str> = workers.iter().map(String::as_str).collect();

    // The first tower makes the variables, the others find them.
    let built = towers(&g, &devices, |_| {
        let x = g.placeholder(DType::Float, [-1, 784]);
        let y_ = g.placeholder(DType::Float, [-1, 10]);
        let logits = logits(&g, &x)?;
        let loss = logits.softmax_cross_entropy(&y_)?.reduce_mean(..)?;
        let gradients = optimizer.compute_gradients(&loss, &MinimizeOptions::default())?;
        let hits = logits.argmax(1)?.equal(y_.argmax(1)?)?.cast(DType::Float)?;
        Ok((Tower { x, y_, loss, accuracy: hits.reduce_mean(..)? }, gradients))
    })?;
    let (towers, gradients): (Vec<Tower>, Vec<_>) = built.into_iter().unzip();
    let train_op = optimizer.apply_gradients(&average_gradients(&gradients)?, None)?;
    let losses: Vec<&Output> = towers.iter().map(|tower| &tower.loss).collect();

    // Servers of this process end with it.
    let mut servers = Vec::new();
    let master = match flags.master {
        Some(master) => master,
        None => {
            servers = start_local_cluster(1, towers.len())?;
            servers.first().map(|ps| ps.target()).unwrap_or_default()
        }
    };
    let session = Session::connect(&master, &g)?;
    session.run(g.global_variables_initializer()?)?;
    for step in 1..=flags.train_steps {
        let mut run = session.step();
        for tower in &towers {
            let (images, labels) = mnist.train.next_batch(flags.batch_size as usize)?;
            run = run.feed(&tower.x, images).feed(&tower.y_, labels);
        }
        let ((), values) = run.run((&train_op, &losses))?;
        if step % 100 == 0 {
            let values: Vec<f32> = values.iter().map(|loss| loss.to_scalar()).collect::<Result<_>>()?;
            say!("training step {step} done, losses of the towers: {values:?}");
        }
    }
    // Any tower can judge: they share the variables.
    let (images, labels) = (mnist.test.images()?, mnist.test.labels()?);
    for (tower, device) in towers.iter().zip(&workers) {
        let feed = session.feed(&tower.x, images.clone()).feed(&tower.y_, labels.clone());
        let accuracy = feed.run(&tower.accuracy)?.to_scalar::<f32>()?;
        say!("After {} training step(s), test accuracy on {device} = {accuracy}", flags.train_steps);
    }
    session.close()?;
    drop(servers);
    Ok(())
}

/// A copy of the model.
struct Tower {
    x: Output,
    y_: Output,
    loss: Output,
    accuracy: Output,
}

fn logits(g: &Graph, x: &Output) -> Result<Output> {
    let stddev = 1.0 / 28.0;
    let hidden = x.xw_plus_b(weights(g, "hid_w", [784, 100], stddev)?, biases(g, "hid_b", 100)?)?.relu()?;
    hidden.xw_plus_b(weights(g, "sm_w", [100, 10], 0.1)?, biases(g, "sm_b", 10)?)
}

fn weights(g: &Graph, name: &str, shape: [i64; 2], stddev: f64) -> Result<Variable> {
    let initializer = Initializer::truncated_normal(0.0, stddev);
    g.device("/job:ps/task:0", || g.get_variable(name).shape(shape).initializer(initializer).build())
}

fn biases(g: &Graph, name: &str, length: i64) -> Result<Variable> {
    let initializer = Initializer::zeros();
    g.device("/job:ps/task:0", || g.get_variable(name).shape([length]).initializer(initializer).build())
}
