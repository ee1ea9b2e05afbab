"""`tf.contrib.layers`: summaries of tensors, and `optimize_loss`."""

import re

import tensorfleet as tf
from tensorfleet.contribs.layers import exported
from tensorfleet.contribs.training import _after
from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.export import export_values
from tensorfleet.ops import variable_scope as scopes

# ---- summaries


def _assert_not_summarized(name):
    for summary in ops.get_collection(ops.GraphKeys.SUMMARIES):
        if summary.op.name == name:
            return summary
    return None


def _add_summary(kind, tensor, name, tag=None):
    existing = _assert_not_summarized(name)
    if existing is not None:
        return existing
    if kind == "scalar":
        return tf.summary.scalar(tag or name, tensor)
    return tf.summary.histogram(tag or name, tensor)


@exported("summarize_tensor")
def summarize_tensor(tensor, tag=None):
    """A summary of a tensor: a scalar's value, or a histogram."""
    if tensor.shape.ndims == 0:
        return _add_summary("scalar", tensor, tag or tensor.op.name)
    return _add_summary("histogram", tensor, tag or tensor.op.name)


@exported("summarize_tensors")
def summarize_tensors(tensors, summarizer=summarize_tensor):
    """Summaries of several tensors."""
    return [summarizer(tensor) for tensor in tensors]


@exported("summarize_collection")
def summarize_collection(collection, name_filter=None, summarizer=summarize_tensor):
    """Summaries of a collection's tensors whose names fit."""
    tensors = [tensor for tensor in ops.get_collection(collection) if name_filter is None or re.match(name_filter, tensor.op.name)]
    return summarize_tensors(tensors, summarizer)


@exported("summarize_activation")
def summarize_activation(op):
    """A histogram of an activation, and how much of it is zero."""
    if op.op.type in ("Relu", "Softplus", "Relu6"):
        tf.summary.scalar("%s/zeros" % op.op.name, tf.reduce_mean(tf.cast(gen.Less(op, tf.cast(tf.zeros_like(op) + 1e-6, op.dtype)), dtypes.float32)))
    if op.op.type == "Relu6":
        tf.summary.scalar("%s/sixes" % op.op.name, tf.reduce_mean(tf.cast(gen.Greater(op, tf.zeros_like(op) + 6.0 - 1e-6), dtypes.float32)))
    return tf.summary.histogram("%s/activation" % op.op.name, op)


@exported("summarize_activations")
def summarize_activations(name_filter=None, summarizer=summarize_activation):
    """Summaries of `tf.GraphKeys.ACTIVATIONS`."""
    return summarize_collection(ops.GraphKeys.ACTIVATIONS, name_filter, summarizer)


# ---- training

OPTIMIZER_SUMMARIES = ["learning_rate", "loss", "gradients", "gradient_norm", "global_gradient_norm"]
_OPTIMIZERS = {
    "Adagrad": "AdagradOptimizer",
    "Adam": "AdamOptimizer",
    "Ftrl": "FtrlOptimizer",
    "RMSProp": "RMSPropOptimizer",
    "SGD": "GradientDescentOptimizer",
}


def __getattr__(name):
    if name == "OPTIMIZER_CLS_NAMES":
        classes = {short: getattr(tf.train, long) for short, long in _OPTIMIZERS.items()}
        classes["Momentum"] = lambda learning_rate: tf.train.MomentumOptimizer(learning_rate, momentum=0.9)
        globals()[name] = classes
        return classes
    raise AttributeError(name)


export_values(__name__, {f"contrib.{place}.{name}": name for place in ("layers", "slim") for name in ("OPTIMIZER_SUMMARIES", "OPTIMIZER_CLS_NAMES")})


def _learning_rate(learning_rate):
    if learning_rate is None:
        return None
    if isinstance(learning_rate, ops.Tensor) and learning_rate.shape.ndims == 0:
        return learning_rate
    if isinstance(learning_rate, float):
        if learning_rate < 0.0:
            raise ValueError("Invalid learning_rate %s.", learning_rate)
        return scopes.get_variable("learning_rate", [], trainable=False, initializer=tf.constant_initializer(learning_rate))
    raise ValueError("Learning rate should be 0d Tensor or float. Got %s of type %s" % (str(learning_rate), str(type(learning_rate))))


def _optimizer(optimizer, learning_rate):
    if isinstance(optimizer, str):
        if learning_rate is None:
            raise ValueError("Learning rate is None, but should be specified if optimizer is string (%s)." % optimizer)
        classes = __getattr__("OPTIMIZER_CLS_NAMES")
        if optimizer not in classes:
            raise ValueError("Optimizer name should be one of [%s], you provided %s." % (", ".join(classes), optimizer))
        return classes[optimizer](learning_rate=learning_rate)
    if isinstance(optimizer, type) and issubclass(optimizer, tf.train.Optimizer):
        if learning_rate is None:
            raise ValueError("Learning rate is None, but should be specified if optimizer is class (%s)." % optimizer)
        return optimizer(learning_rate=learning_rate)
    if isinstance(optimizer, tf.train.Optimizer):
        return optimizer
    if callable(optimizer):
        return optimizer(learning_rate) if learning_rate is not None else optimizer()
    raise ValueError("Unrecognized optimizer: should be string, subclass of Optimizer, instance of subclass of Optimizer or function with one argument. Got %s." % str(optimizer))


@exported("optimize_loss")
def optimize_loss(
    loss,
    global_step,
    learning_rate,
    optimizer,
    gradient_noise_scale=None,
    gradient_multipliers=None,
    clip_gradients=None,
    learning_rate_decay_fn=None,
    update_ops=None,
    variables=None,
    name=None,
    summaries=None,
    colocate_gradients_with_ops=False,
    increment_global_step=True,
):
    """An operation that trains: gradients, noise, multipliers, clipping, summaries, and the updates before them."""
    loss = ops.convert_to_tensor(loss)
    loss.shape.assert_is_compatible_with([])
    if global_step is None:
        global_step = tf.train.get_global_step()
    else:
        tf.train.assert_global_step(global_step)
    with scopes.variable_scope(name, "OptimizeLoss", [loss, global_step]):
        if update_ops is None:
            update_ops = set(ops.get_collection(ops.GraphKeys.UPDATE_OPS))
        if update_ops:
            loss = _after(sorted(update_ops, key=lambda op: op.name), loss)
        rate = _learning_rate(learning_rate)
        if summaries is None:
            summaries = ["loss", "learning_rate", "global_gradient_norm"]
        else:
            for summary in summaries:
                if summary not in OPTIMIZER_SUMMARIES:
                    raise ValueError("Summaries should be one of [%s], you provided %s." % (", ".join(OPTIMIZER_SUMMARIES), summary))
        if rate is not None and learning_rate_decay_fn is not None:
            if global_step is None:
                raise ValueError("global_step is required for learning_rate_decay_fn.")
            rate = learning_rate_decay_fn(rate, global_step)
            if "learning_rate" in summaries:
                tf.summary.scalar("learning_rate", rate)
        opt = _optimizer(optimizer, rate)
        if variables is None:
            variables = tf.trainable_variables()
        gradients = opt.compute_gradients(loss, variables, colocate_gradients_with_ops=colocate_gradients_with_ops)
        gradients = _changed(gradients, gradient_noise_scale, gradient_multipliers, clip_gradients, summaries, loss)
        grad_updates = opt.apply_gradients(gradients, global_step=global_step if increment_global_step else None, name="train")
        return _after([grad_updates], loss)


def _changed(gradients, noise_scale, multipliers, clip, summaries, loss):
    if noise_scale is not None:
        noisy = []
        for gradient, variable in gradients:
            if gradient is not None:
                shape = gradient.dense_shape if isinstance(gradient, ops.IndexedSlices) else gradient.shape
                gradient = gradient + tf.truncated_normal(shape) * noise_scale
            noisy.append((gradient, variable))
        gradients = noisy
    if multipliers is not None:
        gradients = _multiplied(gradients, multipliers)
    if "global_gradient_norm" in summaries or "gradient_norm" in summaries:
        tf.summary.scalar("global_norm/gradient_norm", tf.global_norm([gradient for gradient, _ in gradients]))
    if isinstance(clip, float):
        values, variables = zip(*gradients)
        clipped, _ = tf.clip_by_global_norm(values, clip)
        gradients = list(zip(clipped, variables))
    elif callable(clip):
        gradients = clip(gradients)
    elif clip is not None:
        raise ValueError("Unknown type %s for clip_gradients" % type(clip))
    if "loss" in summaries:
        tf.summary.scalar("loss", loss)
    for gradient, variable in gradients:
        values = gradient.values if isinstance(gradient, ops.IndexedSlices) else gradient
        if values is not None:
            name = variable.name.replace(":", "_")
            if "gradients" in summaries:
                tf.summary.histogram("gradients/%s" % name, values)
            if "gradient_norm" in summaries:
                tf.summary.scalar("gradient_norm/%s" % name, tf.global_norm([values]))
    if clip is not None and ("global_gradient_norm" in summaries or "gradient_norm" in summaries):
        tf.summary.scalar("global_norm/clipped_gradient_norm", tf.global_norm([gradient for gradient, _ in gradients]))
    return gradients


def _multiplied(gradients, multipliers):
    changed = []
    for gradient, variable in gradients:
        if gradient is not None and (variable in multipliers or variable.name in multipliers):
            key = variable if variable in multipliers else variable.name
            factor = multipliers[key]
            if isinstance(gradient, ops.IndexedSlices):
                gradient = ops.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
            else:
                gradient *= tf.cast(factor, gradient.dtype)
        changed.append((gradient, variable))
    return changed


