"""What the sweeps of `more_vectors.py` share: their list, and values of every dtype."""
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import kernels

NUMBERS = ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
           "uint64", "complex64", "complex128"]
PLAIN = NUMBERS + ["bool"]
ANY = PLAIN + ["string"]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 3e38, 1e-41, 88.0, -88.0, 104.0, 65504.0]


def cpu_dtypes(op, attr="T"):
    """The dtypes of `attr` that some CPU kernel of the op takes; all if no kernel restricts it."""
    found = set()
    for kernel in kernels.get_registered_kernels_for_op(op).kernel:
        if kernel.device_type != "CPU":
            continue
        allowed = [c.allowed_values.list.type for c in kernel.constraint if c.name == attr]
        if not allowed:
            found.update(ANY)
        for types in allowed:
            found.update(tf.as_dtype(t).name for t in types)
    return [d for d in ANY if d in found]


class Data:
    """Values of one dtype, the same in every run."""

    def __init__(self, dtype, seed):
        self.dtype, self.random = tf.as_dtype(dtype), np.random.RandomState(seed)
        self.name = dtype

    def __call__(self, *shape, lo=-4.0, hi=4.0):
        r, dt = self.random, self.dtype
        if dt == tf.string:
            out = np.empty(shape, object)
            for i in np.ndindex(*shape):
                out[i] = bytes(r.randint(97, 123, size=r.randint(0, 5)).astype(np.uint8))
            return out
        if dt == tf.bool:
            return np.asarray(r.randint(0, 2, size=shape)).astype(bool)
        if dt.is_complex:
            return np.asarray(r.uniform(lo, hi, shape) + 1j * r.uniform(lo, hi, shape)).astype(dt.as_numpy_dtype)
        if dt.is_integer:
            low = max(int(np.ceil(lo)), 0) if dt.is_unsigned else int(np.ceil(lo))
            return np.asarray(r.randint(low, int(hi) + 1, size=shape)).astype(dt.as_numpy_dtype)
        return np.asarray(r.uniform(lo, hi, shape)).astype(dt.as_numpy_dtype)

    def special(self):
        dt = self.dtype
        if dt == tf.bool or dt == tf.string:
            return self(4)
        if dt.is_integer:
            info = np.iinfo(dt.as_numpy_dtype)
            return np.array([0, 1, 2, 3, info.max, info.min, info.max - 1, info.min + 1, 7], dt.as_numpy_dtype)
        with np.errstate(all="ignore"):
            real = np.array(SPECIAL).astype(dt.as_numpy_dtype)
            return real + 1j * real[::-1] if dt.is_complex else real

    def array(self, values):
        return np.array(values).astype(self.dtype.as_numpy_dtype) if self.dtype != tf.string else np.array(values, object)


SWEEPS = []


def sweep(family, ops, tier=2, attr="T", dtypes=None, tolerance=2.0, summing=False):
    """Decorator of a function `f(data)` that yields keyword arguments for the ops."""
    def wrap(make):
        for op in ops.split():
            SWEEPS.append((family, op, tier, attr, dtypes, tolerance, summing, make))
        return make
    return wrap


def I(*values):
    return np.array(values, np.int32)


def L(*values):
    return np.array(values, np.int64)


def S(*values):
    return np.array(values, object) if values else np.zeros([0], object)
