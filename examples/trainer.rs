//! The skeleton of a trainer: between-graph replication, asynchronous, under a `MonitoredTrainingSession` that recovers when a
//! parameter server was lost and has come back.

use std::time::Duration;

use clap::Parser;
use tensorfleet::train::{Adagrad, MinimizeOptions, MonitoredTrainingSession, Optimizer, StopAtStepHook};
use tensorfleet::{Graph, Result, replica_device_setter};
use tensorfleet_examples::{ClusterFlags, noisy_line, numbers, say};

/// Steps of a worker between two lines of output.
const REPORT_STEPS: i64 = 1000;

/// A trainer to start from; its model is a line through 100 points.
#[derive(Parser)]
#[command(rename_all = "snake_case")]
struct Flags {
    #[command(flatten)]
    cluster: ClusterFlags,

    /// Where checkpoints and event files are; all tasks must see it.
    #[arg(long, default_value = "/tmp/train_logs/trainer")]
    checkpoint_dir: String,

    /// Saves every so many seconds.
    #[arg(long, default_value_t = 600.0)]
    save_checkpoint_secs: f64,

    /// The (global) step to stop at.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(i64).range(0..))]
    last_step: i64,
}

fn main() -> Result<()> {
    let flags: Flags = tensorfleet::flags::parse();
    // The cluster of parameter servers and workers.
    let (cluster, task) = flags.cluster.resolve()?;

    // The server of the local task.
    let server = flags.cluster.serve_until_done(&cluster, &task)?;
    if task.job == "ps" {
        return server.join();
    }

    // Variables go to the parameter servers in turn, all else to this worker.
    let g = Graph::new();
    let setter = replica_device_setter().worker_device(&task.to_string()).cluster(&cluster);
    let (w, b, loss, global_step, train_op) = g.device(setter, || -> Result<_> {
        // The model: put your own here.
        let (xs, ys): (Vec<f32>, Vec<f32>) =
            noisy_line(100, [2.0, 0.2], 0.1, i64::from(task.index) + 1)?.into_iter().unzip();
        let (x, y) = (g.constant(&xs[..]), g.constant(&ys[..]));
        let (w, b) = (g.variable("w", 0.0f32), g.variable("b", 0.0f32));
        let loss = (&x * &w + &b - &y).square()?.reduce_mean(..)?;
        let global_step = g.get_or_create_global_step()?;

        let options = MinimizeOptions { global_step: Some(global_step.clone()), ..Default::default() };
        let train_op = Adagrad::new(0.01).minimize_with(&loss, &options)?;
        Ok((w, b, loss, global_step, train_op))
    })?;

    // Initialises or restores the model, saves it, and closes all when done or when an error occurs.
    let mut session = MonitoredTrainingSession::new(&g)
        .master(&server.target())
        .is_chief(task.index == 0)
        .checkpoint_dir(&flags.checkpoint_dir)
        .save_checkpoint_secs(flags.save_checkpoint_secs)
        .log_step_count_steps(REPORT_STEPS)
        .hook(StopAtStepHook::last_step(flags.last_step))
        .max_wait(Duration::from_secs(flags.cluster.wait_secs))
        .config(flags.cluster.session_options(&task))
        .create()?;
    let mut steps = 0;
    while !session.should_stop() {
        // A step, asynchronous to those of other workers. A lost parameter server makes it take longer, no more.
        session.run(&train_op)?;
        steps += 1;
        if steps % REPORT_STEPS == 0 {
            let (step, loss) = session.session()?.run((&global_step, &loss))?;
            let (step, loss) = (step.to_scalar::<i64>()?, loss.to_scalar::<f32>()?);
            say!("Worker {}: global step {step}, loss {loss}", task.index);
        }
    }
    let (step, line) = session.session()?.run((&global_step, [&w, &b]))?;
    let (step, [w, b]) = (step.to_scalar::<i64>()?, numbers(line)?);
    session.close()?;
    say!("Worker {}: stopped at global step {step}, w = {w}, b = {b}", task.index);
    Ok(())
}
