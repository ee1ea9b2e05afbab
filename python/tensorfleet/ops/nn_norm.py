"""Normalization, dropout and simple layers of `tf.nn`."""

import numbers

import tensorfleet as tf
from tensorfleet.framework import constant, dtypes, gen, ops
from tensorfleet.framework.export import export
from tensorfleet.ops.nn_activation import renamed_argument


@export("nn.bias_add")
def bias_add(value, bias, data_format=None, name=None):
    """Adds a bias to each channel."""
    with ops.name_scope(name, "BiasAdd", [value, bias]) as name:
        if data_format is not None:
            if data_format.startswith("NC"):
                data_format = "NCHW"
            elif data_format.startswith("N") and data_format.endswith("C"):
                data_format = "NHWC"
            else:
                raise ValueError("data_format must be of the form `N...C` or `NC...`")
        value = ops.convert_to_tensor(value, name="input")
        bias = ops.convert_to_tensor(bias, dtype=value.dtype, name="bias")
        return gen.BiasAdd(value, bias, data_format=data_format, name=name)


@export("nn.xw_plus_b")
def xw_plus_b(x, weights, biases, name=None):
    """`matmul(x, weights) + biases`."""
    with ops.name_scope(name, "xw_plus_b", [x, weights, biases]) as name:
        x = ops.convert_to_tensor(x, name="x")
        weights = ops.convert_to_tensor(weights, name="weights")
        biases = ops.convert_to_tensor(biases, name="biases")
        return bias_add(gen.MatMul(x, weights), biases, name=name)


@export("nn.relu_layer")
def relu_layer(x, weights, biases, name=None):
    """`relu(matmul(x, weights) + biases)`."""
    with ops.name_scope(name, "relu_layer", [x, weights, biases]) as name:
        x = ops.convert_to_tensor(x, name="x")
        weights = ops.convert_to_tensor(weights, name="weights")
        biases = ops.convert_to_tensor(biases, name="biases")
        return gen.Relu(bias_add(gen.MatMul(x, weights), biases), name=name)


@export("nn.local_response_normalization", "nn.lrn")
def local_response_normalization(input, depth_radius=5, bias=1, alpha=1, beta=0.5, name=None):
    """Divides by the sum of squares of the channels nearby."""
    return gen.LRN(input, depth_radius=depth_radius, bias=bias, alpha=alpha, beta=beta, name=name)


@export("nn.dropout")
def dropout(x, keep_prob=None, noise_shape=None, seed=None, name=None, rate=None):
    """Zero for a random share `rate` of the elements; the others are scaled up."""
    try:
        dropped = 1.0 - keep_prob if keep_prob is not None else None
    except TypeError:
        raise ValueError(f"keep_prob must be a floating point number or Tensor (got {keep_prob!r})") from None
    rate = renamed_argument("rate", rate, "keep_prob", dropped)
    if rate is None:
        raise ValueError("You must provide a rate to dropout.")
    return dropout_v2(x, rate, noise_shape, seed, name)


def dropout_v2(x, rate, noise_shape=None, seed=None, name=None):
    with ops.name_scope(name, "dropout", [x]):
        x = ops.convert_to_tensor(x, name="x")
        if not x.dtype.is_floating:
            raise ValueError(f"x has to be a floating point tensor since it's going to be scaled. Got a {x.dtype!r} tensor instead.")
        if isinstance(rate, numbers.Real):
            if not 0 <= rate < 1:
                raise ValueError(f"rate must be a scalar tensor or a float in the range [0, 1), got {rate:g}")
            if rate == 0:
                return x
        rate = ops.convert_to_tensor(rate, dtype=x.dtype, name="rate")
        rate.shape.assert_has_rank(0)
        if constant.constant_value(rate) == 0:
            return x
        noise_shape = _noise_shape(x, noise_shape)
        noise = tf.random_uniform(noise_shape, seed=seed, dtype=x.dtype)
        scale = 1.0 / (1.0 - rate)
        kept = noise >= rate
        result = x * scale * tf.cast(kept, x.dtype)
        result.set_shape(x.shape)
        return result


def _noise_shape(x, noise_shape):
    """Dimensions that are `None` in the noise's shape are those of `x`."""
    if noise_shape is None:
        return tf.shape(x)
    try:
        given = tf.TensorShape(noise_shape)
    except (TypeError, ValueError):
        return noise_shape
    if given.dims is not None and x.shape.dims is not None and len(x.shape.dims) == len(given.dims):
        return tf.TensorShape([ours if ours is not None else theirs for ours, theirs in zip(given.as_list(), x.shape.as_list())])
    return noise_shape


# ---- moments


@export("nn.sufficient_statistics")
def sufficient_statistics(x, axes, shift=None, keep_dims=None, name=None, keepdims=None):
    """The count, the sum and the sum of squares along `axes`, each after subtracting `shift`."""
    keep_dims = bool(renamed_argument("keepdims", keepdims, "keep_dims", keep_dims))
    axes = list(set(axes))
    with ops.name_scope(name, "sufficient_statistics", [x, shift]):
        x = ops.convert_to_tensor(x, name="x")
        dims = x.shape.as_list() if x.shape.ndims is not None else None
        if dims is not None and all(dims[axis] is not None for axis in axes):
            counts = 1
            for axis in axes:
                counts *= dims[axis]
            counts = constant.constant(counts, dtype=x.dtype)
        else:
            sizes = tf.gather(tf.cast(tf.shape(x), x.dtype), axes)
            counts = tf.reduce_prod(sizes, name="count")
        if shift is not None:
            shift = ops.convert_to_tensor(shift, name="shift")
            sums, squares = gen.Sub(x, shift), gen.SquaredDifference(x, shift)
        else:
            sums, squares = x, gen.Square(x)
        sums = tf.reduce_sum(sums, axes, keepdims=keep_dims, name="mean_ss")
        squares = tf.reduce_sum(squares, axes, keepdims=keep_dims, name="var_ss")
        return counts, sums, squares, shift


@export("nn.normalize_moments")
def normalize_moments(counts, mean_ss, variance_ss, shift, name=None):
    """Mean and variance from what `sufficient_statistics` gave."""
    with ops.name_scope(name, "normalize", [counts, mean_ss, variance_ss, shift]):
        divisor = gen.Reciprocal(counts, name="divisor")
        if shift is not None:
            shifted_mean = gen.Mul(mean_ss, divisor, name="shifted_mean")
            mean = gen.Add(shifted_mean, shift, name="mean")
        else:
            shifted_mean = mean = gen.Mul(mean_ss, divisor, name="mean")
        variance = gen.Sub(gen.Mul(variance_ss, divisor), gen.Square(shifted_mean), name="variance")
        return mean, variance


@export("nn.moments")
def moments(x, axes, shift=None, name=None, keep_dims=None, keepdims=None):
    """Mean and variance along `axes`."""
    keep_dims = bool(renamed_argument("keepdims", keepdims, "keep_dims", keep_dims))
    with ops.name_scope(name, "moments", [x, axes]):
        x = ops.convert_to_tensor(x, name="x") if not hasattr(x, "dtype") or not isinstance(x.dtype, dtypes.DType) else x
        y = tf.cast(x, dtypes.float32) if x.dtype.base_dtype == dtypes.float16 else x
        mean = tf.reduce_mean(y, axes, keepdims=True, name="mean")
        variance = tf.reduce_mean(gen.SquaredDifference(y, gen.StopGradient(mean)), axes, keepdims=True, name="variance")
        if not keep_dims:
            mean = tf.squeeze(mean, axes)
            variance = tf.squeeze(variance, axes)
        if x.dtype.base_dtype == dtypes.float16:
            return tf.cast(mean, dtypes.float16), tf.cast(variance, dtypes.float16)
        return mean, variance


@export("nn.weighted_moments")
def weighted_moments(x, axes, frequency_weights, name=None, keep_dims=None, keepdims=None):
    """Mean and variance along `axes`, where elements count as often as their weights say."""
    keep_dims = bool(renamed_argument("keepdims", keepdims, "keep_dims", keep_dims))
    with ops.name_scope(name, "weighted_moments", [x, frequency_weights, axes]):
        x = ops.convert_to_tensor(x, name="x")
        weights = ops.convert_to_tensor(frequency_weights, name="frequency_weights")
        half = x.dtype == dtypes.float16
        if half:
            x = tf.cast(x, dtypes.float32)
        if weights.dtype != x.dtype:
            weights = tf.cast(weights, x.dtype)
        weighted_sum = tf.reduce_sum(weights * x, axes, name="weighted_input_sum", keepdims=True)
        spread = weights + tf.zeros_like(x)
        sum_of_weights = tf.reduce_sum(spread, axes, name="sum_of_weights", keepdims=True)
        divisor = gen.Reciprocal(sum_of_weights, name="inv_weight_sum")
        mean = gen.Mul(weighted_sum, divisor)
        distances = tf.reduce_sum(weights * gen.SquaredDifference(x, mean), axes, name="weighted_distsq", keepdims=True)
        variance = gen.Mul(distances, divisor)
        if not keep_dims:
            mean = tf.squeeze(mean, axis=axes)
            variance = tf.squeeze(variance, axis=axes)
        if half:
            return tf.cast(mean, dtypes.float16), tf.cast(variance, dtypes.float16)
        return mean, variance


# ---- batch normalization


@export("nn.batch_normalization")
def batch_normalization(x, mean, variance, offset, scale, variance_epsilon, name=None):
    """`scale * (x - mean) / sqrt(variance + variance_epsilon) + offset`."""
    with ops.name_scope(name, "batchnorm", [x, mean, variance, scale, offset]):
        inverse = gen.Rsqrt(variance + variance_epsilon)
        if scale is not None:
            inverse *= scale
        scaled = x * tf.cast(inverse, x.dtype)
        shift = offset - mean * inverse if offset is not None else -mean * inverse
        return scaled + tf.cast(shift, x.dtype)


@export("nn.batch_norm_with_global_normalization")
def batch_norm_with_global_normalization(
    t=None, m=None, v=None, beta=None, gamma=None, variance_epsilon=None, scale_after_normalization=None, name=None, input=None, mean=None, variance=None
):
    """An older form of `batch_normalization`."""
    t = renamed_argument("input", input, "t", t)
    m = renamed_argument("mean", mean, "m", m)
    v = renamed_argument("variance", variance, "v", v)
    return batch_normalization(t, m, v, beta, gamma if scale_after_normalization else None, variance_epsilon, name)


@export("nn.fused_batch_norm")
def fused_batch_norm(x, scale, offset, mean=None, variance=None, epsilon=0.001, data_format="NHWC", is_training=True, name=None):
    """Batch normalization in one op; gives the result, the mean and the variance."""
    x = ops.convert_to_tensor(x, name="input")
    scale = ops.convert_to_tensor(scale, name="scale")
    offset = ops.convert_to_tensor(offset, name="offset")
    if is_training and (mean is not None or variance is not None):
        raise ValueError("Both 'mean' and 'variance' must be None if is_training is True.")
    if mean is None:
        mean = constant.constant([])
    if variance is None:
        variance = constant.constant([])
    # The smallest epsilon that the GPU library of TensorFlow takes.
    epsilon = epsilon if epsilon > 1.001e-5 else 1.001e-5
    result = gen.FusedBatchNormV3(x, scale, offset, mean, variance, epsilon=epsilon, data_format=data_format, is_training=is_training, name=name)
    return result.y, result.batch_mean, result.batch_variance
