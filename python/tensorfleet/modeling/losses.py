"""`tf.losses`: losses of predictions and labels, with weights and a reduction; they join a collection."""

import tensorfleet as tf
from tensorfleet.framework import constant, dtypes, gen, ops
from tensorfleet.framework.export import export
from tensorfleet.modeling.loss_weights import assert_broadcastable, broadcast_weights, remove_squeezable_dimensions, squeezed_weights

_LOSSES = ops.GraphKeys.LOSSES


@export("losses.Reduction")
class Reduction:
    """How the losses of examples become one."""

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def all(cls):
        return (cls.NONE, cls.SUM, cls.MEAN, cls.SUM_OVER_BATCH_SIZE, cls.SUM_OVER_NONZERO_WEIGHTS, cls.SUM_BY_NONZERO_WEIGHTS)

    @classmethod
    def validate(cls, key):
        if key not in cls.all():
            raise ValueError(f"Invalid Reduction Key {key}.")


_DEFAULT = Reduction.SUM_BY_NONZERO_WEIGHTS


# ---- collections


@export("losses.add_loss")
def add_loss(loss, loss_collection=_LOSSES):
    """Adds a loss to a collection."""
    if loss_collection:
        ops.add_to_collection(loss_collection, loss)


@export("losses.get_losses")
def get_losses(scope=None, loss_collection=_LOSSES):
    """The losses of a collection."""
    return ops.get_collection(loss_collection, scope)


@export("losses.get_regularization_losses")
def get_regularization_losses(scope=None):
    """The penalties of variables."""
    return ops.get_collection(ops.GraphKeys.REGULARIZATION_LOSSES, scope)


@export("losses.get_regularization_loss")
def get_regularization_loss(scope=None, name="total_regularization_loss"):
    """The sum of the penalties of variables."""
    losses = get_regularization_losses(scope)
    return tf.add_n(losses, name=name) if losses else constant.constant(0.0)


@export("losses.get_total_loss")
def get_total_loss(add_regularization_losses=True, name="total_loss", scope=None):
    """The sum of all losses."""
    losses = get_losses(scope=scope)
    if add_regularization_losses:
        losses += get_regularization_losses(scope=scope)
    return tf.add_n(losses, name=name)


# ---- weights and reductions


def _safe_mean(losses, num_present):
    total = tf.reduce_sum(losses)
    return tf.div_no_nan(total, num_present, name="value")


def _num_present(losses, weights, per_batch=False):
    if isinstance(weights, float) and weights != 0.0:
        return _num_elements(losses)
    with ops.name_scope(None, "num_present", (losses, weights)) as scope:
        weights = tf.cast(weights, dtype=dtypes.float32)
        present = tf.where(gen.Equal(weights, 0.0), tf.zeros_like(weights), tf.ones_like(weights))
        present = broadcast_weights(present, losses)
        if per_batch:
            return tf.reduce_sum(present, axis=tf.range(1, tf.rank(present)), keepdims=True, name=scope)
        return tf.reduce_sum(present, name=scope)


def _num_elements(losses):
    with ops.name_scope(None, "num_elements", values=[losses]) as scope:
        return tf.cast(tf.size(losses, name=scope), dtype=losses.dtype)


@export("losses.compute_weighted_loss")
def compute_weighted_loss(losses, weights=1.0, scope=None, loss_collection=_LOSSES, reduction=_DEFAULT):
    """The losses times their weights, as one number or, without a reduction, as they are."""
    Reduction.validate(reduction)
    with ops.name_scope(scope, "weighted_loss", (losses, weights)):
        ops.get_default_graph()._last_loss_reduction = reduction
        with ops.control_dependencies((assert_broadcastable(weights, losses),)):
            losses = ops.convert_to_tensor(losses)
            input_dtype = losses.dtype
            losses = tf.cast(losses, dtype=dtypes.float32)
            weights = tf.cast(weights, dtype=dtypes.float32)
            weighted = gen.Mul(losses, weights)
            loss = weighted if reduction == Reduction.NONE else _reduced(weighted, losses, weights, reduction)
            loss = tf.cast(loss, input_dtype)
            add_loss(loss, loss_collection)
            return loss


def _reduced(weighted, losses, weights, reduction):
    loss = tf.reduce_sum(weighted)
    if reduction == Reduction.MEAN:
        return _safe_mean(loss, tf.reduce_sum(tf.ones_like(losses) * weights))
    if reduction == Reduction.SUM_BY_NONZERO_WEIGHTS:
        return _safe_mean(loss, _num_present(losses, weights))
    if reduction == Reduction.SUM_OVER_BATCH_SIZE:
        return _safe_mean(loss, _num_elements(losses))
    return loss


def _given(labels, predictions, second="predictions"):
    if labels is None:
        raise ValueError("labels must not be None.")
    if predictions is None:
        raise ValueError(f"{second} must not be None.")


def _as_floats(labels, predictions):
    predictions = tf.cast(predictions, dtype=dtypes.float32)
    labels = tf.cast(labels, dtype=dtypes.float32)
    predictions.shape.assert_is_compatible_with(labels.shape)
    return labels, predictions


# ---- losses


@export("losses.absolute_difference")
def absolute_difference(labels, predictions, weights=1.0, scope=None, loss_collection=_LOSSES, reduction=_DEFAULT):
    """The absolute differences."""
    _given(labels, predictions)
    with ops.name_scope(scope, "absolute_difference", (predictions, labels, weights)) as scope:
        labels, predictions = _as_floats(labels, predictions)
        losses = tf.abs(gen.Sub(predictions, labels))
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction=reduction)


@export("losses.cosine_distance")
def cosine_distance(labels, predictions, axis=None, weights=1.0, scope=None, loss_collection=_LOSSES, reduction=_DEFAULT, dim=None):
    """One minus the product of vectors, which should be of length one."""
    from tensorfleet.ops.nn_activation import renamed_argument

    axis = renamed_argument("axis", axis, "dim", dim)
    if axis is None:
        raise ValueError("You must specify 'axis'.")
    _given(labels, predictions)
    with ops.name_scope(scope, "cosine_distance_loss", (predictions, labels, weights)) as scope:
        labels, predictions = _as_floats(labels, predictions)
        products = gen.Mul(predictions, labels)
        losses = 1 - tf.reduce_sum(products, axis=(axis,), keepdims=True)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction=reduction)


@export("losses.hinge_loss")
def hinge_loss(labels, logits, weights=1.0, scope=None, loss_collection=_LOSSES, reduction=_DEFAULT):
    """The hinge loss of labels 0 and 1."""
    _given(labels, logits, "logits")
    with ops.name_scope(scope, "hinge_loss", (logits, labels, weights)) as scope:
        labels, logits = _as_floats(labels, logits)
        ones = tf.ones_like(labels)
        labels = gen.Sub(2 * labels, ones)
        losses = gen.Relu(gen.Sub(ones, gen.Mul(labels, logits)))
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction=reduction)


@export("losses.huber_loss")
def huber_loss(labels, predictions, weights=1.0, delta=1.0, scope=None, loss_collection=_LOSSES, reduction=_DEFAULT):
    """Half the square of small differences; large ones count linearly."""
    _given(labels, predictions)
    with ops.name_scope(scope, "huber_loss", (predictions, labels, weights)) as scope:
        labels, predictions = _as_floats(labels, predictions)
        size = tf.abs(gen.Sub(predictions, labels))
        quadratic = gen.Minimum(size, delta)
        linear = gen.Sub(size, quadratic)
        half = ops.convert_to_tensor(0.5, dtype=quadratic.dtype)
        losses = gen.Add(gen.Mul(half, gen.Mul(quadratic, quadratic)), gen.Mul(delta, linear))
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction=reduction)


@export("losses.log_loss")
def log_loss(labels, predictions, weights=1.0, epsilon=1e-7, scope=None, loss_collection=_LOSSES, reduction=_DEFAULT):
    """The cross entropy of probabilities."""
    _given(labels, predictions)
    with ops.name_scope(scope, "log_loss", (predictions, labels, weights)) as scope:
        labels, predictions = _as_floats(labels, predictions)
        losses = -gen.Mul(labels, gen.Log(predictions + epsilon)) - gen.Mul((1 - labels), gen.Log(1 - predictions + epsilon))
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction=reduction)


@export("losses.mean_pairwise_squared_error")
def mean_pairwise_squared_error(labels, predictions, weights=1.0, scope=None, loss_collection=_LOSSES):
    """The mean square of the differences of differences of pairs."""
    _given(labels, predictions)
    with ops.name_scope(scope, "mean_pairwise_squared_error", (predictions, labels, weights)) as scope:
        weights = tf.cast(weights, dtype=dtypes.float32)
        labels = tf.cast(labels, dtype=dtypes.float32)
        with ops.control_dependencies((assert_broadcastable(weights, labels),)):
            predictions = tf.cast(predictions, dtype=dtypes.float32)
            predictions.shape.assert_is_compatible_with(labels.shape)
            diffs = gen.Sub(predictions, labels)
            axis = tf.range(1, tf.rank(diffs))
            squares = tf.reduce_sum(gen.Square(diffs), axis=axis, keepdims=True)
            present = _num_present(diffs, weights, per_batch=True)
            term1 = 2.0 * tf.div_no_nan(squares, gen.Maximum(present - 1, 0), name="value")
            sums = tf.reduce_sum(diffs, axis=axis, keepdims=True)
            term2 = 2.0 * tf.div_no_nan(gen.Square(sums), gen.Maximum(gen.Mul(present, present - 1), 0), name="value")
            weighted = gen.Mul(term1 - term2, weights)
            loss = tf.reduce_sum(weighted)
            mean = tf.where(tf.reduce_sum(present) > 0, loss, tf.zeros_like(loss), name="value")
            add_loss(mean, loss_collection)
            return mean


@export("losses.mean_squared_error")
def mean_squared_error(labels, predictions, weights=1.0, scope=None, loss_collection=_LOSSES, reduction=_DEFAULT):
    """The squared differences."""
    _given(labels, predictions)
    with ops.name_scope(scope, "mean_squared_error", (predictions, labels, weights)) as scope:
        labels, predictions = _as_floats(labels, predictions)
        losses = gen.SquaredDifference(predictions, labels)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction=reduction)


@export("losses.sigmoid_cross_entropy")
def sigmoid_cross_entropy(multi_class_labels, logits, weights=1.0, label_smoothing=0, scope=None, loss_collection=_LOSSES, reduction=_DEFAULT):
    """The cross entropy of independent classes."""
    if multi_class_labels is None:
        raise ValueError("multi_class_labels must not be None.")
    if logits is None:
        raise ValueError("logits must not be None.")
    with ops.name_scope(scope, "sigmoid_cross_entropy_loss", (logits, multi_class_labels, weights)) as scope:
        logits = ops.convert_to_tensor(logits)
        labels = tf.cast(multi_class_labels, logits.dtype)
        logits.shape.assert_is_compatible_with(labels.shape)
        if label_smoothing > 0:
            labels = labels * (1 - label_smoothing) + 0.5 * label_smoothing
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction=reduction)


@export("losses.softmax_cross_entropy")
def softmax_cross_entropy(onehot_labels, logits, weights=1.0, label_smoothing=0, scope=None, loss_collection=_LOSSES, reduction=_DEFAULT):
    """The cross entropy of exclusive classes."""
    if onehot_labels is None:
        raise ValueError("onehot_labels must not be None.")
    if logits is None:
        raise ValueError("logits must not be None.")
    with ops.name_scope(scope, "softmax_cross_entropy_loss", (logits, onehot_labels, weights)) as scope:
        logits = ops.convert_to_tensor(logits)
        labels = tf.cast(onehot_labels, logits.dtype)
        logits.shape.assert_is_compatible_with(labels.shape)
        if label_smoothing > 0:
            classes = tf.cast(tf.shape(labels)[-1], logits.dtype)
            positives = 1.0 - label_smoothing
            negatives = label_smoothing / classes
            labels = labels * positives + negatives
        labels = tf.stop_gradient(labels, name="labels_stop_gradient")
        losses = tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction=reduction)


def _fitted(labels, predictions, weights=None, expected_rank_diff=0):
    """Labels, predictions and weights without superfluous dimensions of 1."""
    labels, predictions = remove_squeezable_dimensions(labels, predictions, expected_rank_diff)
    if weights is not None:
        weights = ops.convert_to_tensor(weights)
        if weights.shape.ndims == 0:
            return labels, predictions, weights
        if labels.shape.ndims is not None and weights.shape.ndims is not None:
            if weights.shape.ndims - labels.shape.ndims == 1:
                weights = tf.squeeze(weights, [-1])
            return labels, predictions, weights
        weights = squeezed_weights(labels, weights)
    return labels, predictions, weights


@export("losses.sparse_softmax_cross_entropy")
def sparse_softmax_cross_entropy(labels, logits, weights=1.0, scope=None, loss_collection=_LOSSES, reduction=_DEFAULT):
    """The cross entropy of exclusive classes that are given by their numbers."""
    _given(labels, logits, "logits")
    with ops.name_scope(scope, "sparse_softmax_cross_entropy_loss", (logits, labels, weights)) as scope:
        labels, logits, weights = _fitted(labels, logits, weights, expected_rank_diff=1)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction=reduction)
