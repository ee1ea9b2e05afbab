"""Functions that say into how many parts a variable is cut, along which axis."""

import math

from tensorfleet.framework import dtypes
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor_shape import TensorShape, as_shape

#: A string's size is not known before it is there.
_BYTES_PER_STRING = 16


def _checked(shape, dtype):
    if not isinstance(shape, TensorShape):
        raise ValueError(f"shape is not a TensorShape: {shape}")
    if not shape.is_fully_defined():
        raise ValueError(f"shape is not fully defined: {shape}")
    return dtypes.as_dtype(dtype)


@export("variable_axis_size_partitioner")
def variable_axis_size_partitioner(max_shard_bytes, axis=0, bytes_per_string_element=_BYTES_PER_STRING, max_shards=None):
    """A partitioner that keeps parts below a number of bytes, by cutting one axis."""
    if max_shard_bytes < 1 or bytes_per_string_element < 1:
        raise ValueError("Both max_shard_bytes and bytes_per_string_element must be positive.")
    if max_shards and max_shards < 1:
        raise ValueError("max_shards must be positive.")

    def partitioner(shape, dtype):
        dtype = _checked(shape, dtype)
        size = bytes_per_string_element if dtype.base_dtype == dtypes.string else dtype.size
        partitions = [1] * shape.ndims
        slice_bytes = size * (shape.num_elements() // shape.as_list()[axis])
        slices = max(1, math.floor(max_shard_bytes / slice_bytes))
        count = int(math.ceil(shape.as_list()[axis] / slices))
        partitions[axis] = min(max_shards, count) if max_shards else count
        return partitions

    return partitioner


@export("min_max_variable_partitioner")
def min_max_variable_partitioner(max_partitions=1, axis=0, min_slice_size=256 << 10, bytes_per_string_element=_BYTES_PER_STRING):
    """A partitioner that makes as many parts as it may, none below a number of bytes."""

    def partitioner(shape, dtype):
        dtype = _checked(shape, dtype)
        if axis >= len(shape):
            raise ValueError(f"Cannot partition variable along axis {axis} when shape is only {shape}")
        size = bytes_per_string_element if dtype.base_dtype == dtypes.string else dtype.size
        partitions = [1] * shape.ndims
        by_size = math.ceil(shape.num_elements() * size / min_slice_size)
        partitions[axis] = max(1, min(shape.as_list()[axis], max_partitions, by_size))
        return partitions

    return partitioner


@export("fixed_size_partitioner")
def fixed_size_partitioner(num_shards, axis=0):
    """A partitioner that always makes `num_shards` parts of one axis."""

    def partitioner(shape, **unused_args):
        partitions = [1] * len(as_shape(shape))
        partitions[axis] = min(num_shards, as_shape(shape).as_list()[axis])
        return partitions

    return partitioner


@export("create_partitioned_variables")
def create_partitioned_variables(shape, slicing, initializer, dtype=dtypes.float32, trainable=True, collections=None, name=None, reuse=None):
    """The parts of a variable that is cut as `slicing` says, one number for each axis."""
    from tensorfleet.ops import variable_scope

    if len(shape) != len(slicing):
        raise ValueError(f"The 'shape' and 'slicing' of a partitioned Variable must have the same length: shape: {shape}, slicing: {slicing}")
    if len(shape) < 1:
        raise ValueError(f"A partitioned Variable must have rank at least 1: shape: {shape}")
    with variable_scope.variable_scope(name, "PartitionedVariable", reuse=reuse):
        whole = variable_scope.get_variable(
            name="", shape=shape, dtype=dtype, initializer=initializer, trainable=trainable, collections=collections, partitioner=lambda **unused: list(slicing)
        )
        return list(whole)
