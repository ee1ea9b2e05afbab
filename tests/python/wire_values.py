"""Values of every type and shape, chosen so that a mistake on the wire shows."""

import numpy as np

from compat import tf

SHAPES = [(), (0,), (2, 0, 3), (1,), (3,), (2, 3, 4), (1000,)]


def numbers(dtype, shape):
    """Values that show a lost sign, a swapped byte or a truncation."""
    size = int(np.prod(shape))
    random = np.random.RandomState(size)
    numpy_type = np.dtype(dtype.as_numpy_dtype)
    if dtype == tf.string:
        words = [random.bytes(random.randint(0, 40)) for _ in range(size)]
        return np.array(words + [b""], dtype=object)[:size].reshape(shape)
    if dtype == tf.bool:
        return random.rand(*shape) > 0.5 if shape else np.bool_(True)
    if dtype.is_complex:
        values = random.randn(size) * 1e3 + 1j * random.randn(size)
        return values.astype(numpy_type).reshape(shape)
    if dtype.is_integer:
        info = np.iinfo(numpy_type)
        values = [info.min, info.max] + [int(value) for value in random.randint(0, 100, size)]
        return np.array(values[:size], dtype=numpy_type).reshape(shape)
    values = np.array([0.0, -0.0, np.inf, -np.inf] + list(random.randn(size) * 100))[:size]
    return values.astype(numpy_type).reshape(shape)


def dtypes():
    """All types a tensor on the wire can have, by name."""
    names = (
        "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 half bfloat16 float32 float64 complex64 complex128 string"
    )
    return {name: tf.as_dtype(name) for name in names.split()}


def equal(a, b):
    """Whether two arrays have the same type, shape and bits."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != object:
        # Bit by bit: -0.0 is not 0.0.
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return a.shape == b.shape and all(x == y for x, y in zip(a.ravel(), b.ravel()))
