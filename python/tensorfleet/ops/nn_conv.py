"""Convolutions of `tf.nn`, in all their forms."""

import tensorfleet as tf
from tensorfleet.framework import constant, gen, ops
from tensorfleet.framework.export import export
from tensorfleet.ops.nn_activation import renamed_argument
from tensorfleet.ops.space_to_batch import SpaceToBatch, channels_are_first


def numbers(value, count, channel_index, name):
    """A list with one number for each dimension of a batch, from one, `count` or `count + 2` numbers."""
    if value is None:
        value = [1]
    elif not isinstance(value, (list, tuple)) and not hasattr(value, "__iter__"):
        value = [value]
    value = list(value)
    if len(value) == count + 2:
        return value
    if len(value) == 1:
        value = value * count
    elif len(value) != count:
        raise ValueError(f"{name} should be of length 1, {count} or {count + 2} but was {len(value)}")
    return [1] + value + [1] if channel_index == count + 1 else [1, 1] + value


def _channel_index(data_format, rank):
    return 1 if channels_are_first(data_format) else rank + 1


def explicit_padding(padding, data_format="NHWC"):
    """The attributes `padding` and `explicit_paddings` of a convolution."""
    if isinstance(padding, (list, tuple)):
        batch, channel = padding[0], padding[3 if data_format == "NHWC" else 1]
        for part, where in ((batch, "batch"), (channel, "channel")):
            if part != [0, 0]:
                raise ValueError(f"Nonzero explicit padding in the {where} dimension is not supported")
        return "EXPLICIT", [number for pair in padding for number in pair]
    return padding, []


@export("nn.conv2d")
def conv2d(input, filter=None, strides=None, padding=None, use_cudnn_on_gpu=True, data_format="NHWC", dilations=[1, 1, 1, 1], name=None, filters=None):
    """A convolution of images with filters `[height, width, in, out]`."""
    filter = renamed_argument("filters", filters, "filter", filter)
    padding, explicit = explicit_padding(padding, data_format)
    data_format = data_format or "NHWC"
    channel = _channel_index(data_format, 2)
    return gen.Conv2D(
        input,
        filter,
        strides=numbers(strides, 2, channel, "strides"),
        padding=padding,
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        explicit_paddings=explicit,
        data_format=data_format,
        dilations=numbers(dilations, 2, channel, "dilations"),
        name=name,
    )


@export("nn.conv2d_backprop_filter")
def conv2d_backprop_filter(input, filter_sizes, out_backprop, strides, padding, use_cudnn_on_gpu=True, data_format="NHWC", dilations=[1, 1, 1, 1], name=None):
    """The gradient of a convolution for its filter."""
    padding, explicit = explicit_padding(padding, data_format)
    return gen.Conv2DBackpropFilter(input, filter_sizes, out_backprop, strides=strides, padding=padding, use_cudnn_on_gpu=use_cudnn_on_gpu, explicit_paddings=explicit, data_format=data_format, dilations=dilations, name=name)


@export("nn.conv2d_backprop_input")
def conv2d_backprop_input(input_sizes, filter=None, out_backprop=None, strides=None, padding=None, use_cudnn_on_gpu=True, data_format="NHWC", dilations=[1, 1, 1, 1], name=None, filters=None):
    """The gradient of a convolution for its input."""
    filter = renamed_argument("filters", filters, "filter", filter)
    padding, explicit = explicit_padding(padding, data_format)
    return gen.Conv2DBackpropInput(input_sizes, filter, out_backprop, strides=strides, padding=padding, use_cudnn_on_gpu=use_cudnn_on_gpu, explicit_paddings=explicit, data_format=data_format, dilations=dilations, name=name)


@export("nn.conv1d")
def conv1d(value=None, filters=None, stride=None, padding=None, use_cudnn_on_gpu=None, data_format=None, name=None, input=None, dilations=None):
    """A convolution of sequences with filters `[width, in, out]`."""
    value = renamed_argument("input", input, "value", value)
    with ops.name_scope(name, "conv1d", [value, filters]) as name:
        if data_format is None or data_format in ("NHWC", "NWC"):
            data_format, start, channel = "NHWC", 1, 2
        elif data_format in ("NCHW", "NCW"):
            data_format, start, channel = "NCHW", 2, 1
        else:
            raise ValueError("data_format must be \"NWC\" or \"NCW\".")
        strides = [1] + numbers(stride, 1, channel, "stride")
        dilations = [1] + numbers(dilations, 1, channel, "dilations")
        value = tf.expand_dims(value, start)
        filters = tf.expand_dims(filters, 0)
        result = gen.Conv2D(value, filters, strides=strides, padding=padding, use_cudnn_on_gpu=use_cudnn_on_gpu, data_format=data_format, dilations=dilations, name=name)
        return tf.squeeze(result, [start])


def one_convolution(input, filter, padding, data_format, strides, name, rank):
    """A convolution without dilation by the op for its number of spatial dimensions."""
    if rank == 1:
        formats = {None: None, "NCW": "NCHW", "NWC": "NHWC"}
        if data_format not in formats:
            raise ValueError("data_format must be \"NWC\" or \"NCW\".")
        return conv1d(value=input, filters=filter, stride=strides[0], padding=padding, data_format=data_format, name=name)
    if rank == 2:
        if data_format not in (None, "NHWC", "NCHW"):
            raise ValueError("data_format must be \"NHWC\" or \"NCHW\".")
        strides = [1, 1] + list(strides) if data_format == "NCHW" else [1] + list(strides) + [1]
        return gen.Conv2D(input, filter, padding=padding, data_format=data_format or "NHWC", strides=strides, name=name)
    raise NotImplementedError("convolutions over three spatial dimensions; tensorfleet has them over one and two")


def spatial_numbers(value, rank, name):
    """One number for each spatial dimension."""
    if value is None:
        return [1] * rank
    if isinstance(value, (int,)):
        return [value] * rank
    value = list(value) if not isinstance(value, ops.Tensor) else value
    if not isinstance(value, ops.Tensor) and len(value) == 1 and rank > 1:
        value = value * rank
    if not isinstance(value, ops.Tensor) and len(value) != rank:
        raise ValueError(f"len({name})={len(value)} but should be {rank}")
    return value


@export("nn.convolution")
def convolution(input, filter, padding, strides=None, dilation_rate=None, name=None, data_format=None, filters=None, dilations=None):
    """A convolution over one, two or three spatial dimensions, with strides or a dilation."""
    filter = renamed_argument("filters", filters, "filter", filter)
    dilation_rate = renamed_argument("dilations", dilations, "dilation_rate", dilation_rate)
    return convolution_internal(input, filter, strides, padding, data_format, dilation_rate, name)


def convolution_internal(input, filters, strides, padding, data_format, dilations, name=None):
    with ops.name_scope(name, "convolution", [input, filters]) as name:
        input = ops.convert_to_tensor(input, name="input")
        filters = ops.convert_to_tensor(filters, name="filter")
        rank = input.shape.ndims if input.shape.ndims is not None else filters.shape.ndims
        if rank is None:
            raise ValueError("rank of input or filter must be known")
        spatial = rank - 2
        if spatial not in (1, 2, 3):
            raise ValueError(f"num_spatial_dims ({spatial}) must be one of 1, 2 or 3")
        _check_channels(input.shape, filters.shape, data_format, rank)
        strides = spatial_numbers(strides, spatial, "strides")
        dilations = spatial_numbers(dilations, spatial, "dilation_rate")
        dilated = isinstance(dilations, ops.Tensor) or any(rate != 1 for rate in dilations)
        if dilated and any(stride > 1 for stride in strides):
            raise ValueError("strides > 1 not supported in conjunction with dilation_rate > 1")

        def op(tensor, _, effective_padding):
            return one_convolution(tensor, filters, effective_padding, data_format, strides, name, spatial)

        if not dilated:
            return op(input, spatial, padding)
        filter_shape = None
        if padding == "SAME":
            filter_shape = filters.shape if filters.shape.is_fully_defined() else tf.shape(filters)
        return SpaceToBatch(input.shape, dilations, padding, filter_shape, None, data_format).apply(input, op)


def _check_channels(input_shape, filter_shape, data_format, rank):
    if input_shape.ndims is None or filter_shape.ndims is None:
        return
    if filter_shape.ndims != rank:
        raise ValueError(f"filter must have rank {rank} like the input, not {filter_shape.ndims}")
    channels = input_shape.as_list()[1 if channels_are_first(data_format) else -1]
    expected = filter_shape.as_list()[-2]
    if channels is not None and expected is not None and channels % expected:
        raise ValueError(f"number of input channels does not match corresponding dimension of filter, {channels} != {expected}")


@export("nn.atrous_conv2d")
def atrous_conv2d(value, filters, rate, padding, name=None):
    """A convolution whose filter is stretched by `rate`."""
    return convolution(input=value, filter=filters, padding=padding, dilation_rate=[rate] * 2, name=name)


# ---- transposed convolutions


@export("nn.conv2d_transpose")
def conv2d_transpose(value=None, filter=None, output_shape=None, strides=None, padding="SAME", data_format="NHWC", name=None, input=None, filters=None, dilations=None):
    """The gradient of `conv2d` for its input, used as a layer that enlarges images."""
    value = renamed_argument("input", input, "value", value)
    filter = renamed_argument("filters", filters, "filter", filter)
    with ops.name_scope(name, "conv2d_transpose", [value, filter, output_shape]) as name:
        return conv2d_transpose_v2(value, filter, output_shape, strides, padding, data_format, dilations, name)


def conv2d_transpose_v2(input, filters, output_shape, strides, padding="SAME", data_format="NHWC", dilations=None, name=None):
    with ops.name_scope(name, "conv2d_transpose", [input, filters, output_shape]) as name:
        data_format = data_format or "NHWC"
        channel = _channel_index(data_format, 2)
        return gen.Conv2DBackpropInput(
            output_shape,
            filters,
            input,
            strides=numbers(strides, 2, channel, "strides"),
            padding=padding,
            data_format=data_format,
            dilations=numbers(dilations, 2, channel, "dilations"),
            name=name,
        )


@export("nn.conv1d_transpose")
def conv1d_transpose(input, filters, output_shape, strides, padding="SAME", data_format="NWC", dilations=None, name=None):
    """The gradient of `conv1d` for its input."""
    with ops.name_scope(name, "conv1d_transpose", [input, filters, output_shape]) as name:
        data_format = data_format or "NWC"
        if data_format not in ("NWC", "NCW"):
            raise ValueError(f"data_format must be \"NWC\" or \"NCW\", not {data_format}.")
        wide, start, channel = ("NHWC", 1, 2) if data_format == "NWC" else ("NCHW", 2, 1)
        strides = [1] + numbers(strides, 1, channel, "stride")
        dilations = [1] + numbers(dilations, 1, channel, "dilations")
        input = tf.expand_dims(input, start)
        filters = tf.expand_dims(filters, 0)
        if isinstance(output_shape, (list, tuple)):
            output_shape = list(output_shape)
        output_shape = tf.concat([output_shape[:start], [1], output_shape[start:]], 0)
        result = gen.Conv2DBackpropInput(output_shape, filters, input, strides=strides, padding=padding, data_format=wide, dilations=dilations, name=name)
        return tf.squeeze(result, start)


@export("nn.conv_transpose")
def conv_transpose(input, filters, output_shape, strides, padding="SAME", data_format=None, dilations=None, name=None):
    """A transposed convolution; the number of dimensions follows from the output's shape."""
    with ops.name_scope(name, "conv_transpose", [input, filter, output_shape]) as name:
        if isinstance(output_shape, (list, tuple)):
            rank = len(output_shape)
        else:
            rank = ops.convert_to_tensor(output_shape).shape.as_list()[0]
        functions = {3: conv1d_transpose, 4: conv2d_transpose_v2}
        if rank not in functions:
            raise NotImplementedError(f"transposed convolutions over {rank - 2} spatial dimensions; tensorfleet has them over one and two")
        keywords = {} if data_format is None else {"data_format": data_format}
        return functions[rank](input, filters, output_shape, strides, padding=padding, dilations=dilations, name=name, **keywords)


@export("nn.atrous_conv2d_transpose")
def atrous_conv2d_transpose(value, filters, output_shape, rate, padding, name=None):
    """The gradient of `atrous_conv2d` for its input."""
    with ops.name_scope(name, "atrous_conv2d_transpose", [value, filters, output_shape]) as name:
        value = ops.convert_to_tensor(value, name="value")
        filters = ops.convert_to_tensor(filters, name="filters")
        if rate < 1:
            raise ValueError("rate {} cannot be less than one".format(rate))
        if rate == 1:
            return conv2d_transpose(value, filters, output_shape, strides=[1, 1, 1, 1], padding=padding, data_format="NHWC")
        output_shape = ops.convert_to_tensor(output_shape, name="output_shape")
        known = constant.constant_value(output_shape)
        out = [int(number) for number in known] if known is not None else [output_shape[i] for i in range(4)]
        top = bottom = left = right = 0
        if padding == "SAME":
            if filters.shape.is_fully_defined():
                height, width = filters.shape.as_list()[:2]
            else:
                filter_shape = tf.shape(filters)
                height, width = filter_shape[0], filter_shape[1]
            pad_height = (height + (height - 1) * (rate - 1)) - 1
            pad_width = (width + (width - 1) * (rate - 1)) - 1
            top, left = pad_height // 2, pad_width // 2
            bottom, right = pad_height - top, pad_width - left
        elif padding != "VALID":
            raise ValueError("padding must be either VALID or SAME: {}".format(padding))
        in_height, in_width = out[1] + top + bottom, out[2] + left + right
        extra_height, extra_width = (rate - in_height % rate) % rate, (rate - in_width % rate) % rate
        shape = value.shape.as_list()
        if None in shape:
            dynamic = tf.shape(value)
            shape = [dynamic[i] if size is None else size for i, size in enumerate(shape)]
        pad = [[0, (rate - shape[1] % rate) % rate if known is None else extra_height], [0, extra_width]]
        value = gen.SpaceToBatchND(value, [rate, rate], pad)
        sizes = [rate * rate * out[0], (in_height + extra_height) // rate, (in_width + extra_width) // rate, out[3]]
        value = gen.Conv2DBackpropInput(sizes, filters, value, strides=[1, 1, 1, 1], padding="VALID", data_format="NHWC")
        crops = [[top, bottom + extra_height], [left, right + extra_width]]
        return gen.BatchToSpaceND(value, [rate, rate], crops)
