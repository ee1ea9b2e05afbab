"""What is known of a value before it is there: `tf.TensorSpec` and the others."""

from tensorfleet.framework import dtypes
from tensorfleet.framework.composite import SparseTensor
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.framework.tensor_shape import TensorShape


@export("TypeSpec", "data.experimental.Structure")
class TypeSpec:
    """The kind of a value."""

    @property
    def value_type(self):
        """The class of the values."""
        raise NotImplementedError

    def _parts(self):
        raise NotImplementedError

    def is_compatible_with(self, spec_or_value):
        """Whether a value, or all values of another kind, are of this kind."""
        other = spec_or_value if isinstance(spec_or_value, TypeSpec) else type_spec_from_value(spec_or_value)
        return type(self) is type(other) and _compatible(self._parts(), other._parts())

    def most_specific_compatible_type(self, other):
        """The narrowest kind that has the values of both."""
        if type(self) is not type(other):
            raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")
        merged = [_common(a, b, self, other) for a, b in zip(self._parts(), other._parts())]
        return type(self)(*merged)

    def __eq__(self, other):
        return type(self) is type(other) and [repr(part) for part in self._parts()] == [repr(part) for part in other._parts()]

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash((type(self), repr(self)))


def _compatible(ours, theirs):
    for a, b in zip(ours, theirs):
        if isinstance(a, (TensorShape, TypeSpec)):
            if not a.is_compatible_with(b):
                return False
        elif a != b:
            return False
    return True


def _common(a, b, one, other):
    if isinstance(a, TensorShape):
        return a.most_specific_compatible_shape(b)
    if isinstance(a, TypeSpec):
        return a.most_specific_compatible_type(b)
    if a != b:
        raise ValueError(f"No TypeSpec is compatible with both {one} and {other}")
    return a


@export("TensorSpec")
class TensorSpec(TypeSpec):
    """The shape and dtype of a tensor."""

    def __init__(self, shape, dtype=dtypes.float32, name=None):
        self._shape = TensorShape(shape)
        self._dtype = dtypes.as_dtype(dtype)
        self._name = name

    @classmethod
    def from_spec(cls, spec, name=None):
        return cls(spec.shape, spec.dtype, name or spec.name)

    @classmethod
    def from_tensor(cls, tensor, name=None):
        if isinstance(tensor, Tensor):
            return cls(tensor.shape, tensor.dtype, name or tensor.op.name)
        raise ValueError("`tensor` should be a tf.Tensor")

    @property
    def shape(self):
        return self._shape

    @property
    def dtype(self):
        return self._dtype

    @property
    def name(self):
        return self._name

    @property
    def value_type(self):
        return Tensor

    def is_compatible_with(self, spec_or_tensor):
        return hasattr(spec_or_tensor, "dtype") and self._dtype.is_compatible_with(spec_or_tensor.dtype) and self._shape.is_compatible_with(spec_or_tensor.shape)

    def _parts(self):
        return [self._shape, self._dtype]

    def __repr__(self):
        return f"TensorSpec(shape={self._shape}, dtype={self._dtype!r}, name={self._name!r})"


@export("SparseTensorSpec")
class SparseTensorSpec(TypeSpec):
    """The dense shape and dtype of a sparse tensor."""

    def __init__(self, shape=None, dtype=dtypes.float32):
        self._shape = TensorShape(shape)
        self._dtype = dtypes.as_dtype(dtype)

    @classmethod
    def from_value(cls, value):
        return cls(value.shape, value.dtype)

    @property
    def shape(self):
        return self._shape

    @property
    def dtype(self):
        return self._dtype

    @property
    def value_type(self):
        return SparseTensor

    def _parts(self):
        return [self._shape, self._dtype]

    def __repr__(self):
        return f"SparseTensorSpec({self._shape!r}, {self._dtype!r})"


def type_spec_from_value(value):
    """The kind of one value."""
    if isinstance(value, TypeSpec):
        return value
    spec = getattr(value, "_type_spec", None)
    if isinstance(spec, TypeSpec):
        return spec
    if isinstance(value, SparseTensor):
        return SparseTensorSpec(value.shape, value.dtype)
    if isinstance(value, Tensor):
        return TensorSpec(value.shape, value.dtype)
    if value is None:
        raise TypeError("None has no TypeSpec")
    from tensorfleet.framework import conversion

    tensor = conversion.convert_to_tensor(value)
    return TensorSpec(tensor.shape, tensor.dtype)
