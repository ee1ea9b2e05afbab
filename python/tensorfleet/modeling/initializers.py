"""Initializers of variables: objects that are called with a shape."""

import math

import tensorfleet as tf
from tensorfleet.framework import dtypes
from tensorfleet.framework.export import export


class Initializer:
    """What makes the first value of a variable."""

    def __call__(self, shape, dtype=None, partition_info=None):
        raise NotImplementedError

    def get_config(self):
        """The arguments of the constructor."""
        return {}

    @classmethod
    def from_config(cls, config):
        """The initializer with these arguments."""
        return cls(**config)


def _floating(dtype):
    dtype = dtypes.as_dtype(dtype)
    if not dtype.is_floating:
        raise TypeError(f"Cannot create initializer for non-floating point type {dtype!r}.")
    return dtype


@export("initializers.zeros", "zeros_initializer", "keras.initializers.zeros", "keras.initializers.Zeros")
class Zeros(Initializer):
    """Zeros."""

    def __init__(self, dtype=dtypes.float32):
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        return tf.zeros(shape, self.dtype if dtype is None else dtypes.as_dtype(dtype))

    def get_config(self):
        return {"dtype": self.dtype.name}


@export("initializers.ones", "ones_initializer", "keras.initializers.ones", "keras.initializers.Ones")
class Ones(Initializer):
    """Ones."""

    def __init__(self, dtype=dtypes.float32):
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        return tf.ones(shape, self.dtype if dtype is None else dtypes.as_dtype(dtype))

    def get_config(self):
        return {"dtype": self.dtype.name}


@export("initializers.constant", "constant_initializer", "keras.initializers.constant", "keras.initializers.Constant")
class Constant(Initializer):
    """The same value for all elements, or the elements of a list or array."""

    def __init__(self, value=0, dtype=dtypes.float32, verify_shape=False):
        import numpy as np

        if not (np.isscalar(value) or isinstance(value, (list, tuple, np.ndarray))):
            raise TypeError(f"Invalid type for initial value: {type(value)} (expected Python scalar, list or tuple of values, or numpy.ndarray).")
        self.value = value
        self.dtype = dtypes.as_dtype(dtype)
        self._verify_shape = verify_shape

    def __call__(self, shape, dtype=None, partition_info=None, verify_shape=None):
        dtype = self.dtype if dtype is None else dtypes.as_dtype(dtype)
        verify = self._verify_shape if verify_shape is None else verify_shape
        return tf.constant(self.value, dtype=dtype, shape=shape, verify_shape=verify)

    def get_config(self):
        # The shape check is not part of it, as in TensorFlow.
        return {"value": self.value, "dtype": self.dtype.name}


@export("initializers.random_uniform", "random_uniform_initializer")
class RandomUniform(Initializer):
    """Values drawn evenly from `[minval, maxval)`."""

    def __init__(self, minval=0, maxval=None, seed=None, dtype=dtypes.float32):
        self.minval, self.maxval, self.seed = minval, maxval, seed
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        return tf.random_uniform(shape, self.minval, self.maxval, self.dtype if dtype is None else dtype, seed=self.seed)

    def get_config(self):
        return {"minval": self.minval, "maxval": self.maxval, "seed": self.seed, "dtype": self.dtype.name}


@export("initializers.random_normal", "random_normal_initializer")
class RandomNormal(Initializer):
    """Values of a normal distribution."""

    def __init__(self, mean=0.0, stddev=1.0, seed=None, dtype=dtypes.float32):
        self.mean, self.stddev, self.seed = mean, stddev, seed
        self.dtype = _floating(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        return tf.random_normal(shape, self.mean, self.stddev, self.dtype if dtype is None else dtype, seed=self.seed)

    def get_config(self):
        return {"mean": self.mean, "stddev": self.stddev, "seed": self.seed, "dtype": self.dtype.name}


@export("initializers.truncated_normal", "truncated_normal_initializer")
class TruncatedNormal(Initializer):
    """Values of a normal distribution, without those further than two deviations from the mean."""

    def __init__(self, mean=0.0, stddev=1.0, seed=None, dtype=dtypes.float32):
        self.mean, self.stddev, self.seed = mean, stddev, seed
        self.dtype = _floating(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        return tf.truncated_normal(shape, self.mean, self.stddev, self.dtype if dtype is None else dtype, seed=self.seed)

    def get_config(self):
        return {"mean": self.mean, "stddev": self.stddev, "seed": self.seed, "dtype": self.dtype.name}


@export("initializers.uniform_unit_scaling", "uniform_unit_scaling_initializer")
class UniformUnitScaling(Initializer):
    """Values drawn evenly, so that a linear layer keeps the scale of its input."""

    def __init__(self, factor=1.0, seed=None, dtype=dtypes.float32):
        self.factor, self.seed = factor, seed
        self.dtype = _floating(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        dtype = self.dtype if dtype is None else dtype
        scale_shape = shape if partition_info is None else partition_info.full_shape
        input_size = 1.0
        for dim in scale_shape[:-1]:
            input_size *= float(dim)
        # A scalar or a vector has no input dimension.
        limit = math.sqrt(3 / max(input_size, 1.0)) * self.factor
        return tf.random_uniform(shape, -limit, limit, dtype, seed=self.seed)

    def get_config(self):
        return {"factor": self.factor, "seed": self.seed, "dtype": self.dtype.name}


def compute_fans(shape):
    """How many inputs and outputs a unit has whose weights have this shape."""
    if len(shape) < 1:
        return 1, 1
    if len(shape) == 1:
        return shape[0], shape[0]
    if len(shape) == 2:
        return shape[0], shape[1]
    field = 1
    for dim in shape[:-2]:
        field *= dim
    return shape[-2] * field, shape[-1] * field


@export("initializers.variance_scaling", "variance_scaling_initializer", "keras.initializers.VarianceScaling")
class VarianceScaling(Initializer):
    """Values whose variance is `scale` divided by the number of inputs, outputs or their mean."""

    def __init__(self, scale=1.0, mode="fan_in", distribution="truncated_normal", seed=None, dtype=dtypes.float32):
        if scale <= 0.0:
            raise ValueError("`scale` must be positive float.")
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError(f"Invalid `mode` argument: {mode}")
        distribution = distribution.lower()
        if distribution not in ("normal", "uniform", "truncated_normal", "untruncated_normal"):
            raise ValueError(f"Invalid `distribution` argument: {distribution}")
        self.scale, self.mode, self.distribution, self.seed = scale, mode, distribution, seed
        self.dtype = _floating(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        dtype = self.dtype if dtype is None else dtype
        fan_in, fan_out = compute_fans([int(dim) for dim in (shape if partition_info is None else partition_info.full_shape)])
        divisor = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2.0}[self.mode]
        scale = self.scale / max(1.0, float(divisor))
        if self.distribution in ("normal", "truncated_normal"):
            # The deviation of a normal distribution that is cut at two deviations.
            return tf.truncated_normal(shape, 0.0, math.sqrt(scale) / 0.87962566103423978, dtype, seed=self.seed)
        if self.distribution == "untruncated_normal":
            return tf.random_normal(shape, 0.0, math.sqrt(scale), dtype, seed=self.seed)
        limit = math.sqrt(3.0 * scale)
        return tf.random_uniform(shape, -limit, limit, dtype, seed=self.seed)

    def get_config(self):
        return {"scale": self.scale, "mode": self.mode, "distribution": self.distribution, "seed": self.seed, "dtype": self.dtype.name}


@export("initializers.glorot_uniform", "glorot_uniform_initializer", "keras.initializers.glorot_uniform")
class GlorotUniform(VarianceScaling):
    """Glorot's initializer with an even distribution; the default of `tf.get_variable`."""

    def __init__(self, seed=None, dtype=dtypes.float32):
        super().__init__(scale=1.0, mode="fan_avg", distribution="uniform", seed=seed, dtype=dtype)

    def get_config(self):
        return {"seed": self.seed, "dtype": self.dtype.name}


@export("initializers.glorot_normal", "glorot_normal_initializer", "keras.initializers.glorot_normal")
class GlorotNormal(VarianceScaling):
    """Glorot's initializer with a normal distribution."""

    def __init__(self, seed=None, dtype=dtypes.float32):
        super().__init__(scale=1.0, mode="fan_avg", distribution="truncated_normal", seed=seed, dtype=dtype)

    def get_config(self):
        return {"seed": self.seed, "dtype": self.dtype.name}


@export("initializers.he_normal", "keras.initializers.he_normal")
def he_normal(seed=None):
    """He's initializer with a normal distribution."""
    return VarianceScaling(scale=2.0, mode="fan_in", distribution="truncated_normal", seed=seed)


@export("initializers.he_uniform", "keras.initializers.he_uniform")
def he_uniform(seed=None):
    """He's initializer with an even distribution."""
    return VarianceScaling(scale=2.0, mode="fan_in", distribution="uniform", seed=seed)


@export("initializers.lecun_normal", "keras.initializers.lecun_normal")
def lecun_normal(seed=None):
    """LeCun's initializer with a normal distribution."""
    return VarianceScaling(scale=1.0, mode="fan_in", distribution="truncated_normal", seed=seed)


@export("initializers.lecun_uniform", "keras.initializers.lecun_uniform")
def lecun_uniform(seed=None):
    """LeCun's initializer with an even distribution."""
    return VarianceScaling(scale=1.0, mode="fan_in", distribution="uniform", seed=seed)


@export("initializers.identity")
class Identity(Initializer):
    """The identity matrix, times `gain`."""

    def __init__(self, gain=1.0, dtype=dtypes.float32):
        self.gain = gain
        self.dtype = _floating(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        full_shape = shape if partition_info is None else partition_info.full_shape
        if len(full_shape) != 2:
            raise ValueError("Identity matrix initializer can only be used for 2D matrices.")
        dtype = self.dtype if dtype is None else dtype
        full_shape = full_shape.as_list() if isinstance(full_shape, tf.TensorShape) else list(full_shape)
        matrix = tf.eye(*full_shape, dtype=dtype)
        if partition_info is not None:
            matrix = tf.slice(matrix, partition_info.var_offset, shape)
        return self.gain * matrix

    def get_config(self):
        return {"gain": self.gain, "dtype": self.dtype.name}


def get(identifier):
    """An initializer from an object, a class, a function or its name."""
    if identifier is None:
        return None
    if isinstance(identifier, str):
        made = tf.initializers.__getattr__(identifier) if identifier in dir(tf.initializers) else None
        if made is None:
            raise ValueError(f"Unknown initializer: {identifier}")
        return made()
    if isinstance(identifier, dict):
        return get_class(identifier["class_name"])(**identifier.get("config", {}))
    if callable(identifier):
        return identifier() if isinstance(identifier, type) else identifier
    raise ValueError("Could not interpret initializer identifier: " + str(identifier))


def get_class(name):
    found = globals().get(name)
    if not (isinstance(found, type) and issubclass(found, Initializer)):
        raise ValueError(f"Unknown initializer: {name}")
    return found


zeros_initializer, ones_initializer, constant_initializer = Zeros, Ones, Constant
glorot_uniform_initializer, glorot_normal_initializer = GlorotUniform, GlorotNormal
variance_scaling_initializer, truncated_normal_initializer = VarianceScaling, TruncatedNormal
random_uniform_initializer, random_normal_initializer = RandomUniform, RandomNormal
