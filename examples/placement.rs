//! Puts the two layers of a model on two parameter servers and the computation on a worker, trains it, and shows where the
//! nodes of a step ran.

use clap::Parser;
use tensorfleet::train::{GradientDescent, Optimizer};
use tensorfleet::{DType, Graph, Result, Session};
use tensorfleet_examples::{devices_of_nodes, say, start_local_cluster};

/// A model of two layers, each on a parameter server of its own, computed by a worker.
#[derive(Parser)]
#[command(rename_all = "snake_case")]
struct Flags {
    /// A task of a cluster with two parameter servers, e.g. grpc://localhost:2222; without it a cluster is started here.
    #[arg(long)]
    master: Option<String>,

    /// The worker that computes.
    #[arg(long, default_value_t = 0)]
    worker: u32,

    /// How many steps to train.
    #[arg(long, default_value_t = 1000)]
    steps: u32,
}

fn main() -> Result<()> {
    let flags: Flags = tensorfleet::flags::parse();
    let g = Graph::new();
    g.set_random_seed(1);
    let (weights_1, biases_1) = g.device("/job:ps/task:0", || -> Result<_> {
        let weights = g.variable("weights_1", g.truncated_normal([2, 8], 0.0, 0.5)?);
        Ok((weights, g.variable("biases_1", g.zeros(DType::Float, [8])?)))
    })?;
    let (weights_2, biases_2) = g.device("/job:ps/task:1", || -> Result<_> {
        let weights = g.variable("weights_2", g.truncated_normal([8, 1], 0.0, 0.5)?);
        Ok((weights, g.variable("biases_2", g.zeros(DType::Float, [1])?)))
    })?;
    let (input, layer_1, logits, loss, train_op) =
        g.device(format!("/job:worker/task:{}", flags.worker), || -> Result<_> {
            // Whether exactly one of two numbers is 1, which no single layer can tell.
            let input = g.constant_named("input", [[0.0f32, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]);
            let labels = g.constant_named("labels", [[0.0f32], [1.0], [1.0], [0.0]]);
            let layer_1 = (input.matmul(&weights_1)? + &biases_1).relu()?;
            let logits = (layer_1.matmul(&weights_2)? + &biases_2).relu()?;
            let loss = (&logits - labels).square()?.reduce_mean(..)?;
            let train_op = GradientDescent::new(0.3).minimize(&loss)?;
            Ok((input, layer_1, logits, loss, train_op))
        })?;

    // Servers of this process end with it.
    let mut servers = Vec::new();
    let master = match flags.master {
        Some(master) => master,
        None => {
            servers = start_local_cluster(2, flags.worker as usize + 1)?;
            servers.last().map(|worker| worker.target()).unwrap_or_default()
        }
    };
    let session = Session::connect(&master, &g)?;
    session.run(g.global_variables_initializer()?)?;
    let ((), record) = session.step().run_traced(&train_op)?;
    let devices = devices_of_nodes(&record);
    let variables = [&weights_1, &biases_1, &weights_2, &biases_2].map(|variable| variable.handle());
    for node in variables.into_iter().chain([input, layer_1, logits]) {
        let node = node.operation().name();
        say!("{node}: {}", devices.get(&node).map_or("nowhere", String::as_str));
    }
    for _ in 0..flags.steps {
        session.run(&train_op)?;
    }
    let loss = session.run(&loss)?.to_scalar::<f32>()?;
    say!("After {} training step(s), loss = {loss}", flags.steps);
    session.close()?;
    drop(servers);
    Ok(())
}
