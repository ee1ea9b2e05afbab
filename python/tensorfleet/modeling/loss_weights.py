"""Weights of losses and metrics: what shapes fit, and spreading them over the values."""

import tensorfleet as tf
from tensorfleet.framework import constant, gen, ops

_MISFIT = "weights can not be broadcast to values."


def _described(tensor, scope):
    with ops.name_scope(None, scope, (tensor,)) as own:
        tensor = ops.convert_to_tensor(tensor, name=own)
        shape = tf.shape(tensor, name="shape")
        rank = tf.rank(tensor, name="rank")
    return tensor, shape, rank


def assert_broadcastable(weights, values):
    """An operation that fails unless the weights are a scalar or have 1 or the values' size in each dimension."""
    with ops.name_scope(None, "assert_broadcastable", (weights, values)) as scope:
        weights, weights_shape, weights_rank = _described(weights, "weights")
        values, values_shape, values_rank = _described(values, "values")
        weights_known, values_known = constant.constant_value(weights_rank), constant.constant_value(values_rank)
        if weights_known is not None and values_known is not None:
            if weights_known == 0:
                return tf.no_op(name="static_scalar_check_success")
            if weights_known != values_known:
                raise ValueError(f"{_MISFIT} values.rank={values_known}. weights.rank={weights_known}. values.shape={values.shape}. weights.shape={weights.shape}.")
            ours, theirs = constant.constant_value(weights_shape), constant.constant_value(values_shape)
            if ours is not None and theirs is not None:
                for index in range(len(theirs)):
                    if ours[index] not in (1, theirs[index]):
                        raise ValueError(f"{_MISFIT} Mismatch at dim {index}. values.shape={theirs} weights.shape={ours}.")
                return tf.no_op(name="static_dims_check_success")
        is_scalar = gen.Equal(0, weights_rank, name="is_scalar")
        data = (_MISFIT, "weights.shape=", weights.name, weights_shape, "values.shape=", values.name, values_shape, "is_scalar=", is_scalar)
        is_valid = tf.cond(is_scalar, lambda: is_scalar, lambda: _valid_shape(weights_rank, weights_shape, values_rank, values_shape), name="is_valid_shape")
        return tf.Assert(is_valid, data, name=scope)


def _valid_shape(weights_rank, weights_shape, values_rank, values_shape):
    with ops.name_scope(None, "has_valid_nonscalar_shape", (weights_rank, weights_shape, values_rank, values_shape)) as scope:
        is_same_rank = gen.Equal(values_rank, weights_rank, name="is_same_rank")
        return tf.cond(is_same_rank, lambda: _valid_dims(weights_shape, values_shape), lambda: is_same_rank, name=scope)


def _valid_dims(weights_shape, values_shape):
    with ops.name_scope(None, "has_invalid_dims", (weights_shape, values_shape)) as scope:
        values_2d = tf.expand_dims(values_shape, -1)
        valid = tf.concat((values_2d, tf.ones_like(values_2d)), axis=1)
        weights_2d = tf.expand_dims(weights_shape, -1)
        invalid = gen.DenseToDenseSetOperation(weights_2d, valid, set_operation="a-b")
        count = tf.size(invalid.result_values, name="num_invalid_dims")
        return gen.Equal(0, count, name=scope)


def broadcast_weights(weights, values):
    """The weights in the shape of the values."""
    with ops.name_scope(None, "broadcast_weights", (weights, values)) as scope:
        values = ops.convert_to_tensor(values, name="values")
        weights = ops.convert_to_tensor(weights, dtype=values.dtype.base_dtype, name="weights")
        if weights.shape.is_fully_defined() and values.shape.is_fully_defined() and weights.shape.is_compatible_with(values.shape):
            return weights
        with ops.control_dependencies((assert_broadcastable(weights, values),)):
            return gen.Mul(weights, tf.ones_like(values), name=scope)


def remove_squeezable_dimensions(labels, predictions, expected_rank_diff=0, name=None):
    """Labels and predictions without a last dimension of 1 that only one of them has."""
    with ops.name_scope(name, "remove_squeezable_dimensions", [labels, predictions]):
        predictions = ops.convert_to_tensor(predictions)
        labels = ops.convert_to_tensor(labels)
        theirs, ours = predictions.shape, labels.shape
        if theirs.ndims is not None and ours.ndims is not None:
            difference = theirs.ndims - ours.ndims
            if difference == expected_rank_diff + 1 and theirs.dims[-1].is_compatible_with(1):
                predictions = tf.squeeze(predictions, [-1])
            elif difference == expected_rank_diff - 1 and ours.dims[-1].is_compatible_with(1):
                labels = tf.squeeze(labels, [-1])
            return labels, predictions
        difference = tf.rank(predictions) - tf.rank(labels)
        if theirs.ndims is None or theirs.dims[-1].is_compatible_with(1):
            values = predictions
            predictions = tf.cond(gen.Equal(expected_rank_diff + 1, difference), lambda: tf.squeeze(values, [-1]), lambda: values)
        if ours.ndims is None or ours.dims[-1].is_compatible_with(1):
            truth = labels
            labels = tf.cond(gen.Equal(expected_rank_diff - 1, difference), lambda: tf.squeeze(truth, [-1]), lambda: truth)
        return labels, predictions


def squeezed_weights(values, weights):
    """Weights with one dimension more or less than the values, made to fit."""
    weights_rank, values_rank = weights.shape.ndims, values.shape.ndims
    if weights_rank is not None and values_rank is not None:
        if weights_rank - values_rank == 1:
            weights = tf.squeeze(weights, [-1])
        elif values_rank - weights_rank == 1:
            weights = tf.expand_dims(weights, [-1])
        return weights
    rank = tf.rank(weights)
    difference = rank - tf.rank(values)

    def squeezed():
        return tf.cond(gen.Equal(difference, 1), lambda: tf.squeeze(weights, [-1]), lambda: weights) if weights_rank is None or weights.shape.dims[-1].is_compatible_with(1) else weights

    def adjusted():
        return tf.cond(gen.Equal(difference, -1), lambda: tf.expand_dims(weights, [-1]), squeezed)

    return tf.cond(gen.Equal(rank, 0), lambda: weights, adjusted)


def scaled(losses, weights):
    """Losses times weights of the same or a smaller rank."""
    weights = broadcast_weights(squeezed_weights(losses, tf.cast(weights, losses.dtype)), losses)
    return gen.Mul(losses, weights)
