//! Learns to write, character by character: an LSTM, trained on the text that the grammar
//! of `text.rs` makes. It ends with the perplexity per character on sentences that were not trained on, beside that of the grammar
//! itself, which none can beat, and with a sample of what it writes.
//!
//! The network is a `while_loop`, so one graph serves to train on many characters at a time and to write one after another.
//! Asynchronous between-graph replication; started without flags it is a cluster of a parameter server and a worker in one process.

use std::time::Duration;

use clap::Parser;
use tensorfleet::data::Dataset;
use tensorfleet::train::{Adam, MinimizeOptions, MonitoredTrainingSession, Optimizer, StopAtStepHook};
use tensorfleet::{
    DType, Graph, LstmCell, Operation, Output, Result, Session, Status, Tensor, replica_device_setter,
};
use tensorfleet_examples::{ClusterFlags, Pace, Place, Random, learning_rate, say, text};

/// Sentences to train on and to evaluate with.
const TRAIN_SENTENCES: usize = 4000;
const TEST_SENTENCES: usize = 400;
/// Batches that are prefetched.
const AHEAD: usize = 4;

/// Learns to write like a small grammar, character by character.
#[derive(Parser)]
#[command(rename_all = "snake_case")]
struct Flags {
    #[command(flatten)]
    cluster: ClusterFlags,

    /// Total number of (global) training steps of all workers.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(i64).range(0..))]
    train_steps: i64,

    /// Batch size: how many places of the text are read at the same time.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    batch_size: u32,

    /// Sequence length: how many characters of each place a step reads.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=1024))]
    num_steps: u32,

    /// Units of the network.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=4096))]
    hidden_units: u32,

    /// Learning rate.
    #[arg(long, default_value_t = 0.005, value_parser = learning_rate)]
    learning_rate: f64,

    /// How many characters to write at the end.
    #[arg(long, default_value_t = 300)]
    sample_length: u32,
}

fn main() -> Result<()> {
    let flags: Flags = tensorfleet::flags::parse();
    let place = flags.cluster.place(1, 1)?;
    match place.task.job.as_str() {
        "worker" => train(&flags, &place),
        _ => place.serve(),
    }
}

fn train(flags: &Flags, place: &Place) -> Result<()> {
    // All workers agree on the alphabet, and each reads a text of its own.
    let own_text = text::write(TRAIN_SENTENCES, 10 + u64::from(place.task.index));
    let test_text = text::write(TEST_SENTENCES, 1);
    let alphabet = Alphabet::of(&test_text.text);
    let mut batches = Batches::new(alphabet.ids(&own_text.text)?, flags)?;

    let g = Graph::new();
    g.set_random_seed(1);
    let setter = replica_device_setter().worker_device(&place.task.to_string()).cluster(&place.cluster);
    let model = g.device(setter, || build(flags, &g, alphabet.characters.len()))?;
    let mut session = MonitoredTrainingSession::new(&g)
        .master(&place.target)
        .is_chief(place.is_chief())
        .hook(StopAtStepHook::last_step(flags.train_steps))
        .max_wait(Duration::from_secs(flags.cluster.wait_secs))
        .config(flags.cluster.session_options(&place.task))
        .create()?;
    let mut batches = Dataset::of_results(std::iter::repeat_with(move || batches.next())).prefetch(AHEAD);
    let mut state = zeros(flags.batch_size as usize, flags)?;
    let (mut steps, mut recent) = (0, 0.0);
    let pace = Pace::begin();
    while !session.should_stop() {
        let Some((inputs, targets)) = batches.next().transpose()? else { break };
        let step = session.feed(&model.inputs, inputs).feed(&model.targets, targets);
        let step = step.feed(&model.state[0], state[0].clone()).feed(&model.state[1], state[1].clone());
        let fetches = (&model.train_op, &model.loss, [&model.next_state[0], &model.next_state[1]]);
        let ((), loss, next) = step.run(fetches)?;
        // The next characters follow on these, and so does the state.
        state = next;
        steps += 1;
        recent += loss.to_scalar::<f32>()?;
        if steps % 100 == 0 {
            let perplexity = (recent / 100.0).exp();
            say!("Worker {}: step {steps}, perplexity of the last 100 = {perplexity:.3}", place.task.index);
            recent = 0.0;
        }
    }
    pace.report(steps, (flags.batch_size * flags.num_steps) as usize);
    if place.is_chief() {
        let raw = session.session()?.clone();
        let characters = test_text.text.len() as f64;
        let found = perplexity(&raw, &model, flags, &alphabet.ids(&test_text.text)?)?;
        let possible = (test_text.surprise / characters).exp();
        say!(
            "After {} training step(s), test perplexity = {found:.4}; that of the grammar = {possible:.4}",
            flags.train_steps
        );
        say!("{}", sample(&raw, &model, flags, &alphabet)?);
    }
    session.close()
}

struct Model {
    /// Characters, batch × time.
    inputs: Output,
    /// The characters that follow them.
    targets: Output,
    /// The LSTM's state after the characters before.
    state: [Output; 2],
    next_state: [Output; 2],
    logits: Output,
    loss: Output,
    train_op: Operation,
}

fn build(flags: &Flags, g: &Graph, characters: usize) -> Result<Model> {
    let units = flags.hidden_units as usize;
    let global_step = g.get_or_create_global_step()?;
    let [inputs, targets] = [(); 2].map(|()| g.placeholder(DType::Int32, [-1, -1]));
    let state = [(); 2].map(|()| g.placeholder(DType::Float, [-1, i64::from(flags.hidden_units)]));
    let cell = LstmCell::new(units);
    let rnn = g.dynamic_rnn(&cell).initial_state(state.to_vec());
    let (outputs, next_state) = rnn.build(&inputs.one_hot(characters as i32)?)?;
    let next_state = <[Output; 2]>::try_from(next_state)
        .map_err(|state| Status::internal(format!("an LSTM has two states, not {}", state.len())))?;
    let logits = g.dense(characters).name("logits").build(&outputs.reshape([-1, units as i32])?)?;
    let losses = logits.sparse_softmax_cross_entropy(targets.reshape([-1])?)?;
    let loss = losses.reduce_mean(..)?;
    let optimizer = Adam::new(flags.learning_rate);
    let train_op = optimizer.minimize_with(&loss, &MinimizeOptions::counting(&global_step))?;
    Ok(Model { inputs, targets, state, next_state, logits, loss, train_op })
}

/// The zero state.
fn zeros(batch: usize, flags: &Flags) -> Result<[Tensor; 2]> {
    let zeros = || {
        let units = flags.hidden_units as usize;
        Tensor::from_slice(&vec![0.0f32; batch * units], &[batch, units])
    };
    Ok([zeros()?, zeros()?])
}

/// Reads the text from its begin to its end.
fn perplexity(session: &Session, model: &Model, flags: &Flags, ids: &[i32]) -> Result<f64> {
    const PIECE: usize = 500;
    let (mut sum, mut count) = (0.0, 0);
    let mut state = zeros(1, flags)?;
    let mut start = 0;
    while start + 1 < ids.len() {
        let length = PIECE.min(ids.len() - 1 - start);
        let row = |from: usize| Tensor::from_slice(&ids[from..from + length], &[1, length]);
        let step = session.feed(&model.inputs, row(start)?).feed(&model.targets, row(start + 1)?);
        let step = step.feed(&model.state[0], state[0].clone()).feed(&model.state[1], state[1].clone());
        let (loss, next) = step.run((&model.loss, [&model.next_state[0], &model.next_state[1]]))?;
        state = next;
        sum += f64::from(loss.to_scalar::<f32>()?) * length as f64;
        count += length;
        start += length;
    }
    Ok((sum / count.max(1) as f64).exp())
}

/// What the network writes: each character is sampled with the probability it was given.
fn sample(session: &Session, model: &Model, flags: &Flags, alphabet: &Alphabet) -> Result<String> {
    let mut random = Random::new(5);
    let mut state = zeros(1, flags)?;
    let mut written = String::new();
    let mut last = *alphabet.ids(" ")?.first().unwrap_or(&0);
    let run = session.prepare(
        &[&model.inputs, &model.state[0], &model.state[1]],
        (&model.logits, [&model.next_state[0], &model.next_state[1]]),
    )?;
    for _ in 0..flags.sample_length {
        let [memory, output] = state;
        let (logits, next) = run.run([Tensor::from_slice(&[last], &[1, 1])?, memory, output])?;
        state = next;
        let logits = logits.as_slice::<f32>()?;
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights: Vec<f32> = logits.iter().map(|logit| (logit - largest).exp()).collect();
        let mut left = random.uniform() * weights.iter().sum::<f32>();
        let drawn = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        last = drawn.unwrap_or(0) as i32;
        written.extend(alphabet.characters.get(drawn.unwrap_or(0)));
    }
    Ok(written)
}

/// The characters of a text, numbered.
struct Alphabet {
    characters: Vec<char>,
}

impl Alphabet {
    fn of(text: &str) -> Alphabet {
        let mut characters: Vec<char> = text.chars().collect();
        characters.sort_unstable();
        characters.dedup();
        Alphabet { characters }
    }

    fn ids(&self, text: &str) -> Result<Vec<i32>> {
        let id = |character: char| match self.characters.binary_search(&character) {
            Ok(at) => Ok(at as i32),
            Err(_) => Err(Status::invalid_argument(format!("'{character}' is not in the alphabet"))),
        };
        text.chars().map(id).collect()
    }
}

/// Pieces of a text: each row of a batch continues where the row of the batch before ended.
struct Batches {
    ids: Vec<i32>,
    rows: usize,
    columns: usize,
    /// How far the rows are apart.
    stretch: usize,
    at: usize,
}

impl Batches {
    fn new(ids: Vec<i32>, flags: &Flags) -> Result<Batches> {
        let (rows, columns) = (flags.batch_size as usize, flags.num_steps as usize);
        let stretch = ids.len().saturating_sub(1) / rows;
        match stretch > columns {
            true => Ok(Batches { ids, rows, columns, stretch, at: 0 }),
            false => Err(Status::invalid_argument(format!(
                "{rows} places of {columns} characters do not fit into a text of {} characters",
                ids.len()
            ))),
        }
    }

    fn next(&mut self) -> Result<(Tensor, Tensor)> {
        if self.at + self.columns > self.stretch {
            self.at = 0;
        }
        let piece = |offset: usize| {
            let starts = (0..self.rows).map(|row| row * self.stretch + self.at + offset);
            let ids: Vec<i32> =
                starts.flat_map(|start| self.ids[start..start + self.columns].to_vec()).collect();
            Tensor::from_slice(&ids, &[self.rows, self.columns])
        };
        let batch = (piece(0)?, piece(1)?);
        self.at += self.columns;
        Ok(batch)
    }
}
