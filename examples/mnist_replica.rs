//! Recognises handwritten digits: a network with one hidden layer, trained by several workers, asynchronously or
//! synchronously.
//!
//! Worker 0 is the chief, which initialises the model; the others wait for it. Besides what the well-known program of this
//! name does, this one needs no download (a part of MNIST is built in) and ends with the accuracy on the test digits.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{ArgAction, Parser};
use tensorfleet::train::{Adam, MinimizeOptions, Optimizer, Supervisor, SyncReplicasOptimizer};
use tensorfleet::{
    ClusterSpec, Code, DType, Graph, Operation, Output, Result, Session, SessionOptions, Status, TaskId,
    Variable, flags, replica_device_setter,
};
use tensorfleet_datasets::{DataSets, mnist};
use tensorfleet_examples::{ClusterFlags, LogDir, learning_rate, say};

const IMAGE_PIXELS: i32 = 28;

/// Trains a network with one hidden layer on MNIST, on a cluster.
#[derive(Parser)]
#[command(rename_all = "snake_case")]
struct Flags {
    #[command(flatten)]
    cluster: ClusterFlags,

    /// Directory of the MNIST files; the digits that are built in, if nothing is said.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Only downloads the files that --data_dir does not have.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", default_value = "false",
          value_parser = flags::boolean, action = ArgAction::Set)]
    download_only: bool,

    /// Total number of GPUs of each machine. Servers that have none, as those of this project, use the CPU.
    #[arg(long, default_value_t = 0)]
    num_gpus: u32,

    /// Number of replicas to aggregate before an update (for --sync_replicas only); all workers, if nothing is said.
    #[arg(long)]
    replicas_to_aggregate: Option<u32>,

    /// With so many replicas an update goes on when the others have not come for 10 seconds (for --sync_replicas only); with all
    /// that it aggregates, if nothing is said.
    #[arg(long)]
    min_replicas: Option<u32>,

    /// Number of units in the hidden layer.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..))]
    hidden_units: i32,

    /// Number of (global) training steps to perform.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(i32).range(0..))]
    train_steps: i32,

    /// Training batch size.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    batch_size: u32,

    /// Learning rate.
    #[arg(long, default_value_t = 0.01, value_parser = learning_rate)]
    learning_rate: f64,

    /// Aggregates the gradients of the workers before they are applied, so that none is stale.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", default_value = "false",
          value_parser = flags::boolean, action = ArgAction::Set)]
    sync_replicas: bool,

    /// Uses the servers that run at the hosts, one client process per worker, instead of starting one here.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", default_value = "false",
          value_parser = flags::boolean, action = ArgAction::Set)]
    existing_servers: bool,

    /// Directory of checkpoints and event files, which all tasks must see; a temporary one, if nothing is said.
    #[arg(long, value_name = "DIR")]
    log_dir: Option<String>,
}

fn main() -> Result<()> {
    let flags: Flags = tensorfleet::flags::parse();
    if flags.download_only {
        let dir = flags.data_dir.as_deref().ok_or_else(|| {
            Status::invalid_argument("--download_only needs --data_dir: say where to store the files")
        })?;
        return mnist::download(dir);
    }
    let (cluster, task) = flags.cluster.resolve()?;
    say!("job name = {}", task.job);
    say!("task index = {}", task.index);

    if flags.existing_servers {
        if task.job == "ps" {
            return Err(Status::invalid_argument(
                "--existing_servers leaves nothing to do for --job_name=ps: start the workers",
            ));
        }
        let target = format!("grpc://{}", cluster.address("worker", task.index)?);
        return train(&flags, &cluster, &task, &target);
    }
    // Not using existing servers: this process has one of its own.
    let server = flags.cluster.serve_until_done(&cluster, &task)?;
    if task.job == "ps" {
        return server.join();
    }
    train(&flags, &cluster, &task, &server.target())
}

fn train(flags: &Flags, cluster: &ClusterSpec, task: &TaskId, target: &str) -> Result<()> {
    let mut mnist = mnist::open(flags.data_dir.as_deref())?;
    mnist.train.shuffle_with(u64::from(task.index));
    let is_chief = task.index == 0;

    let g = Graph::new();
    let model = build(flags, cluster, task, &g)?;
    let init_op = g.global_variables_initializer()?;
    let train_dir = LogDir::new(flags.log_dir.as_deref())?;
    let mut sv = Supervisor::builder(&g)
        .is_chief(is_chief)
        .logdir(train_dir.path())
        .init_op(&init_op)
        .recovery_wait_secs(1)
        .max_wait_secs(flags.cluster.wait_secs)
        .global_step(&model.global_step)
        .config(SessionOptions { allow_soft_placement: true, ..flags.cluster.session_options(task) });
    let mut init_tokens_op = None;
    if let Some(opt) = &model.sync {
        // Workers count rounds from the step that the model is at.
        let local_init_op = if is_chief { opt.chief_init_op()? } else { opt.local_step_init_op()? };
        sv = sv.local_init_op(&local_init_op).ready_for_local_init_op(&opt.ready_for_local_init_op()?);
        init_tokens_op = Some(opt.get_init_tokens_op(None)?);
    }
    let sv = sv.build()?;

    // The chief prepares the session, the others wait until it has.
    match is_chief {
        true => say!("Worker {}: Initializing session...", task.index),
        false => say!("Worker {}: Waiting for session to be initialized...", task.index),
    }
    if flags.existing_servers {
        say!("Using existing server at: {target}");
    }
    let sess = sv.prepare_or_wait_for_session(target)?;
    say!("Worker {}: Session initialization complete.", task.index);
    if let (true, Some(opt), Some(init_tokens_op)) = (is_chief, &model.sync, &init_tokens_op) {
        say!("Starting chief queue runner and running init_tokens_op");
        sess.run(init_tokens_op)?;
        sv.start_queue_runners(&sess, &[opt.get_chief_queue_runner()?])?;
    }

    // Perform training.
    let train_step = sess.prepare(&[&model.x, &model.y_], (&model.train_step, &model.step_after))?;
    let time_begin = now();
    say!("Training begins @ {time_begin:.6}");
    let (mut local_step, mut step) = (0, 0);
    while step < flags.train_steps {
        let (batch_xs, batch_ys) = mnist.train.next_batch(flags.batch_size as usize)?;
        step = match train_step.run([batch_xs, batch_ys]) {
            Ok(((), step)) => step.to_scalar::<i32>()?,
            // The chief of a synchronous training is done.
            Err(status) if status.code() == Code::OutOfRange => break,
            Err(status) => return Err(status),
        };
        local_step += 1;
        say!("{:.6}: Worker {}: training step {local_step} done (global step: {step})", now(), task.index);
    }
    let time_end = now();
    say!("Training ends @ {time_end:.6}");
    say!("Training elapsed time: {:.6} s", time_end - time_begin);

    validate(flags, &model, &mnist, &sess)?;
    if let (Some(_), Some(saver), Some(path)) = (&flags.log_dir, sv.saver(), sv.save_path()) {
        saver.save(&sess, path, Some(i64::from(step)))?;
    }
    if let (true, Some(opt)) = (is_chief, &model.sync) {
        sess.run(opt.close_tokens_op()?)?;
    }
    sv.stop()?;
    sess.close()
}

fn validate(flags: &Flags, model: &Model, mnist: &DataSets, sess: &Session) -> Result<()> {
    let steps = flags.train_steps;
    let val_feed =
        sess.feed(&model.x, mnist.validation.images()?).feed(&model.y_, mnist.validation.labels()?);
    let val_xent = val_feed.run(&model.cross_entropy)?.to_scalar::<f32>()?;
    say!("After {steps} training step(s), validation cross entropy = {val_xent}");
    let test_feed = sess.feed(&model.x, mnist.test.images()?).feed(&model.y_, mnist.test.labels()?);
    let accuracy = test_feed.run(&model.accuracy)?.to_scalar::<f32>()?;
    say!("After {steps} training step(s), test accuracy = {accuracy}");
    Ok(())
}

struct Model {
    x: Output,
    y_: Output,
    global_step: Variable,
    cross_entropy: Output,
    accuracy: Output,
    train_step: Operation,
    /// The global step after the train step. All workers of a synchronous training see its end in the same round.
    step_after: Output,
    sync: Option<SyncReplicasOptimizer>,
}

fn build(flags: &Flags, cluster: &ClusterSpec, task: &TaskId, g: &Graph) -> Result<Model> {
    let num_workers = cluster.num_tasks("worker")?;
    let worker_device = match flags.num_gpus as usize {
        0 => format!("{task}/cpu:0"),
        gpus if gpus < num_workers => {
            return Err(Status::invalid_argument("number of gpus is less than number of workers"));
        }
        // Workers of one machine must not use the same GPU.
        _ => format!("{task}/gpu:{}", task.index % flags.num_gpus),
    };
    // Puts variables on the parameter servers in turn, and all else on the worker.
    let setter =
        replica_device_setter().worker_device(&worker_device).ps_device("/job:ps/cpu:0").cluster(cluster);
    g.device(setter, || {
        let global_step = g.new_variable("global_step").untrainable().init(0);
        let (pixels, hidden) = (IMAGE_PIXELS * IMAGE_PIXELS, flags.hidden_units);
        // Variables of the hidden layer.
        let stddev = 1.0 / IMAGE_PIXELS as f32;
        let hid_w = g.variable("hid_w", g.truncated_normal([pixels, hidden], 0.0, stddev)?);
        let hid_b = g.variable("hid_b", g.zeros(DType::Float, [hidden])?);
        // Variables of the softmax layer.
        let stddev = 1.0 / (hidden as f32).sqrt();
        let sm_w = g.variable("sm_w", g.truncated_normal([hidden, 10], 0.0, stddev)?);
        let sm_b = g.variable("sm_b", g.zeros(DType::Float, [10])?);
        // What the worker computes.
        let x = g.placeholder(DType::Float, [-1, i64::from(pixels)]);
        let y_ = g.placeholder(DType::Float, [-1, 10]);
        let hid = x.xw_plus_b(&hid_w, &hid_b)?.relu()?;
        let y = hid.xw_plus_b(&sm_w, &sm_b)?.softmax()?;
        let cross_entropy = (&y_ * y.clip_by_value(1e-10, 1.0)?.log()?).reduce_sum(..)?.neg()?;
        let accuracy = y.argmax(1)?.equal(y_.argmax(1)?)?.cast(DType::Float)?.reduce_mean(..)?;

        let replicas_to_aggregate = flags.replicas_to_aggregate.map_or(num_workers, |count| count as usize);
        let sync = flags.sync_replicas.then(|| {
            let sync = SyncReplicasOptimizer::new(Adam::new(flags.learning_rate), replicas_to_aggregate)
                .total_num_replicas(num_workers)
                .name("mnist_sync_replicas");
            match flags.min_replicas {
                Some(count) => sync.min_replicas(count as usize, Duration::from_secs(10)),
                None => sync,
            }
        });
        let options = MinimizeOptions { global_step: Some(global_step.clone()), ..Default::default() };
        let train_step = match &sync {
            Some(opt) => opt.minimize_with(&cross_entropy, &options)?,
            None => Adam::new(flags.learning_rate).minimize_with(&cross_entropy, &options)?,
        };
        let counter = match &sync {
            // A copy of the global step on this worker, which the train step brings up to date.
            Some(opt) => opt.local_step()?,
            None => global_step.clone(),
        };
        let step_after = g.control_dependencies([&train_step], || counter.read_value())?;
        Ok(Model { x, y_, global_step, cross_entropy, accuracy, train_step, step_after, sync })
    })
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
