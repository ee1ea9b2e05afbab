"""Arithmetic, comparison and conversion of elements: `tf.abs`, `tf.divide`, `tf.cast` and their relatives."""

import builtins

import numpy as np

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.composite import IndexedSlices, SparseTensor
from tensorfleet.framework.constant import constant, constant_value
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.ops.arguments import renamed
from tensorfleet.ops.products import matmul, matvec, tensordot

__all__ = ["abs", "cast", "logical_xor", "matmul", "matvec", "range", "tensordot"]

_COMPLEX_OF = {"float32": dtypes.as_dtype("complex64"), "float64": dtypes.as_dtype("complex128")}
_TRUEDIV = {"uint8": "float32", "int8": "float32", "uint16": "float32", "int16": "float32", "int32": "float64", "int64": "float64"}


@export("abs", "math.abs")
def abs(x, name=None):
    """The distance from zero."""
    if isinstance(x, SparseTensor):
        return SparseTensor(x.indices, abs(x.values, name), x.dense_shape)
    with ops.name_scope(name, "Abs", [x]) as name:
        x = ops.convert_to_tensor(x, name="x")
        if x.dtype.is_complex:
            return gen.ComplexAbs(x, Tout=x.dtype.real_dtype, name=name)
        return gen.Abs(x, name=name)


@export("multiply", "math.multiply")
def multiply(x, y, name=None):
    """`x * y`."""
    return gen.Mul(x, y, name=name)


@export("subtract", "math.subtract")
def subtract(x, y, name=None):
    """`x - y`."""
    return gen.Sub(x, y, name=name)


def _truediv(x, y, name):
    with ops.name_scope(name, "truediv", [x, y]) as name:
        x = ops.convert_to_tensor(x, name="x")
        y = ops.convert_to_tensor(y, name="y")
        x_dtype, y_dtype = x.dtype.base_dtype, y.dtype.base_dtype
        if x_dtype != y_dtype:
            raise TypeError(f"x and y must have the same dtype, got {x_dtype!r} != {y_dtype!r}")
        wider = _TRUEDIV.get(x_dtype.name, x_dtype.name if x_dtype.is_floating or x_dtype.is_complex else None)
        if wider is None:
            raise TypeError(f"Invalid dtype {x_dtype!r} in __truediv__")
        if wider != x_dtype.name:
            x, y = cast(x, wider), cast(y, wider)
        return gen.RealDiv(x, y, name=name)


@export("divide", "math.divide")
def divide(x, y, name=None):
    """`x / y` in Python's sense."""
    return x / y if name is None else _truediv(x, y, name)


@export("truediv", "math.truediv")
def truediv(x, y, name=None):
    """`x / y`; integers are divided as floating-point numbers."""
    return _truediv(x, y, name)


@export("div")
def div(x, y, name=None):
    """Division as Python 2 divides: integers are rounded down."""
    with ops.name_scope(name, "div", [x, y]) as name:
        x = ops.convert_to_tensor(x, name="x")
        y = ops.convert_to_tensor(y, name="y", dtype=x.dtype.base_dtype)
        if x.dtype.is_floating or x.dtype.is_complex:
            return gen.RealDiv(x, y, name=name)
        return gen.FloorDiv(x, y, name=name)


@export("div_no_nan", "math.divide_no_nan")
def div_no_nan(x, y, name=None):
    """`x / y`, and zero where `y` is zero."""
    with ops.name_scope(name, "div_no_nan", [x, y]) as name:
        x = ops.convert_to_tensor(x, name="x")
        y = ops.convert_to_tensor(y, name="y", dtype=x.dtype.base_dtype)
        return gen.DivNoNan(x, y, name=name)


@export("math.multiply_no_nan")
def multiply_no_nan(x, y, name=None):
    """`x * y`, and zero where `y` is zero, whatever `x` is."""
    with ops.name_scope(name, "multiply_no_nan", [x, y]) as name:
        x = ops.convert_to_tensor(x, name="x")
        y = ops.convert_to_tensor(y, name="y", dtype=x.dtype.base_dtype)
        return gen.MulNoNan(x, y, name=name)


@export("math.reciprocal_no_nan")
def reciprocal_no_nan(x, name=None):
    """`1 / x`, and zero where `x` is zero."""
    with ops.name_scope(name, "reciprocal_no_nan", [x]) as scope:
        x = ops.convert_to_tensor(x, name="x")
        one = constant(1, dtype=x.dtype.base_dtype, name="one")
        return gen.DivNoNan(one, x, name=scope)


@export("floordiv", "math.floordiv")
def floordiv(x, y, name=None):
    """`x // y`."""
    with ops.name_scope(name, "floordiv", [x, y]) as name:
        return gen.FloorDiv(x, y, name=name)


@export("pow", "math.pow")
def pow(x, y, name=None):
    """`x ** y`."""
    with ops.name_scope(name, "Pow", [x]) as name:
        return gen.Pow(x, y, name=name)


@export("equal", "math.equal")
def equal(x, y, name=None):
    """Where elements are equal."""
    return gen.Equal(x, y, name=name)


@export("not_equal", "math.not_equal")
def not_equal(x, y, name=None):
    """Where elements differ."""
    return gen.NotEqual(x, y, name=name)


@export("logical_xor", "math.logical_xor")
def logical_xor(x, y, name="LogicalXor"):
    """Where exactly one is true."""
    return gen.LogicalAnd(gen.LogicalOr(x, y), gen.LogicalNot(gen.LogicalAnd(x, y)), name=name)


@export("round", "math.round")
def round(x, name=None):
    """The nearest whole number, the even one of two."""
    x = ops.convert_to_tensor(x, name="x")
    return x if x.dtype.is_integer else gen.Round(x, name=name)


@export("cast", "dtypes.cast")
def cast(x, dtype, name=None):
    """The elements as another type."""
    target = dtypes.as_dtype(dtype).base_dtype
    # A resource variable of this type stays a variable: who takes it reads it.
    if (isinstance(x, Tensor) or getattr(x, "_is_resource", False)) and target == x.dtype:
        return x
    with ops.name_scope(name, "Cast", [x]) as name:
        if isinstance(x, SparseTensor):
            return SparseTensor(x.indices, cast(x.values, target, name=name), x.dense_shape)
        if isinstance(x, IndexedSlices):
            return IndexedSlices(cast(x.values, target, name=name), x.indices, x.dense_shape)
        x = ops.convert_to_tensor(x, name="x")
        return x if x.dtype.base_dtype == target else gen.Cast(x, DstT=target, name=name)


@export("saturate_cast", "dtypes.saturate_cast")
def saturate_cast(value, dtype, name=None):
    """`tf.cast` that keeps to the limits of the new type."""
    with ops.name_scope(name, "saturate_cast", [value]) as name:
        value = ops.convert_to_tensor(value, name="value")
        dtype = dtypes.as_dtype(dtype).base_dtype
        if value.dtype.min < dtype.min:
            value = gen.Maximum(value, ops.convert_to_tensor(dtype.min, dtype=value.dtype.base_dtype, name="min"))
        if value.dtype.max > dtype.max:
            value = gen.Minimum(value, ops.convert_to_tensor(dtype.max, dtype=value.dtype.base_dtype, name="max"))
        return cast(value, dtype, name=name)


@export("to_float")
def to_float(x, name="ToFloat"):
    """As `float32`."""
    return cast(x, dtypes.float32, name=name)


@export("to_double")
def to_double(x, name="ToDouble"):
    """As `float64`."""
    return cast(x, dtypes.float64, name=name)


@export("to_int32")
def to_int32(x, name="ToInt32"):
    """As `int32`."""
    return cast(x, dtypes.int32, name=name)


@export("to_int64")
def to_int64(x, name="ToInt64"):
    """As `int64`."""
    return cast(x, dtypes.int64, name=name)


@export("to_bfloat16")
def to_bfloat16(x, name="ToBFloat16"):
    """As `bfloat16`."""
    return cast(x, "bfloat16", name=name)


@export("to_complex64")
def to_complex64(x, name="ToComplex64"):
    """As `complex64`."""
    return cast(x, "complex64", name=name)


@export("to_complex128")
def to_complex128(x, name="ToComplex128"):
    """As `complex128`."""
    return cast(x, "complex128", name=name)


@export("complex", "dtypes.complex")
def complex(real, imag, name=None):
    """A complex number from its parts."""
    real = ops.convert_to_tensor(real, name="real")
    imag = ops.convert_to_tensor(imag, name="imag")
    with ops.name_scope(name, "Complex", [real, imag]) as name:
        found = _COMPLEX_OF.get(real.dtype.base_dtype.name)
        if found is None or real.dtype.base_dtype != imag.dtype.base_dtype:
            raise TypeError(f"real and imag have incorrect types: {real.dtype.name} {imag.dtype.name}")
        return gen.Complex(real, imag, Tout=found, name=name)


@export("real", "math.real")
def real(input, name=None):
    """The real part."""
    with ops.name_scope(name, "Real", [input]) as name:
        input = ops.convert_to_tensor(input, name="input")
        return gen.Real(input, Tout=input.dtype.real_dtype, name=name) if input.dtype.is_complex else input


def _part(op, scope, input, name):
    from tensorfleet.ops.constants import zeros_like

    with ops.name_scope(name, scope, [input]) as name:
        input = ops.convert_to_tensor(input, name="input")
        if input.dtype.is_complex:
            return getattr(gen, op)(input, Tout=input.dtype.real_dtype, name=name)
        return zeros_like(input)


@export("imag", "math.imag")
def imag(input, name=None):
    """The imaginary part."""
    return _part("Imag", "Imag", input, name)


@export("angle", "math.angle")
def angle(input, name=None):
    """The angle of a complex number."""
    return _part("Angle", "Angle", input, name)


@export("conj", "math.conj")
def conj(x, name=None):
    """The conjugate of a complex number."""
    if isinstance(x, Tensor) and (x.dtype.is_floating or x.dtype.is_integer):
        return x
    with ops.name_scope(name, "Conj", [x]) as name:
        x = ops.convert_to_tensor(x, name="x")
        if x.dtype.is_complex or x.dtype.base_dtype.name == "variant":
            return gen.Conj(x, name=name)
        if x.dtype.is_floating or x.dtype.is_integer:
            return x
        raise TypeError(f"Expected numeric or variant tensor, got dtype {x.dtype!r}")


@export("sigmoid", "math.sigmoid", "nn.sigmoid")
def sigmoid(x, name=None):
    """`1 / (1 + exp(-x))`."""
    with ops.name_scope(name, "Sigmoid", [x]) as name:
        return gen.Sigmoid(ops.convert_to_tensor(x, name="x"), name=name)


@export("log_sigmoid", "math.log_sigmoid")
def log_sigmoid(x, name=None):
    """The logarithm of the sigmoid."""
    with ops.name_scope(name, "LogSigmoid", [x]) as name:
        x = ops.convert_to_tensor(x, name="x")
        return gen.Neg(gen.Softplus(-x), name=name)


@export("argmax", "math.argmax")
def argmax(input, axis=None, name=None, dimension=None, output_type=dtypes.int64):
    """Where the largest element of an axis stands."""
    axis = renamed("axis", axis, "dimension", dimension)
    return gen.ArgMax(input, 0 if axis is None else axis, output_type=output_type, name=name)


@export("argmin", "math.argmin")
def argmin(input, axis=None, name=None, dimension=None, output_type=dtypes.int64):
    """Where the smallest element of an axis stands."""
    axis = renamed("axis", axis, "dimension", dimension)
    return gen.ArgMin(input, 0 if axis is None else axis, output_type=output_type, name=name)


_ADD_N = "inputs must be a list of at least one Tensor/IndexedSlices with the same dtype and shape"


@export("add_n", "math.add_n")
def add_n(inputs, name=None):
    """The sum of several tensors."""
    if not isinstance(inputs, (list, tuple)):
        inputs = list(inputs)
    if not inputs:
        raise ValueError(_ADD_N)
    inputs = ops.convert_n_to_tensor_or_indexed_slices(inputs)
    if not all(isinstance(value, (Tensor, IndexedSlices)) for value in inputs):
        raise ValueError(_ADD_N)
    if len(inputs) == 1:
        only = ops.convert_to_tensor(inputs[0]) if isinstance(inputs[0], IndexedSlices) else inputs[0]
        return gen.Identity(only, name=name) if name else only
    return gen.AddN(inputs, name=name)


@export("accumulate_n", "math.accumulate_n")
def accumulate_n(inputs, shape=None, tensor_dtype=None, name=None):
    """The sum of several tensors, added as they come."""
    from tensorfleet.framework.tensor_shape import TensorShape, unknown_shape

    wrong = ValueError("inputs must be a list of at least one Tensor with the same dtype and shape")
    if not inputs or not isinstance(inputs, (list, tuple)):
        raise wrong
    inputs = ops.convert_n_to_tensor_or_indexed_slices(inputs)
    if not all(isinstance(value, Tensor) for value in inputs) or any(value.dtype != inputs[0].dtype for value in inputs):
        raise wrong
    dims = unknown_shape() if shape is None else TensorShape(shape)
    for value in inputs:
        dims = dims.merge_with(value.shape)
    if tensor_dtype is not None and tensor_dtype != inputs[0].dtype:
        raise TypeError(f"tensor_dtype is {tensor_dtype}, but input is of type {inputs[0].dtype}")
    if len(inputs) == 1 and name is None:
        return inputs[0]
    if len(inputs) == 1:
        return gen.Identity(inputs[0], name=name)
    return gen.AccumulateNV2(inputs, shape=dims, name=name)


@export("scalar_mul", "math.scalar_mul")
def scalar_mul(scalar, x, name=None):
    """A number times a tensor or `IndexedSlices`."""
    scalar = ops.convert_to_tensor(scalar, dtype=x.dtype.base_dtype, name="scalar")
    if scalar.shape.rank != 0:
        raise ValueError(f"Only scalar multiply works, got shape {scalar.shape}")
    if isinstance(x, IndexedSlices):
        return IndexedSlices(gen.Mul(scalar, x.values, name=name), x.indices, x.dense_shape)
    return gen.Mul(scalar, x, name=name)


def _cumulative(op, x, axis, exclusive, reverse, name):
    with ops.name_scope(name, op, [x]) as name:
        x = ops.convert_to_tensor(x, name="x")
        return getattr(gen, op)(x, axis, exclusive=exclusive, reverse=reverse, name=name)


@export("cumsum", "math.cumsum")
def cumsum(x, axis=0, exclusive=False, reverse=False, name=None):
    """Sums of the elements so far."""
    return _cumulative("Cumsum", x, axis, exclusive, reverse, name)


@export("cumprod", "math.cumprod")
def cumprod(x, axis=0, exclusive=False, reverse=False, name=None):
    """Products of the elements so far."""
    return _cumulative("Cumprod", x, axis, exclusive, reverse, name)


@export("trace", "linalg.trace")
def trace(x, name=None):
    """The sum of the diagonal."""
    from tensorfleet.ops.linalg import matrix_diag_part
    from tensorfleet.ops.reductions import reduce_sum

    with ops.name_scope(name, "Trace", [x]) as name:
        x = ops.convert_to_tensor(x, name="x")
        return reduce_sum(matrix_diag_part(x), [-1], name=name)


@export("range")
def range(start, limit=None, delta=1, dtype=None, name="range"):
    """Numbers from `start` to before `limit`."""
    if limit is None:
        start, limit = 0, start
    with ops.name_scope(name, "Range", [start, limit, delta]) as name:
        given = dtypes.as_dtype(dtype) if dtype is not None else None
        numbers = [ops.convert_to_tensor(value, dtype=given, name=part) for value, part in ((start, "start"), (limit, "limit"), (delta, "delta"))]
        if given is None:
            order = [dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64]
            found = [value.dtype.base_dtype for value in numbers]
            if not all(value in order for value in found):
                raise AssertionError
            widest = order[max(order.index(value) for value in found)]
            known = [constant_value(value) for value in numbers]
            numbers = [cast(value, widest) for value in numbers]
        else:
            known = [None]
        result = gen.Range(*numbers, name=name)
        if result.shape._dims == (None,) and all(value is not None for value in known):
            # Shape inference does not look through the casts.
            result.set_shape([len(np.arange(*known))])
        return result


@export("math.polyval")
def polyval(coeffs, x, name=None):
    """The value of a polynomial, by Horner's rule."""
    with ops.name_scope(name, "polyval", [*_flat(coeffs), x]):
        x = ops.convert_to_tensor(x, name="x")
        if len(coeffs) < 1:
            from tensorfleet.ops.constants import zeros_like

            return zeros_like(x, name=name)
        coeffs = [ops.convert_to_tensor(value, name=f"coeff_{index}") for index, value in enumerate(coeffs)]
        result = coeffs[0]
        for value in coeffs[1:]:
            result = value + result * x
        return result


def _flat(values):
    return builtins.list(values) if isinstance(values, (list, tuple)) else [values]
