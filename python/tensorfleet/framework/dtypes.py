"""Element types: `tf.float32` and its relatives."""

import builtins

import numpy as np

from tensorfleet.framework.export import export, export_values

#: (number in TensorFlow's DataType, name, numpy type, kind)
_TABLE = (
    (1, "float32", np.float32, "float"),
    (2, "float64", np.float64, "float"),
    (3, "int32", np.int32, "int"),
    (4, "uint8", np.uint8, "int"),
    (5, "int16", np.int16, "int"),
    (6, "int8", np.int8, "int"),
    (7, "string", np.object_, "other"),
    (8, "complex64", np.complex64, "complex"),
    (9, "int64", np.int64, "int"),
    (10, "bool", np.bool_, "other"),
    (11, "qint8", np.int8, "quantized"),
    (12, "quint8", np.uint8, "quantized"),
    (13, "qint32", np.int32, "quantized"),
    (14, "bfloat16", np.float32, "float"),
    (15, "qint16", np.int16, "quantized"),
    (16, "quint16", np.uint16, "quantized"),
    (17, "uint16", np.uint16, "int"),
    (18, "complex128", np.complex128, "complex"),
    (19, "float16", np.float16, "float"),
    (20, "resource", np.object_, "other"),
    (21, "variant", np.object_, "other"),
    (22, "uint32", np.uint32, "int"),
    (23, "uint64", np.uint64, "int"),
)
#: Added to a type's number for a reference to a variable of it.
_REF = 100
_BFLOAT16_MAX = 3.3895313892515355e38


@export("DType", "dtypes.DType")
class DType:
    """The type of a tensor's elements, or of a reference to a variable of such elements."""

    __slots__ = ("_type_enum", "_name", "_numpy", "_kind")
    _by_number = {}

    def __new__(cls, type_enum):
        try:
            return cls._by_number[int(type_enum)]
        except (KeyError, TypeError, ValueError):
            raise TypeError(f"type_enum is not a valid types_pb2.DataType: {type_enum!r}") from None

    def __init__(self, type_enum):
        pass

    @classmethod
    def _make(cls, number, name, numpy_type, kind):
        made = object.__new__(cls)
        made._type_enum, made._name, made._numpy, made._kind = number, name, numpy_type, kind
        cls._by_number[number] = made
        return made

    @property
    def _is_ref_dtype(self):
        return self._type_enum > _REF

    @property
    def _as_ref(self):
        return self if self._is_ref_dtype else DType._by_number[self._type_enum + _REF]

    @property
    def base_dtype(self):
        """The type without the reference."""
        return DType._by_number[self._type_enum - _REF] if self._is_ref_dtype else self

    @property
    def real_dtype(self):
        """The type of the real part."""
        return {"complex64": float32, "complex128": float64}.get(self.base_dtype._name, self)

    @property
    def is_numpy_compatible(self):
        return self.base_dtype._name not in ("resource", "variant")

    @property
    def as_numpy_dtype(self):
        return self._numpy

    @property
    def as_datatype_enum(self):
        return self._type_enum

    @property
    def is_bool(self):
        return self.base_dtype._name == "bool"

    @property
    def is_integer(self):
        return self._kind == "int"

    @property
    def is_floating(self):
        return self._kind == "float"

    @property
    def is_complex(self):
        return self._kind == "complex"

    @property
    def is_quantized(self):
        return self._kind == "quantized"

    @property
    def is_unsigned(self):
        return self.base_dtype._name in ("uint8", "uint16", "uint32", "uint64")

    @property
    def min(self):
        """The smallest finite value."""
        self._check_limits("minimum")
        if self.base_dtype._name == "bfloat16":
            return -_BFLOAT16_MAX
        if self._kind == "float":
            return np.finfo(self._numpy).min
        return 0 if self.is_bool else np.iinfo(self._numpy).min

    @property
    def max(self):
        """The largest finite value."""
        self._check_limits("maximum")
        if self.base_dtype._name == "bfloat16":
            return _BFLOAT16_MAX
        if self._kind == "float":
            return np.finfo(self._numpy).max
        return 1 if self.is_bool else np.iinfo(self._numpy).max

    def _check_limits(self, which):
        if self.is_quantized or self.base_dtype._name in ("string", "complex64", "complex128", "resource", "variant"):
            raise TypeError(f"Cannot find {which} value of {self}.")

    @property
    def limits(self, clip_negative=True):
        """The smallest and largest values of images of this type."""
        if self._kind == "float":
            return (0, 1) if clip_negative else (-1, 1)
        return 0 if clip_negative else self.min, self.max

    @property
    def name(self):
        return self._name

    @property
    def size(self):
        """Bytes of an element."""
        base = self.base_dtype
        if base._name in ("variant", "resource", "string"):
            return 1
        return 2 if base._name == "bfloat16" else np.dtype(base._numpy).itemsize

    def is_compatible_with(self, other):
        other = as_dtype(other)
        return self._type_enum in (other.as_datatype_enum, other.base_dtype.as_datatype_enum)

    def __eq__(self, other):
        if other is None:
            return False
        try:
            return self is as_dtype(other)
        except TypeError:
            return False

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return self._type_enum

    def __str__(self):
        return f"<dtype: {self._name!r}>"

    def __repr__(self):
        return f"tf.{self._name}"

    def __int__(self):
        return self._type_enum

    def __index__(self):
        return self._type_enum

    def __reduce__(self):
        return as_dtype, (self._name,)


for _number, _name, _numpy, _kind in _TABLE:
    globals()[_name] = DType._make(_number, _name, _numpy, _kind)
    globals()[f"{_name}_ref"] = DType._make(_number + _REF, f"{_name}_ref", _numpy, _kind)

half = globals()["float16"]
double = globals()["float64"]
float32 = globals()["float32"]
float64 = globals()["float64"]
int32 = globals()["int32"]
int64 = globals()["int64"]
string = globals()["string"]
bool_ = globals()["bool"]

_names = {name: name for _, name, _, _ in _TABLE}
_names.update(half="float16", double="float64")
export_values(__name__, {**_names, **{f"dtypes.{name}": attribute for name, attribute in _names.items()}})

QUANTIZED_DTYPES = frozenset(dtype for dtype in DType._by_number.values() if dtype._kind == "quantized")
export_values(__name__, {"QUANTIZED_DTYPES": "QUANTIZED_DTYPES", "dtypes.QUANTIZED_DTYPES": "QUANTIZED_DTYPES"})

_BY_NAME = {dtype._name: dtype for dtype in DType._by_number.values()}
_BY_NAME.update({"half": half, "half_ref": half._as_ref, "float": float32, "float_ref": float32._as_ref, "double": float64, "double_ref": float64._as_ref})
_BY_NUMPY = {np.dtype(numpy_type): _BY_NAME[name] for _, name, numpy_type, kind in reversed(_TABLE) if kind != "quantized" and name not in ("bfloat16", "resource", "variant")}
_BY_PYTHON = {float: float32, int: int32, complex: _BY_NAME["complex128"], builtins.bool: bool_, bytes: string, str: string}


@export("as_dtype", "dtypes.as_dtype")
def as_dtype(type_value):
    """The `DType` that a number, a name, a numpy type or a Python type stands for."""
    if isinstance(type_value, DType):
        return type_value
    if isinstance(type_value, str):
        found = _BY_NAME.get(type_value)
        if found is not None:
            return found
    elif isinstance(type_value, int) and not isinstance(type_value, builtins.bool):
        found = DType._by_number.get(type_value)
        if found is not None:
            return found
    elif isinstance(type_value, type) and type_value in _BY_PYTHON:
        # numpy's own types are found below: np.float64 is a float to Python.
        return _BY_PYTHON[type_value]
    try:
        key = np.dtype(type_value)
    except TypeError:
        raise TypeError(f"Cannot convert value {type_value!r} to a TensorFlow DType.") from None
    if key.kind in "SU":
        return string
    found = _BY_NUMPY.get(key)
    if found is None:
        raise TypeError(f"Cannot convert value {type_value!r} to a TensorFlow DType.")
    return found
