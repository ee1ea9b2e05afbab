"""Initializers of `tf.contrib.layers`: Xavier and variance scaling, as functions of a shape."""

import math

import tensorfleet as tf
from tensorfleet.framework import dtypes
from tensorfleet.framework.export import export


@export("contrib.layers.variance_scaling_initializer", "contrib.slim.variance_scaling_initializer")
def variance_scaling_initializer(factor=2.0, mode="FAN_IN", uniform=False, seed=None, dtype=dtypes.float32):
    """A function that gives weights whose variance is `factor` over the number of inputs, outputs or their mean."""
    if not dtype.is_floating:
        raise TypeError("Cannot create initializer for non-floating point type.")
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise TypeError(f"Unknown mode {mode} [FAN_IN, FAN_OUT, FAN_AVG]")

    def _initializer(shape, dtype=dtype, partition_info=None):
        if not dtype.is_floating:
            raise TypeError("Cannot create initializer for non-floating point type.")
        dims = [int(dim) for dim in shape]
        fan_in = float(dims[-2]) if len(dims) > 1 else float(dims[-1]) if dims else 1.0
        fan_out = float(dims[-1]) if dims else 1.0
        for dim in dims[:-2]:
            fan_in *= float(dim)
            fan_out *= float(dim)
        count = {"FAN_IN": fan_in, "FAN_OUT": fan_out, "FAN_AVG": (fan_in + fan_out) / 2.0}[mode]
        if uniform:
            limit = math.sqrt(3.0 * factor / count)
            return tf.random_uniform(shape, -limit, limit, dtype, seed=seed)
        # The variance of a normal distribution that is cut at two deviations is smaller.
        return tf.truncated_normal(shape, 0.0, math.sqrt(1.3 * factor / count), dtype, seed=seed)

    return _initializer


@export("contrib.layers.xavier_initializer", "contrib.layers.xavier_initializer_conv2d", "contrib.slim.xavier_initializer", "contrib.slim.xavier_initializer_conv2d")
def xavier_initializer(uniform=True, seed=None, dtype=dtypes.float32):
    """Glorot's and Bengio's initializer."""
    return variance_scaling_initializer(factor=1.0, mode="FAN_AVG", uniform=uniform, seed=seed, dtype=dtype)
