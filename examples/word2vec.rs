//! Finds out which words are alike: skip-grams with noise-contrastive estimation, on the text that the grammar of `text.rs` makes.
//! The two tables, of words and of contexts, are divided over the parameter servers.
//!
//! It ends with the nearest words of some, and with a number: how many of the three nearest words of each word are of its group in
//! the grammar. Asynchronous between-graph replication; started without flags it is a cluster of two parameter servers and a worker in
//! one process.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Parser;
use tensorfleet::data::Dataset;
use tensorfleet::train::{Adagrad, MinimizeOptions, MonitoredTrainingSession, Optimizer, StopAtStepHook};
use tensorfleet::{
    CandidateSampler, DType, Graph, Initializer, Operation, Output, PartitionStrategy, Partitioner, Result,
    SampledLoss, Tensor, replica_device_setter,
};
use tensorfleet_examples::{ClusterFlags, Pace, Place, Random, say, text};

const SENTENCES: usize = 20_000;
/// Batches that are made ahead of the steps that need them.
const AHEAD: usize = 4;
/// How far the context of a word reaches.
const WINDOW: usize = 2;
/// How many near words are shown.
const NEAREST: usize = 3;

/// Finds words that are alike.
#[derive(Parser)]
#[command(rename_all = "snake_case")]
struct Flags {
    #[command(flatten)]
    cluster: ClusterFlags,

    /// Total number of (global) training steps of all workers.
    #[arg(long, default_value_t = 4000)]
    train_steps: i64,

    /// Pairs of a word and a word near it per step.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    batch_size: u32,

    /// Length of the vectors of words.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    embedding_size: u32,

    /// How many words that are not near are drawn per step.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(i64).range(1..=64))]
    num_sampled: i64,
}

fn main() -> Result<()> {
    let flags = Flags::parse();
    let place = flags.cluster.place(2, 1)?;
    match place.task.job.as_str() {
        "worker" => train(&flags, &place),
        _ => place.serve(),
    }
}

fn train(flags: &Flags, place: &Place) -> Result<()> {
    let text = text::write(SENTENCES, 1);
    let vocabulary = Vocabulary::of(&text.text);
    let ids = vocabulary.ids(&text.text);
    say!("{} words, {} of them different", ids.len(), vocabulary.words.len());

    let g = Graph::new();
    g.set_random_seed(1);
    let setter = replica_device_setter().worker_device(&place.task.to_string()).cluster(&place.cluster);
    let model = g.device(setter, || build(flags, &g, place, &vocabulary))?;
    let mut session = MonitoredTrainingSession::new(&g)
        .master(&place.target)
        .is_chief(place.is_chief())
        .hook(StopAtStepHook::last_step(flags.train_steps))
        .max_wait(Duration::from_secs(flags.cluster.wait_secs))
        .config(flags.cluster.session_options(&place.task))
        .create()?;
    let (mut random, size) = (Random::new(10 + u64::from(place.task.index)), flags.batch_size as usize);
    let mut batches =
        Dataset::of_results(std::iter::repeat_with(move || pairs(&ids, &mut random, size))).prefetch(AHEAD);
    let pace = Pace::begin();
    let (mut steps, mut recent) = (0, 0.0);
    while !session.should_stop() {
        let Some((words, contexts)) = batches.next().transpose()? else { break };
        let step = session.feed(&model.words, words).feed(&model.contexts, contexts);
        let ((), loss) = step.run((&model.train_op, &model.loss))?;
        steps += 1;
        recent += loss.to_scalar::<f32>()?;
        if steps % 500 == 0 {
            say!("Worker {}: step {steps}, loss of the last 500 = {:.4}", place.task.index, recent / 500.0);
            recent = 0.0;
        }
    }
    pace.report(steps, flags.batch_size as usize);
    if place.is_chief() {
        let table = session.session()?.run(&model.normalized)?;
        judge(flags, &vocabulary, table.as_slice::<f32>()?);
    }
    session.close()
}

struct Model {
    words: Output,
    /// A column of the words near them.
    contexts: Output,
    loss: Output,
    train_op: Operation,
    /// The vectors of all words, each of length 1.
    normalized: Output,
}

fn build(flags: &Flags, g: &Graph, place: &Place, vocabulary: &Vocabulary) -> Result<Model> {
    let (count, size) = (vocabulary.words.len(), flags.embedding_size as usize);
    let parts = || Ok::<_, tensorfleet::Status>(Partitioner::fixed_size(place.cluster.num_tasks("ps")?));
    let global_step = g.get_or_create_global_step()?;
    let words = g.placeholder(DType::Int64, [-1]);
    let contexts = g.placeholder(DType::Int64, [-1, 1]);
    let table = g.get_variable("embeddings").shape([count, size]);
    let table = table.initializer(Initializer::random_uniform(-1.0, 1.0)).partitioner(parts()?).build()?;
    let spread = 1.0 / (size as f64).sqrt();
    let weights = g.get_variable("nce/weights").shape([count, size]);
    let weights =
        weights.initializer(Initializer::truncated_normal(0.0, spread)).partitioner(parts()?).build()?;
    let biases = g.get_variable("nce/biases").shape([count]).initializer(Initializer::zeros());
    let biases = biases.partitioner(parts()?).build()?;

    let vectors = g.embedding_lookup(&table, &words, PartitionStrategy::Div)?;
    let losses = SampledLoss::new(&weights, &biases, count as i64)
        .num_sampled(flags.num_sampled)
        .sampler(CandidateSampler::unigram(vocabulary.counts.clone(), 0.75))
        .partition_strategy(PartitionStrategy::Div)
        .nce(&contexts, &vectors)?;
    let loss = losses.reduce_mean(..)?;
    let train_op = Adagrad::new(0.5).minimize_with(&loss, &MinimizeOptions::counting(&global_step))?;
    let normalized = table.value()?.l2_normalize([1])?;
    Ok(Model { words, contexts, loss, train_op, normalized })
}

/// Words at random places, and for each a word near it.
fn pairs(ids: &[i64], random: &mut Random, count: usize) -> Result<(Tensor, Tensor)> {
    let (mut words, mut contexts) = (Vec::with_capacity(count), Vec::with_capacity(count));
    while words.len() < count {
        let at = random.below(ids.len());
        let offset = random.below(2 * WINDOW + 1);
        let near =
            (at + offset).checked_sub(WINDOW).filter(|&near| near != at).and_then(|near| ids.get(near));
        if let (Some(&word), Some(&near)) = (ids.get(at), near) {
            words.push(word);
            contexts.push(near);
        }
    }
    Ok((Tensor::vector(&words)?, Tensor::from_slice(&contexts, &[count, 1])?))
}

fn judge(flags: &Flags, vocabulary: &Vocabulary, table: &[f32]) {
    let size = flags.embedding_size as usize;
    let (mut hits, mut of) = (0, 0);
    for (id, word) in vocabulary.words.iter().enumerate() {
        let Some(group) = text::group_of(word) else { continue };
        let own = &table[id * size..][..size];
        let mut near: Vec<(f32, &str)> = (0..vocabulary.words.len())
            .filter(|&other| other != id)
            .map(|other| {
                let cosine = own.iter().zip(&table[other * size..][..size]).map(|(a, b)| a * b).sum();
                (cosine, vocabulary.words[other].as_str())
            })
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        let near: Vec<&str> = near.into_iter().take(NEAREST).map(|(_, word)| word).collect();
        hits += near.iter().filter(|word| text::group_of(word) == Some(group)).count();
        of += near.len();
        if text::GROUPS.iter().any(|(_, words)| words.first() == Some(&word.as_str())) {
            say!("Nearest to {word}: {}", near.join(", "));
        }
    }
    let part = hits as f64 / f64::from(u32::try_from(of).unwrap_or(1).max(1));
    say!("After {} training step(s), nearest words of the same group = {part:.4}", flags.train_steps);
}

/// The words of a text, numbered from the most frequent one on.
struct Vocabulary {
    words: Vec<String>,
    counts: Vec<f32>,
}

impl Vocabulary {
    fn of(text: &str) -> Vocabulary {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for word in words_of(text) {
            *counts.entry(word).or_default() += 1;
        }
        let mut counts: Vec<(&str, u32)> = counts.into_iter().collect();
        counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        Vocabulary {
            words: counts.iter().map(|(word, _)| word.to_string()).collect(),
            counts: counts.iter().map(|&(_, count)| count as f32).collect(),
        }
    }

    fn ids(&self, text: &str) -> Vec<i64> {
        let ids: BTreeMap<&str, i64> = self.words.iter().map(String::as_str).zip(0..).collect();
        words_of(text).filter_map(|word| ids.get(word).copied()).collect()
    }
}

/// Words and full stops.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().flat_map(|word| match word.strip_suffix('.') {
        Some(word) => [Some(word), Some(".")].into_iter().flatten(),
        None => [Some(word), None].into_iter().flatten(),
    })
}
