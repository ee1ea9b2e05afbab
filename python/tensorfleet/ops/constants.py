"""Tensors of one value, and placeholders."""

import functools
import operator

import numpy as np

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.composite import SparseTensor
from tensorfleet.framework.constant import constant, constant_value_as_shape
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.framework.tensor_shape import TensorShape

#: Larger constants are made by a node that fills them.
_LARGEST_CONSTANT = 1000


def _constant_if_small(value, shape, dtype, name):
    """A constant, if the shape is known and small. A list with tensors in it is multiplied out as TensorFlow does before
    it gives up: the nodes stay in the graph."""
    if isinstance(shape, (list, tuple)) and any(isinstance(dim, Tensor) for dim in shape):
        _ = functools.reduce(operator.mul, shape) < _LARGEST_CONSTANT
        return None
    if np.isscalar(shape):
        return None  # TensorFlow takes a number as a shape, but fills it
    try:
        if np.prod(shape) < _LARGEST_CONSTANT:
            return constant(value, shape=shape, dtype=dtype, name=name)
    except TypeError:
        pass
    return None


def _filled(value, shape, dtype, name):
    from tensorfleet.ops.array import reshape

    if not isinstance(shape, Tensor):
        try:
            small = _constant_if_small(value, shape if not isinstance(shape, TensorShape) else shape.as_list(), dtype, name)
            if small is not None:
                return small
            dims = TensorShape(shape)
            dims.assert_is_fully_defined()
            shape = constant(dims.as_list(), dtypes.int32 if all(dim < 2**31 for dim in dims.as_list()) else dtypes.int64, name="shape_as_tensor")
        except (TypeError, ValueError):
            shape = ops.convert_to_tensor(shape, dtype=dtypes.int32)
    if shape.shape._dims == ():
        shape = reshape(shape, [-1])
    return fill(shape, constant(value, dtype=dtype), name=name)


@export("zeros")
def zeros(shape, dtype=dtypes.float32, name=None):
    """A tensor of zeros."""
    dtype = dtypes.as_dtype(dtype).base_dtype
    with ops.name_scope(name, "zeros", [shape]) as name:
        return _filled(False if dtype == dtypes.bool_ else "" if dtype == dtypes.string else 0, shape, dtype, name)


@export("ones")
def ones(shape, dtype=dtypes.float32, name=None):
    """A tensor of ones."""
    dtype = dtypes.as_dtype(dtype).base_dtype
    with ops.name_scope(name, "ones", [shape]) as name:
        return _filled(True if dtype == dtypes.bool_ else 1, shape, dtype, name)


@export("zeros_like")
def zeros_like(tensor, dtype=None, name=None, optimize=True):
    """Zeros of another tensor's shape."""
    from tensorfleet.ops.array import shape_internal

    with ops.name_scope(name, "zeros_like", [tensor]) as name:
        tensor = ops.convert_to_tensor(tensor, name="tensor")
        own = tensor.dtype.base_dtype
        dtype = None if dtype is None else dtypes.as_dtype(dtype)
        if optimize and tensor.shape.is_fully_defined() and own.name != "variant":
            return zeros(tensor.shape, dtype=dtype or own, name=name)
        if dtype is not None and dtype != own and dtype.name != "variant":
            return zeros(shape_internal(tensor, optimize=optimize), dtype=dtype, name=name)
        return gen.ZerosLike(tensor, name=name)


@export("ones_like")
def ones_like(tensor, dtype=None, name=None, optimize=True):
    """Ones of another tensor's shape."""
    from tensorfleet.ops.array import shape_internal

    with ops.name_scope(name, "ones_like", [tensor]) as name:
        tensor = ops.convert_to_tensor(tensor, name="tensor")
        made = ones(shape_internal(tensor, optimize=optimize), dtype=dtype or tensor.dtype, name=name)
        made.set_shape(tensor.shape)
        return made


@export("fill")
def fill(dims, value, name=None):
    """A tensor of one value."""
    return gen.Fill(dims, value, name=name)


@export("placeholder")
def placeholder(dtype, shape=None, name=None):
    """A tensor that every run is fed with."""
    return gen.Placeholder(dtype=dtype, shape=shape, name=name)


@export("placeholder_with_default")
def placeholder_with_default(input, shape, name=None):
    """A tensor that a run may be fed with."""
    return gen.PlaceholderWithDefault(input, shape=shape, name=name)


@export("sparse_placeholder", "sparse.placeholder")
def sparse_placeholder(dtype, shape=None, name=None):
    """A sparse tensor that every run is fed with."""
    def part(label):
        return None if name is None else f"{name}/{label}"

    if shape is None:
        dims, rank = placeholder(dtypes.int64, shape=[None], name=part("shape")), None
    elif isinstance(shape, Tensor):
        dims, rank = shape, constant_value_as_shape(shape).rank
    else:
        known = TensorShape([None if dim in (None, -1) else dim for dim in shape])
        rank = known.rank
        if known.is_fully_defined():
            dims = ops.convert_to_tensor(known.as_list(), dtype=dtypes.int64, name=part("shape"))
        else:
            dims = placeholder(dtypes.int64, shape=[rank], name=part("shape"))
    values = placeholder(dtype, shape=[None], name=part("values"))
    indices = placeholder(dtypes.int64, shape=[None, rank], name=part("indices"))
    return SparseTensor(values=values, indices=indices, dense_shape=dims)


