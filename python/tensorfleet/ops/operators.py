"""The operators of tensors, and slicing."""

import numpy as np

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.composite import SparseTensor
from tensorfleet.framework.tensor import Tensor

_INTEGER_TRUEDIV = {"uint8": "float32", "int8": "float32", "uint16": "float32", "int16": "float32", "int32": "float64", "int64": "float64"}


def _add(x, y, name):
    return gen.Add(x, y, name=name) if x.dtype.base_dtype == dtypes.string else gen.AddV2(x, y, name=name)


def _truediv(x, y, name):
    wider = _INTEGER_TRUEDIV.get(x.dtype.base_dtype.name)
    if x.dtype.base_dtype != y.dtype.base_dtype:
        raise TypeError(f"x and y must have the same dtype, got {x.dtype!r} != {y.dtype!r}")
    if wider is not None:
        x, y = gen.Cast(x, DstT=wider, name="Cast"), gen.Cast(y, DstT=wider, name="Cast")
    return gen.RealDiv(x, y, name=name)


def _div(x, y, name):
    if x.dtype.is_floating or x.dtype.is_complex:
        return gen.RealDiv(x, y, name=name)
    return gen.FloorDiv(x, y, name=name)


def _matmul(x, y, name):
    from tensorfleet.ops import math

    return math.matmul(x, y, name=name)


_FUNCTIONS = {
    "add": _add,
    "sub": lambda x, y, name: gen.Sub(x, y, name=name),
    "mul": lambda x, y, name: gen.Mul(x, y, name=name),
    "div": _div,
    "truediv": _truediv,
    "floordiv": lambda x, y, name: gen.FloorDiv(x, y, name=name),
    "mod": lambda x, y, name: gen.FloorMod(x, y, name=name),
    "pow": lambda x, y, name: gen.Pow(x, y, name=name),
    "matmul": _matmul,
    "and": lambda x, y, name: gen.LogicalAnd(x, y, name=name),
    "or": lambda x, y, name: gen.LogicalOr(x, y, name=name),
    "xor": lambda x, y, name: _logical_xor(x, y, name),
}


def _logical_xor(x, y, name):
    from tensorfleet.ops import math

    return math.logical_xor(x, y, name=name)


def binary(kind, x, y):
    """`x OP y` for a tensor `x`."""
    with ops.name_scope(None, _scope(kind), [x, y]) as name:
        if isinstance(y, SparseTensor):
            return _with_sparse(kind, x, y, name)
        try:
            if not isinstance(y, Tensor):
                # The type is only a wish here: the op says which types do not fit.
                y = ops.convert_to_tensor(y, preferred_dtype=x.dtype.base_dtype, name="y")
        except TypeError:
            if hasattr(type(y), f"__r{kind}__") and not isinstance(y, (int, float, complex, str, bytes, np.ndarray, np.generic)):
                return NotImplemented
            raise
        return _FUNCTIONS[kind](x, y, name)


def reflected(kind, y, x):
    """`x OP y` for a tensor `y`."""
    with ops.name_scope(None, _scope(kind), [x, y]) as name:
        x = ops.convert_to_tensor(x, dtype=y.dtype.base_dtype, name="x")
        return _FUNCTIONS[kind](x, y, name)


def _scope(kind):
    return {"and": "and", "or": "or"}.get(kind, kind)


def compare(op, x, y):
    """A comparison; it has the name of its op and no scope of its own."""
    return getattr(gen, op)(x, y)


def unary(op, x):
    return getattr(gen, op)(x)


def absolute(x):
    from tensorfleet.ops import math

    return math.abs(x)


def _with_sparse(kind, x, y, name):
    op = {"mul": "SparseDenseCwiseMul", "div": "SparseDenseCwiseDiv", "truediv": "SparseDenseCwiseDiv"}.get(kind)
    if op is None:
        raise TypeError(f"a dense tensor and a SparseTensor have no operator '{kind}'")
    values = getattr(gen, op)(y.indices, y.values, y.dense_shape, x, name=name)
    return SparseTensor(y.indices, values, y.dense_shape)


def _check_index(index):
    if isinstance(index, (int, np.integer)) and not isinstance(index, bool):
        return
    if isinstance(index, (Tensor, np.ndarray)) or hasattr(index, "_as_graph_element"):
        dtype = dtypes.as_dtype(index.dtype).base_dtype
        if dtype in (dtypes.int32, dtypes.int64, dtypes.DType(5)) and index.shape in ((), ops.Tensor and index.shape):
            return
    if hasattr(index, "__index__") and not isinstance(index, bool):
        return
    raise TypeError(
        f"Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors are valid indices, got {index!r}"
    )


def slice_helper(tensor, slice_spec, var=None):
    """`tensor[...]`: a strided slice, or for a boolean mask the elements it marks."""
    if isinstance(slice_spec, (Tensor, np.ndarray)) and dtypes.as_dtype(slice_spec.dtype).base_dtype.is_bool:
        from tensorfleet.ops import array

        return array.boolean_mask(tensor=tensor, mask=slice_spec)
    if not isinstance(slice_spec, (list, tuple)):
        slice_spec = [slice_spec]
    begin, end, strides = [], [], []
    masks = {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 0}
    for index, part in enumerate(slice_spec):
        bit = 1 << index
        if isinstance(part, slice):
            if part.start is not None:
                _check_index(part.start)
                begin.append(part.start)
            else:
                begin.append(0)
                masks["begin_mask"] |= bit
            if part.stop is not None:
                _check_index(part.stop)
                end.append(part.stop)
            else:
                end.append(0)
                masks["end_mask"] |= bit
            if part.step is not None:
                _check_index(part.step)
            strides.append(1 if part.step is None else part.step)
        elif part is Ellipsis:
            begin.append(0)
            end.append(0)
            strides.append(1)
            masks["ellipsis_mask"] |= bit
        elif part is None:
            begin.append(0)
            end.append(0)
            strides.append(1)
            masks["new_axis_mask"] |= bit
        else:
            _check_index(part)
            begin.append(part)
            end.append(part + 1)
            strides.append(1)
            masks["shrink_axis_mask"] |= bit
    from tensorfleet.ops import array

    with ops.name_scope(None, "strided_slice", [tensor] + begin + end + strides) as name:
        if begin:
            packed = [array.stack(parts) for parts in (begin, end, strides)]
        else:
            packed = [ops.convert_to_tensor(np.zeros([0], np.int32), name="stack") for _ in range(3)]
        return array.strided_slice(tensor, *packed, **masks, name=name, var=var)
