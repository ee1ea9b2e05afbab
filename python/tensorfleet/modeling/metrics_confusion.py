"""`tf.metrics`: counts of true and false predictions, precision, recall, and curves over thresholds."""

import tensorfleet as tf
from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.export import export
from tensorfleet.modeling.loss_weights import broadcast_weights
from tensorfleet.modeling.metrics import fitted, metric_variable, published
from tensorfleet.ops import variable_scope as scopes

#: Keeps quotients finite where a count is zero.
_EPSILON = 1e-7
_AREA_EPSILON = 1.0e-6


def _count_condition(values, weights=None, metrics_collections=None, updates_collections=None):
    """The weighted number of elements that are true."""
    tf.assert_type(values, dtypes.bool)
    count = metric_variable([], dtypes.float32, name="count")
    values = tf.cast(values, dtypes.float32)
    if weights is not None:
        with ops.control_dependencies((tf.assert_rank_in(weights, (0, tf.rank(values))),)):
            weights = tf.cast(weights, dtypes.float32)
            values = gen.Mul(values, weights)
    value = gen.Identity(count)
    update_op = tf.assign_add(count, tf.reduce_sum(values))
    return published(value, update_op, metrics_collections, updates_collections)


def _counted(scope, truth, predicted, labels, predictions, weights, metrics_collections, updates_collections, name):
    with scopes.variable_scope(name, scope, (predictions, labels, weights)):
        predictions, labels, weights = fitted(tf.cast(predictions, dtype=dtypes.bool), tf.cast(labels, dtype=dtypes.bool), weights)
        condition = gen.LogicalAnd(gen.Equal(labels, truth), gen.Equal(predictions, predicted))
        return _count_condition(condition, weights, metrics_collections, updates_collections)


@export("metrics.true_positives")
def true_positives(labels, predictions, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """How many are true and were predicted so."""
    return _counted("true_positives", True, True, labels, predictions, weights, metrics_collections, updates_collections, name)


@export("metrics.true_negatives")
def true_negatives(labels, predictions, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """How many are false and were predicted so."""
    return _counted("true_negatives", False, False, labels, predictions, weights, metrics_collections, updates_collections, name)


@export("metrics.false_positives")
def false_positives(labels, predictions, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """How many are false and were predicted true."""
    return _counted("false_positives", False, True, labels, predictions, weights, metrics_collections, updates_collections, name)


@export("metrics.false_negatives")
def false_negatives(labels, predictions, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """How many are true and were predicted false."""
    return _counted("false_negatives", True, False, labels, predictions, weights, metrics_collections, updates_collections, name)


def _quotient(scope, count, labels, predictions, weights, metrics_collections, updates_collections, name):
    """True positives divided by themselves and another count."""
    with scopes.variable_scope(name, scope, (predictions, labels, weights)):
        predictions, labels, weights = fitted(tf.cast(predictions, dtype=dtypes.bool), tf.cast(labels, dtype=dtypes.bool), weights)
        true, true_update = true_positives(labels, predictions, weights)
        other, other_update = count(labels, predictions, weights)

        def compute(hits, misses, label):
            return tf.where(gen.Greater(hits + misses, 0), tf.div(hits, hits + misses), 0, label)

        value = compute(true, other, "value")
        update_op = compute(true_update, other_update, "update_op")
        return published(value, update_op, metrics_collections, updates_collections)


@export("metrics.precision")
def precision(labels, predictions, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The share of true ones among those predicted true."""
    return _quotient("precision", false_positives, labels, predictions, weights, metrics_collections, updates_collections, name)


@export("metrics.recall")
def recall(labels, predictions, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The share of those predicted true among the true ones."""
    return _quotient("recall", false_negatives, labels, predictions, weights, metrics_collections, updates_collections, name)


# ---- thresholds


def _at_thresholds(labels, predictions, thresholds, weights=None, includes=("tp", "fn", "tn", "fp")):
    """Counts for each threshold: dicts of values and of updates."""
    with ops.control_dependencies(
        [
            tf.assert_greater_equal(predictions, tf.cast(0.0, dtype=predictions.dtype), message="predictions must be in [0, 1]"),
            tf.assert_less_equal(predictions, tf.cast(1.0, dtype=predictions.dtype), message="predictions must be in [0, 1]"),
        ]
    ):
        predictions, labels, weights = fitted(tf.cast(predictions, dtype=dtypes.float32), tf.cast(labels, dtype=dtypes.bool), weights)
    count = len(thresholds)
    predictions_2d = tf.reshape(predictions, [-1, 1])
    labels_2d = tf.reshape(tf.cast(labels, dtype=dtypes.bool), [1, -1])
    number = predictions_2d.shape.as_list()[0]
    if number is None:
        number = tf.shape(predictions_2d)[0]
    tiled_thresholds = tf.tile(tf.expand_dims(tf.constant(thresholds), [1]), tf.stack([1, number]))
    positive = gen.Greater(tf.tile(tf.transpose(predictions_2d), [count, 1]), tiled_thresholds)
    negative = gen.LogicalNot(positive) if "fn" in includes or "tn" in includes else None
    is_true = tf.tile(labels_2d, [count, 1])
    is_false = gen.LogicalNot(is_true) if "fp" in includes or "tn" in includes else None
    tiled_weights = None
    if weights is not None:
        weights = broadcast_weights(tf.cast(weights, dtype=dtypes.float32), predictions)
        tiled_weights = tf.tile(tf.reshape(weights, [1, -1]), [count, 1])
        count_shape = tiled_thresholds.shape
        count_shape.assert_is_compatible_with(tiled_weights.shape)
    values, updates = {}, {}
    parts = {
        "tp": ("true_positives", "is_true_positive", is_true, positive),
        "fn": ("false_negatives", "is_false_negative", is_true, negative),
        "tn": ("true_negatives", "is_true_negative", is_false, negative),
        "fp": ("false_positives", "is_false_positive", is_false, positive),
    }
    for key, (variable_name, _, truth, predicted) in parts.items():
        if key not in includes:
            continue
        variable = metric_variable([count], dtypes.float32, name=variable_name)
        hits = tf.cast(gen.LogicalAnd(truth, predicted), dtype=dtypes.float32)
        if tiled_weights is not None:
            hits *= tiled_weights
        updates[key] = tf.assign_add(variable, tf.reduce_sum(hits, 1))
        values[key] = variable
    return values, updates


def _one_at_thresholds(key, scope, labels, predictions, thresholds, weights, metrics_collections, updates_collections, name):
    with scopes.variable_scope(name, scope, (predictions, labels, weights)):
        values, updates = _at_thresholds(labels, predictions, thresholds, weights=weights, includes=(key,))
        value = gen.Identity(values[key])
        return published(value, updates[key], metrics_collections, updates_collections)


@export("metrics.true_positives_at_thresholds")
def true_positives_at_thresholds(labels, predictions, thresholds, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """True positives for each threshold."""
    return _one_at_thresholds("tp", "true_positives", labels, predictions, thresholds, weights, metrics_collections, updates_collections, name)


@export("metrics.true_negatives_at_thresholds")
def true_negatives_at_thresholds(labels, predictions, thresholds, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """True negatives for each threshold."""
    return _one_at_thresholds("tn", "true_negatives", labels, predictions, thresholds, weights, metrics_collections, updates_collections, name)


@export("metrics.false_positives_at_thresholds")
def false_positives_at_thresholds(labels, predictions, thresholds, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """False positives for each threshold."""
    return _one_at_thresholds("fp", "false_positives", labels, predictions, thresholds, weights, metrics_collections, updates_collections, name)


@export("metrics.false_negatives_at_thresholds")
def false_negatives_at_thresholds(labels, predictions, thresholds, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """False negatives for each threshold."""
    return _one_at_thresholds("fn", "false_negatives", labels, predictions, thresholds, weights, metrics_collections, updates_collections, name)


def _quotient_at_thresholds(other, kind, scope, labels, predictions, thresholds, weights, metrics_collections, updates_collections, name):
    with scopes.variable_scope(name, scope, (predictions, labels, weights)):
        values, updates = _at_thresholds(labels, predictions, thresholds, weights, includes=("tp", other))

        def compute(hits, misses, label):
            return tf.div(hits, _EPSILON + hits + misses, name=f"{kind}_{label}")

        value = compute(values["tp"], values[other], "value")
        update_op = compute(updates["tp"], updates[other], "update_op")
        return published(value, update_op, metrics_collections, updates_collections)


@export("metrics.precision_at_thresholds")
def precision_at_thresholds(labels, predictions, thresholds, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """Precision for each threshold."""
    return _quotient_at_thresholds("fp", "precision", "precision_at_thresholds", labels, predictions, thresholds, weights, metrics_collections, updates_collections, name)


@export("metrics.recall_at_thresholds")
def recall_at_thresholds(labels, predictions, thresholds, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """Recall for each threshold."""
    return _quotient_at_thresholds("fn", "recall", "recall_at_thresholds", labels, predictions, thresholds, weights, metrics_collections, updates_collections, name)


def _even_thresholds(count):
    """Thresholds from just below zero to just above one."""
    inner = [(i + 1) * 1.0 / (count - 1) for i in range(count - 2)]
    return [0.0 - _EPSILON] + inner + [1.0 + _EPSILON]


def _auc(values, curve, summation_method, count, name):
    tp, fn, tn, fp = (values[key] for key in ("tp", "fn", "tn", "fp"))
    if summation_method == "careful_interpolation":
        if curve == "ROC":
            raise ValueError("careful_interpolation is for PR curves")
        return _interpolated_auc(tp, fp, fn, count, name)
    recall_ = tf.div(tp + _AREA_EPSILON, tp + fn + _AREA_EPSILON)
    if curve == "ROC":
        x, y = tf.div(fp, fp + tn + _AREA_EPSILON), recall_
    else:
        x, y = recall_, tf.div(tp + _AREA_EPSILON, tp + fp + _AREA_EPSILON)
    steps = x[: count - 1] - x[1:]
    if summation_method in ("trapezoidal", "careful_interpolation"):
        return tf.reduce_sum(gen.Mul(steps, (y[: count - 1] + y[1:]) / 2.0), name=name)
    if summation_method == "minoring":
        return tf.reduce_sum(gen.Mul(steps, gen.Minimum(y[: count - 1], y[1:])), name=name)
    if summation_method == "majoring":
        return tf.reduce_sum(gen.Mul(steps, gen.Maximum(y[: count - 1], y[1:])), name=name)
    raise ValueError(f"Invalid summation_method: {summation_method}")


def _interpolated_auc(tp, fp, fn, count, name):
    """The area under a precision-recall curve whose points are joined as counts, not as straight lines."""
    dtp = tp[: count - 1] - tp[1:]
    p = tp + fp
    slope = tf.div_no_nan(dtp, gen.Maximum(p[: count - 1] - p[1:], 0), name="prec_slope")
    intercept = tp[1:] - gen.Mul(slope, p[1:])
    ratio = tf.where(
        gen.LogicalAnd(p[: count - 1] > 0, p[1:] > 0),
        tf.div_no_nan(p[: count - 1], gen.Maximum(p[1:], 0), name="recall_relative_ratio"),
        tf.ones_like(p[1:]),
    )
    return tf.reduce_sum(tf.div_no_nan(slope * (dtp + intercept * gen.Log(ratio)), gen.Maximum(tp[1:] + fn[1:], 0), name="pr_auc_increment"), name="interpolate_pr_auc")


@export("metrics.auc")
def auc(labels, predictions, weights=None, num_thresholds=200, metrics_collections=None, updates_collections=None, curve="ROC", name=None, summation_method="trapezoidal", thresholds=None):
    """The area under the ROC or the precision-recall curve."""
    with scopes.variable_scope(name, "auc", (labels, predictions, weights)):
        if curve not in ("ROC", "PR"):
            raise ValueError("curve must be either ROC or PR, %s unknown" % (curve))
        if thresholds is not None:
            thresholds = [0.0 - _EPSILON] + sorted(thresholds) + [1.0 + _EPSILON]
            num_thresholds = len(thresholds)
        else:
            thresholds = _even_thresholds(num_thresholds)
        values, updates = _at_thresholds(labels, predictions, thresholds, weights)
        value = _auc(values, curve, summation_method, num_thresholds, "value")
        update_op = _auc(updates, curve, summation_method, num_thresholds, "update_op")
        return published(value, update_op, metrics_collections, updates_collections)


@export("metrics.specificity_at_sensitivity")
def specificity_at_sensitivity(labels, predictions, sensitivity, weights=None, num_thresholds=200, metrics_collections=None, updates_collections=None, name=None):
    """The specificity at the threshold where the sensitivity is nearest to a given one."""
    if sensitivity < 0 or sensitivity > 1:
        raise ValueError("`sensitivity` must be in the range [0, 1].")
    with scopes.variable_scope(name, "specificity_at_sensitivity", (predictions, labels, weights)):
        values, updates = _at_thresholds(labels, predictions, _even_thresholds(num_thresholds), weights)

        def compute(counts, label):
            sensitivities = tf.div(counts["tp"], counts["tp"] + counts["fn"] + _EPSILON)
            nearest = tf.reduce_min(tf.abs(sensitivities - sensitivity))
            # Of equally near thresholds the last counts.
            ties = gen.Equal(tf.abs(sensitivities - sensitivity), nearest)
            index = tf.cast(tf.argmax(tf.cumsum(tf.cast(ties, dtypes.int64)), 0), dtypes.int32)
            return tf.div(counts["tn"][index], counts["tn"][index] + counts["fp"][index] + _EPSILON, label)

        return published(compute(values, "value"), compute(updates, "update_op"), metrics_collections, updates_collections)


@export("metrics.sensitivity_at_specificity")
def sensitivity_at_specificity(labels, predictions, specificity, weights=None, num_thresholds=200, metrics_collections=None, updates_collections=None, name=None):
    """The sensitivity at the threshold where the specificity is nearest to a given one."""
    if specificity < 0 or specificity > 1:
        raise ValueError("`specificity` must be in the range [0, 1].")
    with scopes.variable_scope(name, "sensitivity_at_specificity", (predictions, labels, weights)):
        values, updates = _at_thresholds(labels, predictions, _even_thresholds(num_thresholds), weights)

        def compute(counts, label):
            specificities = tf.div(counts["tn"], counts["tn"] + counts["fp"] + _EPSILON)
            index = tf.cast(tf.argmin(tf.abs(specificities - specificity), 0), dtypes.int32)
            return tf.div(counts["tp"][index], counts["tp"][index] + counts["fn"][index] + _EPSILON, label)

        return published(compute(values, "value"), compute(updates, "update_op"), metrics_collections, updates_collections)
