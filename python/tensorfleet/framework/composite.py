"""Values of several tensors: `SparseTensor` and `IndexedSlices`."""

import collections

from tensorfleet.framework import dtypes
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.framework.tensor_shape import TensorShape

SparseTensorValue = collections.namedtuple("SparseTensorValue", ["indices", "values", "dense_shape"])
SparseTensorValue.__module__ = __name__
export("SparseTensorValue")(SparseTensorValue)
IndexedSlicesValue = collections.namedtuple("IndexedSlicesValue", ["values", "indices", "dense_shape"])
IndexedSlicesValue.__module__ = __name__


@export("IndexedSlices")
class IndexedSlices:
    """Rows of a tensor that is zero elsewhere, as gradients of gathers are."""

    def __init__(self, values, indices, dense_shape=None):
        self._values = values
        self._indices = indices
        self._dense_shape = dense_shape

    @property
    def values(self):
        return self._values

    @property
    def indices(self):
        return self._indices

    @property
    def dense_shape(self):
        return self._dense_shape

    @property
    def shape(self):
        if self._dense_shape is None:
            return TensorShape(None)
        from tensorfleet.framework.constant import constant_value_as_shape

        return constant_value_as_shape(self._dense_shape)

    @property
    def name(self):
        return self._values.name

    @property
    def device(self):
        return self._values.device

    @property
    def op(self):
        return self._values.op

    @property
    def dtype(self):
        return self._values.dtype

    @property
    def graph(self):
        return self._values.graph

    def __neg__(self):
        return IndexedSlices(-self._values, self._indices, self._dense_shape)

    def __str__(self):
        shape = "" if self._dense_shape is None else f", dense_shape={self._dense_shape}"
        return f"IndexedSlices(indices={self._indices}, values={self._values}{shape})"

    __repr__ = __str__


@export("SparseTensor", "sparse.SparseTensor")
class SparseTensor:
    """The positions and values of the elements of a tensor that are not zero."""

    def __init__(self, indices, values, dense_shape):
        from tensorfleet.framework import ops

        with ops.name_scope(None, "SparseTensor", [indices, values, dense_shape]):
            self._indices = ops.convert_to_tensor(indices, name="indices", dtype=dtypes.int64)
            self._values = ops.convert_to_tensor(values, name="values")
            self._dense_shape = ops.convert_to_tensor(dense_shape, name="dense_shape", dtype=dtypes.int64)
        indices_shape = self._indices.shape.with_rank(2)
        values_shape = self._values.shape.with_rank(1)
        dense_shape_shape = self._dense_shape.shape.with_rank(1)
        indices_shape.dims[0].merge_with(values_shape.dims[0])
        indices_shape.dims[1].merge_with(dense_shape_shape.dims[0])

    @classmethod
    def from_value(cls, sparse_tensor_value):
        if not (isinstance(sparse_tensor_value, SparseTensor) or is_sparse_value(sparse_tensor_value)):
            raise TypeError(f"Neither a SparseTensor nor SparseTensorValue: {sparse_tensor_value}.")
        return cls(sparse_tensor_value.indices, sparse_tensor_value.values, sparse_tensor_value.dense_shape)

    @property
    def indices(self):
        return self._indices

    @property
    def values(self):
        return self._values

    @property
    def dense_shape(self):
        return self._dense_shape

    @property
    def shape(self):
        from tensorfleet.framework.constant import constant_value_as_shape

        return constant_value_as_shape(self._dense_shape)

    def get_shape(self):
        return self.shape

    def consumers(self):
        return self._values.consumers()

    @property
    def op(self):
        return self._values.op

    @property
    def dtype(self):
        return self._values.dtype

    @property
    def graph(self):
        return self._indices.graph

    @property
    def name(self):
        return self._values.name

    def eval(self, feed_dict=None, session=None):
        from tensorfleet.framework import stacks

        indices, values, shape = stacks.eval_using_default_session([self._indices, self._values, self._dense_shape], feed_dict, self.graph, session)
        return SparseTensorValue(indices, values, shape)

    @staticmethod
    def _override_operator(operator, func):
        setattr(SparseTensor, operator, func)

    def __str__(self):
        return f"SparseTensor(indices={self._indices}, values={self._values}, dense_shape={self._dense_shape})"

    __repr__ = __str__


def is_sparse_value(value):
    return isinstance(value, (SparseTensorValue, tuple)) and hasattr(value, "dense_shape") and hasattr(value, "indices")


@export("convert_to_tensor_or_sparse_tensor")
def convert_to_tensor_or_sparse_tensor(value, dtype=None, name=None):
    """A `SparseTensor` as it is, anything else as a tensor."""
    from tensorfleet.framework import ops

    if dtype is not None:
        dtype = dtypes.as_dtype(dtype)
    if isinstance(value, SparseTensorValue):
        value = SparseTensor.from_value(value)
    if isinstance(value, SparseTensor):
        if dtype is not None and not dtype.is_compatible_with(value.dtype):
            raise RuntimeError(f"Sparse dtype: requested = {dtype.name}, actual = {value.dtype.name}")
        return value
    return ops.convert_to_tensor(value, dtype, name)


def is_dense(value):
    return isinstance(value, Tensor)
