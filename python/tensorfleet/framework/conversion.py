"""Everything that can become a tensor: `tf.convert_to_tensor`."""

import numpy as np

from tensorfleet.framework import constant, dtypes, stacks
from tensorfleet.framework.composite import IndexedSlices, SparseTensor
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.framework.tensor_shape import Dimension, TensorShape

#: (priority, number, type, function) of conversions that programs and this package have registered.
_REGISTERED = []
_CACHE = {}


@export("register_tensor_conversion_function")
def register_tensor_conversion_function(base_type, conversion_func, priority=100):
    """Makes values of `base_type` usable where tensors are: `conversion_func(value, dtype=None, name=None, as_ref=False)`."""
    if not callable(conversion_func):
        raise TypeError("conversion_func must be callable.")
    types = base_type if isinstance(base_type, tuple) else (base_type,)
    if not all(isinstance(kind, type) for kind in types):
        raise TypeError("base_type must be a type or a tuple of types.")
    _REGISTERED.append((priority, len(_REGISTERED), base_type, conversion_func))
    _REGISTERED.sort(key=lambda entry: entry[:2])
    _CACHE.clear()


def _functions(kind):
    found = _CACHE.get(kind)
    if found is None:
        found = _CACHE[kind] = [function for _, _, base, function in _REGISTERED if issubclass(kind, base)]
    return found


def _holds_tensors(value):
    if isinstance(value, (list, tuple)):
        return any(_holds_tensors(item) for item in value)
    return isinstance(value, Tensor) or bool(type(value).__module__ != "builtins" and _functions(type(value)))


def _pack(values, dtype, name):
    """A list with tensors in it as one tensor: the constants take the dtype of the tensors."""
    from tensorfleet.framework import gen, ops

    inferred = dtype
    if inferred is None:
        inferred = next(item.dtype.base_dtype for item in constant._leaves(values) if hasattr(item, "dtype") and isinstance(item.dtype, dtypes.DType))
    for leaf in constant._leaves(values):
        if isinstance(leaf, Tensor) and leaf.dtype.base_dtype != inferred:
            raise TypeError(f"Cannot convert a list containing a tensor of dtype {leaf.dtype} to {inferred} (Tensor is: {leaf!r})")

    def packed(items, name):
        with ops.name_scope(name) as scope:
            converted = []
            for index, item in enumerate(items):
                if isinstance(item, (list, tuple)):
                    converted.append(packed(item, str(index)))
                else:
                    converted.append(convert_to_tensor(item, dtype=inferred, name=str(index)))
            return gen.Pack(converted, name=scope)

    return packed(values, name or "packed")


@export("convert_to_tensor")
def convert_to_tensor_v1(value, dtype=None, name=None, preferred_dtype=None, dtype_hint=None):
    """`value` as a tensor of the default graph."""
    return convert_to_tensor(value, dtype, name, preferred_dtype if preferred_dtype is not None else dtype_hint)


def convert_to_tensor(value, dtype=None, name=None, preferred_dtype=None, dtype_hint=None, as_ref=False):
    preferred_dtype = preferred_dtype if preferred_dtype is not None else dtype_hint
    dtype = None if dtype is None else dtypes.as_dtype(dtype)
    if isinstance(value, Tensor):
        if dtype is not None and not dtype.is_compatible_with(value.dtype):
            raise ValueError(f"Tensor conversion requested dtype {dtype.name} for Tensor with dtype {value.dtype.name}: {value!r}")
        return _captured(value)
    for function in _functions(type(value)):
        converted = _converted_by(function, value, dtype, name, preferred_dtype, as_ref)
        if converted is not NotImplemented:
            return converted
    if isinstance(value, IndexedSlices):
        return _dense(value, dtype, name)
    if isinstance(value, SparseTensor):
        raise TypeError(f"Failed to convert object of type {type(value)} to Tensor. Contents: {value}. Consider casting elements to a supported type.")
    if isinstance(value, (list, tuple)) and _holds_tensors(value):
        return _pack(value, dtype or (None if preferred_dtype is None else None), name)
    if isinstance(value, TensorShape):
        return _shape_tensor(value, dtype, name)
    if isinstance(value, Dimension):
        if value.value is None:
            raise ValueError(f"Cannot convert an unknown Dimension to a Tensor: {value}")
        return constant.constant(value.value, dtype or dtypes.int32, name=name or "shape_as_tensor")
    if dtype is None and preferred_dtype is not None:
        try:
            return _constant(value, dtypes.as_dtype(preferred_dtype), name)
        except (TypeError, ValueError):
            pass
    return _constant(value, dtype, name)


def _constant(value, dtype, name):
    try:
        return constant.constant(value, None if dtype is None else dtype.base_dtype, name=name or "Const")
    except TypeError as error:
        if isinstance(value, (str, bytes, int, float, complex, bool, list, tuple, dict, np.ndarray)) or str(error).startswith("Expected"):
            raise
        raise TypeError(f"Failed to convert object of type {type(value)} to Tensor. Contents: {value}. Consider casting elements to a supported type.") from None


def _converted_by(function, value, dtype, name, preferred_dtype, as_ref):
    if dtype is None and preferred_dtype is not None:
        try:
            converted = function(value, dtype=dtypes.as_dtype(preferred_dtype), name=name, as_ref=as_ref)
            if converted is not NotImplemented and converted.dtype.base_dtype == dtypes.as_dtype(preferred_dtype).base_dtype:
                return converted
        except (TypeError, ValueError):
            pass
    converted = function(value, dtype=dtype, name=name, as_ref=as_ref)
    if converted is NotImplemented:
        return converted
    if isinstance(converted, Tensor):
        converted = _captured(converted)
    else:
        raise RuntimeError(f"{name + ': ' if name else ''}Conversion function {function!r} for type {type(value)} returned non-Tensor: {converted!r}")
    if dtype is not None and not dtype.is_compatible_with(converted.dtype):
        raise RuntimeError(f"Conversion function {function!r} for type {type(value)} returned incompatible dtype: requested = {dtype.base_dtype.name}, actual = {converted.dtype.name}")
    return converted


def _shape_tensor(value, dtype, name):
    if not value.is_fully_defined():
        raise ValueError(f"Cannot convert a partially known TensorShape to a Tensor: {value}")
    dims = value.as_list()
    if dtype is None:
        dtype = dtypes.int64 if any(dim >= 2**31 for dim in dims) else dtypes.int32
    elif dtype not in (dtypes.int32, dtypes.int64):
        raise TypeError(f"Cannot convert a TensorShape to dtype: {dtype}")
    return constant.constant(dims, dtype, name=name or "shape_as_tensor")


def _dense(slices, dtype, name):
    if dtype is not None and not dtype.is_compatible_with(slices.dtype):
        raise ValueError(f"Tensor conversion requested dtype {dtype.name} for IndexedSlices with dtype {slices.dtype.name}")
    if slices.dense_shape is None:
        raise ValueError(f"Tensor conversion requested for IndexedSlices without dense_shape: {slices}")
    from tensorfleet.framework import gen

    return gen.UnsortedSegmentSum(slices.values, slices.indices, slices.dense_shape[0], name=name)


def _captured(tensor):
    """The tensor itself; in the graph of a function a placeholder for a tensor from around."""
    if stacks.GRAPHS.items:
        graph = stacks.GRAPHS.items[-1]
        if graph.building_function and tensor._op._graph is not graph:
            return graph.capture(tensor)
    return tensor


@export("convert_to_tensor_or_indexed_slices")
def convert_to_tensor_or_indexed_slices(value, dtype=None, name=None):
    """`IndexedSlices` as they are, anything else as a tensor."""
    if isinstance(value, IndexedSlices):
        if dtype and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
            raise ValueError(f"Tensor conversion requested dtype {dtypes.as_dtype(dtype).name} for Tensor with dtype {value.dtype.name}: {str(value)!r}")
        return value
    return convert_to_tensor(value, dtype, name)


def convert_n_to_tensor(values, dtype=None, name=None, preferred_dtype=None):
    """Several values as tensors, named `NAME_0`, `NAME_1`, …."""
    return [convert_to_tensor(value, dtype, None if name is None else f"{name}_{index}", preferred_dtype) for index, value in enumerate(values)]


def convert_n_to_tensor_or_indexed_slices(values, dtype=None, name=None):
    return [
        None if value is None else convert_to_tensor_or_indexed_slices(value, dtype, None if name is None else f"{name}_{index}")
        for index, value in enumerate(values)
    ]
