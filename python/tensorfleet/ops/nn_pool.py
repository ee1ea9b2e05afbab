"""Pools of `tf.nn`."""

import tensorfleet as tf
from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.export import export
from tensorfleet.ops.nn_activation import renamed_argument
from tensorfleet.ops.nn_conv import numbers, spatial_numbers
from tensorfleet.ops.space_to_batch import channels_are_first, with_space_to_batch


def _sizes(ksize, strides, data_format, rank=2):
    channel = 1 if channels_are_first(data_format) else rank + 1
    return numbers(ksize, rank, channel, "ksize"), numbers(strides, rank, channel, "strides")


@export("nn.max_pool")
def max_pool(value, ksize, strides, padding, data_format="NHWC", name=None, input=None):
    """The largest value of each window."""
    value = renamed_argument("input", input, "value", value)
    with ops.name_scope(name, "MaxPool", [value]) as name:
        data_format = data_format or "NHWC"
        ksize, strides = _sizes(ksize, strides, data_format)
        return gen.MaxPool(value, ksize=ksize, strides=strides, padding=padding, data_format=data_format, name=name)


@export("nn.max_pool2d")
def max_pool2d(input, ksize, strides, padding, data_format="NHWC", name=None):
    """The largest value of each window of images."""
    with ops.name_scope(name, "MaxPool2d", [input]) as name:
        data_format = data_format or "NHWC"
        ksize, strides = _sizes(ksize, strides, data_format)
        return gen.MaxPool(input, ksize=ksize, strides=strides, padding=padding, data_format=data_format, name=name)


@export("nn.avg_pool", "nn.avg_pool2d")
def avg_pool(value, ksize, strides, padding, data_format="NHWC", name=None, input=None):
    """The mean of each window."""
    with ops.name_scope(name, "AvgPool", [value]) as name:
        value = renamed_argument("input", input, "value", value)
        data_format = data_format or "NHWC"
        ksize, strides = _sizes(ksize, strides, data_format)
        return gen.AvgPool(value, ksize=ksize, strides=strides, padding=padding, data_format=data_format, name=name)


def _pool1d(op, scope, input, ksize, strides, padding, data_format, name):
    with ops.name_scope(name, scope, [input]) as name:
        data_format = data_format or "NWC"
        wide, start = ("NHWC", 1) if data_format == "NWC" else ("NCHW", 2)
        channel = 1 if data_format == "NCW" else 2
        ksize = [1] + numbers(ksize, 1, channel, "ksize")
        strides = [1] + numbers(strides, 1, channel, "strides")
        input = tf.expand_dims(input, start)
        result = op(input, ksize=ksize, strides=strides, padding=padding, data_format=wide, name=name)
        return tf.squeeze(result, start)


@export("nn.max_pool1d")
def max_pool1d(input, ksize, strides, padding, data_format="NWC", name=None):
    """The largest value of each window of sequences."""
    return _pool1d(gen.MaxPool, "MaxPool1d", input, ksize, strides, padding, data_format, name)


@export("nn.avg_pool1d")
def avg_pool1d(input, ksize, strides, padding, data_format="NWC", name=None):
    """The mean of each window of sequences."""
    return _pool1d(gen.AvgPool, "AvgPool1D", input, ksize, strides, padding, data_format, name)


def _by_rank(functions, input, ksize, strides, padding, data_format, name):
    rank = input.shape.ndims - 2 if input.shape is not None and input.shape.ndims is not None else len(data_format) - 2
    if rank not in functions:
        raise ValueError(f"Input tensor must be of rank 3, 4 or 5 but was {rank + 2}.")
    return functions[rank](input, ksize=ksize, strides=strides, padding=padding, data_format=data_format or {1: "NWC", 2: "NHWC"}[rank], name=name)


@export("nn.max_pool_v2")
def max_pool_v2(input, ksize, strides, padding, data_format=None, name=None):
    """The largest value of each window; the number of dimensions follows from the input."""
    return _by_rank({1: max_pool1d, 2: max_pool}, input, ksize, strides, padding, data_format, name)


@export("nn.avg_pool_v2")
def avg_pool_v2(input, ksize, strides, padding, data_format=None, name=None):
    """The mean of each window; the number of dimensions follows from the input."""
    return _by_rank({1: avg_pool1d, 2: avg_pool}, input, ksize, strides, padding, data_format, name)


@export("nn.max_pool_with_argmax")
def max_pool_with_argmax(input, ksize, strides, padding, data_format="NHWC", Targmax=None, name=None, output_dtype=None, include_batch_in_index=False):
    """The largest value of each window and its flat position."""
    if data_format != "NHWC":
        raise ValueError("data_format values other  than 'NHWC' are not supported")
    Targmax = renamed_argument("output_dtype", output_dtype, "Targmax", Targmax)
    return gen.MaxPoolWithArgmax(input, ksize=ksize, strides=strides, padding=padding, Targmax=dtypes.int64 if Targmax is None else Targmax, include_batch_in_index=include_batch_in_index, name=name)


@export("nn.pool")
def pool(input, window_shape, pooling_type, padding, dilation_rate=None, strides=None, name=None, data_format=None, dilations=None):
    """A pool over one, two or three spatial dimensions, with strides or a dilation."""
    dilation_rate = renamed_argument("dilations", dilations, "dilation_rate", dilation_rate)
    with ops.name_scope(name, "%s_pool" % pooling_type.lower(), [input]) as scope:
        input = ops.convert_to_tensor(input, name="input")
        spatial = len(window_shape)
        if spatial < 1 or spatial > 3:
            raise ValueError("It is required that 1 <= num_spatial_dims <= 3.")
        input.shape.with_rank(spatial + 2)
        strides = spatial_numbers(strides, spatial, "strides")
        dilation_rate = spatial_numbers(dilation_rate, spatial, "dilation_rate")
        dilated = any(rate != 1 for rate in dilation_rate)
        if dilated and any(stride > 1 for stride in strides):
            raise ValueError("strides > 1 not supported in conjunction with dilation_rate > 1")
        if padding == "SAME" and dilated:
            raise ValueError("pooling with SAME padding is not implemented for dilation_rate > 1")
        if any(stride > size for stride, size in zip(strides, window_shape)):
            raise ValueError("strides > window_shape not supported due to inconsistency between CPU and GPU implementations")
        ops_of = {("MAX", 1): max_pool1d, ("MAX", 2): max_pool, ("AVG", 1): avg_pool1d, ("AVG", 2): avg_pool}
        function = ops_of.get((pooling_type, spatial))
        if function is None:
            raise ValueError(f"{spatial}-D {pooling_type} pooling is not supported.")
        keywords = {} if data_format is None else {"data_format": data_format}
        if channels_are_first(data_format):
            ksize, steps = [1, 1] + list(window_shape), [1, 1] + list(strides)
        else:
            ksize, steps = [1] + list(window_shape) + [1], [1] + list(strides) + [1]

        def op(tensor, _, effective_padding):
            return function(tensor, ksize, steps, effective_padding, name=scope, **keywords)

        return with_space_to_batch(input=input, dilation_rate=dilation_rate, padding=padding, op=op, data_format=data_format, filter_shape=window_shape)
