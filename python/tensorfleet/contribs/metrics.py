"""`tf.contrib.metrics` and `slim.metrics`: the metrics with predictions before labels."""

import inspect

import tensorfleet as tf
from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.export import export
from tensorfleet.modeling import metrics, metrics_confusion, metrics_ranking

_SWAPPED = {
    "streaming_accuracy": metrics.accuracy,
    "streaming_mean_absolute_error": metrics.mean_absolute_error,
    "streaming_mean_squared_error": metrics.mean_squared_error,
    "streaming_root_mean_squared_error": metrics.root_mean_squared_error,
    "streaming_mean_relative_error": metrics.mean_relative_error,
    "streaming_mean_cosine_distance": metrics.mean_cosine_distance,
    "streaming_mean_iou": metrics.mean_iou,
    "streaming_true_positives": metrics_confusion.true_positives,
    "streaming_true_negatives": metrics_confusion.true_negatives,
    "streaming_false_positives": metrics_confusion.false_positives,
    "streaming_false_negatives": metrics_confusion.false_negatives,
    "streaming_precision": metrics_confusion.precision,
    "streaming_recall": metrics_confusion.recall,
    "streaming_true_positives_at_thresholds": metrics_confusion.true_positives_at_thresholds,
    "streaming_true_negatives_at_thresholds": metrics_confusion.true_negatives_at_thresholds,
    "streaming_false_positives_at_thresholds": metrics_confusion.false_positives_at_thresholds,
    "streaming_false_negatives_at_thresholds": metrics_confusion.false_negatives_at_thresholds,
    "streaming_precision_at_thresholds": metrics_confusion.precision_at_thresholds,
    "streaming_recall_at_thresholds": metrics_confusion.recall_at_thresholds,
    "streaming_sparse_precision_at_k": metrics_ranking.precision_at_k,
    "streaming_sparse_recall_at_k": metrics_ranking.recall_at_k,
    "streaming_sparse_average_precision_at_k": metrics_ranking.average_precision_at_k,
    "streaming_specificity_at_sensitivity": metrics_confusion.specificity_at_sensitivity,
    "streaming_sensitivity_at_specificity": metrics_confusion.sensitivity_at_specificity,
}


def _exported(name):
    return export(f"contrib.metrics.{name}", f"contrib.slim.metrics.{name}")


def _swapped(name, metric):
    """The metric with its first two arguments in the other order."""
    parameters = list(inspect.signature(metric).parameters.values())
    parameters[0], parameters[1] = parameters[1], parameters[0]
    signature = inspect.Signature(parameters)

    def function(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        return metric(**bound.arguments)

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__signature__ = signature
    function.__doc__ = metric.__doc__
    return _exported(name)(function)


for _name, _metric in _SWAPPED.items():
    globals()[_name] = _swapped(_name, _metric)


@_exported("streaming_mean")
def streaming_mean(values, weights=None, metrics_collections=None, updates_collections=None, name=None):
    return metrics.mean(values, weights, metrics_collections, updates_collections, name)


@_exported("streaming_mean_tensor")
def streaming_mean_tensor(values, weights=None, metrics_collections=None, updates_collections=None, name=None):
    return metrics.mean_tensor(values, weights, metrics_collections, updates_collections, name)


@_exported("streaming_percentage_less")
def streaming_percentage_less(values, threshold, weights=None, metrics_collections=None, updates_collections=None, name=None):
    return metrics.percentage_below(values, threshold, weights, metrics_collections, updates_collections, name)


@_exported("streaming_auc")
def streaming_auc(predictions, labels, weights=None, num_thresholds=200, metrics_collections=None, updates_collections=None, curve="ROC", name=None):
    return metrics_confusion.auc(labels, predictions, weights, num_thresholds, metrics_collections, updates_collections, curve, name)


@_exported("streaming_recall_at_k")
def streaming_recall_at_k(predictions, labels, k, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The share of examples whose label is among the best `k`."""
    hits = tf.cast(tf.nn.in_top_k(predictions, labels, k), dtypes.float32)
    return metrics.mean(hits, weights, metrics_collections, updates_collections, name or f"recall_at_{k}")


@_exported("accuracy")
def accuracy(predictions, labels, weights=None, name=None):
    """How often predictions are the labels, in one batch."""
    if labels.dtype.base_dtype not in (dtypes.int32, dtypes.int64, dtypes.int16, dtypes.int8, dtypes.string, dtypes.bool):
        raise ValueError(f"Labels should have bool, string or integer dtype, not {labels.dtype!r}")
    if labels.dtype != predictions.dtype:
        raise ValueError(f"Dtypes of predictions and labels should match. Given: predictions ({predictions.dtype!r}) and labels ({labels.dtype!r})")
    with ops.name_scope(name, "accuracy", values=[predictions, labels]):
        is_correct = tf.cast(gen.Equal(predictions, labels), dtypes.float32)
        if weights is not None:
            is_correct = gen.Mul(is_correct, weights)
            number = gen.Mul(weights, tf.ones_like(is_correct))
            return tf.div(tf.reduce_sum(is_correct), tf.reduce_sum(number))
        return tf.reduce_mean(is_correct)


@_exported("confusion_matrix")
def confusion_matrix(labels, predictions, num_classes=None, dtype=dtypes.int32, name=None, weights=None):
    return tf.confusion_matrix(labels, predictions, num_classes, dtype=dtype, name=name, weights=weights)


@_exported("aggregate_metrics")
def aggregate_metrics(*value_update_tuples):
    """The values and the updates of several metrics as two lists."""
    if not value_update_tuples:
        raise ValueError("Expected at least one value_tensor/update_op pair")
    values, updates = zip(*value_update_tuples)
    return list(values), list(updates)


@_exported("aggregate_metric_map")
def aggregate_metric_map(names_to_tuples):
    """The values and the updates of named metrics as two dicts."""
    values, updates = zip(*names_to_tuples.values())
    return dict(zip(names_to_tuples, values)), dict(zip(names_to_tuples, updates))


@_exported("count")
def count(values, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """How many elements there were, by weight."""
    from tensorfleet.modeling.loss_weights import broadcast_weights

    with tf.variable_scope(name, "count", (values, weights)):
        variable = metrics.metric_variable([], dtypes.float32, name="count")
        if weights is None:
            number = tf.cast(tf.size(values), dtypes.float32)
        else:
            values = tf.cast(values, dtypes.float32)
            values, _, weights = metrics.fitted(values, None, weights)
            number = tf.reduce_sum(broadcast_weights(tf.cast(weights, dtypes.float32), values))
        with ops.control_dependencies([values]):
            update = tf.assign_add(variable, number)
        return metrics.published(tf.identity(variable), update, metrics_collections, updates_collections)


def _rate(scope, wrong, right, predictions, labels, weights, metrics_collections, updates_collections, name):
    with tf.variable_scope(name, scope, [predictions, labels, weights]):
        predictions, labels, weights = metrics.fitted(tf.cast(predictions, dtype=dtypes.bool), tf.cast(labels, dtype=dtypes.bool), weights)
        numbers = [wrong(labels, predictions, weights), right(labels, predictions, weights)]

        def compute(which, label):
            miss, hit = numbers[0][which], numbers[1][which]
            return tf.where(gen.Greater(miss + hit, 0), tf.div(miss, miss + hit), 0, label)

        return metrics.published(compute(0, "value"), compute(1, "update_op"), metrics_collections, updates_collections)


@_exported("streaming_false_positive_rate")
def streaming_false_positive_rate(predictions, labels, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """False positives among what is false."""
    return _rate("false_positive_rate", metrics_confusion.false_positives, metrics_confusion.true_negatives, predictions, labels, weights, metrics_collections, updates_collections, name)


@_exported("streaming_false_negative_rate")
def streaming_false_negative_rate(predictions, labels, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """False negatives among what is true."""
    return _rate("false_negative_rate", metrics_confusion.false_negatives, metrics_confusion.true_positives, predictions, labels, weights, metrics_collections, updates_collections, name)
