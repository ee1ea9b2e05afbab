"""Dilated convolutions and pools: an op applied to blocks that space-to-batch made."""

import numpy as np

import tensorfleet as tf
from tensorfleet.framework import constant, dtypes, gen, ops
from tensorfleet.framework.export import export


def spatial_dims(rank, channels_first):
    """The positions of the spatial dimensions of a batch of images."""
    return list(range(2, rank)) if channels_first else list(range(1, rank - 1))


def channels_are_first(data_format):
    return data_format is not None and data_format.startswith("NC")


@export("nn.with_space_to_batch")
def with_space_to_batch(input, dilation_rate, padding, op, filter_shape=None, spatial_dims=None, data_format=None):
    """`op(input, num_spatial_dims, padding)` with a dilation: neighbours of the result are `dilation_rate` apart in the input."""
    input = ops.convert_to_tensor(input, name="input")
    return SpaceToBatch(input.shape, dilation_rate, padding, filter_shape, spatial_dims, data_format).apply(input, op)


class SpaceToBatch:
    """How an input is cut into blocks for a dilation rate."""

    def __init__(self, input_shape, dilation_rate, padding, filter_shape=None, dims=None, data_format=None):
        dilation_rate = ops.convert_to_tensor(dilation_rate, dtypes.int32, name="dilation_rate")
        rate_shape = dilation_rate.shape
        if rate_shape.ndims is not None and rate_shape.ndims != 1:
            raise ValueError("rate must be rank 1")
        if not rate_shape.is_fully_defined():
            raise ValueError("rate must have known shape")
        count = rate_shape.as_list()[0]
        if dims is None:
            start = 2 if channels_are_first(data_format) else 1
            dims = range(start, count + start)
        dims = list(dims)
        if sorted(set(dims)) != dims or any(dim < 1 for dim in dims):
            raise ValueError("spatial_dims must be a montonically increasing sequence of positive integers")
        expected = dims[-1] if channels_are_first(data_format) else dims[-1] + 1
        input_shape.with_rank_at_least(expected)
        self.dims, self.count, self.padding = dims, count, padding
        value = constant.constant_value(dilation_rate)
        self.rate = value if value is not None else dilation_rate
        self.rate_tensor = dilation_rate
        if value is not None and np.any(value < 1):
            raise ValueError("dilation_rate must be positive")
        self.trivial = value is not None and np.all(value == 1)
        if self.trivial:
            return
        if padding == "SAME":
            if filter_shape is None:
                raise ValueError("filter_shape must be specified for SAME padding")
            filter_shape = ops.convert_to_tensor(filter_shape, name="filter_shape")
            known = constant.constant_value(filter_shape)
            self.base_paddings = _same_paddings(known if known is not None else filter_shape, count, self.rate)
        elif padding == "VALID":
            self.base_paddings = np.zeros([count, 2], np.int32)
        else:
            raise ValueError(f"Invalid padding method {padding!r}")

    def apply(self, input, op):
        if self.trivial:
            return op(input, self.count, self.padding)
        shape = input.shape.as_list() if input.shape.ndims is not None else None
        sizes = [None if shape is None else shape[dim] for dim in self.dims]
        if None in sizes:
            dynamic = tf.shape(input)
            sizes = tf.stack([dynamic[dim] for dim in self.dims])
        paddings, crops = tf.required_space_to_batch_paddings(input_shape=sizes, base_paddings=self.base_paddings, block_shape=self.rate_tensor)
        rate = _adjusted(self.rate, 1, self.dims)
        paddings = _adjusted(paddings, 0, self.dims)
        crops = _adjusted(crops, 0, self.dims)
        blocks = gen.SpaceToBatchND(input, rate, paddings)
        result = op(blocks, self.count, "VALID")
        return gen.BatchToSpaceND(result, rate, crops)


def _same_paddings(filter_shape, count, rate):
    spatial = filter_shape[:count]
    radius = (spatial - 1) * rate
    before = radius // 2
    return tf.stack([[before[i], (radius - before)[i]] for i in range(count)])


def _adjusted(values, fill, dims):
    """Values for the spatial dimensions among those from the second on; the others get `fill`."""
    known = constant.constant_value(values) if isinstance(values, ops.Tensor) else np.asarray(values)
    fill_row = fill if (known.ndim if known is not None else values.shape.ndims) == 1 else [fill, fill]
    parts, previous, source = [], 0, known if known is not None else values
    i = 0
    while i < len(dims):
        start = i
        extra = dims[i] - 1 - previous
        if extra > 0:
            parts.append([fill_row] * extra)
        while i + 1 < len(dims) and dims[i + 1] == dims[i] + 1:
            i += 1
        parts.append(source[start : i + 1])
        previous = dims[i]
        i += 1
    if known is not None:
        return np.concatenate([np.asarray(part).reshape((-1,) + known.shape[1:]) for part in parts], 0).astype(np.int32)
    return tf.concat(parts, 0)
