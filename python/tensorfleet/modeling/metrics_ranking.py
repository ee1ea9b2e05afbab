"""`tf.metrics`: precision and recall of the best `k` predictions.

TensorFlow counts with operations on sets; the catalogue has no op for the size of a set, so that the nodes that count differ here.
Variables, their names and the values are the same.
"""

import tensorfleet as tf
from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.composite import SparseTensor
from tensorfleet.framework.export import export
from tensorfleet.modeling.metrics import metric_variable, published


def _at_k_name(name, k=None, class_id=None):
    name = f"{name}_at_{k}" if k is not None else f"{name}_at_k"
    return name if class_id is None else f"{name}_class{class_id}"


def _dense_labels(labels, rank):
    """Labels as a dense tensor of a rank; `-1` stands for none."""
    if isinstance(labels, SparseTensor):
        labels = gen.SparseToDense(labels.indices, labels.dense_shape, labels.values, -1, validate_indices=False)
    labels = ops.convert_to_tensor(labels)
    if labels.shape.ndims is not None and rank is not None and labels.shape.ndims == rank - 1:
        labels = tf.expand_dims(labels, -1)
    return tf.cast(labels, dtypes.int64)


def _only_class(values, class_id):
    """Other classes than `class_id` become `-1`; `-1` is never a hit."""
    if class_id is None:
        return values
    return tf.where(gen.Equal(values, tf.cast(class_id, dtypes.int64)), values, -tf.ones_like(values))


def _hits(values, others):
    """Whether each of `values` is among `others`, both along the last dimension."""
    same = gen.Equal(tf.expand_dims(values, -1), tf.expand_dims(others, -2))
    return gen.LogicalAnd(tf.reduce_any(same, -1), values >= 0)


def _count(condition):
    return tf.reduce_sum(tf.cast(condition, dtypes.float64), -1)


def _streaming(kind, plural, k, class_id, weights, compute):
    """A variable that counts, and the operation that adds to it."""
    with ops.name_scope(None, _at_k_name(kind, k, class_id)) as scope:
        with ops.name_scope(None, plural):
            counts = compute()
            if weights is not None:
                weights = tf.cast(weights, dtypes.float64)
                if weights.shape.ndims is not None and counts.shape.ndims is not None and weights.shape.ndims == counts.shape.ndims + 1:
                    weights = tf.squeeze(weights, [-1])
                counts = gen.Mul(counts, weights)
        total = tf.reduce_sum(counts, axis=tf.range(tf.rank(counts)))
        variable = metric_variable([], dtypes.float64, name=scope)
        return variable, tf.assign_add(variable, total, name="update")


def _divided(hits, others, scope, metrics_collections, updates_collections):
    value = tf.div(hits[0], gen.Add(hits[0], others[0]), name=scope)
    update = tf.div(hits[1], gen.Add(hits[1], others[1]), name="update")
    return published(value, update, metrics_collections, updates_collections)


@export("metrics.precision_at_top_k")
def precision_at_top_k(labels, predictions_idx, k=None, class_id=None, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The share of predicted classes that are labels."""
    with ops.name_scope(name, _at_k_name("precision", k, class_id=class_id), (predictions_idx, labels, weights)) as scope:
        predictions_idx = tf.cast(predictions_idx, dtypes.int64)
        labels = _dense_labels(labels, predictions_idx.shape.ndims)
        predicted, true = _only_class(predictions_idx, class_id), _only_class(labels, class_id)
        hits = _streaming("true_positive", "true_positives", k, class_id, weights, lambda: _count(_hits(predicted, true)))
        misses = _streaming(
            "false_positive", "false_positives", k, class_id, weights, lambda: _count(gen.LogicalAnd(gen.LogicalNot(_hits(predicted, true)), predicted >= 0))
        )
        return _divided(hits, misses, scope, metrics_collections, updates_collections)


@export("metrics.recall_at_top_k")
def recall_at_top_k(labels, predictions_idx, k=None, class_id=None, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The share of labels that are among the predicted classes."""
    with ops.name_scope(name, _at_k_name("recall", k, class_id=class_id), (predictions_idx, labels, weights)) as scope:
        predictions_idx = tf.cast(predictions_idx, dtypes.int64)
        labels = _dense_labels(labels, predictions_idx.shape.ndims)
        predicted, true = _only_class(predictions_idx, class_id), _only_class(labels, class_id)
        hits = _streaming("true_positive", "true_positives", k, class_id, weights, lambda: _count(_hits(predicted, true)))
        misses = _streaming("false_negative", "false_negatives", k, class_id, weights, lambda: _count(gen.LogicalAnd(gen.LogicalNot(_hits(true, predicted)), true >= 0)))
        return _divided(hits, misses, scope, metrics_collections, updates_collections)


@export("metrics.precision_at_k")
def precision_at_k(labels, predictions, k, class_id=None, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The share of the best `k` predictions that are labels."""
    with ops.name_scope(name, _at_k_name("precision", k, class_id=class_id), (predictions, labels, weights)) as scope:
        best = tf.nn.top_k(predictions, k).indices
        return precision_at_top_k(labels, best, k, class_id, weights, metrics_collections, updates_collections, name=scope)


@export("metrics.sparse_precision_at_k")
def sparse_precision_at_k(labels, predictions, k, class_id=None, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The older name of `precision_at_k`."""
    return precision_at_k(labels, predictions, k, class_id, weights, metrics_collections, updates_collections, name)


@export("metrics.recall_at_k")
def recall_at_k(labels, predictions, k, class_id=None, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The share of labels that are among the best `k` predictions."""
    with ops.name_scope(name, _at_k_name("recall", k, class_id=class_id), (predictions, labels, weights)) as scope:
        best = tf.nn.top_k(predictions, k).indices
        return recall_at_top_k(labels, best, k, class_id, weights, metrics_collections, updates_collections, name=scope)


def _average_precision(best, labels, k):
    """For each row the mean of the precisions at the ranks of its labels."""
    with ops.name_scope(None, "average_precision", (best, labels)):
        relevant = tf.cast(_hits(best, labels), dtypes.float64)
        found = tf.cumsum(relevant, axis=-1, name="tp_per_k")
        ranks = tf.cumsum(tf.ones_like(relevant), axis=-1, name="retrieved_per_k")
        precision = tf.div(found, ranks, name="precision_per_k")
        total = tf.reduce_sum(gen.Mul(precision, relevant), axis=(-1,), name="precision_sum")
        number = gen.Minimum(tf.reduce_sum(tf.cast(labels >= 0, dtypes.int64), -1), tf.cast(k, dtypes.int64), name="num_relevant")
        return tf.div(total, tf.cast(number, dtypes.float64))


@export("metrics.average_precision_at_k")
def average_precision_at_k(labels, predictions, k, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The mean over rows of the average precision of the best `k` predictions."""
    if k < 1:
        raise ValueError(f"Invalid k={k}.")
    with ops.name_scope(name, _at_k_name("average_precision", k), (predictions, labels, weights)) as scope:
        best = tf.cast(tf.nn.top_k(predictions, k).indices, dtypes.int64)
        labels = _dense_labels(labels, best.shape.ndims)
        precision = _average_precision(best, labels, k)
        if weights is not None:
            weights = tf.cast(weights, dtypes.float64) * tf.ones_like(precision)
            precision = gen.Mul(precision, weights)
        # TensorFlow's graph has a node `Max` before, so that this name gets a number there.
        with ops.name_scope(None, "max_1", (precision,)) as max_scope:
            largest = metric_variable([], dtypes.float64, name=max_scope)
            number = tf.reduce_sum(weights) if weights is not None else tf.cast(tf.size(precision, name="batch_max"), dtypes.float64)
            max_update = tf.assign_add(largest, number, name="update")
        with ops.name_scope(None, "total", (precision,)) as total_scope:
            total = metric_variable([], dtypes.float64, name=total_scope)
            batch = tf.reduce_sum(precision, axis=tf.range(tf.rank(precision)), name="batch_total")
            total_update = tf.assign_add(total, batch, name="update")
        value = tf.div_no_nan(total, largest, name="mean")
        update = tf.div_no_nan(total_update, max_update, name=scope)
        return published(value, update, metrics_collections, updates_collections)


@export("metrics.sparse_average_precision_at_k")
def sparse_average_precision_at_k(labels, predictions, k, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The older name of `average_precision_at_k`."""
    return average_precision_at_k(labels, predictions, k, weights, metrics_collections, updates_collections, name)
