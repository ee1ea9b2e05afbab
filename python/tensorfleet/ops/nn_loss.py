"""Losses of `tf.nn`: cross entropies, the Poisson loss, means over replicas."""

import numpy as np

import tensorfleet as tf
from tensorfleet.framework import constant, dtypes, gen, ops
from tensorfleet.framework.export import export
from tensorfleet.ops.nn_activation import labels_and_logits, renamed_argument


@export("nn.sigmoid_cross_entropy_with_logits")
def sigmoid_cross_entropy_with_logits(_sentinel=None, labels=None, logits=None, name=None):
    """The cross entropy of independent classes: `max(x, 0) - x * z + log(1 + exp(-abs(x)))`."""
    labels, logits = labels_and_logits("sigmoid_cross_entropy_with_logits", _sentinel, labels, logits)
    with ops.name_scope(name, "logistic_loss", [logits, labels]) as name:
        logits = ops.convert_to_tensor(logits, name="logits")
        labels = ops.convert_to_tensor(labels, name="labels")
        _same_shape(labels, logits, "logits and labels")
        zeros = tf.zeros_like(logits, dtype=logits.dtype)
        positive = logits >= zeros
        kept = tf.where(positive, logits, zeros)
        negative_abs = tf.where(positive, -logits, logits)
        return gen.Add(kept - logits * labels, gen.Log1p(gen.Exp(negative_abs)), name=name)


def _same_shape(one, other, what):
    try:
        one.shape.merge_with(other.shape)
    except ValueError:
        raise ValueError(f"{what} must have the same shape ({other.shape} vs {one.shape})") from None


@export("nn.weighted_cross_entropy_with_logits")
def weighted_cross_entropy_with_logits(labels=None, logits=None, pos_weight=None, name=None, targets=None):
    """The sigmoid cross entropy with a weight for the positive class."""
    labels = renamed_argument("labels", labels, "targets", targets)
    with ops.name_scope(name, "logistic_loss", [logits, labels]) as name:
        logits = ops.convert_to_tensor(logits, name="logits")
        labels = ops.convert_to_tensor(labels, name="labels")
        _same_shape(labels, logits, "logits and labels")
        weight = 1 + (pos_weight - 1) * labels
        return gen.Add(
            (1 - labels) * logits,
            weight * (gen.Log1p(gen.Exp(-tf.abs(logits))) + gen.Relu(-logits)),
            name=name,
        )


def _flatten_outer_dims(logits):
    """All dimensions but the last as one."""
    rank = tf.rank(logits)
    last = tf.slice(tf.shape(logits), [tf.subtract(rank, 1)], [1])
    output = tf.reshape(logits, tf.concat([[-1], last], 0))
    shape = logits.shape
    if shape.ndims is not None:
        dims = shape.as_list()
        product = 1
        for dim in dims[:-1]:
            product = None if product is None or dim is None else product * dim
        output.set_shape([product, dims[-1]])
    return output


def _softmax_cross_entropy(labels, logits, axis, name, default_name):
    with ops.name_scope(name, default_name, [logits, labels]) as name:
        logits = ops.convert_to_tensor(logits, name="logits")
        labels = ops.convert_to_tensor(labels, name="labels")
        convert = logits.dtype in (dtypes.float16, dtypes.bfloat16)
        precise = tf.cast(logits, dtypes.float32) if convert else logits
        labels = tf.cast(labels, precise.dtype) if convert or labels.dtype != precise.dtype else labels
        rank = tf.rank(precise)
        shape = logits.shape
        if axis != -1:

            def moved(tensor):
                order = tf.concat([tf.range(axis), tf.range(axis + 1, rank), [axis]], 0)
                return tf.transpose(tensor, order)

            precise, labels = moved(precise), moved(labels)
        input_shape = tf.shape(precise)
        precise = _flatten_outer_dims(precise)
        labels = _flatten_outer_dims(labels)
        cost = gen.SoftmaxCrossEntropyWithLogits(precise, labels, name=name).loss
        output_shape = tf.slice(input_shape, [0], [tf.subtract(rank, 1)])
        cost = tf.reshape(cost, output_shape)
        if shape.ndims is not None and shape.dims is not None:
            dims = shape.as_list()
            del dims[axis]
            cost.set_shape(dims)
        return tf.cast(cost, logits.dtype) if convert else cost


@export("nn.softmax_cross_entropy_with_logits_v2")
def softmax_cross_entropy_with_logits_v2(labels, logits, axis=None, name=None, dim=None):
    """The cross entropy of exclusive classes; gradients flow to the labels too."""
    axis = renamed_argument("axis", axis, "dim", dim)
    return _softmax_cross_entropy(labels, logits, -1 if axis is None else axis, name, "softmax_cross_entropy_with_logits")


@export("nn.softmax_cross_entropy_with_logits")
def softmax_cross_entropy_with_logits(_sentinel=None, labels=None, logits=None, dim=-1, name=None, axis=None):
    """The cross entropy of exclusive classes; the labels are constants for gradients."""
    dim = renamed_argument("axis", axis, "dim", None if axis is not None and dim == -1 else dim)
    labels, logits = labels_and_logits("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    with ops.name_scope(name, "softmax_cross_entropy_with_logits_sg", [logits, labels]) as name:
        labels = tf.stop_gradient(labels, name="labels_stop_gradient")
        return _softmax_cross_entropy(labels, logits, dim, name, None)


@export("nn.sparse_softmax_cross_entropy_with_logits")
def sparse_softmax_cross_entropy_with_logits(_sentinel=None, labels=None, logits=None, name=None):
    """The cross entropy of exclusive classes that are given by their numbers."""
    labels, logits = labels_and_logits("sparse_softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    with ops.name_scope(name, "SparseSoftmaxCrossEntropyWithLogits", [labels, logits]):
        labels = ops.convert_to_tensor(labels)
        logits = ops.convert_to_tensor(logits)
        half = logits.dtype == dtypes.float16
        precise = tf.cast(logits, dtypes.float32) if half else logits
        static_shape = labels.shape
        labels_shape = tf.shape(labels)
        outer = logits.shape[:-1]
        defined = static_shape.is_fully_defined() and outer.is_fully_defined()
        if logits.shape.ndims is not None and logits.shape.ndims == 0:
            raise ValueError(f"Logits cannot be scalars - received shape {logits.shape}.")
        if logits.shape.ndims is not None and static_shape.ndims is not None and static_shape.ndims != logits.shape.ndims - 1:
            raise ValueError(f"Rank mismatch: Rank of labels (received {static_shape.ndims}) should equal rank of logits minus 1 (received {logits.shape.ndims}).")
        if defined and static_shape != outer:
            raise ValueError(f"Shape mismatch: The shape of labels (received {static_shape}) should equal the shape of logits except for the last dimension (received {logits.shape}).")
        if logits.shape.ndims == 2:
            cost = gen.SparseSoftmaxCrossEntropyWithLogits(precise, labels, name=name).loss
            return tf.cast(cost, dtypes.float16) if half else cost
        checks = []
        if not defined:
            checks.append(tf.assert_equal(tf.shape(labels), tf.shape(logits)[:-1]))
        with ops.control_dependencies(checks):
            num_classes = tf.shape(logits)[tf.rank(logits) - 1]
            precise = tf.reshape(precise, [-1, num_classes])
            labels = tf.reshape(labels, [-1])
            cost = gen.SparseSoftmaxCrossEntropyWithLogits(precise, labels, name=name).loss
            cost = tf.reshape(cost, labels_shape)
            cost.set_shape(static_shape)
            return tf.cast(cost, dtypes.float16) if half else cost


@export("nn.log_poisson_loss")
def log_poisson_loss(targets, log_input, compute_full_loss=False, name=None):
    """The loss of a Poisson distribution whose rate is `exp(log_input)`."""
    with ops.name_scope(name, "log_poisson_loss", [log_input, targets]) as name:
        log_input = ops.convert_to_tensor(log_input, name="log_input")
        targets = ops.convert_to_tensor(targets, name="targets")
        _same_shape(targets, log_input, "log_input and targets")
        result = gen.Exp(log_input) - log_input * targets
        if compute_full_loss:
            point_five = constant.constant(0.5, dtype=targets.dtype)
            two_pi = constant.constant(2 * np.pi, dtype=targets.dtype)
            stirling = (targets * gen.Log(targets)) - targets + (point_five * gen.Log(two_pi * targets))
            zeros = tf.zeros_like(targets, dtype=targets.dtype)
            ones = tf.ones_like(targets, dtype=targets.dtype)
            small = gen.LogicalAnd(targets >= zeros, targets <= ones)
            result += tf.where(small, zeros, stirling)
        return result


@export("nn.compute_average_loss")
def compute_average_loss(per_example_loss, sample_weight=None, global_batch_size=None):
    """The sum of the losses divided by the size of the global batch."""
    per_example_loss = ops.convert_to_tensor(per_example_loss)
    dtype = per_example_loss.dtype
    if sample_weight is not None:
        from tensorfleet.modeling import loss_weights

        sample_weight = ops.convert_to_tensor(sample_weight)
        per_example_loss = loss_weights.scaled(per_example_loss, sample_weight)
    per_example_loss = tf.cast(per_example_loss, dtype)
    if global_batch_size is None:
        # One replica builds a graph.
        global_batch_size = tf.cast(tf.shape(per_example_loss)[0] * 1, dtype)
    return tf.reduce_sum(per_example_loss) / global_batch_size


@export("nn.scale_regularization_loss")
def scale_regularization_loss(regularization_loss):
    """The sum of a regularization loss; there is one replica in a graph."""
    return tf.reduce_sum(regularization_loss) / 1.0

