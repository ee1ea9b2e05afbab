"""`tf.metrics`: values gathered over many steps in local variables; each gives its value and the operation that adds to it."""

import tensorfleet as tf
from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.export import export
from tensorfleet.modeling.loss_weights import broadcast_weights, remove_squeezable_dimensions, squeezed_weights
from tensorfleet.ops import variable_scope as scopes
from tensorfleet.ops.variables import Variable, VariableAggregation, VariableSynchronization


def metric_variable(shape, dtype, validate_shape=True, name=None):
    """A local variable of zeros that belongs to a metric."""
    return Variable(
        initial_value=lambda: tf.zeros(shape, dtype),
        trainable=False,
        collections=[ops.GraphKeys.LOCAL_VARIABLES, ops.GraphKeys.METRIC_VARIABLES],
        validate_shape=validate_shape,
        synchronization=VariableSynchronization.ON_READ,
        aggregation=VariableAggregation.SUM,
        name=name,
    )


def fitted(predictions, labels, weights):
    """Predictions, labels and weights without superfluous dimensions of 1."""
    predictions = ops.convert_to_tensor(predictions)
    if labels is not None:
        labels, predictions = remove_squeezable_dimensions(labels, predictions)
        predictions.shape.assert_is_compatible_with(labels.shape)
    if weights is None:
        return predictions, labels, None
    weights = ops.convert_to_tensor(weights)
    if weights.shape.ndims == 0:
        return predictions, labels, weights
    return predictions, labels, squeezed_weights(predictions, weights)


def published(value, update_op, metrics_collections, updates_collections):
    """Puts a metric into its collections."""
    if metrics_collections:
        ops.add_to_collections(metrics_collections, value)
    if updates_collections:
        ops.add_to_collections(updates_collections, update_op)
    return value, update_op


def divided(numerator, denominator, name):
    """The quotient, or zero where the denominator is not positive."""
    return tf.div_no_nan(numerator, gen.Maximum(denominator, 0), name=name)


def safe_scalar_div(numerator, denominator, name):
    numerator.shape.with_rank_at_most(1)
    denominator.shape.with_rank_at_most(1)
    return tf.div_no_nan(numerator, denominator, name=name)


@export("metrics.mean")
def mean(values, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The weighted mean."""
    with scopes.variable_scope(name, "mean", (values, weights)):
        values = tf.cast(values, dtypes.float32)
        total = metric_variable([], dtypes.float32, name="total")
        count = metric_variable([], dtypes.float32, name="count")
        if weights is None:
            number = tf.cast(tf.size(values), dtypes.float32)
        else:
            values, _, weights = fitted(values, None, weights)
            weights = broadcast_weights(tf.cast(weights, dtypes.float32), values)
            values = gen.Mul(values, weights)
            number = tf.reduce_sum(weights)
        update_total = tf.assign_add(total, tf.reduce_sum(values))
        with ops.control_dependencies([values]):
            update_count = tf.assign_add(count, number)
        value = divided(total, count, "value")
        update_op = divided(update_total, update_count, "update_op")
        return published(value, update_op, metrics_collections, updates_collections)


@export("metrics.accuracy")
def accuracy(labels, predictions, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """How often predictions are the labels."""
    predictions, labels, weights = fitted(predictions, labels, weights)
    predictions.shape.assert_is_compatible_with(labels.shape)
    if labels.dtype != predictions.dtype:
        predictions = tf.cast(predictions, labels.dtype)
    is_correct = tf.cast(gen.Equal(predictions, labels), dtypes.float32)
    return mean(is_correct, weights, metrics_collections, updates_collections, name or "accuracy")


@export("metrics.mean_tensor")
def mean_tensor(values, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The weighted mean of each element."""
    with scopes.variable_scope(name, "mean", (values, weights)):
        values = tf.cast(values, dtypes.float32)
        total = metric_variable(values.shape, dtypes.float32, name="total_tensor")
        count = metric_variable(values.shape, dtypes.float32, name="count_tensor")
        number = tf.ones_like(values)
        if weights is not None:
            values, _, weights = fitted(values, None, weights)
            weights = broadcast_weights(tf.cast(weights, dtypes.float32), values)
            values = gen.Mul(values, weights)
            number = gen.Mul(number, weights)
        update_total = tf.assign_add(total, values)
        with ops.control_dependencies([values]):
            update_count = tf.assign_add(count, number)
        value = divided(total, count, "value")
        update_op = divided(update_total, update_count, "update_op")
        return published(value, update_op, metrics_collections, updates_collections)


@export("metrics.mean_absolute_error")
def mean_absolute_error(labels, predictions, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The mean of absolute differences."""
    predictions, labels, weights = fitted(predictions, labels, weights)
    errors = tf.abs(predictions - labels)
    return mean(errors, weights, metrics_collections, updates_collections, name or "mean_absolute_error")


@export("metrics.mean_squared_error")
def mean_squared_error(labels, predictions, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The mean of squared differences."""
    predictions, labels, weights = fitted(predictions, labels, weights)
    errors = gen.SquaredDifference(labels, predictions)
    return mean(errors, weights, metrics_collections, updates_collections, name or "mean_squared_error")


@export("metrics.root_mean_squared_error")
def root_mean_squared_error(labels, predictions, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The root of the mean of squared differences."""
    predictions, labels, weights = fitted(predictions, labels, weights)
    mse, update_mse = mean_squared_error(labels, predictions, weights, None, None, name or "root_mean_squared_error")
    return published(gen.Sqrt(mse), gen.Sqrt(update_mse), metrics_collections, updates_collections)


@export("metrics.mean_relative_error")
def mean_relative_error(labels, predictions, normalizer, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The mean of absolute differences divided by a normalizer."""
    predictions, labels, weights = fitted(predictions, labels, weights)
    predictions, normalizer = remove_squeezable_dimensions(predictions, normalizer)
    predictions.shape.assert_is_compatible_with(normalizer.shape)
    errors = tf.where(gen.Equal(normalizer, 0.0), tf.zeros_like(labels), tf.div(tf.abs(labels - predictions), normalizer))
    return mean(errors, weights, metrics_collections, updates_collections, name or "mean_relative_error")


@export("metrics.mean_cosine_distance")
def mean_cosine_distance(labels, predictions, dim, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The mean of one minus the product of vectors."""
    predictions, labels, weights = fitted(predictions, labels, weights)
    products = gen.Mul(predictions, labels)
    sums = tf.reduce_sum(products, axis=[dim], keepdims=True)
    distance, update_op = mean(sums, weights, None, None, name or "mean_cosine_distance")
    distance = gen.Sub(1.0, distance)
    update_op = gen.Sub(1.0, update_op)
    return published(distance, update_op, metrics_collections, updates_collections)


@export("metrics.percentage_below")
def percentage_below(values, threshold, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The share of values below a threshold."""
    is_below = tf.cast(gen.Less(values, threshold), dtypes.float32)
    return mean(is_below, weights, metrics_collections, updates_collections, name or "percentage_below_threshold")


def _streaming_confusion_matrix(labels, predictions, num_classes, weights=None):
    total = metric_variable([num_classes, num_classes], dtypes.float64, name="total_confusion_matrix")
    predictions = tf.cast(predictions, dtypes.int64)
    labels = tf.cast(labels, dtypes.int64)
    num_classes = tf.cast(num_classes, dtypes.int64)
    if predictions.shape.ndims > 1:
        predictions = tf.reshape(predictions, [-1])
    if labels.shape.ndims > 1:
        labels = tf.reshape(labels, [-1])
    if weights is not None and weights.shape.ndims > 1:
        weights = tf.reshape(weights, [-1])
    current = tf.confusion_matrix(labels, predictions, num_classes, weights=weights, dtype=dtypes.float64)
    return total, tf.assign_add(total, current)


@export("metrics.mean_iou")
def mean_iou(labels, predictions, num_classes, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The mean over classes of intersection over union."""
    with scopes.variable_scope(name, "mean_iou", (predictions, labels, weights)):
        predictions.shape.assert_is_compatible_with(labels.shape)
        total, update_op = _streaming_confusion_matrix(labels, predictions, num_classes, weights)
        over_row = tf.cast(tf.reduce_sum(total, 0), dtypes.float32)
        over_column = tf.cast(tf.reduce_sum(total, 1), dtypes.float32)
        diagonal = tf.cast(tf.diag_part(total), dtypes.float32)
        denominator = over_row + over_column - diagonal
        valid = tf.reduce_sum(tf.cast(gen.NotEqual(denominator, 0), dtype=dtypes.float32))
        denominator = tf.where(gen.Greater(denominator, 0), denominator, tf.ones_like(denominator))
        iou = tf.div(diagonal, denominator)
        value = tf.where(gen.Greater(valid, 0), tf.reduce_sum(iou, name="mean_iou") / valid, 0)
        return published(value, update_op, metrics_collections, updates_collections)


@export("metrics.mean_per_class_accuracy")
def mean_per_class_accuracy(labels, predictions, num_classes, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The mean over classes of their accuracy."""
    with scopes.variable_scope(name, "mean_accuracy", (predictions, labels, weights)):
        labels = tf.cast(labels, dtypes.int64)
        if labels.shape.ndims > 1:
            labels = tf.reshape(labels, [-1])
        if predictions.shape.ndims > 1:
            predictions = tf.reshape(predictions, [-1])
        predictions.shape.assert_is_compatible_with(labels.shape)
        total = metric_variable([num_classes], dtypes.float32, name="total")
        count = metric_variable([num_classes], dtypes.float32, name="count")
        ones = tf.ones([tf.size(labels)], dtypes.float32)
        if labels.dtype != predictions.dtype:
            predictions = tf.cast(predictions, labels.dtype)
        is_correct = tf.cast(gen.Equal(predictions, labels), dtypes.float32)
        if weights is not None:
            if weights.shape.ndims > 1:
                weights = tf.reshape(weights, [-1])
            weights = tf.cast(weights, dtypes.float32)
            is_correct *= weights
            ones *= weights
        update_total = tf.scatter_add(total, labels, ones)
        update_count = tf.scatter_add(count, labels, is_correct)
        per_class = divided(count, total, None)
        value = tf.reduce_mean(per_class, name="mean_accuracy")
        update_op = divided(update_count, update_total, "update_op")
        return published(value, update_op, metrics_collections, updates_collections)
