"""`tf.contrib.layers`: normalization."""

import tensorfleet as tf
from tensorfleet.contribs.arg_scope import add_arg_scope
from tensorfleet.contribs.framework import model_variable
from tensorfleet.contribs.layers import add_variable_to_collections, collect, exported, renaming_getter, variable_collections
from tensorfleet.framework import dtypes, ops
from tensorfleet.framework.constant import constant
from tensorfleet.modeling.initializers import Ones, Zeros
from tensorfleet.modeling.layers.core import constant_bool, smart_cond
from tensorfleet.modeling.layers.normalization import BatchNormalization
from tensorfleet.ops import variable_scope as scopes


def _parameter(name, shape, dtype, initializer, collections, regularizer=None, trainable=True):
    return model_variable(
        name, shape=shape, dtype=dtype, initializer=initializer, regularizer=regularizer, collections=variable_collections(collections, name), trainable=trainable
    )


@exported("batch_norm")
@add_arg_scope
def batch_norm(
    inputs,
    decay=0.999,
    center=True,
    scale=False,
    epsilon=0.001,
    activation_fn=None,
    param_initializers=None,
    param_regularizers=None,
    updates_collections=ops.GraphKeys.UPDATE_OPS,
    is_training=True,
    reuse=None,
    variables_collections=None,
    outputs_collections=None,
    trainable=True,
    batch_weights=None,
    fused=None,
    data_format="NHWC",
    zero_debias_moving_mean=False,
    scope=None,
    renorm=False,
    renorm_clipping=None,
    renorm_decay=0.99,
    adjustment=None,
):
    """Batch normalization; with `updates_collections=None` the averages are updated in place."""
    if fused is None:
        fused = True
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    if batch_weights is not None or renorm or adjustment is not None or zero_debias_moving_mean:
        raise NotImplementedError("batch_norm with batch_weights, renorm, adjustment or zero_debias_moving_mean")
    inputs = ops.convert_to_tensor(inputs)
    arguments = (inputs, decay, center, scale, epsilon, activation_fn, param_initializers or {}, param_regularizers or {}, updates_collections, is_training, reuse)
    arguments += (variables_collections, outputs_collections, trainable, data_format, scope)
    in_layer = updates_collections == ops.GraphKeys.UPDATE_OPS
    if fused and (inputs.shape.ndims == 2 or inputs.shape.ndims == 4 and not in_layer):
        return _fused_batch_norm(*arguments)
    if in_layer:
        return _layer_batch_norm(*arguments, fused)
    return _plain_batch_norm(*arguments)


def _layer_batch_norm(
    inputs, decay, center, scale, epsilon, activation_fn, initializers, regularizers, updates_collections, is_training, reuse, variables_collections, outputs_collections, trainable,
    data_format, scope, fused,
):  # fmt: skip
    with scopes.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse, custom_getter=renaming_getter()) as sc:
        layer = BatchNormalization(
            axis=1 if data_format == "NCHW" else -1,
            momentum=decay,
            epsilon=epsilon,
            center=center,
            scale=scale,
            beta_initializer=initializers.get("beta", Zeros()),
            gamma_initializer=initializers.get("gamma", Ones()),
            moving_mean_initializer=initializers.get("moving_mean", Zeros()),
            moving_variance_initializer=initializers.get("moving_variance", Ones()),
            beta_regularizer=regularizers.get("beta"),
            gamma_regularizer=regularizers.get("gamma"),
            trainable=trainable,
            name=sc.name,
            _scope=sc,
            _reuse=reuse,
            fused=fused,
        )
        outputs = layer.apply(inputs, training=is_training)
        for variable, name in ((layer.moving_mean, "moving_mean"), (layer.moving_variance, "moving_variance"), (layer.beta, "beta"), (layer.gamma, "gamma")):
            if variable is not None:
                add_variable_to_collections(variable, variables_collections, name)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return collect(outputs_collections, sc.name, outputs)


class _Averages:
    """The moving averages of a layer, and the updates that move them."""

    def __init__(self, shape, initializers, variables_collections):
        scope = scopes.get_variable_scope()
        partitioner = scope.partitioner
        scope.set_partitioner(None)
        try:
            self.mean = _parameter("moving_mean", shape, dtypes.float32, initializers.get("moving_mean", Zeros()), variables_collections, trainable=False)
            self.variance = _parameter("moving_variance", shape, dtypes.float32, initializers.get("moving_variance", Ones()), variables_collections, trainable=False)
        finally:
            scope.set_partitioner(partitioner)

    def moved(self, mean, variance, decay):
        """The two operations that move the averages."""
        return [_assign_moving_average(variable, value, decay) for variable, value in ((self.mean, mean), (self.variance, variance))]


def _assign_moving_average(variable, value, decay):
    with ops.name_scope(None, "AssignMovingAvg", [variable, value, decay]) as scope:
        decay = ops.convert_to_tensor(1.0 - decay, name="decay")
        if decay.dtype != variable.dtype.base_dtype:
            decay = tf.cast(decay, variable.dtype.base_dtype)
        return tf.assign_sub(variable, (variable - value) * decay, name=scope)


def _fused_batch_norm(
    inputs, decay, center, scale, epsilon, activation_fn, initializers, regularizers, updates_collections, is_training, reuse, variables_collections, outputs_collections, trainable,
    data_format, scope,
):  # fmt: skip
    with scopes.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse) as sc:
        original_shape, original_rank = inputs.shape, inputs.shape.ndims
        original_inputs = inputs
        if original_rank == 2:
            channels = original_shape.as_list()[-1]
            if channels is None:
                raise ValueError("`C` dimension must be known but is None")
            inputs = tf.reshape(inputs, [-1, channels, 1, 1] if data_format == "NCHW" else [-1, 1, 1, channels])
        channels = inputs.shape.as_list()[1 if data_format == "NCHW" else -1]
        if channels is None:
            raise ValueError(f"Inputs {inputs.name} has undefined `C` dimension {channels}.")
        shape = [channels]
        if center:
            beta = _parameter("beta", shape, dtypes.float32, initializers.get("beta", Zeros()), variables_collections, regularizers.get("beta"), trainable)
        else:
            beta = constant(0.0, dtype=dtypes.float32, shape=shape)
        if scale:
            gamma = _parameter("gamma", shape, dtypes.float32, initializers.get("gamma", Ones()), variables_collections, regularizers.get("gamma"), trainable)
        else:
            gamma = constant(1.0, dtype=dtypes.float32, shape=shape)
        averages = _Averages(shape, initializers, variables_collections)

        def trained():
            return tf.nn.fused_batch_norm(inputs, gamma, beta, epsilon=epsilon, data_format=data_format)

        def inferred():
            return tf.nn.fused_batch_norm(inputs, gamma, beta, mean=averages.mean, variance=averages.variance, epsilon=epsilon, is_training=False, data_format=data_format)

        outputs, mean, variance = smart_cond(is_training, trained, inferred)
        known = constant_bool(is_training)
        if known is not False:
            outputs = _with_updates(outputs, averages, mean, variance, decay, is_training, updates_collections)
        outputs.set_shape(inputs.shape)
        if original_rank == 2:
            outputs = tf.reshape(outputs, tf.shape(original_inputs))
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return collect(outputs_collections, sc.name, outputs)


def _with_updates(outputs, averages, mean, variance, decay, is_training, updates_collections):
    """Puts the updates into collections, or before the outputs."""
    if updates_collections is None:

        def forced():
            with ops.control_dependencies(averages.moved(mean, variance, decay)):
                return tf.identity(outputs)

        return smart_cond(is_training, forced, lambda: outputs)
    updates = smart_cond(is_training, lambda: averages.moved(mean, variance, decay), lambda: [averages.mean, averages.variance])
    for update in updates:
        ops.add_to_collections(updates_collections, update)
    return outputs


def _plain_batch_norm(
    inputs, decay, center, scale, epsilon, activation_fn, initializers, regularizers, updates_collections, is_training, reuse, variables_collections, outputs_collections, trainable,
    data_format, scope,
):  # fmt: skip
    with scopes.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse, custom_getter=renaming_getter()) as sc:
        rank = inputs.shape.ndims
        first = data_format == "NCHW"
        axes = [0] + list(range(2, rank)) if first else list(range(rank - 1))
        channels = inputs.shape.as_list()[1 if first else -1]
        shape = [channels]
        beta = _parameter("beta", shape, inputs.dtype.base_dtype, initializers.get("beta", Zeros()), variables_collections, regularizers.get("beta"), trainable) if center else None
        gamma = _parameter("gamma", shape, inputs.dtype.base_dtype, initializers.get("gamma", Ones()), variables_collections, regularizers.get("gamma"), trainable) if scale else None
        averages = _Averages(shape, initializers, variables_collections)
        known = constant_bool(is_training)
        if known is False:
            mean, variance = averages.mean, averages.variance
        else:
            batch_mean, batch_variance = tf.nn.moments(inputs, axes)

            def forced():
                with ops.control_dependencies(averages.moved(batch_mean, batch_variance, decay)):
                    return tf.identity(batch_mean), tf.identity(batch_variance)

            if updates_collections is None:
                mean, variance = smart_cond(is_training, forced, lambda: (ops.convert_to_tensor(averages.mean), ops.convert_to_tensor(averages.variance)))
            else:
                updates = smart_cond(is_training, lambda: averages.moved(batch_mean, batch_variance, decay), lambda: [ops.convert_to_tensor(averages.mean), ops.convert_to_tensor(averages.variance)])
                for update in updates:
                    ops.add_to_collections(updates_collections, update)
                mean, variance = smart_cond(is_training, lambda: (batch_mean, batch_variance), lambda: (ops.convert_to_tensor(averages.mean), ops.convert_to_tensor(averages.variance)))
        if first:
            spread = [1, channels] + [1] * (rank - 2)
            mean, variance = tf.reshape(mean, spread), tf.reshape(variance, spread)
            beta = None if beta is None else tf.reshape(beta, spread)
            gamma = None if gamma is None else tf.reshape(gamma, spread)
        outputs = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon)
        outputs.set_shape(inputs.shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return collect(outputs_collections, sc.name, outputs)


@exported("layer_norm")
@add_arg_scope
def layer_norm(
    inputs,
    center=True,
    scale=True,
    activation_fn=None,
    reuse=None,
    variables_collections=None,
    outputs_collections=None,
    trainable=True,
    begin_norm_axis=1,
    begin_params_axis=-1,
    scope=None,
):
    """Normalizes each example over its own elements."""
    with scopes.variable_scope(scope, "LayerNorm", [inputs], reuse=reuse) as sc:
        inputs = ops.convert_to_tensor(inputs)
        shape, rank = inputs.shape, inputs.shape.ndims
        if rank is None:
            raise ValueError(f"Inputs {inputs.name} has undefined rank.")
        dtype = inputs.dtype.base_dtype
        if begin_norm_axis < 0:
            begin_norm_axis = rank + begin_norm_axis
        if begin_params_axis >= rank or begin_norm_axis >= rank:
            raise ValueError(f"begin_params_axis ({begin_params_axis}) and begin_norm_axis ({begin_norm_axis}) must be < rank(inputs) ({rank})")
        params_shape = shape[begin_params_axis:]
        if not params_shape.is_fully_defined():
            raise ValueError(f"Inputs {inputs.name}: shape(inputs)[{begin_params_axis}:] is not fully defined: {shape}")
        beta = _parameter("beta", params_shape, dtype, Zeros(), variables_collections, trainable=trainable) if center else None
        gamma = _parameter("gamma", params_shape, dtype, Ones(), variables_collections, trainable=trainable) if scale else None
        mean, variance = tf.nn.moments(inputs, list(range(begin_norm_axis, rank)), keep_dims=True)
        epsilon = 1e-12 if dtype != dtypes.float16 else 1e-3
        outputs = tf.nn.batch_normalization(inputs, mean, variance, offset=beta, scale=gamma, variance_epsilon=epsilon)
        outputs.set_shape(shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return collect(outputs_collections, sc.name, outputs)


@exported("instance_norm")
@add_arg_scope
def instance_norm(
    inputs,
    center=True,
    scale=True,
    epsilon=1e-6,
    activation_fn=None,
    param_initializers=None,
    reuse=None,
    variables_collections=None,
    outputs_collections=None,
    trainable=True,
    data_format="NHWC",
    scope=None,
):
    """Normalizes each channel of each example."""
    inputs = ops.convert_to_tensor(inputs)
    rank = inputs.shape.ndims
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    with scopes.variable_scope(scope, "InstanceNorm", [inputs], reuse=reuse) as sc:
        axis = 1 if data_format == "NCHW" else rank - 1
        channels = inputs.shape.as_list()[axis]
        spread = [1, channels] + [1] * (rank - 2) if data_format == "NCHW" else None
        axes = [i for i in range(1, rank) if i != axis]
        given = param_initializers or {}
        dtype = inputs.dtype.base_dtype
        beta = gamma = None
        if center:
            beta = _parameter("beta", [channels], dtype, given.get("beta", Zeros()), variables_collections, trainable=trainable)
            beta = tf.reshape(beta, spread) if spread else beta
        if scale:
            gamma = _parameter("gamma", [channels], dtype, given.get("gamma", Ones()), variables_collections, trainable=trainable)
            gamma = tf.reshape(gamma, spread) if spread else gamma
        mean, variance = tf.nn.moments(inputs, axes, keep_dims=True)
        outputs = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon, name="instancenorm")
        outputs.set_shape(inputs.shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return collect(outputs_collections, sc.name, outputs)
