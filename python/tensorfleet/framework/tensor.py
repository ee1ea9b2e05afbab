"""`Tensor`: an output of an operation."""

from tensorfleet.framework import dtypes
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor_shape import TensorShape


def _operators():
    from tensorfleet.ops import operators

    return operators


class OperatorNotAllowedInGraphError(TypeError):
    """A tensor was used as a value before there is one."""


def _not_allowed(task):
    return OperatorNotAllowedInGraphError(
        f"{task} is not allowed in Graph execution. Use Eager execution or decorate this function with @tf.function."
    )


@export("Tensor")
class Tensor:
    """A value that a graph will compute. It knows its operation; the operation knows the graph."""

    __slots__ = ("_op", "_value_index", "_dtype", "_id", "__weakref__", "__dict__")
    # numpy leaves operators with an array on the left to this class.
    __array_priority__ = 100
    OVERLOADABLE_OPERATORS = frozenset(
        "__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __div__ __rdiv__ __truediv__ __rtruediv__ __floordiv__ "
        "__rfloordiv__ __mod__ __rmod__ __lt__ __le__ __gt__ __ge__ __ne__ __eq__ __and__ __rand__ __or__ __ror__ "
        "__xor__ __rxor__ __getitem__ __pow__ __rpow__ __invert__ __neg__ __abs__ __matmul__ __rmatmul__".split()
    )

    def __init__(self, op, value_index, dtype):
        self._op = op
        self._value_index = value_index
        self._dtype = dtypes.as_dtype(dtype)
        self._id = op._id << 32 | value_index

    @property
    def op(self):
        return self._op

    @property
    def dtype(self):
        return self._dtype

    @property
    def graph(self):
        return self._op._graph

    @property
    def name(self):
        return f"{self._op.name}:{self._value_index}"

    @property
    def device(self):
        return self._op.device

    @property
    def value_index(self):
        return self._value_index

    @property
    def shape(self):
        return TensorShape._of(self.graph._native.shape(self._id))

    def get_shape(self):
        return self.shape

    def _shape_tuple(self):
        return self.shape._dims

    @property
    def _shape(self):
        return self.shape

    def _rank(self):
        return self.shape.rank

    def set_shape(self, shape):
        """Adds what the program knows about the shape."""
        from tensorfleet.framework import tensor_shape

        shape = tensor_shape.as_shape(shape)
        try:
            self.graph._native.set_shape(self._id, shape._numbers())
        except ValueError as error:
            raise ValueError(str(error)) from None

    def consumers(self):
        """The operations that take this tensor."""
        return self.graph._consumers(self._id)

    def eval(self, feed_dict=None, session=None):
        """The value, computed by `session` or the default session."""
        from tensorfleet.framework import stacks

        return stacks.eval_using_default_session(self, feed_dict, self.graph, session)

    def _as_node_def_input(self):
        return self._op.name if self._value_index == 0 else self.name

    def _as_tf_output(self):
        return self

    def experimental_ref(self):
        """A hashable reference to this tensor."""
        return _Reference(self)

    ref = experimental_ref

    @classmethod
    def _override_operator(cls, operator, func):
        """Replaces an operator, as libraries above TensorFlow do."""
        setattr(cls, operator, func)

    def __str__(self):
        dims = self.shape
        shape = f", shape={dims}" if dims.rank is not None else ", shape=<unknown>"
        device = f", device={self.device}" if self.device else ""
        return f'Tensor("{self.name}"{shape}, dtype={self._dtype.name}{device})'

    def __repr__(self):
        return f"<tf.Tensor '{self.name}' shape={self.shape} dtype={self._dtype.name}>"

    def __hash__(self):
        return id(self)

    def __eq__(self, other):
        return self is other

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __iter__(self):
        raise _not_allowed("iterating over `tf.Tensor`")

    def __bool__(self):
        raise _not_allowed("using a `tf.Tensor` as a Python `bool`")

    def __len__(self):
        raise TypeError(f"len is not well defined for symbolic Tensors. ({self.name}) Please call `x.shape` rather than `len(x)` for shape information.")

    def __array__(self, *args, **kwargs):
        raise NotImplementedError(f"Cannot convert a symbolic Tensor ({self.name}) to a numpy array.")

    def __add__(self, other):
        return _operators().binary("add", self, other)

    def __radd__(self, other):
        return _operators().reflected("add", self, other)

    def __sub__(self, other):
        return _operators().binary("sub", self, other)

    def __rsub__(self, other):
        return _operators().reflected("sub", self, other)

    def __mul__(self, other):
        return _operators().binary("mul", self, other)

    def __rmul__(self, other):
        return _operators().reflected("mul", self, other)

    def __div__(self, other):
        return _operators().binary("div", self, other)

    def __rdiv__(self, other):
        return _operators().reflected("div", self, other)

    def __truediv__(self, other):
        return _operators().binary("truediv", self, other)

    def __rtruediv__(self, other):
        return _operators().reflected("truediv", self, other)

    def __floordiv__(self, other):
        return _operators().binary("floordiv", self, other)

    def __rfloordiv__(self, other):
        return _operators().reflected("floordiv", self, other)

    def __mod__(self, other):
        return _operators().binary("mod", self, other)

    def __rmod__(self, other):
        return _operators().reflected("mod", self, other)

    def __pow__(self, other):
        return _operators().binary("pow", self, other)

    def __rpow__(self, other):
        return _operators().reflected("pow", self, other)

    def __matmul__(self, other):
        return _operators().binary("matmul", self, other)

    def __rmatmul__(self, other):
        return _operators().reflected("matmul", self, other)

    def __and__(self, other):
        return _operators().binary("and", self, other)

    def __rand__(self, other):
        return _operators().reflected("and", self, other)

    def __or__(self, other):
        return _operators().binary("or", self, other)

    def __ror__(self, other):
        return _operators().reflected("or", self, other)

    def __xor__(self, other):
        return _operators().binary("xor", self, other)

    def __rxor__(self, other):
        return _operators().reflected("xor", self, other)

    def __lt__(self, other):
        return _operators().compare("Less", self, other)

    def __le__(self, other):
        return _operators().compare("LessEqual", self, other)

    def __gt__(self, other):
        return _operators().compare("Greater", self, other)

    def __ge__(self, other):
        return _operators().compare("GreaterEqual", self, other)

    def __invert__(self):
        return _operators().unary("LogicalNot", self)

    def __neg__(self):
        return _operators().unary("Neg", self)

    def __abs__(self):
        return _operators().absolute(self)

    def __getitem__(self, item):
        return _operators().slice_helper(self, item)


class _Reference:
    """A tensor that compares and hashes by identity."""

    __slots__ = ("_referenced",)

    def __init__(self, referenced):
        self._referenced = referenced

    def deref(self):
        return self._referenced

    def __eq__(self, other):
        return isinstance(other, _Reference) and self._referenced is other._referenced

    def __hash__(self):
        return id(self._referenced)
