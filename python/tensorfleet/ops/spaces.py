"""Blocks of space moved to the batch or to the depth, and back."""

import numpy as np

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.constant import constant_value
from tensorfleet.framework.export import export


@export("space_to_batch", "nn.space_to_batch")
def space_to_batch(input, paddings, block_size=None, name=None, block_shape=None):
    """Moves blocks of space to the batch."""
    from tensorfleet.ops.arguments import renamed

    block_size = renamed("block_shape", block_shape, "block_size", block_size)
    return gen.SpaceToBatchND(input, _block(block_size), paddings, name=name)


def _block(size):
    return np.array([size, size], dtype=np.int64).astype(np.int32) if np.isscalar(size) else size


@export("batch_to_space")
def batch_to_space(input, crops, block_size, name=None, block_shape=None):
    """Moves blocks of space back from the batch."""
    from tensorfleet.ops.arguments import renamed

    block_size = renamed("block_shape", block_shape, "block_size", block_size)
    return gen.BatchToSpaceND(input, _block(block_size), crops, name=name)


@export("space_to_depth", "nn.space_to_depth")
def space_to_depth(input, block_size, name=None, data_format="NHWC"):
    """Moves blocks of space to the depth."""
    return gen.SpaceToDepth(input, block_size=block_size, data_format=data_format, name=name)


@export("depth_to_space", "nn.depth_to_space")
def depth_to_space(input, block_size, name=None, data_format="NHWC"):
    """Moves blocks of space back from the depth."""
    return gen.DepthToSpace(input, block_size=block_size, data_format=data_format, name=name)


@export("required_space_to_batch_paddings")
def required_space_to_batch_paddings(input_shape, block_shape, base_paddings=None, name=None):
    """The paddings that make a shape divisible into blocks, and the crops that undo them."""
    from tensorfleet.ops.array import stack
    from tensorfleet.ops.constants import zeros

    with ops.name_scope(name, "required_space_to_batch_paddings", [input_shape, block_shape]):
        input_shape = ops.convert_to_tensor(input_shape, dtype=dtypes.int32, name="input_shape")
        block_shape = ops.convert_to_tensor(block_shape, dtype=dtypes.int32, name="block_shape")
        block_shape.shape.assert_is_fully_defined()
        block_shape.shape.assert_has_rank(1)
        count = block_shape.shape._dims[0]
        if count == 0:
            return zeros([0, 2], dtypes.int32), zeros([0, 2], dtypes.int32)
        input_shape.shape.assert_is_compatible_with([count])
        if base_paddings is not None:
            base_paddings = ops.convert_to_tensor(base_paddings, dtype=dtypes.int32, name="base_paddings")
            base_paddings.shape.assert_is_compatible_with([count, 2])
        else:
            base_paddings = zeros([count, 2], dtypes.int32)
        known = [constant_value(value) for value in (block_shape, input_shape, base_paddings)]
        if all(value is not None for value in known):
            block_shape, input_shape, base_paddings = known
        start, original_end = base_paddings[:, 0], base_paddings[:, 1]
        full = input_shape + start + original_end
        extra = (block_shape - full % block_shape) % block_shape
        end = original_end + extra
        paddings = stack([[start[index], end[index]] for index in range(count)], name="paddings")
        crops = stack([[0, extra[index]] for index in range(count)], name="crops")
        return paddings, crops
