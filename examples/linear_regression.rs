//! Fits a line on a cluster, under a `Supervisor` that saves checkpoints: a chief that was killed and is started again
//! resumes from the last checkpoint.

use clap::Parser;
use tensorfleet::train::{GradientDescent, MinimizeOptions, Optimizer, Saver, Supervisor};
use tensorfleet::{DType, Graph, PartialShape, Result, replica_device_setter};
use tensorfleet_examples::{ClusterFlags, noisy_line, numbers, say, whole_number};

/// Passes over the points between two lines of output.
const DISPLAY_STEP: i64 = 2;

/// Fits y = 2x to 100 points with noise, on a parameter server and any number of workers.
#[derive(Parser)]
#[command(rename_all = "snake_case")]
struct Flags {
    #[command(flatten)]
    cluster: ClusterFlags,

    /// Where checkpoints and event files are; all tasks must see it.
    #[arg(long, default_value = "log/super")]
    logdir: String,

    /// How often to go through all points, all workers together.
    #[arg(long, default_value_t = 2200, value_parser = clap::value_parser!(i64).range(0..))]
    training_epochs: i64,

    /// Saves every so many seconds.
    #[arg(long, default_value_t = 5, value_parser = whole_number)]
    save_model_secs: u64,
}

fn main() -> Result<()> {
    let flags: Flags = tensorfleet::flags::parse();
    let (cluster, task) = flags.cluster.resolve()?;
    let server = flags.cluster.serve(&cluster, &task)?;
    // The parameter server stays, for a chief that is started again any time later.
    if task.job == "ps" {
        say!("Wait");
        return server.join();
    }

    let train_data = noisy_line(100, [2.0, 0.0], 0.3, 1)?;
    let g = Graph::new();
    let setter = replica_device_setter().worker_device(&task.to_string()).cluster(&cluster);
    g.device(setter, || {
        let x = g.placeholder(DType::Float, PartialShape::unknown());
        let y = g.placeholder(DType::Float, PartialShape::unknown());
        let w = g.variable("weight", g.random_normal([1], 0.0, 1.0)?);
        let b = g.variable("bias", g.zeros(DType::Float, [1])?);

        // How many steps all workers have made.
        let global_step = g.get_or_create_global_step()?;
        let z = x.mul(&w)? + &b;
        let cost = (&y - z).square()?.reduce_mean(..)?;
        let options = MinimizeOptions { global_step: Some(global_step.clone()), ..Default::default() };
        let train_op = GradientDescent::new(0.01).minimize_with(&cost, &options)?;
        let step_after = g.control_dependencies([&train_op], || global_step.read_value())?;
        let saver = Saver::builder(&g).max_to_keep(1).build()?;
        let init = g.global_variables_initializer()?;

        // Worker 0 is the chief.
        let is_chief = task.index == 0;
        let sv = Supervisor::builder(&g)
            .is_chief(is_chief)
            .logdir(&flags.logdir)
            .init_op(&init)
            .saver(&saver)
            .global_step(&global_step)
            .save_model_secs(flags.save_model_secs)
            .max_wait_secs(flags.cluster.wait_secs)
            .config(flags.cluster.session_options(&task))
            .build()?;
        sv.managed_session(&server.target(), |session| {
            let mut step = session.run(&global_step)?.to_scalar::<i64>()?;
            say!("{step}");
            let train = session.prepare(&[&x, &y], (&train_op, &step_after))?;
            let points = train_data.len() as i64;
            let last_step = flags.training_epochs.saturating_mul(points);
            let mut displayed = step;
            while step < last_step && !sv.should_stop() {
                for &(x, y) in &train_data {
                    step = train.run([x, y])?.1.to_scalar::<i64>()?;
                }
                if step - displayed >= DISPLAY_STEP * points {
                    displayed = step;
                    let (xs, ys): (Vec<f32>, Vec<f32>) = train_data.iter().copied().unzip();
                    let results =
                        session.feed(&x, &xs[..]).feed(&y, &ys[..]).run([&cost, &w.value(), &b.value()])?;
                    let [cost, w, b] = numbers(results)?;
                    say!("Epoch: {} cost= {cost} W= {w} b= {b}", step / points);
                }
            }

            say!("Finished");
            if is_chief {
                saver.save(session, &format!("{}/sv.cpk", flags.logdir), Some(step))?;
            }
            Ok(())
        })
    })
}
