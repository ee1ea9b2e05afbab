//! Finds out which words are alike: skip-grams with noise-contrastive estimation (NCE), on four novels by Jane Austen or on a text of
//! your own (`--data`). The two embedding tables, of words and of contexts, are partitioned over the parameter servers.
//!
//! It ends with the nearest words of some, and with a number: there are [groups](GROUPS) of words that everybody would sort the same
//! way (a brother is like a sister, an evening like a morning); of the three words of all groups that are nearest to a word, how
//! many are of its own group? Asynchronous between-graph replication; started without flags it is a cluster of two parameter servers and a
//! worker in one process.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use tensorfleet::data::Dataset;
use tensorfleet::train::{Adagrad, MinimizeOptions, MonitoredTrainingSession, Optimizer, StopAtStepHook};
use tensorfleet::{
    CandidateSampler, DType, Graph, Initializer, Operation, Output, PartitionStrategy, Partitioner, Result,
    SampledLoss, Status, Tensor, replica_device_setter,
};
use tensorfleet_datasets::text;
use tensorfleet_examples::{ClusterFlags, Pace, Place, Random, learning_rate, say};

/// Batches that are prefetched.
const AHEAD: usize = 4;
/// Context window: how far the context of a word reaches.
const WINDOW: usize = 3;
/// How many near words count, and how many are shown.
const NEAREST: usize = 3;
const SHOWN: usize = 6;
/// A word must occur so often to be learnt, and so often to be shown as near another.
const MIN_COUNT: u32 = 5;
const MIN_SHOWN_COUNT: f32 = 40.0;
/// Subsampling: of a word that is a larger part of the text than this, only some occurrences count, as little can be learnt
/// from them.
const FREQUENT: f32 = 1e-3;

/// Words that stand in the same places, by which the embeddings are evaluated.
const GROUPS: [&[&str]; 8] = [
    &[
        "father", "mother", "brother", "sister", "son", "daughter", "aunt", "uncle", "cousin", "husband",
        "wife",
    ],
    &["morning", "evening", "night", "day", "week", "month", "year", "hour"],
    &["two", "three", "four", "five", "six", "seven", "ten", "twenty"],
    &["said", "cried", "replied", "answered", "exclaimed", "added", "continued"],
    &["mr", "mrs", "miss", "lady", "sir", "colonel", "captain"],
    &["can", "could", "may", "might", "must", "shall", "should", "will", "would"],
    &["eyes", "hand", "face", "head", "heart", "lips"],
    &["him", "her", "me", "them", "us", "you"],
];

/// Finds words that are alike.
#[derive(Parser)]
#[command(rename_all = "snake_case")]
struct Flags {
    #[command(flatten)]
    cluster: ClusterFlags,

    /// A file with text to learn from, plain or gzip; without it, novels that come with the program.
    #[arg(long)]
    data: Option<PathBuf>,

    /// Words whose nearest words are shown, separated by commas.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "sister,evening,three,replied,mrs,would,eyes,him,walk,happy"
    )]
    show: Vec<String>,

    /// Total number of (global) training steps of all workers.
    #[arg(long, default_value_t = 20000, value_parser = clap::value_parser!(i64).range(0..))]
    train_steps: i64,

    /// Pairs of a word and a word near it per step.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    batch_size: u32,

    /// Length of the embeddings.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    embedding_size: u32,

    /// How many negative samples are drawn per step.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(i64).range(1..=1024))]
    num_sampled: i64,

    /// Learning rate.
    #[arg(long, default_value_t = 0.5, value_parser = learning_rate)]
    learning_rate: f64,
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
    let text = match &flags.data {
        Some(path) => text::read(path)?,
        None => text::novels()?,
    };
    let words = words_of(&text);
    let vocabulary = Vocabulary::of(&words);
    let ids = vocabulary.ids(&words);
    if vocabulary.words.len() <= flags.num_sampled as usize || ids.len() <= 2 * WINDOW {
        return Err(Status::invalid_argument(format!(
            "the text is too short: {} words occur {MIN_COUNT} times or more, and {} are sampled per step (--num_sampled)",
            vocabulary.words.len(),
            flags.num_sampled
        )));
    }
    say!("{} words, {} of them different and not rare", words.len(), vocabulary.words.len());

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
        if steps % 2000 == 0 {
            say!("Worker {}: step {steps}, loss of the last 2000 = {:.4}", place.task.index, recent / 2000.0);
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
    /// The embeddings of all words, each of length 1.
    normalized: Output,
}

fn build(flags: &Flags, g: &Graph, place: &Place, vocabulary: &Vocabulary) -> Result<Model> {
    let (count, size) = (vocabulary.words.len(), flags.embedding_size as usize);
    let parts = || Ok::<_, tensorfleet::Status>(Partitioner::fixed_size(place.cluster.num_tasks("ps")?));
    let global_step = g.get_or_create_global_step()?;
    let words = g.placeholder(DType::Int64, [-1]);
    let contexts = g.placeholder(DType::Int64, [-1, 1]);
    // Small numbers at first: long vectors take long to turn.
    let table = |name: &str| {
        let table = g.get_variable(name).shape([count, size]).initializer(Initializer::glorot_uniform());
        table.partitioner(parts()?).build()
    };
    let (table, weights) = (table("embeddings")?, table("nce/weights")?);
    let biases = g.get_variable("nce/biases").shape([count]).initializer(Initializer::zeros());
    let biases = biases.partitioner(parts()?).build()?;

    let vectors = g.embedding_lookup(&table, &words, PartitionStrategy::Div)?;
    let losses = SampledLoss::new(&weights, &biases, count as i64)
        .num_sampled(flags.num_sampled)
        .sampler(CandidateSampler::unigram(vocabulary.counts.clone(), 0.75))
        .partition_strategy(PartitionStrategy::Div)
        .nce(&contexts, &vectors)?;
    let loss = losses.reduce_mean(..)?;
    let train_op =
        Adagrad::new(flags.learning_rate).minimize_with(&loss, &MinimizeOptions::counting(&global_step))?;
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
    let vectors = Vectors { table, size: flags.embedding_size as usize };
    let ids: HashMap<&str, usize> = vocabulary.words.iter().map(String::as_str).zip(0..).collect();
    let frequent: Vec<usize> =
        (0..vocabulary.words.len()).filter(|&id| vocabulary.counts[id] >= MIN_SHOWN_COUNT).collect();
    let mut unknown = Vec::new();
    for word in &flags.show {
        let Some(&id) = ids.get(word.as_str()) else {
            unknown.push(word.as_str());
            continue;
        };
        let near = vectors.nearest(id, &frequent, SHOWN);
        let near: Vec<&str> = near.iter().map(|&id| vocabulary.words[id].as_str()).collect();
        say!("Nearest to {word}: {}", near.join(", "));
    }
    if !unknown.is_empty() {
        say!("Not in the text, or fewer than {MIN_COUNT} times: {}", unknown.join(", "));
    }
    // The words of groups that occur, with the numbers of their groups.
    let grouped = GROUPS.iter().enumerate();
    let grouped = grouped.flat_map(|(group, words)| words.iter().map(move |word| (*word, group)));
    let groups: HashMap<usize, usize> =
        grouped.filter_map(|(word, group)| Some((*ids.get(word)?, group))).collect();
    let mut judged: Vec<usize> = groups.keys().copied().collect();
    judged.sort_unstable();
    if judged.len() <= NEAREST {
        say!("After {} training step(s); the text has no words by which to judge", flags.train_steps);
        return;
    }
    let hits = |&id: &usize| {
        vectors
            .nearest(id, &judged, NEAREST)
            .iter()
            .filter(|other| groups.get(other) == groups.get(&id))
            .count()
    };
    let part = judged.iter().map(hits).sum::<usize>() as f64 / (judged.len() * NEAREST) as f64;
    say!("After {} training step(s), nearest words of the same group = {part:.4}", flags.train_steps);
}

/// The vectors of words, each of length 1.
struct Vectors<'a> {
    table: &'a [f32],
    size: usize,
}

impl Vectors<'_> {
    fn of(&self, id: usize) -> &[f32] {
        &self.table[id * self.size..][..self.size]
    }

    /// Those of `others` whose directions are nearest to that of a word, the nearest first.
    fn nearest(&self, id: usize, others: &[usize], count: usize) -> Vec<usize> {
        let cosine = |other: usize| self.of(id).iter().zip(self.of(other)).map(|(a, b)| a * b).sum::<f32>();
        let mut near: Vec<(f32, usize)> =
            others.iter().filter(|&&other| other != id).map(|&other| (cosine(other), other)).collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        near.into_iter().take(count).map(|(_, other)| other).collect()
    }
}

/// The words of a text that are not rare, numbered from the most frequent one on.
struct Vocabulary {
    words: Vec<String>,
    counts: Vec<f32>,
}

impl Vocabulary {
    fn of(text: &[String]) -> Vocabulary {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for word in text {
            *counts.entry(word).or_default() += 1;
        }
        let mut counts: Vec<(&str, u32)> =
            counts.into_iter().filter(|&(_, count)| count >= MIN_COUNT).collect();
        counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        Vocabulary {
            words: counts.iter().map(|(word, _)| word.to_string()).collect(),
            counts: counts.iter().map(|&(_, count)| count as f32).collect(),
        }
    }

    /// The words that a text is learnt from: without the rare ones, and with a part of the most frequent ones only.
    fn ids(&self, text: &[String]) -> Vec<i64> {
        let ids: HashMap<&str, usize> = self.words.iter().map(String::as_str).zip(0..).collect();
        let mut random = Random::new(1);
        let learnt = text.iter().filter_map(|word| ids.get(word.as_str()).copied()).filter(|&id| {
            let part = self.counts[id] / text.len() as f32;
            random.uniform() < (FREQUENT / part).sqrt()
        });
        learnt.map(|id| id as i64).collect()
    }
}

/// The words of a text, in lower case and without punctuation.
fn words_of(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}
