"""Constants: values of Python and numpy as tensors."""

import numpy as np

from tensorfleet.framework import dtypes, stacks
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.framework.tensor_shape import Dimension, TensorShape

_INTEGERS = (int, np.integer, Dimension)


def _mistake(value, dtype):
    return TypeError(f"Expected {dtype.name}, got {value!r} of type '{type(value).__name__}' instead.")


def _leaves(values):
    if isinstance(values, (list, tuple)):
        for item in values:
            yield from _leaves(item)
    else:
        yield values


def _fits(leaf, dtype):
    if dtype.is_integer or dtype.is_quantized:
        return isinstance(leaf, _INTEGERS) and not isinstance(leaf, (bool, np.bool_))
    if dtype.is_floating:
        return isinstance(leaf, (float, np.floating) + _INTEGERS) and not isinstance(leaf, (bool, np.bool_))
    if dtype.is_complex:
        return isinstance(leaf, (complex, float, np.complexfloating, np.floating) + _INTEGERS)
    if dtype == dtypes.string:
        return isinstance(leaf, (str, bytes, bytearray))
    if dtype.is_bool:
        return isinstance(leaf, (bool, np.bool_))
    return True


def _check(values, dtype):
    for leaf in _leaves(values):
        if isinstance(leaf, np.ndarray):
            continue
        if isinstance(leaf, Tensor):
            raise TypeError("List of Tensors when single Tensor expected")
        if dtype is None and leaf is None:
            raise ValueError("None values not supported.")
        if dtype is not None and not _fits(leaf, dtype):
            raise _mistake(leaf, dtype)


def _array(values, numpy_type):
    """`np.array`, with a `ValueError` for lists that are not rectangular in TensorFlow's words."""
    try:
        array = np.array(values, dtype=numpy_type)
    except ValueError:
        array = None
    if array is None or array.dtype == np.object_ and numpy_type is None and not isinstance(values, (str, bytes)):
        leaves = list(_leaves(values))
        if array is None or not all(isinstance(leaf, (str, bytes)) for leaf in leaves):
            if any(isinstance(leaf, (list, tuple)) for leaf in values) if isinstance(values, (list, tuple)) else False:
                if numpy_type is None and not isinstance(values[0], (list, tuple)):
                    raise TypeError(f"Failed to convert object of type {type(values)} to Tensor. Contents: {values}. Consider casting elements to a supported type.")
                raise ValueError(f"Argument must be a dense tensor: {values} - got shape {_dense_shape(values)}, but wanted {_wanted_shape(values)}.")
    return array


def _dense_shape(values):
    return [len(values)] + ([] if not values or not isinstance(values[0], (list, tuple)) else [])


def _wanted_shape(values):
    return [len(values), len(values[0])] if values and isinstance(values[0], (list, tuple)) else [len(values)]


def to_array(values, dtype=None):
    """The array and the `DType` of a value, chosen as TensorFlow chooses them."""
    dtype = None if dtype is None else dtypes.as_dtype(dtype).base_dtype
    if isinstance(values, (np.ndarray, np.generic)):
        if dtype is None:
            dtype = dtypes.as_dtype(values.dtype)
        if dtype == dtypes.string:
            return np.asarray(values), dtype
        return np.asarray(values).astype(dtype.as_numpy_dtype, copy=False), dtype
    if values is None:
        raise ValueError("None values not supported.")
    if isinstance(values, Dimension):
        values = values.value
    elif isinstance(values, TensorShape):
        values = values.as_list()
    elif hasattr(values, "__array__") and not isinstance(values, Tensor):
        return to_array(np.asarray(values), dtype)
    elif isinstance(values, range):
        values = list(values)
    _check(values, dtype)
    if dtype == dtypes.string:
        return _strings(values), dtype
    array = _array(values, None if dtype is None else dtype.as_numpy_dtype)
    if dtype is None:
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        elif array.dtype == np.int64:
            smaller = array.astype(np.int32)
            if np.array_equal(smaller, array):
                array = smaller
        if array.dtype.kind in "SUO":
            return _strings(values), dtypes.string
        dtype = dtypes.as_dtype(array.dtype)
    return array, dtype


def _strings(values):
    def encoded(item):
        if isinstance(item, (list, tuple)):
            return [encoded(part) for part in item]
        if isinstance(item, np.ndarray):
            return encoded(item.tolist())
        if isinstance(item, str):
            return item.encode()
        if isinstance(item, (bytes, bytearray)):
            return bytes(item)
        raise TypeError(f"Failed to convert object of type {type(values)} to Tensor. Contents: {values}. Consider casting elements to a supported type.")

    nested = encoded(values)
    if isinstance(nested, bytes):
        array = np.empty((), dtype=object)
        array[()] = nested
        return array
    shape = []
    level = nested
    while isinstance(level, list):
        shape.append(len(level))
        level = level[0] if level else None
    flat = list(_leaves(nested))
    array = np.empty(len(flat), dtype=object)
    array[:] = flat
    return array.reshape(shape)


@export("constant")
def constant_v1(value, dtype=None, shape=None, name="Const", verify_shape=False):
    """A constant tensor. With a shape, the last value is repeated where there are too few."""
    return constant(value, dtype, shape, name, verify_shape)


def constant(value, dtype=None, shape=None, name="Const", verify_shape=False):
    if isinstance(value, Tensor):
        raise TypeError("List of Tensors when single Tensor expected")
    array, dtype = to_array(value, dtype)
    if shape is not None:
        array = _reshaped(array, shape, verify_shape)
    graph = stacks.get_default_graph()
    op = graph._add_node("Const", name, [], {"dtype": dtype.as_datatype_enum, "value": (array, dtype.as_datatype_enum)})
    return op._outputs[0]


constant_v1.__name__ = constant_v1.__qualname__ = "constant_v1"


def _reshaped(array, shape, verify_shape):
    shape = [int(dim) for dim in (TensorShape(shape).as_list())]
    if verify_shape and list(array.shape) != shape:
        raise TypeError(f"Expected Tensor's shape: {tuple(shape)}, got {array.shape}.")
    count = int(np.prod(shape, dtype=np.int64))
    flat = array.ravel()
    if flat.size > count:
        raise ValueError(f"Too many elements provided. Needed at most {count}, but received {flat.size}")
    if flat.size < count:
        if flat.size == 0:
            return np.zeros(shape, dtype=array.dtype)
        flat = np.concatenate([flat, np.repeat(flat[-1:], count - flat.size)])
    return flat.reshape(shape)


@export("get_static_value", "contrib.util.constant_value")
def constant_value(tensor, partial=False):
    """The value of a tensor as an array, if it can be known before anything runs."""
    if not isinstance(tensor, Tensor):
        return tensor.numpy() if hasattr(tensor, "numpy") else None
    if tensor.op.type == "Const":
        from tensorfleet.framework.tensor_util import MakeNdarray

        return MakeNdarray(tensor.op.get_attr("value"))
    from tensorfleet.framework import static_values

    return tensor.graph._native.constant_value(tensor._id) if static_values.is_known(tensor) else None


def constant_value_as_shape(tensor):
    """The shape that an integer vector holds, as far as it is known."""
    value = constant_value(tensor)
    if value is not None:
        return TensorShape([None if dim == -1 else int(dim) for dim in np.atleast_1d(value)])
    from tensorfleet.framework import static_values

    known = static_values.shape_of(tensor, constant_value)
    if known is not None:
        return known
    shape = tensor.shape
    length = None if shape.rank is None else shape._dims[0] if shape.rank == 1 else None
    return TensorShape(None if length is None else [None] * length)
