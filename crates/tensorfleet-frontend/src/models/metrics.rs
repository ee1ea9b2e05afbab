//! Metrics: how good a model is, over more examples than fit into one run.
//!
//! Each keeps sums in local variables. Running [`Streaming::update`] adds a batch to them; [`Streaming::value`] is the metric of
//! all batches since [`Graph::local_variables_initializer`](crate::Graph::local_variables_initializer) ran. Values and the names
//! of variables (`accuracy/total`, …) are those of `tf.metrics` in TensorFlow 1.15.

use tensorfleet_core::{DType, Result, Status, ensure};

use crate::graph::{Arg, Graph, Operand, Output, Variable};
use crate::variables::Initializer;

/// Keeps quotients of [`Metric::auc`] away from 0 / 0; TensorFlow's number.
const EPSILON: f64 = 1e-6;
/// How far the outermost thresholds of [`Metric::auc`] lie outside of 0 to 1, so that no prediction is beyond them.
const THRESHOLD_MARGIN: f64 = 1e-7;

/// A metric in the graph; see [`Metric`].
#[derive(Clone, Debug)]
pub struct Streaming {
    /// The metric of all batches so far.
    pub value: Output,
    /// Adds the batch that is fed; gives the metric with it.
    pub update: Output,
}

/// Which curve [`Metric::auc`] is the area under.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Curve {
    /// True positives over false positives: what part of all pairs of a positive and a negative example is ordered right.
    #[default]
    Roc,
    /// Precision over recall, interpolated with care.
    PrecisionRecall,
}

/// A metric about to be built.
///
/// In a cluster, build metrics on the device of the worker that judges; a device setter would share their sums among workers.
///
/// ```
/// # use tensorfleet::{DType, Graph, Metric, Session};
/// let g = Graph::new();
/// let labels = g.placeholder(DType::Int64, [-1]);
/// let predictions = g.placeholder(DType::Int64, [-1]);
/// let accuracy = Metric::new().accuracy(&labels, &predictions)?;
///
/// let session = Session::new(&g);
/// session.run(g.local_variables_initializer()?)?;
/// session.feed(&labels, [1i64, 2]).feed(&predictions, [1i64, 2]).run(&accuracy.update)?;
/// session.feed(&labels, [3i64, 4]).feed(&predictions, [3i64, 5]).run(&accuracy.update)?;
/// assert_eq!(session.run(&accuracy.value)?.to_scalar::<f32>()?, 0.75);
/// # Ok::<(), tensorfleet::Status>(())
/// ```
#[must_use = "nothing is added to the graph before a metric is named"]
#[derive(Default)]
pub struct Metric {
    weights: Option<Arg>,
}

impl Metric {
    /// A metric of examples that count alike.
    pub fn new() -> Metric {
        Metric::default()
    }

    /// How much each example counts: as many numbers as there are examples, or a shape that broadcasts to theirs.
    pub fn weights(mut self, weights: impl Operand) -> Metric {
        self.weights = Some(weights.into_arg());
        self
    }

    /// The mean of values.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Metric, Session};
    /// let g = Graph::new();
    /// let mean = Metric::new().weights([3.0f32, 1.0]).mean(&g.constant([1.0f32, 5.0]))?;
    /// let session = Session::new(&g);
    /// session.run(g.local_variables_initializer()?)?;
    /// assert_eq!(session.run(&mean.update)?.to_scalar::<f32>()?, 2.0);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn mean(self, values: &Output) -> Result<Streaming> {
        self.mean_named("mean", values)
    }

    /// The part of predictions that equal their labels.
    pub fn accuracy(self, labels: &Output, predictions: &Output) -> Result<Streaming> {
        let labels = labels.cast(predictions.dtype()?)?;
        same_shape("accuracy", &labels, predictions)?;
        let is_right = predictions.equal(labels)?.cast(DType::Float)?;
        self.mean_named("accuracy", &is_right)
    }

    /// The mean of the squares of the differences.
    pub fn mean_squared_error(self, labels: &Output, predictions: &Output) -> Result<Streaming> {
        same_shape("mean_squared_error", labels, predictions)?;
        self.mean_named("mean_squared_error", &predictions.squared_difference(labels)?)
    }

    /// The root of the mean of the squares of the differences.
    pub fn root_mean_squared_error(self, labels: &Output, predictions: &Output) -> Result<Streaming> {
        same_shape("root_mean_squared_error", labels, predictions)?;
        let squares = predictions.squared_difference(labels)?;
        let mean = self.mean_named("root_mean_squared_error", &squares)?;
        Ok(Streaming { value: mean.value.sqrt()?, update: mean.update.sqrt()? })
    }

    /// The part of positive predictions that are right. Labels and predictions are bools, or numbers that are zero or not.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Metric, Session};
    /// let g = Graph::new();
    /// let (labels, predictions) = (g.constant([true, false, true]), g.constant([true, true, false]));
    /// let precision = Metric::new().precision(&labels, &predictions)?;
    /// let session = Session::new(&g);
    /// session.run(g.local_variables_initializer()?)?;
    /// assert_eq!(session.run(&precision.update)?.to_scalar::<f32>()?, 0.5);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn precision(self, labels: &Output, predictions: &Output) -> Result<Streaming> {
        self.of_positives("precision", "false_positives", labels, predictions, |labels, predictions| {
            labels.logical_not()?.logical_and(predictions)
        })
    }

    /// The part of positive labels that are predicted. Labels and predictions are bools, or numbers that are zero or not.
    pub fn recall(self, labels: &Output, predictions: &Output) -> Result<Streaming> {
        self.of_positives("recall", "false_negatives", labels, predictions, |labels, predictions| {
            labels.logical_and(predictions.logical_not()?)
        })
    }

    /// The area under the ROC curve, from the counts at 200 thresholds. Predictions are numbers from 0 to 1.
    ///
    /// ```
    /// # use tensorfleet::{Graph, Metric, Session};
    /// let g = Graph::new();
    /// let labels = g.constant([true, false, true, false]);
    /// let auc = Metric::new().auc(&labels, &g.constant([0.9f32, 0.1, 0.4, 0.6]))?;
    /// let session = Session::new(&g);
    /// session.run(g.local_variables_initializer()?)?;
    /// // Three of the four pairs of a positive and a negative example are in order.
    /// assert!((session.run(&auc.update)?.to_scalar::<f32>()? - 0.75).abs() < 1e-5);
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn auc(self, labels: &Output, predictions: &Output) -> Result<Streaming> {
        self.auc_of(labels, predictions, Curve::Roc, 200)
    }

    /// The area under a curve, from the counts at so many thresholds.
    pub fn auc_of(
        self,
        labels: &Output,
        predictions: &Output,
        curve: Curve,
        num_thresholds: usize,
    ) -> Result<Streaming> {
        ensure!(
            (2..=1 << 20).contains(&num_thresholds),
            InvalidArgument,
            "auc needs from 2 to {} thresholds, got {num_thresholds}",
            1 << 20
        );
        same_shape("auc", labels, predictions)?;
        let graph = predictions.graph();
        graph.unique_variable_scope("auc", || {
            let counts = self.confusion(graph, labels, predictions, num_thresholds)?;
            let area = |name: &str, [tp, fn_, tn, fp]: [Output; 4]| {
                graph.name_scope(name, || match curve {
                    Curve::Roc => area_under_roc(&tp, &fn_, &tn, &fp),
                    Curve::PrecisionRecall => area_under_precision_recall(&tp, &fn_, &fp),
                })
            };
            let value = area("value", counts.each_ref().map(|(variable, _)| variable.value()))?;
            let update = area("update", counts.map(|(_, update)| update))?;
            Ok(Streaming { value, update })
        })
    }

    fn mean_named(self, name: &str, values: &Output) -> Result<Streaming> {
        let graph = values.graph();
        graph.unique_variable_scope(name, || {
            let values = values.cast(DType::Float)?;
            let (total, count) = (local(graph, "total", &[])?, local(graph, "count", &[])?);
            let (sum, number) = match self.weights_like(graph, &values)? {
                None => (values.reduce_sum(..)?, values.size()?.cast(DType::Float)?),
                Some(weights) => (values.mul(&weights)?.reduce_sum(..)?, weights.reduce_sum(..)?),
            };
            let (new_total, new_count) = (total.assign_add(sum)?, count.assign_add(number)?);
            let value = quotient(&total.value(), &count.value(), "value")?;
            Ok(Streaming { value, update: quotient(&new_total, &new_count, "update_op")? })
        })
    }

    /// True positives divided by themselves and another count.
    fn of_positives(
        self,
        name: &str,
        other: &str,
        labels: &Output,
        predictions: &Output,
        is_other: impl FnOnce(&Output, &Output) -> Result<Output>,
    ) -> Result<Streaming> {
        same_shape(name, labels, predictions)?;
        let graph = predictions.graph();
        graph.unique_variable_scope(name, || {
            let (labels, predictions) = (labels.cast(DType::Bool)?, predictions.cast(DType::Bool)?);
            let weights = self.weights_like(graph, &predictions.cast(DType::Float)?)?;
            let counted = |scope: &str, is_counted: &Output| {
                graph.variable_scope(scope, || {
                    let count = local(graph, "count", &[])?;
                    let mut ones = is_counted.cast(DType::Float)?;
                    if let Some(weights) = &weights {
                        ones = ones.mul(weights)?;
                    }
                    let update = count.assign_add(ones.reduce_sum(..)?)?;
                    Ok((count, update))
                })
            };
            let (right, new_right) = counted("true_positives", &labels.logical_and(&predictions)?)?;
            let (wrong, new_wrong) = counted(other, &is_other(&labels, &predictions)?)?;
            let all = (right.value() + wrong.value()).check()?;
            let value = quotient(&right.value(), &all, "value")?;
            let update = quotient(&new_right, &new_right.add(&new_wrong)?, "update_op")?;
            Ok(Streaming { value, update })
        })
    }

    /// The weights in the shape of `values`.
    fn weights_like(&self, graph: &Graph, values: &Output) -> Result<Option<Output>> {
        let weights = match &self.weights {
            None => return Ok(None),
            Some(Arg::Output(output)) => output.clone(),
            Some(Arg::Variable(variable)) => variable.value(),
            Some(Arg::Tensor(tensor)) => graph.constant_named("weights", tensor.clone()),
            Some(Arg::Literal(tensor)) => graph.constant_named("weights", tensor.clone()?),
        };
        let weights = weights.cast(DType::Float)?;
        weights.mul(values.op("OnesLike").output()?).map(Some)
    }

    /// Counts of true positives, false negatives, true negatives and false positives at each threshold: the variables, and
    /// their values with this batch.
    fn confusion(
        &self,
        graph: &Graph,
        labels: &Output,
        predictions: &Output,
        num_thresholds: usize,
    ) -> Result<[(Variable, Output); 4]> {
        let between = (1..num_thresholds - 1).map(|i| i as f64 / (num_thresholds - 1) as f64);
        let outermost = [-THRESHOLD_MARGIN, 1.0 + THRESHOLD_MARGIN];
        let thresholds = std::iter::once(outermost[0]).chain(between).chain([outermost[1]]);
        let thresholds: Vec<f32> = thresholds.map(|threshold| threshold as f32).collect();

        // A row for each threshold, a column for each example.
        let predictions = predictions.cast(DType::Float)?;
        let weights = self.weights_like(graph, &predictions)?;
        let row = predictions.reshape([1, -1])?;
        let thresholds = graph.constant_named("thresholds", thresholds).expand_dims(1)?;
        let is_positive = row.greater(&thresholds)?;
        let is_negative = is_positive.logical_not()?;
        let is_true = labels.cast(DType::Bool)?.reshape([1, -1])?;
        let is_false = is_true.logical_not()?;
        let weights = weights.map(|weights| weights.reshape([1, -1])).transpose()?;
        let counted = |name: &str, a: &Output, b: &Output| -> Result<(Variable, Output)> {
            let count = local(graph, name, &[num_thresholds])?;
            let mut ones = a.logical_and(b)?.cast(DType::Float)?;
            if let Some(weights) = &weights {
                ones = ones.mul(weights)?;
            }
            let update = count.assign_add(ones.reduce_sum([1])?)?;
            Ok((count, update))
        };
        Ok([
            counted("true_positives", &is_true, &is_positive)?,
            counted("false_negatives", &is_true, &is_negative)?,
            counted("true_negatives", &is_false, &is_negative)?,
            counted("false_positives", &is_false, &is_positive)?,
        ])
    }
}

/// A local variable of zeros.
fn local(graph: &Graph, name: &str, dims: &[usize]) -> Result<Variable> {
    graph.get_variable(name).shape(dims).initializer(Initializer::zeros()).local().build()
}

/// Zero where nothing was counted.
fn quotient(dividend: &Output, divisor: &Output, name: &str) -> Result<Output> {
    dividend.op("DivNoNan").input(divisor).name(name).output()
}

fn same_shape(metric: &str, labels: &Output, predictions: &Output) -> Result<()> {
    let (expected, found) = (labels.shape()?, predictions.shape()?);
    match expected.merge(&found) {
        Ok(_) => Ok(()),
        Err(_) => Err(Status::invalid_argument(format!(
            "{metric}: labels of shape {expected} and predictions of shape {found} are incompatible"
        ))),
    }
}

/// The area of the trapezoids between neighbouring thresholds.
fn area_under_roc(tp: &Output, fn_: &Output, tn: &Output, fp: &Output) -> Result<Output> {
    let recall = (tp + EPSILON).div(tp + fn_ + EPSILON)?;
    let false_rate = fp.div(fp + tn + EPSILON)?;
    let widths = false_rate.index(..-1)?.sub(false_rate.index(1..)?)?;
    let heights = (recall.index(..-1)?.add(recall.index(1..)?)? / 2.0).check()?;
    widths.mul(heights)?.reduce_sum(..)
}

/// Precision is interpolated with the counts going from one threshold to the next in straight lines, as Davis and Goadrich
/// have it (The Relationship Between Precision-Recall and ROC Curves, 2006).
fn area_under_precision_recall(tp: &Output, fn_: &Output, fp: &Output) -> Result<Output> {
    let graph = tp.graph();
    let no_nan = |a: &Output, b: &Output| a.op("DivNoNan").input(b.maximum(0.0)?).output();
    let (tp_next, fn_next) = (tp.index(1..)?, fn_.index(1..)?);
    let positives = (tp + fp).check()?;
    let (here, next) = (positives.index(..-1)?, positives.index(1..)?);
    let tp_step = tp.index(..-1)?.sub(&tp_next)?;
    let slope = no_nan(&tp_step, &here.sub(&next)?)?;
    let intercept = tp_next.sub(slope.mul(&next)?)?;
    let has_ratio = here.greater(0.0)?.logical_and(next.greater(0.0)?)?;
    let ratio = no_nan(&here, &next)?;
    let ratio = graph.op("SelectV2").input(has_ratio).input(ratio).input(1.0f32).output()?;
    let gained = slope.mul(tp_step.add(intercept.mul(ratio.log()?)?)?)?;
    no_nan(&gained, &tp_next.add(&fn_next)?)?.reduce_sum(..)
}
