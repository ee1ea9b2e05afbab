"""Windows for signals. What needs a Fourier transform is missing: the catalogue has no op for it."""

import numpy as np

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.constant import constant
from tensorfleet.framework.export import export


def _cosine_window(name, default, window_length, periodic, dtype, a, b):
    from tensorfleet.ops import math

    dtype = dtypes.as_dtype(dtype)
    if not dtype.is_floating:
        raise ValueError(f"dtype must be a floating point type. Found {dtype}")
    with ops.name_scope(name, default, [window_length, periodic]):
        window_length = ops.convert_to_tensor(window_length, dtype=dtypes.int32, name="window_length")
        window_length.shape.assert_has_rank(0)
        periodic = math.cast(ops.convert_to_tensor(periodic, dtype=dtypes.bool_, name="periodic"), dtypes.int32)
        periodic.shape.assert_has_rank(0)
        even = 1 - gen.FloorMod(window_length, 2)
        steps = math.cast(window_length + periodic * even - 1, dtype=dtype)
        count = math.cast(math.range(window_length), dtype=dtype)
        argument = constant(2 * np.pi, dtype=dtype) * count / steps
        return a - b * gen.Cos(argument)


@export("signal.hann_window")
def hann_window(window_length, periodic=True, dtype=dtypes.float32, name=None):
    """A Hann window."""
    return _cosine_window(name, "hann_window", window_length, periodic, dtype, 0.5, 0.5)


@export("signal.hamming_window")
def hamming_window(window_length, periodic=True, dtype=dtypes.float32, name=None):
    """A Hamming window."""
    return _cosine_window(name, "hamming_window", window_length, periodic, dtype, 0.54, 0.46)
