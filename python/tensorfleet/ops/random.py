"""Random numbers: `tf.random.*` and the older names."""

import numpy as np

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.constant import constant_value_as_shape
from tensorfleet.framework.export import export
from tensorfleet.framework.random_seed import get_seed
from tensorfleet.framework.tensor import Tensor


def _shape_tensor(shape):
    """The shape as a tensor; an empty one is an integer vector too."""
    dtype = dtypes.int32 if isinstance(shape, (tuple, list)) and not shape else None
    return ops.convert_to_tensor(shape, dtype=dtype, name="shape")


def _with_shape(result, shape):
    if not result.shape.is_fully_defined() and isinstance(shape, Tensor):
        result.set_shape(constant_value_as_shape(shape))
    return result


def _seeds(seed):
    graph_seed, op_seed = get_seed(seed)
    return {"seed": graph_seed, "seed2": op_seed}


@export("random_normal", "random.normal")
def random_normal(shape, mean=0.0, stddev=1.0, dtype=dtypes.float32, seed=None, name=None):
    """Normally distributed numbers."""
    with ops.name_scope(name, "random_normal", [shape, mean, stddev]) as name:
        shape_tensor = _shape_tensor(shape)
        mean = ops.convert_to_tensor(mean, dtype=dtype, name="mean")
        stddev = ops.convert_to_tensor(stddev, dtype=dtype, name="stddev")
        drawn = gen.RandomStandardNormal(shape_tensor, dtype=dtype, **_seeds(seed))
        return _with_shape(gen.Add(drawn * stddev, mean, name=name), shape_tensor)


@export("truncated_normal", "random.truncated_normal")
def truncated_normal(shape, mean=0.0, stddev=1.0, dtype=dtypes.float32, seed=None, name=None):
    """Normally distributed numbers not further than two standard deviations from the mean."""
    with ops.name_scope(name, "truncated_normal", [shape, mean, stddev]) as name:
        shape_tensor = _shape_tensor(shape)
        mean = ops.convert_to_tensor(mean, dtype=dtype, name="mean")
        stddev = ops.convert_to_tensor(stddev, dtype=dtype, name="stddev")
        drawn = gen.TruncatedNormal(shape_tensor, dtype=dtype, **_seeds(seed))
        return _with_shape(gen.Add(drawn * stddev, mean, name=name), shape_tensor)


_UNIFORM = frozenset("float16 bfloat16 float32 float64 int32 int64".split())


@export("random_uniform", "random.uniform")
def random_uniform(shape, minval=0, maxval=None, dtype=dtypes.float32, seed=None, name=None):
    """Numbers between two limits, each as likely as another."""
    dtype = dtypes.as_dtype(dtype)
    if dtype.name not in _UNIFORM:
        raise ValueError(f"Invalid dtype {dtype!r}")
    if maxval is None:
        if dtype.is_integer:
            raise ValueError(f"Must specify maxval for integer dtype {dtype!r}")
        maxval = 1
    with ops.name_scope(name, "random_uniform", [shape, minval, maxval]) as name:
        shape = _shape_tensor(shape)
        minval = ops.convert_to_tensor(minval, dtype=dtype, name="min")
        maxval = ops.convert_to_tensor(maxval, dtype=dtype, name="max")
        if dtype.is_integer:
            return _with_shape(gen.RandomUniformInt(shape, minval, maxval, name=name, **_seeds(seed)), shape)
        drawn = gen.RandomUniform(shape, dtype=dtype, **_seeds(seed))
        return _with_shape(gen.Add(drawn * (maxval - minval), minval, name=name), shape)


@export("random_shuffle", "random.shuffle")
def random_shuffle(value, seed=None, name=None):
    """The rows in another order."""
    return gen.RandomShuffle(value, name=name, **_seeds(seed))


@export("random_crop", "image.random_crop")
def random_crop(value, size, seed=None, name=None):
    """A block of a size at a random place."""
    from tensorfleet.ops import array, control_flow, reductions

    with ops.name_scope(name, "random_crop", [value, size]) as name:
        value = ops.convert_to_tensor(value, name="value")
        size = ops.convert_to_tensor(size, dtype=dtypes.int32, name="size")
        shape = array.shape(value)
        ok = control_flow.Assert(reductions.reduce_all(shape >= size), ["Need value.shape >= size, got ", shape, size], summarize=1000)
        shape = control_flow.with_dependencies([ok], shape)
        limit = shape - size + 1
        offset = random_uniform(array.shape(shape), dtype=size.dtype, maxval=size.dtype.max, seed=seed) % limit
        return array.slice(value, offset, size, name=name)


@export("multinomial", "random.multinomial")
def multinomial(logits, num_samples, seed=None, name=None, output_dtype=None):
    """Numbers of classes drawn by their unnormalized log-probabilities."""
    with ops.name_scope(name, "multinomial", [logits]):
        return _multinomial(logits, num_samples, output_dtype, seed)


@export("random.categorical")
def categorical(logits, num_samples, dtype=None, seed=None, name=None):
    """Numbers of classes drawn by their unnormalized log-probabilities."""
    with ops.name_scope(name, "categorical", [logits]):
        return _multinomial(logits, num_samples, dtype, seed)


def _multinomial(logits, num_samples, dtype, seed):
    logits = ops.convert_to_tensor(logits, name="logits")
    return gen.Multinomial(logits, num_samples, output_dtype=dtype or dtypes.int64, **_seeds(seed))


@export("random_gamma", "random.gamma")
def random_gamma(shape, alpha, beta=None, dtype=dtypes.float32, seed=None, name=None):
    """Numbers of gamma distributions."""
    from tensorfleet.ops.constants import zeros_like

    with ops.name_scope(name, "random_gamma", [shape, alpha, beta]):
        shape = ops.convert_to_tensor(shape, name="shape", dtype=dtypes.int32)
        alpha = ops.convert_to_tensor(alpha, name="alpha", dtype=dtype)
        beta = ops.convert_to_tensor(beta if beta is not None else 1, name="beta", dtype=dtype)
        alpha_broadcast = alpha + zeros_like(beta)
        drawn = gen.RandomGamma(shape, alpha_broadcast, **_seeds(seed))
        return gen.Maximum(np.finfo(alpha.dtype.as_numpy_dtype).tiny, drawn / beta)


@export("random.stateless_uniform")
def stateless_random_uniform(shape, seed, minval=0, maxval=None, dtype=dtypes.float32, name=None):
    """Numbers between two limits that depend on the seed alone."""
    dtype = dtypes.as_dtype(dtype)
    if dtype.name not in _UNIFORM:
        raise ValueError(f"Invalid dtype {dtype!r}")
    if maxval is None:
        if dtype.is_integer:
            raise ValueError(f"Must specify maxval for integer dtype {dtype!r}")
        maxval = 1
    with ops.name_scope(name, "stateless_random_uniform", [shape, seed, minval, maxval]) as name:
        shape = _shape_tensor(shape)
        minval = ops.convert_to_tensor(minval, dtype=dtype, name="min")
        maxval = ops.convert_to_tensor(maxval, dtype=dtype, name="max")
        if dtype.is_integer:
            return _with_shape(gen.StatelessRandomUniformInt(shape, seed, minval, maxval, name=name), shape)
        drawn = gen.StatelessRandomUniform(shape, seed, dtype=dtype)
        return _with_shape(gen.Add(drawn * (maxval - minval), minval, name=name), shape)


def _stateless(scope, op, shape, seed, mean, stddev, dtype, name):
    with ops.name_scope(name, scope, [shape, seed, mean, stddev]) as name:
        shape = _shape_tensor(shape)
        mean = ops.convert_to_tensor(mean, dtype=dtype, name="mean")
        stddev = ops.convert_to_tensor(stddev, dtype=dtype, name="stddev")
        drawn = getattr(gen, op)(shape, seed, dtype=dtype)
        return _with_shape(gen.Add(drawn * stddev, mean, name=name), shape)


@export("random.stateless_normal")
def stateless_random_normal(shape, seed, mean=0.0, stddev=1.0, dtype=dtypes.float32, name=None):
    """Normally distributed numbers that depend on the seed alone."""
    return _stateless("stateless_random_normal", "StatelessRandomNormal", shape, seed, mean, stddev, dtype, name)


@export("random.stateless_truncated_normal")
def stateless_truncated_normal(shape, seed, mean=0.0, stddev=1.0, dtype=dtypes.float32, name=None):
    """Normally distributed numbers near the mean that depend on the seed alone."""
    return _stateless("stateless_truncated_normal", "StatelessTruncatedNormal", shape, seed, mean, stddev, dtype, name)


@export("random.stateless_multinomial")
def stateless_multinomial(logits, num_samples, seed, output_dtype=dtypes.int64, name=None):
    """Numbers of classes that depend on the seed alone."""
    with ops.name_scope(name, "stateless_multinomial", [logits, seed]):
        logits = ops.convert_to_tensor(logits, name="logits")
        return gen.StatelessMultinomial(logits, num_samples, seed, output_dtype=output_dtype)


@export("random.stateless_categorical")
def stateless_categorical(logits, num_samples, seed, dtype=dtypes.int64, name=None):
    """Numbers of classes that depend on the seed alone."""
    with ops.name_scope(name, "stateless_categorical", [logits, seed]):
        logits = ops.convert_to_tensor(logits, name="logits")
        return gen.StatelessMultinomial(logits, num_samples, seed, output_dtype=dtype)
