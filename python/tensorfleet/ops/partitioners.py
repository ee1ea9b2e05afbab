"""Partitioners: functions of a shape and a dtype that say into how many parts each dimension of a variable is divided."""

import math

from tensorfleet.framework.export import export


def _parts(shape, axis, count):
    parts = [1] * shape.ndims
    parts[axis] = count
    return parts


def _known(shape):
    if not shape.is_fully_defined():
        raise ValueError(f"shape is not fully defined: {shape}")
    return shape.as_list()


@export("fixed_size_partitioner")
def fixed_size_partitioner(num_shards, axis=0):
    """A number of parts along an axis; no more than the axis is long."""

    def _partitioner(shape, **unused_args):
        length = shape.as_list()[axis]
        return _parts(shape, axis, min(num_shards, length) if length is not None else num_shards)

    return _partitioner


@export("variable_axis_size_partitioner")
def variable_axis_size_partitioner(max_shard_bytes, axis=0, bytes_per_string_element=16, max_shards=None):
    """Parts along an axis that are no larger than a number of bytes."""
    if max_shard_bytes < 1 or bytes_per_string_element < 1:
        raise ValueError("Both max_shard_bytes and bytes_per_string_element must be positive.")
    if max_shards and max_shards < 1:
        raise ValueError("max_shards must be positive.")

    def _partitioner(shape, dtype):
        dims = _known(shape)
        element = bytes_per_string_element if dtype.base_dtype.name == "string" else dtype.base_dtype.size
        slice_bytes = element
        for position, size in enumerate(dims):
            slice_bytes *= 1 if position == axis else size
        # A part has whole slices, at least one.
        slices = max(1, math.floor(max_shard_bytes / slice_bytes)) if slice_bytes else dims[axis] or 1
        count = int(math.ceil(1.0 * dims[axis] / slices)) or 1
        if max_shards:
            count = min(max_shards, count)
        return _parts(shape, axis, count)

    return _partitioner


@export("min_max_variable_partitioner")
def min_max_variable_partitioner(max_partitions=1, axis=0, min_slice_size=256 << 10, bytes_per_string_element=16):
    """As many parts along an axis as have at least a number of bytes each."""

    def _partitioner(shape, dtype):
        dims = _known(shape)
        element = bytes_per_string_element if dtype.base_dtype.name == "string" else dtype.base_dtype.size
        total = element
        for size in dims:
            total *= size
        count = max(1, int(math.ceil(1.0 * total / min_slice_size))) if dims else 1
        if axis >= len(dims):
            raise ValueError(f"Cannot partition variable along axis {axis} when shape is only {shape}")
        return _parts(shape, axis, max(1, min(count, max_partitions, dims[axis])))

    return _partitioner
