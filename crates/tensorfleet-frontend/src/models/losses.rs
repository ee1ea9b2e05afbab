//! Losses: what training makes small.
//!
//! Each is a number for every element or row of a batch, weighted and reduced to one; the graph keeps a list of them, so that
//! [`Graph::get_total_loss`] finds all. Values and the names of results (`mean_squared_error/value`, …) are TensorFlow's.

use tensorfleet_core::{DType, Endpoint, PartialShape, Result, Status, ensure};

use crate::graph::{Arg, Graph, Operand, Output};

/// How the losses of a batch become one number; see [`Loss`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// They do not: the weighted losses stay as they are.
    None,
    /// The weighted sum.
    Sum,
    /// The weighted sum divided by the sum of the weights.
    Mean,
    /// The weighted sum divided by the number of losses.
    SumOverBatchSize,
    /// The weighted sum divided by the number of losses whose weight is not zero; what TensorFlow does if nothing is said.
    #[default]
    SumByNonzeroWeights,
}

/// A loss about to be built.
///
/// ```
/// # use tensorfleet::{Graph, Loss, Session};
/// let g = Graph::new();
/// let labels = g.constant([1.0f32, 2.0]);
/// let predictions = g.constant([1.0f32, 4.0]);
/// let loss = Loss::new().mean_squared_error(&labels, &predictions)?;
/// let weighted = Loss::new().weights([1.0f32, 0.0]).mean_squared_error(&labels, &predictions)?;
/// let total = g.get_total_loss()?;
/// let session = Session::new(&g);
/// assert_eq!(session.run(&loss)?.to_scalar::<f32>()?, 2.0);
/// assert_eq!(session.run(&weighted)?.to_scalar::<f32>()?, 0.0);
/// assert_eq!(session.run(&total)?.to_scalar::<f32>()?, 2.0);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[must_use = "nothing is added to the graph before a loss is named"]
pub struct Loss {
    weights: Arg,
    reduction: Reduction,
    is_collected: bool,
}

impl Default for Loss {
    fn default() -> Loss {
        Loss { weights: 1.0f32.into_arg(), reduction: Reduction::default(), is_collected: true }
    }
}

impl Loss {
    /// A loss with weights of one.
    pub fn new() -> Loss {
        Loss::default()
    }

    /// How much each loss counts: one number, or a tensor of as many dimensions as the losses, each equal or 1.
    pub fn weights(mut self, weights: impl Operand) -> Loss {
        self.weights = weights.into_arg();
        self
    }

    /// How the losses become one number.
    pub fn reduction(mut self, reduction: Reduction) -> Loss {
        self.reduction = reduction;
        self
    }

    /// Does not add the loss to the losses of the graph.
    pub fn uncollected(mut self) -> Loss {
        self.is_collected = false;
        self
    }

    /// The squares of the differences.
    pub fn mean_squared_error(self, labels: &Output, predictions: &Output) -> Result<Output> {
        self.of("mean_squared_error", labels, predictions, || predictions.squared_difference(labels))
    }

    /// The absolute differences.
    pub fn absolute_difference(self, labels: &Output, predictions: &Output) -> Result<Output> {
        self.of("absolute_difference", labels, predictions, || predictions.sub(labels)?.abs())
    }

    /// The cross entropy of independent probabilities, given as logits.
    pub fn sigmoid_cross_entropy(self, labels: &Output, logits: &Output) -> Result<Output> {
        self.of("sigmoid_cross_entropy_loss", labels, logits, || logits.sigmoid_cross_entropy(labels))
    }

    /// The cross entropy of the distributions in `labels`, one per row, and those that the logits stand for.
    pub fn softmax_cross_entropy(self, labels: &Output, logits: &Output) -> Result<Output> {
        self.smoothed_softmax_cross_entropy(labels, logits, 0.0)
    }

    /// A [`Loss::softmax_cross_entropy`] with this part of each distribution spread evenly over all classes.
    pub fn smoothed_softmax_cross_entropy(
        self,
        labels: &Output,
        logits: &Output,
        label_smoothing: f64,
    ) -> Result<Output> {
        self.of("softmax_cross_entropy_loss", labels, logits, || {
            let mut labels = labels.cast(logits.dtype()?)?;
            if label_smoothing > 0.0 {
                let classes = labels.shape()?.dims().and_then(|dims| dims.last().copied().flatten());
                let classes = classes.ok_or_else(|| {
                    Status::invalid_argument("Label smoothing needs to know the number of classes")
                })?;
                labels = (labels * (1.0 - label_smoothing) + label_smoothing / classes as f64).check()?;
            }
            let labels = labels.op("StopGradient").name("labels_stop_gradient").output()?;
            logits.op("SoftmaxCrossEntropyWithLogits").input(labels).name("xentropy").output()
        })
    }

    /// The cross entropy of the classes in `labels`, one per row, and the distributions that the logits stand for.
    pub fn sparse_softmax_cross_entropy(self, labels: &Output, logits: &Output) -> Result<Output> {
        let graph = logits.graph();
        self.scoped(graph, "sparse_softmax_cross_entropy_loss", || {
            logits.op("SparseSoftmaxCrossEntropyWithLogits").input(labels).name("xentropy").output()
        })
    }

    /// The cross entropy of independent probabilities.
    pub fn log_loss(self, labels: &Output, predictions: &Output) -> Result<Output> {
        /// Keeps the logarithms finite; TensorFlow's default.
        const EPSILON: f64 = 1e-7;
        self.of("log_loss", labels, predictions, || {
            let of_true = labels.mul((predictions + EPSILON).check()?.log()?)?.neg()?;
            let rest = (1.0 - labels).check()?;
            let of_false = rest.mul(((1.0 - predictions) + EPSILON).check()?.log()?)?;
            (of_true - of_false).check()
        })
    }

    /// `max(0, 1 - y · logits)`, where `y` is 1 for the label 1 and -1 for the label 0.
    pub fn hinge_loss(self, labels: &Output, logits: &Output) -> Result<Output> {
        self.of("hinge_loss", labels, logits, || {
            let signs = (2.0 * labels).check()?.sub(1.0)?;
            (1.0 - signs.mul(logits)?).check()?.relu()
        })
    }

    /// Half the squares of differences up to `delta`, in proportion to the difference beyond.
    pub fn huber_loss(self, labels: &Output, predictions: &Output, delta: f64) -> Result<Output> {
        self.of("huber_loss", labels, predictions, || {
            let error = predictions.sub(labels)?.abs()?;
            let quadratic = error.minimum(delta)?;
            let linear = error.sub(&quadratic)?;
            let half_square = (0.5 * quadratic.mul(&quadratic)?).check()?;
            half_square.add((delta * linear).check()?)
        })
    }

    /// One minus the cosine of the angle between vectors of length 1 along `axis`, which stays as a dimension of size 1.
    pub fn cosine_distance(self, labels: &Output, predictions: &Output, axis: i32) -> Result<Output> {
        self.of("cosine_distance_loss", labels, predictions, || {
            (1.0 - predictions.mul(labels)?.reduce_sum_keep_dims([axis])?).check()
        })
    }

    /// Weights, reduces and collects losses that were computed otherwise.
    pub fn of_losses(self, losses: &Output) -> Result<Output> {
        let graph = losses.graph();
        self.scoped(graph, "weighted_loss", || Ok(losses.clone()))
    }

    /// A loss of labels and predictions, which must have the same shape.
    fn of(
        self,
        name: &str,
        labels: &Output,
        predictions: &Output,
        losses: impl FnOnce() -> Result<Output>,
    ) -> Result<Output> {
        let (expected, found) = (labels.shape()?, predictions.shape()?);
        ensure!(
            expected.merge(&found).is_ok() && expected.rank() == found.rank(),
            InvalidArgument,
            "{name}: labels of shape {expected} and predictions of shape {found} are incompatible"
        );
        self.scoped(predictions.graph(), name, losses)
    }

    fn scoped(self, graph: &Graph, name: &str, losses: impl FnOnce() -> Result<Output>) -> Result<Output> {
        let is_collected = self.is_collected;
        let loss = graph.name_scope(name, || {
            let losses = losses()?;
            self.weighted(&losses)
        })?;
        if is_collected {
            graph.add_loss(&loss)?;
        }
        Ok(loss)
    }

    fn weighted(self, losses: &Output) -> Result<Output> {
        let (graph, dtype) = (losses.graph(), losses.dtype()?);
        let weights = self.weights.into_output(graph, "weights", Some(dtype))?.cast(dtype)?;
        check_broadcastable(&weights.shape()?, &losses.shape()?)?;
        let weighted = losses.mul(&weights)?;
        let ones = || -> Result<Output> {
            let one = graph.literal("one", 1.0, dtype)?;
            graph.fill(graph.op("Shape").input(losses).output()?, one)
        };
        let count = match self.reduction {
            Reduction::None => return Ok(weighted),
            Reduction::Sum => return weighted.reduce_sum(..),
            Reduction::Mean => (ones()? * &weights).check()?.reduce_sum(..)?,
            Reduction::SumOverBatchSize => losses.size()?.cast(dtype)?,
            Reduction::SumByNonzeroWeights => {
                let is_present = weights.not_equal(0.0)?.cast(dtype)?;
                let present = (is_present * ones()?).check()?;
                present.op("Sum").input(present.all_axes()?).name("num_present").output()?
            }
        };
        // A batch without losses has the loss zero, not NaN.
        weighted.reduce_sum(..)?.op("DivNoNan").input(count).name("value").output()
    }
}

/// Weights are one number, or have for each dimension of the losses as many elements or one.
fn check_broadcastable(weights: &PartialShape, losses: &PartialShape) -> Result<()> {
    let fits = match (weights.dims(), losses.dims()) {
        (Some([]), _) | (None, _) | (_, None) => true,
        (Some(weights), Some(losses)) => {
            let fits = |(weight, loss): (&Option<usize>, &Option<usize>)| match (weight, loss) {
                (Some(1), _) | (None, _) | (_, None) => true,
                (Some(weight), Some(loss)) => weight == loss,
            };
            weights.len() == losses.len() && weights.iter().zip(losses).all(fits)
        }
    };
    match fits {
        true => Ok(()),
        false => Err(Status::invalid_argument(format!(
            "weights can not be broadcast to values: weights of shape {weights}, losses of shape {losses}"
        ))),
    }
}

impl Output {
    /// [`Output::sigmoid_cross_entropy`] in which positive labels count `positive_weight` times:
    /// `(1 - z) · x + (1 + (w - 1) · z) · (ln(1 + exp(-|x|)) + max(-x, 0))`.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Session};
    /// let g = Graph::new();
    /// let loss = g.constant([0.0f32, 0.0]).weighted_cross_entropy(&g.constant([1.0f32, 0.0]), 3.0)?;
    /// let loss = Session::new(&g).run(&loss)?;
    /// let ln_2 = std::f32::consts::LN_2;
    /// assert!((loss.as_slice::<f32>()?[0] - 3.0 * ln_2).abs() < 1e-6);
    /// assert!((loss.as_slice::<f32>()?[1] - ln_2).abs() < 1e-6);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn weighted_cross_entropy(&self, labels: &Output, positive_weight: f64) -> Result<Output> {
        self.graph().name_scope("logistic_loss", || {
            let weights = (1.0 + (positive_weight - 1.0) * labels).check()?;
            let softplus = self.abs()?.neg()?.exp()?.log1p()?.add(self.neg()?.relu()?)?;
            (1.0 - labels).check()?.mul(self)?.add(weights.mul(softplus)?)
        })
    }

    /// The cross entropy of independent probabilities in `labels` and these logits, for each element, in the form that
    /// does not overflow: `max(x, 0) - x · z + ln(1 + exp(-|x|))`.
    pub fn sigmoid_cross_entropy(&self, labels: impl Operand) -> Result<Output> {
        let graph = self.graph();
        graph.name_scope("xentropy", || {
            let scope = format!("{}/", graph.current_name_scope());
            let zeros = self.zeros_like()?;
            let is_positive = self.greater_equal(&zeros)?;
            let positive_part = is_positive.select(self, &zeros)?;
            let minus_magnitude = is_positive.select(self.neg()?, self)?;
            let linear = (positive_part - (self * labels)).check()?;
            linear.op("AddV2").input(minus_magnitude.exp()?.log1p()?).name(&scope).output()
        })
    }
}

/// What is to be minimised in a graph.
#[derive(Default)]
struct Losses(Vec<Endpoint>);

impl Graph {
    /// The losses built or added so far.
    pub fn losses(&self) -> Vec<Output> {
        let endpoints = self.registry(|Losses(losses)| losses.clone());
        endpoints.into_iter().map(|endpoint| self.output_at(endpoint)).collect()
    }

    /// Adds a value to the losses of the graph.
    pub fn add_loss(&self, loss: &Output) -> Result<()> {
        let endpoint = loss.endpoint_in(self)?;
        self.registry(|Losses(losses)| losses.push(endpoint));
        Ok(())
    }

    /// The sum of all losses, with the regularization losses: the node `total_loss`.
    pub fn get_total_loss(&self) -> Result<Output> {
        let mut losses = self.losses();
        losses.extend(self.regularization_losses());
        match &losses[..] {
            [] => self.literal("total_loss", 0.0, DType::Float),
            [only] => only.op("Identity").name("total_loss").output(),
            _ => self.op("AddN").inputs(losses).name("total_loss").output(),
        }
    }
}
