"""Sorting, and repeating elements: `tf.sort`, `tf.argsort`, `tf.repeat`."""

import numpy as np

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.constant import constant, constant_value
from tensorfleet.framework.export import export
from tensorfleet.ops import array, reductions


def _top(values, axis, direction, of_indices):
    """The sorted values or their places, by the op that finds the largest."""
    values = ops.convert_to_tensor(values, name="values")
    known_axis = constant_value(ops.convert_to_tensor(axis)) if not isinstance(axis, int) else axis
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"{direction} should be one of ASCENDING, DESCENDING")
    ascending = direction == "ASCENDING"
    if ascending and values.dtype.is_integer and values.dtype.is_unsigned:
        offset = values.dtype.max
        turned = gen.Sub(ops.convert_to_tensor(offset, dtype=values.dtype.base_dtype), values)
    else:
        turned = gen.Neg(values) if ascending else values
    shape = array.shape(turned)
    length = shape[known_axis]
    array.rank(turned)  # TensorFlow asks for it, known or not
    known = turned.shape.rank
    if known_axis in (-1, None if known is None else known - 1):
        found = gen.TopKV2(turned, length)
        result = found.indices if of_indices else found.values
    else:
        if known is None:
            raise NotImplementedError("tf.sort along an axis other than the last of a tensor of unknown rank")
        place = known_axis + known if known_axis < 0 else known_axis
        perm = [*range(place), known - 1, *range(place + 1, known - 1), place]
        perm = constant(np.array(perm, dtype=np.int64), name="transposition")
        found = gen.TopKV2(array.transpose(turned, perm), length)
        result = array.transpose(found.indices if of_indices else found.values, perm)
    if ascending and not of_indices:
        if values.dtype.is_integer and values.dtype.is_unsigned:
            return gen.Sub(ops.convert_to_tensor(values.dtype.max, dtype=values.dtype.base_dtype), result)
        return gen.Neg(result)
    return result


@export("sort")
def sort(values, axis=-1, direction="ASCENDING", name=None):
    """The elements of an axis in order."""
    with ops.name_scope(name, "sort"):
        ops.convert_to_tensor(axis, name="axis")
        return _top(values, axis, direction, False)


@export("argsort")
def argsort(values, axis=-1, direction="ASCENDING", stable=False, name=None):
    """Where the elements of an axis stand in order."""
    del stable  # the op that finds the largest is stable
    with ops.name_scope(name, "argsort"):
        ops.convert_to_tensor(axis, name="axis")
        return _top(values, axis, direction, True)


@export("repeat")
def repeat(input, repeats, axis=None, name=None):
    """Each element several times."""
    if axis is None:
        input = array.reshape(input, [-1])
        axis = 0
    return _repeat_with_axis(input, repeats, axis, name)


def _repeat_with_axis(data, repeats, axis, name):
    from tensorfleet.ops.indexing import boolean_mask, sequence_mask

    if not isinstance(axis, int):
        raise TypeError(f"axis must be an int; got {type(axis).__name__}")
    with ops.name_scope(name, "Repeat", [data, repeats]):
        data = ops.convert_to_tensor(data, name="data")
        repeats = gen.Cast(ops.convert_to_tensor(repeats, name="repeats"), DstT=dtypes.int32)
        repeats.shape.with_rank_at_most(1)
        rank = data.shape.rank
        if rank is None:
            raise ValueError("tf.repeat needs a tensor of known rank")
        axis = axis + rank if axis < 0 else axis
        shape = array.shape(data, out_type=dtypes.int32)
        if repeats.shape.num_elements() == 1:
            repeats = array.reshape(repeats, []) if repeats.shape.rank != 0 else repeats
            expanded = array.expand_dims(data, axis + 1)
            tiled = gen.Tile(expanded, [1] * (axis + 1) + [repeats] + [1] * (rank - axis - 1))
            result_shape = array.concat([shape[:axis], [-1], shape[axis + 1 :]], axis=0)
            return array.reshape(tiled, result_shape)
        if repeats.shape.rank == 0 or repeats.shape.rank is None:
            repeats = gen.BroadcastTo(repeats, array.reshape(shape[axis], [1]))
        largest = gen.Maximum(0, reductions.reduce_max(repeats))
        mask = sequence_mask(repeats, largest)
        expanded = array.expand_dims(data, axis + 1)
        tiled = gen.Tile(expanded, [1] * (axis + 1) + [largest] + [1] * (rank - axis - 1))
        if rank == 1:
            return boolean_mask(tiled, mask)
        return boolean_mask(tiled, mask, axis=axis)
