//! Two workers fit the same line, each with points of its own, and tell after each pass how far they are together.

use clap::Parser;
use tensorfleet::train::{Adagrad, MinimizeOptions, Optimizer, Saver, Supervisor};
use tensorfleet::{DType, Graph, PartialShape, Result, replica_device_setter};
use tensorfleet_examples::{ClusterFlags, noisy_line, numbers, say, shuffle, whole_number};

/// Fits y = 2x + 0.2 on a parameter server and any number of workers, with the optimizer Adagrad.
#[derive(Parser)]
#[command(rename_all = "snake_case")]
struct Flags {
    #[command(flatten)]
    cluster: ClusterFlags,

    /// Where checkpoints and event files are; all tasks must see it.
    #[arg(long, default_value = "/tmp/train_logs/partial_results")]
    logdir: String,

    /// How many rounds this worker makes; 0 to go on until it is stopped.
    #[arg(long, default_value_t = 10, value_parser = whole_number)]
    rounds: u64,

    /// How many passes over its points make a round.
    #[arg(long, default_value_t = 100, value_parser = whole_number)]
    passes: u64,
}

fn main() -> Result<()> {
    let flags: Flags = tensorfleet::flags::parse();
    // The cluster, from the command line.
    let (cluster, task) = flags.cluster.resolve()?;

    // The local task.
    let server = flags.cluster.serve_until_done(&cluster, &task)?;
    if task.job == "ps" {
        return server.join();
    }

    // Variables go to the parameter server, all else to this worker.
    let g = Graph::new();
    let setter = replica_device_setter().worker_device(&task.to_string()).cluster(&cluster);
    let (x, y, w, b, global_step, train_op) = g.device(setter, || -> Result<_> {
        let x = g.placeholder_named("X", DType::Float, PartialShape::unknown());
        let y = g.placeholder_named("Y", DType::Float, PartialShape::unknown());
        // Shared by all workers; the line is y = x * w + b.
        let w = g.variable("b0", -1.0f32);
        let b = g.variable("b1", -2.0f32);
        let y_model = x.mul(&w)? + &b;

        let loss = (&y - y_model).pow(2.0)?;
        let global_step = g.new_variable("global_step").untrainable().init(0);
        let options = MinimizeOptions { global_step: Some(global_step.clone()), ..Default::default() };
        let train_op = Adagrad::new(0.8).minimize_with(&loss, &options)?;
        Ok((x, y, w, b, global_step, train_op))
    })?;

    let saver = Saver::new(&g)?;
    let summary_op = g.merge_all_summaries()?;
    let init_op = g.global_variables_initializer()?;

    // Initialises the model or restores it from a checkpoint, and saves it.
    let sv = Supervisor::builder(&g)
        .is_chief(task.index == 0)
        .logdir(&flags.logdir)
        .init_op(&init_op)
        .summary_op(summary_op.as_ref())
        .saver(&saver)
        .global_step(&global_step)
        .save_model_secs(600)
        .max_wait_secs(flags.cluster.wait_secs)
        .config(flags.cluster.session_options(&task))
        .build()?;

    let mut points = noisy_line(101, [2.0, 0.2], 0.4, i64::from(task.index) + 1)?;
    sv.managed_session(&server.target(), |session| {
        let train = session.prepare(&[&x, &y], &train_op)?;
        let mut round = 0;
        while !sv.should_stop() && (flags.rounds == 0 || round < flags.rounds) {
            for _ in 0..flags.passes {
                shuffle(&mut points);
                for &(x, y) in &points {
                    train.run([x, y])?;
                }
                // The partial result, and the node that computed it.
                let [w, b] = numbers(session.run([&w, &b])?)?;
                say!("Partial result from node: {}, w: {w}, b0: {b}", task.index);
            }
            round += 1;
        }
        Ok(())
    })
}
