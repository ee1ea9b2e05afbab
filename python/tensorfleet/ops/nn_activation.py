"""Activations and the softmax family: `tf.nn.relu`, `tf.nn.softmax`, …."""

import numpy as np

import tensorfleet as tf
from tensorfleet.framework import constant, dtypes, gen, ops
from tensorfleet.framework.export import export


def renamed_argument(new_name, new_value, old_name, old_value):
    """The value of an argument that has an old and a new name; both at once are an error."""
    if old_value is not None:
        if new_value is not None:
            raise ValueError(f"Cannot specify both '{old_name}' and '{new_name}'")
        return old_value
    return new_value


def labels_and_logits(function_name, sentinel, labels, logits):
    """The two, which TensorFlow 1.x takes by name alone, because their order changed once.

    Programs of the years before say them by position, logits first, and are understood."""
    if sentinel is not None:
        if labels is None or logits is not None:
            raise ValueError(f"Only call `{function_name}` with named arguments (labels=..., logits=..., ...)")
        tf.logging.log_first_n(tf.logging.WARN, "%s: arguments without names are read as in TensorFlow 0.x: logits, labels", 1, function_name)
        logits = sentinel
    if labels is None or logits is None:
        raise ValueError("Both labels and logits must be provided.")
    return labels, logits


@export("nn.relu")
def relu(features, name=None):
    """`max(features, 0)`."""
    return gen.Relu(features, name=name)


@export("nn.relu6")
def relu6(features, name=None):
    """`min(max(features, 0), 6)`."""
    with ops.name_scope(name, "Relu6", [features]) as name:
        features = ops.convert_to_tensor(features, name="features")
        return gen.Relu6(features, name=name)


@export("nn.elu")
def elu(features, name=None):
    """`exp(features) - 1` below zero, `features` above."""
    return gen.Elu(features, name=name)


@export("nn.selu")
def selu(features, name=None):
    """The scaled exponential linear unit."""
    return gen.Selu(features, name=name)


@export("nn.leaky_relu")
def leaky_relu(features, alpha=0.2, name=None):
    """`max(features, alpha * features)`."""
    with ops.name_scope(name, "LeakyRelu", [features, alpha]) as name:
        features = ops.convert_to_tensor(features, name="features")
        if features.dtype.is_integer:
            features = tf.cast(features, dtypes.float32)
        if isinstance(alpha, np.ndarray):
            alpha = alpha.item()
        return gen.LeakyRelu(features, alpha=alpha, name=name)


@export("nn.crelu")
def crelu(features, name=None, axis=-1):
    """`relu` of the features and of their negation, side by side."""
    with ops.name_scope(name, "CRelu", [features]) as name:
        features = ops.convert_to_tensor(features, name="features")
        return gen.Relu(tf.concat([features, -features], axis, name=name))


@export("math.softplus", "nn.softplus")
def softplus(features, name=None):
    """`log(exp(features) + 1)`."""
    return gen.Softplus(features, name=name)


@export("math.softsign", "nn.softsign")
def softsign(features, name=None):
    """`features / (abs(features) + 1)`."""
    return gen.Softsign(features, name=name)


@export("nn.swish")
def swish(features):
    """`features * sigmoid(features)`."""
    features = ops.convert_to_tensor(features, name="features")
    sigmoid = gen.Sigmoid(features)
    return features * sigmoid


def _last_dimension_first(compute, logits, axis, name):
    """Applies an op that works on the last dimension to dimension `axis`."""
    logits = ops.convert_to_tensor(logits)
    rank = logits.shape.ndims
    if axis == -1 or (rank is not None and axis == rank - 1):
        return compute(logits, name=name)
    value = constant.constant_value(axis) if isinstance(axis, ops.Tensor) else axis
    if value is not None and rank is not None and not -rank <= value < rank:
        from tensorfleet.framework import errors

        raise errors.InvalidArgumentError(None, None, f"Dimension (dim) must be in the range [{-rank}, {rank}) where {rank} is the number of dimensions in the input. Received: dim={value}")
    number = tf.rank(logits)
    axis = tf.mod(axis, number) if rank is None else axis % rank
    number = tf.rank(logits)
    swapped = _swap_axis(logits, axis, tf.subtract(number, 1))
    result = _swap_axis(compute(swapped), axis, tf.subtract(number, 1), name=name)
    result.set_shape(logits.shape)
    return result


def _swap_axis(tensor, axis, last, name=None):
    order = tf.concat([tf.range(axis), [last], tf.range(axis + 1, last), [axis]], 0)
    return tf.transpose(tensor, order, name=name)


@export("math.softmax", "nn.softmax")
def softmax(logits, axis=None, name=None, dim=None):
    """`exp(logits) / reduce_sum(exp(logits), axis)`."""
    axis = renamed_argument("axis", axis, "dim", dim)
    return _last_dimension_first(gen.Softmax, logits, -1 if axis is None else axis, name)


@export("math.log_softmax", "nn.log_softmax")
def log_softmax(logits, axis=None, name=None, dim=None):
    """The logarithm of `softmax`."""
    axis = renamed_argument("axis", axis, "dim", dim)
    return _last_dimension_first(gen.LogSoftmax, logits, -1 if axis is None else axis, name)


@export("nn.l2_loss")
def l2_loss(t, name=None):
    """Half the sum of squares."""
    return gen.L2Loss(t, name=name)


@export("linalg.l2_normalize", "math.l2_normalize", "nn.l2_normalize")
def l2_normalize(x, axis=None, epsilon=1e-12, name=None, dim=None):
    """`x` divided by its length along `axis`."""
    axis = renamed_argument("axis", axis, "dim", dim)
    with ops.name_scope(name, "l2_normalize", [x]) as name:
        x = ops.convert_to_tensor(x, name="x")
        square_sum = tf.reduce_sum(gen.Square(x), axis, keepdims=True)
        inverse = gen.Rsqrt(gen.Maximum(square_sum, epsilon))
        return gen.Mul(x, inverse, name=name)


@export("math.top_k", "nn.top_k")
def top_k(input, k=1, sorted=True, name=None):
    """The largest `k` elements of each row and their positions."""
    return gen.TopKV2(input, k, sorted=sorted, name=name)


@export("math.in_top_k", "nn.in_top_k")
def in_top_k(predictions, targets, k, name=None):
    """Whether each target is among the largest `k` predictions of its row."""
    with ops.name_scope(name, "in_top_k"):
        return gen.InTopKV2(predictions, targets, k, name=name)


@export("math.zero_fraction", "nn.zero_fraction")
def zero_fraction(value, name=None):
    """The share of elements that are zero."""
    with ops.name_scope(name, "zero_fraction", [value]):
        value = ops.convert_to_tensor(value, name="value")
        size = tf.size(value, out_type=dtypes.int64)
        # Counts that fit into 32 bits are summed in them: it is faster.
        nonzero = tf.cond(
            size <= dtypes.int32.max,
            true_fn=lambda: tf.cast(_count_nonzero(value, dtypes.int32), dtype=dtypes.int64),
            false_fn=lambda: _count_nonzero(value, dtypes.int64),
        )
        with ops.name_scope("counts_to_fraction"):
            zeros = size - nonzero
            share = tf.cast(zeros, dtypes.float32) / tf.cast(size, dtypes.float32)
        return gen.Identity(share, name="fraction")


def _count_nonzero(value, dtype):
    with ops.name_scope("count_nonzero", values=[value]):
        zero = tf.zeros([], dtype=value.dtype)
        return tf.reduce_sum(tf.cast(gen.NotEqual(value, zero), dtype), name="nonzero_count")
