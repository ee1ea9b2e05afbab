"""`tf.contrib.losses` and `slim.losses`: the losses with predictions before labels."""

import tensorfleet as tf
from tensorfleet.framework.export import export, export_values
from tensorfleet.modeling import losses

weighted = losses.compute_weighted_loss

for _name in ("add_loss", "get_losses", "get_regularization_losses", "get_total_loss"):
    globals()[_name] = getattr(losses, _name)
    export_values(__name__, {f"contrib.losses.{_name}": _name, f"contrib.slim.losses.{_name}": _name})


def _exported(name):
    return export(f"contrib.losses.{name}", f"contrib.slim.losses.{name}")


@_exported("compute_weighted_loss")
def compute_weighted_loss(losses, weights=1.0, scope=None):
    return weighted(losses, weights, scope)


@_exported("absolute_difference")
def absolute_difference(predictions, labels=None, weights=1.0, scope=None):
    return losses.absolute_difference(labels, predictions, weights, scope)


@_exported("sigmoid_cross_entropy")
def sigmoid_cross_entropy(logits, multi_class_labels, weights=1.0, label_smoothing=0, scope=None):
    return losses.sigmoid_cross_entropy(multi_class_labels, logits, weights, label_smoothing, scope)


@_exported("softmax_cross_entropy")
def softmax_cross_entropy(logits, onehot_labels, weights=1.0, label_smoothing=0, scope=None):
    return losses.softmax_cross_entropy(onehot_labels, logits, weights, label_smoothing, scope)


@_exported("sparse_softmax_cross_entropy")
def sparse_softmax_cross_entropy(logits, labels, weights=1.0, scope=None):
    return losses.sparse_softmax_cross_entropy(tf.cast(labels, tf.int64), logits, weights, scope)


@_exported("log_loss")
def log_loss(predictions, labels=None, weights=1.0, epsilon=1e-7, scope=None):
    return losses.log_loss(labels, predictions, weights, epsilon, scope)


@_exported("hinge_loss")
def hinge_loss(logits, labels=None, scope=None):
    """The hinge losses of each element, without a mean."""
    return losses.hinge_loss(labels, logits, scope=scope, loss_collection=None, reduction=losses.Reduction.NONE)


@_exported("mean_squared_error")
def mean_squared_error(predictions, labels=None, weights=1.0, scope=None):
    return losses.mean_squared_error(labels, predictions, weights, scope)


@_exported("mean_pairwise_squared_error")
def mean_pairwise_squared_error(predictions, labels=None, weights=1.0, scope=None):
    return losses.mean_pairwise_squared_error(labels, predictions, weights, scope)


@_exported("cosine_distance")
def cosine_distance(predictions, labels=None, axis=None, weights=1.0, scope=None, dim=None):
    return losses.cosine_distance(labels, predictions, axis, weights, scope, dim=dim)
