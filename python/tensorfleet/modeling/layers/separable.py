"""`tf.layers`: separable convolutions."""

import tensorfleet as tf
from tensorfleet.framework.export import export
from tensorfleet.modeling.initializers import Zeros
from tensorfleet.modeling.layers.base import InputSpec
from tensorfleet.modeling.layers.convolutional import Conv, op_data_format

_ZEROS = Zeros()


class SeparableConv(Conv):
    """A depthwise convolution, then one that mixes the channels."""

    def __init__(self, rank, filters, kernel_size, depth_multiplier=1, depthwise_initializer=None, pointwise_initializer=None, depthwise_regularizer=None, pointwise_regularizer=None, depthwise_constraint=None, pointwise_constraint=None, **kwargs):
        super().__init__(rank, filters, kernel_size, **kwargs)
        self.depth_multiplier = depth_multiplier
        self.depthwise_initializer, self.pointwise_initializer = depthwise_initializer, pointwise_initializer
        self.depthwise_regularizer, self.pointwise_regularizer = depthwise_regularizer, pointwise_regularizer
        self.depthwise_constraint, self.pointwise_constraint = depthwise_constraint, pointwise_constraint

    def build(self, input_shape):
        channels = self._input_channels(input_shape)
        self.input_spec = InputSpec(ndim=self.rank + 2, axes=self.input_spec.axes)
        self.depthwise_kernel = self.add_weight(
            name="depthwise_kernel",
            shape=self.kernel_size + (channels, self.depth_multiplier),
            initializer=self.depthwise_initializer,
            regularizer=self.depthwise_regularizer,
            constraint=self.depthwise_constraint,
            trainable=True,
            dtype=self.dtype,
        )
        self.pointwise_kernel = self.add_weight(
            name="pointwise_kernel",
            shape=(1,) * self.rank + (self.depth_multiplier * channels, self.filters),
            initializer=self.pointwise_initializer,
            regularizer=self.pointwise_regularizer,
            constraint=self.pointwise_constraint,
            trainable=True,
            dtype=self.dtype,
        )
        self._add_bias()
        self.built = True


@export("layers.SeparableConv1D")
class SeparableConv1D(SeparableConv):
    """A separable convolution of sequences."""

    def __init__(
        self,
        filters,
        kernel_size,
        strides=1,
        padding="valid",
        data_format="channels_last",
        dilation_rate=1,
        depth_multiplier=1,
        activation=None,
        use_bias=True,
        depthwise_initializer=None,
        pointwise_initializer=None,
        bias_initializer=_ZEROS,
        depthwise_regularizer=None,
        pointwise_regularizer=None,
        bias_regularizer=None,
        activity_regularizer=None,
        depthwise_constraint=None,
        pointwise_constraint=None,
        bias_constraint=None,
        trainable=True,
        name=None,
        **kwargs,
    ):
        given = dict(locals())
        for key in ("self", "kwargs", "__class__"):
            given.pop(key, None)
        super().__init__(rank=1, **given, **kwargs)

    def call(self, inputs):
        if self.data_format == "channels_last":
            strides, start = (1,) + self.strides * 2 + (1,), 1
        else:
            strides, start = (1, 1) + self.strides * 2, 2
        inputs = tf.expand_dims(inputs, start)
        depthwise = tf.expand_dims(self.depthwise_kernel, 0)
        pointwise = tf.expand_dims(self.pointwise_kernel, 0)
        outputs = tf.nn.separable_conv2d(
            inputs, depthwise, pointwise, strides=strides, padding=self.padding.upper(), rate=(1,) + self.dilation_rate, data_format=op_data_format(self.data_format, 4)
        )
        if self.use_bias:
            outputs = tf.nn.bias_add(outputs, self.bias, data_format=op_data_format(self.data_format, 4))
        outputs = tf.squeeze(outputs, [start])
        if self.activation is not None:
            return self.activation(outputs)
        return outputs


@export("layers.SeparableConv2D")
class SeparableConv2D(SeparableConv):
    """A separable convolution of images."""

    def __init__(
        self,
        filters,
        kernel_size,
        strides=(1, 1),
        padding="valid",
        data_format="channels_last",
        dilation_rate=(1, 1),
        depth_multiplier=1,
        activation=None,
        use_bias=True,
        depthwise_initializer=None,
        pointwise_initializer=None,
        bias_initializer=_ZEROS,
        depthwise_regularizer=None,
        pointwise_regularizer=None,
        bias_regularizer=None,
        activity_regularizer=None,
        depthwise_constraint=None,
        pointwise_constraint=None,
        bias_constraint=None,
        trainable=True,
        name=None,
        **kwargs,
    ):
        given = dict(locals())
        for key in ("self", "kwargs", "__class__"):
            given.pop(key, None)
        super().__init__(rank=2, **given, **kwargs)

    def call(self, inputs):
        strides = (1,) + self.strides + (1,) if self.data_format == "channels_last" else (1, 1) + self.strides
        outputs = tf.nn.separable_conv2d(
            inputs,
            self.depthwise_kernel,
            self.pointwise_kernel,
            strides=strides,
            padding=self.padding.upper(),
            rate=self.dilation_rate,
            data_format=op_data_format(self.data_format, 4),
        )
        if self.use_bias:
            outputs = tf.nn.bias_add(outputs, self.bias, data_format=op_data_format(self.data_format, 4))
        if self.activation is not None:
            return self.activation(outputs)
        return outputs


@export("layers.separable_conv1d")
def separable_conv1d(
    inputs,
    filters,
    kernel_size,
    strides=1,
    padding="valid",
    data_format="channels_last",
    dilation_rate=1,
    depth_multiplier=1,
    activation=None,
    use_bias=True,
    depthwise_initializer=None,
    pointwise_initializer=None,
    bias_initializer=_ZEROS,
    depthwise_regularizer=None,
    pointwise_regularizer=None,
    bias_regularizer=None,
    activity_regularizer=None,
    depthwise_constraint=None,
    pointwise_constraint=None,
    bias_constraint=None,
    trainable=True,
    name=None,
    reuse=None,
):
    """A separable convolution of sequences."""
    given = dict(locals())
    del given["inputs"], given["reuse"]
    return SeparableConv1D(**given, _reuse=reuse, _scope=name).apply(inputs)


@export("layers.separable_conv2d")
def separable_conv2d(
    inputs,
    filters,
    kernel_size,
    strides=(1, 1),
    padding="valid",
    data_format="channels_last",
    dilation_rate=(1, 1),
    depth_multiplier=1,
    activation=None,
    use_bias=True,
    depthwise_initializer=None,
    pointwise_initializer=None,
    bias_initializer=_ZEROS,
    depthwise_regularizer=None,
    pointwise_regularizer=None,
    bias_regularizer=None,
    activity_regularizer=None,
    depthwise_constraint=None,
    pointwise_constraint=None,
    bias_constraint=None,
    trainable=True,
    name=None,
    reuse=None,
):
    """A separable convolution of images."""
    given = dict(locals())
    del given["inputs"], given["reuse"]
    return SeparableConv2D(**given, _reuse=reuse, _scope=name).apply(inputs)
