"""Shapes and arrangement of tensors: `tf.shape`, `tf.reshape`, `tf.concat`, `tf.transpose` and their relatives."""

import builtins

import numpy as np

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.composite import SparseTensor, SparseTensorValue
from tensorfleet.framework.constant import constant, constant_value, constant_value_as_shape
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.framework.tensor_shape import Dimension, TensorShape
from tensorfleet.ops.arguments import is_integer, renamed
from tensorfleet.ops.indexing import boolean_mask

__all__ = ["boolean_mask", "stack", "strided_slice"]


def _is_sparse(value):
    return isinstance(value, (SparseTensor, SparseTensorValue))


@export("identity")
def identity(input, name=None):
    """The same tensor as a node of its own."""
    if isinstance(input, SparseTensor):
        return SparseTensor(gen.Identity(input.indices), gen.Identity(input.values, name=name), gen.Identity(input.dense_shape))
    return gen.Identity(input, name=name)


@export("shape")
def shape(input, name=None, out_type=dtypes.int32):
    """The shape as a vector; a constant if it is known."""
    return shape_internal(input, name, optimize=True, out_type=out_type)


def shape_internal(input, name=None, optimize=True, out_type=dtypes.int32):
    with ops.name_scope(name, "Shape", [input]) as name:
        if _is_sparse(input):
            return gen.Cast(input.dense_shape, DstT=out_type) if dtypes.as_dtype(out_type) != dtypes.int64 else input.dense_shape
        tensor = ops.convert_to_tensor(input)
        dims = tensor.shape
        if optimize and dims.is_fully_defined():
            return constant(dims.as_list(), out_type, name=name)
        return gen.Shape(tensor, out_type=out_type, name=name)


@export("shape_n")
def shape_n(input, out_type=dtypes.int32, name=None):
    """The shapes of several tensors."""
    return gen.ShapeN(input, out_type=out_type, name=name)


@export("size")
def size(input, name=None, out_type=dtypes.int32):
    """The number of elements; a constant if it is known."""
    return size_internal(input, name, True, out_type)


def size_internal(input, name=None, optimize=True, out_type=dtypes.int32):
    with ops.name_scope(name, "Size", [input]) as name:
        if _is_sparse(input):
            from tensorfleet.ops import math, reductions

            return reductions.reduce_prod(math.cast(input.dense_shape, out_type), 0, name=name)
        tensor = ops.convert_to_tensor(input)
        if optimize:
            dims = tensor.shape
            if dims.is_fully_defined():
                return constant(dims.num_elements(), out_type, name=name)
            if dims.rank is not None and 0 in dims.as_list():
                return constant(0, out_type, name=name)
        return gen.Size(tensor, out_type=out_type, name=name)


@export("rank")
def rank(input, name=None):
    """The number of dimensions; a constant if it is known."""
    return rank_internal(input, name)


def rank_internal(input, name=None, optimize=True):
    with ops.name_scope(name, "Rank", [input]) as name:
        if _is_sparse(input):
            return gen.Size(input.dense_shape, name=name)
        tensor = ops.convert_to_tensor(input)
        known = tensor.shape.rank
        if optimize and known is not None:
            return constant(known, dtypes.int32, name=name)
        return gen.Rank(tensor, name=name)


def _set_shape_if_known(tensor, shape_value):
    """Tells a tensor the shape that a value of the program says, if inference did not see it."""
    if tensor.shape.is_fully_defined() or isinstance(shape_value, Tensor) and constant_value(shape_value) is None:
        return
    if isinstance(shape_value, Tensor):
        tensor.set_shape(constant_value_as_shape(shape_value))


@export("reshape", "manip.reshape")
def reshape(tensor, shape, name=None):
    """The same elements in another shape."""
    result = gen.Reshape(tensor, shape, name=name)
    _set_shape_if_known(result, shape)
    return result


@export("expand_dims")
def expand_dims(input, axis=None, name=None, dim=None):
    """Adds a dimension of length one."""
    axis = renamed("axis", axis, "dim", dim)
    if axis is None:
        raise ValueError("Must specify an axis argument to tf.expand_dims()")
    return gen.ExpandDims(input, axis, name=name)


@export("squeeze")
def squeeze(input, axis=None, name=None, squeeze_dims=None):
    """Leaves dimensions of length one out."""
    axis = renamed("axis", axis, "squeeze_dims", squeeze_dims)
    if np.isscalar(axis):
        axis = [axis]
    return gen.Squeeze(input, squeeze_dims=[] if axis is None else axis, name=name)


def _check_axis(axis, dims):
    if axis < -dims or axis >= dims:
        raise ValueError(f"axis = {axis} not in [{-dims}, {dims})")


@export("stack")
def stack(values, axis=0, name="stack"):
    """Packs tensors of one shape along a new axis. A list of numbers becomes a constant."""
    if axis == 0:
        try:
            return ops.convert_to_tensor(values, name=name)
        except (TypeError, ValueError):
            pass  # what cannot be one constant is packed below, which says what is wrong
    first = ops.convert_to_tensor(values[0], name=name).shape.rank
    if first is not None:
        _check_axis(axis, first + 1)
    return gen.Pack(values, axis=axis, name=name)


@export("unstack")
def unstack(value, num=None, axis=0, name="unstack"):
    """Takes a tensor apart along an axis."""
    if num is None:
        value = ops.convert_to_tensor(value)
        dims = value.shape
        if dims.rank is not None:
            _check_axis(axis, dims.rank)
            num = dims._dims[axis]
    if num is None:
        raise ValueError(f"Cannot infer num from shape {value.shape}")
    return gen.Unpack(value, num=num, axis=axis, name=name)


@export("concat")
def concat(values, axis, name="concat"):
    """Joins tensors along an axis. The order of TensorFlow 0.x, the axis first, is understood too."""
    if isinstance(axis, (list, tuple)) and not isinstance(values, (list, tuple)):
        values, axis = axis, values
    if not isinstance(values, (list, tuple)):
        values = [values]
    if len(values) == 1:
        # TensorFlow makes the axis a node here, so that a wrong one is noticed.
        with ops.name_scope(name):
            ops.convert_to_tensor(axis, dtype=dtypes.int32, name="concat_dim").shape.assert_has_rank(0)
            return identity(values[0], name=name)
    return gen.ConcatV2(values, axis, name=name)


@export("split")
def split(value, num_or_size_splits, axis=0, num=None, name="split"):
    """Divides a tensor along an axis. TensorFlow 0.x's `split(dim, number, value)` is understood too."""
    if is_integer(value) and is_integer(num_or_size_splits) and not is_integer(axis):
        value, axis = axis, value
    sizes = ops.convert_to_tensor(num_or_size_splits)
    if is_integer(num_or_size_splits):
        return gen.Split(axis, value, num_split=int(num_or_size_splits), name=name)
    if sizes.shape.rank == 0:
        raise ValueError(f"Rank-0 tensors are not supported as the num_or_size_splits argument to split. Argument provided: {num_or_size_splits}")
    if num is None:
        dims = sizes.shape
        num = None if dims.rank is None else dims._dims[0]
        if num is None:
            raise ValueError(f"Cannot infer num from shape {num_or_size_splits}")
    return gen.SplitV(value, sizes, axis, num_split=num, name=name)


@export("transpose")
def transpose(a, perm=None, name="transpose", conjugate=False):
    """Changes the order of the dimensions; without `perm` reverses it."""
    with ops.name_scope(name, "transpose", [a]) as name:
        if perm is None or conjugate:
            a = ops.convert_to_tensor(a, name="a")
        function = gen.ConjugateTranspose if conjugate and a.dtype.is_complex else gen.Transpose
        if perm is None:
            known = a.shape.rank
            if known is None:
                known = gen.Rank(a)
                perm = (known - 1) - gen.Range(0, known, 1)
            else:
                perm = np.arange(known - 1, -1, -1, dtype=np.int32)
        return function(a, perm, name=name)


@export("matrix_transpose", "linalg.matrix_transpose", "linalg.transpose")
def matrix_transpose(a, name="matrix_transpose", conjugate=False):
    """Exchanges the last two dimensions."""
    with ops.name_scope(name, values=[a]):
        a = ops.convert_to_tensor(a, name="a")
        known = a.shape.rank
        if known is None:
            dims = rank(a)
            perm = concat((gen.Range(0, dims - 2, 1), [dims - 1, dims - 2]), 0)
        else:
            if known < 2:
                raise ValueError(f"Argument 'a' should be a (batch) matrix, with rank >= 2.  Found: {a.shape}")
            perm = [*builtins.range(known - 2), known - 1, known - 2]
        return transpose(a, perm=perm, conjugate=conjugate)


@export("slice")
def slice(input_, begin, size, name=None):
    """The block of `size` that begins at `begin`."""
    return gen.Slice(input_, begin, size, name=name)


@export("strided_slice")
def strided_slice(
    input_, begin, end, strides=None, begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0, var=None, name=None
):
    """Every so-many-th element between two positions. The slice of a variable can be assigned to."""
    if strides is None:
        from tensorfleet.ops.constants import ones_like

        strides = ones_like(begin)
    masks = {
        "begin_mask": begin_mask,
        "end_mask": end_mask,
        "ellipsis_mask": ellipsis_mask,
        "new_axis_mask": new_axis_mask,
        "shrink_axis_mask": shrink_axis_mask,
    }
    parent = name
    tensor = gen.StridedSlice(input_, begin, end, strides, name=name, **masks)

    def assign(val, name=None):
        """Assigns to the slice of the variable."""
        if var is None:
            raise ValueError("Sliced assignment is only supported for variables")
        return var._strided_slice_assign(begin, end, strides, val, name or f"{parent}_assign", **masks)

    tensor.assign = assign
    return tensor


@export("pad")
def pad(tensor, paddings, mode="CONSTANT", name=None, constant_values=0):
    """Adds elements around a tensor: a constant, or its own mirrored."""
    mode = mode.upper()
    if mode == "CONSTANT":
        if not isinstance(constant_values, Tensor) and np.isscalar(constant_values) and constant_values == 0:
            result = gen.Pad(tensor, paddings, name=name)
        else:
            result = gen.PadV2(tensor, paddings, constant_values, name=name)
    elif mode in ("REFLECT", "SYMMETRIC"):
        result = gen.MirrorPad(tensor, paddings, mode=mode, name=name)
    else:
        raise ValueError(f"Unknown padding mode: {mode}")
    return result


@export("meshgrid")
def meshgrid(*args, **kwargs):
    """Grids of coordinates from vectors of them."""
    from tensorfleet.ops.constants import ones

    indexing = kwargs.pop("indexing", "xy")
    name = kwargs.pop("name", "meshgrid")
    if kwargs:
        key = next(iter(kwargs))
        raise TypeError(f"'{key}' is an invalid keyword argument for this function")
    if indexing not in ("xy", "ij"):
        raise ValueError("indexing parameter must be either 'xy' or 'ij'")
    with ops.name_scope(name, "meshgrid", args):
        count = len(args)
        ones_of = (1,) * count
        if not args:
            return []
        columns = [reshape(stack(item), (ones_of[:index] + (-1,) + ones_of[index + 1 :])) for index, item in enumerate(args)]
        sizes = [size(item) for item in args]
        out_dtype = ops.convert_to_tensor(args[0]).dtype.base_dtype
        if indexing == "xy" and count > 1:
            columns[0] = reshape(columns[0], (1, -1) + (1,) * (count - 2))
            columns[1] = reshape(columns[1], (-1, 1) + (1,) * (count - 2))
            sizes[0], sizes[1] = sizes[1], sizes[0]
        full = ones(sizes, out_dtype)
        return [column * full for column in columns]


@export("broadcast_dynamic_shape")
def broadcast_dynamic_shape(shape_x, shape_y):
    """The shape that two shapes broadcast to."""
    return gen.BroadcastArgs(shape_x, shape_y)


@export("broadcast_static_shape")
def broadcast_static_shape(shape_x, shape_y):
    """The shape that two known shapes broadcast to."""
    first, second = TensorShape(shape_x), TensorShape(shape_y)
    if first.rank is None or second.rank is None:
        return TensorShape(None)
    length = max(first.rank, second.rank)
    dims = []
    for a, b in zip((1,) * (length - first.rank) + first._dims, (1,) * (length - second.rank) + second._dims):
        if a == 1:
            dims.append(b)
        elif b == 1:
            dims.append(a)
        elif a is None or b is None:
            # One of them is longer than one, or neither is known.
            dims.append(a if b is None else b)
        elif a == b:
            dims.append(a)
        else:
            raise ValueError(f"Incompatible shapes for broadcasting: {first} and {second}")
    return TensorShape(dims)


@export("setdiff1d")
def setdiff1d(x, y, index_dtype=dtypes.int32, name=None):
    """The elements of one list that another lacks, and where they stand."""
    return gen.ListDiff(x, y, out_idx=index_dtype, name=name)


@export("unique")
def unique(x, out_idx=dtypes.int32, name=None):
    """The different elements of a vector, and which one stands at each place."""
    return gen.Unique(x, out_idx=out_idx, name=name)


@export("unique_with_counts")
def unique_with_counts(x, out_idx=dtypes.int32, name=None):
    """The different elements of a vector, which one stands at each place, and how often each occurs."""
    return gen.UniqueWithCounts(x, out_idx=out_idx, name=name)


@export("reverse_sequence")
def reverse_sequence(input, seq_lengths, seq_axis=None, batch_axis=None, name=None, seq_dim=None, batch_dim=None):
    """Reverses the first elements of each row, so many as its length says."""
    seq_axis = renamed("seq_axis", seq_axis, "seq_dim", seq_dim)
    batch_axis = renamed("batch_axis", batch_axis, "batch_dim", batch_dim)
    return gen.ReverseSequence(input, seq_lengths, seq_dim=seq_axis, batch_dim=batch_axis, name=name)


def _length(value):
    return value.value if isinstance(value, Dimension) else value
