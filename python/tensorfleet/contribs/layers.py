"""`tf.contrib.layers` and `tf.contrib.slim`: layers as functions whose arguments can have defaults by `arg_scope`."""

import functools

import tensorfleet as tf
from tensorfleet.contribs.arg_scope import add_arg_scope
from tensorfleet.contribs.framework import model_variable
from tensorfleet.framework import gen, ops
from tensorfleet.framework.export import export
from tensorfleet.modeling.initializers import Zeros
from tensorfleet.contribs.layer_initializers import xavier_initializer
from tensorfleet.modeling.layers import convolutional, core, pooling, separable
from tensorfleet.ops import variable_scope as scopes
from tensorfleet.ops.variables import PartitionedVariable, VariableAggregation, VariableSynchronization

_ZEROS = Zeros()
_XAVIER = xavier_initializer()


def _relu(features, name=None):
    return gen.Relu(features, name=name)


def exported(*names):
    """Offers a function as part of `layers` and `slim`."""
    return export(*[f"contrib.{place}.{name}" for name in names for place in ("layers", "slim")])


# ---- collections


def collect(outputs_collections, alias, outputs):
    """Adds outputs to collections under an alias."""
    if outputs_collections:
        aliases = outputs.__dict__.setdefault("aliases", []) if hasattr(outputs, "__dict__") else None
        if aliases is not None and alias not in aliases:
            aliases.append(alias)
        ops.add_to_collections(outputs_collections, outputs)
    return outputs


def variable_collections(collections_, name):
    """The collections of one of a layer's variables."""
    return collections_.get(name, None) if isinstance(collections_, dict) else collections_


def add_variable_to_collections(variable, collections_set, name):
    for key in variable_collections(collections_set, name) or []:
        for part in list(variable) if isinstance(variable, PartitionedVariable) else [variable]:
            if part not in ops.get_collection(key):
                ops.add_to_collection(key, part)


def renaming_getter(rename=None):
    """A getter that makes a layer's variables the model's, under other names."""

    def getter(
        getter,
        name,
        shape=None,
        dtype=None,
        initializer=None,
        regularizer=None,
        trainable=True,
        collections=None,
        caching_device=None,
        partitioner=None,
        use_resource=None,
        synchronization=VariableSynchronization.AUTO,
        aggregation=VariableAggregation.NONE,
        **_,
    ):
        head, slash, last = name.rpartition("/")
        name = head + slash + (rename or {}).get(last, last)
        return model_variable(
            name,
            shape=shape,
            dtype=dtype,
            initializer=initializer,
            regularizer=regularizer,
            collections=collections,
            trainable=trainable,
            caching_device=caching_device,
            partitioner=partitioner,
            custom_getter=getter,
            use_resource=use_resource,
            synchronization=synchronization,
            aggregation=aggregation,
        )

    return getter


_KERNEL_NAMES = {"bias": "biases", "kernel": "weights"}


def finished(outputs, sc, normalizer_fn, normalizer_params, activation_fn, outputs_collections):
    """A layer's outputs after normalization and activation."""
    if normalizer_fn is not None:
        outputs = normalizer_fn(outputs, **(normalizer_params or {}))
    if activation_fn is not None:
        outputs = activation_fn(outputs)
    return collect(outputs_collections, sc.name, outputs)


def _apply_layer(layer, inputs, sc, variables_collections, normalizer_fn, normalizer_params, activation_fn, outputs_collections):
    outputs = layer.apply(inputs)
    add_variable_to_collections(layer.kernel, variables_collections, "weights")
    if layer.use_bias:
        add_variable_to_collections(layer.bias, variables_collections, "biases")
    return finished(outputs, sc, normalizer_fn, normalizer_params, activation_fn, outputs_collections)


# ---- dense and convolutions


@exported("fully_connected")
@add_arg_scope
def fully_connected(
    inputs,
    num_outputs,
    activation_fn=_relu,
    normalizer_fn=None,
    normalizer_params=None,
    weights_initializer=_XAVIER,
    weights_regularizer=None,
    biases_initializer=_ZEROS,
    biases_regularizer=None,
    reuse=None,
    variables_collections=None,
    outputs_collections=None,
    trainable=True,
    scope=None,
):
    """A dense layer."""
    if not isinstance(num_outputs, int):
        raise ValueError(f"num_outputs type should be one of {(int,)}, got {type(num_outputs)}.")
    with scopes.variable_scope(scope, "fully_connected", [inputs], reuse=reuse, custom_getter=renaming_getter(_KERNEL_NAMES)) as sc:
        inputs = ops.convert_to_tensor(inputs)
        layer = core.Dense(
            units=num_outputs,
            activation=None,
            use_bias=not normalizer_fn and biases_initializer,
            kernel_initializer=weights_initializer,
            bias_initializer=biases_initializer,
            kernel_regularizer=weights_regularizer,
            bias_regularizer=biases_regularizer,
            activity_regularizer=None,
            trainable=trainable,
            name=sc.name,
            dtype=inputs.dtype.base_dtype,
            _scope=sc,
            _reuse=reuse,
        )
        return _apply_layer(layer, inputs, sc, variables_collections, normalizer_fn, normalizer_params, activation_fn, outputs_collections)


relu = functools.partial(fully_connected, activation_fn=_relu)
relu6 = functools.partial(fully_connected, activation_fn=lambda features: tf.nn.relu6(features))
linear = functools.partial(fully_connected, activation_fn=None)
elu = functools.partial(fully_connected, activation_fn=lambda features: gen.Elu(features))


@exported("convolution")
@add_arg_scope
def convolution(
    inputs,
    num_outputs,
    kernel_size,
    stride=1,
    padding="SAME",
    data_format=None,
    rate=1,
    activation_fn=_relu,
    normalizer_fn=None,
    normalizer_params=None,
    weights_initializer=_XAVIER,
    weights_regularizer=None,
    biases_initializer=_ZEROS,
    biases_regularizer=None,
    reuse=None,
    variables_collections=None,
    outputs_collections=None,
    trainable=True,
    scope=None,
    conv_dims=None,
):
    """A convolution over one or two spatial dimensions."""
    if data_format not in (None, "NWC", "NCW", "NHWC", "NCHW", "NDHWC", "NCDHW"):
        raise ValueError(f"Invalid data_format: {data_format!r}")
    with scopes.variable_scope(scope, "Conv", [inputs], reuse=reuse, custom_getter=renaming_getter(_KERNEL_NAMES)) as sc:
        inputs = ops.convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if conv_dims is not None and conv_dims + 2 != rank:
            raise ValueError(f"Convolution expects input with rank {conv_dims + 2}, got {rank}")
        classes = {3: convolutional.Conv1D, 4: convolutional.Conv2D}
        if rank not in classes:
            raise NotImplementedError(f"convolutions of inputs of rank {rank}; tensorfleet has them for rank 3 and 4")
        layer = classes[rank](
            filters=num_outputs,
            kernel_size=kernel_size,
            strides=stride,
            padding=padding,
            data_format="channels_first" if data_format and data_format.startswith("NC") else "channels_last",
            dilation_rate=rate,
            activation=None,
            use_bias=not normalizer_fn and biases_initializer,
            kernel_initializer=weights_initializer,
            bias_initializer=biases_initializer,
            kernel_regularizer=weights_regularizer,
            bias_regularizer=biases_regularizer,
            activity_regularizer=None,
            trainable=trainable,
            name=sc.name,
            dtype=inputs.dtype.base_dtype,
            _scope=sc,
            _reuse=reuse,
        )
        return _apply_layer(layer, inputs, sc, variables_collections, normalizer_fn, normalizer_params, activation_fn, outputs_collections)


def _convolution_of(dims, name):
    """`convolution` for a number of dimensions: the same arguments without `conv_dims`."""
    import inspect

    def function(*args, **kwargs):
        return convolution(*args, conv_dims=dims, **kwargs)

    signature = inspect.signature(convolution)
    function.__signature__ = signature.replace(parameters=[parameter for key, parameter in signature.parameters.items() if key != "conv_dims"])
    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = f"A convolution over {dims} spatial dimension{'s' if dims > 1 else ''}."
    return add_arg_scope(function)


convolution1d = exported("conv1d", "convolution1d")(_convolution_of(1, "convolution1d"))
convolution2d = exported("conv2d", "convolution2d")(_convolution_of(2, "convolution2d"))


@exported("conv2d_transpose", "convolution2d_transpose")
@add_arg_scope
def convolution2d_transpose(
    inputs,
    num_outputs,
    kernel_size,
    stride=1,
    padding="SAME",
    data_format="NHWC",
    activation_fn=_relu,
    normalizer_fn=None,
    normalizer_params=None,
    weights_initializer=_XAVIER,
    weights_regularizer=None,
    biases_initializer=_ZEROS,
    biases_regularizer=None,
    reuse=None,
    variables_collections=None,
    outputs_collections=None,
    trainable=True,
    scope=None,
):
    """A transposed convolution."""
    with scopes.variable_scope(scope, "Conv2d_transpose", [inputs], reuse=reuse, custom_getter=renaming_getter(_KERNEL_NAMES)) as sc:
        if data_format not in ("NCHW", "NHWC"):
            raise ValueError("data_format has to be either NCHW or NHWC.")
        inputs = ops.convert_to_tensor(inputs)
        layer = convolutional.Conv2DTranspose(
            filters=num_outputs,
            kernel_size=kernel_size,
            strides=stride,
            padding=padding,
            data_format="channels_first" if data_format == "NCHW" else "channels_last",
            activation=None,
            use_bias=not normalizer_fn and biases_initializer,
            kernel_initializer=weights_initializer,
            bias_initializer=biases_initializer,
            kernel_regularizer=weights_regularizer,
            bias_regularizer=biases_regularizer,
            activity_regularizer=None,
            trainable=trainable,
            name=sc.name,
            dtype=inputs.dtype.base_dtype,
            _scope=sc,
            _reuse=reuse,
        )
        return _apply_layer(layer, inputs, sc, variables_collections, normalizer_fn, normalizer_params, activation_fn, outputs_collections)


@exported("separable_conv2d", "separable_convolution2d")
@add_arg_scope
def separable_convolution2d(
    inputs,
    num_outputs,
    kernel_size,
    depth_multiplier=1,
    stride=1,
    padding="SAME",
    data_format="NHWC",
    rate=1,
    activation_fn=_relu,
    normalizer_fn=None,
    normalizer_params=None,
    weights_initializer=_XAVIER,
    pointwise_initializer=None,
    weights_regularizer=None,
    biases_initializer=_ZEROS,
    biases_regularizer=None,
    reuse=None,
    variables_collections=None,
    outputs_collections=None,
    trainable=True,
    scope=None,
):
    """A separable convolution; without `num_outputs` a depthwise one alone."""
    names = {"bias": "biases", "depthwise_kernel": "depthwise_weights", "pointwise_kernel": "pointwise_weights"}
    with scopes.variable_scope(scope, "SeparableConv2d", [inputs], reuse=reuse, custom_getter=renaming_getter(names)) as sc:
        inputs = ops.convert_to_tensor(inputs)
        first = data_format is not None and data_format.startswith("NC")
        if num_outputs is None:
            outputs = _depthwise(
                inputs, kernel_size, depth_multiplier, stride, padding, data_format, rate, normalizer_fn, weights_initializer, weights_regularizer, biases_initializer, biases_regularizer,
                variables_collections, trainable,
            )  # fmt: skip
            return finished(outputs, sc, normalizer_fn, normalizer_params, activation_fn, outputs_collections)
        layer = separable.SeparableConv2D(
            filters=num_outputs,
            kernel_size=kernel_size,
            strides=stride,
            padding=padding,
            data_format="channels_first" if first else "channels_last",
            dilation_rate=convolutional.normalize_tuple(rate, 2, "rate"),
            activation=None,
            depth_multiplier=depth_multiplier,
            use_bias=not normalizer_fn and biases_initializer,
            depthwise_initializer=weights_initializer,
            pointwise_initializer=weights_initializer if pointwise_initializer is None else pointwise_initializer,
            bias_initializer=biases_initializer,
            depthwise_regularizer=weights_regularizer,
            pointwise_regularizer=weights_regularizer,
            bias_regularizer=biases_regularizer,
            activity_regularizer=None,
            trainable=trainable,
            name=sc.name,
            dtype=inputs.dtype.base_dtype,
            _scope=sc,
            _reuse=reuse,
        )
        outputs = layer.apply(inputs)
        add_variable_to_collections(layer.depthwise_kernel, variables_collections, "weights")
        add_variable_to_collections(layer.pointwise_kernel, variables_collections, "weights")
        if layer.bias is not None:
            add_variable_to_collections(layer.bias, variables_collections, "biases")
        return finished(outputs, sc, normalizer_fn, normalizer_params, activation_fn, outputs_collections)


def _depthwise(inputs, kernel_size, depth_multiplier, stride, padding, data_format, rate, normalizer_fn, weights_initializer, weights_regularizer, biases_initializer, biases_regularizer, variables_collections, trainable):
    dtype = inputs.dtype.base_dtype
    height, width = convolutional.normalize_tuple(kernel_size, 2, "kernel_size")
    stride_h, stride_w = convolutional.normalize_tuple(stride, 2, "stride")
    first = data_format.startswith("NC")
    channels = inputs.shape.as_list()[1 if first else 3]
    weights = model_variable(
        "depthwise_weights",
        shape=[height, width, channels, depth_multiplier],
        dtype=dtype,
        initializer=weights_initializer,
        regularizer=weights_regularizer,
        trainable=trainable,
        collections=variable_collections(variables_collections, "weights"),
    )
    strides = [1, 1, stride_h, stride_w] if first else [1, stride_h, stride_w, 1]
    outputs = tf.nn.depthwise_conv2d(inputs, weights, strides, padding, rate=convolutional.normalize_tuple(rate, 2, "rate"), data_format=data_format)
    if not normalizer_fn and biases_initializer is not None:
        biases = model_variable(
            "biases",
            shape=[depth_multiplier * channels],
            dtype=dtype,
            initializer=biases_initializer,
            regularizer=biases_regularizer,
            trainable=trainable,
            collections=variable_collections(variables_collections, "biases"),
        )
        outputs = tf.nn.bias_add(outputs, biases, data_format=data_format)
    return outputs


# ---- pools


def _pool(layer_class, name, inputs, kernel_size, stride, padding, data_format, outputs_collections, scope):
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    with ops.name_scope(scope, name, [inputs]) as sc:
        inputs = ops.convert_to_tensor(inputs)
        layer = layer_class(pool_size=kernel_size, strides=stride, padding=padding, data_format="channels_first" if data_format == "NCHW" else "channels_last", _scope=sc)
        return collect(outputs_collections, sc, layer.apply(inputs))


@exported("max_pool2d")
@add_arg_scope
def max_pool2d(inputs, kernel_size, stride=2, padding="VALID", data_format="NHWC", outputs_collections=None, scope=None):
    """The largest value of each window."""
    return _pool(pooling.MaxPooling2D, "MaxPool2D", inputs, kernel_size, stride, padding, data_format, outputs_collections, scope)


@exported("avg_pool2d")
@add_arg_scope
def avg_pool2d(inputs, kernel_size, stride=2, padding="VALID", data_format="NHWC", outputs_collections=None, scope=None):
    """The mean of each window."""
    return _pool(pooling.AveragePooling2D, "AvgPool2D", inputs, kernel_size, stride, padding, data_format, outputs_collections, scope)


