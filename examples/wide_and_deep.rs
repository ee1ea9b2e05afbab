//! Predicts clicks: a wide part (a weight for each value of each category) and a deep part (embeddings, with the products of all
//! pairs as in a factorisation machine and two hidden layers), in the manner of programs for the Criteo data. The tables are
//! partitioned over the parameter servers; a worker looks up the rows of its batch and sends back sparse gradients.
//!
//! The data is synthetic, from a hidden model of a known form, so what is possible is known: at the end the AUC (area under the ROC
//! curve) on examples that were not trained on stands beside that of the hidden model itself. Asynchronous between-graph
//! replication; started without flags it is a cluster of two parameter servers and a worker in one process.

use std::time::Duration;

use clap::Parser;
use tensorfleet::data::Dataset;
use tensorfleet::train::{
    Adagrad, Ftrl, MinimizeOptions, MonitoredTrainingSession, Optimizer, StopAtStepHook,
};
use tensorfleet::{
    DType, Graph, Initializer, Metric, Operation, Output, PartitionStrategy, Partitioner, Result, Streaming,
    Tensor, Variable, replica_device_setter,
};
use tensorfleet_examples::{ClusterFlags, Pace, Place, Random, say};

/// Categories of an example, such as a site or a kind of device.
const FIELDS: usize = 8;
/// Numbers of an example, such as an age.
const NUMBERS: usize = 4;
/// Length of the vectors that the hidden model gives to each value of a category.
const HIDDEN: usize = 4;
/// Batches that are prefetched.
const AHEAD: usize = 4;
/// Examples at the end.
const TEST_BATCHES: u64 = 40;
const TEST_BATCH: usize = 1000;
/// Six times the longest table of `benches/`; with vectors of 8 and the optimizers' slots, 7 GB.
const MAX_ROWS: i64 = 100_000_000;
/// They all stand in memory, 18 KB each with 200 examples.
const MAX_REPEATED_BATCHES: i64 = 10_000;

/// Predicts clicks on synthetic data with embeddings partitioned over parameter servers.
#[derive(Parser)]
#[command(rename_all = "snake_case")]
struct Flags {
    #[command(flatten)]
    cluster: ClusterFlags,

    /// Total number of (global) training steps of all workers.
    #[arg(long, default_value_t = 6000, value_parser = clap::value_parser!(i64).range(0..))]
    train_steps: i64,

    /// Examples per step.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    batch_size: u32,

    /// Length of the embedding of each value of a category.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    embedding_size: u32,

    /// Rows of the tables, which the categories share. Small numbers come often in each category, as words and customers do.
    #[arg(long, default_value_t = 2400, value_parser = clap::value_parser!(u32).range(FIELDS as i64..=MAX_ROWS))]
    rows: u32,

    /// Makes so many batches at the start and takes them in turn, to measure the training alone.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=MAX_REPEATED_BATCHES))]
    repeat_batches: Option<u32>,

    /// After how many of its own steps a worker says how far it is.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    report_steps: u32,
}

fn main() -> Result<()> {
    let flags: Flags = tensorfleet::flags::parse();
    let place = flags.cluster.place(2, 1)?;
    match place.task.job.as_str() {
        "worker" => train(&flags, &place),
        _ => place.serve(),
    }
}

fn train(flags: &Flags, place: &Place) -> Result<()> {
    let task = &place.task;
    let g = Graph::new();
    g.set_random_seed(1);
    let setter = replica_device_setter().worker_device(&task.to_string()).cluster(&place.cluster);
    let model = g.device(setter, || build(flags, &g, place))?;
    // The sums of the metric belong to this worker.
    let (auc, possible) = g.device(task.to_string().as_str(), || -> Result<(Streaming, Streaming)> {
        let auc = Metric::new().auc(&model.labels, &model.logits.sigmoid()?)?;
        Ok((auc, Metric::new().auc(&model.labels, &model.hidden_probability)?))
    })?;

    let hidden = HiddenModel::new(flags.rows as usize);
    let mut session = MonitoredTrainingSession::new(&g)
        .master(&place.target)
        .is_chief(place.is_chief())
        .hook(StopAtStepHook::last_step(flags.train_steps))
        .max_wait(Duration::from_secs(flags.cluster.wait_secs))
        .config(flags.cluster.session_options(task))
        .create()?;
    let mut batches = batches(flags, hidden.clone(), 100 + u64::from(task.index))?;
    let pace = Pace::begin();
    let (mut steps, mut recent) = (0, 0.0);
    let every = u64::from(flags.report_steps);
    while !session.should_stop() {
        let Some(batch) = batches.next().transpose()? else { break };
        let step = session.feed(&model.ids, batch.ids).feed(&model.numbers, batch.numbers);
        let step = step.feed(&model.labels, batch.labels);
        let ((), loss, global_step) = step.run((&model.train_op, &model.loss, &model.global_step))?;
        steps += 1;
        recent += loss.to_scalar::<f32>()?;
        if steps % every == 0 {
            say!(
                "Worker {}: step {steps} (global step {}), loss of the last {every} = {:.4}",
                task.index,
                global_step.to_scalar::<i64>()?,
                recent / every as f32
            );
            recent = 0.0;
        }
    }
    pace.report(steps, flags.batch_size as usize);
    if place.is_chief() {
        let mut random = Random::new(7);
        let raw = session.session()?.clone();
        for _ in 0..TEST_BATCHES {
            let batch = hidden.draw(&mut random, TEST_BATCH)?;
            let feed = raw.feed(&model.ids, batch.ids).feed(&model.numbers, batch.numbers);
            let feed = feed.feed(&model.labels, batch.labels);
            feed.feed(&model.hidden_probability, batch.probabilities).run((&auc.update, &possible.update))?;
        }
        let (auc, possible) = raw.run((&auc.value, &possible.value))?;
        let (auc, possible) = (auc.to_scalar::<f32>()?, possible.to_scalar::<f32>()?);
        say!(
            "After {} training step(s), test AUC = {auc:.4}; that of the hidden model = {possible:.4}",
            flags.train_steps
        );
    }
    session.close()
}

/// The batches of one worker, which sees examples of its own.
fn batches(
    flags: &Flags,
    hidden: HiddenModel,
    seed: u64,
) -> Result<Box<dyn Iterator<Item = Result<Examples>>>> {
    let (size, mut random) = (flags.batch_size as usize, Random::new(seed));
    let mut drawn = std::iter::repeat_with(move || hidden.draw(&mut random, size));
    Ok(match flags.repeat_batches {
        Some(count) => {
            let made = drawn.by_ref().take(count as usize).collect::<Result<Vec<Examples>>>()?;
            Box::new(Dataset::repeated(made, None))
        }
        None => Box::new(Dataset::of_results(drawn).prefetch(AHEAD)),
    })
}

struct Model {
    /// A row of the value of each category.
    ids: Output,
    numbers: Output,
    labels: Output,
    /// What the hidden model predicts, to evaluate it as well.
    hidden_probability: Output,
    logits: Output,
    loss: Output,
    train_op: Operation,
    global_step: Variable,
}

fn build(flags: &Flags, g: &Graph, place: &Place) -> Result<Model> {
    let global_step = g.get_or_create_global_step()?;
    let ids = g.placeholder(DType::Int64, [-1, FIELDS as i64]);
    let numbers = g.placeholder(DType::Float, [-1, NUMBERS as i64]);
    let labels = g.placeholder(DType::Float, [-1]);
    let hidden_probability = g.placeholder(DType::Float, [-1]);

    // All categories share a table, a part of it on each parameter server; each has rows of its own in it.
    let size = flags.embedding_size as usize;
    let parts = place.cluster.num_tasks("ps")?;
    let table = |name: &str, size: usize, initializer: Initializer| {
        let table = g.get_variable(name).shape([flags.rows as usize, size]).initializer(initializer);
        table.partitioner(Partitioner::fixed_size(parts)).build()
    };
    let embeddings = table("deep/embeddings", size, Initializer::truncated_normal(0.0, 0.1))?;
    let wide_weights = table("wide/weights", 1, Initializer::zeros())?;

    let looked_up = g.embedding_lookup(&embeddings, &ids, PartitionStrategy::Div)?;
    let flat = looked_up.reshape([-1, (FIELDS * size) as i32])?;
    let deep = g.concat([&flat, &numbers], 1)?;
    let deep = g.variable_scope("deep", || {
        let deep = g.dense(64).activation(Output::relu).build(&deep)?;
        let deep = g.dense(32).activation(Output::relu).build(&deep)?;
        g.dense(1).build(&deep)
    })?;
    // The products of all pairs of vectors, as a factorisation machine has them: half of (sum² - sum of squares).
    let sum = looked_up.reduce_sum([1])?.square()?;
    let pairs = (0.5 * (sum - looked_up.square()?.reduce_sum([1])?)).check()?.reduce_sum_keep_dims([1])?;
    let wide = g.embedding_lookup(&wide_weights, &ids, PartitionStrategy::Div)?.reduce_sum([1])?;
    let wide = wide.add(g.dense(1).name("wide/numbers").build(&numbers)?)?;
    let logits = (deep + pairs + wide).check()?.squeeze(&[1])?;
    let loss = logits.sigmoid_cross_entropy(&labels)?.reduce_mean(..)?;

    // Each part has the optimizer that suits it.
    let (wide, deep): (Vec<_>, Vec<_>) =
        g.trainable_variables().into_iter().partition(|variable| variable.name().starts_with("wide/"));
    let counting = MinimizeOptions { var_list: Some(deep), ..MinimizeOptions::counting(&global_step) };
    let deep_op = Adagrad::new(0.1).minimize_with(&loss, &counting)?;
    let wide_only = MinimizeOptions { var_list: Some(wide), ..MinimizeOptions::default() };
    let wide_op = Ftrl::new(0.3).minimize_with(&loss, &wide_only)?;
    let train_op = g.group([&deep_op, &wide_op])?;
    Ok(Model { ids, numbers, labels, hidden_probability, logits, loss, train_op, global_step })
}

/// How clicks come about: each value of each category has a weight and a vector, any two categories act on each other by the
/// dot product of their vectors, and numbers have weights; the sum is the logit of the probability.
#[derive(Clone)]
struct HiddenModel {
    /// How many values each category has.
    values: usize,
    number_weights: [f32; NUMBERS],
}

#[derive(Clone)]
struct Examples {
    ids: Tensor,
    numbers: Tensor,
    labels: Tensor,
    probabilities: Tensor,
}

impl HiddenModel {
    fn new(rows: usize) -> HiddenModel {
        let mut random = Random::new(1);
        HiddenModel { values: rows / FIELDS, number_weights: [(); NUMBERS].map(|()| 0.4 * random.normal()) }
    }

    /// The weight and the vector of a value: drawn anew each time, from its own number, so that there may be many.
    fn value(id: usize) -> (f32, [f32; HIDDEN]) {
        let mut random = Random::new(!(id as u64) << 20);
        (0.5 * random.normal(), [(); HIDDEN].map(|()| 0.25 * random.normal()))
    }

    fn draw(&self, random: &mut Random, count: usize) -> Result<Examples> {
        let mut ids = Vec::with_capacity(count * FIELDS);
        let mut numbers = Vec::with_capacity(count * NUMBERS);
        let (mut labels, mut probabilities) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for _ in 0..count {
            // The cube makes small values frequent.
            let value = |field: usize, random: &mut Random| {
                let value = (f64::from(random.uniform()).powi(3) * self.values as f64) as usize;
                field * self.values + value.min(self.values - 1)
            };
            let example: [usize; FIELDS] = std::array::from_fn(|field| value(field, random));
            let own: [f32; NUMBERS] = [(); NUMBERS].map(|()| random.normal());
            let probability = self.probability(&example, &own);
            ids.extend(example.map(|id| id as i64));
            numbers.extend(own);
            labels.push(f32::from(u8::from(random.uniform() < probability)));
            probabilities.push(probability);
        }
        Ok(Examples {
            ids: Tensor::from_slice(&ids, &[count, FIELDS])?,
            numbers: Tensor::from_slice(&numbers, &[count, NUMBERS])?,
            labels: Tensor::vector(&labels)?,
            probabilities: Tensor::vector(&probabilities)?,
        })
    }

    fn probability(&self, ids: &[usize; FIELDS], numbers: &[f32; NUMBERS]) -> f32 {
        let values = ids.map(HiddenModel::value);
        let weights: f32 = values.iter().map(|(weight, _)| weight).sum();
        let product =
            |a: &[f32; HIDDEN], b: &[f32; HIDDEN]| -> f32 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        let with_later = |(at, (_, vector)): (usize, &(f32, [f32; HIDDEN]))| -> f32 {
            values[at + 1..].iter().map(|(_, other)| product(vector, other)).sum()
        };
        let pairs: f32 = values.iter().enumerate().map(with_later).sum();
        let own: f32 = numbers.iter().zip(&self.number_weights).map(|(number, weight)| number * weight).sum();
        1.0 / (1.0 + (-(weights + pairs + own)).exp())
    }
}
