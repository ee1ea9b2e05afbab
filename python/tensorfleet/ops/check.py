"""Assertions: `tf.assert_equal` and its relatives. What is known while the graph is built is checked at once."""

import numpy as np

from tensorfleet.framework import dtypes, errors, gen, ops
from tensorfleet.framework.composite import SparseTensor
from tensorfleet.framework.constant import constant_value
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.ops import array, reductions


def _assert(condition, data, summarize, name=None):
    from tensorfleet.ops.control_flow import Assert

    return Assert(condition, data, summarize=summarize) if name is None else Assert(condition, data, summarize=summarize, name=name)


def _shown(item):
    """An element of an assertion's data as a text, as far as its value is known."""
    known = constant_value(item) if isinstance(item, Tensor) else item
    if known is None:
        return str(item)
    return known.decode("utf-8", "replace") if isinstance(known, bytes) else str(known)


def _binary(sign, op, scope, static, x, y, data, summarize, message, name):
    """Asserts that a comparison holds for all elements."""
    with ops.name_scope(name, scope, [x, y, data]):
        x = ops.convert_to_tensor(x, name="x")
        y = ops.convert_to_tensor(y, name="y")
        if data is None:
            data = [f"Condition x {sign} y did not hold element-wise:", f"x ({x.name}) = ", x, f"y ({y.name}) = ", y]
        if message is not None:
            data = [message, *data]
        condition = reductions.reduce_all(getattr(gen, op)(x, y))
        x_value, y_value = constant_value(x), constant_value(y)
        if x_value is not None and y_value is not None and not np.all(static(x_value, y_value)):
            raise errors.InvalidArgumentError(node_def=None, op=None, message="\n".join(_shown(item) for item in data))
        return _assert(condition, data, summarize)


@export("assert_equal", "debugging.assert_equal")
def assert_equal(x, y, data=None, summarize=None, message=None, name=None):
    """Asserts that elements are equal."""
    with ops.name_scope(name, "assert_equal", [x, y, data]):
        if x is y:
            return gen.NoOp()
    return _binary("==", "Equal", "assert_equal", np.equal, x, y, data, summarize, message, name)


@export("assert_none_equal", "debugging.assert_none_equal")
def assert_none_equal(x, y, data=None, summarize=None, message=None, name=None):
    """Asserts that all elements differ."""
    return _binary("!=", "NotEqual", "assert_none_equal", np.not_equal, x, y, data, summarize, message, name)


@export("assert_less", "debugging.assert_less")
def assert_less(x, y, data=None, summarize=None, message=None, name=None):
    """Asserts `x < y`."""
    return _binary("<", "Less", "assert_less", np.less, x, y, data, summarize, message, name)


@export("assert_less_equal", "debugging.assert_less_equal")
def assert_less_equal(x, y, data=None, summarize=None, message=None, name=None):
    """Asserts `x <= y`."""
    return _binary("<=", "LessEqual", "assert_less_equal", np.less_equal, x, y, data, summarize, message, name)


@export("assert_greater", "debugging.assert_greater")
def assert_greater(x, y, data=None, summarize=None, message=None, name=None):
    """Asserts `x > y`."""
    return _binary(">", "Greater", "assert_greater", np.greater, x, y, data, summarize, message, name)


@export("assert_greater_equal", "debugging.assert_greater_equal")
def assert_greater_equal(x, y, data=None, summarize=None, message=None, name=None):
    """Asserts `x >= y`."""
    return _binary(">=", "GreaterEqual", "assert_greater_equal", np.greater_equal, x, y, data, summarize, message, name)


def _sign(kind, sign, x, data, summarize, message, name):
    message = message or ""
    with ops.name_scope(name, f"assert_{kind}", [x, data]):
        x = ops.convert_to_tensor(x, name="x")
        if data is None:
            head = f"Condition x {sign} 0 did not hold element-wise:"
            # TensorFlow 1.15 has no comma between these two.
            data = [message, f"{head}x ({x.name}) = ", x] if kind == "non_positive" else [message, head, f"x ({x.name}) = ", x]
        zero = ops.convert_to_tensor(0, dtype=x.dtype.base_dtype)
        function = assert_less if kind in ("positive", "negative") else assert_less_equal
        pair = (zero, x) if kind in ("positive", "non_negative") else (x, zero)
        return function(*pair, data=data, summarize=summarize)


@export("assert_positive", "debugging.assert_positive")
def assert_positive(x, data=None, summarize=None, message=None, name=None):
    """Asserts `x > 0`."""
    return _sign("positive", ">", x, data, summarize, message, name)


@export("assert_negative", "debugging.assert_negative")
def assert_negative(x, data=None, summarize=None, message=None, name=None):
    """Asserts `x < 0`."""
    return _sign("negative", "<", x, data, summarize, message, name)


@export("assert_non_negative", "debugging.assert_non_negative")
def assert_non_negative(x, data=None, summarize=None, message=None, name=None):
    """Asserts `x >= 0`."""
    return _sign("non_negative", ">=", x, data, summarize, message, name)


@export("assert_non_positive", "debugging.assert_non_positive")
def assert_non_positive(x, data=None, summarize=None, message=None, name=None):
    """Asserts `x <= 0`."""
    return _sign("non_positive", "<=", x, data, summarize, message, name)


@export("assert_near", "debugging.assert_near")
def assert_near(x, y, rtol=None, atol=None, data=None, summarize=None, message=None, name=None):
    """Asserts that elements differ by less than a tolerance."""
    from tensorfleet.ops.math import abs

    message = message or ""
    with ops.name_scope(name, "assert_near", [x, y, rtol, atol, data]):
        x = ops.convert_to_tensor(x, name="x")
        y = ops.convert_to_tensor(y, name="y", dtype=x.dtype.base_dtype)
        own = x.dtype.base_dtype.as_numpy_dtype
        eps = np.finfo(own).eps
        rtol = ops.convert_to_tensor(10 * eps if rtol is None else rtol, name="rtol", dtype=x.dtype.base_dtype)
        atol = ops.convert_to_tensor(10 * eps if atol is None else atol, name="atol", dtype=x.dtype.base_dtype)
        if data is None:
            data = [message, f"x and y not equal to tolerance rtol = {rtol}, atol = {atol}", f"x ({x.name}) = ", x, f"y ({y.name}) = ", y]
        tolerance = atol + rtol * abs(y)
        difference = abs(x - y)
        condition = reductions.reduce_all(gen.Less(difference, tolerance))
        return _assert(condition, data, summarize)


def _statically_ok(name="static_checks_determined_all_ok"):
    return gen.NoOp(name=name)


def _check_rank_type(rank):
    """TensorFlow's rank must be an integer scalar; a node says that it is."""
    assert_type(rank, dtypes.int32)
    known = constant_value(rank)
    if known is not None and known.ndim != 0:
        raise ValueError("Rank must be a scalar.")
    return known


def _rank(scope, words, op, holds, x, rank, data, summarize, message, name):
    message = message or ""
    with ops.name_scope(name, scope, (x, rank, *(data or []))):
        x = x if isinstance(x, SparseTensor) else ops.convert_to_tensor(x, name="x")
        rank = ops.convert_to_tensor(rank, name="rank")
        if data is None:
            data = [message, f"Tensor {x.name} must have {words}", rank, "Received shape: ", array.shape(x)]
        wanted = _check_rank_type(rank)
        known = x.shape.rank
        if wanted is not None and known is not None:
            if holds(known, int(wanted)):
                return _statically_ok()
            raise ValueError(f"{message}.  Tensor {x.name} must have {words} {int(wanted)}.  Received rank {known}, shape {x.shape}")
        return _assert(getattr(gen, op)(array.rank(x), rank), data, summarize)


@export("assert_rank", "debugging.assert_rank")
def assert_rank(x, rank, data=None, summarize=None, message=None, name=None):
    """Asserts the number of dimensions."""
    return _rank("assert_rank", "rank", "Equal", int.__eq__, x, rank, data, summarize, message, name)


@export("assert_rank_at_least", "debugging.assert_rank_at_least")
def assert_rank_at_least(x, rank, data=None, summarize=None, message=None, name=None):
    """Asserts a least number of dimensions."""
    return _rank("assert_rank_at_least", "rank at least", "GreaterEqual", int.__ge__, x, rank, data, summarize, message, name)


@export("assert_rank_in", "debugging.assert_rank_in")
def assert_rank_in(x, ranks, data=None, summarize=None, message=None, name=None):
    """Asserts that the number of dimensions is one of several."""
    message = message or ""
    with ops.name_scope(name, "assert_rank_in", (x, *ranks, *(data or []))):
        x = x if isinstance(x, SparseTensor) else ops.convert_to_tensor(x, name="x")
        ranks = tuple(ops.convert_to_tensor(rank, name="rank") for rank in ranks)
        if data is None:
            data = [message, f"Tensor {x.name} must have rank in", *ranks, "Received shape: ", array.shape(x)]
        wanted = tuple(_check_rank_type(rank) for rank in ranks)
        known = x.shape.rank
        if known is not None and all(rank is not None for rank in wanted):
            if any(known == int(rank) for rank in wanted):
                return _statically_ok()
            listed = ", ".join(f"array({int(rank)}, dtype=int32)" for rank in wanted)
            raise ValueError(f"{message}.  Tensor {x.name} must have rank in ({listed}{',' if len(wanted) == 1 else ''}).  Received rank {known}, shape {x.shape}")
        rank = array.rank(x)
        condition = None
        for item in ranks:
            one = gen.Equal(item, rank)
            condition = one if condition is None else gen.LogicalOr(condition, one)
        return _assert(condition, data, summarize)


@export("assert_scalar", "debugging.assert_scalar")
def assert_scalar(tensor, name=None, message=None):
    """Asserts that there are no dimensions; gives the tensor."""
    with ops.name_scope(name, "assert_scalar", [tensor]) as scope:
        tensor = ops.convert_to_tensor(tensor, name=scope)
        dims = tensor.shape
        if dims.rank != 0:
            text = f"Expected scalar shape for {tensor.name}, saw shape: {dims}."
            raise ValueError(f"{message}. {text}" if message is not None else text)
        return tensor


@export("assert_type", "debugging.assert_type")
def assert_type(tensor, tf_type, message=None, name=None):
    """Asserts the dtype."""
    message = message or ""
    with ops.name_scope(name, "assert_type", [tensor]):
        if not isinstance(tensor, SparseTensor):
            tensor = ops.convert_to_tensor(tensor, name="tensor")
        if tensor.dtype.base_dtype != dtypes.as_dtype(tf_type).base_dtype:
            raise TypeError(f"{message}  {tensor.name} must be of type {dtypes.as_dtype(tf_type)}")
        return _statically_ok("statically_determined_correct_type")


@export("assert_integer", "debugging.assert_integer")
def assert_integer(x, message=None, name=None):
    """Asserts an integer dtype."""
    message = message or ""
    with ops.name_scope(name, "assert_integer", [x]):
        x = ops.convert_to_tensor(x, name="x")
        if not x.dtype.is_integer:
            raise TypeError(f'{message}  Expected "x" to be integer type.  Found: {x.name} of dtype {x.dtype}')
        return _statically_ok("statically_determined_was_integer")


@export("assert_proper_iterable", "debugging.assert_proper_iterable")
def assert_proper_iterable(values):
    """Raises unless `values` is iterable and neither a tensor nor a string."""
    if isinstance(values, (Tensor, SparseTensor, np.ndarray, str, bytes)):
        raise TypeError(f'Expected argument "values" to be a "proper" iterable.  Found: {type(values)}')
    if not hasattr(values, "__iter__"):
        raise TypeError(f'Expected argument "values" to be iterable.  Found: {type(values)}')


@export("assert_same_float_dtype", "debugging.assert_same_float_dtype")
def assert_same_float_dtype(tensors=None, dtype=None):
    """The floating-point dtype that all have; `float32` if there are none."""
    dtype = None if dtype is None else dtypes.as_dtype(dtype).base_dtype
    first = None
    for tensor in tensors or ():
        if tensor is None:
            continue
        own = tensor.dtype.base_dtype
        if dtype is None:
            dtype, first = own, tensor
        elif own != dtype:
            raise ValueError(f"{tensor.name}, type={own}, must be of the same type ({dtype}){'' if first is None else f' as {first.name}'}.")
    if dtype is None:
        return dtypes.float32
    if not dtype.is_floating:
        raise ValueError(f"Expected floating point type, got {dtype}.")
    return dtype


_NUMERIC = frozenset("float32 float64 int8 int16 int32 int64 uint8 qint8 qint32 quint8 complex64".split())


@export("is_numeric_tensor", "debugging.is_numeric_tensor")
def is_numeric_tensor(tensor):
    """Whether it is a tensor of numbers."""
    return isinstance(tensor, Tensor) and tensor.dtype.base_dtype.name in _NUMERIC


def _differences(x):
    """Each element minus the one before it; nothing if there are fewer than two."""
    from tensorfleet.ops.control_flow import cond

    x = array.reshape(x, [-1])
    too_short = array.size(x) < 2
    lengths = array.shape(x) - 1
    return cond(
        too_short,
        lambda: ops.convert_to_tensor([], dtype=x.dtype.base_dtype),
        lambda: array.strided_slice(x, [1], [1] + lengths) - array.strided_slice(x, [0], lengths),
    )


def _ordered(scope, op, x, name):
    with ops.name_scope(name, scope, [x]):
        differences = _differences(x)
        zero = ops.convert_to_tensor(0, dtype=differences.dtype.base_dtype)
        return reductions.reduce_all(getattr(gen, op)(zero, differences))


@export("is_non_decreasing", "debugging.is_non_decreasing", "math.is_non_decreasing")
def is_non_decreasing(x, name=None):
    """Whether no element is smaller than the one before it."""
    return _ordered("is_non_decreasing", "LessEqual", x, name)


@export("is_strictly_increasing", "debugging.is_strictly_increasing", "math.is_strictly_increasing")
def is_strictly_increasing(x, name=None):
    """Whether every element is larger than the one before it."""
    return _ordered("is_strictly_increasing", "Less", x, name)


@export("verify_tensor_all_finite", "debugging.assert_all_finite")
def verify_tensor_all_finite(t=None, msg=None, name=None, x=None, message=None):
    """The tensor, which must have neither NaN nor infinity when it runs."""
    from tensorfleet.ops.arguments import renamed
    from tensorfleet.ops.control_flow import with_dependencies

    x = renamed("x", x, "t", t)
    message = renamed("message", message, "msg", msg)
    with ops.name_scope(name, "VerifyFinite", [x]):
        x = ops.convert_to_tensor(x, name="x")
        with ops.colocate_with(x):
            check = gen.CheckNumerics(x, message=message)
            return with_dependencies([check], x)


@export("add_check_numerics_ops")
def add_check_numerics_ops():
    """A node that checks every floating-point tensor of the graph for NaN and infinity."""
    from tensorfleet.ops.control_flow import group

    checks = []
    for op in ops.get_default_graph().get_operations():
        for output in op.outputs:
            if output.dtype.base_dtype.name in ("float16", "float32", "float64"):
                if op._get_control_flow_context() is not None:
                    raise ValueError(
                        "`tf.add_check_numerics_ops() is not compatible with TensorFlow control flow operations such as `tf.cond()` or `tf.while_loop()`."
                    )
                with ops.control_dependencies(checks):
                    checks = [gen.CheckNumerics(output, message=f"{op.name}:{output.value_index}")]
    return group(*checks)
