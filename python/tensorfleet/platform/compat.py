"""`tf.compat`: text and bytes, kinds of numbers, and the calendar of forward compatibility."""

import contextlib
import datetime
import numbers
import os

import numpy as np

from tensorfleet.framework.export import export, export_values

bytes_or_text_types = (bytes, str)
integral_types = (numbers.Integral, np.integer)
real_types = (numbers.Real, np.integer, np.floating)
complex_types = (numbers.Complex, np.number)
export_values(__name__, {"compat." + name: name for name in ("bytes_or_text_types", "integral_types", "real_types", "complex_types")})

#: The day that TensorFlow 1.15.5 compares with: what came later is not used in graphs, so that older consumers can read them.
_HORIZON = datetime.date(2019, 8, 21)
_horizon = _HORIZON


@export("compat.as_bytes")
def as_bytes(bytes_or_text, encoding="utf-8"):
    """Text as bytes; bytes as they are."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    if isinstance(bytes_or_text, (bytes, bytearray)):
        return bytes(bytes_or_text)
    raise TypeError("Expected binary or unicode string, got %r" % (bytes_or_text,))


@export("compat.as_text", "compat.as_str")
def as_text(bytes_or_text, encoding="utf-8"):
    """Bytes as text; text as it is."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    raise TypeError("Expected binary or unicode string, got %r" % (bytes_or_text,))


as_str = as_text


@export("compat.as_str_any")
def as_str_any(value):
    """Any value as text."""
    return as_text(value) if isinstance(value, bytes) else str(value)


@export("compat.path_to_str")
def path_to_str(path):
    """A path object as text; anything else as it is."""
    return as_str_any(os.fspath(path)) if hasattr(path, "__fspath__") else path


def path_to_bytes(path):
    """A path as bytes."""
    return as_bytes(os.fspath(path) if hasattr(path, "__fspath__") else path)


@export("compat.forward_compatible")
def forward_compatible(year, month, day):
    """Whether a graph may use what came on that day."""
    return _horizon > datetime.date(year, month, day)


@export("compat.forward_compatibility_horizon")
@contextlib.contextmanager
def forward_compatibility_horizon(year, month, day):
    """Moves the day that `forward_compatible` compares with."""
    global _horizon
    before, _horizon = _horizon, datetime.date(year, month, day)
    try:
        yield
    finally:
        _horizon = before


@export("dimension_value", "compat.dimension_value")
def dimension_value(dimension):
    """The number of a dimension, or None, whether it is a `Dimension` or a number."""
    return getattr(dimension, "value", dimension)


@export("dimension_at_index", "compat.dimension_at_index")
def dimension_at_index(shape, index):
    """The dimension of a shape at an index; unknown if the shape's rank is."""
    from tensorfleet.framework.tensor_shape import Dimension

    return Dimension(None) if shape.rank is None else shape.dims[index]
