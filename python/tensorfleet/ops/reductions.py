"""Reductions: `tf.reduce_sum` and its relatives, with the arguments' old names."""

import numpy as np

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.composite import IndexedSlices, SparseTensor
from tensorfleet.framework.constant import constant
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.ops.arguments import keep_dims_of, renamed


def _all_axes(tensor, axis):
    """The axes to reduce: those given, or all of the tensor's."""
    if axis is not None:
        return axis
    if isinstance(tensor, Tensor):
        known = tensor.shape.rank
        if known is not None:
            return constant(np.arange(known, dtype=np.int32), dtype=dtypes.int32)
    if isinstance(tensor, SparseTensor) and tensor.dense_shape.shape.is_fully_defined():
        return constant(np.arange(tensor.dense_shape.shape.as_list()[0]), dtype=dtypes.int32)
    from tensorfleet.ops import math
    from tensorfleet.ops.array import rank

    return math.range(0, rank(tensor))


def _reduce(op, input_tensor, axis, keepdims, name):
    if isinstance(input_tensor, IndexedSlices):
        input_tensor = ops.convert_to_tensor(input_tensor)
    result = getattr(gen, op)(input_tensor, _all_axes(input_tensor, axis), keep_dims=bool(keepdims), name=name)
    if not keepdims and axis is None:
        result.set_shape(())
    return result


def _make(op, attribute, what):
    def function(input_tensor, axis=None, keepdims=None, name=None, reduction_indices=None, keep_dims=None):
        axis = renamed("axis", axis, "reduction_indices", reduction_indices)
        return _reduce(op, input_tensor, axis, keep_dims_of(keepdims, keep_dims), name)

    function.__name__ = function.__qualname__ = attribute
    function.__doc__ = f"{what} of all elements, or along axes."
    return export(attribute, f"math.{attribute}")(function)


reduce_sum = _make("Sum", "reduce_sum", "The sum")
reduce_mean = _make("Mean", "reduce_mean", "The mean")
reduce_prod = _make("Prod", "reduce_prod", "The product")
reduce_min = _make("Min", "reduce_min", "The smallest")
reduce_max = _make("Max", "reduce_max", "The largest")
reduce_all = _make("All", "reduce_all", "The logical and")
reduce_any = _make("Any", "reduce_any", "The logical or")


@export("math.reduce_euclidean_norm")
def reduce_euclidean_norm(input_tensor, axis=None, keepdims=False, name=None):
    """The square root of the sum of squares."""
    return _reduce("EuclideanNorm", input_tensor, axis, keepdims, name)


@export("math.reduce_variance")
def reduce_variance(input_tensor, axis=None, keepdims=False, name=None):
    """The variance."""
    name = name or "reduce_variance"
    with ops.name_scope(name):
        means = reduce_mean(input_tensor, axis=axis, keepdims=True)
        squared = gen.Square(input_tensor - means)
        return reduce_mean(squared, axis=axis, keepdims=keepdims)


@export("math.reduce_std")
def reduce_std(input_tensor, axis=None, keepdims=False, name=None):
    """The standard deviation."""
    name = name or "reduce_std"
    with ops.name_scope(name):
        return gen.Sqrt(reduce_variance(input_tensor, axis=axis, keepdims=keepdims))


@export("reduce_logsumexp", "math.reduce_logsumexp")
def reduce_logsumexp(input_tensor, axis=None, keepdims=None, name=None, reduction_indices=None, keep_dims=None):
    """The logarithm of the sum of exponentials, safe against overflow."""
    from tensorfleet.ops.array import reshape, shape
    from tensorfleet.ops.constants import zeros_like
    from tensorfleet.ops.indexing import where

    axis = renamed("axis", axis, "reduction_indices", reduction_indices)
    keepdims = keep_dims_of(keepdims, keep_dims)
    with ops.name_scope(name, "ReduceLogSumExp", [input_tensor]) as name:
        raw_max = reduce_max(input_tensor, axis=axis, keepdims=True)
        largest = gen.StopGradient(where(gen.IsFinite(raw_max), raw_max, zeros_like(raw_max)))
        result = gen.Log(reduce_sum(gen.Exp(gen.Sub(input_tensor, largest)), axis=axis, keepdims=keepdims))
        if not keepdims:
            largest = reshape(largest, shape(result))
        result = gen.Add(result, largest)
        if not keepdims and axis is None:
            result.set_shape(())
        return result


@export("count_nonzero", "math.count_nonzero")
def count_nonzero(
    input_tensor=None, axis=None, keepdims=None, dtype=dtypes.int64, name=None, reduction_indices=None, keep_dims=None, input=None
):
    """How many elements are not zero."""
    from tensorfleet.ops import math
    from tensorfleet.ops.constants import zeros

    keepdims = keep_dims_of(keepdims, keep_dims)
    input_tensor = renamed("input", input, "input_tensor", input_tensor)
    axis = renamed("axis", axis, "reduction_indices", reduction_indices)
    with ops.name_scope(name, "count_nonzero", [input_tensor]):
        input_tensor = ops.convert_to_tensor(input_tensor, name="input")
        zero = zeros([], dtype=input_tensor.dtype)
        differ = math.cast(gen.NotEqual(input_tensor, zero), dtypes.int64)
        return math.cast(reduce_sum(differ, axis=axis, keepdims=keepdims), dtype=dtype)
