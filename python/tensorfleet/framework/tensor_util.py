"""Tensors as messages: `tf.make_tensor_proto` and `tf.make_ndarray`."""

import numpy as np

from tensorfleet import _native
from tensorfleet.framework import constant
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor


@export("make_tensor_proto")
def make_tensor_proto(values, dtype=None, shape=None, verify_shape=False, allow_broadcast=False):
    """The `TensorProto` of a value."""
    from tensorfleet.protobuf import TensorProto

    if isinstance(values, TensorProto):
        return values
    array, dtype = constant.to_array(values, dtype)
    if shape is not None:
        array = constant._reshaped(array, shape, verify_shape)
    return TensorProto.FromString(_native.tensor_proto(array, dtype.as_datatype_enum))


@export("make_ndarray")
def MakeNdarray(tensor):
    """The array of a `TensorProto`."""
    value = _native.array_of_tensor_proto(tensor.SerializeToString())
    return np.asarray(value) if not isinstance(value, bytes) else np.array(value, dtype=object)


def is_tensor(x):
    """Whether `x` is a tensor, a variable or made of tensors."""
    from tensorfleet.framework.composite import IndexedSlices, SparseTensor
    from tensorfleet.ops.variables import Variable

    return isinstance(x, (Tensor, SparseTensor, IndexedSlices, Variable))


export("is_tensor", "contrib.framework.is_tensor")(is_tensor)
