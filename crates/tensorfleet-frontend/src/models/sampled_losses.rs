//! Sampled losses (sampled softmax, NCE): over very many classes, of which each step computes the true ones and a sample of
//! the others.

use tensorfleet_core::{DType, PartialShape, Result, Status};

use super::embedding::{EmbeddingParams, PartitionStrategy};
use crate::graph::{Graph, Output};

/// Where the classes that are not true come from; see [`SampledLoss`].
///
/// ```
/// # use tensorfleet::{CandidateSampler, Graph, Session};
/// let g = Graph::new();
/// let labels = g.constant([[3i64], [5]]);
/// let sampled = CandidateSampler::uniform(10).seed(1).sample(&labels, 4)?;
/// let ids = Session::new(&g).run(&sampled.ids)?;
/// assert!(ids.as_slice::<i64>()?.iter().all(|id| (0..10).contains(id)));
/// # let _ = &g;
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[derive(Clone, Debug)]
pub struct CandidateSampler {
    distribution: SampledBy,
    classes: i64,
    is_unique: bool,
    seed: Option<i64>,
}

#[derive(Clone, Debug)]
enum SampledBy {
    Uniform,
    LogUniform,
    Unigram { counts: Vec<f32>, distortion: f32 },
    LearnedUnigram,
}

/// Classes that were sampled, and how often each class was to be expected among them.
#[derive(Clone, Debug)]
pub struct Candidates {
    /// The classes, an int64 vector.
    pub ids: Output,
    /// How often each true class was to be expected, in the shape of the labels.
    pub true_expected: Output,
    /// How often each sampled class was to be expected.
    pub expected: Output,
}

impl CandidateSampler {
    /// All classes alike.
    pub fn uniform(classes: i64) -> CandidateSampler {
        CandidateSampler { distribution: SampledBy::Uniform, classes, is_unique: true, seed: None }
    }

    /// Small classes more often, by Zipf's law: for words numbered from the most frequent one on.
    pub fn log_uniform(classes: i64) -> CandidateSampler {
        CandidateSampler { distribution: SampledBy::LogUniform, ..CandidateSampler::uniform(classes) }
    }

    /// Classes in proportion to these counts to the power of `distortion`; 0.75 is usual for words.
    pub fn unigram(counts: Vec<f32>, distortion: f32) -> CandidateSampler {
        let classes = counts.len() as i64;
        let distribution = SampledBy::Unigram { counts, distortion };
        CandidateSampler { distribution, ..CandidateSampler::uniform(classes) }
    }

    /// Classes in proportion to how often each has been among the labels so far, counted from one: the sampler learns while
    /// it is used.
    ///
    /// ```
    /// # use tensorfleet::{CandidateSampler, Graph, Session};
    /// let g = Graph::new();
    /// let labels = g.constant([[2i64], [2]]);
    /// let sampled = CandidateSampler::learned_unigram(4).unique(false).seed(1).sample(&labels, 2)?;
    /// let session = Session::new(&g);
    /// let expected = |_| Ok(session.run(&sampled.true_expected)?.as_slice::<f32>()?[0]);
    /// let expected: Vec<f32> = (0..3).map(expected).collect::<Result<_, tensorfleet::Status>>()?;
    /// assert_eq!(expected, [0.5, 1.0, 1.25]);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn learned_unigram(classes: i64) -> CandidateSampler {
        CandidateSampler { distribution: SampledBy::LearnedUnigram, ..CandidateSampler::uniform(classes) }
    }

    /// Whether a class is sampled only once; it is if nothing is said.
    pub fn unique(mut self, is_unique: bool) -> CandidateSampler {
        self.is_unique = is_unique;
        self
    }

    /// Makes it draw the same classes in every program.
    pub fn seed(mut self, seed: i64) -> CandidateSampler {
        self.seed = Some(seed);
        self
    }

    /// Draws `count` classes, the same for all rows of `labels` (batch × number of true classes).
    pub fn sample(&self, labels: &Output, count: i64) -> Result<Candidates> {
        let graph = labels.graph();
        let op = match self.distribution {
            SampledBy::Uniform => "UniformCandidateSampler",
            SampledBy::LogUniform => "LogUniformCandidateSampler",
            SampledBy::Unigram { .. } => "FixedUnigramCandidateSampler",
            SampledBy::LearnedUnigram => "LearnedUnigramCandidateSampler",
        };
        let (seed, seed2) = graph.seeds_for(self.seed);
        let sampled = labels.cast(DType::Int64)?.op(op).attr("num_true", true_classes(labels)?);
        let sampled = sampled.attr("num_sampled", count).attr("unique", self.is_unique);
        let mut sampled = sampled.attr("range_max", self.classes).attr("seed", seed).attr("seed2", seed2);
        if let SampledBy::Unigram { counts, distortion } = &self.distribution {
            sampled = sampled.attr("unigrams", counts.clone()).attr("distortion", *distortion);
        }
        let sampled = sampled.build()?;
        Ok(Candidates {
            ids: sampled.output(0),
            true_expected: sampled.output(1),
            expected: sampled.output(2),
        })
    }
}

fn true_classes(labels: &Output) -> Result<i64> {
    let shape = labels.shape()?;
    let known = shape.dim(1).filter(|_| shape.rank() == Some(2));
    known.map(|count| count as i64).ok_or_else(|| {
        Status::invalid_argument(format!(
            "labels must be a matrix with a row of true classes for each example, whose number is known; got the shape {shape}"
        ))
    })
}

/// A loss over very many classes about to be built. The weights have a row and the biases a number for each class; both may be
/// divided over parameter servers, and only what the step needs is looked up.
///
/// ```
/// # use tensorfleet::{DType, Graph, Initializer, SampledLoss, Session};
/// let g = Graph::new();
/// let weights = g.get_variable("weights").shape([1000, 8]).build()?;
/// let biases = g.get_variable("biases").shape([1000]).initializer(Initializer::zeros()).build()?;
/// let (words, context) = (g.placeholder(DType::Float, [-1, 8]), g.placeholder(DType::Int64, [-1, 1]));
/// let losses = SampledLoss::new(&weights, &biases, 1000).num_sampled(64).nce(&context, &words)?;
/// assert_eq!(losses.shape()?.to_string(), "[?]");
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[must_use = "nothing is added to the graph before a loss is named"]
pub struct SampledLoss {
    weights: EmbeddingParams,
    biases: EmbeddingParams,
    num_sampled: i64,
    sampler: CandidateSampler,
    candidates: Option<Candidates>,
    removes_hits: Option<bool>,
    strategy: PartitionStrategy,
}

impl SampledLoss {
    /// A loss over so many classes, 64 of them sampled by [`CandidateSampler::log_uniform`] if nothing else is said.
    pub fn new(
        weights: impl Into<EmbeddingParams>,
        biases: impl Into<EmbeddingParams>,
        classes: i64,
    ) -> SampledLoss {
        SampledLoss {
            weights: weights.into(),
            biases: biases.into(),
            num_sampled: 64,
            sampler: CandidateSampler::log_uniform(classes),
            candidates: None,
            removes_hits: None,
            strategy: PartitionStrategy::default(),
        }
    }

    /// How many classes are sampled in each step.
    pub fn num_sampled(mut self, count: i64) -> SampledLoss {
        self.num_sampled = count;
        self
    }

    /// How classes are sampled.
    pub fn sampler(mut self, sampler: CandidateSampler) -> SampledLoss {
        self.sampler = sampler;
        self
    }

    /// Classes that were sampled elsewhere.
    pub fn candidates(mut self, candidates: Candidates) -> SampledLoss {
        self.candidates = Some(candidates);
        self
    }

    /// Whether sampled classes that are true are left out. If nothing is said, they are by [`SampledLoss::softmax`] and not by
    /// [`SampledLoss::nce`].
    pub fn remove_accidental_hits(mut self, removes: bool) -> SampledLoss {
        self.removes_hits = Some(removes);
        self
    }

    /// Which part of divided weights has the row of a class.
    pub fn partition_strategy(mut self, strategy: PartitionStrategy) -> SampledLoss {
        self.strategy = strategy;
        self
    }

    /// Noise-contrastive estimation: for each example (a row of `inputs`) the loss of telling its true classes, a row of
    /// `labels`, from those that were sampled.
    pub fn nce(self, labels: &Output, inputs: &Output) -> Result<Output> {
        inputs.graph().clone().name_scope("nce_loss", || {
            let (logits, labels) = self.logits(labels, inputs, false)?;
            logits.sigmoid_cross_entropy(labels)?.reduce_sum([1])
        })
    }

    /// The softmax cross entropy of the true classes among those that were sampled, for each example. For training only: what the
    /// model says is the softmax over all classes.
    pub fn softmax(self, labels: &Output, inputs: &Output) -> Result<Output> {
        inputs.graph().clone().name_scope("sampled_softmax_loss", || {
            let (logits, labels) = self.logits(labels, inputs, true)?;
            logits.softmax_cross_entropy(labels.stop_gradient()?)
        })
    }

    /// Logits and labels: columns of the true classes, then of those that were sampled.
    fn logits(self, labels: &Output, inputs: &Output, removes_hits: bool) -> Result<(Output, Output)> {
        let graph = inputs.graph();
        let num_true = true_classes(labels)?;
        let columns = i32::try_from(num_true)
            .map_err(|_| Status::invalid_argument(format!("{num_true} true classes are too many")))?;
        let labels = labels.cast(DType::Int64)?;
        let sampled = match self.candidates {
            Some(candidates) => candidates,
            None => self.sampler.sample(&labels, self.num_sampled)?,
        };
        let ids = sampled.ids.stop_gradient()?;
        let flat = labels.reshape([-1])?;
        let all = graph.concat([&flat, &ids], 0)?;
        // Looked up together, so that a part of divided weights is asked once.
        let count = flat.shape_tensor()?;
        let of_all = |params: EmbeddingParams| -> Result<[Output; 2]> {
            let rows = graph.embedding_lookup(params, &all, self.strategy)?;
            let rank = rows.shape()?.rank().unwrap_or(1);
            let none = vec![0i32; rank.saturating_sub(1)];
            let whole = vec![-1i32; rank.saturating_sub(1)];
            let start = graph.concat([count.clone(), graph.constant(none).check()?], 0)?;
            let size = graph.concat([count.clone(), graph.constant(whole).check()?], 0)?;
            let rest = graph.constant(vec![-1i32; rank]);
            let parts = [rows.slice(start.zeros_like()?, size)?, rows.slice(start, rest)?];
            // How many rows each has is computed; how large a row is, is known.
            let row =
                rows.shape()?.dims().and_then(|dims| dims.get(1..).map(<[_]>::to_vec)).unwrap_or_default();
            for part in &parts {
                part.set_shape(PartialShape::new(std::iter::once(None).chain(row.iter().copied())))?;
            }
            Ok(parts)
        };
        let [true_weights, sampled_weights] = of_all(self.weights)?;
        let [true_biases, sampled_biases] = of_all(self.biases)?;

        let size = dimension(&true_weights)?;
        let true_weights = true_weights.reshape([-1, columns, size])?;
        let products = inputs.expand_dims(1)?.mul(true_weights)?;
        let true_logits = products.reduce_sum([2])?.add(true_biases.reshape([-1, columns])?)?;
        let products = inputs.op("MatMul").input(sampled_weights).attr("transpose_b", true).output()?;
        let mut sampled_logits = products.add(sampled_biases)?;
        if self.removes_hits.unwrap_or(removes_hits) {
            sampled_logits = sampled_logits.add(hits(&labels, &ids, num_true, &sampled_logits)?)?;
        }
        // A class that is sampled often is not to be held more unlikely for that.
        let true_logits = true_logits.sub(sampled.true_expected.stop_gradient()?.log()?)?;
        let sampled_logits = sampled_logits.sub(sampled.expected.stop_gradient()?.log()?)?;
        let ones = (true_logits.op("OnesLike").output()? / num_true as f32).check()?;
        let labels = graph.concat([ones, sampled_logits.zeros_like()?], 1)?;
        Ok((graph.concat([true_logits, sampled_logits], 1)?, labels))
    }
}

fn dimension(rows: &Output) -> Result<i32> {
    let shape = rows.shape()?;
    let size = shape.dim(1).and_then(|size| i32::try_from(size).ok());
    size.ok_or_else(|| {
        Status::invalid_argument(format!(
            "the weights of classes must have rows of known size, got the shape {shape}"
        ))
    })
}

/// A number that makes a logit hopeless, for each sampled class that is true.
fn hits(labels: &Output, sampled: &Output, num_true: i64, logits: &Output) -> Result<Output> {
    let graph: &Graph = labels.graph();
    let hits = labels.op("ComputeAccidentalHits").input(sampled).attr("num_true", num_true);
    let hits = hits.build()?;
    let rows = hits.output(0).expand_dims(1)?;
    let columns = hits.output(1).cast(DType::Int32)?.expand_dims(1)?;
    let places = graph.concat([rows, columns], 1)?;
    let dense = places.op("SparseToDense").input(logits.shape_tensor()?).input(hits.output(2));
    dense.input(0.0f32).attr("validate_indices", false).output()
}
