"""Shapes that may be known in part: `TensorShape` and `Dimension`."""

from tensorfleet.framework.export import export

_v2_behavior = False


@export("enable_v2_tensorshape")
def enable_v2_tensorshape():
    """Makes iterating over shapes give numbers instead of `Dimension`s."""
    global _v2_behavior
    _v2_behavior = True


@export("disable_v2_tensorshape")
def disable_v2_tensorshape():
    """Makes iterating over shapes give `Dimension`s."""
    global _v2_behavior
    _v2_behavior = False


def dimension_value(dimension):
    """The number of a `Dimension`; a number as it is."""
    return dimension.value if isinstance(dimension, Dimension) else dimension


def dimension_at_index(shape, index):
    """The `Dimension` of a shape at `index`, unknown if the rank is."""
    return Dimension(None) if shape.rank is None else shape.dims[index]


@export("Dimension")
class Dimension:
    """A length that may be unknown. Arithmetic with an unknown one is unknown."""

    __slots__ = ("_value",)

    def __init__(self, value):
        if value is None:
            self._value = None
        elif isinstance(value, Dimension):
            self._value = value._value
        else:
            if isinstance(value, float) or not hasattr(value, "__index__") and not hasattr(value, "__int__"):
                raise TypeError(f"Cannot convert {value} to Dimension")
            number = int(value)
            if not isinstance(value, str) and number != value:
                raise ValueError(f"Ambiguous dimension: {value}")
            if number < 0:
                raise ValueError(f"Dimension {number} must be >= 0")
            self._value = number

    @property
    def value(self):
        return self._value

    def is_compatible_with(self, other):
        other = as_dimension(other)
        return self._value is None or other._value is None or self._value == other._value

    def assert_is_compatible_with(self, other):
        if not self.is_compatible_with(other):
            raise ValueError(f"Dimensions {self} and {as_dimension(other)} are not compatible")

    def merge_with(self, other):
        other = as_dimension(other)
        self.assert_is_compatible_with(other)
        return Dimension(other._value if self._value is None else self._value)

    def _with(self, other, work):
        try:
            other = as_dimension(other)
        except (TypeError, ValueError):
            return NotImplemented
        if self._value is None or other._value is None:
            return Dimension(None)
        return Dimension(work(self._value, other._value))

    def __add__(self, other):
        return self._with(other, lambda a, b: a + b)

    __radd__ = __add__

    def __sub__(self, other):
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other):
        return self._with(other, lambda a, b: b - a)

    def __mul__(self, other):
        return self._with(other, lambda a, b: a * b)

    __rmul__ = __mul__

    def __floordiv__(self, other):
        return self._with(other, lambda a, b: a // b)

    def __rfloordiv__(self, other):
        return self._with(other, lambda a, b: b // a)

    __div__ = __floordiv__

    def __truediv__(self, other):
        raise TypeError(
            f"unsupported operand type(s) for /: 'Dimension' and '{type(other).__name__}', please use // instead"
        )

    def __rtruediv__(self, other):
        raise TypeError(
            f"unsupported operand type(s) for /: '{type(other).__name__}' and 'Dimension', please use // instead"
        )

    def __mod__(self, other):
        return self._with(other, lambda a, b: a % b)

    def __rmod__(self, other):
        return self._with(other, lambda a, b: b % a)

    def _compare(self, other, work):
        other = as_dimension(other)
        if self._value is None or other._value is None:
            return None
        return work(self._value, other._value)

    def __lt__(self, other):
        return self._compare(other, lambda a, b: a < b)

    def __le__(self, other):
        return self._compare(other, lambda a, b: a <= b)

    def __gt__(self, other):
        return self._compare(other, lambda a, b: a > b)

    def __ge__(self, other):
        return self._compare(other, lambda a, b: a >= b)

    def __eq__(self, other):
        try:
            return self._compare(other, lambda a, b: a == b)
        except (TypeError, ValueError):
            return NotImplemented

    def __ne__(self, other):
        try:
            return self._compare(other, lambda a, b: a != b)
        except (TypeError, ValueError):
            return NotImplemented

    def __bool__(self):
        return bool(self._value)

    def __int__(self):
        return self._value

    def __index__(self):
        return self._value

    def __hash__(self):
        return hash(self._value)

    def __str__(self):
        return "?" if self._value is None else str(self._value)

    def __repr__(self):
        return f"Dimension({self._value})"

    def __reduce__(self):
        return Dimension, (self._value,)


def as_dimension(value):
    return value if isinstance(value, Dimension) else Dimension(value)


@export("TensorShape")
class TensorShape:
    """A shape of which the rank, or some of the lengths, may be unknown."""

    __slots__ = ("_dims",)

    def __init__(self, dims):
        if dims is None:
            self._dims = None
        elif isinstance(dims, TensorShape):
            self._dims = dims._dims
        elif hasattr(dims, "unknown_rank") and hasattr(dims, "dim"):
            self._dims = None if dims.unknown_rank else tuple(None if d.size == -1 else int(d.size) for d in dims.dim)
        elif isinstance(dims, (int, Dimension)) or hasattr(dims, "__index__") and not hasattr(dims, "__len__"):
            self._dims = (as_dimension(dims)._value,)
        else:
            self._dims = tuple(as_dimension(dim)._value for dim in dims)

    @classmethod
    def _of(cls, dims):
        """From a list with -1 for what is not known, as the library gives it."""
        made = object.__new__(cls)
        made._dims = None if dims is None else tuple(None if dim < 0 else dim for dim in dims)
        return made

    def _numbers(self):
        """As a list with -1 for what is not known, or `None`."""
        return None if self._dims is None else [-1 if dim is None else dim for dim in self._dims]

    @property
    def _v2_behavior(self):
        return _v2_behavior

    @property
    def rank(self):
        return None if self._dims is None else len(self._dims)

    ndims = rank

    @property
    def dims(self):
        return None if self._dims is None else [Dimension(dim) for dim in self._dims]

    def __len__(self):
        if self._dims is None:
            raise ValueError("Cannot take the length of Shape with unknown rank.")
        return len(self._dims)

    def __bool__(self):
        return self._dims is not None

    def __iter__(self):
        if self._dims is None:
            raise ValueError("Cannot iterate over a shape with unknown rank.")
        return iter(self._dims) if _v2_behavior else iter(self.dims)

    def __getitem__(self, key):
        if self._dims is not None:
            if isinstance(key, slice):
                return TensorShape(self._dims[key])
            return self._dims[key] if _v2_behavior else Dimension(self._dims[key])
        if not isinstance(key, slice):
            return None if _v2_behavior else Dimension(None)
        start = key.start or 0
        if key.step is not None:
            raise ValueError("Steps are not yet handled")
        if key.stop is None:
            return unknown_shape()
        if start < 0 or key.stop < 0:
            return unknown_shape()
        return unknown_shape(rank=max(0, key.stop - start))

    def num_elements(self):
        if not self.is_fully_defined():
            return None
        count = 1
        for dim in self._dims:
            count *= dim
        return count

    def merge_with(self, other):
        other = as_shape(other)
        if self._dims is None:
            return other
        if other._dims is None:
            return self
        try:
            self.assert_same_rank(other)
            return TensorShape([Dimension(a).merge_with(b) for a, b in zip(self._dims, other._dims)])
        except ValueError:
            raise ValueError(f"Shapes {self} and {other} are not compatible") from None

    def concatenate(self, other):
        other = as_shape(other)
        if self._dims is None or other._dims is None:
            return unknown_shape()
        return TensorShape(self._dims + other._dims)

    def assert_same_rank(self, other):
        other = as_shape(other)
        if self._dims is not None and other._dims is not None and len(self._dims) != len(other._dims):
            raise ValueError(f"Shapes {self} and {other} must have the same rank")

    def assert_has_rank(self, rank):
        if self.rank not in (None, rank):
            raise ValueError(f"Shape {self} must have rank {rank}")

    def with_rank(self, rank):
        try:
            return self.merge_with(unknown_shape(rank=rank))
        except ValueError:
            raise ValueError(f"Shape {self} must have rank {rank}") from None

    def with_rank_at_least(self, rank):
        if self.rank is not None and self.rank < rank:
            raise ValueError(f"Shape {self} must have rank at least {rank}")
        return self

    def with_rank_at_most(self, rank):
        if self.rank is not None and self.rank > rank:
            raise ValueError(f"Shape {self} must have rank at most {rank}")
        return self

    def is_compatible_with(self, other):
        other = as_shape(other)
        if self._dims is None or other._dims is None:
            return True
        return len(self._dims) == len(other._dims) and all(
            a is None or b is None or a == b for a, b in zip(self._dims, other._dims)
        )

    def assert_is_compatible_with(self, other):
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {as_shape(other)} are incompatible")

    def most_specific_compatible_shape(self, other):
        other = as_shape(other)
        if self._dims is None or other._dims is None or len(self._dims) != len(other._dims):
            return unknown_shape()
        return TensorShape([a if a is not None and a == b else None for a, b in zip(self._dims, other._dims)])

    def is_fully_defined(self):
        return self._dims is not None and all(dim is not None for dim in self._dims)

    def assert_is_fully_defined(self):
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")

    def as_list(self):
        if self._dims is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return list(self._dims)

    def as_proto(self):
        from tensorfleet.protobuf import TensorShapeProto

        if self._dims is None:
            return TensorShapeProto(unknown_rank=True)
        proto = TensorShapeProto()
        for dim in self._dims:
            proto.dim.add(size=-1 if dim is None else dim)
        return proto

    def __add__(self, other):
        return self.concatenate(other)

    def __radd__(self, other):
        return as_shape(other).concatenate(self)

    def __eq__(self, other):
        try:
            other = as_shape(other)
        except (TypeError, ValueError):
            return NotImplemented
        return self._dims == other._dims

    def __ne__(self, other):
        try:
            other = as_shape(other)
        except (TypeError, ValueError):
            return NotImplemented
        if self._dims is None or other._dims is None:
            raise ValueError("The inequality of unknown TensorShapes is undefined.")
        return self._dims != other._dims

    def __hash__(self):
        return hash(self._dims)

    def __str__(self):
        if self._dims is None:
            return "<unknown>"
        texts = [("?" if dim is None else str(dim)) for dim in self._dims]
        return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"

    def __repr__(self):
        return f"TensorShape({None if self._dims is None else self.dims})"

    def __reduce__(self):
        return TensorShape, (None if self._dims is None else list(self._dims),)


def as_shape(shape):
    return shape if isinstance(shape, TensorShape) else TensorShape(shape)


def unknown_shape(rank=None):
    return TensorShape(None) if rank is None else TensorShape([None] * rank)


def scalar():
    return TensorShape([])


def vector(length):
    return TensorShape([length])


def matrix(rows, cols):
    return TensorShape([rows, cols])


