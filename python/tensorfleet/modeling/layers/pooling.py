"""`tf.layers`: pools."""

import tensorfleet as tf
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor_shape import TensorShape
from tensorfleet.modeling.layers.base import InputSpec, Layer
from tensorfleet.modeling.layers.convolutional import normalize_data_format, normalize_padding, normalize_tuple, op_data_format, output_length


class _Pooling(Layer):
    """A pool over `rank` spatial dimensions."""

    _rank = 0
    _function = None

    def __init__(self, pool_size, strides, padding="valid", data_format="channels_last", name=None, **kwargs):
        super().__init__(name=name, **kwargs)
        strides = pool_size if strides is None else strides
        self.pool_size = normalize_tuple(pool_size, self._rank, "pool_size")
        self.strides = normalize_tuple(strides, self._rank, "strides")
        self.padding = normalize_padding(padding)
        self.data_format = normalize_data_format(data_format)
        self.input_spec = InputSpec(ndim=self._rank + 2)

    def _pool(self, inputs, size, strides):
        first = self.data_format == "channels_first"
        ksize = (1, 1) + size if first else (1,) + size + (1,)
        steps = (1, 1) + strides if first else (1,) + strides + (1,)
        function = tf.nn.max_pool if self._function == "max" else tf.nn.avg_pool
        return function(inputs, ksize=list(ksize), strides=list(steps), padding=self.padding.upper(), data_format=op_data_format(self.data_format, 4))

    def compute_output_shape(self, input_shape):
        dims = TensorShape(input_shape).as_list()
        start = 2 if self.data_format == "channels_first" else 1
        for i in range(self._rank):
            dims[start + i] = output_length(dims[start + i], self.pool_size[i], self.padding, self.strides[i])
        return TensorShape(dims)


class _Pooling1D(_Pooling):
    _rank = 1

    def call(self, inputs):
        axis = 2 if self.data_format == "channels_last" else 3
        outputs = self._pool(tf.expand_dims(inputs, axis), self.pool_size + (1,), self.strides + (1,))
        return tf.squeeze(outputs, axis)


class _Pooling2D(_Pooling):
    _rank = 2

    def call(self, inputs):
        return self._pool(inputs, self.pool_size, self.strides)


@export("layers.MaxPooling1D")
class MaxPooling1D(_Pooling1D):
    """The largest value of each window of sequences."""

    _function = "max"


@export("layers.AveragePooling1D")
class AveragePooling1D(_Pooling1D):
    """The mean of each window of sequences."""

    _function = "average"


@export("layers.MaxPooling2D")
class MaxPooling2D(_Pooling2D):
    """The largest value of each window of images."""

    _function = "max"


@export("layers.AveragePooling2D")
class AveragePooling2D(_Pooling2D):
    """The mean of each window of images."""

    _function = "average"


@export("layers.max_pooling1d")
def max_pooling1d(inputs, pool_size, strides, padding="valid", data_format="channels_last", name=None):
    """The largest value of each window of sequences."""
    return MaxPooling1D(pool_size, strides, padding, data_format, name).apply(inputs)


@export("layers.average_pooling1d")
def average_pooling1d(inputs, pool_size, strides, padding="valid", data_format="channels_last", name=None):
    """The mean of each window of sequences."""
    return AveragePooling1D(pool_size, strides, padding, data_format, name).apply(inputs)


@export("layers.max_pooling2d")
def max_pooling2d(inputs, pool_size, strides, padding="valid", data_format="channels_last", name=None):
    """The largest value of each window of images."""
    return MaxPooling2D(pool_size, strides, padding, data_format, name).apply(inputs)


@export("layers.average_pooling2d")
def average_pooling2d(inputs, pool_size, strides, padding="valid", data_format="channels_last", name=None):
    """The mean of each window of images."""
    return AveragePooling2D(pool_size, strides, padding, data_format, name).apply(inputs)
